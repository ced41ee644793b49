//! CoDel: Kathleen Nichols, Van Jacobson, Andrew McGregor and Janardhan Iyengar, "Controlled Delay Active
//! Queue Management", RFC 8289, 2018, §5; with marking as in §6 and RFC 8290 §4.2.
//!
//! Deviations: the square root in the control law is an integer's, right to one part in 2¹⁶. A packet is
//! marked only where it would have been dropped.

use ackclock_core::Instant;

use super::{Context, DropRule, Fifo, Queue, Queued, fits};
use crate::units::{Limit, Span};

/// The parameters, in the RFC's words.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// The capacity.
    pub limit: Limit,
    /// TARGET: an acceptable standing delay.
    pub target: Span,
    /// INTERVAL: how long the delay may exceed the target, about a round trip.
    pub interval: Span,
    /// MAXPACKET: a queue of at most this many bytes is never too long.
    pub max_packet: u32,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub mark: bool,
}

/// A CoDel queue.
#[derive(Debug)]
pub struct CoDel {
    parameters: Parameters,
    fifo: Fifo,
    law: Law,
}

/// The state of the algorithm, separate from its queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Law {
    /// When the delay will have stood above the target for an interval.
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u64,
    last_count: u64,
    dropping: bool,
}

impl CoDel {
    /// An empty queue.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        Self { parameters, fifo: Fifo::default(), law: Law::default() }
    }
}

impl Queue for CoDel {
    fn enqueue(&mut self, packet: Queued, cx: &mut Context<'_>) {
        if fits(self.parameters.limit, self.fifo.len(), self.fifo.bytes, packet.bytes) {
            self.fifo.push(packet);
        } else {
            cx.dropped.push((packet.packet, DropRule::QueueFull));
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Queued> {
        self.law.dequeue(&self.parameters, &mut self.fifo, cx)
    }

    fn len(&self) -> usize {
        self.fifo.len()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes
    }
}

impl Law {
    /// RFC 8289 §5.5: the next packet to send, after any drops.
    pub fn dequeue(
        &mut self,
        parameters: &Parameters,
        fifo: &mut Fifo,
        cx: &mut Context<'_>,
    ) -> Option<Queued> {
        let now = cx.now;
        let (mut packet, mut too_long) = self.head(parameters, fifo, now)?;
        if self.dropping {
            self.dropping = too_long;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if Self::mark(parameters, &packet, cx) {
                    self.drop_next = self.next(parameters, self.drop_next);
                    break;
                }
                cx.dropped.push((packet.packet, DropRule::CoDel));
                let Some(next) = self.head(parameters, fifo, now) else {
                    self.dropping = false;
                    return None;
                };
                (packet, too_long) = next;
                self.dropping = too_long;
                if too_long {
                    self.drop_next = self.next(parameters, self.drop_next);
                }
            }
        } else if too_long {
            let marked = Self::mark(parameters, &packet, cx);
            let next = if marked {
                Some((packet, true))
            } else {
                cx.dropped.push((packet.packet, DropRule::CoDel));
                self.head(parameters, fifo, now)
            };
            self.begin(parameters, now);
            packet = next?.0;
        }
        Some(packet)
    }

    /// RFC 8289 §5.6: the packet at the head, and whether the delay has stood above the target for an
    /// interval.
    fn head(&mut self, parameters: &Parameters, fifo: &mut Fifo, now: Instant) -> Option<(Queued, bool)> {
        let Some(packet) = fifo.pop() else {
            self.first_above = None;
            self.dropping = false;
            return None;
        };
        let sojourn = now.saturating_since(packet.since);
        if sojourn < parameters.target.duration() || fifo.bytes <= u64::from(parameters.max_packet) {
            self.first_above = None;
            return Some((packet, false));
        }
        let first_above = *self.first_above.get_or_insert(now + parameters.interval.duration());
        Some((packet, now >= first_above))
    }

    /// Dropping begins. It resumes where it left off if it ended recently.
    fn begin(&mut self, parameters: &Parameters, now: Instant) {
        self.dropping = true;
        let delta = self.count - self.last_count;
        let recent = now.saturating_since(self.drop_next) < parameters.interval.duration() * 16;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.next(parameters, now);
        self.last_count = self.count;
    }

    fn next(&self, parameters: &Parameters, t: Instant) -> Instant {
        control_law(parameters, t, self.count)
    }

    fn mark(parameters: &Parameters, packet: &Queued, cx: &mut Context<'_>) -> bool {
        let mark = parameters.mark && packet.ecn_capable;
        if mark {
            cx.marked.push(packet.packet);
        }
        mark
    }
}

/// RFC 8289 §5.6: t + INTERVAL / sqrt(count).
pub(super) fn control_law(parameters: &Parameters, t: Instant, count: u64) -> Instant {
    let root_q16 = (u128::from(count) << 32).isqrt().max(1);
    let step = (u128::from(parameters.interval.0) << 16) / root_q16;
    t + std::time::Duration::from_nanos(step as u64)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, MS};
    use super::*;

