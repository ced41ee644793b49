//! An hour passes in which nothing drives an endpoint: its process is stopped, or a clock is set forwards.

use super::*;
use crate::profile::Choices;
use crate::{ConnectionInfo, Keepalive};

const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

/// An established connection of a [`Pair`], with a few round trips behind it.
struct OpenPair {
    pair: Pair,
    id: ConnectionId,
}

impl OpenPair {
    fn new(tcp: &TcpConfig) -> Self {
        let mut pair = Pair::new();
        pair.server.listen(pair.now, on_port(PORT)).unwrap();
        let id = pair.client.connect(pair.now, server(), (None, 0), Some(tcp.clone())).unwrap();
        let mut open = Self { pair, id };
        open.pair.run(SECOND);
        for _ in 0..20 {
            open.write(100);
            open.pair.run(Duration::from_millis(100));
        }
        open
    }

    fn write(&mut self, len: usize) {
        let wrote = self
            .pair
            .client
            .update(self.pair.now, self.id, |connection, now| connection.write(now, &vec![7; len]));
        assert_eq!(wrote.unwrap().unwrap(), len);
    }

    fn info(&self) -> ConnectionInfo {
        let now = self.pair.client.own_time(self.pair.now);
        self.pair.client.connection(self.id).unwrap().info(now)
    }

    /// The client's own time, as a call in the driver's time `at` gets it.
    fn called(&mut self, at: Instant) -> Instant {
        self.pair.client.update(at, self.id, |_, now| now).unwrap()
    }

    /// The client's packets reach the server, whose answer lies in the client's device when it returns.
    fn answered(&mut self) -> Vec<Vec<u8>> {
        let there = self.pair.carry(0);
        assert!(!there.is_empty(), "the client has something to send");
        self.pair.now += Pair::DELAY;
        there
            .iter()
            .for_each(|packet| self.pair.server.handle_packet(self.pair.now, packet, RxMeta::default()));
        // Until the delayed acknowledgement is due, too.
        self.pair.now += Duration::from_millis(40);
        self.pair.server.handle_timeout(self.pair.now);
        self.pair.carry(1)
    }

    /// The client goes on: what its device held, then its timers.
    fn resume(&mut self, held: &[Vec<u8>]) {
        held.iter()
            .for_each(|packet| self.pair.client.handle_packet(self.pair.now, packet, RxMeta::default()));
        self.pair.client.handle_timeout(self.pair.now);
    }
}

#[test]
fn round_trip_across_a_pause_is_no_sample() {
    let mut open = OpenPair::new(&tcp_config());
    let before = open.info();
    open.write(3000);
    let held = open.answered();
    open.pair.now += HOUR;
    open.resume(&held);
    let after = open.info();
    assert_eq!(after.unacked, 0, "the acknowledgement counts");
    assert_eq!((after.srtt, after.rttvar, after.rto), (before.srtt, before.rttvar, before.rto));
    assert_eq!((after.rtt_min, after.timeouts, after.lost), (before.rtt_min, 0, 0));
    // And what leaves later gives samples again: the mean moves by an eighth of what they differ.
    open.write(3000);
    let held = open.answered();
    open.resume(&held);
    let moved = open.info().srtt.abs_diff(before.srtt);
    assert!(moved > Duration::ZERO && moved < Duration::from_millis(45), "{:?} {before:?}", open.info().srtt);
}

