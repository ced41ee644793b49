//! Measurements of passing packets: distributions in bounded memory, and queue lengths over time.

/// A distribution of times. Buckets are 1.024 µs wide below 32 µs and grow to 1/32 of their value above, so a
/// quantile is right to 3 %. Mean, minimum and maximum are exact.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// How many times were zero: most, on a link without a queue.
    zeros: u64,
    /// The bucket of the first count.
    first: usize,
    /// From the first bucket in use to the last.
    counts: Vec<u32>,
    /// How many times were not zero.
    count: u64,
    sum: u128,
    max: u64,
}

impl Histogram {
    /// Takes a time in nanoseconds.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        if nanos == 0 {
            self.zeros += 1;
            return;
        }
        let bucket = bucket(nanos);
        self.reach(bucket, bucket);
        let count = &mut self.counts[bucket - self.first];
        *count = count.saturating_add(1);
        self.count += 1;
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    /// These times, and `zeros` more that were zero.
    pub(crate) fn with_zeros(self, zeros: u64) -> Self {
        Self { zeros: self.zeros + zeros, ..self }
    }

    /// The number of times recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.zeros + self.count
    }

    /// The mean in nanoseconds; 0 without a record.
    #[must_use]
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count().into()).unwrap_or(0) as u64
    }

    /// The maximum in nanoseconds.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The time in nanoseconds that this many thousandths of all times do not exceed.
    #[must_use]
    pub fn quantile(&self, thousandths: u64) -> u64 {
        let wanted = (self.count() * thousandths).div_ceil(1000).max(1);
        let mut seen = self.zeros;
        if seen >= wanted {
            return 0;
        }
        for (bucket, count) in (self.first..).zip(&self.counts) {
            seen += u64::from(*count);
            if seen >= wanted {
                return upper_end(bucket).min(self.max);
            }
        }
        self.max
    }

    /// Adds all times of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if !other.counts.is_empty() {
            self.reach(other.first, other.first + other.counts.len() - 1);
        }
        let mine = self.counts.iter_mut().skip(other.first.saturating_sub(self.first));
        for (mine, others) in mine.zip(&other.counts) {
            *mine = mine.saturating_add(*others);
        }
        self.zeros += other.zeros;
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Extends the counts to buckets `from` to `to`.
    #[inline]
    fn reach(&mut self, from: usize, to: usize) {
        if self.counts.is_empty() {
            self.first = from;
        }
        if from < self.first {
            self.counts.splice(0..0, std::iter::repeat_n(0, self.first - from));
            self.first = from;
        }
        if to - self.first >= self.counts.len() {
            self.counts.resize(to - self.first + 1, 0);
        }
    }
}

/// A queue's length over time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LengthMeter {
    /// Packets times nanoseconds.
    area: u128,
    since: u64,
    packets: u32,
    pub(crate) peak_packets: u32,
    pub(crate) peak_bytes: u64,
}

impl LengthMeter {
    /// From `now` on the queue has this length.
    #[inline]
    pub fn set(&mut self, now: u64, packets: usize, bytes: u64) {
        self.area += u128::from(self.packets) * u128::from(now - self.since);
        self.since = now;
        self.packets = packets as u32;
        self.peak_packets = self.peak_packets.max(self.packets);
        self.peak_bytes = self.peak_bytes.max(bytes);
    }

    /// The average from `from` until `until`, or until the queue's last change if that is later, in
    /// thousandths of a packet. `now` is the end of the measurement; nothing waits before `from`.
    pub fn mean_thousandths(&self, from: u64, until: u64, now: u64) -> u64 {
        let area = self.area + u128::from(self.packets) * u128::from(now - self.since);
        let end = if self.packets > 0 { now } else { until.max(self.since) };
        let time = u128::from(end.saturating_sub(from));
        (area * 1000).checked_div(time).unwrap_or(0) as u64
    }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    let units = nanos >> UNIT_SHIFT;
    if units < SUB {
        return units as usize;
    }
    let octave = units.ilog2() - SUB_BITS;
    ((u64::from(octave) << SUB_BITS) + (units >> octave)) as usize
}

/// The largest time that falls into `bucket`.
fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return ((bucket + 1) << UNIT_SHIFT) - 1;
    }
    let octave = (bucket >> SUB_BITS) - 1;
    let units = (bucket & (SUB - 1)) + SUB;
    (((units + 1) << octave) << UNIT_SHIFT) - 1
}

const UNIT_SHIFT: u32 = 10;
const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_into_the_bucket_that_ends_behind_it() {
        for nanos in (0..200_000).step_by(37).chain([1 << 30, (1 << 40) + 12_345]) {
            let end = upper_end(bucket(nanos));
            assert!(end >= nanos && end - nanos <= (nanos / 32).max(1023), "{nanos} ends at {end}");
            assert_ne!(bucket(end), bucket(end + 1));
        }
    }

    #[test]
    fn quantiles_are_right_to_their_bucket() {
        let mut times = Histogram::default();
        (1..=1000u64).for_each(|n| times.record(n * 100_000));
        assert_eq!((times.count(), times.mean(), times.max()), (1000, 50_050_000, 100_000_000));
        for thousandths in [10, 500, 990] {
            let exact = thousandths * 100_000;
            let told = times.quantile(thousandths);
            assert!(told >= exact && told - exact <= exact / 32 + 1024, "{thousandths}: {told}");
        }
    }

    #[test]
    fn merged_distributions_are_one() {
        let (mut all, mut low, mut high) = (Histogram::default(), Histogram::default(), Histogram::default());
        for n in [0, 0, 700, 50_000, 1_000_000] {
            all.record(n);
            low.record(n);
        }
        for n in [0, 300_000, 90_000_000] {
            all.record(n);
            high.record(n);
        }
        for (mut one, other) in [(low.clone(), &high), (high.clone(), &low)] {
            one.merge(other);
            let told = |times: &Histogram| (times.count(), times.mean(), times.max(), times.quantile(600));
            assert_eq!(told(&one), told(&all));
        }
        assert_eq!((all.quantile(375), all.count()), (0, 8));
    }

    #[test]
    fn the_mean_length_is_weighted_by_time() {
        let mut length = LengthMeter::default();
        length.set(100, 2, 3000);
        length.set(200, 1, 1500);
        length.set(300, 0, 0);
        let area = 2 * 100 + 100;
        assert_eq!(length.mean_thousandths(0, 400, 400), area * 1000 / 400);
        assert_eq!(length.mean_thousandths(100, 400, 1000), area * 1000 / 300);
        // A packet that waits beyond the end counts with its time up to the end, whether it has left or not.
        assert_eq!(length.mean_thousandths(100, 250, 1000), area * 1000 / 200);
        length.set(500, 1, 1500);
        assert_eq!(length.mean_thousandths(100, 250, 600), (area + 100) * 1000 / 500);
        assert_eq!(LengthMeter::default().mean_thousandths(7, 7, 7), 0);
        assert_eq!((length.peak_packets, length.peak_bytes), (2, 3000));
    }
}
