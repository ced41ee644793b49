//! FQ-CoDel: Toke Hoeiland-Joergensen, Paul McKenney, Dave Taht, Jim Gettys and Eric Dumazet, "The Flow Queue
//! CoDel Packet Scheduler and Active Queue Management Algorithm", RFC 8290, 2018, §4.
//!
//! Deviations: the flow hash has no secret, because a simulation has no attacker. A queue whose credits are
//! used up exactly waits for its next turn: §4.2 says "negative", and in the same sentence "at least a
//! quantum".

use std::collections::VecDeque;

use super::acks::is_last_but_one_redundant;
use super::codel::{Law, Parameters as CoDelParameters};
use super::hosts::Hosts;
use super::{Context, DropRule, Fifo, Queue, Queued, fits};
use crate::scenario::Isolation;

/// The parameters.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// The parameters of each queue. The limit applies to all queues together.
    pub codel: CoDelParameters,
    /// The number of queues (§5.2.3: 1024).
    pub queues: u16,
    /// Bytes that a queue may send per turn (§5.2.4: an MTU).
    pub quantum: u32,
    /// Who gets equal shares: flows in RFC 8290, hosts in [CAKE](super::Cake).
    pub isolation: Isolation,
    /// Whether redundant ACKs are dropped, as CAKE does.
    pub filter_acks: bool,
}

/// An FQ-CoDel queue.
#[derive(Debug)]
pub struct FqCoDel {
    parameters: Parameters,
    queues: Box<[SubQueue]>,
    /// Queues that have just become active. They come first.
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    hosts: Option<Hosts>,
    packets: usize,
    bytes: u64,
}

#[derive(Debug, Default)]
struct SubQueue {
    fifo: Fifo,
    law: Law,
    /// Bytes left in its turn, in units of 2⁻¹⁶.
    credits: i64,
    listed: bool,
    /// The hosts of the packet that made it active.
    between: [u32; 2],
    /// Whether it counts among the busy flows of its hosts.
    busy: bool,
}

impl FqCoDel {
    /// Empty queues.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        let queues = (0..parameters.queues.max(1)).map(|_| SubQueue::default()).collect();
        let hosts = (parameters.isolation != Isolation::Flows).then(|| Hosts::new(parameters.isolation));
        Self { parameters, queues, new: VecDeque::new(), old: VecDeque::new(), hosts, packets: 0, bytes: 0 }
    }

    /// The parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// §4.1: the queue with the most bytes loses half of its packets, at most 64, from its head.
    fn overflow(&mut self, cx: &mut Context<'_>) {
        // The first of equals, which makes the choice deterministic.
        let longest = self.queues.iter_mut().reduce(|a, b| if b.fifo.bytes > a.fifo.bytes { b } else { a });
        let Some(longest) = longest else { return };
        // Of an odd number the larger half: one packet is enough.
        for _ in 0..longest.fifo.len().div_ceil(2).min(BATCH) {
            let Some(packet) = longest.fifo.pop() else { return };
            self.packets -= 1;
            self.bytes -= u64::from(packet.bytes);
            cx.dropped.push((packet.packet, DropRule::FqOverflow));
        }
    }
}

impl Queue for FqCoDel {
    fn enqueue(&mut self, packet: Queued, cx: &mut Context<'_>) {
        let index = (packet.flow % u32::from(self.parameters.queues.max(1))) as u16;
        let queue = &mut self.queues[usize::from(index)];
        queue.fifo.push(packet);
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        if !queue.listed {
            queue.listed = true;
            if let Some(hosts) = &self.hosts {
                queue.between = cx.headers.hosts(packet.packet);
                queue.credits = share(self.parameters.quantum, hosts.load(queue.between));
            } else {
                queue.credits = share(self.parameters.quantum, 1);
            }
            self.new.push_back(index);
        }
        if self.parameters.filter_acks
            && is_last_but_one_redundant(&queue.fifo, cx.headers)
            && let Some(ack) = queue.fifo.remove_last_but_one()
        {
            self.packets -= 1;
            self.bytes -= u64::from(ack.bytes);
            cx.dropped.push((ack.packet, DropRule::AckFilter));
        }
        let (packets, bytes) = (self.packets - 1, self.bytes - u64::from(packet.bytes));
        if !fits(self.parameters.codel.limit, packets, bytes, packet.bytes) {
            self.overflow(cx);
        }
    }

