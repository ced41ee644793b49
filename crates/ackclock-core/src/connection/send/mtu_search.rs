//! Finding the path's MTU without ICMP (RFC 4821, with the timers and the names of RFC 8899). Off unless
//! `TcpConfig::mtu_probing` turns it on.
//!
//! **Black holes.** A path that silently drops large packets never passes a full segment, however often it is
//! sent. When the retransmission timer expires twice in a row for a full segment, segments become as small as
//! `least`; after two more expiries, as small as ICMP could make them. If the trouble was something else,
//! nothing is lost: the search that follows finds the old size again.
//!
//! **The search.** A probe is one segment of new data, larger than the others, sent when enough data follows
//! it to reveal its loss. Its size is the largest possible at first, then the middle of the remaining range.
//! When it is acknowledged, segments take its size. When only the probe is lost, its data is sent again in
//! segments of the present size, and congestion control ignores the loss (RFC 4821 §7.6.1, §7.6.2), with and
//! without SACK (`sending/mtu_probe.rs`). After three such losses its size counts as too large. If other data
//! was lost too, the loss counts as any other. After each loss the search holds for as many round trips as
//! the window has packets: about as long as to the next loss that congestion control would cause. A loss that
//! the timer found has cost more, and the search holds five times as long (§7.6.3). Once the
//! bounds are less than [`STEP`] bytes apart, the search rests for `raise_after`, and begins again if the
//! path once took more. After ICMP has lowered the MTU it rests first: that was not a guess.
//!
//! Deviation from RFC 4821 §7.4: a probe may leave although the congestion window is full, because a bulk
//! transfer's always is. It exceeds the window by at most one segment, once in [`PAUSE`], as limited transmit
//! does (RFC 3042). It does not leave into a window without room for it and for what must follow it.

use std::time::Duration;

use crate::Instant;
use crate::deadline::Deadline;
use crate::sending::ProbeOutcome;

/// The bounds found so far, as sizes of IP packets, and the state of the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct MtuSearch {
    /// The largest size that may be tried: what the device and the peer accept.
    most: u32,
    /// A size known to be too large, or one above the largest that may be tried.
    too_large: u32,
    /// The size of the probe in flight, or of the next one.
    size: u32,
    /// How many times in a row a probe of this size was lost.
    losses: u8,
    stage: Stage,
    /// How often there was not enough data for a probe.
    waits: u8,
    /// When a probe is due, or the outcome of the one in flight.
    due: Deadline,
}

/// The state of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The next probe may leave.
    Ready,
    /// A probe is in flight.
    Out,
    /// A probe was lost, and the next one may leave when the timer expires.
    Held,
    /// The search has ended, and begins again when the timer expires.
    Resting,
}

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The path carries packets of this size.
    Carried(u32),
    /// It carries none of this size.
    TooLarge(u32),
    /// Nothing yet.
    Unsure,
}

impl MtuSearch {
    /// Nothing is known above `known`.
    pub fn new(known: u32, most: u32) -> Self {
        let mut search = Self {
            most,
            too_large: most.saturating_add(1),
            size: 0,
            losses: 0,
            stage: Stage::Ready,
            waits: 0,
            due: Deadline::UNSET,
        };
        search.choose_next(known);
        search
    }

    /// A search that begins with a rest, because `known` has been found before.
    pub fn resting(known: u32, most: u32) -> Self {
        Self { stage: Stage::Resting, ..Self::new(known, most) }
    }

    /// Begins again, with nothing above `mtu` to be tried. Its deadline stays.
    pub fn restart(&mut self, mtu: u32) {
        *self = Self { due: self.due, ..Self::new(mtu, mtu) };
    }

    /// The largest size that may be tried.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// The size of the probe in flight, or of the next one.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// When the search goes on.
    #[inline]
    pub fn deadline(&self) -> Deadline {
        self.due
    }

    /// Whether a probe is wanted.
    pub fn is_due(&self) -> bool {
        self.size > 0 && self.stage == Stage::Ready
    }

    /// Whether a probe is in flight.
    pub fn is_out(&self) -> bool {
        self.stage == Stage::Out
    }

    /// Whether no size is left to try.
    pub fn has_ended(&self) -> bool {
        self.size == 0
    }

    /// It goes on at `at`.
    pub fn go_on(&mut self, at: Instant) {
        self.due.set(at);
    }

    /// It does not go on.
    pub fn end(&mut self) {
        self.due.clear();
    }

