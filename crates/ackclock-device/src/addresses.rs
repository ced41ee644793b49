//! Addresses of this machine, on every system.

use std::net::{IpAddr, UdpSocket};

/// Whether `addr` is an address of this machine's kernel, in the network namespace of the calling thread.
#[must_use]
pub fn kernel_has(addr: IpAddr) -> bool {
    // Asked first: in a namespace that has no IPv4 address yet, Linux lets a socket bind every one.
    #[cfg(feature = "os")]
    if let Ok(is_local) = crate::configure::is_local(addr) {
        return is_local;
    }
    // Binding sends nothing.
    UdpSocket::bind((addr, 0)).is_ok()
}
