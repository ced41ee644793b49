//! A stack with several queues, in memory: what a second queue on a second processor gains, and how long
//! threads that share a queue wait for each other.
//!
//! `shards queues`: one queue, then several, each with its peer on its own thread. Rounds of both alternate.
//! On a machine with other work, compare the figures per second of CPU time.
//!
//! `shards threads`: threads, each with a connection of the same queue, ask and answer; before that, one
//! thread does so alone. The time spent waiting for the queue's lock is that of all threads, drivers
//! included.
//!
//! `shards line`: one thread, then two, add to one count. The difference is what it takes to move a cache
//! line from one core to another, which bounds how often all queues together may touch what they share.

#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ackclock::{Stack, TcpStream};
use ackclock_device::memory;
use clap::{Parser, Subcommand};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// Measures a stack on several queues, in memory.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    mode: Mode,
    /// Seconds of each measurement.
    #[arg(long, global = true, default_value_t = 2)]
    secs: u64,
    /// Rounds.
    #[arg(long, global = true, default_value_t = 3)]
    rounds: usize,
}

#[derive(Clone, Copy, Subcommand)]
enum Mode {
    /// One queue, then several, each with its peer on a thread of its own.
    Queues {
        /// Queues.
        #[arg(long, default_value_t = 2)]
        queues: usize,
        /// Pass segments of up to 64 KB whole.
        #[arg(long)]
        offload: bool,
    },
    /// One thread, then several, each with a connection of the same queue, ask and answer.
    Threads {
        /// Threads.
        #[arg(long, default_value_t = 8)]
        threads: usize,
    },
    /// One thread, then two, add to one count.
    Line,
}

fn main() {
    let Cli { mode, secs, rounds } = Cli::parse();
    let secs = Duration::from_secs(secs);
    for _ in 0..rounds {
        match mode {
            Mode::Queues { queues, offload } => {
                let (one, several) = (bulk(1, offload, secs), bulk(queues, offload, secs));
                println!("{one}\n{several}");
                println!(
                    "ratio wall={:.2} for_each_cpu_second={:.2}",
                    several.gbps / one.gbps,
                    several.gbit_per_cpu_second / one.gbit_per_cpu_second
                );
            }
            Mode::Line => {
                let [alone, contended] = [1, 2].map(|threads| addition_nanos(threads, secs));
                println!("line alone_ns={alone:.1} contended_ns={contended:.1}");
            }
            Mode::Threads { threads } => println!("{}\n{}", ask(1, secs), ask(threads, secs)),
        }
    }
}

/// The time from one addition to the next, by any of the threads.
fn addition_nanos(threads: usize, secs: Duration) -> f64 {
    let (count, over) = (OwnLine(AtomicU64::new(0)), OwnLine(AtomicBool::new(false)));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !over.0.load(Ordering::Relaxed) {
                    count.0.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(secs);
        over.0.store(true, Ordering::Relaxed);
    });
    began.elapsed().as_nanos() as f64 / count.0.into_inner() as f64
}

/// A value alone in its cache line.
#[repr(align(128))]
struct OwnLine<T>(T);

/// A thread with a runtime, until it is dropped.
struct Worker {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<u64>>,
}

impl Worker {
    fn start() -> Self {
        let runtime: Runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(async { drop(stopped.await) });
            cpu_nanos()
        };
        Self { handle, stop: Some(stop), thread: Some(std::thread::spawn(run)) }
    }

    /// Ends the thread and returns its CPU time in nanoseconds.
    fn stop(mut self) -> u64 {
        drop(self.stop.take());
        self.thread.take().map_or(0, |thread| thread.join().expect("the worker ends"))
    }
}

/// The result of a round of `queues`.
struct Bulk {
    queues: usize,
    gbps: f64,
    gbit_per_cpu_second: f64,
    handed_over: u64,
    lock_waits: u64,
    lock_waited: Duration,
}

impl std::fmt::Display for Bulk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { queues, gbps, gbit_per_cpu_second, handed_over, lock_waits, lock_waited } = self;
        write!(
            f,
            "bulk queues={queues} gbps={gbps:.2} gbit_per_cpu_second={gbit_per_cpu_second:.2} \
             handed_over={handed_over} lock_waits={lock_waits} lock_waited={lock_waited:?}"
        )
    }
}

/// A server with this many queues, a client for each, and a connection between them that sends as fast as it
/// can. The two ends of a queue share a thread.
fn bulk(queues: usize, offload: bool, secs: Duration) -> Bulk {
    let workers: Vec<Worker> = (0..queues).map(|_| Worker::start()).collect();
    let runtimes: Vec<Handle> = workers.iter().map(|worker| worker.handle.clone()).collect();
    let config = memory::Config { gso: offload, ..memory::Config::default() };
    let (near, far): (Vec<_>, Vec<_>) = (0..queues).map(|_| memory::pair(config)).unzip();
    let server = Stack::builder().queues(far).address(cidr(1)).spawn_on(&runtimes).expect("a stack");
    let listener = server.listen(SERVER.parse().expect("an address")).expect("it listens");
    let (received, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));

    let mut tasks = Vec::new();
    for (index, (near, runtime)) in near.into_iter().zip(&runtimes).enumerate() {
        let client =
            Stack::builder().device(near).address(cidr(2 + index)).spawn_on(std::slice::from_ref(runtime));
        let client = client.expect("a stack");
        let (stream, accepted) = runtimes[0].block_on(connected(&client, &listener));
        let (received, over) = (Arc::clone(&received), Arc::clone(&over));
        tasks.push(runtime.spawn(write(stream, Arc::clone(&over), client)));
        tasks.push(runtime.spawn(read(accepted, received, over)));
    }
    // Bytes written before all are connected do not count.
    let (from, start) = (received.load(Ordering::Relaxed), Instant::now());
    std::thread::sleep(secs);
    let bits = (received.load(Ordering::Relaxed) - from) as f64 * 8.0;
    let seconds = start.elapsed().as_secs_f64();
    let (info, counters) = (server.info(), server.counters());
    over.store(true, Ordering::Relaxed);
    drop(listener);
    for task in tasks {
        task.abort();
    }
    let cpu: u64 = workers.into_iter().map(Worker::stop).sum();
    Bulk {
        queues,
        gbps: bits * 1e-9 / seconds,
        gbit_per_cpu_second: bits / cpu as f64,
        handed_over: counters.strays_handed_over,
        lock_waits: info.lock_waits,
        lock_waited: info.lock_waited,
    }
}

