//! An endpoint keeps to one rate, and its connections take fair turns while the rate holds packets back.

use super::*;
use crate::{Shaping, TcpConfig};

const SECOND: Duration = Duration::from_secs(1);
const MTU: u64 = 1500;

/// A client with one rate and a server, and no time between them.
struct Shaped {
    pair: Pair,
    listener: ListenerId,
    /// The client's packets: when each left, from which port, and its bytes on the wire.
    left: Vec<(Instant, u16, u64)>,
}

fn shaped(shaping: Option<Shaping>, gso: usize) -> Shaped {
    let client = EndpointConfig { shaping, ..config(CLIENT) };
    let mut pair = Pair::at(Instant::from_millis(1000), client, config(SERVER));
    pair.limits = Limits { gso_max_v4: gso, gso_max_v6: gso, tx_checksum: false };
    let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
    Shaped { pair, listener, left: Vec::new() }
}

impl Shaped {
    fn open(&mut self, tcp: TcpConfig) -> ConnectionId {
        let id = self.pair.client.connect(self.pair.now, server(), (None, 0), Some(tcp)).unwrap();
        self.pass(SECOND / 10);
        assert_eq!(self.pair.client.connection(id).unwrap().state(), State::Established);
        self.pair.server.accept(self.pair.now, self.listener).unwrap();
        id
    }

    fn port(&self, id: ConnectionId) -> u16 {
        self.pair.client.connection(id).unwrap().tuple().local_port
    }

    fn write(&mut self, id: ConnectionId, len: usize) -> usize {
        let now = self.pair.now;
        let write = |connection: &mut crate::Connection, now| connection.write(now, &vec![7; len]);
        self.pair.client.update(now, id, write).unwrap().unwrap_or(0)
    }

    /// Carries the packets that leave now in both directions. The server reads everything that arrives.
    fn carry(&mut self) -> bool {
        let packets = self.pair.client.poll_transmit(self.pair.now, self.pair.limits);
        let packet = packets.map(|packet| {
            let pieces =
                packet.segment_size.map_or(1, |size| packet.payload_len().div_ceil(size.get().into()));
            (packet.to_vec(), packet.meta(), packet.payload_len() + pieces * packet.header.len())
        });
        if let Some((bytes, meta, len)) = packet {
            let port = u16::from_be_bytes([bytes[20], bytes[21]]);
            self.left.push((self.pair.now, port, len as u64));
            self.pair.server.handle_packet(self.pair.now, &bytes, meta);
            return true;
        }
        let now = self.pair.now;
        while let Some(Event::Connection(id, _)) = self.pair.server.poll_event() {
            self.pair.server.update(
                now,
                id,
                |it, now| while it.read(now, &mut [0; 65_536]).is_ok_and(|n| n > 0) {},
            );
        }
        let answers = self.pair.carry(1);
        for packet in &answers {
            self.pair.client.handle_packet(now, packet, RxMeta::default());
        }
        !answers.is_empty()
    }

    fn pass(&mut self, span: Duration) {
        self.pass_with(span, |_| ());
    }

    /// Lets time pass; `work` is done whenever nothing more happens at one moment.
    fn pass_with(&mut self, span: Duration, mut work: impl FnMut(&mut Self)) {
        let end = self.pair.now + span;
        loop {
            while self.carry() {}
            work(self);
            while self.carry() {}
            let due =
                [&self.pair.client, &self.pair.server].into_iter().filter_map(Endpoint::poll_timeout).min();
            let Some(due) = due.filter(|due| *due <= end) else { break };
            assert!(due > self.pair.now, "a deadline that is over is not one");
            self.pair.now = due;
            self.pair.client.handle_timeout(due);
            self.pair.server.handle_timeout(due);
        }
        self.pair.now = end;
        self.pair.client.handle_timeout(end);
        self.pair.server.handle_timeout(end);
    }

    fn bytes_of(&self, id: ConnectionId) -> u64 {
        let port = self.port(id);
        self.left.iter().filter(|(_, from, _)| *from == port).map(|(.., bytes)| bytes).sum()
    }

    /// The most that left in any span beyond what the rate makes of it.
    fn worst_burst(&self, rate: u64) -> u64 {
        let mut worst = 0;
        for (at, &(start, ..)) in self.left.iter().enumerate() {
            let mut bytes = 0;
            for &(time, _, len) in &self.left[at..] {
                bytes += len;
                let due = u64::try_from(
                    u128::from(rate) * (time.saturating_since(start)).as_nanos() / 1_000_000_000,
                );
                worst = worst.max(bytes.saturating_sub(due.unwrap()));
            }
        }
        worst
    }
}

fn bulk() -> TcpConfig {
    TcpConfig { send_buffer_max: 256 << 10, ..tcp_config() }
}

