//! The programs: transfers in both directions, resumed where a connection ended, over the sockets of
//! `ackclock`.
//!
//! A client names the transfer and how many of its bytes it has; the server answers with its own count. Then
//! both send the rest, and each compares every byte it receives. The client ends its direction when
//! everything is sent; the server does so when it has also seen the client's end. A client that reads the end
//! of the stream therefore knows that nothing is missing.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use ackclock::{Instant, Stack, TcpListener, TcpStream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::plan::TransferPlan;
use super::tasks::{Spawner, Time};
use crate::rng::{Rng, fill_stream};

/// State that the programs and the world share.
pub(super) struct Shared {
    pub(super) time: Time,
    pub(super) spawner: Spawner,
    pub(super) seed: u64,
    pub(super) transfers: RefCell<Vec<Transfer>>,
    /// Attempts that failed, not judged yet.
    pub(super) failures: RefCell<Vec<Failure>>,
    /// Until when the sink reads nothing.
    pub(super) hog_until: Cell<Instant>,
    /// Payload bytes that were compared.
    pub(super) compared: Cell<u64>,
    pub(super) connections: Cell<u64>,
}

/// The data of one client and the server, and their progress.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) path: usize,
    /// Since the run began.
    pub(super) start: Duration,
    /// Bytes to the server, and back.
    pub(super) up: u64,
    pub(super) down: u64,
    pub(super) got_up: u64,
    pub(super) got_down: u64,
    pub(super) attempts: u32,
    pub(super) began: Option<Instant>,
    pub(super) ended: Option<Instant>,
}

/// An attempt that failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// The path of the end that failed; `None` where the server does not know it yet.
    pub(super) path: usize,
    pub(super) at_server: bool,
    pub(super) began: Instant,
    pub(super) at: Instant,
    pub(super) error: io::Error,
}

impl Transfer {
    pub(super) fn new(plan: &TransferPlan) -> Self {
        let TransferPlan { path, start, up, down } = *plan;
        Self { path, start, up, down, got_up: 0, got_down: 0, attempts: 0, began: None, ended: None }
    }
}

impl Shared {
    pub(super) fn is_done(&self) -> bool {
        self.transfers.borrow().iter().all(|transfer| transfer.ended.is_some())
    }

    fn fail(&self, path: usize, at_server: bool, began: Instant, error: io::Error) {
        let at = self.time.now();
        self.failures.borrow_mut().push(Failure { path, at_server, began, at, error });
    }

    /// The size of one read or write.
    fn chunk(&self, stream: u64) -> usize {
        let mut rng = Rng::new(self.seed ^ stream);
        let most = rng.pick(&[100, 1460, 4096, 16_384, 65_536]);
        rng.between(most / 2, most) as usize
    }
}

/// The client's side of transfer `id`, until it is complete.
pub(super) async fn client(shared: Rc<Shared>, stack: Stack, id: usize, server: SocketAddr) {
    let (path, start) = {
        let transfers = shared.transfers.borrow();
        (transfers[id].path, transfers[id].start)
    };
    let waits = (Instant::ZERO + start).saturating_since(shared.time.now());
    shared.time.sleep(waits).await;
    loop {
        let began = shared.time.now();
        {
            let transfer = &mut shared.transfers.borrow_mut()[id];
            transfer.attempts += 1;
            transfer.began.get_or_insert(began);
        }
        match attempt(&shared, &stack, id, server).await {
            Ok(()) => {
                shared.transfers.borrow_mut()[id].ended = Some(shared.time.now());
                return;
            }
            Err(error) => shared.fail(path, false, began, error),
        }
        let attempts = shared.transfers.borrow()[id].attempts.min(5);
        shared.time.sleep(RETRY * attempts).await;
    }
}

async fn attempt(shared: &Shared, stack: &Stack, id: usize, server: SocketAddr) -> io::Result<()> {
    let mut stream = stack.connect(server).await?;
    shared.connections.set(shared.connections.get() + 1);
    let (up, down, got) = {
        let transfer = &shared.transfers.borrow()[id];
        (transfer.up, transfer.down, transfer.got_down)
    };
    let mut header = [0; 16];
    header[..8].copy_from_slice(&(id as u64).to_be_bytes());
    header[8..].copy_from_slice(&got.to_be_bytes());
    stream.write_all(&header).await?;
    let theirs = stream.read_u64().await?;
    assert!(theirs <= up, "the server has {theirs} of {up} bytes");
    let (mut reader, mut writer) = stream.split();
    let progress = |got| shared.progress(id, |transfer| &mut transfer.got_down, got);
    let sending = async {
        send(shared, &mut writer, id as u64 * 2, theirs..up).await?;
        writer.shutdown().await
    };
    tokio::try_join!(sending, receive(shared, &mut reader, id as u64 * 2 + 1, got..down, progress))?;
    Ok(())
}

