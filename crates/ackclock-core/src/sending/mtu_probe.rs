//! A probe of the path's MTU in flight: one segment, larger than the others, which may be lost because of its
//! size.
//!
//! If only the probe is lost, its data is sent again at once and congestion control ignores the loss
//! (RFC 4821 §7.6.2, from memory). If anything else was found to be lost with it, or its retransmission is
//! lost, the loss counts as any other.
//!
//! With SACK the recovery policy finds the loss. Without it, a policy only knows that something is missing
//! after SND.UNA, and would begin an episode, take further duplicates for further losses of the first hole,
//! or wait for its timer. While SND.UNA waits for the probe, the policy is therefore not asked: the third
//! duplicate shows the loss, whatever the policy, and each duplicate lets as much follow as in fast recovery.
//! The first acknowledgement beyond the probe ends that. A peer that sends SACKs may answer many segments by
//! one acknowledgement, even if the policy does not use SACK: here what it reports counts as the duplicates
//! would.

use super::policy::{LossFound, Policy, Seen};
use super::{Acknowledgement, Call, DUP_THRESH, Departure, Flight};
use crate::position::Position;
use crate::trace::{LossRule, SendReason};

/// A probe in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct MtuProbe {
    start: Position,
    end: Position,
    lost: bool,
    /// The loss of everything before this has been found and needs no answer.
    excused: Position,
}

impl MtuProbe {
    fn holds(&self, una: Position) -> bool {
        self.start <= una && una < self.end
    }
}

impl Flight {
    /// Sends a probe: one segment of new data of this length.
    pub(crate) fn send_mtu_probe(&mut self, call: &mut Call<'_>, start: Position, end: Position) {
        let segment = u32::try_from(end.since(start)).unwrap_or(u32::MAX);
        self.on_sent(call, &Departure { start, end, reason: SendReason::MtuProbe, segment, drained: false });
        let probe = MtuProbe { start, end, lost: false, excused: start };
        self.history.get_or_insert_default().mtu_probe = Some(probe);
    }

    /// What DupThresh full segments carry.
    fn dup_thresh_bytes(&self) -> u64 {
        u64::from(DUP_THRESH).saturating_mul(u64::from(self.smss))
    }

    /// Whether the loss of a probe of `bytes` would be detected: enough segments follow it within the
    /// congestion window, and no other loss is being repaired.
    pub(crate) fn may_probe_mtu(&self, bytes: u64) -> bool {
        self.episode.is_open()
            && self.scoreboard.lost() == 0
            && self.rto.expiries() == 0
            && self.control.cwnd() >= bytes.saturating_add(self.dup_thresh_bytes())
    }

    /// Whether the last probe arrived, once known; returned once.
    pub(crate) fn mtu_probe_outcome(&mut self) -> Option<bool> {
        let una = self.una;
        let history = self.history.as_mut()?;
        let probe = history.mtu_probe.filter(|probe| probe.end <= una)?;
        history.mtu_probe = None;
        Some(!probe.lost)
    }

    /// The retransmission timer expired: a probe in flight has not arrived.
    pub(crate) fn lose_mtu_probe(&mut self) {
        let una = self.una;
        let probe = self.history.as_mut().and_then(|history| history.mtu_probe.as_mut());
        if let Some(probe) = probe.filter(|probe| una < probe.end) {
            probe.lost = true;
        }
    }

    /// Whether the first hole is a lost probe whose data is sent again at once, whatever the window says.
    pub(super) fn resends_mtu_probe(&self) -> bool {
        let probe = self.history.as_ref().and_then(|history| history.mtu_probe);
        self.episode.is_open() && probe.is_some_and(|probe| probe.lost && probe.holds(self.una))
    }

    /// Without SACK, judges by an acknowledgement whether a probe is lost. Returns whether to skip the
    /// policy, because SND.UNA waits for the probe.
    #[inline]
    pub(super) fn judge_mtu_probe(&mut self, call: &mut Call<'_>, seen: &Seen<'_>) -> bool {
        let Some(probe) = self.history.as_ref().and_then(|history| history.mtu_probe) else { return false };
        self.judge_hole(call, seen, probe)
    }

    #[cold]
    fn judge_hole(&mut self, call: &mut Call<'_>, seen: &Seen<'_>, probe: MtuProbe) -> bool {
        if self.policy.heeds_sack() || !self.episode.is_open() {
            return false;
        }
        if !probe.holds(self.una) {
            // The room from duplicates ends with them, as in fast recovery.
            self.episode.limit_transmit(0);
            return false;
        }
        let shown = self.episode.dup_acks() >= DUP_THRESH;
        if shown && !probe.lost {
            self.resend_mtu_probe(call, LossRule::DuplicateAcks, probe);
        }
        if (shown || probe.lost) && seen.duplicate {
            // RFC 5681 §3.2 (4), without the preceding reduction: a segment has left the network.
            let bytes = u64::from(self.smss).saturating_mul(u64::from(self.episode.dup_acks()));
            self.episode.limit_transmit(bytes.min(self.scoreboard.pipe()));
        }
        true
    }

    /// The policy in force does not use SACKs, but the peer sends them: three segments held beyond the probe
    /// show the loss (RFC 6675 §4 IsLost).
    #[cold]
    pub(super) fn judge_mtu_probe_by_sack(&mut self, call: &mut Call<'_>, seen: &Acknowledgement<'_>) {
        let Some(probe) = self.history.as_ref().and_then(|history| history.mtu_probe) else { return };
        if self.policy.heeds_sack() || !self.episode.is_open() || probe.lost || !probe.holds(self.una) {
            return;
        }
        let blocks = seen.sack.iter().map(|&(left, right)| (self.una.near(left), self.una.near(right)));
        let beyond = blocks.filter(|&(left, right)| probe.end <= left && right <= self.nxt);
        let bytes: u64 = beyond.map(|(left, right)| right.since(left)).sum();
        if bytes >= self.dup_thresh_bytes() {
            self.resend_mtu_probe(call, LossRule::SackEvidence, probe);
        }
    }

    /// The probe is lost: sends its data again, and informs nothing else.
    fn resend_mtu_probe(&mut self, call: &mut Call<'_>, rule: LossRule, probe: MtuProbe) {
        let marked = self.scoreboard.mark_first_lost();
        self.note_loss(call, rule, &marked);
        let resent = MtuProbe { lost: true, excused: probe.end, ..probe };
        self.history.get_or_insert_default().mtu_probe = Some(resent);
        self.episode.force();
    }

    /// Whether a loss is that of the probe only, and so does not indicate congestion.
    pub(super) fn is_lost_for_its_size(&mut self, found: &LossFound) -> bool {
        let (una, calm) = (self.una, self.episode.is_open());
        let probe = self.history.as_mut().and_then(|history| history.mtu_probe.as_mut());
        let Some(probe) = probe.filter(|probe| una < probe.end) else { return false };
        if found.marked.bytes == 0 {
            // The policy still sees the hole.
            return calm && probe.lost;
        }
        let span = found.marked.span.filter(|&(start, end)| probe.excused <= start && end <= probe.end);
        // What was found to be lost may lie entirely before the probe.
        probe.lost |= found.marked.span.is_none_or(|(_, end)| end > probe.start);
        let Some((_, end)) = span else { return false };
        probe.excused = end;
        calm
    }
}
