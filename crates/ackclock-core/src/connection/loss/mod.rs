//! Loss recovery of a connection: by time (RACK-TLP, RFC 8985) or by SACK evidence (RFC 6675) where the peer sends
//! SACKs, NewReno (RFC 6582) where it does not.
//!
//! All keep to the pipe: what is sent during recovery is limited by the congestion window less what is in
//! flight, so NewReno's window inflation is here a smaller count of bytes in flight.

mod newreno;
mod rack;
mod sack;

use ackclock_control::congestion::{LossCause, LossEpisode, RecoveryEnd};
use ackclock_control::profile::Recovery;

use super::Connection;
use crate::Instant;
use crate::position::Position;
use crate::recovery::{AckOutcome, Rack};
use crate::trace::{Decision, LossRule};

/// DupThresh of RFC 6675 and RFC 5681 §3.2.
const DUP_THRESH: u32 = 3;

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
pub(super) struct RecoveryState {
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

impl RecoveryState {
    pub(super) fn start(&mut self, una: Position) {
        *self = Self { recover: Some(una), ..Self::default() };
    }

    pub(super) fn left_network(&self) -> u64 {
        self.left_network
    }

    pub(super) fn in_recovery(&self) -> bool {
        matches!(self.phase, Phase::Recovery(_))
    }

    /// The last episode turned out to be none.
    pub(super) fn on_undo(&mut self, una: Position, nxt: Position, by_timer: bool) {
        let mut rack = self.rack;
        rack.forget_delivery();
        if !by_timer {
            // RFC 8985 §6.2 step 4 widens the window for a reported duplicate; this is as good a proof.
            rack.on_duplicate_report(una, nxt);
        }
        *self = Self { recover: Some(una), rack, tail_probe: self.tail_probe, ..Self::default() };
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
            Recovery::RackTlp => {
                self.end_tail_probe(now, outcome);
                self.judge_by_time(now, outcome);
                self.arm_tail_probe(now);
            }
            Recovery::Sack => self.judge_by_sack(now, outcome),
            _ => self.judge_by_duplicates(now, advanced, duplicate),
        }
    }

    fn policy(&self) -> Recovery {
        match self.tcp.recovery {
            Recovery::RackTlp | Recovery::Sack if !self.sack => Recovery::NewReno,
            policy => policy,
        }
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
        self.watch_episode_end();
        self.recovery.phase = Phase::Open;
        self.recovery.left_network = 0;
        self.recovery.first_retransmission = false;
        self.scoreboard.on_recovery_end();
        self.recovery.rack.on_recovery_end();
    }

    fn begin_episode_if_open(&mut self, now: Instant, bytes_lost: u64, cause: LossCause) {
        if self.recovery.phase != Phase::Open {
            return;
        }
        self.counts.loss_episodes += 1;
        self.watch_reduction(false);
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
