//! A host made from the command line's flags: the stack on its device with what is wrapped around it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use ackclock::{Cidr, Stack, TcpConfig};
use ackclock_device::capture::{Capture, Captured};
use ackclock_device::configure;
use ackclock_device::impair::{Impaired, Network, Settings};
use ackclock_device::{Device, open};

use crate::args::{Common, DeviceArgs, ImpairArgs, TcpArgs};
use crate::exit::{Exit, Failure};
use crate::net::Net;
use crate::trace::{Recorder, Wanted};
use crate::units::Queue;

/// A host, and what hangs on its device.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) net: Net,
    impairment: Option<Network>,
    capture: Option<(Capture, PathBuf)>,
    recorder: Option<Recorder>,
}

impl Host {
    /// Opens the device and starts the stack, or takes the kernel's TCP, as the flags say. Must be called within a
    /// tokio runtime.
    pub(crate) async fn start(args: &Common) -> Result<Self, Failure> {
        if args.kernel {
            return Ok(Self { net: Net::kernel(), impairment: None, capture: None, recorder: None });
        }
        let device = open_device(&args.device, args.verbose)?;
        wait_for_link(&args.device, &*device).await?;
        Self::on_device(device, &args.device.tun, &args.device.addr, args)
    }

    /// Starts a stack on an open device.
    fn on_device(
        mut device: Box<dyn Device>,
        name: &str,
        addresses: &[Cidr],
        args: &Common,
    ) -> Result<Self, Failure> {
        let mut capture = None;
        if let Some(path) = &args.observe.pcap {
            let captured = Captured::create(device, name, path)
                .map_err(|error| Failure::file("capture to", path, &error))?;
            capture = Some((captured.handle(), path.clone()));
            device = Box::new(captured);
        }
        let mut impairment = None;
        if let Some(settings) = impairment_settings(&args.impair) {
            let seed = args.impair.seed.unwrap_or(SEED);
            let impaired = Impaired::new(device, seed, settings, settings)
                .map_err(|error| Failure::usage(error.to_string()))?;
            impairment = Some(impaired.handle());
            device = Box::new(impaired);
        }
        let mut tcp = tcp_config(&args.tcp)?;
        args.control.apply(&mut tcp).map_err(Failure::usage)?;
        let wanted = Wanted::create(&args.observe)?;
        tcp.trace = wanted.as_ref().map(|wanted| wanted.config);
        let mut builder = Stack::builder().device(device).tcp(tcp);
        for &address in addresses {
            builder = builder.address(address);
        }
        let stack = builder.spawn().map_err(|error| Failure::new(Exit::Device, error.to_string()))?;
        let recorder = wanted.map(|wanted| wanted.start(&stack)).transpose()?;
        Ok(Self { net: Net::user(stack, name), impairment, capture, recorder })
    }

    /// Tells what the impairment, the capture and the trace did, once the stack has closed or nobody waits for it.
    pub(crate) async fn finish(self, verbose: bool) {
        if let (Some(network), true) = (&self.impairment, verbose) {
            let (sent, received) = (network.statistics_sent(), network.statistics_received());
            for (direction, counts) in [("sent", sent), ("received", received)] {
                say!(
                    "tcpcat: impairment of packets {direction}: {} of {} lost, {} dropped by a full queue, {} marked, {} reordered, {} duplicated",
                    counts.lost,
                    counts.offered,
                    counts.queue_full,
                    counts.marked,
                    counts.reordered,
                    counts.duplicated
                );
            }
        }
        if let Some((capture, path)) = &self.capture {
            capture.flush();
            let report = capture.report();
            let path = path.display();
            match report.stopped {
                Some(why) => {
                    say!("tcpcat: the capture in {path} ends after {} packets: {why}", report.packets)
                }
                None if verbose => say!("tcpcat: {} packets are in {path}", report.packets),
                None => {}
            }
        }
        if let Some(recorder) = self.recorder {
            recorder.finish(verbose).await;
        }
    }
}

