//! The sending side's memory: which data is outstanding, which is held to be lost, and when more may leave.
//!
//! A [`Flight`] is the data between SND.UNA and SND.NXT. It does not know segments, headers or buffers. The
//! connection reports transmissions ([`Flight::on_sent`]), acknowledgements ([`Flight::on_ack`]) and the
//! passing of time ([`Flight::on_timer`]). The flight answers how much may leave ([`Flight::room`]), which
//! data to retransmit ([`Flight::next_resend`]) and when to call it again ([`Flight::next_timeout`]).
//!
//! | question | file |
//! |---|---|
//! | What happened to each transmission? | [`scoreboard`], with [`records`] |
//! | When does the retransmission timer expire? | [`rto`], its only writer |
//! | Is a loss episode under way, and where does it end? | [`episode`] |
//! | Which segments are lost? | [`policy`], a file for each |
//! | Was the tail lost? | [`probe`] |
//! | Was a reduction wrong? | [`undo`], a file for each proof |
//! | How fast does data arrive? | [`delivery`] |
//! | What does congestion control learn? | [`control`] |
//! | How is what leaves spaced? | [`pacer`] |
//! | Does the peer acknowledge what it cannot have? | [`doubt`] |
//! | Was a probe of the path's MTU lost because of its size? | [`mtu_probe`] |
//!
//! A policy returns the loss that it found. Only the flight tells congestion control, undo and the trace.

mod acked;
mod control;
mod delivery;
mod doubt;
mod echo;
mod episode;
mod mtu_probe;
mod pacer;
mod policy;
mod probe;
mod records;
mod rto;
mod scoreboard;
ackclock_form::form! {
    struct Flight {
        una, nxt, smss as smss, sack, reduced, mark_in_full, restarted, scoreboard, rto, episode, policy,
        probe, delivery, pacing, control, mark, history, sent_at
    } => |flight| flight.is_sound();
    struct History {
        losses as lifetime, episodes as lifetime, timeouts as lifetime, undo, copies, mtu_probe, doubt,
        resumed, syn_repeated
    }
}

#[cfg(test)]
mod scoreboard_tests;
mod sent;
#[cfg(test)]
mod tests;
mod undo;

use std::time::Duration;

use ackclock_control::congestion::{Controller, LossCause, LossEpisode, RecoveryEnd, Start, Timeout};
use ackclock_control::profile::{Recovery, UndoChoice};
use ackclock_control::rtt::{RtoConfig, RttEstimator};
use ackclock_control::tally::Tally;
use ackclock_control::time::nanos;
use ackclock_form::lifetime;

use self::control::Control;
use self::control::smss;
use self::delivery::Delivery;
use self::doubt::Doubt;
use self::episode::{Episode, Phase};
use self::mtu_probe::MtuProbe;
pub(crate) use self::mtu_probe::ProbeOutcome;
pub(crate) use self::pacer::Pacer;
use self::pacer::Pacing;
use self::policy::{Evidence, LossAnswer, LossFound, Policies, Policy, Seen};
use self::probe::{Copies, TailProbe};
use self::rto::Rto;
use self::scoreboard::{AckOutcome, Marked, Scoreboard};
use self::undo::{BeforeTimeout, Reduced, Undo};
use crate::info::FlightInfo;
use crate::position::Position;
use crate::trace::{Entry, LossCounts, LossRule, Timer, Trace, WindowCause};
use crate::{Instant, TcpConfig};

pub(crate) use self::acked::{AckNews, Acknowledgement};
pub(crate) use self::echo::{Echo, clock};
pub(crate) use self::sent::{Chosen, Departure, Offer};

/// DupThresh of RFC 6675 and RFC 5681 §3.2.
const DUP_THRESH: u32 = 3;

/// The most of `bytes` that fills whole segments of `segment` bytes.
#[inline]
pub(crate) fn whole_segments(bytes: u64, segment: u64) -> u64 {
    bytes.saturating_sub(bytes.checked_rem(segment).unwrap_or(0))
}

