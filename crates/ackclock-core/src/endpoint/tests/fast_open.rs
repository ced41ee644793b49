//! Fast Open (RFC 7413): the server and the client each against a script, then both together.

use ackclock_wire::FastOpenCookie;

use super::*;
use crate::ReadError;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

fn serving(bound: usize) -> (Host, ListenerId) {
    Host::listening(ListenOptions { fast_open_max: bound, ..on_port(PORT) })
}

fn with_cookie(mut fields: Fields, cookie: FastOpenCookie) -> Fields {
    fields.options.fast_open = Some(cookie);
    fields
}

/// The cookie that the server gives the client.
fn cookie(host: &mut Host, port: u16) -> FastOpenCookie {
    let syn_ack = host.from(port, with_cookie(syn(1000), FastOpenCookie::REQUEST));
    let cookie = syn_ack[0].options.fast_open.expect("a cookie");
    assert_eq!((cookie.as_slice().len(), syn_ack[0].ack), (8, SeqNum::new(1001)));
    cookie
}

fn fast_syn(host: &mut Host, port: u16, cookie: FastOpenCookie, data: &[u8]) -> Vec<SentSegment> {
    host.give(client(port), server(), with_cookie(syn(1000), cookie), data)
}

fn read(host: &mut Host, id: ConnectionId) -> Result<Vec<u8>, ReadError> {
    let mut buffer = [0; 4096];
    let read = host.endpoint.update(host.now, id, |connection, now| connection.read(now, &mut buffer));
    read.unwrap().map(|len| buffer[..len].to_vec())
}

fn write(host: &mut Host, id: ConnectionId, data: &[u8]) -> Vec<SentSegment> {
    let written = host.endpoint.update(host.now, id, |connection, now| connection.write(now, data));
    assert_eq!(written.unwrap(), Ok(data.len()));
    host.sent()
}

#[test]
fn a_listener_without_fast_open_gives_no_cookie_and_takes_no_data() {
    let (mut host, listener) = Host::listening(on_port(PORT));
    let syn_ack = fast_syn(&mut host, 2000, FastOpenCookie::REQUEST, b"request");
    assert_eq!((syn_ack[0].options.fast_open, syn_ack[0].ack), (None, SeqNum::new(1001)));
    assert!(host.endpoint.accept(host.now, listener).is_none());
}

#[test]
fn data_of_a_syn_with_a_cookie_is_read_and_answered_before_the_handshake_ends() {
    let (mut host, listener) = serving(4);
    let cookie = cookie(&mut host, 2000);
    let syn_ack = fast_syn(&mut host, 2001, cookie, b"request");
    assert_eq!((syn_ack.len(), syn_ack[0].flags), (1, Flags::SYN | Flags::ACK));
    assert_eq!((syn_ack[0].ack, syn_ack[0].options.fast_open), (SeqNum::new(1008), None));
    let id = host.endpoint.accept(host.now, listener).expect("accepted before the handshake ends");
    assert_eq!(host.state(id), State::SynReceived);
    assert_eq!(read(&mut host, id), Ok(b"request".to_vec()));
    assert_eq!(read(&mut host, id), Err(ReadError::WouldBlock));
    let answer = write(&mut host, id, b"answer");
    assert_eq!((answer.len(), answer[0].payload.as_slice()), (1, &b"answer"[..]));
    assert_eq!(answer[0].seq, syn_ack[0].seq + 1);
    // One acknowledgement ends the handshake and takes the answer.
    assert!(host.from(2001, ack(1008, syn_ack[0].seq + 7)).is_empty());
    assert_eq!(host.state(id), State::Established);
    assert!(host.endpoint.connection(id).unwrap().is_flushed());
    assert_eq!(host.endpoint.counters().fast_open_accepted, 1);
}

#[test]
fn a_syn_ack_that_is_lost_is_repeated_with_the_answer_behind_it() {
    let (mut host, listener) = serving(4);
    let cookie = cookie(&mut host, 2000);
    let syn_ack = fast_syn(&mut host, 2001, cookie, b"request");
    let id = host.endpoint.accept(host.now, listener).unwrap();
    write(&mut host, id, b"answer");
    let again: Vec<SentSegment> = host.wait(2 * SECOND).into_iter().map(|(_, sent)| sent).collect();
    let from = |flags| again.iter().filter(|sent| sent.dst == client(2001) && sent.flags == flags).count();
    assert_eq!(from(Flags::SYN | Flags::ACK), 1, "{again:?}");
    assert!(again.iter().any(|sent| sent.payload == b"answer"), "{again:?}");
    // The client's SYN arrived twice: the answer is the SYN-ACK, and the data is not delivered again.
    let repeated = fast_syn(&mut host, 2001, cookie, b"request");
    assert_eq!((repeated[0].seq, repeated[0].flags), (syn_ack[0].seq, Flags::SYN | Flags::ACK));
    host.from(2001, ack(1008, syn_ack[0].seq + 7));
    assert_eq!(host.state(id), State::Established);
    assert_eq!(read(&mut host, id), Ok(b"request".to_vec()));
    assert_eq!(read(&mut host, id), Err(ReadError::WouldBlock));
}

