//! Receive windows that open in turn.

use std::collections::BTreeMap;

use super::*;

const SHARE: u64 = 100_000;
const WINDOW: u64 = 64 << 10;
/// The most by which a window in line opens at once, as `Endpoint::open_windows` says.
const QUANTUM: u64 = 128 << 10;
/// A sender may keep less than this back when a window opens, and send it with the next opening.
const SEGMENT: u64 = 1460;

/// A server that reads what many clients send as fast as they can.
struct CrowdedServer {
    pair: Pair,
    ids: Vec<[ConnectionId; 2]>,
    /// Bytes read of each connection.
    read: Vec<u64>,
    /// Bytes read in the last turn, of all.
    arrived: u64,
    into: Vec<u8>,
    /// The furthest right edge that each client was shown, by its port.
    edges: BTreeMap<u16, u32>,
}

impl CrowdedServer {
    fn new(flows: usize, window: u64) -> Self {
        let window = usize::try_from(window).unwrap();
        let tcp = TcpConfig { receive_buffer_max: window, send_buffer_max: 4 * window, ..tcp_config() };
        let end = |addr| EndpointConfig { tcp: tcp.clone().into(), ..config(addr) };
        let mut pair = Pair::at(Instant::from_millis(1), end(CLIENT), end(SERVER));
        pair.limits = Limits { gso_max_v4: 65_535, gso_max_v6: 0, tx_checksum: true };
        let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
        let ids = (0..flows).map(|_| pair.open(server(), listener)).collect();
        Self { pair, ids, read: vec![0; flows], arrived: 0, into: vec![0; window], edges: BTreeMap::new() }
    }

    /// Everyone writes and reads as much as possible, and packets travel once each way.
    fn turn(&mut self, share: Option<u64>) {
        self.pair.now += Duration::from_micros(100);
        self.send();
        self.pair.deliver(1);
        if let Some(share) = share {
            self.pair.server.open_windows(self.pair.now, share);
        }
        self.arrived = 0;
        for ([_, id], total) in self.ids.iter().zip(&mut self.read) {
            let read = self.pair.server.update(self.pair.now, *id, |connection, now| {
                connection.read(now, &mut self.into).unwrap_or(0) as u64
            });
            *total += read.unwrap();
            self.arrived += read.unwrap();
        }
        self.answer();
    }

    /// The clients write and send as much as possible.
    fn send(&mut self) {
        let Self { pair, ids, .. } = self;
        for [client, _] in &*ids {
            pair.client.update(pair.now, *client, |connection, now| {
                while connection.write(now, &[7; 8192]).is_ok_and(|written| written == 8192) {}
            });
        }
        pair.collect(0, u64::MAX);
    }

    /// The server's segments reach the clients. No window shrinks by more than its unit.
    fn answer(&mut self) {
        for packet in self.pair.carry(1) {
            let IpPayload::Tcp(bytes) = IpPacket::parse(&packet).unwrap().payload else { panic!("not TCP") };
            let segment = Segment::parse(ip(SERVER), ip(CLIENT), bytes, ChecksumState::Verified).unwrap();
            if !segment.flags.intersects(Flags::SYN | Flags::RST) {
                let info = self.pair.server.connection(self.ids[0][1]).unwrap().info(self.pair.now);
                let (_, scale) = info.window_scale.unwrap();
                let edge = (segment.ack + (u32::from(segment.window) << scale)).raw();
                let shown = self.edges.entry(segment.dst_port).or_insert(edge);
                let retreat = shown.wrapping_sub(edge).cast_signed();
                assert!(retreat < 1 << scale, "a window shrank by {retreat} bytes");
                *shown = if retreat < 0 { edge } else { *shown };
            }
            let meta = RxMeta { checksum: ChecksumState::Verified, segment_size: None };
            self.pair.client.handle_packet(self.pair.now, &packet, meta);
        }
    }
}

#[test]
fn a_turn_lets_in_its_share_and_one_window_more_and_all_have_their_turns() {
    let mut server = CrowdedServer::new(40, WINDOW);
    // Data offered before the first turn arrives.
    for _ in 0..100 {
        server.turn(Some(SHARE));
    }
    let before = server.read.clone();
    let mut let_in = 0;
    for _ in 0..400 {
        server.turn(Some(SHARE));
        assert!(server.arrived <= SHARE + WINDOW, "{} bytes at once", server.arrived);
        let_in += server.arrived;
    }
    assert!(let_in >= 400 * SHARE / 2, "{let_in} bytes: windows stay closed that could open");
    let each: Vec<u64> = server.read.iter().zip(before).map(|(now, before)| now - before).collect();
    let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
    assert!(*least * 10 >= *most * 9, "from {least} to {most} bytes each");
}

#[test]
fn a_wide_window_in_line_opens_in_several_turns() {
    let mut server = CrowdedServer::new(4, 2 << 20);
    (0..200).for_each(|_| server.turn(Some(1)));
    for _ in 0..200 {
        server.turn(Some(1));
        assert!(server.arrived <= QUANTUM + SEGMENT, "{} bytes at once", server.arrived);
    }
    let wide = (0..8).map(|_| {
        server.turn(Some(4 * QUANTUM));
        server.arrived
    });
    let most = wide.max().unwrap();
    assert!(most > 3 * QUANTUM && most <= 4 * (QUANTUM + SEGMENT), "{most} bytes of a share for four");
}

#[test]
fn without_turns_nothing_waits_and_a_lone_connection_never_does() {
    for (flows, share) in [(40, None), (1, Some(0)), (1, Some(SHARE))] {
        let mut server = CrowdedServer::new(flows, WINDOW);
        for _ in 0..100 {
            server.turn(share);
            assert!(!server.pair.server.has_windows_to_open(), "{flows} flows, {share:?}");
        }
        let (read, whole) = (server.read.iter().sum::<u64>(), 100 * WINDOW * flows as u64);
        assert!((whole * 9 / 10..=whole).contains(&read), "{flows} flows, {share:?}: {read} of {whole}");
    }
}

#[test]
fn a_window_in_line_opens_although_no_one_reads_again() {
    let mut server = CrowdedServer::new(8, WINDOW);
    (0..50).for_each(|_| server.turn(Some(0)));
    // One window opened in the last turn; the senders of the other seven wait.
    let mut calls = 0;
    while server.pair.server.has_windows_to_open() {
        server.pair.server.open_windows(server.pair.now, 0);
        calls += 1;
        assert!(calls <= 7, "each call opens one");
    }
    assert_eq!(calls, 7);
    server.answer();
    server.send();
    server.pair.deliver(1);
    let waiting = server.ids.iter().filter(|[_, id]| {
        let connection = server.pair.server.connection(*id).unwrap();
        connection.readable() as u64 >= WINDOW / 2
    });
    assert_eq!(waiting.count(), 8, "all send a window again");
}

#[test]
fn a_connection_that_ends_in_line_leaves_the_others_their_turns() {
    let mut server = CrowdedServer::new(8, WINDOW);
    (0..50).for_each(|_| server.turn(Some(0)));
    let now = server.pair.now;
    for [_, id] in server.ids.drain(..7) {
        server.pair.server.release(now, id);
    }
    server.read = vec![0];
    (0..30).for_each(|_| server.turn(Some(0)));
    assert!(!server.pair.server.has_windows_to_open());
    let read = server.read[0];
    assert!((15 * WINDOW..=30 * WINDOW).contains(&read), "{read} bytes");
}
