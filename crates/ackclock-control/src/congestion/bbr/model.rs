//! BBR's model of the path: bandwidth, round trip, aggregation, and the bounds that congestion sets.

use super::super::round::per_second;
use super::super::{Ack, Lost};
use super::BbrLoss;
use super::max_filter::MaxFilter;
use crate::Instant;
use crate::time::nanos;

/// The sample of one acknowledgement (the draft's RS).
#[derive(Clone, Copy, Debug)]
pub(super) struct RateSample {
    pub now: Instant,
    /// Round-trip time in nanoseconds.
    pub rtt: Option<u64>,
    /// Bytes a second; zero if unknown.
    pub delivery_rate: u64,
    /// Bytes delivered, and bytes lost, since the newest acknowledged segment was sent, and the bytes in
    /// flight at that time.
    pub delivered: u64,
    pub lost: u64,
    pub tx_in_flight: u64,
    pub prior_delivered: u64,
    /// Bytes delivered since the connection began (C.delivered).
    pub total_delivered: u64,
    pub newly_acked: u64,
    pub in_flight: u64,
    pub is_app_limited: bool,
    pub is_cwnd_limited: bool,
}

impl RateSample {
    pub fn new(ack: &Ack) -> Self {
        let delivered = ack.delivered.saturating_sub(ack.prior_delivered);
        // GenerateRateSample(): an interval shorter than the smallest round trip comes from a spurious
        // retransmission.
        let interval = Some(ack.delivery_interval_ns).filter(|&interval| interval >= ack.rtt_min_ns);
        Self {
            now: ack.now,
            rtt: ack.rtt_ns,
            delivery_rate: interval.map_or(0, |interval| per_second(delivered, interval)),
            delivered,
            lost: ack.lost,
            tx_in_flight: ack.tx_in_flight,
            prior_delivered: ack.prior_delivered,
            total_delivered: ack.delivered,
            newly_acked: ack.bytes_acked,
            in_flight: ack.in_flight,
            is_app_limited: ack.app_limited,
            is_cwnd_limited: ack.cwnd_limited,
        }
    }
}

/// The network path model (§2.9 to §2.11, §5.5). Infinity is `u64::MAX`.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// The largest delivery rates of this ProbeBW cycle and of the one before.
    max_bw_filter: [u64; 2],
    pub(super) max_bw: u64,
    /// min(max_bw, bw_shortterm).
    pub(super) bw: u64,
    pub(super) bw_shortterm: u64,
    pub(super) inflight_shortterm: u64,
    pub(super) inflight_longterm: u64,
    /// Smallest round trip in nanoseconds, when it was measured, and the same in 2^-30 s.
    pub(super) min_rtt: u64,
    min_rtt_stamp: Instant,
    min_rtt_fixed: u64,
    bw_latest: u64,
    inflight_latest: u64,
    loss_round_delivered: u64,
    pub(super) loss_round_start: bool,
    pub(super) is_loss_in_round: bool,
    /// The number of times that losses were found in this round trip.
    pub(super) loss_events_in_round: u32,
    /// A mark of congestion arrived in this round trip.
    pub(super) is_mark_in_round: bool,
    pub(super) extra_acked: u64,
    extra_acked_filter: MaxFilter,
    extra_acked_interval_start: Instant,
    extra_acked_delivered: u64,
}

impl Model {
    pub fn new(now: Instant) -> Self {
        Self {
            max_bw_filter: [0; 2],
            max_bw: 0,
            bw: 0,
            bw_shortterm: INFINITY,
            inflight_shortterm: INFINITY,
            inflight_longterm: INFINITY,
            min_rtt: INFINITY,
            min_rtt_stamp: now,
            min_rtt_fixed: 0,
            bw_latest: 0,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            is_mark_in_round: false,
            loss_events_in_round: 0,
            extra_acked: 0,
            extra_acked_filter: MaxFilter::default(),
            extra_acked_interval_start: now,
            extra_acked_delivered: 0,
        }
    }

    /// `gain` hundredths of the bandwidth-delay product; `None` before the first round trip.
    pub fn bdp_multiple(&self, bw: u64, gain: u64) -> Option<u64> {
        (self.min_rtt != INFINITY).then(|| scale(times(bw, self.min_rtt_fixed), gain))
    }

