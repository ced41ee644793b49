//! A connection leaves an endpoint as bytes and goes on at another.

use ackclock_control::profile::{Choices, Ecn};

use super::*;
use crate::congestion::Registry;
use crate::{ConnectError, Connection, FormError, FreezeError, ThawError};

const LEN: usize = 300_000;

/// A transfer of the client's, whose packets sometimes get lost.
struct Transfer {
    pair: Pair,
    client: ConnectionId,
    server: ConnectionId,
    written: usize,
    received: Vec<u8>,
}

impl Transfer {
    fn new() -> Self {
        Self::between(config)
    }

    fn between(config: impl Fn(&str) -> EndpointConfig) -> Self {
        let mut pair = Pair::at(Instant::from_millis(1_000_000), config(CLIENT), config(SERVER));
        let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
        let [client, server] = pair.open(server(), listener);
        pair.lose = |_, number| number % 17 == 0;
        Self { pair, client, server, written: 0, received: Vec::new() }
    }

    fn byte(at: usize) -> u8 {
        u8::try_from(at % 251).unwrap()
    }

    /// Both applications call, and what both ends then send arrives.
    fn step(&mut self) {
        self.step_through(|_, _, _| ());
    }

    /// As [`step`](Self::step), over a path that sees each packet, the side it comes from and its number in
    /// this step.
    fn step_through(&mut self, mut path: impl FnMut(usize, usize, &mut [u8])) {
        let now = self.pair.now;
        let more: Vec<u8> = (self.written..LEN).map(Self::byte).collect();
        self.pair.client.update(now, self.client, |connection, now| {
            self.written += connection.write(now, &more).unwrap_or(0);
        });
        let mut into = vec![0; LEN];
        self.pair.server.update(now, self.server, |connection, now| {
            let len = connection.read(now, &mut into).unwrap_or(0);
            self.received.extend_from_slice(&into[..len]);
        });
        let mut packets = [self.pair.carry(0), self.pair.carry(1)];
        for (side, packets) in packets.iter_mut().enumerate() {
            packets.iter_mut().enumerate().for_each(|(number, packet)| path(side, number, packet));
        }
        self.pair.now += Pair::DELAY;
        let now = self.pair.now;
        for (packets, end) in packets.iter().zip([&mut self.pair.server, &mut self.pair.client]) {
            packets.iter().for_each(|packet| end.handle_packet(now, packet, RxMeta::default()));
            end.handle_timeout(now);
        }
    }

    /// Both ends go on at endpoints that were just made.
    fn move_both(&mut self) {
        let Self { pair, client, server, .. } = self;
        for (end, id, addr) in [(&mut pair.client, client, CLIENT), (&mut pair.server, server, SERVER)] {
            let form = end.freeze_connection(pair.now, *id).unwrap();
            assert!(end.connection(*id).is_none() && end.poll_transmit(pair.now, LIMITS).is_none());
            assert_eq!(end.memory().0, 0, "its buffers went with it");
            *end = Endpoint::new(config(addr), pair.now);
            let thawed = end.thaw_connection(pair.now, &form, &Registry::builtin()).unwrap();
            assert!(thawed.begun_again.is_empty(), "{thawed:?}");
            *id = thawed.id;
            let again = end.freeze_connection(pair.now, *id).unwrap();
            assert!(again == form, "the same state has the same form");
            *id = end.thaw_connection(pair.now, &form, &Registry::builtin()).unwrap().id;
        }
    }

    /// Both ends go on at endpoints that were just made, by the portable form and with this controller.
    fn move_both_portably(&mut self, controller: &str) {
        let Self { pair, client, server, .. } = self;
        let congestion = Registry::builtin().find(controller).unwrap();
        for (end, id, addr) in [(&mut pair.client, client, CLIENT), (&mut pair.server, server, SERVER)] {
            let form = end.freeze_portable(pair.now, *id).unwrap();
            assert!(end.connection(*id).is_none() && end.poll_transmit(pair.now, LIMITS).is_none());
            *end = Endpoint::new(config(addr), pair.now);
            let tcp = TcpConfig { congestion: congestion.clone(), ..TcpConfig::default() };
            *id = end.thaw_portable(pair.now, &form, tcp).unwrap();
        }
    }
}

