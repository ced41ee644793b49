//! The window that a receiver shows, whose unit is 2^scale bytes (RFC 7323 §2.2, §2.4).

use ackclock_wire::Codepoint;

use super::lone::{Lone, SMSS, handshake};
use super::*;
use crate::connection::Handshake;
use crate::walks::Walk;

/// The most that may wait before the application has shown how fast it reads.
fn limit(scale: u8) -> u64 {
    (64 << 10).min(65_535 << scale)
}

/// A peer that sends as its window allows, and what it has been shown.
struct Peer {
    lone: Lone,
    unit: u64,
    sent: u64,
    /// The right edge in the last acknowledgement, and the furthest one.
    shown: u64,
    edge: u64,
}

impl Peer {
    /// A receiver whose buffer may grow to 65,535 units.
    fn new(scale: u8) -> Self {
        let unit = 1_u64 << scale;
        let tcp = TcpConfig { receive_buffer_max: 65_535 << scale, ..TcpConfig::default() };
        let handshake = Handshake { window_scale: Some((0, scale)), ..handshake() };
        let mut peer = Self { lone: Lone::agreed(tcp, handshake), unit, sent: 0, shown: 0, edge: 0 };
        assert_eq!(peer.lone.end.rcv.scale(), scale);
        peer.hear(true);
        peer
    }

    /// Sends `len` bytes and hears the acknowledgement.
    fn send(&mut self, len: usize) {
        let next = self.lone.end.rcv.nxt().seq();
        let fields = self.lone.ack(self.lone.end.snd.flight().una().seq(), 65_535);
        assert_eq!(fields.seq, next);
        self.lone.give(&fields, Codepoint::NotEct, &vec![1; len]);
        self.sent += len as u64;
        self.hear(true);
    }

    /// Takes the connection's acknowledgements. `now`: makes it send one at once.
    fn hear(&mut self, now: bool) {
        if now {
            self.lone.end.rcv.owe_ack_now();
        }
        let mut header = [0; HEADER_MAX];
        while let Some(out) = self.lone.end.poll_transmit(self.lone.now, self.lone.limits, true, &mut header)
        {
            let at = usize::from(out.transport_offset);
            let ack = u32::from_be_bytes(header[at + 8..at + 12].try_into().unwrap());
            let window = u64::from(u16::from_be_bytes([header[at + 14], header[at + 15]]));
            let acked = u64::from(SeqNum::new(ack).offset_from((self.lone.end.rcv.irs() + 1).seq()));
            assert_eq!(acked, self.sent);
            self.shown = acked + window * self.unit;
            assert!(self.shown + self.unit > self.edge, "{} shown after {}", self.shown, self.edge);
            // §3.8.6.2.2: never by a sliver, except for what rounding hides.
            let step = (limit(self.lone.end.rcv.scale()) / 2).min(u64::from(self.lone.end.rcv.mss()));
            let moved = self.shown.saturating_sub(self.edge);
            assert!(moved <= self.unit || moved + self.unit >= step, "moved by {moved}");
            self.edge = self.edge.max(self.shown);
        }
    }
}

