//! S. Savage et al., "TCP Congestion Control with a Misbehaving Receiver", ACM CCR 29(5), 1999, §2.3: a peer
//! acknowledges what is still in flight.

use std::collections::VecDeque;

use ackclock_wire::Codepoint;

use super::lone::{Lone, SECOND, SMSS, handshake};
use super::*;
use crate::congestion::Registry;
use crate::connection::Handshake;

/// A peer at the other end of a path, and what is on the way to it.
struct Peer {
    lone: Lone,
    one_way: Duration,
    /// When each byte before a position arrives.
    on_the_way: VecDeque<(Instant, SeqNum)>,
    /// The end of the text that has arrived.
    arrived: SeqNum,
    sent: u64,
}

impl Peer {
    /// The handshake took `handshake_rtt`, data and acknowledgements take half of `rtt` each.
    fn new(congestion: &str, handshake_rtt: Option<Duration>, rtt: Duration) -> Self {
        let mut tcp =
            TcpConfig { congestion: Registry::builtin().find(congestion).unwrap(), ..TcpConfig::default() };
        tcp.send_buffer_max = 256 << 10;
        let agreed = Handshake { window_scale: Some((14, 14)), rtt: handshake_rtt, ..handshake() };
        let lone = Lone::agreed(tcp, agreed);
        let arrived = lone.end.snd.flight().una().seq();
        Self { lone, one_way: rtt / 2, on_the_way: VecDeque::new(), arrived, sent: 0 }
    }

    /// The application writes, and all that may leave does.
    fn send(&mut self) {
        while self.lone.end.write(self.lone.now, &[1; 65_536]).is_ok_and(|written| written > 0) {}
        while self.lone.end.poll_timeout().is_some_and(|at| at <= self.lone.now) {
            self.lone.end.handle_timeout(self.lone.now);
        }
        let sizes = self.lone.sizes();
        self.sent += sizes.iter().sum::<usize>() as u64;
        let mut end =
            self.lone.end.snd.flight().nxt().seq() + 0u32.wrapping_sub(sizes.iter().sum::<usize>() as u32);
        for size in sizes {
            end += size as u32;
            self.on_the_way.push_back((self.lone.now + self.one_way, end));
        }
    }

    /// 0.1 ms passes.
    fn pass(&mut self) {
        self.lone.now += Duration::from_micros(100);
        let now = self.lone.now;
        while let Some(&(_, end)) = self.on_the_way.front().filter(|(at, _)| *at <= now) {
            self.arrived = end;
            self.on_the_way.pop_front();
        }
    }

    fn acknowledge(&mut self, ack: SeqNum) {
        let fields = self.lone.ack(ack, 65_535);
        self.lone.give(&fields, Codepoint::NotEct, &[]);
    }

    /// A second in which the peer acknowledges all segments of 1460 bytes that can have left, as far as it
    /// can know where they end. Returns bytes a second.
    fn lie(&mut self) -> u64 {
        let (until, before) = (self.lone.now + SECOND, self.sent);
        while self.lone.now < until {
            self.send();
            self.pass();
            let nxt = self.lone.end.snd.flight().nxt().seq();
            let out = nxt.offset_from(self.arrived) as usize;
            self.acknowledge(self.arrived + (out / SMSS * SMSS) as u32);
        }
        self.sent - before
    }

    /// A second in which it acknowledges what arrived when the path has carried the acknowledgement back.
    fn be_honest(&mut self) -> u64 {
        let (until, before) = (self.lone.now + SECOND, self.sent);
        let mut back = VecDeque::new();
        while self.lone.now < until {
            self.send();
            self.pass();
            if back.back().is_none_or(|&(_, ack)| ack != self.arrived) {
                back.push_back((self.lone.now + self.one_way, self.arrived));
            }
            while let Some(&(_, ack)) =
                back.front().filter(|(at, _): &&(Instant, SeqNum)| *at <= self.lone.now)
            {
                self.acknowledge(ack);
                back.pop_front();
            }
        }
        self.sent - before
    }
}

const RTT: Duration = Duration::from_millis(20);

/// Ten segments in half of the handshake's 20 ms are 1.46 MB/s; the first window and the last quantum leave
/// at once. Once in 730 guesses the peer finds an edge, and it has about six guesses in a second.
#[test]
fn sec_c24_early_acks_send_no_faster_than_a_window_in_half_the_round_trip() {
    for congestion in ["cubic", "reno", "newreno", "bbr", "vegas", "dctcp"] {
        let rate = Peer::new(congestion, Some(RTT), RTT).lie();
        println!("{congestion}: {rate} bytes a second");
        assert!((14_600..=3_000_000).contains(&rate), "{congestion}: {rate} bytes a second");
    }
}

/// The peer chooses that the handshake measures nothing: it lets a SYN,ACK be sent again.
#[test]
fn handshake_without_a_measurement_bounds_it_too() {
    let rate = Peer::new("cubic", None, RTT).lie();
    assert!((14_600..=3_000_000).contains(&rate), "{rate} bytes a second");
}

/// An honest peer proves that a path became shorter, and is soon as fast as one whose handshake was. In the
/// first second the smoothed round trip, which begins with the handshake's, paces what leaves, and one round
/// trip grows nothing.
#[test]
fn honest_peer_behind_a_slow_handshake_is_as_fast_as_any() {
    for (handshake, rtt) in [(20, 2), (1000, 20), (1000, 1)] {
        let (handshake, rtt) = (Duration::from_millis(handshake), Duration::from_millis(rtt));
        let rate = |handshake| {
            let mut peer = Peer::new("cubic", Some(handshake), rtt);
            (peer.be_honest(), peer.be_honest())
        };
        let (slow, fast) = (rate(handshake), rate(rtt));
        println!("{handshake:?}, {rtt:?}: {slow:?} and {fast:?}");
        assert!(
            slow.1 * 20 >= fast.1 * 19,
            "{handshake:?}, {rtt:?}: {slow:?} bytes a second, {fast:?} at best"
        );
        assert!(slow.0 * 3 >= fast.0, "{handshake:?}, {rtt:?}: {slow:?} bytes a second, {fast:?} at best");
    }
}
