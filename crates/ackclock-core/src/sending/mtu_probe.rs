//! A probe of the path's MTU among what is in flight: one segment, larger than the others, that may be lost for its size.
//!
//! When it alone is lost, its data goes again and congestion control hears nothing (RFC 4821 §7.6.2, from memory). When
//! anything else was found to be lost with it, or its retransmission is lost, the loss counts as any other.

use super::policy::{LossFound, Policy};
use super::{Call, Departure, Flight};
use crate::position::Position;
use crate::trace::SendReason;

/// A probe that left.
#[derive(Clone, Copy, Debug)]
pub(super) struct MtuProbe {
    end: Position,
    lost: bool,
    /// What lies before this has been found to be lost without an answer.
    excused: Position,
}

impl Flight {
    /// A probe leaves: one segment of new data of this length.
    pub(crate) fn send_mtu_probe(&mut self, call: &mut Call<'_>, start: Position, end: Position) {
        // For this one segment, its length is what a segment has.
        let len = u32::try_from(end.since(start)).unwrap_or(self.smss);
        let smss = std::mem::replace(&mut self.smss, len);
        self.on_sent(call, &Departure { start, end, reason: SendReason::MtuProbe, drained: false });
        self.smss = smss;
        self.history.get_or_insert_default().mtu_probe = Some(MtuProbe { end, lost: false, excused: start });
    }

    /// Whether the loss of one segment is found without a timeout: by SACK.
    pub(crate) fn may_probe_mtu(&self) -> bool {
        self.policy.heeds_sack()
    }

    /// Whether the last probe arrived, once that is known; told once.
    pub(crate) fn mtu_probe_outcome(&mut self) -> Option<bool> {
        let una = self.una;
        let history = self.history.as_mut()?;
        let probe = history.mtu_probe.filter(|probe| probe.end <= una)?;
        history.mtu_probe = None;
        Some(!probe.lost)
    }

    /// The retransmission timer expired: a probe that was out then has not arrived.
    pub(crate) fn lose_mtu_probe(&mut self) {
        let una = self.una;
        let probe = self.history.as_mut().and_then(|history| history.mtu_probe.as_mut());
        if let Some(probe) = probe.filter(|probe| una < probe.end) {
            probe.lost = true;
        }
    }

    /// Whether a loss is that of the probe alone, and so no sign of congestion.
    pub(super) fn is_lost_for_its_size(&mut self, found: &LossFound) -> bool {
        let (una, calm) = (self.una, self.episode.is_open());
        let probe = self.history.as_mut().and_then(|history| history.mtu_probe.as_mut());
        let Some(probe) = probe.filter(|probe| una < probe.end) else { return false };
        if found.marked.bytes == 0 {
            // The policy still sees the hole.
            return calm && probe.lost;
        }
        probe.lost = true;
        // Each part of it once: without SACK it is found lost piece by piece.
        let span = found.marked.span.filter(|&(start, end)| probe.excused <= start && end <= probe.end);
        let Some((_, end)) = span else { return false };
        probe.excused = end;
        calm
    }
}