#[test]
fn later_acknowledgement_of_what_left_before_a_pause_is_no_sample() {
    for timestamps in [true, false] {
        let mut open = OpenPair::new(&TcpConfig {
            choices: Choices { timestamps, pacing: false, ..tcp_config().choices },
            ..tcp_config()
        });
        let before = open.info();
        open.write(3 * if timestamps { 1448 } else { 1460 });
        let packets = open.pair.carry(0);
        assert_eq!(packets.len(), 3);
        open.pair.now += Pair::DELAY;
        // Two full segments are acknowledged at once; the third only after the pause.
        for packet in &packets[..2] {
            open.pair.server.handle_packet(open.pair.now, packet, RxMeta::default());
        }
        let held = open.pair.carry(1);
        assert_eq!(held.len(), 1);
        open.pair.now += HOUR;
        held.iter()
            .for_each(|packet| open.pair.client.handle_packet(open.pair.now, packet, RxMeta::default()));
        assert!(open.info().unacked > 0 && open.info().unacked < 1500);
        open.pair.server.handle_packet(open.pair.now, &packets[2], RxMeta::default());
        open.pair.server.handle_timeout(open.pair.now + Duration::from_millis(40));
        let rest = open.pair.carry(1);
        assert_eq!(rest.len(), 1);
        open.resume(&rest);
        let after = open.info();
        assert_eq!((after.unacked, after.retransmits), (0, 0));
        assert_eq!((after.srtt, after.rttvar, after.rtt_min), (before.srtt, before.rttvar, before.rtt_min));
    }
}

/// RFC 7323 §4.1 takes samples of data sent again, by the stamp; this stamp left before the pause.
#[test]
fn answer_to_what_left_before_a_pause_is_no_sample_once_it_was_sent_again() {
    let mut open = OpenPair::new(&tcp_config());
    let before = open.info();
    open.write(1000);
    let held = open.answered();
    open.pair.now += HOUR;
    open.pair.client.handle_timeout(open.pair.now);
    assert_eq!(open.pair.carry(0).len(), 1, "it goes out again");
    open.resume(&held);
    let after = open.info();
    assert_eq!((after.unacked, after.retransmits), (0, 1));
    assert_eq!((after.srtt, after.rttvar, after.rtt_min), (before.srtt, before.rttvar, before.rtt_min));
}

#[test]
fn own_time_goes_on_from_the_deadline_and_every_pause_counts() {
    let keepalive = Keepalive { idle: HOUR, interval: 5 * SECOND, probes: 2 };
    let mut open = OpenPair::new(&TcpConfig { keepalive: Some(keepalive), ..tcp_config() });
    let nanosecond = Duration::from_nanos(1);
    // The first deadline, an hour after the handshake, has been moved by what was heard since.
    open.pair.run(HOUR - SECOND);
    // A second after the deadline is late, and less is time.
    let due = open.pair.client.poll_timeout().unwrap();
    assert_eq!(open.pair.client.own_time(due), due, "nothing is left out yet");
    assert_eq!(open.called(due + SECOND), due + SECOND);
    // The deadline has passed, and the clock was past it: time goes on from there.
    let resumed = due + SECOND + nanosecond;
    let driver = due + HOUR;
    assert_eq!(open.called(driver), resumed);
    assert_eq!((open.called(driver), open.pair.client.own_time(driver)), (resumed, resumed));
    assert_eq!(open.called(driver + nanosecond), resumed + nanosecond, "a nanosecond is time, too");
    // The second pause adds to the first.
    open.pair.now = driver + nanosecond;
    open.pair.client.handle_timeout(open.pair.now);
    assert_eq!(open.pair.carry(0).len(), 1, "a keep-alive");
    let next = open.pair.client.poll_timeout().unwrap();
    assert_eq!(next.saturating_since(open.pair.now), 5 * SECOND, "in the driver's time");
    let second = next + SECOND + nanosecond;
    assert_eq!(open.called(second), resumed + 5 * SECOND + 2 * nanosecond);
    // A clock that runs backwards stands still, until it has caught up.
    for driver in [second - 2 * SECOND, second - SECOND, second] {
        assert_eq!(open.called(driver), resumed + 5 * SECOND + 2 * nanosecond);
    }
    assert_eq!(open.called(second + SECOND / 2), resumed + 5 * SECOND + SECOND / 2 + 2 * nanosecond);
}

