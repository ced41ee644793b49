//! The service of a host's honest users while a flood of spoofed packets reaches it: this stack or the
//! kernel's TCP, under the same flood, over the same routes of the kernel.
//!
//! Everyone else is in a namespace `outside`: the flood, a bulk sender, and clients that connect and close.
//! The victim is at 10.77.0.2: the stack on a TUN device of `outside`, or the kernel of a second namespace at
//! the end of a veth pair.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ackclock::{Counters, Stack};
use ackclock_device::{OffloadMode, configure, open};
use ackclock_tests::netns::{Namespace, ip};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep_until, timeout};

use super::flood::{Flood, Target};
use crate::sys;

/// Who is flooded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Victim {
    /// This stack, on a TUN device with offload.
    Ackclock,
    /// The kernel's TCP.
    Linux,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Who is flooded.
    pub victim: Victim,
    /// With what.
    pub flood: Flood,
    /// Packets a second; 0 for none.
    pub rate: u32,
    /// How long.
    pub length: Duration,
    /// Honest connections in that time.
    pub connects: u32,
    /// Sends the flood to a device without a reader: what the sender alone takes from the processors.
    pub aside: bool,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct LoadResult {
    victim: Victim,
    flood: Flood,
    /// Packets a second, as asked for.
    rate: u32,
    /// Whether the flood went to a device without a reader.
    aside: bool,
    /// Packets of the flood a second that reached the victim's device, at least: what was sent, less
    /// everything dropped in front of it, packets of the bulk transfer included.
    reached: f64,
    /// Packets that the queue in front of the victim's device had no room for.
    queue_dropped: u64,
    /// Of the bulk transfer, Gbit/s.
    goodput: f64,
    /// Connections that opened and closed, and those that were tried.
    connected: u32,
    connects: u32,
    /// Of those that connected, how many waited for a SYN to be repeated.
    slow: u32,
    /// The median and the 99th percentile of the time to connect, in milliseconds.
    connect_p50: f64,
    connect_p99: f64,
    /// This stack's counts of handshakes.
    stack: Option<Handshakes>,
}

/// Where a handshake may be lost in the stack.
#[derive(Clone, Copy, Debug, Serialize)]
struct Handshakes {
    syns: u64,
    cookies_sent: u64,
    cookies_accepted: u64,
    cookies_refused: u64,
    established: u64,
    dropped_replies: u64,
    dropped_accept_queue: u64,
}

const VICTIM: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const DEVICE: &str = "storm0";
/// Packets that may wait in front of the victim's device.
const QUEUE: u32 = 10_000;
const SINK: u16 = 5001;
const SOURCE: u16 = 5002;
const CLOSER: u16 = 5004;
/// The longest that a user waits for a connection: three SYNs of the kernel's.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Longer than any handshake of which no packet was lost: the kernel repeats a SYN after a second.
const SLOW: Duration = Duration::from_millis(900);
/// The client's port of the bulk transfer.
const BULK: u16 = 4001;
/// Packets of a flood that are made before it begins; a longer one repeats them.
const PACKETS_MAX: usize = 2_000_000;
const TARGET: Target = Target {
    addr: VICTIM,
    closer: CLOSER,
    sink: SINK,
    source: SOURCE,
    bulk: SocketAddrV4::new(OUTSIDE, BULK),
    device: DEVICE,
    hardware: HARDWARE,
};
/// Of the kernel that is flooded; a TUN device has none.
const HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 2];
const ASIDE: &str = "aside0";

