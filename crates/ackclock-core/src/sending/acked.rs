//! Processes an acknowledgement: finds the data that it delivers and the losses that it shows, and reports
//! both to congestion control.

use std::time::Duration;

use ackclock_control::congestion::{self, Ack, LossCause, LossEpisode};
use ackclock_wire::SeqNum;

use super::delivery::interval_ns;
use super::doubt::{Doubt, PathRtt};
use super::episode::Episode;
use super::mtu_probe::MtuProbe;
use super::policy::{LossAnswer, LossFound, Policy, Progress, Seen};
use super::scoreboard::{AckOutcome, Marked, SendMoment};
use super::undo::{self, NewData};
use super::{Call, DUP_THRESH, Echo, Flight, Outstanding, Policies};
use crate::Instant;
use crate::position::Position;
use crate::trace::{Entry, LossRule, UndoRule, WindowCause};

/// The content of an acceptable acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgement<'a> {
    /// SEG.ACK.
    pub ack: Position,
    /// The SACK blocks, D-SACK first if there is one.
    pub sack: &'a [(SeqNum, SeqNum)],
    /// The timestamp echoed.
    pub echo: Option<Echo>,
    /// Whether the segment has neither text nor FIN.
    pub bare: bool,
    /// SND.WND, which this segment may have set.
    pub window: u32,
    /// Whether the window is unchanged.
    pub same_window: bool,
    /// Whether a closed window that had been probed has opened.
    pub reopened: bool,
    /// How many bytes of new data both the buffer and the peer's window allow.
    pub sendable: u64,
}

/// The result of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckNews {
    /// Bytes by which SND.UNA advanced.
    pub(crate) advanced: u64,
    /// Bytes in flight before it.
    prior_in_flight: u64,
    /// SND.WND.
    peer_window: u32,
    prior_una: Position,
    reports_duplicate: bool,
    outcome: AckOutcome,
}

/// An acknowledgement, as congestion control sees it.
struct Delivered<'a> {
    /// The newest transmission among the delivered data.
    pub moment: &'a SendMoment,
    /// Whether that data had been sent before.
    pub repeated: bool,
    /// Bytes delivered for the first time.
    pub bytes: u64,
    /// Bytes by which SND.UNA advanced.
    pub advanced: u64,
    /// The measured round trip.
    pub rtt_ns: Option<u64>,
    /// Bytes in flight before.
    pub prior_in_flight: u64,
    pub prior_una: Position,
    /// Bytes reported as marked.
    pub ecn_marked: u64,
}

impl Acknowledgement<'_> {
    /// The range reported as received twice (RFC 2883).
    #[inline]
    fn reported(&self) -> Option<(Position, Position)> {
        if self.sack.is_empty() { None } else { undo::reported_duplicate(self.ack, self.sack) }
    }
}

impl AckNews {
    /// Bytes delivered for the first time.
    #[inline]
    pub fn newly_acked(&self) -> u64 {
        self.outcome.newly_acked
    }
}

/// From this round trip on, a millisecond more or less does not matter.
const TICKS_MATTER: Duration = Duration::from_millis(10);

impl Flight {
    /// Part of the SYN exchange: `ack` is acknowledged, and no data with it.
    pub(crate) fn on_syn_acked(&mut self, ack: Position) {
        self.una = ack;
        self.nxt = self.nxt.max(ack);
    }

    /// The SYN of `sent_at` was answered `now`: a first round-trip sample.
    pub(crate) fn on_handshake_sample(&mut self, sent_at: Instant, now: Instant) {
        self.rto.estimator_mut().on_syn_acked(sent_at, now);
        self.delivery.set_path_rtt(PathRtt::measured(now.saturating_since(sent_at)));
    }

