//! A stack on one end of a veth pair whose other end is the kernel of another namespace.
//!
//! ```text
//! near: the stack, by a device on `wire` ─── veth ─── `peer`: the kernel in `far`
//! 10.9.0.2, fd09::2                                   10.9.0.1, fd09::1
//! ```
//!
//! A raw device uses the addresses of its host, so near's kernel has them in that case. A TAP device is a
//! port of a bridge in near whose other port is `wire`.

use std::io;
use std::process::Command;
use std::time::Duration;

use ackclock::{Stack, TcpStream};
use ackclock_device::configure::Cidr;
use ackclock_device::link::{Detection, LinkConfig, MacAddr};
use ackclock_device::{
    Device, EthernetDevice, EthernetOptions, LinkHandle, OffloadMode, OpenError, PacketDevice, PacketOptions,
    RawConfig, RawDevice, RawError, TapDevice, XdpDevice, XdpMode,
};
use tokio::io::AsyncWriteExt;
use tokio::net;
use tokio::runtime::Handle;

use super::payload::{Digest, receive, receive_some, send};
use super::scene::{Family, within};
use crate::devices::{Needs, in_namespaces_with};
use crate::netns::{Namespace, ip};

/// Which device the stack has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnWire {
    /// Raw and packet sockets, on addresses of the host.
    Raw,
    /// A packet socket with its own link layer.
    Packet,
    /// As a packet socket, over a TAP device.
    Tap,
    /// As a packet socket, by AF_XDP in the driver.
    Xdp,
}

impl OnWire {
    /// The features that the kernel must support for it.
    #[must_use]
    pub const fn needs(self) -> Needs {
        match self {
            Self::Raw => Needs::Raw,
            Self::Packet => Needs::Packet,
            Self::Tap => Needs::Tap,
            Self::Xdp => Needs::Xdp,
        }
    }

    /// The interface that this device is on.
    #[must_use]
    pub const fn interface(self) -> &'static str {
        if matches!(self, Self::Tap) { TAP } else { "wire" }
    }

    /// Opens the device, with the handle of its link layer if it has its own: one that checks its neighbours
    /// every second instead of every half minute.
    ///
    /// # Panics
    /// The kernel refuses.
    pub async fn open(self) -> (Box<dyn Device>, Option<LinkHandle>) {
        match self {
            Self::Raw => {
                ip("addr add 10.9.0.2/24 dev wire");
                ip("-6 addr add fd09::2/64 dev wire nodad");
                let addresses = [Family::V4, Family::V6].map(|family| family.stack(0).ip());
                (Box::new(open_raw(&RawConfig::new(addresses))), None)
            }
            Self::Packet => {
                let mac = PacketDevice::own_mac("wire", "impatient").expect("an address");
                let options = PacketOptions { mac: Some(mac), ..PacketOptions::default() };
                let (device, _) = PacketDevice::open("wire", options).expect("the device opens");
                let device = EthernetDevice::new(device, impatient(mac));
                let link = device.handle();
                (Box::new(device), Some(link))
            }
            Self::Xdp => {
                let mac = PacketDevice::own_mac("wire", "impatient").expect("an address");
                let options = PacketOptions { mac: Some(mac), ..PacketOptions::default() };
                let opened = XdpDevice::open_queues("wire", options, XdpMode::Native, 1);
                let device = opened.expect("the device opens").0.remove(0);
                let device = EthernetDevice::new(device, impatient(mac));
                let link = device.handle();
                (Box::new(device), Some(link))
            }
            Self::Tap => {
                let device = open_when_free(|| TapDevice::open(TAP, OffloadMode::On)).await.0;
                ip("link add br0 type bridge");
                for port in [TAP, "wire"] {
                    ip(&format!("link set {port} master br0 up"));
                }
                ip("link set br0 up");
                let mac = device.own_mac();
                let device = EthernetDevice::new(device, impatient(mac));
                let link = device.handle();
                (Box::new(device), Some(link))
            }
        }
    }
}

/// Makes a test of each function named for each device, in a module of the device's name.
#[macro_export]
macro_rules! on_each_device {
    ($($case:ident),+) => {
        $crate::on_devices! { ($($case)+) raw = Raw, packet = Packet, tap = Tap, xdp = Xdp }
    };
}