#[test]
fn a_cookie_of_another_client_or_made_up_gets_a_new_one_and_no_data_is_taken() {
    let (mut host, listener) = serving(4);
    let others = cookie(&mut host, 2000);
    let made_up = FastOpenCookie::new(&[7; 8]).unwrap();
    let elsewhere = SocketAddr::new(ip("10.0.0.3"), 2000);
    let to_other = host.give(elsewhere, server(), with_cookie(syn(1000), others), b"request");
    let to_forger = fast_syn(&mut host, 2001, made_up, b"request");
    for answer in [&to_other[0], &to_forger[0]] {
        assert_eq!(answer.ack, SeqNum::new(1001));
        assert!(answer.options.fast_open.is_some_and(|cookie| !cookie.is_request()));
    }
    assert_ne!(to_other[0].options.fast_open, Some(others));
    assert_eq!(to_forger[0].options.fast_open, Some(others));
    assert!(host.endpoint.accept(host.now, listener).is_none());
    assert_eq!(host.endpoint.counters().fast_open_refused, 2);
}

#[test]
fn a_cookie_is_good_for_one_day_more_and_then_no_longer() {
    let (mut host, _) = serving(4);
    let old = cookie(&mut host, 2000);
    host.wait(DAY);
    let answer = fast_syn(&mut host, 2001, old, b"request");
    assert_eq!(answer[0].ack, SeqNum::new(1008), "taken");
    let new = answer[0].options.fast_open.expect("and replaced");
    assert_ne!(new, old);
    host.wait(DAY);
    let answer = fast_syn(&mut host, 2002, old, b"request");
    assert_eq!(answer[0].ack, SeqNum::new(1001), "not taken");
    let answer = fast_syn(&mut host, 2003, new, b"request");
    assert_eq!(answer[0].ack, SeqNum::new(1008));
}

#[test]
fn handshakes_that_are_not_over_are_bounded_and_beyond_that_a_syn_is_an_ordinary_one() {
    let (mut host, _) = serving(3);
    let cookie = cookie(&mut host, 2000);
    let fast = |host: &mut Host, port| fast_syn(host, port, cookie, b"request")[0].clone();
    let taken: Vec<SentSegment> = (3000..3010).map(|port| fast(&mut host, port)).collect();
    let acked = |sent: &SentSegment| sent.ack == SeqNum::new(1008);
    assert_eq!(taken.iter().filter(|sent| acked(sent)).count(), 3);
    assert_eq!(host.endpoint.counters().fast_open_over_bound, 7);
    // Each one that ends makes room for one more.
    host.from(3000, ack(1008, taken[0].seq + 1));
    assert!(acked(&fast(&mut host, 4000)));
    assert!(!acked(&fast(&mut host, 4001)));
}

/// RFC 7413 §5.1: a spoofed host's resets must not fuel the flood, so what has been reset counts against the
/// bound until it would have been given up for want of an answer: three minutes after its SYN.
#[test]
fn handshake_that_is_reset_keeps_its_place_until_it_would_have_timed_out() {
    let (mut host, listener) = serving(2);
    let cookie = cookie(&mut host, 2000);
    let opened = host.now;
    let accepted =
        |host: &mut Host, port| fast_syn(host, port, cookie, b"request")[0].ack == SeqNum::new(1008);
    assert!(accepted(&mut host, 3000) && accepted(&mut host, 3001));
    // One is the application's, the other waits.
    let id = host.endpoint.accept(host.now, listener).unwrap();
    for port in [3000, 3001] {
        assert_eq!(host.from(port, fields(Flags::RST, 1008, SeqNum::new(0))), []);
    }
    host.endpoint.release(host.now, id);
    for seconds in [0, 1, 179] {
        host.wait((opened + seconds * SECOND).saturating_since(host.now));
        let port = 4000 + u16::try_from(seconds).unwrap();
        assert!(!accepted(&mut host, port), "{seconds} s");
    }
    host.wait((opened + 180 * SECOND).saturating_since(host.now));
    assert!(accepted(&mut host, 5000) && accepted(&mut host, 5001));
    assert!(!accepted(&mut host, 5002));
}

