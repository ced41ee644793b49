//! Models: whole stacks under a scheduler that chooses the order in which threads take locks.
//!
//! A model is two stacks on a cable in memory, and a program. Drivers and the program's tasks run on shuttle,
//! and so do the locks and counters of this crate ([`sync`](crate::sync)). Time stands still, so no timer
//! rescues a task that was not woken: a lost wake-up is a deadlock, which shuttle reports with the schedule
//! that led to it.
//!
//! Why shuttle and not loom: the bug to find is a wake-up lost between a task, a driver, a device and another
//! shard, each of which is correct alone. So the models run the crate's real calls, drivers and endpoints,
//! some hundred steps long, which is too long for any tool to try all orders. Loom would need simplified
//! models instead, which could be correct where the code is not. Loom can also reorder relaxed loads and
//! stores, but all data here is handed over under a mutex; the counters decide only the order of turns and
//! when all shards have finished, and the latter is read again under a lock.
//!
//! Schedules are random (each step picks a thread with equal chance) or by priorities with few changes (PCT),
//! which finds an error that needs d changes with a known probability (Burckhardt and others, ASPLOS 2010;
//! not read).
//!
//! ```sh
//! RUSTFLAGS="--cfg ackclock_shuttle" cargo test -p ackclock --lib models::
//! ```

use std::io;
use std::task::{Context, Poll};

use ackclock_device::memory::{self, Cable, MemoryDevice};
use ackclock_device::{Capabilities, Device, ReceiveBatch};
use ackclock_wire::TxPacket;
use shuttle::future::{JoinHandle, block_on, spawn};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::driver::Driver;
use crate::{Stack, TcpStream};

/// Two stacks and their drivers.
struct Hosts {
    client: Stack,
    server: Stack,
    cables: Vec<Cable>,
    drivers: Vec<JoinHandle<()>>,
}

/// The parameters of a model's stacks.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Whether drivers take turns with the tasks, as on a runtime of one thread.
    beside_tasks: bool,
    /// How many packets the cable holds in each direction.
    cable_packets: usize,
    /// Whether the server has two queues, and gets packets on the wrong one.
    shards: bool,
}

impl Hosts {
    fn new(shape: Shape) -> Self {
        let config = memory::Config { queue_packets: shape.cable_packets, ..memory::Config::default() };
        let queues = if shape.shards { 2 } else { 1 };
        let (near, far): (Vec<_>, Vec<_>) = (0..queues).map(|_| memory::pair(config)).unzip();
        let cables = near.iter().map(MemoryDevice::cable).collect();
        let mut drivers = Vec::new();
        let client = Stack::builder().address("10.0.0.1/24".parse().expect("an address")).seed(7);
        let server = Stack::builder().address("10.0.0.2/24".parse().expect("an address")).seed(8);
        let client = started(client.device(Spread { queues: near, sent: 0 }), shape, &mut drivers);
        let server = started(server.queues(far), shape, &mut drivers);
        Self { client, server, cables, drivers }
    }

    /// The devices are removed, and the drivers end.
    async fn end(self) {
        drop((self.client, self.server));
        self.cables.iter().for_each(Cable::unplug);
        for driver in self.drivers {
            driver.await.expect("a driver ends");
        }
    }
}

fn started(builder: crate::StackBuilder, shape: Shape, drivers: &mut Vec<JoinHandle<()>>) -> Stack {
    let runtime = tokio::runtime::Handle::current();
    let (stack, shards) = builder.assemble(&[runtime]).expect("the stack starts");
    for shard in shards.refs() {
        let driver = Driver::new(shard, std::time::Duration::ZERO);
        drivers.push(spawn(driver.run_beside(shape.beside_tasks)));
    }
    stack
}

/// One device made of a peer's queues. It sends on each in turn, so a peer with two gets half of its packets
/// on the wrong one.
#[derive(Debug)]
struct Spread {
    queues: Vec<MemoryDevice>,
    sent: usize,
}

