//! Round trips, counted by delivered bytes.

use super::Ack;

/// Tells where round trips end: a round is over when a segment is acknowledged that was sent after the round
/// began (N. Cardwell et al., "BBR Congestion Control", §5.5.1; the same device serves every algorithm that
/// acts once a round trip).
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    /// `delivered` when the round began.
    until: u64,
    count: u64,
}

impl Rounds {
    /// Takes an acknowledgement; says whether it begins a round, as the first one does.
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

    /// Rounds begun.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
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
        // What the first acknowledgement released ends it.
        assert!(rounds.on_ack(&at(1000, 11_000)));
        assert_eq!(rounds.count(), 2);
    }
}