    /// Processes an acknowledgement and judges losses by it. Says whether it brings `news`; the connection
    /// then reports its marks with [`Self::on_marked`] and [`Self::tell_ack`].
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        call: &mut Call<'_>,
        seen: &Acknowledgement<'_>,
        news: &mut AckNews,
    ) -> bool {
        let prior_una = self.una;
        if seen.ack == prior_una && !self.has_data() {
            // Nothing is outstanding, so the only possible news is a duplicate.
            if seen.bare && seen.same_window {
                self.settle_probe_by_duplicate(seen.ack, seen.reported(), !seen.sack.is_empty());
            }
            if seen.reported().is_some() {
                // The last data of a stream is reported as received twice when nothing is outstanding any
                // more.
                call.trace.acked(call.now, seen.ack, false, seen.window, seen.sack);
            }
            self.process_duplicate_report(call, seen);
            return false;
        }
        news.prior_una = prior_una;
        news.prior_in_flight = self.in_flight();
        news.peer_window = seen.window;
        let outcome = &mut news.outcome;
        let mut advanced = 0;
        if seen.ack > prior_una {
            advanced = seen.ack.since(prior_una);
            self.scoreboard.on_cumulative_ack(seen.ack, outcome);
            self.una = seen.ack;
        }
        let heeds_sack = self.policy.heeds_sack();
        if heeds_sack && !seen.sack.is_empty() {
            self.process_sack_blocks(seen, outcome);
        }
        if seen.reopened {
            self.resend_into_opened_window(call);
        }
        if self.history.is_some() && !seen.sack.is_empty() {
            self.process_duplicate_report(call, seen);
            self.judge_mtu_probe_by_sack(call, seen);
        }
        // RFC 5681 §2: outstanding data, no text, no SYN or FIN, the same acknowledgement, the same window;
        // with SACK, news makes it count (RFC 6675 §2).
        let duplicate = seen.ack == prior_una
            && self.has_data()
            && seen.bare
            && if heeds_sack { outcome.newly_sacked > 0 } else { seen.same_window };
        if advanced == 0 && !duplicate && outcome.newly_acked == 0 && !outcome.duplicate_reported {
            return false;
        }
        news.advanced = advanced;
        let reported = seen.reported();
        news.reports_duplicate = reported.is_some();
        call.trace.acked(call.now, seen.ack, duplicate, seen.window, seen.sack);
        self.process_samples(call, seen, advanced, outcome);
        if advanced > 0 {
            self.restart_timer(call, seen.window > 0);
        }
        let undone =
            self.history.is_some() && self.judge_reduction(call, seen, prior_una, duplicate, outcome);
        if undone || self.answers_original(seen, outcome) {
            outcome.newest_is_original = outcome.newest_was_repeated;
        }
        let judged = Seen { advanced, duplicate, reported, reports_probe: false, outcome };
        self.judge_losses(call, judged, seen.window);
        true
    }

    /// RFC 6298 §5.3: the timer restarts when new data is acknowledged.
    #[inline]
    pub(crate) fn restart_timer(&mut self, call: &mut Call<'_>, window_open: bool) {
        self.rto.stop();
        self.run_timer(call, window_open);
    }

    /// RFC 8985 §6.2 step 2: for a retransmission the echoed timestamp shows that the first transmission
    /// arrived.
    fn answers_original(&self, seen: &Acknowledgement<'_>, outcome: &AckOutcome) -> bool {
        if !outcome.newest_was_repeated {
            return false;
        }
        // Data held beyond a gap is answered with the timestamp of the data before the gap.
        outcome.newest_any.as_ref().is_some_and(|(moment, end)| {
            *end <= self.una && seen.echo.is_some_and(|echo| echo.is_from_before(moment.at))
        })
    }

    fn process_sack_blocks(&mut self, seen: &Acknowledgement<'_>, outcome: &mut AckOutcome) {
        outcome.duplicate_reported = seen.reported().is_some();
        for &(left, right) in seen.sack {
            let (left, right) = (self.una.near(left), self.una.near(right));
            // A block that ends before it begins holds nothing.
            if self.una < left && right <= self.nxt {
                self.scoreboard.on_sack(left, right, outcome);
            }
        }
    }

    /// Data sent into the closed window was not accepted: it is sent again at once.
    fn resend_into_opened_window(&mut self, call: &mut Call<'_>) {
        if self.has_data() && !self.episode.in_recovery() {
            let lost = self.scoreboard.mark_first_lost();
            self.note_loss(call, LossRule::WindowReopened, &lost);
            if lost.bytes > 0 {
                self.episode.force();
            }
        }
    }

    #[inline]
    fn process_samples(
        &mut self,
        call: &mut Call<'_>,
        seen: &Acknowledgement<'_>,
        advanced: u64,
        outcome: &mut AckOutcome,
    ) {
        if advanced > 0 {
            self.rto.on_progress(call.now, self.is_outstanding());
        }
        self.sample_round_trip(call, seen, advanced, outcome);
        self.end_pause();
        self.delivery.on_ack(call.now, outcome);
    }

    /// RFC 9293 MUST-18: Karn's rule. Data sent once gives a sample; for data sent more often, only the
    /// echoed timestamp shows which transmission was answered (RFC 7323 §4.3).
    fn sample_round_trip(
        &mut self,
        call: &mut Call<'_>,
        seen: &Acknowledgement<'_>,
        advanced: u64,
        outcome: &mut AckOutcome,
    ) {
        let now = call.now;
        let across_pause = self.leave_out_pause(seen, outcome);
        let rtt = self.rto.estimator_mut();
        if seen.reported().is_some() || across_pause {
            // Either the duplicate drew this answer, and its stamp is older than the data's first arrival; or
            // part of the round trip lies in a pause.
            rtt.on_segment_retransmitted();
            return;
        }
        if outcome.retransmission_acked {
            rtt.on_segment_retransmitted();
        } else if let Some(sent_at) = outcome.newest_once {
            // Timing one segment at a time depends on cumulative acknowledgements: a selective one does not
            // say whether it was that segment.
            let counts = !rtt.times_one_segment() || outcome.newly_sacked == 0;
            if counts && rtt.on_segment_acked(sent_at, now) {
                let undo = self.history.as_mut().map(|history| &mut history.undo);
                if let Some(before) = undo.and_then(|undo| undo.take_adaptation(sent_at)) {
                    rtt.adapt_to_spurious_expiry(before.srtt, before.rttvar);
                }
                call.trace.round_trip(now, rtt);
            }
            return;
        }
        // RFC 7323 §4.1: only an acknowledgement that advances SND.UNA. Short round trips come only from data
        // sent once, unless the path has become slower than assumed.
        if advanced > 0
            && !rtt.times_one_segment()
            && let Some(sample) = round_trip_by_stamp(now, seen, outcome)
            && (sample >= TICKS_MATTER || sample > rtt.srtt())
        {
            rtt.on_sample(sample);
            call.trace.round_trip(now, rtt);
        }
    }

    /// The stack was paused until `now`, so ACKs may have arrived at any time since; take no RTT sample. A
    /// peer that is given up after a wait of `limit` has at least one timeout left.
    pub(crate) fn on_pause(&mut self, now: Instant, limit: Duration) {
        self.rto.on_pause(now, limit);
        if self.is_outstanding() {
            self.rto.estimator_mut().on_segment_retransmitted();
            self.history.get_or_insert_default().resumed = Some(now);
        }
    }

    /// Whether what left at `at` left before a pause.
    pub(crate) fn left_before_pause(&self, at: Instant) -> bool {
        self.history.as_ref().and_then(|history| history.resumed).is_some_and(|resumed| at < resumed)
    }

    /// Removes samples of data that left before a pause. Returns whether all delivered data did, or the
    /// echoed segment.
    fn leave_out_pause(&self, seen: &Acknowledgement<'_>, outcome: &mut AckOutcome) -> bool {
        let Some(resumed) = self.history.as_ref().and_then(|history| history.resumed) else { return false };
        outcome.newest_once = outcome.newest_once.filter(|at| *at >= resumed);
        outcome.newest_any.as_ref().is_some_and(|(moment, _)| moment.at < resumed)
            || seen.echo.is_some_and(|echo| echo.is_from_before(resumed))
    }

    /// Once all that is out left after the pause, nothing has to remember it.
    fn end_pause(&mut self) {
        let Some(history) = &mut self.history else { return };
        let before = |resumed: &Instant| self.scoreboard.first_sent_at().is_some_and(|at| at < *resumed);
        history.resumed = history.resumed.filter(before);
    }

    /// Judges losses after an acknowledgement that advanced SND.UNA, was a duplicate, or reported either.
    #[inline]
    fn judge_losses(&mut self, call: &mut Call<'_>, mut seen: Seen<'_>, peer_window: u32) {
        self.episode.count(seen.advanced, seen.duplicate);
        if !self.episode.is_open() {
            self.end_episode_if_done(call);
        }
        if seen.duplicate && !self.policy.heeds_sack() && self.episode.in_slow_start() {
            self.episode.count_new_data(self.nxt, self.scoreboard.pipe(), u64::from(self.smss));
        }
        // RFC 5681 §3.1 (4): FlightSize is what was outstanding when the loss was detected, before this
        // acknowledgement.
        let flight_size = self.flight_size().saturating_add(seen.advanced);
        let outstanding = Outstanding { flight_size, peer_window };
        seen.reports_probe = self.end_tail_probe(call, &seen, outstanding);
        let found = if self.judge_mtu_probe(call, &seen) {
            None
        } else {
            self.with_evidence(call.now, &seen, Policies::on_ack)
        };
        let safe = seen.advanced > 0 && found.is_none();
        if let Some(found) = found {
            self.process_loss(call, found, outstanding);
        }
        self.regulate(Some(seen.outcome.newly_acked), safe);
        self.arm_tail_probe(call.now);
        if seen.advanced > 0 {
            self.episode.note_advance(seen.advanced);
        }
    }

    /// Tells the policy how much was delivered, or that a timer found a loss, after congestion control has
    /// set its threshold.
    pub(super) fn regulate(&mut self, delivered: Option<u64>, safe: bool) {
        let Some(episode) = self.episode.recovery_point() else { return };
        let (ssthresh, smss) = (self.control.ssthresh(), u64::from(self.smss));
        self.policy.regulate(&self.scoreboard, &Progress { episode, delivered, safe, ssthresh, smss });
    }

    /// The acknowledgement reported marks. They are answered like a loss, once a window of data, and not in a
    /// window whose loss has been answered (RFC 3168 §6.1.2). Nothing is retransmitted, and the answer is
    /// never taken back. Returns whether they are answered now.
    pub(crate) fn on_marked(&mut self, call: &mut Call<'_>, news: &AckNews) -> bool {
        if self.mark.is_some() || !self.episode.is_open() {
            return false;
        }
        let before = self.control.cwnd();
        if let Some(history) = &mut self.history {
            history.undo.let_reduction_stand();
        }
        self.control.on_loss_episode(&LossEpisode {
            now: call.now,
            cause: LossCause::EcnEcho,
            flight_size: news.prior_in_flight,
            peer_window: news.peer_window.into(),
            bytes_lost: 0,
            delivered: self.delivery.bytes(),
            repeated: false,
        });
        self.trace_window(call, WindowCause::Marked);
        self.mark_in_full = self.control.cwnd() <= before.saturating_sub(before / 4);
        self.mark = Some(self.nxt);
        self.reduced = true;
        true
    }

    /// Something sent after the answer to a mark is acknowledged. Until then the classic echo repeats the
    /// same mark, because the receiver has not seen CWR.
    pub(crate) fn end_marked_window(&mut self, call: &mut Call<'_>) {
        if self.mark.is_some_and(|point| self.una > point) {
            self.mark = None;
            self.tell_recovery_end(call);
        }
    }

    /// Tells congestion control about the acknowledgement, which reported `ecn_marked` bytes as marked.
    #[inline(never)]
    pub(crate) fn tell_ack(&mut self, call: &mut Call<'_>, news: &AckNews, ecn_marked: u64) {
        let outcome = &news.outcome;
        let Some((moment, _)) = &outcome.newest_any else { return };
        self.tell_delivered(
            call,
            &Delivered {
                moment,
                repeated: outcome.newest_was_repeated,
                bytes: outcome.newly_acked,
                advanced: news.advanced,
                rtt_ns: outcome
                    .newest_once
                    .filter(|_| !outcome.retransmission_acked && !news.reports_duplicate)
                    .map(|sent_at| call.now.nanos_since(sent_at)),
                prior_in_flight: news.prior_in_flight,
                prior_una: news.prior_una,
                ecn_marked,
            },
        );
    }

    /// Tells congestion control what was delivered.
    // Always inlined, for the row "acknowledgement received" of the counted instructions.
    #[inline(always)]
    fn tell_delivered(&mut self, call: &mut Call<'_>, delivered: &Delivered<'_>) {
        let Delivered { moment, repeated, bytes, advanced, rtt_ns, prior_in_flight, prior_una, ecn_marked } =
            *delivered;
        let is_early = self.delivery.is_early(call.now, moment, repeated);
        if is_early && call.tcp.choices.pacing && self.doubts(call.now) {
            return;
        }
        let (now, estimator) = (call.now, self.rto.estimator());
        let ack = Ack {
            now,
            bytes_acked: bytes,
            bytes_cumulative: advanced,
            rtt_ns,
            srtt_ns: estimator.srtt_nanos(),
            rtt_min_ns: estimator.rtt_min_nanos(),
            delivered: self.delivery.bytes(),
            prior_delivered: moment.delivered,
            sent_at: moment.at,
            delivery_interval_ns: interval_ns(now, moment),
            app_limited: moment.app_limited,
            tx_in_flight: u64::from(moment.in_flight),
            lost: self.delivery.lost_since(moment),
            prior_in_flight,
            in_flight: self.in_flight(),
            cwnd_limited: self.delivery.was_cwnd_limited(prior_una),
            in_recovery: self.episode.in_recovery() || self.mark.is_some(),
            ecn_marked,
        };
        self.control.on_ack(&ack, call.tcp, self.smss);
        self.trace_window(call, WindowCause::Acked);
    }

    /// A router could not carry what is outstanding. It is sent again in smaller segments; this does not
    /// indicate congestion.
    pub(crate) fn on_too_big(&mut self, call: &mut Call<'_>) {
        if self.has_data() {
            let lost = self.scoreboard.mark_all_lost(false);
            self.note_loss(call, LossRule::TooBig, &lost);
            self.episode.force();
        }
    }
}

