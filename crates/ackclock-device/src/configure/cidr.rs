//! An address with its prefix length.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address with its prefix length, as in `10.9.0.1/24`.
///
/// ```
/// use ackclock_device::configure::Cidr;
/// let cidr: Cidr = "10.9.0.1/24".parse()?;
/// assert_eq!(cidr.network().to_string(), "10.9.0.0/24");
/// assert!("10.9.0.1/33".parse::<Cidr>().is_err());
/// assert!("10.9.0.1".parse::<Cidr>().is_err(), "10.9.0.1/32 has no other host");
/// # Ok::<(), ackclock_device::configure::CidrError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    addr: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// `addr` with a prefix of `prefix` bits.
    ///
    /// # Errors
    /// The prefix is longer than the address.
    pub fn new(addr: IpAddr, prefix: u8) -> Result<Self, CidrError> {
        if prefix <= bits(addr) {
            Ok(Self { addr, prefix })
        } else {
            Err(CidrError::Prefix(prefix.to_string()))
        }
    }

    /// The address.
    #[must_use]
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    /// The prefix's length in bits.
    #[must_use]
    pub fn prefix_len(&self) -> u8 {
        self.prefix
    }

    /// The network: all bits after the prefix are zero.
    #[must_use]
    pub fn network(&self) -> Self {
        let host_bits = u32::from(bits(self.addr) - self.prefix);
        let addr = match self.addr {
            IpAddr::V4(addr) => {
                IpAddr::V4(Ipv4Addr::from_bits(addr.to_bits() & u32::MAX.checked_shl(host_bits).unwrap_or(0)))
            }
            IpAddr::V6(addr) => IpAddr::V6(Ipv6Addr::from_bits(
                addr.to_bits() & u128::MAX.checked_shl(host_bits).unwrap_or(0),
            )),
        };
        Self { addr, ..*self }
    }

    /// Whether `addr` is in the network.
    #[must_use]
    pub fn contains(&self, addr: IpAddr) -> bool {
        addr.is_ipv4() == self.addr.is_ipv4() && Self { addr, ..*self }.network() == self.network()
    }

    /// The directed broadcast address of an IPv4 network; `None` for IPv6, and for prefixes of 31 and 32
    /// bits, which have none (RFC 3021).
    #[must_use]
    pub fn broadcast(&self) -> Option<IpAddr> {
        match self.addr {
            IpAddr::V4(addr) if self.prefix < 31 => {
                Some(Ipv4Addr::from_bits(addr.to_bits() | (u32::MAX >> self.prefix)).into())
            }
            _ => None,
        }
    }
}

impl From<IpAddr> for Cidr {
    /// The network of this single address.
    fn from(addr: IpAddr) -> Self {
        Self { addr, prefix: bits(addr) }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// Parses `ADDRESS/PREFIX`. A single address needs its `/32` or `/128`, because a stack whose prefix was
    /// forgotten would reach nobody. For an [`IpAddr`], there is [`Cidr::from`].
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (addr_text, prefix_text) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let addr: IpAddr = addr_text.parse().map_err(|_| CidrError::Address(addr_text.to_owned()))?;
        let prefix_text = prefix_text.ok_or(CidrError::NoPrefix(addr))?;
        let wrong = || CidrError::Prefix(prefix_text.to_owned());
        prefix_text.parse().ok().and_then(|prefix| Self::new(addr, prefix).ok()).ok_or_else(wrong)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix)
    }
}

/// Why a text is not an address with a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CidrError {
    /// The part before the slash.
    #[error("{0:?} is not an IPv4 or IPv6 address; write it as in 10.9.0.1/24 or fd00::1/64")]
    Address(String),
    /// No slash, and nothing after it.
    #[error(
        "the prefix is missing: write {0}/{usual} for a host of such a network, or {0}/{all} for this \
         address alone",
        usual = if .0.is_ipv4() { 24 } else { 64 },
        all = bits(*.0)
    )]
    NoPrefix(IpAddr),
    /// The part after it.
    #[error("{0:?} is not a prefix length: 0 to 32 for IPv4, 0 to 128 for IPv6")]
    Prefix(String),
}

fn bits(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn a_text_names_its_prefix_and_an_address_alone_is_a_network_of_one() {
        for (text, usual, all) in [("10.0.0.1", "/24", "/32"), ("fd00::1", "/64", "/128")] {
            let addr: IpAddr = text.parse().unwrap();
            let error = text.parse::<Cidr>().unwrap_err();
            assert_eq!(error, CidrError::NoPrefix(addr));
            for prefix in [usual, all] {
                assert!(error.to_string().contains(&format!("{text}{prefix}")), "{error}");
            }
            assert_eq!(Cidr::from(addr), cidr(&format!("{text}{all}")));
        }
    }

    #[test]
    fn the_network_has_no_host_bits() {
        for (given, network) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3/0", "0.0.0.0/0"),
            ("fd00::1:2/64", "fd00::/64"),
            ("::1/0", "::/0"),
        ] {
            assert_eq!(cidr(given).network(), cidr(network));
        }
    }

    #[test]
    fn a_network_contains_its_addresses_only() {
        let network = cidr("10.9.0.1/24");
        assert!(network.contains("10.9.0.200".parse().unwrap()));
        assert!(!network.contains("10.9.1.1".parse().unwrap()));
        assert!(!cidr("0.0.0.0/0").contains("::1".parse().unwrap()));
    }

    #[test]
    fn only_ipv4_networks_with_room_for_it_have_a_broadcast_address() {
        assert_eq!(cidr("10.9.1.1/16").broadcast(), Some("10.9.255.255".parse().unwrap()));
        assert_eq!(cidr("10.9.1.1/30").broadcast(), Some("10.9.1.3".parse().unwrap()));
        for without in ["10.9.1.1/31", "10.9.1.1/32", "fd00::1/64"] {
            assert_eq!(cidr(without).broadcast(), None);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!("10.9.0/24".parse::<Cidr>(), Err(CidrError::Address("10.9.0".to_owned())));
        for prefix in ["33", "-1", "", "a", "256"] {
            let error = format!("10.9.0.1/{prefix}").parse::<Cidr>();
            assert_eq!(error, Err(CidrError::Prefix(prefix.to_owned())));
        }
    }
}
