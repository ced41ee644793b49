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

use ackclock_wire::{SackBlocks, SeqNum};

use crate::Instant;
use crate::deadline::Deadline;
use crate::position::Position;

/// The acknowledgements that are owed.
#[derive(Debug, Default)]
pub(super) struct Acks {
    /// Full-sized segments, or their equivalent, received since the last acknowledgement was sent.
    segments: u32,
    /// One must leave at once.
    now: bool,
    /// When a delayed one must leave (RFC 9293 §3.8.6.3).
    delayed: Deadline,
    /// The application wants each to leave at once.
    quick: bool,
    /// Present while something needs a separate report.
    reports: Option<Box<Reports>>,
}

/// The reports that wait, the oldest first; never empty.
#[derive(Debug, Default)]
struct Reports {
    queue: VecDeque<AckReport>,
}

/// The contents of a separate acknowledgement: the state after an arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckReport {
    /// RCV.NXT at that time.
    pub next: Position,
    /// The duplicate data that arrived (RFC 2883 §4 (2)).
    pub duplicate: Option<(Position, Position)>,
    /// The data beyond the gap at that time, with the block of the arrival first (RFC 2018 §4).
    pub blocks: SackBlocks,
}

impl Acks {
    /// The most reports that wait: as many as a driver's batch has packets. Beyond it duplicates are not
    /// reported, and blocks replace the oldest report, as if acknowledgements had been lost.
    const REPORTS_MAX: u32 = 64;

    /// When a delayed acknowledgement must leave.
    #[inline]
    pub fn deadline(&self) -> Deadline {
        self.delayed
    }

    /// It must leave.
    pub fn on_deadline(&mut self) {
        self.delayed.clear();
        self.now = true;
    }

    /// One is owed: at once, or by then.
    #[inline]
    pub fn owe(&mut self, at_once: bool, latest: impl FnOnce() -> Instant) {
        if at_once || self.quick {
            self.now = true;
        } else {
            self.delayed.set_no_later(latest());
        }
    }

    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// Everything that arrives is acknowledged at once, including what already waits; or by the policy.
    pub fn set_quick(&mut self, quick: bool) {
        self.quick = quick;
        self.now |= quick && self.delayed.is_set();
    }

    /// Whether something needs a separate acknowledgement.
    #[inline]
    pub fn owes_report(&self) -> bool {
        self.reports.is_some()
    }

    /// One must leave at once.
    #[inline]
    pub fn owe_now(&mut self) {
        self.now = true;
    }

    /// Whether one must leave at once.
    #[inline]
    pub fn owes_now(&self) -> bool {
        self.now
    }

    /// This many segments arrived. A coalesced segment counts as those it stands for.
    #[inline]
    pub fn count(&mut self, segments: u32) {
        self.segments = self.segments.saturating_add(segments);
    }

    /// Segments that have arrived since the last acknowledgement was sent.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.segments
    }

    /// The report of the next pure acknowledgement.
    #[inline]
    pub fn first_report(&self) -> Option<&AckReport> {
        self.reports.as_ref()?.queue.front()
    }

    /// Adds a report. If `joins` says that it covers the last one, it replaces that.
    pub fn add_report(&mut self, report: AckReport, joins: impl Fn(&AckReport) -> bool) {
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
    pub fn owe_duplicates(&mut self, next: Position, segments: u32) {
        let last = self.reports.as_ref().and_then(|reports| reports.queue.back());
        let is_owed = self.now && last.is_none_or(|last| last.next < next);
        for _ in 0..segments.saturating_add(is_owed.into()).min(Self::REPORTS_MAX) {
            self.add_report(AckReport { next, duplicate: None, blocks: SackBlocks::default() }, |_| false);
        }
    }

    /// The FIN after all received data has arrived too.
    pub fn process_fin(&mut self, next: Position) {
        if let Some(last) = self.reports.as_mut().and_then(|reports| reports.queue.back_mut())
            && last.next + 1 == next
        {
            last.next = next;
        }
    }

    /// No gap is left, so the next acknowledgement covers every report of blocks that waits.
    pub fn forget_blocks(&mut self) {
        if let Some(Reports { queue }) = self.reports.as_deref_mut() {
            queue.retain(|report| report.duplicate.is_some());
            if queue.is_empty() {
                self.reports = None;
            }
        }
    }

    /// An acknowledgement of all before `ack` has left, at RCV.NXT `next`. `with_report`: it was the first
    /// report's.
    #[inline]
    pub fn on_sent(&mut self, ack: Position, next: Position, with_report: bool) {
        if !with_report {
            // What a report says has been acknowledged by now, and acknowledgements never go back.
            self.reports = None;
        } else if let Some(Reports { queue }) = self.reports.as_deref_mut() {
            queue.pop_front();
            if queue.is_empty() {
                self.reports = None;
            }
        }
        self.delayed.clear();
        self.segments = 0;
        self.now = self.owes_report() || ack < next;
    }
}

/// Whether a block contains the byte at `seq`.
pub(super) fn holds((left, right): (SeqNum, SeqNum), seq: SeqNum) -> bool {
    seq.in_window(left, right.offset_from(left))
}

ackclock_form::form! {
    struct Acks { segments, now, delayed, quick, reports }
    struct Reports { queue }
    struct AckReport { next, duplicate, blocks }
}
