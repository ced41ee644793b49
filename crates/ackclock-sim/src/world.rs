//! The network between the hosts, and what all hosts share: time, events, packets, links.

use ackclock_core::Instant;
use ackclock_wire::TxPacket;

use crate::calendar::Calendar;
use crate::faults::{Faults, Verdict};
use crate::flight::Flights;
use crate::flow::Flow;
use crate::host::{addr_of, destination, source_node};
use crate::icmp::{self, Complaint};
use crate::link::Link;
use crate::near::Key;
use crate::observe::{Observers, What};
use crate::packet::{PacketId, Packets, Scratch};
use crate::queue::{Context, DropRule, Queued};
use crate::route::Routes;
use crate::wire::Fate;

/// The shared state of all hosts.
#[derive(Debug)]
pub(crate) struct World {
    pub now: Instant,
    pub net: Net,
    /// Timers. Far more of them than packets wait and far fewer fire, so they have a separate calendar.
    pub timers: Calendar<Wake>,
    pub flows: Vec<Flow>,
    pub scratch: Scratch,
    /// The arbitrary bytes that applications write.
    pub zeros: Box<[u8]>,
}

/// The owner of a timer event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wake {
    Host(u32),
    /// `life` counts the crashes of the host before the timer was set.
    App {
        host: u32,
        app: u32,
        life: u32,
        number: u64,
    },
    Start {
        host: u32,
        app: u32,
    },
    Change(u32),
    Sample,
}

/// The network: links, routes, packets under way.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) calendar: Calendar<NetEvent>,
    pub(crate) packets: Packets,
    pub(crate) flights: Flights,
    pub(crate) links: Vec<Link>,
    pub(crate) routes: Routes,
    pub(crate) observers: Observers,
    pub(crate) ipv6: bool,
    pub(crate) gateway: Option<Gateway>,
    pub(crate) faults: Faults,
    /// Packets lost at nodes, not at links, by [`NODE_RULES`].
    pub(crate) lost_at_nodes: [u64; NODE_RULES.len()],
    /// Packets handed to hosts.
    pub(crate) delivered: u64,
    pub(crate) events: u64,
    number: u64,
    dropped: Vec<(PacketId, DropRule)>,
    marked: Vec<PacketId>,
}

/// Where the network ends: packets to addresses that no node has go to this node, and come from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gateway {
    pub node: u32,
    /// How many nodes there are.
    pub nodes: u32,
}

/// An event of the network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NetEvent {
    /// The first of the packets on a link's wire arrives.
    Arrival(u32),
    /// A packet arrives out of its link's order.
    Stray { link: u32, packet: PacketId },
    /// A link's transmitter becomes free.
    Free(u32),
    /// A link that sends in turns has one.
    Turn(u32),
}

impl World {
    pub fn wake(&mut self, at: u64, wake: Wake) {
        let key = self.net.key(at);
        self.timers.push(key, wake);
    }
}

impl Net {
    pub fn new(links: Vec<Link>, routes: Routes, ipv6: bool) -> Self {
        Self {
            calendar: Calendar::new(),
            packets: Packets::default(),
            flights: Flights::default(),
            links,
            routes,
            observers: Observers::default(),
            ipv6,
            gateway: None,
            faults: Faults::default(),
            lost_at_nodes: [0; NODE_RULES.len()],
            delivered: 0,
            events: 0,
            number: 0,
            dropped: Vec::new(),
            marked: Vec::new(),
        }
    }

    /// The key of the next event at this time.
    #[inline]
    pub fn key(&mut self, at: u64) -> Key {
        self.number += 1;
        Key { at, number: self.number }
    }

    /// Handles the next event. Returns a packet that has arrived at a node, with that node.
    #[inline]
    pub fn step(&mut self, now: Instant) -> Option<(u32, PacketId)> {
        self.events += 1;
        match self.calendar.peek_event()? {
            NetEvent::Arrival(index) => {
                let link = &mut self.links[index as usize];
                let (arrived, next) = self.flights.pop(&mut link.flying);
                match next {
                    Some(arrives) => self.calendar.replace_next(arrives, NetEvent::Arrival(index)),
                    None => _ = self.calendar.pop(),
                }
                arrived.map(|packet| (link.to, packet))
            }
            NetEvent::Stray { link, packet } => {
                self.calendar.pop();
                Some((self.links[link as usize].to, packet))
            }
            NetEvent::Free(index) => {
                self.calendar.pop();
                self.links[index as usize].waits = false;
                self.send_next(now, index);
                None
            }
            NetEvent::Turn(index) => {
                self.calendar.pop();
                self.take_turn(now, index);
                None
            }
        }
    }

