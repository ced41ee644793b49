//! Replays a recording that has every call. After each call the replayed endpoint is in the state of the
//! recorded one.

use std::collections::BTreeSet;

use ackclock_wire::{Cidr, Codepoint, Egress, Route};

use super::*;
use crate::record::{Record, Records};
use ackclock_core::profile::{AckPolicy, Recovery, UndoChoice};
use ackclock_core::rtt::RtoConfig;
use ackclock_core::{
    BindOptions, Decision, Event, IncomingId, Keepalive, ListenerId, LocalAddress, OtherPacket, PingAnswer,
    PingPolicy, Sharing, UdpTransmit,
};

/// All that can be seen of an endpoint, at a time after all calls: some calls have no time of their own.
fn state(endpoint: &Endpoint) -> String {
    let now = Instant::from_millis(3_600_000);
    let connections: Vec<_> = endpoint
        .connections()
        .map(|(id, connection)| {
            let shown =
                endpoint.connection(id).map(|connection| (connection.info(now), connection.delivery()));
            format!("{id:?} {connection:?} {:?} {shown:?}", endpoint.number(id))
        })
        .collect();
    let looks = (endpoint.poll_timeout(), endpoint.memory(), endpoint.udp_sockets(), endpoint.has_traces());
    format!("{endpoint:?} {looks:?} {connections:?}")
}

/// Two recorded endpoints, joined by a wire without delay, and the states of each after each call.
struct Life {
    ends: [RecordedEndpoint; 2],
    states: [Vec<String>; 2],
    now: Instant,
    events: [Vec<Event>; 2],
}

const A: usize = 0;
const B: usize = 1;

impl Life {
    fn new(files: [&File; 2]) -> Self {
        let end = |addr: &str, file| {
            let mut header = header(addr);
            header.config.other_packets = 3;
            header.config.pings = PingPolicy::Deferred;
            header.config.mtu = 9000;
            header.config.memory_budget = 1 << 20;
            recorded(&header, file, u64::MAX)
        };
        let ends = [end("10.0.0.1", files[A]), end("10.0.0.22", files[B])];
        Self { ends, states: Default::default(), now: Instant::from_millis(5), events: Default::default() }
    }

    /// Makes a call, and notes the state after it.
    fn call<R>(&mut self, at: usize, call: impl FnOnce(&mut RecordedEndpoint, Instant) -> R) -> R {
        let result = call(&mut self.ends[at], self.now);
        self.states[at].push(state(&self.ends[at]));
        result
    }

