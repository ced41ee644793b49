//! The seam for traces: why each thing was done, in fixed-size records, formatted by others afterwards.
//!
//! Off, it costs one branch. On, a record goes into a bounded ring that keeps the newest.

use std::collections::VecDeque;

use crate::{Instant, State};

/// Why a segment was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendReason {
    /// Data that had not been sent before.
    NewData,
    /// Data held to be lost.
    Retransmission,
    /// Data that may be lost, or the last segment, where nothing else could be sent (RFC 6675 §4 NextSeg (3), (4)).
    Rescue,
    /// A probe for a lost tail (RFC 8985 §7).
    TailProbe,
    /// A probe of a closed window.
    WindowProbe,
    /// A keep-alive probe.
    Keepalive,
    /// An acknowledgement.
    Ack,
    /// An answer to a segment that was not accepted.
    Challenge,
    /// SYN or SYN,ACK.
    Handshake,
    /// RST.
    Reset,
}

/// Which rule declared a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossRule {
    /// Three duplicate acknowledgements (RFC 5681 §3.2).
    DuplicateAcks,
    /// SACK evidence (RFC 6675 §4 IsLost).
    SackEvidence,
    /// A segment sent later was delivered, a reordering window earlier (RFC 8985 §6).
    LaterDelivered,
    /// The acknowledgement of a tail loss probe that repeated data (RFC 8985 §7.4).
    TailProbe,
    /// A partial acknowledgement during recovery (RFC 6582 §3.2).
    PartialAck,
    /// The first segment was older than the fine timeout when a duplicate acknowledgement came (Vegas).
    OverdueAtDuplicate,
    /// It was so at the first or second new acknowledgement after a retransmission (Vegas).
    OverdueAfterRetransmission,
    /// The retransmission timer expired (RFC 6298 §5).
    Timeout,
    /// Data sent beyond a window that had closed was not taken.
    WindowReopened,
}

impl LossRule {
    /// All rules.
    pub const ALL: [Self; 9] = [
        Self::DuplicateAcks,
        Self::SackEvidence,
        Self::LaterDelivered,
        Self::TailProbe,
        Self::PartialAck,
        Self::OverdueAtDuplicate,
        Self::OverdueAfterRetransmission,
        Self::Timeout,
        Self::WindowReopened,
    ];
}

/// Bytes held to be lost, by the rule that said so: totals since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossCounts([u64; LossRule::ALL.len()]);

impl LossCounts {
    /// Bytes that this rule declared lost.
    #[must_use]
    pub fn of(&self, rule: LossRule) -> u64 {
        self.0.get(rule as usize).copied().unwrap_or(0)
    }

    /// Every rule with its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (LossRule, u64)> + '_ {
        LossRule::ALL.into_iter().zip(self.0)
    }

    pub(crate) fn add(&mut self, rule: LossRule, bytes: u64) {
        if let Some(count) = self.0.get_mut(rule as usize) {
            *count += bytes;
        }
    }
}

/// What told that a reduction of the window was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UndoRule {
    /// An echoed timestamp older than the retransmission (RFC 3522).
    Timestamps,
    /// Everything sent again was reported as a duplicate (RFC 3708).
    Dsack,
    /// Acknowledgements of what the timer did not send again (RFC 5682).
    Frto,
    /// An acknowledgement sooner than the path allows (Allman and Paxson 1999, §2.8).
    MinRtt,
}

/// One decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The state changed.
    State(State, State),
    /// A segment of this many payload bytes left.
    Sent(SendReason, u32),
    /// This many bytes were declared lost.
    Lost(LossRule, u32),
    /// The congestion window in bytes after a loss episode began or the timer expired.
    Window(u32),
    /// The pacing rate holds back what the windows would allow, for this many microseconds.
    Paced(u32),
    /// The last reduction of the window was taken back.
    Undone(UndoRule),
    /// A loss episode ended.
    Recovered,
    /// The retransmission timer expired, the how-manieth time in a row.
    TimerExpired(u32),
}

/// The newest decisions of one connection.
#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Box<Ring>>);

#[derive(Debug)]
struct Ring {
    records: VecDeque<(Instant, Decision)>,
    max: usize,
}

impl Trace {
    /// Keeps the newest `records` from now on; 0 switches the trace off.
    pub(crate) fn keep(&mut self, records: usize) {
        self.0 =
            (records > 0).then(|| Box::new(Ring { records: VecDeque::with_capacity(records), max: records }));
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = (Instant, Decision)> + '_ {
        self.0.iter().flat_map(|ring| ring.records.iter().copied())
    }

    #[inline]
    pub(crate) fn record(&mut self, now: Instant, decision: Decision) {
        if let Some(ring) = &mut self.0 {
            if ring.records.len() == ring.max {
                ring.records.pop_front();
            }
            ring.records.push_back((now, decision));
        }
    }

    pub(crate) fn state(&mut self, now: Instant, from: State, to: State) {
        self.record(now, Decision::State(from, to));
    }
}
