//! Goal: losses found by a timer whose repair had to wait, and loss declarations that the peer refuted, are
//! counted; others are not.

use ackclock_sim::scenario::{Loss, Reordering};
use ackclock_sim::units::Share;

use super::*;

const LOST: Entry = Entry::Lost { rule: LossRule::LaterDelivered, start: 1, end: 1001 };

fn sacked(left: u32, right: u32) -> Entry {
    Entry::Sacked { left, right }
}

/// A reordering timer finds a loss at 100 ms; `follows` is what happens next.
fn found(follows: &[(u64, Entry)]) -> Held {
    let mut entries = vec![
        (at(0), acked(1)),
        (at(0), sent(SendReason::NewData, 1, 1000)),
        (at(0), sent(SendReason::NewData, 1001, 1000)),
        (at(0), limited(Limit::Cwnd)),
        (at(90), acked(1)),
        (at(90), sacked(1001, 2001)),
        (at(100), fired(Timer::Reordering)),
        (at(100), LOST),
    ];
    entries.extend(follows.iter().map(|&(millis, entry)| (at(millis), entry)));
    account(&traced("cubic", &[], &entries)).verdicts.held
}

#[test]
fn loss_that_a_timer_found_waits_for_what_the_trace_names() {
    let again = sent(SendReason::Retransmission, 1, 1000);
    let held = found(&[(100, limited(Limit::Pacing)), (107, again)]);
    assert_eq!((held.losses(), held.by.get("pacing"), held.never), (1, Some(&1), 0));
    assert_eq!((held.time, held.longest), (7 * MS, Some((at(100), 7 * MS))));
    let held = found(&[(100, limited(Limit::Recovery)), (120, again)]);
    assert_eq!((held.losses(), held.by.get("recovery"), held.time), (1, Some(&1), 20 * MS));
    let held = found(&[(100, limited(Limit::Recovery)), (120, acked(2001))]);
    assert_eq!((held.losses(), held.never, held.longest), (1, 1, None));
}

#[test]
fn limit_that_stands_already_is_not_said_again() {
    let entries = [
        (at(0), acked(1)),
        (at(0), sent(SendReason::NewData, 1, 1000)),
        (at(0), limited(Limit::Recovery)),
        (at(100), fired(Timer::Reordering)),
        (at(100), LOST),
        (at(103), Entry::Received { flags: 0x10, seq: 1, len: 0 }),
        (at(103), sent(SendReason::Retransmission, 1, 1000)),
    ];
    let held = account(&traced("cubic", &[], &entries)).verdicts.held;
    assert_eq!((held.by.get("recovery"), held.time), (Some(&1), 3 * MS));
}

#[test]
fn loss_that_goes_out_at_once_has_not_waited() {
    let again = sent(SendReason::Retransmission, 1, 1000);
    assert_eq!(found(&[(100, again), (100, limited(Limit::Recovery)), (140, acked(2001))]), Held::default());
    assert_eq!(found(&[(100, limited(Limit::Pacing)), (100, again)]), Held::default(), "no time has passed");
    // The driver takes in received packets before it asks for packets to send: the window's limit still
    // stands.
    let received = Entry::Received { flags: 0x10, seq: 1, len: 0 };
    assert_eq!(found(&[(101, received), (101, again)]), Held::default());
    // A loss found by an acknowledgement does not count as a timer's.
    let entries = [(at(0), acked(1)), (at(0), sent(SendReason::NewData, 1, 1000)), (at(90), LOST)];
    let rest = [(at(90), limited(Limit::Pacing)), (at(99), again)];
    let account = account(&traced("cubic", &[], &[&entries[..], &rest[..]].concat()));
    assert_eq!(account.verdicts.held, Held::default());
}

