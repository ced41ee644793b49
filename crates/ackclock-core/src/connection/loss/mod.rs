//! Loss recovery of a connection: a file for each policy, over one scoreboard.
//!
//! | policy | finds a loss by | sends during recovery |
//! |---|---|---|
//! | [`go_back_n`] | the timer alone | everything again |
//! | [`tahoe`] | three duplicate acknowledgements | everything again, in slow start |
//! | [`reno`] | three duplicates | one segment; new data for each further duplicate, until the first new acknowledgement |
//! | [`newreno`] | three duplicates, partial acknowledgements | a hole for each partial acknowledgement |
//! | [`vegas`] | the clock at the first duplicates, three of them | as Reno |
//! | [`sack`] | SACK evidence | what the pipe leaves room for |
//! | [`rack`] | time; a probe for lost tails | as many bytes as [`prr`] says |
//!
//! All keep to the pipe: what is sent during recovery is limited by the congestion window less what is in
//! flight, so the inflation of a window is here a smaller count of bytes in flight. What one acknowledgement
//! costs is in proportion to what it changes.

mod go_back_n;
mod newreno;
mod prr;
mod rack;
mod reno;
mod sack;
mod tahoe;
mod vegas;

use ackclock_control::congestion::{LossCause, LossEpisode, Lost, RecoveryEnd};
use ackclock_control::profile::Recovery;

use self::prr::Prr;
use self::sack::Rescue;
use self::vegas::FineClock;
use super::Connection;
use super::timers::RecoveryTimer;
use crate::Instant;
use crate::position::Position;
use crate::recovery::{AckOutcome, Marked, Rack};
use crate::trace::{Entry, LossCounts, LossRule, SendReason};

/// DupThresh of RFC 6675 and RFC 5681 §3.2.
const DUP_THRESH: u32 = 3;

/// What recovery is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// No loss is known.
    #[default]
    Open,
    /// Fast recovery, until this is acknowledged.
    Recovery(Position),
    /// After a timeout, or Tahoe's fast retransmit: slow start, until all that was outstanding is acknowledged.
    Loss(Position),
}

/// The state of loss recovery.
#[derive(Debug, Default)]
pub(super) struct RecoveryState {
    pub(super) phase: Phase,
    /// Duplicate acknowledgements in a row.
    dup_acks: u32,
    /// By how many bytes SND.UNA advanced last (RFC 6582 §4.1's highest_ack less prev_highest_ack).
    last_advance: u32,
    /// Without SACK: bytes that have left the network, as duplicate acknowledgements tell.
    left_network: u64,
    /// "recover" of RFC 6582, the end of what was outstanding when the last episode began; below all before the first.
    recover: Position,
    /// The first retransmission of an episode goes out whatever the window says (RFC 6675 §5 (4.3)).
    pub(super) first_retransmission: bool,
    pub(super) rack: Rack,
    /// TLP.end_seq: a tail loss probe is out, which repeated what lies before this.
    pub(super) tail_probe: Option<Position>,
    details: Option<Box<Details>>,
}

/// What a connection without losses, under the default policy, does without.
#[derive(Debug, Default)]
struct Details {
    prr: Option<Prr>,
    rescue: Rescue,
    clock: Option<Box<FineClock>>,
    losses: LossCounts,
}

impl RecoveryState {
    pub(super) fn left_network(&self) -> u64 {
        self.left_network
    }

    pub(super) fn in_recovery(&self) -> bool {
        matches!(self.phase, Phase::Recovery(_))
    }

    /// Bytes found to be lost, by rule.
    pub(super) fn losses(&self) -> LossCounts {
        self.details.as_ref().map(|details| details.losses).unwrap_or_default()
    }

    /// What proportional rate reduction allows to be sent now; `None`: the congestion window decides.
    pub(super) fn allowance(&self) -> Option<u64> {
        let Phase::Recovery(point) = self.phase else { return None };
        self.details.as_ref()?.prr.as_ref()?.allowance(point)
    }

    /// `bytes` up to `end` left for the network.
    pub(super) fn on_sent(&mut self, end: Position, bytes: u64, reason: SendReason) {
        if let Some(details) = &mut self.details
            && self.phase != Phase::Open
        {
            if let Some(prr) = &mut details.prr {
                prr.on_sent(bytes);
            }
            if reason == SendReason::Retransmission {
                details.rescue.on_retransmitted(end);
            }
        }
    }

    /// The last episode turned out to be none.
    pub(super) fn on_undo(&mut self, una: Position, nxt: Position, by_timer: bool) {
        let mut rack = self.rack;
        rack.forget_delivery();
        if !by_timer {
            // RFC 8985 §6.2 step 4 widens the window for a reported duplicate; this is as good a proof.
            rack.on_duplicate_report(una, nxt);
        }
        let mut details = self.details.take();
        if let Some(details) = &mut details {
            details.prr = None;
            details.clock = None;
        }
        // RFC 6582's recover is unset: a loss among what is outstanding would be the first.
        *self = Self { rack, tail_probe: self.tail_probe, details, ..Self::default() };
    }

    /// The timer expired: all that is outstanding counts as lost, up to `nxt`.
    pub(super) fn on_timeout(&mut self, nxt: Position) {
        let details = self.details.take();
        *self = Self { phase: Phase::Loss(nxt), recover: nxt, rack: self.rack, details, ..Self::default() };
    }