impl Load {
    /// Runs it. Needs the right to make network namespaces.
    ///
    /// # Errors
    /// The kernel refuses a namespace, a device or a raw socket.
    pub fn run(&self) -> io::Result<LoadResult> {
        let outside = Namespace::new()?;
        outside.sysctl("net/ipv4/conf/all/rp_filter", "0");
        let victim = match self.victim {
            Victim::Ackclock => Host::stack(&outside)?,
            Victim::Linux => Host::kernel(&outside)?,
        };
        outside.ip(&format!("route change 10.77.0.0/24 dev {DEVICE} src {OUTSIDE} congctl cubic"));
        let _aside = self.aside.then(|| open_aside(&outside)).transpose()?;
        let over = Arc::new(AtomicBool::new(false));
        let flood = self.start_flood(&outside, &over)?;
        let (length, connects) = (self.length, self.connects);
        let dropped_before = dropped(&outside);
        let began = Instant::now();
        let (bytes, mut took) = outside.run(async move {
            let bulk = tokio::spawn(bulk(length));
            let took = connect_often(length, connects).await;
            (bulk.await.expect("no panic"), took)
        });
        let secs = began.elapsed().as_secs_f64();
        over.store(true, Relaxed);
        let sent = flood.join().expect("no panic")?;
        let queue_dropped = dropped(&outside) - dropped_before;
        let at_victim = if self.aside { 0 } else { sent.saturating_sub(queue_dropped) };
        took.sort_unstable();
        let at = |share: f64| {
            let longest = took.len().checked_sub(1)?;
            took.get((longest as f64 * share) as usize).map(|took| took.as_secs_f64() * 1e3)
        };
        Ok(LoadResult {
            victim: self.victim,
            flood: self.flood,
            rate: self.rate,
            aside: self.aside,
            reached: at_victim as f64 / secs,
            queue_dropped,
            goodput: bytes? as f64 * 8e-9 / length.as_secs_f64(),
            connected: took.len() as u32,
            connects,
            slow: took.iter().filter(|took| **took >= SLOW).count() as u32,
            stack: victim.stack.as_ref().map(|stack| Handshakes::of(&stack.counters())),
            connect_p50: at(0.5).unwrap_or(f64::NAN),
            connect_p99: at(0.99).unwrap_or(f64::NAN),
        })
    }

    /// A thread of `outside` that sends the flood at an even rate until `over`, and returns how many packets
    /// it sent. The connections that the flood needs are open when this returns.
    fn start_flood(
        &self,
        outside: &Namespace,
        over: &Arc<AtomicBool>,
    ) -> io::Result<JoinHandle<io::Result<u64>>> {
        let (load, over) = (*self, Arc::clone(over));
        let count = f64::from(self.rate) * (self.length.as_secs_f64() + 1.0);
        outside.run(async move {
            let target = if load.aside { Target { device: ASIDE, ..TARGET } } else { TARGET };
            let volley = load.flood.prepare(&target, (count as usize).min(PACKETS_MAX))?;
            // A thread is born in the namespace of the one that makes it.
            Ok(thread::spawn(move || volley.send(load.rate, &over)))
        })
    }
}

impl Handshakes {
    fn of(counters: &Counters) -> Self {
        Self {
            syns: counters.syns_received,
            cookies_sent: counters.cookies_sent,
            cookies_accepted: counters.cookies_accepted,
            cookies_refused: counters.cookies_refused,
            established: counters.opened_passively,
            dropped_replies: counters.dropped_replies,
            dropped_accept_queue: counters.dropped_accept_queue,
        }
    }
}

/// The victim; it ends with this value.
struct Host {
    stack: Option<Stack>,
    _namespace: Option<Namespace>,
    thread: Option<(tokio::sync::oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Host {
    /// The stack, on its own thread.
    fn stack(outside: &Namespace) -> io::Result<Self> {
        let device = outside.run(async {
            let (device, _) = open(DEVICE, OffloadMode::On).map_err(io::Error::other)?;
            let own = format!("{OUTSIDE}/24").parse().map_err(io::Error::other)?;
            configure::configure(DEVICE).address(own).mtu(1500).apply().map_err(io::Error::other)?;
            ip(&format!("link set {DEVICE} txqueuelen {QUEUE}"));
            Ok::<_, io::Error>(device)
        })?;
        let (over, until) = tokio::sync::oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let serving = async move {
            let address = format!("{VICTIM}/24").parse().expect("an address");
            let stack = Stack::builder().device(device).address(address).spawn().expect("the stack starts");
            for port in [SINK, SOURCE, CLOSER] {
                let listener = stack.listen(SocketAddr::from((VICTIM, port))).expect("the port is free");
                tokio::spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        tokio::spawn(serve(port, stream));
                    }
                });
            }
            ready.send(stack.clone()).ok();
            until.await.ok();
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::spawn(move || runtime.block_on(serving));
        let stack = is_ready.recv().map_err(io::Error::other)?;
        Ok(Self { stack: Some(stack), _namespace: None, thread: Some((over, thread)) })
    }