/// The modules of [`on_each_device!`](crate::on_each_device).
#[doc(hidden)]
#[macro_export]
macro_rules! on_devices {
    ($cases:tt $($name:ident = $device:ident),+) => {
        $(mod $name { $crate::on_devices! { @tests $cases $device } })+
    };
    (@tests ($($case:ident)+) $device:ident) => {
        use $crate::kernel::wire::{OnWire::$device, on_a_wire};
        $(
            #[test]
            fn $case() {
                on_a_wire($device.needs(), |near, far| super::$case($device, near, far));
            }
        )+
    };
}

/// Runs `scene` with a stack's namespace and a kernel's, joined by a cable, unless a device that it needs
/// cannot work there; the kernel has its addresses.
pub fn on_a_wire(needs: Needs, scene: impl FnOnce(&Namespace, &Namespace)) {
    in_namespaces_with(needs, |[near, far]: [Namespace; 2]| {
        near.cable("wire", &far, "peer");
        // An address stays when its interface goes down; the neighbours of both kernels are checked soon.
        for (place, name) in [(&near, "wire"), (&far, "peer")] {
            place.run(async move { be_impatient(name) });
        }
        far.ip("addr add 10.9.0.1/24 dev peer");
        far.ip("-6 addr add fd09::1/64 dev peer nodad");
        wait_until(&far, "fd09::1");
        scene(&near, &far);
    });
}