    /// §4.2: new queues first, each for its quantum. A queue that has used it moves behind the old ones.
    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Queued> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let queue = &mut self.queues[usize::from(index)];
            if queue.credits <= 0 {
                let load = self.hosts.as_mut().map_or(1, |hosts| {
                    if !std::mem::replace(&mut queue.busy, true) {
                        hosts.add(queue.between);
                    }
                    hosts.load(queue.between)
                });
                queue.credits += share(self.parameters.quantum, load);
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let (packets, bytes) = (queue.fifo.len(), queue.fifo.bytes);
            let packet = queue.law.dequeue(&self.parameters.codel, &mut queue.fifo, cx);
            self.packets -= packets - queue.fifo.len();
            self.bytes -= bytes - queue.fifo.bytes;
            if let Some(packet) = packet {
                queue.credits -= i64::from(packet.bytes) << 16;
                return Some(packet);
            }
            list.pop_front();
            if from_new {
                // It must pass through the old list once, so that a queue that becomes new again and again
                // does not starve the others.
                self.old.push_back(index);
            } else {
                queue.listed = false;
                if let Some(hosts) = self.hosts.as_mut().filter(|_| queue.busy) {
                    queue.busy = false;
                    hosts.remove(queue.between);
                }
            }
        }
    }

    fn len(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn needs_flows(&self) -> bool {
        true
    }
}

/// A flow's quantum where its host's turn is divided among `load` flows, in units of 2⁻¹⁶ bytes.
fn share(quantum: u32, load: u32) -> i64 {
    (i64::from(quantum) << 16) / i64::from(load)
}

const BATCH: usize = 64;

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, MS};
    use super::*;
    use crate::units::{Limit, Span};

    const BASE: Parameters = Parameters {
        codel: CoDelParameters {
            limit: Limit::Packets(100),
            target: Span::millis(5),
            interval: Span::millis(100),
            max_packet: 1500,
            mark: false,
        },
        queues: 1024,
        quantum: 1500,
        isolation: Isolation::Flows,
        filter_acks: false,
    };

    #[test]
    fn queues_take_turns_by_bytes() {
        let mut bench = Bench::new(FqCoDel::new(BASE));
        // Flow 1 sends packets of 1500 bytes, flow 2 of 500: three of flow 2 for each of flow 1.
        (0..6).for_each(|_| _ = bench.put(0, 1500, 1, false));
        (0..12).for_each(|_| _ = bench.put(0, 500, 2, false));
        let sent: Vec<u32> = std::iter::from_fn(|| bench.take(0)).collect();
        let bytes = |n: usize, flow_2: bool| {
            let of = sent[..n].iter().filter(|packet| (**packet >= 6) == flow_2);
            of.count() * if flow_2 { 500 } else { 1500 }
        };
        assert_eq!(sent.len(), 18);
        for n in [4, 8, 12, 16] {
            assert_eq!((bytes(n, false), bytes(n, true)), (n / 4 * 1500, n / 4 * 1500), "{sent:?}");
        }
        assert_eq!((bench.queue.len(), bench.queue.bytes()), (0, 0));
    }

    #[test]
    fn a_sparse_flow_goes_before_the_standing_queues() {
        let mut bench = Bench::new(FqCoDel::new(BASE));
        (0..20).for_each(|_| _ = bench.put(0, 1500, 1, false));
        bench.take(0);
        bench.take(0);
        let sparse = bench.put(0, 100, 2, false);
        assert_eq!(bench.take(0), Some(sparse));
    }

    #[test]
    fn the_longest_queue_pays_when_the_limit_is_passed() {
        let mut bench = Bench::new(FqCoDel::new(BASE));
        (0..90).for_each(|_| _ = bench.put(0, 1500, 1, false));
        (0..11).for_each(|_| _ = bench.put(0, 1500, 2, false));
        assert_eq!(bench.dropped(), (0..45).collect::<Vec<_>>());
        assert_eq!(bench.queue.len(), 56);
    }

    #[test]
    fn each_queue_has_its_own_codel() {
        let mut bench = Bench::new(FqCoDel::new(BASE));
        for t in 0..400 {
            (0..2).for_each(|_| _ = bench.put(t * MS, 1500, 1, false));
            if t % 4 == 0 {
                bench.put(t * MS, 100, 2, false);
            }
            bench.take(t * MS);
            bench.take(t * MS + MS / 2);
            if bench.queue.len() > 80 {
                break;
            }
        }
        let flow_1_only = bench.dropped.iter().all(|(_, rule)| *rule == DropRule::CoDel);
        assert!(flow_1_only);
    }
}
