//! Drop-tail: a packet that arrives at a full queue is dropped.
//!
//! The marking variant (RFC 3168 has no name for it; DCTCP's switches do it, Alizadeh et al., SIGCOMM 2010,
//! §3.1) marks packets that arrive while more than a threshold waits.

use super::{Context, DropRule, Fifo, Queue, Queued, fits};
use crate::units::Limit;

/// A drop-tail queue.
#[derive(Debug)]
pub struct DropTail {
    limit: Limit,
    mark_above: Option<Limit>,
    fifo: Fifo,
}

impl DropTail {
    /// A queue with this limit. With `mark_above`, packets that arrive while that much waits are marked.
    #[must_use]
    pub fn new(limit: Limit, mark_above: Option<Limit>) -> Self {
        Self { limit, mark_above, fifo: Fifo::default() }
    }
}

impl Queue for DropTail {
    #[inline]
    fn enqueue(&mut self, packet: Queued, cx: &mut Context<'_>) {
        if !fits(self.limit, self.fifo.len(), self.fifo.bytes, packet.bytes) {
            return cx.dropped.push((packet.packet, DropRule::QueueFull));
        }
        if packet.ecn_capable
            && let Some(threshold) = self.mark_above
            && !fits(threshold, self.fifo.len(), self.fifo.bytes, packet.bytes)
        {
            cx.marked.push(packet.packet);
        }
        self.fifo.push(packet);
    }

    #[inline]
    fn dequeue(&mut self, _: &mut Context<'_>) -> Option<Queued> {
        self.fifo.pop()
    }

    fn len(&self) -> usize {
        self.fifo.len()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes
    }

    fn is_transparent(&self) -> bool {
        // A packet larger than the whole capacity is dropped even by an empty queue.
        self.mark_above.is_none() && matches!(self.limit, Limit::Packets(_))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    #[test]
    fn the_limit_counts_packets_that_wait() {
        let mut bench = Bench::new(DropTail::new(Limit::Packets(3), None));
        (0..5).for_each(|n| _ = bench.put(n, 1500, 0, false));
        assert_eq!(bench.dropped(), [3, 4]);
        assert_eq!((bench.take(9), bench.queue.len(), bench.queue.bytes()), (Some(0), 2, 3000));
        bench.put(10, 1500, 0, false);
        assert_eq!(bench.dropped.len(), 2);
    }

    #[test]
    fn a_limit_in_bytes_takes_small_packets_where_a_large_one_does_not_fit() {
        let mut bench = Bench::new(DropTail::new(Limit::Bytes(3000), None));
        bench.put(0, 1500, 0, false);
        bench.put(0, 1000, 0, false);
        bench.put(0, 501, 0, false);
        bench.put(0, 500, 0, false);
        assert_eq!(bench.dropped(), [2]);
    }

    #[test]
    fn above_the_threshold_capable_packets_are_marked() {
        let mut bench = Bench::new(DropTail::new(Limit::Packets(10), Some(Limit::Packets(2))));
        for capable in [true, true, true, false, true] {
            bench.put(0, 1500, 0, capable);
        }
        assert_eq!(bench.marked.iter().map(|packet| packet.0).collect::<Vec<_>>(), [2, 4]);
        assert!(bench.dropped.is_empty());
    }
}