/// `number` quarters of `time`.
fn quarters(time: Duration, number: u32) -> Duration {
    Duration::from_nanos((nanos(time) / 4).saturating_mul(number.into()))
}

/// Parts of the connection that the flight borrows for one call.
pub(crate) struct Call<'a> {
    pub now: Instant,
    pub tcp: &'a TcpConfig,
    pub trace: &'a mut Trace,
}

/// The sizes that congestion control needs when a loss is found.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    /// RFC 5681's FlightSize, before what led to it.
    flight_size: u64,
    /// SND.WND.
    peer_window: u32,
}

/// Everything sent and not acknowledged, and the rules by which more may follow.
#[derive(Debug)]
pub(crate) struct Flight {
    /// SND.UNA: oldest unacknowledged.
    una: Position,
    /// SND.NXT: next to send.
    nxt: Position,
    /// The sender's maximum segment size in bytes, options excluded (RFC 5681's SMSS).
    smss: u32,
    /// Whether the peer sends SACKs.
    sack: bool,
    /// Whether congestion control has reduced the window since the connection's last query.
    reduced: bool,
    /// The last answer to an ECN mark reduced the window as much as a loss would have.
    mark_in_full: bool,
    /// The controller knows about the pause that the next data ends.
    restarted: bool,
    scoreboard: Scoreboard,
    rto: Rto,
    episode: Episode,
    policy: Policies,
    probe: TailProbe,
    delivery: Delivery,
    pacing: Pacing,
    control: Control,
    /// The answer to an ECN mark is under way until something beyond this is acknowledged.
    mark: Option<Position>,
    /// Present once something was lost, or a probe left.
    history: Option<Box<History>>,
    sent_at: Option<Instant>,
}

/// When each timer of the sending side expires; the far future if it does not run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiries {
    pub retransmission: Instant,
    pub reordering: Instant,
    pub tail_probe: Instant,
    pub pacing: Instant,
}

/// State that a connection without a loss or a probe does not need.
#[derive(Debug, Default)]
struct History {
    /// Bytes found to be lost, by rule.
    losses: LossCounts,
    episodes: u64,
    timeouts: u64,
    undo: Undo,
    copies: Copies,
    mtu_probe: Option<MtuProbe>,
    doubt: Option<Box<Doubt>>,
    /// When the stack went on after a pause, while something from before it is out.
    resumed: Option<Instant>,
    /// The SYN, or the SYN,ACK, left more than once.
    syn_repeated: bool,
}

impl Flight {
    /// Nothing is outstanding yet. The first number to send is `iss`.
    pub(crate) fn new(now: Instant, iss: Position, smss: u32, granularity_ns: u32, tcp: &TcpConfig) -> Self {
        Self {
            una: iss,
            nxt: iss,
            smss,
            sack: false,
            reduced: false,
            mark_in_full: false,
            restarted: false,
            scoreboard: Scoreboard::default(),
            rto: Rto::new(&tcp.choices.rto),
            episode: Episode::default(),
            policy: Policies::new(tcp.choices.recovery, false),
            probe: TailProbe::default(),
            delivery: Delivery::new(now),
            pacing: Pacing::new(granularity_ns),
            control: Control::new(),
            mark: None,
            history: None,
            sent_at: None,
        }
    }

    /// The SYN is sent. Until ESTABLISHED is reached, a controller with one segment answers queries.
    pub(crate) fn open(&mut self, now: Instant, tcp: &TcpConfig) {
        let start = Start { smss: self.smss, initial_window: u64::from(self.smss), now };
        self.control.replace(tcp.congestion.create(&start));
    }

