//! Beside TCP: UDP (RFC 768, RFC 1122 §4.1), whole packets of other programs, fragments
//! ([`reassembly`](crate::reassembly)), and the ICMP that it sends.
//!
//! The state, including its keys, is created at its first use: an endpoint with only ordinary connections
//! pays a pointer and a key.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use ackclock_control::tally::Tally;
use ackclock_wire::fragment::{Fragment, fragments};
use ackclock_wire::icmp_out::{
    OutgoingIcmpError, is_echo_request, is_icmp_error, write_echo_reply, write_error,
};
use ackclock_wire::{
    ChecksumState, Flags, FlowLabel, HEADER_MAX, IcmpKind, IpPacket, IpPayload, RxMeta, SeqNum, TxPacket,
    UdpDatagram, UdpError, UdpHeader, UdpReport, parse_udp_error4, parse_udp_error6, udp::UDP_LEN,
    write_control, write_udp,
};

use super::counters::RareCounters;
use super::deferred::Unreachable;
use super::fast_open::ServerCache;
use super::keys::{Key, Purpose};
use super::limits::{EchoLimiter, ErrorLimiter};
use super::others::{OtherError, OtherPacket};
use super::pings::{PingPolicy, Pings};
use super::replies::{bare, control};
use super::tuples::Use;
use super::{Endpoint, Frame, Settings};
use crate::budget::{Budget, Lease};
use crate::connection::believed_mtu;
use crate::reassembly::{FragmentFate, Reassembler};
use crate::udp::{Datagram, PathMtus, Socket, Sockets};
use crate::{
    Event, FourTuple, Instant, ListenAddr, UdpId, UdpMeta, UdpNames, UdpOptions, UdpSocketError, UdpTransmit,
};
use ackclock_form::byte_string;

/// The state besides plain TCP: for other protocols, for Fast Open, for packets from the endpoint to itself,
/// and the counters of all of them.
#[derive(Debug)]
pub(super) struct NonTcp {
    outbox: Outbox,
    /// Whether a packet of the outbox goes before the next segment. Both take turns.
    outbox_first: bool,
    looped: VecDeque<Looped>,
    others: Others,
    pub(super) pings: Pings,
    udp: Sockets,
    paths: PathMtus,
    identifications: Identifications,
    /// `None`: fragments are not reassembled.
    reassembler: Option<Reassembler>,
    echoes: EchoLimiter,
    errors: ErrorLimiter,
    /// The servers known to a client of Fast Open.
    pub(super) servers: ServerCache,
    pub(super) counters: RareCounters,
}

/// A packet from the endpoint to itself.
#[derive(Debug)]
pub(super) struct Looped {
    pub(super) bytes: Vec<u8>,
    pub(super) meta: RxMeta,
    _lease: Lease,
}

impl NonTcp {
    pub fn new(later: &Key, config: &Settings) -> Self {
        Self {
            outbox: Outbox::default(),
            outbox_first: false,
            looped: VecDeque::new(),
            others: Others::new(config.other_packets),
            pings: Pings::default(),
            udp: Sockets::default(),
            paths: PathMtus::default(),
            identifications: Identifications::new(later.subkey(Purpose::Fragments)),
            reassembler: config.reassembly.as_deref().copied().map(Reassembler::new),
            echoes: EchoLimiter::default(),
            errors: ErrorLimiter::new(later.subkey(Purpose::NonTcp)),
            servers: ServerCache::new(),
            counters: RareCounters::default(),
        }
    }

    /// Whether there is something to send or to deliver, or to tell the device.
    pub fn has_outgoing(&self) -> bool {
        !self.outbox.queue.is_empty() || !self.looped.is_empty() || self.udp.has_groups()
    }

    /// Whether a socket listens to the multicast group.
    pub fn listens_to(&self, group: IpAddr) -> bool {
        self.udp.listens_to(group)
    }

    /// Whether it is the outbox's turn.
    pub fn takes_turn(&mut self) -> bool {
        self.outbox_first = !self.outbox_first;
        self.outbox_first
    }

    /// The whole packet last taken from the outbox.
    pub fn packet(&self) -> TxPacket<'_> {
        self.outbox.taken()
    }

    /// How many packets wait that the endpoint sent to itself.
    pub fn looped(&self) -> usize {
        self.looped.len()
    }

    /// The endpoint sends itself a packet. Returns whether there was room.
    pub fn loop_back(&mut self, budget: &Budget, bytes: Vec<u8>, meta: RxMeta) -> bool {
        let lease = budget.try_lease(bytes.len());
        let Some(lease) = lease.filter(|_| self.looped.len() < LOOPED_MAX) else { return false };
        self.looped.push_back(Looped { bytes, meta, _lease: lease });
        true
    }

    /// The next packet that it sent to itself.
    pub fn next_looped(&mut self) -> Option<Looped> {
        self.looped.pop_front()
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<Event> {
        let pings = || self.pings.take_news().then_some(Event::Pings);
        let udp = || self.udp.poll_changed().map(|(id, readiness)| Event::Udp(id, readiness));
        self.others.next_event().or_else(pings).or_else(udp)
    }

    /// Takes a fragment. Also returns how many unfinished packets it evicted.
    pub fn reassemble(
        &mut self,
        now: Instant,
        budget: &Budget,
        fragment: &[u8],
    ) -> Option<(FragmentFate, u64)> {
        let reassembler = self.reassembler.as_mut()?;
        let outcome = reassembler.push(now, budget, fragment);
        Some((outcome, reassembler.take_evicted()))
    }

    /// When an unfinished packet is given up.
    pub fn reassembly_timeout(&self) -> Option<Instant> {
        self.reassembler.as_ref()?.poll_timeout()
    }
}

