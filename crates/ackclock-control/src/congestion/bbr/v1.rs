//! BBR, version 1: the path's bandwidth, its round trip, and a cycle of gains.
//!
//! N. Cardwell, Y. Cheng, S. Hassas Yeganeh and V. Jacobson, "BBR Congestion Control",
//! draft-cardwell-iccrg-bbr-congestion-control-00, July 2017. Section numbers and the names in comments are
//! the draft's; its text was read whole.
//!
//! A loss changes the window until it is repaired, and never the model: where the buffer is small, this
//! version loses much and leaves little to others, which is why version 3 ([`Bbr`](super::Bbr)) has bounds.

use std::time::Duration;

use super::super::snapshot::signed;
use super::super::{
    About, Ack, Controller, Exception, IdleRestart, LossCause, LossEpisode, Lost, RecoveryEnd, Sent, Signal,
    Snapshot, Start, Timeout, Undo,
};
use super::max_filter::MaxFilter;
use super::model::{INFINITY, RateSample, bandwidth_delay, scale};
use super::pace::Pace;
use super::recovery::Recovery;
use super::{CWND_MAX, SEND_QUANTUM_MAX, arbitrary};
use crate::Instant;
use crate::tally::Tally;

/// The controller of the first draft.
#[derive(Clone, Debug)]
pub struct BbrV1 {
    smss: u64,
    initial_window: u64,
    cwnd: u64,
    pace: Pace,
    state: State,
    /// When this phase of the gain cycle began.
    cycle_stamp: Instant,
    seed: u64,

    /// Bytes a second.
    btl_bw: u64,
    btl_bw_filter: MaxFilter,
    /// In nanoseconds.
    rtprop: u64,
    rtprop_stamp: Instant,
    rtprop_expired: bool,

    next_round_delivered: u64,
    round_count: u64,
    round_start: bool,
    app_limited: bool,
    /// Samples of segments sent before this many bytes were delivered are application-limited.
    app_limited_until: u64,
    idle_restart: bool,

    filled_pipe: bool,
    full_bw: u64,
    full_bw_count: u32,

    probe_rtt_done_stamp: Option<Instant>,
    probe_rtt_round_done: bool,

    recovery: Recovery,
    /// packet_conservation: until what is sent after this many delivered bytes is acknowledged.
    conserves_until: Option<u64>,
    /// packets_lost: bytes found to be lost since the last acknowledgement.
    newly_lost: u64,
}

/// BBR.state, and in ProbeBW the phase of the gain cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    ProbeBw(u64),
    ProbeRtt,
}

impl State {
    /// In hundredths.
    fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => HIGH_GAIN,
            Self::Drain => 10_000 / HIGH_GAIN,
            Self::ProbeBw(0) => 125,
            Self::ProbeBw(1) => 75,
            Self::ProbeBw(_) => 100,
            Self::ProbeRtt => 100,
        }
    }

    /// In hundredths.
    fn cwnd_gain(self) -> u64 {
        match self {
            Self::Startup | Self::Drain => HIGH_GAIN,
            Self::ProbeBw(_) => 200,
            Self::ProbeRtt => 100,
        }
    }

    /// For the trace: the state, and from 10 on the phase.
    fn number(self) -> u64 {
        match self {
            Self::Startup => 0,
            Self::Drain => 1,
            Self::ProbeRtt => 2,
            Self::ProbeBw(phase) => phase.saturating_add(10),
        }
    }
}

