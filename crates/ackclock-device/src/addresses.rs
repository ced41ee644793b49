//! Addresses of this machine, on every system.

use std::net::{IpAddr, UdpSocket};

/// Whether `addr` is an address of this machine's kernel, in the network namespace of the calling thread.
#[must_use]
pub fn kernel_has(addr: IpAddr) -> bool {
    // Binding sends nothing.
    UdpSocket::bind((addr, 0)).is_ok()
}
