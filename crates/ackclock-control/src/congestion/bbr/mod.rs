//! BBR, version 3: sends at the bandwidth that a model of the path gives, and probes for more.
//!
//! N. Cardwell, I. Swett and J. Beshay (editors), "BBR Congestion Control", draft-ietf-ccwg-bbr-05, March
//! 2026. Section numbers and the names in comments are the draft's. `model.rs` is §5.5, `probe.rs` §5.3, this
//! file §5.2 and §5.6.
//!
//! `draft.rs` lists the draft's functions and where this implementation departs from each; `docs/control.md`
//! prints the list. The departure that matters most is [`BbrLoss`].

mod draft;
mod max_filter;
mod model;
mod pace;
mod probe;
mod recovery;
mod state;
mod v1;

use std::time::Duration;

use super::snapshot::signed;
use super::{
    About, Ack, Controller, Exception, IdleRestart, LossCause, LossEpisode, Lost, Parameter, RecoveryEnd,
    Sent, Signal, Snapshot, Start, Timeout, Undo, Values,
};
use crate::Instant;
use crate::tally::Tally;
use model::{INFINITY, Model, RateSample, inflight_at_loss, is_inflight_too_high, scale};
use pace::Pace;
use recovery::Recovery;
use state::{AckPhase, State, UndoState};

pub use draft::{DraftRow, Standing};
pub use state::BbrLoss;
pub use v1::BbrV1;

/// The controller of the draft.
#[derive(Clone, Debug)]
pub struct Bbr {
    smss: u64,
    loss: BbrLoss,
    initial_window: u64,
    cwnd: u64,
    pace: Pace,
    state: State,
    model: Model,
    undo: UndoState,
    seed: u64,

    next_round_delivered: u64,
    round_count: u64,
    round_start: bool,
    drain_start_round: u64,
    recovery: Recovery,
    app_limited: bool,
    /// Samples of segments sent before this many bytes were delivered are application-limited.
    app_limited_until: u64,
    idle_restart: bool,

    full_bw: u64,
    full_bw_count: u32,
    full_bw_now: bool,
    full_bw_reached: bool,

    ack_phase: AckPhase,
    is_bw_probe_sample: bool,
    bw_probe_up_rounds: u32,
    bw_probe_up_acked: u64,
    probe_up_acked_per_inc: u64,
    rounds_since_probe_up: u64,
    bw_probe_wait: Duration,
    cycle_stamp: Instant,

    probe_rtt_min_delay: u64,
    probe_rtt_min_stamp: Instant,
    probe_rtt_done_stamp: Option<Instant>,
    probe_rtt_round_done: bool,
}

