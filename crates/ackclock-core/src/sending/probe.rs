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

use ackclock_control::congestion::LossCause;

use super::policy::{LossAnswer, LossFound, Policy, Seen};
use super::scoreboard::{AckOutcome, Marked};
use super::{Call, Chosen, Flight};
use crate::Instant;
use crate::position::Position;
use crate::trace::{LossRule, SendReason};

/// TLP.max_ack_delay (RFC 8985 §7.2).
const PEER_ACK_DELAY_MAX_NS: u64 = 200_000_000;
/// What timers and schedulers of both ends may add to two round trips.
const PROBE_SLACK_NS: u64 = 1_000_000;
/// The same while the connection has lost nothing: a silence is then more likely due to a busy host than to
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
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether a probe is due.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// The deadline has passed.
    pub(super) fn fire(&mut self) {
        self.deadline = Instant::FAR_FUTURE;
        self.is_due = true;
    }

    /// No probe is needed for now.
    #[inline]
    pub(super) fn stop(&mut self) {
        self.deadline = Instant::FAR_FUTURE;
        self.is_due = false;
    }

    /// Whether no probe has left since the last acknowledgement with news.
    pub(super) fn is_first(&self) -> bool {
        self.unanswered == 0
    }

    /// The number of the next consecutive unanswered probe, from 1.
    pub(super) fn number(&self) -> u32 {
        u32::from(self.unanswered) + 1
    }

    /// Whether the probe that just left is the first.
    pub(super) fn was_first(&self) -> bool {
        self.unanswered == 1
    }

    /// An acknowledgement brought news.
    #[inline]
    pub(super) fn on_answer(&mut self) {
        self.unanswered = 0;
    }

    /// Whether it is undecided if a probe in flight repaired a loss.
    #[inline]
    fn is_undecided(&self) -> bool {
        self.undecided > 0
    }

    /// The probes in flight have been answered.
    pub(super) fn settle(&mut self) {
        self.undecided = 0;
    }

    /// The retransmission timer expired, which supersedes a probe.
    pub(super) fn on_timeout(&mut self) {
        *self = Self { unanswered: self.unanswered, ..Self::default() };
    }

    /// The probe leaves, if one is due.
    #[inline]
    pub(super) fn take_due(&mut self) -> bool {
        let due = self.is_due;
        if due {
            self.stop();
        }
        due
    }

    /// A probe left that repeated what lies before `end`.
    fn on_sent(&mut self, end: Position) {
        // With more than one undecided, everything that they repeated must have been answered.
        self.end = if self.is_undecided() { self.end.max(end) } else { end };
        self.undecided = self.undecided.saturating_add(1);
        self.count();
    }

    /// A segment left in place of a probe.
    pub(super) fn count(&mut self) {
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
    pub(super) fn add(&mut self, end: Position) {
        if self.ends[0].0 != end {
            self.ends.swap(0, 1);
        }
        if self.ends[0].0 != end {
            self.ends[0] = (end, 0);
        }
        self.ends[0].1 = self.ends[0].1.saturating_add(1);
    }

    /// Whether `start..until`, reported as received twice, is one of them; counts it off.
    fn take(&mut self, (start, until): (Position, Position)) -> bool {
        let reported = |&&mut (end, copies): &&mut (Position, u8)| copies > 0 && start < end && end <= until;
        let found = self.ends.iter_mut().find(reported);
        found.map(|(_, copies)| *copies = copies.saturating_sub(1)).is_some()
    }
}

impl Flight {
    /// RFC 8985 §7.2: a probe leaves if no acknowledgement comes for two round trips.
    #[inline]
    pub(crate) fn arm_tail_probe(&mut self, now: Instant) {
        let wanted = self.policy.probes_tail()
            && self.policy.deadline() == Instant::FAR_FUTURE
            && self.is_outstanding()
            && self.rto.is_running();
        if self.probe.is_due() {
            return;
        }
        self.probe.deadline = if wanted { self.tail_probe_at(now) } else { Instant::FAR_FUTURE };
    }

    /// When the next probe leaves; the far future if the retransmission timer expires first.
    #[inline]
    fn tail_probe_at(&self, now: Instant) -> Instant {
        let srtt_ns = self.rto.estimator().srtt_nanos();
        if srtt_ns == 0 {
            // Without a sample both have the initial timeout.
            return self.rto.deadline();
        }
        let slack = if self.delivery.lost_any() { PROBE_SLACK_NS } else { PROBE_SLACK_LOSSLESS_NS };
        let after = |slack: u64| srtt_ns.saturating_mul(2).saturating_add(slack);
        if self.probe.is_first() {
            // A single segment may wait for the peer's delayed acknowledgement.
            let single = self.flight_size() <= u64::from(self.smss);
            let slack = if single { PEER_ACK_DELAY_MAX_NS } else { slack };
            return now.plus_nanos(after(slack)).min(self.rto.deadline());
        }
        let doubled = after(slack).saturating_mul(1 << self.probe.unanswered.min(31));
        let at = now.plus_nanos(doubled);
        if at < self.rto.deadline() { at } else { Instant::FAR_FUTURE }
    }

