//! Histograms over connections: how long handshakes took, and what each connection was like in the end.
//!
//! A handshake counts when it is over. A connection counts once, when its four-tuple is free again or passes
//! to a TIME-WAIT record; one that was never established does not count.

use std::time::Duration;

use ackclock_control::tally::Tally;

use crate::connection::AtEnd;
use ackclock_form::{Form, FormError, Reader, Writer};

/// A quantity that a histogram counts, and its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measure {
    /// Its name, in lower case with underscores.
    pub name: &'static str,
    /// Its unit, with which the name ends: `"seconds"`, `"ratio"`; empty if the name says it otherwise.
    pub unit: &'static str,
    /// A sentence that describes it.
    pub help: &'static str,
    /// The upper bounds of the buckets, which include them, in parts of the unit.
    pub bounds: &'static [u64],
    /// How many parts make one unit: 1,000,000 where the bounds are in microseconds or millionths.
    pub parts: u64,
}

/// How often a measure was how large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    measure: &'static Measure,
    /// The values in each bucket, and behind the last bound; empty before the first value.
    counts: Vec<u64>,
    /// In parts of the unit.
    sum: u64,
}

/// The histograms of an endpoint since its creation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Histograms {
    /// How long handshakes took.
    pub handshake: Histogram,
    /// Smoothed round-trip times.
    pub rtt: Histogram,
    /// Rates at which data was delivered.
    pub delivery_rate: Histogram,
    /// Shares of what was sent that was retransmitted.
    pub retransmitted: Histogram,
}

impl Histogram {
    fn new(measure: &'static Measure) -> Self {
        Self { measure, counts: Vec::new(), sum: 0 }
    }

    /// The quantity that it counts.
    #[must_use]
    pub fn measure(&self) -> &'static Measure {
        self.measure
    }

    /// The number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().copied().fold(0, u64::saturating_add)
    }

    /// The sum of the values, in parts of the unit.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// For each bound the number of values up to it.
    pub fn up_to(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.counts.iter().copied().chain(std::iter::repeat(0));
        self.measure.bounds.iter().zip(counts).scan(0_u64, |all, (&bound, count)| {
            *all = all.saturating_add(count);
            Some((bound, *all))
        })
    }

    fn record(&mut self, value: u64) {
        let bounds = self.measure.bounds;
        if self.counts.is_empty() {
            self.counts = vec![0; bounds.len().saturating_add(1)];
        }
        if let Some(count) = self.counts.get_mut(bounds.partition_point(|&bound| bound < value)) {
            count.count();
        }
        self.sum = self.sum.saturating_add(value);
    }

    fn record_time(&mut self, time: Duration) {
        self.record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    fn add(&mut self, other: &Self) {
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
        } else {
            self.counts.iter_mut().zip(&other.counts).for_each(|(own, others)| own.grow(*others));
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
}

impl Histograms {
    /// All of them, in a stable order.
    pub fn iter(&self) -> impl Iterator<Item = &Histogram> {
        [&self.handshake, &self.rtt, &self.delivery_rate, &self.retransmitted].into_iter()
    }

    /// Both together.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.handshake.add(&other.handshake);
        self.rtt.add(&other.rtt);
        self.delivery_rate.add(&other.delivery_rate);
        self.retransmitted.add(&other.retransmitted);
        self
    }

    /// A handshake took this long.
    pub(super) fn record_handshake(&mut self, time: Duration) {
        self.handshake.record_time(time);
    }

    /// A connection is over.
    pub(super) fn record_end(&mut self, end: &AtEnd) {
        if let Some(srtt) = end.srtt {
            self.rtt.record_time(srtt);
        }
        if end.delivery_rate > 0 {
            self.delivery_rate.record(end.delivery_rate);
        }
        if let Some(share) = end.bytes_retransmitted.saturating_mul(MILLION).checked_div(end.bytes_sent) {
            self.retransmitted.record(share);
        }
    }
}

impl Default for Histograms {
    fn default() -> Self {
        Self {
            handshake: Histogram::new(&HANDSHAKE),
            rtt: Histogram::new(&RTT),
            delivery_rate: Histogram::new(&DELIVERY_RATE),
            retransmitted: Histogram::new(&RETRANSMITTED),
        }
    }
}

const HANDSHAKE: Measure = Measure {
    name: "handshake_seconds",
    unit: "seconds",
    help: "From the first SYN of this end, or its only SYN,ACK, to the answer.",
    bounds: &TIMES,
    parts: MILLION,
};

