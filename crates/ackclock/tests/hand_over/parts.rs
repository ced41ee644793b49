//! Each part of a stack goes along. The peer is the test, which writes and reads single packets.
//!
//! Both owners share a runtime whose clock is paused, so that only a sleep of the test moves it. The real
//! time that a hand-over takes is measured, because the new stack's clock includes it.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use ackclock::device::memory::{self, MemoryDevice};
use ackclock::device::{Capabilities, Device, ReceiveBatch};
use ackclock::{Stack, TakenOver, TcpConfig, TcpListener, TcpStream, TxPacket};
use ackclock_wire::{
    ChecksumState, FastOpenCookie, Fields, Flags, FlowLabel, HEADER_MAX, HeaderTemplate, IpPacket, IpPayload,
    Segment, SeqNum, TcpOptions, TxChecksum, UdpHeader, write_udp,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

const SERVER: &str = "10.0.0.2:7";
const CLIENT: &str = "10.0.0.1:4000";
/// The first sequence number of the test's connections.
const IRS: u32 = 1000;
/// tokio's timers end on whole milliseconds.
const TICK: Duration = Duration::from_millis(2);

/// RFC 9293 §3.10.7.4: a FIN that comes again in TIME-WAIT is acknowledged, and restarts the 2 MSL timer.
#[tokio::test(start_paused = true)]
async fn time_wait_answers_a_fin_and_ends_in_its_time() {
    let (stack, mut wire) = begin();
    let listener = stack.listen(addr(SERVER)).unwrap();
    let [first, second, third] = [4000, 4001, 4002].map(|port| SocketAddr::new(addr(CLIENT).ip(), port));
    let mut fins = Vec::new();
    let mut held = Vec::new();
    for client in [first, second, third] {
        let (mut stream, iss) = wire.accepted(client, &listener).await;
        stream.shutdown().await.unwrap();
        assert_eq!(wire.exchange(&[]).await.len(), 1, "its FIN");
        let fin = from(client, Flags::FIN | Flags::ACK, IRS + 1, iss + 2);
        assert_acknowledges(&wire.exchange(&[&fin]).await, iss + 2, IRS + 2);
        fins.push((fin, iss));
        // The connections that a program has closed are records, the last one is whole.
        if client == third {
            held.push(stream);
        }
    }
    let began = Instant::now();
    let (mut taken, took) = handed_over(&stack, &mut wire, || {}, |_| {});
    drop((stack, held));
    assert_eq!(taken.streams.len(), 1);
    let two_msl = TcpConfig::default().time_wait;
    sleep_until(began + two_msl - took - TICK).await;
    for (fin, iss) in [&fins[0], &fins[2]] {
        assert_acknowledges(&wire.exchange(&[fin]).await, iss + 2, IRS + 2);
    }
    let restarted = Instant::now();
    sleep_until(began + two_msl + TICK).await;
    let (fin, iss) = &fins[1];
    assert_resets(&wire.exchange(&[fin]).await, iss + 2);
    sleep_until(restarted + two_msl - TICK).await;
    assert_eq!(taken.stack.info().connections, 1, "the one whose stream is held");
    taken.streams.clear();
    let (fin, iss) = &fins[2];
    assert_acknowledges(&wire.exchange(&[fin]).await, iss + 2, IRS + 2);
    sleep_until(restarted + two_msl + TICK).await;
    let (fin, iss) = &fins[0];
    assert_resets(&wire.exchange(&[fin]).await, iss + 2);
}

/// If a listener has no room for another record, its SYN-ACK has a cookie, which the ACK returns.
#[tokio::test(start_paused = true)]
async fn syn_cookie_of_the_old_stack_opens_a_connection_of_the_new_one() {
    let (stack, mut wire) = begin();
    let _listener = stack.listener().addr(addr(SERVER)).syn_backlog(1).bind().unwrap();
    let client = addr(CLIENT);
    wire.syn(addr("10.0.0.9:9")).await;
    let iss = wire.syn(client).await;
    assert_eq!(stack.counters().cookies_sent, 1);
    let (mut taken, _) = handed_over(&stack, &mut wire, || {}, |_| {});
    let wrong = from(client, Flags::ACK, IRS + 1, iss + 2);
    assert_resets(&wire.exchange(&[&wrong]).await, iss + 2);
    wire.exchange(&[&from(client, Flags::ACK, IRS + 1, iss + 1)]).await;
    let (stream, peer) = taken.listeners[0].accept().await.unwrap();
    let counters = taken.stack.counters();
    assert_eq!((peer, counters.cookies_sent, counters.cookies_accepted), (client, 1, 1));
    assert_echoes(&mut wire, stream, iss).await;
    taken.listeners.clear();
}

/// RFC 7413 §3: the server takes data from a SYN whose cookie it has issued.
#[tokio::test(start_paused = true)]
async fn fast_open_cookie_of_the_old_stack_opens_a_connection_of_the_new_one() {
    let (stack, mut wire) = begin();
    let _listener = stack.listener().addr(addr(SERVER)).fast_open(4).bind().unwrap();
    let client = addr(CLIENT);
    let syn = |cookie, payload: &[u8]| {
        let options = TcpOptions { fast_open: Some(cookie), mss: Some(1000), ..TcpOptions::default() };
        let fields = Fields { options, ..fields(Flags::SYN, IRS, 0) };
        whole(client, &fields, payload)
    };
    let answers = wire.exchange(&[&syn(FastOpenCookie::REQUEST, b"")]).await;
    let cookie = answers[0].options.fast_open.expect("the SYN-ACK has a cookie");
    wire.exchange(&[&from(client, Flags::RST, IRS + 1, 0)]).await;
    let (taken, _) = handed_over(&stack, &mut wire, || {}, |_| {});
    let forged = FastOpenCookie::new(&[7; 8]).unwrap();
    for (cookie, text, acknowledged) in [(forged, b"forged", 1), (cookie, b"genuin", 7)] {
        let answers = wire.exchange(&[&syn(cookie, text)]).await;
        assert_eq!(answers[0].flags, Flags::SYN | Flags::ACK);
        assert_eq!(answers[0].ack, IRS + acknowledged, "the text counts if the cookie does");
        if acknowledged == 1 {
            wire.exchange(&[&from(client, Flags::RST, IRS + 1, 0)]).await;
        }
    }
    let (mut stream, _) = taken.listeners[0].accept().await.unwrap();
    let mut read = [0; 6];
    stream.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"genuin", "before the handshake is complete");
    assert_eq!(taken.stack.counters().fast_open_accepted, 1);
}

