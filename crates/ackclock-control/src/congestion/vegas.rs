//! Vegas: keeps a few segments queued, measured by the difference of expected and actual rate.
//!
//! L. Brakmo and L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE Journal
//! on Selected Areas in Communications 13(8), 1995, §III-B and §III-C. The fine-grained retransmission check
//! of §III-A is a recovery policy. The definition of an episode ([`Controller::on_loss_episode`]) ensures
//! that the window shrinks only for losses of segments sent after the last decrease.
//!
//! Deviations:
//! - BaseRTT is the smallest round trip of data. The paper also counts the handshake's;
//!   [`Thresholds::with_handshake`] chooses that.
//! - The round trip compared is the smallest of those that ended since the last comparison, not only the
//!   distinguished segment's, whose acknowledgement the peer may have delayed.
//! - The amount sent in that round trip is at least what is in transit at its end (see below).
//! - The linear change of a round trip is made at once, at its start.
//! - A loss halves the window, as in the Reno that Vegas was made from. The paper does not say.
//!
//! After slow start the window falls by what is queued, less one segment, until no more than β is queued. The
//! paper changes to linear decrease with the window as it is; on its paths of a dozen segments that takes a
//! few round trips. Where thousands of segments fill the path, the queue then holds a quarter of that number,
//! and draining it by one segment a round trip takes minutes. Linux's Vegas falls once, but the smallest
//! round trip of the round in which the queue began saw little of it.
//!
//! If each segment is acknowledged, "how many bytes are transmitted between the time that segment is sent and
//! its acknowledgment is received" is what is in transit when that acknowledgement arrives, and both equal
//! the window. An acknowledgement of two segments may cover one that left before the distinguished one: with
//! an odd window, one segment less is transmitted in that time. Diff would be one segment without any queue,
//! and with α of 1 an odd window would never grow again, whether of 3 segments or of 15 on a path that holds
//! 33.

mod usc;

pub use usc::VegasUsc;

use super::registered_name;
use super::round::{RoundTimes, per_second};
use super::snapshot::signed;
use super::window::{SlowStart, Window, window_methods};
use super::{
    About, Ack, Controller, IdleRestart, LossEpisode, Parameter, Sent, Settings, Signal, Snapshot, Start,
    Timeout, Undo, Values,
};
use crate::InvalidParameter;
use crate::divide::{at_least_one, times};

/// The controller of §III-B and §III-C.
#[derive(Clone, Debug)]
pub struct Vegas {
    name: &'static str,
    window: Window,
    thresholds: Thresholds,
    rounds: RoundTimes,
    /// The smallest round trip measured, in nanoseconds.
    base_rtt: u64,
    /// Bytes sent since the distinguished segment, which is the first of this round.
    sent_in_round: u64,
    /// The last comparison.
    compared: Comparison,
    /// In slow start: whether the window doubles in this round or stays fixed for a measurement.
    doubling: bool,
    overshoot: Overshoot,
    /// These two before the last reduction.
    prior: (bool, Overshoot),
}

/// The queue that slow start built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overshoot {
    /// The window has just been reduced by it.
    Shed,
    /// The next comparison shows whether all of it is gone.
    Judged,
    /// It is gone: linear increase and decrease.
    Gone,
}

/// The throughputs that §III-B compares at the end of a round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Comparison {
    /// The window over BaseRTT, and the bytes sent in the round trip over its length, in bytes a second.
    expected: u64,
    actual: u64,
    /// Diff in hundredths of a segment: (Expected - Actual) * BaseRTT.
    extra: u64,
    /// The number of this comparison, counted from the first.
    number: u64,
}

/// The thresholds of Vegas, in segments queued ("buffers"): below α the window grows, above β it shrinks,
/// above γ slow start ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    alpha: u16,
    beta: u16,
    gamma: u16,
    /// Whether the handshake's round trip counts in BaseRTT.
    handshake: bool,
}

impl Comparison {
    /// The numbers of figure 8; zero while unknown.
    fn snapshot(&self, base_rtt: u64, thresholds: Thresholds, doubling: bool) -> Snapshot {
        let base_rtt = if base_rtt == u64::MAX { 0 } else { base_rtt };
        let Self { expected, actual, extra, number } = *self;
        Snapshot::default()
            .with("base_rtt_us", signed(base_rtt / 1000))
            .with("expected_bytes_per_second", signed(expected))
            .with("actual_bytes_per_second", signed(actual))
            .with("diff_hundredths", signed(extra))
            .with("alpha", thresholds.alpha.into())
            .with("beta", thresholds.beta.into())
            .with("doubling", doubling.into())
            .with("comparisons", signed(number))
    }
}

