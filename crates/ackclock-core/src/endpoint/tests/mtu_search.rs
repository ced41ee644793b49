//! Paths that drop large packets silently (RFC 4821): a bulk transfer in virtual time.

use super::icmp::{TOO_BIG, error};
use super::*;
use crate::profile::{Choices, Recovery};
use crate::{ConnectionInfo, MtuProbing};

const SECOND: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_secs(20);
const EVERY_POLICY: [Recovery; 7] = [
    Recovery::RackTlp,
    Recovery::Sack,
    Recovery::NewReno,
    Recovery::Reno,
    Recovery::Tahoe,
    Recovery::Vegas,
    Recovery::GoBackN,
];

/// A client that writes and a server that reads all the time, 5 ms apart, and the largest client packet that
/// the path takes.
struct NarrowPath {
    pair: Pair,
    client: ConnectionId,
    server: ConnectionId,
    mtu: usize,
    /// A router says which packets were too large.
    tells: bool,
    /// The client writes.
    writes: bool,
    /// Bytes written at a time.
    chunk: u64,
    written: u64,
    read: u64,
    /// The path carries nothing for this long after it dropped a large packet, and until when it does.
    outage: Duration,
    silent_until: Instant,
    /// The sizes of the packets that were too large.
    dropped: Vec<usize>,
    dropped_at: Vec<Instant>,
}

impl NarrowPath {
    /// 32 KB a round trip of 10 ms.
    fn new(tcp: TcpConfig) -> Self {
        Self::with_window(tcp, 32 << 10)
    }

    fn with_window(tcp: TcpConfig, window: usize) -> Self {
        let mut receiving = tcp_config();
        (receiving.receive_buffer_max, receiving.receive_buffer_initial) = (window, window);
        let mut pair = Pair::new();
        let options = ListenOptions { tcp: Some(receiving), ..on_port(PORT) };
        let listener = pair.server.listen(pair.now, options).unwrap();
        let client = pair.client.connect(pair.now, server(), (None, 0), Some(tcp)).unwrap();
        pair.run(SECOND / 10);
        let server = pair.server.accept(pair.now, listener).unwrap();
        Self {
            pair,
            client,
            server,
            mtu: 1500,
            tells: false,
            writes: true,
            chunk: window as u64 / 2,
            written: 0,
            read: 0,
            outage: Duration::ZERO,
            silent_until: Instant::ZERO,
            dropped: Vec::new(),
            dropped_at: Vec::new(),
        }
    }

    /// Continues the transfer for `span`.
    fn run(&mut self, span: Duration) {
        let end = self.pair.now + span;
        while self.pair.now < end {
            self.write_and_read();
            let to_server = self.pair.carry(0);
            let to_client = self.pair.carry(1);
            if to_server.is_empty() && to_client.is_empty() {
                let due = [&self.pair.client, &self.pair.server].map(Endpoint::poll_timeout);
                let due = due.into_iter().flatten().min().unwrap_or(end).min(end);
                self.pair.now = self.pair.now.max(due);
            } else {
                self.pair.now += Pair::DELAY;
            }
            let now = self.pair.now;
            for packet in to_server {
                if now < self.silent_until {
                    continue;
                }
                if packet.len() <= self.mtu {
                    self.pair.server.handle_packet(now, &packet, RxMeta::default());
                } else {
                    self.dropped.push(packet.len());
                    self.dropped_at.push(now);
                    self.silent_until = now + self.outage;
                    if self.tells {
                        let about = decode(&packet);
                        let told = error(TOO_BIG, self.mtu as u32, (about.src, about.dst), about.seq);
                        self.pair.client.handle_packet(now, &told, RxMeta::default());
                    }
                }
            }
            for packet in to_client {
                self.pair.client.handle_packet(now, &packet, RxMeta::default());
            }
            self.pair.client.handle_timeout(now);
            self.pair.server.handle_timeout(now);
        }
    }

    fn write_and_read(&mut self) {
        let (now, written, writes, chunk) = (self.pair.now, &mut self.written, self.writes, self.chunk);
        self.pair.client.update(now, self.client, |connection, now| {
            if !writes {
                return;
            }
            let data: Vec<u8> = (*written..*written + chunk).map(|at| (at % 251) as u8).collect();
            *written += connection.write(now, &data).unwrap_or(0) as u64;
        });
        let read = &mut self.read;
        self.pair.server.update(now, self.server, |connection, now| {
            let mut buffer = [0; 16_384];
            while let Ok(len) = connection.read(now, &mut buffer) {
                assert!(buffer[..len].iter().zip(*read..).all(|(byte, at)| *byte == (at % 251) as u8));
                *read += len as u64;
            }
        });
    }