/// However often a connection moves, and with whichever controllers, every byte arrives.
#[test]
fn connection_that_moves_portably_loses_nothing() {
    for every in [3, 7, 40] {
        let mut transfer = Transfer::new();
        let mut controllers = ["newreno", "vegas", "bbr", "cubic", "reno"].iter().cycle();
        let mut moves = 0;
        for step in 1..20_000 {
            if transfer.received.len() == LEN {
                break;
            }
            if step % every == 0 {
                transfer.move_both_portably(controllers.next().unwrap());
                moves += 1;
            }
            transfer.step();
        }
        let expected: Vec<u8> = (0..LEN).map(Transfer::byte).collect();
        let got = transfer.received.len();
        assert!(transfer.received == expected, "{got} bytes, moved every {every}, {moves} times");
    }
}

/// The marks of a path are heard across moves: Accurate ECN counts each of them once, and the echo of RFC
/// 3168 lasts until it is answered.
#[test]
fn marks_are_heard_across_portable_moves() {
    // With a move in every step, no mark is heard in the life in which it came.
    let moves = [1, 3, 10];
    for (form, every) in
        [Ecn::Accurate, Ecn::Classic].into_iter().flat_map(|form| moves.map(|every| (form, every)))
    {
        let tcp = TcpConfig { choices: Choices { ecn: form, ..tcp_config().choices }, ..tcp_config() };
        let mut transfer =
            Transfer::between(|addr| EndpointConfig { tcp: tcp.clone().into(), ..config(addr) });
        transfer.pair.lose = |_, _| false;
        let (mut marked, mut reported, mut reductions) = (0, 0, 0);
        let tell = |transfer: &Transfer| {
            let client = transfer.pair.client.connection(transfer.client).unwrap();
            client.info(transfer.pair.now).ecn.expect("it was agreed on")
        };
        for step in 1..2000 {
            if step % every == 0 {
                let told = tell(&transfer);
                (reported, reductions) = (reported + told.marks_reported, reductions + told.reductions);
                transfer.move_both_portably("cubic");
                assert_eq!(tell(&transfer).form, form);
            }
            transfer.step_through(|side, number, packet| {
                let marks = side == 0 && number % 8 == 0 && ackclock_wire::ecn::mark(packet);
                marked += u64::from(marks);
            });
        }
        let told = tell(&transfer);
        (reported, reductions) = (reported + told.marks_reported, reductions + told.reductions);
        assert_eq!(transfer.received.len(), LEN);
        assert!(marked >= 20, "{marked} packets were marked");
        match form {
            Ecn::Accurate => assert_eq!(reported, marked),
            _ => assert!((1..=2 * marked).contains(&reported), "{reported} of {marked}"),
        }
        assert!((3..=marked).contains(&reductions), "{reductions} reductions for {marked} marks");
    }
}

#[test]
fn moved_connection_goes_on_as_the_one_that_stayed() {
    let lives = [None, Some(1), Some(3)].map(|every| {
        let mut transfer = Transfer::new();
        let mut course = Vec::new();
        for step in 0..10_000 {
            if transfer.received.len() == LEN {
                break;
            }
            if every.is_some_and(|every| step % every == 0) {
                transfer.move_both();
            }
            transfer.step();
            course.push((transfer.pair.now, transfer.pair.counts, transfer.received.len()));
        }
        let expected: Vec<u8> = (0..LEN).map(Transfer::byte).collect();
        assert!(transfer.received == expected, "{} bytes, moved every {every:?}", transfer.received.len());
        course
    });
    let [stayed, moved @ ..] = lives;
    assert!(stayed.len() >= 10, "{} steps are enough to be moved in", stayed.len());
    for moved in moved {
        assert_eq!(moved, stayed);
    }
}

/// A connection with text in both directions' buffers, and a gap.
fn frozen() -> (Transfer, Vec<u8>) {
    let mut transfer = Transfer::new();
    (0..3).for_each(|_| transfer.step());
    let now = transfer.pair.now;
    let form = transfer.pair.client.freeze_connection(now, transfer.client).unwrap();
    (transfer, form)
}

/// Calls of the application, and timers, for a minute of silence.
fn go_on(endpoint: &mut Endpoint, id: ConnectionId, mut now: Instant) {
    let mut into = [0; 5000];
    for step in 0..30 {
        endpoint.update(now, id, |connection, now| {
            let _ = connection.write(now, &into[..3000]);
            let _ = connection.read(now, &mut into);
            if step == 20 {
                let _ = connection.shutdown(now);
            }
        });
        while endpoint.poll_transmit(now, LIMITS).is_some() {}
        now += Duration::from_secs(2);
        endpoint.handle_timeout(now);
    }
}

