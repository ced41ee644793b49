//! Two endpoints of one host: which of them owns a packet, wherever it arrives.

use super::*;
use crate::{UdpOptions, UdpSocketError};

/// The host at 10.0.0.1, with a listener on port 80 at each endpoint.
struct Shards {
    hosts: [Host; 2],
    listeners: [ListenerId; 2],
}

impl Shards {
    fn new() -> Self {
        Self::with(config(SERVER))
    }

    fn with(config: EndpointConfig) -> Self {
        Self::listening(config, ListenOptions { reuse_address: true, ..on_port(PORT) })
    }

    fn listening(config: EndpointConfig, options: ListenOptions) -> Self {
        let configs: [EndpointConfig; 2] = config.split(2).try_into().unwrap();
        let mut hosts = configs.map(Host::with);
        let listeners = hosts.each_mut().map(|host| host.endpoint.listen(host.now, options.clone()).unwrap());
        Self { hosts, listeners }
    }

    /// A packet arrives at endpoint `at`; returns what each of them sends.
    fn packet(&mut self, at: usize, packet: &[u8]) -> [Vec<SentSegment>; 2] {
        let now = self.hosts[at].now;
        self.hosts[at].endpoint.handle_packet(now, packet, RxMeta::default());
        self.carry();
        self.hosts.each_mut().map(Host::sent)
    }

    /// Hands strays to their endpoints until none are left.
    fn carry(&mut self) {
        for _ in 0..3 {
            for from in [0, 1] {
                while let Some(stray) = self.hosts[from].endpoint.poll_stray() {
                    assert_ne!(stray.to(), from);
                    let to = &mut self.hosts[stray.to()];
                    to.endpoint.handle_stray(to.now, &stray);
                }
            }
        }
    }

    /// A segment from the client's `port`.
    fn from(&mut self, at: usize, port: u16, fields: Fields) -> [Vec<SentSegment>; 2] {
        self.packet(at, &whole(client(port), server(), fields))
    }

    /// Handed over by each, taken by each, dropped by both.
    fn strays(&self) -> ([u64; 2], [u64; 2], u64) {
        let counters = self.hosts.each_ref().map(|host| host.endpoint.counters());
        (
            counters.map(|counters| counters.strays_handed_over),
            counters.map(|counters| counters.strays_taken),
            counters.iter().map(|counters| counters.dropped_strays).sum(),
        )
    }

    fn names(&self) -> usize {
        self.hosts[0].endpoint.tuples.of_host()
    }
}

/// A packet with a complete checksum.
fn whole(src: SocketAddr, dst: SocketAddr, fields: Fields) -> Vec<u8> {
    let partial = packet(src, dst, fields, &[]);
    let meta = RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
    let mut whole = Vec::new();
    ackclock_wire::gso::cut_contiguous(&partial, meta, |packet| whole = packet.to_vec());
    whole
}

#[test]
fn one_endpoint_is_not_split() {
    let configs = config(SERVER).split(1);
    assert!(configs.len() == 1 && configs[0].shard.is_none());
}

#[test]
fn bounds_are_divided_and_memory_is_shared() {
    let config = EndpointConfig { connections_max: 5, memory_budget: 1 << 20, ..config(SERVER) };
    let mut shards = Shards::with(config);
    for at in [0, 1] {
        let host = &mut shards.hosts[at];
        let opened: Vec<_> =
            (0..4).map(|_| host.endpoint.connect(host.now, client(9), (None, 0), None).is_ok()).collect();
        assert_eq!(opened, [true, true, true, false], "three of five, rounded up");
    }
    let memory = shards.hosts.each_ref().map(|host| host.endpoint.memory());
    assert_eq!(memory[0], memory[1]);
    assert_eq!(memory[0].1, 1 << 20);
}

