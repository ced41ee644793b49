//! The assessment of retransmission timeouts: M. Allman and V. Paxson, SIGCOMM 1999, §2.2, with the heuristic
//! of §2.8.
//!
//! A recorded connection is replayed to an estimator. Where the recorded sender had to time out, the
//! estimator is charged the timeout that it would have used (T, a good timeout). Where an acknowledgement
//! came after the estimator would have expired, the estimator expired in vain (a bad timeout). The caller
//! that makes the [`Event`]s leaves out handshake and FIN segments. It also makes the judgements that need
//! the receiver's side of the trace ([`Why::Timeout`]).
//!
//! Deviations: an estimator that times every segment takes one sample from each acknowledgement, for the
//! oldest segment that it newly acknowledges, as timestamps do. A good timeout before the first round trip
//! counts in T and not in ψ, because it has no unit there; a connection without others does not count in W̃.
//!
//! ```
//! use std::time::Duration;
//! use ackclock_control::Instant;
//! use ackclock_control::assess::timeouts::{Event, Summary, Why, assess};
//! use ackclock_control::rtt::presets;
//!
//! let at = Instant::from_millis;
//! let trace = [
//!     Event::Sent { at: at(0), from: 0, to: 1000, why: Why::New },
//!     Event::Acked { at: at(100), to: 1000 },
//!     // The estimator waits 300 ms; this acknowledgement comes after 350.
//!     Event::Sent { at: at(200), from: 1000, to: 2000, why: Why::New },
//!     Event::Acked { at: at(550), to: 2000 },
//! ];
//! let std = presets::find("ap-std").unwrap().config;
//! let timeouts = assess(trace, &std, None);
//! assert_eq!((timeouts.good, timeouts.bad), (0, 1));
//! assert_eq!(Summary::of([timeouts]).b, 1.0);
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use crate::Instant;
use crate::rtt::{RtoConfig, RttEstimator};
use crate::time::nanos;

/// An event of a recorded connection, at its sender. Positions count bytes from the start of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A data segment was sent.
    Sent {
        /// When.
        at: Instant,
        /// Its first byte.
        from: u64,
        /// The byte after its last.
        to: u64,
        /// Why it was sent.
        why: Why,
    },
    /// An acknowledgement arrived.
    Acked {
        /// When.
        at: Instant,
        /// The byte after the last that it acknowledges.
        to: u64,
    },
}

/// Why a segment was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// For the first time.
    New,
    /// Again, because of duplicate acknowledgements, or as part of a retransmission sequence that they began.
    FastRetransmit,
    /// Again, because the recorded sender's timer expired.
    Timeout {
        /// Whether waiting would have helped: the segment was not lost, and neither were all acknowledgements
        /// sent between its arrival and the arrival of the retransmission.
        avoidable: bool,
    },
}

/// The timeouts of an estimator on one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timeouts {
    /// T: the time waited for good first timeouts.
    pub waited: Duration,
    /// g: good timeouts, of segments not retransmitted before.
    pub good: u32,
    /// Good timeouts of segments retransmitted before. They are counted but not charged.
    pub repeated: u32,
    /// b: bad timeouts, including those after a backoff in vain.
    pub bad: u32,
    /// Bad timeouts that the heuristic of §2.8 takes back. They are not in `bad`.
    pub undone: u32,
    /// ψ: the mean of the good timeouts in units of the latest round trip; `None` if none came after a round
    /// trip.
    pub cost: Option<f64>,
}

impl Timeouts {
    /// ρ: the share of timeouts that were bad; zero without timeouts.
    #[must_use]
    pub fn bad_share(&self) -> f64 {
        if self.bad == 0 {
            return 0.0;
        }
        f64::from(self.bad) / (f64::from(self.bad) + f64::from(self.good))
    }
}