/// A SYN-ACK is repeated after a second (RFC 6298 §2), and the ACK of either opens the connection.
#[tokio::test(start_paused = true)]
async fn half_open_connection_is_repeated_and_accepted_by_the_new_stack() {
    let (stack, mut wire) = begin();
    let _listener = stack.listen(addr(SERVER)).unwrap();
    let client = addr(CLIENT);
    let began = Instant::now();
    let iss = wire.syn(client).await;
    let (mut taken, took) = handed_over(&stack, &mut wire, || {}, |_| {});
    let due = began + Duration::from_secs(1);
    sleep_until(due - took - TICK).await;
    assert_eq!(wire.exchange(&[]).await, []);
    sleep_until(due + TICK).await;
    let repeated = wire.exchange(&[]).await;
    assert_eq!((repeated.len(), repeated[0].seq, repeated[0].flags), (1, iss, Flags::SYN | Flags::ACK));
    wire.exchange(&[&from(client, Flags::ACK, IRS + 1, iss + 1)]).await;
    let (stream, peer) = taken.listeners[0].accept().await.unwrap();
    assert_eq!(peer, client);
    assert_echoes(&mut wire, stream, iss).await;
    taken.listeners.clear();
}

/// A connection whose handshake is complete, and which the old program has not accepted.
#[tokio::test(start_paused = true)]
async fn connection_that_waits_to_be_accepted_is_accepted_from_the_new_stack() {
    let (stack, mut wire) = begin();
    let linger = Some(Duration::from_secs(5));
    let _listener = stack.listener().addr(addr(SERVER)).linger(linger).bind().unwrap();
    let client = addr(CLIENT);
    let iss = wire.syn(client).await;
    assert_eq!(wire.exchange(&[&from(client, Flags::ACK, IRS + 1, iss + 1)]).await, []);
    let (mut taken, _) = handed_over(&stack, &mut wire, || {}, |_| {});
    assert_eq!(taken.streams.len(), 0, "it is the listener's");
    let (stream, peer) = taken.listeners[0].accept().await.unwrap();
    assert_eq!((peer, stream.linger().unwrap()), (client, linger));
    assert_echoes(&mut wire, stream, iss).await;
    taken.listeners.clear();
}

