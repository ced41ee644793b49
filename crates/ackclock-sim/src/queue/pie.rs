//! PIE: Rong Pan, Preethi Natarajan, Fred Baker and Greg White, "Proportional Integral Controller Enhanced
//! (PIE): A Lightweight Control Scheme to Address the Bufferbloat Problem", RFC 8033, 2017: appendix A, with
//! marking (§5.1), derandomization (§5.4) and the cap on an increase (§5.5).
//!
//! Deviations: probabilities are fixed-point numbers with 32 fraction bits. The delay is that of the last
//! packet that left, as in appendix A, but 0 once the queue is empty: a stale delay would raise the
//! probability of an idle link. Updates are due at whole multiples of T_UPDATE. The gains alpha and beta are
//! those of the default target and T_UPDATE, whatever these are set to; §4.2 has a rule of thumb for others.
//! The RFC leaves MEAN_PKTSIZE open; here it is the link's MTU. §5.2 (delay from an estimated rate) and §5.3
//! (an inactive PIE) are left out.

use ackclock_core::Instant;

use super::{Context, DropRule, Fifo, ONE, Queue, Queued, fits};
use crate::units::{Limit, Span};

/// The parameters.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// The capacity.
    pub limit: Limit,
    /// QDELAY_REF: the delay to keep to.
    pub target: Span,
    /// T_UPDATE: how often the probability changes.
    pub update: Span,
    /// MAX_BURST: how long a burst is let be.
    pub burst: Span,
    /// MEAN_PKTSIZE in bytes.
    pub mean_packet: u32,
    /// Whether ECN-capable packets are marked instead of dropped, up to a probability of 10 %.
    pub mark: bool,
}

/// A PIE queue.
#[derive(Debug)]
pub struct Pie {
    parameters: Parameters,
    fifo: Fifo,
    /// drop_prob_.
    probability: i64,
    /// accu_prob_: what the probabilities of the packets since the last drop add up to.
    accumulated: i64,
    /// current_qdelay in nanoseconds.
    delay: i64,
    /// qdelay_old_ in nanoseconds.
    delay_before: i64,
    /// burst_allowance_ in nanoseconds.
    allowance: u64,
    /// When the probability changes next, in nanoseconds.
    updates_at: u64,
}

impl Pie {
    /// An empty queue.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        let update = parameters.update.0.max(1);
        Self {
            parameters: Parameters { update: Span(update), ..parameters },
            fifo: Fifo::default(),
            probability: 0,
            accumulated: 0,
            delay: 0,
            delay_before: 0,
            allowance: parameters.burst.0,
            updates_at: update,
        }
    }

    /// The probability of a drop in parts of 2³².
    #[must_use]
    pub fn probability(&self) -> u64 {
        self.probability as u64
    }

    /// Half of the target, below which nothing is congested.
    fn is_short(&self, delay: i64) -> bool {
        i128::from(delay) * 2 < i128::from(self.parameters.target.0)
    }

    /// Makes the updates that are due.
    fn catch_up(&mut self, now: Instant) {
        let update = self.parameters.update.0;
        while self.updates_at <= now.as_nanos() {
            if self.is_at_rest() {
                self.updates_at = (now.as_nanos() / update).saturating_add(1).saturating_mul(update);
                return;
            }
            self.update();
            self.updates_at = self.updates_at.saturating_add(update);
        }
    }

    /// Whether an update would change nothing.
    fn is_at_rest(&self) -> bool {
        (self.probability, self.delay, self.delay_before, self.allowance) == (0, 0, 0, 0)
    }

    /// Appendix A, calculate_drop_prob().
    fn update(&mut self) {
        let target = i128::from(self.parameters.target.0);
        let (delay, before) = (i128::from(self.delay), i128::from(self.delay_before));
        // alpha = 1/8 Hz and beta = 5/4 Hz, in eighths.
        let eighths = (delay - target) + 10 * (delay - before);
        let step = (eighths << 32) / (8 * 1_000_000_000);
        let divisor =
            TUNING.iter().find(|(below, _)| self.probability < *below).map_or(1, |(_, divisor)| *divisor);
        let mut step = step / divisor;
        if self.probability >= ONE / 10 {
            step = step.min(i128::from(ONE / 50));
        }
        let mut next = i128::from(self.probability) + step;
        if self.delay == 0 && self.delay_before == 0 {
            next = next * 98 / 100;
        }
        self.probability = next.clamp(0, i128::from(ONE)) as i64;
        self.delay_before = self.delay;
        self.allowance = self.allowance.saturating_sub(self.parameters.update.0);
    }

    /// Appendix A and §5.4, drop_early(): whether the arriving packet is to be dropped.
    fn drops_early(&mut self, cx: &mut Context<'_>) -> bool {
        let few = self.fifo.bytes <= 2 * u64::from(self.parameters.mean_packet);
        if few || self.is_short(self.delay_before) && self.probability < ONE / 5 {
            return false;
        }
        if self.probability == 0 {
            self.accumulated = 0;
        }
        self.accumulated += self.probability;
        if self.accumulated < ONE * 85 / 100 {
            return false;
        }
        self.accumulated >= ONE * 85 / 10 || ((cx.rng.next_u64() >> 32) as i64) < self.probability
    }
}

