//! The ceiling for a stack over TUN: a responder that serves what `tun-peer` serves, without the work of a
//! TCP.
//!
//! `tun-null [--offload] [--until-eof]`

#![forbid(unsafe_code)]

use ackclock_benches::over_tun::{self, DEVICE, KERNEL, Null};
use ackclock_device::configure::{Cidr, configure};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let flag = |name| std::env::args().any(|arg| arg == name);
    if flag("--until-eof") {
        over_tun::end_with_input();
    }
    let null = Null::open(flag("--offload"))?;
    configure(DEVICE, Cidr::new(KERNEL, 24)?, None, None)?;
    Ok(null.serve()?)
}
