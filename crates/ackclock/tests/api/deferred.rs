//! Deferred accept against clients that come, go and come again: each who accepted a SYN hears at once what
//! came of it.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ackclock::{
    Clock as _, DeferredListener, Incoming, Instant, Limits, Port, Stack, TcpStream, TxPacket, Unreachable,
};
use ackclock_wire::{
    ControlSegment, Fields, Flags, HEADER_MAX, IpPacket, IpPayload, Segment, SeqNum, write_control,
};

use crate::support::{self, Virtual, Woken, addr, detached, hosts};

const CLIENT: &str = "10.0.0.9:4000";
const SERVER: &str = "10.0.0.1:80";

/// A stack whose network is the test.
struct Server {
    stack: Stack,
    port: Port,
    clock: Arc<Virtual>,
}

/// Someone who waits for the connection of a SYN.
struct Waiting {
    future: Pin<Box<dyn Future<Output = io::Result<TcpStream>>>>,
    count: Arc<Woken>,
}

impl Server {
    fn new() -> Self {
        let clock = Arc::default();
        let (stack, port) = detached(&clock, 1);
        Self { stack, port, clock }
    }

    fn listener(&self) -> DeferredListener {
        self.stack.listener().addr(addr(SERVER)).deferred().unwrap()
    }

    /// A segment of the client's arrives; what it provokes is returned as flags and sequence number.
    fn give(&mut self, flags: Flags, seq: u32, ack: u32) -> Vec<(Flags, SeqNum)> {
        self.give_from(CLIENT, flags, seq, ack)
    }

    fn give_from(&mut self, client: &str, flags: Flags, seq: u32, ack: u32) -> Vec<(Flags, SeqNum)> {
        let (seq, ack) = (SeqNum::new(seq), SeqNum::new(ack));
        let fields = Fields { seq, ack, flags, window: 65_535, ..Fields::default() };
        let mut packet = [0; HEADER_MAX];
        let control = ControlSegment {
            src: addr(client),
            dst: addr(SERVER),
            ttl: 64,
            traffic_class: 0,
            flow_label: ackclock_wire::FlowLabel::NONE,
            fields,
        };
        let len = write_control(&mut packet, &control);
        self.port.handle_packet(self.clock.now(), &packet[..len], Default::default());
        self.sent()
    }

    fn sent(&mut self) -> Vec<(Flags, SeqNum)> {
        let limits = Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };
        let mut sent = Vec::new();
        while self.port.poll_transmit(self.clock.now(), limits, |packet| {
            let ip = IpPacket::parse(packet.header).unwrap();
            let IpPayload::Tcp(bytes) = ip.payload else { panic!("not TCP") };
            let segment = Segment::parse(ip.src, ip.dst, bytes, packet.checksum).unwrap();
            sent.push((segment.flags, segment.seq));
        }) {}
        sent
    }

    /// Lets time pass and timers run.
    fn wait(&mut self, span: Duration) {
        let end = self.clock.now() + span;
        while let Some(next) = self.port.poll_timeout().filter(|next| *next <= end) {
            self.set_time(next);
        }
        self.set_time(end);
    }

    fn set_time(&mut self, at: Instant) {
        self.clock.set(at);
        self.port.handle_timeout(at);
        self.sent();
    }
}

/// The SYN that waits.
fn incoming(listener: &DeferredListener) -> Incoming {
    let mut next = Box::pin(listener.incoming());
    match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(incoming) => incoming.unwrap(),
        Poll::Pending => panic!("no SYN waits"),
    }
}

impl Waiting {
    /// Accepts the SYN, and waits.
    fn begin(incoming: Incoming) -> Self {
        let mut waiting = Self { future: Box::pin(incoming.accept()), count: Arc::default() };
        assert!(waiting.poll().is_pending());
        waiting
    }

