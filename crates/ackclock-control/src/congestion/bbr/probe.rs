//! BBR's state machine: Startup, Drain, the cycle of ProbeBW, ProbeRTT (§5.3).

use std::time::Duration;

use super::model::{BETA, INFINITY, RateSample, scale};
use super::{AckPhase, Bbr, BbrLoss, State, arbitrary};
use crate::Instant;
use crate::divide::at_least_one;
use crate::time::nanos;

impl Bbr {
    /// EnterStartup().
    pub(super) fn enter_startup(&mut self) {
        self.state = State::Startup;
    }

    /// CheckFullBWReached(): three round trips without a quarter more bandwidth.
    pub(super) fn check_full_bw_reached(&mut self, rs: &RateSample) {
        if self.full_bw_now || !self.round_start || rs.is_app_limited {
            return;
        }
        if rs.delivery_rate >= scale(self.full_bw, 125) {
            self.reset_full_bw(rs.delivery_rate);
            return;
        }
        self.full_bw_count = self.full_bw_count.saturating_add(1);
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }

    /// ResetFullBW(), with a new baseline.
    pub(super) fn reset_full_bw(&mut self, baseline: u64) {
        (self.full_bw, self.full_bw_count, self.full_bw_now) = (baseline, 0, false);
    }

    /// CheckStartupDone() and CheckDrainDone().
    pub(super) fn check_startup_and_drain(&mut self, rs: &RateSample) {
        if self.state == State::Startup {
            self.check_startup_high_loss(rs);
            if self.full_bw_reached {
                self.state = State::Drain;
                self.drain_start_round = self.round_count;
            }
        }
        let drained =
            rs.in_flight <= self.inflight(100) || self.round_count > self.drain_start_round.saturating_add(3);
        if self.state == State::Drain && drained {
            self.start_probe_bw_down(rs.now, rs.total_delivered);
        }
    }

    /// CheckStartupHighLoss(). A loss round begins with the first loss, so its end, still in recovery, marks
    /// one round trip spent in recovery.
    fn check_startup_high_loss(&mut self, rs: &RateSample) {
        let enough = self.model.loss_events_in_round >= STARTUP_FULL_LOSS_COUNT;
        let in_fast_recovery = self.recovery.is_fast();
        // Deviation from the draft's BBRCheckStartupHighLoss(): losses end Startup only if the bandwidth has
        // also stopped growing, so that they come from the bottleneck; see `BbrLoss`.
        let may_be_full = self.loss == BbrLoss::Draft || self.full_bw_count > 0;
        if self.model.loss_round_start
            && in_fast_recovery
            && may_be_full
            && enough
            && self.is_inflight_too_high(rs.lost, rs.tx_in_flight)
        {
            self.undo.state = Some(State::Startup);
            self.full_bw_reached = true;
            self.model.inflight_longterm = self.model.safe_inflight();
        }
    }

    /// UpdateProbeBWCyclePhase().
    pub(super) fn update_probe_bw(&mut self, rs: &RateSample) {
        if !self.full_bw_reached {
            return;
        }
        self.adapt_long_term_model(rs);
        match self.state {
            State::ProbeBwDown => {
                if !self.is_time_to_probe_bw(rs) && self.is_time_to_cruise(rs) {
                    self.state = State::ProbeBwCruise;
                }
            }
            State::ProbeBwCruise => {
                self.is_time_to_probe_bw(rs);
            }
            State::ProbeBwRefill if self.round_start => {
                // After one round of refilling, samples can show more bandwidth.
                self.is_bw_probe_sample = true;
                self.start_probe_bw_up(rs);
            }
            State::ProbeBwUp => {
                if self.is_time_to_go_down(rs) {
                    self.start_probe_bw_down(rs.now, rs.total_delivered);
                }
            }
            State::Startup | State::Drain | State::ProbeBwRefill | State::ProbeRtt => {}
        }
    }

    pub(super) fn start_probe_bw_down(&mut self, now: Instant, delivered: u64) {
        self.model.reset_congestion_signals();
        self.probe_up_acked_per_inc = INFINITY;
        self.pick_probe_wait(now);
        self.cycle_stamp = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.next_round_delivered = delivered;
        self.state = State::ProbeBwDown;
    }

    pub(super) fn start_probe_bw_refill(&mut self, delivered: u64) {
        self.model.reset_short_term();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = 0;
        self.ack_phase = AckPhase::Refilling;
        self.next_round_delivered = delivered;
        self.state = State::ProbeBwRefill;
    }

