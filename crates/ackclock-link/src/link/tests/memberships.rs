use super::*;
use crate::igmp;
use crate::memberships::Saying;
use crate::mld::tests::{query, query_to};
use crate::mld::{ALL_V2_ROUTERS, report, report_v1};

const GROUP: &str = "ff02::1:ff00:9";

/// One IPv6 address besides the link-local one, which has another group.
fn reporting(detection: Detection) -> Rig {
    Rig::fresh(|config| {
        config.addresses = vec![Cidr::up_to(ip("fd09::9"), 64)];
        config.detection = detection;
        config.timing.reports = 2;
    })
}

/// The reports among what was sent: the time, whether the source was unspecified, and the first record.
fn reports(frames: &[(Duration, SentFrame)]) -> Vec<(Duration, bool, u8)> {
    let is_report =
        |sent: &&(Duration, SentFrame)| sent.1.ether_type == 0x86dd && sent.1.bytes.get(48) == Some(&143);
    let told = |(at, sent): &(Duration, SentFrame)| {
        assert_eq!(sent.dst, MacAddr::of_group(ALL_V2_ROUTERS.into()));
        (*at, sent.bytes[8..24] == [0; 16], sent.bytes[56])
    };
    frames.iter().filter(is_report).map(told).collect()
}

#[test]
fn a_group_is_reported_before_its_address_is_probed_and_again_once_there_is_a_source() {
    let mut rig = reporting(Detection::Probe);
    let sent = rig.run(Duration::from_secs(10));
    let first = &sent[0].1;
    assert_eq!(first.bytes[48], 143, "a report goes out before the first question");
    assert_eq!(sent[0].0, sent[1].0);
    assert_eq!(sent[1].1.bytes[40], 135, "and the question at once behind it");
    let told = reports(&sent);
    // Joined, from the unspecified address; and all again from the link-local address, twice within a second.
    assert!(told.iter().all(|(_, _, kind)| *kind == 4), "{told:?}");
    let from_address: Vec<_> = told.iter().filter(|(_, nowhere, _)| !nowhere).collect();
    assert!(from_address.len() >= 2 && from_address.len() <= 4, "{told:?}");
    let settled = from_address[0].0;
    assert!(from_address.iter().all(|(at, ..)| *at <= settled + Duration::from_secs(2)), "{told:?}");
    assert!(rig.run(Duration::from_secs(100)).is_empty(), "then there is silence");
}

#[test]
fn a_query_is_answered_once_within_its_time() {
    let mut rig = reporting(Detection::Announce);
    rig.run(Duration::from_secs(10));
    for _ in 0..3 {
        rig.nd(station(9), &query(None, 5000, false));
    }
    let told = rig.run(Duration::from_secs(20));
    let link_local = rig.link.addresses.link_local().unwrap();
    let mut groups = [solicited_node(link_local), v6(GROUP)];
    groups.sort_unstable();
    let expected = report(link_local, &groups.map(|group| (Saying::Listens, group)));
    assert_eq!(told.len(), 1);
    assert!(told[0].0 < Duration::from_secs(5) && told[0].1.bytes == expected, "{told:?}");
    rig.nd(station(9), &query(Some(v6(GROUP)), 1000, false));
    rig.nd(station(9), &query(Some(v6("ff02::1:ff00:7")), 1000, false));
    let told = rig.run(Duration::from_secs(20));
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].1.bytes, report(link_local, &[(Saying::Listens, v6(GROUP))]));
}

#[test]
fn a_router_of_version_1_is_answered_in_its_version_until_it_is_gone() {
    let mut rig = reporting(Detection::Announce);
    rig.run(Duration::from_secs(10));
    let link_local = rig.link.addresses.link_local().unwrap();
    rig.nd(station(9), &query(Some(v6(GROUP)), 1000, true));
    let told = rig.run(Duration::from_secs(5));
    let (dst, bytes) = report_v1(link_local, Saying::Listens, v6(GROUP));
    assert_eq!((told.len(), dst, bytes[48]), (1, v6(GROUP), 131));
    assert_eq!((told[0].1.dst, &told[0].1.bytes), (MacAddr::of_group(dst.into()), &bytes));
    rig.run(Duration::from_secs(300));
    rig.nd(station(9), &query(Some(v6(GROUP)), 1000, false));
    assert_eq!(rig.run(Duration::from_secs(5))[0].1.bytes[48], 143);
}

