//! Neighbour discovery for IPv6 (RFC 4861 §4): the messages, validated, and those that a host sends.

use std::net::{IpAddr, Ipv6Addr};

use ackclock_wire::checksum::pseudo_header;
use etherparse::icmpv6::{NdpOptionSlice, NdpOptionsIterator};
use etherparse::{Icmpv6Slice, Icmpv6Type, Ipv6HeaderSlice, icmpv6, ip_number};

use crate::MacAddr;
use crate::mac::solicited_node;

/// A neighbour-discovery message that passed the checks of RFC 4861 §6.1 and §7.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Nd {
    Solicitation {
        src: Ipv6Addr,
        target: Ipv6Addr,
        source_mac: Option<MacAddr>,
    },
    Advertisement(Advertisement),
    Router(RouterAdvertisement),
    /// A router solicitation or redirect: a host ignores it.
    Ignored,
    Redirect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advertisement {
    pub target: Ipv6Addr,
    pub target_mac: Option<MacAddr>,
    pub is_router: bool,
    pub solicited: bool,
    pub overrides: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouterAdvertisement {
    pub src: Ipv6Addr,
    pub source_mac: Option<MacAddr>,
    pub lifetime_s: u16,
    pub reachable_ms: u32,
    pub retransmit_ms: u32,
    pub mtu: Option<u32>,
    /// At most [`PREFIXES_MAX`].
    pub prefixes: Vec<AdvertisedPrefix>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AdvertisedPrefix {
    pub prefix: Ipv6Addr,
    pub len: u8,
    pub on_link: bool,
    pub autonomous: bool,
    pub valid_s: u32,
    pub preferred_s: u32,
}

/// A message that breaks a rule of RFC 4861 §6.1 or §7.1; it is dropped without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Nd {
    /// Whether the IPv6 packet `packet` is neighbour discovery without an extension header. RFC 4861 never
    /// uses one.
    pub fn is_in(packet: &[u8]) -> bool {
        packet.get(NEXT_HEADER) == Some(&ip_number::IPV6_ICMP.0)
            && packet.get(HEADER_LEN).is_some_and(|kind| (ROUTER_SOLICITATION..=REDIRECT).contains(kind))
    }

    /// Parses and validates a packet for which [`Nd::is_in`] holds.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let ip = Ipv6HeaderSlice::from_slice(packet).map_err(|_| Malformed)?;
        let message = packet.get(HEADER_LEN..).and_then(|rest| rest.get(..ip.payload_length().into()));
        let icmp = Icmpv6Slice::from_slice(message.ok_or(Malformed)?).map_err(|_| Malformed)?;
        // RFC 4861 §6.1.1, §6.1.2, §7.1.1, §7.1.2: hop limit 255, so that no router has forwarded it;
        // checksum; code 0.
        let valid = ip.hop_limit() == HOP_LIMIT
            && icmp.code_u8() == 0
            && icmp.is_checksum_valid(ip.source(), ip.destination());
        if !valid {
            return Err(Malformed);
        }
        let (src, dst) = (ip.source_addr(), ip.destination_addr());
        match icmp.icmp_type() {
            Icmpv6Type::NeighborSolicitation => solicitation(src, dst, icmp.payload()),
            Icmpv6Type::NeighborAdvertisement(flags) => advertisement(dst, flags, icmp.payload()),
            Icmpv6Type::RouterAdvertisement(header) => router(src, header.router_lifetime, icmp.payload()),
            _ if icmp.type_u8() == REDIRECT => Ok(Self::Redirect),
            _ => Ok(Self::Ignored),
        }
    }
}

fn solicitation(src: Ipv6Addr, dst: Ipv6Addr, payload: &[u8]) -> Result<Nd, Malformed> {
    let slice = icmpv6::NeighborSolicitationPayloadSlice::from_slice(payload).map_err(|_| Malformed)?;
    let target = slice.target_address();
    let options = Options::parse(slice.options_iterator())?;
    // RFC 4861 §7.1.1: a solicitation from the unspecified address goes to the solicited-node address and
    // carries no link-layer address.
    let from_nowhere_valid =
        !src.is_unspecified() || (is_solicited_node(dst) && options.source_mac.is_none());
    if target.is_multicast() || src.is_multicast() || !from_nowhere_valid {
        return Err(Malformed);
    }
    Ok(Nd::Solicitation { src, target, source_mac: options.source_mac })
}

fn advertisement(
    dst: Ipv6Addr,
    flags: icmpv6::NeighborAdvertisementHeader,
    payload: &[u8],
) -> Result<Nd, Malformed> {
    let slice = icmpv6::NeighborAdvertisementPayloadSlice::from_slice(payload).map_err(|_| Malformed)?;
    let target = slice.target_address();
    let options = Options::parse(slice.options_iterator())?;
    // RFC 4861 §7.1.2: a multicast advertisement answers no solicitation.
    if target.is_multicast() || target.is_unspecified() || (dst.is_multicast() && flags.solicited) {
        return Err(Malformed);
    }
    Ok(Nd::Advertisement(Advertisement {
        target,
        target_mac: options.target_mac,
        is_router: flags.router,
        solicited: flags.solicited,
        overrides: flags.r#override,
    }))
}