    fn start_probe_bw_up(&mut self, rs: &RateSample) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.next_round_delivered = rs.total_delivered;
        self.reset_full_bw(rs.delivery_rate);
        self.state = State::ProbeBwUp;
        self.raise_inflight_longterm_slope();
    }

    /// AdaptLongTermModel().
    fn adapt_long_term_model(&mut self, rs: &RateSample) {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !rs.is_app_limited {
                self.model.advance_max_bw_filter();
            }
        }
        if self.is_inflight_too_high(rs.lost, rs.tx_in_flight) || self.model.inflight_longterm == INFINITY {
            return;
        }
        self.model.inflight_longterm = self.model.inflight_longterm.max(rs.tx_in_flight);
        if self.state == State::ProbeBwUp {
            self.probe_inflight_longterm_upward(rs);
        }
    }

    /// ProbeInflightLongtermUpward().
    fn probe_inflight_longterm_upward(&mut self, rs: &RateSample) {
        if !rs.is_cwnd_limited || self.cwnd < self.model.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked = self.bw_probe_up_acked.saturating_add(rs.newly_acked);
        let per_increment = at_least_one(self.probe_up_acked_per_inc);
        let increments = self.bw_probe_up_acked / per_increment;
        self.bw_probe_up_acked %= per_increment;
        let growth = increments.saturating_mul(self.smss);
        self.model.inflight_longterm = self.model.inflight_longterm.saturating_add(growth);
        if self.round_start {
            self.raise_inflight_longterm_slope();
        }
    }

    /// RaiseInflightLongtermSlope(): one segment in the first round trip, two in the second, four …
    fn raise_inflight_longterm_slope(&mut self) {
        // cwnd / growth_this_round, which is 1 << bw_probe_up_rounds.
        self.probe_up_acked_per_inc = (self.cwnd >> self.bw_probe_up_rounds).max(self.smss);
        self.bw_probe_up_rounds = self.bw_probe_up_rounds.saturating_add(1).min(30);
    }

    /// IsTimeToProbeBW().
    fn is_time_to_probe_bw(&mut self, rs: &RateSample) -> bool {
        let elapsed = rs.now > self.cycle_stamp + self.bw_probe_wait;
        // IsRenoCoexistenceProbeTime(): as often as a Reno flow with this window would see a loss.
        let reno_rounds = (self.target_inflight() / at_least_one(self.smss)).min(63);
        if elapsed || self.rounds_since_probe_up >= reno_rounds {
            self.start_probe_bw_refill(rs.total_delivered);
            return true;
        }
        false
    }

    /// PickProbeWait(): two to three seconds, and up to one round less, at random.
    fn pick_probe_wait(&mut self, now: Instant) {
        // Deviation from the draft: this crate has no random numbers. The time and the model decide; no two
        // flows share both.
        let number = arbitrary(now, self.model.min_rtt, self.seed);
        self.rounds_since_probe_up = number >> 31;
        self.bw_probe_wait = Duration::from_millis((number % 1000).saturating_add(2000));
    }

    /// IsTimeToCruise().
    fn is_time_to_cruise(&self, rs: &RateSample) -> bool {
        let bdp = self.quantization_budget(self.bdp(self.model.max_bw, 100));
        rs.in_flight <= self.inflight_with_headroom() && rs.in_flight <= bdp
    }

    /// IsTimeToGoDown().
    fn is_time_to_go_down(&mut self, rs: &RateSample) -> bool {
        if rs.is_cwnd_limited && self.cwnd >= self.model.inflight_longterm {
            self.reset_full_bw(rs.delivery_rate);
            return false;
        }
        self.full_bw_now
    }

    /// HandleInflightTooHigh().
    pub(super) fn handle_inflight_too_high(
        &mut self,
        tx_in_flight: u64,
        app_limited: bool,
        now: Instant,
        delivered: u64,
    ) {
        self.is_bw_probe_sample = false;
        if !app_limited {
            self.model.inflight_longterm = tx_in_flight.max(scale(self.target_inflight(), BETA));
        }
        if self.state == State::ProbeBwUp {
            self.undo.state = Some(State::ProbeBwUp);
            self.start_probe_bw_down(now, delivered);
        }
    }

    /// TargetInflight().
    fn target_inflight(&self) -> u64 {
        self.bdp(self.model.bw, 100).min(self.cwnd)
    }

    /// UpdateMinRTT() and CheckProbeRTT().
    pub(super) fn check_probe_rtt(&mut self, rs: &RateSample) {
        let expired = nanos(rs.now.saturating_since(self.probe_rtt_min_stamp)) > PROBE_RTT_INTERVAL_NS;
        if let Some(rtt) = rs.rtt
            && (rtt < self.probe_rtt_min_delay || expired)
        {
            (self.probe_rtt_min_delay, self.probe_rtt_min_stamp) = (rtt, rs.now);
        }
        self.model.update_min_rtt(rs.now, self.probe_rtt_min_delay, self.probe_rtt_min_stamp);

        if self.state != State::ProbeRtt && expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt_done_stamp = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.next_round_delivered = rs.total_delivered;
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(rs);
        }
        if rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// HandleProbeRTT().
    fn handle_probe_rtt(&mut self, rs: &RateSample) {
        // MarkConnectionAppLimited(): the low rates of this state say nothing about the path.
        self.app_limited_until = rs.total_delivered.saturating_add(rs.in_flight);
        if self.probe_rtt_done_stamp.is_none() {
            if rs.in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt_done_stamp = Some(rs.now + PROBE_RTT_DURATION);
                self.probe_rtt_round_done = false;
                self.next_round_delivered = rs.total_delivered;
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(rs.now, rs.total_delivered);
        }
    }

    /// CheckProbeRTTDone() and ExitProbeRTT().
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant, delivered: u64) {
        if self.probe_rtt_done_stamp.is_none_or(|done| now <= done) {
            return;
        }
        self.probe_rtt_min_stamp = now;
        self.restore_cwnd();
        self.model.reset_short_term();
        if self.full_bw_reached {
            self.start_probe_bw_down(now, delivered);
            self.state = State::ProbeBwCruise;
        } else {
            self.enter_startup();
        }
    }
}

/// BBRStartupFullLossCnt.
const STARTUP_FULL_LOSS_COUNT: u32 = 6;
/// BBR.ProbeRTTDuration.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// BBR.ProbeRTTInterval: 5 s.
const PROBE_RTT_INTERVAL_NS: u64 = 5_000_000_000;
