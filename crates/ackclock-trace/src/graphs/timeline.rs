//! A connection's entries as series of values over time.

use std::collections::BTreeMap;

use ackclock_core::Instant;
use ackclock_core::trace::{Entry, LossRule, SendReason, Timer, WindowCause};

use crate::file::TracedSource;
use crate::stream::{extend, most_common};

/// A transmission of data: a segment, or a train of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transmission {
    pub at: f64,
    /// Stream bytes before it.
    pub start: u64,
    pub len: u32,
    pub reason: SendReason,
    /// Whether any of its bytes had been sent before.
    pub again: bool,
    /// When any of its bytes were retransmitted, if they were.
    pub repeated_at: Option<f64>,
}

impl Transmission {
    /// Stream bytes up to its end.
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }
}

/// An acknowledgement of data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    pub at: f64,
    /// Stream bytes acknowledged.
    pub bytes: u64,
    pub duplicate: bool,
    /// The peer's window, in bytes.
    pub window: u32,
}

/// A timed round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub at: f64,
    pub rtt: f64,
    pub rto: f64,
    /// The congestion window at that time, in bytes.
    pub cwnd: u32,
    /// Stream bytes acknowledged at that time.
    pub acked: u64,
}

/// The windows after a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    pub at: f64,
    pub cwnd: u32,
    /// `None` while unset.
    pub ssthresh: Option<u32>,
    pub cause: WindowCause,
}

/// The series. Times are seconds.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    pub sent: Vec<Transmission>,
    pub acked: Vec<Acked>,
    pub samples: Vec<Sample>,
    pub windows: Vec<Windows>,
    /// Bytes sent and not acknowledged, at each change.
    pub in_transit: Vec<(f64, u64)>,
    /// Expired timers: how late in seconds, and the number of consecutive expiries.
    pub fired: Vec<(f64, Timer, f64, u32)>,
    /// Stream bytes declared lost, from and to.
    pub lost: Vec<(f64, LossRule, u64, u64)>,
    pub end: f64,
}

/// Whether the connection sent data.
pub(super) fn has_data(source: &TracedSource) -> bool {
    source.entries.iter().any(|(_, entry)| matches!(entry, Entry::Sent { len: 1.., .. }))
}

/// Seconds from `zero` to `at`.
pub(super) fn seconds(zero: Instant, at: Instant) -> f64 {
    at.saturating_since(zero).as_secs_f64()
}

impl Timeline {
    pub fn new(source: &TracedSource, zero: Instant) -> Self {
        let mut builder = TimelineBuilder::default();
        for &(at, entry) in &source.entries {
            builder.entry(seconds(zero, at), entry);
        }
        // The RTT's entry may precede that of the acknowledgement that ended it.
        let TimelineBuilder { mut line, .. } = builder;
        for sample in &mut line.samples {
            let until = line.acked.partition_point(|acked| acked.at <= sample.at);
            sample.acked = line.acked[..until].last().map_or(0, |acked| acked.bytes);
        }
        line
    }

    /// The most common length of first transmissions, in bytes: the segment size, unless trains were sent.
    pub fn segment_bytes(&self) -> u32 {
        let lengths = self.sent.iter().filter(|sent| !sent.again).map(|sent| sent.len);
        most_common(lengths).map_or(1, |len| len.max(1))
    }
}

#[derive(Default)]
struct TimelineBuilder {
    line: Timeline,
    begun: bool,
    /// The end of sent data, and of acknowledged data.
    next: u64,
    una: u64,
    cwnd: u32,
    /// The last transmission of each part of the stream: its start, its end and its index in `sent`.
    latest: BTreeMap<u64, (u64, usize)>,
}

impl TimelineBuilder {
    fn entry(&mut self, at: f64, entry: Entry) {
        self.line.end = at;
        match entry {
            Entry::Sent { reason, seq, len, .. } if len > 0 => self.sent(at, reason, seq, len),
            Entry::Acked { duplicate, ack, window } => {
                self.begin(ack);
                self.una = self.una.max(self.extend(ack).min(self.next));
                let bytes = self.una;
                self.line.acked.push(Acked { at, bytes, duplicate, window });
                self.line.in_transit.push((at, self.next - self.una));
                // Acknowledged data is not retransmitted.
                while self.latest.first_key_value().is_some_and(|(_, &(end, _))| end <= bytes) {
                    self.latest.pop_first();
                }
            }
            Entry::RoundTrip { sample_us, rto_us } => {
                let of = |us: u32| f64::from(us) / 1e6;
                self.line.samples.push(Sample {
                    at,
                    rtt: of(sample_us),
                    rto: of(rto_us),
                    cwnd: self.cwnd,
                    acked: 0,
                });
            }
            Entry::Window { cause, cwnd, ssthresh } => {
                self.cwnd = cwnd;
                let ssthresh = Some(ssthresh).filter(|&ssthresh| ssthresh != u32::MAX);
                self.line.windows.push(Windows { at, cwnd, ssthresh, cause });
            }
            Entry::TimerFired { timer, late_us, count } => {
                self.line.fired.push((at, timer, f64::from(late_us) / 1e6, count));
            }
            Entry::Lost { rule, start, end } => {
                let (start, end) = (self.extend(start), self.extend(end));
                self.line.lost.push((at, rule, start, end));
            }
            _ => {}
        }
    }

    /// A trace that begins in the middle does not know earlier data.
    fn begin(&mut self, seq: u32) {
        if !self.begun {
            self.begun = true;
            self.una = u64::from(seq).saturating_sub(1);
            self.next = self.una;
        }
    }

    /// Stream bytes before a sequence number, which must be less than 2^31 from what is acknowledged. The SYN
    /// is 0.
    fn extend(&self, seq: u32) -> u64 {
        extend(self.una + 1, seq).saturating_sub(1)
    }

    fn sent(&mut self, at: f64, reason: SendReason, seq: u32, len: u32) {
        self.begin(seq);
        let start = self.extend(seq);
        let end = start + u64::from(len);
        let index = self.line.sent.len();
        let again = start < self.next;
        if again {
            let over = self.latest.range(..end).filter(|(_, (until, _))| *until > start);
            for (_, &(_, before)) in over {
                self.line.sent[before].repeated_at.get_or_insert(at);
            }
        }
        self.latest.insert(start, (end, index));
        self.line.sent.push(Transmission { at, start, len, reason, again, repeated_at: None });
        self.next = self.next.max(end);
        self.line.in_transit.push((at, self.next - self.una));
    }
}
