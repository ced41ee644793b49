//! Serves what `tun-peer` serves, on the kernel's sockets, so that the two can be compared. It runs in its
//! own network namespace.

#![forbid(unsafe_code)]

use std::path::Path;
use std::time::{Duration, Instant};

use ackclock_benches::over_tun::{self, DEVICE, OWN};
use ackclock_device::configure::{Cidr, configure};
use ackclock_device::netns;
use anyhow::Context as _;
use clap::Parser;

/// Serves a sink, a source, an echo and a close with the kernel's sockets, behind device pft0 of a network of
/// its own, into which someone else puts that device.
#[derive(Parser)]
struct Options {
    /// End with the standard input.
    #[arg(long)]
    until_eof: bool,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    netns::enter_private()?;
    if options.until_eof {
        over_tun::end_with_input();
    }
    let deadline = Instant::now() + PATIENCE;
    while !Path::new("/proc/sys/net/ipv4/conf").join(DEVICE).exists() {
        anyhow::ensure!(
            Instant::now() < deadline,
            "this network got no device {DEVICE}; start it by over-tun --program kernel"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    configure(DEVICE).address(Cidr::new(OWN, 24)?).apply().context("the device cannot be configured")?;
    Ok(over_tun::serve_kernel()?)
}

const PATIENCE: Duration = Duration::from_secs(5);