    const BASE: Parameters = Parameters {
        limit: Limit::Packets(1000),
        target: Span::millis(5),
        interval: Span::millis(100),
        max_packet: 1500,
        mark: false,
    };

    /// One packet a millisecond arrives and leaves, after a standing queue of `standing`. Returns the times
    /// of the drops.
    fn overload(parameters: Parameters, standing: u32, until_ms: u64) -> (Vec<u64>, Bench<CoDel>) {
        let mut bench = Bench::new(CoDel::new(parameters));
        (0..standing).for_each(|_| _ = bench.put(0, 1500, 0, true));
        let mut drops = Vec::new();
        for t in 1..=until_ms {
            bench.put(t * MS, 1500, 0, true);
            let before = bench.dropped.len() + bench.marked.len();
            bench.take(t * MS);
            let gone = bench.dropped.len() + bench.marked.len() - before;
            drops.extend(std::iter::repeat_n(t, gone));
            // Replaces each dropped packet, so that the delay persists.
            let dropped = if parameters.mark { 0 } else { gone };
            (0..dropped).for_each(|_| _ = bench.put(t * MS, 1500, 0, true));
        }
        (drops, bench)
    }

    #[test]
    fn drops_come_an_interval_after_the_target_and_then_by_the_control_law() {
        let (drops, _) = overload(BASE, 50, 600);
        // The delay passes 5 ms at 5 ms. The first drop is an interval later, and each next one 100/sqrt(n)
        // ms after the last.
        let mut expected = vec![105.0f64];
        for count in 1..8 {
            expected.push(expected[count - 1] + 100.0 / (count as f64).sqrt());
        }
        for (drop, expected) in drops.iter().zip(&expected) {
            let late = *drop as f64 - expected;
            assert!((0.0..1.0 + 1e-9).contains(&late), "{drops:?}, expected {expected:?}");
        }
        assert!(drops.len() >= 8);
    }

    #[test]
    fn a_delay_below_the_target_or_a_single_packet_is_let_be() {
        assert!(overload(BASE, 3, 1000).0.is_empty());
        // One packet of 1500 bytes that waits for a long time is not a queue.
        let mut bench = Bench::new(CoDel::new(BASE));
        for t in 0..10 {
            bench.put(t * 400 * MS, 1500, 0, false);
            assert!(bench.take(t * 400 * MS + 300 * MS).is_some());
        }
        assert!(bench.dropped.is_empty());
    }

    #[test]
    fn a_new_episode_soon_after_resumes_the_old_ones_rate() {
        let mut law =
            Law { count: 20, last_count: 10, drop_next: Instant::from_millis(500), ..Law::default() };
        law.begin(&BASE, Instant::from_millis(900));
        assert_eq!(law.count, 10);
        law.count = 25;
        law.begin(&BASE, Instant::from_millis(900 + 32 + 1600));
        assert_eq!(law.count, 1);
    }

    /// RFC 8289 §5.5: "delta > 1", within 16 intervals of the next drop that did not come.
    #[test]
    fn two_drops_of_the_old_episode_are_enough_to_resume_it() {
        for (count, after_ms, resumed) in [(2, 0, 1), (3, 0, 2), (4, 0, 3), (3, 1599, 2), (3, 1600, 1)] {
            let drop_next = Instant::from_millis(500);
            let mut law = Law { count, last_count: 1, drop_next, ..Law::default() };
            law.begin(&BASE, Instant::from_millis(500 + after_ms));
            assert_eq!(law.count, resumed, "{count} drops, {after_ms} ms later");
        }
    }

    #[test]
    fn capable_packets_are_marked_at_the_same_times() {
        let (drops, _) = overload(BASE, 50, 400);
        let (marks, bench) = overload(Parameters { mark: true, ..BASE }, 50, 400);
        assert!(bench.dropped.is_empty());
        assert_eq!(marks, drops);
    }
}
