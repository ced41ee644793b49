//! LEDBAT++: takes what others leave, and keeps the queue short.
//!
//! P. Balasubramanian, O. Ertugay, D. Havey and M. Bagnulo, "LEDBAT++: Congestion Control for Background
//! Traffic", draft-irtf-iccrg-ledbat-plus-plus, on S. Shalunov, G. Hazel, J. Iyengar and M. Kühlewind, "Low
//! Extra Delay Background Transport (LEDBAT)", RFC 6817. Of the draft's text only the abstract could be read.
//! The formulas and constants are those of Q. Li's module for Linux (from version 01 of the draft).
//!
//! `target` is the queueing delay that it aims at.
//!
//! Deviations: delay is measured as round trips, as the draft does, not one way (RFC 6817). A loss during a
//! slowdown halves the window that the slowdown returns to.

use std::time::Duration;

use super::round::Rounds;
use super::snapshot::signed;
use super::window::{Remainder, SlowStart, Window, window_methods};
use super::{
    About, Ack, Controller, IdleRestart, LossEpisode, Parameter, Settings, Signal, Snapshot, Start, Timeout,
    Undo, Values,
};
use crate::divide::{at_least_one, times};
use crate::time::nanos;
use crate::{Instant, InvalidParameter};

/// The controller of the draft.
#[derive(Clone, Debug)]
pub struct LedbatPlusPlus {
    window: Window,
    /// TARGET, in nanoseconds.
    target: u64,
    base: BaseDelay,
    /// The last samples in nanoseconds; the smallest is the current delay.
    recent: [u64; RECENT],
    /// The place of the next sample.
    next: usize,
    rounds: Rounds,
    /// Half of the window at the beginning of the round trip, in bytes: delay takes no more in one.
    floor: u64,
    slow_growth: Remainder,
    growth: Remainder,
    slowdown: Slowdown,
    /// The slowdown before the last reduction.
    prior: Slowdown,
}

/// The slowdowns, in which the queue drains and all see the base delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slowdown {
    /// None before the first slow start is over.
    Unscheduled,
    /// The next begins then.
    At(Instant),
    /// Two segments from `since` to `until`.
    Frozen { since: Instant, until: Instant },
    /// Slow start to the window before, which began to shrink at `since`.
    Recovering { since: Instant },
}

/// The smallest round trip of each of the last ten minutes, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct BaseDelay {
    minutes: [u64; MINUTES],
    /// The minute of the newest, on the clock of the connection.
    minute: u64,
}