    /// The timer expired: a hold is over, or a rest, after which the search begins again above `known`.
    pub fn wake(&mut self, known: u32) {
        match self.stage {
            Stage::Resting => *self = Self::new(known, self.most),
            Stage::Held => self.stage = Stage::Ready,
            Stage::Ready | Stage::Out => {}
        }
    }

    /// Whether the search holds after a lost probe.
    pub fn is_held(&self) -> bool {
        self.stage == Stage::Held
    }

    /// Rests until `at`. A path that carries the largest size is not probed again.
    pub fn rest(&mut self, at: Instant, known: u32) {
        self.stage = Stage::Resting;
        if self.most > known {
            self.due.set(at);
        }
    }

    /// How long to wait for a probe to leave: ever longer, because an idle connection has nothing to probe
    /// with.
    pub fn wait(&mut self) -> Duration {
        let wait = PAUSE.saturating_mul(1 << self.waits.min(9));
        self.waits = self.waits.saturating_add(1);
        wait
    }

    /// The probe leaves.
    pub fn on_sent(&mut self) {
        self.stage = Stage::Out;
        self.waits = 0;
    }

    /// The outcome of the probe in flight is known.
    pub fn judge(&mut self, outcome: ProbeOutcome) -> Finding {
        if outcome == ProbeOutcome::Arrived {
            self.stage = Stage::Ready;
            self.losses = 0;
            return Finding::Carried(self.size);
        }
        self.stage = Stage::Held;
        self.losses = self.losses.saturating_add(1);
        if self.losses < MAX_PROBES {
            return Finding::Unsure;
        }
        self.losses = 0;
        self.too_large = self.size;
        Finding::TooLarge(self.size)
    }

    /// The largest first, then the middle; 0 at the end of the search.
    pub fn choose_next(&mut self, known: u32) {
        self.size = if self.most <= known || self.too_large <= known.saturating_add(STEP) {
            0
        } else if self.too_large > self.most {
            self.most
        } else {
            known.midpoint(self.too_large)
        };
    }
}

/// The shortest time between two probes, and before the first.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// Full segments that must follow a probe: enough to reveal its loss (RFC 5681: three duplicates).
pub(super) const FOLLOWERS: u64 = 3;
/// RFC 8899 §5.1.2: losses in a row after which a size counts as too large.
const MAX_PROBES: u8 = 3;
/// The search ends when the bounds are this close, in bytes.
const STEP: u32 = 16;

ackclock_form::form! {
    enum Stage { 0 Ready, 1 Out, 2 Held, 3 Resting }
    struct MtuSearch { most, too_large, size, losses, stage, waits, due }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_begins_with_the_largest_and_halves_what_is_left() {
        let mut search = MtuSearch::new(1024, 1500);
        assert_eq!(search.size, 1500);
        let path = 1400;
        let (mut known, mut probes) = (1024, Vec::new());
        while search.size > 0 {
            probes.push(search.size);
            if search.size <= path {
                known = search.size
            } else {
                search.too_large = search.size
            }
            search.choose_next(known);
        }
        assert_eq!(probes, [1500, 1262, 1381, 1440, 1410, 1395]);
        assert!((path - STEP..=path).contains(&known));
    }

    // RFC 8899 §5.1.2: the default value of MAX_PROBES is 3.
    #[test]
    fn third_loss_in_a_row_makes_a_size_too_large() {
        let mut search = MtuSearch::new(1024, 1500);
        let lost = [Finding::Unsure, Finding::Unsure, Finding::TooLarge(1500)];
        for finding in lost {
            assert!(search.is_due());
            search.on_sent();
            assert_eq!(search.judge(ProbeOutcome::Lost), finding);
            // RFC 4821 §7.6.2: no probe before the interval is over.
            assert!(search.is_held() && !search.is_due());
            search.wake(1024);
        }
        search.choose_next(1024);
        search.on_sent();
        assert_eq!(search.judge(ProbeOutcome::TimedOut), Finding::Unsure);
        search.wake(1024);
        search.on_sent();
        assert_eq!(
            search.judge(ProbeOutcome::Arrived),
            Finding::Carried(1262),
            "and one that arrives settles it"
        );
        assert!(search.is_due());
    }

    #[test]
    fn nothing_is_searched_where_nothing_larger_may_be() {
        assert_eq!(MtuSearch::new(1500, 1500).size, 0);
        assert_eq!(MtuSearch::new(1500, 1400).size, 0);
    }
}
