//! Losses that were declared, the delay of their repair, and the declarations that the peer refuted.
//!
//! A D-SACK (RFC 2883) reports that data arrived twice. If a rule had declared it lost and it was
//! retransmitted for that reason, an earlier transmission had arrived after all: the declaration was wrong.
//! Data declared lost more than once is charged to the last declaration, because a report does not say which
//! copy it is about. Reports of probes, and of data sent once and duplicated by the network, refute nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use ackclock_core::Instant;
use ackclock_core::trace::{Entry, Limit, LossRule, SendReason, Timer};

use crate::stream::Una;

/// One rule's loss declarations that D-SACKs refuted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refuted {
    /// Declarations refuted for at least one byte.
    pub verdicts: u64,
    /// Bytes retransmitted in vain.
    pub bytes: u64,
}

/// Losses found by a timer that could not be repaired at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The number held back, by cause: the [`Limit`]'s name.
    pub by: BTreeMap<&'static str, u64>,
    /// The total time until their first retransmission.
    pub time: Duration,
    /// The longest wait, and when the timer had expired.
    pub longest: Option<(Instant, Duration)>,
    /// How many were never retransmitted, because the data was acknowledged or the declaration taken back
    /// first.
    pub never: u64,
}

/// The losses of a connection.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// Declarations of loss, by rule.
    pub declared: BTreeMap<&'static str, u64>,
    /// Those that D-SACKs refuted, by rule.
    pub refuted: BTreeMap<&'static str, Refuted>,
    /// Tail probes that repeated data which had arrived, according to D-SACKs.
    pub needless_probes: u64,
    /// Reductions taken back, by proof.
    pub undone: BTreeMap<&'static str, u64>,
    /// Segments that a timer found and that could not be retransmitted at once.
    pub held: Held,
}

/// Copies kept to match reports against. A report comes a round trip after its copy, and fewer leave in that
/// time.
const COPIES_MAX: usize = 4096;
/// Declarations about data not acknowledged yet; more than a window holds.
const OPEN_MAX: usize = 4096;

/// Retransmitted data.
#[derive(Clone, Copy)]
struct Copy {
    start: u64,
    end: u64,
    cause: Cause,
}

#[derive(Clone, Copy)]
enum Cause {
    /// A loss declaration, by its number and its rule.
    Verdict(u64, LossRule),
    /// A tail probe, by its number.
    TailProbe(u64),
    /// Something else.
    Other,
}

/// A loss declaration about data not acknowledged yet.
struct Open {
    number: u64,
    rule: LossRule,
    start: u64,
    end: u64,
}

/// A loss found by a timer, until its first retransmission.
struct Found {
    at: Instant,
    start: u64,
    end: u64,
    /// The limit that held it back in the turn in which it was found.
    held_by: Option<Limit>,
}

/// The state of reading an acknowledgement's blocks.
#[derive(Clone, Copy, Default)]
enum Blocks {
    #[default]
    None,
    /// The first block may report a duplicate.
    First(u64),
    /// The first block lies beyond the acknowledgement; it reports a duplicate if the second contains it.
    Second(u64, u64),
}

#[derive(Default)]
pub(super) struct LossLog {
    verdicts: Verdicts,
    una: Una,
    numbers: u64,
    open: VecDeque<Open>,
    copies: VecDeque<Copy>,
    /// Refuted declarations and probes.
    refuted: BTreeSet<u64>,
    blocks: Blocks,
    /// The time of the timer that expired in this turn.
    fired: Option<Instant>,
    found: Vec<Found>,
    limit: Option<Limit>,
}

impl LossLog {
    pub(super) fn entry(&mut self, at: Instant, entry: Entry) {
        if !matches!(entry, Entry::Sacked { .. }) {
            self.blocks = Blocks::None;
        }
        match entry {
            Entry::Limited { by, .. } => {
                self.limit = Some(by);
                self.hold_back();
            }
            Entry::Received { .. } => self.begin_turn(at),
            Entry::TimerFired { timer, .. } => {
                self.begin_turn(at);
                self.fired = matches!(timer, Timer::Reordering | Timer::Retransmission).then_some(at);
            }
            Entry::Lost { rule, start, end } => self.lost(at, rule, start, end),
            Entry::Sent { reason, seq, len, .. } if len > 0 => self.sent(at, reason, seq, len),
            Entry::Acked { ack, .. } => {
                self.begin_turn(at);
                self.acked(ack);
            }
            Entry::Sacked { left, right } => self.block(left, right),
            Entry::Undone(rule) => {
                *self.verdicts.undone.entry(rule.name()).or_default() += 1;
                self.spare(|_| true);
            }
            _ => {}
        }
    }

    /// Nothing more leaves in this turn, so what a timer found waits.
    fn hold_back(&mut self) {
        // A connection that holds data to be lost and may not send it reports one of these limits. Under any
        // other limit it was not asked for data yet: the driver took in waiting packets first.
        let Some(by @ (Limit::Recovery | Limit::Pacing | Limit::PacedCwnd | Limit::RateCap)) = self.limit
        else {
            return;
        };
        for found in &mut self.found {
            found.held_by.get_or_insert(by);
        }
    }