/// The timeouts of an estimator on many connections: one row of tables 1 to 4.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// W: the total time waited for good first timeouts.
    pub w: Duration,
    /// W̃: the mean of ψ over the connections that have one, in round trips.
    pub w_tilde: f64,
    /// B: the mean of ρ over all connections, including those without a timeout.
    pub b: f64,
    /// The number of connections.
    pub connections: u32,
}

impl Summary {
    /// Makes the row from the results of these connections.
    #[must_use]
    pub fn of(connections: impl IntoIterator<Item = Timeouts>) -> Self {
        let mut summary = Self::default();
        let (mut with_cost, mut cost, mut bad_shares) = (0.0, 0.0, 0.0);
        for timeouts in connections {
            summary.w = summary.w.saturating_add(timeouts.waited);
            summary.connections = summary.connections.saturating_add(1);
            bad_shares += timeouts.bad_share();
            if let Some(one) = timeouts.cost {
                with_cost += 1.0;
                cost += one;
            }
        }
        summary.w_tilde = if with_cost > 0.0 { cost / with_cost } else { 0.0 };
        summary.b = bad_shares / f64::from(summary.connections.max(1));
        summary
    }
}

/// An expiry of the estimator's timer. It is reported at the next acknowledgement of new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// True for a good expiry; false for a bad one.
    pub good: bool,
    /// Whether a good one is of a segment retransmitted before, which the paper does not call good.
    pub repeated: bool,
    /// Whether the timer was backed off already because of an earlier expiry.
    pub again: bool,
    /// The time until that acknowledgement: from the recorded retransmission for a good expiry (ΔT in §2.8),
    /// from the expiry for a bad one (A in §2.7).
    pub until_ack: Duration,
    /// The timeout at the time.
    pub rto: Duration,
    /// RTTVAR at the time.
    pub rttvar: Duration,
    /// The smallest round trip that the estimator has measured; `None` before the first. §2.8 has "the
    /// minimum RTT measured so far", and §2.2 tells what is measured from what is observed.
    pub rtt_smallest: Option<Duration>,
    /// The smallest of all round trips of segments sent once, timed or not.
    pub rtt_smallest_seen: Option<Duration>,
    /// The largest round trip so far.
    pub rtt_largest: Duration,
}

/// Replays a connection to the estimator of `config`. With `undo_quarters`, a bad timeout is taken back if
/// the next acknowledgement follows it by less than that number of quarters of the smallest round trip (§2.8:
/// 2 or 3).
#[must_use]
pub fn assess(
    events: impl IntoIterator<Item = Event>,
    config: &RtoConfig,
    undo_quarters: Option<u8>,
) -> Timeouts {
    assess_each(events, config, undo_quarters, &mut |_| ())
}

/// As [`assess`]; also reports each good expiry and each bad one, including those taken back.
pub fn assess_each(
    events: impl IntoIterator<Item = Event>,
    config: &RtoConfig,
    undo_quarters: Option<u8>,
    told: &mut dyn FnMut(&Expiry),
) -> Timeouts {
    let mut replay = Replay::new(config, undo_quarters, told);
    for event in events {
        match event {
            Event::Sent { at, from, to, why } => replay.sent(at, from, to, why),
            Event::Acked { at, to } => replay.acked(at, to),
        }
    }
    replay.finish()
}

struct Replay<'a> {
    rtt: RttEstimator,
    undo_quarters: Option<u8>,
    told: &'a mut dyn FnMut(&Expiry),
    /// Good expiries since the last new acknowledgement, with the times of the retransmissions.
    unanswered: Vec<(Instant, Expiry)>,
    /// When the timer expires, if it runs.
    expires: Option<Instant>,
    outstanding: VecDeque<Segment>,
    /// The highest byte acknowledged.
    acked: u64,
    /// Whether the last segment sent was a retransmission.
    retransmitting: bool,
    /// The last round trip observed.
    latest: Duration,
    smallest: Duration,
    smallest_seen: Duration,
    largest: Duration,
    /// The sum of ξ, and the number of timeouts in it.
    cost_sum: f64,
    costs: f64,
    timeouts: Timeouts,
}