    fn poll(&mut self) -> Poll<io::Result<TcpStream>> {
        self.future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&self.count))))
    }

    /// Asserts that it was woken, and that the client has gone.
    fn is_told_that_the_client_has_gone(&mut self) {
        assert_eq!(self.count.times(), 1, "woken once");
        let Poll::Ready(Err(error)) = self.poll() else { panic!("still waiting, or connected") };
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        assert!(error.to_string().contains("the client gave up"), "{error}");
    }
}

#[test]
fn a_client_whose_destination_cannot_be_reached_is_told_so() {
    let mut server = Server::new();
    let listener = server.listener();
    server.give(Flags::SYN, 1000, 0);
    incoming(&listener).unreachable(Unreachable::Host);
    let limits = Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };
    let mut sent = Vec::new();
    let mut keep = |packet: &TxPacket<'_>| sent.push([packet.header, packet.payload[0]].concat());
    while server.port.poll_transmit(server.clock.now(), limits, |packet| keep(packet)) {}
    let ip = IpPacket::parse(&sent[0]).unwrap();
    assert!(matches!(ip.payload, IpPayload::Icmp4([3, 1, ..])), "{ip:?}");
    assert_eq!((ip.dst, sent.len()), (addr(CLIENT).ip(), 1));
}

#[test]
fn three_hundred_accepts_of_a_port_that_resets_and_comes_again_end_at_once() {
    let mut server = Server::new();
    let listener = server.listener();
    let mut all: Vec<Waiting> = (0..300)
        .map(|n| {
            let irs = 1_000 + 100_000 * n;
            server.give(Flags::SYN, irs, 0);
            let waiting = Waiting::begin(incoming(&listener));
            assert_eq!(server.sent()[0].0, Flags::SYN | Flags::ACK);
            server.give(Flags::RST, irs + 1, 0);
            waiting
        })
        .collect();
    assert_eq!(server.clock.now(), Instant::ZERO, "no time has passed");
    all.iter_mut().for_each(Waiting::is_told_that_the_client_has_gone);
    assert_eq!(server.port.poll_timeout(), None, "and nothing is left to happen");
}

#[test]
fn the_last_attempt_from_the_port_is_the_one_that_connects() {
    let mut server = Server::new();
    let listener = server.listener();
    server.give(Flags::SYN, 1000, 0);
    let mut first = Waiting::begin(incoming(&listener));
    server.sent();
    server.give(Flags::RST, 1001, 0);
    server.give(Flags::SYN, 5000, 0);
    let mut second = Waiting::begin(incoming(&listener));
    let (_, iss) = server.sent()[0];
    server.give(Flags::ACK, 5001, (iss + 1).raw());
    first.is_told_that_the_client_has_gone();
    assert_eq!(second.count.times(), 1);
    let Poll::Ready(Ok(stream)) = second.poll() else { panic!("not connected") };
    assert_eq!(stream.peer_addr().unwrap(), addr(CLIENT));
}

#[test]
fn a_syn_within_the_window_of_an_accepted_one_ends_it() {
    let mut server = Server::new();
    let listener = server.listener();
    server.give(Flags::SYN, 1000, 0);
    let mut waiting = Waiting::begin(incoming(&listener));
    server.sent();
    server.give(Flags::SYN, 1500, 0);
    waiting.is_told_that_the_client_has_gone();
}

#[test]
fn a_client_that_falls_silent_is_given_up_when_its_syn_ack_is() {
    let mut server = Server::new();
    let listener = server.listener();
    server.give(Flags::SYN, 1000, 0);
    let mut waiting = Waiting::begin(incoming(&listener));
    server.sent();
    server.wait(Duration::from_millis(62_999));
    assert_eq!(waiting.count.times(), 0);
    assert!(waiting.poll().is_pending());
    server.wait(Duration::from_millis(2));
    waiting.is_told_that_the_client_has_gone();
    assert_eq!(server.port.poll_timeout(), None);
}

