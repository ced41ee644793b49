//! Multicast listener discovery for IPv6: the messages that inform switches and routers of the groups that
//! this host listens to.
//!
//! A switch that snoops on these messages passes frames for a group only where a host has reported it,
//! neighbour solicitations for a solicited-node group among them: a host that sends no reports cannot be
//! found behind one.
//!
//! Sources: RFC 3810 (version 2); RFC 2710 (version 1) and RFC 2711 §2.1 (Router Alert), not read; the
//! messages are checked against a Linux bridge that snoops.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use ackclock_wire::checksum::pseudo_header;
use etherparse::{Ipv6HeaderSlice, ip_number};

use crate::memberships::{Query, Saying};
use crate::nd::Malformed;

impl Query<Ipv6Addr> {
    /// Whether the IPv6 packet `packet` looks like one: ICMPv6 of its type behind a hop-by-hop header.
    pub fn is_in_v6(packet: &[u8]) -> bool {
        packet.get(NEXT_HEADER) == Some(&HOP_BY_HOP)
            && packet.get(HEADER_LEN) == Some(&ip_number::IPV6_ICMP.0)
            && message_start(packet).and_then(|start| packet.get(start)) == Some(&QUERY)
    }

    /// Parses and validates a packet for which [`Query::is_in_v6`] holds. RFC 3810 §6.2: without a link-local
    /// source, hop limit 1 and a Router Alert it is ignored.
    pub fn parse_v6(packet: &[u8]) -> Result<Self, Malformed> {
        let ip = Ipv6HeaderSlice::from_slice(packet).map_err(|_| Malformed)?;
        let start = message_start(packet).ok_or(Malformed)?;
        let end = HEADER_LEN + usize::from(ip.payload_length());
        let (options, message) =
            (packet.get(HEADER_LEN + 2..start), packet.get(start..end).ok_or(Malformed)?);
        let (src, dst) = (ip.source_addr(), ip.destination_addr());
        let sum = pseudo_header(src.into(), dst.into(), ip_number::IPV6_ICMP.0, message.len());
        let valid = ip.hop_limit() == HOP_LIMIT
            && src.is_unicast_link_local()
            && options.is_some_and(has_router_alert)
            && sum.plus_bytes(message).checksum() == 0;
        // RFC 3810 §8.1: 24 bytes are version 1, 28 or more are version 2, any other length is invalid.
        let is_v1 = message.len() == QUERY_LEN_V1;
        if !valid || !(is_v1 || message.len() >= QUERY_LEN_V2) {
            return Err(Malformed);
        }
        let code = message.get(4..6).and_then(|field| field.first_chunk()).copied().map(u16::from_be_bytes);
        let group =
            message.get(8..24).and_then(|field| field.first_chunk::<16>()).copied().map(Ipv6Addr::from);
        let (Some(code), Some(group)) = (code, group) else { return Err(Malformed) };
        Ok(Self {
            group: (!group.is_unspecified()).then_some(group),
            answer_within: if is_v1 { Duration::from_millis(code.into()) } else { response_time(code) },
            old: is_v1.then_some(1),
        })
    }
}

/// RFC 3810 §5.1.3: milliseconds, or from 32,768 on a mantissa of 12 bits and an exponent of 3.
fn response_time(code: u16) -> Duration {
    let exponent = u32::from(code >> 12) & 7;
    let mantissa = (u64::from(code) & 0xfff) | 0x1000;
    let ms = if code < 0x8000 { u64::from(code) } else { (mantissa << 3).unbounded_shl(exponent) };
    Duration::from_millis(ms)
}

/// Where the message behind the hop-by-hop header starts.
fn message_start(packet: &[u8]) -> Option<usize> {
    let options = packet.get(HEADER_LEN..)?;
    let length = usize::from(*options.get(1)?);
    Some(HEADER_LEN.saturating_add(length.saturating_add(1).saturating_mul(8)))
}

fn has_router_alert(mut options: &[u8]) -> bool {
    loop {
        options = match *options {
            [ROUTER_ALERT, 2, ..] => return true,
            [PAD1, ref rest @ ..] => rest,
            [_, len, ref rest @ ..] => rest.get(len.into()..).unwrap_or_default(),
            _ => return false,
        }
    }
}