#[test]
fn damaged_connection_is_refused_and_leaves_nothing_or_goes_on() {
    let (transfer, form) = frozen();
    let now = transfer.pair.now;
    let thaw = |form: &[u8]| {
        let mut endpoint = Endpoint::new(config(CLIENT), now);
        let thawed = endpoint.thaw_connection(now, form, &Registry::builtin());
        if thawed.is_err() {
            assert_eq!((endpoint.connection_count(), endpoint.memory().0), (0, 0), "nothing is left of it");
            return false;
        }
        go_on(&mut endpoint, thawed.unwrap().id, now);
        true
    };
    assert!(thaw(&form));
    // The queued bytes at the end may be anything; what tells of them comes before and behind.
    let places: Vec<usize> = (0..form.len()).filter(|at| *at < 1500 || at % 997 == 0).collect();
    assert!(places.iter().all(|&len| !thaw(&form[..len])), "a part of it is refused");
    let mut refused = 0;
    for (&at, bit) in places.iter().zip((0..8).cycle()) {
        let mut damaged = form.clone();
        damaged[at] ^= 1 << bit;
        refused += usize::from(!thaw(&damaged));
    }
    assert!((30..places.len()).contains(&refused), "{refused} of {}", places.len());
}

/// RFC 8201 §3: the path takes no longer packets than its first hop, which may be another now.
#[test]
fn thawed_connection_fits_the_device_of_its_endpoint() {
    for (mtu, longest) in [(1280, 1280), (1500, 1500), (9000, 1500)] {
        for probes in [false, true] {
            let mtu_probing = probes.then(Box::default);
            let tcp = TcpConfig { mtu_probing, ..tcp_config() };
            let with = |addr: &str| EndpointConfig { tcp: tcp.clone().into(), mtu: 1500, ..config(addr) };
            let mut transfer = Transfer::between(with);
            (0..3).for_each(|_| transfer.step());
            let now = transfer.pair.now;
            let form = transfer.pair.client.freeze_connection(now, transfer.client).unwrap();
            transfer.pair.client = Endpoint::new(EndpointConfig { mtu, ..with(CLIENT) }, now);
            let thawed = transfer.pair.client.thaw_connection(now, &form, &Registry::builtin()).unwrap();
            transfer.client = thawed.id;
            let mut seen = 0;
            while transfer.received.len() < LEN {
                transfer.step_through(|side, _, packet| {
                    if side == 0 {
                        seen = seen.max(packet.len());
                    }
                });
            }
            assert!(seen == longest || probes && seen < longest, "{seen} bytes by a device that takes {mtu}");
        }
    }
}

#[test]
fn what_could_not_have_opened_the_connection_refuses_it() {
    let (mut transfer, form) = frozen();
    let now = transfer.pair.now;
    let registry = Registry::builtin();
    let remote = server();
    let refusal = |config, now, form: &[u8]| {
        Endpoint::new(config, now).thaw_connection(now, form, &registry).unwrap_err()
    };
    assert_eq!(refusal(config("10.0.0.3"), now, &form), ConnectError::NotLocal(ip(CLIENT)).into());
    assert_eq!(refusal(config(SERVER), now, &form), ConnectError::InvalidRemote(remote).into());
    let full = EndpointConfig { connections_max: 0, ..config(CLIENT) };
    assert_eq!(refusal(full, now, &form), ConnectError::TooManyConnections(0).into());
    assert_eq!(refusal(config(CLIENT), Instant::from_millis(1), &form), ThawError::Clock);
    let poor = EndpointConfig { memory_budget: 1000, ..config(CLIENT) };
    assert_eq!(refusal(poor, now, &form), FormError::Invariant("Budget").into());
    let whole = transfer.pair.server.freeze().unwrap();
    let other = FormError::Unsupported("this is not a frozen connection");
    assert_eq!(refusal(config(CLIENT), now, &whole), other.into());

    let client = &mut transfer.pair.client;
    assert_eq!(client.freeze_connection(now, transfer.client), Err(FreezeError::NoConnection));
    transfer.client = client.thaw_connection(now, &form, &registry).unwrap().id;
    let twice = client.thaw_connection(now, &form, &registry);
    assert_eq!(twice, Err(ConnectError::AddressInUse(remote).into()));
    while transfer.received.len() < LEN {
        transfer.step();
    }
}

