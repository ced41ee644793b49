//! UDP at an endpoint: the application's calls, datagrams that arrive, and errors about them (RFC 768,
//! RFC 1122 §4.1).

use std::net::{IpAddr, SocketAddr};

use ackclock_control::tally::Tally;
use ackclock_wire::icmp_out::IcmpError;
use ackclock_wire::{
    IcmpKind, IpPacket, IpPayload, UdpDatagram, UdpError, UdpHeader, UdpReport, parse_udp_error4,
    parse_udp_error6, udp::UDP_LEN, write_udp,
};

use super::Endpoint;
use super::input::Frame;
use super::outbox::Origin;
use super::taken::Use;
use crate::connection::believed_mtu;
use crate::udp::{Datagram, Socket};
use crate::{
    FourTuple, Instant, ListenAddr, UdpId, UdpMeta, UdpNames, UdpOptions, UdpSocketError, UdpTransmit,
};

impl Endpoint {
    /// Binds a UDP socket. Port 0 requests a free one. An address or port of `None` means any, including
    /// addresses that are not the endpoint's.
    ///
    /// # Errors
    /// The address is not ours or in use, or there are too many sockets.
    pub fn udp_bind(&mut self, now: Instant, mut options: UdpOptions) -> Result<UdpId, UdpSocketError> {
        self.advance(now);
        if let Some(addr) = options.addr.addr.filter(|&addr| !self.addresses.is_own(addr)) {
            return Err(UdpSocketError::NotLocal(addr));
        }
        let addr = options.addr.addr;
        let wanted = Use::Datagrams(addr);
        if options.addr.port == Some(0) {
            let free = self.find_port(wanted, |endpoint, port| {
                let is_taken = endpoint.beside().udp.has(ListenAddr { addr, port: Some(port) });
                if is_taken {
                    endpoint.taken(|taken| taken.learn(wanted, port));
                }
                !is_taken
            });
            options.addr.port = Some(free.ok_or(UdpSocketError::AddressInUse)?);
        }
        let port = options.addr.port;
        let id = self.beside().udp.insert(Socket::new(options))?;
        if let Some(port) = port {
            self.taken(|taken| taken.note(wanted, port));
        }
        Ok(id)
    }

