//! Sends everything that is routed into a TUN device through a SOCKS5 proxy: TCP and UDP, to any address.
//!
//!     cargo run -p ackclock-tun2socks -- --help

#![forbid(unsafe_code)]

mod args;
mod counters;
mod socks5;
mod tcp;
mod udp;

use std::net::SocketAddr;
use std::sync::{Arc, Once};
use std::time::Duration;

use ackclock::device::configure::{add_address, add_route, set_mtu, set_up};
use ackclock::device::{OffloadMode, open};
use ackclock::{ReassemblyConfig, Stack};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Tun2socksArgs;
use crate::counters::Counters;
use crate::socks5::Proxy;
use crate::tcp::CONNECTIONS_MAX;

/// What all connections and datagrams share.
#[derive(Debug)]
struct Shared {
    proxy: Proxy,
    /// How long a relay lives without a datagram.
    udp_timeout: Duration,
    counters: Counters,
    verbose: bool,
    /// Whether the warning has been given that the way to the proxy leads into the device.
    warned: Once,
}

impl Shared {
    /// Whether this is the proxy itself: a connection to it through the device is this program's own, and
    /// would loop for ever.
    fn is_proxy(&self, dialled: SocketAddr) -> bool {
        let looped = dialled == self.proxy.addr;
        if looped {
            let addr = self.proxy.addr;
            self.warned.call_once(|| {
                eprintln!(
                    "the route to the proxy {addr} leads into the device; fix that with `ip route add \
                    {} via GATEWAY`",
                    addr.ip()
                );
            });
        }
        looped
    }

    /// Prints what became of something, if the user asked for it.
    fn say(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{}", what());
        }
    }
}

fn main() -> anyhow::Result<()> {
    let args = Tun2socksArgs::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(args))
}

async fn run(args: Tun2socksArgs) -> anyhow::Result<()> {
    let shared = Arc::new(Shared {
        proxy: args.proxy()?,
        udp_timeout: Duration::from_secs(args.udp_timeout),
        counters: Counters::default(),
        verbose: args.verbose,
        warned: Once::new(),
    });
    let (mut interrupts, mut terminations) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);

    let (device, fell_back) = open(&args.device, OffloadMode::Auto)?;
    if let Some(why) = fell_back {
        eprintln!("{} has no offload: {why}", args.device);
    }
    // ANCHOR: stack
    // The stack has no address of its own: it takes whatever arrives. Datagrams may come in fragments.
    let stack = Stack::builder().device(device).reassembly(ReassemblyConfig::default()).spawn()?;
    // A client waits for the proxy's answer before its own, which for a dead destination takes a minute. One
    // address may have half of the places.
    let listener = stack.listener().syn_backlog(2 * CONNECTIONS_MAX).decisions_max(2 * CONNECTIONS_MAX);
    let tcp = tokio::spawn(tcp::serve(listener.deferred()?, Arc::clone(&shared)));
    let udp = (!args.no_udp).then(|| stack.udp_any()).transpose()?;
    let udp = udp.map(|any| tokio::spawn(udp::serve(any, Arc::clone(&shared))));
    bring_up(&args)?;
    // ANCHOR_END: stack
    // From this line on a client may dial.
    println!("{} leads to {}", args.device, args.proxy);

    tokio::select! {
        _ = interrupts.recv() => {}
        _ = terminations.recv() => {}
        // The device is gone.
        () = stack.closing() => {}
    }
    // Once the device is gone, the kernel routes nothing into it; the device goes with its last descriptor.
    let reset = stack.drain(Duration::from_secs(args.grace)).await;
    tcp.abort();
    if let Some(udp) = udp {
        udp.abort();
    }
    println!("{}", shared.counters.report());
    match reset? {
        0 => {}
        reset => println!("{reset} connections were reset at the end"),
    }
    Ok(())
}

/// Gives the kernel's end of the device its addresses and routes.
fn bring_up(args: &Tun2socksArgs) -> anyhow::Result<()> {
    set_mtu(&args.device, args.mtu)?;
    for &address in &args.address {
        add_address(&args.device, address, None)?;
    }
    set_up(&args.device, true)?;
    for &network in &args.route {
        add_route(&args.device, network)?;
    }
    Ok(())
}