/// Whole packets that wait to be sent: ICMP, datagrams, and other programs' packets, in order of insertion.
///
/// Each packet's bytes come from the endpoint's budget. The producers limit how many of a kind wait: ICMP
/// here ([`ICMP_MAX`]), a socket by its send buffer, a program by its channel.
#[derive(Debug, Default)]
struct Outbox {
    queue: VecDeque<Waiting>,
    /// The packet last taken.
    taken: Option<Waiting>,
    icmp: usize,
}

/// The origin of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// From the stack itself.
    Icmp,
    /// From a UDP socket.
    Udp(UdpId),
    /// A fragment from there, but not the last of its datagram.
    UdpFragment(UdpId),
    /// From the program that handles other packets.
    Other,
}

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    origin: Origin,
    _lease: Lease,
}

impl Outbox {
    /// Adds a packet with finished checksums. Returns `false` if there is no room.
    fn push(&mut self, budget: &Budget, origin: Origin, bytes: Vec<u8>) -> bool {
        let is_icmp = origin == Origin::Icmp;
        if is_icmp && self.icmp >= ICMP_MAX {
            return false;
        }
        let Some(lease) = budget.try_lease(bytes.len()) else { return false };
        self.icmp.grow(usize::from(is_icmp));
        self.queue.push_back(Waiting { bytes, origin, _lease: lease });
        true
    }

    /// Takes the next packet, which [`taken`](Self::taken) then shows. Returns its origin and length.
    fn take(&mut self) -> Option<(Origin, usize)> {
        self.taken = self.queue.pop_front();
        let Waiting { origin, bytes, .. } = self.taken.as_ref()?;
        self.icmp.shrink(usize::from(*origin == Origin::Icmp));
        Some((*origin, bytes.len()))
    }

    /// The packet last taken.
    fn taken(&self) -> TxPacket<'_> {
        let bytes = self.taken.as_ref().map_or(&[][..], |waiting| &waiting.bytes);
        let transport_offset = ip_header_len(bytes);
        // The header is the IP header plus the eight bytes of UDP or ICMP.
        let head = usize::from(transport_offset) + 8;
        let (header, payload) = bytes.split_at_checked(head).unwrap_or((bytes, &[]));
        TxPacket {
            header,
            transport_offset,
            payload: [payload, &[]],
            segment_size: None,
            checksum: ChecksumState::Complete,
        }
    }

    /// The destination of that packet.
    fn taken_destination(&self) -> Option<IpAddr> {
        destination(&self.taken.as_ref()?.bytes)
    }
}

/// Packets of other programs: those that arrived, and those that are sent.
#[derive(Debug)]
struct Others {
    /// The most packets in each queue; 0: the channel is closed.
    max: usize,
    arrived: VecDeque<(OtherPacket, Lease)>,
    /// Packets in the outbox.
    leaving: usize,
    readable: bool,
    writable: bool,
    /// Whether sending was refused for lack of room.
    refused: bool,
}

impl Others {
    fn new(max: usize) -> Self {
        Self { max, arrived: VecDeque::new(), leaving: 0, readable: false, writable: false, refused: false }
    }

    /// A packet arrived. Returns whether there was room.
    fn push(&mut self, packet: &[u8], meta: RxMeta, budget: &Budget) -> bool {
        let lease = budget.try_lease(packet.len());
        let Some(lease) = lease.filter(|_| self.arrived.len() < self.max) else { return false };
        self.arrived.push_back((OtherPacket { bytes: packet.to_vec(), meta }, lease));
        self.readable = true;
        true
    }

    /// The next packet that arrived.
    fn pop(&mut self) -> Option<OtherPacket> {
        self.arrived.pop_front().map(|(packet, _)| packet)
    }

    /// Whether there is room to send a packet. If not, an event follows.
    fn has_room(&mut self) -> bool {
        let room = self.leaving < self.max;
        self.refused |= !room;
        room
    }

    /// Whether that event is yet to come, and there is no room.
    fn awaits_room(&self) -> bool {
        self.refused && self.leaving >= self.max && self.max > 0
    }

    /// Packets were put into the outbox.
    fn queued(&mut self, packets: usize) {
        self.leaving.grow(packets);
    }

    /// One has left it.
    fn on_left(&mut self) {
        self.leaving = self.leaving.saturating_sub(1);
        if self.refused && self.leaving < self.max {
            self.refused = false;
            self.writable = true;
        }
    }

    /// The next event, once.
    fn next_event(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.readable) {
            return Some(Event::OtherPackets);
        }
        std::mem::take(&mut self.writable).then_some(Event::OtherRoom)
    }

    fn close(&mut self) {
        self.max = 0;
        self.arrived.clear();
    }
}

impl Endpoint {
    /// Binds a UDP socket. Port 0 requests a free one. An address or port of `None` means any, including
    /// addresses that are not the endpoint's.
    ///
    /// # Errors
    /// The address is not ours or in use, or there are too many sockets.
    pub fn udp_bind(&mut self, now: Instant, mut options: UdpOptions) -> Result<UdpId, UdpSocketError> {
        self.advance(now);
        if let Some(addr) = options.addr.addr.filter(|&addr| !self.addresses.may_be_local(addr)) {
            return Err(UdpSocketError::NotLocal(addr));
        }
        let addr = options.addr.addr;
        let wanted = Use::Datagrams(addr);
        if options.addr.port == Some(0) {
            let free = self.find_port(wanted, |endpoint, port| {
                let is_taken = endpoint.non_tcp().udp.has(ListenAddr { addr, port: Some(port) });
                if is_taken {
                    endpoint.tuples.learn_port(wanted, port);
                }
                !is_taken
            });
            options.addr.port = Some(free.ok_or(UdpSocketError::AddressInUse)?);
        }
        let port = options.addr.port;
        let id = self.non_tcp().udp.insert(Socket::new(options))?;
        if let Some(port) = port {
            self.tuples.note_port(wanted, port);
        }
        Ok(id)
    }

