//! The acknowledgements that are owed, and what they report.
//!
//! All segments of a batch are processed before the first acknowledgement leaves (RFC 9293 MUST-58), and one
//! acknowledgement may not hold everything that they bring to report. Data that arrives around a gap or twice
//! is then reported as if each segment had come alone: an acknowledgement reports the state after one arrival
//! and nothing later. A time-based sender takes data for lost if it was sent before reported data and is not
//! reported itself (RFC 8985), so a report out of turn would make it repeat what arrived. Arrivals that
//! extend the last report's range join it. Without SACK there is a report for each segment beyond a gap: its
//! acknowledgement is the duplicate that the peer counts.

use std::collections::VecDeque;

use ackclock_wire::options::OPTIONS_MAX;
use ackclock_wire::{SackBlocks, SeqNum, TcpOptions, options_len};

use super::Connection;
use super::timers::Timers;
use crate::Instant;
use crate::position::Position;

/// The acknowledgements that are owed.
#[derive(Debug, Default)]
pub(super) struct Acks {
    /// Full-sized segments, or their equivalent, received since the last acknowledgement was sent.
    pub(super) segments: u32,
    /// One must leave at once.
    pub(super) now: bool,
    /// The application wants each to leave at once.
    pub(super) quick: bool,
    /// Present while something needs a separate report.
    reports: Option<Box<Reports>>,
}

/// The reports that wait, the oldest first; never empty.
#[derive(Debug, Default)]
struct Reports {
    queue: VecDeque<Report>,
}

/// What a separate acknowledgement reports: the state after an arrival.
#[derive(Clone, Copy, Debug)]
struct Report {
    /// RCV.NXT at that time.
    next: Position,
    /// The duplicate data that arrived (RFC 2883 §4 (2)).
    duplicate: Option<(Position, Position)>,
    /// The data beyond the gap at that time, with the block of the arrival first (RFC 2018 §4).
    blocks: SackBlocks,
}

/// The timestamps option, aligned (RFC 7323 appendix A).
const TIMESTAMPS_LEN: u32 = 12;

impl Acks {
    /// The most reports that wait: as many as a driver's batch has packets. Beyond it duplicates are not
    /// reported, and blocks replace the oldest report, as if acknowledgements had been lost.
    const REPORTS_MAX: u32 = 64;

    /// Whether something needs a separate acknowledgement.
    #[inline]
    pub(super) fn owes_report(&self) -> bool {
        self.reports.is_some()
    }

    /// What the next pure acknowledgement reports.
    #[inline]
    fn first_report(&self) -> Option<&Report> {
        self.reports.as_ref()?.queue.front()
    }

    /// Adds a report; `joins` tells whether it says all that the last one says.
    fn add_report(&mut self, report: Report, joins: impl Fn(&Report) -> bool) {
        let reports = &mut self.reports.get_or_insert_default().queue;
        if let Some(last) = reports.back_mut().filter(|last| last.duplicate.is_none() && joins(last)) {
            *last = report;
            return;
        }
        if reports.len() >= Self::REPORTS_MAX as usize {
            if report.duplicate.is_some() {
                return;
            }
            reports.pop_front();
        }
        reports.push_back(report);
    }

    /// Without SACK: `segments` have arrived beyond a gap at `next`. The peer counts duplicates, and counts
    /// none with text (RFC 5681 §2). An acknowledgement that was owed before is none of them.
    pub(super) fn owe_duplicates(&mut self, next: Position, segments: u32) {
        let last = self.reports.as_ref().and_then(|reports| reports.queue.back());
        let is_owed = self.now && last.is_none_or(|last| last.next < next);
        for _ in 0..segments.saturating_add(is_owed.into()).min(Self::REPORTS_MAX) {
            self.add_report(Report { next, duplicate: None, blocks: SackBlocks::default() }, |_| false);
        }
    }

    /// The FIN after all received data has arrived too.
    pub(super) fn take_fin(&mut self, next: Position) {
        if let Some(last) = self.reports.as_mut().and_then(|reports| reports.queue.back_mut())
            && last.next + 1 == next
        {
            last.next = next;
        }
    }

    /// No gap is left: the next acknowledgement says all that reports of blocks would have said.
    fn forget_blocks(&mut self) {
        if let Some(Reports { queue }) = self.reports.as_deref_mut() {
            queue.retain(|report| report.duplicate.is_some());
            if queue.is_empty() {
                self.reports = None;
            }
        }
    }

    /// An acknowledgement of all before `ack` has left, at RCV.NXT `next`. `with_report`: it was the first
    /// report's.
    fn on_sent(&mut self, ack: Position, next: Position, with_report: bool) {
        if with_report && let Some(Reports { queue }) = self.reports.as_deref_mut() {
            queue.pop_front();
            if queue.is_empty() {
                self.reports = None;
            }
        }
        self.segments = 0;
        self.now = self.owes_report() || ack < next;
    }
}