impl Thresholds {
    /// The paper's choice, Vegas-1,3.
    pub const ONE_THREE: Self = Self { alpha: 1, beta: 3, gamma: 1, handshake: false };
    /// The alternative of tables I and IV, Vegas-2,4.
    pub const TWO_FOUR: Self = Self { alpha: 2, beta: 4, gamma: 1, handshake: false };
    /// The parameters in the registry's words.
    pub(super) const PARAMETERS: &[Parameter] = &[
        Self::ALPHA,
        Self::BETA,
        Self::GAMMA,
        Parameter { name: "base", values: Values::Words(&["data", "any"]), default: 0 },
    ];
    /// Those in segments.
    pub(super) const SEGMENTS: &[Parameter] = &[Self::ALPHA, Self::BETA, Self::GAMMA];
    const ALPHA: Parameter = Parameter { name: "alpha", values: Self::RANGE, default: 1 };
    const BETA: Parameter = Parameter { name: "beta", values: Self::RANGE, default: 3 };
    const GAMMA: Parameter = Parameter { name: "gamma", values: Self::RANGE, default: 1 };
    const RANGE: Values = Values::Number(1, 1000);

    /// Other thresholds: each from 1 to 1000, α below β.
    ///
    /// # Errors
    /// [`InvalidParameter`] for any other.
    pub fn new(alpha: u16, beta: u16, gamma: u16) -> Result<Self, InvalidParameter> {
        let range = 1..=1000;
        // §III-B: α is above zero, so that at least one buffer is in use, and below β, or the window would
        // oscillate.
        if alpha < beta && [alpha, beta, gamma].iter().all(|threshold| range.contains(threshold)) {
            return Ok(Self { alpha, beta, gamma, handshake: false });
        }
        let given = format!("alpha={alpha},beta={beta},gamma={gamma}");
        Err(InvalidParameter::new(given, "each must be 1 to 1000, and alpha below beta"))
    }

    pub(super) fn from_settings(settings: &Settings) -> Result<Self, InvalidParameter> {
        let number = |name| u16::try_from(settings.value(name)).unwrap_or(0);
        let thresholds = Self::new(number("alpha"), number("beta"), number("gamma"))?;
        Ok(thresholds.with_handshake(settings.value("base") == 1))
    }

    /// These thresholds, with BaseRTT taken from all round trips including the handshake's, or from data
    /// only.
    ///
    /// §III-B has BaseRTT "the minimum of all measured round trip times; it is commonly the RTT of the first
    /// segment sent by the connection", which is the SYN. A SYN's round trip is shorter than any data
    /// segment's by the transmission time of a full segment at each hop. Up to that many segments then seem
    /// to be queued that are not.
    #[must_use]
    pub fn with_handshake(self, handshake: bool) -> Self {
        Self { handshake, ..self }
    }
}

impl Vegas {
    /// The name in the registry.
    pub const NAME: &'static str = "vegas";
    /// The registry's name for thresholds of 2 and 4.
    pub const NAME_2_4: &'static str = "vegas-2-4";
    /// Its row in the table of controllers.
    pub const ABOUT: About = About {
        year: 1995,
        source: "Brakmo and Peterson, TCP Vegas, IEEE JSAC 13(8)",
        signal: Signal::Delay,
        keeps_in_queue: "one to three segments",
        deviations: "BaseRTT is that of data unless base=any; compares the smallest round trip and what is \
            in transit at its end, as acknowledgements may be delayed; a round trip's linear change is made \
            at its start; leaves slow start without what is queued; halves on loss, as Reno",
        exceptions: &[],
    };
    /// The variant with thresholds of 2 and 4.
    pub const ABOUT_2_4: About = About {
        source: "Brakmo and Peterson, TCP Vegas, IEEE JSAC 13(8), thresholds of 2 and 4",
        keeps_in_queue: "two to four segments",
        ..Self::ABOUT
    };