    /// Makes a socket receive what is sent to a multicast group at its port, from any source. It must be
    /// bound to no address. Where the link needs to know, [`take_groups`](Self::take_groups) tells.
    ///
    /// # Errors
    /// It is not a group, the socket has one address or has joined the group before, or there are too many
    /// groups (64 for an endpoint).
    pub fn udp_join(&mut self, id: UdpId, group: IpAddr) -> Result<(), UdpSocketError> {
        self.non_tcp().udp.join(id, group)
    }

    /// Ends that.
    ///
    /// # Errors
    /// The socket has not joined the group.
    pub fn udp_leave(&mut self, id: UdpId, group: IpAddr) -> Result<(), UdpSocketError> {
        self.non_tcp().udp.leave(id, group)
    }

    /// The multicast groups that sockets listen to, in order, if they have changed since the last call: the
    /// link below has to pass their packets, and to report them.
    pub fn take_groups(&mut self) -> Option<Vec<IpAddr>> {
        self.non_tcp.as_mut()?.udp.take_groups()
    }

    /// Closes a socket. Datagrams that wait to be read are dropped; those that wait to be sent leave.
    pub fn udp_close(&mut self, id: UdpId) {
        if let Some(port) = self.non_tcp().udp.remove(id).and_then(|addr| addr.port) {
            self.tuples.release_port(port);
        }
    }

    /// Connects a socket to a peer, or with `None` to none. A connected socket can send without `to`, accepts
    /// only its peer's datagrams, and reports errors about the peer.
    ///
    /// # Errors
    /// The address cannot be a host's, or no local address leads there.
    pub fn udp_connect(&mut self, id: UdpId, remote: Option<SocketAddr>) -> Result<(), UdpSocketError> {
        let addr = self.udp_socket(id)?.addr();
        let peer = match remote {
            Some(remote) if addr.port.is_none() => return Err(self.no_source(remote)),
            Some(remote) => Some((remote, self.udp_source(addr, None, remote)?)),
            None => None,
        };
        self.udp_update(id, |socket| socket.connect(peer))
    }

    /// Sends one datagram, or several of one size. Returns the number of bytes.
    ///
    /// # Errors
    /// [`UdpSocketError::WouldBlock`] without room: [`Event::Udp`](crate::Event::Udp) reports when there is.
    /// Others say what is wrong with the call. Nothing has been sent then.
    pub fn udp_send(
        &mut self,
        now: Instant,
        id: UdpId,
        transmit: &UdpTransmit<'_>,
    ) -> Result<usize, UdpSocketError> {
        self.advance(now);
        self.udp_update(id, Socket::take_error)??;
        let (options, connected) = {
            let socket = self.udp_socket(id)?;
            (*socket.options(), socket.remote().zip(socket.source()))
        };
        let to = transmit.to.or(connected.map(|(remote, _)| remote)).ok_or(UdpSocketError::NotConnected)?;
        let from = match (connected, transmit.from) {
            (Some((remote, source)), None) if remote == to => source,
            _ => self.udp_source(options.addr, transmit.from, to)?,
        };
        let port = transmit.from.map(|from| from.port()).filter(|&port| port != 0).or(options.addr.port);
        let src = SocketAddr::new(from, port.ok_or(UdpSocketError::NoSource)?);
        let size = self.udp_segment_size(transmit, to, options.fragments)?;
        if !self.udp_update(id, Socket::is_writable)? {
            return Err(UdpSocketError::WouldBlock);
        }
        self.non_tcp().paths.on_sent(to.ip());
        let flow_label = self.numbers.flow_labels(&FourTuple::new(src, to)).current();
        let ttl = options.ttl.unwrap_or(self.config.tcp.ttl);
        let traffic_class = match transmit.ecn.bits() {
            0 => options.traffic_class,
            ecn => options.traffic_class & !3 | ecn,
        };
        let header = UdpHeader { src, dst: to, ttl, traffic_class, flow_label };
        if transmit.contents.is_empty() {
            self.udp_queue(id, &header, &[])?;
        }
        for (index, segment) in transmit.contents.chunks(size).enumerate() {
            match self.udp_queue(id, &header, segment) {
                // The first ones are on their way; the rest are lost as on a full interface.
                Err(UdpSocketError::NoMemory) if index > 0 => self.rare_counters().dropped_udp_full.count(),
                queued => queued?,
            }
        }
        Ok(transmit.contents.len())
    }

    /// Copies received data into `buf`: one datagram or, with `many`, as many of one size from one peer as
    /// fit, one after the other.
    ///
    /// # Errors
    /// [`UdpSocketError::WouldBlock`] if there is nothing; [`UdpSocketError::Refused`], once, if the peer's
    /// host said so.
    pub fn udp_receive(&mut self, id: UdpId, buf: &mut [u8], many: bool) -> Result<UdpMeta, UdpSocketError> {
        self.udp_update(id, |socket| socket.read(buf, many))?
    }

    /// Copies the first datagram into `buf` without removing it.
    ///
    /// # Errors
    /// As [`udp_receive`](Self::udp_receive).
    pub fn udp_peek(&mut self, id: UdpId, buf: &mut [u8]) -> Result<UdpMeta, UdpSocketError> {
        self.udp_update(id, |socket| socket.peek(buf))?
    }

    /// Whether there is a datagram or an error to receive.
    ///
    /// # Errors
    /// The socket has been closed.
    pub fn udp_is_readable(&self, id: UdpId) -> Result<bool, UdpSocketError> {
        self.udp_socket(id).map(Socket::is_readable)
    }

