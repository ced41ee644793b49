//! Round trips, counted by delivered bytes.

use super::Ack;
use crate::divide::{SECOND, at_least_one, times};

/// Finds where round trips end. A round is over when a segment sent after its start is acknowledged (N.
/// Cardwell et al., "BBR Congestion Control", §5.5.1). Every algorithm that acts once a round trip uses it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    /// `delivered` when the round began.
    until: u64,
    count: u64,
}

impl Rounds {
    /// Takes an acknowledgement. Returns whether it begins a round; the first one does.
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack) -> bool {
        if ack.prior_delivered < self.until {
            return false;
        }
        self.restart(ack.delivered);
        true
    }

    /// Begins a round here, with `delivered` bytes delivered so far.
    pub fn restart(&mut self, delivered: u64) {
        self.until = delivered;
        self.count = self.count.saturating_add(1);
    }

    /// The number of rounds begun.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Round trips, with the smallest round-trip time of each.
///
/// An acknowledgement that the peer delayed while it waited for a second segment says nothing about the path.
/// The smallest time of a round comes from an acknowledgement that was not delayed.
#[derive(Clone, Copy, Debug)]
pub struct RoundTimes {
    rounds: Rounds,
    /// The smallest so far, in nanoseconds; `u64::MAX` before the first.
    smallest: u64,
}

impl RoundTimes {
    /// The state before the first acknowledgement.
    #[must_use]
    pub fn new() -> Self {
        Self { rounds: Rounds::default(), smallest: u64::MAX }
    }

    /// Takes an acknowledgement. If it begins a round, returns the smallest round-trip time of the round that
    /// is over, in nanoseconds, this acknowledgement included; `None` inside if nothing was measured.
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack) -> Option<Option<u64>> {
        self.smallest = self.smallest.min(ack.rtt_ns.unwrap_or(u64::MAX));
        self.rounds.on_ack(ack).then(|| {
            let smallest = std::mem::replace(&mut self.smallest, u64::MAX);
            (smallest != u64::MAX).then_some(smallest)
        })
    }

    /// The number of rounds begun.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.rounds.count()
    }
}

impl Default for RoundTimes {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes over a time, in bytes a second; zero if no time passed.
pub(super) fn per_second(bytes: u64, ns: u64) -> u64 {
    match bytes.checked_mul(SECOND.get()) {
        Some(product) => product.checked_div(ns).unwrap_or(0),
        None => times(bytes, SECOND.get(), at_least_one(ns)).unwrap_or(u64::MAX),
    }
}

ackclock_form::form! {
    struct Rounds { until, count }
    struct RoundTimes { rounds, smallest }
}

#[cfg(test)]
mod tests {
    use super::Rounds;
    use crate::congestion::Ack;
    use crate::congestion::testing::ack;

    #[test]
    fn round_ends_with_a_segment_sent_after_it_began() {
        let at = |prior_delivered, delivered| Ack { prior_delivered, delivered, ..ack(0, 1000) };
        let mut rounds = Rounds::default();
        // Ten segments sent at once; the first acknowledgement begins a round, the others are in it.
        assert!(rounds.on_ack(&at(0, 1000)));
        assert!(!rounds.on_ack(&at(0, 10_000)));
        // The data that the first acknowledgement released ends it.
        assert!(rounds.on_ack(&at(1000, 11_000)));
        assert_eq!(rounds.count(), 2);
    }
}
