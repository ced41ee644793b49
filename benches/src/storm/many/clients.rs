//! A process of clients: its share of the connections, opened and used step by step as another process asks.

use std::io::{self, BufRead as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::over_tun::{OWN, Service};

/// The share of one process.
#[derive(Args, Clone, Copy, Debug)]
pub struct Clients {
    /// Connections at once.
    #[arg(long)]
    pub(super) connections: usize,
    /// Of these, those with traffic.
    #[arg(long)]
    pub(super) busy: usize,
    /// Requests a second, of all of these together.
    #[arg(long)]
    pub(super) rate: f64,
    /// Length of the traffic in seconds.
    #[arg(long)]
    pub(super) secs: f64,
    /// Connections that are being opened at one time.
    #[arg(long)]
    pub(super) at_once: usize,
    /// The number of its first address.
    #[arg(long)]
    pub(super) first_source: usize,
}

/// A request to a process of clients, one line each. Each answer is a line, too.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) enum Step {
    /// Wait until the server accepts. The answer is null.
    Await,
    /// Open all connections. The answer is the number of attempts that failed; each was repeated.
    Open,
    /// Make the requests. The answer is how long each took; null: it had no answer.
    Request,
    /// Count the open connections.
    Count,
}

impl Clients {
    /// Answers the steps on the standard input until it ends.
    ///
    /// # Errors
    /// The server does not accept, connections cannot be opened, or the other process is gone.
    pub fn serve(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut busy, mut idle) = (Vec::new(), Vec::new());
        for line in io::stdin().lock().lines() {
            let answer = match serde_json::from_str(&line?)? {
                Step::Await => serde_json::to_string(&runtime.block_on(self.await_server())?)?,
                Step::Open => {
                    let (streams, failed) = runtime.block_on(self.open_all())?;
                    (busy, idle) = self.share_out(streams);
                    serde_json::to_string(&failed)?
                }
                Step::Request => serde_json::to_string(&runtime.block_on(self.requests(&mut busy)))?,
                Step::Count => {
                    let open = busy.iter().flatten().chain(&idle).filter(|stream| is_open(stream)).count();
                    serde_json::to_string(&open)?
                }
            };
            writeln!(io::stdout(), "{answer}")?;
        }
        Ok(())
    }

    /// The addresses of this share.
    pub(super) fn sources(&self) -> impl Iterator<Item = Ipv4Addr> {
        let number = self.connections.div_ceil(PER_SOURCE);
        (self.first_source..self.first_source + number).map(source)
    }

    async fn await_server(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.open(0).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(error).context("the program does not listen");
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Opens all, a few at a time. Returns how many attempts failed.
    async fn open_all(self) -> anyhow::Result<(Vec<TcpStream>, usize)> {
        let mut streams = Vec::with_capacity(self.connections);
        let (mut opening, mut begun, mut failed) = (JoinSet::new(), 0, 0);
        while streams.len() < self.connections {
            while opening.len() < self.at_once && begun < self.connections {
                opening.spawn(async move { self.open(begun).await });
                begun += 1;
            }
            match opening.join_next().await.context("all are opening or open")?? {
                Ok(stream) => streams.push(stream),
                Err(error) => {
                    failed += 1;
                    ensure!(
                        failed <= self.connections / 10 + 100,
                        "{} are open, and then: {error}",
                        streams.len()
                    );
                    opening.spawn(async move { self.open(failed).await });
                }
            }
        }
        Ok((streams, failed))
    }

    /// Opens a connection and makes a request.
    async fn open(&self, number: usize) -> io::Result<TcpStream> {
        let sources = self.connections.div_ceil(PER_SOURCE);
        let own = source(self.first_source + number % sources);
        let opened = async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(IpAddr::V4(own), 0))?;
            let mut stream = socket.connect(SocketAddr::new(OWN, Service::Echo.port())).await?;
            stream.set_nodelay(true)?;
            ask(&mut stream).await?;
            Ok(stream)
        };
        timeout(STEP_MAX, opened).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Picks those with traffic, evenly among the others.
    fn share_out(&self, streams: Vec<TcpStream>) -> (Vec<Option<TcpStream>>, Vec<TcpStream>) {
        let step = self.connections / self.busy;
        let (mut busy, mut idle) = (Vec::with_capacity(self.busy), Vec::with_capacity(self.connections));
        for (number, stream) in streams.into_iter().enumerate() {
            if number % step == 0 && busy.len() < self.busy {
                busy.push(Some(stream));
            } else {
                idle.push(stream);
            }
        }
        (busy, idle)
    }

    /// Has the busy connections make requests in turn, at an even pace. Returns how long each took.
    async fn requests(&self, busy: &mut [Option<TcpStream>]) -> Vec<Option<Duration>> {
        let interval = Duration::from_secs_f64(self.busy as f64 / self.rate);
        let count = (self.secs / interval.as_secs_f64()).ceil() as u32;
        let began = Instant::now() + Duration::from_millis(10);
        let mut asking = JoinSet::new();
        for (number, stream) in busy.iter_mut().enumerate() {
            let Some(stream) = stream.take() else { continue };
            let first = began + interval.mul_f64(number as f64 / self.busy as f64);
            asking.spawn(async move { (number, ask_often(stream, first, interval, count).await) });
        }
        let mut all = Vec::new();
        while let Some(asked) = asking.join_next().await {
            let (number, (stream, took)) = asked.expect("no panic");
            all.extend(took);
            if let Some(place) = busy.get_mut(number) {
                *place = stream;
            }
        }
        all
    }
}

/// Makes `count` requests; gives the stream back while it works.
async fn ask_often(
    mut stream: TcpStream,
    first: Instant,
    interval: Duration,
    count: u32,
) -> (Option<TcpStream>, Vec<Option<Duration>>) {
    let mut all = Vec::with_capacity(count as usize);
    for number in 0..count {
        let due = first + interval * number;
        // A request that waits for the one before it counts as due all that time; a late timer of the client
        // does not count.
        let since = if Instant::now() < due {
            sleep_until(due).await;
            Instant::now()
        } else {
            due
        };
        let answered = timeout(STEP_MAX, ask(&mut stream)).await;
        if !matches!(answered, Ok(Ok(()))) {
            all.resize(count as usize, None);
            return (None, all);
        }
        all.push(Some(since.elapsed()));
    }
    (Some(stream), all)
}

/// Sends a request and awaits its answer.
async fn ask(stream: &mut TcpStream) -> io::Result<()> {
    let mut answer = [0; REQUEST];
    stream.write_all(&[0x5a; REQUEST]).await?;
    stream.read_exact(&mut answer).await.map(drop)
}

fn is_open(stream: &TcpStream) -> bool {
    stream.try_read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// An address of clients: the kernel has some 60,000 ports for each.
fn source(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 1, (number % 250) as u8 + 1)
}

/// Connections from one address.
const PER_SOURCE: usize = 25_000;
/// Bytes of a request, and of its answer.
const REQUEST: usize = 64;
/// No step of a client takes longer.
const STEP_MAX: Duration = Duration::from_secs(20);
/// The program begins in less.
const PATIENCE: Duration = Duration::from_secs(10);