/// 2,000 bytes declared lost and retransmitted, then these reports; the last byte acknowledged is 2000.
fn reported(reports: &[&[Entry]]) -> Verdicts {
    let mut entries = vec![
        (at(0), acked(1)),
        (at(0), sent(SendReason::NewData, 1, 1000)),
        (at(0), sent(SendReason::NewData, 1001, 1000)),
        (at(0), sent(SendReason::NewData, 2001, 2000)),
        (at(50), Entry::Lost { rule: LossRule::LaterDelivered, start: 1, end: 2001 }),
        (at(50), sent(SendReason::Retransmission, 1, 2000)),
        (at(60), sent(SendReason::TailProbe, 3001, 1000)),
        (at(61), acked(2001)),
    ];
    entries.extend(reports.iter().flat_map(|report| report.iter().map(|&entry| (at(100), entry))));
    account(&traced("cubic", &[], &entries)).verdicts
}

#[test]
fn verdict_that_a_dsack_refutes_is_charged_to_its_rule_once() {
    let rule = |verdicts: &Verdicts| verdicts.refuted.get("later-delivered").copied();
    assert_eq!(rule(&reported(&[])), None);
    let first: &[Entry] = &[acked(2001), sacked(1, 1001)];
    let second: &[Entry] = &[acked(2001), sacked(1001, 2001)];
    let middle: &[Entry] = &[acked(2001), sacked(501, 1501)];
    assert_eq!(rule(&reported(&[first])), Some(Refuted { verdicts: 1, bytes: 1000 }));
    assert_eq!(rule(&reported(&[first, second])), Some(Refuted { verdicts: 1, bytes: 2000 }));
    // A second report of the same data means that the network duplicated it.
    assert_eq!(rule(&reported(&[first, first])), Some(Refuted { verdicts: 1, bytes: 1000 }));
    assert_eq!(rule(&reported(&[middle, first, second])), Some(Refuted { verdicts: 1, bytes: 2000 }));
}

#[test]
fn bytes_declared_lost_twice_are_charged_to_the_last_verdict_first() {
    let lost = |rule, start, end| Entry::Lost { rule, start, end };
    let begin = [
        (at(0), acked(1)),
        (at(0), sent(SendReason::NewData, 1, 3000)),
        (at(50), lost(LossRule::LaterDelivered, 1, 3001)),
        (at(50), sent(SendReason::Retransmission, 1, 3000)),
        (at(300), lost(LossRule::Timeout, 1001, 2001)),
        (at(300), sent(SendReason::Retransmission, 1001, 1000)),
    ];
    let bytes = |reports: &[(u32, u32)]| {
        let mut entries = begin.to_vec();
        for &(left, right) in reports {
            entries.extend([(at(400), acked(3001)), (at(400), sacked(left, right))]);
        }
        let refuted = account(&traced("cubic", &[], &entries)).verdicts.refuted;
        ["later-delivered", "timeout"].map(|rule| refuted.get(rule).map_or(0, |refuted| refuted.bytes))
    };
    let all = (1, 3001);
    assert_eq!(bytes(&[all]), [2000, 1000]);
    assert_eq!(bytes(&[all, (2001, 3001)]), [2000, 1000], "both copies of it are accounted for");
    assert_eq!(bytes(&[all, (1001, 2001)]), [3000, 1000]);
    assert_eq!(bytes(&[all, all, all]), [3000, 1000]);
}

#[test]
fn block_is_a_report_only_where_rfc_2883_says_so() {
    let rule = |verdicts: Verdicts| verdicts.refuted.contains_key("later-delivered");
    // Below the acknowledgement, or within the second block. A third block never reports a duplicate.
    assert!(rule(reported(&[&[acked(1), sacked(1, 1001), sacked(1, 2001)]])));
    assert!(!rule(reported(&[&[acked(1), sacked(1, 1001), sacked(2001, 3001)]])));
    assert!(!rule(reported(&[&[acked(1), sacked(2001, 3001), sacked(1, 1001)]])));
    // The network duplicated a segment that was sent once.
    assert!(!rule(reported(&[&[acked(3001), sacked(2001, 3001)]])));
}

#[test]
fn report_of_a_probe_refutes_no_verdict() {
    let verdicts = reported(&[&[acked(4001), sacked(3001, 4001)]]);
    assert_eq!((verdicts.needless_probes, verdicts.refuted.len()), (1, 0));
    assert_eq!(reported(&[]).needless_probes, 0);
}

