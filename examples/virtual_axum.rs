//! An unchanged axum service under 200 requests over a slow path that loses packets, in virtual time:
//!
//!     cargo run --example virtual_axum
//!
//! Another seed gives another run; the same seed gives the same packets to the byte, and the last line is a
//! hash of them:
//!
//!     cargo run --example virtual_axum -- 7
//!
//! This service and client over the kernel's loopback, in real time:
//!
//!     cargo run --example virtual_axum -- kernel

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ackclock_examples::{Client, real_time};
use ackclock_sim::observe::LogHash;
use ackclock_sim::scenario::Loss;
use ackclock_sim::units::{Rate, Share, Span};
use ackclock_sim::{Direction, Scenario, VirtualNetwork};
use anyhow::Context;
use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::get;
use axum::{Router, middleware};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};

fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("kernel") => in_real_time(),
        Some(seed) => in_virtual_time(seed.parse().context("a seed is a number")?),
        None => in_virtual_time(1),
    }
}

// ANCHOR: service
/// The service. It does not depend on a network.
fn service() -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/bytes/{count}", get(|Path(count): Path<usize>| async move { vec![b'x'; count] }))
        .route(
            "/slow",
            get(|| async {
                sleep(Duration::from_millis(200)).await;
                "at last"
            }),
        )
}
// ANCHOR_END: service

/// The client: requests on one connection, with a pause after each. Returns how long the answers took.
async fn ask<S>(stream: S, requests: u32, pause: Duration) -> anyhow::Result<Vec<Duration>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut client = Client::new(stream).await?;
    let mut latencies = Vec::new();
    for number in 0..requests {
        let (path, expected) = match number % 10 {
            0 => ("/slow", 7),
            1..=3 => ("/bytes/50000", 50_000),
            _ => ("/", 5),
        };
        let begun = Instant::now();
        let answer = client.get(path).await?;
        anyhow::ensure!(answer.len() == expected, "{path}: {} bytes", answer.len());
        latencies.push(begun.elapsed());
        sleep(pause).await;
    }
    Ok(latencies)
}

fn in_virtual_time(seed: u64) -> anyhow::Result<()> {
    // ANCHOR: network
    let path = Direction::new(Rate::mbit(10), Span::millis(20)).buffers(50);
    let path = path.loss(Loss::Independent(Share::percent(1)));
    let scenario = Scenario::new(Span::seconds(3600))
        .seed(seed)
        .host("client")
        .host("server")
        .link("client", "server", path);
    let mut net = VirtualNetwork::new(&scenario)?;
    // ANCHOR_END: network
    let (client, server) = (net.stack("client")?, net.stack("server")?);
    let addr = SocketAddr::new(net.lookup("server")?, 80);
    let hash = Rc::new(RefCell::new(LogHash::default()));
    net.observe(Rc::clone(&hash));

    println!("10 Mbit/s, 40 ms there and back, 1 % loss, seed {seed}");
    let began = real_time();
    // ANCHOR: run
    let latencies = net.run(async move {
        let listener = server.listen(addr)?;
        // The real date is the only input of this service from outside.
        let service = service().layer(middleware::map_response(with_a_fixed_date));
        tokio::spawn(async { axum::serve(listener, service).await });
        ask(client.connect(addr).await?, 200, Duration::from_secs(1)).await
    })??;
    // ANCHOR_END: run
    report(latencies);
    println!("{} ms of virtual time in {} ms of real time", net.now().as_millis(), began().as_millis());
    println!("{} packet events hash to {:#018x}", hash.borrow().records(), hash.borrow().value());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn in_real_time() -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async { axum::serve(listener, service()).await });
    println!("the kernel's loopback");
    report(ask(tokio::net::TcpStream::connect(addr).await?, 20, Duration::ZERO).await?);
    Ok(())
}

fn with_a_fixed_date(mut response: Response) -> impl Future<Output = Response> {
    let date = HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT");
    response.headers_mut().insert(header::DATE, date);
    std::future::ready(response)
}

fn report(mut latencies: Vec<Duration>) {
    latencies.sort_unstable();
    let of = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    println!("{} requests: fastest {:?}, median {:?}", latencies.len(), of(0), of(50));
    println!("90 of 100 within {:?}, 99 within {:?}, slowest {:?}", of(90), of(99), of(100));
}