/// A connection that was opened and then reset has shown that its client is there.
#[test]
fn connection_that_is_reset_after_its_handshake_keeps_no_place() {
    let (mut host, _) = serving(1);
    let cookie = cookie(&mut host, 2000);
    for port in 3000..3003 {
        let syn_ack = fast_syn(&mut host, port, cookie, b"request")[0].clone();
        assert_eq!(syn_ack.ack, SeqNum::new(1008), "{port}");
        host.from(port, ack(1008, syn_ack.seq + 1));
        host.from(port, fields(Flags::RST, 1008, SeqNum::new(0)));
    }
}

#[test]
fn no_more_than_a_segment_of_a_syn_is_taken() {
    let (mut host, listener) = serving(1);
    let cookie = cookie(&mut host, 2000);
    let answer = fast_syn(&mut host, 2001, cookie, &[5; 3000]);
    assert_eq!(answer[0].ack, SeqNum::new(1001 + 1460));
    let id = host.endpoint.accept(host.now, listener).unwrap();
    assert_eq!(read(&mut host, id).unwrap().len(), 1460);
}

/// A client that knows the server's cookie, and its listener.
fn known() -> (Pair, ListenerId) {
    let mut pair = Pair::new();
    let options = ListenOptions { fast_open_max: 8, ..on_port(PORT) };
    let listener = pair.server.listen(pair.now, options).unwrap();
    let (first, taken) = pair.connect(b"first");
    assert_eq!(taken, 5);
    pair.run(SECOND);
    assert_eq!(pair.client.connection(first).unwrap().state(), State::Established);
    let accepted = pair.server.accept(pair.now, listener).unwrap();
    assert_eq!(pair.read(accepted), b"first", "data follows the handshake that fetches the cookie");
    assert_eq!(pair.server.counters().fast_open_accepted, 0);
    (pair, listener)
}

impl Pair {
    fn connect(&mut self, data: &[u8]) -> (ConnectionId, usize) {
        self.client.connect_with_data(self.now, server(), (None, 0), None, data).unwrap()
    }

    fn read(&mut self, id: ConnectionId) -> Vec<u8> {
        let mut buffer = [0; 8192];
        let read = self.server.update(self.now, id, |connection, now| connection.read(now, &mut buffer));
        buffer[..read.unwrap().unwrap()].to_vec()
    }
}

#[test]
fn the_second_connection_delivers_its_data_with_the_syn() {
    let (mut pair, listener) = known();
    let (client, _) = pair.connect(b"second");
    let syn = pair.carry(0).concat();
    assert_eq!(decode(&syn).payload, b"second");
    pair.server.handle_packet(pair.now, &syn, RxMeta::default());
    let id = pair.server.accept(pair.now, listener).expect("before the client hears anything");
    assert_eq!(pair.read(id), b"second");
    pair.run(SECOND);
    assert_eq!(pair.client.connection(client).unwrap().state(), State::Established);
    assert!(pair.client.connection(client).unwrap().is_flushed());
    let info = pair.client.connection(client).unwrap().info(pair.now);
    assert_eq!((info.bytes_sent, info.bytes_retransmitted, info.timeouts), (6, 0, 0));
}

#[test]
fn delivery_of_what_the_syn_carried_is_told_with_the_syn_ack() {
    let (mut pair, _) = known();
    let (id, _) = pair.connect(b"second");
    let began = pair.now;
    let awaited =
        |pair: &mut Pair| pair.client.update(pair.now, id, |tcp, _| tcp.await_delivered(6)).unwrap();
    assert_eq!(awaited(&mut pair), None);
    let syn = pair.carry(0).concat();
    pair.server.handle_packet(pair.now, &syn, RxMeta::default());
    let syn_ack = pair.carry(1).concat();
    while pair.client.poll_event().is_some() {}
    pair.now += 2 * Pair::DELAY;
    pair.client.handle_packet(pair.now, &syn_ack, RxMeta::default());
    let told = pair.client.poll_event();
    assert!(matches!(told, Some(Event::Connection(_, now)) if now.connected && now.delivered), "{told:?}");
    assert_eq!(awaited(&mut pair), Some((6, began + 2 * Pair::DELAY)));
}