#[test]
fn a_link_that_comes_back_hears_of_all_groups_again() {
    let mut rig = reporting(Detection::Announce);
    rig.run(Duration::from_secs(10));
    rig.link.link_restored(rig.now);
    let told = reports(&rig.run(Duration::from_secs(10)));
    assert!((2..=3).contains(&told.len()) && told.iter().all(|(_, _, kind)| *kind == 4), "{told:?}");
}

#[test]
fn a_forged_query_is_counted_and_not_answered() {
    let mut rig = reporting(Detection::Announce);
    rig.run(Duration::from_secs(10));
    let mut forged = query(None, 1000, false);
    forged[7] = 64;
    rig.nd(station(9), &forged);
    assert_eq!((rig.run(Duration::from_secs(20)).len(), rig.link.counters().malformed), (0, 1));
}

/// 10.9.0.2, which is in use, and a program that listens to a group.
fn listening(group: &str) -> Rig {
    let mut rig = Rig::fresh(|config| {
        config.addresses = vec![Cidr::up_to(ip(V4), 24)];
        config.detection = Detection::Announce;
        config.timing.reports = 2;
    });
    rig.run(Duration::from_secs(10));
    rig.link.listen_to(rig.now, &[ip(group)]);
    rig
}

/// The reports of IGMP among what was sent: the time, the Ethernet group, and the message.
fn told_v4(frames: &[(Duration, SentFrame)]) -> Vec<(Duration, MacAddr, Vec<u8>)> {
    let is_igmp = |sent: &&(Duration, SentFrame)| sent.1.ether_type == 0x800 && sent.1.bytes[9] == 2;
    frames.iter().filter(is_igmp).map(|(at, sent)| (*at, sent.dst, sent.bytes[24..].to_vec())).collect()
}

#[test]
fn the_programs_groups_are_reported_when_they_come_and_when_they_go() {
    let mut rig = listening("239.1.2.3");
    let group_mac = MacAddr::of_group(ip("239.1.2.3"));
    assert!(rig.link.groups().contains(&group_mac));
    let revision = rig.link.groups_revision();
    let (src, to) = ([10, 9, 0, 2].into(), MacAddr::of_group(igmp::ALL_V3_ROUTERS.into()));
    let message = |saying| igmp::report(src, &[(saying, [239, 1, 2, 3].into())])[24..].to_vec();
    let told = told_v4(&rig.run(Duration::from_secs(10)));
    assert_eq!((told.len(), told[0].0), (2, Duration::ZERO), "at once, and again");
    assert!(told.iter().all(|(_, dst, bytes)| (*dst, bytes) == (to, &message(Saying::Joined))), "{told:?}");
    rig.link.listen_to(rig.now, &[]);
    assert!(!rig.link.groups().contains(&group_mac) && rig.link.groups_revision() != revision);
    let told = told_v4(&rig.run(Duration::from_secs(10)));
    assert!(told.len() == 2 && told.iter().all(|(_, _, bytes)| *bytes == message(Saying::Left)), "{told:?}");
    assert!(rig.run(Duration::from_secs(100)).is_empty());
}

