//! The assessment of ssthresh estimates: M. Allman and V. Paxson, SIGCOMM 1999, §3.1.
//!
//! An estimate E of the bandwidth is held against B, the bottleneck's bandwidth
//! ([`pbm`](crate::bandwidth::pbm)), and against L, the rate at which the first lost segment was sent, or L′,
//! the largest rate of a connection without loss. It falls into the first region that fits. All rates are in
//! bytes a second, and the comparisons are exact.
//!
//! ```
//! use std::time::Duration;
//! use ackclock_control::assess::ssthresh::{KnownPath, LossRegion, rate};
//!
//! let rtt = Duration::from_millis(100);
//! let path = KnownPath { bottleneck: 100_000, rtt, segment: 1000, segments_per_ack: 2 };
//! let loss_point = rate(30_000, path.rtt);
//! assert_eq!(path.with_loss(loss_point, Some(110_000)), LossRegion::Optimal);
//! assert_eq!(path.with_loss(loss_point, Some(200_000)), LossRegion::SteadyState);
//! ```

use std::num::NonZeroU128;
use std::time::Duration;

use crate::divide::{SECOND, at_least_one, times};
use crate::tally::Tally;
use crate::time::nanos;

/// Figures of a connection's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPath {
    /// B: the bandwidth of the bottleneck, in bytes a second.
    pub bottleneck: u64,
    /// The round-trip time.
    pub rtt: Duration,
    /// The segment size in bytes.
    pub segment: u32,
    /// k: the number of segments that the receiver acknowledges at once. Slow start grows by γ = 1 + 1/k a
    /// round trip. The paper uses 2.
    pub segments_per_ack: u32,
}

/// The effect that an estimate would have had on a connection that lost a segment (§3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossRegion {
    /// No estimate was made before the first loss.
    NoEstimate,
    /// E ≥ γL.
    NoImpact,
    /// L ≤ E < γL.
    SomeLossPrevention,
    /// L/2 ≤ E < L.
    SteadyState,
    /// seg(E) ≥ seg(B) - 1.
    Optimal,
    /// E below L/2 and B.
    ReducedPerformance,
}

/// The effect that an estimate would have had on a connection without loss (§3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LosslessRegion {
    /// No estimate was made.
    NoEstimate,
    /// E ≥ L′.
    UnknownEffect,
    /// seg(E) ≥ seg(B) - 1.
    Optimal,
    /// E below both.
    ReducedPerformance,
}

/// The rate of a sender that sends `window` bytes in each round trip: L = W/RTT.
#[must_use]
pub fn rate(window: u64, rtt: Duration) -> u64 {
    let rate = (u128::from(window) * NANOS).checked_div(u128::from(nanos(rtt)));
    rate.and_then(|rate| u64::try_from(rate).ok()).unwrap_or(u64::MAX)
}

impl KnownPath {
    /// The region of `estimate` on a connection whose first lost segment was sent at `loss_point` (L).
    #[must_use]
    pub fn with_loss(&self, loss_point: u64, estimate: Option<u64>) -> LossRegion {
        let Some(estimate) = estimate else { return LossRegion::NoEstimate };
        let (e, l) = (u128::from(estimate), u128::from(loss_point));
        let k = u128::from(self.segments_per_ack.max(1));
        if e.saturating_mul(k) >= l.saturating_mul(k.saturating_add(1)) {
            LossRegion::NoImpact
        } else if e >= l {
            LossRegion::SomeLossPrevention
        } else if e.saturating_mul(2) >= l {
            LossRegion::SteadyState
        } else if self.reaches_bottleneck(e) {
            LossRegion::Optimal
        } else {
            LossRegion::ReducedPerformance
        }
    }

    /// The region of `estimate` on a connection without loss. `largest` (L′) is the rate of its largest
    /// flight.
    #[must_use]
    pub fn without_loss(&self, largest: u64, estimate: Option<u64>) -> LosslessRegion {
        let Some(estimate) = estimate else { return LosslessRegion::NoEstimate };
        if estimate >= largest {
            LosslessRegion::UnknownEffect
        } else if self.reaches_bottleneck(u128::from(estimate)) {
            LosslessRegion::Optimal
        } else {
            LosslessRegion::ReducedPerformance
        }
    }

    /// seg(γL - E): the largest number of drops that an estimate in [`LossRegion::SomeLossPrevention`]
    /// prevents, in whole segments.
    #[must_use]
    pub fn drops_prevented(&self, loss_point: u64, estimate: u64) -> u64 {
        let k = NonZeroU128::from(at_least_one(self.segments_per_ack.into()));
        let grown = u128::from(loss_point).saturating_mul(k.get().saturating_add(1)) / k;
        let bytes = grown.saturating_sub(estimate.into()).saturating_mul(nanos(self.rtt).into()) / NANOS;
        let segments = bytes / NonZeroU128::from(at_least_one(self.segment.into()));
        u64::try_from(segments).unwrap_or(u64::MAX)
    }