#[test]
fn the_rate_is_kept_and_the_burst_bounded() {
    for (rate, burst, gso) in
        [(1_000_000, 20_000, 0), (1_000_000, 20_000, 65_535), (125_000_000, 625_000, 65_535)]
    {
        let mut net = shaped(Some(Shaping::new(rate).burst(burst)), gso);
        let id = net.open(bulk());
        let more = |net: &mut Shaped| while net.write(id, 100_000) > 0 {};
        net.pass_with(SECOND, more);
        net.left.clear();
        net.pass_with(SECOND, more);
        let bytes = net.bytes_of(id);
        assert!(bytes >= rate * 98 / 100 && bytes <= rate * 102 / 100 + burst, "{bytes} at {rate}");
        // All that waits leaves, and after a pause more comes.
        net.pass(SECOND);
        net.pass_with(SECOND / 10, more);
        // What the device adds to a large packet: a header of 52 bytes for each 1,448.
        let most = burst + if gso == 0 { 0 } else { burst.min(65_535) * 52 / 1448 + 52 };
        let worst = net.worst_burst(rate);
        assert!(worst <= most + 1 && worst >= burst - MTU, "{worst} at once, {burst} allowed");
    }
}

// The second speaks in segments of 300 bytes, one packet for ten of the other's.
#[test]
fn connections_get_equal_bytes_whatever_the_size_of_their_segments() {
    for gso in [0, 65_535] {
        let mut net = shaped(Some(Shaping::new(1_000_000)), gso);
        let large = net.open(bulk());
        let small = net.open(TcpConfig { mss_max: Some(300), ..bulk() });
        net.left.clear();
        net.pass_with(2 * SECOND, |net| {
            for id in [large, small] {
                while net.write(id, 100_000) > 0 {}
            }
        });
        let (large, small) = (net.bytes_of(large), net.bytes_of(small));
        assert!(large + small >= 1_960_000, "{large} and {small}");
        assert!(large.abs_diff(small) <= 15_000 + 2 * MTU, "{large} and {small}, with packets of {gso}");
    }
}

#[test]
fn eleven_connections_get_a_share_each() {
    let mut net = shaped(Some(Shaping::new(1_000_000)), 65_535);
    let sizes = [1460, 100, 536, 1200, 216, 1000, 300, 700, 1460, 1460, 900];
    let ids = sizes.map(|mss| net.open(TcpConfig { mss_max: Some(mss), ..bulk() }));
    net.left.clear();
    net.pass_with(4 * SECOND, |net| ids.iter().for_each(|id| while net.write(*id, 100_000) > 0 {}));
    let shares = ids.map(|id| net.bytes_of(id));
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    assert!(most - least <= 15_000 + 2 * MTU && *least > 340_000, "{shares:?}");
}

// As in FQ-CoDel, a connection that was idle goes before those that wait, with one quantum.
#[test]
fn a_short_message_leaves_next_however_much_waits() {
    let mut net = shaped(Some(Shaping::new(1_000_000)), 0);
    let bulk_ids = [(); 5].map(|()| net.open(bulk()));
    let other = net.open(bulk());
    net.pass_with(SECOND / 2, |net| bulk_ids.iter().for_each(|id| while net.write(*id, 100_000) > 0 {}));
    net.left.clear();
    assert_eq!(net.write(other, 100), 100);
    let port = net.port(other);
    net.pass(SECOND / 10);
    let place = net.left.iter().position(|(_, from, _)| *from == port).expect("it left");
    assert!(place <= 1, "after {place} others");
}

#[test]
fn one_with_a_segment_at_a_time_gets_no_more_than_its_share() {
    let mut net = shaped(Some(Shaping::new(1_000_000)), 0);
    let (bulk_id, little) = (net.open(bulk()), net.open(TcpConfig { nodelay: true, ..bulk() }));
    net.left.clear();
    let mut sent = 0;
    net.pass_with(SECOND, |net| {
        while net.write(bulk_id, 100_000) > 0 {}
        let left = net.bytes_of(little);
        if left >= sent {
            // Never more than this waits.
            net.write(little, 1448);
            sent = left + 1;
        }
    });
    let (bulk_bytes, little) = (net.bytes_of(bulk_id), net.bytes_of(little));
    assert!(little * 100 <= (bulk_bytes + little) * 52, "{little} beside {bulk_bytes}");
}

#[test]
fn acknowledgements_and_resets_count_too_and_nothing_is_lost_at_a_low_rate() {
    // Two packets a second.
    let mut net = shaped(Some(Shaping::new(100).burst(0)), 0);
    let client = net.pair.client.connect(net.pair.now, server(), (None, 0), Some(bulk())).unwrap();
    net.pass(100 * SECOND);
    let state = net.pair.client.connection(client).unwrap().state();
    assert_eq!(state, State::Established, "the acknowledgement of the SYN,ACK had to wait");
    // A packet of the MTU is the least burst.
    assert!(net.worst_burst(100) <= MTU, "{}", net.worst_burst(100));
}

#[test]
fn without_a_rate_all_leaves_at_once() {
    let mut net = shaped(None, 0);
    let id = net.open(bulk());
    net.left.clear();
    assert_eq!(net.write(id, 65_536), 65_536);
    net.pass(Duration::ZERO);
    assert!(net.bytes_of(id) > 65_536);
}
