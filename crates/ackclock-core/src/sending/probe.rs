//! The tail loss probe (RFC 8985 §7): one segment that elicits an acknowledgement where a lost tail would
//! not.
//!
//! The probe's timer and RACK's reordering timer exclude each other (RFC 8985 §8).
//!
//! Deviations from RFC 8985, all for the same reason: if one acknowledgement answers a whole flight, as from
//! a receiver that coalesces segments, losing that one acknowledgement stops the connection.
//! - §7.3 has one probe, and then the retransmission timer. Here another probe follows an unanswered one
//!   after twice the time, as in QUIC (RFC 9002 §6.2.1), as long as that is before the timer. Only the first
//!   restarts the timer, and only an acknowledgement with news resets the count, so the number of probes in
//!   an outage grows with the logarithm of its length. At 0.1 ms and 3 % lost data and acknowledgements, to a
//!   Linux receiver, the series reduces 2 to 5 timeouts in 2 s to none, and raises 107 to 195 Mbit/s to 221
//!   to 235 (`loss --rtt 0.1ms --loss 3% --cc cubic --rounds 3 --secs 2`, all rounds).
//! - §7.3 prefers new data. Here the probe repeats data: a receiver delays the answer to one new segment by
//!   40 ms and more, that to a repeated one not at all, and its D-SACK shows that nothing was lost. Over 0.1,
//!   2 and 20 ms with 1 and 3 % lost the throughput of both is the same within their spread; with new data
//!   two of three rounds at 0.1 ms and 3 % saw silences of more than 40 ms, with repeated data one.
//! - §7.2 leaves recovery to RACK, and the phase after a timeout to F-RTO. Here both are probed too.
//! - While data is known to be lost, the probe is its first segment, which leaves whatever the window says.
//!
//! One deviation has another reason: §7.2 waits for two round trips. Timers and schedulers of both ends add
//! to that, and on a path of 0.1 ms they are most of it. Until something is lost 10 ms are allowed for them,
//! afterwards one. `docs/decisions.md` has the measurements.

use crate::Instant;
use crate::position::Position;

/// TLP.max_ack_delay (RFC 8985 §7.2).
const PEER_ACK_DELAY_MAX_NS: u64 = 200_000_000;
/// Time that timers and schedulers of both ends may add to two round trips.
const PROBE_SLACK_NS: u64 = 1_000_000;
/// The slack while the connection has lost nothing: a silence is then more likely due to a busy host than to
/// the path.
const PROBE_SLACK_LOSSLESS_NS: u64 = 10_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct TailProbe {
    /// When a probe is due; the far future if none is.
    deadline: Instant,
    /// The deadline has passed, and the probe has not left yet.
    is_due: bool,
    /// Consecutive probes without an acknowledgement with news.
    unanswered: u8,
    /// Probes in flight that may have repaired a loss.
    undecided: u8,
    /// TLP.end_seq: the end of what they repeated.
    end: Position,
}

/// The facts that decide how long a silence may be before a probe leaves.
pub(super) struct Silence {
    pub srtt_ns: u64,
    /// The connection has lost something before.
    pub lost_any: bool,
    /// One segment is in flight.
    pub single: bool,
    /// When the retransmission timer expires.
    pub timeout: Instant,
}

impl Default for TailProbe {
    fn default() -> Self {
        Self {
            deadline: Instant::FAR_FUTURE,
            is_due: false,
            unanswered: 0,
            undecided: 0,
            end: Position::default(),
        }
    }
}

impl TailProbe {
    #[inline]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether a probe is due.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// A probe leaves at `at`, unless one is due already.
    #[inline]
    pub fn arm(&mut self, at: Instant) {
        self.deadline = at;
    }