    /// ESTABLISHED is reached: the SYN is acknowledged, and the controller starts. `initial_window` in bytes;
    /// `clean`: no SYN of ours was lost.
    pub(crate) fn establish(&mut self, call: &mut Call<'_>, sack: bool, smss: u32, clean: bool) {
        self.sack = sack;
        self.smss = smss;
        // RFC 5681 §3.1: after a lost SYN or SYN,ACK the initial window is one segment. RFC 6928 otherwise.
        let initial_window = if clean { control::initial_window(call.tcp, smss) } else { u64::from(smss) };
        self.control.start(call.tcp, &Start { smss, initial_window, now: call.now });
        call.trace.note(call.now, Entry::SegmentSize { bytes: smss });
        self.trace_window(call, WindowCause::Start);
        self.rto.establish(clean);
        self.delivery.restart(call.now);
        self.episode = Episode::default();
        self.policy = Policies::new(call.tcp.choices.recovery, sack);
    }

    /// Slow start ends at this window, if the controller has a threshold. Returns whether that is news.
    pub(crate) fn limit_slow_start(&mut self, call: &mut Call<'_>, bytes: u64) -> bool {
        let before = self.control.ssthresh();
        self.control.limit_slow_start(bytes);
        let is_news = self.control.ssthresh() != before;
        if is_news {
            self.policy.on_threshold_change();
            self.trace_window(call, WindowCause::Start);
        }
        is_news
    }

    /// The round trip is expected to be like this, until one is measured.
    pub(crate) fn expect_rtt(&mut self, srtt: Duration, rttvar: Duration) {
        self.rto.estimator_mut().expect(srtt, rttvar);
    }

    /// SND.UNA: oldest unacknowledged.
    #[inline]
    pub(crate) fn una(&self) -> Position {
        self.una
    }

    /// SND.NXT: next to send.
    #[inline]
    pub(crate) fn nxt(&self) -> Position {
        self.nxt
    }

    /// The sender's maximum segment size in bytes.
    #[inline]
    pub(crate) fn smss(&self) -> u32 {
        self.smss
    }

    /// FlightSize (RFC 5681 §2): sent and not acknowledged cumulatively.
    #[inline]
    pub(crate) fn flight_size(&self) -> u64 {
        self.nxt.since(self.una)
    }

    /// Whether something is outstanding, the SYN included.
    #[inline]
    pub(crate) fn is_outstanding(&self) -> bool {
        self.una < self.nxt
    }

    /// Whether data or a FIN is outstanding.
    #[inline]
    pub(crate) fn has_data(&self) -> bool {
        !self.scoreboard.is_empty()
    }

    /// Bytes in flight, as the recovery policy counts them.
    #[inline]
    pub(crate) fn in_flight(&self) -> u64 {
        self.scoreboard.pipe().saturating_sub(self.episode.left_network())
    }

    /// Bytes held to be lost and not yet retransmitted.
    pub(crate) fn lost(&self) -> u64 {
        self.scoreboard.lost()
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.episode.in_recovery()
    }

    /// The congestion window in bytes.
    #[inline]
    pub(crate) fn cwnd(&self) -> u64 {
        self.control.cwnd()
    }

    /// The congestion controller.
    #[inline]
    pub(crate) fn controller(&self) -> &dyn Controller {
        self.control.controller()
    }

    pub(crate) fn rtt(&self) -> &RttEstimator {
        self.rto.estimator()
    }

    /// The policy in force. Those that need SACK fall back to RFC 6582 if the peer sends none.
    pub(crate) fn recovery(&self) -> Recovery {
        self.policy.name()
    }

    /// Most recent rate of delivery in bytes a second; zero before the first sample.
    pub(crate) fn delivery_rate(&self) -> u64 {
        self.delivery.rate()
    }

    /// When the last segment with data or a SYN left.
    pub(crate) fn sent_at(&self) -> Option<Instant> {
        self.sent_at
    }

    /// When the SYN left, unless it left more than once. RFC 6298 §3 (Karn): then nothing shows which of them
    /// an acknowledgement answers.
    pub(crate) fn syn_sent_once_at(&self) -> Option<Instant> {
        self.sent_at.filter(|_| !self.history.as_ref().is_some_and(|history| history.syn_repeated))
    }

