//! A token-bucket policer: packets above its rate are dropped (or marked) at once; none waits for tokens.
//!
//! The bucket fills at the policer's rate up to its burst. A packet does not conform if it finds fewer tokens
//! than its bytes (RFC 2697's single rate and committed burst, without colours). Tokens are counted in units
//! of 10⁻⁹ bits, so that rounding loses nothing.

use ackclock_core::Instant;

use super::{Context, DropRule, LaneStats, Queue, Queued};
use crate::units::{Bytes, Rate};

/// A policer in front of a queue.
#[derive(Debug)]
pub struct Policer {
    rate: Rate,
    burst: u128,
    mark: bool,
    tokens: u128,
    filled_at: Instant,
    behind: Box<dyn Queue>,
}

impl Policer {
    /// A policer with a full bucket in front of `behind`. With `mark`, ECN-capable packets that do not
    /// conform are marked and passed.
    #[must_use]
    pub fn new(rate: Rate, burst: Bytes, mark: bool, behind: Box<dyn Queue>) -> Self {
        let burst = cost(burst.0);
        Self { rate, burst, mark, tokens: burst, filled_at: Instant::ZERO, behind }
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = now.as_nanos() - self.filled_at.as_nanos();
        let earned = u128::from(elapsed) * u128::from(self.rate.bits());
        self.tokens = self.tokens.saturating_add(earned).min(self.burst);
        self.filled_at = now;
    }
}

impl Queue for Policer {
    fn enqueue(&mut self, packet: Queued, cx: &mut Context<'_>) {
        self.fill(cx.now);
        match self.tokens.checked_sub(cost(packet.bytes.into())) {
            Some(left) => self.tokens = left,
            None if self.mark && packet.ecn_capable => cx.marked.push(packet.packet),
            None => return cx.dropped.push((packet.packet, DropRule::Policer)),
        }
        self.behind.enqueue(packet, cx);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Queued> {
        self.behind.dequeue(cx)
    }

    fn len(&self) -> usize {
        self.behind.len()
    }

    fn bytes(&self) -> u64 {
        self.behind.bytes()
    }

    fn opens_at(&self) -> Option<Instant> {
        self.behind.opens_at()
    }

    fn needs_flows(&self) -> bool {
        self.behind.needs_flows()
    }

    fn lanes(&self) -> Vec<(&'static str, &LaneStats)> {
        self.behind.lanes()
    }
}

fn cost(bytes: u64) -> u128 {
    u128::from(bytes) * 8_000_000_000
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, MS};
    use super::*;
    use crate::queue::DropTail;
    use crate::units::Limit;

    fn policer(mark: bool) -> Bench<Policer> {
        let behind = Box::new(DropTail::new(Limit::Packets(1_000_000), None));
        // 1 packet of 1000 bytes a millisecond, 3 at once.
        Bench::new(Policer::new(Rate::mbit(8), Bytes(3000), mark, behind))
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut bench = policer(false);
        (0..5).for_each(|_| _ = bench.put(0, 1000, 0, false));
        assert_eq!(bench.dropped(), [3, 4]);
        bench.put(MS - 1, 1000, 0, false);
        bench.put(MS, 1000, 0, false);
        assert_eq!(bench.dropped(), [3, 4, 5]);
        bench.put(100 * MS, 1000, 0, false);
        assert_eq!(bench.dropped.len(), 3);
    }

    #[test]
    fn over_a_long_time_exactly_the_rate_passes() {
        let mut bench = policer(false);
        // Packets of 700 bytes every 137,777 ns: 5.08 MB/s offered against 1 MB/s.
        let (mut offered, mut t) = (0u64, 0);
        while t < 10_000 * MS {
            bench.put(t, 700, 0, false);
            offered += 700;
            t += 137_777;
        }
        let passed = offered - bench.dropped.len() as u64 * 700;
        let allowed = 3000 + 10_000_000;
        assert!(passed <= allowed && allowed - passed < 1400, "{passed}");
    }

    #[test]
    fn a_marking_policer_lets_capable_packets_through() {
        let mut bench = policer(true);
        (0..5).for_each(|_| _ = bench.put(0, 1000, 0, true));
        assert_eq!((bench.marked.len(), bench.dropped.len(), bench.queue.len()), (2, 0, 5));
    }
}