// The common case: an acknowledgement that only advances SND.UNA while nothing is unusual. [`Flight::on_ack`]
// and [`Flight::tell_ack`] would ask these questions:
//
// | question | the answer here |
// |---|---|
// | SACK blocks, duplicates, reports of either | there are none: [`Predicted`](ackclock_wire::Predicted) has no such option |
// | what was retransmitted, lost, or held beyond a gap | `Scoreboard::on_plain_ack` takes none of it |
// | an episode: its end, its inflation, PRR | `Episode::is_plain` |
// | probes of the tail and of the path; undo; F-RTO; Eifel | none has an answer to come |
// | what the policy finds to be lost | nothing, as `Policy::trusts_advances` says beforehand |
// | marks, the trace | ECN is not agreed on; it is off |
//
// The rest is what V. Jacobson's receiver did ("4BSD TCP Header Prediction", Computer Communication Review
// 20(2), 1990; not read, cited by its title), plus a delivery rate: the front of the scoreboard is removed,
// one round trip is measured, congestion control is called once, and the timers restart.
//
// For the row "acknowledgement received" of `scripts/instructions.py`: 1,600 without it, 1,251 with it
// (ffb68938).
impl Flight {
    /// Processes an acknowledgement of everything before `ack`, which is beyond SND.UNA. Returns whether it
    /// did; if not, nothing has changed, and [`Self::on_ack`] must process it.
    // Always inlined, for the row "acknowledgement received" of the counted instructions.
    #[inline(always)]
    pub(crate) fn on_advance(&mut self, call: &mut Call<'_>, ack: Position, window_open: bool) -> bool {
        let (now, prior_una, prior_in_flight) = (call.now, self.una, self.in_flight());
        if !self.expects_plain_acks() {
            return false;
        }
        let Some(moment) = self.scoreboard.on_plain_ack(prior_una, ack) else { return false };
        let advanced = ack.since(prior_una);
        self.una = ack;
        self.rto.on_progress(now, self.is_outstanding());
        // RFC 9293 MUST-18: Karn's rule. It was sent once.
        self.rto.estimator_mut().on_segment_acked(moment.at, now);
        self.delivery.on_delivered(now, advanced, &moment, false);
        self.restart_timer(call, window_open);
        self.probe.on_answer();
        self.policy.on_advance(now, moment.at, ack);
        self.arm_tail_probe(now);
        self.episode.note_advance(advanced);
        self.tell_delivered(
            call,
            &Delivered {
                moment: &moment,
                repeated: false,
                bytes: advanced,
                advanced,
                rtt_ns: Some(now.nanos_since(moment.at)),
                prior_in_flight,
                prior_una,
                ecn_marked: 0,
            },
        );
        true
    }

