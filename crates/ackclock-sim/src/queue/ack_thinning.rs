//! ACK thinning in front of a queue, as cable modems, Wi-Fi drivers and satellite terminals do it: of the
//! acknowledgements that wait, a later one takes the place of an earlier one that it covers; or one in a
//! few passes.
//!
//! Only a plain acknowledgement that is known to advance on the one before it is ever left out ([`Ack`]), so
//! duplicates, SACK blocks, window updates alone and signs of ECN always pass. Those that wait when one of
//! these arrives keep their places: nothing overtakes it.

use std::collections::BTreeMap;

use ackclock_core::Instant;
use ackclock_wire::SeqNum;

use super::{Context, DropRule, LaneStats, Queue, Queued};
use crate::acks::{Ack, FlowKey, covers};
use crate::packet::{PacketId, Packets};
use crate::scenario::ThinAcks;

/// ACK thinning in front of a queue.
#[derive(Debug)]
pub(crate) struct AckThinning {
    rule: ThinAcks,
    flows: BTreeMap<FlowKey, Flow>,
    behind: Box<dyn Queue>,
}

#[derive(Debug)]
struct Flow {
    /// The last number acknowledged.
    last: SeqNum,
    /// The waiting acknowledgement that the next may replace.
    waiting: Option<PacketId>,
    /// How many were left out since one passed.
    left_out: u32,
}

impl AckThinning {
    pub fn new(rule: ThinAcks, behind: Box<dyn Queue>) -> Self {
        Self { rule, flows: BTreeMap::new(), behind }
    }

    /// Notes an acknowledgement. Returns whether it is left out: its place in the table then holds what it
    /// replaced.
    fn leaves_out(&mut self, id: PacketId, packets: &mut Packets) -> bool {
        let packet = packets.get(id);
        let Some((key, ack)) = FlowKey::of(packet).zip(Ack::of(packet)) else { return false };
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&key) {
            self.flows.clear();
        }
        let first = !self.flows.contains_key(&key);
        let flow = self.flows.entry(key).or_insert(Flow { last: ack.number, waiting: None, left_out: 0 });
        let advances = !first && ack.number.after(flow.last);
        if advances {
            flow.last = ack.number;
        }
        if !advances || !ack.is_plain {
            (flow.waiting, flow.left_out) = (None, 0);
            return false;
        }
        match self.rule {
            ThinAcks::Covered => {
                let earlier = flow.waiting.filter(|earlier| {
                    let earlier = packets.get(*earlier);
                    earlier.len() == packet.len() && covers(earlier, packet)
                });
                match earlier {
                    Some(earlier) => packets.swap(earlier, id),
                    None => flow.waiting = Some(id),
                }
                earlier.is_some()
            }
            ThinAcks::OneIn(n) => {
                let passes = flow.left_out + 1 >= n;
                flow.left_out = if passes { 0 } else { flow.left_out + 1 };
                !passes
            }
        }
    }

    /// A packet waits no longer.
    fn forget(&mut self, id: PacketId, packets: &Packets) {
        if let Some(flow) = FlowKey::of(packets.get(id)).and_then(|key| self.flows.get_mut(&key)) {
            flow.waiting = flow.waiting.filter(|waiting| *waiting != id);
        }
    }

    fn forget_dropped(&mut self, from: usize, cx: &Context<'_>) {
        for (id, _) in &cx.dropped[from..] {
            self.forget(*id, cx.packets);
        }
    }
}

impl Queue for AckThinning {
    fn enqueue(&mut self, packet: Queued, cx: &mut Context<'_>) {
        if self.leaves_out(packet.packet, cx.packets) {
            return cx.dropped.push((packet.packet, DropRule::AckThinned));
        }
        let dropped = cx.dropped.len();
        self.behind.enqueue(packet, cx);
        self.forget_dropped(dropped, cx);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Queued> {
        let dropped = cx.dropped.len();
        let next = self.behind.dequeue(cx);
        if let Some(next) = next {
            self.forget(next.packet, cx.packets);
        }
        self.forget_dropped(dropped, cx);
        next
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

/// The most connections that are remembered. Beyond it all are forgotten, and the next acknowledgement of
/// each passes.
const FLOWS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use ackclock_wire::Fields;

    use super::super::DropTail;
    use super::super::testing::Bench;
    use super::*;
    use crate::acks::testing::ack;
    use crate::units::Limit;

    struct Acks(Bench<AckThinning>);

    impl Acks {
        fn new(rule: ThinAcks, limit: u64) -> Self {
            Self(Bench::new(AckThinning::new(rule, Box::new(DropTail::new(Limit::Packets(limit), None)))))
        }

        /// An acknowledgement of `number` arrives.
        fn put(&mut self, port: u16, number: u32, adjust: impl Fn(&mut Fields)) {
            let packet = ack(&mut self.0.packets, port, number, adjust);
            let bytes = self.0.packets.get(packet).len();
            let since = ackclock_core::Instant::ZERO;
            self.0.enqueue(Queued { packet, bytes, since, flow: 0, ecn_capable: false, l4s: false });
        }

        /// The numbers that leave.
        fn take(&mut self) -> Vec<u32> {
            let ids: Vec<u32> = std::iter::from_fn(|| self.0.take(0)).collect();
            ids.into_iter().map(|id| self.number(PacketId(id))).collect()
        }

        fn number(&self, id: PacketId) -> u32 {
            Ack::of(self.0.packets.get(id)).expect("an acknowledgement").number.raw()
        }

        fn dropped(&self) -> Vec<u32> {
            self.0.dropped.iter().map(|(id, _)| self.number(*id)).collect()
        }
    }

    #[test]
    fn a_later_acknowledgement_takes_the_place_of_the_waiting_one() {
        let mut acks = Acks::new(ThinAcks::Covered, 100);
        acks.put(1, 100, |_| {});
        acks.put(2, 1000, |_| {});
        for number in [200, 300, 400] {
            acks.put(1, number, |_| {});
        }
        // The first that is seen of a connection might be a duplicate and passes; 400 waits where 200 did.
        assert_eq!(acks.dropped(), [200, 300]);
        assert_eq!(acks.take(), [100, 1000, 400]);
        // The one that left is replaced no longer.
        acks.put(1, 500, |_| {});
        assert_eq!((acks.take(), acks.dropped().len()), (vec![500], 2));
    }

    #[test]
    fn duplicates_pass_and_none_overtakes_them() {
        let mut acks = Acks::new(ThinAcks::Covered, 100);
        for number in [100, 200, 200, 200, 300, 400] {
            acks.put(1, number, |_| {});
        }
        assert_eq!(acks.dropped(), [300]);
        assert_eq!(acks.take(), [100, 200, 200, 200, 400]);
    }

    #[test]
    fn one_that_a_full_queue_dropped_is_not_replaced() {
        let mut acks = Acks::new(ThinAcks::Covered, 1);
        for number in [100, 200, 300] {
            acks.put(1, number, |_| {});
        }
        assert_eq!(acks.dropped(), [200, 300]);
        assert_eq!(acks.take(), [100]);
    }

    #[test]
    fn one_in_three_passes_and_what_is_not_plain_passes_always() {
        let mut acks = Acks::new(ThinAcks::OneIn(3), 100);
        for number in 1..=10 {
            acks.put(1, number * 100, |_| {});
        }
        assert_eq!(acks.take(), [100, 400, 700, 1000]);
        for number in [1100, 1100, 1200, 1300, 1400] {
            acks.put(1, number, |_| {});
        }
        assert_eq!(acks.take(), [1100, 1400], "the second 1100 is a duplicate");
    }
}
