//! Proportional rate reduction: how much is sent during recovery.
//!
//! M. Mathis, N. Cardwell, Y. Cheng and N. Dukkipati, "Proportional Rate Reduction", RFC 9937, 2025
//! (draft-ietf-tcpm-prr-rfc6937bis; before that RFC 6937). While more is in flight than ssthresh, so many bytes
//! are sent for each delivered that ssthresh is what is left at the end. Below, packets are conserved (CRB) when
//! losses go on, and slow start leads back to ssthresh (SSRB) when an acknowledgement shows progress and no new
//! loss ("SafeACK").
//!
//! It serves controllers that have a threshold. One without (BBR) manages its own window during recovery.
//!
//! Deviations: the bytes that may be sent are kept, not a window of the pipe and those bytes; so what a timer
//! finds to be lost between acknowledgements buys no transmission. The first retransmission is forced by the
//! connection, as in every policy.

use ackclock_control::profile::Recovery;

use super::{Connection, Phase};
use crate::position::Position;

/// PRR's state in one episode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// The episode, by its recovery point.
    episode: Position,
    /// RecoverFS: what was out, lost or not, but not held by the peer, before the episode's first acknowledgement.
    recover_fs: u64,
    /// prr_delivered: bytes delivered during the episode.
    delivered: u64,
    /// prr_out: bytes sent during the episode.
    out: u64,
    /// sndcnt, less what was sent of it.
    allowance: u64,
}

/// What an acknowledgement during recovery brought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// DeliveredData: bytes newly acknowledged, cumulatively or selectively.
    pub(super) delivered: u64,
    /// SafeACK: SND.UNA advanced and nothing more was found to be lost.
    pub(super) safe: bool,
    /// Bytes in flight after it.
    pub(super) in_flight: u64,
    pub(super) ssthresh: u64,
    pub(super) smss: u64,
}

impl Prr {
    pub(super) fn new(episode: Position, recover_fs: u64) -> Self {
        Self { episode, recover_fs: recover_fs.max(1), delivered: 0, out: 0, allowance: 0 }
    }

    /// RFC 9937: on every acknowledgement starting or during fast recovery.
    pub(super) fn on_ack(&mut self, progress: &Progress) {
        let Progress { delivered, safe, in_flight, ssthresh, smss } = *progress;
        if delivered == 0 {
            return;
        }
        self.delivered += delivered;
        self.allowance = if in_flight > ssthresh {
            // sndcnt = CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out
            let target = u128::from(self.delivered) * u128::from(ssthresh);
            let target = target.div_ceil(u128::from(self.recover_fs));
            u64::try_from(target).unwrap_or(u64::MAX).saturating_sub(self.out)
        } else {
            // sndcnt = MAX(prr_delivered - prr_out, DeliveredData), one SMSS more after a SafeACK, at most up to ssthresh
            let conserved = self.delivered.saturating_sub(self.out).max(delivered);
            (conserved + if safe { smss } else { 0 }).min(ssthresh - in_flight)
        };
        if self.out == 0 {
            self.allowance = self.allowance.max(smss);
        }
    }

    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
        self.allowance = self.allowance.saturating_sub(bytes);
    }

    pub(super) fn allowance(&self, episode: Position) -> Option<u64> {
        (self.episode == episode).then_some(self.allowance)
    }
}

impl Connection {
    /// PRR hears of an acknowledgement that delivered `delivered` bytes; 0 when a timer found the loss.
    pub(super) fn regulate_recovery(&mut self, delivered: u64, safe: bool) {
        let ssthresh = self.congestion.ssthresh();
        let Phase::Recovery(episode) = self.recovery.phase else { return };
        if self.policy() != Recovery::RackTlp || ssthresh == u64::MAX {
            return;
        }
        let in_flight = self.scoreboard.pipe();
        let before = in_flight + self.scoreboard.lost() + delivered;
        let progress = Progress { delivered, safe, in_flight, ssthresh, smss: u64::from(self.smss()) };
        let prr = &mut self.recovery.details().prr;
        let prr = match prr {
            Some(prr) if prr.episode == episode => prr,
            _ => prr.insert(Prr::new(episode, before)),
        };
        prr.on_ack(&progress);
    }
}