    fn info(&self) -> ConnectionInfo {
        self.pair.client.connection(self.client).unwrap().info(self.pair.now)
    }
}

fn probing() -> TcpConfig {
    let mtu_probing = Some(Box::new(MtuProbing { raise_after: REST, ..MtuProbing::default() }));
    TcpConfig { mtu_probing, ..tcp_config() }
}

/// A transfer whose path takes 1,400 bytes only from its first second on, once the black hole was found.
fn shrunken(tcp: TcpConfig) -> NarrowPath {
    let mut path = NarrowPath::new(tcp);
    path.run(SECOND);
    assert_eq!((path.info().pmtu, path.info().timeouts), (1500, 0));
    path.mtu = 1400;
    path.run(2 * SECOND);
    assert!(path.info().pmtu < 1500, "found");
    path
}

#[test]
fn unless_it_is_asked_for_a_black_hole_stays_one() {
    let mut path = NarrowPath::new(tcp_config());
    path.run(SECOND);
    path.mtu = 1400;
    path.run(SECOND);
    let stuck = path.read;
    path.run(30 * SECOND);
    assert_eq!((path.read, path.info().pmtu), (stuck, 1500));
}

#[test]
fn a_black_hole_is_found_and_then_the_largest_size_that_passes() {
    let mut path = shrunken(probing());
    let before = path.read;
    path.run(20 * SECOND);
    let pmtu = path.info().pmtu;
    assert!((1385..=1400).contains(&pmtu), "{pmtu}");
    // 32 KB each 10 ms for 15 s, nearly, and 20 s pass.
    assert!(path.read - before > 40 << 20, "{} bytes", path.read - before);
}

#[test]
fn lost_probes_cost_their_own_data_and_no_reduction_whatever_finds_the_loss() {
    for (recovery, sack) in EVERY_POLICY.iter().flat_map(|&policy| [(policy, true), (policy, false)]) {
        let mut path =
            shrunken(TcpConfig { choices: Choices { recovery, sack, ..probing().choices }, ..probing() });
        path.run(SECOND / 2);
        let before = path.info();
        path.dropped.clear();
        path.run(20 * SECOND);
        let after = path.info();
        assert!(after.pmtu >= 1385, "{recovery:?} {sack}: {}", after.pmtu);
        assert!((4..=10).contains(&path.dropped.len()), "{recovery:?} {sack}: {:?}", path.dropped);
        assert_eq!(after.timeouts, before.timeouts, "{recovery:?} {sack}");
        assert_eq!(after.loss_episodes, before.loss_episodes, "{recovery:?} {sack}");
        let again = after.bytes_retransmitted - before.bytes_retransmitted;
        let lost: usize = path.dropped.iter().sum();
        assert!(again <= lost as u64, "{recovery:?} {sack}: {again} bytes again for {lost} lost");
        assert!(after.cwnd >= before.cwnd, "{recovery:?} {sack}");
    }
}

// RFC 4821 §7.6.2: after a probe failure no probe for as many round trips as the window has packets.
#[test]
fn lost_probe_is_followed_by_as_many_round_trips_as_the_window_has_packets() {
    let sending = TcpConfig { send_buffer_max: 1 << 20, ..probing() };
    let mut path = NarrowPath::with_window(sending, 512 << 10);
    path.run(SECOND);
    path.mtu = 1400;
    path.run(4 * SECOND);
    let before = path.info();
    path.dropped_at.clear();
    path.run(60 * SECOND);
    let after = path.info();
    // The packets are no smaller than 1,024 bytes and no larger than 1,400.
    let interval = Pair::DELAY * 2 * u32::try_from(before.cwnd / 1400).unwrap();
    assert!(interval > SECOND, "{interval:?}");
    let most = Pair::DELAY * 2 * u32::try_from(after.cwnd / 900).unwrap() + 5 * SECOND;
    assert!((3..=12).contains(&path.dropped_at.len()), "{:?}", path.dropped);
    for pair in path.dropped_at.windows(2) {
        let gap = pair[1].saturating_since(pair[0]);
        assert!(gap >= interval && gap <= most, "{gap:?}, not from {interval:?} to {most:?}");
    }
}