/// The notes about a stream that are not its connection's. RFC 9293 §3.10.5, ABORT: a linger time of zero
/// resets the connection when the stream is dropped.
#[tokio::test(start_paused = true)]
async fn streams_keep_their_keys_and_linger_times() {
    let (stack, mut wire) = begin();
    let listener = stack.listen(addr(SERVER)).unwrap();
    let [first, second] = [4000, 4001].map(|port| SocketAddr::new(addr(CLIENT).ip(), port));
    let mut held = Vec::new();
    for (key, client) in [(3, first), (4, second)] {
        let (stream, iss) = wire.accepted(client, &listener).await;
        stream.set_key(key).unwrap();
        held.push((stream, iss));
    }
    held[1].0.set_zero_linger().unwrap();
    let (mut taken, _) = handed_over(&stack, &mut wire, || {}, |_| {});
    for (key, client, flags) in [(4, second, Flags::RST), (3, first, Flags::FIN)] {
        let stream = taken.stream(key).expect("a stream has this key");
        assert_eq!(stream.peer_addr().unwrap(), client);
        drop(stream);
        let sent = wire.exchange(&[]).await;
        assert_eq!((sent.len(), sent[0].to), (1, client));
        assert!(sent[0].flags.contains(flags), "{sent:?}");
    }
}

/// A stream that was dropped with unsent data and a linger time ends in a reset when that time has passed.
#[tokio::test(start_paused = true)]
async fn dropped_stream_lingers_in_the_new_stack() {
    let (stack, mut wire) = begin();
    let listener = stack.listen(addr(SERVER)).unwrap();
    let (mut stream, _) = wire.accepted(addr(CLIENT), &listener).await;
    let linger = Duration::from_secs(5);
    stream.set_linger(Some(linger)).unwrap();
    stream.write_all(b"never acknowledged").await.unwrap();
    drop(stream);
    let began = Instant::now();
    let resets = |sent: &[Sent]| sent.iter().filter(|segment| segment.flags.contains(Flags::RST)).count();
    assert_eq!(resets(&wire.exchange(&[]).await), 0);
    let (taken, took) = handed_over(&stack, &mut wire, || {}, |_| {});
    assert_eq!(taken.streams.len(), 0, "no stream stands for it");
    sleep_until(began + linger - took - TICK).await;
    assert_eq!(resets(&wire.exchange(&[]).await), 0);
    sleep_until(began + linger + TICK).await;
    assert_eq!(resets(&wire.exchange(&[]).await), 1);
}

/// RFC 6298 §5.4: the first text without an acknowledgment is repeated when the timer expires. A stack that
/// stays shows the time.
#[tokio::test(start_paused = true)]
async fn unacknowledged_text_is_repeated_at_the_time_of_the_old_timer() {
    let (stayed, _) = repeated_after(false).await;
    let (moved, took) = repeated_after(true).await;
    assert!(stayed >= Duration::from_millis(100), "no timer is shorter: {stayed:?}");
    assert!(moved <= stayed + TICK && moved + took + TICK >= stayed, "{moved:?}, not {stayed:?}");
}

