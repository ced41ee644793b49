//! An address with its prefix length.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address with its prefix length, as in `10.9.0.1/24`.
///
/// ```
/// use ackclock_wire::Cidr;
/// let cidr: Cidr = "10.9.0.1/24".parse()?;
/// assert_eq!(cidr.network().to_string(), "10.9.0.0/24");
/// assert!("10.9.0.1/33".parse::<Cidr>().is_err());
/// # Ok::<(), ackclock_wire::CidrError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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

    /// `addr` with a prefix of `prefix` bits, or with all of its bits if it has no more.
    #[must_use]
    pub fn up_to(addr: IpAddr, prefix: u8) -> Self {
        Self { addr, prefix: prefix.min(bits(addr)) }
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
        let addr = match self.addr {
            IpAddr::V4(addr) => {
                let host = u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
                Ipv4Addr::from_bits(addr.to_bits() & !host).into()
            }
            IpAddr::V6(addr) => {
                let host = u128::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
                Ipv6Addr::from_bits(addr.to_bits() & !host).into()
            }
        };
        Self { addr, ..*self }
    }

    /// Whether `addr` is in the network.
    #[must_use]
    pub fn contains(&self, addr: IpAddr) -> bool {
        shared(self.addr, addr).is_some_and(|shared| shared >= self.prefix.into())
    }

    /// How many of the prefix's first bits `addr` shares; none if it is of the other family.
    #[must_use]
    pub fn shared_len(&self, addr: IpAddr) -> u8 {
        let shared = shared(self.addr, addr).unwrap_or(0).min(self.prefix.into());
        u8::try_from(shared).unwrap_or(self.prefix)
    }

    /// The address that names the network: its first. `None` for networks of one or two addresses, where each
    /// is a host's (RFC 3021, RFC 6164).
    #[must_use]
    pub fn network_address(&self) -> Option<IpAddr> {
        (bits(self.addr).saturating_sub(self.prefix) > 1).then(|| self.network().addr)
    }

    /// The directed broadcast address of an IPv4 network; `None` for IPv6, and for prefixes of 31 and 32
    /// bits, which have none (RFC 3021).
    #[must_use]
    pub fn broadcast(&self) -> Option<IpAddr> {
        match self.addr {
            IpAddr::V4(addr) if self.prefix < 31 => {
                let host = u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
                Some(Ipv4Addr::from_bits(addr.to_bits() | host).into())
            }
            _ => None,
        }
    }

    /// The addresses that hosts of the network may have, in order.
    pub fn hosts(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let (all, named, broadcast) = (self.network(), self.network_address(), self.broadcast());
        let addresses = (0u128..).map_while(move |step| {
            let addr = match all.addr {
                IpAddr::V4(first) => {
                    Ipv4Addr::from_bits(first.to_bits().checked_add(u32::try_from(step).ok()?)?).into()
                }
                IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().checked_add(step)?).into(),
            };
            all.contains(addr).then_some(addr)
        });
        addresses.filter(move |addr| named != Some(*addr) && broadcast != Some(*addr))
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
    /// forgotten would reach no other host. For an [`IpAddr`], there is [`Cidr::from`].
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

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not an address with a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CidrError {
    /// The part before the slash.
    #[error("{0:?} is not an IPv4 or IPv6 address; write it as in 10.9.0.1/24 or fd00::1/64")]
    Address(String),
    /// The part after it.
    #[error("{0:?} is not a prefix length: 0 to 32 for IPv4, 0 to 128 for IPv6")]
    Prefix(String),
    /// No slash, and nothing after it.
    #[error(
        "the prefix is missing: write {0}/{usual} for a host of such a network, or {0}/{all} for this \
         address alone",
        usual = if .0.is_ipv4() { 24 } else { 64 },
        all = bits(*.0)
    )]
    NoPrefix(IpAddr),
}

/// The number of first bits that two addresses of one family have in common.
fn shared(a: IpAddr, b: IpAddr) -> Option<u32> {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        _ => None,
    }
}

fn bits(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

ackclock_form::form! {
    struct Cidr { addr, prefix } => |cidr| cidr.prefix <= bits(cidr.addr);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
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
        for (network, inside, outside) in [
            ("10.9.0.1/24", "10.9.0.255", "10.9.1.0"),
            ("10.9.0.2/32", "10.9.0.2", "10.9.0.3"),
            ("fd09::2/64", "fd09::ffff:0:0:1", "fd09:0:0:1::"),
            ("0.0.0.0/0", "203.0.113.1", "::1"),
            ("::/0", "fd00::1", "10.0.0.1"),
        ] {
            assert!(cidr(network).contains(ip(inside)), "{network} {inside}");
            assert!(!cidr(network).contains(ip(outside)), "{network} {outside}");
        }
    }

    #[test]
    fn bits_count_as_shared_up_to_the_prefix_and_within_a_family() {
        assert_eq!(cidr("10.0.0.1/24").shared_len(ip("10.0.0.129")), 24);
        assert_eq!(cidr("10.0.0.1/24").shared_len(ip("10.1.0.1")), 15);
        assert_eq!(cidr("fd00::1/128").shared_len(ip("fd00::1")), 128);
        assert_eq!(cidr("::/128").shared_len(ip("0.0.0.0")), 0);
    }

    #[test]
    fn a_prefix_longer_than_the_address_counts_as_all_of_it() {
        assert_eq!(Cidr::up_to(ip("10.0.0.1"), 200), cidr("10.0.0.1/32"));
        assert_eq!(Cidr::up_to(ip("10.0.0.1"), 8), cidr("10.0.0.1/8"));
        assert_eq!(Cidr::up_to(ip("fd00::1"), 255), cidr("fd00::1/128"));
    }

    #[test]
    fn hosts_are_all_addresses_but_the_networks_name_and_its_broadcast() {
        let hosts = |text| cidr(text).hosts().map(|addr| addr.to_string()).collect::<Vec<_>>();
        assert_eq!(hosts("10.9.1.7/30"), ["10.9.1.5", "10.9.1.6"]);
        assert_eq!(hosts("10.9.1.7/31"), ["10.9.1.6", "10.9.1.7"]);
        assert_eq!(hosts("255.255.255.255/32"), ["255.255.255.255"]);
        assert_eq!(hosts("fd00::1/126"), ["fd00::1", "fd00::2", "fd00::3"]);
        assert_eq!(hosts("fd00::1/127"), ["fd00::", "fd00::1"]);
        assert_eq!(cidr("0.0.0.0/0").hosts().next(), Some(ip("0.0.0.1")));
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
