//! IGMP: the messages that inform switches and routers of the IPv4 groups that this host listens to, as
//! [`mld`](crate::mld) does for IPv6.
//!
//! Sources: RFC 3376 (version 3), RFC 2236 (version 2), RFC 1112 appendix I (version 1)
//! and RFC 2113 (Router Alert). The messages are checked against a Linux bridge that snoops.

use std::net::Ipv4Addr;
use std::time::Duration;

use ackclock_wire::{IpError, IpPacket, checksum};
use etherparse::{Ipv4Slice, ip_number};

use crate::memberships::{Old, Query, Saying};
use crate::nd::Malformed;

impl Query<Ipv4Addr> {
    /// Whether the IPv4 packet `packet` is IGMP.
    pub fn is_in_v4(packet: &[u8]) -> bool {
        packet.get(PROTOCOL) == Some(&ip_number::IGMP.0)
    }

    /// Parses and validates a packet for which [`Query::is_in_v4`] holds; `None`: a fragment, or another
    /// message of IGMP.
    pub fn parse_v4(packet: &[u8]) -> Result<Option<Self>, Malformed> {
        let ip = match IpPacket::parse(packet) {
            Ok(ip) => ip,
            Err(IpError::Fragment) => return Ok(None),
            Err(_) => return Err(Malformed),
        };
        let slice = Ipv4Slice::from_slice(packet).map_err(|_| Malformed)?;
        let message = slice.payload().payload;
        if checksum::sum(message).checksum() != 0 {
            return Err(Malformed);
        }
        let &[kind, code, _, _, a, b, c, d, ref rest @ ..] = message else { return Err(Malformed) };
        if kind != QUERY {
            return Ok(None);
        }
        // RFC 3376 §7.1: 8 bytes are version 1 or 2, 12 and more version 3; others are ignored.
        let (old, sources) = match *rest {
            [] if code == 0 => (Some(Old::V1), 0),
            [] => (Some(Old::V2), 0),
            [_, _, high, low, ref sources @ ..] => {
                let count = usize::from(u16::from_be_bytes([high, low]));
                sources.get(..count.saturating_mul(4)).ok_or(Malformed)?;
                (None, count)
            }
            _ => return Err(Malformed),
        };
        // RFC 1112 appendix I: version 1 ignores the group. It gives no time either: RFC 3376 §7.2.1.
        let is_v1 = old == Some(Old::V1);
        let group = Some(Ipv4Addr::new(a, b, c, d)).filter(|group| !is_v1 && !group.is_unspecified());
        let is_valid = match group {
            // RFC 3376 §4.1.11: a general query has no sources. §9.1: hosts SHOULD ignore one to another
            // group than all systems.
            None => sources == 0 && (!ip.dst.is_multicast() || ip.dst == ALL_SYSTEMS),
            Some(group) => group.is_multicast(),
        };
        // RFC 3376 §4: a TTL of 1. §9.1: hosts SHOULD ignore versions 2 and 3 without a Router Alert.
        // RFC 1112 §7.2: what comes from a group is discarded.
        let is_local =
            ip.ttl == TTL && !ip.src.is_multicast() && (is_v1 || has_router_alert(slice.header().options()));
        if !is_valid || !is_local {
            return Err(Malformed);
        }
        let tenths = if is_v1 { 100 } else { response_tenths(code, old) };
        Ok(Some(Self { group, answer_within: Duration::from_millis(tenths.saturating_mul(100)), old }))
    }
}

/// RFC 791 §3.1: each option is one byte, or says its length, which is of the whole option.
fn has_router_alert(mut options: &[u8]) -> bool {
    loop {
        options = match *options {
            [a, b, c, d, ..] if [a, b, c, d] == ROUTER_ALERT => return true,
            [NO_OPERATION, ref rest @ ..] => rest,
            [kind, len, ..] if kind != END_OF_OPTIONS && len >= 2 => {
                options.get(len.into()..).unwrap_or_default()
            }
            _ => return false,
        }
    }
}

