//! What was declared lost: what held its repair back, and which verdicts the peer refuted.
//!
//! A D-SACK (RFC 2883) reports that something arrived twice. If it had been sent again because a rule had declared it
//! lost, the first transmission had arrived after all, or the one before the last: the verdict was wrong. Bytes that
//! were declared lost more than once are charged to the last verdict, since a report does not say which copy it is
//! about; reports of probes, and of what left once and the network doubled, refute none.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use ackclock_core::Instant;
use ackclock_core::trace::{Entry, Limit, LossRule, SendReason, Timer};

use crate::stream::Una;

/// Verdicts of one rule that D-SACKs refuted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refuted {
    /// Verdicts of which at least a byte was refuted.
    pub verdicts: u64,
    /// Bytes that had gone out again in vain.
    pub bytes: u64,
}

/// Losses that a timer found and that could not be repaired at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many waited, by what held them back: the [`Limit`]'s name.
    pub by: BTreeMap<&'static str, u64>,
    /// How long they waited for their first retransmission, all together.
    pub time: Duration,
    /// The longest wait, and when the timer had expired.
    pub longest: Option<(Instant, Duration)>,
    /// How many of them never went: the data was acknowledged, or the verdict taken back, before.
    pub never: u64,
}

/// The losses of a connection.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// Declarations of loss, by rule.
    pub declared: BTreeMap<&'static str, u64>,
    /// Those that D-SACKs refuted, by rule.
    pub refuted: BTreeMap<&'static str, Refuted>,
    /// Tail probes that repeated what had arrived, as D-SACKs tell.
    pub needless_probes: u64,
    /// Reductions that were taken back, by what told.
    pub undone: BTreeMap<&'static str, u64>,
    /// What a timer found and could not send again at once.
    pub held: Held,
}

/// Copies kept to match reports against. A report comes a round trip after its copy, and fewer leave in one.
const COPIES_MAX: usize = 4096;
/// Verdicts about data that is not acknowledged yet; more than a window holds.
const OPEN_MAX: usize = 4096;

/// Data that went out again.
#[derive(Clone, Copy)]
struct Copy {
    start: u64,
    end: u64,
    cause: Cause,
}

#[derive(Clone, Copy)]
enum Cause {
    /// A verdict, by its number and its rule.
    Verdict(u64, LossRule),
    /// A tail probe, by its number.
    TailProbe(u64),
    /// Something else.
    Other,
}

/// A verdict about data that is not acknowledged yet.
struct Open {
    number: u64,
    rule: LossRule,
    start: u64,
    end: u64,
}

/// What a timer found, until the first of it goes out again.
struct Found {
    at: Instant,
    start: u64,
    end: u64,
    /// What kept it from leaving in the turn in which it was found.
    held_by: Option<Limit>,
}

/// Where the blocks of an acknowledgement are being read.
#[derive(Clone, Copy, Default)]
enum Blocks {
    #[default]
    None,
    /// The first may report a duplicate.
    First(u64),
    /// The first lies beyond the acknowledgement, and reports one if the second contains it.
    Second(u64, u64),
}

#[derive(Default)]
pub(super) struct Walk {
    verdicts: Verdicts,
    una: Una,
    numbers: u64,
    open: VecDeque<Open>,
    copies: VecDeque<Copy>,
    /// Verdicts and probes that were refuted.
    refuted: BTreeSet<u64>,
    blocks: Blocks,
    /// The timer that expired in this turn.
    fired: Option<Instant>,
    found: Vec<Found>,
    limit: Option<Limit>,
}

impl Walk {
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

    /// Nothing more leaves in this turn: what a timer found waits.
    fn hold_back(&mut self) {
        // A connection that holds data to be lost and may not send it says one of these. Where another limit stands, it was
        // not asked yet for what it has to send: packets were waiting that the driver took in first.
        let Some(by @ (Limit::Recovery | Limit::Pacing)) = self.limit else { return };
        for found in &mut self.found {
            found.held_by.get_or_insert(by);
        }
    }

    /// Something happens: what a timer found in an earlier turn did not leave in it.
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

    /// What a timer found needs no repair any more.
    fn spare(&mut self, over: impl Fn(&Found) -> bool) {
        for found in self.found.extract_if(.., |found| over(found)) {
            if let Some(by) = found.held_by {
                *self.verdicts.held.by.entry(by.name()).or_default() += 1;
                self.verdicts.held.never += 1;
            }
        }
    }

    /// RFC 2883 §4: the first block reports a duplicate if it lies below the acknowledgement or within the second.
    fn block(&mut self, left: u32, right: u32) {
        let (left, right) = (self.una.place(left), self.una.place(right));
        match std::mem::take(&mut self.blocks) {
            Blocks::First(ack) if right <= ack => self.reported(left, right),
            Blocks::First(_) => self.blocks = Blocks::Second(left, right),
            Blocks::Second(start, end) if left <= start && end <= right => self.reported(start, end),
            Blocks::Second(..) | Blocks::None => {}
        }
    }

    /// `start..end` arrived twice: the last copies that cover it were needless.
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
            // Each copy is reported once: what is left of it may be, later.
            for (over, under) in found.into_iter().rev() {
                self.refute(copy.cause, under - over);
                self.cut(place, over, under);
            }
        }
    }

    /// Takes `over..under` out of the copy at `place`; what lies behind it becomes one of its own.
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
    /// How many losses were held back.
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
