//! Undo: a wrong reduction of the window is taken back.
//!
//! A delay can look like a loss: the timer expires, or reordering makes duplicates. Four detectors find out
//! afterwards, a file each, chosen separately (`Choices::undo`):
//!
//! | detector | needs | judges | decides |
//! |---|---|---|---|
//! | [`eifel`] | timestamps | both | with the first acknowledgement |
//! | [`dsack`] | SACK | both | a round trip after the last retransmission |
//! | [`frto`] | new data to send | timeouts | with the second acknowledgement |
//! | [`min_rtt`] | a round-trip time | both | with the first acknowledgement |
//!
//! The response is that of R. Ludwig and A. Gurtov, "The Eifel Response Algorithm for TCP", RFC 4015, 2005:
//! cwnd and ssthresh return, what only counted as lost is outstanding again, and sending continues with new
//! data.
//!
//! A lying peer can gain little: an undo restores the controller's former figures and never more. There is
//! one undo per episode, and a timeout within it, or a mark, begins another. An echo must name a segment of
//! the flight, a report exactly the retransmitted data. A receiver that lies within these bounds could still
//! keep a window up through losses, so one of [`IN_A_ROW_MAX`] + 1 consecutive reductions always stands (RFC
//! 3522 §5, RFC 3708 §5). Other senders only have the first bounds. Paths that reorder do not reach the last:
//! each undo of a fast retransmit widens RACK's window.
//!
//! The retransmission timer becomes more patient with the first round trip of data first sent after the
//! timeout (step 11): SRTT and RTTVAR are set from it, and do not fall.
//!
//! Deviation from RFC 4015, at the code: cwnd returns to what it was (step 9). Its text was not at hand (not
//! read): the steps are cited as its authors' readers give them.

mod dsack;
mod eifel;
mod frto;
mod min_rtt;

use std::time::Duration;

use ackclock_wire::SeqNum;

use self::dsack::Reports;
use self::eifel::Eifel;
use self::frto::{Frto, FrtoOutcome, Seen};
use super::echo::clock;
use super::{Call, Echo};
use crate::Instant;
use crate::info::UndoCounts;
use crate::position::Position;
use crate::trace::{SendReason, UndoRule};

/// This many consecutive reductions may be undone; the next one stands.
const IN_A_ROW_MAX: u8 = 8;

/// The last reduction, and how many were taken back.
#[derive(Debug, Default)]
pub(super) struct Undo {
    counts: UndoCounts,
    in_a_row: u8,
    reduction: Option<Reduction>,
    /// A timeout was wrong, and no round trip has been measured yet of data first sent after it.
    adaptation: Option<BeforeTimeout>,
}

/// The estimator as a timeout found it: SRTT_prev and RTTVAR_prev of RFC 4015.
#[derive(Clone, Copy, Debug)]
pub(super) struct BeforeTimeout {
    pub at: Instant,
    pub srtt: Duration,
    pub rttvar: Duration,
}

/// A reduction of the window that is about to be made.
pub(super) struct Reduced {
    /// The retransmission timer expired again before anything new was acknowledged.
    pub again: bool,
    /// The estimator, if the timer caused the reduction.
    pub timeout: Option<BeforeTimeout>,
    pub una: Position,
    pub nxt: Position,
    /// When the oldest segment outstanding left.
    pub oldest: Option<Instant>,
    /// Which detectors may judge it besides the first answer.
    pub frto: bool,
    pub dsack: bool,
}

/// An acknowledgement as F-RTO sees it.
pub(super) struct NewData {
    pub una: Position,
    pub prior_una: Position,
    pub duplicate: bool,
    /// The end of the newest data sent once that it delivered.
    pub held_up_to: Option<Position>,
    pub sack: bool,
    /// New data may be sent.
    pub sendable: bool,
}

/// The last reduction, as long as it may be undone.
#[derive(Debug)]
struct Reduction {
    /// Present if the retransmission timer caused it.
    timeout: Option<BeforeTimeout>,
    /// SND.UNA and SND.NXT when it happened.
    una: Position,
    nxt: Position,
    /// The tick of our clock in which the oldest segment outstanding left.
    oldest: Option<u32>,
    first: Option<Retransmission>,
    /// The first retransmission was acknowledged, and that acknowledgement has been judged.
    answered: bool,
    frto: Option<Frto>,
    reports: Option<Reports>,
    /// Set at the episode's end: reports count until more than this is acknowledged.
    until: Option<Position>,
}

/// The first retransmission after a reduction.
#[derive(Clone, Copy, Debug)]
struct Retransmission {
    at: Instant,
    start: Position,
    end: Position,
}

/// The range that an acknowledgement reports as received twice. RFC 2883 §4: only the first block may report
/// it, and lies below the acknowledgement, or within the second block. Any block may repeat what an earlier
/// acknowledgement said (RFC 2018 §4).
pub(super) fn reported_duplicate(ack: Position, blocks: &[(SeqNum, SeqNum)]) -> Option<(Position, Position)> {
    let mut blocks = blocks.iter().map(|&(left, right)| (ack.near(left), ack.near(right)));
    let (start, end) = blocks.next().filter(|(start, end)| start < end)?;
    let within = |(outer_start, outer_end)| outer_start <= start && end <= outer_end;
    (end <= ack || blocks.next().is_some_and(within)).then_some((start, end))
}