/// A report of version 2 (RFC 3810 §5.2), to all routers that listen for those.
pub(crate) fn report(src: Ipv6Addr, records: &[(Saying, Ipv6Addr)]) -> Vec<u8> {
    let count = u16::try_from(records.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut body = vec![0, 0, count[0], count[1]];
    for (saying, group) in records {
        // No auxiliary data, no sources.
        body.extend([saying.record_type(), 0, 0, 0]);
        body.extend(group.octets());
    }
    message(src, ALL_V2_ROUTERS, REPORT_V2, &body)
}

/// The same of one group in version 1 (RFC 2710 §3, §4), with its destination: a report goes to the group
/// itself, a Done message to the routers.
pub(crate) fn report_v1(src: Ipv6Addr, saying: Saying, group: Ipv6Addr) -> (Ipv6Addr, Vec<u8>) {
    let (dst, kind) =
        if saying == Saying::Left { (crate::nd::ALL_ROUTERS, DONE_V1) } else { (group, REPORT_V1) };
    let mut body = vec![0; 4];
    body.extend(group.octets());
    (dst, message(src, dst, kind, &body))
}

/// An ICMPv6 message with `body` behind its checksum, behind a Router Alert, in an IPv6 packet of hop limit
/// 1.
fn message(src: Ipv6Addr, dst: Ipv6Addr, kind: u8, body: &[u8]) -> Vec<u8> {
    let len = body.len().saturating_add(4);
    let [len_high, len_low] = u16::try_from(len.saturating_add(8)).unwrap_or(u16::MAX).to_be_bytes();
    let sum = pseudo_header(IpAddr::V6(src), IpAddr::V6(dst), ip_number::IPV6_ICMP.0, len);
    let [high, low] = sum.plus_bytes(&[kind, 0]).plus_bytes(body).checksum().to_be_bytes();
    let mut packet = Vec::with_capacity(len.saturating_add(HEADER_LEN + 8));
    packet.extend([0x60, 0, 0, 0, len_high, len_low, HOP_BY_HOP, HOP_LIMIT]);
    packet.extend(src.octets());
    packet.extend(dst.octets());
    packet.extend([ip_number::IPV6_ICMP.0, 0, ROUTER_ALERT, 2, 0, 0, PADN, 0]);
    packet.extend([kind, 0, high, low]);
    packet.extend_from_slice(body);
    packet
}

/// The destination of reports of version 2 (RFC 3810 §5.2.14).
pub(crate) const ALL_V2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

const HEADER_LEN: usize = 40;
const NEXT_HEADER: usize = 6;
const HOP_LIMIT: u8 = 1;
const HOP_BY_HOP: u8 = 0;
const PAD1: u8 = 0;
const PADN: u8 = 1;
const ROUTER_ALERT: u8 = 5;
const QUERY: u8 = 130;
const REPORT_V1: u8 = 131;
const DONE_V1: u8 = 132;
const REPORT_V2: u8 = 143;
const QUERY_LEN_V1: usize = 24;
const QUERY_LEN_V2: usize = 28;

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A query as a router sends it.
    pub(crate) fn query(group: Option<Ipv6Addr>, within_ms: u16, is_v1: bool) -> Vec<u8> {
        let [high, low] = within_ms.to_be_bytes();
        let mut body = vec![high, low, 0, 0];
        body.extend(group.unwrap_or(Ipv6Addr::UNSPECIFIED).octets());
        if !is_v1 {
            body.extend([2, 125, 0, 0]);
        }
        message("fe80::9".parse().unwrap(), group.unwrap_or(crate::nd::ALL_NODES), QUERY, &body)
    }

    #[test]
    fn a_query_of_either_version_is_read() {
        let group = Some("ff02::1:ff00:2".parse().unwrap());
        for is_v1 in [false, true] {
            for group in [None, group] {
                let bytes = query(group, 1000, is_v1);
                assert!(Query::is_in_v6(&bytes));
                let old = is_v1.then_some(1);
                let expected = Query { group, answer_within: Duration::from_secs(1), old };
                assert_eq!(Query::parse_v6(&bytes), Ok(expected));
            }
        }
    }

    #[test]
    fn a_query_without_one_of_its_marks_is_ignored() {
        let good = query(None, 1000, false);
        // Hop limit, source, Router Alert, checksum.
        for (at, value) in [(7, 2), (8, 0x20), (42, 1), (51, 0xee)] {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(Query::parse_v6(&bytes), Err(Malformed), "byte {at} is {value}");
        }
        assert!((0..good.len()).all(|len| Query::parse_v6(&good[..len]).is_err()));
        assert!(!Query::is_in_v6(&report(Ipv6Addr::UNSPECIFIED, &[])));
    }

    #[test]
    fn long_response_times_have_a_mantissa_and_an_exponent() {
        let ms = |code| response_time(code).as_millis();
        assert_eq!((ms(0), ms(0x7fff), ms(0x8000), ms(0xffff)), (0, 32_767, 32_768, 8_387_584));
    }

    #[test]
    fn a_report_names_each_group_once_behind_a_router_alert() {
        let group: Ipv6Addr = "ff02::1:ff00:2".parse().unwrap();
        let bytes = report("fe80::1".parse().unwrap(), &[(Saying::Joined, group), (Saying::Left, group)]);
        assert_eq!((bytes[6], bytes[7], &bytes[40..48]), (0, 1, &[58, 0, 5, 2, 0, 0, 1, 0][..]));
        assert_eq!((bytes[48], &bytes[52..56], bytes.len()), (143, &[0, 0, 0, 2][..], 56 + 2 * 20));
        assert_eq!((bytes[56], &bytes[60..76], bytes[76]), (4, &group.octets()[..], 3));
        assert_eq!(bytes[24..40], ALL_V2_ROUTERS.octets());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = (Query::is_in_v6(&bytes), Query::parse_v6(&bytes));
        }
    }
}
