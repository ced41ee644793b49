//! The output of an endpoint: packets, deadlines and events.
//!
//! Packets that an endpoint sends to its own addresses return without crossing a device. Such a packet is
//! copied into a queue when it would leave, and handled as a received one before the sending call returns.
//! The queue keeps calls from nesting. One call handles a bounded number; the rest is due at once
//! ([`Endpoint::poll_timeout`]), so that the driver gets its turn.

use std::net::IpAddr;

use ackclock_control::tally::Tally;
use ackclock_wire::{ChecksumState, TxPacket, write_control};

use super::schedule::Subject;
use super::{Endpoint, Frame, RxPacket};
use crate::connection::Outgoing;
use crate::{ConnectionId, Event, Instant};

/// The offload limits of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest IPv4 packet with a segment size (see [`TxPacket::segment_size`]) that may be made; if it
    /// is at most the MTU, none are made.
    pub gso_max_v4: usize,
    /// The largest packet of IPv6 that the device cuts, in bytes.
    pub gso_max_v6: usize,
    /// Whether the device finishes TCP checksums.
    pub tx_checksum: bool,
}

/// A packet that leaves.
#[derive(Debug)]
enum Leaving {
    /// A reply without a connection, in the endpoint's header buffer.
    Reply { len: usize, is_ipv4: bool },
    /// A segment of a connection, whose header is there.
    Segment(u32, Outgoing),
    /// The packet taken from the outbox.
    Whole,
}