/// The number of refuted declarations, and of their bytes.
fn refuted(account: &Account) -> (u64, u64) {
    let all = account.verdicts.refuted.values();
    all.fold((0, 0), |(verdicts, bytes), one| (verdicts + one.verdicts, bytes + one.bytes))
}

fn declared(account: &Account) -> u64 {
    account.verdicts.declared.values().sum()
}

#[test]
fn where_packets_only_come_late_every_verdict_is_refuted() {
    let reorder = Reordering { share: Share::percent(1), by: Span::millis(60) };
    let tcp = TcpSettings::default();
    let there = Direction { reorder: Some(reorder), ..path() };
    let source = transfer(3_000_000, tcp.clone().traced(), tcp, [there, path()]).remove(0);
    let account = account(&source);
    let ((verdicts, bytes), declared) = (refuted(&account), declared(&account));
    assert!(declared >= 4, "{account:#?}");
    // The trace may end before the last is reported.
    assert!((declared - 1..=declared).contains(&verdicts), "{account:#?}");
    assert!(bytes > 0 && bytes <= account.again.bytes, "{account:#?}");
    assert_eq!(account.to_json()["refuted_losses"]["later-delivered"]["verdicts"], verdicts);
    let said = sentence(&source, "D-SACK");
    assert!(said.contains(&format!("later-delivered ({}", units::times(verdicts))), "{said}");
}

#[test]
fn where_packets_are_lost_no_verdict_is_refuted() {
    let source = megabyte(path().loss(Loss::Independent(Share::percent(1))));
    let account = account(&source);
    assert!(declared(&account) >= 3, "{account:#?}");
    assert_eq!(refuted(&account), (0, 0), "{account:#?}");
    assert!(is_silent_on(&source, "D-SACK"));
}

#[test]
fn repetitions_that_no_report_refutes_are_those_of_what_was_lost() {
    let reorder = Some(Reordering { share: Share::per_million(2000), by: Span::millis(60) });
    let there = Direction { reorder, ..path().loss(Loss::Independent(Share::per_million(5000))) };
    let mut traffic = TrafficConfig::bulk("transfer", "a", "b", Some(Bytes(10_000_000)));
    traffic.tcp = TcpSettings::default().traced();
    let scenario = Scenario::new(Span::seconds(600)).host("a").host("b");
    let scenario = scenario.asymmetric("a", "b", there, path()).traffic(traffic);
    let (report, trace) = crate::testing::traced(&scenario, None);
    let account = account(&trace.sources[0]);
    let lost = report.link("a-b:there").expect("the link").dropped();
    let (verdicts, bytes) = refuted(&account);
    assert!(lost >= 20 && verdicts >= 4, "{lost} lost, {verdicts} refuted");
    // All of them are full segments. If the retransmission of an earlier one brought a newer timestamp, PAWS
    // drops the late original, so its retransmission was needed after all.
    let needed = (account.again.bytes - bytes) / 1448;
    assert!((lost..=lost + lost / 8).contains(&needed), "{needed} segments for {lost} lost: {account:#?}");
}

#[test]
fn losses_of_a_paced_sender_wait_for_their_turn_after_a_timer() {
    let tcp = TcpSettings::default().traced();
    let lossy = path().loss(Loss::Independent(Share::percent(2)));
    let source = transfer(10_000_000, tcp, TcpSettings::default(), [lossy, path()]).remove(0);
    let account = account(&source);
    let held = &account.verdicts.held;
    assert!(held.losses() > 0 && held.losses() < declared(&account), "{account:#?}");
    let (_, longest) = held.longest.expect("they went in the end");
    // None waits for as long as a round trip.
    assert!(longest <= held.time && longest < 50 * MS, "{held:?}");
    assert_eq!(account.to_json()["held_losses"]["count"], held.losses());
    assert!(sentence(&source, "could not be repaired at once").contains("held back by"));
}