impl LedbatPlusPlus {
    /// The name in the registry.
    pub const NAME: &'static str = "ledbat-plus-plus";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 2019,
        source: "Balasubramanian et al., LEDBAT++, draft-irtf-iccrg-ledbat-plus-plus; RFC 6817",
        signal: Signal::Delay,
        keeps_in_queue: "60 ms, nothing after each slowdown",
        deviations: "the formulas are read from an implementation of version 01; a loss during a slowdown \
            halves the window to return to",
        exceptions: &[],
    };

    /// Its parameters in the registry's words.
    pub(super) const PARAMETERS: &[Parameter] =
        &[Parameter { name: "target", values: Values::Millis(1, 1000), default: 60 }];
    /// 60 ms.
    pub(super) const TARGET: Duration = Duration::from_millis(60);

    pub(super) fn target_from(settings: &Settings) -> Result<Duration, InvalidParameter> {
        Ok(Duration::from_millis(settings.value("target").unsigned_abs()))
    }

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::with_target(start, Self::TARGET)
    }

    /// A controller that aims at another queueing delay.
    #[must_use]
    pub fn with_target(start: &Start, target: Duration) -> Self {
        Self {
            window: Window::new(start),
            target: nanos(target),
            base: BaseDelay { minutes: [u64::MAX; MINUTES], minute: 0 },
            recent: [u64::MAX; RECENT],
            next: 0,
            rounds: Rounds::default(),
            floor: 0,
            slow_growth: Remainder::default(),
            growth: Remainder::default(),
            slowdown: Slowdown::Unscheduled,
            prior: Slowdown::Unscheduled,
        }
    }

    fn measure(&mut self, now: Instant, rtt: u64) {
        self.base.add(now, rtt);
        if let Some(place) = self.recent.get_mut(self.next) {
            *place = rtt;
        }
        self.next = self.next.saturating_add(1) % RECENT;
    }

    /// The queueing delay in nanoseconds; zero before the first sample.
    fn queueing_delay(&self) -> u64 {
        let current = self.recent.iter().min().copied().unwrap_or(u64::MAX);
        if current == u64::MAX { 0 } else { current.saturating_sub(self.base.smallest()) }
    }

    /// 1 / GAIN: min (16, ceil (2 * TARGET / base)).
    fn gain_divisor(&self) -> u64 {
        self.target
            .saturating_mul(2)
            .div_ceil(at_least_one(self.base.smallest()).get())
            .clamp(1, GAIN_DIVISOR_MAX)
    }

    /// Begins and ends slowdowns. Returns whether the window may move.
    fn follow_slowdown(&mut self, ack: &Ack) -> bool {
        let now = ack.now;
        let two_rtts = Duration::from_nanos(ack.srtt_ns.saturating_mul(2));
        let in_slow_start = self.window.in_slow_start();
        let is_queue_long = self.queueing_delay() > (self.target / 4).saturating_mul(3);
        match self.slowdown {
            // The first slow start ends before the queue is as long as it may be.
            Slowdown::Unscheduled if in_slow_start && !is_queue_long => {}
            Slowdown::Unscheduled => {
                self.window.ease(self.window.cwnd());
                self.slowdown = Slowdown::At(now + two_rtts);
            }
            Slowdown::At(start) if now >= start && !ack.in_recovery => {
                let before = if in_slow_start { self.window.ssthresh() } else { self.window.cwnd() };
                self.window.set_ssthresh(before);
                self.window.set_cwnd(self.window.segments(2).min(before));
                self.slowdown = Slowdown::Frozen { since: now, until: now + two_rtts };
            }
            Slowdown::Frozen { since, until } if now >= until => {
                self.slowdown = Slowdown::Recovering { since };
            }
            // Nine times as long without as with one: a tenth of the path at most is lost by them.
            Slowdown::Recovering { since } if !in_slow_start => {
                self.slowdown = Slowdown::At(now + now.saturating_since(since).saturating_mul(9));
            }
            Slowdown::At(_) | Slowdown::Frozen { .. } | Slowdown::Recovering { .. } => {}
        }
        !matches!(self.slowdown, Slowdown::Frozen { .. })
    }

    /// W += GAIN - max (0, W * (delay / TARGET - 1)) a round trip, and at least W / 2 stays.
    fn avoid_congestion(&mut self, bytes: u64) {
        let cwnd = self.window.cwnd();
        let bytes = bytes.min(cwnd);
        let gained = bytes.saturating_mul(self.window.smss());
        let more = self.growth.divide(gained, cwnd.saturating_mul(self.gain_divisor()));
        let beyond = self.queueing_delay().saturating_sub(self.target);
        let less = times(bytes, beyond, at_least_one(self.target)).unwrap_or(u64::MAX);
        if less <= more {
            self.window.grow_by(more.saturating_sub(less));
        } else {
            let least = self.floor.max(self.window.segments(2));
            self.window.ease(cwnd.saturating_add(more).saturating_sub(less).max(least));
        }
    }

    /// The window to which it returns: the present one, but during a slowdown the one before.
    fn lasting(&self) -> u64 {
        match self.slowdown {
            Slowdown::Frozen { .. } | Slowdown::Recovering { .. } => self.window.ssthresh(),
            Slowdown::Unscheduled | Slowdown::At(_) => self.window.cwnd(),
        }
    }

    fn halved(&self, flight_size: u64) -> u64 {
        let lasting = self.lasting();
        if lasting > self.window.cwnd() {
            return (lasting / 2).max(self.window.segments(2));
        }
        self.window.half_of(flight_size)
    }
}