    /// Whether congestion control has reduced the window since the last call.
    #[inline]
    pub(crate) fn take_reduced(&mut self) -> bool {
        std::mem::take(&mut self.reduced)
    }

    /// The state of the flight.
    pub(crate) fn info(&self, tcp: &TcpConfig) -> FlightInfo {
        let (losses, loss_episodes, timeouts, undone) = match self.history.as_deref() {
            Some(history) => (history.losses, history.episodes, history.timeouts, history.undo.counts()),
            None => Default::default(),
        };
        FlightInfo {
            start_up: self.control.start_up_estimate(),
            cwnd: self.control.cwnd(),
            pacing_rate: self.pacing_rate(tcp),
            delivery_rate: self.delivery.rate(),
            in_flight: self.in_flight(),
            unacked: self.flight_size(),
            sacked: self.scoreboard.sacked(),
            lost: self.scoreboard.lost(),
            timeouts,
            loss_episodes,
            losses,
            undone,
        }
    }

    /// The segment size has changed.
    pub(crate) fn set_smss(&mut self, call: &mut Call<'_>, smss: u32) {
        if smss != self.smss {
            call.trace.note(call.now, Entry::SegmentSize { bytes: smss });
        }
        self.smss = smss;
        self.control.on_mss_change(smss);
        self.trace_window(call, WindowCause::SegmentSize);
    }

    /// Replaces the controller by one that starts from the present window and threshold.
    pub(crate) fn replace_controller(&mut self, call: &mut Call<'_>) {
        let ssthresh = self.control.ssthresh();
        self.begin_with(call, self.control.cwnd(), ssthresh);
        if self.control.ssthresh() != ssthresh {
            self.policy.on_threshold_change();
        }
        if let Some(history) = &mut self.history {
            // The new one has not reduced anything that it could take back.
            history.undo.let_reduction_stand();
        }
    }

    /// A controller begins with this window and threshold.
    pub(crate) fn begin_with(&mut self, call: &mut Call<'_>, cwnd: u64, ssthresh: u64) {
        let initial_window = cwnd.max(u64::from(self.smss));
        let start = Start { smss: self.smss, initial_window, now: call.now };
        self.control.replace(call.tcp.congestion.create(&start));
        // RFC 5681 §3.1: losses have set ssthresh for this path. It outlives the controller that set it.
        self.control.limit_slow_start(ssthresh);
        self.trace_window(call, WindowCause::Start);
    }

    /// Replaces the estimator of the retransmission timeout. The measurements and the backoff stay.
    pub(crate) fn set_rto(&mut self, rto: &RtoConfig) {
        self.rto.set_config(rto);
    }

    /// Another policy takes over, possibly during an episode. Lost data stays lost, and the episode ends by
    /// the new policy's rule.
    pub(crate) fn set_recovery(&mut self, call: &mut Call<'_>) {
        let heeded_sack = self.policy.heeds_sack();
        self.policy = Policies::new(call.tcp.choices.recovery, self.sack);
        if heeded_sack && !self.policy.heeds_sack() {
            self.scoreboard.forget_held();
        }
        self.probe = TailProbe::default();
        let point = self.policy.recovery_point(self.una, self.nxt);
        self.episode.on_policy_change(point);
        self.arm_tail_probe(call.now);
    }

    /// The connection is over: nothing is outstanding, and no timer runs.
    pub(crate) fn close(&mut self) {
        self.scoreboard = Scoreboard::default();
        self.probe = TailProbe::default();
        self.policy.stop_timer();
        self.rto.stop();
        self.pacing.stop();
    }

    /// TIME-WAIT: no timer of the sending side runs.
    pub(crate) fn stop_timers(&mut self) {
        self.probe.stop();
        self.policy.stop_timer();
        self.rto.stop();
        self.pacing.stop();
    }

    /// Frees memory that an idle connection no longer needs.
    pub(crate) fn release(&mut self, now: Instant) {
        self.scoreboard.shrink();
        self.pacing.release(now);
    }