    /// The node to which a packet goes: `named`, whose number the destination in `header` has, or the gateway
    /// if that node has another address.
    pub fn leading_to(&self, named: u32, header: &[u8]) -> u32 {
        match self.gateway {
            Some(Gateway { node, nodes })
                if named >= nodes || destination(header) != Some(addr_of(named, self.ipv6)) =>
            {
                node
            }
            _ => named,
        }
    }

    /// A host sends a packet. `carry`: with the values of its payload.
    #[inline]
    pub fn admit(
        &mut self,
        now: Instant,
        node: u32,
        packet: &TxPacket<'_>,
        carry: bool,
        dst: u32,
    ) -> PacketId {
        let id = self.packets.insert(packet, carry, dst);
        self.observers.tell(now, What::Sent, node, None, self.packets.get(id));
        id
    }

    /// A packet has arrived at a router.
    #[inline]
    pub fn route(&mut self, now: Instant, node: u32, id: PacketId) {
        if !self.packets.get_mut(id).count_hop() {
            self.complain(now, node, id, Complaint::HopLimit);
            return self.lose_at_node(now, node, id, DropRule::HopLimit);
        }
        self.forward(now, node, id);
    }

    /// Sends a packet from `node` towards its destination.
    #[inline]
    pub fn forward(&mut self, now: Instant, node: u32, id: PacketId) {
        if !self.faults.is_empty() && self.is_cut_off(node, id) {
            return self.lose_at_node(now, node, id, DropRule::Partition);
        }
        let packet = self.packets.get(id);
        let Some(link) = self.routes.next(node, packet.dst) else {
            return self.lose_at_node(now, node, id, DropRule::NoRoute);
        };
        let mtu = self.links[link as usize].mtu;
        if packet.len() > mtu {
            self.complain(now, node, id, Complaint::TooBig(mtu));
            return self.drop_at(now, link, id, DropRule::TooBig);
        }
        self.offer(now, link, id);
    }

    /// A packet arrives at a link.
    #[inline]
    fn offer(&mut self, now: Instant, index: u32, id: PacketId) {
        let link = &mut self.links[index as usize];
        link.stats.offered += 1;
        if !link.up {
            return self.drop_at(now, index, id, DropRule::LinkDown);
        }
        let packet = self.packets.get(id);
        let is_free = !link.waits && link.transmitter.busy_until() <= now.as_nanos();
        let flow = if link.needs_flows { packet.flow_hash() } else { 0 };
        let bytes = packet.len();
        let ecn = packet.ecn();
        let (ecn_capable, l4s) = (ecn != 0, ecn & 1 == 1);
        let queued = Queued { packet: id, bytes, since: now, flow, ecn_capable, l4s };
        self.observers.tell(now, What::Queued, link.from, Some(index), packet);
        if is_free && link.transparent {
            return self.send(now, index, &queued, true);
        }
        let Self { packets, dropped, marked, .. } = self;
        let mut cx = Context { now, rng: &mut link.rng, dropped, marked, packets };
        link.queue.enqueue(queued, &mut cx);
        if is_free {
            return self.send_next(now, index);
        }
        link.note_length(now);
        self.observers.queue(now, index, &*link.queue);
        let waits = std::mem::replace(&mut link.waits, true);
        let free = link.transmitter.busy_until();
        self.settle(now, index);
        if !waits {
            if self.links[index as usize].transmitter.is_in_turns() {
                return self.await_turn(now.as_nanos(), index);
            }
            let key = self.key(free);
            self.calendar.push(key, NetEvent::Free(index));
        }
    }

    /// The transmitter is free: sends the next packet.
    #[inline]
    fn send_next(&mut self, now: Instant, index: u32) {
        let link = &mut self.links[index as usize];
        let Self { packets, dropped, marked, .. } = self;
        let mut cx = Context { now, rng: &mut link.rng, dropped, marked, packets };
        let next = link.queue.dequeue(&mut cx);
        link.note_length(now);
        self.observers.queue(now, index, &*link.queue);
        self.settle(now, index);
        match next {
            Some(next) => self.send(now, index, &next, false),
            None => self.hold(index),
        }
    }