/// How long after some text its first repetition leaves, and how long a hand-over between them took.
async fn repeated_after(moves: bool) -> (Duration, Duration) {
    let (stack, mut wire) = begin();
    let listener = stack.listen(addr(SERVER)).unwrap();
    let (mut stream, iss) = wire.accepted(addr(CLIENT), &listener).await;
    stream.write_all(b"text").await.unwrap();
    let began = Instant::now();
    assert_eq!(wire.exchange(&[]).await.len(), 1);
    let moved = moves.then(|| handed_over(&stack, &mut wire, || {}, |_| {}));
    loop {
        sleep_until(Instant::now() + Duration::from_millis(1)).await;
        let sent = wire.exchange(&[]).await;
        if let Some(repeated) = sent.first() {
            assert_eq!((&repeated.payload[..], repeated.seq), (&b"text"[..], iss + 1));
            return (began.elapsed(), moved.map_or(Duration::ZERO, |(_, took)| took));
        }
        assert!(began.elapsed() < Duration::from_secs(5), "it is never repeated");
    }
}

/// A listener on `[::]` shows its peers' addresses as IPv6.
#[tokio::test(start_paused = true)]
async fn listeners_and_sockets_are_found_by_their_addresses() {
    let (stack, mut wire) = begin();
    let addrs = ["10.0.0.2:9", "[::]:7", "10.0.0.2:8"].map(addr);
    let _listeners = addrs.map(|addr| stack.listen(addr).unwrap());
    let _sockets = addrs.map(|addr| stack.udp(addr).unwrap());
    let (mut taken, _) = handed_over(&stack, &mut wire, || {}, |_| {});
    for addr in [addrs[2], addrs[1], addrs[0]] {
        let listener = taken.listener(addr).expect("it is there");
        let socket = taken.udp(addr).expect("it is there");
        assert_eq!(listener.local_addr().unwrap(), addr);
        assert_eq!(socket.local_addr().unwrap().port(), addr.port());
        assert!(taken.listener(addr).is_none() && taken.udp(addr).is_none(), "each is taken out once");
        if addr.is_ipv6() {
            let iss = wire.syn(self::addr(CLIENT)).await;
            wire.exchange(&[&from(self::addr(CLIENT), Flags::ACK, IRS + 1, iss + 1)]).await;
            let (_, peer) = listener.accept().await.unwrap();
            assert_eq!(peer, self::addr("[::ffff:10.0.0.1]:4000"));
        }
    }
}

/// The new program names no settings of connections, and those of the old one hold.
#[tokio::test(start_paused = true)]
async fn new_connections_have_the_settings_of_the_old_stack() {
    let mut tcp = TcpConfig::default();
    assert!(tcp.choices.timestamps);
    tcp.choices.timestamps = false;
    let (stack, mut wire) = begin_with(tcp);
    let (taken, _) = handed_over(&stack, &mut wire, || {}, |_| {});
    let stack = taken.stack.clone();
    let _connecting = [
        tokio::spawn(async move { stack.connect(addr(CLIENT)).await }),
        tokio::spawn(async move { taken.stack.socket().connect(addr(CLIENT)).await }),
    ];
    let sent = wire.exchange(&[]).await;
    assert_eq!(sent.len(), 2, "{sent:?}");
    for syn in sent {
        assert_eq!((syn.flags, syn.to, syn.options.timestamps), (Flags::SYN, addr(CLIENT), None));
    }
}

