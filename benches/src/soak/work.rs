//! The work of a soak: each worker repeats one thing until the soak is over.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ackclock::Stack;
use ackclock_tests::netns::Namespace;
use ackclock_tests::rng::Rng;
use ackclock_tests::script::pattern;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Tally;
use super::host::{CLOSED, ECHO, Host, KERNEL, SINK, SOURCE, STACK};

/// The workers.
pub(super) struct Working(Vec<JoinHandle<()>>, Handle);

impl Working {
    /// Waits until all have ended; each finishes its current step.
    pub(super) fn join(self, tally: &Tally) {
        let Self(workers, handle) = self;
        for worker in workers {
            match handle.block_on(async { timeout(2 * STEP_MAX, worker).await }) {
                Ok(Ok(())) => {}
                Ok(Err(panic)) => tally.fail(format!("a worker: {panic}")),
                Err(_) => tally.fail("a worker hangs".to_owned()),
            }
        }
    }
}

/// Starts the workers at both ends.
pub(super) fn start(outside: &Namespace, host: &Host, tally: &Arc<Tally>, seed: u64) -> Working {
    let (kernel, inside) = (outside.handle(), &host.runtime);
    let stack = || host.stack.clone();
    let mut workers = Vec::new();
    for n in 0..WORKERS {
        let rng = |kind: u64| Rng::new(seed ^ kind << 32 ^ n);
        let tally = || Arc::clone(tally);
        workers.push(kernel.spawn(repeat(tally(), rng(1), to_stack)));
        workers.push(kernel.spawn(repeat(tally(), rng(2), rude_to_stack)));
        workers.push(kernel.spawn(repeat(tally(), rng(3), datagrams_to_stack)));
        let ours = stack();
        workers.push(inside.spawn(repeat(tally(), rng(4), move |t, r| from_stack(ours.clone(), t, r))));
        let ours = stack();
        workers.push(inside.spawn(repeat(tally(), rng(5), move |t, r| drop_calls(ours.clone(), t, r))));
        let ours = stack();
        workers.push(
            inside.spawn(repeat(tally(), rng(6), move |t, r| datagrams_from_stack(ours.clone(), t, r))),
        );
    }
    Working(workers, kernel.clone())
}

/// Repeats it until the soak is over. Failures that the link or the other end causes for a moment are counted
/// as such.
async fn repeat<F>(tally: Arc<Tally>, mut rng: Rng, act: impl Fn(Arc<Tally>, Rng) -> F)
where
    F: Future<Output = io::Result<&'static str>>,
{
    while !tally.is_over() {
        let turn = Rng::new(rng.below(u64::MAX));
        match timeout(STEP_MAX, act(Arc::clone(&tally), turn)).await {
            Ok(Ok(done)) => tally.count(done),
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => tally.fail(error.to_string()),
            Ok(Err(_)) => tally.count("broken off"),
            Err(_) => tally.fail(format!("a call hangs for {STEP_MAX:?}")),
        }
        sleep(Duration::from_millis(rng.below(20))).await;
    }
}

async fn to_stack(_tally: Arc<Tally>, mut rng: Rng) -> io::Result<&'static str> {
    let stream = TcpStream::connect((STACK, ECHO)).await?;
    if rng.below(4) == 0 {
        there_and_back(stream, rng.below(2_000_000) as usize).await.map(|()| "transfer to the stack")
    } else {
        there_and_back(stream, 64).await.map(|()| "short connection to the stack")
    }
}

async fn from_stack(stack: Stack, _tally: Arc<Tally>, mut rng: Rng) -> io::Result<&'static str> {
    let stream = stack.connect(SocketAddr::from((KERNEL, ECHO))).await?;
    if rng.below(4) == 0 {
        there_and_back(stream, rng.below(2_000_000) as usize).await.map(|()| "transfer from the stack")
    } else {
        there_and_back(stream, 64).await.map(|()| "short connection from the stack")
    }
}