    /// Whether an acknowledgement that advances can have no other meaning.
    #[inline]
    fn expects_plain_acks(&self) -> bool {
        self.episode.is_plain()
            && self.mark.is_none()
            && !self.awaits_probe_answer()
            && self.history.as_ref().is_none_or(|history| history.is_plain())
            && self.policy.trusts_advances(&self.scoreboard)
    }
}

// Reads an acknowledgement's proof that a reduction was a mistake (RFC 4015), and decides whether to believe
// it.
impl Flight {
    /// Looks for a duplicate that the peer reports.
    fn process_duplicate_report(&mut self, call: &mut Call<'_>, seen: &Acknowledgement<'_>) {
        let Some(history) = self.history.as_mut() else { return };
        let Some(reported) = undo::reported_duplicate(seen.ack, seen.sack) else { return };
        // A window from before a pause is no longer the controller's (RFC 5681 §4.1).
        let rto = self.rto.estimator().rto();
        let paused = self.sent_at.is_none_or(|at| call.now.saturating_since(at) > rto);
        if history.undo.on_report(reported, self.scoreboard.lost() == 0) && !paused {
            self.undo_reduction(call, UndoRule::Dsack);
        }
    }

    /// Judges the last reduction by an acknowledgement. Returns whether it was undone.
    fn judge_reduction(
        &mut self,
        call: &mut Call<'_>,
        seen: &Acknowledgement<'_>,
        prior_una: Position,
        duplicate: bool,
        outcome: &AckOutcome,
    ) -> bool {
        let Some(history) = &mut self.history else { return false };
        let rtt_min = self.rto.estimator().rtt_min();
        let first = history.undo.judge_first_answer(call, self.una, seen.echo, rtt_min);
        let proof = first.or_else(|| {
            history.undo.judge_by_new_data(&NewData {
                una: self.una,
                prior_una,
                duplicate,
                held_up_to: outcome.newest_any.filter(|_| !outcome.newest_was_repeated).map(|(_, end)| end),
                sack: self.policy.heeds_sack(),
                sendable: seen.sendable >= u64::from(self.smss),
            })
        });
        proof.map(|rule| self.undo_reduction(call, rule)).is_some()
    }