/// RFC 6528 §3: ISN = M + F(localip, localport, remoteip, remoteport, secretkey), and M ticks every 4 µs
/// (RFC 9293 §3.4.1). RFC 7323 §5.4: the timestamp clock goes on as well; here it ticks every millisecond.
#[tokio::test(start_paused = true)]
async fn sequence_numbers_and_timestamps_of_a_four_tuple_go_on() {
    let (stack, mut wire) = begin();
    let _listener = stack.listen(addr(SERVER)).unwrap();
    let client = addr(CLIENT);
    let options = TcpOptions { timestamps: Some((1, 0)), ..TcpOptions::default() };
    let syn = whole(client, &Fields { options, ..fields(Flags::SYN, IRS, 0) }, b"");
    let reset = from(client, Flags::RST, IRS + 1, 0);
    sleep_until(Instant::now() + Duration::from_secs(500)).await;
    let before = wire.exchange(&[&syn]).await[0].clone();
    wire.exchange(&[&reset]).await;
    let began = Instant::now();
    let (_taken, took) = handed_over(&stack, &mut wire, || {}, |_| {});
    sleep_until(began + Duration::from_secs(3)).await;
    let after = wire.exchange(&[&syn]).await[0].clone();

    let passed = began.elapsed()..=began.elapsed() + took;
    let assert_goes_on = |ticks: u32, tick: Duration| {
        let (least, most) = (tick * ticks.saturating_sub(1), tick * (ticks + 1));
        assert!(least <= *passed.end() && *passed.start() <= most, "{ticks} of {tick:?} in {passed:?}");
    };
    assert_goes_on(after.seq.wrapping_sub(before.seq), Duration::from_micros(4));
    let values = [&before, &after].map(|answer| answer.options.timestamps.expect("it was asked for").0);
    assert_goes_on(values[1].wrapping_sub(values[0]), Duration::from_millis(1));
}

/// Datagrams that the old program has not read, that the device holds when the old stack stops to read, and
/// that arrive while neither stack reads.
#[tokio::test(start_paused = true)]
async fn datagrams_that_arrive_meanwhile_are_received_in_order() {
    let (stack, mut wire) = begin();
    let _socket = stack.udp(addr(SERVER)).unwrap();
    let datagram = |text: &[u8]| {
        let (src, dst) = (addr(CLIENT), addr(SERVER));
        let header = UdpHeader { src, dst, ttl: 64, traffic_class: 0, flow_label: FlowLabel::NONE };
        write_udp(&header, text).unwrap()
    };
    wire.exchange(&[&datagram(b"unread")]).await;
    wire.send(&datagram(b"queued"));
    let (mut taken, _) =
        handed_over(&stack, &mut wire, || {}, |wire| wire.send(&datagram(b"while none reads")));
    let socket = taken.udp(addr(SERVER)).expect("the socket came along");
    for expected in [&b"unread"[..], b"queued", b"while none reads"] {
        let mut read = [0; 32];
        let (len, from) = socket.recv_from(&mut read).await.unwrap();
        assert_eq!((&read[..len], from), (expected, addr(CLIENT)));
    }
}

/// The peer sends each segment once, so the stream has a gap if one is lost.
#[tokio::test(start_paused = true)]
async fn segments_that_arrive_meanwhile_are_not_lost() {
    let (stack, mut wire) = begin();
    let listener = stack.listen(addr(SERVER)).unwrap();
    let client = addr(CLIENT);
    let (mut stream, iss) = wire.accepted(client, &listener).await;
    let mut seq = IRS + 1;
    let mut next = |text: &[u8]| {
        let segment = whole(client, &fields(Flags::ACK | Flags::PSH, seq, iss + 1), text);
        seq += text.len() as u32;
        segment
    };
    wire.exchange(&[&next(b"unread, ")]).await;
    wire.send(&next(b"queued, "));
    let late = next(b"while none reads");
    // The old program's last bytes leave before or after, but once.
    let write = || assert_eq!(now_or_never(stream.write(b"written")).unwrap().unwrap(), 7);
    let (mut taken, _) = handed_over(&stack, &mut wire, write, |wire| wire.send(&late));
    drop(stream);
    let (_, mut stream) = taken.streams.pop().expect("the stream came along");
    let mut read = [0; 32];
    stream.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"unread, queued, while none reads");
    let sent = wire.exchange(&[]).await;
    assert!(sent.iter().all(|segment| !segment.flags.contains(Flags::RST)), "{sent:?}");
    assert_eq!(sent.iter().map(|segment| segment.ack).max(), Some(IRS + 1 + 32));
    let text: Vec<&[u8]> =
        sent.iter().map(|segment| &segment.payload[..]).filter(|text| !text.is_empty()).collect();
    assert_eq!(text, [b"written"]);
}