    fn details(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
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
        if duplicate && !self.heeds_sack() && matches!(self.recovery.phase, Phase::Loss(_)) {
            self.count_new_data_arrived();
        }
        match self.policy() {
            Recovery::GoBackN => {}
            Recovery::Tahoe => self.judge_as_tahoe(now),
            Recovery::Reno => self.judge_as_reno(now, duplicate),
            Recovery::Vegas => self.judge_by_clock(now, advanced, duplicate, outcome),
            Recovery::Sack => self.judge_by_sack(now, outcome),
            Recovery::RackTlp => self.judge_by_time(now, advanced, outcome),
            _ => self.judge_by_partial_acks(now, advanced, duplicate),
        }
        if advanced > 0 {
            self.recovery.last_advance = u32::try_from(advanced).unwrap_or(u32::MAX);
        }
    }

    /// The policy in force: those that live by SACK fall back to RFC 6582 where the peer sends none.
    pub(super) fn policy(&self) -> Recovery {
        match self.tcp.recovery {
            Recovery::RackTlp | Recovery::Sack if !self.sack => Recovery::NewReno,
            policy => policy,
        }
    }

    /// Whether SACK blocks of the peer are looked at.
    pub(super) fn heeds_sack(&self) -> bool {
        matches!(self.policy(), Recovery::RackTlp | Recovery::Sack)
    }

    /// Another policy takes over, perhaps in the middle of an episode: what is lost stays lost, and the episode ends by
    /// the new policy's rule.
    pub(super) fn on_policy_change(&mut self, now: Instant, heeded_sack: bool) {
        if heeded_sack && !self.heeds_sack() {
            self.scoreboard.forget_held();
        }
        self.recovery.dup_acks = 0;
        self.recovery.left_network = 0;
        self.recovery.tail_probe = None;
        self.pending.tail_probe = false;
        self.timers.recovery = RecoveryTimer::Idle;
        if let Some(details) = &mut self.recovery.details {
            details.prr = None;
            details.clock = None;
        }
        if self.recovery.in_recovery() {
            self.recovery.phase = Phase::Recovery(self.recovery_point());
        }
        self.arm_tail_probe(now);
    }

    fn end_episode_if_done(&mut self, now: Instant) {
        let una = self.snd.una;
        match self.recovery.phase {
            Phase::Recovery(point) if una >= point => {
                let end =
                    RecoveryEnd { now, in_flight: self.scoreboard.pipe(), delivered: self.delivery.bytes };
                self.trace.note(now, Entry::Recovered);
                self.tell_recovery_end(&end);
            }
            Phase::Loss(point) if una >= point => {}
            _ => return,
        }
        self.watch_episode_end();
        self.recovery.phase = Phase::Open;
        self.recovery.left_network = 0;
        self.recovery.first_retransmission = false;
        if let Some(details) = &mut self.recovery.details {
            details.prr = None;
        }
        self.scoreboard.on_recovery_end();
        self.recovery.rack.on_recovery_end();
    }

    /// A loss was found: the controller is told once an episode.
    fn begin_episode_if_open(&mut self, now: Instant, bytes_lost: u64, cause: LossCause) {
        if self.recovery.phase != Phase::Open {
            return;
        }
        self.counts.loss_episodes += 1;
        self.enter_recovery();
        // One reduction a window of data, whether a mark or a loss asked for it (RFC 3168 §6.1.2).
        if !self.note_loss_answer() {
            self.watch_reduction(false);
            self.tell_loss_episode(LossEpisode {
                now,
                cause,
                flight_size: self.snd.flight_size(),
                bytes_lost,
                delivered: self.delivery.bytes,
            });
        }
    }

    fn enter_recovery(&mut self) {
        self.recovery.phase = Phase::Recovery(self.recovery_point());
        self.recovery.recover = self.snd.nxt;
        self.recovery.first_retransmission = true;
        // A probe that led to an episode has had its answer: another may follow.
        self.recovery.tail_probe = None;
    }

    /// What must be acknowledged for an episode that begins now to end.
    fn recovery_point(&self) -> Position {
        match self.policy() {
            // RFC 5681 §3.2 (6): the next acknowledgement of new data.
            Recovery::Reno | Recovery::Vegas => self.snd.una + 1,
            // RFC 6582 §3.2 (2), RFC 6675 §5 (4.1): all that is outstanding.
            _ => self.snd.nxt,
        }
    }

    /// `marked` was found to be lost by `rule`: congestion control hears of it.
    fn declare_lost(&mut self, now: Instant, rule: LossRule, marked: Marked) {
        let Some(newest) = marked.newest.filter(|_| marked.bytes > 0) else { return };
        self.note_loss(now, rule, &marked);
        let bytes = u32::try_from(marked.bytes).unwrap_or(u32::MAX);
        self.delivery.lost = self.delivery.lost.wrapping_add(bytes);
        self.tell_lost(&Lost {
            now,
            bytes: marked.bytes,
            delivered: self.delivery.bytes,
            prior_delivered: newest.delivered,
            tx_in_flight: u64::from(newest.in_flight),
            lost: self.delivery.lost_since(&newest).max(marked.bytes),
            app_limited: newest.app_limited,
        });
    }

    /// What is marked goes out again because of `rule`.
    pub(super) fn note_loss(&mut self, now: Instant, rule: LossRule, marked: &Marked) {
        if marked.bytes > 0 {
            self.recovery.details().losses.add(rule, marked.bytes);
            self.trace_lost(now, rule, marked);
        }
    }
}