async fn rude_to_stack(_tally: Arc<Tally>, mut rng: Rng) -> io::Result<&'static str> {
    match rng.below(3) {
        0 => {
            let mut stream = TcpStream::connect((STACK, SINK)).await?;
            stream.write_all(&[7; 100_000]).await?;
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
            Ok("reset")
        }
        1 => {
            let mut stream = TcpStream::connect((STACK, SOURCE)).await?;
            stream.read_exact(&mut vec![0; 100_000]).await?;
            sleep(Duration::from_millis(rng.below(200))).await;
            Ok("reader that stops")
        }
        _ => is_refused(TcpStream::connect((STACK, CLOSED)).await).map(|()| "refused by the stack"),
    }
}

/// Drops futures after some microseconds, wherever they are.
async fn drop_calls(stack: Stack, tally: Arc<Tally>, mut rng: Rng) -> io::Result<&'static str> {
    if rng.below(8) == 0 {
        let refused = stack.connect(SocketAddr::from((KERNEL, CLOSED))).await;
        return is_refused(refused).map(|()| "refused by the kernel");
    }
    let mut patience = |most: u64| Duration::from_micros(rng.below(most));
    let port = if tally.is_over() { ECHO } else { SOURCE };
    let connect = stack.connect(SocketAddr::from((KERNEL, port)));
    if let Ok(connected) = timeout(patience(2_000), connect).await {
        let mut stream = connected?;
        let mut buffer = vec![0; 100_000];
        drop(timeout(patience(500), stream.read_exact(&mut buffer)).await);
        drop(timeout(patience(500), stream.write_all(&buffer)).await);
    }
    Ok("dropped future")
}

async fn datagrams_to_stack(_tally: Arc<Tally>, mut rng: Rng) -> io::Result<&'static str> {
    let socket = UdpSocket::bind((KERNEL, 0)).await?;
    let (port, data) = question(&mut rng);
    socket.connect((STACK, port)).await?;
    socket.send(&data).await?;
    answered(&data, async |answer| socket.recv(answer).await).await
}

async fn datagrams_from_stack(stack: Stack, _tally: Arc<Tally>, mut rng: Rng) -> io::Result<&'static str> {
    let socket = stack.udp(SocketAddr::from((STACK, 0)))?;
    let (port, data) = question(&mut rng);
    socket.connect(SocketAddr::from((KERNEL, port))).await?;
    socket.send(&data).await?;
    answered(&data, async |answer| socket.recv(answer).await).await
}

/// A datagram and the port that it goes to: sometimes one without a listener.
fn question(rng: &mut Rng) -> (u16, Vec<u8>) {
    let port = if rng.below(8) == 0 { CLOSED } else { ECHO };
    (port, pattern(rng.below(1_000) as u32, rng.below(1_400) as usize))
}

/// The outcome of a datagram, whose answer `receive` waits for.
async fn answered(
    data: &[u8],
    receive: impl AsyncFnOnce(&mut [u8]) -> io::Result<usize>,
) -> io::Result<&'static str> {
    let mut answer = vec![0; 2048];
    match timeout(Duration::from_secs(1), receive(&mut answer)).await {
        Ok(Ok(len)) => same(&answer[..len], data).map(|()| "datagram answered"),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Ok("datagram refused"),
        Ok(Err(error)) => Err(error),
        Err(_) => Ok("datagram lost"),
    }
}

/// Sends `len` bytes, reads them back at the same time, and compares them.
async fn there_and_back(stream: impl AsyncRead + AsyncWrite + Unpin, len: usize) -> io::Result<()> {
    let data = pattern(7, len);
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut back = Vec::with_capacity(len);
    let write = async {
        writer.write_all(&data).await?;
        writer.shutdown().await
    };
    let read = reader.read_to_end(&mut back);
    tokio::try_join!(write, read)?;
    same(&back, &data)
}

fn same(got: &[u8], wanted: &[u8]) -> io::Result<()> {
    if got == wanted {
        return Ok(());
    }
    let at = got.iter().zip(wanted).take_while(|(got, wanted)| got == wanted).count();
    let words = format!("{} bytes instead of {}, wrong from {at} on", got.len(), wanted.len());
    Err(io::Error::new(io::ErrorKind::InvalidData, words))
}

fn is_refused<T>(connected: io::Result<T>) -> io::Result<()> {
    match connected {
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "connected to a closed port")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(error),
    }
}

/// Of each kind, at each end.
const WORKERS: u64 = 8;
/// No call takes longer, whatever the link does.
const STEP_MAX: Duration = Duration::from_secs(60);
