//! The ceiling for a stack over TUN: a responder that serves what `tun-peer` serves, without the work of a
//! TCP.

#![forbid(unsafe_code)]

use ackclock_benches::over_tun::{self, DEVICE, KERNEL, Null};
use ackclock_device::configure::{Cidr, configure};
use clap::Parser;

/// Answers like a TCP over TUN device pft0 and does nothing else.
#[derive(Parser)]
struct Options {
    /// With a virtio-net header, and packets of 64 KB whole.
    #[arg(long)]
    offload: bool,
    /// End with the standard input.
    #[arg(long)]
    until_eof: bool,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Options { offload, until_eof } = Options::parse();
    if until_eof {
        over_tun::end_with_input();
    }
    let null = Null::open(offload)?;
    configure(DEVICE).address(Cidr::new(KERNEL, 24)?).apply()?;
    Ok(null.serve()?)
}
