//! RACK-TLP: losses found by time, and a probe for lost tails.
//!
//! Y. Cheng, N. Cardwell, N. Dukkipati and P. Jha, "The RACK-TLP Loss Detection Algorithm for TCP", RFC 8985, 2021.
//! The arithmetic of §6.2 is in `recovery/rack.rs`; how much is sent during recovery is [`prr`](super::prr)'s.
//! The deviations stand beside the code that departs.

use std::time::Duration;

use ackclock_control::congestion::LossCause;
use ackclock_control::profile::Recovery;

use super::super::timers::{RecoveryTimer, SendTimer};
use super::{Connection, DUP_THRESH, Phase};
use crate::Instant;
use crate::recovery::{AckOutcome, Marked};
use crate::trace::LossRule;

/// TLP.max_ack_delay (RFC 8985 §7.2).
const PEER_ACK_DELAY_MAX: Duration = Duration::from_millis(200);
/// What timers and schedulers of both ends may add to two round trips.
const PROBE_SLACK: Duration = Duration::from_millis(1);

impl Connection {
    pub(super) fn judge_by_time(&mut self, now: Instant, advanced: u64, outcome: &AckOutcome) {
        self.end_tail_probe(now, outcome);
        if outcome.duplicate_reported {
            self.recovery.rack.on_duplicate_report(self.snd.una, self.snd.nxt);
        }
        self.recovery.rack.on_ack(now, outcome, self.rtt.rtt_min());
        let lost = self.find_late(now);
        self.regulate_recovery(outcome.newly_acked, advanced > 0 && !lost);
        self.arm_tail_probe(now);
    }

    /// The reordering window of a segment has closed.
    pub(in crate::connection) fn on_reordering_timeout(&mut self, now: Instant) {
        self.find_late(now);
        self.regulate_recovery(0, false);
    }

    /// RFC 8985 §6.2 step 5. Says whether anything was lost.
    fn find_late(&mut self, now: Instant) -> bool {
        if let RecoveryTimer::Reordering(_) = self.timers.recovery {
            self.timers.recovery = RecoveryTimer::Idle;
        }
        let Some(newest) = self.recovery.rack.newest().filter(|_| !self.scoreboard.is_empty()) else {
            return false;
        };
        let three_held = self.scoreboard.sacked() >= u64::from(DUP_THRESH * self.smss());
        let certain = three_held || self.recovery.phase != Phase::Open;
        let patience = self.recovery.rack.patience(self.rtt.rtt_min(), self.rtt.srtt(), certain);
        let (lost, next) = self.scoreboard.mark_lost_by_time(now, newest, patience);
        if let Some(at) = next {
            self.timers.recovery = RecoveryTimer::Reordering(at);
        }
        if lost.bytes > 0 {
            self.declare_lost(now, LossRule::LaterDelivered, lost);
            self.begin_episode_if_open(now, lost.bytes, LossCause::Reordering);
        }
        lost.bytes > 0
    }

    /// RFC 8985 §7.2: a probe goes out if no acknowledgement comes for two round trips.
    // Deviation from RFC 8985 §7.2: during recovery as well. Where one acknowledgement stands for a whole flight, as with
    // coalesced segments, its loss would else cost a retransmission timeout.
    pub(in crate::connection) fn arm_tail_probe(&mut self, now: Instant) {
        let wanted = self.policy() == Recovery::RackTlp
            && !matches!(self.recovery.phase, Phase::Loss(_))
            && self.recovery.tail_probe.is_none()
            && self.snd.una < self.snd.nxt
            && self.scoreboard.lost() == 0;
        match (self.timers.recovery, self.timers.send) {
            (RecoveryTimer::Reordering(_), _) => {}
            (_, SendTimer::Retransmit(rto)) if wanted => {
                self.timers.recovery = RecoveryTimer::TailProbe((now + self.probe_timeout()).min(rto));
            }
            _ => self.timers.recovery = RecoveryTimer::Idle,
        }
    }

    fn probe_timeout(&self) -> Duration {
        let srtt = self.rtt.srtt();
        if srtt.is_zero() {
            return self.rtt.rto();
        }
        // A single segment may wait for the peer's delayed acknowledgement.
        let single = self.snd.flight_size() <= u64::from(self.smss());
        srtt * 2 + if single { PEER_ACK_DELAY_MAX } else { PROBE_SLACK }
    }

    /// RFC 8985 §7.4.2: the probe was answered. If nobody says that it was not needed, what it repeated had been lost.
    fn end_tail_probe(&mut self, now: Instant, outcome: &AckOutcome) {
        let Some(end) = self.recovery.tail_probe else { return };
        // A duplicate reported beyond a gap tells that the probe arrived, and nothing of what is below it: another probe
        // would learn no more, and put the timeout off.
        if self.snd.una < end {
            return;
        }
        self.recovery.tail_probe = None;
        if self.recovery.phase == Phase::Open && !outcome.duplicate_reported {
            let bytes = u64::from(self.smss());
            let newest = outcome.newest_any.map(|(moment, _)| moment);
            let span = Some((end.back(bytes), end));
            self.declare_lost(now, LossRule::TailProbe, Marked { bytes, newest, span });
            self.begin_episode_if_open(now, bytes, LossCause::Reordering);
            self.end_episode_if_done(now);
        }
    }
}