/// A writer at one endpoint pleads for memory that a connection of the other endpoint holds. The other is due
/// at once, or 100 ms after its last look at all connections.
#[test]
fn a_plea_at_one_endpoint_makes_the_other_give_memory() {
    let config = EndpointConfig { memory_budget: 1 << 20, ..config(SERVER) };
    let mut shards = Shards::with(config);
    let open = |shards: &mut Shards, at: usize, port| {
        let iss = shards.from(at, port, syn(1000))[at][0].seq;
        shards.from(at, port, ack(1001, iss + 1));
        let host = &mut shards.hosts[at];
        host.endpoint.accept(host.now, shards.listeners[at]).expect("it is established")
    };
    let write = |host: &mut Host, id| {
        host.endpoint.update(host.now, id, |connection, now| connection.write(now, &[7; 8192])).unwrap()
    };
    // Three quarters of the budget; none is refused.
    for port in 0..96 {
        let id = open(&mut shards, 1, 5000 + port);
        assert_eq!(write(&mut shards.hosts[1], id), Ok(8192));
        shards.hosts[1].sent();
    }
    for host in &mut shards.hosts {
        host.wait(Duration::from_secs(6));
    }
    let id = open(&mut shards, 0, 4000);
    while write(&mut shards.hosts[0], id).is_ok() {}
    let [_, holder] = &mut shards.hosts;
    let due = holder.endpoint.poll_timeout().expect("the plea is heard");
    assert!(due <= holder.now + Duration::from_millis(100), "{due:?} at {:?}", holder.now);
    holder.now = holder.now.max(due);
    holder.endpoint.handle_timeout(holder.now);
    assert!(holder.endpoint.counters().memory_resets > 0);
    let (used, limit) = shards.hosts[0].endpoint.memory();
    assert!(used <= limit / 2, "{used} of {limit}");
    assert!(write(&mut shards.hosts[0], id).is_ok());
}

#[test]
fn a_handshake_and_its_data_may_arrive_at_the_wrong_endpoint() {
    let mut shards = Shards::new();
    let [syn_ack, other] = shards.from(0, 4000, syn(1000));
    assert!(other.is_empty());
    let iss = syn_ack[0].seq;
    // The last ACK of the handshake, and a retransmitted SYN, arrive at the other one.
    let [repeated, other] = shards.from(1, 4000, syn(1000));
    assert_eq!((repeated[0].flags, repeated[0].seq, other.len()), (Flags::SYN | Flags::ACK, iss, 0));
    let [none, other] = shards.from(1, 4000, ack(1001, iss + 1));
    assert!(none.is_empty() && other.is_empty());
    let host = &mut shards.hosts[0];
    let id = host.endpoint.accept(host.now, shards.listeners[0]).expect("established where the SYN arrived");
    assert_eq!(shards.hosts[1].endpoint.connections().count(), 0);

    let [acked, _] = shards.from(1, 4000, fields(Flags::FIN | Flags::ACK, 1001, iss + 1));
    assert_eq!(acked[0].ack, SeqNum::new(1002));
    assert_eq!(shards.hosts[0].state(id), State::CloseWait);
    assert_eq!(shards.strays(), ([0, 3], [3, 0], 0));
}

/// A device coalesces segments and leaves checksums unfinished or verified. The endpoint that owns a packet
/// sees the device's metadata unchanged, and the packets in order.
#[test]
fn a_stray_is_all_that_it_would_have_been_at_its_own_endpoint() {
    let unfinished = ChecksumState::Partial(ChecksumAt::tcp(20));
    let said = [(unfinished, Some(400)), (ChecksumState::Verified, None), (unfinished, Some(1000))];
    let [own, other] = [0, 1].map(|at| {
        let mut shards = Shards::new();
        let iss = shards.from(0, 4000, syn(1000))[0][0].seq;
        shards.from(0, 4000, ack(1001, iss + 1));
        let host = &mut shards.hosts[0];
        let id = host.endpoint.accept(host.now, shards.listeners[0]).unwrap();
        let now = host.now;
        for (number, (checksum, size)) in (0..).zip(said) {
            let fields = ack(1001 + 1200 * number, iss + 1);
            let packet = packet(client(4000), server(), fields, &[number as u8; 1200]);
            let meta = RxMeta { checksum, segment_size: size.and_then(std::num::NonZeroU16::new) };
            shards.hosts[at].endpoint.handle_packet(now, &packet, meta);
        }
        shards.carry();
        let host = &mut shards.hosts[0];
        let answers = format!("{:?}", host.sent());
        let connection = host.endpoint.connection(id).unwrap();
        let text: Vec<u8> = connection.read_slices().flatten().copied().collect();
        (answers, text, connection.info(now).segments_received)
    });
    // The last ACK of the handshake, three segments of 400 bytes, one, two of 1,000 at most.
    assert_eq!((own.1.len(), own.2), (3600, 1 + 3 + 1 + 2));
    assert!(own.1.chunks(1200).zip(0..).all(|(part, number)| part.iter().all(|byte| *byte == number)));
    assert_eq!(own, other);
}