struct Segment {
    from: u64,
    to: u64,
    sent_at: Instant,
    retransmissions: u32,
    /// When it was last sent, if the trace shows that only that copy can have been answered.
    answered_from: Option<Instant>,
}

impl<'a> Replay<'a> {
    fn new(config: &RtoConfig, undo_quarters: Option<u8>, told: &'a mut dyn FnMut(&Expiry)) -> Self {
        Self {
            rtt: RttEstimator::new(config),
            undo_quarters,
            told,
            unanswered: Vec::new(),
            expires: None,
            outstanding: VecDeque::new(),
            acked: 0,
            retransmitting: false,
            latest: Duration::ZERO,
            smallest: Duration::MAX,
            smallest_seen: Duration::MAX,
            largest: Duration::ZERO,
            cost_sum: 0.0,
            costs: 0.0,
            timeouts: Timeouts::default(),
        }
    }

    fn sent(&mut self, at: Instant, from: u64, to: u64, why: Why) {
        let begins_retransmission = why != Why::New && !self.retransmitting;
        self.retransmitting = why != Why::New;
        let repeated = why != Why::New && self.note_retransmission(at, from, to, why);
        if why == Why::New {
            self.rtt.on_segment_sent(at);
            self.outstanding.push_back(Segment {
                from,
                to,
                sent_at: at,
                retransmissions: 0,
                answered_from: None,
            });
        }
        match why {
            // Step 3: charge the timeout and back off.
            Why::Timeout { avoidable: false } => {
                self.charge(at, repeated);
                self.rtt.on_expiry();
            }
            // Step 4: a deficiency of the recorded sender.
            Why::Timeout { avoidable: true } | Why::FastRetransmit => self.rtt.on_segment_retransmitted(),
            Why::New => {}
        }
        // Step 1: start the timer if it does not run; restart it where a retransmission sequence begins.
        if self.expires.is_none() || begins_retransmission || matches!(why, Why::Timeout { .. }) {
            self.expires = Some(self.rtt.expires_at(at));
        }
    }

    /// Returns whether any of these bytes had been retransmitted before.
    fn note_retransmission(&mut self, at: Instant, from: u64, to: u64, why: Why) -> bool {
        let answered_from = (why == Why::Timeout { avoidable: false }).then_some(at);
        let mut repeated = false;
        for segment in self.outstanding.iter_mut().filter(|segment| segment.from < to && from < segment.to) {
            repeated |= segment.retransmissions > 0;
            segment.retransmissions = segment.retransmissions.saturating_add(1);
            segment.answered_from = answered_from;
        }
        repeated
    }

    fn charge(&mut self, at: Instant, repeated: bool) {
        let rto = self.rtt.rto();
        self.unanswered.push((at, Expiry { repeated, ..self.expiry(true, self.rtt.backoff() > 0, rto) }));
        if repeated {
            self.timeouts.repeated = self.timeouts.repeated.saturating_add(1);
            return;
        }
        self.timeouts.good = self.timeouts.good.saturating_add(1);
        self.timeouts.waited = self.timeouts.waited.saturating_add(rto);
        if !self.latest.is_zero() {
            self.cost_sum += rto.as_secs_f64() / self.latest.as_secs_f64();
            self.costs += 1.0;
        }
    }

    /// Step 5.
    fn acked(&mut self, at: Instant, to: u64) {
        if to <= self.acked {
            return;
        }
        self.acked = to;
        for (sent_at, expiry) in self.unanswered.drain(..) {
            (self.told)(&Expiry { until_ack: at.saturating_since(sent_at), ..expiry });
        }
        let bad = self.count_bad(at);
        let sampled = self.measure(at);
        for _ in 0..bad {
            self.rtt.on_spurious_expiry();
            // Karn's rule: the timer stays backed off until there is a sample.
            if !sampled {
                self.rtt.on_expiry();
            }
        }
        self.expires = (!self.outstanding.is_empty()).then(|| self.rtt.expires_at(at));
    }

