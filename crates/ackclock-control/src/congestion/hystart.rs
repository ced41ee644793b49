//! HyStart++: leaves slow start when round trips grow, before a loss.
//!
//! P. Balasubramanian, Y. Huang and M. Olson, "HyStart++: Modified Slow Start for TCP", RFC 9406, 2023, §4.
//!
//! A controller holds this part, and it says by how much slow start may grow; [`Cubic`](super::Cubic) uses
//! it. As §4.3 recommends, it serves only the first slow start of a connection.
//!
//! Deviations. The RFC asks whether the smallest sample of a round is late; here N_RTT_SAMPLE late samples in
//! a row suffice. A queue grows within a round whose first samples saw none of it, so the RFC detects it a
//! round later, with twice the window outstanding. A sample from an acknowledgement of more than two segments
//! counts once for every two: where segments are coalesced, a round of hundreds of them has fewer than eight
//! acknowledgements.
//!
//! The RFC resumes standard slow start when a later round has a smaller sample than the round that found the
//! delay. Each round begins with such samples while the queue still drains between rounds. Here slow start
//! therefore resumes when a sample is in time after at least three late ones in its round, or when a whole
//! round has no eight late ones in a row.
//!
//! The remaining loss is the growth of Conservative Slow Start itself. From the bandwidth-delay product up,
//! five rounds of a quarter make three of it. A queue of one cannot hold that, and the loss shows a round
//! trip later: 87 packets of the 334 that a path of 100 Mbit/s and 20 ms holds with its queue, where
//! RFC 5681's slow start loses 614. Leaving as soon as a further round begins with eight late samples would
//! lose 25, but where jitter looks like a queue (20 ms of it in 60 ms), a transfer of 10 MB would take almost
//! twice as long.

use super::Ack;
use super::round::Rounds;
use super::window::{SlowStart, Window};
use crate::divide::at_least_one;

/// The state of HyStart++. Round-trip times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct HyStart {
    rounds: Rounds,
    /// The smallest sample of the last round of standard slow start. Lateness is measured against it.
    last_round_min_rtt: u64,
    current_round_min_rtt: u64,
    rtt_sample_count: u32,
    /// Late samples in a row, and whether this round has had enough of them.
    late_count: u32,
    delayed: bool,
    /// Completed rounds of Conservative Slow Start; `None` outside it.
    css_rounds: Option<u32>,
}

impl HyStart {
    /// The state before the first acknowledgement.
    #[must_use]
    pub fn new() -> Self {
        Self {
            rounds: Rounds::default(),
            last_round_min_rtt: INFINITE,
            current_round_min_rtt: INFINITE,
            rtt_sample_count: 0,
            late_count: 0,
            delayed: false,
            css_rounds: None,
        }
    }

    /// Takes an acknowledgement in slow start. Grows the window, and sets ssthresh to end slow start when
    /// Conservative Slow Start has lasted its rounds. Returns the bytes left for congestion avoidance.
    pub fn slow_start(&mut self, window: &mut Window, ack: &Ack) -> u64 {
        if self.rounds.on_ack(ack) {
            self.begin_round();
        }
        if let Some(rtt) = ack.rtt_ns {
            self.take_sample(rtt, ack.bytes_acked / at_least_one(window.segments(2)));
        }
        let Some(rounds) = self.css_rounds else {
            let left = window.slow_start(ack.bytes_acked, SlowStart::Unlimited);
            if self.delayed {
                self.css_rounds = Some(0);
            }
            return left;
        };
        // RFC 9406 §4.2: in CSS, cwnd += min (N, L * SMSS) / CSS_GROWTH_DIVISOR.
        let left = window.slow_start(ack.bytes_acked / CSS_GROWTH_DIVISOR, SlowStart::Unlimited);
        if rounds >= CSS_ROUNDS {
            // RFC 9406 §4.2: after CSS_ROUNDS rounds, congestion avoidance: ssthresh = cwnd.
            window.set_ssthresh(window.cwnd());
        }
        left
    }

    /// Whether Conservative Slow Start is under way.
    #[must_use]
    pub fn is_conservative(&self) -> bool {
        self.css_rounds.is_some()
    }