impl Device for Spread {
    fn capabilities(&self) -> Capabilities {
        self.queues[0].capabilities()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, batch: &mut ReceiveBatch) -> Poll<io::Result<usize>> {
        let mut received = 0;
        for queue in &mut self.queues {
            if let Poll::Ready(more) = queue.poll_receive(cx, batch) {
                received += more?;
            }
        }
        if received > 0 { Poll::Ready(Ok(received)) } else { Poll::Pending }
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let next = self.sent % self.queues.len();
        self.queues[next].poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> io::Result<()> {
        let next = self.sent % self.queues.len();
        self.sent += 1;
        self.queues[next].send(packet)
    }
}

/// Runs a model under many schedules, for both kinds of driver. `ACKCLOCK_SCHEDULES` sets the number for each
/// kind; the default is a thousand.
fn model<F>(shards: bool, program: fn(Hosts) -> F)
where
    F: Future<Output = ()> + 'static,
{
    // Only its clock is used, which stands still: timers are set and never expire.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let _entered = runtime.enter();
    let asked = std::env::var("ACKCLOCK_SCHEDULES").ok().map(|text| text.parse().expect("a number"));
    let schedules = asked.unwrap_or(1_000) / 4;
    for beside_tasks in [false, true] {
        for cable_packets in [1, 64] {
            let shape = Shape { beside_tasks, cable_packets, shards };
            let run = move || block_on(program(Hosts::new(shape)));
            Runner::new(RandomScheduler::new_from_seed(SEED, schedules), config()).run(run);
            Runner::new(PctScheduler::new_from_seed(SEED, CHANGES, schedules), config()).run(run);
        }
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    // It treats relaxed counters as strict ones: see above.
    config.silence_warnings = true;
    config
}

/// Gives the same schedules each time. A schedule that fails is printed, too.
const SEED: u64 = 1;
/// The most changes of priority.
const CHANGES: usize = 3;

async fn joined(hosts: &Hosts) -> (TcpStream, TcpStream) {
    let listener = hosts.server.listen("10.0.0.2:80".parse().expect("an address")).expect("the port is free");
    let accepted = spawn(async move { listener.accept().await.expect("a connection").0 });
    let ours = hosts.client.connect("10.0.0.2:80".parse().expect("an address")).await.expect("it listens");
    (ours, accepted.await.expect("no panic"))
}

/// A request and its answer, and the end of the stream in both directions.
async fn exchange(hosts: Hosts) {
    let (mut ours, mut theirs) = joined(&hosts).await;
    let server = spawn(async move {
        let mut request = Vec::new();
        theirs.read_to_end(&mut request).await.expect("the request");
        theirs.write_all(&request).await.expect("the answer");
        theirs.shutdown().await.expect("the end");
    });
    ours.write_all(b"request").await.expect("the request");
    ours.shutdown().await.expect("the end");
    let mut answer = Vec::new();
    ours.read_to_end(&mut answer).await.expect("the answer");
    assert_eq!(answer, b"request");
    server.await.expect("no panic");
    drop(ours);
    hosts.end().await;
}

#[test]
fn who_waits_to_read_to_accept_or_to_connect_is_woken() {
    model(false, exchange);
}

#[test]
fn a_packet_at_the_wrong_shard_wakes_the_right_one() {
    model(true, exchange);
}

/// Two tasks wait for one stream, and a third one is dropped.
async fn two_readers(hosts: Hosts) {
    let (mut ours, theirs) = joined(&hosts).await;
    let theirs = std::sync::Arc::new(theirs);
    let waits = |theirs: std::sync::Arc<TcpStream>| async move { theirs.readable().await.expect("readable") };
    let dropped = spawn(waits(std::sync::Arc::clone(&theirs)));
    let both = [spawn(waits(std::sync::Arc::clone(&theirs))), spawn(waits(std::sync::Arc::clone(&theirs)))];
    dropped.abort();
    ours.write_all(b"x").await.expect("a byte");
    for waiter in both {
        waiter.await.expect("no panic");
    }
    drop((ours, theirs));
    hosts.end().await;
}

#[test]
fn both_of_two_waiters_are_woken_and_one_that_is_dropped_takes_none_along() {
    model(false, two_readers);
}

/// Two connections for two tasks that accept.
async fn two_accepts(hosts: Hosts) {
    let addr = "10.0.0.2:80".parse().expect("an address");
    let listener = std::sync::Arc::new(hosts.server.listen(addr).expect("the port is free"));
    let accepts = |listener: std::sync::Arc<crate::TcpListener>| async move {
        listener.accept().await.expect("a connection").0
    };
    let accepted =
        [spawn(accepts(std::sync::Arc::clone(&listener))), spawn(accepts(std::sync::Arc::clone(&listener)))];
    let client = hosts.client.clone();
    let second = spawn(async move { client.connect(addr).await.expect("it listens") });
    let first = hosts.client.connect(addr).await.expect("it listens");
    for stream in accepted {
        drop(stream.await.expect("no panic"));
    }
    drop((first, second.await.expect("no panic"), listener));
    hosts.end().await;
}

#[test]
fn each_of_two_tasks_that_accept_gets_a_connection() {
    model(false, two_accepts);
}

#[test]
fn each_of_two_tasks_that_accept_on_two_shards_gets_a_connection() {
    model(true, two_accepts);
}

/// More than both buffers hold, so the writer must be woken, too.
async fn much(hosts: Hosts) {
    const BYTES: usize = 200_000;
    let (mut ours, mut theirs) = joined(&hosts).await;
    ours.set_nodelay(true).expect("an option");
    ours.set_quickack(true).expect("an option");
    theirs.set_quickack(true).expect("an option");
    let server = spawn(async move {
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).await.expect("the stream");
        all.len()
    });
    ours.write_all(&vec![7; BYTES]).await.expect("room");
    ours.shutdown().await.expect("the end");
    assert_eq!(server.await.expect("no panic"), BYTES);
    drop(ours);
    hosts.end().await;
}

#[test]
fn a_writer_that_waits_for_room_is_woken() {
    model(false, much);
}

/// The device is removed while tasks wait.
async fn unplugged(hosts: Hosts) {
    let (mut ours, mut theirs) = joined(&hosts).await;
    let cables = hosts.cables.clone();
    let reader = spawn(async move { theirs.read(&mut [0; 8]).await.is_err() });
    let cutter = spawn(async move { cables.iter().for_each(Cable::unplug) });
    assert!(ours.read(&mut [0; 8]).await.is_err(), "the device is gone");
    assert!(reader.await.expect("no panic"), "the device is gone");
    cutter.await.expect("no panic");
    drop(ours);
    hosts.end().await;
}

#[test]
fn who_waits_when_the_device_goes_is_told() {
    model(false, unplugged);
    model(true, unplugged);
}