impl BbrV1 {
    /// The name in the registry.
    pub const NAME: &'static str = "bbr1";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 2017,
        source: "Cardwell, Cheng, Hassas Yeganeh and Jacobson, draft-cardwell-iccrg-bbr-congestion-control-00",
        signal: Signal::Rate,
        keeps_in_queue: "nothing alone; up to one bandwidth-delay product beside others",
        deviations: "what SACK reported counts as in flight when recovery begins; chance is the time",
        exceptions: &[
            Exception {
                check: "reduces on loss",
                why: "a loss says nothing of its model; the window falls to what is in flight for a round trip",
            },
            Exception { check: "halves on loss", why: "the window returns when the loss is repaired" },
            Exception { check: "reduces on loss whatever is outstanding", why: "it has no threshold" },
            Exception { check: "reduces on a mark", why: "its draft does not mention marks" },
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

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        let smss = u64::from(start.smss.max(1));
        let initial_window = start.initial_window.max(smss);
        Self {
            smss,
            initial_window,
            cwnd: initial_window,
            pace: Pace::new(initial_window, HIGH_GAIN),
            state: State::Startup,
            cycle_stamp: start.now,
            seed: start.now.as_nanos(),
            btl_bw: 0,
            btl_bw_filter: MaxFilter::default(),
            rtprop: INFINITY,
            rtprop_stamp: start.now,
            rtprop_expired: false,
            next_round_delivered: 0,
            round_count: 0,
            round_start: false,
            app_limited: false,
            app_limited_until: 0,
            idle_restart: false,
            filled_pipe: false,
            full_bw: 0,
            full_bw_count: 0,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            recovery: Recovery::default(),
            conserves_until: None,
            newly_lost: 0,
        }
    }

    // ----- the model (§4.1) -----