impl Bbr {
    /// The name in the registry.
    pub const NAME: &'static str = "bbr";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 2026,
        source: "Cardwell, Swett and Beshay, BBR Congestion Control (version 3), draft-ietf-ccwg-bbr",
        signal: Signal::Rate,
        keeps_in_queue: "nothing while it cruises; up to one bandwidth-delay product while it probes",
        deviations: "losses count where more than chance takes them above 2 %, unless loss=draft; a mark \
            counts as a loss; chance is the time",
        exceptions: &[
            Exception {
                check: "reduces on loss",
                why: "it answers the rate of loss: only clearly more than 2 % in a round trip",
            },
            Exception {
                check: "halves on loss",
                why: "where loss is too high, it keeps seven tenths of the model",
            },
            Exception {
                check: "reduces on loss whatever is outstanding",
                why: "it has no threshold; see above for the window",
            },
            Exception {
                check: "reduces on a mark",
                why: "a mark lowers the model, at the end of its round trip",
            },
            Exception {
                check: "does not grow in recovery",
                why: "the window follows the model, by no more than what is acknowledged",
            },
            Exception {
                check: "does not grow when the application is the limit",
                why: "the window follows the model; the pacing rate bounds what is sent",
            },
            Exception {
                check: "restarts small after idleness",
                why: "it paces at the bandwidth that it knows, instead of sending a window at once",
            },
        ],
    };

    /// Its parameters in the registry's words.
    pub(super) const PARAMETERS: &[Parameter] =
        &[Parameter { name: "loss", values: Values::Words(&["certain", "draft", "ignored"]), default: 0 }];

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::with_loss(start, BbrLoss::Certain)
    }

    /// A controller that answers losses by this rule.
    #[must_use]
    pub fn with_loss(start: &Start, loss: BbrLoss) -> Self {
        let smss = u64::from(start.smss.max(1));
        let initial_window = start.initial_window.max(smss);
        Self {
            smss,
            loss,
            initial_window,
            cwnd: initial_window,
            pace: Pace::new(initial_window, STARTUP_PACING_GAIN),
            state: State::Startup,
            model: Model::new(start.now),
            undo: UndoState::default(),
            seed: start.now.as_nanos(),
            next_round_delivered: 0,
            round_count: 0,
            round_start: false,
            drain_start_round: 0,
            recovery: Recovery::default(),
            app_limited: false,
            app_limited_until: 0,
            idle_restart: false,
            full_bw: 0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            bw_probe_up_rounds: 0,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: INFINITY,
            rounds_since_probe_up: 0,
            bw_probe_wait: Duration::ZERO,
            cycle_stamp: start.now,
            probe_rtt_min_delay: INFINITY,
            probe_rtt_min_stamp: start.now,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
        }
    }

    /// UpdateModelAndState().
    fn update_model_and_state(&mut self, rs: &RateSample) {
        self.model.update_latest_delivery_signals(rs);
        self.update_round(rs);
        self.model.update_max_bw(rs);
        if self.model.loss_round_start {
            let adapts = !self.state.is_probing() && self.heeds_losses_of_round(rs);
            // Deviation from the draft's BBRInitLowerBounds(): after a timeout cwnd is one segment, which
            // says nothing about the path.
            self.model.adapt_to_congestion(adapts, self.cwnd.max(self.recovery.cwnd_before_timeout()));
        }
        self.model.update_ack_aggregation(rs, self.cwnd, self.round_count, self.full_bw_reached);
        self.check_full_bw_reached(rs);
        self.check_startup_and_drain(rs);
        self.update_probe_bw(rs);
        self.check_probe_rtt(rs);
        self.model.advance_latest_delivery_signals(rs);
        self.model.bound_bw();
    }

    /// IsInflightTooHigh().
    fn is_inflight_too_high(&self, lost: u64, tx_in_flight: u64) -> bool {
        is_inflight_too_high(lost, tx_in_flight, self.loss, self.smss)
    }

    /// Whether the losses of the round trip that ends shrink the short-term model.
    // Deviation from the draft's BBRAdaptLowerBoundsFromCongestion(): see `BbrLoss`.
    fn heeds_losses_of_round(&self, rs: &RateSample) -> bool {
        self.loss == BbrLoss::Draft
            || self.model.is_mark_in_round
            || self.is_inflight_too_high(rs.lost, rs.tx_in_flight)
    }

    /// UpdateRound().
    fn update_round(&mut self, rs: &RateSample) {
        self.round_start = rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.next_round_delivered = rs.total_delivered;
            self.round_count.count();
            self.rounds_since_probe_up = self.rounds_since_probe_up.saturating_add(1);
        }
    }

    /// SetPacingRateWithGain(): 1 % below the bandwidth, so that a queue drains.
    fn set_pacing_rate(&mut self, gain: u64) {
        let rate = scale(scale(self.model.bw, gain), 100 - PACING_MARGIN_PERCENT);
        self.pace.set(rate, self.full_bw_reached);
    }

    /// SetCwnd().
    fn set_cwnd(&mut self, rs: &RateSample) {
        let max_inflight = self.max_inflight();
        if self.full_bw_reached {
            self.cwnd = self.cwnd.saturating_add(rs.newly_acked).min(max_inflight);
        } else if self.cwnd < max_inflight || rs.total_delivered < self.initial_window {
            self.cwnd = self.cwnd.saturating_add(rs.newly_acked).min(CWND_MAX);
        }
        self.cwnd = self.cwnd.max(self.min_pipe_cwnd());
        self.bound_for_probe_rtt();
        self.bound_cwnd_for_model();
    }

    /// BoundCwndForModel().
    fn bound_cwnd_for_model(&mut self) {
        let cap = match self.state {
            State::Startup | State::Drain => INFINITY,
            State::ProbeBwDown | State::ProbeBwRefill | State::ProbeBwUp => self.model.inflight_longterm,
            State::ProbeBwCruise | State::ProbeRtt => self.inflight_with_headroom(),
        };
        let cap = cap.min(self.model.inflight_shortterm).max(self.min_pipe_cwnd());
        self.cwnd = self.cwnd.min(cap);
    }

    /// InflightWithHeadroom().
    fn inflight_with_headroom(&self) -> u64 {
        if self.model.inflight_longterm == INFINITY {
            return INFINITY;
        }
        let headroom = scale(self.model.inflight_longterm, HEADROOM).max(self.smss);
        self.model.inflight_longterm.saturating_sub(headroom).max(self.min_pipe_cwnd())
    }

    /// UpdateMaxInflight().
    fn max_inflight(&self) -> u64 {
        let inflight = self.bdp(self.model.bw, self.state.cwnd_gain());
        self.quantization_budget(inflight.saturating_add(self.model.extra_acked)).min(CWND_MAX)
    }

    /// Inflight().
    fn inflight(&self, gain: u64) -> u64 {
        self.quantization_budget(self.bdp(self.model.bw, gain))
    }

    /// BDPMultiple().
    fn bdp(&self, bw: u64, gain: u64) -> u64 {
        self.model.bdp_multiple(bw, gain).unwrap_or(self.initial_window)
    }

    /// QuantizationBudget(), UpdateOffloadBudget(), SetSendQuantum().
    fn quantization_budget(&self, inflight: u64) -> u64 {
        let send_quantum = (self.pace.rate() / 1000).min(SEND_QUANTUM_MAX).max(self.segments(2));
        let inflight = inflight.max(send_quantum.saturating_mul(3)).max(self.min_pipe_cwnd());
        let probing = if self.state == State::ProbeBwUp { self.segments(2) } else { 0 };
        inflight.saturating_add(probing)
    }

    fn min_pipe_cwnd(&self) -> u64 {
        self.segments(4)
    }

    fn segments(&self, number: u64) -> u64 {
        self.smss.saturating_mul(number)
    }

    /// BoundCwndForProbeRTT().
    fn bound_for_probe_rtt(&mut self) {
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
    }

    /// ProbeRTTCwnd().
    fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(self.model.bw, PROBE_RTT_CWND_GAIN).max(self.min_pipe_cwnd())
    }

    /// SaveCwnd().
    fn save_cwnd(&mut self) {
        self.recovery.save(self.cwnd, self.state == State::ProbeRtt);
    }

    /// RestoreCwnd().
    fn restore_cwnd(&mut self) {
        self.cwnd = self.recovery.restored(self.cwnd);
    }

    /// All losses are repaired, or were not losses.
    fn end_recovery(&mut self) {
        self.recovery.end();
        self.restore_cwnd();
    }

    /// SaveStateUponLoss().
    fn save_state_upon_loss(&mut self) {
        self.undo = UndoState {
            state: None,
            bw_shortterm: self.model.bw_shortterm,
            inflight_shortterm: self.model.inflight_shortterm,
            inflight_longterm: self.model.inflight_longterm,
        };
    }
}

