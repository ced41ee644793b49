//! CAKE, the parts that matter to a simulated path: shares by host, a shaper and the ACK filter, over
//! FQ-CoDel.
//!
//! Toke Høiland-Jørgensen, Dave Täht and Jonathan Morton, "Piece of CAKE: A Comprehensive Queue Management
//! Solution for Home Gateways", IEEE LANMAN 2018. No RFC describes CAKE. The paper's abstract and
//! introduction, the synopsis and description of tc-cake(8), the description of the ACK filter on the netdev
//! list and Linux's `sch_cake.c` could be read; the rest of the paper and of the manual page could not.
//!
//! * Shaper: packets leave at `bandwidth`, back to back and without bursts, because the next one leaves when
//!   the one before would have been sent at that rate.
//! * Shares by host: a flow's quantum is divided by the number of busy flows of its source or its
//!   destination, or of the busier of the two (`triple-isolate`). A flow is busy when it has used up a
//!   quantum and until its queue has run empty.
//! * ACK filter: see [`acks`](super::acks).
//! * The quantum, and the target and interval of CoDel, follow the bandwidth as in `sch_cake.c`: at low rates
//!   the target is a packet's time and a half.
//!
//! Deviations: CoDel in each queue instead of COBALT, and a full queue drops as FQ-CoDel does. Flows are
//! hashed to queues without the sets of eight that spare CAKE collisions. There is one tin (`besteffort`),
//! and no compensation of link overhead, because a simulated link's rate counts IP packets. The filter takes
//! away the ACK before the newest where CAKE takes the one nearest to the head; the same number stays.

use ackclock_core::Instant;

use super::{CoDelParameters, Context, FqCoDel, FqCoDelParameters, Queue, Queued};
use crate::scenario::Isolation;
use crate::transmitter::Transmitter;
use crate::units::{Rate, Span};

/// The parameters.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// The parameters of each queue, at high bandwidths. The limit applies to all queues together.
    pub codel: CoDelParameters,
    /// The rate at which packets leave; `Rate::UNLIMITED` for the link's.
    pub bandwidth: Rate,
    /// Who gets equal shares.
    pub isolation: Isolation,
    /// Whether redundant ACKs are dropped.
    pub filter_acks: bool,
}

/// A CAKE queue.
#[derive(Debug)]
pub struct Cake {
    shaper: Transmitter,
    flows: FqCoDel,
}

impl Cake {
    /// An empty queue.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        let Parameters { codel, bandwidth, isolation, filter_acks } = parameters;
        let quantum = if bandwidth.is_unlimited() {
            QUANTUM_MAX
        } else {
            (bandwidth.bits() / 8 / 4096).clamp(QUANTUM_MIN, QUANTUM_MAX)
        };
        let packet_time = Transmitter::time_for(bandwidth, codel.max_packet);
        let target = codel.target.0.max(packet_time.saturating_mul(3) / 2);
        let later = target - codel.target.0;
        let interval = codel.interval.0.saturating_add(later).max(target.saturating_mul(2));
        let codel = CoDelParameters { target: Span(target), interval: Span(interval), ..codel };
        let flows =
            FqCoDelParameters { codel, queues: QUEUES, quantum: quantum as u32, isolation, filter_acks };
        Self { shaper: Transmitter::new(bandwidth), flows: FqCoDel::new(flows) }
    }
}

impl Queue for Cake {
    fn enqueue(&mut self, packet: Queued, cx: &mut Context<'_>) {
        self.flows.enqueue(packet, cx);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Queued> {
        let now = cx.now.as_nanos();
        if self.shaper.busy_until() > now {
            return None;
        }
        let packet = self.flows.dequeue(cx)?;
        self.shaper.send(now, packet.bytes);
        Some(packet)
    }

    fn len(&self) -> usize {
        self.flows.len()
    }

    fn bytes(&self) -> u64 {
        self.flows.bytes()
    }

    fn opens_at(&self) -> Option<Instant> {
        Some(Instant::from_nanos(self.shaper.busy_until()))
    }

    fn needs_flows(&self) -> bool {
        true
    }
}

/// `sch_cake.c`: CAKE_QUEUES.
const QUEUES: u16 = 1024;
/// `sch_cake.c`: bytes of a turn, at low and at high bandwidths.
const QUANTUM_MIN: u64 = 300;
const QUANTUM_MAX: u64 = 1514;

#[cfg(test)]
mod tests {
    use super::super::DropRule;
    use super::super::acks::PureAck;
    use super::super::testing::{Bench, MS};
    use super::*;
    use crate::units::Limit;

    const BASE: Parameters = Parameters {
        codel: CoDelParameters {
            limit: Limit::Packets(100_000),
            target: Span::millis(5),
            interval: Span::millis(100),
            max_packet: 1500,
            mark: false,
        },
        bandwidth: Rate::UNLIMITED,
        isolation: Isolation::TripleIsolate,
        filter_acks: false,
    };