    /// The reduction is taken back.
    fn undo_reduction(&mut self, call: &mut Call<'_>, rule: UndoRule) {
        let taken = self.history.as_mut().and_then(|history| history.undo.revert(rule));
        let Some(by_timer) = taken else { return };
        if !self.episode.is_open() {
            self.scoreboard.on_undo();
        }
        // RFC 6582's recover is unset: a loss among what is outstanding would be the first.
        self.episode = Episode::default();
        self.policy.on_undo(self.una, self.nxt, by_timer);
        // Deviation from RFC 4015 step 9: cwnd is what it was, not FlightSize + min(bytes_acked, IW). The
        // flight is outstanding again, so that no burst follows; after a report of duplicates, one of the
        // difference may.
        call.trace.note(call.now, Entry::Undone(rule));
        self.control.on_undo(&congestion::Undo { now: call.now });
        self.trace_window(call, WindowCause::Undone);
        if by_timer {
            // Estimators that adapt their factor must learn of it.
            self.rto.estimator_mut().on_spurious_expiry();
        }
        self.arm_tail_probe(call.now);
    }

    /// An early acknowledgement advanced SND.UNA, or reported something. Returns whether to doubt it.
    #[cold]
    fn doubts(&mut self, now: Instant) -> bool {
        let (una, nxt, compared) = (self.una, self.nxt, self.delivery.path_rtt());
        let history = self.history.get_or_insert_default();
        let doubt = history.doubt.get_or_insert_with(|| Box::new(Doubt::new(now)));
        let Some(proven) = doubt.judge(now, una, nxt, compared) else { return true };
        self.delivery.set_path_rtt(proven);
        history.doubt = None;
        // The present wait was computed from the slow rate.
        self.pacing.forget();
        false
    }
}