fn router(src: Ipv6Addr, lifetime_s: u16, payload: &[u8]) -> Result<Nd, Malformed> {
    let slice = icmpv6::RouterAdvertisementPayloadSlice::from_slice(payload).map_err(|_| Malformed)?;
    let options = Options::parse(slice.options_iterator())?;
    // RFC 4861 §6.1.2: routers send from their link-local address.
    if !src.is_unicast_link_local() {
        return Err(Malformed);
    }
    Ok(Nd::Router(RouterAdvertisement {
        src,
        source_mac: options.source_mac,
        lifetime_s,
        reachable_ms: slice.reachable_time(),
        retransmit_ms: slice.retrans_timer(),
        mtu: options.mtu,
        prefixes: options.prefixes,
    }))
}

/// The options that a host reads. RFC 4861 §4.6: others are skipped, one of length 0 makes the message
/// invalid.
#[derive(Debug, Default)]
struct Options {
    source_mac: Option<MacAddr>,
    target_mac: Option<MacAddr>,
    mtu: Option<u32>,
    prefixes: Vec<AdvertisedPrefix>,
}

impl Options {
    fn parse(options: NdpOptionsIterator<'_>) -> Result<Self, Malformed> {
        let mut found = Self::default();
        // Eight bytes each at least, so that a packet of 64 KB ends the loop.
        for option in options {
            match option.map_err(|_| Malformed)? {
                NdpOptionSlice::SourceLinkLayerAddress(option) => {
                    found.source_mac = Some(station(option.link_layer_address())?);
                }
                NdpOptionSlice::TargetLinkLayerAddress(option) => {
                    found.target_mac = Some(station(option.link_layer_address())?);
                }
                NdpOptionSlice::Mtu(option) => found.mtu = Some(option.mtu()),
                NdpOptionSlice::PrefixInformation(option) if found.prefixes.len() < PREFIXES_MAX => {
                    found.prefixes.push(AdvertisedPrefix {
                        prefix: option.prefix().into(),
                        len: option.prefix_length(),
                        on_link: option.on_link(),
                        autonomous: option.autonomous_address_configuration(),
                        valid_s: option.valid_lifetime(),
                        preferred_s: option.preferred_lifetime(),
                    });
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// A link-layer address of one station: a group's in an option would have packets sent to all.
fn station(bytes: &[u8]) -> Result<MacAddr, Malformed> {
    let mac = MacAddr::new(bytes.try_into().map_err(|_| Malformed)?);
    if mac.is_unicast() { Ok(mac) } else { Err(Malformed) }
}

fn is_solicited_node(addr: Ipv6Addr) -> bool {
    let [.., b, c, d] = addr.octets();
    addr == solicited_node(Ipv6Addr::from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b, c, d]))
}

/// A solicitation for the link-layer address of `target`. From the unspecified address it is a probe.
pub(crate) fn solicit(src: Ipv6Addr, dst: Ipv6Addr, target: Ipv6Addr, own: MacAddr) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(target.octets());
    // RFC 4861 §4.3: no link-layer address from the unspecified address.
    if !src.is_unspecified() {
        body.extend(mac_option(SOURCE_MAC, own));
    }
    message(src, dst, NEIGHBOUR_SOLICITATION, &body)
}

/// An advertisement that `own` is the link-layer address of `target`.
pub(crate) fn advertise(dst: Ipv6Addr, target: Ipv6Addr, own: MacAddr, solicited: bool) -> Vec<u8> {
    let flags = OVERRIDE | if solicited { SOLICITED } else { 0 };
    let mut body = vec![flags, 0, 0, 0];
    body.extend(target.octets());
    body.extend(mac_option(TARGET_MAC, own));
    message(target, dst, NEIGHBOUR_ADVERTISEMENT, &body)
}

/// A router solicitation.
pub(crate) fn solicit_routers(src: Ipv6Addr, own: MacAddr) -> Vec<u8> {
    let mut body = vec![0; 4];
    if !src.is_unspecified() {
        body.extend(mac_option(SOURCE_MAC, own));
    }
    message(src, ALL_ROUTERS, ROUTER_SOLICITATION, &body)
}

fn mac_option(kind: u8, mac: MacAddr) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac.octets();
    [kind, 1, a, b, c, d, e, f]
}

/// An ICMPv6 message with `body` behind its checksum, in an IPv6 packet of hop limit 255.
fn message(src: Ipv6Addr, dst: Ipv6Addr, kind: u8, body: &[u8]) -> Vec<u8> {
    let len = body.len().saturating_add(4);
    let [len_high, len_low] = u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
    let sum = pseudo_header(IpAddr::V6(src), IpAddr::V6(dst), ip_number::IPV6_ICMP.0, len);
    let [high, low] = sum.plus_bytes(&[kind, 0]).plus_bytes(body).checksum().to_be_bytes();
    let mut packet = Vec::with_capacity(len.saturating_add(HEADER_LEN));
    packet.extend([0x60, 0, 0, 0, len_high, len_low, ip_number::IPV6_ICMP.0, HOP_LIMIT]);
    packet.extend(src.octets());
    packet.extend(dst.octets());
    packet.extend([kind, 0, high, low]);
    packet.extend_from_slice(body);
    packet
}

/// All hosts and routers on the link.
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
pub(crate) const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// The most prefixes of one advertisement that are read.
const PREFIXES_MAX: usize = 16;

const HOP_LIMIT: u8 = 255;
const HEADER_LEN: usize = 40;
const NEXT_HEADER: usize = 6;
const ROUTER_SOLICITATION: u8 = 133;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;
const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

#[cfg(test)]
pub(crate) mod tests;