#[test]
fn a_query_of_igmp_is_answered_in_its_version() {
    let mut rig = listening("239.1.2.3");
    rig.run(Duration::from_secs(10));
    let mut asked = |code, is_v3| {
        let bytes = igmp::tests::query(None, code, is_v3);
        let all = MacAddr::of_group(igmp::ALL_SYSTEMS.into());
        assert_eq!(rig.receive(station(9), all, EtherType::IPV4, &bytes), None);
        let told = told_v4(&rig.run(Duration::from_secs(20)));
        assert_eq!(told.len(), 1, "{told:?}");
        (told[0].0, told[0].1, told[0].2[0])
    };
    let (routers, group) =
        (MacAddr::of_group(igmp::ALL_V3_ROUTERS.into()), MacAddr::of_group(ip("239.1.2.3")));
    let (at, dst, kind) = asked(10, true);
    assert!(at <= Duration::from_secs(1) && (dst, kind) == (routers, 0x22), "{at:?}");
    let (at, dst, kind) = asked(50, false);
    assert!(at <= Duration::from_secs(5) && (dst, kind) == (group, 0x16), "{at:?}");
    // A router of version 1 keeps the answers in its version, whatever others ask in.
    assert_eq!(asked(0, false).2, 0x12);
    assert_eq!(asked(10, true).2, 0x12);
    rig.run(Duration::from_secs(300));
    let bytes = igmp::tests::query(None, 10, true);
    rig.receive(station(9), routers, EtherType::IPV4, &bytes);
    assert_eq!(told_v4(&rig.run(Duration::from_secs(5)))[0].2[0], 0x22);
}

#[test]
fn groups_that_stay_on_the_host_or_that_all_are_in_are_not_reported() {
    for group in ["224.0.0.1", "ff02::1", "ff01::5", "ff00::5"] {
        let mut rig = listening(group);
        assert!(rig.run(Duration::from_secs(10)).is_empty(), "{group}");
    }
    let mut rig = reporting(Detection::Announce);
    rig.run(Duration::from_secs(10));
    rig.link.listen_to(rig.now, &[ip("ff15::1234")]);
    let link_local = rig.link.addresses.link_local().unwrap();
    let told = rig.run(Duration::from_secs(10));
    let expected = report(link_local, &[(Saying::Joined, v6("ff15::1234"))]);
    assert!(told.len() == 2 && told.iter().all(|(_, sent)| sent.bytes == expected), "{told:?}");
}

#[test]
fn a_storm_of_queries_has_an_answer_every_fifth_of_a_second() {
    let mut rig = listening("239.1.2.3");
    rig.run(Duration::from_secs(10));
    let bytes = igmp::tests::query(None, 0, true);
    let all = MacAddr::of_group(igmp::ALL_SYSTEMS.into());
    let mut told = 0;
    for _ in 0..1000 {
        rig.receive(station(9), all, EtherType::IPV4, &bytes);
        told += told_v4(&rig.run(Duration::from_millis(2))).len();
    }
    assert!((9..=11).contains(&told), "{told} answers to 1,000 queries in 2 s");
}

#[test]
fn a_report_of_many_groups_fits_the_least_mtu() {
    let mut rig = reporting(Detection::Announce);
    rig.run(Duration::from_secs(10));
    let groups: Vec<_> = (1..=64).map(|group| ip(&format!("ff15::{group:x}"))).collect();
    rig.link.listen_to(rig.now, &groups);
    let told = rig.run(Duration::from_millis(1));
    let lens: Vec<_> = told.iter().map(|(_, sent)| sent.bytes.len()).collect();
    assert!(lens.iter().all(|len| *len <= 1280), "{lens:?}");
    // 56 bytes of headers and counts in each, and 20 for each group.
    assert_eq!(lens.iter().sum::<usize>(), 2 * 56 + 64 * 20, "{lens:?}");
}

#[test]
fn groups_that_come_and_go_quickly_do_not_pile_up() {
    let mut rig = listening("239.1.2.3");
    for group in 0..1000_u32 {
        let group = Ipv4Addr::from(0xef02_0000 | group);
        rig.link.listen_to(rig.now, &[group.into()]);
    }
    let told = told_v4(&rig.run(Duration::from_secs(10)));
    let records: usize = told.iter().map(|(_, _, bytes)| usize::from(bytes[7])).sum();
    assert!((2..=2 * 257).contains(&records), "{records} records in {} reports", told.len());
}

/// Groups of IGMP: 239.1.1.1 and those behind it.
fn groups_v4(count: u8) -> Vec<IpAddr> {
    (1..=count).map(|last| ip(&format!("239.1.1.{last}"))).collect()
}

/// A query of IGMP arrives, in a frame to all.
fn asked_v4(rig: &mut Rig, bytes: &[u8]) {
    let all = MacAddr::of_group(igmp::ALL_SYSTEMS.into());
    assert_eq!(rig.receive(station(9), all, EtherType::IPV4, bytes), None);
}

