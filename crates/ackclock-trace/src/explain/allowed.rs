//! Rates that theory allows at a connection's losses and round trip, beside the rate that was reached.
//!
//! It covers only controllers made to follow a formula: Reno and NewReno, Mathis's; CUBIC, its response
//! function with Mathis's beside it. The rate of a controller that goes by delay, bandwidth or marks does not
//! follow from losses, and a figure beside it would look like a missed target. The trace does not show what
//! controls the peer's direction, and it is not guessed.

use std::time::Duration;

use ackclock_control::congestion::{Cubic, NewReno, Reno};
use ackclock_core::trace::{Entry, WindowCause};
use ackclock_core::{Instant, State};

use super::acks::Acks;
use super::verdicts::Verdicts;
use super::waiting::Waiting;
use super::waits::Waits;
use crate::stream::extend;
use crate::theory::{cubic_window, reno_window};

/// Rates that theory allows, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowed {
    /// Lasting reductions of the window: by loss episodes, timeouts and marks.
    pub reductions: u64,
    /// Segments sent.
    pub segments: u64,
    /// The mean round trip.
    pub round_trip: Duration,
    /// The rate that Mathis's formula allows a controller that counts bytes.
    pub reno: f64,
    /// The rate that it allows one that counts acknowledgements, and how many segments each covered. Only for
    /// Reno and NewReno, whose counting the trace does not record, where the receiver delayed
    /// acknowledgements.
    pub reno_by_acks: Option<(f64, f64)>,
    /// The rate that CUBIC's response function allows, for CUBIC.
    pub cubic: Option<f64>,
    /// The rate acknowledged, from the end of the handshake on.
    pub reached: f64,
    /// Timeouts among the reductions; the formulas do not count their silences.
    pub timeouts: u64,
}

impl Allowed {
    /// The rate that the connection's own controller is allowed if it counts bytes.
    #[must_use]
    pub fn own(&self) -> f64 {
        self.cubic.unwrap_or(self.reno)
    }
}

/// The window goes with the square root of the number of losses, or nearly: with ten, chance moves it by a
/// sixth.
pub const REDUCTIONS_MIN: u64 = 10;
/// The minimum share of the time, in hundredths, in which the window, recovery or a timer limited sending. A
/// sender that waits for its application or for the peer's window does not reach what theory allows.
pub const GOVERNED_MIN_PERCENT: u32 = 80;

/// Fewer segments per acknowledgement make a difference of less than a twentieth.
const DELAYED_MIN: f64 = 1.1;

#[derive(Default)]
pub(super) struct ReductionTally {
    established: Option<Instant>,
    /// The first acknowledgement in the trace.
    first: u64,
    /// The last one that advanced, and when.
    last: Option<(Instant, u64)>,
    episodes: u64,
    marks: u64,
    timeouts: u64,
}

impl ReductionTally {
    pub(super) fn entry(&mut self, at: Instant, entry: Entry) {
        match entry {
            Entry::State(_, State::Established) => self.established = Some(at),
            Entry::Acked { ack, .. } => {
                let before = self.last.map_or(u64::from(ack), |(_, una)| una);
                if self.last.is_none() {
                    self.first = before;
                    self.established.get_or_insert(at);
                }
                let ack = extend(before, ack);
                if ack > before || self.last.is_none() {
                    self.last = Some((at, ack));
                }
            }
            Entry::Window { cause: WindowCause::LossEpisode, .. } => self.episodes += 1,
            Entry::Window { cause: WindowCause::Marked, .. } => self.marks += 1,
            _ => {}
        }
    }

    pub(super) fn episodes(&self) -> u64 {
        self.episodes
    }

    pub(super) fn marks(&self) -> u64 {
        self.marks
    }

    /// `congestion`: the controller's name. `sent`: payload bytes sent, retransmissions included.
    pub(super) fn finish(
        mut self,
        congestion: &str,
        sent: u64,
        waits: &Waits,
        verdicts: &Verdicts,
        acks: &Acks,
        round_trip: Option<Duration>,
    ) -> Option<Allowed> {
        let is_cubic = [Cubic::NAME, Cubic::NAME_PLAIN].contains(&congestion);
        if !is_cubic && ![Reno::NAME, NewReno::NAME].contains(&congestion) {
            return None;
        }
        // Consecutive expiries are one reduction.
        self.timeouts = waits.timeouts.iter().filter(|silence| silence.count <= 1).count() as u64;
        let undone: u64 = verdicts.undone.values().sum();
        let reductions = (self.episodes + self.marks + self.timeouts).saturating_sub(undone);
        let (since, (until, una)) = (self.established?, self.last?);
        let (time, round_trip) = (until.saturating_since(since), round_trip.filter(|rtt| !rtt.is_zero())?);
        let smss = f64::from(acks.segment_bytes);
        if reductions < REDUCTIONS_MIN || time.is_zero() || !is_governed(waits, time) || smss < 1.0 {
            return None;
        }
        let segments = sent as f64 / smss;
        let (p, rtt) = (reductions as f64 / segments, round_trip.as_secs_f64());
        let per_ack = acks.covered().filter(|&per_ack| !is_cubic && per_ack >= DELAYED_MIN);
        Some(Allowed {
            reductions,
            segments: segments.round() as u64,
            round_trip,
            reno: reno_window(p, 1.0) * smss / rtt,
            reno_by_acks: per_ack.map(|per_ack| (reno_window(p, per_ack) * smss / rtt, per_ack)),
            cubic: is_cubic.then(|| cubic_window(p, rtt) * smss / rtt),
            reached: (una - self.first) as f64 / time.as_secs_f64(),
            timeouts: self.timeouts,
        })
    }
}

fn is_governed(waits: &Waits, time: Duration) -> bool {
    let kinds = [
        Waiting::Cwnd,
        Waiting::SlowStart,
        Waiting::Path,
        Waiting::Recovery,
        Waiting::Timeout,
        Waiting::TailProbe,
    ];
    let governed: Duration = kinds.iter().filter_map(|kind| waits.time.get(kind)).sum();
    governed * 100 >= time * GOVERNED_MIN_PERCENT
}