    /// Makes calls of a connection.
    fn on(
        &mut self,
        at: usize,
        id: ConnectionId,
        calls: impl FnOnce(&mut crate::RecordedConnection<'_>, Instant),
    ) {
        self.call(at, |end, now| end.update(now, id, calls));
        self.settle();
    }

    /// Carries packets until there are none.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            self.now = self.now.plus_nanos(700_000);
            for at in [A, B] {
                if self.ends[at].poll_timeout().is_some_and(|due| due <= self.now) {
                    self.call(at, |end, now| end.handle_timeout(now));
                }
                while let Some(event) = self.call(at, |end, _| end.poll_event()) {
                    self.events[at].push(event);
                }
                while let Some(packet) = self.call(at, |end, now| {
                    let packet = end.poll_transmit(now, LIMITS)?;
                    Some(packet.to_vec())
                }) {
                    moved = true;
                    let udp = packet[9] == 17;
                    let partial = if udp { ChecksumAt::udp(20) } else { ChecksumAt::tcp(20) };
                    let meta = RxMeta { checksum: ChecksumState::Partial(partial), segment_size: None };
                    match packet.len() % 2 {
                        0 => self.call(1 - at, |end, now| end.handle_packet(now, &packet, meta)),
                        _ => self.call(1 - at, |end, now| {
                            end.handle_packets(now, [in_block(&Bytes::from(packet), meta)]);
                        }),
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn incoming(&mut self) -> IncomingId {
        let found = self.events[B].iter().rev().find_map(|event| match event {
            Event::Incoming(_, id) => Some(*id),
            _ => None,
        });
        found.expect("a SYN waits for a decision")
    }

    fn accepted(&mut self, listener: ListenerId) -> ConnectionId {
        self.call(B, |end, now| end.accept_decided(now, listener)).expect("a connection waits").0
    }
}

fn peer(port: u16) -> SocketAddr {
    SocketAddr::new("10.0.0.22".parse().unwrap(), port)
}

fn host_calls(life: &mut Life) {
    let addr = |text: &str| text.parse::<IpAddr>().unwrap();
    life.call(A, |end, now| end.set_mtu(now, 1400));
    life.call(A, |end, _| end.set_behind(true));
    life.call(A, |end, now| end.open_windows(now, 1 << 20));
    let route = Route::new("10.0.0.0/8".parse().unwrap(), Egress { link: 1, mtu: 1300 });
    life.call(A, |end, now| end.set_link_routes(now, vec![route]));
    let locals = [("10.0.0.1", false), ("10.0.0.3", true)]
        .map(|(text, deprecated)| LocalAddress { address: Cidr::up_to(addr(text), 24), deprecated });
    life.call(A, |end, _| end.set_local_addresses(locals.to_vec(), vec![addr("10.0.0.255")]));
    let source = Route::new(addr("10.0.0.22").into(), addr("10.0.0.3"));
    life.call(A, |end, _| end.set_source_routes(vec![source]));
    // From the source that the route names.
    life.call(A, |end, now| end.connect(now, peer(1), (None, 0), None)).unwrap();
    life.settle();
    life.call(A, |end, _| end.set_source_routes(Vec::new()));
    life.call(A, |end, _| end.request_traces());
    assert!(life.call(A, |end, _| end.has_other_room()));
    let bytes =
        [&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0x5d, 0x72, 10, 9, 9, 9, 10, 0, 0, 77][..], &[0; 20]].concat();
    let meta = RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
    life.call(A, |end, now| end.send_other(now, &OtherPacket { bytes, meta })).unwrap();
    life.settle();
    life.call(B, |end, _| end.poll_other());
    life.call(B, |end, _| end.close_others());
    // Echo requests of 10.0.0.22 to 203.0.113.7.
    let request = [
        0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 1, 0xf4, 0xc3, 10, 0, 0, 22, 203, 0, 113, 7, 8, 0, 0xf6, 0xff, 1,
        0, 0, 0,
    ];
    life.call(A, |end, now| end.handle_packet(now, &request, RxMeta::default()));
    let ping = life.call(A, |end, _| end.poll_ping()).expect("it waits");
    assert!(life.call(A, |end, now| end.answer_ping(now, &ping, PingAnswer::Reply)));
    life.call(A, |end, _| end.close_pings());
    life.settle();
    life.call(A, |end, now| end.handle_timeout(now));
}

fn datagram_calls(life: &mut Life) {
    let port = |port| ListenAddr { addr: None, port: Some(port) };
    let options = UdpOptions { ttl: Some(9), traffic_class: 4, ..UdpOptions::new(port(53)) };
    let server = life.call(B, |end, now| end.udp_bind(now, options)).unwrap();
    let client = life.call(A, |end, now| end.udp_bind(now, UdpOptions::new(port(5353)))).unwrap();
    life.call(A, |end, _| end.udp_connect(client, Some(peer(53)))).unwrap();
    life.call(A, |end, _| end.udp_set_ttl(client, Some(77))).unwrap();
    life.call(A, |end, _| end.udp_set_traffic_class(client, 0x28)).unwrap();
    life.call(A, |end, _| end.udp_set_fragments(client, true)).unwrap();
    life.call(A, |end, _| end.udp_join(client, "239.1.2.3".parse().unwrap())).ok();
    life.call(A, |end, _| end.take_groups());
    life.call(A, |end, _| end.udp_leave(client, "239.1.2.3".parse().unwrap())).ok();
    let transmit = UdpTransmit {
        contents: &[7; 250],
        to: Some(peer(53)),
        from: Some("10.0.0.1:5353".parse().unwrap()),
        segment_size: Some(100),
        ecn: Codepoint::Ce,
    };
    life.call(A, |end, now| end.udp_send(now, client, &transmit)).unwrap();
    assert!(life.call(A, |end, _| end.udp_is_writable(client)).unwrap());
    life.settle();
    life.call(B, |end, _| end.udp_peek(server, &mut [0; 30])).unwrap();
    for many in [false, true, true] {
        let _ = life.call(B, |end, _| end.udp_receive(server, &mut [0; 300], many));
    }
    // To a port where none listens.
    life.call(A, |end, _| end.udp_connect(client, Some(peer(54)))).unwrap();
    life.call(A, |end, now| end.udp_send(now, client, &UdpTransmit::new(b"hello", None))).unwrap();
    life.settle();
    assert!(life.call(A, |end, _| end.udp_take_error(client)).is_err());
    life.call(A, |end, _| end.udp_close(client));
}

fn listening_calls(life: &mut Life) -> (ConnectionId, ConnectionId) {
    let sharing = Sharing { reuse_address: true, reuse_port: true };
    let options = BindOptions { addr: None, port: 7, sharing };
    let bound = life.call(B, |end, now| end.bind(now, options)).unwrap();
    let other = life.call(B, |end, now| end.bind(now, BindOptions { port: 70, ..options })).unwrap();
    life.call(B, |end, _| end.release_bound(other));
    let _ = life.call(B, |end, _| end.bind_as(other, BindOptions { port: 70, ..options }));
    let port = |port| ListenAddr { addr: None, port: Some(port) };
    let options = ListenOptions { backlog: 9, fast_open_max: 3, ..ListenOptions::new(port(7)) };
    let listener = life.call(B, |end, now| end.listen_bound(now, bound, options)).unwrap();
    let deferred = ListenOptions { deferred: true, decisions_max: 5, ..ListenOptions::new(port(8)) };
    let deferred = life.call(B, |end, now| end.listen(now, deferred)).unwrap();
    let tcp = TcpConfig { ttl: 33, dscp: 5, ..TcpConfig::default() };
    assert!(life.call(B, |end, _| end.set_listener_tcp(deferred, tcp.clone())));
    let from = (Some("10.0.0.1".parse().unwrap()), 5000);
    let id = life.call(A, |end, now| end.connect(now, peer(7), from, Some(tcp.clone()))).unwrap();
    life.settle();
    let accepted = life.accepted(listener);
    let tcp = Some(TcpConfig { nodelay: true, ..tcp });
    life.call(A, |end, now| end.connect_with_data(now, peer(7), (None, 0), tcp, &[1; 50])).unwrap();
    life.settle();
    let second = life.accepted(listener);
    life.call(B, |end, now| end.release(now, second));
    for decision in [Decision::Reset, Decision::Accept] {
        let refused = life.call(A, |end, now| end.connect(now, peer(8), (None, 0), None)).unwrap();
        life.settle();
        let incoming = life.incoming();
        assert!(life.call(B, |end, now| end.decide(now, incoming, decision)));
        life.settle();
        life.on(A, refused, |connection, _| {
            connection.take_error();
        });
    }
    life.call(B, |end, now| end.close_listener(now, deferred));
    life.settle();
    (id, accepted)
}

/// Options of the connection, each with the effect that it has on packets while data moves.
fn option_calls(life: &mut Life, id: ConnectionId, other: ConnectionId) {
    let registry = Registry::builtin();
    life.on(A, id, |connection, now| {
        connection.set_nodelay(now, true);
        connection.set_quickack(true);
        connection.set_ttl(99).unwrap();
        connection.set_dscp(11).unwrap();
        connection.set_send_buffer_max(100_000);
        connection.set_receive_buffer_max(90_000);
        connection.set_not_sent_lowat(Some(3000));
    });
    life.on(A, id, |connection, now| {
        let (idle, interval) = (Duration::from_secs(7), Duration::from_secs(3));
        connection.set_keepalive(now, Some(Keepalive { idle, interval, probes: 4 })).unwrap();
        connection.set_user_timeout(now, Some(Duration::from_secs(77))).unwrap();
        connection.set_idle_timeout(now, Some(Duration::from_secs(88))).unwrap();
        connection.set_max_pacing_rate(now, Some(5_000_000)).unwrap();
        connection.set_undo(UndoChoice { dsack: true, ..UndoChoice::OFF });
        connection.set_acks(AckPolicy::BSD_4_3).unwrap();
    });
    life.on(A, id, |connection, now| {
        connection.set_congestion(now, registry.find("vegas:alpha=2,beta=4").unwrap());
        connection.set_recovery(now, Recovery::Sack);
        connection.set_rto(now, RtoConfig::find("rfc6298,min=1s,g=10ms").unwrap()).unwrap();
        connection.set_trace(now, Some(TraceConfig { records: 900, ..TraceConfig::FULL }));
    });
    life.on(A, id, |connection, now| {
        connection.set_cork(now, true);
        connection.write(now, &[1; 700]).unwrap();
    });
    life.on(A, id, |connection, now| connection.set_cork(now, false));
    life.on(A, id, |connection, now| {
        connection.set_more_follows(true);
        connection.write_bytes(now, &Bytes::from(vec![2; 3001])).unwrap();
    });
    life.on(A, id, |connection, now| {
        connection.set_more_follows(false);
        connection.write_urgent(now, &[3; 5]).unwrap();
        connection.request_trace();
        connection.await_delivered(2000);
        connection.await_feedback(4);
    });
    life.on(B, other, |connection, now| {
        connection.read(now, &mut [0; 300]).unwrap();
        connection.consume(now, 40);
        connection.read_bytes(now, 1000).unwrap();
        connection.take_soft_error();
        connection.set_quickack(false);
    });
    life.on(A, id, |connection, now| {
        connection.write(now, &vec![4; 400_000]).unwrap();
        connection.await_room(now);
    });
    for _ in 0..8 {
        life.on(B, other, |connection, now| {
            let _ = connection.read(now, &mut [0; 60_000]);
        });
    }
    life.on(A, id, |connection, now| connection.shutdown(now).unwrap());
    life.on(B, other, |connection, now| connection.abort(now));
    life.on(A, id, |connection, _| {
        connection.take_error();
    });
}

fn codes(file: &[u8]) -> BTreeSet<u8> {
    let mut records = Records::open(file, Registry::builtin()).unwrap();
    let (mut codes, mut out) = (BTreeSet::new(), Writer::default());
    while let Some(record) = records.next() {
        out.clear();
        match record {
            Record::Call(call) => call.put(&mut out),
            Record::ConnectionCall(call) => call.put(&mut out),
            _ => continue,
        }
        codes.insert(out.bytes()[0]);
    }
    codes
}

#[test]
fn every_call_is_replayed_to_the_same_state() {
    let files = [&File::new(), &File::new()];
    let mut life = Life::new(files);
    host_calls(&mut life);
    datagram_calls(&mut life);
    let (id, other) = listening_calls(&mut life);
    option_calls(&mut life, id, other);
    life.call(A, |end, _| end.end_traces());
    life.call(A, |end, now| end.release(now, id));
    life.call(A, |end, now| end.reset_orphans(now));
    life.settle();
    let (states, now) = (life.states, life.now);
    let calls = life.ends.each_ref().map(|end| end.journal().unwrap().calls());
    drop(life.ends);

    let made: BTreeSet<u8> = files.iter().flat_map(|file| codes(&file.bytes())).collect();
    let all: BTreeSet<u8> = [Call::CODES, ConnectionCall::CODES].concat().into_iter().collect();
    assert_eq!(all.difference(&made).collect::<Vec<_>>(), Vec::<&u8>::new(), "calls that the life lacks");

    // One endpoint replays all calls. Then a new endpoint replays each call, thawed from the form of the one
    // before.
    for (at, thaws) in [(A, false), (B, false), (A, true), (B, true)] {
        let file = files[at].bytes();
        let mut replay = Replay::open(&file[..], &Registry::builtin(), Changes::default()).unwrap();
        for (number, expected) in states[at].iter().enumerate() {
            if thaws {
                let form =
                    replay.thaw_in_place().unwrap_or_else(|why| panic!("call {number} of {at}: {why}"));
                assert!(form == replay.endpoint_mut().freeze().unwrap(), "call {number} of {at}");
            }
            let step = replay.step(|_, _| ()).unwrap().expect("a call is left");
            assert_eq!(step.departure, None, "call {number} of {at}");
            let now = replay.now();
            assert_eq!(step.at, now);
            let replayed = state(replay.endpoint_mut());
            assert!(replayed == *expected, "call {number} of {at}:\n was {expected}\n now {replayed}");
        }
        assert_eq!((replay.calls(), replay.departures()), (calls[at], 0));
        assert!(replay.step(|_, _| ()).unwrap().is_none());
        assert_eq!(replay.end(), Some(JournalEnd::Closed));
        assert!(replay.now() > Instant::from_millis(5) && replay.now() <= now);
    }
}