/// A general query of IGMPv1 (`code` 0), v2 or v3.
fn general_v4(rig: &mut Rig, code: u8, is_v3: bool) {
    asked_v4(rig, &igmp::tests::query(None, code, is_v3));
}

/// The reports of MLD among what was sent: the time, and the message.
fn told_v6(frames: &[(Duration, SentFrame)]) -> Vec<(Duration, Vec<u8>)> {
    let is_mld = |sent: &&(Duration, SentFrame)| {
        sent.1.ether_type == 0x86dd && matches!(sent.1.bytes.get(48), Some(131 | 132 | 143))
    };
    frames.iter().filter(is_mld).map(|(at, sent)| (*at, sent.bytes[48..].to_vec())).collect()
}

/// The type of the report that a join now has.
fn kind_of_a_join(rig: &mut Rig) -> u8 {
    rig.link.listen_to(rig.now, &[]);
    rig.run(Duration::from_millis(1));
    rig.link.listen_to(rig.now, &groups_v4(1));
    let told = told_v4(&rig.run(Duration::ZERO));
    assert_eq!(told.len(), 1, "{told:?}");
    told[0].2[0]
}

#[test]
fn each_older_version_of_igmp_has_a_time_of_its_own() {
    // RFC 3376 §7.2.1, §8.12: 2 * 125 s + 10 s after the last query of each. Without version 1, version 2
    // if it still counts; a query of version 3 changes nothing.
    let (v1, v2, v3) = (0, 10, true);
    let mut rig = listening("239.1.1.1");
    rig.run(Duration::from_secs(10));
    general_v4(&mut rig, v1, false);
    rig.run(Duration::from_secs(200));
    general_v4(&mut rig, v2, false);
    general_v4(&mut rig, v2, v3);
    assert_eq!(kind_of_a_join(&mut rig), 0x12);
    rig.run(Duration::from_secs(59));
    assert_eq!(kind_of_a_join(&mut rig), 0x12, "259 s after the query of version 1");
    rig.run(Duration::from_secs(1));
    assert_eq!(kind_of_a_join(&mut rig), 0x16, "260 s after it");
    rig.run(Duration::from_secs(199));
    assert_eq!(kind_of_a_join(&mut rig), 0x16, "259 s after the query of version 2");
    rig.run(Duration::from_secs(1));
    assert_eq!(kind_of_a_join(&mut rig), 0x22);

    // Version 1 does not prolong version 2.
    general_v4(&mut rig, v2, false);
    rig.run(Duration::from_secs(100));
    general_v4(&mut rig, v1, false);
    rig.run(Duration::from_secs(259));
    assert_eq!(kind_of_a_join(&mut rig), 0x12);
    rig.run(Duration::from_secs(1));
    assert_eq!(kind_of_a_join(&mut rig), 0x22);
}

#[test]
fn a_query_of_version_2_for_one_group_says_nothing_of_the_querier() {
    // RFC 3376 §7.2.1: set "whenever an IGMPv2 General Query is received".
    let mut rig = listening("239.1.1.1");
    rig.run(Duration::from_secs(10));
    asked_v4(&mut rig, &igmp::tests::query(Some([239, 1, 1, 1].into()), 10, false));
    let told = told_v4(&rig.run(Duration::from_secs(1)));
    assert_eq!((told.len(), told[0].2[0]), (1, 0x22), "{told:?}");
    assert_eq!(kind_of_a_join(&mut rig), 0x22);
    general_v4(&mut rig, 10, false);
    assert_eq!(kind_of_a_join(&mut rig), 0x16);
}

