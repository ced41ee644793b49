//! A hundred thousand connections over TUN, one of a hundred with traffic: their cost, and how long a request
//! takes.
//!
//! The clients are the kernel's sockets, from several addresses, in a private network of this process. The
//! stack is a separate program (`tun-peer`), so that its memory and its processor time can be read. A
//! connection counts as open once it has carried a request and its answer: both ends know of it then.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ackclock_tests::netns::{ip, raise_descriptor_limit};
use anyhow::{Context as _, ensure};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::over_tun::{CpuTime, DEVICE, Ground, OWN, Program, Running, Service, Settings};

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Many {
    /// Connections at once.
    pub connections: usize,
    /// Of these, those with traffic.
    pub busy: usize,
    /// Requests a second, of all of these together.
    pub rate: f64,
    /// The length of the traffic.
    pub length: Duration,
    /// Connections that are being opened at one time.
    pub at_once: usize,
}

/// The result of a run. Processor time is in fractions of one processor unless stated otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Connections asked for, and open at the end.
    connections: usize,
    open: usize,
    /// Failed attempts to open one; each was repeated.
    failed: usize,
    /// Seconds until all were open.
    open_seconds: f64,
    /// Microseconds of processor time per connection opened: the stack's, and the clients' with the kernel's
    /// TCP.
    open_cpu: f64,
    open_cpu_client: f64,
    /// Resident bytes of the stack's process per connection, after all have rested.
    resident: f64,
    /// The stack's while all are idle.
    idle_cpu: f64,
    /// Connections with traffic, and their requests a second.
    busy: usize,
    rate: f64,
    /// The stack's and the clients' during traffic.
    busy_cpu: f64,
    busy_cpu_client: f64,
    /// Milliseconds from the time when a request is due to the last byte of its answer.
    p50: f64,
    p99: f64,
    p999: f64,
    worst: f64,
    /// Requests without an answer.
    unanswered: usize,
}

impl Many {
    /// Runs it. The programs are in the folder `programs`; this process must have one thread.
    ///
    /// # Errors
    /// The right to make a network or to open that many descriptors is missing, or connections cannot be
    /// opened.
    pub fn run(&self, programs: impl Into<PathBuf>) -> anyhow::Result<Outcome> {
        ensure!(
            self.connections > 0 && self.busy > 0 && self.busy <= self.connections,
            "no connection has traffic"
        );
        let descriptors = raise_descriptor_limit()?;
        let needed = self.connections as u64 + 100;
        ensure!(
            descriptors >= needed,
            "{descriptors} descriptors, and {needed} are needed: ulimit -Hn {needed}"
        );
        let ground = Ground::prepare(programs)?;
        // The buffer of each connection's task is the program's own, not the stack's.
        let running = ground.start_with(Program::Ackclock(Settings::default()), true, &["--chunk", "256"])?;
        for number in 0..self.sources() {
            ip(&format!("addr add {}/32 dev {DEVICE}", source(number)));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.measure(&running))
    }

    async fn measure(&self, running: &Running) -> anyhow::Result<Outcome> {
        self.await_program().await?;
        let before = running.resident()?;
        let opening = Usage::begin(running)?;
        let (streams, failed) = self.open_all().await?;
        let opened = opening.end(running)?;
        sleep(REST).await;
        let resident = running.resident()?.saturating_sub(before) as f64 / self.connections as f64;
        let resting = Usage::begin(running)?;
        sleep(REST).await;
        let rested = resting.end(running)?;

        let (mut busy, idle) = self.share_out(streams);
        let working = Usage::begin(running)?;
        let mut took = self.requests(&mut busy).await;
        let worked = working.end(running)?;
        let unanswered = took.iter().filter(|took| took.is_none()).count();
        let requests = took.len();
        took.sort_unstable_by_key(|took| took.unwrap_or(Duration::MAX));
        let at = |share: f64| {
            let took = took.get(((requests - 1) as f64 * share) as usize).copied().flatten();
            took.map_or(f64::INFINITY, |took| took.as_secs_f64() * 1e3)
        };
        let open = busy.iter().flatten().chain(&idle).filter(|stream| is_open(stream)).count();
        let each = 1e6 / self.connections as f64;
        Ok(Outcome {
            connections: self.connections,
            open,
            failed,
            open_seconds: opened.seconds,
            open_cpu: opened.program * each,
            open_cpu_client: opened.client * each,
            resident,
            idle_cpu: rested.program / rested.seconds,
            busy: self.busy,
            rate: requests as f64 / worked.seconds,
            busy_cpu: worked.program / worked.seconds,
            busy_cpu_client: worked.client / worked.seconds,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            worst: at(1.0),
            unanswered,
        })
    }

    fn sources(&self) -> usize {
        self.connections.div_ceil(PER_SOURCE)
    }

    /// Waits until the program listens.
    async fn await_program(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match open(0).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(error).context("the program does not listen");
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Opens all, a few at a time. Returns how many attempts failed.
    async fn open_all(&self) -> anyhow::Result<(Vec<TcpStream>, usize)> {
        let mut streams = Vec::with_capacity(self.connections);
        let (mut opening, mut begun, mut failed) = (JoinSet::new(), 0, 0);
        while streams.len() < self.connections {
            while opening.len() < self.at_once && begun < self.connections {
                opening.spawn(open(begun % self.sources()));
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
                    opening.spawn(open(failed % self.sources()));
                }
            }
        }
        Ok((streams, failed))
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
        let count = (self.length.as_secs_f64() / interval.as_secs_f64()).ceil() as u32;
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

/// Opens a connection and makes a request.
async fn open(number: usize) -> io::Result<TcpStream> {
    let opened = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(IpAddr::V4(source(number)), 0))?;
        let mut stream = socket.connect(SocketAddr::new(OWN, Service::Echo.port())).await?;
        stream.set_nodelay(true)?;
        ask(&mut stream).await?;
        Ok(stream)
    };
    timeout(STEP_MAX, opened).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
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

/// The client's addresses: the kernel has some 60,000 ports for each.
fn source(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 1, (number % 250) as u8 + 1)
}

/// Processor time and the clock.
struct Usage {
    began: Instant,
    program: CpuTime,
    client: CpuTime,
}

/// The difference of two readings, with its length in seconds.
struct Used {
    seconds: f64,
    program: f64,
    client: f64,
}

impl Usage {
    fn begin(running: &Running) -> io::Result<Self> {
        let client = CpuTime::of(std::process::id())?;
        Ok(Self { began: Instant::now(), program: running.cpu_time()?, client })
    }

    fn end(self, running: &Running) -> io::Result<Used> {
        let now = Self::begin(running)?;
        Ok(Used {
            seconds: (now.began - self.began).as_secs_f64(),
            program: now.program.since(self.program).total(),
            client: now.client.since(self.client).total(),
        })
    }
}

/// Connections from one address.
const PER_SOURCE: usize = 25_000;
/// Bytes of a request, and of its answer.
const REQUEST: usize = 64;
/// After this, unused buffers have been given back, and the load of a program at rest shows.
const REST: Duration = Duration::from_secs(4);
/// No step of a client takes longer.
const STEP_MAX: Duration = Duration::from_secs(20);
/// The program begins in less.
const PATIENCE: Duration = Duration::from_secs(10);