    /// A controller for one connection, with thresholds of 1 and 3.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::with_thresholds(start, Thresholds::ONE_THREE)
    }

    /// A controller with other thresholds.
    #[must_use]
    pub fn with_thresholds(start: &Start, thresholds: Thresholds) -> Self {
        Self {
            name: Self::NAME,
            window: Window::new(start),
            thresholds,
            rounds: RoundTimes::new(),
            base_rtt: u64::MAX,
            sent_in_round: 0,
            compared: Comparison::default(),
            // The first window is fixed, so its acknowledgements give a valid comparison.
            doubling: false,
            overshoot: Overshoot::Gone,
            prior: (false, Overshoot::Gone),
        }
    }

    /// Vegas-2,4 under a separate name.
    #[must_use]
    pub fn two_four(start: &Start) -> Self {
        Self { name: Self::NAME_2_4, ..Self::with_thresholds(start, Thresholds::TWO_FOUR) }
    }

    /// Sets the threshold window of slow start, at least to the present window
    /// ([`VegasStar`](super::VegasStar)).
    pub(super) fn set_threshold_window(&mut self, bytes: u64) {
        self.window.set_ssthresh(bytes.max(self.window.cwnd()));
    }

    /// Ends a round trip with `in_transit` bytes in transit: compares Actual with Expected.
    fn decide(&mut self, rtt: Option<u64>, in_transit: u64) {
        let compared = rtt.and_then(|rtt| self.compare(rtt, in_transit));
        self.compared = compared.unwrap_or(self.compared);
        let extra = compared.map(|compared| compared.extra);
        let Thresholds { alpha, beta, gamma, .. } = self.thresholds;
        if self.window.in_slow_start() {
            // §III-C: exponential growth only every other round trip, so that the comparison is valid; when
            // the actual rate falls below the expected by one buffer, linear increase and decrease begin.
            if let Some(extra) = extra.filter(|&extra| !self.doubling && extra > u64::from(gamma) * 100) {
                self.window.set_ssthresh(self.window.cwnd());
                self.overshoot = Overshoot::Judged;
                self.shed_beyond_beta(extra);
            }
            self.doubling = !self.doubling;
            return;
        }
        let Some(extra) = extra else { return };
        match self.overshoot {
            // Segments acknowledged in this round trip left before the window fell.
            Overshoot::Shed => self.overshoot = Overshoot::Judged,
            Overshoot::Judged => {
                self.overshoot = Overshoot::Gone;
                self.shed_beyond_beta(extra);
            }
            Overshoot::Gone => {}
        }
        if self.overshoot != Overshoot::Gone {
            return;
        }
        let (cwnd, smss) = (self.window.cwnd(), self.window.smss());
        if extra < u64::from(alpha) * 100 {
            self.window.grow_by(smss);
        } else if extra > u64::from(beta) * 100 {
            // Two segments stay, so that each round trip has something to measure.
            self.window.ease(cwnd.saturating_sub(smss).max(self.window.segments(2)));
        }
    }

    // Deviation from §III-C: the queue that slow start built leaves the window, except for one segment.
    fn shed_beyond_beta(&mut self, extra: u64) {
        if extra <= u64::from(self.thresholds.beta) * 100 {
            return;
        }
        let (cwnd, smss) = (self.window.cwnd(), self.window.smss());
        let queued = extra.saturating_mul(smss) / 100;
        self.window.ease(cwnd.saturating_sub(queued).saturating_add(smss).max(self.window.segments(2)));
        self.overshoot = Overshoot::Shed;
    }

    fn compare(&self, rtt: u64, in_transit: u64) -> Option<Comparison> {
        if self.sent_in_round == 0 || rtt == 0 {
            return None;
        }
        // Segments acknowledged together with the distinguished segment may have left before it.
        let sent = self.sent_in_round.max(in_transit);
        // §III-B: Expected = WindowSize / BaseRTT; Actual = bytes sent while the distinguished segment was on
        // its way, divided by its round trip.
        let (cwnd, smss) = (self.window.cwnd(), at_least_one(self.window.smss()));
        let moved = times(sent, self.base_rtt, at_least_one(rtt)).unwrap_or(u64::MAX);
        let extra = times(cwnd.saturating_sub(moved), 100, smss)?;
        Some(Comparison {
            expected: per_second(cwnd, self.base_rtt),
            actual: per_second(sent, rtt),
            extra,
            number: self.compared.number.saturating_add(1),
        })
    }
}

impl Controller for Vegas {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        self.name
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.sent_in_round = self.sent_in_round.saturating_add(sent.bytes);
    }

    fn on_ack(&mut self, ack: &Ack) {
        // §III-B: Actual above Expected means that BaseRTT must become the latest round trip.
        self.base_rtt = self.base_rtt.min(ack.rtt_ns.unwrap_or(u64::MAX));
        if self.thresholds.handshake && ack.rtt_min_ns > 0 {
            self.base_rtt = self.base_rtt.min(ack.rtt_min_ns);
        }
        if let Some(rtt) = self.rounds.on_ack(ack) {
            if Window::may_grow(ack) {
                self.decide(rtt, ack.prior_in_flight);
            }
            self.sent_in_round = 0;
        }
        if Window::may_grow(ack) && self.window.in_slow_start() && self.doubling {
            self.window.slow_start(ack.bytes_acked, SlowStart::PerAck);
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.prior = (self.doubling, self.overshoot);
        self.window.reduce(self.window.half_of(loss.flight_size));
        self.overshoot = Overshoot::Gone;
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if timeout.expiries <= 1 {
            self.prior = (self.doubling, self.overshoot);
        }
        self.window.collapse(timeout, self.window.half_of(timeout.flight_size));
        self.doubling = false;
        self.overshoot = Overshoot::Gone;
    }

    fn on_undo(&mut self, _: &Undo) {
        if self.window.undo() {
            (self.doubling, self.overshoot) = self.prior;
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.compared.snapshot(self.base_rtt, self.thresholds, self.doubling)
    }

    window_methods!();
}

ackclock_form::form! {
    struct Vegas {
        name as registered_name, window, thresholds, rounds, base_rtt, sent_in_round, compared, doubling,
        overshoot, prior
    }
    enum Overshoot { 0 Shed, 1 Judged, 2 Gone }
    struct Comparison { expected, actual, extra, number }
    struct Thresholds { alpha, beta, gamma, handshake }
}

#[cfg(test)]
mod tests;