/// Tenths of a second; in version 3 from 128 on a mantissa of 4 bits and an exponent of 3 (RFC 3376 §4.1.1).
fn response_tenths(code: u8, old: Option<Old>) -> u64 {
    let exponent = u32::from(code >> 4) & 7;
    let mantissa = (u64::from(code) & 0xf) | 0x10;
    if code < 128 || old.is_some() { code.into() } else { (mantissa << 3).unbounded_shl(exponent) }
}

/// A report of version 3 (RFC 3376 §4.2), to all routers that listen for those.
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

/// A report of one group in version 1 or 2 (RFC 2236 §3, §4), with its destination: a report goes to the
/// group itself, a leave message to the routers. Version 1 has none: `None`.
pub(crate) fn old_report(
    version: Old,
    src: Ipv4Addr,
    saying: Saying,
    group: Ipv4Addr,
) -> Option<(Ipv4Addr, Vec<u8>)> {
    let (dst, kind) = match (version, saying) {
        (Old::V1, Saying::Left) => return None,
        (Old::V1, _) => (group, REPORT_V1),
        (Old::V2, Saying::Left) => (ALL_ROUTERS, LEAVE),
        (Old::V2, _) => (group, REPORT_V2),
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

/// All systems on the link: every host is a member, and never says so (RFC 3376 §5).
pub(crate) const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// The destination of reports of version 3 (RFC 3376 §4.2.14).
pub(crate) const ALL_V3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);

const HEADER_LEN: usize = 24;
const PROTOCOL: usize = 9;
const TTL: u8 = 1;
/// The type of service of version 3's messages (RFC 3376 §4).
const INTERNETWORK_CONTROL: u8 = 0xc0;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
/// RFC 2113 §2.1: type, length, and the value 0; others are reserved.
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

    /// A packet to `dst` with these IPv4 options and this message, whose checksums are right.
    fn packet(dst: Ipv4Addr, options: &[u8], igmp: &[u8]) -> Vec<u8> {
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), END_OF_OPTIONS);
        let header_len = 20 + options.len();
        let first = 0x40 | u8::try_from(header_len / 4).unwrap();
        let [high, low] = u16::try_from(header_len + igmp.len()).unwrap().to_be_bytes();
        let head = [first, INTERNETWORK_CONTROL, high, low, 0, 0, 0, 0, TTL, 2, 0, 0, 10, 0, 0, 9];
        let mut igmp = igmp.to_vec();
        set_checksum(&mut igmp, 2);
        with_header_checksum([&head[..], &dst.octets(), &options, &igmp].concat())
    }

    fn with_header_checksum(mut packet: Vec<u8>) -> Vec<u8> {
        let header_len = usize::from(packet[0] & 0xf) * 4;
        set_checksum(&mut packet[..header_len], 10);
        packet
    }

    /// Sets the checksum of all bytes, which stands at `at` if they are long enough.
    fn set_checksum(bytes: &mut [u8], at: usize) {
        if bytes.len() >= at + 2 {
            bytes[at..at + 2].fill(0);
            let sum = checksum::sum(bytes).checksum().to_be_bytes();
            bytes[at..at + 2].copy_from_slice(&sum);
        }
    }

    /// A query for `group` (0.0.0.0: for all); `code`: in tenths of a second; `rest`: what version 3 adds.
    fn message_for(group: Ipv4Addr, code: u8, rest: &[u8]) -> Vec<u8> {
        [&[QUERY, code, 0, 0][..], &group.octets(), rest].concat()
    }

    /// A query as a router sends it; `code`: in tenths of a second.
    pub(crate) fn query(group: Option<Ipv4Addr>, code: u8, is_v3: bool) -> Vec<u8> {
        query_to(group.unwrap_or(ALL_SYSTEMS), group, code, is_v3)
    }

    /// A query sent to `dst`.
    pub(crate) fn query_to(dst: Ipv4Addr, group: Option<Ipv4Addr>, code: u8, is_v3: bool) -> Vec<u8> {
        let rest = if is_v3 { &NO_SOURCES[..] } else { &[] };
        packet(dst, &ROUTER_ALERT, &message_for(group.unwrap_or(Ipv4Addr::UNSPECIFIED), code, rest))
    }

    const NO_SOURCES: [u8; 4] = [2, 125, 0, 0];

    #[test]
    fn a_query_of_each_version_is_read() {
        for (code, is_v3, within_ms, old) in [
            (0, true, 0, None),
            (10, true, 1000, None),
            (0x7f, true, 12_700, None),
            // RFC 3376 §4.1.1: (15 | 16) << 3 and (15 | 16) << 10 tenths.
            (0x8f, true, 24_800, None),
            (0xff, true, 3_174_400, None),
            (10, false, 1000, Some(Old::V2)),
            (0x8f, false, 14_300, Some(Old::V2)),
        ] {
            for group in [None, Some(GROUP)] {
                let bytes = query(group, code, is_v3);
                assert!(Query::is_in_v4(&bytes));
                let expected = Query { group, answer_within: Duration::from_millis(within_ms), old };
                assert_eq!(Query::parse_v4(&bytes), Ok(Some(expected)));
            }
        }
    }

    /// RFC 1112 appendix I, "Group Address": zeroed when sent, ignored when received.
    #[test]
    fn a_query_of_version_1_is_for_all_groups_within_10_s_and_needs_no_router_alert() {
        let expected = Query { group: None, answer_within: Duration::from_secs(10), old: Some(Old::V1) };
        for group in [Ipv4Addr::UNSPECIFIED, GROUP, [10, 0, 0, 1].into()] {
            for options in [&[][..], &ROUTER_ALERT] {
                let bytes = packet(ALL_SYSTEMS, options, &message_for(group, 0, &[]));
                assert_eq!(Query::parse_v4(&bytes), Ok(Some(expected)), "{group}");
            }
        }
    }

    #[test]
    fn a_general_query_to_another_group_is_ignored() {
        // RFC 3376 §9.1. One to the host itself counts (§4.1.12), and so does a specific one to its group.
        for (code, is_v3) in [(0, false), (10, false), (10, true)] {
            let to = |dst: [u8; 4]| Query::parse_v4(&query_to(dst.into(), None, code, is_v3));
            assert_eq!((to([224, 0, 0, 2]), to([239, 1, 2, 3])), (Err(Malformed), Err(Malformed)));
            assert!(to([10, 0, 0, 2]).is_ok_and(|query| query.is_some()));
        }
    }

    #[test]
    fn a_fragment_is_not_heard_and_a_bad_header_is_malformed() {
        let good = query(None, 10, true);
        for (at, value) in [(6, 0x20), (7, 1)] {
            let mut bytes = good.clone();
            bytes[at] |= value;
            assert_eq!(Query::parse_v4(&bytes), Err(Malformed), "and the header checksum is wrong");
            assert_eq!(Query::parse_v4(&with_header_checksum(bytes)), Ok(None), "byte {at} is {value}");
        }
        // DF is part of no fragment.
        let mut bytes = good;
        bytes[6] = 0x40;
        assert!(Query::parse_v4(&with_header_checksum(bytes)).is_ok_and(|query| query.is_some()));
    }

    /// RFC 791 §3.1: options of one byte, or with a length that counts both of their first bytes.
    #[test]
    fn the_router_alert_may_stand_behind_other_options_and_has_the_value_0() {
        let parsed = |options: &[u8]| {
            Query::parse_v4(&packet(ALL_SYSTEMS, options, &message_for(0.into(), 10, &NO_SOURCES)))
        };
        for options in [&[1, 0x94, 4, 0, 0][..], &[1, 1, 1, 0x94, 4, 0, 0, 1], &[7, 3, 4, 0x94, 4, 0, 0]] {
            assert!(parsed(options).is_ok_and(|query| query.is_some()), "{options:?}");
        }
        // None, one behind the end, reserved values (RFC 2113 §2.1), and what only looks like one.
        for options in [
            &[][..],
            &[0, 0x94, 4, 0, 0],
            &[0x94, 4, 0, 1],
            &[0x94, 4, 1, 0],
            &[0x94, 3, 0, 1],
            &[7, 6, 0x94, 4, 0, 0],
            &[0x94, 5, 0, 0, 0],
            // Lengths that are too short or too long.
            &[7, 1, 0x94, 4, 0, 0],
            &[7, 0, 0x94, 4, 0, 0],
            &[0x94, 4, 0, 0, 7, 9],
        ] {
            assert_eq!(parsed(options), Err(Malformed), "{options:?}");
        }
    }

    #[test]
    fn what_a_query_asks_for_is_a_group_and_its_sources_are_there() {
        let parsed = |group: [u8; 4], rest: &[u8]| {
            Query::parse_v4(&packet(ALL_SYSTEMS, &ROUTER_ALERT, &message_for(group.into(), 10, rest)))
                .map(|query| query.map(|query| query.group))
        };
        let (all, group) = ([0; 4], GROUP.octets());
        let one = [2, 125, 0, 1, 10, 0, 0, 7];
        assert_eq!(parsed(group, &one), Ok(Some(Some(GROUP))), "RFC 3376 §4.1.11 (3)");
        // RFC 3376 §4.1.10: what is behind the fields is ignored.
        assert_eq!(parsed(group, &[&one[..], &[9; 5]].concat()), Ok(Some(Some(GROUP))));
        assert_eq!(parsed(all, &[2, 125, 0, 0, 9]), Ok(Some(None)));
        assert_eq!(parsed(group, &one[..7]), Err(Malformed), "a source is cut off");
        assert_eq!(parsed(group, &[2, 125, 0xff, 0xff]), Err(Malformed));
        assert_eq!(parsed(all, &one), Err(Malformed), "a general query has no sources");
        // RFC 2236 §6: zero or a group.
        for rest in [&[][..], &NO_SOURCES, &one] {
            assert_eq!(parsed([10, 0, 0, 7], rest), Err(Malformed));
        }
        // RFC 3376 §7.1: 9 to 11 bytes are of no version.
        for len in 1..4 {
            assert_eq!(parsed(all, &[0; 4][..len]), Err(Malformed));
        }
    }

    #[test]
    fn what_is_no_valid_query_is_ignored() {
        let good = query(None, 10, true);
        // The TTL, the source, the Router Alert, and two bytes that the checksum covers.
        for (at, value) in [(8, 2), (12, 224), (20, 0), (HEADER_LEN + 1, 11), (HEADER_LEN + 3, 1)] {
            let mut bytes = good.clone();
            bytes[at] = value;
            let bytes = with_header_checksum(bytes);
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
            (Old::V2, Saying::Joined, GROUP, 0x16),
            (Old::V2, Saying::Listens, GROUP, 0x16),
            (Old::V2, Saying::Left, [224, 0, 0, 2].into(), 0x17),
            (Old::V1, Saying::Joined, GROUP, 0x12),
        ] {
            let (to, bytes) = to(version, saying).unwrap();
            assert_eq!((to, bytes[24], &bytes[28..]), (dst, kind, &GROUP.octets()[..]));
        }
        assert_eq!(to(Old::V1, Saying::Left), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = (Query::is_in_v4(&bytes), Query::parse_v4(&bytes));
        }

        /// Such as pass the checksums, so that everything behind them is reached.
        #[test]
        fn a_query_of_any_bytes_is_of_a_group_or_of_all(
            options in proptest::collection::vec(prop_oneof![0..8_u8, Just(0x94), any::<u8>()], 0..24),
            igmp in proptest::collection::vec(any::<u8>(), 0..40),
            is_query in any::<bool>(),
            has_alert in any::<bool>(),
        ) {
            let mut igmp = igmp;
            if let Some(kind) = igmp.first_mut().filter(|_| is_query) {
                *kind = QUERY;
            }
            let options = if has_alert { [&ROUTER_ALERT[..], &options].concat() } else { options };
            if let Ok(Some(query)) = Query::parse_v4(&packet(ALL_SYSTEMS, &options, &igmp)) {
                prop_assert!(query.group.is_none_or(|group| group.is_multicast()));
                // RFC 3376 §4.1.1: 31 << 10 tenths of a second.
                prop_assert!(query.answer_within <= Duration::from_millis(3_174_400));
            }
        }
    }
}