async fn connected(client: &Stack, listener: &ackclock::TcpListener) -> (TcpStream, TcpStream) {
    let server: SocketAddr = SERVER.parse().expect("an address");
    let (stream, accepted) = tokio::join!(client.connect(server), listener.accept());
    (stream.expect("connected"), accepted.expect("accepted").0)
}

async fn write(mut stream: TcpStream, over: Arc<AtomicBool>, _client: Stack) {
    let data = vec![7; 1 << 16];
    while !over.load(Ordering::Relaxed) && stream.write_all(&data).await.is_ok() {}
}

async fn read(mut stream: TcpStream, received: Arc<AtomicU64>, over: Arc<AtomicBool>) {
    let mut buf = vec![0; 1 << 16];
    while !over.load(Ordering::Relaxed) {
        let Ok(len) = stream.read(&mut buf).await else { return };
        received.fetch_add(len as u64, Ordering::Relaxed);
    }
}

/// The result of a round of `threads`.
struct Asked {
    threads: usize,
    turns: u64,
    seconds: f64,
    lock_waits: u64,
    lock_waited: Duration,
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { threads, turns, seconds, lock_waits, lock_waited } = self;
        let turns_per_second = *turns as f64 / seconds;
        let waited_ns_per_turn = lock_waited.as_nanos() as f64 / (*turns).max(1) as f64;
        let share = 100.0 * lock_waited.as_secs_f64() / (seconds * *threads as f64);
        write!(
            f,
            "threads={threads} turns_per_second={turns_per_second:.0} lock_waits={lock_waits} \
             lock_waited={lock_waited:?} waited_ns_per_turn={waited_ns_per_turn:.0} \
             waited_percent_of_threads={share:.2}"
        )
    }
}

/// A stack with one queue and this many threads. Each sends a byte on its connection and waits for the echo.
fn ask(threads: usize, secs: Duration) -> Asked {
    let (driver, peer) = (Worker::start(), Worker::start());
    let (near, far) = memory::pair(memory::Config::default());
    let server = Stack::builder()
        .device(far)
        .address(cidr(1))
        .spawn_on(std::slice::from_ref(&peer.handle))
        .expect("a stack");
    let client = Stack::builder()
        .device(near)
        .address(cidr(2))
        .spawn_on(std::slice::from_ref(&driver.handle))
        .expect("a stack");
    let listener = server.listen(SERVER.parse().expect("an address")).expect("it listens");
    let (turns, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let asker = |_| {
        let (stream, accepted) = driver.handle.block_on(connected(&client, &listener));
        stream.set_nodelay(true).and(accepted.set_nodelay(true)).expect("both are open");
        peer.handle.spawn(echo(accepted));
        let (turns, over) = (Arc::clone(&turns), Arc::clone(&over));
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(question(stream, &turns, &over));
        })
    };
    let askers: Vec<_> = (0..threads).map(asker).collect();
    let (from, before, start) = (turns.load(Ordering::Relaxed), client.info(), Instant::now());
    std::thread::sleep(secs);
    let (turns, after) = (turns.load(Ordering::Relaxed) - from, client.info());
    let seconds = start.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    askers.into_iter().for_each(|asker| asker.join().expect("the thread ends"));
    drop(listener);
    driver.stop();
    peer.stop();
    Asked {
        threads,
        turns,
        seconds,
        lock_waits: after.lock_waits - before.lock_waits,
        lock_waited: after.lock_waited.saturating_sub(before.lock_waited),
    }
}

async fn echo(mut stream: TcpStream) {
    let mut byte = [0; 1];
    while stream.read_exact(&mut byte).await.is_ok() && stream.write_all(&byte).await.is_ok() {}
}

async fn question(mut stream: TcpStream, turns: &AtomicU64, over: &AtomicBool) {
    let mut byte = [7; 1];
    while !over.load(Ordering::Relaxed) {
        stream.write_all(&byte).await.expect("the peer is there");
        stream.read_exact(&mut byte).await.expect("it answers");
        turns.fetch_add(1, Ordering::Relaxed);
    }
}

fn cidr(host: usize) -> ackclock::Cidr {
    format!("10.0.0.{host}/24").parse().expect("an address")
}

/// The CPU time of the calling thread.
fn cpu_nanos() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("/proc is mounted");
    stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).expect("a number of nanoseconds")
}

const SERVER: &str = "10.0.0.1:7";