// An acknowledgement's verdict on probes of the tail (RFC 8985 §7.4) and of the path's MTU (RFC 4821).
impl Flight {
    /// RFC 8985 §7.4.2, TLP_process_ack: decides from an acknowledgement whether the probes in flight
    /// repaired a loss. One that covers exactly the repeated data leaves that open. Returns whether it
    /// reports a probe's copy.
    #[inline]
    fn end_tail_probe(&mut self, call: &mut Call<'_>, seen: &Seen<'_>, outstanding: Outstanding) -> bool {
        // A report of only a probe's copy does not count, or probes that arrive would delay the timeout for
        // ever.
        if seen.advanced > 0 || seen.outcome.newly_acked > 0 {
            self.probe.on_answer();
        }
        let is_copy = seen.reported.is_some_and(|reported| self.process_copy_report(reported));
        let end = self.probe.end();
        if self.una > end && self.probe.is_undecided() {
            self.probe.settle();
            self.process_repaired_loss(call, seen.outcome, end, outstanding);
        }
        is_copy
    }

    /// A duplicate acknowledgement of `ack` while nothing is outstanding. Cases 1 and 2 of RFC 8985 §7.4.2:
    /// with a report of a probe's copy, or without any SACK option, both the original and the copy arrived.
    pub(super) fn settle_probe_by_duplicate(
        &mut self,
        ack: Position,
        reported: Option<(Position, Position)>,
        has_sack: bool,
    ) {
        match reported {
            _ if ack < self.probe.end() => {}
            Some(reported) => {
                self.process_copy_report(reported);
            }
            None if !has_sack => self.probe.settle(),
            None => {}
        }
    }