/// RFC 3376 §7.2.1, RFC 3810 §8.2.1: "Whenever a host changes its compatibility mode, it cancels all its
/// pending response and retransmission timers."
#[test]
fn a_change_of_version_cancels_what_waits() {
    for is_v4 in [true, false] {
        let group = ip(if is_v4 { "239.1.1.1" } else { "ff15::1" });
        let mut rig = if is_v4 { listening("239.9.9.9") } else { reporting(Detection::Announce) };
        rig.run(Duration::from_secs(10));
        // Version 2 of IGMP, 1 of MLD; for another group, whose answer is left out.
        let ask_old = |rig: &mut Rig| match is_v4 {
            true => general_v4(rig, 0, false),
            false => rig.nd(station(9), &query_to(crate::nd::ALL_NODES, Some(v6("ff15::9")), 1000, true)),
        };
        let about = |frames: &[(Duration, SentFrame)]| {
            let octets = match group {
                IpAddr::V4(group) => group.octets().to_vec(),
                IpAddr::V6(group) => group.octets().to_vec(),
            };
            let names = |bytes: &[u8]| bytes.windows(octets.len()).any(|at| at == octets);
            let v4 = told_v4(frames).into_iter().map(|(at, _, bytes)| (at, bytes));
            let told: Vec<_> = v4.chain(told_v6(frames)).filter(|(_, bytes)| names(bytes)).collect();
            told
        };
        // The second report of a join or leave. (Version 1 of IGMP answers within 10 s.)
        let first = rig.now;
        rig.link.listen_to(rig.now, &[group]);
        assert_eq!(about(&rig.run(Duration::ZERO)).len(), 1);
        rig.link.listen_to(rig.now, &[]);
        assert_eq!(about(&rig.run(Duration::ZERO)).len(), 1);
        ask_old(&mut rig);
        assert_eq!(about(&rig.run(Duration::from_secs(100))), [], "IPv4: {is_v4}");

        // Back in the newest version, an answer that is due after the end of the old one's time.
        rig.link.listen_to(rig.now, &[group]);
        rig.run(Duration::from_millis(159_500));
        match is_v4 {
            true => general_v4(&mut rig, 100, true),
            false => rig.nd(station(9), &query(None, 10_000, false)),
        }
        assert_eq!(rig.now.saturating_since(first), Duration::from_millis(259_500));
        let told = about(&rig.run(Duration::from_millis(499)));
        assert_eq!(told, [], "the answer is due later");
        assert_eq!(about(&rig.run(Duration::from_secs(100))), [], "IPv4: {is_v4}");

        // A first report is neither: it leaves at once in the version that then counts.
        rig.link.listen_to(rig.now, &[]);
        rig.run(Duration::from_secs(10));
        rig.link.listen_to(rig.now, &[group]);
        ask_old(&mut rig);
        let told = about(&rig.run(Duration::ZERO));
        assert_eq!((told.len(), told[0].1[0]), (1, if is_v4 { 0x12 } else { 131 }), "{told:?}");
    }
}

/// RFC 2236 §3, RFC 2710 §4, RFC 1112 appendix I: each timer is set to a different random value.
#[test]
fn in_an_older_version_each_group_answers_at_a_time_of_its_own() {
    for (code, kind, within_s) in [(0, 0x12, 10), (50, 0x16, 5)] {
        let mut rig = listening("239.1.1.1");
        rig.link.listen_to(rig.now, &groups_v4(40));
        rig.run(Duration::from_secs(10));
        general_v4(&mut rig, code, false);
        let told = told_v4(&rig.run(Duration::from_secs(100)));
        assert_eq!(told.len(), 40, "each group once");
        assert!(told.iter().all(|(at, _, bytes)| *at <= Duration::from_secs(within_s) && bytes[0] == kind));
        let mut groups: Vec<_> = told.iter().map(|(.., bytes)| bytes[4..8].to_vec()).collect();
        groups.sort();
        groups.dedup();
        assert_eq!(groups.len(), 40);
        let mut times: Vec<_> = told.iter().map(|(at, ..)| *at).collect();
        times.dedup();
        let (first, last) = (times[0], times[times.len() - 1]);
        assert!(times.len() >= 38, "{times:?}");
        assert!(last - first > Duration::from_secs(within_s) / 2, "from {first:?} to {last:?}");
    }
    let mut rig = reporting(Detection::Announce);
    let groups: Vec<_> = (1..=40).map(|group| ip(&format!("ff15::{group:x}"))).collect();
    rig.link.listen_to(rig.now, &groups);
    rig.run(Duration::from_secs(10));
    rig.nd(station(9), &query(None, 5000, true));
    let told = told_v6(&rig.run(Duration::from_secs(100)));
    assert_eq!(told.len(), 42, "and the groups of two addresses");
    assert!(told.iter().all(|(at, bytes)| *at <= Duration::from_secs(5) && bytes[0] == 131));
    let mut times: Vec<_> = told.iter().map(|(at, _)| *at).collect();
    times.dedup();
    assert!(times.len() >= 40, "{times:?}");
}