    /// A new event: what a timer found in an earlier turn did not leave in it.
    fn begin_turn(&mut self, at: Instant) {
        self.fired = None;
        if self.found.iter().any(|found| found.at < at && found.held_by.is_none()) {
            self.hold_back();
        }
    }

    fn lost(&mut self, at: Instant, rule: LossRule, start: u32, end: u32) {
        *self.verdicts.declared.entry(rule.name()).or_default() += 1;
        let (start, end) = (self.una.place(start), self.una.place(end));
        self.numbers += 1;
        self.open.push_back(Open { number: self.numbers, rule, start, end });
        if self.open.len() > OPEN_MAX {
            self.open.pop_front();
        }
        if self.fired == Some(at) {
            self.found.push(Found { at, start, end, held_by: None });
        }
    }

    fn sent(&mut self, at: Instant, reason: SendReason, seq: u32, len: u32) {
        if reason == SendReason::NewData {
            return;
        }
        let start = self.una.place(seq);
        let end = start + u64::from(len);
        let overlaps = |from: u64, until: u64| from < end && start < until;
        let verdict = self.open.iter().rev().find(|open| overlaps(open.start, open.end));
        let cause = match reason {
            SendReason::Retransmission => {
                verdict.map_or(Cause::Other, |open| Cause::Verdict(open.number, open.rule))
            }
            SendReason::TailProbe => {
                self.numbers += 1;
                Cause::TailProbe(self.numbers)
            }
            _ => Cause::Other,
        };
        self.copies.push_back(Copy { start, end, cause });
        while self.copies.len() > COPIES_MAX {
            self.copies.pop_front();
        }
        for found in self.found.extract_if(.., |found| overlaps(found.start, found.end)) {
            self.verdicts.held.count(&found, at.saturating_since(found.at));
        }
    }

    fn acked(&mut self, ack: u32) {
        let ack = self.una.place(ack);
        self.una.advance(ack);
        self.blocks = Blocks::First(ack);
        self.open.retain(|open| open.end > ack);
        self.spare(|found| found.end <= ack);
    }

    /// Drops the found losses that no longer need a repair.
    fn spare(&mut self, over: impl Fn(&Found) -> bool) {
        for found in self.found.extract_if(.., |found| over(found)) {
            if let Some(by) = found.held_by {
                *self.verdicts.held.by.entry(by.name()).or_default() += 1;
                self.verdicts.held.never += 1;
            }
        }
    }

    /// RFC 2883 §4: the first block reports a duplicate if it lies below the acknowledgement or within the
    /// second.
    fn block(&mut self, left: u32, right: u32) {
        let (left, right) = (self.una.place(left), self.una.place(right));
        match std::mem::take(&mut self.blocks) {
            Blocks::First(ack) if right <= ack => self.reported(left, right),
            Blocks::First(_) => self.blocks = Blocks::Second(left, right),
            Blocks::Second(start, end) if left <= start && end <= right => self.reported(start, end),
            Blocks::Second(..) | Blocks::None => {}
        }
    }

    /// `start..end` arrived twice: the last copies that cover it were unnecessary.
    fn reported(&mut self, start: u64, end: u64) {
        let mut sought = vec![(start, end)];
        let mut place = self.copies.len();
        while place > 0 && !sought.is_empty() {
            place -= 1;
            let copy = self.copies[place];
            let mut found = Vec::new();
            sought = sought
                .into_iter()
                .flat_map(|(from, until)| {
                    let (over, under) = (from.max(copy.start), until.min(copy.end));
                    if over >= under {
                        return [(from, until), (0, 0)];
                    }
                    found.push((over, under));
                    [(from, over), (under, until)]
                })
                .filter(|(from, until)| from < until)
                .collect();
            // Each copy is reported once; the rest of it may be reported later.
            for (over, under) in found.into_iter().rev() {
                self.refute(copy.cause, under - over);
                self.cut(place, over, under);
            }
        }
    }

    /// Removes `over..under` from the copy at `place`. The part after it becomes a separate copy.
    fn cut(&mut self, place: usize, over: u64, under: u64) {
        let copy = self.copies[place];
        self.copies[place].end = over.min(copy.end);
        if under < copy.end {
            self.copies.insert(place + 1, Copy { start: under, ..copy });
        }
    }

    fn refute(&mut self, cause: Cause, bytes: u64) {
        match cause {
            Cause::Verdict(number, rule) => {
                let refuted = self.verdicts.refuted.entry(rule.name()).or_default();
                refuted.bytes += bytes;
                refuted.verdicts += u64::from(self.refuted.insert(number));
            }
            Cause::TailProbe(number) => {
                self.verdicts.needless_probes += u64::from(self.refuted.insert(number));
            }
            Cause::Other => {}
        }
    }

    pub(super) fn finish(mut self) -> Verdicts {
        self.spare(|_| true);
        self.verdicts
    }
}

impl Held {
    /// The number of losses held back.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.by.values().sum()
    }

    fn count(&mut self, found: &Found, waited: Duration) {
        let Some(by) = found.held_by.filter(|_| !waited.is_zero()) else { return };
        *self.by.entry(by.name()).or_default() += 1;
        self.time += waited;
        if self.longest.is_none_or(|(_, longest)| waited > longest) {
            self.longest = Some((found.at, waited));
        }
    }
}