    /// (L - E)·RTT: the bytes by which an estimate in [`LossRegion::Optimal`] shortens the first queue.
    #[must_use]
    pub fn queue_spared(&self, loss_point: u64, estimate: u64) -> u64 {
        times(loss_point.saturating_sub(estimate), nanos(self.rtt), SECOND).unwrap_or(u64::MAX)
    }

    /// Whether an estimate that reduces performance is below half of `bound`, which is min(L/2, B), or
    /// min(L′, B) without loss.
    fn is_far_below(&self, bound: u64, estimate: Option<u64>) -> bool {
        estimate.is_some_and(|estimate| u128::from(estimate) * 2 < u128::from(bound.min(self.bottleneck)))
    }

    /// seg(E) ≥ seg(B) - 1, where seg(x) = x·RTT / segment size.
    fn reaches_bottleneck(&self, estimate: u128) -> bool {
        let (b, rtt) = (u128::from(self.bottleneck), u128::from(nanos(self.rtt)));
        estimate.saturating_mul(rtt).saturating_add(u128::from(self.segment) * NANOS) >= b.saturating_mul(rtt)
    }
}

/// A row of table 5: one estimator on connections with loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossRow {
    /// Connections by region, in the order of [`LossRegion`].
    pub connections: [u32; 6],
    /// Connections in [`LossRegion::ReducedPerformance`] whose estimate was less than half of min(L/2, B).
    pub far_below: u32,
}

impl LossRow {
    /// Makes the row from each connection's path, loss point and estimate.
    #[must_use]
    pub fn of(connections: impl IntoIterator<Item = (KnownPath, u64, Option<u64>)>) -> Self {
        let mut row = Self::default();
        for (path, loss_point, estimate) in connections {
            let region = path.with_loss(loss_point, estimate);
            let [none, impact, prevention, steady, optimal, reduced] = &mut row.connections;
            let connections = match region {
                LossRegion::NoEstimate => none,
                LossRegion::NoImpact => impact,
                LossRegion::SomeLossPrevention => prevention,
                LossRegion::SteadyState => steady,
                LossRegion::Optimal => optimal,
                LossRegion::ReducedPerformance => reduced,
            };
            connections.count();
            let far = region == LossRegion::ReducedPerformance && path.is_far_below(loss_point / 2, estimate);
            row.far_below.grow(u32::from(far));
        }
        row
    }

    /// "Tot.": the connections that the estimator helped: some loss prevention, steady state, or optimal.
    #[must_use]
    pub fn helped(&self) -> u32 {
        let [_, _, prevention, steady, optimal, _] = self.connections;
        prevention.saturating_add(steady).saturating_add(optimal)
    }

    /// "*": whether at least half of the connections with reduced performance are far below.
    #[must_use]
    pub fn is_especially_bad(&self) -> bool {
        let [.., reduced] = self.connections;
        reduced > 0 && self.far_below.saturating_mul(2) >= reduced
    }
}

/// A row of table 6: one estimator on connections without loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LosslessRow {
    /// Connections by region, in the order of [`LosslessRegion`].
    pub connections: [u32; 4],
    /// Connections in [`LosslessRegion::ReducedPerformance`] whose estimate was less than half of min(L′, B).
    pub far_below: u32,
}

impl LosslessRow {
    /// Makes the row from each connection's path, largest rate and estimate.
    #[must_use]
    pub fn of(connections: impl IntoIterator<Item = (KnownPath, u64, Option<u64>)>) -> Self {
        let mut row = Self::default();
        for (path, largest, estimate) in connections {
            let region = path.without_loss(largest, estimate);
            let [none, unknown, optimal, reduced] = &mut row.connections;
            let connections = match region {
                LosslessRegion::NoEstimate => none,
                LosslessRegion::UnknownEffect => unknown,
                LosslessRegion::Optimal => optimal,
                LosslessRegion::ReducedPerformance => reduced,
            };
            connections.count();
            let far = region == LosslessRegion::ReducedPerformance && path.is_far_below(largest, estimate);
            row.far_below.grow(u32::from(far));
        }
        row
    }

    /// "*": whether at least half of the connections with reduced performance are far below.
    #[must_use]
    pub fn is_especially_bad(&self) -> bool {
        let [.., reduced] = self.connections;
        reduced > 0 && self.far_below.saturating_mul(2) >= reduced
    }
}