/// RFC 2236 §3, RFC 2710 §4: "reset to the random value only if the requested Max Response Time is less than
/// the remaining value of the running timer".
#[test]
fn in_an_older_version_only_a_query_that_gives_less_time_hastens_an_answer() {
    let mut rig = listening("239.1.1.1");
    rig.run(Duration::from_secs(10));
    general_v4(&mut rig, 250, false);
    let due = rig.link.poll_timeout().unwrap();
    assert!(
        due > rig.now + Duration::from_millis(200) && due <= rig.now + Duration::from_secs(25),
        "{due:?}"
    );
    for _ in 0..50 {
        general_v4(&mut rig, 250, false);
        assert_eq!(rig.link.poll_timeout(), Some(due));
    }
    general_v4(&mut rig, 1, false);
    assert!(rig.link.poll_timeout().unwrap() <= rig.now + Duration::from_millis(100));
    assert_eq!(told_v4(&rig.run(Duration::from_secs(100))).len(), 1);
}

#[test]
fn in_an_older_version_a_leave_is_said_once_and_a_join_again_within_10_s() {
    // RFC 2236 §3 "a Leave Group message", RFC 2710 §4 "a single Done message"; version 1 has none. RFC 2236
    // §8.10, RFC 2710 §7.10: joins are repeated within 10 s.
    for (code, joined, left) in [(0, 0x12, 0), (10, 0x16, 1)] {
        let mut rig = listening("239.9.9.9");
        rig.run(Duration::from_secs(10));
        general_v4(&mut rig, code, false);
        rig.run(Duration::from_secs(10));
        rig.link.listen_to(rig.now, &groups_v4(20));
        let told = told_v4(&rig.run(Duration::from_secs(60)));
        let (leaves, joins): (Vec<_>, Vec<_>) = told.iter().partition(|(.., bytes)| bytes[0] == 0x17);
        assert_eq!((leaves.len(), joins.len()), (left, 40), "{told:?}");
        assert!(joins.iter().all(|(.., bytes)| bytes[0] == joined));
        let last = joins.iter().map(|(at, ..)| *at).max().unwrap();
        assert!(last > Duration::from_secs(5) && last <= Duration::from_secs(10), "{last:?}");
        assert_eq!(rig.link.poll_timeout(), None);
    }
    let mut rig = reporting(Detection::Announce);
    rig.link.listen_to(rig.now, &[ip("ff15::1")]);
    rig.run(Duration::from_secs(10));
    rig.nd(station(9), &query(None, 1000, true));
    rig.run(Duration::from_secs(10));
    rig.link.listen_to(rig.now, &[]);
    let told = told_v6(&rig.run(Duration::from_secs(60)));
    assert_eq!((told.len(), told[0].1[0]), (1, 132), "{told:?}");
}

#[test]
fn a_group_that_is_left_is_not_named_in_an_answer() {
    for is_v3 in [true, false] {
        let mut rig = listening("239.1.1.1");
        rig.link.listen_to(rig.now, &groups_v4(2));
        rig.run(Duration::from_secs(10));
        general_v4(&mut rig, 100, is_v3);
        asked_v4(&mut rig, &igmp::tests::query(Some([239, 1, 1, 2].into()), 100, is_v3));
        rig.link.listen_to(rig.now, &groups_v4(1));
        let told = told_v4(&rig.run(Duration::from_secs(100)));
        // IS_EX, or a report of version 2.
        let says_member = |bytes: &[u8]| match bytes[0] {
            0x22 => bytes[8..].chunks(8).any(|record| record[0] == 2 && record[4..] == [239, 1, 1, 2]),
            kind => kind == 0x16 && bytes[4..] == [239, 1, 1, 2],
        };
        assert!(told.iter().all(|(.., bytes)| !says_member(bytes)), "{told:?}");
        assert!(told.iter().any(|(.., bytes)| bytes[4..].ends_with(&[239, 1, 1, 1])), "{told:?}");
    }
}