    fn begin_round(&mut self) {
        // Deviation from RFC 9406 §4.2: a round without such a delay ends it, not one smaller sample.
        if !self.delayed && self.rtt_sample_count >= N_RTT_SAMPLE {
            self.css_rounds = None;
        }
        match &mut self.css_rounds {
            // RFC 9406 §4.2: the partial round in which Conservative Slow Start begins counts.
            Some(rounds) => *rounds = rounds.saturating_add(1),
            None => self.last_round_min_rtt = self.current_round_min_rtt,
        }
        (self.current_round_min_rtt, self.rtt_sample_count) = (INFINITE, 0);
        (self.late_count, self.delayed) = (0, false);
    }

    /// Takes a round-trip sample that stands for this many pairs of segments.
    fn take_sample(&mut self, rtt: u64, pairs: u64) {
        let samples = u32::try_from(pairs).unwrap_or(u32::MAX).max(1);
        self.current_round_min_rtt = self.current_round_min_rtt.min(rtt);
        self.rtt_sample_count = self.rtt_sample_count.saturating_add(samples);
        // RFC 9406 §4.2: RttThresh = max (MIN_RTT_THRESH, min (lastRoundMinRTT / MIN_RTT_DIVISOR,
        // MAX_RTT_THRESH)).
        let threshold = (self.last_round_min_rtt / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
        if rtt >= self.last_round_min_rtt.saturating_add(threshold) {
            self.late_count = self.late_count.saturating_add(samples);
            // Deviation from RFC 9406 §4.2: eight samples in a row, not the smallest of the round.
            self.delayed |= self.late_count >= N_RTT_SAMPLE;
        } else {
            let late = std::mem::take(&mut self.late_count);
            if late >= N_RTT_SPIKE || self.delayed {
                // A queue would have kept all later samples late. The delay was a spike, so standard slow
                // start goes on.
                (self.delayed, self.css_rounds) = (false, None);
            }
        }
    }
}

impl Default for HyStart {
    fn default() -> Self {
        Self::new()
    }
}

/// RFC 9406 §4.3.
const MIN_RTT_THRESH: u64 = 4_000_000;
const MAX_RTT_THRESH: u64 = 16_000_000;
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;
/// More late samples in a row than noise about the threshold explains.
const N_RTT_SPIKE: u32 = 3;
const INFINITE: u64 = u64::MAX;

ackclock_form::form! {
    struct HyStart {
        rounds, last_round_min_rtt, current_round_min_rtt, rtt_sample_count, late_count, delayed,
        css_rounds
    }
}

#[cfg(test)]
mod tests {

    use super::{HyStart, Window};
    use crate::congestion::Ack;
    use crate::congestion::testing::{SMSS, START, ack};

    struct Sender {
        hystart: HyStart,
        window: Window,
        delivered: u64,
    }

    impl Sender {
        fn new() -> Self {
            Self { hystart: HyStart::new(), window: Window::new(&START), delivered: 0 }
        }

        /// A round trip of `rtt_ms` in which each segment of the window is acknowledged separately.
        fn round(&mut self, rtt_ms: u64) -> u64 {
            self.round_of(|_| rtt_ms)
        }

        /// A round with a round trip for each segment.
        fn round_of(&mut self, rtt_ms: impl Fn(u64) -> u64) -> u64 {
            let prior_delivered = self.delivered;
            for segment in 0..self.window.cwnd() / SMSS {
                self.delivered += SMSS;
                let rtt_ns = Some(rtt_ms(segment) * 1_000_000);
                let ack = Ack { rtt_ns, delivered: self.delivered, prior_delivered, ..ack(0, SMSS) };
                self.hystart.slow_start(&mut self.window, &ack);
            }
            self.window.cwnd() / SMSS
        }
    }

    #[test]
    fn steady_delay_doubles_the_window_each_round() {
        let mut sender = Sender::new();
        let windows: Vec<u64> = (0..5).map(|_| sender.round(100)).collect();
        assert_eq!(windows, [20, 40, 80, 160, 320]);
    }

    #[test]
    fn delay_above_an_eighth_slows_growth_to_a_quarter() {
        let mut sender = Sender::new();
        sender.round(100);
        assert_eq!(sender.round(113), 20 + 8 + 12 / 4, "eight samples at full speed, then a quarter");
        assert!(sender.hystart.is_conservative());
    }

    #[test]
    fn delay_that_begins_within_a_round_is_found_in_that_round() {
        let mut sender = Sender::new();
        (0..3).for_each(|_| _ = sender.round(100));
        sender.round_of(|segment| if segment < 20 { 100 } else { 113 });
        assert!(sender.hystart.is_conservative());
    }

