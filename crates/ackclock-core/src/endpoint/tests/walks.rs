//! An endpoint among clients that send segments, datagrams, fragments and errors of all kinds, with numbers
//! at and beside the edges of what is acceptable, beside plain lists of what it was asked for and has told.

mod edges;

use ackclock_control::profile::Ecn;
use ackclock_wire::{Cidr, Egress, FastOpenCookie, Route, UdpHeader, write_udp};

use super::icmp::{error, fix_checksum};
use super::*;
use crate::endpoint::{BoundId, Sharing};
use crate::walks::{Walk, each};
use crate::{BindOptions, IncomingId, OtherPacket, ReassemblyConfig, UdpId, UdpOptions, UdpTransmit};

const STEPS: u64 = 150;
const SECOND: Duration = Duration::from_secs(1);

/// Walks after these meet packets of IPv6, damaged ones, and those from and to where none should be.
const COMMON: u64 = 80;

#[test]
fn an_endpoint_keeps_its_bounds_and_gives_everything_back() {
    each(COMMON + 60, |walk| {
        let mut town = Town::new(walk);
        let at_edges = walk.number() >= COMMON;
        for _ in 0..STEPS {
            if at_edges && walk.one_in(2) {
                edges::step(&mut town, walk);
            } else {
                town.step(walk);
            }
            town.check();
        }
        town.close();
    });
}

/// A host, what it has, and what its clients know of it.
struct Town {
    host: Host,
    /// Whether its clients have IPv6.
    v6: bool,
    listeners: Vec<ListenerId>,
    bound: Vec<BoundId>,
    incoming: Vec<(ListenerId, IncomingId)>,
    /// The ones of them that it accepted, and does not know to be gone.
    answered: Vec<(ListenerId, IncomingId)>,
    conns: Vec<ConnectionId>,
    udp: Vec<UdpId>,
    clients: [Client; 4],
    /// The cookie of Fast Open that a client was given last.
    cookie: Option<FastOpenCookie>,
    /// The broadcast addresses that it knows. It answers from any other that it was asked at.
    broadcast: Vec<IpAddr>,
    bounds: Bounds,
}

/// The most that it may have of each.
struct Bounds {
    connections: usize,
    listeners: usize,
    time_wait: usize,
    memory: usize,
}

/// A client by its port: what it sends next, and what it has seen.
#[derive(Clone, Copy)]
struct Client {
    seq: u32,
    seen: SeqNum,
    stamp: Option<u32>,
}

fn settings(walk: &mut Walk) -> EndpointConfig {
    let mut config = config(SERVER);
    config.addresses.push(ip("10.0.0.7"));
    if walk.number() >= COMMON {
        config.addresses.push(ip(edges::SERVER_V6));
        config.tell_changes = walk.one_in(2);
    }
    config.connections_max = walk.pick(&[1000, 1000, 3]);
    config.listeners_max = walk.pick(&[100, 3]);
    config.orphans_max = walk.pick(&[1000, 1]);
    config.time_wait_max = walk.pick(&[1000, 2]);
    config.memory_budget = walk.pick(&[1 << 30, 1 << 30, 100_000, 20_000]);
    config.other_packets = walk.pick(&[0, 3]);
    config.echo_replies_per_second = walk.pick(&[1000, 1, 0]);
    config.port_unreachable = !walk.one_in(4);
    config.ephemeral_ports = walk.pick(&[(1024, 65_535), (5000, 5002)]);
    let bounds = ReassemblyConfig { bytes_max: 8000, packets_max: 2, ..ReassemblyConfig::default() };
    config.reassembly = walk.pick(&[None, Some(bounds), Some(bounds)]).map(Box::new);
    config.tcp = tcp(walk).into();
    config
}