/// A stack at the server's address with a listener's device, and the other end of that.
fn begin() -> (Stack, Wire) {
    begin_with(TcpConfig::default())
}

fn begin_with(tcp: TcpConfig) -> (Stack, Wire) {
    let (near, far) = memory::pair(memory::Config::default());
    let near = Kept::new(near);
    let builder = Stack::builder().device(near.clone()).address("10.0.0.2/24".parse().unwrap());
    (builder.tcp(tcp).spawn().unwrap(), Wire { near, far })
}

/// Hands the stack over to a thread that takes it over. `last` is the old program's last act; `between` runs
/// when the old stack reads its device no more, and the new one not yet. Returns the time that this took.
fn handed_over(
    stack: &Stack,
    wire: &mut Wire,
    last: impl FnOnce(),
    between: impl FnOnce(&mut Wire) + Send,
) -> (TakenOver, Duration) {
    let (old, new) = UnixStream::pair().unwrap();
    let runtime = tokio::runtime::Handle::current();
    let began = std::time::Instant::now();
    last();
    let taken = thread::scope(|scope| {
        let taking = scope.spawn(|| {
            let _within = runtime.enter();
            let opened = |_descriptor| {
                between(wire);
                Ok::<_, std::io::Error>(Box::new(wire.near.clone()) as Box<dyn Device>)
            };
            Stack::builder().take_over(&new, opened)
        });
        stack.hand_over(&old, b"").unwrap();
        taking.join().unwrap().unwrap()
    });
    (taken, began.elapsed())
}

/// The end of the stack's device that the test holds.
struct Wire {
    near: Kept,
    far: MemoryDevice,
}

/// A segment that the stack has sent.
#[derive(Clone, Debug, PartialEq)]
struct Sent {
    to: SocketAddr,
    flags: Flags,
    seq: u32,
    ack: u32,
    options: TcpOptions,
    payload: Vec<u8>,
}

impl Wire {
    /// Sends a packet. The stack reads it when its driver has its turn.
    fn send(&mut self, packet: &[u8]) {
        // The headers of IP and TCP, or a part of what follows them.
        let (header, payload) = packet.split_at(packet.len().min(40));
        let checksum = ChecksumState::Complete;
        let payload = [payload, &[]];
        let packet = TxPacket { header, transport_offset: 20, payload, segment_size: None, checksum };
        self.far.send(&packet).unwrap();
    }

    /// Sends packets, lets the stack and its tasks run until they wait, and returns the stack's segments.
    async fn exchange(&mut self, packets: &[&[u8]]) -> Vec<Sent> {
        packets.iter().for_each(|packet| self.send(packet));
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
        let mut batch = ReceiveBatch::new(1024, 4 << 20);
        match self.far.poll_receive(&mut Context::from_waker(Waker::noop()), &mut batch) {
            Poll::Ready(received) => drop(received.unwrap()),
            Poll::Pending => return Vec::new(),
        }
        batch.iter().map(|(packet, _)| Sent::parse(packet)).collect()
    }

    /// A SYN arrives. Returns the sequence number of the SYN-ACK.
    async fn syn(&mut self, client: SocketAddr) -> u32 {
        let answers = self.exchange(&[&from(client, Flags::SYN, IRS, 0)]).await;
        assert_eq!((answers.len(), answers[0].flags), (1, Flags::SYN | Flags::ACK));
        assert_eq!((answers[0].to, answers[0].ack), (client, IRS + 1));
        answers[0].seq
    }

