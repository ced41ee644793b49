//! Long connectivity disruptions (RFC 6069): a router reports that it has no way to the peer.

use super::icmp::error;
use super::*;
use crate::profile::Recovery;
use crate::rtt::RtoConfig;

/// Handshakes take no time here: the timeout is its lower bound.
const RTO: Duration = Duration::from_millis(200);
const NET: (u8, u8) = (3, 0);
const HOST: (u8, u8) = (3, 1);

/// A connection with this estimator, which has sent this many segments, and nothing but the timer to repeat
/// what is lost.
fn sending(words: &str, segments: usize) -> (Host, ConnectionId, SeqNum) {
    let mut tcp = tcp_config();
    tcp.choices.rto = RtoConfig::find(words).unwrap();
    (tcp.choices.recovery, tcp.choices.sack) = (Recovery::NewReno, false);
    let (mut host, listener) = Host::listening(ListenOptions { tcp: Some(tcp), ..on_port(PORT) });
    let (id, iss) = host.accepted(listener, 4000);
    let data = vec![7; segments * 1460];
    host.endpoint.update(host.now, id, |connection, now| connection.write(now, &data)).unwrap().unwrap();
    assert_eq!(host.sent().len(), segments);
    host.events();
    (host, id, iss + 1)
}

fn report(host: &mut Host, kind: (u8, u8), seq: SeqNum) {
    let packet = error(kind, 0, (server(), client(4000)), seq);
    host.endpoint.handle_packet(host.now, &packet, RxMeta::default());
}

/// Waits for the next retransmission. Returns how long that took.
fn retransmitted(host: &mut Host) -> Duration {
    let start = host.now;
    loop {
        host.now = host.now.max(host.endpoint.poll_timeout().expect("a timer runs"));
        host.endpoint.handle_timeout(host.now);
        if !host.sent().is_empty() {
            return host.now.saturating_since(start);
        }
    }
}

fn undone(host: &Host) -> u64 {
    host.endpoint.counters().backoffs_undone
}

#[test]
fn the_timer_backs_off_unless_a_router_reports_the_disruption() {
    let (mut host, ..) = sending("rfc6298", 1);
    let silent: Vec<_> = (0..5).map(|_| retransmitted(&mut host)).collect();
    assert_eq!(silent, [1, 2, 4, 8, 16].map(|times| times * RTO));

    for kind in [NET, HOST] {
        let (mut host, id, una) = sending("rfc6298", 1);
        for n in 1..=20 {
            assert_eq!(retransmitted(&mut host), RTO, "retransmission {n}");
            report(&mut host, kind, una);
            assert_eq!(undone(&host), n);
        }
        // The path is back: one timeout later data flows again.
        host.from(4000, ack(1001, una + 1460));
        assert_eq!(host.endpoint.connection(id).unwrap().acked(), 1460);
    }
}

// §5.3: no more than were made, however often a router repeats itself.
#[test]
fn each_report_takes_one_backoff_back_and_none_that_was_not_made() {
    let (mut host, _, una) = sending("rfc6298", 1);
    for _ in 0..3 {
        retransmitted(&mut host);
    }
    (0..2).for_each(|_| report(&mut host, HOST, una));
    assert_eq!(retransmitted(&mut host), 2 * RTO, "eight times, less two doublings");
    // That is one more backoff.
    (0..9).for_each(|_| report(&mut host, HOST, una));
    assert_eq!((retransmitted(&mut host), undone(&host)), (RTO, 4));
}

// §4.2 (8): if the shortened timer has expired already, the segment SHOULD be retransmitted immediately.
#[test]
fn a_report_that_comes_late_makes_the_retransmission_leave_at_once() {
    let (mut host, _, una) = sending("rfc6298", 1);
    for _ in 0..5 {
        retransmitted(&mut host);
    }
    // The timer would expire in 32 timeouts, and half of that has been over for nearly three seconds.
    host.now += 30 * RTO;
    report(&mut host, HOST, una);
    assert_eq!(host.endpoint.poll_timeout(), Some(host.now));
    assert_eq!(retransmitted(&mut host), Duration::ZERO);
}

#[test]
fn reports_about_other_segments_of_other_kinds_or_at_other_times_change_nothing() {
    let (mut host, _, una) = sending("rfc6298", 3);
    // §5.6: not in steady state.
    report(&mut host, HOST, una);
    assert_eq!(retransmitted(&mut host), RTO);
    // §4.2 (6): only SND.UNA.
    report(&mut host, HOST, una + 1460);
    report(&mut host, HOST, una + 1);
    // §3: neither hard errors nor those of other types.
    for kind in [(3, 2), (3, 3), (3, 5), (3, 13), (11, 0), (12, 0)] {
        report(&mut host, kind, una);
    }
    assert_eq!(retransmitted(&mut host), 2 * RTO);
    // §4.2: stopped by the first acceptable ACK; those of the recovery that is over are ignored.
    host.from(4000, ack(1001, una + 1460));
    host.sent();
    report(&mut host, HOST, una + 1460);
    assert_eq!(undone(&host), 0);
}

// §4.2: SHOULD NOT be used in SYN-SENT.
#[test]
fn a_syn_backs_off_all_the_same() {
    let mut host = Host::new();
    let id = host.endpoint.connect(host.now, client(4000), (None, PORT), None).unwrap();
    let iss = host.sent()[0].seq;
    let mut times = Vec::new();
    for _ in 0..3 {
        times.push(retransmitted(&mut host).as_secs());
        report(&mut host, HOST, iss);
    }
    assert_eq!((times, undone(&host), host.state(id)), (vec![1, 2, 4], 0, State::SynSent));
}

// §4.2: a sender that does not compute its timeout by RFC 2988 MUST NOT use the scheme.
#[test]
fn older_estimators_do_not_take_part() {
    let (mut host, _, una) = sending("jacobson-1992", 1);
    let first = retransmitted(&mut host);
    report(&mut host, HOST, una);
    assert!(retransmitted(&mut host) > first);
    assert_eq!(undone(&host), 0);
}

// §7.1: R1 MUST be the time that the retransmissions take without the scheme; RFC 9293 SHLD-9, SHLD-10.
#[test]
fn the_application_hears_of_silence_no_sooner_than_without_reports() {
    let is_told = |event: &Event| matches!(event, Event::Connection(_, readiness) if readiness.soft_error);
    let told = |host: &mut Host| host.events().iter().any(is_told);
    let (mut host, ..) = sending("rfc6298", 1);
    let silent: Vec<bool> = (0..4)
        .map(|_| {
            retransmitted(&mut host);
            told(&mut host)
        })
        .collect();
    assert_eq!(silent, [false, false, true, true], "after 1, 3, 7, 15 timeouts");

    let (mut host, _, una) = sending("rfc6298", 1);
    let mut waited = Duration::ZERO;
    for _ in 0..12 {
        waited += retransmitted(&mut host);
        assert_eq!(told(&mut host), waited >= 7 * RTO, "after {waited:?}");
        report(&mut host, HOST, una);
        assert!(told(&mut host), "of the report itself");
    }
}
