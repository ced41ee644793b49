//! Loss episodes: whether one is under way, and which acknowledgement ends it.
//!
//! All policies share this. Without SACK, duplicate acknowledgements show that segments have left the
//! network. Their bytes are subtracted from what counts as in flight; this is the inflation of the window in
//! RFC 5681 §3.2 (4).

use super::scoreboard::Scoreboard;
use crate::position::Position;

/// The phase of recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// No loss is known.
    #[default]
    Open,
    /// Fast recovery, until this position is acknowledged.
    Recovery(Position),
    /// After a timeout, or Tahoe's fast retransmit: slow start, until everything outstanding is acknowledged.
    Loss(Position),
}

/// The present episode, and what outlasts the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Episode {
    phase: Phase,
    /// Consecutive duplicate acknowledgements.
    dup_acks: u16,
    /// The first retransmission of an episode leaves whatever the window says (RFC 6675 §5 (4.3)).
    forced: bool,
    /// The last advance of SND.UNA in bytes (RFC 6582 §4.1's highest_ack minus prev_highest_ack).
    last_advance: u32,
    /// Without SACK: bytes that have left the network, as duplicate acknowledgements show.
    left_network: u64,
    /// "recover" of RFC 6582: the end of what was outstanding when the last episode began; before all
    /// positions until the first.
    recover: Position,
}

impl Episode {
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    #[inline]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether no loss is known or indicated.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.is_open() && self.dup_acks == 0 && self.left_network == 0
    }

    #[inline]
    pub fn in_recovery(&self) -> bool {
        matches!(self.phase, Phase::Recovery(_))
    }

    #[inline]
    pub fn in_slow_start(&self) -> bool {
        matches!(self.phase, Phase::Loss(_))
    }

    /// The end of fast recovery, while in it.
    pub fn recovery_point(&self) -> Option<Position> {
        match self.phase {
            Phase::Recovery(point) => Some(point),
            Phase::Open | Phase::Loss(_) => None,
        }
    }

    pub fn dup_acks(&self) -> u32 {
        u32::from(self.dup_acks)
    }

    pub fn last_advance(&self) -> u32 {
        self.last_advance
    }

    pub fn recover(&self) -> Position {
        self.recover
    }

    #[inline]
    pub fn left_network(&self) -> u64 {
        self.left_network
    }

    /// Whether the next retransmission leaves whatever the window says.
    #[inline]
    pub fn is_forced(&self) -> bool {
        self.forced
    }

    /// Lets the next retransmission leave whatever the window says.
    pub fn force(&mut self) {
        self.forced = true;
    }

    /// Lost data was retransmitted.
    #[inline]
    pub fn on_retransmitted(&mut self) {
        self.forced = false;
    }

    /// Counts consecutive duplicates.
    #[inline]
    pub fn count(&mut self, advanced: u64, duplicate: bool) {
        if duplicate {
            self.dup_acks = self.dup_acks.saturating_add(1);
        } else if advanced > 0 {
            self.dup_acks = 0;
        }
    }

    /// SND.UNA advanced, and the policy has judged it.
    #[inline]
    pub fn note_advance(&mut self, advanced: u64) {
        self.last_advance = u32::try_from(advanced).unwrap_or(u32::MAX);
    }

    /// Fast recovery begins, and lasts until `point` is acknowledged.
    pub fn enter(&mut self, point: Position, nxt: Position) {
        self.phase = Phase::Recovery(point);
        self.recover = nxt;
        self.forced = true;
    }

    /// Slow start retransmits everything outstanding, up to `nxt`.
    pub fn slow_start(&mut self, nxt: Position) {
        self.phase = Phase::Loss(nxt);
    }

    /// The retransmission timer expired: slow start lasts until everything outstanding, up to `nxt`, is
    /// acknowledged.
    pub fn on_timeout(&mut self, nxt: Position) {
        // Recent data may fill the window of one segment; the first lost segment leaves nevertheless.
        *self = Self { phase: Phase::Loss(nxt), recover: nxt, forced: true, ..Self::default() };
    }

    pub fn end(&mut self) {
        self.phase = Phase::Open;
        self.left_network = 0;
        self.forced = false;
    }

    /// Another policy judges from now on. Fast recovery lasts until `point`.
    pub fn on_policy_change(&mut self, point: Position) {
        self.dup_acks = 0;
        self.left_network = 0;
        if self.in_recovery() {
            self.phase = Phase::Recovery(point);
        }
    }

    /// Limited transmit (RFC 3042): bytes that the first duplicates allow to follow.
    pub fn limit_transmit(&mut self, bytes: u64) {
        self.left_network = bytes;
    }

    /// RFC 5681 §3.2 (4): a duplicate shows that one of the segments outstanding at the loss has left the
    /// network. Forged ones inflate nothing beyond that (its §6).
    pub fn inflate(&mut self, una: Position, scoreboard: &Scoreboard, bytes: u64) {
        let out = self.recover.since(una);
        let most = out.min(scoreboard.pipe().saturating_add(scoreboard.lost()));
        self.left_network = self.left_network.saturating_add(bytes).min(most);
    }

    /// Sets the bytes that left the network, counted from zero.
    pub fn set_left_network(&mut self, una: Position, scoreboard: &Scoreboard, bytes: u64) {
        self.left_network = 0;
        self.inflate(una, scoreboard, bytes);
    }

    /// RFC 6582 §3.2 (3): a partial acknowledgement of `advanced` bytes deflates the window by that amount.
    pub fn deflate(&mut self, advanced: u64) {
        self.left_network = self.left_network.saturating_sub(advanced);
    }

    /// Without SACK: a duplicate after a timeout shows that a segment of the new data has arrived, which
    /// F-RTO sent before the rest of the old data. It leaves the pipe, or nothing could follow it.
    pub fn count_new_data(&mut self, nxt: Position, pipe: u64, smss: u64) {
        let new_data = nxt.since(self.recover);
        self.left_network = self.left_network.saturating_add(smss).min(new_data).min(pipe);
    }
}

ackclock_form::form! {
    enum Phase { 0 Open, 1 Recovery(value), 2 Loss(value) }
    struct Episode { phase, dup_acks, forced, last_advance, left_network, recover }
}