/// A listener with room for one half-open record at each endpoint, and the one at endpoint 0 taken.
fn overflowing() -> Shards {
    overflowing_at(0)
}

fn overflowing_at(at: usize) -> Shards {
    let options = ListenOptions { reuse_address: true, syn_backlog: 1, ..on_port(PORT) };
    let mut shards = Shards::listening(config(SERVER), options);
    shards.from(at, 4000, syn(1000));
    shards
}

#[test]
fn a_cookie_may_come_back_to_an_endpoint_that_has_sent_none() {
    let mut shards = overflowing();
    let [cookie, none] = shards.from(0, 4001, syn(1000));
    assert!(none.is_empty());
    assert_eq!(shards.hosts[0].endpoint.counters().cookies_sent, 1);
    let [other, reset] = shards.from(1, 4001, ack(1001, cookie[0].seq + 1));
    assert!(other.is_empty() && reset.is_empty(), "{reset:?}");
    let host = &mut shards.hosts[1];
    let id = host.endpoint.accept(host.now, shards.listeners[1]).expect("established where the ACK arrived");
    assert_eq!(host.endpoint.counters().cookies_accepted, 1);
    // From now on the four-tuple is known, wherever its packets arrive.
    shards.from(0, 4001, fields(Flags::FIN | Flags::ACK, 1001, cookie[0].seq + 1));
    assert_eq!(shards.hosts[1].state(id), State::CloseWait);
    assert_eq!(shards.strays(), ([1, 0], [0, 1], 0));
}

#[test]
fn a_guessed_cookie_is_looked_at_only_while_one_is_out_anywhere() {
    let mut shards = overflowing();
    let refused = |shards: &Shards| shards.hosts[1].endpoint.counters().cookies_refused;
    let [_, reset] = shards.from(1, 4001, ack(1001, SeqNum::new(77)));
    assert!(reset[0].flags.contains(Flags::RST));
    assert_eq!(refused(&shards), 0, "none is out");
    shards.from(0, 4002, syn(1000));
    let [_, reset] = shards.from(1, 4001, ack(1001, SeqNum::new(77)));
    assert!(reset[0].flags.contains(Flags::RST));
    assert_eq!(refused(&shards), 1);
    for host in &mut shards.hosts {
        host.wait(Duration::from_secs(130));
    }
    shards.from(1, 4001, ack(1001, SeqNum::new(77)));
    assert_eq!(refused(&shards), 1, "it could not be good any more");
}

/// Cookies are in the driver's time, which endpoints share; the time of an endpoint leaves out its own
/// pauses.
#[test]
fn a_cookie_comes_back_to_an_endpoint_that_has_paused_or_from_one() {
    for paused in [0, 1] {
        let other = 1 - paused;
        let mut shards = overflowing_at(paused);
        for host in &mut shards.hosts {
            host.now += Duration::from_secs(3600);
            host.endpoint.handle_timeout(host.now);
            host.sent();
        }
        let own = shards.hosts.each_ref().map(|host| host.endpoint.own_time(host.now));
        assert!(own[other].saturating_since(own[paused]) > Duration::from_secs(3500), "{own:?}");
        // The record of the paused one is still there. It sends the cookie, and the other one takes it.
        let cookie = shards.from(paused, 4001, syn(1000))[paused][0].seq;
        assert_eq!(shards.hosts[paused].endpoint.counters().cookies_sent, 1);
        shards.from(other, 4001, ack(1001, cookie + 1));
        assert_eq!(shards.hosts[other].endpoint.counters().cookies_accepted, 1);
        // And the other way round.
        shards.from(other, 4002, syn(1000));
        let cookie = shards.from(other, 4003, syn(1000))[other][0].seq;
        assert_eq!(shards.hosts[other].endpoint.counters().cookies_sent, 1);
        shards.from(paused, 4003, ack(1001, cookie + 1));
        assert_eq!(shards.hosts[paused].endpoint.counters().cookies_accepted, 1);
        // Once none is out any more, none is looked at.
        for host in &mut shards.hosts {
            host.wait(Duration::from_secs(130));
        }
        shards.from(paused, 4001, ack(1001, SeqNum::new(77)));
        assert_eq!(shards.hosts[paused].endpoint.counters().cookies_refused, 0);
    }
}

