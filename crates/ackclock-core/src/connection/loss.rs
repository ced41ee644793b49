//! Loss recovery of a connection: by time (RACK-TLP, RFC 8985) or by SACK evidence (RFC 6675) where the peer sends
//! SACKs, NewReno (RFC 6582) where it does not.
//!
//! All keep to the pipe: what is sent during recovery is limited by the congestion window less what is in
//! flight, so NewReno's window inflation is here a smaller count of bytes in flight.

use std::time::Duration;

use ackclock_control::congestion::{LossCause, LossEpisode, RecoveryEnd};

use super::Connection;
use super::timers::{RecoveryTimer, SendTimer};
use crate::position::Position;
use crate::recovery::{AckOutcome, Rack};
use crate::trace::{Decision, LossRule};
use crate::{Instant, RecoveryPolicy};

/// DupThresh of RFC 6675 and RFC 5681 §3.2.
const DUP_THRESH: u32 = 3;
/// TLP.max_ack_delay (RFC 8985 §7.2).
const PEER_ACK_DELAY_MAX: Duration = Duration::from_millis(200);
/// What timers and schedulers of both ends may add to two round trips.
const PROBE_SLACK: Duration = Duration::from_millis(1);

/// What recovery is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// No loss is known.
    #[default]
    Open,
    /// Fast recovery, until all that was outstanding when it began is acknowledged.
    Recovery(Position),
    /// After a timeout, likewise.
    Loss(Position),
}

/// The state of loss recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recovery {
    pub(super) phase: Phase,
    /// Duplicate acknowledgements in a row.
    dup_acks: u32,
    /// Without SACK: bytes that have left the network, as duplicate acknowledgements tell.
    left_network: u64,
    /// "recover" of RFC 6582: no second reduction for losses before it.
    recover: Option<Position>,
    /// The first retransmission of an episode goes out whatever the pipe says (RFC 6675 §5 (4.3)).
    pub(super) first_retransmission: bool,
    pub(super) rack: Rack,
    /// TLP.end_seq: a tail loss probe is out, which repeated what lies before this.
    pub(super) tail_probe: Option<Position>,
}

impl Recovery {
    pub(super) fn start(&mut self, una: Position) {
        *self = Self { recover: Some(una), ..Self::default() };
    }

    pub(super) fn left_network(&self) -> u64 {
        self.left_network
    }

    pub(super) fn in_recovery(&self) -> bool {
        matches!(self.phase, Phase::Recovery(_))
    }

    /// The timer expired: all that is outstanding counts as lost, up to `nxt`.
    pub(super) fn on_timeout(&mut self, nxt: Position) {
        *self = Self { phase: Phase::Loss(nxt), recover: Some(nxt), rack: self.rack, ..Self::default() };
    }
}

impl Connection {
    /// Judges losses after an acknowledgement that advanced SND.UNA by `advanced` bytes, or was a duplicate.
    pub(super) fn judge_losses(
        &mut self,
        now: Instant,
        advanced: u64,
        duplicate: bool,
        outcome: &AckOutcome,
    ) {
        if duplicate {
            self.recovery.dup_acks = self.recovery.dup_acks.saturating_add(1);
        } else if advanced > 0 {
            self.recovery.dup_acks = 0;
        }
        self.end_episode_if_done(now);
        match self.policy() {
            RecoveryPolicy::RackTlp => {
                self.end_tail_probe(now, outcome);
                self.judge_by_time(now, outcome);
                self.arm_tail_probe(now);
            }
            RecoveryPolicy::Sack => self.judge_by_sack(now, outcome),
            RecoveryPolicy::NewReno => self.judge_by_duplicates(now, advanced, duplicate),
        }
    }

    fn policy(&self) -> RecoveryPolicy {
        if self.sack { self.tcp.recovery } else { RecoveryPolicy::NewReno }
    }

    fn end_episode_if_done(&mut self, now: Instant) {
        let una = self.snd.una;
        match self.recovery.phase {
            Phase::Recovery(point) if una >= point => {
                let end =
                    RecoveryEnd { now, in_flight: self.scoreboard.pipe(), delivered: self.delivery.bytes };
                self.congestion.on_recovery_end(&end);
                self.trace.record(now, Decision::Recovered);
            }
            Phase::Loss(point) if una >= point => {}
            _ => return,
        }
        self.recovery.phase = Phase::Open;
        self.recovery.left_network = 0;
        self.recovery.first_retransmission = false;
        self.scoreboard.on_recovery_end();
        self.recovery.rack.on_recovery_end();
    }

    fn judge_by_time(&mut self, now: Instant, outcome: &AckOutcome) {
        if outcome.duplicate_reported {
            self.recovery.rack.on_duplicate_report(self.snd.una, self.snd.nxt);
        }
        self.recovery.rack.on_ack(now, outcome, self.rtt.rtt_min());
        self.find_late(now);
    }