    /// Returns how many expiries before this acknowledgement were in vain.
    fn count_bad(&mut self, at: Instant) -> u32 {
        let mut timer = self.rtt.clone();
        let mut count = 0_u32;
        while let Some(expired) = self.expires.filter(|&expires| expires < at && count < EXPIRIES_MAX) {
            if self.is_undone(at.saturating_since(expired)) {
                self.timeouts.undone = self.timeouts.undone.saturating_add(1);
            } else {
                self.timeouts.bad = self.timeouts.bad.saturating_add(1);
            }
            let expiry = self.expiry(false, count > 0, timer.rto());
            (self.told)(&Expiry { until_ack: at.saturating_since(expired), ..expiry });
            count = count.saturating_add(1);
            timer.on_spurious_expiry();
            timer.on_expiry();
            self.expires = Some(timer.expires_at(expired));
        }
        count
    }

    fn expiry(&self, good: bool, again: bool, rto: Duration) -> Expiry {
        Expiry {
            good,
            repeated: false,
            again,
            until_ack: Duration::ZERO,
            rto,
            rttvar: self.rtt.rttvar(),
            rtt_smallest: (self.smallest != Duration::MAX).then_some(self.smallest),
            rtt_smallest_seen: (self.smallest_seen != Duration::MAX).then_some(self.smallest_seen),
            rtt_largest: self.largest,
        }
    }

    /// §2.8: ΔT is less than f of the smallest round trip.
    fn is_undone(&self, after_expiry: Duration) -> bool {
        self.undo_quarters.is_some_and(|quarters| {
            let bound = u128::from(nanos(self.smallest)).saturating_mul(quarters.into()) / 4;
            self.smallest != Duration::MAX && after_expiry.as_nanos() < bound
        })
    }

    /// Samples the newly acknowledged segments if all of them were sent once. Returns whether one was timed.
    ///
    /// Karn's rule: an acknowledgement that covers a retransmission gives no sample for the other segments
    /// either, because they waited at the receiver for the missing one.
    fn measure(&mut self, at: Instant) -> bool {
        let covered = self.outstanding.iter().take_while(|segment| segment.to <= self.acked).count();
        let ambiguous = self.outstanding.iter().take(covered).any(|segment| segment.retransmissions > 0);
        if ambiguous {
            // ξ counts round trips that the estimator may not measure, too (§2.2): the trace shows which
            // copy was answered.
            if let Some(sent_at) = self.outstanding.front().and_then(|first| first.answered_from) {
                self.latest = at.saturating_since(sent_at);
            }
            self.outstanding.drain(..covered);
            self.rtt.on_segment_retransmitted();
            return false;
        }
        let mut sampled = false;
        for segment in self.outstanding.drain(..covered) {
            self.latest = at.saturating_since(segment.sent_at);
            self.smallest_seen = self.smallest_seen.min(self.latest);
            self.largest = self.largest.max(self.latest);
            if !sampled && self.rtt.on_segment_acked(segment.sent_at, at) {
                sampled = true;
                self.smallest = self.smallest.min(self.latest);
            }
        }
        sampled
    }

    fn finish(self) -> Timeouts {
        let cost = (self.costs > 0.0).then(|| self.cost_sum / self.costs);
        Timeouts { cost, ..self.timeouts }
    }
}