/// Serves transfers on `listener`.
pub(super) async fn serve(shared: Rc<Shared>, listener: TcpListener, path_of: fn(SocketAddr) -> usize) {
    while let Ok((stream, peer)) = listener.accept().await {
        let served = Rc::clone(&shared);
        shared.spawner.spawn(0, async move {
            let began = served.time.now();
            if let Err(error) = answer(&served, stream).await {
                served.fail(path_of(peer), true, began, error);
            }
        });
    }
}

async fn answer(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
    let mut header = [0; 16];
    stream.read_exact(&mut header).await?;
    let number = |at: usize| u64::from_be_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let (id, offset) = (number(0) as usize, number(8));
    let (up, down, got) = {
        let transfers = shared.transfers.borrow();
        let transfer =
            transfers.get(id).unwrap_or_else(|| panic!("the header names transfer {id}: {header:?}"));
        (transfer.up, transfer.down, transfer.got_up)
    };
    assert!(offset <= down, "the client has {offset} of {down} bytes");
    stream.write_all(&got.to_be_bytes()).await?;
    let (mut reader, mut writer) = stream.split();
    let progress = |got| shared.progress(id, |transfer| &mut transfer.got_up, got);
    let sending = send(shared, &mut writer, id as u64 * 2 + 1, offset..down);
    tokio::try_join!(sending, receive(shared, &mut reader, id as u64 * 2, got..up, progress))?;
    writer.shutdown().await
}

impl Shared {
    /// `got` bytes of a direction of a transfer have been compared.
    fn progress(&self, id: usize, of: fn(&mut Transfer) -> &mut u64, got: u64) {
        let mut transfers = self.transfers.borrow_mut();
        let had = of(&mut transfers[id]);
        // An older connection of the same transfer may still deliver data.
        *had = got.max(*had);
    }
}

async fn send(
    shared: &Shared,
    writer: &mut (impl AsyncWrite + Unpin),
    stream: u64,
    range: Range<u64>,
) -> io::Result<()> {
    let mut bytes = vec![0; shared.chunk(stream)];
    let mut at = range.start;
    while at < range.end {
        let len = (range.end - at).min(bytes.len() as u64) as usize;
        fill_stream(shared.seed ^ stream, at, &mut bytes[..len]);
        writer.write_all(&bytes[..len]).await?;
        at += len as u64;
    }
    Ok(())
}

/// Reads to the end of the stream, and compares.
///
/// # Panics
/// If a byte is not what was sent.
async fn receive(
    shared: &Shared,
    reader: &mut (impl AsyncRead + Unpin),
    stream: u64,
    range: Range<u64>,
    progress: impl Fn(u64),
) -> io::Result<()> {
    let mut bytes = vec![0; shared.chunk(stream + 1)];
    let mut expected = vec![0; bytes.len()];
    let mut at = range.start;
    loop {
        let len = reader.read(&mut bytes).await?;
        if len == 0 && at < range.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if len == 0 {
            return Ok(());
        }
        fill_stream(shared.seed ^ stream, at, &mut expected[..len]);
        assert!(
            bytes[..len] == expected[..len],
            "bytes {at} to {} of stream {stream} are not those that were sent",
            at + len as u64
        );
        at += len as u64;
        assert!(at <= range.end, "stream {stream} has {at} bytes, {} were sent", range.end);
        shared.compared.set(shared.compared.get() + len as u64);
        progress(at);
    }
}

/// Sends data that no program reads, until the time is over.
pub(super) async fn hog(shared: Rc<Shared>, stack: Stack, sink: SocketAddr) {
    let rest = shared.hog_until.get().saturating_since(shared.time.now());
    tokio::select! {
        biased;
        () = shared.time.sleep(rest) => {}
        // It may be reset as the connection that fills the memory.
        _ = fill(stack, sink) => {}
    }
}

async fn fill(stack: Stack, sink: SocketAddr) -> io::Result<Infallible> {
    let mut stream = stack.connect(sink).await?;
    loop {
        stream.write_all(&[0; 16_384]).await?;
    }
}

/// Accepts connections, and reads nothing until the time is over.
pub(super) async fn sink(shared: Rc<Shared>, listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let held = Rc::clone(&shared);
        shared.spawner.spawn(0, async move {
            held.time.sleep(held.hog_until.get().saturating_since(held.time.now())).await;
            drop(stream);
        });
    }
}

const RETRY: Duration = Duration::from_millis(200);
