//! A download by QUIC and one by TCP at once through one bottleneck, in virtual time: what each gets,
//! with each of five queues.
//!
//!     cargo run --example virtual_quic
//!
//! QUIC is quinn's, unchanged. Both senders use CUBIC, but quinn's slow start goes on until a packet is lost,
//! while TCP's ends by HyStart++. In a deep queue QUIC therefore begins with the larger share, and CUBIC
//! evens that out slowly. TCP's packets are not ECN-capable here, QUIC's are, so a queue that marks drops
//! those of one and marks those of the other.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;

use ackclock::quinn::endpoint;
use ackclock::{Stack, TcpListener};
use ackclock_sim::units::{Limit, Rate, Span};
use ackclock_sim::{Direction, QueueConfig, Scenario, VirtualNetwork};
use anyhow::{Context, ensure};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{ClientConfig, EndpointConfig, ServerConfig};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

const NAME: &str = "server.test";
const LEN: usize = 8_000_000;

fn main() -> anyhow::Result<()> {
    let many = Limit::Packets(1000);
    println!("queue                      QUIC kbit/s  TCP kbit/s  QUIC's share  dropped  marked");
    for (name, queue) in [
        ("drop-tail, 50 packets", QueueConfig::drop_tail(Limit::Packets(50))),
        ("drop-tail, 200 packets", QueueConfig::drop_tail(Limit::Packets(200))),
        ("CoDel", QueueConfig::codel(many, false)),
        ("CoDel with marks", QueueConfig::codel(many, true)),
        ("FQ-CoDel", QueueConfig::fq_codel(many, false)),
    ] {
        let mut net = VirtualNetwork::new(&network(queue))?;
        let [quic, tcp] = race(&mut net)?;
        let share = quic * 100 / (quic + tcp);
        let report = net.report();
        let (dropped, marked) = report.links.iter().fold((0, 0), |(dropped, marked), link| {
            (dropped + link.drops.iter().map(|(_, count)| count).sum::<u64>(), marked + link.marked)
        });
        println!("{name:25} {quic:12} {tcp:11} {share:12}% {dropped:8} {marked:7}");
    }
    Ok(())
}

/// Two clients, two servers, and 10 Mbit/s between them, 44 ms there and back.
fn network(queue: QueueConfig) -> Scenario {
    let access = Direction::new(Rate::mbit(100), Span::millis(1));
    let hosts =
        [("quic-client", "left"), ("tcp-client", "left"), ("quic-server", "right"), ("tcp-server", "right")];
    let scenario = Scenario::new(Span::seconds(60)).router("left").router("right");
    let scenario = hosts
        .into_iter()
        .fold(scenario, |scenario, (host, router)| scenario.host(host).link(host, router, access.clone()));
    scenario.link("left", "right", Direction::new(Rate::mbit(10), Span::millis(20)).queue(queue))
}

/// The rates of QUIC and TCP in kbit/s until the first download is complete.
fn race(net: &mut VirtualNetwork) -> anyhow::Result<[u64; 2]> {
    let (quic_client, quic_server) = (net.stack("quic-client")?, net.stack("quic-server")?);
    let (tcp_client, tcp_server) = (net.stack("tcp-client")?, net.stack("tcp-server")?);
    let quic_addr = SocketAddr::new(net.lookup("quic-server")?, 443);
    let tcp_addr = SocketAddr::new(net.lookup("tcp-server")?, 80);
    let (quic_bytes, tcp_bytes) = (Cell::new(0), Cell::new(0));
    net.run(async {
        let client = serve_quic(&quic_server, quic_addr)?;
        tokio::spawn(serve_tcp(tcp_server.listen(tcp_addr)?));
        let begun = Instant::now();
        let by_quic = download_by_quic(&quic_client, client, quic_addr, &quic_bytes);
        let by_tcp = download_by_tcp(&tcp_client, tcp_addr, &tcp_bytes);
        // Whichever ends first; the other stops there.
        tokio::select! {
            done = by_quic => done?,
            done = by_tcp => done?,
        }
        let took = u64::try_from(begun.elapsed().as_millis())?;
        anyhow::Ok([&quic_bytes, &tcp_bytes].map(|bytes| bytes.get() as u64 * 8 / took))
    })?
}

/// Sends on every connection. Returns the settings of a client that trusts this server.
fn serve_quic(stack: &Stack, addr: SocketAddr) -> anyhow::Result<ClientConfig> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![cert.der().clone()], key.into())?;
    let server = endpoint(stack, addr, EndpointConfig::default(), Some(config))?;
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            tokio::spawn(async move {
                let connection = incoming.await?;
                let mut stream = connection.open_uni().await?;
                stream.write_all(&vec![b'q'; LEN]).await?;
                stream.finish()?;
                connection.closed().await;
                anyhow::Ok(())
            });
        }
    });
    let mut trusted = RootCertStore::empty();
    trusted.add(cert.der().clone())?;
    Ok(ClientConfig::with_root_certificates(Arc::new(trusted))?)
}

async fn download_by_quic(
    stack: &Stack,
    config: ClientConfig,
    server: SocketAddr,
    bytes: &Cell<usize>,
) -> anyhow::Result<()> {
    let client = endpoint(stack, "0.0.0.0:0".parse()?, EndpointConfig::default(), None)?;
    let connection = client.connect_with(config, server, NAME)?.await.context("QUIC")?;
    let mut stream = connection.accept_uni().await?;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        bytes.set(bytes.get() + chunk.bytes.len());
    }
    ensure!(bytes.get() == LEN, "{} bytes by QUIC", bytes.get());
    Ok(())
}

async fn serve_tcp(listener: TcpListener) -> std::io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move { stream.write_all(&vec![b't'; LEN]).await });
    }
}

async fn download_by_tcp(stack: &Stack, server: SocketAddr, bytes: &Cell<usize>) -> anyhow::Result<()> {
    let mut stream = stack.connect(server).await.context("TCP")?;
    let mut buf = vec![0; 65_536];
    loop {
        let len = stream.read(&mut buf).await?;
        if len == 0 {
            break;
        }
        bytes.set(bytes.get() + len);
    }
    ensure!(bytes.get() == LEN, "{} bytes by TCP", bytes.get());
    Ok(())
}
