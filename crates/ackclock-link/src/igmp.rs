//! IGMP: the messages that inform switches and routers of the IPv4 groups that this host listens to, as
//! [`mld`](crate::mld) does for IPv6.
//!
//! Sources: RFC 9776 (version 3), RFC 2236 (version 2) and RFC 2113 (Router Alert). Their formats are from
//! memory, because the texts were not at hand; they are checked against a Linux bridge that snoops.

use std::net::Ipv4Addr;
use std::time::Duration;

use ackclock_wire::checksum;
use etherparse::{Ipv4HeaderSlice, ip_number};

use crate::memberships::{Query, Saying};
use crate::nd::Malformed;

impl Query<Ipv4Addr> {
    /// Whether the IPv4 packet `packet` is IGMP.
    pub fn is_in_v4(packet: &[u8]) -> bool {
        packet.get(PROTOCOL) == Some(&ip_number::IGMP.0)
    }

    /// Parses and validates a packet for which [`Query::is_in_v4`] holds; `None`: another message of IGMP.
    pub fn parse_v4(packet: &[u8]) -> Result<Option<Self>, Malformed> {
        let ip = Ipv4HeaderSlice::from_slice(packet).map_err(|_| Malformed)?;
        let (start, end) = (ip.slice().len(), usize::from(ip.total_len()));
        let message = packet.get(start..end).ok_or(Malformed)?;
        if checksum::sum(message).checksum() != 0 {
            return Err(Malformed);
        }
        let &[kind, code, _, _, a, b, c, d, ref rest @ ..] = message else { return Err(Malformed) };
        if kind != QUERY {
            return Ok(None);
        }
        let group = Ipv4Addr::new(a, b, c, d);
        // RFC 9776 §7.1: 8 bytes are version 1 or 2, 12 and more version 3; others are ignored. Version 1
        // gives no time, and its answers are spread over 10 s. RFC 9776 §4.1.12: a later one has a Router
        // Alert, and a TTL of 1.
        let old = match (rest.len(), code) {
            (0, 0) => Some(1),
            (0, _) => Some(2),
            (4.., _) => None,
            _ => return Err(Malformed),
        };
        let has_alert = ip.options().chunks_exact(4).any(|option| option == ROUTER_ALERT);
        if ip.ttl() != TTL || !(has_alert || old == Some(1)) {
            return Err(Malformed);
        }
        let tenths = if old == Some(1) { 100 } else { response_tenths(code, old) };
        let answer_within = Duration::from_millis(tenths.saturating_mul(100));
        Ok(Some(Self { group: (!group.is_unspecified()).then_some(group), answer_within, old }))
    }
}

/// Tenths of a second; in version 3 from 128 on a mantissa of 4 bits and an exponent of 3.
fn response_tenths(code: u8, old: Option<u8>) -> u64 {
    let exponent = u32::from(code >> 4) & 7;
    let mantissa = (u64::from(code) & 0xf) | 0x10;
    if code < 128 || old.is_some() { code.into() } else { (mantissa << 3).unbounded_shl(exponent) }
}

/// A report of version 3, to all routers that listen for those.
pub(crate) fn report(src: Ipv4Addr, records: &[(Saying, Ipv4Addr)]) -> Vec<u8> {
    let count = u16::try_from(records.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut body = vec![0, 0, count[0], count[1]];
    for (saying, group) in records {
        // No auxiliary data, no sources.
        body.extend([saying.record_type(), 0, 0, 0]);
        body.extend(group.octets());
    }
    message(src, ALL_V3_ROUTERS, REPORT_V3, &body)
}

/// The same of one group in version 1 or 2, with its destination: a report goes to the group itself, a leave
/// message to the routers. Version 1 has none: `None`.
pub(crate) fn old_report(
    version: u8,
    src: Ipv4Addr,
    saying: Saying,
    group: Ipv4Addr,
) -> Option<(Ipv4Addr, Vec<u8>)> {
    let (dst, kind) = match (version, saying) {
        (1, Saying::Left) => return None,
        (1, _) => (group, REPORT_V1),
        (_, Saying::Left) => (ALL_ROUTERS, LEAVE),
        _ => (group, REPORT_V2),
    };
    Some((dst, message(src, dst, kind, &group.octets())))
}

/// An IGMP message with `body` behind its checksum, in an IPv4 packet of TTL 1 with a Router Alert.
fn message(src: Ipv4Addr, dst: Ipv4Addr, kind: u8, body: &[u8]) -> Vec<u8> {
    let mut igmp = vec![kind, 0, 0, 0];
    igmp.extend_from_slice(body);
    let sum = checksum::sum(&igmp).checksum().to_be_bytes();
    igmp.splice(2..4, sum);
    let len = u16::try_from(igmp.len().saturating_add(HEADER_LEN)).unwrap_or(u16::MAX).to_be_bytes();
    let mut packet = Vec::with_capacity(igmp.len().saturating_add(HEADER_LEN));
    packet.extend([0x46, INTERNETWORK_CONTROL, len[0], len[1], 0, 0, 0, 0, TTL, ip_number::IGMP.0, 0, 0]);
    packet.extend(src.octets());
    packet.extend(dst.octets());
    packet.extend(ROUTER_ALERT);
    let sum = checksum::sum(&packet).checksum().to_be_bytes();
    packet.splice(10..12, sum);
    packet.extend(igmp);
    packet
}

/// All systems on the link: every host is a member, and never says so.
pub(crate) const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// The destination of reports of version 3.
pub(crate) const ALL_V3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);