impl Queue for Pie {
    fn enqueue(&mut self, packet: Queued, cx: &mut Context<'_>) {
        self.catch_up(cx.now);
        if self.probability == 0 && self.is_short(self.delay) && self.is_short(self.delay_before) {
            self.allowance = self.parameters.burst.0;
        }
        if !fits(self.parameters.limit, self.fifo.len(), self.fifo.bytes, packet.bytes) {
            self.accumulated = 0;
            return cx.dropped.push((packet.packet, DropRule::QueueFull));
        }
        if self.allowance == 0 && self.drops_early(cx) {
            self.accumulated = 0;
            // §5.1: mark_ecnth is 10 %.
            if !(self.parameters.mark && packet.ecn_capable && self.probability < ONE / 10) {
                return cx.dropped.push((packet.packet, DropRule::Pie));
            }
            cx.marked.push(packet.packet);
        }
        self.fifo.push(packet);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Queued> {
        self.catch_up(cx.now);
        let packet = self.fifo.pop()?;
        self.delay = if self.fifo.len() == 0 { 0 } else { packet.waited_ns(cx.now) as i64 };
        Some(packet)
    }

    fn len(&self) -> usize {
        self.fifo.len()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes
    }
}

/// §4.2: below the first probability a step is divided by the second: small probabilities take small steps.
const TUNING: [(i64, i128); 6] = [
    (ONE / 1_000_000, 2048),
    (ONE / 100_000, 512),
    (ONE / 10_000, 128),
    (ONE / 1000, 32),
    (ONE / 100, 8),
    (ONE / 10, 2),
];

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, MS};
    use super::*;

    const BASE: Parameters = Parameters {
        limit: Limit::Packets(100_000),
        target: Span::millis(15),
        update: Span::millis(15),
        burst: Span::millis(150),
        mean_packet: 1500,
        mark: false,
    };

    /// A packet leaves every millisecond. `arriving` gives the packets that arrive in each. Returns the delay
    /// of each packet that left, and when packets were dropped or marked, in milliseconds.
    fn run(
        parameters: Parameters,
        capable: bool,
        until_ms: u64,
        arriving: impl Fn(u64, usize) -> u64,
    ) -> (Vec<u64>, Vec<u64>, Bench<Pie>) {
        let mut bench = Bench::new(Pie::new(parameters));
        let (mut arrived, mut delays, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for t in 1..=until_ms {
            let before = bench.dropped.len() + bench.marked.len();
            for _ in 0..arriving(t, before) {
                bench.put(t * MS, 1000, 0, capable);
                arrived.push(t);
            }
            gone.extend((before..bench.dropped.len() + bench.marked.len()).map(|_| t));
            if let Some(packet) = bench.take(t * MS) {
                delays.push(t - arrived[packet as usize]);
            }
        }
        (delays, gone, bench)
    }

    #[test]
    fn a_burst_within_the_allowance_is_let_be() {
        // 100 packets at once wait for 100 ms and are gone before the allowance of 150 ms is.
        let (delays, gone, _) = run(BASE, false, 400, |t, _| if t == 1 { 100 } else { 0 });
        assert_eq!((delays.len(), gone.len(), delays.iter().max()), (100, 0, Some(&99)));
    }

    #[test]
    fn the_first_drop_comes_after_the_allowance_and_soon_then() {
        // Twice as much arrives as leaves, so the delay rises by half a millisecond in each.
        let (_, gone, _) = run(BASE, false, 2000, |_, _| 2);
        // Ten updates of 15 ms use the allowance up. The probability grows by at most 2 % in each update from
        // 10 % on, and 0.85 of it must add up.
        assert!((150..400).contains(&gone[0]), "{gone:?}");
    }

    /// Packets that arrive in millisecond `t`, `percent` too many, as a flow of fixed rate.
    fn overload(t: u64, percent: u64) -> u64 {
        1 + (t * percent / 100 - (t - 1) * percent / 100)
    }

    /// Steps of the load, up and down. §4.2 promises no error in the long run: PIE drops the excess, and the
    /// delay is the target's.
    #[test]
    fn after_a_step_of_the_load_the_delay_returns_to_the_target() {
        for (before, after) in [(0, 10), (30, 10), (10, 30)] {
            let arriving = |t: u64, _| match t {
                ..15_000 if before == 0 => u64::from(t.is_multiple_of(2)),
                ..15_000 => overload(t, before),
                _ => overload(t, after),
            };
            let (delays, gone, bench) = run(BASE, false, 75_000, arriving);
            let late = &delays[delays.len() - 30_000..];
            let mean = late.iter().sum::<u64>() as f64 / late.len() as f64;
            assert!((12.0..18.0).contains(&mean), "{before} to {after} %: {mean}");
            // Of 100 + `after` packets, `after` must go. A drop comes 0.85/p packets after the last one at
            // the earliest, 1.85/p on average (§5.4), so p is 1.85 times that share.
            let share = bench.queue.probability() as f64 / f64::from(u32::MAX);
            let exact = 1.85 * after as f64 / (100 + after) as f64;
            assert!((0.85..1.2).contains(&(share / exact)), "{before} to {after} %: {share}, {exact}");
            let gone = gone.iter().filter(|t| **t > 45_000).count() as f64;
            let too_much = 300.0 * after as f64;
            assert!((gone / too_much - 1.0).abs() < 0.05, "{before} to {after} %: {gone} of {too_much}");
            // It overshoots and settles: 600 updates after the step, no packet waits for 4 targets.
            let settled = &delays[delays.len() - 50_000..];
            assert!(
                settled.iter().all(|delay| *delay < 60),
                "{before} to {after} %: {:?}",
                settled.iter().max()
            );
        }
    }

    /// A step down: the load falls to nothing. The probability decays by 2 % in each update, time constant 50
    /// updates (§4.2), besides what the controller takes away.
    #[test]
    fn without_load_the_probability_decays() {
        let (_, _, mut bench) = run(BASE, false, 4000, |_, _| 2);
        let at_end = bench.queue.probability();
        assert!(at_end > 0);
        let mut t = 4000;
        while bench.take(t * MS).is_some() {
            t += 1;
        }
        let emptied = bench.queue.probability();
        bench.take((t + 750) * MS);
        // After one time constant at most a third is left, and after 3 s nothing is.
        assert!(
            bench.queue.probability() <= emptied * 37 / 100,
            "{} of {emptied}",
            bench.queue.probability()
        );
        bench.take((t + 3000) * MS);
        assert_eq!(bench.queue.probability(), 0);
    }

    /// §4.2: each step is divided by the number beside the range that the probability is in.
    #[test]
    fn steps_are_scaled_by_the_rfcs_table() {
        for (probability, divisor) in
            [(5e-7, 2048.0), (5e-6, 512.0), (5e-5, 128.0), (5e-4, 32.0), (5e-3, 8.0), (5e-2, 2.0), (0.5, 1.0)]
        {
            let mut pie = Pie::new(BASE);
            let start = (probability * ONE as f64) as i64;
            (pie.probability, pie.delay, pie.delay_before) = (start, 25 * MS as i64, 20 * MS as i64);
            pie.update();
            // 1/8 Hz of the 10 ms above the target, 5/4 Hz of the growth by 5 ms.
            let step = (pie.probability - start) as f64 / ONE as f64;
            let exact = (0.125 * 0.010 + 1.25 * 0.005) / divisor;
            assert!((step - exact).abs() < 1e-9, "{probability}: {step}, {exact}");
        }
    }

    #[test]
    fn drops_are_neither_close_together_nor_far_apart() {
        let (_, gone, bench) = run(BASE, false, 60_000, |t, _| 1 + u64::from(t % 20 == 0));
        // §5.4: no other drop until 0.85/p packets later, one after 8.5/p at the latest. p is near 1.85/21.
        let share = bench.queue.probability() as f64 / f64::from(u32::MAX);
        assert!((0.06..0.12).contains(&share), "{share}");
        let late: Vec<u64> = gone.into_iter().filter(|t| *t > 30_000).collect();
        let gaps: Vec<u64> = late.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (least, most) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
        assert!(*least >= 6 && *most <= 142, "{least} to {most} ms");
    }

    /// §5.1: mark_ecnth is 10 %.
    #[test]
    fn capable_packets_are_marked_below_ten_percent_and_dropped_from_there() {
        for (percent, capable, mark, marks) in [
            (5, true, true, true),
            (9, true, true, true),
            (10, true, true, false),
            (50, true, true, false),
            (5, false, true, false),
            (5, true, false, false),
        ] {
            let mut bench = Bench::new(Pie::new(Parameters { mark, ..BASE }));
            // The clock stands still, so nothing updates the probability.
            bench.queue.probability = ONE * percent / 100;
            (bench.queue.delay_before, bench.queue.allowance) = (20 * MS as i64, 0);
            (0..10_000).for_each(|_| _ = bench.put(0, 1000, 0, capable));
            let (hit, other) = match marks {
                true => (bench.marked.len(), bench.dropped.len()),
                false => (bench.dropped.len(), bench.marked.len()),
            };
            // §5.4: no chance of a drop until 0.85/p packets, then one of p.
            let p = percent as f64 / 100.0;
            let exact = 10_000.0 / ((0.85 / p).ceil() - 1.0 + 1.0 / p);
            let near = (0.9..1.1).contains(&(hit as f64 / exact));
            assert!(near && other == 0, "{percent} %: {hit} and {other}, {exact}");
        }
    }
}