fn tcp(walk: &mut Walk) -> TcpConfig {
    let mut tcp = tcp_config();
    tcp.choices.ecn = walk.pick(&Ecn::ALL).1;
    tcp.choices.timestamps = !walk.one_in(4);
    tcp.choices.sack = !walk.one_in(4);
    tcp.choices.window_scaling = !walk.one_in(4);
    (tcp.time_wait, tcp.fin_wait_2_max) = walk.pick(&[(SECOND, SECOND), (60 * SECOND, 60 * SECOND)]);
    tcp.receive_buffer_max = walk.pick(&[6 << 20, 65_535, 3000]);
    if walk.number() >= COMMON {
        tcp.trace = edges::trace(walk);
    }
    tcp
}

impl Town {
    fn new(walk: &mut Walk) -> Self {
        let client = Client { seq: 1000, seen: SeqNum::new(0), stamp: None };
        let config = settings(walk);
        let bounds = Bounds {
            connections: config.connections_max,
            listeners: config.listeners_max,
            time_wait: config.time_wait_max,
            memory: config.memory_budget,
        };
        let mut town = Self {
            bounds,
            broadcast: config.broadcast.clone(),
            host: Host::with(config),
            v6: walk.number() >= COMMON && walk.one_in(2),
            listeners: Vec::new(),
            bound: Vec::new(),
            incoming: Vec::new(),
            answered: Vec::new(),
            conns: Vec::new(),
            udp: Vec::new(),
            clients: [client; 4],
            cookie: None,
        };
        town.listen(walk, PORT);
        town
    }

    fn server(&self) -> SocketAddr {
        if self.v6 { SocketAddr::new(ip(edges::SERVER_V6), PORT) } else { server() }
    }

    fn client(&self, number: usize) -> SocketAddr {
        let port = 4000 + number as u16;
        if self.v6 { SocketAddr::new(ip(edges::CLIENT_V6), port) } else { client(port) }
    }

    /// Checks the packets that left since, and the endpoint's reports.
    fn check(&mut self) {
        let now = self.host.now;
        while let Some(packet) = self.host.endpoint.poll_transmit(now, LIMITS) {
            let bytes = packet.to_vec();
            self.sends(&bytes);
            self.note(&bytes);
        }
        assert!(!self.host.endpoint.has_outgoing());
        for event in self.host.events() {
            match event {
                Event::Incoming(listener, id) => {
                    assert!(!self.incoming.contains(&(listener, id)), "told once");
                    self.incoming.push((listener, id));
                }
                Event::IncomingGone(listener, id) => {
                    let id = (listener, id);
                    let known = self.incoming.len() + self.answered.len();
                    self.incoming.retain(|one| *one != id);
                    self.answered.retain(|one| *one != id);
                    assert_eq!(self.incoming.len() + self.answered.len() + 1, known, "told once");
                }
                _ => {}
            }
        }
        let it = &self.host.endpoint;
        assert_eq!(it.connections().count(), it.connection_count());
        assert!(it.connection_count() <= self.bounds.connections);
        assert!(it.time_wait.len() <= self.bounds.time_wait);
        assert!(self.listeners.len() <= self.bounds.listeners);
        let (used, limit) = it.memory();
        assert!(used <= limit && limit == self.bounds.memory, "{used} of {limit}");
        for id in &self.conns {
            assert!(it.connection(*id).is_some(), "its owner has not released it");
        }
        assert!(self.listeners.iter().all(|id| it.listener_addr(*id).is_some()));
        assert!(self.bound.iter().all(|id| it.bound_addr(*id).is_some()));
        assert_eq!(it.udp_sockets(), self.udp.len());
        let counters = it.counters();
        assert!(counters.segments_delivered <= counters.packets_received + it.packets_looped());
        // A packet that arrives is dropped for one reason at most.
        let fates: u64 = counters.iter().filter(|(name, ..)| is_fate(name)).map(|(.., count)| count).sum();
        assert!(fates <= counters.packets_received + it.packets_looped(), "{counters:?}");
    }