const HEADER_LEN: usize = 24;
const PROTOCOL: usize = 9;
const TTL: u8 = 1;
/// The type of service of version 3's messages.
const INTERNETWORK_CONTROL: u8 = 0xc0;
const ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];
const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_V3: u8 = 0x22;

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

    /// A query as a router sends it; `code`: in tenths of a second.
    pub(crate) fn query(group: Option<Ipv4Addr>, code: u8, is_v3: bool) -> Vec<u8> {
        let mut body = group.unwrap_or(Ipv4Addr::UNSPECIFIED).octets().to_vec();
        if is_v3 {
            body.extend([2, 125, 0, 0]);
        }
        let mut packet = message([10, 0, 0, 9].into(), group.unwrap_or(ALL_SYSTEMS), QUERY, &body);
        packet[HEADER_LEN + 1] = code;
        packet[HEADER_LEN + 2..HEADER_LEN + 4].fill(0);
        let sum = checksum::sum(&packet[HEADER_LEN..]).checksum().to_be_bytes();
        packet[HEADER_LEN + 2..HEADER_LEN + 4].copy_from_slice(&sum);
        packet
    }

    #[test]
    fn a_query_of_each_version_is_read() {
        for (code, is_v3, within_ms, old) in [
            (10, true, 1000, None),
            (0x8f, true, 24_800, None),
            (10, false, 1000, Some(2)),
            (0x8f, false, 14_300, Some(2)),
            (0, false, 10_000, Some(1)),
        ] {
            for group in [None, Some(GROUP)] {
                let bytes = query(group, code, is_v3);
                assert!(Query::is_in_v4(&bytes));
                let expected = Query { group, answer_within: Duration::from_millis(within_ms), old };
                assert_eq!(Query::parse_v4(&bytes), Ok(Some(expected)));
            }
        }
    }

    #[test]
    fn what_is_no_valid_query_is_ignored() {
        let good = query(None, 10, true);
        // The TTL, the Router Alert, and two bytes that the checksum covers.
        for (at, value) in [(8, 2), (20, 0), (HEADER_LEN + 1, 11), (HEADER_LEN + 3, 1)] {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(Query::parse_v4(&bytes), Err(Malformed), "byte {at} is {value}");
        }
        assert!((0..good.len()).all(|len| Query::parse_v4(&good[..len]).is_err()));
        assert_eq!(Query::parse_v4(&report([10, 0, 0, 2].into(), &[(Saying::Joined, GROUP)])), Ok(None));
    }

    #[test]
    fn a_report_names_each_group_once_behind_a_router_alert() {
        let bytes = report([10, 0, 0, 2].into(), &[(Saying::Joined, GROUP), (Saying::Left, GROUP)]);
        assert_eq!((bytes[8], bytes[9], &bytes[20..24]), (1, 2, &[0x94, 4, 0, 0][..]));
        assert_eq!((checksum::sum(&bytes[..24]).checksum(), checksum::sum(&bytes[24..]).checksum()), (0, 0));
        assert_eq!((bytes[24], &bytes[28..32], bytes.len()), (0x22, &[0, 0, 0, 2][..], 32 + 2 * 8));
        assert_eq!((bytes[32], &bytes[36..40], bytes[40]), (4, &GROUP.octets()[..], 3));
        assert_eq!(bytes[16..20], ALL_V3_ROUTERS.octets());
    }

    #[test]
    fn older_versions_report_to_the_group_and_leave_at_the_routers() {
        let to = |version, saying| old_report(version, [10, 0, 0, 2].into(), saying, GROUP);
        for (version, saying, dst, kind) in [
            (2, Saying::Joined, GROUP, 0x16),
            (2, Saying::Listens, GROUP, 0x16),
            (2, Saying::Left, [224, 0, 0, 2].into(), 0x17),
            (1, Saying::Joined, GROUP, 0x12),
        ] {
            let (to, bytes) = to(version, saying).unwrap();
            assert_eq!((to, bytes[24], &bytes[28..]), (dst, kind, &GROUP.octets()[..]));
        }
        assert_eq!(to(1, Saying::Left), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = (Query::is_in_v4(&bytes), Query::parse_v4(&bytes));
        }
    }
}
