//! A program on a rough virtual network, and what its packets hash to: the same number in every build.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ackclock::{Stack, TcpListener};
use ackclock_sim::observe::LogHash;
use ackclock_sim::scenario::{Jitter, Loss, SizeOf, TimeOf, Variation};
use ackclock_sim::units::{Bytes, Limit, Rate, Share, Span};
use ackclock_sim::{Direction, QueueConfig, Scenario, TrafficConfig, TrafficKind, VirtualNetwork};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

use crate::kernel::payload::Payload;

/// The hash of [`rough`]'s packets with the seed 5. It changes when the simulator, the stack or tokio's scheduler does
/// anything at another time or in another order: if that was meant, put the number here that the test shows.
pub const PINNED: &str = "0x82aa4476a11dd176";

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

/// Runs a service with most of what tokio offers (tasks, channels, permits, timeouts) on `x`, and clients that come and
/// go on `a`; how many bytes each got, 0 for one that ran out of time.
///
/// # Panics
/// If the network fails the program.
pub fn exchange(net: &mut VirtualNetwork) -> Vec<u64> {
    let (client, server) = (net.stack("a").expect("a host"), net.stack("x").expect("a host"));
    let addr = (net.addr("x").expect("a host"), 80).into();
    let listener = server.listen(addr).expect("nobody else listens");
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
    all.expect("the program ends")
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

/// The hash of the packets of [`exchange`] on [`rough`], how many records it is over, and what the clients got.
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

/// This many bytes, always the same.
#[must_use]
pub fn payload(len: usize) -> Vec<u8> {
    Payload::new(len as u64, 1).into_vec()
}