    /// BBRUpdateRound() and BBRUpdateBtlBw().
    fn update_btl_bw(&mut self, rs: &RateSample) {
        self.round_start = rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.next_round_delivered = rs.total_delivered;
            self.round_count.count();
        }
        if rs.delivery_rate > 0 && (rs.delivery_rate >= self.btl_bw || !rs.is_app_limited) {
            self.btl_bw = self.btl_bw_filter.update(rs.delivery_rate, self.round_count, BTL_BW_FILTER_ROUNDS);
        }
    }

    /// BBRUpdateRTprop().
    fn update_rtprop(&mut self, rs: &RateSample) {
        self.rtprop_expired = rs.now > self.rtprop_stamp + RTPROP_FILTER_LENGTH;
        if let Some(rtt) = rs.rtt
            && (rtt <= self.rtprop || self.rtprop_expired)
        {
            (self.rtprop, self.rtprop_stamp) = (rtt, rs.now);
        }
    }

    // ----- what it controls (§4.2) -----

    /// BBRSetPacingRateWithGain().
    fn set_pacing_rate(&mut self, gain: u64) {
        self.pace.set(scale(self.btl_bw, gain), self.filled_pipe);
    }

    /// BBRSetSendQuantum().
    fn send_quantum(&self) -> u64 {
        match self.pace.rate() {
            ..SLOW => self.smss,
            SLOW..FAST => self.segments(2),
            rate => (rate / 1000).min(SEND_QUANTUM_MAX),
        }
    }

    /// BBRInflight().
    fn inflight(&self, gain: u64) -> u64 {
        if self.rtprop == INFINITY {
            return self.initial_window;
        }
        let bdp = scale(bandwidth_delay(self.btl_bw, self.rtprop), gain);
        bdp.saturating_add(self.send_quantum().saturating_mul(3))
    }

    fn min_pipe_cwnd(&self) -> u64 {
        self.segments(4)
    }

    fn segments(&self, number: u64) -> u64 {
        self.smss.saturating_mul(number)
    }

    /// BBRSetCwnd().
    fn set_cwnd(&mut self, rs: &RateSample) {
        let target = self.inflight(self.state.cwnd_gain()).min(CWND_MAX);
        self.modulate_cwnd_for_recovery(rs);
        if self.conserves_until.is_none() {
            if self.filled_pipe {
                self.cwnd = self.cwnd.saturating_add(rs.newly_acked).min(target);
            } else if self.cwnd < target || rs.total_delivered < self.initial_window {
                self.cwnd = self.cwnd.saturating_add(rs.newly_acked).min(CWND_MAX);
            }
            self.cwnd = self.cwnd.max(self.min_pipe_cwnd());
        }
        // BBRModulateCwndForProbeRTT().
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.min_pipe_cwnd());
        }
    }

    /// BBRModulateCwndForRecovery(), which ends conservation after its round trip.
    fn modulate_cwnd_for_recovery(&mut self, rs: &RateSample) {
        let lost = std::mem::take(&mut self.newly_lost);
        if lost > 0 {
            self.cwnd = self.cwnd.saturating_sub(lost).max(self.smss);
        }
        self.conserves_until = self.conserves_until.filter(|until| rs.prior_delivered < *until);
        if self.conserves_until.is_some() {
            self.cwnd = self.cwnd.max(rs.in_flight.saturating_add(rs.newly_acked));
        }
    }

    /// BBRSaveCwnd().
    fn save_cwnd(&mut self) {
        self.recovery.save(self.cwnd, self.state == State::ProbeRtt);
    }

    /// BBRRestoreCwnd().
    fn restore_cwnd(&mut self) {
        self.cwnd = self.recovery.restored(self.cwnd);
    }

    /// All losses are repaired, or were not losses.
    fn end_recovery(&mut self) {
        if self.recovery.end() {
            self.conserves_until = None;
            self.restore_cwnd();
        }
    }

    // ----- the state machine (§4.3) -----

    /// BBRCheckFullPipe(): three round trips without a quarter more bandwidth.
    fn check_full_pipe(&mut self, rs: &RateSample) {
        if self.filled_pipe || !self.round_start || rs.is_app_limited {
            return;
        }
        if self.btl_bw >= scale(self.full_bw, 125) {
            (self.full_bw, self.full_bw_count) = (self.btl_bw, 0);
            return;
        }
        self.full_bw_count = self.full_bw_count.saturating_add(1);
        self.filled_pipe = self.full_bw_count >= 3;
    }

    /// BBRCheckDrain().
    fn check_drain(&mut self, rs: &RateSample) {
        if self.state == State::Startup && self.filled_pipe {
            self.state = State::Drain;
        }
        if self.state == State::Drain && rs.in_flight <= self.inflight(100) {
            self.enter_probe_bw(rs.now);
        }
    }

    /// BBREnterProbeBW(): the cycle begins in any phase but the one that drains.
    // Deviation from the draft: this crate has no random numbers.
    fn enter_probe_bw(&mut self, now: Instant) {
        let back = arbitrary(now, self.rtprop, self.seed) % (PHASES - 1);
        self.advance_cycle_phase(now, (PHASES - 1).saturating_sub(back));
    }

    /// BBRAdvanceCyclePhase(), from `phase`.
    fn advance_cycle_phase(&mut self, now: Instant, phase: u64) {
        self.cycle_stamp = now;
        let next = phase.saturating_add(1);
        self.state = State::ProbeBw(if next < PHASES { next } else { 0 });
    }

    /// BBRCheckCyclePhase() and BBRIsNextCyclePhase().
    fn check_cycle_phase(&mut self, rs: &RateSample, prior_in_flight: u64) {
        let State::ProbeBw(phase) = self.state else { return };
        let is_full_length = rs.now.nanos_since(self.cycle_stamp) > self.rtprop;
        let gain = self.state.pacing_gain();
        let is_next = match gain {
            101.. => is_full_length && (self.newly_lost > 0 || prior_in_flight >= self.inflight(gain)),
            100 => is_full_length,
            _ => is_full_length || prior_in_flight <= self.inflight(100),
        };
        if is_next {
            self.advance_cycle_phase(rs.now, phase);
        }
    }

    /// BBRCheckProbeRTT().
    fn check_probe_rtt(&mut self, rs: &RateSample) {
        if self.state != State::ProbeRtt && self.rtprop_expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt_done_stamp = None;
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(rs);
        }
        self.idle_restart = false;
    }

    /// BBRHandleProbeRTT() and BBRExitProbeRTT().
    fn handle_probe_rtt(&mut self, rs: &RateSample) {
        // The low rates of this state say nothing about the path.
        self.app_limited_until = rs.total_delivered.saturating_add(rs.in_flight).max(1);
        let Some(done) = self.probe_rtt_done_stamp else {
            if rs.in_flight <= self.min_pipe_cwnd() {
                self.probe_rtt_done_stamp = Some(rs.now + PROBE_RTT_DURATION);
                self.probe_rtt_round_done = false;
                self.next_round_delivered = rs.total_delivered;
            }
            return;
        };
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done && rs.now > done {
            self.rtprop_stamp = rs.now;
            self.restore_cwnd();
            if self.filled_pipe {
                self.enter_probe_bw(rs.now);
            } else {
                self.state = State::Startup;
            }
        }
    }
}

