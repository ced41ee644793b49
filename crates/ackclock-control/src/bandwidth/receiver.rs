//! Estimation at the receiver: M. Allman and V. Paxson, SIGCOMM 1999, §3.4.
//!
//! The receiver knows which segments each of its acknowledgements lets the sender send back to back: the
//! window slides by what is acknowledged, and slow start adds a segment. The spacing of their arrivals is the
//! bottleneck's.
//!
//! Deviation: bytes instead of segments.

use std::collections::VecDeque;

use super::bytes_per_second;
use crate::Instant;

/// Recv: the first K bursts that the receiver's own acknowledgements allow.
#[derive(Clone, Debug)]
pub struct Receiver {
    samples_max: usize,
    smss: u64,
    /// Bytes received in order, and acknowledged.
    received: u64,
    acked: u64,
    /// D_j: for each acknowledgement, the last byte that it lets the sender send. The front ends the present
    /// burst.
    allowed: VecDeque<u64>,
    /// The last of `allowed`.
    allowed_last: u64,
    /// The first segment of the present burst: its end and its arrival.
    first: Option<(u64, Instant)>,
    samples: Vec<u64>,
    ended: bool,
}

/// How the samples become one estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Combine {
    /// The smallest.
    Min,
    /// The mean.
    Avg,
    /// The median.
    Med,
    /// The largest, which hurts least (tables 5 and 6).
    Max,
}

/// The receiver's estimates, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ReceiverEstimates {
    /// The smallest sample.
    pub min: u64,
    /// The mean.
    pub mean: u64,
    /// The median.
    pub median: u64,
    /// The largest, which hurts least as an ssthresh (Allman and Paxson 1999, tables 5 and 6).
    pub max: u64,
    /// The number of samples.
    pub samples: usize,
}

impl Receiver {
    /// Takes up to `samples_max` samples (K, clamped to 1 to 256; 50 in the paper). The sender's initial
    /// window is assumed.
    #[must_use]
    pub fn new(samples_max: usize, initial_window: u64, smss: u64) -> Self {
        Self {
            samples_max: samples_max.clamp(1, SAMPLES_MAX),
            smss,
            received: 0,
            acked: 0,
            allowed: VecDeque::from([initial_window]),
            allowed_last: initial_window,
            first: None,
            samples: Vec::new(),
            ended: false,
        }
    }

    /// New data in order arrived.
    pub fn on_data(&mut self, at: Instant, bytes: u64) {
        if self.ended || bytes == 0 {
            return;
        }
        self.received = self.received.saturating_add(bytes);
        let Some(&burst_end) = self.allowed.front() else { return };
        match self.first {
            None => self.first = Some((self.received, at)),
            Some((first_end, first_at)) if self.received >= burst_end => {
                let sample = bytes_per_second(self.received.saturating_sub(first_end), first_at, at);
                self.samples.extend(sample);
                if self.samples.len() >= self.samples_max {
                    return self.end();
                }
            }
            Some(_) => {}
        }
        while self.allowed.front().is_some_and(|&end| self.received >= end) {
            self.allowed.pop_front();
            self.first = None;
        }
    }

    /// An acknowledgement of everything received was sent.
    pub fn on_ack_sent(&mut self) {
        let newly_acked = self.received.saturating_sub(self.acked);
        if self.ended || newly_acked == 0 {
            return;
        }
        self.acked = self.received;
        // D_(j+1) = D_j + (A_(j+1) - A_j) + 1 segment.
        self.allowed_last = self.allowed_last.saturating_add(newly_acked).saturating_add(self.smss);
        self.allowed.push_back(self.allowed_last);
        // A sender that does not use its window gives no clock.
        if self.allowed.len() > BURSTS_MAX {
            self.end();
        }
    }

    /// A segment is missing or came out of order: no more samples.
    pub fn on_loss(&mut self) {
        self.end();
    }

    /// All four estimates from the samples so far; `None` without a sample.
    #[must_use]
    pub fn estimates(&self) -> Option<ReceiverEstimates> {
        Some(ReceiverEstimates {
            min: self.estimate(Combine::Min)?,
            mean: self.estimate(Combine::Avg)?,
            median: self.estimate(Combine::Med)?,
            max: self.estimate(Combine::Max)?,
            samples: self.samples(),
        })
    }

    /// Takes no more samples and frees the memory for them.
    fn end(&mut self) {
        self.ended = true;
        self.allowed = VecDeque::new();
    }

    /// The bandwidth in bytes a second from the samples so far.
    #[must_use]
    pub fn estimate(&self, combine: Combine) -> Option<u64> {
        let samples = || self.samples.iter().copied();
        match combine {
            Combine::Min => samples().min(),
            Combine::Max => samples().max(),
            Combine::Avg => {
                let sum: u128 = samples().map(u128::from).sum();
                let count = u128::try_from(self.samples.len()).unwrap_or(1);
                sum.checked_div(count).and_then(|mean| u64::try_from(mean).ok())
            }
            Combine::Med => {
                let mut sorted: Vec<u64> = samples().collect();
                sorted.sort_unstable();
                sorted.get(sorted.len() / 2).copied()
            }
        }
    }

    /// How many samples there are.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.samples.len()
    }
}

/// The most samples kept.
const SAMPLES_MAX: usize = 256;
/// The most bursts allowed but not yet arrived.
const BURSTS_MAX: usize = 4096;

ackclock_form::form! {
    struct Receiver { samples_max, smss, received, acked, allowed, allowed_last, first, samples, ended }
}