impl BaseDelay {
    fn add(&mut self, now: Instant, rtt: u64) {
        let minute = nanos(now.saturating_since(Instant::ZERO)) / MINUTE_NS;
        let passed = minute.saturating_sub(self.minute).min(MINUTES as u64);
        for _ in 0..passed {
            self.minutes.rotate_right(1);
            self.minutes[0] = u64::MAX;
        }
        self.minute = self.minute.max(minute);
        self.minutes[0] = self.minutes[0].min(rtt);
    }

    fn smallest(&self) -> u64 {
        self.minutes.iter().min().copied().unwrap_or(u64::MAX)
    }
}

impl Controller for LedbatPlusPlus {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt_ns {
            self.measure(ack.now, rtt);
        }
        if self.rounds.on_ack(ack) {
            self.floor = self.window.cwnd() / 2;
        }
        if !self.follow_slowdown(ack) || !Window::may_grow(ack) {
            return;
        }
        if self.window.in_slow_start() {
            let bytes = self.slow_growth.divide(ack.bytes_acked, self.gain_divisor());
            self.window.slow_start(bytes, SlowStart::Counted);
        } else {
            self.avoid_congestion(ack.bytes_acked);
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.prior = self.slowdown;
        self.window.reduce(self.halved(loss.flight_size));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if timeout.expiries <= 1 {
            self.prior = self.slowdown;
        }
        self.window.collapse(timeout, self.halved(timeout.flight_size));
    }

    fn on_undo(&mut self, _: &Undo) {
        if self.window.undo() {
            self.slowdown = self.prior;
        }
    }

    fn snapshot(&self) -> Snapshot {
        let base = self.base.smallest();
        let base = if base == u64::MAX { 0 } else { base };
        let is_slow = matches!(self.slowdown, Slowdown::Frozen { .. } | Slowdown::Recovering { .. });
        Snapshot::default()
            .with("queueing_delay_us", signed(self.queueing_delay() / 1000))
            .with("base_rtt_us", signed(base / 1000))
            .with("gain_divisor", signed(self.gain_divisor()))
            .with("in_slowdown", i64::from(is_slow))
    }

    window_methods!();
}

/// CURRENT_FILTER: the delay is the smallest of this many samples.
const RECENT: usize = 4;
/// BASE_HISTORY, in minutes.
const MINUTES: usize = 10;
const MINUTE_NS: u64 = 60_000_000_000;
/// GAIN is never below a sixteenth.
const GAIN_DIVISOR_MAX: u64 = 16;