#[test]
fn a_syn_ack_from_before_a_pause_gives_no_sample() {
    for paused in [Duration::ZERO, Duration::from_secs(3600)] {
        let (mut pair, listener) = known();
        pair.connect(b"second");
        let syn = pair.carry(0).concat();
        pair.server.handle_packet(pair.now, &syn, RxMeta::default());
        let id = pair.server.accept(pair.now, listener).unwrap();
        let syn_ack = pair.carry(1).concat();
        pair.now += Pair::DELAY;
        pair.client.handle_packet(pair.now, &syn_ack, RxMeta::default());
        let last = pair.carry(0).concat();
        pair.now += Pair::DELAY + paused;
        pair.server.handle_packet(pair.now, &last, RxMeta::default());
        let info = pair.server.connection(id).unwrap().info(pair.server.own_time(pair.now));
        let sample = if paused.is_zero() { 2 * Pair::DELAY } else { Duration::ZERO };
        assert_eq!((info.state, info.srtt), (State::Established, sample));
    }
}

#[test]
fn data_beyond_the_first_segment_follows_the_handshake() {
    let (mut pair, listener) = known();
    let data: Vec<u8> = (0..5000_u32).map(|n| (n % 251) as u8).collect();
    let (client, taken) = pair.connect(&data);
    assert_eq!(taken, 5000);
    pair.run(SECOND);
    let id = pair.server.accept(pair.now, listener).unwrap();
    assert_eq!(pair.read(id), data);
    assert!(pair.client.connection(client).unwrap().is_flushed());
}

#[test]
fn a_middlebox_that_eats_such_syns_costs_one_timeout_and_then_none_for_an_hour() {
    let (mut pair, listener) = known();
    let sent = pair.counts[0];
    assert!(sent < 20);
    // The next packet is the SYN with data.
    pair.lose = |side, _| side == 0;
    let (client, _) = pair.connect(b"request");
    pair.carry(0);
    pair.lose = |_, _| false;
    pair.run(2 * SECOND);
    let id = pair.server.accept(pair.now, listener).unwrap();
    assert_eq!(pair.read(id), b"request");
    assert_eq!(pair.client.connection(client).unwrap().state(), State::Established);
    assert_eq!(pair.client.counters().fast_open_fell_back, 1);
    assert_eq!(pair.server.counters().fast_open_accepted, 0);

    let plain = |pair: &mut Pair| {
        pair.connect(b"next");
        let syn = decode(&pair.carry(0).concat());
        syn.payload.is_empty() && syn.options.fast_open.is_none()
    };
    assert!(plain(&mut pair), "the server is not tried for an hour");
    pair.run(3598 * SECOND);
    assert!(plain(&mut pair));
    pair.run(10 * SECOND);
    assert!(!plain(&mut pair), "and then is");
}

#[test]
fn a_server_that_forgot_its_key_gives_a_new_cookie_and_gets_the_data_again() {
    let (mut pair, _) = known();
    let forgetful = EndpointConfig { secret: [9; 32], ..config(SERVER) };
    pair.server = Endpoint::new(forgetful, pair.now);
    let options = ListenOptions { fast_open_max: 8, ..on_port(PORT) };
    let listener = pair.server.listen(pair.now, options).unwrap();
    pair.connect(b"one");
    pair.run(SECOND);
    let id = pair.server.accept(pair.now, listener).unwrap();
    assert_eq!(pair.read(id), b"one");
    assert_eq!((pair.server.counters().fast_open_refused, pair.server.counters().fast_open_accepted), (1, 0));
    pair.connect(b"two");
    pair.run(SECOND);
    let id = pair.server.accept(pair.now, listener).unwrap();
    assert_eq!(pair.read(id), b"two");
    assert_eq!(pair.server.counters().fast_open_accepted, 1);
}

#[test]
fn a_client_remembers_a_bounded_number_of_servers() {
    let mut host = Host::with(config(CLIENT));
    let given = FastOpenCookie::new(&[1; 8]).unwrap();
    let servers = 1030_u32;
    let addr = |n: u32| SocketAddr::new(IpAddr::from([10, 9, (n >> 8) as u8, n as u8]), 80);
    let syn_of = |host: &mut Host, n| {
        let local = (None, u16::try_from(2000 + n).unwrap());
        host.endpoint.connect_with_data(host.now, addr(n), local, None, b"x").unwrap();
        host.sent().remove(0)
    };
    for n in 0..servers {
        let syn = syn_of(&mut host, n);
        let answer = with_cookie(fields(Flags::SYN | Flags::ACK, 77, syn.seq + 1), given);
        host.give(addr(n), syn.src, answer, &[]);
        host.now += Duration::from_millis(1);
    }
    let knows = |host: &mut Host, n: u32, port: u16| {
        host.endpoint.connect_with_data(host.now, addr(n), (None, port), None, b"x").unwrap();
        host.sent().iter().any(|sent| sent.options.fast_open == Some(given))
    };
    assert!(!knows(&mut host, 0, 60_000), "the one used longest ago is forgotten");
    assert!(knows(&mut host, servers - 1, 60_001));
}
