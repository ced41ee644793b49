use super::*;
use crate::igmp;
use crate::memberships::Saying;
use crate::mld::tests::query;
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