    /// A connection: the server's stream, and its ISS.
    async fn accepted(&mut self, client: SocketAddr, listener: &TcpListener) -> (TcpStream, u32) {
        let iss = self.syn(client).await;
        assert_eq!(self.exchange(&[&from(client, Flags::ACK, IRS + 1, iss + 1)]).await, []);
        (listener.accept().await.unwrap().0, iss)
    }
}

impl Sent {
    fn parse(packet: &[u8]) -> Self {
        let ip = IpPacket::parse(packet).unwrap();
        let IpPayload::Tcp(bytes) = ip.payload else { panic!("not TCP: {ip:?}") };
        let segment = Segment::parse(ip.src, ip.dst, bytes, ChecksumState::Complete).unwrap();
        Self {
            to: SocketAddr::new(ip.dst, segment.dst_port),
            flags: segment.flags,
            seq: segment.seq.raw(),
            ack: segment.ack.raw(),
            options: segment.options,
            payload: segment.payload.to_vec(),
        }
    }
}

/// RFC 9293 §3.10.7.4: <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>.
fn assert_acknowledges(sent: &[Sent], seq: u32, ack: u32) {
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!((sent[0].flags, sent[0].seq, sent[0].ack), (Flags::ACK, seq, ack));
}

/// RFC 9293 §3.10.7.1: <SEQ=SEG.ACK><CTL=RST>.
fn assert_resets(sent: &[Sent], seq: u32) {
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!((sent[0].flags, sent[0].seq), (Flags::RST, seq));
}

/// Text goes both ways over a connection that was just accepted.
async fn assert_echoes(wire: &mut Wire, mut stream: TcpStream, iss: u32) {
    let client = addr(CLIENT);
    let text = whole(client, &fields(Flags::ACK | Flags::PSH, IRS + 1, iss + 1), b"and?");
    wire.exchange(&[&text]).await;
    let mut read = [0; 4];
    stream.read_exact(&mut read).await.unwrap();
    stream.write_all(&read).await.unwrap();
    let sent = wire.exchange(&[]).await;
    assert_eq!((&sent[0].payload[..], sent[0].seq, sent[0].ack), (&b"and?"[..], iss + 1, IRS + 5));
}

fn fields(flags: Flags, seq: u32, ack: u32) -> Fields {
    Fields { seq: SeqNum::new(seq), ack: SeqNum::new(ack), flags, window: 65_535, ..Fields::default() }
}

/// A segment to the server, without options and text.
fn from(client: SocketAddr, flags: Flags, seq: u32, ack: u32) -> Vec<u8> {
    whole(client, &fields(flags, seq, ack), b"")
}

fn whole(client: SocketAddr, fields: &Fields, payload: &[u8]) -> Vec<u8> {
    let mut header = [0; HEADER_MAX];
    let template = HeaderTemplate::new(client, addr(SERVER), 64, 0);
    let len = template.write(&mut header, fields, [payload, &[]], TxChecksum::Full);
    [&header[..len], payload].concat()
}

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn now_or_never<F: Future>(future: F) -> Option<F::Output> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// One end of a pair of devices, whose packets stay while it goes from one stack to the next. Its descriptor
/// stands for it.
#[derive(Clone, Debug)]
struct Kept {
    device: Arc<Mutex<MemoryDevice>>,
    descriptor: Arc<OwnedFd>,
}

impl Kept {
    fn new(device: MemoryDevice) -> Self {
        let (end, _) = UnixStream::pair().unwrap();
        Self { device: Arc::new(Mutex::new(device)), descriptor: Arc::new(end.into()) }
    }

    fn device(&self) -> MutexGuard<'_, MemoryDevice> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device for Kept {
    fn capabilities(&self) -> Capabilities {
        self.device().capabilities()
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut ReceiveBatch,
    ) -> Poll<std::io::Result<usize>> {
        self.device().poll_receive(cx, batch)
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.device().poll_send_ready(cx)
    }

    fn send(&mut self, packet: &TxPacket<'_>) -> std::io::Result<()> {
        self.device().send(packet)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }
}