impl Undo {
    pub fn counts(&self) -> UndoCounts {
        self.counts
    }

    /// Whether no acknowledgement that only advances SND.UNA can say more about the last reduction.
    pub fn is_plain(&self) -> bool {
        let is_judged = |reduction: &Reduction| {
            reduction.answered && reduction.frto.is_none() && reduction.reports.is_none()
        };
        self.adaptation.is_none() && self.reduction.as_ref().is_none_or(is_judged)
    }

    /// The most bytes that the reports of duplicates take.
    pub fn bytes(&self) -> usize {
        let reports = self.reduction.as_ref().and_then(|reduction| reduction.reports.as_ref());
        reports.map_or(0, Reports::bytes)
    }

    /// A new reduction: the one before it stands, unless it was undone. Returns whether this one may be
    /// undone.
    fn begin(&mut self) -> bool {
        let stood = self.reduction.take().is_some();
        let exhausted = self.in_a_row >= IN_A_ROW_MAX;
        if stood || exhausted {
            self.in_a_row = 0;
        }
        !exhausted
    }

    /// A mark was answered: congestion was real, so neither this nor any earlier reduction is ever taken
    /// back.
    pub fn let_reduction_stand(&mut self) {
        if self.reduction.take().is_some() {
            self.in_a_row = 0;
        }
    }

    /// `start..end` was retransmitted.
    pub fn on_retransmitted(&mut self, now: Instant, start: Position, end: Position, reason: SendReason) {
        let Some(reduction) = &mut self.reduction else { return };
        let probe = matches!(reason, SendReason::TailProbe | SendReason::WindowProbe);
        match &mut reduction.reports {
            Some(reports) if probe => reports.on_probe(start, end),
            Some(reports) if reduction.until.is_none() => reports.on_retransmitted(start, end),
            _ => {}
        }
        if !probe && reduction.until.is_none() {
            reduction.first.get_or_insert(Retransmission { at: now, start, end });
        }
    }

    /// The values to compare a round trip of data first sent at `sent_at` with, if the last timeout was wrong
    /// and this is the first data sent after it.
    pub fn take_adaptation(&mut self, sent_at: Instant) -> Option<BeforeTimeout> {
        self.adaptation.take_if(|before| before.at < sent_at)
    }

    /// The episode is over. Only reports of duplicates may still undo it.
    pub fn on_episode_end(&mut self, nxt: Position) {
        if let Some(reduction) = &mut self.reduction {
            reduction.frto = None;
            reduction.answered = true;
            reduction.until.get_or_insert(nxt);
        }
    }

    /// RFC 5682 §2.1 (1): the timer retransmits the first segment, and not as many as a device cuts.
    pub fn retransmits_alone(&self) -> bool {
        self.reduction.as_ref().is_some_and(|reduction| reduction.frto.is_some() && reduction.first.is_none())
    }

    /// RFC 5682: until the timeout is judged, only its first segment is retransmitted.
    pub fn holds_retransmissions(&self) -> bool {
        self.reduction.as_ref().is_some_and(|reduction| reduction.frto.is_some() && reduction.first.is_some())
    }

    /// The window is about to be reduced, before any retransmission.
    pub fn watch(&mut self, reduced: Reduced) {
        if reduced.again {
            // Still the same reduction. RFC 5682 §2.1 (1): a second expiry ends F-RTO.
            if let Some(reduction) = &mut self.reduction {
                reduction.frto = None;
            }
            return;
        }
        if !self.begin() {
            return;
        }
        self.reduction = Some(Reduction {
            timeout: reduced.timeout,
            una: reduced.una,
            nxt: reduced.nxt,
            oldest: reduced.oldest.map(clock),
            first: None,
            answered: false,
            frto: reduced.frto.then_some(Frto::First),
            reports: reduced.dsack.then(Reports::default),
            until: None,
        });
    }

    /// The peer reports a duplicate. Returns whether it has now reported every retransmission. `none_lost`:
    /// nothing waits to be retransmitted.
    pub fn on_report(&mut self, (start, end): (Position, Position), none_lost: bool) -> bool {
        let Some(reduction) = &mut self.reduction else { return false };
        // A timeout held everything to be lost at once: if all retransmissions so far are reported, the rest
        // arrived as well.
        let all_sent_again = none_lost || reduction.timeout.is_some();
        let Some(reports) = reduction.reports.as_mut().filter(|_| end > reduction.una) else { return false };
        reports.on_report(start, end) && all_sent_again
    }