/// A connection of each state that has a portable form, at its client, with unread and unacknowledged text.
#[test]
fn each_open_state_has_a_portable_form_and_goes_on_to_its_end() {
    let ends = [(false, false), (true, false), (false, true), (true, true)];
    for ((client_shuts, server_shuts), delivered) in
        ends.into_iter().flat_map(|ends| [0, 1, 2, 4].map(|delivered| (ends, delivered)))
    {
        let mut transfer = Transfer::new();
        transfer.pair.lose = |_, _| false;
        let (now, ids) = (transfer.pair.now, [transfer.client, transfer.server]);
        let pair = &mut transfer.pair;
        for (end, id, shuts) in
            [(&mut pair.client, ids[0], client_shuts), (&mut pair.server, ids[1], server_shuts)]
        {
            end.update(now, id, |connection, now| {
                assert_eq!(connection.write(now, &[7; 20_000]), Ok(20_000));
                if shuts {
                    connection.shutdown(now).unwrap();
                }
            });
        }
        let mut read = [0, 0];
        for _ in 0..delivered {
            exchange(pair);
        }
        let Some(state) = pair.client.connection(ids[0]).map(Connection::state) else { continue };
        let form = pair.client.freeze_portable(pair.now, ids[0]);
        if matches!(state, State::TimeWait | State::Closed) {
            assert_eq!(form, Err(FreezeError::NoConnection));
            continue;
        }
        pair.client = Endpoint::new(config(CLIENT), pair.now);
        let client = pair.client.thaw_portable(pair.now, &form.unwrap(), TcpConfig::default()).unwrap();
        assert_eq!(pair.client.connection(client).map(Connection::state), Some(state));
        // Both applications read to the end and close.
        for _ in 0..400 {
            let now = pair.now;
            for (at, (end, id)) in
                [(&mut pair.client, client), (&mut pair.server, ids[1])].into_iter().enumerate()
            {
                end.update(now, id, |connection, now| {
                    let mut into = [0; 30_000];
                    let len = connection.read(now, &mut into).unwrap_or(0);
                    assert!(into[..len].iter().all(|&byte| byte == 7));
                    read[at] += len;
                    let _ = connection.shutdown(now);
                });
            }
            exchange(pair);
        }
        assert_eq!(read, [20_000; 2], "{state:?} after {delivered} exchanges");
        for (end, id) in [(&pair.client, client), (&pair.server, ids[1])] {
            let state = end.connection(id).map_or(State::Closed, Connection::state);
            assert!(matches!(state, State::Closed | State::TimeWait), "{state:?} in the end");
        }
    }
}

/// RFC 9293 §3.8.6.1: a closed window is probed, also after a move. The packets of the move are lost, and
/// among them the one that opens the window.
#[test]
fn closed_window_is_probed_after_a_portable_move() {
    const BUFFER: usize = 8_000;
    let with = |addr: &str| {
        let tcp =
            TcpConfig { receive_buffer_initial: BUFFER, receive_buffer_max: BUFFER, ..TcpConfig::default() };
        EndpointConfig { tcp: tcp.into(), ..config(addr) }
    };
    let mut transfer = Transfer::between(with);
    let (ids, pair) = ([transfer.client, transfer.server], &mut transfer.pair);
    pair.lose = |_, _| false;
    let now = pair.now;
    pair.client.update(now, ids[0], |connection, now| connection.write(now, &[7; 20_000])).unwrap().unwrap();
    (0..400).for_each(|_| exchange(pair));
    let info = pair.client.connection(ids[0]).unwrap().info(pair.now);
    assert_eq!((info.snd_wnd, info.bytes_acked), (0, BUFFER as u64));

    let form = pair.client.freeze_portable(pair.now, ids[0]).unwrap();
    pair.client = Endpoint::new(with(CLIENT), pair.now);
    let client = pair.client.thaw_portable(pair.now, &form, TcpConfig::default()).unwrap();
    let mut read = 0;
    let (begun, mut into) = (pair.now, [0; BUFFER]);
    let mut take = |pair: &mut Pair| {
        let now = pair.now;
        pair.server
            .update(now, ids[1], |connection, now| read += connection.read(now, &mut into).unwrap_or(0));
        read
    };
    take(pair);
    drop([pair.carry(0), pair.carry(1)]);
    while take(pair) < 20_000 {
        let due = [&pair.client, &pair.server].into_iter().filter_map(Endpoint::poll_timeout).min();
        pair.now = pair.now.max(due.expect("a timer runs"));
        let now = pair.now;
        [&mut pair.client, &mut pair.server].into_iter().for_each(|end| end.handle_timeout(now));
        exchange(pair);
    }
    let took = pair.now.saturating_since(begun);
    assert!((Pair::DELAY..Duration::from_secs(3)).contains(&took), "{took:?}");
    assert!(pair.client.connection(client).is_some_and(|it| it.error().is_none()));
}

