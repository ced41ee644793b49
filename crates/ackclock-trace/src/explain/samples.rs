//! Round-trip samples: their range, and those far from the others.
//!
//! A sample is judged by its neighbours, because a round trip grows and shrinks with the queue: a value that
//! was usual in the first slow start is not usual an hour later. Quartiles are robust as long as no more than
//! a quarter of the values are outliers.

use std::time::Duration;

use ackclock_control::congestion::window_rate;
use ackclock_core::Instant;
use ackclock_core::trace::{Entry, Timer};

use crate::file::Source;

/// A sample far from its neighbours, and its consequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FarSample {
    /// When it was taken.
    pub at: Instant,
    /// The acknowledgement that it came from: all data before this number had arrived.
    pub ack: u32,
    /// The sample.
    pub sample: Duration,
    /// The median of its neighbours.
    pub usual: Duration,
    /// The smoothed round trip after it, if the trace has one.
    pub srtt: Option<Duration>,
    /// The retransmission timeout after it.
    pub rto: Duration,
    /// The rate after it; `None` if the connection has no rate.
    pub rate: Option<SetRate>,
}

/// A rate set by a round trip, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetRate {
    /// The pacing rate: the window spread over the smoothed round trip.
    Pacing(u64),
    /// The controller's bandwidth estimate, which sets its rate.
    Bandwidth(u64),
}

/// The samples of a connection.
#[derive(Clone, Debug, Default)]
pub struct RoundTrips {
    /// The number of samples.
    pub count: u64,
    /// The smallest, the mean and the largest.
    pub range: Option<(Duration, Duration, Duration)>,
    /// Those far from the others, in order of time.
    pub far: Vec<FarSample>,
}

/// How many samples, itself included, judge one: enough that a quarter of them are several, few enough to
/// follow a queue that fills. A shorter connection has no far samples.
pub const AROUND: usize = 31;
/// A sample is far if it is this many times the median of its neighbours, or the median this many times the
/// sample. A delayed acknowledgement on a path of a few milliseconds is far; a queue that doubles the round
/// trip is not.
pub const FAR_TIMES: u32 = 3;
/// It must also lie this many interquartile ranges beyond the nearer quartile: Tukey's outer fence. Where
/// round trips vary anyway, this demands more.
pub const FAR_RANGES: u32 = 3;

/// A sample with its consequences.
#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    ack: u32,
    us: u32,
    srtt_us: u32,
    rto_us: u32,
    rate: Option<SetRate>,
}

#[derive(Default)]
pub(super) struct RoundTripLog {
    samples: Vec<Sample>,
    /// Whether the last sample's consequences are still being recorded.
    fresh: bool,
    ack: u32,
    srtt_us: u32,
    window: (u32, u32),
    bandwidth: Option<i64>,
    /// The index of the controller's bandwidth estimate.
    bandwidth_name: Option<u8>,
    paced: bool,
}

impl RoundTripLog {
    pub(super) fn new(source: &Source) -> Self {
        let name = match source {
            Source::Connection { names, .. } => names.iter().position(|name| name == BANDWIDTH),
            Source::Queue { .. } => None,
        };
        Self { bandwidth_name: name.and_then(|name| u8::try_from(name).ok()), ..Self::default() }
    }

    pub(super) fn entry(&mut self, at: Instant, entry: Entry) {
        if self.fresh && self.samples.last().is_some_and(|last| last.at < at) {
            self.settle();
        }
        match entry {
            Entry::Acked { ack, .. } => {
                self.settle();
                self.ack = ack;
            }
            Entry::RoundTrip { sample_us, rto_us } => {
                self.settle();
                let ack = self.ack;
                self.samples.push(Sample { at, ack, us: sample_us, srtt_us: 0, rto_us, rate: None });
                self.fresh = true;
            }
            Entry::Smoothed { srtt_us, .. } => self.srtt_us = srtt_us,
            Entry::Window { cwnd, ssthresh, .. } => self.window = (cwnd, ssthresh),
            Entry::Controller { name, value } if Some(name) == self.bandwidth_name => {
                self.bandwidth = Some(value);
            }
            Entry::TimerSet { timer: Timer::Pacing, .. } => self.paced = true,
            _ => {}
        }
    }

    /// Ends the last sample's turn.
    fn settle(&mut self) {
        if !std::mem::take(&mut self.fresh) {
            return;
        }
        let (cwnd, ssthresh) = self.window;
        let rate = match self.bandwidth.map(u64::try_from) {
            Some(Ok(bandwidth)) => Some(SetRate::Bandwidth(bandwidth)),
            _ => {
                window_rate(cwnd.into(), u64::from(self.srtt_us) * 1000, cwnd < ssthresh).map(SetRate::Pacing)
            }
        };
        if let Some(last) = self.samples.last_mut() {
            last.srtt_us = self.srtt_us;
            last.rate = rate;
        }
    }

    pub(super) fn finish(mut self) -> RoundTrips {
        self.settle();
        let samples = self.samples.iter().map(|sample| micros(sample.us));
        let Some((least, most)) = samples.clone().min().zip(samples.clone().max()) else {
            return RoundTrips::default();
        };
        let mean = samples.sum::<Duration>().div_f64(self.samples.len() as f64);
        let far = (0..self.samples.len()).filter_map(|index| self.judge(index)).collect();
        RoundTrips { count: self.samples.len() as u64, range: Some((least, mean, most)), far }
    }

    /// The sample, if it is far from its neighbours.
    fn judge(&self, index: usize) -> Option<FarSample> {
        let first = index.saturating_sub(AROUND / 2).min(self.samples.len().checked_sub(AROUND)?);
        let mut around = [0_u32; AROUND];
        around.iter_mut().zip(&self.samples[first..]).for_each(|(us, sample)| *us = sample.us);
        around.sort_unstable();
        let [low, usual, high] = [AROUND / 4, AROUND / 2, AROUND * 3 / 4].map(|place| around[place]);
        let Sample { at, ack, us, srtt_us, rto_us, rate } = self.samples[index];
        let fence = FAR_RANGES.saturating_mul(high - low);
        let above = us > high.saturating_add(fence) && us > usual.saturating_mul(FAR_TIMES);
        let below = us < low.saturating_sub(fence) && us.saturating_mul(FAR_TIMES) < usual;
        (above || below).then(|| FarSample {
            at,
            ack,
            sample: micros(us),
            usual: micros(usual),
            srtt: (srtt_us > 0).then(|| micros(srtt_us)),
            rto: micros(rto_us),
            rate: rate.filter(|rate| self.paced || matches!(rate, SetRate::Bandwidth(_))),
        })
    }
}

/// BBR's name for it.
const BANDWIDTH: &str = "bw";

fn micros(us: u32) -> Duration {
    Duration::from_micros(us.into())
}