    /// When the next probe leaves; the far future if the retransmission timer expires first.
    #[inline]
    pub fn next(&self, now: Instant, silence: &Silence) -> Instant {
        if silence.srtt_ns == 0 {
            // Without a sample both have the initial timeout.
            return silence.timeout;
        }
        let slack = if silence.lost_any { PROBE_SLACK_NS } else { PROBE_SLACK_LOSSLESS_NS };
        let after = |slack: u64| silence.srtt_ns.saturating_mul(2).saturating_add(slack);
        if self.is_first() {
            // A single segment may wait for the peer's delayed acknowledgement.
            let slack = if silence.single { PEER_ACK_DELAY_MAX_NS } else { slack };
            return now.plus_nanos(after(slack)).min(silence.timeout);
        }
        let doubled = after(slack).saturating_mul(1 << self.unanswered.min(31));
        let at = now.plus_nanos(doubled);
        if at < silence.timeout { at } else { Instant::FAR_FUTURE }
    }

    /// The deadline has passed.
    pub fn fire(&mut self) {
        self.deadline = Instant::FAR_FUTURE;
        self.is_due = true;
    }

    /// No probe is needed for now.
    #[inline]
    pub fn stop(&mut self) {
        self.deadline = Instant::FAR_FUTURE;
        self.is_due = false;
    }

    /// Whether no probe has left since the last acknowledgement with news.
    pub fn is_first(&self) -> bool {
        self.unanswered == 0
    }

    /// The number of the next consecutive unanswered probe, from 1.
    pub fn number(&self) -> u32 {
        u32::from(self.unanswered) + 1
    }

    /// Whether the probe that just left is the first.
    pub fn was_first(&self) -> bool {
        self.unanswered == 1
    }

    /// An acknowledgement brought news.
    #[inline]
    pub fn on_answer(&mut self) {
        self.unanswered = 0;
    }

    /// The end of what the probes in flight repeated.
    pub fn end(&self) -> Position {
        self.end
    }

    /// One of the copies in flight is reported as a duplicate: nothing was lost by that.
    pub fn on_copy_reported(&mut self) {
        self.undecided = self.undecided.saturating_sub(1);
    }

    /// Whether it is undecided if a probe in flight repaired a loss.
    #[inline]
    pub fn is_undecided(&self) -> bool {
        self.undecided > 0
    }

    /// The probes in flight have been answered.
    pub fn settle(&mut self) {
        self.undecided = 0;
    }

    /// The retransmission timer expired, which supersedes a probe.
    pub fn on_timeout(&mut self) {
        *self = Self { unanswered: self.unanswered, ..Self::default() };
    }

    /// The probe leaves, if one is due.
    #[inline]
    pub fn take_due(&mut self) -> bool {
        let due = self.is_due;
        if due {
            self.stop();
        }
        due
    }

    /// A probe left that repeated what lies before `end`.
    pub fn on_sent(&mut self, end: Position) {
        // With more than one undecided, everything that they repeated must have been answered.
        self.end = if self.is_undecided() { self.end.max(end) } else { end };
        self.undecided = self.undecided.saturating_add(1);
        self.count();
    }

    /// A segment left in place of a probe.
    pub fn count(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
    }
}

/// Copies sent as tail or window probes that the peer has not reported as duplicates yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Copies {
    /// The end of each copied segment and the number of copies left, the latest first. Consecutive probes
    /// repeat the last segment, or the first one.
    ends: [(Position, u8); 2],
}

impl Copies {
    pub fn add(&mut self, end: Position) {
        if self.ends[0].0 != end {
            self.ends.swap(0, 1);
        }
        if self.ends[0].0 != end {
            self.ends[0] = (end, 0);
        }
        self.ends[0].1 = self.ends[0].1.saturating_add(1);
    }

    /// Whether `start..until`, reported as received twice, is one of them; counts it off.
    pub fn take(&mut self, (start, until): (Position, Position)) -> bool {
        let reported = |&&mut (end, copies): &&mut (Position, u8)| copies > 0 && start < end && end <= until;
        let found = self.ends.iter_mut().find(reported);
        found.map(|(_, copies)| *copies = copies.saturating_sub(1)).is_some()
    }
}

ackclock_form::form! {
    struct TailProbe { deadline, is_due, unanswered, undecided, end }
    struct Copies { ends }
}