// RFC 4821 §7.6.3: five times that interval is RECOMMENDED after a probe whose loss the timer found.
#[test]
fn probe_that_the_timer_found_lost_is_followed_by_five_such_intervals() {
    let gap = |outage| {
        let mut path = shrunken(probing());
        path.run(SECOND / 2);
        path.outage = outage;
        path.dropped_at.clear();
        let timeouts = path.info().timeouts;
        while path.dropped_at.is_empty() {
            path.run(Pair::DELAY);
        }
        // The outcome is known, and the timer of the search looks at it a second after the probe left.
        path.run(SECOND - Pair::DELAY);
        let info = path.info();
        let interval = info.srtt * u32::try_from(info.cwnd.div_ceil(u64::from(info.snd_mss))).unwrap();
        while path.dropped_at.len() < 2 {
            path.run(Pair::DELAY);
        }
        let gap = path.dropped_at[1].saturating_since(path.dropped_at[0]).saturating_sub(SECOND);
        (path.info().timeouts - timeouts, gap.as_secs_f64() / interval.as_secs_f64())
    };
    let (timeouts, intervals) = gap(Duration::ZERO);
    assert!(timeouts == 0 && (0.8..1.2).contains(&intervals), "{timeouts} {intervals}");
    // Long enough for the timer, and for one expiry only.
    let (timeouts, intervals) = gap(SECOND / 4);
    assert!(timeouts == 1 && (4.0..6.0).contains(&intervals), "{timeouts} {intervals}");
}

#[test]
fn a_path_that_grows_is_used_in_full_after_the_rest_and_not_before() {
    let mut path = shrunken(probing());
    path.run(20 * SECOND);
    let found = path.info().pmtu;
    path.mtu = 1500;
    path.run(2 * SECOND);
    assert_eq!(path.info().pmtu, found, "the search rests");
    path.run(REST + 4 * SECOND);
    assert_eq!(path.info().pmtu, 1500);
    let (sent, timeouts) = (path.info().bytes_retransmitted, path.info().timeouts);
    path.run(REST * 3);
    assert_eq!((path.info().bytes_retransmitted, path.info().timeouts), (sent, timeouts), "it is over");
    path.writes = false;
    path.run(SECOND);
    assert_eq!(path.pair.client.poll_timeout(), None, "no timer of a search that is over");
}

#[test]
fn a_path_that_icmp_made_smaller_is_tried_again_after_the_rest_and_not_before() {
    let mut path = NarrowPath::new(probing());
    path.run(SECOND);
    (path.mtu, path.tells) = (1400, true);
    path.run(SECOND);
    assert_eq!((path.info().pmtu, path.info().timeouts), (1400, 0));
    path.dropped.clear();
    path.run(REST - 2 * SECOND);
    assert_eq!((&path.dropped[..], path.info().pmtu), (&[][..], 1400), "the search rests");
    path.mtu = 1500;
    path.run(6 * SECOND);
    assert_eq!(path.info().pmtu, 1500);
}

#[test]
fn a_path_that_shrinks_once_more_is_found_again() {
    let mut path = shrunken(probing());
    path.run(20 * SECOND);
    path.mtu = 1200;
    path.run(30 * SECOND);
    let pmtu = path.info().pmtu;
    assert!((1185..=1200).contains(&pmtu), "{pmtu}");
    // Below the first size tried, one more step remains.
    path.mtu = 600;
    path.run(50 * SECOND);
    let pmtu = path.info().pmtu;
    assert!((585..=600).contains(&pmtu), "{pmtu}");
}

#[test]
fn an_outage_that_looks_like_a_black_hole_costs_large_segments_for_seconds_only() {
    let mut path = NarrowPath::new(probing());
    path.run(SECOND);
    path.mtu = 0;
    path.run(2 * SECOND);
    assert!(path.info().pmtu < 1500);
    path.mtu = 1500;
    path.run(10 * SECOND);
    assert_eq!(path.info().pmtu, 1500);
}

#[test]
fn the_path_is_tried_again_after_ten_minutes_unless_told_otherwise() {
    assert_eq!(MtuProbing::default().raise_after, Duration::from_secs(600));
}

#[test]
fn nothing_larger_than_the_device_carries_is_tried_when_that_has_become_less() {
    // While the search goes on, with a probe under way now and then, and while it rests.
    for after in [900, 1005, 1010, 2005, 20_000] {
        let mut path = shrunken(probing());
        path.run(Duration::from_millis(after));
        let now = path.pair.now;
        path.pair.client.set_mtu(now, 1000);
        path.mtu = 1000;
        path.dropped.clear();
        path.run(3 * REST);
        assert_eq!(path.dropped, [], "{after} ms");
        assert_eq!(path.info().pmtu, 1000, "{after} ms");
    }
}
