//! Multicast listener discovery for IPv6: the messages that inform switches and routers of the groups that
//! this host listens to.
//!
//! A switch that snoops on these messages passes frames for a group only where a host has reported it,
//! neighbour solicitations for a solicited-node group among them: a host that sends no reports cannot be
//! found behind one.
//!
//! Sources: RFC 3810 (version 2), RFC 2710 (version 1), RFC 3590 and RFC 2711 §2.1
//! (Router Alert). The messages are checked against a Linux bridge that snoops.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use ackclock_wire::checksum::pseudo_header;
use ackclock_wire::{IpPacket, IpPayload};
use etherparse::ip_number;

use crate::memberships::{Old, Query, Saying};
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
        let ip = IpPacket::parse(packet).map_err(|_| Malformed)?;
        let options = message_start(packet).and_then(|start| packet.get(HEADER_LEN + 2..start));
        let (IpAddr::V6(src), IpPayload::Icmp6(message)) = (ip.src, ip.payload) else {
            return Err(Malformed);
        };
        let sum = pseudo_header(ip.src, ip.dst, ip_number::IPV6_ICMP.0, message.len());
        let is_local = ip.ttl == HOP_LIMIT
            && src.is_unicast_link_local()
            && options.is_some_and(has_router_alert)
            && sum.plus_bytes(message).checksum() == 0;
        let &[_, _, _, _, high, low, _, _, ref rest @ ..] = message else { return Err(Malformed) };
        let (group, rest) = rest.split_first_chunk::<16>().ok_or(Malformed)?;
        // RFC 3810 §8.1: 24 bytes are version 1, 28 or more are version 2, any other length is invalid.
        let (old, sources) = match *rest {
            [] => (Some(Old::V1), 0),
            [_, _, high, low, ref sources @ ..] => {
                let count = usize::from(u16::from_be_bytes([high, low]));
                sources.get(..count.saturating_mul(16)).ok_or(Malformed)?;
                (None, count)
            }
            _ => return Err(Malformed),
        };
        let group = Some(Ipv6Addr::from(*group)).filter(|group| !group.is_unspecified());
        // RFC 2710 §5, RFC 3810 §5.1.13: for all, without sources, or for a group.
        if !is_local || !group.map_or(sources == 0, |group| group.is_multicast()) {
            return Err(Malformed);
        }
        let code = u16::from_be_bytes([high, low]);
        let linear = Duration::from_millis(code.into());
        Ok(Self { group, answer_within: if old.is_some() { linear } else { response_time(code) }, old })
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