    /// Whether the probe is due. The first replaces a timeout that is also due (RFC 8985 §7.3), a later one
    /// does not.
    pub(super) fn is_probe_due(&self, now: Instant) -> bool {
        self.probe.deadline() <= now && (self.probe.is_first() || self.rto.deadline() > now)
    }

    /// The probe's time has come.
    pub(super) fn on_probe_timer(&mut self, call: &mut Call<'_>, window_open: bool) {
        self.probe.fire();
        if self.probe.is_first() {
            // RFC 8985 §7.3: the retransmission timer starts again.
            self.rto.stop();
            self.run_timer(call, window_open);
        }
    }

    /// The probe, if one is due: the last segment again, whatever the congestion window says (RFC 8985 §7.3).
    // Deviation from RFC 8985 §7.3: new data is not preferred (see the module).
    pub(super) fn choose_tail_probe(&mut self) -> Option<Chosen> {
        if !self.probe.take_due() {
            return None;
        }
        let (start, end) = self.within_smss(self.probe_segment()?);
        self.probe.on_sent(end);
        self.note_copy(end);
        Some(Chosen { start, end, reason: SendReason::TailProbe })
    }

    /// Whether there is anything to probe with: known lost data that is not held back, or a segment to
    /// repeat.
    pub(super) fn has_probe(&self) -> bool {
        self.scoreboard.lost() > 0 && !self.holds_retransmissions() || self.probe_segment().is_some()
    }

    /// What a probe repeats if no lost data may leave.
    fn probe_segment(&self) -> Option<(Position, Position)> {
        if self.holds_retransmissions() {
            self.scoreboard.first_segment()
        } else {
            self.scoreboard.last_segment()
        }
    }

    /// RFC 8985 §7.4.2, TLP_process_ack: what an acknowledgement says about the probes in flight. One of
    /// exactly what they repeated leaves it undecided whether that had been lost. Returns whether it reports
    /// a probe's copy.
    #[inline]
    pub(super) fn end_tail_probe(&mut self, call: &mut Call<'_>, seen: &Seen<'_>, flight_size: u64) -> bool {
        // A report of only a probe's copy does not count, or probes that arrive would delay the timeout for
        // ever.
        if seen.advanced > 0 || seen.outcome.newly_acked > 0 {
            self.probe.on_answer();
        }
        let is_copy = seen.reported.is_some_and(|reported| self.take_copy_report(reported));
        let end = self.probe.end;
        if self.una > end && self.probe.is_undecided() {
            self.probe.settle();
            self.take_repaired_loss(call, seen.outcome, end, flight_size);
        }
        is_copy
    }

    /// A duplicate acknowledgement of `ack` while nothing is outstanding. Cases 1 and 2 of RFC 8985 §7.4.2:
    /// with a report of a probe's copy, or without any SACK option, both the original and the copy arrived.
    pub(super) fn settle_probe_by_duplicate(
        &mut self,
        ack: Position,
        reported: Option<(Position, Position)>,
        has_sack: bool,
    ) {
        match reported {
            _ if ack < self.probe.end => {}
            Some(reported) => {
                self.take_copy_report(reported);
            }
            None if !has_sack => self.probe.settle(),
            None => {}
        }
    }

    /// A tail or window probe repeats what lies before `end`.
    pub(super) fn note_copy(&mut self, end: Position) {
        self.history.get_or_insert_default().copies.add(end);
    }

    /// Case 1 of RFC 8985 §7.4.2: a probe's copy is reported as a duplicate. Returns whether this report is
    /// of one.
    fn take_copy_report(&mut self, reported: (Position, Position)) -> bool {
        let is_copy = self.history.as_mut().is_some_and(|history| history.copies.take(reported));
        if is_copy {
            self.probe.undecided = self.probe.undecided.saturating_sub(1);
        }
        is_copy
    }

    /// What lies before `end` was lost, and the probe repaired it: congestion control learns of it as of any
    /// loss.
    fn take_repaired_loss(
        &mut self,
        call: &mut Call<'_>,
        outcome: &AckOutcome,
        end: Position,
        flight_size: u64,
    ) {
        if !self.episode.is_open() {
            return;
        }
        let bytes = u64::from(self.smss);
        let newest = outcome.newest_any.map(|(moment, _)| moment);
        let marked = Marked { bytes, newest, span: Some((end.back(bytes), end)) };
        let answer = LossAnswer::Episode { cause: LossCause::Reordering, bytes_lost: bytes };
        let found = LossFound { rule: LossRule::TailProbe, marked, answer, left_network: None };
        self.take_loss(call, found, flight_size);
        self.end_episode_if_done(call);
    }

    /// Whether it is undecided if a probe in flight repaired a loss.
    #[inline]
    pub(crate) fn awaits_probe_answer(&self) -> bool {
        self.probe.is_undecided()
    }
}
