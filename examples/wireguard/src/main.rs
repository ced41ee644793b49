//! A WireGuard peer in user space: forwards local ports through the tunnel, or joins one connection with
//! stdin and stdout.
//!
//!     cargo run -p ackclock-wireguard -- --help

#![forbid(unsafe_code)]

mod args;
mod forward;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ackclock::device::over::IpOver;
use ackclock::{Stack, TcpStream};
use ackclock_wireguard::{Handle, Tunnel};
use anyhow::Context;
use clap::Parser;
use tokio::io::AsyncWriteExt;
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Remote, WireguardArgs};

fn main() -> anyhow::Result<()> {
    let args = WireguardArgs::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(run(args));
    // A thread may wait for standard input for ever.
    runtime.shutdown_background();
    outcome
}

async fn run(args: WireguardArgs) -> anyhow::Result<()> {
    let settings = args.settings().await?;
    let (endpoint, port) = (settings.endpoint, settings.listen_port);
    let socket = bind(endpoint, port).await.with_context(|| format!("UDP port {port}"))?;
    // ANCHOR: stack
    let tunnel = Tunnel::new(&settings.peer, socket);
    let handle = tunnel.handle();
    let mut builder = Stack::builder().device(IpOver::new(tunnel, settings.mtu));
    for &address in &settings.addresses {
        builder = builder.address(address);
    }
    for &network in &settings.peer.allowed {
        builder = builder.route(network);
    }
    let servers = settings.name_servers.iter().map(|&server| SocketAddr::new(server, DNS_PORT));
    let stack = builder.name_servers(servers).spawn()?;
    // ANCHOR_END: stack
    tokio::spawn(follow_the_network(handle.clone(), endpoint));
    tokio::spawn(tell_of_silence(handle.clone()));

    let outcome = if let Some(remote) = &args.connect {
        tokio::select! {
            joined = join(&stack, remote) => joined.with_context(|| format!("connection to {remote}")),
            interrupted = interrupted() => interrupted.map_err(Into::into),
        }
    } else {
        for forward in &args.forward {
            forward::start(&stack, forward.clone()).await?;
        }
        interrupted().await.map_err(Into::into)
    };
    stack.shutdown().await;
    report(&handle);
    outcome
}

/// A socket that reaches `endpoint`.
async fn bind(endpoint: SocketAddr, port: u16) -> io::Result<UdpSocket> {
    let any: IpAddr =
        if endpoint.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    UdpSocket::bind(SocketAddr::new(any, port)).await
}

/// Switches to another socket at each SIGHUP.
async fn follow_the_network(handle: Handle, endpoint: SocketAddr) -> io::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    while hangups.recv().await.is_some() {
        if let Err(error) = move_to_another_port(&handle, endpoint).await {
            eprintln!("keeping the socket: {error}");
        }
    }
    Ok(())
}

async fn move_to_another_port(handle: &Handle, endpoint: SocketAddr) -> io::Result<()> {
    let socket = bind(endpoint, 0).await?;
    let addr = socket.local_addr()?;
    handle.replace_socket(socket).await?;
    eprintln!("sending from {addr}");
    Ok(())
}

/// Says when handshakes stay without an answer, and when the peer answers again. A peer does not answer what
/// it cannot decrypt, so a wrong key looks like a wrong address.
async fn tell_of_silence(handle: Handle) {
    let mut is_silent = false;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        match (handle.unanswered(), is_silent) {
            (2.., false) => eprintln!("no answer to handshakes: check the keys and the endpoint"),
            (0, true) => eprintln!("the peer answers"),
            _ => continue,
        }
        is_silent = !is_silent;
    }
}

/// Joins a connection with standard input and output, until the peer has finished.
async fn join(stack: &Stack, remote: &Remote) -> io::Result<()> {
    let (mut reader, mut writer) = TcpStream::connect(stack, remote.as_str()).await?.into_split();
    let sending = tokio::spawn(async move {
        tokio::io::copy(&mut tokio::io::stdin(), &mut writer).await?;
        writer.shutdown().await
    });
    let mut stdout = tokio::io::stdout();
    tokio::io::copy(&mut reader, &mut stdout).await?;
    stdout.flush().await?;
    sending.abort();
    Ok(())
}

/// Completes at SIGINT or SIGTERM.
async fn interrupted() -> io::Result<()> {
    let (mut interrupts, mut terminations) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupts.recv() => {}
        _ = terminations.recv() => {}
    }
    Ok(())
}

fn report(handle: &Handle) {
    let counters = handle.counters();
    let (no_room, refused) = handle.not_sent();
    eprintln!(
        "{} packets sent, {} received, {} handshakes, the peer moved {} times",
        counters.sent, counters.received, counters.handshakes, counters.roamed
    );
    let dropped = [
        ("without a session", counters.dropped_no_session),
        ("not the peer's", counters.dropped_not_authentic),
        ("from an address that is not in --allowed-ips", counters.dropped_not_allowed),
        ("too long", counters.dropped_too_long),
        ("without room in the socket", no_room),
        ("refused by the network", refused),
    ];
    for (why, packets) in dropped.into_iter().filter(|&(_, packets)| packets > 0) {
        eprintln!("{packets} dropped: {why}");
    }
}

/// How often the tunnel is looked at for silence.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const DNS_PORT: u16 = 53;