    /// The queue gave nothing to the free transmitter. If it holds packets back, the transmitter asks again
    /// later.
    fn hold(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        if let Some(opens_at) = link.queue.opens_at().filter(|_| !link.queue.is_empty()) {
            link.waits = true;
            let key = self.key(opens_at.as_nanos());
            self.calendar.push(key, NetEvent::Free(index));
        }
    }

    /// The transmitter sends a packet. `is_last`: no packet waits behind it.
    #[inline]
    fn send(&mut self, now: Instant, index: u32, next: &Queued, is_last: bool) {
        let link = &mut self.links[index as usize];
        let begins = now.as_nanos();
        let ends = link.transmitter.send(begins, next.bytes);
        link.stats.note_wait(begins - next.since.as_nanos());
        link.stats.sent += 1;
        link.stats.sent_bytes += u64::from(next.bytes);
        link.stats.busy_ns += ends - begins;
        let from = link.from;
        if !is_last && !link.queue.is_empty() {
            link.waits = true;
            let key = self.key(ends);
            self.calendar.push(key, NetEvent::Free(index));
        }
        self.observers.tell(now, What::Departed, from, Some(index), self.packets.get(next.packet));
        self.launch(now, index, ends, next.packet);
    }

    /// Packets wait from `from` on for a turn of their link.
    fn await_turn(&mut self, from: u64, index: u32) {
        let link = &mut self.links[index as usize];
        let Some(service) = &mut link.service else { return };
        let at = service.turn(from, &mut link.rng);
        link.waits = true;
        // It may never come.
        if at < u64::MAX {
            let key = self.key(at);
            self.calendar.push(key, NetEvent::Turn(index));
        }
    }

    /// A link has a turn: sends what leaves in it.
    fn take_turn(&mut self, now: Instant, index: u32) {
        let begins = now.as_nanos();
        let link = &mut self.links[index as usize];
        let Some(mut service) = link.service.take() else { return };
        while service.has_room(begins) {
            let Self { packets, dropped, marked, .. } = self;
            let mut cx = Context { now, rng: &mut link.rng, dropped, marked, packets };
            let next = service.head.take().or_else(|| link.queue.dequeue(&mut cx));
            if !next.is_some_and(|next| service.take(begins, next)) {
                break;
            }
        }
        link.note_length(now);
        self.observers.queue(now, index, &*link.queue);
        let ends = service.close(begins);
        link.waits = service.head.is_some() || !link.queue.is_empty();
        link.follow(service.weather(ends));
        let (from, waits) = (link.from, link.waits);
        self.settle(now, index);
        for next in service.leaving.drain(..) {
            let stats = &mut self.links[index as usize].stats;
            stats.note_wait(begins - next.since.as_nanos());
            stats.sent += 1;
            stats.sent_bytes += u64::from(next.bytes);
            self.observers.tell(now, What::Departed, from, Some(index), self.packets.get(next.packet));
            // Where the trace ends in an outage for ever, it never arrives.
            self.launch(now, index, ends.min(FAR), next.packet);
        }
        let link = &mut self.links[index as usize];
        link.stats.busy_ns += ends.min(FAR) - begins;
        link.service = Some(service);
        if waits {
            // A shaper in the queue may hold its packets back for longer.
            let opens_at = link.queue.opens_at().map_or(0, Instant::as_nanos);
            self.await_turn(ends.max(opens_at), index);
        }
    }

    /// A packet whose transmission ends at `ends` goes onto the wire, with its impairments.
    #[inline]
    fn launch(&mut self, now: Instant, index: u32, ends: u64, id: PacketId) {
        let link = &mut self.links[index as usize];
        let arrives = ends + link.delay;
        let Some(wire) = &mut link.wire else { return self.fly(index, arrives, id) };
        match wire.fate(now.as_nanos(), self.packets.get_mut(id), &mut link.rng) {
            Fate::Lost(rule) => self.drop_at(now, index, id, rule),
            Fate::Carried { late, free, twice, damaged } => {
                link.stats.damaged += u64::from(damaged);
                link.stats.duplicated += u64::from(twice);
                let copy = twice.then(|| self.packets.duplicate(id));
                for id in std::iter::once(id).chain(copy) {
                    if free {
                        self.links[index as usize].stats.reordered += 1;
                        let key = self.key(arrives + late);
                        self.calendar.push(key, NetEvent::Stray { link: index, packet: id });
                    } else {
                        self.fly(index, arrives + late, id);
                    }
                }
            }
        }
    }

