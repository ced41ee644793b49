//! Addresses of the Ethernet layer.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// An Ethernet (IEEE 802) address.
///
/// ```
/// use ackclock_link::MacAddr;
/// let mac: MacAddr = "02:00:5e:10:00:01".parse()?;
/// assert!(mac.is_unicast());
/// assert_eq!(mac.to_string(), "02:00:5e:10:00:01");
/// # Ok::<(), ackclock_link::MacError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr([u8; 6]);

impl MacAddr {
    /// All stations on the link.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// No station.
    pub const ZERO: Self = Self([0; 6]);

    /// The address with these octets, in the order in which they are sent.
    #[must_use]
    pub const fn new(octets: [u8; 6]) -> Self {
        Self(octets)
    }

    /// Its octets.
    #[must_use]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// A unicast address with the bit for "locally administered", its other 46 bits taken from `seed`.
    #[must_use]
    pub const fn local(seed: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = seed.to_be_bytes();
        Self([(a & 0xfc) | LOCAL, b, c, d, e, f])
    }

    /// Whether it names a group of stations, the broadcast address included.
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0[0] & GROUP != 0
    }

    /// Whether it can be the address of one station.
    #[must_use]
    pub const fn is_unicast(self) -> bool {
        !self.is_group() && !matches!(self.0, [0, 0, 0, 0, 0, 0])
    }

    /// The group that carries the IP multicast group `group` (RFC 1112 §6.4, RFC 2464 §7).
    #[must_use]
    pub const fn of_group(group: IpAddr) -> Self {
        match group {
            IpAddr::V4(group) => {
                let [_, b, c, d] = group.octets();
                Self([1, 0, 0x5e, b & 0x7f, c, d])
            }
            IpAddr::V6(group) => {
                let [.., a, b, c, d] = group.octets();
                Self([0x33, 0x33, a, b, c, d])
            }
        }
    }

    /// The interface identifier made from this address (modified EUI-64: RFC 2464 §4).
    #[must_use]
    pub const fn interface_id(self) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.0;
        [a ^ LOCAL, b, c, 0xff, 0xfe, d, e, f]
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddr {
    type Err = MacError;

    /// Six pairs of hexadecimal digits with colons between them.
    fn from_str(text: &str) -> Result<Self, MacError> {
        let wrong = || MacError(text.to_owned());
        let mut parts = text.split(':');
        let mut octets = [0; 6];
        for octet in &mut octets {
            let is_pair = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            let part = parts.next().filter(is_pair).ok_or_else(wrong)?;
            *octet = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Self(octets)) }
    }
}

/// A text that is not an Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an Ethernet address; write it as in 02:00:5e:10:00:01")]
pub struct MacError(String);

/// The solicited-node multicast address of `addr` (RFC 4291 §2.7.1).
pub(crate) const fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., b, c, d] = addr.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, u16::from_be_bytes([0xff, b]), u16::from_be_bytes([c, d]))
}

const GROUP: u8 = 1;
const LOCAL: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_not_an_address_is_refused() {
        for text in [
            "",
            "02:00:5e:10:00",
            "02:00:5e:10:00:01:02",
            "2:0:5e:10:0:1",
            "02-00-5e-10-00-01",
            "+2:00:5e:10:00:01",
        ] {
            let parsed = text.parse::<MacAddr>();
            assert!(parsed.is_err(), "{text:?} gives {parsed:?}");
        }
    }

    #[test]
    fn groups_are_mapped_as_the_rfcs_say() {
        let mac = |group: &str| MacAddr::of_group(group.parse().unwrap()).to_string();
        assert_eq!(mac("224.128.0.251"), "01:00:5e:00:00:fb");
        assert_eq!(mac("ff02::1:ff28:9c5a"), "33:33:ff:28:9c:5a");
        assert_eq!(
            solicited_node("fe80::2aa:ff:fe28:9c5a".parse().unwrap()).to_string(),
            "ff02::1:ff28:9c5a"
        );
    }

    #[test]
    fn an_interface_identifier_has_the_local_bit_inverted() {
        let mac: MacAddr = "34:56:78:9a:bc:de".parse().unwrap();
        assert_eq!(mac.interface_id(), [0x36, 0x56, 0x78, 0xff, 0xfe, 0x9a, 0xbc, 0xde]);
    }

    #[test]
    fn an_address_made_here_is_local_and_unicast() {
        for seed in [0, u64::MAX, 0x0123_4567_89ab_cdef] {
            let mac = MacAddr::local(seed);
            assert!(mac.is_unicast() && mac.octets()[0] & LOCAL != 0, "{mac}");
        }
        assert!(MacAddr::BROADCAST.is_group() && !MacAddr::ZERO.is_unicast());
    }
}
