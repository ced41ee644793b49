//! RED: Sally Floyd and Van Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
//! Transactions on Networking, 1993, fig. 2; with the gentle variant of Floyd (2000) and marking
//! (RFC 3168 §7, RFC 2309).
//!
//! Deviations: the average and the probabilities are fixed-point numbers with 32 fraction bits. While the
//! queue is empty, the average falls once for each packet of mean size that the link could have sent, as the
//! paper says, with w_q a negative power of 2, as the paper recommends for fast gateways (§11). Above the
//! upper threshold ECN-capable packets are also dropped (RFC 3168 §7: the gateway may), unless RED is gentle;
//! then marking goes on up to twice the threshold.

use ackclock_core::Instant;

use super::{Context, DropRule, Fifo, Queue, Queued, fits};
use crate::units::{Limit, Share};

/// The parameters, in the paper's words.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// The capacity.
    pub limit: Limit,
    /// min_th in packets.
    pub min_th: u32,
    /// max_th in packets.
    pub max_th: u32,
    /// max_p.
    pub max_p: Share,
    /// w_q is 2 to the power of minus this.
    pub weight_shift: u32,
    /// Whether the probability rises to 1 at twice max_th instead of jumping at max_th.
    pub gentle: bool,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub mark: bool,
    /// The time that a packet of mean size takes on the link, in nanoseconds: the paper's s.
    pub packet_time_ns: u64,
}

/// A RED queue.
#[derive(Debug)]
pub struct Red {
    parameters: Parameters,
    fifo: Fifo,
    /// avg, in packets of 2³² parts.
    average: u64,
    /// Packets since the last drop or mark; `None` while the average is below min_th (the paper's -1).
    count: Option<u64>,
    /// When the queue became empty.
    idle_since: Option<Instant>,
}

impl Red {
    /// An empty queue.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        Self { parameters, fifo: Fifo::default(), average: 0, count: None, idle_since: Some(Instant::ZERO) }
    }

    /// The paper's avg in packets of 2³² parts.
    #[must_use]
    pub fn average(&self) -> u64 {
        self.average
    }

    fn update_average(&mut self, now: Instant) {
        let shift = self.parameters.weight_shift;
        if let Some(since) = self.idle_since.filter(|_| self.fifo.len() == 0) {
            // avg ← (1 - w_q)^m avg
            let idle = now.as_nanos() - since.as_nanos();
            let m = idle / self.parameters.packet_time_ns.max(1);
            let kept = power((1 << 32) - (1 << (32 - shift)), m);
            self.average = ((u128::from(self.average) * u128::from(kept)) >> 32) as u64;
            self.idle_since = Some(now);
        } else {
            // avg ← (1 - w_q) avg + w_q q
            let queue = (self.fifo.len() as u64) << 32;
            self.average = self.average - (self.average >> shift) + (queue >> shift);
        }
    }

    /// p_b in parts of 2³²; `None` where every packet is dropped.
    fn probability(&self) -> Option<u64> {
        let Parameters { min_th, max_th, max_p, gentle, .. } = self.parameters;
        let (min, max) = (u64::from(min_th) << 32, u64::from(max_th) << 32);
        let max_p = (u64::from(max_p.parts_per_billion()) << 32) / 1_000_000_000;
        let ratio = |part: u64, whole: u64| ((u128::from(part) << 32) / u128::from(whole.max(1))) as u64;
        if self.average < max {
            let ratio = ratio(self.average - min, max - min);
            Some(((u128::from(max_p) * u128::from(ratio)) >> 32) as u64)
        } else if gentle && self.average < 2 * max {
            let ratio = ratio(self.average - max, max);
            Some(max_p + ((u128::from((1 << 32) - max_p) * u128::from(ratio)) >> 32) as u64)
        } else {
            None
        }
    }

    /// The rule by which an arriving packet is dropped or marked, if any.
    fn judge(&mut self, cx: &mut Context<'_>) -> Option<DropRule> {
        if self.average < u64::from(self.parameters.min_th) << 32 {
            self.count = None;
            return None;
        }
        let Some(p_b) = self.probability() else {
            self.count = Some(0);
            return Some(DropRule::RedForced);
        };
        let count = self.count.map_or(0, |count| count + 1);
        // p_a ← p_b / (1 - count p_b)
        let left = (1u128 << 32).saturating_sub(u128::from(count) * u128::from(p_b));
        let p_a = (u128::from(p_b) << 32).checked_div(left).unwrap_or(1 << 32).min(1 << 32) as u64;
        let goes = cx.rng.next_u64() >> 32 < p_a;
        self.count = Some(if goes { 0 } else { count });
        goes.then_some(DropRule::RedEarly)
    }
}