    /// UpdateLatestDeliverySignals().
    pub fn update_latest_delivery_signals(&mut self, rs: &RateSample) {
        self.bw_latest = self.bw_latest.max(rs.delivery_rate);
        self.inflight_latest = self.inflight_latest.max(rs.delivered);
        self.loss_round_start = rs.prior_delivered >= self.loss_round_delivered;
        if self.loss_round_start {
            self.loss_round_delivered = rs.total_delivered;
        }
    }

    /// AdvanceLatestDeliverySignals().
    pub fn advance_latest_delivery_signals(&mut self, rs: &RateSample) {
        if self.loss_round_start {
            (self.bw_latest, self.inflight_latest) = (rs.delivery_rate, rs.delivered);
            self.loss_events_in_round = 0;
        }
    }

    /// ResetCongestionSignals().
    pub fn reset_congestion_signals(&mut self) {
        (self.is_loss_in_round, self.is_mark_in_round) = (false, false);
        (self.bw_latest, self.inflight_latest) = (0, 0);
    }

    /// UpdateMaxBw(), the filter's part.
    pub fn update_max_bw(&mut self, rs: &RateSample) {
        if rs.delivery_rate > 0 && (rs.delivery_rate >= self.max_bw || !rs.is_app_limited) {
            let [current, previous] = &mut self.max_bw_filter;
            *current = (*current).max(rs.delivery_rate);
            self.max_bw = (*current).max(*previous);
        }
    }

    /// AdvanceMaxBwFilter(): a ProbeBW cycle is over.
    pub fn advance_max_bw_filter(&mut self) {
        let [current, _] = self.max_bw_filter;
        if current > 0 {
            self.max_bw_filter = [0, current];
        }
    }

    /// UpdateCongestionSignals(), after the bandwidth: AdaptLowerBoundsFromCongestion() once a round trip.
    /// `adapts`: the flow is not probing, and the losses of the round trip count.
    pub fn adapt_to_congestion(&mut self, adapts: bool, cwnd: u64) {
        if self.is_loss_in_round && adapts {
            // InitLowerBounds(), LossLowerBounds().
            let bw = if self.bw_shortterm == INFINITY { self.max_bw } else { self.bw_shortterm };
            let inflight = if self.inflight_shortterm == INFINITY { cwnd } else { self.inflight_shortterm };
            self.bw_shortterm = self.bw_latest.max(scale(bw, BETA));
            self.inflight_shortterm = self.inflight_latest.max(scale(inflight, BETA));
        }
        (self.is_loss_in_round, self.is_mark_in_round) = (false, false);
    }

    /// ResetShortTermModel().
    pub fn reset_short_term(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (INFINITY, INFINITY);
    }

    /// BoundBWForModel().
    pub fn bound_bw(&mut self) {
        self.bw = self.max_bw.min(self.bw_shortterm);
    }

    /// NoteLoss(), without saving the state. Returns whether this is the first loss of the round trip.
    pub fn note_loss(&mut self, delivered: u64) -> bool {
        let first = !self.is_loss_in_round;
        if first {
            self.loss_round_delivered = delivered;
        }
        self.is_loss_in_round = true;
        first
    }

    /// CheckStartupHighLoss(): a safe volume, which is max(bdp, inflight_latest).
    pub fn safe_inflight(&self) -> u64 {
        self.bdp_multiple(self.bw, 100).unwrap_or(0).max(self.inflight_latest)
    }

    /// UpdateACKAggregation().
    pub fn update_ack_aggregation(&mut self, rs: &RateSample, cwnd: u64, round: u64, full_bw_reached: bool) {
        let interval = nanos(rs.now.saturating_since(self.extra_acked_interval_start));
        let mut expected = bandwidth_delay(self.bw, interval);
        if self.extra_acked_delivered <= expected {
            self.restart_ack_aggregation(rs.now);
            expected = 0;
        }
        self.extra_acked_delivered = self.extra_acked_delivered.saturating_add(rs.newly_acked);
        let extra = self.extra_acked_delivered.saturating_sub(expected).min(cwnd);
        let length = if full_bw_reached { EXTRA_ACKED_FILTER_ROUNDS } else { 1 };
        self.extra_acked = self.extra_acked_filter.update(extra, round, length);
    }