/// Opens a device. A child that another test of this process is just starting holds all descriptors until its
/// `exec`, so a closed device may be in use for a moment longer.
///
/// # Panics
/// It cannot be opened.
pub async fn open_when_free<D>(mut open: impl FnMut() -> Result<D, OpenError>) -> D {
    for _ in 0..100 {
        match open() {
            Err(OpenError::Busy { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            opened => return opened.expect("the device opens"),
        }
    }
    panic!("the device stays in use");
}

/// The stack's two addresses.
///
/// # Panics
/// Never.
#[must_use]
pub fn addressed() -> EthernetOptions {
    let addresses = ["10.9.0.2/24", "fd09::2/64"].map(|text| text.parse().expect("an address"));
    addresses.into_iter().fold(EthernetOptions::new(), EthernetOptions::address)
}

/// A raw device. The kernel inserts the local route of an IPv6 address from a work queue, after it has
/// acknowledged the address.
///
/// # Panics
/// The device cannot be opened.
#[must_use]
pub fn open_raw(config: &RawConfig) -> RawDevice {
    for _ in 0..500 {
        match RawDevice::open(config) {
            Err(RawError::NotLocal { .. }) => std::thread::sleep(Duration::from_millis(2)),
            opened => return opened.expect("the device opens"),
        }
    }
    RawDevice::open(config).expect("the device opens")
}

/// A stack with these queues moves data both ways, on one connection and on eight.
///
/// # Panics
/// It does not.
pub async fn many_connections(queues: Vec<impl Device + 'static>, far: &Handle) {
    let builder = Stack::builder().queues(queues);
    let stack = [Family::V4, Family::V6].into_iter().fold(builder, |builder, family| {
        let prefix = if family == Family::V4 { 24 } else { 64 };
        builder.address(Cidr::up_to(family.stack(0).ip(), prefix))
    });
    let stack = stack.spawn().expect("a stack");
    both_ways(&stack, far, 1 << 20).await;
    let mut connections = Vec::new();
    for _ in 0..8 {
        connections.push(joined(&stack, far, Family::V6).await);
    }
    for (seed, (ours, theirs)) in (0..).zip(&mut connections) {
        within(LIMIT, &stack, transfer(ours, theirs, 100_000, seed)).await;
    }
    assert_eq!(stack.counters().dropped_tcp_checksum, 0);
}

/// Transfers of both families to the kernel and from it, over connections that the stack opens and that it
/// accepts.
///
/// # Panics
/// One fails, or what arrived is not what was sent.
pub async fn both_ways(stack: &Stack, kernel: &Handle, bytes: u64) {
    for family in [Family::V4, Family::V6] {
        let listener = kernel.spawn(net::TcpListener::bind(family.kernel(0))).await.unwrap().unwrap();
        let addr = listener.local_addr().unwrap();
        let theirs = kernel.spawn(async move { answer(listener.accept().await?.0, bytes).await });
        let mut ours = within(LIMIT, stack, stack.connect(addr)).await.unwrap();
        let sent = within(LIMIT, stack, send(&mut ours, bytes, 1)).await.unwrap();
        ours.shutdown().await.unwrap();
        let received = within(LIMIT, stack, receive(&mut ours)).await.unwrap();
        assert_eq!((sent, received), within(LIMIT, stack, theirs).await.unwrap().unwrap(), "{family:?}");

        let listener = stack.listen(family.stack(7000)).unwrap();
        let theirs = kernel
            .spawn(async move { answer(net::TcpStream::connect(family.stack(7000)).await?, bytes).await });
        let (mut ours, _) = within(LIMIT, stack, listener.accept()).await.unwrap();
        let sent = within(LIMIT, stack, send(&mut ours, bytes, 2)).await.unwrap();
        ours.shutdown().await.unwrap();
        let received = within(LIMIT, stack, receive(&mut ours)).await.unwrap();
        assert_eq!((sent, received), within(LIMIT, stack, theirs).await.unwrap().unwrap(), "{family:?}");
    }
}

/// A connection that the stack opens: its end and the kernel's.
///
/// # Panics
/// It cannot be opened.
pub async fn joined(stack: &Stack, kernel: &Handle, family: Family) -> (TcpStream, net::TcpStream) {
    let listener = kernel.spawn(net::TcpListener::bind(family.kernel(0))).await.unwrap().unwrap();
    let addr = listener.local_addr().unwrap();
    let accepted = kernel.spawn(async move { listener.accept().await });
    let ours = within(LIMIT, stack, stack.connect(addr)).await.unwrap();
    (ours, within(LIMIT, stack, accepted).await.unwrap().unwrap().0)
}

/// A transfer each way.
///
/// # Panics
/// One fails, or what arrived is not what was sent.
pub async fn transfer(ours: &mut TcpStream, theirs: &mut net::TcpStream, bytes: u64, seed: u64) {
    let (sent, received) = tokio::join!(send(ours, bytes, seed), receive_some(theirs, bytes));
    assert_eq!(received.unwrap(), sent.unwrap());
    let (sent, received) = tokio::join!(send(theirs, bytes, seed + 1), receive_some(ours, bytes));
    assert_eq!(received.unwrap(), sent.unwrap());
}

/// Waits until `done`.
///
/// # Panics
/// It takes too long.
pub async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !done() {
        assert!(began.elapsed() < LIMIT, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the kernel of a namespace treats an IPv6 address as local.
///
/// # Panics
/// It never does.
pub fn wait_until(namespace: &Namespace, addr: &'static str) {
    assert!(namespace.run(async move { (0..500).any(|_| is_local(addr)) }), "{addr} never becomes local");
}

/// Whether the kernel of the calling thread's namespace treats `addr` as local.
///
/// # Panics
/// `ip` cannot be run.
#[must_use]
pub fn is_local(addr: &str) -> bool {
    shown("ip", &format!("-6 route get {addr}")).starts_with("local ")
}

/// The output of a program, run in the namespace of the calling thread.
///
/// # Panics
/// It cannot be run.
#[must_use]
pub fn shown(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split(' ')).output().expect("it can be run");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The kernel reads a transfer to its end, then sends one.
async fn answer(mut stream: net::TcpStream, bytes: u64) -> io::Result<(Digest, Digest)> {
    let received = receive(&mut stream).await?;
    let sent = send(&mut stream, bytes, 3).await?;
    stream.shutdown().await?;
    Ok((received, sent))
}

/// A link with the stack's addresses that checks its neighbours every second.
fn impatient(mac: MacAddr) -> LinkConfig {
    let mut config = LinkConfig::new(mac);
    config.addresses =
        vec![Cidr::up_to(Family::V4.stack(0).ip(), 24), Cidr::up_to(Family::V6.stack(0).ip(), 64)];
    config.detection = Detection::Announce;
    config.timing.reachable = Duration::from_secs(1);
    config.timing.first_probe = Duration::from_millis(300);
    config.timing.retransmit = Duration::from_millis(300);
    config
}

/// Shortens the waits of the kernel in the calling thread's namespace.
fn be_impatient(interface: &str) {
    let set =
        |path: String, value: &str| std::fs::write(format!("/proc/sys/net/{path}"), value).expect(&path);
    for family in ["ipv4", "ipv6"] {
        for (name, value) in
            [("base_reachable_time_ms", "1000"), ("delay_first_probe_time", "1"), ("retrans_time_ms", "300")]
        {
            set(format!("{family}/neigh/{interface}/{name}"), value);
        }
    }
    set(format!("ipv6/conf/{interface}/keep_addr_on_down"), "1");
}

/// The stack's TAP device.
pub const TAP: &str = "tap0";

/// No wait of a test is longer.
pub const LIMIT: Duration = Duration::from_secs(60);