ackclock_form::form! {
    struct LedbatPlusPlus {
        window, target, base, recent, next, rounds, floor, slow_growth, growth, slowdown, prior
    } => |ledbat| ledbat.next < RECENT;
    enum Slowdown { 0 Unscheduled, 1 At(value), 2 Frozen { since, until }, 3 Recovering { since } }
    struct BaseDelay { minutes, minute }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LedbatPlusPlus, Slowdown};
    use crate::Instant;
    use crate::congestion::testing::{SMSS, START, ack, loss};
    use crate::congestion::{Ack, Controller, described};
    use crate::kit::{Flow, Path};

    /// One with this window in congestion avoidance and no slowdown to come, on a path of 100 ms.
    fn with_window(segments: u64) -> LedbatPlusPlus {
        let mut ledbat = LedbatPlusPlus::new(&START);
        ledbat.on_ack(&Ack { cwnd_limited: false, ..ack(0, SMSS) });
        ledbat.window.set_cwnd(segments * SMSS);
        ledbat.window.set_ssthresh(0);
        ledbat.slowdown = Slowdown::At(Instant::from_millis(u64::MAX / 2_000_000));
        ledbat
    }

    /// A round trip with this queueing delay.
    fn round(ledbat: &mut LedbatPlusPlus, queue_ms: u64) {
        let rtt_ns = Some((100 + queue_ms) * 1_000_000);
        ledbat.recent = [u64::MAX; 4];
        ledbat.on_ack(&Ack { rtt_ns, prior_delivered: u64::MAX, ..ack(0, ledbat.cwnd()) });
    }

    #[test]
    fn window_moves_with_the_distance_of_delay_from_its_target() {
        // GAIN is 1 / ceil (120 / 100), half a segment. Beyond 60 ms W * (delay / 60 - 1) goes, half at most.
        for (queue_ms, cwnd) in [(0, 100_500), (60, 100_500), (66, 90_500), (75, 75_500), (120, 50_000)] {
            let mut ledbat = with_window(100);
            round(&mut ledbat, queue_ms);
            assert!(ledbat.cwnd().abs_diff(cwnd) <= 1, "{} bytes at {queue_ms} ms", ledbat.cwnd());
        }
    }

    #[test]
    fn short_paths_grow_slowly() {
        for (base_ms, divisor) in [(1, 16), (7, 16), (8, 15), (30, 4), (60, 2), (120, 1), (500, 1)] {
            let mut ledbat = LedbatPlusPlus::new(&START);
            ledbat.on_ack(&Ack { rtt_ns: Some(base_ms * 1_000_000), ..ack(0, SMSS) });
            assert_eq!(ledbat.gain_divisor(), divisor, "{base_ms} ms");
        }
    }

    #[test]
    fn base_delay_is_the_smallest_of_ten_minutes() {
        let mut ledbat = LedbatPlusPlus::new(&START);
        for (minute, rtt_ms, base_ms) in [(0, 50, 50), (1, 80, 50), (9, 90, 50), (10, 95, 80), (11, 99, 90)] {
            let rtt_ns = Some(rtt_ms * 1_000_000);
            ledbat.on_ack(&Ack { rtt_ns, ..ack(minute * 60_000, SMSS) });
            assert_eq!(ledbat.base.smallest(), base_ms * 1_000_000, "minute {minute}");
        }
    }

    #[test]
    fn loss_during_a_slowdown_halves_the_window_to_return_to() {
        let mut ledbat = with_window(100);
        ledbat.slowdown = Slowdown::At(Instant::ZERO);
        ledbat.on_ack(&ack(1, SMSS));
        assert_eq!((ledbat.cwnd(), ledbat.ssthresh()), (2 * SMSS, 100 * SMSS));
        ledbat.on_loss_episode(&loss(2, 100 * SMSS));
        assert_eq!((ledbat.cwnd(), ledbat.ssthresh()), (2 * SMSS, 50 * SMSS));
    }

    #[test]
    fn queue_stays_below_its_target_and_slowdowns_take_a_tenth_of_the_time() {
        // 20 Mbit/s and 100 ms, with a queue of 400 ms.
        let path = Path { rate: 2_500_000, buffer: 1_000_000, ..Path::TYPICAL };
        let factory = described(LedbatPlusPlus::NAME, LedbatPlusPlus::ABOUT, |start| {
            Box::new(LedbatPlusPlus::new(start))
        });
        let mut flow = Flow::new(factory.as_ref(), path);
        flow.run(Duration::from_secs(30));
        let (before, begin) = (flow.totals(), flow.now());
        let (mut slow_ms, mut slowdowns, mut was_slow, mut longest) = (0, 0, false, 0);
        while flow.now() < begin + Duration::from_secs(300) {
            let last = flow.now();
            flow.run(Duration::from_millis(50));
            let is_slow = flow.controller().snapshot().iter().any(|value| value == ("in_slowdown", 1));
            if is_slow {
                slow_ms += flow.now().saturating_since(last).as_millis();
                slowdowns += u64::from(!was_slow);
            }
            was_slow = is_slow;
            longest = longest.max(flow.queue());
        }
        assert!((10..=40).contains(&slowdowns), "{slowdowns} slowdowns in 300 s");
        assert!((25_000..=33_000).contains(&slow_ms), "{slow_ms} of 300,000 ms");
        assert!((100_000..=175_000).contains(&longest), "{longest} bytes queued: 60 ms are 150,000");
        let used = (flow.totals().delivered - before.delivered) * 100 / (300 * path.rate);
        assert!((85..=100).contains(&used), "{used} % of the path");
        assert_eq!(flow.totals().dropped, before.dropped);
    }
}