impl Controller for Bbr {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.pace.seed(self.initial_window, ack.srtt_ns, STARTUP_PACING_GAIN);
        let mut rs = RateSample::new(ack);
        rs.is_app_limited |= ack.prior_delivered < self.app_limited_until;
        self.app_limited = rs.is_app_limited;
        self.update_model_and_state(&rs);
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_cwnd(&rs);
        if self.recovery.is_timeout_repaired(rs.total_delivered) {
            self.end_recovery();
            self.bound_cwnd_for_model();
        }
    }

    fn on_lost(&mut self, lost: &Lost) {
        if self.model.note_loss(lost.delivered) {
            self.save_state_upon_loss();
        }
        self.model.loss_events_in_round = self.model.loss_events_in_round.saturating_add(1);
        if !self.is_bw_probe_sample {
            return;
        }
        // HandleLostPacket().
        if self.is_inflight_too_high(lost.lost, lost.tx_in_flight) {
            let app_limited = lost.app_limited || lost.prior_delivered < self.app_limited_until;
            self.handle_inflight_too_high(inflight_at_loss(lost), app_limited, lost.now, lost.delivered);
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        // OnEnterFastRecovery().
        self.save_cwnd();
        if self.model.note_loss(loss.delivered) {
            self.save_state_upon_loss();
        }
        self.model.is_mark_in_round |= loss.cause == LossCause::EcnEcho;
        self.recovery.begin();
    }

    fn on_recovery_end(&mut self, _: &RecoveryEnd) {
        self.end_recovery();
        self.bound_cwnd_for_model();
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        // OnEnterRTO(): everything in flight counts as lost, which leaves one segment.
        self.save_cwnd();
        if self.model.note_loss(timeout.delivered) {
            self.save_state_upon_loss();
        }
        self.recovery.begin_by_timeout(timeout);
        self.cwnd = self.smss;
    }

    fn on_sent(&mut self, sent: &Sent) {
        // HandleRestartFromIdle().
        if sent.in_flight > sent.bytes || !self.app_limited {
            return;
        }
        self.idle_restart = true;
        self.model.restart_ack_aggregation(sent.now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate(100);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(sent.now, self.next_round_delivered);
        }
    }

    fn on_idle_restart(&mut self, _: &IdleRestart) {
        self.idle_restart = true;
    }

    fn on_undo(&mut self, _: &Undo) {
        // HandleSpuriousLossDetection().
        self.end_recovery();
        self.bound_for_probe_rtt();
        self.model.is_loss_in_round = false;
        self.reset_full_bw(0);
        let undo = std::mem::take(&mut self.undo);
        self.model.bw_shortterm = self.model.bw_shortterm.max(undo.bw_shortterm);
        self.model.inflight_shortterm = self.model.inflight_shortterm.max(undo.inflight_shortterm);
        self.model.inflight_longterm = self.model.inflight_longterm.max(undo.inflight_longterm);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw_reached = false;
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(State::ProbeBwUp) if !matches!(self.state, State::ProbeBwUp | State::ProbeRtt) => {
                self.start_probe_bw_refill(self.next_round_delivered);
            }
            _ => {}
        }
    }

    fn on_mss_change(&mut self, smss: u32) {
        self.smss = u64::from(smss.max(1));
        self.cwnd = self.cwnd.max(self.smss);
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn ssthresh(&self) -> u64 {
        u64::MAX
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pace.rate())
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::default()
            .with("state", self.state as i64)
            .with("bw", signed(self.model.bw))
            .with("max_bw", signed(self.model.max_bw))
            .with("min_rtt_us", signed(self.model.min_rtt / 1000))
            .with("inflight_longterm", signed(self.model.inflight_longterm))
            .with("inflight_shortterm", signed(self.model.inflight_shortterm))
            .with("extra_acked", signed(self.model.extra_acked))
    }
}