    /// RFC 8985 §6.2 step 5, and what its timer does.
    pub(super) fn find_late(&mut self, now: Instant) {
        if let RecoveryTimer::Reordering(_) = self.timers.recovery {
            self.timers.recovery = RecoveryTimer::Idle;
        }
        let Some(newest) = self.recovery.rack.newest().filter(|_| !self.scoreboard.is_empty()) else {
            return;
        };
        let three_held = self.scoreboard.sacked() >= u64::from(DUP_THRESH * self.smss());
        let certain = three_held || self.recovery.phase != Phase::Open;
        let patience = self.recovery.rack.patience(self.rtt.rtt_min(), self.rtt.srtt(), certain);
        let (lost, next) = self.scoreboard.mark_lost_by_time(now, newest, patience);
        if let Some(at) = next {
            self.timers.recovery = RecoveryTimer::Reordering(at);
        }
        if lost > 0 {
            self.note_loss(now, LossRule::LaterDelivered, lost);
            self.begin_episode_if_open(now, lost, LossCause::Reordering);
        }
    }

    /// RFC 8985 §7.2: a probe goes out if no acknowledgement comes for two round trips.
    // Deviation from RFC 8985 §7.2: during recovery as well. Where one acknowledgement stands for a whole flight, as with
    // coalesced segments, its loss would else cost a retransmission timeout.
    pub(super) fn arm_tail_probe(&mut self, now: Instant) {
        let wanted = self.policy() == RecoveryPolicy::RackTlp
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
        if self.snd.una < end && !outcome.duplicate_reported {
            return;
        }
        self.recovery.tail_probe = None;
        if self.recovery.phase == Phase::Open && !outcome.duplicate_reported {
            self.note_loss(now, LossRule::TailProbe, u64::from(self.smss()));
            self.begin_episode_if_open(now, u64::from(self.smss()), LossCause::Reordering);
            self.end_episode_if_done(now);
        }
    }

    fn judge_by_sack(&mut self, now: Instant, outcome: &AckOutcome) {
        let evidence = outcome.newly_sacked > 0 || self.recovery.in_recovery();
        if self.scoreboard.sacked() == 0 || !evidence {
            return;
        }
        let mut lost = 0;
        if let Some(boundary) = self.scoreboard.lost_boundary(DUP_THRESH, self.smss()) {
            lost += self.scoreboard.mark_lost_before(boundary);
        }
        // RFC 6675 §5 (2): DupAcks >= DupThresh suffices for the first segment.
        if lost == 0 && self.recovery.phase == Phase::Open && self.recovery.dup_acks >= DUP_THRESH {
            lost += self.scoreboard.mark_first_lost();
        }
        if lost > 0 {
            self.note_loss(now, LossRule::SackEvidence, lost);
            self.begin_episode_if_open(now, lost, LossCause::DuplicateAcks);
        }
    }

    fn judge_by_duplicates(&mut self, now: Instant, advanced: u64, duplicate: bool) {
        let smss = u64::from(self.smss());
        if duplicate {
            // Each duplicate tells that one segment has left the network (RFC 5681 §3.2), of those that were out when
            // the first loss was found: forged duplicates inflate nothing beyond that.
            let most = match self.recovery.phase {
                Phase::Recovery(point) => point.since(self.snd.una).min(self.scoreboard.pipe()),
                _ => self.scoreboard.pipe().min(u64::from(DUP_THRESH) * smss),
            };
            self.recovery.left_network = (self.recovery.left_network + smss).min(most);
        } else if advanced > 0 {
            self.recovery.left_network = self
                .recovery
                .left_network
                .saturating_sub(advanced.saturating_sub(smss))
                .min(self.scoreboard.pipe());
        }
        match self.recovery.phase {
            Phase::Open if self.recovery.dup_acks >= DUP_THRESH => {
                // RFC 6582 §3.2 (2): only when more than "recover" is acknowledged.
                if self.recovery.recover.is_some_and(|recover| self.snd.una < recover) {
                    return;
                }
                let lost = self.scoreboard.mark_first_lost();
                if lost > 0 {
                    self.note_loss(now, LossRule::DuplicateAcks, lost);
                    self.begin_episode_if_open(now, lost, LossCause::DuplicateAcks);
                }
            }
            Phase::Recovery(_) if advanced > 0 => {
                // RFC 6582 §3.2 (3): a partial acknowledgement points at the next hole.
                let lost = self.scoreboard.mark_first_lost();
                self.note_loss(now, LossRule::PartialAck, lost);
                self.recovery.first_retransmission |= lost > 0;
            }
            _ => {}
        }
    }

    fn begin_episode_if_open(&mut self, now: Instant, bytes_lost: u64, cause: LossCause) {
        if self.recovery.phase != Phase::Open {
            return;
        }
        self.counts.loss_episodes += 1;
        self.recovery.phase = Phase::Recovery(self.snd.nxt);
        self.recovery.recover = Some(self.snd.nxt);
        self.recovery.first_retransmission = true;
        self.congestion.on_loss_episode(&LossEpisode {
            now,
            cause,
            flight_size: self.snd.flight_size(),
            bytes_lost,
            delivered: self.delivery.bytes,
        });
        self.trace_window(now);
    }

    pub(super) fn note_loss(&mut self, now: Instant, rule: LossRule, bytes: u64) {
        if bytes > 0 {
            self.trace.record(now, Decision::Lost(rule, u32::try_from(bytes).unwrap_or(u32::MAX)));
        }
    }

    pub(super) fn trace_window(&mut self, now: Instant) {
        let cwnd = u32::try_from(self.congestion.cwnd()).unwrap_or(u32::MAX);
        self.trace.record(now, Decision::Window(cwnd));
    }
}
