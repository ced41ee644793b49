//! A client that retries, on a hundred networks that lose packets: hyper-util's pooled client gives a page a
//! second, and tries four times.
//!
//!     cargo run --example virtual_client
//!     ACKCLOCK_SEED=7 cargo run --example virtual_client    # one network
//!
//! The client stands in for reqwest, which has no way to take another transport. If a page fails on a
//! network, `seeds` names the network's seed and writes its packets to a file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ackclock::Connector;
use ackclock_sim::scenario::Loss;
use ackclock_sim::units::{Rate, Share, Span};
use ackclock_sim::{Direction, Scenario, seeds};
use anyhow::{bail, ensure};
use axum::Router;
use axum::routing::get;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::{Instant, timeout};

const PAGES: u64 = 20;
const PAGE_BYTES: usize = 20_000;
const ATTEMPTS: u64 = 4;
const PATIENCE: Duration = Duration::from_secs(1);

type Pooled = Client<Connector, Empty<Bytes>>;

fn main() {
    let path = Direction::new(Rate::mbit(10), Span::millis(20)).loss(Loss::Independent(Share::percent(5)));
    let scenario =
        Scenario::new(Span::seconds(600)).host("client").host("server").link("client", "server", path);
    let (networks, attempts, slowest) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    // ANCHOR: seeds
    seeds(1..=100, &scenario, |net| {
        let (client, server) = (net.stack("client")?, net.stack("server")?);
        let addr = (net.lookup("server")?, 80).into();
        let (tried, took) = net.run(async move {
            let listener = server.listen(addr)?;
            let service = Router::new().route("/", get(|| async { vec![b'x'; PAGE_BYTES] }));
            tokio::spawn(async { axum::serve(listener, service).await });
            read(&Client::builder(TokioExecutor::new()).build(Connector::new(client))).await
        })??;
        networks.fetch_add(1, Ordering::Relaxed);
        attempts.fetch_add(tried, Ordering::Relaxed);
        slowest.fetch_max(u64::try_from(took.as_millis())?, Ordering::Relaxed);
        Ok(())
    });
    // ANCHOR_END: seeds
    let (networks, attempts, slowest) = (networks.into_inner(), attempts.into_inner(), slowest.into_inner());
    println!("{} pages on {networks} networks", networks * PAGES);
    println!("{attempts} attempts, and {slowest} ms for the slowest page");
}

/// Reads one page after the other. Returns the number of attempts, and the time that the slowest page took.
async fn read(client: &Pooled) -> anyhow::Result<(u64, Duration)> {
    let (mut tried, mut slowest) = (0, Duration::ZERO);
    for _ in 0..PAGES {
        let begun = Instant::now();
        tried += read_page(client).await?;
        slowest = slowest.max(begun.elapsed());
    }
    Ok((tried, slowest))
}

/// Reads a page, and again if it does not come in time. Returns the number of attempts.
async fn read_page(client: &Pooled) -> anyhow::Result<u64> {
    for attempt in 1..=ATTEMPTS {
        let page = async {
            let answer = client.get("http://server/".parse()?).await?;
            anyhow::Ok(answer.into_body().collect().await?.to_bytes())
        };
        if let Ok(page) = timeout(PATIENCE, page).await {
            let len = page?.len();
            ensure!(len == PAGE_BYTES, "{len} bytes of a page of {PAGE_BYTES}");
            return Ok(attempt);
        }
    }
    bail!("no page in {ATTEMPTS} attempts of {PATIENCE:?} each")
}