/// Checks the addresses, opens the device and sets up the kernel's end if asked to.
fn open_device(args: &DeviceArgs, verbose: bool) -> Result<Box<dyn Device>, Failure> {
    if args.addr.is_empty() {
        return Err(Failure::usage("the stack needs an address of its own on the device")
            .remedy("add --addr 10.9.0.2/24 (and --configure to give the kernel 10.9.0.1); or use --kernel; or run tcpcat demo"));
    }
    for address in &args.addr {
        if kernel_owns(address.addr()) {
            return Err(owned_by_kernel(*address));
        }
    }
    let (device, fell_back) = open(&args.tun, args.offload.into())?;
    if let (Some(why), true) = (fell_back, verbose) {
        say!("tcpcat: no segmentation offload: {why}");
    }
    if args.configure {
        configure_kernel_end(args)?;
    } else if let Some(mtu) = args.mtu {
        configure::set_mtu(&args.tun, mtu)?;
    }
    Ok(device)
}

/// Gives the kernel's end its addresses and brings it up.
fn configure_kernel_end(args: &DeviceArgs) -> Result<(), Failure> {
    for (index, &address) in args.addr.iter().enumerate() {
        let kernel = kernel_address(args, address)?;
        let mtu = args.mtu.filter(|_| index == 0);
        configure::configure(&args.tun, kernel, None, mtu)?;
    }
    Ok(())
}

/// The kernel's address in the network of `address`: the one given, or the first host that is not the stack itself.
pub(crate) fn kernel_address(args: &DeviceArgs, address: Cidr) -> Result<Cidr, Failure> {
    let given = args.peer.filter(|peer| peer.is_ipv4() == address.addr().is_ipv4());
    let peer = given.or_else(|| neighbour(address)).ok_or_else(|| {
        Failure::usage(format!("the network {address} has no room for the kernel's address"))
            .remedy("give it with --peer ADDR")
    })?;
    if peer == address.addr() {
        return Err(Failure::usage(format!("--peer {peer} is the stack's own address"))
            .remedy("the kernel's end of the device takes another address of the same network"));
    }
    Cidr::new(peer, address.prefix_len()).map_err(|error| Failure::usage(error.to_string()))
}

/// The first host of the network that is not `address` itself.
fn neighbour(address: Cidr) -> Option<IpAddr> {
    let own = address.addr();
    let candidates = (0..4u8).filter_map(|step| match own {
        IpAddr::V4(own) => {
            let mask = u32::MAX.checked_shr(u32::from(address.prefix_len())).unwrap_or(0);
            (own.to_bits() & !mask)
                .checked_add(u32::from(step))
                .map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
        }
        IpAddr::V6(own) => {
            let mask = u128::MAX.checked_shr(u32::from(address.prefix_len())).unwrap_or(0);
            (own.to_bits() & !mask)
                .checked_add(u128::from(step))
                .map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)))
        }
    });
    let network = address.prefix_len() < if own.is_ipv4() { 31 } else { 127 };
    // The first address of a network names the network itself, except in one of two hosts (RFC 3021, RFC 6164).
    let mut hosts = candidates.skip(usize::from(network));
    hosts.find(|&host| host != own && address.contains(host) && address.broadcast() != Some(host))
}

/// Waits a moment for an interface that somebody else brings up.
async fn wait_for_link(args: &DeviceArgs, device: &dyn Device) -> Result<(), Failure> {
    let name = &args.tun;
    let deadline = tokio::time::Instant::now() + LINK_WAIT;
    let mut told = false;
    while !is_up(name) && !device.link_up() {
        if tokio::time::Instant::now() >= deadline {
            return Err(Failure::new(Exit::Device, format!("{name} is down"))
                .remedy(format!("sudo ip link set {name} up (and give it an address), or add --configure")));
        }
        if !std::mem::replace(&mut told, true) {
            say!("tcpcat: {name} is down; waiting {} s for: sudo ip link set {name} up", LINK_WAIT.as_secs());
        }
        tokio::time::sleep(LINK_POLL).await;
    }
    Ok(())
}

fn is_up(name: &str) -> bool {
    configure::link_state(name).is_ok_and(|state| state.up)
}

