//! NewReno: fast recovery until all that was outstanding is acknowledged, a hole for each partial one.
//!
//! T. Henderson, S. Floyd, A. Gurtov and Y. Nishida, "The NewReno Modification to TCP's Fast Recovery Algorithm",
//! RFC 6582, 2012, §3.2; with M. Allman, H. Balakrishnan and S. Floyd, "Enhancing TCP's Loss Recovery Using
//! Limited Transmit", RFC 3042, 2001, §2.

use super::{Connection, DUP_THRESH, Phase};
use crate::Instant;
use crate::trace::LossRule;

/// RFC 3042 §2: new segments beyond the window before the third duplicate.
const LIMITED_TRANSMIT: u32 = 2;

impl Connection {
    // Deviation from RFC 6582 §3.2 (3): every partial acknowledgement restarts the retransmission timer, not the first alone
    // ("slow but steady", not "impatient"): with a timeout of 200 ms a few holes on a long path would expire it.
    pub(super) fn judge_by_partial_acks(&mut self, now: Instant, advanced: u64, duplicate: bool) {
        let smss = u64::from(self.smss());
        match self.recovery.phase {
            Phase::Open if self.recovery.dup_acks >= DUP_THRESH && self.points_at_new_loss() => {
                self.fast_retransmit(now);
            }
            // RFC 3042 §2: FlightSize stays within cwnd + 2*SMSS. RFC 5681 §3.2 (1): cwnd does not change.
            Phase::Open => {
                let most = self.scoreboard.pipe();
                self.recovery.left_network =
                    most.min(smss * u64::from(self.recovery.dup_acks.min(LIMITED_TRANSMIT)));
            }
            Phase::Recovery(_) if duplicate => self.inflate(smss),
            Phase::Recovery(_) if advanced > 0 => self.on_partial_ack(now, advanced),
            _ => {}
        }
    }

    /// RFC 6582 §3.2 (3): the next hole goes out, and the window shrinks by what was acknowledged, less one segment if it
    /// was that much.
    fn on_partial_ack(&mut self, now: Instant, advanced: u64) {
        let smss = u64::from(self.smss());
        let lost = self.scoreboard.mark_first_lost();
        self.declare_lost(now, LossRule::PartialAck, lost);
        self.recovery.first_retransmission |= lost.bytes > 0;
        // Deviation from RFC 6582 §3.2 (3): never below ssthresh, which is all that an uninflated window has.
        self.recovery.left_network = self.recovery.left_network.saturating_sub(advanced);
        if advanced >= smss {
            self.inflate(smss);
        } else {
            self.inflate(0);
        }
    }

    /// RFC 6582 §3.2 (2): whether more than "recover" is acknowledged. If not, the duplicates may answer needless
    /// retransmissions; §4.1: a retransmission was lost if the window is larger than a segment and the last advance no
    /// more than four, since it passed over no data that the receiver held.
    fn points_at_new_loss(&self) -> bool {
        let smss = u64::from(self.smss());
        let new = self.recovery.recover.is_none_or(|recover| self.snd.una > recover);
        new || self.congestion.cwnd() > smss && u64::from(self.recovery.last_advance) <= 4 * smss
    }
}