    /// Whether there is room to send, or an error to report. If not, [`Event::Udp`](crate::Event::Udp)
    /// reports when there is.
    ///
    /// # Errors
    /// The socket has been closed.
    pub fn udp_is_writable(&mut self, id: UdpId) -> Result<bool, UdpSocketError> {
        self.udp_update(id, Socket::is_writable)
    }

    /// Whether [`Event::Udp`](crate::Event::Udp) will report room to a caller that waits for it: it has
    /// asked, and there is none.
    ///
    /// # Errors
    /// The socket has been closed.
    pub fn udp_awaits_room(&self, id: UdpId) -> Result<bool, UdpSocketError> {
        self.udp_socket(id).map(Socket::awaits_room)
    }

    /// Whether an error has not been reported yet.
    ///
    /// # Errors
    /// The socket has been closed.
    pub fn udp_has_error(&self, id: UdpId) -> Result<bool, UdpSocketError> {
        self.udp_socket(id).map(Socket::has_error)
    }

    /// The error that has not been reported yet.
    ///
    /// # Errors
    /// That error; or the socket has been closed.
    pub fn udp_take_error(&mut self, id: UdpId) -> Result<(), UdpSocketError> {
        self.udp_update(id, Socket::take_error)?
    }

    /// Sets the time to live of datagrams from now on; `None`: the endpoint's.
    ///
    /// # Errors
    /// The socket has been closed.
    pub fn udp_set_ttl(&mut self, id: UdpId, ttl: Option<u8>) -> Result<(), UdpSocketError> {
        self.udp_update(id, |socket| socket.set_ttl(ttl))
    }

    /// Sets the traffic class of datagrams from now on: see [`UdpOptions::traffic_class`].
    ///
    /// # Errors
    /// The socket has been closed.
    pub fn udp_set_traffic_class(&mut self, id: UdpId, traffic_class: u8) -> Result<(), UdpSocketError> {
        self.udp_update(id, |socket| socket.set_traffic_class(traffic_class))
    }

    /// Whether datagrams leave in fragments from now on if they are longer than the path's packets: see
    /// [`UdpOptions::fragments`].
    ///
    /// # Errors
    /// The socket has been closed.
    pub fn udp_set_fragments(&mut self, id: UdpId, wanted: bool) -> Result<(), UdpSocketError> {
        self.udp_update(id, |socket| socket.set_fragments(wanted))
    }

    /// The addresses that a socket is bound and connected to.
    ///
    /// # Errors
    /// The socket has been closed.
    pub fn udp_names(&self, id: UdpId) -> Result<UdpNames, UdpSocketError> {
        let socket = self.udp_socket(id)?;
        Ok(UdpNames {
            bound: socket.addr(),
            ttl: socket.options().ttl.unwrap_or(self.config.tcp.ttl),
            traffic_class: socket.options().traffic_class,
            fragments: socket.options().fragments,
            peer: socket.remote().zip(socket.source()),
        })
    }

    /// The largest datagram payload that the link to this address carries, or less if a router said so.
    #[must_use]
    pub fn udp_payload_max(&self, remote: IpAddr) -> usize {
        let headers = if remote.is_ipv4() { 20 + UDP_LEN } else { 40 + UDP_LEN };
        self.udp_path_mtu(remote).min(65_535).saturating_sub(headers)
    }

    /// The number of UDP sockets.
    #[must_use]
    pub fn udp_sockets(&self) -> usize {
        self.non_tcp.as_ref().map_or(0, |non_tcp| non_tcp.udp.len())
    }

    /// The next packet that arrived and is not the endpoint's.
    pub fn poll_other(&mut self) -> Option<OtherPacket> {
        self.non_tcp.as_mut()?.others.pop()
    }

    /// Whether [`poll_other`](Self::poll_other) would return a packet.
    #[must_use]
    pub fn has_other(&self) -> bool {
        self.non_tcp.as_ref().is_some_and(|non_tcp| !non_tcp.others.arrived.is_empty())
    }

    /// Whether [`Event::OtherRoom`](crate::Event::OtherRoom) will report room to a caller that waits for it:
    /// it has asked, and there is none.
    #[must_use]
    pub fn awaits_other_room(&self) -> bool {
        self.non_tcp.as_ref().is_some_and(|non_tcp| non_tcp.others.awaits_room())
    }

    /// Whether [`send_other`](Self::send_other) has room for a packet. If not,
    /// [`Event::OtherRoom`](crate::Event::OtherRoom) reports when it has.
    pub fn has_other_room(&mut self) -> bool {
        self.config.other_packets == 0 || self.non_tcp().others.has_room()
    }

    /// Sends a whole IP packet of any kind. An unfinished checksum is finished, and a packet with a segment
    /// size is cut. A packet to one of the endpoint's addresses comes back to it.
    ///
    /// # Errors
    /// See [`OtherError`]; nothing has been sent then.
    pub fn send_other(&mut self, now: Instant, packet: &OtherPacket) -> Result<(), OtherError> {
        self.advance(now);
        if self.config.other_packets == 0 {
            return Err(OtherError::Off);
        }
        let to = destination(&packet.bytes).ok_or(OtherError::Malformed)?;
        if !self.has_other_room() {
            return Err(OtherError::Full);
        }
        let mut whole = Vec::new();
        packet.whole(|packet| whole.push(packet.to_vec()));
        let mtu = self.addresses.mtu_to(to);
        if whole.iter().any(|packet| packet.len() > mtu) {
            return Err(OtherError::TooLong { mtu });
        }
        let budget = self.memory.budget().clone();
        let non_tcp = self.non_tcp();
        let (all, mut sent) = (whole.len(), 0_usize);
        for packet in whole {
            sent.grow(usize::from(non_tcp.outbox.push(&budget, Origin::Other, packet)));
        }
        non_tcp.others.queued(sent);
        let counters = self.rare_counters();
        counters.others_sent.grow(sent as u64);
        counters.dropped_other_full.grow(all.saturating_sub(sent) as u64);
        if sent == 0 { Err(OtherError::NoMemory) } else { Ok(()) }
    }

