//! What leaves an endpoint: packets, deadlines and events.

use std::net::IpAddr;

use ackclock_control::tally::Tally;
use ackclock_wire::{ChecksumState, Fields, FlowLabel, TxPacket, write_control};

use super::Endpoint;
use super::beside::Beside;
use super::live::Owner;
use super::looped::{LOOP_LIMITS, LOOPED_BATCH, LOOPED_PER_CALL};
use super::outbox::Origin;
use super::queue::IndexQueue;
use super::reply::{Audience, control};
use super::syn_queue::Phase;
use crate::connection::{Outgoing, timestamp_clock};
use crate::{ConnectionId, Event, FourTuple, IncomingId, Instant};

/// The offload limits of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest IPv4 packet with a segment size (see [`TxPacket::segment_size`]) that may be made; if it
    /// is at most the MTU, none are made.
    pub gso_max_v4: usize,
    /// The same for IPv6.
    pub gso_max_v6: usize,
    /// Whether the device finishes TCP checksums.
    pub tx_checksum: bool,
}

/// A packet that leaves.
#[derive(Debug)]
pub(super) enum Leaving {
    /// A reply without a connection, in the endpoint's header buffer.
    Reply { len: usize, is_ipv4: bool },
    /// A segment of a connection, whose header is there.
    Segment(u32, Outgoing),
    /// The packet taken from the outbox.
    Whole,
}

/// What has events to report. Each index waits at most once, so the queues are as bounded as the tables.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) connections: IndexQueue,
    pub(super) acceptable: IndexQueue,
    pub(super) incoming: IndexQueue,
}

