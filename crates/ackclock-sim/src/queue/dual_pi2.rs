//! DualPI2: Koen De Schepper, Bob Briscoe and Greg White, "Dual-Queue Coupled Active Queue Management (AQM)
//! for Low Latency, Low Loss, and Scalable Throughput (L4S)", RFC 9332, 2023: appendix A with its edge cases
//! (figures 2, 3, 5, 7 and 8).
//!
//! There are two queues. L4S traffic (ECT(1) and CE) waits in one and is marked while about a millisecond or
//! more waits. Everything else waits in the other and is marked or dropped with the square of a probability
//! that follows its delay. L4S traffic is marked with at least k times that probability, so that both kinds
//! of flows get about the same rate.
//!
//! The scheduler is a weighted round robin by bytes, as appendix A.2 recommends: while both queues have
//! packets, the classic one gets one part in 16. The credit changes only then, and goes back in favour of the
//! L queue when the link is idle, as in Linux (appendix A.1).
//!
//! Deviations: probabilities are fixed-point numbers with 32 fraction bits. Updates are due at whole
//! multiples of Tupdate. Th_len is compared with what waits behind the packet that leaves, as in figure 7.
//! Linux's exemption of queues below two packets is left out.

use ackclock_core::Instant;

use super::{Context, DropRule, Fifo, LaneStats, ONE, Queue, Queued, fits};
use crate::units::{Limit, Span};

/// The parameters, in the RFC's words.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// The capacity of both queues together.
    pub limit: Limit,
    /// target: the delay to keep to in the classic queue.
    pub target: Span,
    /// RTT_max: the longest round trip with which it is stable.
    pub rtt_max: Span,
    /// k: how much more often L4S packets are marked than the root of the classic probability.
    pub coupling: u32,
    /// minTh: the delay from which L4S packets are marked.
    pub min_th: Span,
    /// range: beyond minTh by this much, all are.
    pub range: Span,
    /// MTU: room that is always left.
    pub mtu: u32,
}

/// A DualPI2 queue.
#[derive(Debug)]
pub struct DualPi2 {
    parameters: Parameters,
    l4s: Lane,
    classic: Lane,
    /// p': the base probability.
    base: i64,
    /// prevq in nanoseconds.
    delay_before: i64,
    /// Tupdate in nanoseconds.
    update: u64,
    updates_at: u64,
    /// Above 0, it is the classic queue's turn.
    credit: i64,
}

/// One of the two queues.
#[derive(Debug, Default)]
struct Lane {
    fifo: Fifo,
    /// q.count of figure 4.
    count: i64,
    stats: LaneStats,
}