    /// Closes the channel of other packets. Packets that arrive from now on are refused, as without a
    /// channel.
    pub fn close_others(&mut self) {
        self.config.other_packets = 0;
        if let Some(non_tcp) = &mut self.non_tcp {
            non_tcp.others.close();
        }
    }

    /// Gives a packet that is not the endpoint's to the program that handles such packets, if there is one.
    #[cold]
    pub(super) fn divert(&mut self, frame: &Frame<'_>) -> bool {
        // Packets from the endpoint to itself are not for others.
        if self.config.other_packets == 0 || frame.looped {
            return false;
        }
        if self.goes_to_first(frame) {
            return true;
        }
        let budget = self.memory.budget().clone();
        let taken = self.non_tcp().others.push(frame.packet.bytes, frame.packet.meta, &budget);
        let counters = self.rare_counters();
        (if taken { &mut counters.others_received } else { &mut counters.dropped_other_full }).count();
        true
    }

    /// A datagram arrived.
    #[cold]
    pub(super) fn handle_udp(&mut self, now: Instant, ip: &IpPacket<'_>, bytes: &[u8], frame: &Frame<'_>) {
        // No known device delivers a coalesced datagram; its checksum would be that of the whole.
        let datagram = match UdpDatagram::parse(ip.src, ip.dst, bytes, frame.packet.meta.checksum) {
            Ok(datagram) => datagram,
            Err(UdpError::Checksum) => return self.rare_counters().dropped_udp_checksum.count(),
            Err(_) => return self.rare_counters().dropped_malformed_udp.count(),
        };
        // RFC 1122 §4.1.3.6: an invalid source is discarded, by UDP or by IP.
        if !frame.looped && !self.addresses.valid_source(ip.src) {
            return self.counters.dropped_martian_source.count();
        }
        let from = SocketAddr::new(ip.src, datagram.src_port);
        let to = SocketAddr::new(ip.dst, datagram.dst_port);
        if ip.dst.is_multicast() {
            return self.deliver_to_group(from, to, ip, datagram.payload, frame);
        }
        let bound = self.non_tcp.as_ref().and_then(|non_tcp| non_tcp.udp.find(to, from));
        match bound.filter(|&id| self.is_heard_by(id, ip.dst)) {
            Some(id) => self.deliver_datagram(id, from, to, ip, datagram.payload),
            None if self.divert(frame) => {}
            None if !self.addresses.is_own(ip.dst) => self.counters.dropped_not_local.count(),
            None => {
                self.rare_counters().dropped_udp_unbound.count();
                // RFC 1122 §4.1.3.1: a datagram for a port without a socket SHOULD be answered by port
                // unreachable.
                if self.config.port_unreachable {
                    self.send_error(now, OutgoingIcmpError::PortUnreachable, frame.packet.bytes, ip);
                }
            }
        }
    }

    /// A datagram for a multicast group goes to each socket that listens to it. No error answers it.
    fn deliver_to_group(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        ip: &IpPacket<'_>,
        payload: &[u8],
        frame: &Frame<'_>,
    ) {
        let members = self.non_tcp.as_ref().map_or(Vec::new(), |non_tcp| non_tcp.udp.members(to, from));
        if members.is_empty() && !self.divert(frame) {
            self.counters.dropped_not_local.count();
        }
        for id in members {
            self.deliver_datagram(id, from, to, ip, payload);
        }
    }

    fn deliver_datagram(
        &mut self,
        id: UdpId,
        from: SocketAddr,
        to: SocketAddr,
        ip: &IpPacket<'_>,
        payload: &[u8],
    ) {
        let lease = self.memory.budget().try_lease(UdpOptions::held_by(payload.len()));
        let ecn = ip.ecn();
        let taken = lease.is_some_and(|lease| {
            let datagram = Datagram { from, to, ecn, payload: payload.to_vec(), lease };
            self.udp_update(id, |socket| socket.receive(datagram)) == Ok(true)
        });
        let counters = self.rare_counters();
        let counter = if taken { &mut counters.udp_received } else { &mut counters.dropped_udp_full };
        counter.count();
    }

    /// An ICMP error about a datagram of ours. Returns `false` if it is not about one.
    // RFC 1122 §4.1.3.3: UDP MUST pass errors that it receives to the application layer.
    pub(super) fn handle_udp_error(&mut self, ip: &IpPacket<'_>) -> bool {
        let report = match ip.payload {
            IpPayload::Icmp4(bytes) => parse_udp_error4(bytes),
            IpPayload::Icmp6(bytes) => parse_udp_error6(bytes),
            _ => None,
        };
        let Some(UdpReport { kind, src, dst, packet_len }) =
            report.filter(|report| report.src.ip() == ip.dst)
        else {
            return false;
        };
        let Some(id) = self.non_tcp.as_ref().and_then(|non_tcp| non_tcp.udp.find(src, dst)) else {
            return false;
        };
        self.counters.icmp_delivered.count();
        // Soft errors end nothing, and an unconnected socket would not know which peer is meant.
        let connected = self.udp_socket(id).is_ok_and(|socket| socket.remote() == Some(dst));
        match kind {
            IcmpKind::PortUnreachable | IcmpKind::ProtocolUnreachable if connected => {
                self.udp_update(id, |socket| socket.fail_once(UdpSocketError::Refused)).ok();
            }
            IcmpKind::PacketTooBig { mtu } if connected => {
                self.datagram_too_big(id, dst.ip(), mtu, packet_len)
            }
            _ => {}
        }
        true
    }