#[test]
fn a_syn_taken_back_while_it_is_held_fails_its_accept_at_once() {
    let mut server = Server::new();
    let listener = server.listener();
    server.give(Flags::SYN, 1000, 0);
    let held = incoming(&listener);
    server.give(Flags::RST, 1001, 0);
    let mut accept = Box::pin(held.accept());
    let polled = accept.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Err(error)) = polled else { panic!("the client has gone") };
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
    assert_eq!(server.sent(), [], "nothing is answered");
}

#[test]
fn the_newest_waker_is_woken_and_the_one_before_let_go() {
    let mut server = Server::new();
    let listener = server.listener();
    server.give(Flags::SYN, 1000, 0);
    let mut waiting = Waiting::begin(incoming(&listener));
    let before = std::mem::take(&mut waiting.count);
    assert!(waiting.poll().is_pending());
    assert_eq!(Arc::strong_count(&before), 1, "no one holds the old waker");
    server.sent();
    server.give(Flags::RST, 1001, 0);
    assert_eq!(before.times(), 0);
    waiting.is_told_that_the_client_has_gone();
}

#[test]
fn accepts_that_are_dropped_leave_nothing_whatever_comes_of_their_syns() {
    let mut server = Server::new();
    let listener = server.listener();
    for (irs, connects) in [(1000, false), (100_000, true)] {
        server.give(Flags::SYN, irs, 0);
        let waiting = Waiting::begin(incoming(&listener));
        let (_, iss) = server.sent()[0];
        let count = Arc::clone(&waiting.count);
        drop(waiting);
        assert_eq!(Arc::strong_count(&count), 1, "no one holds its waker");
        if connects {
            server.give(Flags::ACK, irs + 1, (iss + 1).raw());
            assert!(server.sent().is_empty());
        } else {
            server.give(Flags::RST, irs + 1, 0);
        }
        assert_eq!(count.times(), 0);
    }
    server.wait(Duration::from_secs(2000));
    assert_eq!((server.stack.info().connections, server.port.poll_timeout()), (0, None));
}

#[test]
fn an_accept_outlives_its_listener_only_to_say_so() {
    let mut server = Server::new();
    let listener = server.listener();
    server.give(Flags::SYN, 1000, 0);
    let mut waiting = Waiting::begin(incoming(&listener));
    drop(listener);
    assert_eq!(waiting.count.times(), 1);
    let Poll::Ready(Err(error)) = waiting.poll() else { panic!("still waiting") };
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
    assert!(error.to_string().contains("the listener was dropped"), "{error}");
}

#[test]
fn syns_beyond_the_decisions_that_may_be_pending_wait_for_their_clients_to_try_again() {
    let mut server = Server::new();
    let listener = server.stack.listener().addr(addr(SERVER)).decisions_max(1).deferred().unwrap();
    server.give(Flags::SYN, 1000, 0);
    let held = incoming(&listener);
    let other = "10.0.0.9:4001";
    server.give_from(other, Flags::SYN, 7, 0);
    assert_eq!(server.stack.counters().dropped_syn_backlog, 1);
    held.reset();
    server.give_from(other, Flags::SYN, 7, 0);
    assert_eq!(server.stack.counters().dropped_syn_backlog, 1);
    assert_eq!(incoming(&listener).peer_addr(), addr(other));
}

#[tokio::test(start_paused = true)]
async fn any_number_of_decisions_may_wait() {
    for most in [0, usize::MAX / 2 + 1, usize::MAX] {
        let hosts = hosts();
        let server = hosts.server.listener().addr(addr(support::SERVER)).decisions_max(most);
        let server = server.backlog(usize::MAX).syn_backlog(usize::MAX).deferred().unwrap();
        let served = async { server.incoming().await.unwrap().accept().await.unwrap() };
        let (_, stream) = tokio::join!(served, hosts.client.connect(addr(support::SERVER)));
        assert!(stream.is_ok(), "{most}");
    }
}