impl DualPi2 {
    /// Empty queues.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        // Figure 2: Tupdate = min(target, RTT_max/3).
        let update = parameters.target.0.min(parameters.rtt_max.0 / 3).max(1);
        let mut queue = Self {
            parameters,
            l4s: Lane::default(),
            classic: Lane::default(),
            base: 0,
            delay_before: 0,
            update,
            updates_at: update,
            credit: 0,
        };
        queue.favour_l4s();
        queue
    }

    /// p', the base probability, in parts of 2³².
    #[must_use]
    pub fn base_probability(&self) -> u64 {
        self.base as u64
    }

    /// Makes the updates that are due.
    fn catch_up(&mut self, now: Instant) {
        while self.updates_at <= now.as_nanos() {
            if self.is_empty() && (self.base, self.delay_before) == (0, 0) {
                let update = self.update;
                self.updates_at = (now.as_nanos() / update).saturating_add(1).saturating_mul(update);
                return;
            }
            self.update();
            self.updates_at = self.updates_at.saturating_add(self.update);
        }
    }

    /// Figure 8.
    fn update(&mut self) {
        let at = Instant::from_nanos(self.updates_at);
        let waited = self.classic.waited(at).max(self.l4s.waited(at));
        let (delay, before) = (i128::from(waited), i128::from(self.delay_before));
        let (target, rtt_max) =
            (i128::from(self.parameters.target.0), i128::from(self.parameters.rtt_max.0.max(1)));
        // Figure 2: alpha = 0.1 * Tupdate / RTT_max^2, beta = 0.3 / RTT_max.
        let one = i128::from(ONE);
        let integral = one * (delay - target) * i128::from(self.update) / (10 * rtt_max * rtt_max);
        let proportional = one * 3 * (delay - before) / (10 * rtt_max);
        let next = i128::from(self.base) + integral + proportional;
        self.base = next.clamp(0, i128::from(ONE)) as i64;
        self.delay_before = waited;
    }

    /// p_C = p'^2.
    fn classic_probability(&self) -> i64 {
        ((i128::from(self.base) * i128::from(self.base)) >> 32) as i64
    }

    /// p_CL = k * p'.
    fn coupled_probability(&self) -> i64 {
        self.base.saturating_mul(i64::from(self.parameters.coupling))
    }

    /// p_Cmax = min(1/k^2, 1).
    fn classic_max(&self) -> i64 {
        let k = i64::from(self.parameters.coupling.max(1));
        ONE / k.saturating_mul(k)
    }

    /// Figure 5.
    fn native_probability(&self, waited: u64) -> i64 {
        let Parameters { min_th, range, .. } = self.parameters;
        if waited >= min_th.0.saturating_add(range.0) {
            ONE
        } else if waited > min_th.0 {
            ((u128::from(waited - min_th.0) << 32) / u128::from(range.0)) as i64
        } else {
            0
        }
    }

    /// Appendix A.2: whether the L queue sends next.
    fn l4s_is_next(&self) -> bool {
        match (self.l4s.fifo.len(), self.classic.fifo.len()) {
            (_, 0) => true,
            (0, _) => false,
            _ => self.credit <= 0,
        }
    }

    /// A packet of this size has left, and both queues had one.
    fn charge(&mut self, l4s: bool, bytes: u32) {
        let bytes = i64::from(bytes);
        self.credit += if l4s { bytes } else { -bytes * CLASSIC_PARTS };
    }

    fn favour_l4s(&mut self) {
        self.credit = -i64::from(self.parameters.mtu) * CLASSIC_PARTS;
    }

    /// Figure 7, lines 4a to 8j: whether the packet is sent.
    fn sends_l4s(&mut self, packet: &Queued, cx: &mut Context<'_>) -> bool {
        let coupled = self.coupled_probability();
        if coupled < ONE {
            let waited = packet.waited_ns(cx.now);
            let short = self.l4s.fifo.len() <= TH_LEN;
            let native = if short { 0 } else { self.native_probability(waited) };
            if self.l4s.recur(native.max(coupled)) {
                self.l4s.mark(packet, cx);
            }
            return true;
        }
        if self.l4s.recur(self.classic_probability()) {
            self.l4s.drop(packet, DropRule::DualPi2, cx);
            return false;
        }
        if self.l4s.recur(coupled.min(ONE)) {
            self.l4s.mark(packet, cx);
        }
        true
    }

    /// Figure 7, lines 10 to 17: whether the packet is sent.
    fn sends_classic(&mut self, packet: &Queued, cx: &mut Context<'_>) -> bool {
        let probability = self.classic_probability();
        if !self.classic.recur(probability) {
            return true;
        }
        let sends = packet.ecn_capable && probability < self.classic_max();
        if sends {
            self.classic.mark(packet, cx);
        } else {
            self.classic.drop(packet, DropRule::DualPi2, cx);
        }
        sends
    }
}

impl Lane {
    /// How long its first packet has waited, in nanoseconds.
    fn waited(&self, now: Instant) -> i64 {
        let first = self.fifo.packets.front();
        first.map_or(0, |packet| packet.waited_ns(now) as i64)
    }

    /// Figure 4, recur(): true as often as this likelihood says, evenly spread.
    fn recur(&mut self, likelihood: i64) -> bool {
        self.count += likelihood;
        let is_due = self.count > ONE;
        if is_due {
            self.count -= ONE;
        }
        is_due
    }

    fn mark(&mut self, packet: &Queued, cx: &mut Context<'_>) {
        self.stats.marked += 1;
        cx.marked.push(packet.packet);
    }

    fn drop(&mut self, packet: &Queued, rule: DropRule, cx: &mut Context<'_>) {
        self.stats.dropped += 1;
        cx.dropped.push((packet.packet, rule));
    }

