//! How many segments an acknowledgement covers, in both directions.

use std::collections::VecDeque;

use ackclock_core::trace::{Entry, SendReason};

use crate::stream::{Una, most_common};

/// The bytes that the peer's acknowledgements covered.
///
/// Those that repair or follow a loss are left out: one that fills a gap also covers what lies beyond it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerAcks {
    /// Acknowledgements of new data.
    pub acks: u64,
    /// The segments they covered.
    pub segments: u64,
    /// The most segments that one covered.
    pub most: u64,
    /// Acknowledgements that covered more than [`STRETCHED`].
    pub stretched: u64,
}

/// The acknowledgements of this end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnAcks {
    /// How many times the acknowledgement advanced.
    pub acks: u64,
    /// Data segments that arrived; a packet coalesced by the device counts as one.
    pub arrivals: u64,
}

/// Segments per acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    /// For sent data.
    pub peer: PeerAcks,
    /// For received data.
    pub own: OwnAcks,
    /// Bytes of a full segment as last seen; 0 if no data was sent.
    pub segment_bytes: u32,
}

/// RFC 5681 §4.2: a receiver acknowledges at least every second full segment.
pub const STRETCHED: u64 = 2;
/// A mean over fewer acknowledgements says nothing about the receiver.
pub(super) const ACKS_MIN: u64 = 20;

#[derive(Default)]
pub(super) struct AckTally {
    acks: Acks,
    una: Una,
    /// First transmissions not acknowledged yet.
    out: VecDeque<(u64, u64)>,
    /// The end of what was SACKed or retransmitted: acknowledgements up to there follow a loss.
    disordered: u64,
    /// The last acknowledgement sent to the peer.
    told: Option<u32>,
}

impl AckTally {
    pub(super) fn new<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        // Old traces lack the entry SegmentSize; then the most common length is used. Where the entry exists,
        // it comes first.
        let lengths = entries.filter_map(|entry| match *entry {
            Entry::Sent { reason: SendReason::NewData, len: len @ 1.., .. } => Some(len),
            _ => None,
        });
        let segment_bytes = most_common(lengths).unwrap_or(0);
        Self { acks: Acks { segment_bytes, ..Acks::default() }, ..Self::default() }
    }

    pub(super) fn entry(&mut self, entry: Entry) {
        match entry {
            Entry::SegmentSize { bytes } => self.acks.segment_bytes = bytes,
            Entry::Sent { reason, seq, len, .. } if len > 0 => {
                let start = self.una.place(seq);
                let end = start + u64::from(len);
                if reason == SendReason::NewData {
                    self.out.push_back((start, end));
                } else {
                    self.disordered = self.disordered.max(end);
                }
            }
            Entry::Sacked { right, .. } => self.disordered = self.disordered.max(self.una.place(right)),
            Entry::Acked { duplicate: true, .. } => {
                self.disordered = self.disordered.max(self.out.back().map_or(0, |&(_, end)| end));
            }
            Entry::Acked { ack, .. } => self.acked(ack),
            Entry::Received { len: 1.., .. } => self.acks.own.arrivals += 1,
            Entry::Told { ack, .. } => {
                let moved = self.told.replace(ack).is_some_and(|before| before != ack);
                self.acks.own.acks += u64::from(moved);
            }
            _ => {}
        }
    }

    fn acked(&mut self, ack: u32) {
        let ack = self.una.place(ack);
        let before = self.una.advance(ack);
        let smss = u64::from(self.acks.segment_bytes.max(1));
        let mut segments = 0;
        while let Some((start, end)) = self.out.front_mut()
            && *start < ack
        {
            segments += (ack.min(*end) - *start).div_ceil(smss);
            *start = ack;
            if *end <= ack {
                self.out.pop_front();
            }
        }
        if segments > 0 && before >= self.disordered {
            let peer = &mut self.acks.peer;
            peer.acks += 1;
            peer.segments += segments;
            peer.most = peer.most.max(segments);
            peer.stretched += u64::from(segments > STRETCHED);
        }
    }

    pub(super) fn finish(self) -> Acks {
        self.acks
    }
}

impl Acks {
    /// The mean number of segments covered by one of the peer's acknowledgements; `None` if there were too
    /// few.
    #[must_use]
    pub fn covered(&self) -> Option<f64> {
        mean(self.peer.segments, self.peer.acks)
    }

    /// The mean number of segments answered by one of this end's acknowledgements; `None` if there were too
    /// few.
    #[must_use]
    pub fn answered(&self) -> Option<f64> {
        mean(self.own.arrivals, self.own.acks)
    }
}

fn mean(segments: u64, acks: u64) -> Option<f64> {
    (acks >= ACKS_MIN).then(|| segments as f64 / acks as f64)
}
