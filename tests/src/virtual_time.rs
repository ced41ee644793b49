//! A program on a rough virtual network, and the hashes of its packets and traces: the same numbers in every
//! build.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ackclock::{Stack, TcpListener};
use ackclock_core::trace::Record;
use ackclock_sim::observe::{LogHash, Traces};
use ackclock_sim::scenario::{Jitter, Loss, SizeOf, TimeOf, Variation};
use ackclock_sim::units::{Bytes, Limit, Rate, Share, Span};
use ackclock_sim::{
    Direction, QueueConfig, Scenario, TcpSettings, TrafficConfig, TrafficKind, VirtualNetwork,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

use crate::kernel::payload::Payload;

/// The hash of [`rough`]'s traces with the seed 5: of the records of its connections, hosted and simulated,
/// and of the bottleneck's queue. It also changes with the contents of records.
pub const PINNED_TRACE: &str = "74dced645f73162b";

/// Hosts `a`, `b`, `c` on the left, `x`, `y`, `z` on the right, and a bottleneck.
#[must_use]
pub fn dumbbell(bottleneck: Direction) -> Scenario {
    let access = Direction::new(Rate::mbit(100), Span::millis(1));
    let mut scenario = Scenario::new(Span::seconds(600)).seed(1).router("l").router("r");
    for (host, router) in [("a", "l"), ("b", "l"), ("c", "l"), ("x", "r"), ("y", "r"), ("z", "r")] {
        scenario = scenario.host(host).link(host, router, access.clone());
    }
    scenario.link("l", "r", bottleneck)
}

/// A dumbbell with loss, jitter and an active queue in the middle, and traffic beside.
#[must_use]
pub fn rough(seed: u64) -> Scenario {
    let jitter = Jitter { by: Variation::Exponential(Span::millis(1)), may_reorder: true };
    let middle = Direction::new(Rate::mbit(10), Span::millis(20));
    let middle =
        Direction { jitter: Some(jitter), ..middle }.queue(QueueConfig::codel(Limit::Packets(100), false));
    let middle = middle.loss(Loss::Independent(Share::percent(1)));
    let pages = TrafficKind::RequestResponse {
        request: SizeOf::Fixed(Bytes(300)),
        response: SizeOf::Pareto { least: Bytes(2000), shape_thousandths: 1200 },
        think: TimeOf::Exponential(Span::millis(300)),
        serve: TimeOf::Fixed(Span::millis(3)),
        requests: None,
        per_connection: Some(4),
    };
    dumbbell(middle)
        .seed(seed)
        .traffic(TrafficConfig::bulk("bulk", "y", "b", None))
        .traffic(TrafficConfig::new("pages", "c", "z", pages))
}

/// Runs a service with most of what tokio offers (tasks, channels, permits, timeouts) on `x`, and clients
/// that come and go on `a`. Returns how many bytes each received, 0 for one that timed out.
///
/// # Panics
/// If the network fails the program.
pub fn exchange(net: &mut VirtualNetwork) -> Vec<u64> {
    exchange_between(net).0
}

/// As [`exchange`], and returns the two stacks.
fn exchange_between(net: &mut VirtualNetwork) -> (Vec<u64>, [Stack; 2]) {
    let (client, server) = (net.stack("a").expect("a host"), net.stack("x").expect("a host"));
    let stacks = [client.clone(), server.clone()];
    let addr = (net.lookup("x").expect("a host"), 80).into();
    let listener = server.listen(addr).expect("the port is free");
    let all = net.run(async move {
        tokio::spawn(serve(listener));
        let (done, mut results) = mpsc::channel(4);
        for number in 0..12_u32 {
            let (client, done) = (client.clone(), done.clone());
            tokio::spawn(async move {
                sleep(Duration::from_millis(u64::from(number) * 170)).await;
                let fetching = fetch(client, addr, 20_000 + number * 10_000);
                let fetched = timeout(Duration::from_millis(2500), fetching).await;
                done.send(fetched.map_or(0, |bytes| bytes.unwrap_or(0))).await
            });
        }
        drop(done);
        let mut all = Vec::new();
        while let Some(bytes) = results.recv().await {
            all.push(bytes);
        }
        all
    });
    (all.expect("the program ends"), stacks)
}

async fn serve(listener: TcpListener) -> std::io::Result<()> {
    let permits = Arc::new(Semaphore::new(3));
    loop {
        let (mut stream, _) = listener.accept().await?;
        let permits = Arc::clone(&permits);
        tokio::spawn(async move {
            let _permit = permits.acquire().await;
            let wanted = stream.read_u32().await?;
            sleep(Duration::from_micros(u64::from(wanted) / 3)).await;
            stream.write_all(&payload(wanted as usize)).await?;
            stream.shutdown().await
        });
    }
}

async fn fetch(client: Stack, addr: std::net::SocketAddr, bytes: u32) -> std::io::Result<u64> {
    let mut stream = client.connect(addr).await?;
    stream.write_u32(bytes).await?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await?;
    Ok(received.len() as u64)
}

/// The hash of the packets of [`exchange`] on [`rough`], the number of records in it, and what the clients
/// received.
///
/// # Panics
/// If the network fails the program.
#[must_use]
pub fn hash(seed: u64) -> (String, u64, Vec<u64>) {
    let mut net = VirtualNetwork::new(&rough(seed)).expect("a scenario that can be run");
    let log = Rc::new(RefCell::new(LogHash::default()));
    net.observe(Rc::clone(&log));
    let results = exchange(&mut net);
    let log = log.borrow();
    (format!("{:#018x}", log.value()), log.records(), results)
}

/// The hash of the traces of [`exchange`] on [`rough`], and how many records it is over.
///
/// # Panics
/// If the network fails the program.
#[must_use]
pub fn trace_hash(seed: u64) -> (String, usize) {
    let scenario = rough(seed).tcp(TcpSettings::default().traced());
    let mut net = VirtualNetwork::new(&scenario).expect("a scenario that can be run");
    let middle = scenario.links.len() as u32 * 2 - 2;
    let simulated = Rc::new(RefCell::new(Traces::new([middle])));
    net.observe(Rc::clone(&simulated));
    let (_, stacks) = exchange_between(&mut net);
    let hosted = net.run(async move {
        let mut batches = Vec::new();
        for stack in stacks {
            stack.request_traces();
            while let Ok(Some(batch)) = timeout(Duration::ZERO, stack.next_trace()).await {
                batches.push(batch);
            }
        }
        batches
    });
    let (simulated, hosted) = (simulated.borrow(), hosted.expect("what is there is fetched"));
    let queues = simulated.queues().flat_map(|(_, records)| records);
    let batches = simulated.batches().iter().map(|(_, batch)| batch).chain(&hosted);
    let records: Vec<u8> =
        batches.flat_map(|batch| &batch.records).chain(queues).flat_map(|record| record.to_bytes()).collect();
    (blake3::hash(&records).to_hex()[..16].to_owned(), records.len() / Record::LEN)
}

/// This many bytes, always the same.
#[must_use]
pub fn payload(len: usize) -> Vec<u8> {
    Payload::new(len as u64, 1).into_vec()
}
