//! SEGMENT ARRIVES (RFC 9293 §3.10.7): one file per step, in the RFC's order.
//!
//! The endpoint handles CLOSED and LISTEN; SYN-SENT is in [`syn_sent`]. In all other states a segment goes
//! through the steps below, and each may end the processing. A [`predicted`] segment needs few of them.

mod predicted;
mod step1_sequence;
mod step2_reset;
mod step4_syn;
mod step5_ack;
mod step6_urgent;
mod step7_text;
mod step8_fin;
mod syn_sent;

use ackclock_wire::{Codepoint, Flags, RxMeta, Segment};
use bytes::Bytes;

use super::{Connection, State};
use crate::Instant;
use crate::position::Position;

/// A segment on its way through the steps.
pub(super) struct Arrival<'a> {
    pub(super) now: Instant,
    pub(super) segment: &'a Segment<'a>,
    /// How many segments on the wire it represents.
    segments: u32,
    /// The ECN field of its IP header.
    codepoint: Codepoint,
    /// SEG.SEQ.
    start: Position,
    /// Whether its sequence number is acceptable.
    acceptable: bool,
    /// The text left after trimming to the window, and its start.
    text: &'a [u8],
    text_start: Position,
    /// The block that contains the packet, if it may be kept.
    block: Option<&'a Bytes>,
    /// Bytes trimmed at its front because they had been received before.
    cut: u64,
    /// Whether the FIN is within the window.
    fin: bool,
}

/// Whether a segment goes on to the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum StepOutcome {
    Continue,
    Drop,
}

impl Connection {
    /// A segment of this connection arrived.
    pub(crate) fn handle_segment(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        meta: RxMeta,
        codepoint: Codepoint,
        block: Option<&Bytes>,
    ) {
        let segments = coalesced(segment.payload, meta);
        self.trace_received(now, segment);
        self.counts.segments_received = self.counts.segments_received.wrapping_add(u64::from(segments));
        match self.state {
            State::Closed | State::Listen => {}
            State::SynSent => self.arrives_in_syn_sent(now, segment, codepoint),
            _ => self.arrives_synchronized(now, segment, segments, codepoint, block),
        }
        self.update_send_timer(now);
        self.trace_freed(now);
        self.check_invariants();
    }

    fn arrives_synchronized(
        &mut self,
        now: Instant,
        segment: &Segment<'_>,
        segments: u32,
        codepoint: Codepoint,
        block: Option<&Bytes>,
    ) {
        let start = self.rcv.nxt().near(segment.seq);
        // RFC 9293 §3.4: a SYN takes the first sequence number, text follows it.
        let text_start = start + u64::from(segment.flags.contains(Flags::SYN));
        let mut arrival = Arrival {
            now,
            segment,
            segments,
            codepoint,
            start,
            acceptable: false,
            text: segment.payload,
            text_start,
            block,
            cut: 0,
            fin: false,
        };
        // The order is the RFC's; any other is a bug. The third step, security, is empty here.
        for step in [
            Self::step1_sequence,
            Self::step2_reset,
            Self::step4_syn,
            Self::step5_ack,
            Self::step6_urgent,
            Self::step7_text,
            Self::step8_fin,
        ] {
            if step(self, &mut arrival) == StepOutcome::Drop {
                return;
            }
        }
    }

    /// The segment has passed the check of its ACK field, so it is the peer's, and its headers count.
    // Deviation from RFC 7323 §5.3 R3, which takes the timestamp before the check of the ACK field: a blind
    // segment at RCV.NXT could set TS.Recent so far ahead that PAWS drops everything from the peer.
    // RFC 5961 §5.2 discards such a segment, and a discarded segment changes nothing.
    fn note_valid(&mut self, arrival: &Arrival<'_>) {
        if arrival.acceptable {
            self.note_timestamps(arrival.now, arrival.segment.options.timestamps, arrival.start);
            self.note_codepoint(arrival.segment, arrival.segments, arrival.codepoint);
        }
        self.note_heard(arrival.now);
    }

    /// An acceptable segment that begins at `start` had this option.
    #[inline]
    fn note_timestamps(&mut self, now: Instant, option: Option<(u32, u32)>, start: Position) {
        if let (Some(timestamps), Some((value, _))) = (&mut self.timestamps, option) {
            timestamps.update(now, value, start);
        }
    }

    /// The peer was heard: restarts its silence.
    #[inline]
    pub(super) fn note_heard(&mut self, now: Instant) {
        self.silence.end(now);
        self.counts.received_at = Some(now);
        self.arm_keepalive(now);
    }
}

/// How many segments on the wire a received one with this payload represents. Acknowledgements are owed by
/// those.
#[inline]
fn coalesced(payload: &[u8], meta: RxMeta) -> u32 {
    match meta.segment_size {
        Some(size) => {
            let segments = payload.len().div_ceil(usize::from(size.get()));
            u32::try_from(segments).unwrap_or(u32::MAX).max(1)
        }
        None => 1,
    }
}