    /// A router had a datagram of this length, larger than the next link's MTU.
    // A quoted datagram only proves that its sender knows the names of a socket and of the socket's peer. A
    // message is therefore believed only within the bounds of RFC 5927 §7, which leave an attacker little,
    // and not if it contradicts itself. Sockets without a peer, whose names are half known, believe none.
    fn datagram_too_big(&mut self, id: UdpId, remote: IpAddr, mtu: u32, packet_len: u32) {
        let known = u32::try_from(self.udp_path_mtu(remote)).unwrap_or(u32::MAX);
        let too_long = packet_len.min(known.saturating_add(1));
        let believed = believed_mtu(mtu, too_long, remote.is_ipv4());
        let Some(told) = believed.filter(|&told| told < known && told < packet_len) else { return };
        let now = self.clock.now();
        self.non_tcp().paths.learn(now, remote, told);
        let max = self.udp_payload_max(remote);
        self.udp_update(id, |socket| socket.fail_once(UdpSocketError::PathTooSmall { max })).ok();
    }

    fn udp_path_mtu(&self, remote: IpAddr) -> usize {
        let learned = self.non_tcp.as_ref().and_then(|non_tcp| non_tcp.paths.get(self.clock.now(), remote));
        let mtu = self.addresses.mtu_to(remote);
        learned.and_then(|learned| usize::try_from(learned).ok()).map_or(mtu, |learned| learned.min(mtu))
    }

    fn udp_queue(&mut self, id: UdpId, header: &UdpHeader, payload: &[u8]) -> Result<(), UdpSocketError> {
        let max = self.udp_payload_max(header.dst.ip());
        let packet = write_udp(header, payload).ok_or(UdpSocketError::TooLong { max })?;
        let is_own = self.addresses.is_own(header.dst.ip());
        if is_own || payload.len() <= max {
            return self.udp_push(id, Origin::Udp(id), packet);
        }
        let mtu = self.addresses.mtu_to(header.dst.ip());
        let mtu = if header.dst.is_ipv4() { mtu } else { mtu.min(V6_FRAGMENT_BYTES) };
        let identification = self.non_tcp().identifications.next(header.src.ip(), header.dst.ip());
        let mut pieces = fragments(&packet, mtu, identification).ok_or(UdpSocketError::TooLong { max })?;
        let last = pieces.pop();
        for piece in pieces {
            self.udp_push(id, Origin::UdpFragment(id), piece)?;
        }
        last.map_or(Ok(()), |last| self.udp_push(id, Origin::Udp(id), last))
    }

    /// Queues a packet of a socket.
    fn udp_push(&mut self, id: UdpId, origin: Origin, packet: Vec<u8>) -> Result<(), UdpSocketError> {
        let (bytes, budget) = (packet.len(), self.memory.budget().clone());
        if !self.non_tcp().outbox.push(&budget, origin, packet) {
            return Err(UdpSocketError::NoMemory);
        }
        self.udp_update(id, |socket| socket.on_queued(bytes))
    }

    /// Bytes of each datagram in a call.
    fn udp_segment_size(
        &self,
        transmit: &UdpTransmit<'_>,
        to: SocketAddr,
        fragments: bool,
    ) -> Result<usize, UdpSocketError> {
        let len = transmit.contents.len();
        let size = transmit.segment_size.unwrap_or(len.max(1));
        if size == 0 || len.div_ceil(size) > UdpTransmit::SEGMENTS_MAX {
            return Err(UdpSocketError::Segments { max: UdpTransmit::SEGMENTS_MAX });
        }
        let max = if fragments { longest_datagram(to.ip()) } else { self.udp_payload_max(to.ip()) };
        if size.min(len) > max { Err(UdpSocketError::TooLong { max }) } else { Ok(size) }
    }

