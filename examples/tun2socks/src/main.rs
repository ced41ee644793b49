//! Sends everything that is routed into a TUN device through a proxy: TCP and UDP, to any address or name.
//!
//!     cargo run -p ackclock-tun2socks -- --help

#![forbid(unsafe_code)]

mod args;
mod dns;
mod gateway;
mod http_connect;
mod names;
mod nat;
mod outlet;
mod proxy;
mod report;
mod routes;
mod socks5;
mod tcp;
mod threads;
mod timeouts;
mod undo;

use std::sync::{Arc, Once};
use std::time::Duration;

use ackclock::device::configure::{add_address, add_route, set_mtu, set_queue_len_min, set_up};
use ackclock::{Cidr, ReassemblyConfig, Stack, TcpConfig};
use anyhow::Context;
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::args::Tun2socksArgs;
use crate::gateway::Gateway;
use crate::report::Counters;
use crate::routes::Routing;
use crate::tcp::Bounds;
use crate::threads::{Threads, open_device};
use crate::undo::Changes;

fn main() -> anyhow::Result<()> {
    let args = Tun2socksArgs::parse();
    let threads = Threads::new(args.threads)?;
    threads.run(run(args, threads.handles()))
}

async fn run(args: Tun2socksArgs, threads: Vec<Handle>) -> anyhow::Result<()> {
    // First of all: what a killed gateway has left may hide the way to the proxy.
    let mut changes = args.configure.then(|| begin_changes(&args)).transpose()?;
    let gateway = Arc::new(Gateway {
        proxy: args.proxy().await?,
        names: args.names()?,
        tcp_timeouts: args.tcp_timeouts(),
        udp_timeouts: args.udp_timeouts(),
        filtering: args.nat,
        counters: Arc::new(Counters::default()),
        verbose: args.verbose,
        warned: Once::new(),
    });
    let networks = args.networks()?;
    raise_descriptor_limit();
    let (mut interrupts, mut terminations) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (queues, fell_back) = open_device(&args.device, &threads)?;
    if let Some(why) = fell_back {
        eprintln!("{} has no offload: {why}", args.device);
    }
    // The stack asks for it when it is made.
    set_mtu(&args.device, args.mtu)?;
    // ANCHOR: stack
    // The stack has no address of its own: it takes whatever arrives. Datagrams may come in fragments.
    let mut stack = Stack::builder()
        .tcp(tcp(&args))
        .memory_budget(args.memory_bytes())
        .queues(queues)
        .reassembly(ReassemblyConfig::default());
    if let Some(path) = &args.control {
        stack = stack.control(path);
    }
    let stack = stack.spawn_on(&threads)?;
    // A client gets its answer after the proxy's, which takes a minute for a dead destination. One address
    // may have half of the places.
    let connections_max = args.connections as usize;
    let listener = stack.listener().syn_backlog(2 * connections_max).decisions_max(2 * connections_max);
    let (listener, bounds) = (Arc::new(listener.deferred()?), Arc::new(Bounds::new(connections_max)));
    let serve = |queue| tcp::serve(Arc::clone(&listener), queue, Arc::clone(&gateway), Arc::clone(&bounds));
    let tcp: Vec<_> = threads.iter().enumerate().map(|(queue, on)| on.spawn(serve(queue))).collect();
    let takes_datagrams = !args.no_udp || gateway.names.is_some();
    let udp = takes_datagrams.then(|| stack.udp_any()).transpose()?;
    if let Some(udp) = &udp {
        // Answers come back as long as they are, whatever the MTU.
        udp.set_fragments(true)?;
    }
    let udp = udp.map(|any| tokio::spawn(nat::serve(any, Arc::clone(&gateway), !args.no_udp)));
    // ANCHOR_END: stack
    if let Some(at) = args.metrics {
        let served = report::serve(at, stack.clone(), Arc::clone(&gateway.counters)).await;
        served.with_context(|| format!("--metrics {at}"))?;
    }
    bring_up(&args, &networks, &gateway, changes.as_mut())?;
    // From this line on a client may dial.
    println!("{} leads to {} ({})", args.device, gateway.proxy.addr, gateway.proxy.kind);

    tokio::select! {
        _ = interrupts.recv() => {}
        _ = terminations.recv() => {}
        // The device is gone.
        () = stack.closing() => {}
    }
    // Once the device is gone, the kernel routes nothing into it; the device goes with its last descriptor.
    let reset = stack.drain(Duration::from_secs(args.grace)).await;
    tcp.iter().for_each(JoinHandle::abort);
    if let Some(udp) = udp {
        udp.abort();
    }
    drop(changes);
    print!("{}", gateway.counters.table());
    match reset? {
        0 => {}
        reset => println!("{reset} connections were reset at the end"),
    }
    Ok(())
}

/// The settings of the connections to clients.
fn tcp(args: &Tun2socksArgs) -> TcpConfig {
    let mut tcp = Stack::builder().config();
    tcp.receive_buffer_max = args.buffer_bytes();
    tcp.send_buffer_max = args.buffer_bytes();
    tcp
}

/// Takes back what a killed gateway has left.
fn begin_changes(args: &Tun2socksArgs) -> anyhow::Result<Changes> {
    let (changes, left) = Changes::begin(&args.state_file())?;
    if left > 0 {
        eprintln!("{left} changes of a gateway that was killed were taken back");
    }
    Ok(changes)
}

/// Gives the kernel's end of the device its addresses and routes.
fn bring_up(
    args: &Tun2socksArgs,
    networks: &[Cidr],
    gateway: &Gateway,
    changes: Option<&mut Changes>,
) -> anyhow::Result<()> {
    set_queue_len_min(&args.device, QUEUE_LEN)?;
    for &address in &args.address {
        add_address(&args.device, address, None)?;
    }
    set_up(&args.device, true)?;
    let Some(changes) = changes else {
        for &network in networks {
            add_route(&args.device, network)?;
        }
        return Ok(());
    };
    let routing = Routing {
        device: &args.device,
        proxy: gateway.proxy.addr.ip(),
        mark: args.mark(),
        route_to_proxy: args.routes_to_proxy(),
        into: networks,
        excluded: &args.exclude,
        captures_dns: gateway.names.is_some(),
    };
    Ok(routing.set(changes)?)
}

/// Raises the limit of descriptors as far as this process may, because each connection takes one. If that
/// fails, a connection beyond the old limit shows it.
fn raise_descriptor_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).ok();
}

/// Packets that may wait in front of the device; TUN's own 500 lose SYNs when many clients dial at once.
const QUEUE_LEN: u32 = 5000;
