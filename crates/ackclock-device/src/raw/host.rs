//! Checks of a raw device's addresses on the host.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::sys::{self, Interface};
use super::{Ports, RawError};
use crate::configure;

/// Fails unless packets to `addr` end at this host.
pub(super) fn check_local(addr: IpAddr) -> Result<(), RawError> {
    match configure::is_local(addr) {
        Ok(true) => Ok(()),
        Ok(false) => Err(RawError::NotLocal { addr }),
        Err(source) => Err(RawError::from_io("asking for the route to its address", source)),
    }
}

/// Fails if the kernel has sockets that the device would cut off.
pub(super) fn check_unused(addresses: &[IpAddr], ports: &Ports) -> Result<(), RawError> {
    let tables: &[&str] =
        if matches!(ports, Ports::All) { &["tcp", "tcp6", "udp", "udp6"] } else { &["tcp", "tcp6"] };
    for name in tables {
        // A kernel without IPv6 lacks some of them.
        let table = fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        for (addr, port) in table.lines().skip(1).filter_map(|line| socket(line, name.starts_with("udp"))) {
            let taken = match ports {
                // For a whole address: sockets that listen on all addresses keep working on the others.
                Ports::All => addresses.contains(&addr),
                Ports::Range(range) => {
                    range.contains(&port) && (addr.is_unspecified() || addresses.contains(&addr))
                }
            };
            if taken {
                return Err(RawError::InUse { addr, port });
            }
        }
    }
    Ok(())
}

/// Address and port in a line of `/proc/net/tcp`, `udp` or their IPv6 equivalents, unless a TCP socket is in
/// TIME-WAIT or closed: proc(5).
fn socket(line: &str, is_udp: bool) -> Option<(IpAddr, u16)> {
    let mut words = line.split_whitespace();
    let (addr, port) = words.nth(1)?.split_once(':')?;
    if matches!(words.nth(1)?, "06" | "07") && !is_udp {
        return None;
    }
    let port = u16::from_str_radix(port, 16).ok()?;
    // Words of 32 bits in host order of what is in network order.
    let words: Option<Vec<[u8; 4]>> = (0..addr.len() / 8)
        .map(|word| {
            let word = addr.get(word * 8..word * 8 + 8)?;
            u32::from_str_radix(word, 16).ok().map(u32::to_ne_bytes)
        })
        .collect();
    let addr: IpAddr = match *words? {
        [v4] => v4.into(),
        [a, b, c, d] => {
            let octets: [u8; 16] = [a, b, c, d].concat().try_into().ok()?;
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some((addr, port))
}

/// The interface whose MTU applies to the device: the one with one of its addresses. If there is none, or
/// only the loopback interface, packets may leave by any other: then the one with the smallest MTU.
pub(super) fn interface(addresses: &[IpAddr]) -> io::Result<Option<String>> {
    let all = sys::interfaces()?;
    let is = |interface: &Interface, flag: libc::c_int| interface.flags & flag as u32 != 0; // a single bit
    let leads_out = |interface: &&Interface| !is(interface, libc::IFF_LOOPBACK);
    let has = |interface: &&Interface| interface.addr.is_some_and(|addr| addresses.contains(&addr));
    if let Some(own) = all.iter().filter(leads_out).find(has) {
        return Ok(Some(own.name.clone()));
    }
    let up = |interface: &&Interface| is(interface, libc::IFF_UP);
    let mtu =
        |interface: &&Interface| configure::link_state(&interface.name).map_or(u32::MAX, |state| state.mtu);
    let smallest = all.iter().filter(leads_out).filter(up).min_by_key(mtu);
    let loopback = || all.iter().find(|interface| is(interface, libc::IFF_LOOPBACK));
    Ok(smallest.or_else(loopback).map(|interface| interface.name.clone()))
}

/// The address at `at` in an IPv4 or IPv6 header; the family gives its length.
pub(super) fn destination(header: &[u8]) -> Option<IpAddr> {
    match header.first()? >> 4 {
        4 => header.get(16..)?.first_chunk().map(|octets: &[u8; 4]| Ipv4Addr::from(*octets).into()),
        6 => header.get(24..)?.first_chunk().map(|octets: &[u8; 16]| Ipv6Addr::from(*octets).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_the_kernel_are_read() {
        let listening = "   0: 0100007F:1B58 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1";
        assert_eq!(socket(listening, false), Some(("127.0.0.1".parse().unwrap(), 7000)));
        let v6 = "   1: 0000000000000000FFFF00000100007F:0016 00000000000000000000000000000000:0000 01 0";
        assert_eq!(socket(v6, false), Some(("127.0.0.1".parse().unwrap(), 22)));
        let any = "   1: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0";
        assert_eq!(socket(any, false), Some(("::".parse().unwrap(), 22)));
        assert_eq!(
            socket("   0: 0100007F:1B58 0100007F:0016 06 0", false),
            None,
            "TIME-WAIT holds nothing back"
        );
        let udp = "   0: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 1 2";
        assert_eq!(socket(udp, true), Some(("127.0.0.1".parse().unwrap(), 53)));
        assert_eq!(socket("nonsense", false), None);
    }
}