/// Whether `addr` is an address of this machine's kernel, which would answer in the stack's place.
pub(crate) fn kernel_owns(addr: IpAddr) -> bool {
    UdpSocket::bind((addr, 0)).is_ok()
}

/// The failure that [`kernel_owns`] leads to.
pub(crate) fn owned_by_kernel(address: Cidr) -> Failure {
    Failure::new(
        Exit::Device,
        format!(
            "{} belongs to this machine's kernel, which would answer in the stack's place",
            address.addr()
        ),
    )
    .remedy(format!(
        "choose another address of the network for --addr, or: sudo ip addr del {address} dev NAME"
    ))
}

fn tcp_config(args: &TcpArgs) -> Result<TcpConfig, Failure> {
    let mut config = TcpConfig {
        nodelay: args.nodelay,
        user_timeout: args.user_timeout,
        mss_max: args.mss,
        ..TcpConfig::default()
    };
    if let Some(bytes) = args.sndbuf {
        config.send_buffer_max = buffer("--sndbuf", bytes)?;
    }
    if let Some(bytes) = args.rcvbuf {
        config.receive_buffer_max = buffer("--rcvbuf", bytes)?;
    }
    Ok(config)
}

fn buffer(flag: &str, bytes: u64) -> Result<usize, Failure> {
    let size = usize::try_from(bytes).ok().filter(|size| BUFFER_SIZES.contains(size));
    size.ok_or_else(|| Failure::usage(format!("{flag} takes 4K to 1G")))
}

fn impairment_settings(args: &ImpairArgs) -> Option<Settings> {
    let plain = Settings::default();
    let (queue_packets, queue_bytes) = match args.rate_limit.and_then(|limit| limit.queue) {
        None => (plain.queue_packets, plain.queue_bytes),
        Some(Queue::Packets(packets)) => (packets, None),
        Some(Queue::Bytes(bytes)) => (usize::MAX, Some(bytes)),
    };
    let settings = Settings {
        rate_bps: args.rate_limit.map(|limit| limit.rate_bps),
        queue_packets,
        queue_bytes,
        delay: args.delay.unwrap_or_default(),
        loss: args.loss.unwrap_or_default(),
        duplicate: args.dup.unwrap_or_default(),
        corrupt: args.corrupt.unwrap_or_default(),
        reorder: args.reorder.unwrap_or_default(),
        mark: args.mark.unwrap_or_default(),
        mark_above: args.mark_above,
        ..plain
    };
    (settings != plain).then_some(settings)
}

/// What `io::Error` a name that stands for no address gives, in words.
pub(crate) fn unresolved(host: &str, error: &io::Error) -> Failure {
    Failure::new(Exit::Unreachable, format!("{host:?} stands for no address: {error}"))
        .remedy(format!("see what the name server says (getent hosts {host}), or give the address itself"))
}

/// How long an interface may take to come up.
const LINK_WAIT: Duration = Duration::from_secs(5);
const LINK_POLL: Duration = Duration::from_millis(50);

/// The chances of an impairment without `--seed` are the same each time, too: a run can be repeated.
const SEED: u64 = 1;

const BUFFER_SIZES: std::ops::RangeInclusive<usize> = (4 << 10)..=(1 << 30);

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour_of(cidr: &str) -> Option<String> {
        neighbour(cidr.parse().unwrap()).map(|addr| addr.to_string())
    }

    #[test]
    fn the_kernel_takes_the_first_other_host() {
        assert_eq!(neighbour_of("10.9.0.2/24").as_deref(), Some("10.9.0.1"));
        assert_eq!(neighbour_of("10.9.0.1/24").as_deref(), Some("10.9.0.2"));
        assert_eq!(neighbour_of("fd00::2/64").as_deref(), Some("fd00::1"));
        assert_eq!(neighbour_of("10.9.0.7/31").as_deref(), Some("10.9.0.6"));
    }

    #[test]
    fn a_network_of_one_has_no_other_host() {
        assert_eq!(neighbour_of("10.9.0.2/32"), None);
        assert_eq!(neighbour_of("fd00::2/128"), None);
    }

    #[test]
    fn the_kernel_owns_loopback() {
        assert!(kernel_owns(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(!kernel_owns(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77))));
    }
}