impl Queue for Red {
    fn enqueue(&mut self, packet: Queued, cx: &mut Context<'_>) {
        self.update_average(cx.now);
        let verdict = self.judge(cx);
        if !fits(self.parameters.limit, self.fifo.len(), self.fifo.bytes, packet.bytes) {
            return cx.dropped.push((packet.packet, DropRule::QueueFull));
        }
        match verdict {
            Some(DropRule::RedEarly) if self.parameters.mark && packet.ecn_capable => {
                cx.marked.push(packet.packet);
            }
            Some(rule) => return cx.dropped.push((packet.packet, rule)),
            None => {}
        }
        self.idle_since = None;
        self.fifo.push(packet);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Queued> {
        let packet = self.fifo.pop();
        if self.fifo.len() == 0 && self.idle_since.is_none() {
            self.idle_since = Some(cx.now);
        }
        packet
    }

    fn len(&self) -> usize {
        self.fifo.len()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes
    }
}

/// `base` to the power of `n`, both in parts of 2³², for a base of at most 1.
fn power(base: u64, mut n: u64) -> u64 {
    let (mut result, mut square) = (1u128 << 32, u128::from(base));
    while n > 0 && result > 0 {
        if n & 1 == 1 {
            result = (result * square) >> 32;
        }
        square = (square * square) >> 32;
        n >>= 1;
    }
    result as u64
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, MS};
    use super::*;

    const BASE: Parameters = Parameters {
        limit: Limit::Packets(1000),
        min_th: 5,
        max_th: 15,
        max_p: Share::percent(2),
        weight_shift: 9,
        gentle: false,
        mark: false,
        packet_time_ns: MS,
    };

    fn average(red: &Red) -> f64 {
        red.average() as f64 / 2f64.powi(32)
    }

    #[test]
    fn the_average_is_the_papers_recursion_idle_times_included() {
        let mut bench = Bench::new(Red::new(Parameters { min_th: u32::MAX, ..BASE }));
        let (mut model, mut queue) = (0.0f64, 0.0f64);
        for n in 0..2000u64 {
            model += (queue - model) / 512.0;
            if n == 0 {
                model = 0.0;
            }
            bench.put(n * MS / 2, 1000, 0, false);
            queue = bench.queue.len() as f64;
            assert!((average(&bench.queue) - model).abs() < 1e-3, "{n}: {}, {model}", average(&bench.queue));
            if n % 2 == 1 {
                bench.take(n * MS / 2);
                queue -= 1.0;
            }
        }
        let end = 1000 * MS;
        while bench.take(end).is_some() {}
        bench.put(end + 700 * MS, 1000, 0, false);
        model *= (511.0f64 / 512.0).powi(700);
        assert!((average(&bench.queue) - model).abs() < 1e-3, "{} {model}", average(&bench.queue));
    }

    /// Holds the queue at `len` packets until the average has settled there. Returns the share of `n`
    /// arrivals dropped, and the gaps.
    fn share_gone(parameters: Parameters, len: usize, n: u32) -> (f64, Vec<u64>) {
        let mut bench = Bench::new(Red::new(Parameters { weight_shift: 1, ..parameters }));
        bench.queue.parameters.min_th = u32::MAX;
        (0..len).for_each(|_| _ = bench.put(0, 1000, 0, parameters.mark));
        (0..100).for_each(|_| bench.queue.update_average(Instant::ZERO));
        bench.queue.parameters.min_th = parameters.min_th;
        let (mut gone, mut gaps, mut gap) = (0, Vec::new(), 0);
        for _ in 0..n {
            let before = bench.dropped.len() + bench.marked.len();
            bench.put(0, 1000, 0, parameters.mark);
            if bench.queue.len() > len {
                // Removes the newcomer, so that the length stays.
                bench.queue.fifo.packets.pop_back();
                bench.queue.fifo.bytes -= 1000;
            }
            gap += 1;
            if bench.dropped.len() + bench.marked.len() > before {
                gone += 1;
                gaps.push(std::mem::take(&mut gap));
            }
        }
        (f64::from(gone) / f64::from(n), gaps)
    }

    #[test]
    fn drops_are_spread_evenly_at_the_papers_rate() {
        // Half-way between the thresholds p_b is 1 %. With p_a = p_b / (1 - count p_b), count 1 for the first
        // packet after a drop (fig. 2), the gap is uniform on 1..99: a mean of 50 and none above.
        let (share, gaps) = share_gone(BASE, 10, 200_000);
        assert!((share - 1.0 / 50.0).abs() < 0.0006, "{share}");
        assert!(gaps.iter().skip(1).all(|gap| *gap <= 100), "{:?}", gaps.iter().max());
    }

    #[test]
    fn below_min_th_nothing_goes_and_above_max_th_everything() {
        assert_eq!(share_gone(BASE, 4, 1000).0, 0.0);
        assert_eq!(share_gone(BASE, 16, 1000).0, 1.0);
    }

    #[test]
    fn gentle_red_goes_on_from_max_p_to_one() {
        let gentle = Parameters { gentle: true, ..BASE };
        // At 1.25 max_th: p_b = 0.02 + 0.98 / 4 = 0.265. A drop follows the last one at once with probability
        // 0.265 / 0.735, after one packet with 0.265 / 0.47, after two for certain: a mean gap of 1.9185.
        let (share, _) = share_gone(Parameters { max_th: 16, ..gentle }, 20, 100_000);
        assert!((share - 1.0 / 1.9185).abs() < 0.005, "{share}");
        assert_eq!(share_gone(gentle, 31, 100).0, 1.0);
    }

    #[test]
    fn capable_packets_are_marked_instead() {
        let mut bench = Bench::new(Red::new(Parameters { mark: true, weight_shift: 0, ..BASE }));
        (0..1000).for_each(|_| {
            bench.put(0, 1000, 0, true);
            if bench.queue.len() > 12 {
                bench.take(0);
            }
        });
        assert!(!bench.marked.is_empty() && bench.dropped.is_empty(), "{:?}", bench.dropped);
    }
}