    /// Closes a socket. Datagrams that wait to be read are dropped; those that wait to be sent leave.
    pub fn udp_close(&mut self, id: UdpId) {
        if let Some(port) = self.beside().udp.remove(id).and_then(|addr| addr.port) {
            self.taken(|taken| taken.released(port));
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
        let size = self.udp_segment_size(transmit, to)?;
        if !self.udp_update(id, Socket::is_writable)? {
            return Err(UdpSocketError::WouldBlock);
        }
        let now = self.now;
        self.beside().paths.on_sent(now, to.ip());
        let flow_label = self.flow_labels.of(&FourTuple::new(src, to)).current();
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

    /// The same with one datagram, without removing it.
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
            peer: socket.remote().zip(socket.source()),
        })
    }

    /// The largest datagram payload to this address: what the link there carries, or less if a router said
    /// so.
    #[must_use]
    pub fn udp_payload_max(&self, remote: IpAddr) -> usize {
        let headers = if remote.is_ipv4() { 20 + UDP_LEN } else { 40 + UDP_LEN };
        self.udp_path_mtu(remote).min(65_535).saturating_sub(headers)
    }

    fn udp_path_mtu(&self, remote: IpAddr) -> usize {
        let learned = self.beside.as_ref().and_then(|beside| beside.paths.get(self.now, remote));
        let mtu = self.mtu_to(remote);
        learned.and_then(|learned| usize::try_from(learned).ok()).map_or(mtu, |learned| learned.min(mtu))
    }

    /// The number of UDP sockets.
    #[must_use]
    pub fn udp_sockets(&self) -> usize {
        self.beside.as_ref().map_or(0, |beside| beside.udp.len())
    }

    /// A datagram arrived.
    #[cold]
    pub(super) fn handle_udp(&mut self, now: Instant, ip: &IpPacket<'_>, bytes: &[u8], frame: &Frame<'_>) {
        // No known device delivers a coalesced datagram; its checksum would be that of the whole.
        let datagram = match UdpDatagram::parse(ip.src, ip.dst, bytes, frame.meta.checksum) {
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
        let bound = self.beside.as_ref().and_then(|beside| beside.udp.find(to, from));
        match bound.filter(|&id| self.is_heard_by(id, ip.dst)) {
            Some(id) => self.deliver_datagram(id, from, to, ip, datagram.payload),
            None if self.divert(frame) => {}
            None if !self.addresses.is_own(ip.dst) => self.counters.dropped_not_local.count(),
            None => {
                self.rare_counters().dropped_udp_unbound.count();
                // RFC 1122 §4.1.3.1: a datagram for a port without a socket SHOULD be answered by port
                // unreachable.
                if self.config.port_unreachable {
                    self.send_error(now, IcmpError::PortUnreachable, frame.packet, ip);
                }
            }
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
        let lease = self.budget.try_lease(UdpOptions::held_by(payload.len()));
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
        let Some(id) = self.beside.as_ref().and_then(|beside| beside.udp.find(src, dst)) else {
            return false;
        };
        self.counters.icmp_delivered.count();
        // Soft errors end nothing, and an unconnected socket could not tell which of its peers is meant.
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
        let now = self.now;
        self.beside().paths.learn(now, remote, told);
        let max = self.udp_payload_max(remote);
        self.udp_update(id, |socket| socket.fail_once(UdpSocketError::PathTooSmall { max })).ok();
    }

    /// A datagram has left the outbox.
    pub(super) fn on_datagram_left(&mut self, id: UdpId, bytes: usize) {
        self.rare_counters().udp_sent.count();
        self.udp_update(id, |socket| socket.on_left(bytes)).ok();
    }

    fn udp_queue(&mut self, id: UdpId, header: &UdpHeader, payload: &[u8]) -> Result<(), UdpSocketError> {
        let max = self.udp_payload_max(header.dst.ip());
        let packet = write_udp(header, payload).ok_or(UdpSocketError::TooLong { max })?;
        let (bytes, budget) = (packet.len(), self.budget.clone());
        if !self.beside().outbox.push(&budget, Origin::Udp(id), packet) {
            return Err(UdpSocketError::NoMemory);
        }
        self.udp_update(id, |socket| socket.on_queued(bytes))
    }

    /// Bytes of each datagram in a call.
    fn udp_segment_size(&self, transmit: &UdpTransmit<'_>, to: SocketAddr) -> Result<usize, UdpSocketError> {
        let len = transmit.contents.len();
        let size = transmit.segment_size.unwrap_or(len.max(1));
        if size == 0 || len.div_ceil(size) > UdpTransmit::SEGMENTS_MAX {
            return Err(UdpSocketError::Segments { max: UdpTransmit::SEGMENTS_MAX });
        }
        let max = self.udp_payload_max(to.ip());
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

    /// Whether a socket still serves an address. One that names an address that is no longer ours does not.
    fn is_heard_by(&self, id: UdpId, addr: IpAddr) -> bool {
        let any = self.udp_socket(id).is_ok_and(|socket| socket.addr().addr.is_none());
        self.addresses.valid_destination(addr) && (any || self.addresses.is_own(addr))
    }

    fn no_source(&self, remote: SocketAddr) -> UdpSocketError {
        match self.addresses.source_for(remote.ip()) {
            Some(_) => UdpSocketError::NoSource,
            None => UdpSocketError::NoLocalAddress(remote.ip()),
        }
    }

    fn udp_socket(&self, id: UdpId) -> Result<&Socket, UdpSocketError> {
        self.beside.as_ref().and_then(|beside| beside.udp.get(id)).ok_or(UdpSocketError::Closed)
    }

    fn udp_update<R>(&mut self, id: UdpId, f: impl FnOnce(&mut Socket) -> R) -> Result<R, UdpSocketError> {
        self.beside.as_mut().and_then(|beside| beside.udp.update(id, f)).ok_or(UdpSocketError::Closed)
    }
}
