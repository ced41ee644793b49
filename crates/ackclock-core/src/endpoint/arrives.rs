//! An arriving packet: what it is, whether it is allowed, and where it goes.
//!
//! The fast path comes first: a segment that the last active connection expects is taken at once, and any
//! other for that connection is delivered without a table lookup. Its addresses were checked when the
//! connection was opened. Everything else is checked on the way from a failed lookup to a listener or a
//! reset.
//!
//! ICMP errors (RFC 9293 §3.9.2.2, RFC 5927): the connection decides what one means. An error is dropped here
//! unless its quoted segment came from the address that the error was sent to, under an existing four-tuple.

use std::net::IpAddr;

use ackclock_control::tally::Tally;
use ackclock_wire::fragment::{Fragment, problem};
use ackclock_wire::{
    Flags, IcmpKind, IcmpParseError, IcmpReport, IpError, IpPacket, IpPayload, RxMeta, Segment, TcpError,
    parse_icmp4, parse_icmp6,
};

use super::demux::Target;
use super::tuples::Stray;
use super::{Endpoint, Frame, Received, RxPacket};
use crate::reassembly::FragmentFate;
use crate::{FourTuple, Instant, ListenerId};

impl Endpoint {
    /// An IP packet arrived. Replies are made later, by `poll_transmit`, so that a batch of packets is
    /// processed before the first acknowledgement leaves.
    // RFC 9293 MUST-58, RFC 9293 MUST-59: all queued segments are processed before an ACK is sent.
    #[inline]
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8], meta: RxMeta) {
        self.handle_packets(now, [RxPacket::new(packet, meta)]);
    }

    /// A batch of packets arrived, in this order. The effect is that of calling
    /// [`handle_packet`](Self::handle_packet) for each, and costs less.
    #[inline]
    pub fn handle_packets<'p>(&mut self, now: Instant, packets: impl IntoIterator<Item = RxPacket<'p>>) {
        let now = self.advance(now);
        let mut arrived: u64 = 0;
        let mut packets = packets.into_iter().inspect(|_| arrived.count());
        while let Some(packet) = self.take_predicted(now, false, &mut packets) {
            self.sort_out(now, &Frame::arrived(&packet));
        }
        drop(packets);
        self.counters.packets_received.grow(arrived);
        self.check_invariants();
    }

    /// The next packet that arrived here for another endpoint; pass it to that one's
    /// [`handle_stray`](Self::handle_stray). A driver of several endpoints calls this after each batch. At
    /// most 1,024 wait; later ones are dropped and counted.
    pub fn poll_stray(&mut self) -> Option<Stray> {
        self.tuples.next_stray()
    }

    /// A packet for this endpoint arrived at another one.
    pub fn handle_stray(&mut self, now: Instant, stray: &Stray) {
        let now = self.advance(now);
        self.rare_counters().strays_taken.count();
        let (packet, meta) = stray.packet();
        self.receive(now, &Frame { stray: true, ..Frame::arrived(&RxPacket::new(packet, meta)) });
        self.check_invariants();
    }

    /// Hands packets to the connection of the last segment for as long as it expects them, then updates its
    /// timer and its place in the queues once. Returns the first packet that it does not expect, untouched.
    // Their addresses were checked when the connection was opened, as in `deliver`.
    #[inline]
    fn take_predicted<'p>(
        &mut self,
        now: Instant,
        looped: bool,
        packets: &mut impl Iterator<Item = RxPacket<'p>>,
    ) -> Option<RxPacket<'p>> {
        #[cfg(feature = "tcp-ao")]
        if self.authentication.is_some() {
            return packets.next();
        }
        let index = self.last_connection;
        let slot = self.connections.at_mut(index).filter(|slot| self.predicts && slot.is_looped() == looped);
        let Some(slot) = slot else { return packets.next() };
        let mut taken: u64 = 0;
        let other = loop {
            let Some(packet) = packets.next() else { break None };
            if !slot.connection.take_predicted(now, &packet) {
                break Some(packet);
            }
            taken.count();
        };
        if taken > 0 {
            debug_assert!(
                slot.is_bound(),
                "a connection has its four-tuple until it is over or in TIME-WAIT"
            );
            self.counters.segments_delivered.grow(taken);
            self.counters.segments_predicted.grow(taken);
            // As `change` does: the connection is still established, and has no trace.
            self.schedule.follow(index, slot.followup(true));
        }
        other
    }

    /// Handles a packet that came from another endpoint of the host, from this one itself, or in fragments.
    pub(super) fn receive(&mut self, now: Instant, frame: &Frame<'_>) {
        if self.take_predicted(now, frame.looped, &mut std::iter::once(frame.packet.clone())).is_some() {
            self.sort_out(now, frame);
        }
    }

    /// Handles a packet that the connection of the last segment does not expect.
    #[inline(never)]
    fn sort_out(&mut self, now: Instant, frame: &Frame<'_>) {
        let parsed = IpPacket::parse(frame.packet.bytes);
        if self.tuples.is_sharded() && self.is_elsewhere(&parsed, frame) {
            return;
        }
        match parsed {
            Ok(ip) => match ip.payload {
                IpPayload::Tcp(bytes) => self.handle_tcp(now, &ip, bytes, *frame),
                IpPayload::Icmp4(bytes) => self.handle_icmp(now, &ip, parse_icmp4(bytes), frame),
                IpPayload::Icmp6(bytes) => {
                    if let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src, ip.dst) {
                        self.handle_icmp(now, &ip, parse_icmp6(src, dst, bytes), frame);
                    }
                }
                IpPayload::Udp(bytes) => self.handle_udp(now, &ip, bytes, frame),
                IpPayload::Other(_) => {
                    if !self.divert(frame) {
                        self.counters.dropped_other_protocol.count();
                    }
                }
            },
            Err(IpError::Fragment) if self.handle_fragment(now, frame) || self.divert(frame) => {}
            Err(error) => self.count_ip_error(error),
        }
    }

    fn handle_tcp(&mut self, now: Instant, ip: &IpPacket<'_>, bytes: &[u8], frame: Frame<'_>) {
        // RFC 9293 MUST-3: the checksum is always verified, here unless the device has done it.
        let segment = match Segment::parse(ip.src, ip.dst, bytes, frame.packet.meta.checksum) {
            Ok(segment) => segment,
            Err(TcpError::Checksum) => return self.counters.dropped_tcp_checksum.count(),
            Err(_) => return self.counters.dropped_malformed_tcp.count(),
        };
        let tuple = FourTuple {
            local_addr: ip.dst,
            local_port: segment.dst_port,
            remote_addr: ip.src,
            remote_port: segment.src_port,
        };
        let arrival = Received { tuple, segment: &segment, frame, codepoint: ip.ecn() };
        if self.tuples.is_sharded() {
            return self.for_shard(now, &arrival, bytes);
        }
        self.for_tuple(now, &arrival, bytes);
    }

    /// A segment at one endpoint of several. A connection's segment goes its usual way. Before any other may
    /// create a connection, the four-tuple is held, or the packet goes to the endpoint that has it.
    fn for_shard(&mut self, now: Instant, arrival: &Received<'_>, bytes: &[u8]) {
        let tuple = &arrival.tuple;
        // A SYN may replace a connection in TIME-WAIT, and the four-tuple must not be free in between.
        let opens = arrival.segment.flags.contains(Flags::SYN);
        if !opens && matches!(self.find(tuple), Some(Target::Connection(_))) {
            return self.for_tuple(now, arrival, bytes);
        }
        match self.tuples.hold(tuple) {
            Ok(()) => {
                self.for_tuple(now, arrival, bytes);
                self.tuples.release(tuple);
            }
            Err(owner) => self.hand_over(&arrival.frame, owner),
        }
    }

    /// A segment for the connection, half-open record or listener that its four-tuple belongs to here.
    /// `bytes` is the whole segment.
    #[cfg_attr(not(feature = "tcp-ao"), expect(unused_variables, reason = "a signature covers every byte"))]
    fn for_tuple(&mut self, now: Instant, arrival: &Received<'_>, bytes: &[u8]) {
        #[cfg(feature = "tcp-ao")]
        if self.authentication.is_some() && !self.is_authentic(&arrival.tuple, bytes, arrival.segment) {
            return;
        }
        match self.find(&arrival.tuple) {
            Some(Target::Connection(index)) => self.for_connection(now, index, arrival),
            Some(_) if !self.may_be_from(arrival) => self.counters.dropped_martian_source.count(),
            Some(Target::HalfOpen(index)) => self.for_half_open(now, index, arrival),
            Some(Target::TimeWait(index)) => self.for_time_wait(now, index, arrival),
            None => self.for_nobody(now, arrival),
        }
    }

    /// Whether the segment's source could have sent it this way: our own addresses are reached only from
    /// here.
    fn may_be_from(&self, arrival: &Received<'_>) -> bool {
        arrival.frame.looped || self.addresses.valid_source(arrival.tuple.remote_addr)
    }

    #[inline]
    fn for_connection(&mut self, now: Instant, index: u32, arrival: &Received<'_>) {
        if arrival.segment.flags.contains(Flags::SYN) {
            return self.syn_for_connection(now, index, arrival);
        }
        self.deliver(now, index, arrival);
    }

    #[cold]
    fn syn_for_connection(&mut self, now: Instant, index: u32, arrival: &Received<'_>) {
        if !self.reuses_time_wait(now, index, arrival) {
            let opening_since = self.connections.at(index).and_then(|slot| slot.connection.opening_since());
            self.deliver(now, index, arrival);
            if let Some(since) = opening_since
                && self.connections.at(index).is_some_and(|slot| slot.connection.is_established())
            {
                let took = now.saturating_since(since);
                self.tally(|histograms| histograms.record_handshake(took));
            }
            self.learn_fast_open(now, index, arrival);
        }
    }

    /// Hands a segment to a connection.
    #[inline]
    pub(super) fn deliver(&mut self, now: Instant, index: u32, arrival: &Received<'_>) {
        let Some(slot) = self.connections.at(index) else { return };
        if slot.is_looped() != arrival.frame.looped {
            // An address of ours, from outside; or one that was ours when this connection was opened.
            return self.counters.dropped_martian_source.count();
        }
        let RxPacket { meta, ref block, .. } = *arrival.frame.packet;
        self.last_connection = index;
        self.counters.segments_delivered.count();
        self.change(index, |connection| {
            connection.handle_segment(now, arrival.segment, meta, arrival.codepoint, block.as_ref());
        });
    }

    /// No connection has this four-tuple: goes to a listener, or is refused.
    fn for_nobody(&mut self, now: Instant, arrival: &Received<'_>) {
        let FourTuple { local_addr, local_port, remote_addr, remote_port } = arrival.tuple;
        if !self.may_be_from(arrival) || remote_port == 0 {
            return self.counters.dropped_martian_source.count();
        }
        if !self.addresses.valid_destination(local_addr) || local_port == 0 {
            return self.counters.dropped_martian_destination.count();
        }
        if (local_addr, local_port) == (remote_addr, remote_port) {
            return self.counters.dropped_land.count();
        }
        match self.listening.find(&arrival.tuple) {
            Some(listener) if self.is_heard(listener, local_addr) => {
                self.for_listener(now, listener, arrival, None);
            }
            Some(_) => self.counters.dropped_not_local.count(),
            None if self.addresses.is_own(local_addr) => self.refuse(arrival),
            None if self.divert(&arrival.frame) => {}
            None => self.counters.dropped_not_local.count(),
        }
    }

    /// Whether a listener still serves an address. One that names an address that is no longer ours does not,
    /// unless it may have any.
    fn is_heard(&self, listener: ListenerId, local_addr: IpAddr) -> bool {
        self.listening.addr(listener).is_some_and(|addr| addr.addr.is_none())
            || self.addresses.may_be_local(local_addr)
    }

    fn count_ip_error(&mut self, error: IpError) {
        let counter = match error {
            IpError::Fragment => &mut self.counters.dropped_fragment,
            IpError::SourceRoute => &mut self.counters.dropped_source_route,
            IpError::HeaderChecksum => &mut self.counters.dropped_ip_checksum,
            _ => &mut self.counters.dropped_malformed_ip,
        };
        counter.count();
    }

    fn handle_icmp(
        &mut self,
        now: Instant,
        ip: &IpPacket<'_>,
        parsed: Result<Option<IcmpReport>, IcmpParseError>,
        frame: &Frame<'_>,
    ) {
        let report = match parsed {
            Ok(Some(report)) => report,
            Ok(None) => return self.handle_icmp_other(now, ip, frame),
            Err(_) => return self.counters.dropped_malformed_icmp.count(),
        };
        if !frame.looped && !self.addresses.valid_source(ip.src) {
            return self.counters.dropped_martian_source.count();
        }
        // RFC 9293 MUST-55: Source Quench is silently discarded (RFC 6633).
        if report.kind == IcmpKind::SourceQuench {
            return self.counters.dropped_source_quench.count();
        }
        // RFC 9293 MUST-54: an error is handed to the connection whose segment it quotes.
        let tuple = FourTuple::new(report.src, report.dst);
        let target = if report.src.ip() == ip.dst { self.find(&tuple) } else { None };
        let delivered = match target {
            Some(Target::Connection(index)) => self.icmp_for_connection(now, index, &report),
            Some(Target::HalfOpen(index)) => self.icmp_for_half_open(index, &report),
            Some(Target::TimeWait(_)) | None => false,
        };
        if delivered {
            self.counters.icmp_delivered.count();
        } else if !(target.is_none() && self.is_error_elsewhere(&tuple, frame) || self.divert(frame)) {
            self.counters.dropped_icmp_unmatched.count();
        }
    }

    /// A message with a right checksum that is not an error about TCP.
    fn handle_icmp_other(&mut self, now: Instant, ip: &IpPacket<'_>, frame: &Frame<'_>) {
        if !frame.looped && !self.addresses.valid_source(ip.src) {
            return self.counters.dropped_martian_source.count();
        }
        if self.goes_to_first(frame) {
            return;
        }
        if !self.answer_echo(now, ip, frame) && !self.handle_udp_error(ip) && !self.divert(frame) {
            self.counters.dropped_icmp_other.count();
        }
    }

    fn icmp_for_connection(&mut self, now: Instant, index: u32, report: &IcmpReport) -> bool {
        let undone = self.change(index, |connection| connection.handle_icmp(now, report.kind, report.seq));
        if undone == Some(true) {
            self.rare_counters().backoffs_undone.count();
        }
        undone.is_some()
    }

    fn icmp_for_half_open(&mut self, index: u32, report: &IcmpReport) -> bool {
        let ends = self.listening.judge_icmp(index, report.kind, report.seq);
        if ends == Some(true) {
            self.end_half_open(index);
        }
        ends.is_some()
    }

    /// A fragment arrived. Returns `false` if fragments are not reassembled here, or not this one.
    #[cold]
    fn handle_fragment(&mut self, now: Instant, frame: &Frame<'_>) -> bool {
        if self.config.reassembly.is_none() || !self.wants_fragment(frame) {
            return false;
        }
        let budget = self.memory.budget().clone();
        let Some((outcome, evicted)) = self.non_tcp().reassemble(now, &budget, frame.packet.bytes) else {
            return false;
        };
        let counters = self.rare_counters();
        counters.fragments_received.count();
        counters.dropped_reassembly_full.grow(evicted);
        match outcome {
            FragmentFate::Waits => {}
            FragmentFate::Whole(packet) => {
                self.rare_counters().packets_reassembled.count();
                // Nothing is reassembled twice: a fragment inside a reassembled packet has no honest sender.
                match IpPacket::parse(&packet) {
                    Err(IpError::Fragment) => self.counters.dropped_fragment.count(),
                    _ => {
                        let whole = RxPacket::new(&packet, RxMeta::default());
                        self.receive(now, &Frame { looped: frame.looped, ..Frame::arrived(&whole) });
                    }
                }
            }
            FragmentFate::Malformed(_) => {
                self.counters.dropped_fragment.count();
                if let Some((error, ip)) = problem(frame.packet.bytes) {
                    self.send_error(now, error, frame.packet.bytes, &ip);
                }
            }
            FragmentFate::Overlap => self.rare_counters().dropped_fragment_overlap.count(),
            FragmentFate::Full => self.rare_counters().dropped_reassembly_full.count(),
        }
        true
    }

    /// Whether the source is plausible, and the fragment is not for the program that handles other traffic.
    fn wants_fragment(&self, frame: &Frame<'_>) -> bool {
        let Ok(fragment) = Fragment::parse(frame.packet.bytes) else { return true };
        let is_heard = |group| self.non_tcp.as_ref().is_some_and(|non_tcp| non_tcp.listens_to(group));
        (frame.looped || self.addresses.valid_source(fragment.src))
            && (self.config.other_packets == 0
                || self.addresses.is_own(fragment.dst)
                || is_heard(fragment.dst))
    }

    /// Whether a packet was handed to another endpoint because it is not TCP.
    #[inline]
    fn is_elsewhere(&mut self, parsed: &Result<IpPacket<'_>, IpError>, frame: &Frame<'_>) -> bool {
        let not_tcp = match parsed {
            Ok(ip) => matches!(ip.payload, IpPayload::Udp(_) | IpPayload::Other(_)),
            Err(error) => *error == IpError::Fragment,
        };
        not_tcp && self.goes_to_first(frame)
    }

    /// Whether an ICMP error about a segment that this endpoint did not send was handed to the one that did,
    /// or to the first.
    fn is_error_elsewhere(&mut self, about: &FourTuple, frame: &Frame<'_>) -> bool {
        if frame.looped || frame.stray {
            return false;
        }
        match self.tuples.elsewhere(about) {
            Some(owner) => {
                self.hand_over(frame, owner);
                true
            }
            None => self.goes_to_first(frame),
        }
    }

    /// Whether a packet was handed to the first endpoint, because this is another one.
    pub(super) fn goes_to_first(&mut self, frame: &Frame<'_>) -> bool {
        let goes = self.tuples.is_behind_first() && !frame.looped;
        if goes {
            self.hand_over(frame, 0);
        }
        goes
    }

    #[cold]
    fn hand_over(&mut self, frame: &Frame<'_>, to: usize) {
        let once = !frame.stray && !frame.looped;
        let taken = once && self.tuples.hand_over(frame.packet.bytes, frame.packet.meta, to);
        let counters = self.rare_counters();
        let counter = if taken { &mut counters.strays_handed_over } else { &mut counters.dropped_strays };
        counter.count();
    }
}