    fn send(&mut self, packet: &Queued, now: Instant) {
        self.stats.sent += 1;
        self.stats.waits.record(packet.waited_ns(now));
    }
}

impl Queue for DualPi2 {
    fn enqueue(&mut self, packet: Queued, cx: &mut Context<'_>) {
        self.catch_up(cx.now);
        // Figure 3, line 2: the room for an MTU spares large packets a bias.
        let fits = fits(self.parameters.limit, self.len(), self.bytes(), self.parameters.mtu);
        let lane = if packet.l4s { &mut self.l4s } else { &mut self.classic };
        if !fits {
            return lane.drop(&packet, DropRule::QueueFull, cx);
        }
        lane.fifo.push(packet);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Queued> {
        self.catch_up(cx.now);
        loop {
            let contended = self.l4s.fifo.len() > 0 && self.classic.fifo.len() > 0;
            let l4s = self.l4s_is_next();
            let lane = if l4s { &mut self.l4s } else { &mut self.classic };
            let Some(packet) = lane.fifo.pop() else {
                self.favour_l4s();
                return None;
            };
            let sends = if l4s { self.sends_l4s(&packet, cx) } else { self.sends_classic(&packet, cx) };
            if sends {
                if contended {
                    self.charge(l4s, packet.bytes);
                }
                let lane = if l4s { &mut self.l4s } else { &mut self.classic };
                lane.send(&packet, cx.now);
                return Some(packet);
            }
        }
    }

    fn len(&self) -> usize {
        self.l4s.fifo.len() + self.classic.fifo.len()
    }

    fn bytes(&self) -> u64 {
        self.l4s.fifo.bytes + self.classic.fifo.bytes
    }

    fn lanes(&self) -> Vec<(&'static str, &LaneStats)> {
        vec![("L", &self.l4s.stats), ("C", &self.classic.stats)]
    }
}

/// Figure 2, Th_len: L4S packets are marked for their own delay while more than this many wait.
const TH_LEN: usize = 1;
/// The classic queue sends one byte for this many of the L queue.
const CLASSIC_PARTS: i64 = 15;

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, MS};
    use super::*;

    const BASE: Parameters = Parameters {
        limit: Limit::Packets(100_000),
        target: Span::millis(15),
        rtt_max: Span::millis(100),
        coupling: 2,
        min_th: Span(800_000),
        range: Span(400_000),
        mtu: 1500,
    };

    fn put(bench: &mut Bench<DualPi2>, at_ns: u64, l4s: bool) -> u32 {
        bench.l4s = l4s;
        bench.put(at_ns, 1000, 0, l4s)
    }

    #[test]
    fn while_both_wait_the_classic_queue_sends_one_part_in_sixteen() {
        let mut bench = Bench::new(DualPi2::new(BASE));
        for n in 0..3200 {
            put(&mut bench, 0, n % 2 == 0);
        }
        let classic = (0..1600).filter(|_| bench.take(0).unwrap() % 2 == 1).count();
        // The credit of 15 MTU in favour of the L queue is worth 22 packets.
        assert!((98..=100).contains(&classic), "{classic}");
    }

    #[test]
    fn the_l_queue_is_marked_by_its_ramp() {
        // 8 packets in a row wait for the same time. At most one packet waits behind the last two.
        for (waits_us, marked) in
            [(0, 0), (800, 0), (900, 6 * 250), (1100, 6 * 750), (1200, 6000), (2000, 6000)]
        {
            let mut bench = Bench::new(DualPi2::new(BASE));
            for round in 0..1000u64 {
                // Far apart, so that p' is 0 for them.
                let at = round * 1000 * MS;
                (0..8).for_each(|_| _ = put(&mut bench, at, true));
                (0..8).for_each(|_| _ = bench.take(at + waits_us * 1000));
            }
            let count = bench.marked.len();
            assert!(
                bench.dropped.is_empty() && count.abs_diff(marked) <= 8,
                "{waits_us} us: {count}, {marked}"
            );
        }
    }

    /// p' is held at a value by the delay of the classic queue; the marks of the two are counted.
    #[test]
    fn l4s_marks_are_twice_the_root_of_the_classic_ones() {
        let mut bench = Bench::new(DualPi2::new(BASE));
        for base in [ONE / 10, ONE / 4, ONE * 2 / 5] {
            (bench.marked, bench.dropped) = (Vec::new(), Vec::new());
            for _ in 0..10_000 {
                // The clock stands still, so nothing updates p'.
                bench.queue.base = base;
                let l4s = put(&mut bench, 0, true);
                assert_eq!(bench.take(0), Some(l4s));
                put(&mut bench, 0, false);
                bench.take(0);
            }
            let p = base as f64 / ONE as f64;
            let (marked, dropped) = (bench.marked.len() as f64, bench.dropped.len() as f64);
            assert!((marked - 20_000.0 * p).abs() <= 2.0, "{marked} of {p}");
            assert!((dropped - 10_000.0 * p * p).abs() <= 2.0, "{dropped} of {p}");
        }
    }

    /// Ten packets of the L queue wait for 1.2 ms, so that all but the last two count for a mark, and the
    /// first mark is due after two. Ten of the classic queue wait for 2 ms. One of each finds no room.
    #[test]
    fn what_passes_each_queue_is_counted_apart() {
        let mut bench = Bench::new(DualPi2::new(Parameters { limit: Limit::Packets(20), ..BASE }));
        for n in 0..22 {
            put(&mut bench, 0, n % 2 == 0);
        }
        while bench.queue.l4s.fifo.len() > 0 {
            bench.take(1_200_000).unwrap();
        }
        while bench.take(2 * MS).is_some() {}
        let lanes = bench.queue.lanes();
        let counts = lanes.iter().map(|(name, lane)| (*name, lane.sent, lane.dropped, lane.marked));
        assert_eq!(counts.collect::<Vec<_>>(), [("L", 10, 1, 7), ("C", 10, 1, 0)]);
        let waits = lanes.iter().map(|(_, lane)| (lane.waits.mean(), lane.waits.max()));
        assert_eq!(waits.collect::<Vec<_>>(), [(1_200_000, 1_200_000), (2_000_000, 2_000_000)]);
    }

    /// Traffic that answers nothing: ECN does not spare it.
    #[test]
    fn above_the_classic_maximum_capable_packets_are_dropped_in_both_queues() {
        for l4s in [true, false] {
            let mut bench = Bench::new(DualPi2::new(BASE));
            // Twice what leaves.
            for t in 1..20_000 {
                bench.l4s = l4s;
                (0..2).for_each(|_| _ = bench.put(t * MS, 1000, 0, true));
                bench.take(t * MS);
            }
            // Half must go: p_C = 1/2.
            let p = bench.queue.classic_probability() as f64 / ONE as f64;
            assert!((0.4..0.6).contains(&p), "{l4s}: {p}");
            // The shedding keeps the delay near the target. Packets are dropped as they leave, so 15 ms of
            // arrivals wait: 30 packets.
            let waits = bench.queue.len();
            assert!((24..=36).contains(&waits), "{l4s}: {waits}");
        }
    }

    /// A step of the load: 5 % too much, not ECN-capable.
    #[test]
    fn after_a_step_of_the_load_the_delay_returns_to_the_target() {
        let mut bench = Bench::new(DualPi2::new(BASE));
        let mut lengths = Vec::new();
        for t in 1..20_000u64 {
            let more = if t < 1000 { 0 } else { u64::from(t % 20 == 0) };
            (0..1 + more).for_each(|_| _ = put(&mut bench, t * MS, false));
            bench.take(t * MS);
            lengths.push(bench.queue.len());
        }
        // The controller's gains are set for round trips of 100 ms: after some 50 of them it has settled.
        let late = &lengths[6000..];
        let mean = late.iter().sum::<usize>() as f64 / late.len() as f64;
        assert!((13.5..16.5).contains(&mean), "{mean}");
        assert!(late.iter().all(|length| (5..30).contains(length)), "{:?}", late.iter().max());
        // p_C is the share that must go, one in 21.
        let p = bench.queue.classic_probability() as f64 / ONE as f64;
        assert!((0.04..0.056).contains(&p), "{p}");
    }
}
