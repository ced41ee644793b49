//! Acknowledgements that are owed, and what they report.
//!
//! All segments of a batch are processed before the first acknowledgement leaves (RFC 9293 MUST-58), and what they bring
//! to report may be more than one acknowledgement holds. So there are as many as it takes: with SACK one for each
//! duplicate (RFC 2883) and one for each three blocks beyond a gap, without it one for each segment beyond a gap.

use std::collections::VecDeque;

use ackclock_wire::options::OPTIONS_MAX;
use ackclock_wire::{Fields, SackBlocks, TcpOptions, options_len};

use super::Connection;
use super::timers::Timers;
use crate::Instant;
use crate::position::Position;

/// Acknowledgements that are owed.
#[derive(Debug, Default)]
pub(super) struct Acks {
    /// Full-sized segments, or their worth, received since the last acknowledgement was sent.
    pub(super) segments: u32,
    /// One is to leave at once.
    pub(super) now: bool,
    /// Without SACK, the peer counts duplicates: this many more are to leave, one for each segment beyond the gap.
    pub(super) repeats: u8,
    /// While something received twice waits to be reported.
    duplicates: Option<Box<Duplicates>>,
}

/// What was received twice and is to be reported, each by an acknowledgement of its own (RFC 2883 §4 (2)).
#[derive(Debug, Default)]
struct Duplicates {
    /// Never empty.
    queue: VecDeque<(Position, Position)>,
}

impl Acks {
    /// The most duplicates that wait to be reported: as many as a driver's batch has packets. Beyond it those that
    /// arrive are not reported, as if their acknowledgements had been lost.
    const DUPLICATES_MAX: usize = 64;

    /// `start..end` was received for the second time.
    pub(super) fn on_duplicate(&mut self, start: Position, end: Position) {
        let Duplicates { queue } = &mut **self.duplicates.get_or_insert_default();
        if queue.len() < Self::DUPLICATES_MAX {
            queue.push_back((start, end));
        }
    }

    /// Whether something received twice waits to be reported.
    #[inline]
    pub(super) fn owes_duplicate(&self) -> bool {
        self.duplicates.is_some()
    }

    /// What the next acknowledgement reports.
    fn first_duplicate(&self) -> Option<(Position, Position)> {
        self.duplicates.as_ref()?.queue.front().copied()
    }

    /// One left that reported the first duplicate, if `with_duplicate`.
    fn on_sent(&mut self, with_duplicate: bool) {
        if with_duplicate && let Some(duplicates) = &mut self.duplicates {
            duplicates.queue.pop_front();
            if duplicates.queue.is_empty() {
                self.duplicates = None;
            }
        }
        self.segments = 0;
        self.now = self.repeats > 0 || self.owes_duplicate();
        self.repeats = self.repeats.saturating_sub(1);
    }
}

impl Connection {
    /// Whether a pure acknowledgement is to leave before any data. What is reported for the first time does not ride on
    /// data: a device that cuts a large segment would repeat it on each piece, and it takes the room of payload.
    #[inline]
    pub(super) fn owes_pure_ack(&self) -> bool {
        self.acks.now && self.sack && (self.acks.owes_duplicate() || self.rcv.buffer.owes_report())
    }

    /// Options of a data segment.
    pub(super) fn data_options(&self, now: Instant) -> TcpOptions {
        self.options(now, false)
    }

    /// Options of a segment without text that is neither SYN nor RST.
    pub(super) fn ack_options(&self, now: Instant) -> TcpOptions {
        self.options(now, true)
    }

    #[inline]
    fn options(&self, now: Instant, pure_ack: bool) -> TcpOptions {
        let duplicate = if pure_ack { self.acks.first_duplicate() } else { None };
        let reports = self.sack && (self.rcv.buffer.has_gap() || duplicate.is_some());
        let mut options = TcpOptions {
            timestamps: self.timestamps.map(|timestamps| (timestamps.value(now), timestamps.echo())),
            accecn: self.ecn_option(pure_ack, reports),
            ..TcpOptions::default()
        };
        if reports {
            let room =
                OPTIONS_MAX.saturating_sub(options_len(&options) + 4 + self.option_reserve() as usize) / 8;
            options.sack = self.blocks(duplicate, room);
        }
        options
    }

    /// RFC 2883 §4: the duplicate first, then (4) the block beyond the gap that it is part of, then (5) as in RFC 2018.
    fn blocks(&self, duplicate: Option<(Position, Position)>, room: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if let Some((start, end)) = duplicate {
            blocks.push(start.seq(), end.seq());
        }
        let room = room.saturating_sub(blocks.as_slice().len());
        let held = self.rcv.buffer.sack_blocks(duplicate.map(|(start, _)| start), room);
        // A FIN beyond the gap takes a number, and is held with the text before it.
        let fin = self.rcv.fin.map(Position::seq);
        for &(left, right) in held.as_slice() {
            blocks.push(left, if Some(right) == fin { right + 1 } else { right });
        }
        blocks
    }

    /// An acknowledgement left, on whatever segment: none is owed any more (RFC 9293 MUST-58) but those that are to report
    /// what this one had no room for. `pure_ack`: its options are [`Self::ack_options`].
    pub(super) fn ack_was_sent(&mut self, fields: &Fields, pure_ack: bool) {
        let blocks = fields.options.sack.as_slice();
        let with_duplicate = pure_ack && self.acks.owes_duplicate();
        self.rcv.buffer.on_reported(blocks.get(usize::from(with_duplicate)..).unwrap_or_default());
        self.acks.on_sent(with_duplicate);
        self.acks.now |= self.sack && self.rcv.buffer.owes_report();
        self.timers.delayed_ack = Timers::UNSET;
        self.ecn_was_told(fields.options.accecn.is_some());
        if let Some(arrivals) = self.rcv.extras.as_mut().and_then(|extras| extras.arrivals.as_mut()) {
            arrivals.on_ack_sent();
        }
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.last_ack_sent = self.rcv.nxt;
        }
    }
}
