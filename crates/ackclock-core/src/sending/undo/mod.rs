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
//! What a lying peer can gain: an undo restores what the controller had and never more. There is one undo per
//! episode, and a timeout within it, or a mark, begins another. An echo must name a segment of the flight, a
//! report exactly what was retransmitted. A receiver that lies within these bounds could still keep a window
//! up through losses, so one of [`IN_A_ROW_MAX`] + 1 consecutive reductions always stands (RFC 3522 §5,
//! RFC 3708 §5). Other senders only have the first bounds. Paths that reorder do not reach the last: each
//! undo of a fast retransmit widens RACK's window.
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

use ackclock_control::congestion;
use ackclock_control::profile::UndoChoice;
use ackclock_wire::SeqNum;

use self::dsack::Reports;
use self::eifel::Eifel;
use self::frto::{Frto, FrtoOutcome, Seen};
use super::echo::clock;
use super::episode::Episode;
use super::policy::Policy;
use super::scoreboard::AckOutcome;
use super::{Acknowledgement, Call, Flight};
use crate::Instant;
use crate::info::UndoCounts;
use crate::position::Position;
use crate::trace::{Entry, SendReason, UndoRule, WindowCause};

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
    at: Instant,
    pub(super) srtt: Duration,
    pub(super) rttvar: Duration,
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
    pub(super) fn counts(&self) -> UndoCounts {
        self.counts
    }

    /// Whether no acknowledgement that only advances SND.UNA can say more about the last reduction.
    pub(super) fn is_settled(&self) -> bool {
        let is_judged = |reduction: &Reduction| {
            reduction.answered && reduction.frto.is_none() && reduction.reports.is_none()
        };
        self.adaptation.is_none() && self.reduction.as_ref().is_none_or(is_judged)
    }

    /// The most bytes that the reports of duplicates take.
    pub(super) fn bytes(&self) -> usize {
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
    pub(super) fn let_reduction_stand(&mut self) {
        if self.reduction.take().is_some() {
            self.in_a_row = 0;
        }
    }

    /// `start..end` was retransmitted.
    pub(super) fn on_retransmitted(
        &mut self,
        now: Instant,
        start: Position,
        end: Position,
        reason: SendReason,
    ) {
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
    pub(super) fn take_adaptation(&mut self, sent_at: Instant) -> Option<BeforeTimeout> {
        self.adaptation.take_if(|before| before.at < sent_at)
    }

    /// The episode is over. Only reports of duplicates may still undo it.
    pub(super) fn on_episode_end(&mut self, nxt: Position) {
        if let Some(reduction) = &mut self.reduction {
            reduction.frto = None;
            reduction.answered = true;
            reduction.until.get_or_insert(nxt);
        }
    }

    /// RFC 5682 §2.1 (1): the timer retransmits the first segment, and not as many as a device cuts.
    pub(super) fn retransmits_alone(&self) -> bool {
        self.reduction.as_ref().is_some_and(|reduction| reduction.frto.is_some() && reduction.first.is_none())
    }

    /// RFC 5682: until the timeout is judged, only its first segment is retransmitted.
    pub(super) fn holds_retransmissions(&self) -> bool {
        self.reduction.as_ref().is_some_and(|reduction| reduction.frto.is_some() && reduction.first.is_some())
    }
}

impl Flight {
    /// The window is about to be reduced, before any retransmission.
    pub(super) fn watch_reduction(&mut self, call: &Call<'_>, by_timer: bool) {
        let choice = call.tcp.choices.undo;
        if choice == UndoChoice::default() {
            return;
        }
        let undo = &mut self.history.get_or_insert_default().undo;
        if by_timer && self.rto.expiries() > 1 {
            // Still the same reduction. RFC 5682 §2.1 (1): a second expiry ends F-RTO.
            if let Some(reduction) = &mut undo.reduction {
                reduction.frto = None;
            }
            return;
        }
        if !undo.begin() {
            return;
        }
        // RFC 5682 §2.1 (1): no step 2 when the timer expires during its own recovery.
        let frto = by_timer && choice.frto && !self.episode.in_slow_start();
        let rtt = self.rto.estimator();
        let before = || BeforeTimeout { at: call.now, srtt: rtt.srtt(), rttvar: rtt.rttvar() };
        undo.reduction = Some(Reduction {
            timeout: by_timer.then(before),
            una: self.una,
            nxt: self.nxt,
            oldest: self.scoreboard.first_sent_at().map(clock),
            first: None,
            answered: false,
            frto: frto.then_some(Frto::First),
            reports: (choice.dsack && self.sack).then(Reports::default),
            until: None,
        });
    }

    /// Looks for a duplicate that the peer reports.
    pub(super) fn take_duplicate_report(&mut self, call: &mut Call<'_>, seen: &Acknowledgement<'_>) {
        let Some(history) = self.history.as_mut() else { return };
        let Some((start, end)) = reported_duplicate(seen.ack, seen.sack) else { return };
        // A window from before a pause is no longer the controller's (RFC 5681 §4.1).
        let rto = self.rto.estimator().rto();
        let paused = self.sent_at.is_none_or(|at| call.now.saturating_since(at) > rto);
        let Some(reduction) = &mut history.undo.reduction else { return };
        // A timeout held everything to be lost at once: if all retransmissions so far are reported, the rest
        // arrived as well.
        let all_sent_again = self.scoreboard.lost() == 0 || reduction.timeout.is_some();
        let Some(reports) = reduction.reports.as_mut().filter(|_| end > reduction.una) else { return };
        if reports.on_report(start, end) && all_sent_again && !paused {
            self.undo_reduction(call, UndoRule::Dsack);
        }
    }

    /// Judges the last reduction by an acknowledgement. Returns whether it was undone.
    pub(super) fn judge_reduction(
        &mut self,
        call: &mut Call<'_>,
        seen: &Acknowledgement<'_>,
        prior_una: Position,
        duplicate: bool,
        outcome: &AckOutcome,
    ) -> bool {
        let proof = self
            .judge_first_answer(call, seen)
            .or_else(|| self.judge_by_new_data(seen, prior_una, duplicate, outcome));
        proof.map(|rule| self.undo_reduction(call, rule)).is_some()
    }

    /// RFC 3522 §3.2 (3): only the first acknowledgement that covers the first retransmission decides.
    fn judge_first_answer(&mut self, call: &Call<'_>, seen: &Acknowledgement<'_>) -> Option<UndoRule> {
        let una = self.una;
        let reduction = self.history.as_mut()?.undo.reduction.as_mut()?;
        if reduction.until.is_some_and(|until| una > until) {
            reduction.reports = None;
        }
        let first = reduction.first.filter(|first| !reduction.answered && una > first.start)?;
        reduction.answered = true;
        let flight = reduction.oldest.map(|oldest| Eifel { oldest, retransmission: clock(first.at) });
        let by_stamp =
            flight.zip(seen.echo).is_some_and(|(flight, echo)| flight.answers_original(echo.ticks()));
        let (after, rtt_min) = (call.now.saturating_since(first.at), self.rto.estimator().rtt_min());
        let by_time = |quarters| min_rtt::answers_original(after, rtt_min, quarters);
        if call.tcp.choices.undo.timestamps && by_stamp {
            return Some(UndoRule::Timestamps);
        }
        call.tcp.choices.undo.min_rtt_quarters.is_some_and(by_time).then_some(UndoRule::MinRtt)
    }

    fn judge_by_new_data(
        &mut self,
        seen: &Acknowledgement<'_>,
        prior_una: Position,
        duplicate: bool,
        outcome: &AckOutcome,
    ) -> Option<UndoRule> {
        let sack = self.policy.heeds_sack();
        let reduction = self.history.as_mut()?.undo.reduction.as_mut()?;
        let (frto, first) = (reduction.frto?, reduction.first?);
        let judged = frto.on_ack(&Seen {
            una: self.una,
            prior_una,
            retransmitted: (first.start, first.end),
            recover: reduction.nxt,
            duplicate,
            held_up_to: outcome.newest_any.filter(|_| !outcome.newest_was_repeated).map(|(_, end)| end),
            sack,
            new_data: seen.sendable >= u64::from(self.smss),
        });
        reduction.frto = match judged {
            FrtoOutcome::Wait(frto) => Some(frto),
            FrtoOutcome::Spurious | FrtoOutcome::Abandon => None,
        };
        (judged == FrtoOutcome::Spurious).then_some(UndoRule::Frto)
    }

    /// The reduction is taken back.
    fn undo_reduction(&mut self, call: &mut Call<'_>, rule: UndoRule) {
        let Some(history) = &mut self.history else { return };
        let undo = &mut history.undo;
        let Some(reduction) = undo.reduction.take() else { return };
        undo.counts.add(rule);
        undo.adaptation = reduction.timeout.or(undo.adaptation);
        undo.in_a_row = undo.in_a_row.saturating_add(1);
        if !self.episode.is_open() {
            self.scoreboard.on_undo();
        }
        // RFC 6582's recover is unset: a loss among what is outstanding would be the first.
        self.episode = Episode::default();
        self.policy.on_undo(self.una, self.nxt, reduction.timeout.is_some());
        // Deviation from RFC 4015 step 9: cwnd is what it was, not FlightSize + min(bytes_acked, IW). The
        // flight is outstanding again, so that no burst follows; after a report of duplicates, one of the
        // difference may.
        call.trace.note(call.now, Entry::Undone(rule));
        self.control.on_undo(&congestion::Undo { now: call.now });
        self.trace_window(call, WindowCause::Undone);
        if reduction.timeout.is_some() {
            // Estimators that adapt their factor must learn of it.
            self.rto.estimator_mut().on_spurious_expiry();
        }
        self.arm_tail_probe(call.now);
    }
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