#[test]
fn a_segment_of_no_connection_is_answered_where_it_arrives() {
    let mut shards = Shards::new();
    let [none, reset] = shards.packet(1, &whole(client(4000), SocketAddr::new(ip(SERVER), 81), syn(1)));
    assert!(none.is_empty() && reset[0].flags.contains(Flags::RST));
    assert_eq!((shards.strays(), shards.names()), (([0; 2], [0; 2], 0), 0), "and its name is not kept");
}

#[test]
fn both_endpoints_open_connections_and_no_name_twice() {
    let config = EndpointConfig { ephemeral_ports: (2000, 2099), ..config(SERVER) };
    let mut shards = Shards::with(config);
    let mut ports = Vec::new();
    for number in 0..100 {
        let host = &mut shards.hosts[number % 2];
        host.endpoint.connect(host.now, client(9), (None, 0), None).expect("there are a hundred ports");
        ports.extend(host.sent().iter().map(|syn| syn.src.port()));
    }
    ports.sort_unstable();
    assert!(ports.into_iter().eq(2000..2100));
    for host in &mut shards.hosts {
        assert!(host.endpoint.connect(host.now, client(9), (None, 0), None).is_err());
        assert!(host.endpoint.connect(host.now, client(9), (None, 2050), None).is_err());
    }
    assert_eq!(shards.names(), 100);
}

#[test]
fn a_syn_for_a_pair_in_time_wait_at_the_other_endpoint_opens_it_there() {
    let mut shards = Shards::new();
    let iss = shards.from(0, 4000, syn(1000))[0][0].seq;
    shards.from(0, 4000, ack(1001, iss + 1));
    let host = &mut shards.hosts[0];
    let id = host.endpoint.accept(host.now, shards.listeners[0]).unwrap();
    host.endpoint.release(host.now, id);
    assert!(host.sent()[0].flags.contains(Flags::FIN));
    shards.from(0, 4000, fields(Flags::FIN | Flags::ACK, 1001, iss + 2));
    assert_eq!(shards.hosts[0].endpoint.connections().count(), 0, "a record is left");
    assert_eq!(shards.names(), 1);

    let [syn_ack, other] = shards.from(1, 4000, syn(500_000));
    assert!(other.is_empty());
    assert!(syn_ack[0].seq.after(iss + 2), "beyond all that the old connection sent");
    assert_eq!(shards.hosts[0].endpoint.counters().time_wait_reopened, 1);
    assert_eq!(shards.names(), 1);
}

#[test]
fn an_icmp_error_finds_the_connection_that_it_is_about() {
    let mut shards = Shards::new();
    let host = &mut shards.hosts[1];
    let id = host.endpoint.connect(host.now, client(9), (None, 3000), None).unwrap();
    let bytes = host.endpoint.poll_transmit(host.now, LIMITS).unwrap().header.to_vec();
    // RFC 792: type 3, code 3, and the header with 8 bytes of what it is about.
    let mut error = vec![3, 3, 0, 0, 0, 0, 0, 0];
    error.extend_from_slice(&bytes[..28]);
    let checksum = internet_checksum(&error);
    error[2..4].copy_from_slice(&checksum.to_be_bytes());
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
    packet.extend_from_slice(&error);
    let total = u16::try_from(packet.len()).unwrap();
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    let checksum = internet_checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    shards.packet(0, &packet);
    assert_eq!(shards.hosts[1].endpoint.counters().icmp_delivered, 1);
    assert_eq!(shards.hosts[1].state(id), State::Closed);
    assert_eq!(shards.strays(), ([1, 0], [0, 1], 0));
}

