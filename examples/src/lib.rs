//! Support code shared by the examples of this package.

#![forbid(unsafe_code)]

mod http;
pub mod sums;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use ackclock::Cidr;
use ackclock_device::configure::{self, configure};
use ackclock_device::{Device, OffloadMode, open};
use anyhow::Context;

pub use http::Client;

/// The address of the kernel's end of the examples' TUN devices.
pub const KERNEL: &str = "10.9.0.1/24";

/// The address of the stack's end.
pub const STACK: &str = "10.9.0.2/24";

/// Opens the TUN device `name`, creating it if it does not exist, and gives the kernel's end its address.
/// Needs `CAP_NET_ADMIN`: run it as root, or in your own network namespace.
///
/// # Errors
/// The device cannot be opened or configured; the message says what to do.
pub fn tun(name: &str) -> anyhow::Result<Box<dyn Device>> {
    let (device, fell_back) = open(name, OffloadMode::Auto)?;
    if let Some(why) = fell_back {
        eprintln!("{name} has no offload: {why}");
    }
    configure(name).stack(STACK.parse()?).address(KERNEL.parse()?).apply()?;
    Ok(device)
}

/// Has the kernel send packets for `network` through the TUN device `name`.
///
/// # Errors
/// The kernel refuses.
pub fn route(name: &str, network: Cidr) -> anyhow::Result<()> {
    configure::add_route(name, network).with_context(|| format!("routing {network} through {name}"))
}

/// The stack's address without its prefix.
///
/// # Panics
/// Never: the constant is well formed.
#[must_use]
pub fn stack_addr() -> IpAddr {
    STACK.parse::<Cidr>().expect("a well-formed constant").addr()
}

/// Measures how much real time has passed since this call, whatever tokio's clock says.
pub fn real_time() -> impl Fn() -> Duration {
    let began = Instant::now();
    move || began.elapsed()
}