    /// A packet that leaves is well-formed, comes from one host, and goes to one.
    fn sends(&self, packet: &[u8]) {
        if packet[0] >> 4 == 4 && packet[6] & 0x3f != 0 || packet[0] >> 4 == 6 && packet[6] == 44 {
            return;
        }
        let ip = IpPacket::parse(packet).unwrap();
        match ip.payload {
            IpPayload::Tcp(bytes) => {
                let segment = Segment::parse(ip.src, ip.dst, bytes, ChecksumState::Complete).unwrap();
                assert!(segment.src_port != 0 && segment.dst_port != 0);
            }
            IpPayload::Udp(bytes) => {
                let parsed =
                    ackclock_wire::UdpDatagram::parse(ip.src, ip.dst, bytes, ChecksumState::Complete);
                assert!(parsed.is_ok(), "{parsed:?}");
            }
            IpPayload::Icmp4(bytes) => assert_eq!(internet_checksum(bytes), 0),
            IpPayload::Icmp6(_) | IpPayload::Other(_) => {}
        }
        // A listener on any address answers from the one that was asked.
        for addr in [ip.src, ip.dst] {
            assert!(!addr.is_unspecified() && !addr.is_multicast(), "{ip:?}");
            // RFC 1122 §3.2.1.3: no packet comes from, and here none goes to, a broadcast address.
            assert!(!self.broadcast.contains(&addr), "{ip:?}");
        }
    }

    /// Everyone goes: nothing is left, after some time, of all these lives.
    fn close(mut self) {
        let now = self.host.now;
        let it = &mut self.host.endpoint;
        while let Some((_, id)) = self.incoming.pop() {
            it.decide(now, id, Decision::Drop);
        }
        self.answered.clear();
        self.listeners.drain(..).for_each(|id| it.close_listener(now, id));
        self.bound.drain(..).for_each(|id| it.release_bound(id));
        self.udp.drain(..).for_each(|id| it.udp_close(id));
        self.conns.drain(..).for_each(|id| it.release(now, id));
        it.close_others();
        self.check();
        let end = self.host.now + 7200 * SECOND;
        while let Some(due) = self.host.endpoint.poll_timeout().filter(|due| *due <= end) {
            self.host.now = self.host.now.max(due);
            self.host.endpoint.handle_timeout(self.host.now);
            self.check();
        }
        let it = &mut self.host.endpoint;
        while it.poll_trace().is_some() {}
        let left: Vec<_> = it.connections().map(|(_, connection)| connection.state()).collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!((it.time_wait.len(), it.memory().0), (0, 0));
        assert_eq!(it.poll_timeout(), None);
    }

    /// A client sees what is sent to it.
    fn note(&mut self, packet: &[u8]) {
        let Ok(ip) = IpPacket::parse(packet) else { return };
        let IpPayload::Tcp(bytes) = ip.payload else { return };
        let Ok(segment) = Segment::parse(ip.src, ip.dst, bytes, ChecksumState::Complete) else { return };
        let Some(client) = self.clients.get_mut(usize::from(segment.dst_port.wrapping_sub(4000))) else {
            return;
        };
        self.cookie = segment.options.fast_open.or(self.cookie);
        client.seen = segment.seq + segment.seq_len();
        client.stamp = segment.options.timestamps.map(|(value, _)| value).or(client.stamp);
        if segment.flags.contains(Flags::ACK) {
            client.seq = segment.ack.raw();
        }
    }

    fn step(&mut self, walk: &mut Walk) {
        match walk.below(24) {
            0..=2 => self.syn(walk),
            3..=9 => self.segment(walk),
            10 => self.icmp(walk),
            11 => self.datagram(walk),
            12 => self.fragments(walk),
            13 | 14 => {
                let span = walk.pick(&[0, 1, 200, 1000, 1000, 3000, 64_000, 130_000]);
                let end = self.host.now + Duration::from_millis(span);
                while let Some(due) = self.host.endpoint.poll_timeout().filter(|due| *due <= end) {
                    self.host.now = self.host.now.max(due);
                    self.host.endpoint.handle_timeout(self.host.now);
                    self.check();
                }
                self.host.now = end;
            }
            15..=18 => self.application(walk),
            19 => self.listens(walk),
            20 => self.device(walk),
            21 => self.sockets(walk),
            22 => self.connect(walk),
            _ => self.others(walk),
        }
    }