#[test]
fn endpoint_without_a_deadline_rests_and_does_not_pause() {
    let mut open = OpenPair::new(&tcp_config());
    open.pair.run(HOUR);
    assert_eq!(open.pair.client.poll_timeout(), None);
    let later = open.pair.now + HOUR;
    assert_eq!(open.called(later), later);
}

#[test]
fn timer_that_was_due_in_a_pause_expires_once() {
    let tcp = TcpConfig { user_timeout: Some(100 * SECOND), ..tcp_config() };
    let mut open = OpenPair::new(&tcp);
    open.write(1000);
    assert_eq!(open.pair.carry(0).len(), 1, "and it is lost");
    open.pair.now += HOUR;
    open.resume(&[]);
    assert_eq!(open.pair.carry(0).len(), 1, "it goes out again");
    assert!(open.info().retransmits <= 1 && open.info().timeouts <= 1, "{:?}", open.info());
    // The user timeout has hardly begun. The next deadline is in the driver's time.
    let due = open.pair.client.poll_timeout().unwrap();
    assert!(due > open.pair.now && due < open.pair.now + SECOND, "{due:?} after {:?}", open.pair.now);
    open.pair.run(10 * SECOND);
    let info = open.info();
    assert_eq!((info.state, info.unacked), (State::Established, 0), "{info:?}");
}

#[test]
fn peer_is_asked_once_more_before_it_is_given_up_for_silence() {
    let keepalive = Keepalive { idle: 10 * SECOND, interval: 5 * SECOND, probes: 1 };
    let mut open = OpenPair::new(&TcpConfig { keepalive: Some(keepalive), ..tcp_config() });
    open.pair.lose = |_, _| true;
    let before = open.pair.counts[0];
    open.pair.run(12 * SECOND);
    assert_eq!(open.pair.counts[0], before + 1, "the only probe, which is lost");
    open.pair.now += HOUR;
    open.resume(&[]);
    assert_eq!(open.info().state, State::Established);
    // The next one is lost, too: five seconds later that is the end.
    open.pair.run(4 * SECOND);
    assert_eq!((open.pair.counts[0], open.info().state), (before + 2, State::Established));
    open.pair.run(2 * SECOND);
    assert_eq!(open.info().state, State::Closed);
}

#[test]
fn pause_grants_one_keepalive_and_no_more() {
    // Of three probes, as many as `lost` go unanswered before the pause.
    for (lost, left) in [(1, 2), (3, 1)] {
        let keepalive = Keepalive { idle: 10 * SECOND, interval: 5 * SECOND, probes: 3 };
        let mut open = OpenPair::new(&TcpConfig { keepalive: Some(keepalive), ..tcp_config() });
        open.pair.lose = |_, _| true;
        let before = open.pair.counts[0];
        open.pair.run(7 * SECOND + lost * 5 * SECOND);
        assert_eq!(open.pair.counts[0], before + u64::from(lost));
        open.pair.now += HOUR;
        open.resume(&[]);
        open.pair.run(left * 5 * SECOND - SECOND);
        assert_eq!(
            (open.pair.counts[0], open.info().state),
            (before + u64::from(lost + left), State::Established)
        );
        open.pair.run(2 * SECOND);
        assert_eq!(open.info().state, State::Closed);
    }
}

#[test]
fn user_timeout_that_ends_in_a_pause_leaves_one_timeout_to_answer() {
    let tcp = TcpConfig { user_timeout: Some(100 * SECOND), ..tcp_config() };
    let mut open = OpenPair::new(&tcp);
    open.pair.lose = |_, _| true;
    open.write(1000);
    open.pair.run(99 * SECOND);
    let before = open.pair.counts[0];
    open.pair.now += HOUR;
    open.pair.lose = |_, _| false;
    open.resume(&[]);
    open.pair.run(Duration::from_millis(100));
    let info = open.info();
    assert_eq!((info.state, info.unacked), (State::Established, 0), "{info:?}");
    assert!((1..=2).contains(&(open.pair.counts[0] - before)), "one segment goes out again");
}