    /// The kernel of a separate namespace.
    fn kernel(outside: &Namespace) -> io::Result<Self> {
        let inside = Namespace::new()?;
        outside.cable(DEVICE, &inside, DEVICE);
        let hardware = HARDWARE.map(|byte| format!("{byte:02x}")).join(":");
        inside.ip(&format!("link set {DEVICE} address {hardware}"));
        outside.ip(&format!("addr add {OUTSIDE}/24 dev {DEVICE}"));
        inside.ip(&format!("addr add {VICTIM}/24 dev {DEVICE}"));
        inside.ip(&format!("route add default via {OUTSIDE}"));
        inside.sysctl("net/ipv4/conf/all/rp_filter", "0");
        inside.run(async {
            for port in [SINK, SOURCE, CLOSER] {
                let listener = TcpListener::bind((VICTIM, port)).await?;
                tokio::spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        tokio::spawn(serve(port, stream));
                    }
                });
            }
            Ok::<_, io::Error>(())
        })?;
        Ok(Self { stack: None, _namespace: Some(inside), thread: None })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some((over, thread)) = self.thread.take() {
            over.send(()).ok();
            thread.join().ok();
        }
    }
}

/// A TUN device without a reader: its kernel drops what no longer fits the queue.
fn open_aside(outside: &Namespace) -> io::Result<File> {
    outside.run(async {
        let device = sys::open_tun(ASIDE, false)?;
        ip(&format!("link set {ASIDE} up"));
        Ok(device)
    })
}

/// Reads to the end, and closes; on one port it sends for as long as the peer takes it.
async fn serve(port: u16, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    if port == SOURCE {
        loop {
            stream.write_all(&buffer).await?;
        }
    }
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

/// Sends for this long, and returns how many bytes the victim has acknowledged. The error is what the
/// socket's buffer holds, about a thousandth.
async fn bulk(length: Duration) -> io::Result<u64> {
    let until = tokio::time::Instant::now() + length;
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((OUTSIDE, BULK)))?;
    let mut stream = socket.connect(SocketAddr::from((VICTIM, SINK))).await?;
    let sent = AtomicU64::new(0);
    let chunk = vec![0x5a; 256 << 10];
    let write = async {
        loop {
            sent.fetch_add(stream.write(&chunk).await? as u64, Relaxed);
        }
    };
    tokio::select! {
        ended = write => ended,
        () = sleep_until(until) => Ok(sent.load(Relaxed)),
    }
}

/// Opens and closes connections at an even rate. Returns how long each successful one took.
async fn connect_often(length: Duration, connects: u32) -> Vec<Duration> {
    let began = tokio::time::Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..connects {
        sleep_until(began + length * n / connects).await;
        clients.spawn(timeout(CONNECT_MAX, connect_once()));
    }
    let ended = clients.join_all().await;
    ended.into_iter().filter_map(|result| result.ok()?.ok()).collect()
}

/// The time from the call to the established connection, which is then closed in order.
async fn connect_once() -> io::Result<Duration> {
    let began = Instant::now();
    let mut stream = TcpStream::connect((VICTIM, CLOSER)).await?;
    let took = began.elapsed();
    stream.shutdown().await?;
    stream.read_to_end(&mut Vec::new()).await?;
    Ok(took)
}

/// Packets dropped in front of the device so far.
fn dropped(outside: &Namespace) -> u64 {
    let read = async { std::fs::read_to_string("/proc/thread-self/net/dev") };
    let table = outside.run(read).unwrap_or_default();
    let of_device = |line: &str| line.trim().strip_prefix(DEVICE)?.strip_prefix(':').map(str::to_owned);
    // The twelfth field: dropped when sending.
    let count = |line: String| line.split_whitespace().nth(11)?.parse().ok();
    table.lines().find_map(of_device).and_then(count).unwrap_or(0)
}