    fn arrives(&mut self, packet: &[u8], meta: RxMeta) {
        self.host.endpoint.handle_packet(self.host.now, packet, meta);
    }

    fn syn(&mut self, walk: &mut Walk) {
        let number = usize::try_from(walk.below(4)).unwrap();
        let client_now = &mut self.clients[number];
        client_now.seq = walk.pick(&[1000, 1000, client_now.seq.wrapping_add(70_000), u32::MAX]);
        let seq = client_now.seq;
        let mut fields = if walk.one_in(2) { syn_with_all_options(seq, 77) } else { syn(seq) };
        fields.flags = fields.flags | Flags::from_ace(walk.pick(&[0, 0, 0b011, 0b111, 0b001]));
        fields.options.mss = walk.pick(&[Some(1460), Some(0), Some(88), None, Some(9000)]);
        if walk.one_in(3) {
            fields.options.fast_open = self.cookie.or(Some(FastOpenCookie::REQUEST));
        }
        let to = SocketAddr::new(self.server().ip(), walk.pick(&[PORT, PORT, PORT, PORT, 81, 82]));
        let text = walk.pick(&[0, 0, 0, 10]);
        let packet = packet(self.client(number), to, fields, &vec![9; text]);
        self.arrives(&packet, VERIFIED);
    }

    /// A segment of a client that has, or may have, a connection.
    fn segment(&mut self, walk: &mut Walk) {
        let number = usize::try_from(walk.below(4)).unwrap();
        let known = self.clients[number];
        let flags = walk.flags();
        let seq = known.seq.wrapping_add(walk.pick(&[0, 0, 0, 0, 0, 1, u32::MAX, 1460, 65_535, 1 << 31]));
        let ack = known.seen + walk.pick(&[0, 0, 0, 0, 0, 1, u32::MAX, u32::MAX - 1459, 1 << 20]);
        let mut fields = fields(flags, seq, ack);
        fields.window = walk.pick(&[65_535, 65_535, 1460, 1, 0]);
        fields.urgent = walk.pick(&[0, 1, 50]);
        fields.flags = fields.flags | Flags::from_ace(walk.pick(&[0, 0, 0b010, 0b101]));
        if let Some(stamp) = known.stamp.filter(|_| !walk.one_in(6)) {
            fields.options.timestamps = Some((walk.pick(&[80, 80, 76, 100]), stamp));
        }
        let text = if flags.contains(Flags::SYN) { 0 } else { walk.pick(&[0, 0, 1, 100, 1460]) };
        let packet = packet(self.client(number), self.server(), fields, &vec![9; text]);
        self.arrives(&packet, VERIFIED);
    }

    fn icmp(&mut self, walk: &mut Walk) {
        let number = walk.below(4);
        let known = self.clients[usize::try_from(number).unwrap()];
        let kind =
            walk.pick(&[(3, 4), (3, 4), (3, 3), (3, 1), (3, 2), (11, 0), (12, 0), (4, 0), (13, 0), (8, 0)]);
        let seq = known.seen + walk.pick(&[0, u32::MAX, u32::MAX, 1]);
        let names = (server(), client(4000 + number as u16));
        let mut packet = error(kind, walk.pick(&[1000, 552, 551, 68, 0, 1500]), names, seq);
        match walk.below(8) {
            0 => packet[12..16].copy_from_slice(&walk.pick(&[[224, 0, 0, 1], [10, 0, 0, 1], [127, 0, 0, 1]])),
            1 => packet[16..20].copy_from_slice(&[10, 0, 0, 7]),
            2 => *packet.last_mut().unwrap() ^= 1,
            _ => {}
        }
        fix_checksum(&mut packet);
        self.arrives(&packet, RxMeta::default());
    }

    fn datagram(&mut self, walk: &mut Walk) {
        let packet = datagram(walk);
        self.arrives(&packet, RxMeta::default());
    }