    /// Flows between these hosts have packets all the time. Returns the bytes of each.
    fn saturated(isolation: Isolation, flows: &[[u32; 2]]) -> Vec<u64> {
        let mut bench = Bench::new(Cake::new(Parameters { isolation, ..BASE }));
        let mut flow_of = Vec::new();
        let put = |bench: &mut Bench<Cake>, flow_of: &mut Vec<usize>, flow: usize| {
            bench.hosts = flows[flow];
            bench.put(0, 1000, flow as u32, false);
            flow_of.push(flow);
        };
        (0..flows.len() * 3).for_each(|n| put(&mut bench, &mut flow_of, n % flows.len()));
        let mut bytes = vec![0; flows.len()];
        for _ in 0..20_000 {
            let flow = flow_of[bench.take(0).expect("packets wait") as usize];
            bytes[flow] += 1000;
            put(&mut bench, &mut flow_of, flow);
        }
        bytes
    }

    /// The share of the first flow, in thousandths.
    fn first(bytes: &[u64]) -> u64 {
        bytes[0] * 1000 / bytes.iter().sum::<u64>()
    }

    #[test]
    fn a_host_with_one_flow_gets_as_much_as_one_with_ten() {
        let to_one = |n: u32| [if n == 0 { 1 } else { 2 }, 9];
        let from_one = |n: u32| [9, if n == 0 { 1 } else { 2 }];
        let flows: [Vec<[u32; 2]>; 2] = [(0..11).map(to_one).collect(), (0..11).map(from_one).collect()];
        // One of eleven flows, or one of two hosts.
        let (eleventh, half) = (80..=100, 480..=520);
        for (isolation, sources, destinations) in [
            (Isolation::Flows, &eleventh, &eleventh),
            (Isolation::DualSrchost, &half, &eleventh),
            (Isolation::DualDsthost, &eleventh, &half),
        ] {
            let shares = [first(&saturated(isolation, &flows[0])), first(&saturated(isolation, &flows[1]))];
            let right = sources.contains(&shares[0]) && destinations.contains(&shares[1]);
            assert!(right, "{isolation:?}: {shares:?}");
        }
        // The busier of a flow's two hosts counts, so flows to one host are equal whatever their sources, and
        // hosts at one side alone are equal where the other side is spread.
        let spread: Vec<[u32; 2]> = (0..11).map(|n| [if n == 0 { 1 } else { 2 }, 10 + n]).collect();
        let share = first(&saturated(Isolation::TripleIsolate, &spread));
        assert!(half.contains(&share), "{share}");
        let share = first(&saturated(Isolation::TripleIsolate, &flows[0]));
        assert!(eleventh.contains(&share), "{share}");
    }

    #[test]
    fn within_a_host_flows_are_equal() {
        let flows: Vec<[u32; 2]> = (0..11).map(|n| [if n == 0 { 1 } else { 2 }, 9]).collect();
        let bytes = saturated(Isolation::DualSrchost, &flows);
        let (least, most) = (bytes[1..].iter().min().unwrap(), bytes[1..].iter().max().unwrap());
        assert!(most - least <= 2000, "{bytes:?}");
    }

    #[test]
    fn the_shaper_sends_exactly_its_rate_and_no_burst_after_a_pause() {
        let bandwidth = Rate::bits_per_second(7_000_000);
        let mut bench = Bench::new(Cake::new(Parameters { bandwidth, ..BASE }));
        let mut sent = Vec::new();
        for start_ms in [0, 500] {
            let mut now = start_ms * MS;
            // They leave within CoDel's interval.
            (0..80).for_each(|_| _ = bench.put(now, 1000, 1, false));
            while !bench.queue.is_empty() {
                match bench.take(now) {
                    Some(_) => sent.push(now),
                    None => now = bench.queue.opens_at().unwrap().as_nanos(),
                }
            }
        }
        // 8000 bits at 7 Mbit/s, each time from the first packet on.
        let exact = |n: u64| n * 8_000_000_000_000 / 7_000_000;
        let expected = [0, 500 * MS].into_iter().flat_map(|start| (0..80).map(move |n| start + exact(n)));
        assert_eq!(sent, expected.collect::<Vec<_>>());
    }

    #[test]
    fn the_filter_leaves_the_first_and_the_last_of_many_acks() {
        let mut bench = Bench::new(Cake::new(Parameters { filter_acks: true, ..BASE }));
        for n in 0..10u32 {
            let ack = ackclock_wire::SeqNum::new(n * 1000);
            bench.ack = Some(PureAck { connection: ([1, 2], [3, 4]), ack, ecn: 0, is_plain: true });
            bench.put(0, 52, 1, false);
        }
        assert_eq!(bench.dropped(), (1..9).collect::<Vec<_>>());
        assert!(bench.dropped.iter().all(|(_, rule)| *rule == DropRule::AckFilter));
        assert_eq!((bench.queue.len(), bench.queue.bytes()), (2, 104));
        assert_eq!([bench.take(0), bench.take(0), bench.take(0)], [Some(0), Some(9), None]);
    }

    #[test]
    fn at_low_bandwidths_a_packets_time_and_a_half_is_the_target() {
        let target = |bits| {
            let cake = Cake::new(Parameters { bandwidth: Rate::bits_per_second(bits), ..BASE });
            let FqCoDelParameters { codel, quantum, .. } = *cake.flows.parameters();
            (codel.target, codel.interval, quantum)
        };
        // 1500 bytes take 12 ms.
        assert_eq!(target(1_000_000), (Span::millis(18), Span::millis(113), 300));
        assert_eq!(target(100_000), (Span::millis(180), Span::millis(360), 300));
        assert_eq!(target(40_000_000), (Span::millis(5), Span::millis(100), 1220));
        assert_eq!(target(1_000_000_000), (Span::millis(5), Span::millis(100), 1514));
    }
}
