//! Events for the tests of this module.

use std::time::Duration;

use super::{Ack, IdleRestart, LossCause, LossEpisode, Start, Timeout};
use crate::Instant;

pub(super) const SMSS: u64 = 1000;

/// A connection that starts with ten segments of 1000 bytes.
pub(super) const START: Start = Start { smss: 1000, initial_window: 10 * SMSS, now: Instant::ZERO };

/// An acknowledgement of `bytes` at `now_ms` on a path of 100 ms whose window is in full use.
pub(super) fn ack(now_ms: u64, bytes: u64) -> Ack {
    Ack {
        now: Instant::from_millis(now_ms),
        bytes_acked: bytes,
        bytes_cumulative: bytes,
        rtt_ns: Some(100_000_000),
        srtt_ns: 100_000_000,
        rtt_min_ns: 100_000_000,
        delivered: bytes,
        prior_delivered: 0,
        sent_at: Instant::from_millis(now_ms.saturating_sub(100)),
        delivery_interval_ns: 100_000_000,
        app_limited: false,
        tx_in_flight: bytes,
        lost: 0,
        prior_in_flight: bytes,
        in_flight: 0,
        cwnd_limited: true,
        in_recovery: false,
        ecn_marked: 0,
    }
}

pub(super) fn loss(now_ms: u64, flight_size: u64) -> LossEpisode {
    LossEpisode {
        now: Instant::from_millis(now_ms),
        cause: LossCause::DuplicateAcks,
        flight_size,
        bytes_lost: SMSS,
        delivered: 0,
        repeated: false,
        peer_window: u64::MAX,
    }
}

pub(super) fn timeout(flight_size: u64, expiries: u32) -> Timeout {
    Timeout { now: Instant::from_millis(1000), flight_size, expiries, delivered: 0, peer_window: u64::MAX }
}

pub(super) fn idle(restart_window: u64) -> IdleRestart {
    IdleRestart {
        now: Instant::from_millis(1000),
        idle: Duration::from_secs(10),
        rto: Duration::from_secs(1),
        restart_window,
    }
}
