//! A TUN device between a stack and the kernel.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use ackclock::{Stack, TcpConfig};
use ackclock_device::impair::{Impaired, Network, Settings};
use ackclock_device::{Device, OffloadMode, OpenError, configure};

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// 10.9.0.0/24
    V4,
    /// fd09::/64
    V6,
}

impl Family {
    /// The kernel's address with a port.
    #[must_use]
    pub fn kernel(self, port: u16) -> SocketAddr {
        SocketAddr::new(parsed(if self == Self::V4 { "10.9.0.1" } else { "fd09::1" }), port)
    }

    /// The stack's address with a port.
    #[must_use]
    pub fn stack(self, port: u16) -> SocketAddr {
        SocketAddr::new(parsed(if self == Self::V4 { "10.9.0.2" } else { "fd09::2" }), port)
    }
}

/// Opens `tun0` in the namespace of the calling thread and gives the kernel its addresses there.
///
/// # Panics
/// The kernel refuses.
pub fn open_tun(mode: OffloadMode) -> Box<dyn Device> {
    let (device, fell_back) = open_when_free(mode).expect("the device opens");
    assert_eq!(fell_back, None);
    let kernel_v4 = "10.9.0.1/24".parse().expect("an address with a prefix");
    let kernel_v6 = "fd09::1/64".parse().expect("an address with a prefix");
    configure::configure(TUN).address(kernel_v4).apply().expect("tun0 takes an IPv4 address");
    configure::add_address(TUN, kernel_v6, None).expect("tun0 takes an IPv6 address");
    wait_until_local("fd09::1");
    device
}

/// A child that another test of this process is just starting holds all descriptors until its `exec`, so a
/// closed device may be in use for a moment longer.
fn open_when_free(mode: OffloadMode) -> Result<(Box<dyn Device>, Option<String>), OpenError> {
    for _ in 0..100 {
        match ackclock_device::open(TUN, mode) {
            Err(OpenError::Busy { .. }) => std::thread::sleep(Duration::from_millis(10)),
            opened => return opened,
        }
    }
    ackclock_device::open(TUN, mode)
}

/// A stack behind `device`.
///
/// # Panics
/// Not called on a runtime.
pub fn stack_on(device: impl Device + 'static, tcp: TcpConfig) -> Stack {
    Stack::builder()
        .device(device)
        .address("10.9.0.2/24".parse().expect("an address with a prefix"))
        .address("fd09::2/64".parse().expect("an address with a prefix"))
        .tcp(tcp)
        .spawn()
        .expect("the stack starts")
}

/// The usual stack on the usual device.
pub fn stack(mode: OffloadMode) -> Stack {
    stack_on(open_tun(mode), TcpConfig::default())
}

/// The usual stack behind a network with the same impairments in both directions.
///
/// # Panics
/// The settings are not valid.
pub fn impaired_stack(mode: OffloadMode, seed: u64, settings: Settings, tcp: TcpConfig) -> (Stack, Network) {
    let device = Impaired::new(open_tun(mode), seed, settings, settings).expect("valid settings");
    let network = device.handle();
    (stack_on(device, tcp), network)
}

/// Waits for `future` for at most `limit`; if it takes longer, fails and prints the stack's connections.
///
/// # Panics
/// It takes longer.
pub async fn within<T>(limit: Duration, stack: &Stack, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, future).await {
        Ok(value) => value,
        Err(_) => panic!("not done after {limit:?}: {:#?}\n{:#?}", stack.connections(), stack.counters()),
    }
}

/// Prints how fast a transfer was, for `--nocapture`; no test depends on it.
pub fn report(what: &str, bytes: u64, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    println!("{what}: {seconds:.2} s, {:.2} Gbit/s", bytes as f64 * 8e-9 / seconds);
}

/// The kernel inserts the local route of an IPv6 address from a work queue, after it has acknowledged the
/// address.
fn wait_until_local(addr: &str) {
    let is_local = || {
        let output = Command::new("ip").args(["-6", "route", "get", addr]).output().expect("ip can be run");
        output.stdout.starts_with(b"local ")
    };
    let until = Instant::now() + Duration::from_secs(20);
    while !is_local() {
        assert!(Instant::now() < until, "{addr} never becomes local");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn parsed(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The device's name; each test has its own namespace.
pub const TUN: &str = "tun0";
