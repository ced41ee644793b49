//! An address and how many of its first bits name its network.

use std::net::IpAddr;

/// An address with the length of its network's prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    addr: IpAddr,
    len: u8,
}

impl Prefix {
    /// `addr` in a network whose prefix has `len` bits; a length beyond the address's counts as all.
    #[must_use]
    pub fn new(addr: IpAddr, len: u8) -> Self {
        Self { addr, len: len.min(bits(addr)) }
    }

    /// The address.
    #[must_use]
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    /// The prefix's length in bits.
    #[must_use]
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Whether the prefix has no bits, so that every address of its family lies in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `addr` lies in the network.
    #[must_use]
    pub fn contains(&self, addr: IpAddr) -> bool {
        match (self.addr, addr) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let differ = a.to_bits() ^ b.to_bits();
                differ.leading_zeros() >= u32::from(self.len)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let differ = a.to_bits() ^ b.to_bits();
                differ.leading_zeros() >= u32::from(self.len)
            }
            _ => false,
        }
    }

    /// Whether `addr` is the directed broadcast address of this IPv4 network; prefixes of 31 and 32 bits have
    /// none (RFC 3021).
    #[must_use]
    pub fn is_broadcast(&self, addr: IpAddr) -> bool {
        let IpAddr::V4(addr) = addr else { return false };
        let host = u32::MAX.checked_shr(u32::from(self.len)).unwrap_or(0);
        self.len < 31 && self.contains(addr.into()) && addr.to_bits() & host == host
    }
}

fn bits(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(addr: &str, len: u8) -> Prefix {
        Prefix::new(addr.parse().unwrap(), len)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_contains_what_shares_its_first_bits() {
        for (network, inside, outside) in [
            (prefix("10.9.0.2", 24), "10.9.0.255", "10.9.1.0"),
            (prefix("10.9.0.2", 32), "10.9.0.2", "10.9.0.3"),
            (prefix("fd09::2", 64), "fd09::ffff:0:0:1", "fd09:0:0:1::"),
            (prefix("0.0.0.0", 0), "203.0.113.1", "::1"),
        ] {
            assert!(network.contains(ip(inside)), "{network:?} {inside}");
            assert!(!network.contains(ip(outside)), "{network:?} {outside}");
        }
    }

    #[test]
    fn only_the_last_address_of_a_large_ipv4_network_is_its_broadcast() {
        assert!(prefix("10.9.0.2", 24).is_broadcast(ip("10.9.0.255")));
        assert!(!prefix("10.9.0.2", 24).is_broadcast(ip("10.9.0.254")));
        assert!(!prefix("10.9.0.2", 24).is_broadcast(ip("10.9.1.255")));
        assert!(!prefix("10.9.0.2", 31).is_broadcast(ip("10.9.0.3")));
        assert!(!prefix("fd09::2", 64).is_broadcast(ip("fd09::ffff:ffff:ffff:ffff")));
    }
}