#[test]
fn datagrams_are_at_the_first_endpoint() {
    let mut shards = Shards::new();
    let now = shards.hosts[0].now;
    let addr = ListenAddr { addr: None, port: Some(53) };
    let socket = shards.hosts[0].endpoint.udp_bind(now, UdpOptions::new(addr)).unwrap();
    let header = ackclock_wire::UdpHeader {
        src: client(999),
        dst: SocketAddr::new(ip(SERVER), 53),
        ttl: 64,
        traffic_class: 0,
        flow_label: FlowLabel::NONE,
    };
    let datagram = ackclock_wire::write_udp(&header, b"question").unwrap();
    shards.packet(1, &datagram);
    let mut buf = [0; 100];
    let first = &mut shards.hosts[0].endpoint;
    assert_eq!(first.udp_receive(socket, &mut buf, false).map(|meta| meta.len), Ok(8));
    assert!(matches!(first.udp_receive(socket, &mut buf, false), Err(UdpSocketError::WouldBlock)));
    assert_eq!(shards.strays(), ([0, 1], [1, 0], 0));
}

#[test]
fn fragments_and_other_protocols_go_to_the_first_endpoint() {
    for (at, changed) in [(6, 0x20), (9, 47)] {
        let mut shards = Shards::new();
        let mut packet = whole(client(999), server(), ack(1, SeqNum::new(1)));
        packet[at] = changed;
        super::icmp::fix_checksum(&mut packet);
        shards.packet(1, &packet);
        assert_eq!(shards.strays(), ([0, 1], [1, 0], 0), "byte {at}");
        shards.packet(0, &packet);
        assert_eq!(shards.strays(), ([0, 1], [1, 0], 0), "byte {at}: it is there");
    }
}

#[test]
fn a_binding_of_the_first_endpoint_is_in_use_at_the_second() {
    let mut shards = Shards::new();
    let now = shards.hosts[0].now;
    let options = crate::BindOptions { addr: None, port: 70, sharing: Default::default() };
    let id = shards.hosts[0].endpoint.bind(now, options).unwrap();
    let second = &mut shards.hosts[1].endpoint;
    assert_eq!(second.bound_addr(id), None);
    second.bind_as(id, options).unwrap();
    assert_eq!(second.bound_addr(id), Some(ListenAddr { addr: None, port: Some(70) }));
    assert_eq!(second.bind_as(id, options), Err(crate::ListenError::AddressInUse));
    second.release_bound(id);
    assert_eq!(second.bound_addr(id), None);
}

#[test]
fn strays_are_bounded_and_counted() {
    let mut shards = Shards::new();
    let iss = shards.from(0, 4000, syn(1000))[0][0].seq;
    let packet = whole(client(4000), server(), ack(1001, iss + 1));
    let other = &mut shards.hosts[1];
    (0..1030).for_each(|_| other.endpoint.handle_packet(other.now, &packet, RxMeta::default()));
    shards.carry();
    assert_eq!(shards.strays(), ([0, 1024], [1024, 0], 6));
    assert_eq!(shards.hosts[0].endpoint.connections().count(), 1);
}

#[test]
fn a_stray_whose_name_has_gone_elsewhere_is_lost() {
    let mut shards = Shards::new();
    let iss = shards.from(0, 4000, syn(1000))[0][0].seq;
    let late = whole(client(4000), server(), ack(1001, iss + 1));
    let other = &mut shards.hosts[1];
    other.endpoint.handle_packet(other.now, &late, RxMeta::default());
    let stray = other.endpoint.poll_stray().unwrap();
    // Meanwhile the client aborts, and connects again by the other queue.
    shards.from(0, 4000, fields(Flags::RST, 1001, SeqNum::new(0)));
    let [none, syn_ack] = shards.from(1, 4000, syn(9000));
    assert!(none.is_empty() && syn_ack.len() == 1);
    let first = &mut shards.hosts[0];
    first.endpoint.handle_stray(first.now, &stray);
    assert!(first.sent().is_empty(), "no reset for a name that another endpoint has");
    assert_eq!(shards.strays(), ([0, 1], [1, 0], 1));
}

#[test]
fn traces_number_connections_of_both_endpoints() {
    let mut shards = Shards::new();
    let mut numbers: Vec<u64> = (0..6)
        .map(|number| {
            let endpoint = &mut shards.hosts[number % 2].endpoint;
            endpoint.tuples.number(endpoint.traces.number())
        })
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..6));
}

#[test]
fn a_shard_shows_which_of_how_many_it_is() {
    let shown: Vec<String> = config(SERVER).split(3).iter().map(|part| format!("{:?}", part.shard)).collect();
    assert_eq!(shown, ["Some(Shard(0 of 3))", "Some(Shard(1 of 3))", "Some(Shard(2 of 3))"]);
}