impl Endpoint {
    /// The next packet to send. It counts as sent.
    ///
    /// Replies without a connection and segments of connections take turns. Connections take turns, one
    /// packet each.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, limits: Limits) -> Option<TxPacket<'_>> {
        let now = self.advance(now);
        let mut deliveries = LOOPED_PER_CALL;
        loop {
            // Mostly there are only connections, and then nothing else is asked.
            let alone = self.has_segments_alone();
            if self.looped_len() >= LOOPED_BATCH && !self.deliver_looped(now, &mut deliveries) {
                return None;
            }
            let leaving = if !alone && let Some(before) = self.next_before_segments() {
                Some(before)
            } else if let Some((index, outgoing, looped)) = self.next_outgoing(now, limits) {
                #[cfg(feature = "tcp-ao")]
                let outgoing = self.signed(index, outgoing);
                if !looped {
                    self.counters.packets_sent.count();
                    return self.segment_packet(index, &outgoing);
                }
                Some((Leaving::Segment(index, outgoing), true))
            } else if alone {
                return None;
            } else {
                self.next_after_segments()
            };
            match leaving {
                Some((leaving, false)) => {
                    self.counters.packets_sent.count();
                    return self.tx_packet(&leaving);
                }
                // What is for the endpoint itself comes back on the way.
                Some((leaving, true)) => self.loop_back(&leaving),
                None if self.deliver_looped(now, &mut deliveries) => {}
                None => return None,
            }
        }
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) may have something to send or to deliver. If not, it
    /// need not be called.
    #[must_use]
    #[inline]
    pub fn has_outgoing(&self) -> bool {
        !self.transmit.is_empty()
            || !self.replies.is_empty()
            || self.beside.as_ref().is_some_and(|beside| !beside.outbox.is_empty())
            || self.has_looped()
    }

    /// Whether only segments of connections may leave.
    #[inline]
    fn has_segments_alone(&self) -> bool {
        self.predicts && self.replies.is_empty() && self.beside.is_none()
    }

    /// What goes before the segments of connections: a reply or, every second time, a whole packet. Also
    /// whether it is for the endpoint itself.
    #[inline(never)]
    fn next_before_segments(&mut self) -> Option<(Leaving, bool)> {
        if self.replies.takes_turn(self.counters.packets_received) {
            return self.next_reply();
        }
        let is_turn = self.beside.as_mut().is_some_and(|beside| beside.takes_turn());
        if is_turn { self.next_of_outbox() } else { None }
    }

    /// What is left to send when no connection has a segment.
    #[inline(never)]
    fn next_after_segments(&mut self) -> Option<(Leaving, bool)> {
        self.next_reply().or_else(|| self.next_of_outbox())
    }

    /// The next whole packet, and whether it is for the endpoint itself.
    #[inline(never)]
    fn next_of_outbox(&mut self) -> Option<(Leaving, bool)> {
        self.next_whole().then(|| (Leaving::Whole, self.is_whole_looped()))
    }

    /// The destination of the packet that [`Endpoint::poll_transmit`] returned last, if something has arrived
    /// from there since the previous one that shows that packets reach it: a link layer below does not need
    /// to ask (RFC 4861 §7.3.1). Only once for each packet.
    #[inline]
    pub fn take_reached(&mut self) -> Option<IpAddr> {
        let index = self.reached.take()?;
        Some(self.connections.at(index)?.connection.tuple().remote_addr)
    }

    /// The next reply without a connection. Out of line: replies are rare.
    #[inline(never)]
    fn next_reply(&mut self) -> Option<(Leaving, bool)> {
        let reply = self.replies.pop(self.counters.packets_received)?;
        let len = write_control(&mut self.header, &reply);
        #[cfg(feature = "tcp-ao")]
        let len = self.sign_reply(&reply, len);
        let looped = self.addresses.is_own(reply.dst.ip());
        Some((Leaving::Reply { len, is_ipv4: reply.src.is_ipv4() }, looped))
    }

    /// Whether the whole packet last taken is for the endpoint itself.
    fn is_whole_looped(&self) -> bool {
        let addr = self.beside.as_ref().and_then(|beside| beside.outbox.taken_destination());
        addr.is_some_and(|addr| self.addresses.is_own(addr))
    }

    /// The packet that leaves.
    #[inline]
    pub(super) fn tx_packet(&self, leaving: &Leaving) -> Option<TxPacket<'_>> {
        match leaving {
            Leaving::Reply { len, is_ipv4 } => Some(TxPacket {
                header: self.header.get(..*len)?,
                transport_offset: if *is_ipv4 { 20 } else { 40 },
                payload: [&[], &[]],
                segment_size: None,
                checksum: ChecksumState::Complete,
            }),
            Leaving::Segment(index, outgoing) => self.segment_packet(*index, outgoing),
            Leaving::Whole => self.whole_packet(),
        }
    }

    /// The packet of a segment whose header is the endpoint's.
    // Always inlined, for the rows of what is sent of the counted instructions, as the next one is.
    #[inline(always)]
    fn segment_packet(&self, index: u32, outgoing: &Outgoing) -> Option<TxPacket<'_>> {
        Some(TxPacket {
            header: self.header.get(..outgoing.header_len)?,
            transport_offset: outgoing.transport_offset,
            payload: self.connections.at(index)?.connection.payload(outgoing),
            segment_size: outgoing.segment_size,
            checksum: outgoing.checksum,
        })
    }

    /// Asks the connections in turn. One that has sent goes to the end of the queue; one with nothing to send
    /// leaves it. Also returns whether the peer is the endpoint itself.
    #[inline(always)]
    fn next_outgoing(&mut self, now: Instant, limits: Limits) -> Option<(u32, Outgoing, bool)> {
        while let Some(index) = self.transmit.pop() {
            let Some(live) = self.connections.at_mut(index) else { continue };
            let looped = live.looped;
            let limits = if looped { LOOP_LIMITS } else { limits };
            let short = self.predicts;
            if let Some(outgoing) = live.connection.poll_transmit(now, limits, short, &mut self.header) {
                self.traces.collect(live);
                self.reached = (live.connection.take_progress() && !looped).then_some(index);
                live.follow_up(index, &mut self.events, &mut self.timers, &mut self.transmit);
                return Some((index, outgoing, looped));
            }
            self.settle(now, index);
        }
        None
    }

    /// Whether the driver is behind: packets have been waiting at the device for a while, and it would drop
    /// what it has no more room for, from any sender. While it is, answers to strangers, whose addresses may
    /// be false, leave at a sixteenth of the rate at which packets arrive. Those that have no room to wait
    /// are dropped and counted ([`Counters::dropped_replies`](crate::Counters::dropped_replies)). Everything
    /// else goes on as usual.
    pub fn set_behind(&mut self, behind: bool) {
        self.replies.set_behind(behind, self.counters.packets_received);
    }

    /// Whether packets stand in the device's queue: for some turns it has had more than a turn takes. A lone
    /// request then waits for all the data of other connections before it. Until `false` the
    /// endpoint narrows windows to 3/2 of what their applications take in a round trip.
    pub fn set_queue_stands(&mut self, stands: bool) {
        self.device_queue.set_stands(stands);
    }

    /// The latest time to call `handle_timeout`.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next_due().map(|due| self.driver_time(due))
    }

    /// The same by the endpoint's own clock.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let earlier = |one: Option<Instant>, other: Option<Instant>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            _ => one.or(other),
        };
        if self.has_looped() {
            return Some(self.now);
        }
        let of_tables = earlier(self.half_open.next_timeout(), self.time_wait.next_timeout());
        let of_all = earlier(self.reassembly_timeout(), self.relief_due());
        earlier(self.timers.next(), earlier(of_tables, of_all))
    }

    /// A timer may have expired. A spurious call does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        // A connection has one turn in each call, whatever it sets its timer to.
        for _ in 0..self.connections.len() {
            let Some(index) = self.timers.pop_expired(now) else { break };
            if let Some(live) = self.connections.at_mut(index)
                && live.connection.poll_timeout().is_some_and(|deadline| deadline <= now)
            {
                live.connection.handle_timeout(now);
            }
            self.touch(index);
        }
        self.relieve(now);
        self.half_open_timeouts(now);
        self.time_wait_timeouts(now);
        self.reassembly_timeouts(now);
        self.deliver_looped(now, &mut { LOOPED_PER_CALL });
        self.check_invariants();
    }

    /// A whole packet has left the outbox.
    pub(super) fn on_left(&mut self, origin: Origin, bytes: usize) {
        match origin {
            Origin::Icmp => {}
            Origin::Udp(id) => self.on_datagram_left(id, bytes),
            Origin::Other => self.beside().others.on_left(),
        }
    }

    /// The next event besides plain TCP.
    fn poll_event_beside(&mut self) -> Option<Event> {
        let Beside { others, udp, .. } = self.beside.as_deref_mut()?;
        if std::mem::take(&mut others.readable) {
            return Some(Event::OtherPackets);
        }
        if std::mem::take(&mut others.writable) {
            return Some(Event::OtherRoom);
        }
        udp.poll_changed().map(|(id, readiness)| Event::Udp(id, readiness))
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        while let Some(index) = self.events.acceptable.pop() {
            if let Some(id) = self.listeners.id_at(index)
                && self.listeners.get(id).is_some_and(|listener| !listener.accept_queue.is_empty())
            {
                return Some(Event::Acceptable(id));
            }
        }
        while let Some(index) = self.events.incoming.pop() {
            if let Some(event) = self.event_of_half_open(index) {
                return Some(event);
            }
        }
        while let Some(index) = self.events.connections.pop() {
            let Some(generation) = self.connections.generation(index) else { continue };
            if let Some(live) = self.connections.at_mut(index)
                && live.owner == Owner::Application
                && !live.readiness.is_empty()
            {
                let readiness = std::mem::take(&mut live.readiness);
                return Some(Event::Connection(ConnectionId { index, generation }, readiness));
            }
        }
        self.poll_event_beside()
    }

    /// What to report to the application about a half-open record.
    fn event_of_half_open(&mut self, index: u32) -> Option<Event> {
        let generation = self.half_open.generation(index)?;
        let record = self.half_open.at_mut(index)?;
        let (listener, id) = (record.listener, IncomingId { index, generation });
        match record.phase {
            Phase::Undecided => {
                record.told = true;
                Some(Event::Incoming(listener, id))
            }
            Phase::Gone => {
                self.remove_half_open(index);
                Some(Event::IncomingGone(listener, id))
            }
            Phase::Answered { .. } => None,
        }
    }

    /// Queues a reply without a connection.
    pub(super) fn reply(&mut self, tuple: &FourTuple, ttl: u8, fields: Fields) {
        let label = self.flow_labels.of(tuple).current();
        self.reply_labelled(tuple, ttl, label, fields);
    }

    /// Queues a reply with this flow label.
    pub(super) fn reply_labelled(&mut self, tuple: &FourTuple, ttl: u8, label: FlowLabel, fields: Fields) {
        let is_known = self.known.as_ref().is_some_and(|known| known.knows(tuple.remote_addr));
        let audience = if is_known { Audience::Known } else { Audience::Stranger };
        if !self.replies.push(audience, control(tuple, ttl, label, fields)) {
            self.counters.dropped_replies.count();
        }
    }

    /// The timestamps option of a segment without a connection, if `recent` says that timestamps are in use.
    pub(super) fn timestamps(
        &self,
        now: Instant,
        tuple: &FourTuple,
        recent: Option<u32>,
    ) -> Option<(u32, u32)> {
        let clock = || timestamp_clock(now).wrapping_add(self.isn.timestamp_offset(tuple));
        recent.map(|recent| (clock(), recent))
    }
}