    /// The most bytes that the flight keeps for what is outstanding.
    pub(crate) fn bytes_kept(&self) -> usize {
        let history = self
            .history
            .as_ref()
            .map_or(0, |history| size_of::<History>().saturating_add(history.undo.bytes()));
        self.scoreboard.bytes(self.smss).saturating_add(history)
    }

    /// Whether there is nothing to retransmit, and an acknowledgement without news would change nothing.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        (self.una == self.nxt || self.episode.is_open()) && !self.may_resend() && !self.pacing.is_owed()
    }

    #[cfg(test)]
    pub(crate) fn is_unpaced(&self) -> bool {
        self.pacing.is_absent()
    }

    #[cfg(test)]
    pub(crate) fn owes_tail_probe(&self) -> bool {
        self.probe.is_due()
    }

    /// `marked` was found to be lost by `rule`: tells the trace and congestion control.
    fn declare_lost(&mut self, call: &mut Call<'_>, rule: LossRule, marked: Marked) {
        let Some(newest) = marked.newest else { return };
        self.note_loss(call, rule, &marked);
        self.control.on_lost(&self.delivery.on_lost(call.now, marked.bytes, newest));
        self.trace_window(call, WindowCause::Lost);
    }

    /// The marked data is sent again because of `rule`.
    fn note_loss(&mut self, call: &mut Call<'_>, rule: LossRule, marked: &Marked) {
        let Some(span) = marked.span else { return };
        self.history.get_or_insert_default().losses.add(rule, marked.bytes);
        call.trace.lost(call.now, rule, span);
    }

    /// A policy found a loss: informs everything concerned.
    fn process_loss(&mut self, call: &mut Call<'_>, found: LossFound, outstanding: Outstanding) {
        if self.is_lost_for_its_size(&found) {
            self.note_loss(call, found.rule, &found.marked);
            return self.episode.force();
        }
        self.declare_lost(call, found.rule, found.marked);
        match found.answer {
            LossAnswer::Episode { cause, bytes_lost } => {
                self.begin_episode(call, cause, bytes_lost, outstanding);
            }
            LossAnswer::SlowStart { cause, bytes_lost } => {
                self.begin_episode(call, cause, bytes_lost, outstanding);
                self.episode.slow_start(self.nxt);
            }
            LossAnswer::Retransmission => self.enter_recovery(),
            LossAnswer::Known => {}
        }
        if let Some(bytes) = found.left_network {
            self.episode.set_left_network(self.una, &self.scoreboard, bytes);
        }
    }

    /// Tells congestion control once an episode.
    fn begin_episode(
        &mut self,
        call: &mut Call<'_>,
        cause: LossCause,
        bytes_lost: u64,
        outstanding: Outstanding,
    ) {
        if self.episode.phase() != Phase::Open {
            return;
        }
        self.history.get_or_insert_default().episodes.count();
        self.enter_recovery();
        self.reduced = true;
        // One reduction per window of data, whether for a mark or a loss (RFC 3168 §6.1.2).
        if self.mark.take().is_some() && self.mark_in_full {
            return;
        }
        self.watch_reduction(call, false);
        let (now, delivered, repeated) =
            (call.now, self.delivery.bytes(), self.scoreboard.first_is_repeated());
        self.control.on_loss_episode(&LossEpisode {
            now,
            cause,
            flight_size: outstanding.flight_size,
            peer_window: outstanding.peer_window.into(),
            bytes_lost,
            delivered,
            repeated,
        });
        self.trace_window(call, WindowCause::LossEpisode);
    }

    fn enter_recovery(&mut self) {
        let point = self.policy.recovery_point(self.una, self.nxt);
        self.episode.enter(point, self.nxt);
        // A probe that led to an episode has been answered: another may follow.
        self.probe.settle();
    }

    fn end_episode_if_done(&mut self, call: &mut Call<'_>) {
        let una = self.una;
        match self.episode.phase() {
            Phase::Recovery(point) if una >= point => {
                call.trace.note(call.now, Entry::Recovered);
                self.tell_recovery_end(call);
            }
            Phase::Loss(point) if una >= point => {}
            _ => return,
        }
        if let Some(history) = &mut self.history {
            history.undo.on_episode_end(self.nxt);
        }
        self.episode.end();
        self.policy.on_episode_end();
        self.scoreboard.on_recovery_end();
    }

    fn tell_recovery_end(&mut self, call: &mut Call<'_>) {
        self.control.on_recovery_end(&RecoveryEnd {
            now: call.now,
            in_flight: self.scoreboard.pipe(),
            inflation: self.episode.left_network(),
            delivered: self.delivery.bytes(),
        });
        self.trace_window(call, WindowCause::RecoveryEnd);
    }

    /// Bytes of DupThresh full segments.
    fn dup_thresh_bytes(&self) -> u64 {
        u64::from(DUP_THRESH).saturating_mul(u64::from(self.smss))
    }

    fn mtu_probe(&self) -> Option<MtuProbe> {
        self.history.as_ref()?.mtu_probe
    }

    /// The outcome of the last probe of the path's MTU, once known; returned once.
    pub(crate) fn mtu_probe_outcome(&mut self) -> Option<ProbeOutcome> {
        let history = self.history.as_mut()?;
        let outcome = history.mtu_probe?.outcome(self.una)?;
        history.mtu_probe = None;
        Some(outcome)
    }

    /// The retransmission timer expired: a probe in flight has not arrived.
    pub(crate) fn lose_mtu_probe(&mut self) {
        if let Some(probe) = self.history.as_mut().and_then(|history| history.mtu_probe.as_mut()) {
            probe.time_out(self.una);
        }
    }

    /// Whether the first hole is a lost probe whose data is sent again at once, whatever the window says.
    fn resends_mtu_probe(&self) -> bool {
        self.episode.is_open()
            && self.mtu_probe().is_some_and(|probe| probe.is_lost() && probe.holds(self.una))
    }

    /// Whether a loss is that of a probe only, and so does not indicate congestion.
    fn is_lost_for_its_size(&mut self, found: &LossFound) -> bool {
        let (una, calm) = (self.una, self.episode.is_open());
        let probe = self.history.as_mut().and_then(|history| history.mtu_probe.as_mut());
        probe.is_some_and(|probe| probe.is_lost_for_its_size(found, una, calm))
    }

    /// The window is about to be reduced, before any retransmission.
    fn watch_reduction(&mut self, call: &Call<'_>, by_timer: bool) {
        let choice = call.tcp.choices.undo;
        if choice == UndoChoice::default() {
            return;
        }
        let rtt = self.rto.estimator();
        let before = || BeforeTimeout { at: call.now, srtt: rtt.srtt(), rttvar: rtt.rttvar() };
        self.history.get_or_insert_default().undo.watch(Reduced {
            again: by_timer && self.rto.expiries() > 1,
            timeout: by_timer.then(before),
            una: self.una,
            nxt: self.nxt,
            oldest: self.scoreboard.first_sent_at(),
            // RFC 5682 §2.1 (1): no step 2 when the timer expires during its own recovery.
            frto: by_timer && choice.frto && !self.episode.in_slow_start(),
            dsack: choice.dsack && self.sack,
        });
    }

    /// The evidence that a policy judges by.
    fn with_evidence<T>(
        &mut self,
        now: Instant,
        seen: &Seen<'_>,
        judge: impl FnOnce(&mut Policies, &mut Evidence<'_>) -> T,
    ) -> T {
        let excused = self.resends_mtu_probe();
        let mut evidence = Evidence {
            now,
            una: self.una,
            nxt: self.nxt,
            smss: u64::from(self.smss),
            cwnd: self.control.cwnd(),
            seen,
            scoreboard: &mut self.scoreboard,
            episode: &mut self.episode,
            rtt: self.rto.estimator(),
            excused,
        };
        judge(&mut self.policy, &mut evidence)
    }

    #[inline]
    fn trace_window(&mut self, call: &mut Call<'_>, cause: WindowCause) {
        if call.trace.is_on() {
            call.trace.window(call.now, cause, self.control.controller(), self.rto.estimator().srtt());
        }
    }

    /// Returns an invariant that does not hold between two calls, if any, without looking at each record.
    pub(crate) fn violated(&self) -> Option<&'static str> {
        if self.una > self.nxt {
            return Some("SND.UNA is not beyond SND.NXT");
        }
        (self.control.cwnd() < 1).then_some("the congestion window is never empty")
    }

    /// Whether all invariants hold, those of each record included; for a flight that was read.
    fn is_sound(&self) -> bool {
        let board = &self.scoreboard;
        let agrees = board.violated().is_none() && board.marks_agree();
        agrees && board.lies_within(self.una, self.nxt) && self.violated().is_none()
    }

    /// Checks what must hold between any two calls.
    #[cfg(debug_assertions)]
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.violated(), None);
        if self.scoreboard.is_checked_at(self.una, self.nxt) {
            self.scoreboard.check_invariants();
        }
    }
}