/// RFC 9293 §3.8.6.2.1 (4): less than a segment waits for the override timeout, before a move and after it.
#[test]
fn small_window_is_used_after_a_portable_move() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let (id, iss) = host.accepted(listener, 4000);
    let ack = Fields { seq: SeqNum::new(1001), ack: iss + 1, flags: Flags::ACK, ..Fields::default() };
    host.from(4000, Fields { window: 80, ..ack });
    let now = host.now;
    host.endpoint.update(now, id, |connection, now| connection.write(now, &[7; 20_000])).unwrap().unwrap();
    let form = host.endpoint.freeze_portable(now, id).unwrap();
    host.endpoint = Endpoint::new(config(SERVER), now);
    host.endpoint.thaw_portable(now, &form, TcpConfig::default()).unwrap();
    assert_eq!(host.sent().iter().map(|sent| sent.payload.len()).sum::<usize>(), 0);
    let sent = host.wait(Duration::from_secs(1));
    let texts: Vec<_> = sent.iter().filter(|(_, sent)| !sent.payload.is_empty()).collect();
    let first = texts.first().expect("text leaves without an answer");
    assert_eq!(first.1.payload.len(), 80);
    assert!((Duration::from_millis(100)..=Duration::from_secs(1)).contains(&first.0), "{:?}", first.0);
}

/// Everything that both ends send arrives 5 ms later.
fn exchange(pair: &mut Pair) {
    let packets = [pair.carry(0), pair.carry(1)];
    pair.now += Pair::DELAY;
    let now = pair.now;
    for (packets, end) in packets.iter().zip([&mut pair.server, &mut pair.client]) {
        packets.iter().for_each(|packet| end.handle_packet(now, packet, RxMeta::default()));
        end.handle_timeout(now);
    }
}

#[test]
fn damaged_portable_form_is_refused_or_goes_on() {
    let mut transfer = Transfer::new();
    (0..3).for_each(|_| transfer.step());
    let now = transfer.pair.now;
    let form = transfer.pair.client.freeze_portable(now, transfer.client).unwrap();
    let thaw = |form: &[u8]| {
        let mut endpoint = Endpoint::new(config(CLIENT), now);
        let thawed = endpoint.thaw_portable(now, form, TcpConfig::default());
        if let Ok(id) = thawed {
            go_on(&mut endpoint, id, now);
        } else {
            assert_eq!((endpoint.connection_count(), endpoint.memory().0), (0, 0), "nothing is left of it");
        }
        thawed.is_ok()
    };
    assert!(thaw(&form));
    let places: Vec<usize> =
        (0..form.len()).filter(|at| *at < 200 || at % 997 == 0 || form.len() - at < 100).collect();
    assert!(places.iter().all(|&len| !thaw(&form[..len])), "a part of it is refused");
    let mut refused = 0;
    for &at in &places {
        for bit in 0..8 {
            let mut damaged = form.clone();
            damaged[at] ^= 1 << bit;
            refused += usize::from(!thaw(&damaged));
        }
    }
    assert!((300..8 * places.len()).contains(&refused), "{refused} of {}", 8 * places.len());
}

/// A sender in the middle of a lossy transfer, as version 1 wrote it (with `UPDATE_SNAPSHOTS=1`). Later
/// versions must read it.
#[test]
fn portable_form_of_version_1_is_read() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/src/endpoint/tests/portable-1.form");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        let mut transfer = Transfer::new();
        (0..4).for_each(|_| transfer.step());
        let form = transfer.pair.client.freeze_portable(transfer.pair.now, transfer.client).unwrap();
        std::fs::write(kept, form).unwrap();
    }
    let form = std::fs::read(kept).unwrap();
    // Another clock, which began long before.
    let now = Instant::from_millis(7_000_000_000);
    let mut endpoint = Endpoint::new(config(CLIENT), now);
    let id = endpoint.thaw_portable(now, &form, TcpConfig::default()).unwrap();
    let info = endpoint.connection(id).unwrap().info(now);
    assert_eq!(
        (info.state, endpoint.connection(id).unwrap().tuple().remote()),
        (State::Established, server())
    );
    assert!(info.unacked > 0 && info.send_queue > 0 && info.cwnd > 10_000, "{info:?}");
    let packet = endpoint.poll_transmit(now, LIMITS).expect("the tail is probed").to_vec();
    let text: Vec<u8> = packet[packet.len() - 1000..].to_vec();
    let first = (0..251).find(|&byte| byte == usize::from(text[0])).unwrap();
    let expected: Vec<u8> = (first..first + 1000).map(Transfer::byte).collect();
    assert_eq!(text, expected, "a part of the stream");
}