    /// The address from which a socket bound to `addr` sends to `remote`.
    fn udp_source(
        &self,
        addr: ListenAddr,
        wanted: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Result<IpAddr, UdpSocketError> {
        if !self.addresses.valid_peer(remote) {
            return Err(UdpSocketError::InvalidRemote(remote));
        }
        let wanted_addr = wanted.filter(|wanted| !wanted.ip().is_unspecified());
        let source = match wanted_addr {
            Some(wanted) => {
                let fits = addr.addr.is_none_or(|addr| addr == wanted.ip())
                    && addr.port.is_none_or(|port| port == wanted.port() || wanted.port() == 0)
                    && self.addresses.valid_destination(wanted.ip());
                Some(wanted.ip()).filter(|_| fits).ok_or(UdpSocketError::WrongSource(wanted))?
            }
            None => match addr.addr {
                Some(addr) => addr,
                None => self.addresses.source_for(remote.ip()).ok_or_else(|| self.no_source(remote))?,
            },
        };
        let same_family = source.is_ipv4() == remote.is_ipv4();
        if same_family { Ok(source) } else { Err(UdpSocketError::NoLocalAddress(remote.ip())) }
    }

    /// Whether a socket still serves an address. One that names an address that is no longer ours does not,
    /// unless it may have any.
    fn is_heard_by(&self, id: UdpId, addr: IpAddr) -> bool {
        let any = self.udp_socket(id).is_ok_and(|socket| socket.addr().addr.is_none());
        self.addresses.valid_destination(addr) && (any || self.addresses.may_be_local(addr))
    }

    fn no_source(&self, remote: SocketAddr) -> UdpSocketError {
        match self.addresses.source_for(remote.ip()) {
            Some(_) => UdpSocketError::NoSource,
            None => UdpSocketError::NoLocalAddress(remote.ip()),
        }
    }

    fn udp_socket(&self, id: UdpId) -> Result<&Socket, UdpSocketError> {
        self.non_tcp.as_ref().and_then(|non_tcp| non_tcp.udp.get(id)).ok_or(UdpSocketError::Closed)
    }

    fn udp_update<R>(&mut self, id: UdpId, f: impl FnOnce(&mut Socket) -> R) -> Result<R, UdpSocketError> {
        self.non_tcp.as_mut().and_then(|non_tcp| non_tcp.udp.update(id, f)).ok_or(UdpSocketError::Closed)
    }

    /// Takes the next whole packet out of the outbox. Returns whether it is for the endpoint itself.
    pub(super) fn take_whole(&mut self) -> Option<bool> {
        let non_tcp = self.non_tcp.as_mut()?;
        let (origin, bytes) = non_tcp.outbox.take()?;
        let destination = non_tcp.outbox.taken_destination();
        match origin {
            Origin::Icmp => {}
            Origin::Other => non_tcp.others.on_left(),
            Origin::UdpFragment(id) => {
                non_tcp.udp.update(id, |socket| socket.on_left(bytes));
            }
            Origin::Udp(id) => {
                non_tcp.udp.update(id, |socket| socket.on_left(bytes));
                self.rare_counters().udp_sent.count();
            }
        }
        Some(destination.is_some_and(|addr| self.addresses.is_own(addr)))
    }

    /// Answers an echo request, or keeps it for the program. Returns `false` if the packet is not one, or not
    /// one that is answered here.
    // RFC 1122 §3.2.2.6: every host MUST implement an echo server function. RFC 4443 §4.2: every node. A
    // request to a broadcast or multicast address MAY be silently discarded, and is ignored here.
    pub(super) fn answer_echo(&mut self, now: Instant, ip: &IpPacket<'_>, frame: &Frame<'_>) -> bool {
        if self.config.echo_replies_per_second == 0 || !is_echo_request(ip) {
            return false;
        }
        let policy = if self.addresses.is_own(ip.dst) {
            PingPolicy::Any
        } else if self.addresses.valid_destination(ip.dst) {
            self.config.pings
        } else {
            PingPolicy::Own
        };
        match policy {
            PingPolicy::Own => return false,
            PingPolicy::Any => {
                self.reply_to_echo(now, frame.packet.bytes, ip);
            }
            PingPolicy::Deferred => self.defer_ping(frame),
        }
        true
    }

    /// Answers this echo request, if the limit allows it. Returns whether a reply leaves.
    pub(super) fn reply_to_echo(&mut self, now: Instant, request: &[u8], ip: &IpPacket<'_>) -> bool {
        let (per_second, mtu) = (self.config.echo_replies_per_second, self.addresses.mtu_to(ip.src));
        if !self.non_tcp().echoes.allows(now, per_second) {
            self.rare_counters().dropped_icmp_limited.count();
            return false;
        }
        let reply = write_echo_reply(request, ip, self.config.tcp.ttl, mtu);
        let sent = reply.is_some_and(|reply| self.send_icmp(reply));
        self.rare_counters().echoes_answered.grow(u64::from(sent));
        sent
    }

    /// Sends an error about a packet that arrived, if one may be sent and the limits allow it.
    pub(super) fn send_error(
        &mut self,
        now: Instant,
        error: OutgoingIcmpError,
        about: &[u8],
        ip: &IpPacket<'_>,
    ) {
        let IpPacket { src, dst, .. } = *ip;
        // RFC 1122 §3.2.2, RFC 4443 §2.4 (e): none about an error, none to or about other than single hosts.
        if is_icmp_error(ip) || !self.addresses.is_own(dst) || !self.addresses.valid_destination(src) {
            return;
        }
        if !self.non_tcp().errors.allows(now, src) {
            self.rare_counters().dropped_icmp_limited.count();
            return;
        }
        if let Some(packet) = self.error_packet(error, about, dst, src) {
            let sent = self.send_icmp(packet);
            self.rare_counters().icmp_errors_sent.grow(u64::from(sent));
        }
    }

    /// Tells a client that the destination of its SYN, which had this sequence number, is unreachable.
    /// Returns `false` if no error may be sent now.
    // Deviation from RFC 1812 §4.3.2.3: the quotation is not the SYN as it came, because no copy is kept
    // while it waits for a decision. It has the SYN's addresses, ports and sequence number, by which a host
    // finds the connection; the other fields of its IP header are this endpoint's.
    pub(super) fn send_unreachable(
        &mut self,
        now: Instant,
        why: Unreachable,
        tuple: &FourTuple,
        irs: SeqNum,
    ) -> bool {
        let clients = FourTuple::new(tuple.remote(), tuple.local());
        let syn = bare(irs, SeqNum::default(), Flags::SYN);
        let mut quoted = [0; HEADER_MAX];
        write_control(&mut quoted, &control(&clients, self.config.tcp.ttl, FlowLabel::NONE, syn));
        let (client, dialled) = (tuple.remote().ip(), tuple.local().ip());
        // RFC 1122 §3.2.2: the IP header and at least the first 8 octets of what follows.
        let quoted_len = if client.is_ipv4() { 20 + 8 } else { 40 + 8 };
        let quoted = quoted.get(..quoted_len).unwrap_or_default();
        self.report_unreachable(now, why, quoted, (client, dialled))
    }

    /// Tells the sender of this packet that its destination is unreachable, if the limits allow it. Returns
    /// whether the error leaves.
    pub(super) fn report_unreachable(
        &mut self,
        now: Instant,
        why: Unreachable,
        about: &[u8],
        (client, dialled): (IpAddr, IpAddr),
    ) -> bool {
        if !self.non_tcp().errors.allows(now, client) {
            self.rare_counters().dropped_icmp_limited.count();
            return false;
        }
        let error = match why {
            Unreachable::Network => OutgoingIcmpError::NetworkUnreachable,
            Unreachable::Host => OutgoingIcmpError::HostUnreachable,
            Unreachable::Prohibited => OutgoingIcmpError::Prohibited,
        };
        // From an address of ours, as a router would; a stack without addresses uses the destination's.
        let from = self.addresses.source_for(client).unwrap_or(dialled);
        let packet = self.error_packet(error, about, from, client);
        let sent = packet.is_some_and(|packet| self.send_icmp(packet));
        self.rare_counters().icmp_errors_sent.grow(u64::from(sent));
        sent
    }

    fn error_packet(
        &self,
        error: OutgoingIcmpError,
        about: &[u8],
        from: IpAddr,
        to: IpAddr,
    ) -> Option<Vec<u8>> {
        write_error(error, about, from, to, self.config.tcp.ttl)
    }

    fn send_icmp(&mut self, packet: Vec<u8>) -> bool {
        let budget = self.memory.budget().clone();
        let room = self.non_tcp().outbox.push(&budget, Origin::Icmp, packet);
        if !room {
            self.counters.dropped_replies.count();
        }
        room
    }

    /// Gives up fragments that have waited too long.
    // RFC 1122 §3.3.2, RFC 8200 §4.5: ICMP reports it to the source, if the first fragment has arrived.
    pub(super) fn reassembly_timeouts(&mut self, now: Instant) {
        let expired = |endpoint: &mut Self| endpoint.non_tcp.as_mut()?.reassembler.as_mut()?.expire(now);
        while let Some(first) = expired(self) {
            self.rare_counters().dropped_reassembly_time.count();
            let Some(first) = first else { continue };
            if let Ok(fragment) = Fragment::parse(&first) {
                let Fragment { src, dst, payload, protocol, .. } = fragment;
                let payload = match protocol {
                    1 => IpPayload::Icmp4(payload),
                    58 => IpPayload::Icmp6(payload),
                    other => IpPayload::Other(other),
                };
                let ip = IpPacket { src, dst, ttl: 0, traffic_class: 0, payload };
                self.send_error(now, OutgoingIcmpError::ReassemblyTime, &first, &ip);
            }
        }
    }
}

/// The most packets that wait to come back.
const LOOPED_MAX: usize = 256;

/// The numbers by which fragments find together.
///
/// A count that all destinations share tells each how much is sent to the others, and an attacker which
/// number comes next. So the number is a keyed permutation of the count for each pair of addresses: a Feistel
/// network of four rounds. It repeats only after all others, 65,536 over IPv4.
#[derive(Debug)]
struct Identifications {
    key: Key,
    count: u32,
}

impl Identifications {
    fn new(key: Key) -> Self {
        Self { key, count: 0 }
    }