impl Controller for BbrV1 {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.pace.seed(self.initial_window, ack.srtt_ns, HIGH_GAIN);
        let mut rs = RateSample::new(ack);
        rs.is_app_limited |= ack.prior_delivered < self.app_limited_until;
        self.app_limited = rs.is_app_limited;
        self.update_btl_bw(&rs);
        self.check_cycle_phase(&rs, ack.prior_in_flight);
        self.check_full_pipe(&rs);
        self.check_drain(&rs);
        self.update_rtprop(&rs);
        self.check_probe_rtt(&rs);
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_cwnd(&rs);
        if self.recovery.is_timeout_repaired(rs.total_delivered) {
            self.end_recovery();
        }
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.newly_lost = self.newly_lost.saturating_add(lost.bytes);
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        if loss.cause == LossCause::EcnEcho {
            return;
        }
        self.save_cwnd();
        self.recovery.begin();
        self.conserves_until = Some(loss.delivered);
        // What is lost so far is no longer in flight.
        self.newly_lost = 0;
        self.cwnd = loss.flight_size.saturating_sub(loss.bytes_lost).saturating_add(self.smss);
    }

    fn on_recovery_end(&mut self, _: &RecoveryEnd) {
        self.end_recovery();
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.save_cwnd();
        self.recovery.begin_by_timeout(timeout);
        self.conserves_until = None;
        self.newly_lost = 0;
        self.cwnd = self.smss;
    }

    fn on_sent(&mut self, sent: &Sent) {
        // BBRHandleRestartFromIdle().
        if sent.in_flight > sent.bytes || !self.app_limited {
            return;
        }
        self.idle_restart = true;
        if matches!(self.state, State::ProbeBw(_)) {
            self.set_pacing_rate(100);
        }
    }

    fn on_idle_restart(&mut self, _: &IdleRestart) {
        self.idle_restart = true;
    }

    fn on_undo(&mut self, _: &Undo) {
        self.newly_lost = 0;
        self.end_recovery();
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
            .with("state", signed(self.state.number()))
            .with("bw", signed(self.btl_bw))
            .with("min_rtt_us", signed(self.rtprop / 1000))
    }
}

/// BBRHighGain: 2/ln(2).
const HIGH_GAIN: u64 = 289;
/// BBRGainCycleLen.
const PHASES: u64 = 8;
/// BtlBwFilterLen.
const BTL_BW_FILTER_ROUNDS: u64 = 10;
/// RTpropFilterLen, and ProbeRTTInterval.
const RTPROP_FILTER_LENGTH: Duration = Duration::from_secs(10);
/// ProbeRTTDuration.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// 1.2 and 24 Mbit/s, in bytes a second: below them a quantum is one segment, or two.
const SLOW: u64 = 150_000;
const FAST: u64 = 3_000_000;