    /// Case 1 of RFC 8985 §7.4.2: a probe's copy is reported as a duplicate. Returns whether this report is
    /// of one.
    fn process_copy_report(&mut self, reported: (Position, Position)) -> bool {
        let is_copy = self.history.as_mut().is_some_and(|history| history.copies.take(reported));
        if is_copy {
            self.probe.on_copy_reported();
        }
        is_copy
    }

    /// Reports the loss of data before `end` to congestion control, as any loss, although the probe has
    /// repaired it.
    fn process_repaired_loss(
        &mut self,
        call: &mut Call<'_>,
        outcome: &AckOutcome,
        end: Position,
        outstanding: Outstanding,
    ) {
        if !self.episode.is_open() {
            return;
        }
        let bytes = u64::from(self.smss);
        let newest = outcome.newest_any.map(|(moment, _)| moment);
        let marked = Marked { bytes, newest, span: Some((end.back(bytes), end)) };
        let answer = LossAnswer::Episode { cause: LossCause::Reordering, bytes_lost: bytes };
        let found = LossFound { rule: LossRule::TailProbe, marked, answer, left_network: None };
        self.process_loss(call, found, outstanding);
        self.end_episode_if_done(call);
    }

    /// Whether it is undecided if a probe in flight repaired a loss.
    #[inline]
    pub(crate) fn awaits_probe_answer(&self) -> bool {
        self.probe.is_undecided()
    }

