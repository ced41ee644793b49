//! Closely-spaced acknowledgements: M. Allman and V. Paxson, SIGCOMM 1999, §3.3.2 and §3.3.3.

use std::time::Duration;

use super::{CsaConfig, SenderEstimator, bytes_per_second, within_tenth};
use crate::Instant;

/// CSA(n, ν): n acknowledgements, each at most ν·RTT after the one before.
#[derive(Clone, Debug)]
pub struct Csa {
    n: u32,
    gap_max: Duration,
    /// The present group: acknowledgements, times of the first and the last, bytes after the first.
    count: u32,
    first: Instant,
    last: Instant,
    bytes: u64,
    estimate: Option<u64>,
}

impl Csa {
    /// Looks for groups of the configured size and spacing on a path whose round trip is `rtt`.
    #[must_use]
    pub fn new(config: CsaConfig, rtt: Duration) -> Self {
        Self {
            n: config.n(),
            gap_max: config.gap_max(rtt),
            count: 0,
            first: Instant::ZERO,
            last: Instant::ZERO,
            bytes: 0,
            estimate: None,
        }
    }

    /// Takes an acknowledgement. Returns the estimate of the group that it completes.
    fn sample(&mut self, at: Instant, bytes: u64) -> Option<u64> {
        if self.count == 0 || at.saturating_since(self.last) > self.gap_max {
            self.begin(at);
            return None;
        }
        self.count = self.count.saturating_add(1);
        self.last = at;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.count < self.n {
            return None;
        }
        let estimate = bytes_per_second(self.bytes, self.first, at);
        self.begin(at);
        estimate
    }

    fn begin(&mut self, at: Instant) {
        (self.count, self.first, self.last, self.bytes) = (1, at, at, 0);
    }
}

impl SenderEstimator for Csa {
    ackclock_form::frozen!();

    fn on_ack(&mut self, at: Instant, bytes: u64) {
        // The first such group makes the estimate.
        if self.estimate.is_none() {
            self.estimate = self.sample(at, bytes);
        }
    }

    fn estimate(&self) -> Option<u64> {
        self.estimate
    }

    fn is_done(&self) -> bool {
        self.estimate.is_some()
    }
}

/// TCSA: the smallest of the CSA samples, until one comes within a tenth of it (after M. Aron and P.
/// Druschel).
#[derive(Clone, Debug)]
pub struct Tcsa {
    csa: Csa,
    smallest: Option<u64>,
    converged: bool,
}

impl Tcsa {
    /// Repeats `csa`. The paper uses n = 3, ν = 0.1.
    #[must_use]
    pub fn new(csa: Csa) -> Self {
        Self { csa, smallest: None, converged: false }
    }
}

impl SenderEstimator for Tcsa {
    ackclock_form::frozen!();

    fn on_ack(&mut self, at: Instant, bytes: u64) {
        if self.converged {
            return;
        }
        let Some(sample) = self.csa.sample(at, bytes) else { return };
        self.converged = self.smallest.is_some_and(|smallest| within_tenth(sample, smallest));
        self.smallest = Some(self.smallest.map_or(sample, |smallest| smallest.min(sample)));
    }

    fn estimate(&self) -> Option<u64> {
        self.smallest
    }

    fn is_done(&self) -> bool {
        self.converged
    }
}

/// TCSA′: the mean of the first two CSA samples in a row that are within a tenth of each other.
#[derive(Clone, Debug)]
pub struct TcsaPrime {
    csa: Csa,
    previous: Option<u64>,
    estimate: Option<u64>,
}

impl TcsaPrime {
    /// Repeats `csa`. The paper uses n = 3, ν = 0.1.
    #[must_use]
    pub fn new(csa: Csa) -> Self {
        Self { csa, previous: None, estimate: None }
    }
}

impl SenderEstimator for TcsaPrime {
    ackclock_form::frozen!();

    fn on_ack(&mut self, at: Instant, bytes: u64) {
        if self.estimate.is_some() {
            return;
        }
        let Some(sample) = self.csa.sample(at, bytes) else { return };
        if let Some(previous) = self.previous.replace(sample)
            && within_tenth(sample, previous)
        {
            self.estimate = Some(previous.midpoint(sample));
        }
    }

    fn estimate(&self) -> Option<u64> {
        self.estimate
    }

    fn is_done(&self) -> bool {
        self.estimate.is_some()
    }
}

ackclock_form::form! {
    struct Csa { n, gap_max, count, first, last, bytes, estimate }
    struct Tcsa { csa, smallest, converged }
    struct TcsaPrime { csa, previous, estimate }
}