// The passing of time: the retransmission timer, the reordering window, the tail probe, the pacing schedule.
impl Flight {
    /// When [`Self::on_timer`] is due; the far future if never.
    #[inline]
    pub(crate) fn next_timeout(&self) -> Instant {
        self.rto.deadline().min(self.policy.deadline()).min(self.probe.deadline()).min(self.pacing.due())
    }

    pub(crate) fn expiries(&self) -> Expiries {
        Expiries {
            retransmission: self.rto.deadline(),
            reordering: self.policy.deadline(),
            tail_probe: self.probe.deadline(),
            pacing: self.pacing.due(),
        }
    }

    /// Whether the retransmission timer has expired, even if a probe replaces the timeout.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.rto.deadline() <= now
    }

    /// Since when the peer has owed an answer.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.rto.waiting_since()
    }

    /// How many times in a row the retransmission timer has expired.
    pub(crate) fn timeouts_in_a_row(&self) -> u32 {
        self.rto.expiries()
    }

    /// How many of the backoffs of these expiries were taken back.
    pub(crate) fn backoffs_undone(&self) -> u32 {
        self.rto.backoffs_undone()
    }

    /// A router reported that it had no way for the segment at SND.UNA (RFC 6069). Returns whether a backoff
    /// was taken back.
    pub(crate) fn on_disruption(&mut self, now: Instant, tcp: &TcpConfig) -> bool {
        // The timer measures from the last retransmission.
        self.sent_at.is_some_and(|sent_at| self.rto.undo_backoff(now, sent_at, tcp))
    }

    /// A probe of the peer's window left, or is about to: it needs an answer.
    pub(crate) fn note_waiting(&mut self, now: Instant) {
        self.rto.note_waiting(now);
    }

    /// The peer opened its window, so it is alive.
    pub(crate) fn note_answer(&mut self, now: Instant) {
        self.rto.note_answer(now);
    }

    /// A deadline may have come. A spurious call does nothing. Returns whether the retransmission timer
    /// expired.
    pub(crate) fn on_timer(&mut self, call: &mut Call<'_>, peer_window: u32, window_open: bool) -> bool {
        let now = call.now;
        if self.probe.deadline() <= now && !self.has_probe() {
            // A probe without a segment must not delay the timeout.
            self.probe.stop();
        }
        if self.is_probe_due(now) {
            call.trace.fired(now, Timer::TailProbe, self.probe.deadline(), self.probe.number());
            self.on_probe_timer(call, window_open);
        }
        let expired = self.rto.deadline() <= now && self.on_retransmission_timer(call, peer_window);
        let reordering_at = self.policy.deadline();
        if reordering_at <= now {
            call.trace.fired(now, Timer::Reordering, reordering_at, 1);
            self.on_reordering_timer(call, peer_window);
        }
        let pacing_at = self.pacing.due();
        if pacing_at <= now {
            call.trace.fired(now, Timer::Pacing, pacing_at, 1);
            self.pacing.on_timer(now);
        }
        expired
    }

    fn on_retransmission_timer(&mut self, call: &mut Call<'_>, peer_window: u32) -> bool {
        call.trace.fired(
            call.now,
            Timer::Retransmission,
            self.rto.deadline(),
            self.rto.expiries().saturating_add(1),
        );
        if self.pacing.is_waiting() && self.in_flight() == 0 {
            self.rto.postpone(self.pacing.due());
            return false;
        }
        // RFC 9293 MUST-19: slow start, congestion avoidance and the exponential back-off.
        self.history.get_or_insert_default().timeouts.count();
        self.rto.on_expiry(call.now, call.tcp);
        // RFC 9293 MUST-22: a SYN is retransmitted like any other segment, and congestion control has not
        // begun.
        if self.has_data() {
            self.lose_all(call, peer_window);
        }
        true
    }

    /// The retransmission timer expired: marks what the policy says is lost, usually everything that the peer
    /// is not known to hold.
    fn lose_all(&mut self, call: &mut Call<'_>, peer_window: u32) {
        self.watch_reduction(call, true);
        let lost = if self.scoreboard.first_is_sacked() {
            // RFC 2018 §8: a peer that held the first byte would have acknowledged it, so it has discarded
            // its SACKed data.
            self.scoreboard.mark_all_lost(true)
        } else {
            let (una, rtt) = (self.una, self.rto.estimator());
            self.policy.mark_at_timeout(call.now, una, rtt, &mut self.scoreboard)
        };
        self.declare_lost(call, LossRule::Timeout, lost);
        self.mark = None;
        self.reduced = true;
        self.control.on_timeout(&Timeout {
            now: call.now,
            flight_size: self.flight_size(),
            peer_window: peer_window.into(),
            expiries: self.rto.expiries(),
            delivered: self.delivery.bytes(),
        });
        self.trace_window(call, WindowCause::Timeout);
        self.episode.on_timeout(self.nxt);
        self.policy.stop_timer();
        self.probe.on_timeout();
    }

    /// The reordering window of a segment has closed.
    fn on_reordering_timer(&mut self, call: &mut Call<'_>, peer_window: u32) {
        let outcome = &AckOutcome::default();
        let seen = Seen { advanced: 0, duplicate: false, reported: None, reports_probe: false, outcome };
        let found = self.with_evidence(call.now, &seen, Policies::on_timer);
        if let Some(found) = found {
            let outstanding = Outstanding { flight_size: self.flight_size(), peer_window };
            self.process_loss(call, found, outstanding);
            self.regulate(None, false);
        }
    }

    /// Whether the probe is due. The first replaces a timeout that is also due (RFC 8985 §7.3), a later one
    /// does not.
    fn is_probe_due(&self, now: Instant) -> bool {
        self.probe.deadline() <= now && (self.probe.is_first() || self.rto.deadline() > now)
    }

    /// It is not known which outstanding segments have arrived: the tail is probed at once, and the answer
    /// shows it.
    pub(crate) fn probe_tail(&mut self) {
        if self.has_probe() {
            self.probe.fire();
        }
    }

    /// The probe's time has come.
    fn on_probe_timer(&mut self, call: &mut Call<'_>, window_open: bool) {
        self.probe.fire();
        if self.probe.is_first() {
            // RFC 8985 §7.3: the retransmission timer starts again.
            self.rto.stop();
            self.run_timer(call, window_open);
        }
    }
}

impl History {
    /// Whether what happened has no sequel: no reduction can be taken back, no probe of the path is out, and
    /// nothing from before a pause.
    fn is_plain(&self) -> bool {
        self.undo.is_plain() && self.mtu_probe.is_none() && self.resumed.is_none()
    }
}