    /// RFC 3522 §3.2 (3): only the first acknowledgement that covers the first retransmission decides.
    pub fn judge_first_answer(
        &mut self,
        call: &Call<'_>,
        una: Position,
        echo: Option<Echo>,
        rtt_min: Duration,
    ) -> Option<UndoRule> {
        let reduction = self.reduction.as_mut()?;
        if reduction.until.is_some_and(|until| una > until) {
            reduction.reports = None;
        }
        let first = reduction.first.filter(|first| !reduction.answered && una > first.start)?;
        reduction.answered = true;
        let flight = reduction.oldest.map(|oldest| Eifel { oldest, retransmission: clock(first.at) });
        let by_stamp = flight.zip(echo).is_some_and(|(flight, echo)| flight.answers_original(echo.ticks()));
        let after = call.now.saturating_since(first.at);
        let by_time = |quarters| min_rtt::answers_original(after, rtt_min, quarters);
        if call.tcp.choices.undo.timestamps && by_stamp {
            return Some(UndoRule::Timestamps);
        }
        call.tcp.choices.undo.min_rtt_quarters.is_some_and(by_time).then_some(UndoRule::MinRtt)
    }

    /// RFC 5682: judges a timeout by what its first new data brings.
    pub fn judge_by_new_data(&mut self, seen: &NewData) -> Option<UndoRule> {
        let reduction = self.reduction.as_mut()?;
        let (frto, first) = (reduction.frto?, reduction.first?);
        let judged = frto.on_ack(&Seen {
            una: seen.una,
            prior_una: seen.prior_una,
            retransmitted: (first.start, first.end),
            recover: reduction.nxt,
            duplicate: seen.duplicate,
            held_up_to: seen.held_up_to,
            sack: seen.sack,
            new_data: seen.sendable,
        });
        reduction.frto = match judged {
            FrtoOutcome::Wait(frto) => Some(frto),
            FrtoOutcome::Spurious | FrtoOutcome::Abandon => None,
        };
        (judged == FrtoOutcome::Spurious).then_some(UndoRule::Frto)
    }

    /// The reduction is taken back. Returns whether the timer caused it; `None` if there is none.
    pub fn revert(&mut self, rule: UndoRule) -> Option<bool> {
        let reduction = self.reduction.take()?;
        self.counts.add(rule);
        self.adaptation = reduction.timeout.or(self.adaptation);
        self.in_a_row = self.in_a_row.saturating_add(1);
        Some(reduction.timeout.is_some())
    }
}

ackclock_form::form! {
    struct Undo { counts, in_a_row, reduction, adaptation }
    struct BeforeTimeout { at, srtt, rttvar }
    struct Reduction { timeout, una, nxt, oldest, first, answered, frto, reports, until }
    struct Retransmission { at, start, end }
}

#[cfg(test)]
mod tests {
    use ackclock_wire::SeqNum;

    use super::{IN_A_ROW_MAX, Reduction, Undo, reported_duplicate};
    use crate::position::Position;

    fn reduction() -> Option<Reduction> {
        let una = Position::initial(SeqNum::new(1));
        Some(Reduction {
            timeout: None,
            una,
            nxt: una + 1000,
            oldest: None,
            first: None,
            answered: false,
            frto: None,
            reports: None,
            until: None,
        })
    }

    #[test]
    fn of_many_reductions_in_a_row_one_stands() {
        let mut undo = Undo::default();
        let mut stood = 0;
        for _ in 0..90 {
            if undo.begin() {
                // It is undone, whatever the proof.
                undo.in_a_row += 1;
            } else {
                stood += 1;
            }
        }
        assert_eq!(stood, 90 / (u32::from(IN_A_ROW_MAX) + 1));
    }

    #[test]
    fn reduction_that_stood_ends_the_row() {
        let mut undo = Undo { in_a_row: IN_A_ROW_MAX - 1, ..Undo::default() };
        assert!(undo.begin());
        undo.reduction = reduction();
        assert!(undo.begin());
        assert_eq!(undo.in_a_row, 0);
    }
    /// RFC 2883 §4: only the first block, and only below the acknowledgement or within the second block.
    #[test]
    fn a_duplicate_is_reported_by_the_first_block_alone() {
        let ack = Position::default() + 1000;
        let reported = |blocks: &[(u64, u64)]| {
            let blocks: Vec<_> = blocks
                .iter()
                .map(|&(left, right)| {
                    ((Position::default() + left).seq(), (Position::default() + right).seq())
                })
                .collect();
            let found = reported_duplicate(ack, &blocks);
            found.map(|(start, end)| (start.since(Position::default()), end.since(Position::default())))
        };
        for (blocks, expected) in [
            (&[(500, 1000)][..], Some((500, 1000))),
            (&[(500, 1001)], None),
            (&[(700, 700)], None),
            (&[(800, 700)], None),
            (&[(1500, 2000), (1500, 2000)], Some((1500, 2000))),
            (&[(1600, 1900), (1500, 2000)], Some((1600, 1900))),
            (&[(1499, 2000), (1500, 2000)], None),
            (&[(1500, 2001), (1500, 2000)], None),
            (&[(1500, 2000), (1200, 1300), (1500, 2000)], None),
            (&[], None),
        ] {
            assert_eq!(reported(blocks), expected, "{blocks:?}");
        }
    }
}