/// A receiver beside a naive one, which keeps every byte with the times at which it came and went. The
/// receiver takes every byte that it offered to take. Its edge never goes back (RFC 9293 SHLD-14) and moves
/// by at least a segment or half of the buffer (§3.8.6.2.2). At most twice the bytes wait that the
/// application takes in a round trip, and twice that while it takes more each time.
#[test]
fn receiver_offers_what_a_naive_one_could_keep() {
    for number in 0..200 {
        let mut walk = Walk::new(number);
        let scale = walk.pick(&[0, 3, 7]);
        let limit_initial = limit(scale);
        let mut peer = Peer::new(scale);
        let (mut taken, mut reads) = (0_u64, Vec::<(Instant, u64)>::new());
        for step in 0..200 {
            let story = format!("walk {number}, step {step}");
            match walk.below(4) {
                0 | 1 => {
                    let room = peer.shown.saturating_sub(peer.sent) as usize;
                    let mut left = walk.pick(&[1, 3000, 30_000, 1 << 20]).min(room);
                    while left > 0 {
                        let len = walk.pick(&[1, 100, SMSS, SMSS, SMSS]).min(left);
                        peer.send(len);
                        left -= len;
                    }
                }
                2 => {
                    let most = walk.pick(&[1, 500, 20_000, 1 << 22]);
                    let read = peer.lone.end.readable().min(most);
                    peer.lone.end.consume(peer.lone.now, read);
                    taken += read as u64;
                    reads.push((peer.lone.now, read as u64));
                    peer.hear(false);
                }
                _ => {
                    peer.lone.now += Duration::from_millis(walk.pick(&[1, 19, 20, 100, 3000]));
                    peer.lone.end.handle_timeout(peer.lone.now);
                    peer.hear(false);
                }
            }
            assert_eq!(
                peer.lone.end.readable() as u64,
                peer.sent - taken,
                "{story}: nothing offered is lost"
            );
            // Four times what went in the round trip before some read, and what that read took itself.
            let within = |at: Instant| {
                let near = reads.iter().filter(|(other, _)| *other <= at && *other + ROUND_TRIP >= at);
                near.map(|(_, bytes)| bytes).sum::<u64>()
            };
            let largest = reads.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
            let most = reads.iter().map(|(at, _)| within(*at)).max().unwrap_or(0);
            let limit = limit(scale).max(4 * (most + largest)).min(65_535 << scale);
            assert!(peer.edge < taken + limit + peer.unit, "{story}: {} offered, {taken} taken", peer.edge);
            if peer.sent == taken {
                // All is read: the peer sees at least half of the smallest buffer.
                let open = peer.shown - peer.sent + peer.unit;
                assert!(2 * open >= limit_initial, "{story}: {open} open");
            }
        }
    }
}

/// The round trip that the handshake measured.
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// RFC 9293 §3.8.6.2.2: the window of a receiver closes while its application does not read. It is a multiple
/// of the unit, and so may exceed what the buffer takes by less than one; it never does by more, however
/// small the segments.
#[test]
fn window_closes_after_what_the_buffer_takes_however_small_the_segments() {
    for scale in [0, 3, 7, 11] {
        for len in [1, 7, 100, SMSS] {
            let mut peer = Peer::new(scale);
            let most = limit(scale)..limit(scale) + peer.unit;
            assert!(most.contains(&peer.edge), "{} offered", peer.edge);
            while peer.edge > peer.sent {
                peer.send(len.min((peer.edge - peer.sent) as usize));
                assert!(most.contains(&peer.edge), "scale {scale}, {len} bytes: {} offered", peer.edge);
            }
            assert!(most.contains(&peer.sent), "scale {scale}, {len}: {} taken", peer.sent);
        }
    }
}

/// RFC 9293 §3.8.6.2.2: an update is due once what the peer has been shown lags behind by a segment, be it by
/// reading or by rounding.
#[test]
fn window_update_is_due_once_the_peer_may_send_a_segment_more_than_it_was_shown() {
    for scale in [0, 7, 11] {
        let mut peer = Peer::new(scale);
        while peer.edge > peer.sent {
            peer.send(100.min((peer.edge - peer.sent) as usize));
        }
        let limit = limit(scale);
        let step = (limit / 2).min(u64::from(peer.lone.end.rcv.mss()));
        let mut updates = 0;
        while peer.lone.end.readable() > 0 {
            let before = peer.shown;
            let read = 10.min(peer.lone.end.readable());
            peer.lone.end.consume(peer.lone.now, read);
            peer.hear(false);
            let may = peer.sent + limit - peer.lone.end.readable() as u64;
            updates += u32::from(peer.shown != before);
            assert!(peer.shown < may + peer.unit, "{} shown of {may}", peer.shown);
            let open = peer.shown.saturating_sub(peer.sent);
            // A gain smaller than the window goes with the next acknowledgement.
            assert!(
                may.saturating_sub(peer.shown) < step.max(open) + peer.unit,
                "{} shown of {may}",
                peer.shown
            );
        }
        assert!((3..=10).contains(&updates), "{updates} updates");
    }
}
