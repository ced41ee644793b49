//! A hyper server that serves ten megabytes, and a client that fetches them over a shared path in virtual
//! time, first alone, then beside a transfer of the simulator:
//!
//!     cargo run --example virtual_hyper
//!
//! This server and client over the kernel's loopback, in real time:
//!
//!     cargo run --example virtual_hyper -- kernel

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock_examples::{Client, real_time};
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario, TrafficConfig, VirtualNetwork};
use anyhow::{Context, bail};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

const BYTES: usize = 10 << 20;

fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        None => in_virtual_time(),
        Some("kernel") => in_real_time(),
        Some(other) => bail!("`{other}`: the only argument is `kernel`"),
    }
}

/// Serves one connection. It does not depend on a network.
async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin) -> hyper::Result<()> {
    let answer = service_fn(|_: Request<Incoming>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(vec![7; BYTES]))))
    });
    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await
}

/// Fetches everything. Returns how long that took.
async fn fetch(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let body = Client::new(stream).await?.get("/").await?;
    anyhow::ensure!(body.len() == BYTES && body.iter().all(|byte| *byte == 7), "not what was served");
    Ok(begun.elapsed())
}

fn in_virtual_time() -> anyhow::Result<()> {
    let access = Direction::new(Rate::mbit(100), Span::millis(1));
    let shared = Direction::new(Rate::mbit(10), Span::millis(20)).buffers(50);
    let scenario = Scenario::new(Span::seconds(3600))
        .seed(1)
        .router("left")
        .router("right")
        .link("left", "right", shared);
    let scenario = [("client", "left"), ("reader", "left"), ("server", "right"), ("writer", "right")]
        .into_iter()
        .fold(scenario, |scenario, (host, router)| scenario.host(host).link(host, router, access.clone()));
    download("alone", &scenario)?;
    let bulk = TrafficConfig::bulk("bulk", "writer", "reader", None);
    download("beside a bulk transfer", &scenario.traffic(bulk))
}

fn download(how: &str, scenario: &Scenario) -> anyhow::Result<()> {
    let mut net = VirtualNetwork::new(scenario)?;
    let (client, server) = (net.stack("client")?, net.stack("server")?);
    let addr = SocketAddr::new(net.lookup("server")?, 80);
    let began = real_time();
    let took = net.run(async move {
        let listener = server.listen(addr)?;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        fetch(client.connect(addr).await?).await
    })??;
    let report = net.report();
    let link = report.link("left-right:back").context("a link")?;
    println!(
        "{BYTES} bytes {how}: {} ms of virtual time, {} ms of real time",
        took.as_millis(),
        began().as_millis()
    );
    println!(
        "  the shared link was busy {:.0} % of the time, with {:.0} ms in its queue on average",
        link.utilisation * 100.0,
        link.queue_delay.mean * 1000.0
    );
    for flow in &report.flows {
        println!("  {} moved {} bytes meanwhile", flow.name, flow.there.bytes);
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn in_real_time() -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    let took = fetch(tokio::net::TcpStream::connect(addr).await?).await?;
    println!("{BYTES} bytes over the kernel's loopback: {} ms", took.as_millis());
    Ok(())
}