const NANOS: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{KnownPath, LossRegion, LossRow, LosslessRegion, LosslessRow, rate};

    /// B is ten segments of 1000 bytes in 100 ms.
    const PATH: KnownPath = KnownPath {
        bottleneck: 100_000,
        rtt: Duration::from_millis(100),
        segment: 1000,
        segments_per_ack: 2,
    };

    #[test]
    fn six_regions_of_connections_with_loss_in_their_order() {
        // Tests: A5
        // L is 300 KB/s; γL 450, L/2 150, B - 1 segment 90.
        let region = |estimate| PATH.with_loss(300_000, estimate);
        assert_eq!(region(None), LossRegion::NoEstimate);
        assert_eq!(region(Some(450_000)), LossRegion::NoImpact);
        assert_eq!(region(Some(449_999)), LossRegion::SomeLossPrevention);
        assert_eq!(region(Some(300_000)), LossRegion::SomeLossPrevention);
        assert_eq!(region(Some(299_999)), LossRegion::SteadyState);
        assert_eq!(region(Some(150_000)), LossRegion::SteadyState);
        assert_eq!(region(Some(149_999)), LossRegion::Optimal);
        assert_eq!(region(Some(90_000)), LossRegion::Optimal);
        assert_eq!(region(Some(89_999)), LossRegion::ReducedPerformance);
    }

    #[test]
    fn first_region_that_fits_counts() {
        // Tests: A5
        // On a congested path L is below B. Half of L is steady state, although it is far below the
        // bottleneck.
        assert_eq!(PATH.with_loss(60_000, Some(40_000)), LossRegion::SteadyState);
        assert_eq!(PATH.with_loss(60_000, Some(29_999)), LossRegion::ReducedPerformance);
    }

    #[test]
    fn growth_follows_what_is_acknowledged_at_once() {
        // Tests: A5
        let every_segment = KnownPath { segments_per_ack: 1, ..PATH };
        assert_eq!(every_segment.with_loss(300_000, Some(450_000)), LossRegion::SomeLossPrevention);
        assert_eq!(every_segment.with_loss(300_000, Some(600_000)), LossRegion::NoImpact);
    }

    #[test]
    fn four_regions_of_connections_without_loss_in_their_order() {
        // Tests: A5
        let region = |estimate| PATH.without_loss(200_000, estimate);
        assert_eq!(region(None), LosslessRegion::NoEstimate);
        assert_eq!(region(Some(200_000)), LosslessRegion::UnknownEffect);
        assert_eq!(region(Some(199_999)), LosslessRegion::Optimal);
        assert_eq!(region(Some(90_000)), LosslessRegion::Optimal);
        assert_eq!(region(Some(89_999)), LosslessRegion::ReducedPerformance);
    }

    #[test]
    fn benefits_are_those_of_the_paper() {
        // Tests: A5
        assert_eq!(rate(30_000, PATH.rtt), 300_000);
        // seg(450 - 350 KB/s) in 100 ms.
        assert_eq!(PATH.drops_prevented(300_000, 350_000), 10);
        assert_eq!(PATH.queue_spared(300_000, 110_000), 19_000);
    }

    #[test]
    fn rows_count_regions_and_mark_the_especially_bad() {
        // Tests: A5
        let estimates =
            [None, Some(500_000), Some(300_000), Some(200_000), Some(100_000), Some(60_000), Some(40_000)];
        let row = LossRow::of(estimates.map(|estimate| (PATH, 300_000, estimate)));
        assert_eq!((row.connections, row.helped()), ([1, 1, 1, 1, 1, 2], 3));
        // 40 KB/s is less than half of min(150, 100).
        assert_eq!((row.far_below, row.is_especially_bad()), (1, true));
        let row = LosslessRow::of(estimates.map(|estimate| (PATH, 200_000, estimate)));
        assert_eq!((row.connections, row.is_especially_bad()), ([1, 3, 1, 2], true));
        let row = LosslessRow::of([Some(60_000), Some(70_000), Some(10_000)].map(|e| (PATH, 200_000, e)));
        assert!(!row.is_especially_bad());
    }

    #[test]
    fn any_numbers_are_survived() {
        let mut all = Vec::new();
        for number in [0, 1, u64::MAX / 2, u64::MAX] {
            for rtt in [Duration::ZERO, Duration::MAX] {
                let path = KnownPath { bottleneck: number, rtt, segment: u32::MAX, segments_per_ack: 0 };
                for estimate in [None, Some(0), Some(u64::MAX)] {
                    let rows = (
                        LossRow::of([(path, number, estimate)]),
                        LosslessRow::of([(path, number, estimate)]),
                    );
                    all.extend([u64::from(rows.0.far_below), u64::from(rows.1.far_below)]);
                }
                all.extend([
                    path.drops_prevented(number, 1),
                    path.queue_spared(number, 1),
                    rate(number, rtt),
                ]);
            }
        }
        assert_eq!(all.len(), 8 * 9);
    }
}