    /// Appends a packet to the wire.
    #[inline]
    fn fly(&mut self, index: u32, arrives: u64, packet: PacketId) {
        let link = &mut self.links[index as usize];
        let at = arrives.max(link.last_arrival);
        link.last_arrival = at;
        let key = self.key(at);
        if self.flights.push(&mut self.links[index as usize].flying, packet, key) {
            self.calendar.push(key, NetEvent::Arrival(index));
        }
    }

    /// Applies a queue's decisions.
    #[inline]
    fn settle(&mut self, now: Instant, index: u32) {
        if !self.dropped.is_empty() || !self.marked.is_empty() {
            self.settle_all(now, index);
        }
    }

    #[cold]
    fn settle_all(&mut self, now: Instant, index: u32) {
        let node = self.links[index as usize].from;
        let mut marked = std::mem::take(&mut self.marked);
        for id in marked.drain(..) {
            self.packets.get_mut(id).mark_ce();
            self.links[index as usize].stats.marked += 1;
            self.observers.tell(now, What::Marked, node, Some(index), self.packets.get(id));
        }
        self.marked = marked;
        let mut dropped = std::mem::take(&mut self.dropped);
        for (id, rule) in dropped.drain(..) {
            self.drop_at(now, index, id, rule);
        }
        self.dropped = dropped;
    }

    fn drop_at(&mut self, now: Instant, index: u32, id: PacketId, rule: DropRule) {
        let link = &mut self.links[index as usize];
        link.count_drop(rule);
        let node = link.from;
        self.lose(now, node, Some(index), id, rule);
    }

    #[cold]
    fn lose_at_node(&mut self, now: Instant, node: u32, id: PacketId, rule: DropRule) {
        if let Some(index) = NODE_RULES.iter().position(|other| *other == rule) {
            self.lost_at_nodes[index] += 1;
        }
        self.lose(now, node, None, id, rule);
    }

    fn lose(&mut self, now: Instant, node: u32, link: Option<u32>, id: PacketId, rule: DropRule) {
        self.observers.tell(now, What::Dropped(rule), node, link, self.packets.get(id));
        self.packets.remove(id);
    }

    /// Whether `node` sends this packet to a host beyond a partition.
    #[cold]
    fn is_cut_off(&self, node: u32, id: PacketId) -> bool {
        let packet = self.packets.get(id);
        source_node(packet.header()) == node && self.faults.is_cut(node, packet.dst)
    }

    /// Whether a packet that has arrived at `node` gets through to it. Only while there are faults.
    #[cold]
    pub fn gets_through(&mut self, now: Instant, node: u32, id: PacketId) -> bool {
        let packet = self.packets.get(id);
        if packet.dst != node {
            return true;
        }
        let rule = match self.faults.verdict(source_node(packet.header()), node) {
            Verdict::Passes => return true,
            Verdict::Held if self.faults.keep(id) => return false,
            Verdict::Held => DropRule::QueueFull,
            Verdict::Cut => DropRule::Partition,
            Verdict::Unheard => DropRule::HostDown,
        };
        self.lose_at_node(now, node, id, rule);
        false
    }

    /// Lets the packets arrive that nothing holds back any more.
    pub fn release(&mut self, now: Instant) {
        let packets = &self.packets;
        let released = self.faults.take_released(|id| {
            let packet = packets.get(id);
            (source_node(packet.header()), packet.dst)
        });
        for packet in released {
            let to = self.packets.get(packet).dst;
            let Some(link) = self.links.iter().position(|link| link.to == to) else { continue };
            let key = self.key(now.as_nanos());
            self.calendar.push(key, NetEvent::Stray { link: link as u32, packet });
        }
    }

    /// A router reports an error to the sender. Hosts know their own link's MTU.
    #[cold]
    fn complain(&mut self, now: Instant, node: u32, id: PacketId, complaint: Complaint) {
        let packet = self.packets.get(id);
        let Some(bytes) = icmp::error(complaint, addr_of(node, self.ipv6), packet) else { return };
        let error = self.packets.insert_bytes(&bytes, self.leading_to(source_node(packet.header()), &bytes));
        self.observers.tell(now, What::Sent, node, None, self.packets.get(error));
        self.forward(now, node, error);
    }
}

/// Beyond the end of any scenario.
const FAR: u64 = u64::MAX / 2;

/// Why packets are lost at nodes.
pub(crate) const NODE_RULES: [DropRule; 4] =
    [DropRule::NoRoute, DropRule::HopLimit, DropRule::Partition, DropRule::HostDown];