impl Endpoint {
    /// The next packet to send. It counts as sent.
    ///
    /// Replies without a connection and segments of connections take turns. Connections take turns, one
    /// packet each, or with a rate for all ([`EndpointConfig::shaping`](crate::EndpointConfig::shaping)) the
    /// same number of bytes.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, limits: Limits) -> Option<TxPacket<'_>> {
        let now = self.advance(now);
        let limits = if self.shaper.is_some() { self.shaped(now, limits)? } else { limits };
        let mut deliveries = LOOPED_PER_CALL;
        loop {
            // Usually only connections have something to send; check nothing else then.
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
                    if self.shaper.is_some() {
                        self.charge(now, &Leaving::Segment(index, outgoing), false);
                    }
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
                    self.charge(now, &leaving, false);
                    return self.tx_packet(&leaving);
                }
                // What is for the endpoint itself comes back on the way.
                Some((leaving, true)) => {
                    self.charge(now, &leaving, true);
                    self.loop_back(&leaving);
                }
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
        let waits = self.schedule.has_senders()
            || !self.replies.is_empty()
            || self.non_tcp.as_ref().is_some_and(|non_tcp| non_tcp.has_outgoing());
        waits && !self.is_held()
    }

    /// Whether packets wait for the rate of the whole endpoint
    /// ([`EndpointConfig::shaping`](crate::EndpointConfig::shaping)).
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held_until().is_some()
    }

    /// When the endpoint's rate lets the next packet go, if a packet waits for it.
    fn held_until(&self) -> Option<Instant> {
        self.shaper.as_ref()?.due()
    }

    /// The limits of a packet that the rate lets go now.
    #[inline(never)]
    fn shaped(&mut self, now: Instant, limits: Limits) -> Option<Limits> {
        let mtu = self.addresses.mtu();
        self.shaper.as_mut()?.limits(now, limits, mtu)
    }

    /// This packet leaves, or comes back to the endpoint: then it takes a turn, and nothing of the rate.
    #[inline(never)]
    fn charge(&mut self, now: Instant, leaving: &Leaving, looped: bool) {
        if self.shaper.is_none() {
            return;
        }
        let bytes = self.tx_packet(leaving).map_or(0, |packet| on_wire(&packet));
        if let Some(shaper) = self.shaper.as_mut().filter(|_| !looped) {
            shaper.charge(now, bytes);
        }
        if let Leaving::Segment(index, _) = leaving {
            self.schedule.spend(*index, bytes);
        }
    }

    /// Whether only segments of connections may leave.
    #[inline]
    fn has_segments_alone(&self) -> bool {
        self.predicts && self.replies.is_empty() && self.non_tcp.is_none()
    }

    /// The packet that goes before the segments of connections: a reply or, every second time, a whole
    /// packet. Also whether it is for the endpoint itself.
    #[inline(never)]
    fn next_before_segments(&mut self) -> Option<(Leaving, bool)> {
        if self.replies.takes_turn(self.counters.packets_received) {
            return self.next_reply();
        }
        let is_turn = self.non_tcp.as_mut().is_some_and(|non_tcp| non_tcp.takes_turn());
        if is_turn { self.next_of_outbox() } else { None }
    }

    /// The packet that is left to send when no connection has a segment.
    #[inline(never)]
    fn next_after_segments(&mut self) -> Option<(Leaving, bool)> {
        self.next_reply().or_else(|| self.next_of_outbox())
    }

    /// The next whole packet, and whether it is for the endpoint itself.
    #[inline(never)]
    fn next_of_outbox(&mut self) -> Option<(Leaving, bool)> {
        self.take_whole().map(|looped| (Leaving::Whole, looped))
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

    /// The packet that leaves.
    #[inline]
    fn tx_packet(&self, leaving: &Leaving) -> Option<TxPacket<'_>> {
        match leaving {
            Leaving::Reply { len, is_ipv4 } => Some(TxPacket {
                header: self.header.get(..*len)?,
                transport_offset: if *is_ipv4 { 20 } else { 40 },
                payload: [&[], &[]],
                segment_size: None,
                checksum: ChecksumState::Complete,
            }),
            Leaving::Segment(index, outgoing) => self.segment_packet(*index, outgoing),
            Leaving::Whole => self.non_tcp.as_ref().map(|non_tcp| non_tcp.packet()),
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
        while let Some(index) = self.schedule.next_sender() {
            let Some(slot) = self.connections.at_mut(index) else { continue };
            let looped = slot.is_looped();
            let limits = if looped { LOOP_LIMITS } else { limits };
            let short = self.predicts;
            if let Some(outgoing) = slot.connection.poll_transmit(now, limits, short, &mut self.header) {
                self.traces.collect(slot);
                self.reached = (slot.connection.take_progress() && !looped).then_some(index);
                self.schedule.follow(index, slot.followup(short));
                return Some((index, outgoing, looped));
            }
            self.settle(now, index);
        }
        None
    }

    /// Whether packets to the endpoint's own addresses wait: there is work to do at once.
    #[must_use]
    #[inline]
    pub fn has_looped(&self) -> bool {
        self.looped_len() > 0
    }

    /// How many packets have gone from the endpoint to itself.
    #[must_use]
    #[inline]
    pub fn packets_looped(&self) -> u64 {
        self.non_tcp.as_ref().map_or(0, |non_tcp| non_tcp.counters.packets_looped)
    }

    #[inline]
    fn looped_len(&self) -> usize {
        self.non_tcp.as_ref().map_or(0, |non_tcp| non_tcp.looped())
    }

    /// A packet about to leave is for this endpoint.
    #[cold]
    fn loop_back(&mut self, leaving: &Leaving) {
        let Some(packet) = self.tx_packet(leaving) else { return };
        let (bytes, meta) = (packet.to_vec(), packet.meta());
        let budget = self.memory.budget().clone();
        let room = self.non_tcp().loop_back(&budget, bytes, meta);
        let counters = self.rare_counters();
        (if room { &mut counters.packets_looped } else { &mut counters.dropped_looped }).count();
    }

    /// Handles up to `left` waiting packets, and deducts them. Returns whether there were any.
    fn deliver_looped(&mut self, now: Instant, left: &mut usize) -> bool {
        let before = *left;
        while *left > 0
            && let Some(packet) = self.non_tcp.as_mut().and_then(|non_tcp| non_tcp.next_looped())
        {
            left.shrink(1);
            self.receive(
                now,
                &Frame { looped: true, ..Frame::arrived(&RxPacket::new(&packet.bytes, packet.meta)) },
            );
        }
        *left < before
    }

    /// The latest time to call `handle_timeout`.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next_due().map(|due| self.clock.driver(due))
    }

    /// The next deadline by the endpoint's own clock.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let earlier = |one: Option<Instant>, other: Option<Instant>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            _ => one.or(other),
        };
        // The driver's next turn is due at once, also if it sleeps.
        if self.has_looped() || self.has_windows_to_open() {
            return Some(self.clock.now());
        }
        let of_fragments = self.non_tcp.as_ref().and_then(|non_tcp| non_tcp.reassembly_timeout());
        let of_tables = earlier(self.listening.next_timeout(), self.time_wait.next_timeout());
        let of_all = earlier(of_fragments, self.memory.due(self.clock.now()));
        let of_all = earlier(of_all, self.held_until());
        earlier(self.schedule.deadline(), earlier(of_tables, of_all))
    }

    /// A timer may have expired. A spurious call does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        // A connection has one turn in each call, whatever it sets its timer to.
        for _ in 0..self.connections.len() {
            let Some(index) = self.schedule.pop_expired(now) else { break };
            let ended_idle = self.change(index, |connection| {
                let is_due = connection.poll_timeout().is_some_and(|deadline| deadline <= now);
                is_due && connection.handle_timeout(now)
            });
            self.counters.idle_timeouts.grow(u64::from(ended_idle == Some(true)));
        }
        if let Some(shaper) = &mut self.shaper {
            shaper.on_timeout(now);
        }
        self.relieve(now);
        self.half_open_timeouts(now);
        self.time_wait_timeouts(now);
        self.reassembly_timeouts(now);
        self.deliver_looped(now, &mut { LOOPED_PER_CALL });
        self.check_invariants();
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        while let Some(subject) = self.schedule.next_report() {
            let event = match subject {
                Subject::Listener(index) => self.listening.acceptable(index).map(Event::Acceptable),
                Subject::HalfOpen(index) => self.listening.event(index),
                Subject::Connection(index) => self.event_of_connection(index),
            };
            if event.is_some() {
                return event;
            }
        }
        self.non_tcp.as_mut().and_then(|non_tcp| non_tcp.next_event())
    }

    fn event_of_connection(&mut self, index: u32) -> Option<Event> {
        let generation = self.connections.generation(index)?;
        let readiness = self.connections.at_mut(index)?.take_report()?;
        Some(Event::Connection(ConnectionId { index, generation }, readiness))
    }
}

/// The bytes of a packet on the wire, with a header for each of those that the device makes of it.
fn on_wire(packet: &TxPacket<'_>) -> u64 {
    let payload = packet.payload_len();
    let packets = packet.segment_size.map_or(1, |size| payload.div_ceil(size.get().into()).max(1));
    payload.saturating_add(packets.saturating_mul(packet.header.len())) as u64
}

/// The limits of a loopback: packets of 64 KB, with unfinished checksums.
const LOOP_LIMITS: Limits = Limits { gso_max_v4: 65_535, gso_max_v6: 65_535, tx_checksum: true };

/// How many wait before they are handled while there is more to send: a batch, as from a device.
const LOOPED_BATCH: usize = 16;

/// The most that one call handles.
const LOOPED_PER_CALL: usize = 256;