    pub fn restart_ack_aggregation(&mut self, now: Instant) {
        self.extra_acked_delivered = 0;
        self.extra_acked_interval_start = now;
    }

    /// UpdateMinRTT(), the second half: the windowed minimum.
    pub fn update_min_rtt(&mut self, now: Instant, sample: u64, sampled_at: Instant) {
        let expired = nanos(now.saturating_since(self.min_rtt_stamp)) > MIN_RTT_FILTER_NS;
        if sample != INFINITY && (sample < self.min_rtt || expired) {
            self.min_rtt = sample;
            self.min_rtt_stamp = sampled_at;
            self.min_rtt_fixed = fixed_seconds(sample);
        }
    }
}

/// IsInflightTooHigh(): compares the losses since a segment was sent with what was in flight then.
pub(super) fn is_inflight_too_high(lost: u64, tx_in_flight: u64, rule: BbrLoss, smss: u64) -> bool {
    let allowed = scale(tx_in_flight, LOSS_THRESH_PERCENT);
    // Chance explains twice the square root of the allowed number of losses.
    let chance = || allowed.saturating_mul(smss).isqrt().saturating_mul(CHANCE_DEVIATIONS);
    match rule {
        BbrLoss::Certain => lost > allowed && lost.saturating_sub(allowed) > chance(),
        BbrLoss::Draft => lost > allowed,
        BbrLoss::Ignored => false,
    }
}

/// InflightAtLoss(): what was in flight when losses crossed the threshold.
pub(super) fn inflight_at_loss(lost: &Lost) -> u64 {
    let inflight_prev = lost.tx_in_flight.saturating_sub(lost.bytes);
    let lost_prev = lost.lost.saturating_sub(lost.bytes);
    let allowed = scale(inflight_prev, LOSS_THRESH_PERCENT);
    // Losses before this one may have crossed it already.
    let lost_prefix = allowed.saturating_sub(lost_prev).saturating_mul(100) / (100 - LOSS_THRESH_PERCENT);
    inflight_prev.saturating_add(lost_prefix)
}

/// `gain` hundredths of `value`.
pub(super) fn scale(value: u64, gain: u64) -> u64 {
    value.saturating_mul(gain) / 100
}

/// The bytes that a path of this bandwidth, in bytes a second, holds in `ns`.
pub(super) fn bandwidth_delay(bytes_per_second: u64, ns: u64) -> u64 {
    times(bytes_per_second, fixed_seconds(ns))
}

/// Nanoseconds in 2^-30 s, at most 17 s.
fn fixed_seconds(ns: u64) -> u64 {
    (ns.min((1 << 34) - 1) << 30) / 1_000_000_000
}

/// Bytes a second in a time of 2^-30 s.
fn times(bytes_per_second: u64, fixed: u64) -> u64 {
    u64::try_from(u128::from(bytes_per_second).saturating_mul(fixed.into()) >> 30).unwrap_or(u64::MAX)
}

pub(super) const INFINITY: u64 = u64::MAX;
/// BBR.Beta, in hundredths.
pub(super) const BETA: u64 = 70;
/// BBR.LossThresh.
const LOSS_THRESH_PERCENT: u64 = 2;
/// BBR.MinRTTFilterLen: 10 s.
const MIN_RTT_FILTER_NS: u64 = 10_000_000_000;
/// How many standard deviations above the threshold a loss count must lie to say something about the path.
const CHANCE_DEVIATIONS: u64 = 2;
/// BBR.ExtraAckedFilterLen.
const EXTRA_ACKED_FILTER_ROUNDS: u64 = 10;

ackclock_form::form! {
    struct Model {
        max_bw_filter, max_bw, bw, bw_shortterm, inflight_shortterm, inflight_longterm, min_rtt,
        min_rtt_stamp, min_rtt_fixed, bw_latest, inflight_latest, loss_round_delivered, loss_round_start,
        is_loss_in_round, loss_events_in_round, is_mark_in_round, extra_acked, extra_acked_filter,
        extra_acked_interval_start, extra_acked_delivered
    }
}