#[test]
fn pause_grants_one_timeout_and_no_more() {
    let tcp = TcpConfig { user_timeout: Some(100 * SECOND), ..tcp_config() };
    for (waited, least, most) in [(10, 85, 95), (99, 0, 2)] {
        let mut open = OpenPair::new(&tcp);
        open.pair.lose = |_, _| true;
        open.write(1000);
        open.pair.run(waited * SECOND);
        open.pair.now += HOUR;
        open.resume(&[]);
        open.pair.run(least * SECOND);
        assert_eq!(open.info().state, State::Established, "{waited}");
        open.pair.run((most - least) * SECOND);
        assert_eq!(open.info().state, State::Closed, "{waited}");
    }
    // A SYN waits for 180 seconds, which the pause ends: it goes out once more, and has a minute.
    let mut pair = Pair::new();
    let id = pair.client.connect(pair.now, server(), (None, 0), None).unwrap();
    pair.lose = |_, _| true;
    pair.run(179 * SECOND);
    let before = pair.counts[0];
    pair.now += HOUR;
    pair.client.handle_timeout(pair.now);
    pair.run(59 * SECOND);
    assert_eq!(pair.client.connection(id).unwrap().state(), State::SynSent);
    pair.run(2 * SECOND);
    assert_eq!((pair.client.connection(id).unwrap().state(), pair.counts[0]), (State::Closed, before + 1));
}

#[test]
fn call_that_is_a_little_late_is_a_call_and_rest_is_time() {
    let keepalive = Keepalive { idle: HOUR, interval: 5 * SECOND, probes: 2 };
    let mut open = OpenPair::new(&TcpConfig { keepalive: Some(keepalive), ..tcp_config() });
    let before = open.info();
    open.write(1000);
    let held = open.answered();
    // The retransmission timer was due at 200 ms, or the tail loss probe sooner: less than a second ago.
    open.pair.now += Duration::from_millis(900);
    open.resume(&held);
    let took = open.info().srtt.saturating_sub(before.srtt);
    assert!(took > Duration::from_millis(80) && took < Duration::from_millis(130), "{took:?}");
    // Nothing is due for nearly an hour, so this is not a pause: the probe goes out an hour after the last
    // arrival.
    open.pair.run(SECOND);
    open.pair.now += HOUR - 20 * SECOND;
    open.resume(&[]);
    let before = open.pair.counts[0];
    open.pair.run(10 * SECOND);
    assert_eq!(open.pair.counts[0], before);
    open.pair.run(10 * SECOND);
    assert_eq!(open.pair.counts[0], before + 1);
}

#[test]
fn handshake_across_a_pause_gives_no_sample_at_either_end() {
    let mut pair = Pair::new();
    let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
    let id = pair.client.connect(pair.now, server(), (None, 0), None).unwrap();
    let syn = pair.carry(0);
    pair.now += Pair::DELAY;
    syn.iter().for_each(|packet| pair.server.handle_packet(pair.now, packet, RxMeta::default()));
    let syn_ack = pair.carry(1);
    assert_eq!(syn_ack.len(), 1);
    pair.now += HOUR;
    syn_ack.iter().for_each(|packet| pair.client.handle_packet(pair.now, packet, RxMeta::default()));
    pair.client.handle_timeout(pair.now);
    assert_eq!(pair.client.connection(id).unwrap().info(pair.client.own_time(pair.now)).srtt, Duration::ZERO);
    let last = pair.carry(0);
    last.iter().for_each(|packet| pair.server.handle_packet(pair.now, packet, RxMeta::default()));
    pair.server.handle_timeout(pair.now);
    let id = pair.server.accept(pair.now, listener).unwrap();
    let info = pair.server.connection(id).unwrap().info(pair.server.own_time(pair.now));
    assert_eq!((info.state, info.srtt), (State::Established, Duration::ZERO));
}