    #[test]
    fn seven_late_samples_in_a_row_are_a_spike() {
        let mut sender = Sender::new();
        (0..3).for_each(|_| _ = sender.round(100));
        sender.round_of(|segment| if segment % 8 == 0 { 100 } else { 200 });
        assert!(!sender.hystart.is_conservative());
    }

    #[test]
    fn coalesced_acknowledgements_count_for_the_segments_that_they_stand_for() {
        let mut sender = Sender::new();
        sender.window.set_cwnd(160 * SMSS);
        for (rtt_ms, acks) in [(100, 4), (120, 1)] {
            let prior_delivered = sender.delivered;
            for _ in 0..acks {
                sender.delivered += 40 * SMSS;
                let rtt_ns = Some(rtt_ms * 1_000_000);
                let acked = Ack { rtt_ns, delivered: sender.delivered, prior_delivered, ..ack(0, 40 * SMSS) };
                sender.hystart.slow_start(&mut sender.window, &acked);
            }
        }
        assert!(sender.hystart.is_conservative());
    }

    #[test]
    fn delay_below_the_threshold_changes_nothing() {
        let mut sender = Sender::new();
        sender.round(100);
        sender.round(112);
        assert!(!sender.hystart.is_conservative());
    }

    #[test]
    fn threshold_is_at_least_four_and_at_most_sixteen_milliseconds() {
        let conservative = |rtts: [u64; 2]| {
            let mut sender = Sender::new();
            for rtt in rtts {
                sender.round(rtt);
            }
            sender.hystart.is_conservative()
        };
        assert!(!conservative([8, 11]));
        assert!(conservative([8, 12]));
        assert!(!conservative([400, 415]));
        assert!(conservative([400, 416]));
    }

    #[test]
    fn five_conservative_rounds_end_slow_start() {
        let mut sender = Sender::new();
        sender.round(100);
        for _ in 0..5 {
            sender.round(120);
            assert!(sender.window.in_slow_start());
        }
        sender.round(120);
        assert!(!sender.window.in_slow_start());
    }

    #[test]
    fn round_without_delay_resumes_slow_start() {
        let mut sender = Sender::new();
        sender.round(100);
        sender.round(150);
        assert!(sender.hystart.is_conservative());
        sender.round(100);
        let before = sender.window.cwnd() / SMSS;
        assert_eq!(sender.round(100), 2 * before);
        assert!(!sender.hystart.is_conservative());
    }

    #[test]
    fn delay_that_passes_within_its_round_was_a_spike() {
        let mut sender = Sender::new();
        (0..3).for_each(|_| _ = sender.round(100));
        let before = sender.window.cwnd() / SMSS;
        let after = sender.round_of(|segment| if (20..30).contains(&segment) { 150 } else { 100 });
        assert!(!sender.hystart.is_conservative());
        assert_eq!(after, 2 * before - 2, "the last two late ones counted a quarter");
    }

    #[test]
    fn jitter_that_looked_like_a_queue_is_found_out_in_the_next_round() {
        let mut sender = Sender::new();
        (0..3).for_each(|_| _ = sender.round(100));
        sender.round_of(|segment| if segment < 60 { 100 } else { 150 });
        assert!(sender.hystart.is_conservative());
        let before = sender.window.cwnd() / SMSS;
        let after = sender.round_of(|segment| if segment % 4 == 3 { 100 } else { 150 });
        assert!(!sender.hystart.is_conservative());
        assert_eq!(after, 2 * before - 3, "three samples counted a quarter");
    }

    #[test]
    fn queue_that_drains_between_rounds_gives_no_relief() {
        let mut sender = Sender::new();
        (0..3).for_each(|_| _ = sender.round(100));
        for _ in 0..5 {
            let before = sender.window.cwnd() / SMSS;
            let after = sender.round_of(|segment| if segment < 40 { 100 } else { 120 });
            assert!(sender.hystart.is_conservative());
            assert!(after < 2 * before);
        }
        sender.round(120);
        assert!(!sender.window.in_slow_start(), "five rounds, the first of them in part");
    }

    #[test]
    fn few_samples_decide_nothing() {
        let mut sender = Sender::new();
        sender.window.set_cwnd(3 * SMSS);
        sender.round(100);
        sender.window.set_cwnd(7 * SMSS);
        sender.round(200);
        assert!(!sender.hystart.is_conservative());
    }
}