/// RFC 8200 §4.2: each option is one byte, or says its length, which is of what is behind it.
fn has_router_alert(mut options: &[u8]) -> bool {
    loop {
        options = match *options {
            [ROUTER_ALERT, 2, 0, 0, ..] => return true,
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

/// A report of one group in version 1 (RFC 2710 §3, §4), with its destination: a report goes to the group
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
/// With a value of two bytes: 0 stands for MLD (RFC 2711 §2.1).
const ROUTER_ALERT: u8 = 5;
const QUERY: u8 = 130;
const REPORT_V1: u8 = 131;
const DONE_V1: u8 = 132;
const REPORT_V2: u8 = 143;

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A query as a router sends it.
    pub(crate) fn query(group: Option<Ipv6Addr>, within_ms: u16, is_v1: bool) -> Vec<u8> {
        query_to(group.unwrap_or(crate::nd::ALL_NODES), group, within_ms, is_v1)
    }

    /// A query sent to `dst`.
    pub(crate) fn query_to(dst: Ipv6Addr, group: Option<Ipv6Addr>, within_ms: u16, is_v1: bool) -> Vec<u8> {
        let rest = if is_v1 { &[][..] } else { &NO_SOURCES };
        let body = body_for(group.unwrap_or(Ipv6Addr::UNSPECIFIED), within_ms, rest);
        message("fe80::9".parse().unwrap(), dst, QUERY, &body)
    }

    fn body_for(group: Ipv6Addr, within_ms: u16, rest: &[u8]) -> Vec<u8> {
        [&within_ms.to_be_bytes()[..], &[0, 0], &group.octets(), rest].concat()
    }

    /// The query with other hop-by-hop options, as many as fill the header.
    fn with_options(options: &[u8]) -> Vec<u8> {
        let good = query(None, 1000, false);
        let mut packet = [&good[..42], options, &good[48..]].concat();
        packet[41] = u8::try_from((options.len() + 2) / 8 - 1).unwrap();
        set_length(&mut packet);
        packet
    }

    fn set_length(packet: &mut [u8]) {
        let len = u16::try_from(packet.len() - HEADER_LEN).unwrap().to_be_bytes();
        packet[4..6].copy_from_slice(&len);
    }

    const NO_SOURCES: [u8; 4] = [2, 125, 0, 0];
    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 2);

    #[test]
    fn a_query_of_either_version_is_read() {
        for is_v1 in [false, true] {
            for group in [None, Some(GROUP)] {
                let bytes = query(group, 1000, is_v1);
                assert!(Query::is_in_v6(&bytes));
                let old = is_v1.then_some(Old::V1);
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

    /// RFC 8200 §4.2, and RFC 2711 §2.1: the value 0 stands for listener discovery.
    #[test]
    fn the_router_alert_may_stand_behind_padding_and_has_the_value_0() {
        for options in [
            [5, 2, 0, 0, 1, 0],
            [0, 0, 5, 2, 0, 0],
            [1, 0, 5, 2, 0, 0],
            // An option that may be skipped.
            [0x1e, 0, 5, 2, 0, 0],
        ] {
            assert!(Query::parse_v6(&with_options(&options)).is_ok(), "{options:?}");
        }
        assert!(Query::parse_v6(&with_options(&[1, 6, 0, 0, 0, 0, 0, 0, 0, 0, 5, 2, 0, 0])).is_ok());
        for options in [
            [1, 4, 0, 0, 0, 0],
            // Of RSVP, of other lengths, within padding, and cut off.
            [5, 2, 0, 1, 1, 0],
            [5, 1, 0, 0, 1, 0],
            [5, 4, 0, 0, 0, 0],
            [1, 4, 5, 2, 0, 0],
            [1, 2, 0, 0, 5, 2],
            // An unknown option for which the packet is to be discarded.
            [0x9e, 0, 5, 2, 0, 0],
            [5, 2, 0, 0, 0x9e, 0],
            // A length that is too long.
            [5, 2, 0, 0, 1, 9],
        ] {
            assert_eq!(Query::parse_v6(&with_options(&options)), Err(Malformed), "{options:?}");
        }
    }

    #[test]
    fn what_a_query_asks_for_is_a_group_and_its_sources_are_there() {
        let parsed = |group: Ipv6Addr, rest: &[u8]| {
            let body = body_for(group, 1000, rest);
            let query = message("fe80::9".parse().unwrap(), crate::nd::ALL_NODES, QUERY, &body);
            Query::parse_v6(&query).map(|query| query.group)
        };
        let all = Ipv6Addr::UNSPECIFIED;
        let one = [&[2, 125, 0, 1][..], &[7; 16]].concat();
        assert_eq!(parsed(GROUP, &one), Ok(Some(GROUP)), "RFC 3810 §5.1.13");
        // RFC 3810 §5.1.12: what is behind the fields is ignored.
        assert_eq!(parsed(GROUP, &[&one[..], &[9; 5]].concat()), Ok(Some(GROUP)));
        assert_eq!(parsed(all, &[2, 125, 0, 0, 9]), Ok(None));
        assert_eq!(parsed(GROUP, &one[..19]), Err(Malformed), "a source is cut off");
        assert_eq!(parsed(GROUP, &[2, 125, 0xff, 0xff]), Err(Malformed));
        assert_eq!(parsed(all, &one), Err(Malformed), "a general query has no sources");
        // RFC 2710 §5: zero or a group.
        for rest in [&[][..], &NO_SOURCES, &one] {
            assert_eq!(parsed("fd09::2".parse().unwrap(), rest), Err(Malformed));
        }
        // RFC 3810 §8.1: 25 to 27 bytes are of no version.
        for len in 1..4 {
            assert_eq!(parsed(all, &[0; 4][..len]), Err(Malformed));
        }
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

        /// Such as pass the checksum, so that everything behind it is reached.
        #[test]
        fn a_query_of_any_bytes_is_of_a_group_or_of_all(
            options in proptest::array::uniform14(prop_oneof![0..8_u8, any::<u8>()]),
            body in proptest::collection::vec(any::<u8>(), 0..60),
            has_alert in any::<bool>(),
        ) {
            let mut packet = message("fe80::9".parse().unwrap(), crate::nd::ALL_NODES, QUERY, &body);
            if !has_alert {
                packet.splice(42..48, options);
                packet[41] = 1;
                set_length(&mut packet);
            }
            prop_assert!(Query::is_in_v6(&packet));
            if let Ok(query) = Query::parse_v6(&packet) {
                prop_assert!(query.group.is_none_or(|group| group.is_multicast()));
                // RFC 3810 §5.1.3: 0x1fff << 10 ms.
                prop_assert!(query.answer_within <= Duration::from_millis(0x1fff << 10));
            }
        }
    }
}