#[test]
fn a_query_counts_at_the_hosts_addresses_and_groups_alone() {
    // RFC 3376 §4.1.12, RFC 3810 §5.1.15; and RFC 3376 §9.1 of general queries to other groups.
    let group = Some([239, 1, 1, 1].into());
    for (dst, about, counts) in [
        ([224, 0, 0, 1], None, true),
        ([10, 9, 0, 2], None, true),
        ([10, 9, 0, 3], None, false),
        ([239, 1, 1, 1], None, false),
        ([224, 0, 0, 2], None, false),
        ([255, 255, 255, 255], None, false),
        ([239, 1, 1, 1], group, true),
        ([224, 0, 0, 1], group, true),
        ([10, 9, 0, 2], group, true),
        ([239, 1, 1, 2], group, false),
    ] {
        let mut rig = listening("239.1.1.1");
        rig.link.any_station = true;
        rig.run(Duration::from_secs(10));
        asked_v4(&mut rig, &igmp::tests::query_to(dst.into(), about, 10, true));
        let told = told_v4(&rig.run(Duration::from_secs(10)));
        assert_eq!(told.len(), usize::from(counts), "{dst:?}");
    }
    for (dst, counts) in
        [("ff02::1", true), ("fd09::9", true), (GROUP, true), ("fd09::7", false), ("ff02::1:ff00:7", false)]
    {
        let mut rig = reporting(Detection::Announce);
        rig.link.any_station = true;
        rig.run(Duration::from_secs(10));
        rig.nd(station(9), &query_to(v6(dst), None, 1000, false));
        assert_eq!(told_v6(&rig.run(Duration::from_secs(10))).len(), usize::from(counts), "{dst}");
    }
}

#[test]
fn queries_are_heard_before_a_program_listens() {
    // RFC 1112 §7.2: "every level 2 host must join the all-hosts group on each network interface at
    // initialization time", so that the first report is in the querier's version.
    let mut rig = Rig::fresh(|config| {
        config.addresses = vec![Cidr::up_to(ip(V4), 24)];
        config.detection = Detection::Announce;
        config.timing.reports = 2;
    });
    rig.run(Duration::from_secs(10));
    assert_eq!(rig.link.groups(), [MacAddr::of_group(igmp::ALL_SYSTEMS.into())]);
    general_v4(&mut rig, 10, false);
    assert!(rig.run(Duration::from_secs(20)).is_empty());
    assert_eq!(kind_of_a_join(&mut rig), 0x16);
}

#[test]
fn a_query_of_hours_holds_up_no_other() {
    // RFC 3376 §4.1.1: up to 53 minutes.
    for forged in [0xff, 0xf0] {
        let mut rig = listening("239.1.1.1");
        rig.run(Duration::from_secs(10));
        for _ in 0..100 {
            general_v4(&mut rig, forged, true);
            asked_v4(&mut rig, &igmp::tests::query(Some([239, 1, 1, 1].into()), forged, true));
        }
        general_v4(&mut rig, 10, true);
        let told = told_v4(&rig.run(Duration::from_secs(1)));
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(rig.link.poll_timeout(), None, "the one answer is for all of them");
    }
}

#[test]
fn a_storm_in_an_older_version_has_an_answer_of_each_group_every_fifth_of_a_second() {
    let mut rig = listening("239.1.1.1");
    rig.link.listen_to(rig.now, &groups_v4(20));
    rig.run(Duration::from_secs(10));
    let bytes = igmp::tests::query(None, 1, false);
    let mut told = 0;
    for _ in 0..1000 {
        asked_v4(&mut rig, &bytes);
        told += told_v4(&rig.run(Duration::from_millis(2))).len();
    }
    assert!((100..=20 * 11).contains(&told), "{told} answers of 20 groups to 1,000 queries in 2 s");
    assert_eq!(rig.link.counters().messages_dropped, 0);
}