impl Connection {
    /// Text arrived at `place`, around a gap or twice: queues a report.
    pub(super) fn report(&mut self, place: Position, duplicate: Option<(Position, Position)>) {
        if duplicate.is_none() && !self.rcv.buffer.has_gap() {
            return self.acks.forget_blocks();
        }
        if !self.sack {
            return;
        }
        // RFC 2883 §4 (4): the block that contains the duplicate.
        let place = duplicate.map_or(place, |(start, _)| start);
        let beyond_gap = self.rcv.buffer.holds_ahead(place);
        if duplicate.is_none() && !beyond_gap && !self.acks.owes_report() {
            // In order, with the gap unchanged: the next acknowledgement says everything.
            return;
        }
        let blocks = self.rcv.buffer.sack_blocks(Some(place), SackBlocks::MAX);
        let report = Report { next: self.rcv.nxt, duplicate, blocks };
        let first = blocks.as_slice().first().copied();
        self.acks.add_report(report, |last| {
            let of_last = last.blocks.as_slice().first();
            duplicate.is_none()
                && (!beyond_gap || first.zip(of_last).is_some_and(|(now, then)| holds(now, then.0)))
        });
    }

    /// Whether a pure acknowledgement must leave before any data. A first report does not ride on data: a
    /// device that cuts a large segment would repeat it on each piece, and it takes room from the payload.
    #[inline]
    pub(super) fn owes_pure_ack(&self) -> bool {
        self.acks.now && self.acks.owes_report()
    }

    /// What the next segment acknowledges: RCV.NXT, or its value when the next report was made.
    #[inline]
    pub(super) fn ack_position(&self, pure_ack: bool) -> Position {
        self.acks.first_report().filter(|_| pure_ack).map_or(self.rcv.nxt, |report| report.next)
    }

    /// Options of a data segment.
    pub(super) fn data_options(&self, now: Instant) -> TcpOptions {
        self.options(now, false)
    }

    /// The bytes that the options of a data segment take. SACK blocks and counters take room in each segment;
    /// payload that does not fit goes with the next.
    #[inline]
    pub(super) fn data_options_len(&self, now: Instant) -> u32 {
        if self.ecn.is_none() && !self.rcv.buffer.has_gap() {
            return if self.timestamps.is_some() { TIMESTAMPS_LEN } else { 0 };
        }
        u32::try_from(options_len(&self.data_options(now))).unwrap_or(u32::MAX)
    }

    /// Options of a segment without text that is neither SYN nor RST.
    pub(super) fn ack_options(&self, now: Instant) -> TcpOptions {
        self.options(now, true)
    }

    #[inline]
    fn options(&self, now: Instant, pure_ack: bool) -> TcpOptions {
        let report = self.acks.first_report().filter(|_| pure_ack);
        let reports = self.sack && (self.rcv.buffer.has_gap() || report.is_some());
        let mut options = TcpOptions {
            timestamps: self.timestamps.map(|timestamps| (timestamps.value(now), timestamps.echo())),
            accecn: self.ecn_option(pure_ack, reports),
            ..TcpOptions::default()
        };
        if reports {
            let left = OPTIONS_MAX.saturating_sub(options_len(&options));
            let room = left.saturating_sub(4).saturating_sub(self.option_reserve() as usize) / 8;
            options.sack = self.blocks(report, room);
        }
        options
    }

    /// RFC 2883 §4: the duplicate first, then the blocks.
    fn blocks(&self, report: Option<&Report>, room: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if let Some((start, end)) = report.and_then(|report| report.duplicate) {
            blocks.push(start.seq(), end.seq());
        }
        let room = room.saturating_sub(blocks.as_slice().len());
        let held = report.map_or_else(|| self.rcv.buffer.sack_blocks(None, room), |report| report.blocks);
        // A FIN beyond the gap takes a number, and is held with the text before it.
        let fin = self.rcv.fin.map(Position::seq);
        for &(left, right) in held.as_slice().iter().take(room) {
            blocks.push(left, if Some(right) == fin { right + 1 } else { right });
        }
        blocks
    }

    /// A segment that acknowledged all before `ack` has left. No acknowledgement is owed any more
    /// (RFC 9293 MUST-58), except those with reports that this one did not carry. `pure_ack`: its options are
    /// [`Self::ack_options`].
    #[inline]
    pub(super) fn ack_was_sent(&mut self, ack: Position, pure_ack: bool) {
        self.acks.on_sent(ack, self.rcv.nxt, pure_ack);
        self.timers.delayed_ack = Timers::UNSET;
        if let Some(arrivals) = self.rcv.extras.as_mut().and_then(|extras| extras.arrivals.as_mut()) {
            arrivals.on_ack_sent();
        }
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.last_ack_sent = ack;
        }
    }
}

/// Whether a block contains the byte at `seq`.
fn holds((left, right): (SeqNum, SeqNum), seq: SeqNum) -> bool {
    seq.in_window(left, right.offset_from(left))
}