const RTT: Measure = Measure {
    name: "rtt_seconds",
    unit: "seconds",
    help: "Smoothed round-trip times of connections at their end.",
    bounds: &TIMES,
    parts: MILLION,
};

const DELIVERY_RATE: Measure = Measure {
    name: "delivery_rate_bytes_per_second",
    unit: "",
    help: "The last rate at which each connection delivered data, at its end.",
    bounds: &RATES,
    parts: 1,
};

const RETRANSMITTED: Measure = Measure {
    name: "retransmitted_ratio",
    unit: "ratio",
    help: "The share of the bytes that each connection sent that were retransmissions, at its end.",
    bounds: &SHARES,
    parts: MILLION,
};

const MILLION: u64 = 1_000_000;
/// Microseconds: from a network in one machine to a SYN that was repeated five times.
const TIMES: [u64; 18] = [
    50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, MILLION,
    2_500_000, 5_000_000, 10_000_000, 60_000_000,
];
/// Bytes a second: 80 kbit/s to 80 Gbit/s.
const RATES: [u64; 13] = [
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
];
/// Millionths: from nothing to all.
const SHARES: [u64; 10] = [0, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, MILLION];

impl Form for Histograms {
    fn write(&self, out: &mut Writer) {
        let Self { handshake, rtt, delivery_rate, retransmitted } = self;
        for Histogram { measure: _, counts, sum } in [handshake, rtt, delivery_rate, retransmitted] {
            counts.write(out);
            sum.write(out);
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let mut read = |measure: &'static Measure| {
            let (counts, sum) = (Vec::<u64>::read(input)?, Form::read(input)?);
            let fits = counts.is_empty() || counts.len() == measure.bounds.len().saturating_add(1);
            fits.then_some(Histogram { measure, counts, sum }).ok_or(FormError::Invariant("Histogram"))
        };
        let (handshake, rtt) = (read(&HANDSHAKE)?, read(&RTT)?);
        Ok(Self {
            handshake,
            rtt,
            delivery_rate: read(&DELIVERY_RATE)?,
            retransmitted: read(&RETRANSMITTED)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cumulative(histogram: &Histogram) -> Vec<u64> {
        histogram.up_to().map(|(_, count)| count).collect()
    }

    #[test]
    fn a_value_is_in_the_first_bucket_that_holds_it() {
        let mut shares = Histogram::new(&RETRANSMITTED);
        assert_eq!((shares.count(), cumulative(&shares)), (0, vec![0; 10]));
        for share in [0, 0, 100, 101, MILLION] {
            shares.record(share);
        }
        assert_eq!(cumulative(&shares), [2, 3, 4, 4, 4, 4, 4, 4, 4, 5]);
        assert_eq!((shares.count(), shares.sum()), (5, 201 + MILLION));
        // Behind the last bound, where only `count` has it.
        let mut times = Histogram::new(&RTT);
        times.record_time(Duration::MAX);
        assert_eq!((times.count(), times.up_to().last()), (1, Some((60_000_000, 0))));
    }

    #[test]
    fn bounds_rise() {
        let all = Histograms::default();
        assert!(all.iter().all(|histogram| histogram.measure().bounds.is_sorted_by(|one, next| one < next)));
    }

    #[test]
    fn the_sum_of_two_has_the_values_of_both() {
        let end = |millis, bytes_retransmitted| AtEnd {
            srtt: Some(Duration::from_millis(millis)),
            delivery_rate: 1000,
            bytes_sent: 100,
            bytes_retransmitted,
            ..AtEnd::default()
        };
        let (mut one, mut other) = (Histograms::default(), Histograms::default());
        one.record_end(&end(20, 0));
        other.record_end(&end(40, 10));
        other.record_handshake(Duration::from_millis(1));
        for both in [one.clone().plus(&other), other.clone().plus(&one)] {
            let counts: Vec<u64> = both.iter().map(Histogram::count).collect();
            let sums: Vec<u64> = both.iter().map(Histogram::sum).collect();
            assert_eq!((counts, sums), (vec![1, 2, 2, 2], vec![1000, 60_000, 2000, 100_000]));
        }
    }

    #[test]
    fn what_was_not_measured_does_not_count() {
        let mut all = Histograms::default();
        all.record_end(&AtEnd::default());
        assert!(all.iter().all(|histogram| histogram.count() == 0));
    }
}
