//! A segment to send.

use ackclock_wire::Flags;

use crate::position::Position;
use crate::trace::SendReason;

/// A segment that leaves next, before its header is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub start: Position,
    pub flags: Flags,
    pub payload_len: usize,
    /// The most payload of one segment on the wire.
    pub segment_max: u32,
    pub reason: SendReason,
}

impl Segment {
    /// A segment without text.
    pub fn bare(start: Position, flags: Flags, reason: SendReason) -> Self {
        Self { start, flags, payload_len: 0, segment_max: 0, reason }
    }

    /// Where its text begins. RFC 9293 §3.4: a SYN takes the first number, text follows it.
    #[inline]
    pub fn text_start(&self) -> Position {
        self.start + u64::from(self.flags.contains(Flags::SYN))
    }
}