    /// Without SACK, judges by an acknowledgement whether a probe is lost. Returns whether to skip the
    /// policy, because SND.UNA waits for the probe.
    #[inline]
    fn judge_mtu_probe(&mut self, call: &mut Call<'_>, seen: &Seen<'_>) -> bool {
        let Some(probe) = self.mtu_probe() else { return false };
        self.judge_hole(call, seen, probe)
    }

    #[cold]
    fn judge_hole(&mut self, call: &mut Call<'_>, seen: &Seen<'_>, probe: MtuProbe) -> bool {
        if self.policy.heeds_sack() || !self.episode.is_open() {
            return false;
        }
        if !probe.holds(self.una) {
            // The room from duplicates ends with them, as in fast recovery.
            self.episode.limit_transmit(0);
            return false;
        }
        let shown = self.episode.dup_acks() >= DUP_THRESH;
        if shown && !probe.is_lost() {
            self.resend_mtu_probe(call, LossRule::DuplicateAcks);
        }
        if (shown || probe.is_lost()) && seen.duplicate {
            // RFC 5681 §3.2 (4), without the preceding reduction: a segment has left the network.
            let bytes = u64::from(self.smss).saturating_mul(u64::from(self.episode.dup_acks()));
            self.episode.limit_transmit(bytes.min(self.scoreboard.pipe()));
        }
        true
    }

    /// The policy in force does not use SACKs, but the peer sends them: three segments held beyond the probe
    /// show the loss (RFC 6675 §4 IsLost).
    #[cold]
    fn judge_mtu_probe_by_sack(&mut self, call: &mut Call<'_>, seen: &Acknowledgement<'_>) {
        let Some(probe) = self.mtu_probe() else { return };
        if self.policy.heeds_sack() || !self.episode.is_open() || probe.is_lost() || !probe.holds(self.una) {
            return;
        }
        let blocks = seen.sack.iter().map(|&(left, right)| (self.una.near(left), self.una.near(right)));
        let beyond = blocks.filter(|&(left, right)| probe.end() <= left && right <= self.nxt);
        let bytes: u64 = beyond.map(|(left, right)| right.since(left)).sum();
        if bytes >= self.dup_thresh_bytes() {
            self.resend_mtu_probe(call, LossRule::SackEvidence);
        }
    }

    /// The probe is lost: sends its data again, and informs nothing else.
    fn resend_mtu_probe(&mut self, call: &mut Call<'_>, rule: LossRule) {
        let marked = self.scoreboard.mark_first_lost();
        self.note_loss(call, rule, &marked);
        if let Some(probe) = self.history.as_mut().and_then(|history| history.mtu_probe.as_mut()) {
            probe.excuse(self.una);
        }
        self.episode.force();
    }
}

/// The shortest round trip consistent with the echoed timestamp and the sending times of the acknowledged
/// data: a timestamp counts milliseconds, which may be many round trips.
fn round_trip_by_stamp(now: Instant, seen: &Acknowledgement<'_>, outcome: &AckOutcome) -> Option<Duration> {
    let (least, most) = seen.echo?.age(now)?;
    let since = |at| now.saturating_since(at);
    // The answered segment left no later than the newest transmission, and it took no longer than data sent
    // once.
    let (newest, _) = outcome.newest_any?;
    let once = outcome.newest_once.map_or(most, since);
    Some(least.max(since(newest.at)).min(most).min(once))
}