ackclock_form::form! {
    struct BbrV1 {
        smss, initial_window, cwnd, pace, state, cycle_stamp, seed, btl_bw, btl_bw_filter, rtprop,
        rtprop_stamp, rtprop_expired, next_round_delivered, round_count, round_start, app_limited,
        app_limited_until, idle_restart, filled_pipe, full_bw, full_bw_count, probe_rtt_done_stamp,
        probe_rtt_round_done, recovery, conserves_until, newly_lost
    }
    enum State { 0 Startup, 1 Drain, 2 ProbeBw(value), 3 ProbeRtt }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::described;
    use crate::congestion::testing::{SMSS, START, ack, loss, timeout};
    use crate::kit::{Flow, Path};

    const SECOND: Duration = Duration::from_secs(1);

    fn flow(path: Path) -> Flow {
        let bbr = described(BbrV1::NAME, BbrV1::ABOUT, |start| Box::new(BbrV1::new(start)));
        Flow::new(bbr.as_ref(), path)
    }

    fn value(flow: &Flow, name: &str) -> i64 {
        flow.controller().snapshot().iter().find(|(key, _)| *key == name).unwrap().1
    }

    /// The states and phases that a flow passes through in whole, each with its beginning and its duration
    /// in milliseconds.
    fn phases(flow: &mut Flow, time: Duration) -> Vec<(i64, u64, u64)> {
        let begun = flow.now();
        let mut begins: Vec<(i64, u64)> = Vec::new();
        while flow.now() < begun + time {
            let (state, at) = (value(flow, "state"), flow.now().nanos_since(begun) / 1_000_000);
            if begins.last().is_none_or(|(last, _)| *last != state) {
                begins.push((state, at));
            }
            flow.run(Duration::from_millis(1));
        }
        begins.windows(2).map(|pair| (pair[0].0, pair[0].1, pair[1].1 - pair[0].1)).collect()
    }

    #[test]
    fn each_phase_of_the_cycle_lasts_a_round_trip_and_the_draining_one_no_longer() {
        let mut flow = flow(Path::TYPICAL);
        let phases = phases(&mut flow, 9 * SECOND);
        let order: Vec<i64> = phases.iter().map(|(state, ..)| *state).collect();
        assert_eq!(order[..2], [0, 1], "{phases:?}");
        assert!(order[2..].iter().all(|state| *state >= 10) && order[2] != 11, "{phases:?}");
        for pair in order[2..].windows(2) {
            assert_eq!(pair[1] - 10, (pair[0] - 10 + 1) % 8, "{phases:?}");
        }
        let cycle = &phases[3..];
        assert!(cycle.len() >= 40, "{phases:?}");
        for (state, _, time) in cycle {
            // The round trip is 100 ms, an acknowledgement comes each 1.6 ms; probing lasts until it shows.
            let allowed = match state {
                10 => 100..=220,
                11 => 1..=104,
                _ => 100..=104,
            };
            assert!(allowed.contains(time), "phase {state}: {time} ms of {allowed:?}");
        }
    }

    #[test]
    fn the_round_trip_is_probed_every_ten_seconds_for_200_ms_and_a_round_trip() {
        let mut flow = flow(Path { buffer: 10_000_000, ..Path::TYPICAL });
        let phases = phases(&mut flow, 35 * SECOND);
        let probes: Vec<_> = phases.iter().filter(|(state, ..)| *state == 2).collect();
        assert_eq!(probes.len(), 3, "{phases:?}");
        for pair in probes.windows(2) {
            let between = pair[1].1 - pair[0].1 - pair[0].2;
            // Until the queue is back, smaller round trips still come, and the ten seconds begin with each.
            assert!((10_000..=10_600).contains(&between), "{between} ms: {probes:?}");
        }
        // Until four segments are in flight, then 200 ms, then to the end of a round trip.
        assert!(probes.iter().all(|(_, _, time)| (300..=520).contains(time)), "{probes:?}");
    }

    #[test]
    fn the_path_is_used_with_a_short_queue() {
        let mut flow = flow(Path { buffer: 10_000_000, ..Path::TYPICAL });
        flow.run(11 * SECOND);
        let before = flow.totals();
        let mut queue = 0;
        for _ in 0..450 {
            flow.run(SECOND / 50);
            queue += flow.queue();
        }
        let delivered = flow.totals().delivered - before.delivered;
        assert!(
            (95..=100).contains(&(delivered * 100 / (9 * Path::TYPICAL.rate))),
            "{delivered} bytes in 9 s"
        );
        let share = queue / 450 * 100 / Path::TYPICAL.bandwidth_delay_product();
        assert!((1..=15).contains(&share), "{share} % of the path's content queued on average");
    }

    /// BBR in ProbeBW at 1 MB/s and 100 ms, with 100 segments in flight.
    fn probing() -> BbrV1 {
        let mut bbr = BbrV1::new(&START);
        bbr.state = State::ProbeBw(3);
        bbr.filled_pipe = true;
        bbr.btl_bw = bbr.btl_bw_filter.update(1_000_000, 0, BTL_BW_FILTER_ROUNDS);
        bbr.rtprop = 100_000_000;
        bbr.pace.set(1_000_000, true);
        bbr.cwnd = 200 * SMSS;
        bbr
    }

    /// An acknowledgement of two segments, and what is in flight after it.
    fn acked(at: u64, segments_in_flight: u64, prior_delivered: u64) -> Ack {
        Ack {
            in_flight: segments_in_flight * SMSS,
            delivered: 1_000_000,
            prior_delivered,
            app_limited: true,
            ..ack(at, 2 * SMSS)
        }
    }

    fn lose(bbr: &mut BbrV1, segments: u64) {
        let (now, bytes) = (Instant::ZERO, segments * SMSS);
        let (delivered, prior_delivered, app_limited) = (1_000_000, 0, false);
        let (tx_in_flight, lost) = (100 * SMSS, bytes);
        bbr.on_lost(&Lost { now, bytes, delivered, prior_delivered, app_limited, tx_in_flight, lost });
    }

    #[test]
    fn recovery_conserves_packets_for_a_round_trip_and_gives_the_window_back() {
        let mut bbr = probing();
        lose(&mut bbr, 4);
        bbr.on_loss_episode(&LossEpisode {
            bytes_lost: 4 * SMSS,
            delivered: 1_000_000,
            ..loss(100, 100 * SMSS)
        });
        assert_eq!(bbr.cwnd, 97 * SMSS, "what is in flight, and one to send again");
        // Two more lost, two delivered: what is in flight and what left it.
        lose(&mut bbr, 2);
        bbr.on_ack(&acked(110, 92, 900_000));
        assert_eq!(bbr.cwnd, 95 * SMSS);
        bbr.on_ack(&acked(120, 94, 950_000));
        assert_eq!(bbr.cwnd, 96 * SMSS);
        // What left after the loss is acknowledged: the window follows the target again.
        bbr.on_ack(&acked(220, 94, 1_000_000));
        assert_eq!(bbr.cwnd, 98 * SMSS);
        let now = Instant::from_millis(230);
        bbr.on_recovery_end(&RecoveryEnd { now, in_flight: 90 * SMSS, inflation: 0, delivered: 1_100_000 });
        assert_eq!(bbr.cwnd, 200 * SMSS);
        assert_eq!(bbr.btl_bw, 1_000_000, "the model is what it was");
    }

    #[test]
    fn a_timeout_leaves_one_segment_until_what_was_out_is_delivered() {
        let mut bbr = probing();
        bbr.on_timeout(&Timeout { delivered: 1_000_000, ..timeout(100 * SMSS, 1) });
        assert_eq!(bbr.cwnd, SMSS);
        bbr.on_ack(&acked(1100, 0, 900_000));
        assert_eq!(bbr.cwnd, 4 * SMSS, "BBRMinPipeCwnd");
        bbr.on_ack(&Ack { delivered: 1_100_000, ..acked(1200, 0, 900_000) });
        assert_eq!(bbr.cwnd, 200 * SMSS);
    }

    #[test]
    fn the_target_is_the_gain_times_the_path_and_three_quanta() {
        let mut bbr = probing();
        // The round trip counts in 2^-30 s, which leaves one byte less than 100,000 on the path.
        let path = 99_999;
        // 1 MB/s: below 24 Mbit/s a quantum is two segments.
        assert_eq!((bbr.inflight(100), bbr.inflight(200)), (path + 6 * SMSS, 2 * path + 6 * SMSS));
        bbr.pace.set(149_999, true);
        assert_eq!(bbr.inflight(100), path + 3 * SMSS);
        bbr.pace.set(10_000_000, true);
        assert_eq!(bbr.inflight(100), path + 30_000, "a millisecond each");
        bbr.pace.set(1_000_000_000, true);
        assert_eq!(bbr.inflight(100), path + 3 * 65_536);
        bbr.rtprop = INFINITY;
        assert_eq!(bbr.inflight(289), 10 * SMSS, "the initial window");
    }

    #[test]
    fn the_bandwidth_is_forgotten_after_ten_round_trips() {
        let mut bbr = probing();
        for round in 1..=11_u64 {
            let delivered = 1_000_000 + round * 50_000;
            let rate = Ack {
                delivered,
                prior_delivered: delivered - 50_000,
                app_limited: false,
                ..ack(100 * round, 50_000)
            };
            bbr.on_ack(&rate);
            assert_eq!(bbr.btl_bw, if round <= 10 { 1_000_000 } else { 500_000 }, "round {round}");
        }
    }
}
