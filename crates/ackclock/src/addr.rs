//! Addresses with a prefix, as `ip addr` and `ip route` write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address and the length of its network's prefix: `10.0.0.1/24`, `fd00::1/64`.
///
/// ```
/// use ackclock::Cidr;
///
/// let network: Cidr = "10.0.0.1/24".parse()?;
/// assert!(network.contains("10.0.0.77".parse()?));
/// assert!(!network.contains("10.0.1.1".parse()?));
/// assert_eq!(network.broadcast(), Some("10.0.0.255".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    addr: IpAddr,
    prefix_len: u8,
}

impl Cidr {
    /// An address with a prefix length in bits.
    ///
    /// # Errors
    /// The prefix is longer than an address of the family: more than 32 or 128 bits.
    pub fn new(addr: IpAddr, prefix_len: u8) -> Result<Self, CidrError> {
        if prefix_len > width(addr) {
            return Err(CidrError::PrefixTooLong { prefix_len, longest: width(addr) });
        }
        Ok(Self { addr, prefix_len })
    }

    /// The address.
    #[must_use]
    pub fn addr(self) -> IpAddr {
        self.addr
    }

    /// The length of the prefix in bits.
    #[must_use]
    pub fn prefix_len(self) -> u8 {
        self.prefix_len
    }

    /// Whether `other` has the same family and prefix.
    #[must_use]
    pub fn contains(self, other: IpAddr) -> bool {
        match (self.addr, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()) & !self.host_mask_v4() == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let host = u128::MAX.checked_shr(u32::from(self.prefix_len)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & !host == 0
            }
            _ => false,
        }
    }

    /// The directed broadcast address of an IPv4 network; `None` for IPv6, and for prefixes of 31 and 32
    /// bits, which have none (RFC 3021).
    #[must_use]
    pub fn broadcast(self) -> Option<IpAddr> {
        match self.addr {
            IpAddr::V4(own) if self.prefix_len < 31 => {
                Some(Ipv4Addr::from_bits(own.to_bits() | self.host_mask_v4()).into())
            }
            _ => None,
        }
    }

    fn host_mask_v4(self) -> u32 {
        u32::MAX.checked_shr(u32::from(self.prefix_len)).unwrap_or(0)
    }
}

impl From<IpAddr> for Cidr {
    /// The address alone: a prefix of 32 or 128 bits.
    fn from(addr: IpAddr) -> Self {
        Self { addr, prefix_len: width(addr) }
    }
}

impl From<Ipv4Addr> for Cidr {
    fn from(addr: Ipv4Addr) -> Self {
        IpAddr::from(addr).into()
    }
}

impl From<Ipv6Addr> for Cidr {
    fn from(addr: Ipv6Addr) -> Self {
        IpAddr::from(addr).into()
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// Parses `ADDRESS/PREFIX`, or an address alone.
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let syntax = || CidrError::Syntax(text.to_owned());
        let Some((addr, prefix_len)) = text.split_once('/') else {
            return Ok(text.parse::<IpAddr>().map_err(|_| syntax())?.into());
        };
        let addr = addr.parse().map_err(|_| syntax())?;
        Self::new(addr, prefix_len.parse().map_err(|_| syntax())?)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix_len)
    }
}

/// Why a text or a pair is not an address with a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CidrError {
    /// Not of the form `ADDRESS/PREFIX`.
    #[error("`{0}` is not an address with a prefix: write it as 10.0.0.1/24 or fd00::1/64")]
    Syntax(String),
    /// More bits than the address has.
    #[error("a prefix of {prefix_len} bits is too long: at most {longest}")]
    PrefixTooLong {
        /// The length asked for.
        prefix_len: u8,
        /// The longest for this family.
        longest: u8,
    },
}

fn width(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn a_default_route_contains_every_address_of_its_family() {
        assert!(cidr("0.0.0.0/0").contains("203.0.113.9".parse().unwrap()));
        assert!(cidr("::/0").contains("2001:db8::1".parse().unwrap()));
        assert!(!cidr("0.0.0.0/0").contains("2001:db8::1".parse().unwrap()));
    }

    #[test]
    fn a_bare_address_contains_only_itself() {
        let host = cidr("fd00::1");
        assert_eq!(host.prefix_len(), 128);
        assert!(host.contains("fd00::1".parse().unwrap()));
        assert!(!host.contains("fd00::2".parse().unwrap()));
        assert_eq!(cidr("10.0.0.1").broadcast(), None);
    }

    #[test]
    fn text_that_is_no_cidr_is_refused_with_the_form_that_would_do() {
        for text in ["", "10.0.0.1/", "10.0.0/24", "10.0.0.1/x", "10.0.0.1/24/1"] {
            assert_eq!(text.parse::<Cidr>(), Err(CidrError::Syntax(text.to_owned())));
        }
        assert_eq!(
            "10.0.0.1/33".parse::<Cidr>(),
            Err(CidrError::PrefixTooLong { prefix_len: 33, longest: 32 })
        );
    }

    #[test]
    fn display_is_what_is_parsed() {
        for text in ["10.1.2.3/8", "fd00::7/64"] {
            assert_eq!(cidr(text).to_string(), text);
        }
    }
}