    fn next(&mut self, src: IpAddr, dst: IpAddr) -> u32 {
        self.count = self.count.wrapping_add(1);
        let pair = FourTuple::new(SocketAddr::new(src, 0), SocketAddr::new(dst, 0));
        let half_bits: u32 = if src.is_ipv4() { 8 } else { 16 };
        let mask = u64::from(u32::MAX.wrapping_shr(u32::BITS.saturating_sub(half_bits)));
        let (mut left, mut right) =
            (u64::from(self.count).wrapping_shr(half_bits) & mask, u64::from(self.count) & mask);
        for round in 0..4 {
            let word = u32::try_from(right).unwrap_or(u32::MAX);
            let mixed = self.key.hash24_tuple(&pair, [round, word]);
            (left, right) = (right, left ^ mixed & mask);
        }
        u32::try_from(left.wrapping_shl(half_bits) | right).unwrap_or(u32::MAX)
    }
}

/// The longest payload of a datagram, in fragments.
fn longest_datagram(remote: IpAddr) -> usize {
    if remote.is_ipv4() { 65_535 - 20 - UDP_LEN } else { 65_535 - UDP_LEN }
}

/// RFC 8200 §5: every link carries packets of this length.
const V6_FRAGMENT_BYTES: usize = 1280;

/// The length of an IP header without IPv6 extension headers.
fn ip_header_len(bytes: &[u8]) -> u16 {
    match bytes.first() {
        Some(first) if first >> 4 == 4 => u16::from(first & 15) * 4,
        _ => 40,
    }
}

/// The destination of a whole IP packet; `None` if its length fields contradict its bytes.
fn destination(bytes: &[u8]) -> Option<IpAddr> {
    let length = |at: usize| Some(usize::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)));
    let (claimed, addr): (usize, IpAddr) = match bytes.first()? >> 4 {
        4 => (length(2)?, (*bytes.get(16..)?.first_chunk::<4>()?).into()),
        6 => (length(4)?.saturating_add(40), (*bytes.get(24..)?.first_chunk::<16>()?).into()),
        _ => return None,
    };
    (claimed == bytes.len() && usize::from(ip_header_len(bytes)) <= bytes.len()).then_some(addr)
}

/// The most ICMP messages that wait.
const ICMP_MAX: usize = 64;

ackclock_form::form! {
    struct NonTcp {
        outbox, outbox_first, looped, others, pings, udp, paths, identifications, reassembler, echoes,
        errors, servers, counters
    }
    struct Looped { bytes as byte_string, meta, _lease }
    struct Outbox { queue, taken, icmp } => |outbox| outbox.icmp == outbox.queue.iter().filter(|waiting| waiting.origin == Origin::Icmp).count();
    enum Origin { 0 Icmp, 1 Udp(value), 2 UdpFragment(value), 3 Other }
    struct Waiting { bytes as byte_string, origin, _lease }
    struct Others { max, arrived, leaving, readable, writable, refused }
    struct Identifications { key, count }
}