/// The most expiries counted before one acknowledgement: more than two hours of a timer backed off to a
/// minute.
const EXPIRIES_MAX: u32 = 128;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{EXPIRIES_MAX, Event, Expiry, Summary, Timeouts, Why, assess, assess_each};
    use crate::Instant;
    use crate::rtt::presets;

    fn sent(ms: u64, segment: u64, why: Why) -> Event {
        Event::Sent { at: Instant::from_millis(ms), from: segment * 1000, to: (segment + 1) * 1000, why }
    }

    fn acked(ms: u64, segments: u64) -> Event {
        Event::Acked { at: Instant::from_millis(ms), to: segments * 1000 }
    }

    const EXPIRED: Why = Why::Timeout { avoidable: false };

    /// `ap-min-0` on a connection whose first round trip is 100 ms: it then waits 300 ms.
    fn after_first_round_trip(rest: &[Event], undo_quarters: Option<u8>) -> Timeouts {
        let events = [sent(0, 0, Why::New), acked(100, 1)].into_iter().chain(rest.iter().copied());
        assess(events, &presets::find("ap-min-0").unwrap().config, undo_quarters)
    }

    #[test]
    fn good_timeout_is_charged_what_the_estimator_would_have_waited() {
        // Tests: A2
        // The recorded sender waits three seconds, the estimator would have waited 300 ms: three round trips.
        let timeouts =
            after_first_round_trip(&[sent(200, 1, Why::New), sent(3200, 1, EXPIRED), acked(3300, 2)], None);
        assert_eq!((timeouts.waited, timeouts.good), (Duration::from_millis(300), 1));
        assert_eq!((timeouts.repeated, timeouts.bad), (0, 0));
        assert!((timeouts.cost.unwrap() - 3.0).abs() < 1e-9);
    }

    #[test]
    fn what_waited_behind_a_retransmission_is_no_round_trip() {
        // Tests: A2
        // Two segments arrive at 3300 ms together: the first had to be sent again, the second lay at the
        // receiver. Were its three seconds a round trip, the timeout after it would be many seconds.
        let recovered =
            [sent(200, 1, Why::New), sent(200, 2, Why::New), sent(3200, 1, EXPIRED), acked(3300, 3)];
        let next = [
            sent(3300, 3, Why::New),
            acked(3400, 4),
            sent(3400, 4, Why::New),
            sent(9000, 4, EXPIRED),
            acked(9100, 5),
        ];
        let events = [sent(0, 0, Why::New), acked(100, 1)].into_iter().chain(recovered).chain(next);
        let every = presets::find("ap-std-every").unwrap().config;
        let timeouts = assess(events, &every, None);
        assert_eq!((timeouts.good, timeouts.bad), (2, 0));
        assert!(timeouts.waited <= Duration::from_millis(300 + 300), "{:?}", timeouts.waited);
    }

    #[test]
    fn second_timeout_of_a_segment_is_repeated_and_not_charged() {
        // Tests: A2
        let again = [sent(3200, 1, EXPIRED), sent(9200, 1, EXPIRED), acked(9300, 2)];
        let timeouts = after_first_round_trip(&[&[sent(200, 1, Why::New)][..], &again].concat(), None);
        assert_eq!((timeouts.good, timeouts.repeated), (1, 1));
        assert_eq!(timeouts.waited, Duration::from_millis(300));
    }

    #[test]
    fn timeouts_of_neighbours_are_not_repeated() {
        for [first, second] in [[1, 2], [2, 1]] {
            let both = [sent(200, 1, Why::New), sent(200, 2, Why::New)];
            let again = [sent(3200, first, EXPIRED), sent(9200, second, EXPIRED), acked(9300, 3)];
            let timeouts = after_first_round_trip(&[&both[..], &again].concat(), None);
            assert_eq!((timeouts.good, timeouts.repeated), (2, 0), "first {first}");
        }
    }

    #[test]
    fn timeout_that_the_recorded_sender_could_have_avoided_is_not_charged() {
        // Tests: A2
        let avoidable = Why::Timeout { avoidable: true };
        let timeouts =
            after_first_round_trip(&[sent(200, 1, Why::New), sent(250, 1, avoidable), acked(300, 2)], None);
        assert_eq!(timeouts, Timeouts::default());
    }

    #[test]
    fn late_acknowledgement_is_a_bad_timeout_for_each_expiry_of_the_backed_off_timer() {
        // Tests: A2
        // Started at 200: expires at 500, with 600 at 1100, with 1200 at 2300.
        for (ms, bad) in [(499, 0), (500, 0), (501, 1), (1101, 2), (2300, 2), (2301, 3)] {
            let timeouts = after_first_round_trip(&[sent(200, 1, Why::New), acked(ms, 2)], None);
            assert_eq!((timeouts.bad, timeouts.good), (bad, 0), "{ms}");
        }
        let in_a_week = 7 * 24 * 3_600_000;
        let timeouts = after_first_round_trip(&[sent(200, 1, Why::New), acked(in_a_week, 2)], None);
        assert_eq!(timeouts.bad, EXPIRIES_MAX, "no more are counted");
    }

    #[test]
    fn acknowledgement_of_new_data_restarts_the_timer() {
        // Tests: A2
        // Two segments outstanding, acknowledged 290 ms apart: a timer of 300 ms never expires.
        let sent_both = [sent(200, 1, Why::New), sent(210, 2, Why::New)];
        let timeouts =
            after_first_round_trip(&[&sent_both[..], &[acked(490, 2), acked(780, 3)]].concat(), None);
        assert_eq!(timeouts.bad, 0);
        let nothing_outstanding =
            [sent(200, 1, Why::New), acked(300, 2), sent(9000, 2, Why::New), acked(9100, 3)];
        assert_eq!(after_first_round_trip(&nothing_outstanding, None).bad, 0);
    }

    #[test]
    fn retransmitted_segment_gives_no_sample() {
        // Tests: A2, J6
        // A sample of 3.1 s would let the estimator wait long for the next segment; without it 600 ms, backed
        // off.
        let late = [sent(200, 1, Why::New), sent(3200, 1, EXPIRED), acked(3300, 2), sent(3400, 2, Why::New)];
        let timeouts = after_first_round_trip(&[&late[..], &[acked(4001, 3)]].concat(), None);
        assert_eq!(timeouts.bad, 1);
    }

    #[test]
    fn answer_to_a_retransmission_is_the_latest_round_trip_of_the_next_timeout() {
        // Tests: A2
        // 300 ms in units of the first round trip, 100 ms, and 600 ms, backed off, of the answer after 50.
        let twice = [sent(200, 1, Why::New), sent(3200, 1, EXPIRED), acked(3250, 2)];
        let again = [sent(3300, 2, Why::New), sent(9300, 2, EXPIRED), acked(9350, 3)];
        let cost = |events: &[Event]| {
            let timeouts = after_first_round_trip(events, None);
            assert_eq!(timeouts.good, 2);
            timeouts.cost.unwrap()
        };
        let answered = cost(&[twice, again].concat());
        assert!((answered - f64::midpoint(3.0, 12.0)).abs() < 1e-9, "{answered}");
        // Sent once more without need: either copy can have been answered, and the 100 ms stay the latest.
        let either = [twice[0], twice[1], sent(3220, 1, Why::FastRetransmit), twice[2]];
        let unclear = cost(&[&either[..], &again].concat());
        assert!((unclear - f64::midpoint(3.0, 6.0)).abs() < 1e-9, "{unclear}");
    }

    #[test]
    fn answer_within_half_the_smallest_round_trip_undoes_a_bad_timeout() {
        // Tests: A2, A3
        // The timer expires at 500; half of the smallest round trip later is 550.
        for (ms, undone) in [(549, 1), (550, 0)] {
            let timeouts = after_first_round_trip(&[sent(200, 1, Why::New), acked(ms, 2)], Some(2));
            assert_eq!((timeouts.undone, timeouts.bad), (undone, 1 - undone), "{ms}");
        }
    }

    #[test]
    fn expiries_are_told_with_what_was_known_and_what_followed() {
        // Tests: A2, A3
        let ms = Duration::from_millis;
        // A bad one at 500 and, backed off, at 1100; a segment lost and sent again at 5000.
        let events = [
            sent(0, 0, Why::New),
            acked(100, 1),
            sent(200, 1, Why::New),
            acked(1250, 2),
            sent(1300, 2, Why::New),
            sent(5000, 2, EXPIRED),
            acked(5040, 3),
        ];
        let mut expiries = Vec::new();
        let config = presets::find("ap-min-0").unwrap().config;
        let timeouts = assess_each(events, &config, None, &mut |expiry| expiries.push(*expiry));
        assert_eq!(timeouts, assess(events, &config, None));
        assert_eq!((timeouts.bad, timeouts.good), (2, 1));
        let first = Expiry {
            good: false,
            repeated: false,
            again: false,
            until_ack: ms(750),
            rto: ms(300),
            rttvar: ms(50),
            rtt_smallest: Some(ms(100)),
            rtt_smallest_seen: Some(ms(100)),
            rtt_largest: ms(100),
        };
        let second = Expiry { again: true, until_ack: ms(150), rto: ms(600), ..first };
        assert_eq!(expiries[..2], [first, second]);
        assert_eq!(
            (expiries[2].good, expiries[2].until_ack, expiries[2].rtt_largest),
            (true, ms(40), ms(1050))
        );
    }

    #[test]
    fn round_trips_are_seen_whether_measured_or_not() {
        // Tests: A3
        // Of two segments in flight the first is timed; the second takes 60 ms. Then one is lost twice.
        let events = [
            sent(0, 0, Why::New),
            sent(50, 1, Why::New),
            acked(100, 1),
            acked(110, 2),
            sent(200, 2, Why::New),
            sent(3200, 2, EXPIRED),
            sent(9200, 2, EXPIRED),
            acked(9300, 3),
        ];
        let mut expiries = Vec::new();
        let config = presets::find("ap-min-0").unwrap().config;
        let timeouts = assess_each(events, &config, None, &mut |expiry| expiries.push(*expiry));
        assert_eq!((timeouts.good, timeouts.repeated), (1, 1));
        let ms = |ms| Some(Duration::from_millis(ms));
        for (expiry, repeated) in expiries.iter().zip([false, true]) {
            assert_eq!((expiry.good, expiry.repeated), (true, repeated));
            assert_eq!((expiry.rtt_smallest, expiry.rtt_smallest_seen), (ms(100), ms(60)));
        }
    }

    #[test]
    fn summary_is_the_sum_and_the_means_of_the_paper() {
        // Tests: A2
        let seconds = Duration::from_secs;
        let connections = [
            Timeouts { waited: seconds(3), good: 2, bad: 2, cost: Some(4.0), ..Timeouts::default() },
            Timeouts { waited: seconds(1), good: 1, bad: 0, cost: Some(8.0), ..Timeouts::default() },
            Timeouts { bad: 5, ..Timeouts::default() },
            Timeouts::default(),
        ];
        let summary = Summary::of(connections);
        assert_eq!((summary.w, summary.connections), (seconds(4), 4));
        assert!((summary.w_tilde - 6.0).abs() < 1e-9, "over the two with a good timeout");
        assert!((summary.b - (0.5 + 0.0 + 1.0 + 0.0) / 4.0).abs() < 1e-9, "over all four");
    }

    #[test]
    fn connection_without_a_round_trip_is_not_averaged_as_zero() {
        // Tests: A2
        let of = |events: &[Event]| {
            assess(events.iter().copied(), &presets::find("ap-min-0").unwrap().config, None)
        };
        let without = of(&[sent(0, 0, Why::New), sent(3000, 0, EXPIRED), acked(3100, 1)]);
        assert_eq!((without.good, without.waited, without.cost), (1, Duration::from_secs(3), None));
        let three =
            after_first_round_trip(&[sent(200, 1, Why::New), sent(3200, 1, EXPIRED), acked(3300, 2)], None);
        let summary = Summary::of([without, three]);
        assert!((summary.w_tilde - 3.0).abs() < 1e-9, "{summary:?}");
        assert_eq!((summary.w, Summary::of([without]).w_tilde), (Duration::from_millis(3300), 0.0));
    }
}