    /// A datagram in two or three parts, which come in any order, twice, overlapping, or not at all.
    fn fragments(&mut self, walk: &mut Walk) {
        let whole = datagram(walk);
        let (head, payload) = whole.split_at(20);
        let cuts = walk.pick(&[[8, 16], [16, 16], [8, 24]]);
        let identification = walk.pick(&[[0, 1], [0, 2], [0, 3]]);
        for _ in 0..1 + walk.below(4) {
            let (from, until) =
                walk.pick(&[(0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], payload.len()), (0, 16)]);
            let (from, until) = (from.min(payload.len()), until.min(payload.len()));
            let mut part = [head, &payload[from..until.max(from)]].concat();
            let len = u16::try_from(part.len()).unwrap();
            let offset = (from / 8) as u16 | if until < payload.len() { 0x2000 } else { 0 };
            part[2..4].copy_from_slice(&len.to_be_bytes());
            part[4..6].copy_from_slice(&identification);
            part[6..8].copy_from_slice(&offset.to_be_bytes());
            fix_checksum(&mut part);
            self.arrives(&part, RxMeta::default());
        }
    }

    fn application(&mut self, walk: &mut Walk) {
        let now = self.host.now;
        for listener in self.listeners.clone() {
            let has_one = self.host.endpoint.has_acceptable(listener);
            let accepted = self.host.endpoint.accept_decided(now, listener);
            assert_eq!(has_one, accepted.is_some());
            self.conns.extend(accepted.map(|(id, _)| id));
        }
        if let Some((listener, id)) = self.incoming.pop() {
            let decision = walk.pick(&[
                Decision::Accept,
                Decision::Accept,
                Decision::Reset,
                Decision::Drop,
                Decision::Unreachable(crate::Unreachable::Prohibited),
            ]);
            let waits = self.host.endpoint.incoming(id).is_some();
            assert_eq!(self.host.endpoint.decide(now, id, decision), waits);
            if waits && decision == Decision::Accept {
                self.answered.push((listener, id));
            } else if !waits {
                // The event is still to come.
                self.incoming.push((listener, id));
            }
            assert!(!self.host.endpoint.decide(now, id, decision), "decided once");
        }
        if self.conns.is_empty() {
            return;
        }
        let at = usize::try_from(walk.below(self.conns.len() as u64)).unwrap();
        let id = self.conns[at];
        match walk.below(8) {
            0 => {
                self.host.endpoint.release(now, id);
                self.conns.swap_remove(at);
            }
            1 => self.host.endpoint.reset_orphans(now),
            what => {
                let len = walk.pick(&[1, 100, 5000]);
                let done = self.host.endpoint.update(now, id, |connection, now| match what {
                    2 | 3 => connection.write(now, &vec![5; len]).unwrap_or(0),
                    4 | 5 => connection.read(now, &mut vec![0; len]).unwrap_or(0),
                    6 => usize::from(connection.shutdown(now).is_ok()),
                    _ => usize::from(connection.take_soft_error().is_some()),
                });
                assert!(done.is_some_and(|done| done <= len));
            }
        }
    }

    fn listen(&mut self, walk: &mut Walk, port: u16) {
        let mut options = on_port(port);
        options.addr.addr = walk.pick(&[None, None, Some(ip(SERVER))]);
        options.backlog = walk.pick(&[1000, 1000, 1]);
        options.syn_backlog = walk.pick(&[1000, 1000, 0, 1, 4]);
        options.decisions_max = 2;
        options.fast_open_max = walk.pick(&[0, 0, 2]);
        options.deferred = walk.one_in(4);
        options.reuse_port = walk.one_in(3);
        options.reuse_address = walk.one_in(3);
        options.tcp = walk.one_in(2).then(|| tcp(walk));
        let (shares, addr) = (options.reuse_port, options.addr.addr);
        let made = self.host.endpoint.listen(self.host.now, options);
        if let Ok(id) = made {
            let overlaps = |other: &&ListenerId| {
                let bound = self.host.endpoint.listener_addr(**other).unwrap();
                bound.port == Some(port) && bound.addr == addr
            };
            assert!(shares || !self.listeners.iter().any(|other| overlaps(&other)), "the place is taken");
            assert_eq!(self.host.endpoint.listener_addr(id).unwrap().port, Some(port));
        }
        self.listeners.extend(made);
    }

    fn listens(&mut self, walk: &mut Walk) {
        let now = self.host.now;
        match walk.below(5) {
            0 => {
                let port = walk.pick(&[PORT, 81, 82]);
                self.listen(walk, port);
            }
            1 if !self.listeners.is_empty() => {
                let id = self.listeners.remove(0);
                self.host.endpoint.close_listener(now, id);
                self.incoming.retain(|(listener, _)| *listener != id);
                self.answered.retain(|(listener, _)| *listener != id);
                assert_eq!(self.host.endpoint.listener_addr(id), None);
            }
            2 => {
                let sharing = Sharing { reuse_address: walk.one_in(2), reuse_port: walk.one_in(2) };
                let addr = walk.pick(&[None, Some(ip(SERVER)), Some(ip("10.0.0.9"))]);
                let port = walk.pick(&[0, 81, 4]);
                let bound = self.host.endpoint.bind(now, BindOptions { addr, port, sharing });
                if let Ok(id) = bound {
                    let found = self.host.endpoint.bound_addr(id).unwrap();
                    assert_eq!(found.addr, addr);
                    assert!(found.port.is_some_and(|found| found == port || port == 0 && found != 0));
                    assert!(addr != Some(ip("10.0.0.9")), "not an address of this host");
                }
                self.bound.extend(bound);
            }
            3 if !self.bound.is_empty() => {
                let id = self.bound.remove(0);
                self.host.endpoint.release_bound(id);
                assert_eq!(self.host.endpoint.bound_addr(id), None);
            }
            _ => {
                if let Some(id) = self.bound.pop() {
                    let made = self.host.endpoint.listen_bound(now, id, on_port(PORT));
                    self.listeners.extend(made);
                }
            }
        }
    }

    fn device(&mut self, walk: &mut Walk) {
        let (now, it) = (self.host.now, &mut self.host.endpoint);
        let link = |network, mtu| Route::new(Cidr::up_to(ip(network), 24), Egress { link: 0, mtu });
        match walk.below(6) {
            0 => it.set_mtu(now, walk.pick(&[1500, 1400, 9000, 1280])),
            1 => {
                it.set_link_routes(now, vec![link(CLIENT, walk.pick(&[1400, 1280])), link("10.1.0.1", 1000)])
            }
            2 => it.set_link_routes(now, Vec::new()),
            what @ (3 | 4) => {
                let all = [ip(SERVER).into(), ip("10.0.0.7").into()];
                self.broadcast = if what == 3 { vec![ip("10.0.0.255")] } else { Vec::new() };
                it.set_local_addresses(all[4 - what as usize..].to_vec(), self.broadcast.clone());
            }
            _ => {
                let source = ip(walk.pick(&[SERVER, "10.0.0.7"]));
                it.set_source_routes(vec![Route::new(Cidr::up_to(ip(CLIENT), 24), source)]);
            }
        }
    }

    fn sockets(&mut self, walk: &mut Walk) {
        let (now, it) = (self.host.now, &mut self.host.endpoint);
        let Some(&id) = self.udp.first().filter(|_| !walk.one_in(4)) else {
            let addr = ListenAddr { addr: walk.pick(&[None, Some(ip(SERVER))]), port: Some(53) };
            let mut options = UdpOptions::new(addr);
            options.receive_buffer_max = walk.pick(&[1 << 18, 100]);
            return self.udp.extend(it.udp_bind(now, options));
        };
        let to = SocketAddr::new(ip(walk.pick(&[CLIENT, CLIENT, SERVER, "10.0.0.7"])), 53);
        match walk.below(8) {
            0 => {
                it.udp_close(id);
                self.udp.remove(0);
            }
            1 => {
                let remote = walk.pick(&[None, Some(to)]);
                if it.udp_connect(id, remote).is_ok() {
                    assert_eq!(it.udp_names(id).unwrap().peer.map(|(peer, _)| peer), remote);
                }
            }
            2 => {
                let is_readable = it.udp_is_readable(id).unwrap();
                let mut into = [0; 40];
                let received = it.udp_receive(id, &mut into, walk.one_in(2));
                assert!(received.is_err() || is_readable);
                assert!(received.is_err() || into.iter().all(|byte| matches!(byte, 0 | 3)));
            }
            3 => {
                let _ = it.udp_take_error(id);
                assert_eq!(it.udp_take_error(id), Ok(()), "told once");
                assert!(it.udp_payload_max(to.ip()) > 0);
            }
            4 => it.udp_set_traffic_class(id, walk.pick(&[0, 4, 255])).unwrap(),
            _ => {
                let contents = vec![3; walk.pick(&[0, 1, 100, 1472, 1473, 3000])];
                let mut transmit = UdpTransmit::new(&contents, Some(to).filter(|_| !walk.one_in(5)));
                transmit.segment_size = walk.pick(&[None, None, Some(1000)]);
                let sent = it.udp_send(now, id, &transmit);
                assert!(sent.is_err() || contents.len() <= 3000);
            }
        }
    }

    /// To a client, to itself, or to a port that is taken.
    fn connect(&mut self, walk: &mut Walk) {
        let to = walk.pick(&[client(4000), client(4001), server(), SocketAddr::new(ip("10.0.0.7"), PORT)]);
        let local = walk.pick(&[(None, 0), (None, 0), (None, 5000), (Some(ip("10.0.0.7")), 0), (None, PORT)]);
        let made = if walk.one_in(3) {
            self.host.endpoint.connect_with_data(self.host.now, to, local, None, b"early").map(|(id, _)| id)
        } else {
            self.host.endpoint.connect(self.host.now, to, local, None)
        };
        self.conns.extend(made);
    }

    fn others(&mut self, walk: &mut Walk) {
        let now = self.host.now;
        let to = SocketAddr::new(ip(walk.pick(&["10.0.0.9", SERVER, "10.0.0.7", CLIENT])), 9);
        let whole = packet(client(4002), to, ack(1, SeqNum::new(1)), &[]);
        match walk.below(4) {
            0 => self.arrives(&whole, RxMeta::default()),
            1 => {
                let _ = self.host.endpoint.send_other(now, &OtherPacket::new(whole));
            }
            2 => {
                let has_one = self.host.endpoint.has_other();
                assert_eq!(self.host.endpoint.poll_other().is_some(), has_one);
            }
            _ => {
                let all = [CLIENT, SERVER, "192.0.2.1", "2001:db8::1", "10.0.0.7"].map(ip);
                let mut order = all;
                self.host.endpoint.sort_destinations(&mut order);
                assert!(all.iter().all(|addr| order.contains(addr)), "all of them, in another order");
            }
        }
    }
}

fn datagram(walk: &mut Walk) -> Vec<u8> {
    let flow_label = FlowLabel::NONE;
    let to = SocketAddr::new(ip(walk.pick(&[SERVER, SERVER, "10.0.0.7", "10.0.0.9", "10.0.0.255"])), 53);
    let src = SocketAddr::new(ip(walk.pick(&[CLIENT, CLIENT, CLIENT, "224.0.0.1", SERVER])), 53);
    let header = UdpHeader { src, dst: to, ttl: 64, traffic_class: 0, flow_label };
    write_udp(&header, &[3; 24][..walk.pick(&[0, 1, 20, 24])]).unwrap()
}

const VERIFIED: RxMeta = RxMeta { checksum: ChecksumState::Verified, segment_size: None };

/// Whether the counter is of packets that arrive and go no further.
fn is_fate(name: &str) -> bool {
    name.starts_with("dropped_")
        && !["dropped_replies", "dropped_reassembly_time", "dropped_strays", "dropped_icmp_limited"]
            .contains(&name)
}
