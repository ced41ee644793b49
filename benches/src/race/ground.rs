//! Two hosts, each a network namespace, and the emulated path between them.
//!
//! On each side the kernel has an address on the path's TUN device. A stack in user space has another address
//! behind the kernel, on a second TUN device; the kernel forwards between the two. So what a stack sends
//! crosses one device and one route more than what the kernel sends.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::OnceLock;

use ackclock::trace::TraceConfig;
use ackclock::{Stack, TcpConfig};
use ackclock_device::{OffloadMode, configure, open};
use ackclock_tests::netns::{Namespace, ip};

use super::cell::{Cell, Party};
use super::emulator::{Emulator, PathReport};
use super::record::Recording;
use super::tun::Tun;

/// The two hosts and the path.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) near: Host,
    pub(super) far: Host,
    pub(super) path: Emulator,
}

/// One of the hosts.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) namespace: Namespace,
    side: u8,
    /// Started by the first call that needs it.
    stack: OnceLock<Stack>,
}

impl Ground {
    /// Makes hosts and path. The near host's kernel uses `controller` towards the far host.
    pub(super) fn build(cell: &Cell, seed: u64, pcap: Option<&Path>) -> io::Result<Self> {
        let (near, far) = (Host::new(1)?, Host::new(2)?);
        let near_end = near.connect(&far, Some(&cell.controller))?;
        let far_end = far.connect(&near, None)?;
        let recording = pcap.map(Recording::create).transpose()?;
        let path = Emulator::start([near_end, far_end], cell.lanes(seed), recording)?;
        Ok(Self { near, far, path })
    }

    /// Ends it.
    pub(super) fn finish(self) -> io::Result<PathReport> {
        self.path.finish()
    }
}

impl Host {
    fn new(side: u8) -> io::Result<Self> {
        let namespace = Namespace::new()?;
        for (name, value) in SETTINGS {
            namespace.sysctl(name, value);
        }
        Ok(Self { namespace, side, stack: OnceLock::new() })
    }

    /// Makes this host's end of the path, which leads to all addresses of `other`.
    fn connect(&self, other: &Self, controller: Option<&str>) -> io::Result<Tun> {
        let tun = self.namespace.run(async { Tun::open(PATH) })?;
        self.namespace.ip(&format!("addr add {}/24 dev {PATH}", self.address(Party::Linux)));
        self.namespace.ip(&format!("link set {PATH} mtu 1500 txqueuelen {QUEUE} up"));
        let chosen = controller.map_or_else(String::new, |name| format!(" congctl {name}"));
        self.namespace.ip(&format!("route add 10.{}.0.0/16 dev {PATH}{chosen}", other.side * 10));
        Ok(tun)
    }

    /// Where the kernel or the stack is.
    pub(super) fn address(&self, party: Party) -> Ipv4Addr {
        match party {
            Party::Linux => Ipv4Addr::new(10, self.side * 10, 1, 1),
            Party::Ackclock => Ipv4Addr::new(10, self.side * 10, 2, 2),
        }
    }

    pub(super) fn listens_at(&self, party: Party, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(party).into(), port)
    }

    /// The stack behind this host; the first call decides its configuration.
    pub(super) fn stack(&self, controller: Option<&str>, trace: Option<TraceConfig>) -> Stack {
        self.stack.get_or_init(|| self.start_stack(controller, trace)).clone()
    }

    fn start_stack(&self, controller: Option<&str>, trace: Option<TraceConfig>) -> Stack {
        let address = format!("{}/24", self.address(Party::Ackclock)).parse().expect("an address");
        let gateway = format!("10.{}.2.1/24", self.side * 10).parse().expect("an address");
        let controller = controller.map(str::to_owned);
        self.namespace.run(async move {
            let (device, _) = open(STACK, OffloadMode::On).expect("a TUN device with offload");
            ip(&format!("link set {STACK} txqueuelen {QUEUE}"));
            configure::configure(STACK).address(gateway).mtu(1500).apply().expect("an address for it");
            let tcp =
                TcpConfig { send_buffer_max: BUFFER, receive_buffer_max: BUFFER, ..TcpConfig::default() };
            let mut builder = Stack::builder().device(device).address(address).tcp(tcp);
            if let Some(name) = controller {
                builder = builder.congestion_control(name.as_str()).expect("a controller");
            }
            if let Some(trace) = trace {
                builder = builder.trace(trace);
            }
            builder.spawn().expect("the stack starts")
        })
    }

    /// The packets that the kernel of this host drops in front of its devices because the emulator or the
    /// stack is too slow.
    pub(super) fn dropped(&self) -> u64 {
        let read = async { std::fs::read_to_string("/proc/thread-self/net/dev") };
        let table = self.namespace.run(read).unwrap_or_default();
        let dropped = |line: &str| {
            let (name, counts) = line.trim().split_once(':')?;
            // The twelfth field: dropped when sending.
            let count: u64 = counts.split_whitespace().nth(11)?.parse().ok()?;
            [PATH, STACK].contains(&name).then_some(count)
        };
        table.lines().filter_map(dropped).sum()
    }

    /// Counters of the kernel's TCP on this host: `TcpExt` of `/proc/net/netstat`.
    pub(super) fn netstat(&self, names: &[&str]) -> Vec<u64> {
        let read = async { std::fs::read_to_string("/proc/thread-self/net/netstat") };
        let text = self.namespace.run(read).unwrap_or_default();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
        let (heads, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
        let value = |name: &&str| {
            let at = heads.split_whitespace().position(|head| head == *name)?;
            values.split_whitespace().nth(at)?.parse().ok()
        };
        names.iter().map(|name| value(name).unwrap_or(0)).collect()
    }
}

const PATH: &str = "path0";
const STACK: &str = "tun0";
/// Packets that can wait in front of each device: enough that the kernel drops none, and only the path loses
/// packets.
const QUEUE: u32 = 50_000;
/// Of the stack, in each direction; the same limit as the kernel's.
const BUFFER: usize = 64 << 20;
/// The kernel's settings: room for the longest path, and no metrics kept from one connection to the next.
const SETTINGS: [(&str, &str); 6] = [
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv4/tcp_rmem", "4096 131072 67108864"),
    ("net/ipv4/tcp_wmem", "4096 16384 67108864"),
    ("net/ipv4/tcp_no_metrics_save", "1"),
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
];