/// A number that no two flows share, in place of a random one.
fn arbitrary(now: Instant, min_rtt: u64, seed: u64) -> u64 {
    (now.as_nanos() ^ min_rtt ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// BBR.StartupPacingGain: 2.77.
const STARTUP_PACING_GAIN: u64 = 277;
/// BBR.ProbeRTTCwndGain: 0.5.
const PROBE_RTT_CWND_GAIN: u64 = 50;
/// BBR.Headroom: 0.15.
const HEADROOM: u64 = 15;
/// BBR.PacingMarginPercent.
const PACING_MARGIN_PERCENT: u64 = 1;
const SEND_QUANTUM_MAX: u64 = 64 * 1024;
const CWND_MAX: u64 = super::window::CWND_MAX;

ackclock_form::form! {
    struct Bbr {
        smss, loss, initial_window, cwnd, pace, state, model, undo, seed, next_round_delivered,
        round_count, round_start, drain_start_round, recovery, app_limited, app_limited_until,
        idle_restart, full_bw, full_bw_count, full_bw_now, full_bw_reached, ack_phase, is_bw_probe_sample,
        bw_probe_up_rounds, bw_probe_up_acked, probe_up_acked_per_inc, rounds_since_probe_up,
        bw_probe_wait, cycle_stamp, probe_rtt_min_delay, probe_rtt_min_stamp, probe_rtt_done_stamp,
        probe_rtt_round_done
    } => |bbr| bbr.bw_probe_up_rounds <= 30;
}

#[cfg(test)]
mod tests;
