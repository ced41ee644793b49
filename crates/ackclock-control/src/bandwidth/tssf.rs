//! Tracking slow-start flights: M. Allman and V. Paxson, SIGCOMM 1999, §3.3.1.
//!
//! Deviation: bytes instead of segments; each acknowledgement grows a flight by one SMSS, as slow start does,
//! but by no more than it acknowledges (RFC 5681 §3.1 (2)).

use super::{SenderEstimator, bytes_per_second};
use crate::Instant;
use crate::divide::at_least_one;

/// TSSF: the first n acknowledgements of one flight of slow start.
#[derive(Clone, Debug)]
pub struct Tssf {
    n: u32,
    smss: u64,
    /// The flight: its first byte, its size, and by how much its acknowledgements make the next one larger.
    start: u64,
    size: u64,
    growth: u64,
    /// Bytes acknowledged so far.
    acked: u64,
    /// The acknowledgements considered: how many, when the first came, bytes after the first.
    looked_at: u32,
    first: Instant,
    bytes: u64,
    outcome: EstimateSearch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EstimateSearch {
    Looking,
    Found(u64),
    GivenUp,
}

impl Tssf {
    /// Considers `n` acknowledgements (at least 2; 3 in the paper) of a flight. The first flight is the
    /// initial window.
    #[must_use]
    pub fn new(n: u32, initial_window: u64, smss: u64) -> Self {
        Self {
            n: n.max(2),
            smss: smss.max(1),
            start: 0,
            size: initial_window.max(1),
            growth: 0,
            acked: 0,
            looked_at: 0,
            first: Instant::ZERO,
            bytes: 0,
            outcome: EstimateSearch::Looking,
        }
    }

    fn next_flight(&mut self) {
        self.start = self.start.saturating_add(self.size);
        // The next flight is F + N_a: slow start's increase.
        self.size = self.size.saturating_add(self.growth);
        (self.growth, self.looked_at) = (0, 0);
    }
}

impl SenderEstimator for Tssf {
    ackclock_form::frozen!();

    fn on_ack(&mut self, at: Instant, bytes: u64) {
        if self.is_done() {
            return;
        }
        if bytes == 0 {
            // If any acknowledgement is reordered or a duplicate, the algorithm terminates.
            self.outcome = EstimateSearch::GivenUp;
            return;
        }
        self.acked = self.acked.saturating_add(bytes);
        if self.acked > self.start.saturating_add(self.size) {
            self.next_flight();
            // Flights without an acknowledgement all have the same size. Skip them in one step: the peer
            // chooses how far an acknowledgement advances.
            let ahead = self.acked.saturating_sub(self.start).saturating_sub(1) / at_least_one(self.size);
            self.start = self.start.saturating_add(ahead.saturating_mul(self.size));
        }
        self.growth = self.growth.saturating_add(bytes.min(self.smss));
        if self.looked_at == 0 {
            (self.looked_at, self.first, self.bytes) = (1, at, 0);
        } else if bytes > self.smss {
            // Acknowledgements of a single segment are ignored: they were presumably delayed.
            self.looked_at = self.looked_at.saturating_add(1);
            self.bytes = self.bytes.saturating_add(bytes);
            if self.looked_at == self.n {
                self.outcome = bytes_per_second(self.bytes, self.first, at)
                    .map_or(EstimateSearch::Looking, EstimateSearch::Found);
            }
        }
    }

    fn estimate(&self) -> Option<u64> {
        match self.outcome {
            EstimateSearch::Found(estimate) => Some(estimate),
            EstimateSearch::Looking | EstimateSearch::GivenUp => None,
        }
    }

    fn is_done(&self) -> bool {
        self.outcome != EstimateSearch::Looking
    }
}

ackclock_form::form! {
    struct Tssf { n, smss, start, size, growth, acked, looked_at, first, bytes, outcome }
    enum EstimateSearch { 0 Looking, 1 Found(value), 2 GivenUp }
}
