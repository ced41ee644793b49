//! Loss recovery: which bytes are outstanding, which are held to be lost, what is sent again.
//!
//! The [`Scoreboard`] knows what was sent and what became of it; a policy decides from it when something is
//! lost. Congestion control is told of episodes and knows none of this.

mod rack;
mod records;
mod scoreboard;
#[cfg(test)]
mod scoreboard_tests;

use ackclock_wire::SeqNum;

use crate::position::Position;

pub(crate) use rack::Rack;
pub(crate) use scoreboard::{AckOutcome, Marked, Scoreboard, SendMoment};

/// What an acknowledgement of everything below `ack` reports as received twice. RFC 2883 §4: the first block alone may,
/// and lies below the acknowledgement, or within the second block. Any block may repeat what an earlier
/// acknowledgement said (RFC 2018 §4).
pub(crate) fn reported_duplicate(ack: Position, blocks: &[(SeqNum, SeqNum)]) -> Option<(Position, Position)> {
    let mut blocks = blocks.iter().map(|&(left, right)| (ack.near(left), ack.near(right)));
    let (start, end) = blocks.next().filter(|(start, end)| start < end)?;
    let within = |(outer_start, outer_end)| outer_start <= start && end <= outer_end;
    (end <= ack || blocks.next().is_some_and(within)).then_some((start, end))
}
