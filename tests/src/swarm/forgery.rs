//! Segments that an attacker invents, and what must not come of them.

use std::time::Duration;

use ackclock::{ChecksumState, ConnectionInfo, FourTuple, RxMeta, State};

use super::faults::Fault;
use super::wires::Expected;
use super::world::SwarmRun;
use crate::rng::Rng;
use crate::segment::{ACK, FIN, Frame, Opt, PSH, RST, SYN, Seg, URG, seg as segment};

/// A segment waiting to be sent: a reset, an old segment, or an acknowledgement with forged SACK blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forgery {
    pub(super) event: usize,
    pub(super) what: Fault,
    /// Its target, and the path of the other end.
    pub(super) host: usize,
    pub(super) path: usize,
    pub(super) size: u64,
}

impl Forgery {
    /// The sequence number, if it can be sent now.
    fn seq(&self, expected: &Expected) -> Option<u32> {
        let Expected { ack, edge, end, .. } = *expected;
        let far = (self.size >> 8) as u32 & 0x3fff_ffff;
        match self.what {
            Fault::ResetExact | Fault::SackOutside | Fault::SackInside => (ack == end).then_some(ack),
            // Where the next byte is expected, with room for it.
            Fault::OldSegment => {
                let fits = edge.wrapping_sub(ack).wrapping_sub(OLD_BYTES) < 1 << 30;
                (ack == end && fits).then_some(ack)
            }
            // Where nothing that has arrived ends, so that the next byte cannot be expected there.
            Fault::ResetInside => {
                let (first, room) = (end.wrapping_add(1), edge.wrapping_sub(end));
                ((2..1 << 30).contains(&room)).then(|| first.wrapping_add(far % (room - 1)))
            }
            _ if self.size & 1 == 0 => Some(ack.wrapping_sub(1 + far)),
            // Beyond any edge that the window may have reached since.
            _ => Some(edge.wrapping_add((16 << 20) + far)),
        }
    }

    /// The segment with this number, modelled on `passing`, which was sent to the same host; `nxt` is the end
    /// of what that host has sent.
    fn segment(&self, passing: &Seg, seq: u32, nxt: u32) -> Option<Seg> {
        match self.what {
            Fault::OldSegment => old_segment(passing, seq),
            Fault::SackOutside | Fault::SackInside => self.acknowledgement(passing, seq, nxt),
            _ => Some(segment(RST).seq(seq)),
        }
    }

    /// `passing` once more, without text and with other SACK blocks, if enough is outstanding.
    fn acknowledgement(&self, passing: &Seg, seq: u32, nxt: u32) -> Option<Seg> {
        let outstanding = nxt.wrapping_sub(passing.ack);
        if !passing.has(ACK) || passing.has(SYN) || !(OUTSTANDING_LEAST..1 << 30).contains(&outstanding) {
            return None;
        }
        let blocks = self.blocks(outstanding).map(|(left, right)| {
            (passing.ack.wrapping_add_signed(left), passing.ack.wrapping_add_signed(right))
        });
        let mut forged = passing.clone().seq(seq).data(&[]);
        forged.flags &= !(FIN | PSH | URG);
        forged.options.retain(|option| matches!(option, Opt::Timestamps(..)));
        Some(forged.opt(Opt::Sack(blocks.to_vec())))
    }

    /// The SACK blocks, relative to SND.UNA.
    fn blocks(&self, outstanding: u32) -> [(i32, i32); 3] {
        let mut rng = Rng::new(self.size);
        let nxt = outstanding as i32;
        let mut within = [0; 4].map(|_: i32| rng.between(1, u64::from(outstanding)) as i32);
        within.sort_unstable();
        let [a, b, c, d] = within;
        let far = rng.between(1, 100_000) as i32;
        if self.what == Fault::SackOutside {
            let mut shapes = [(a, nxt + far), (nxt, nxt + far), (-far, 0), (d, a), (b, b)];
            shapes.rotate_left(rng.below(5) as usize);
            return [shapes[0], shapes[1], shapes[2]];
        }
        rng.pick(&[
            // All that is outstanding, except its first byte.
            [(1, nxt), (1, nxt), (1, nxt)],
            // Blocks that overlap.
            [(a, c), (b, d), (c, nxt)],
            // The first one within the second: received twice (RFC 2883 §4).
            [(b, c), (a, d), (d, nxt)],
        ])
    }
}

fn old_segment(passing: &Seg, seq: u32) -> Option<Seg> {
    let (value, echo) = passing.timestamps().filter(|_| !passing.has(SYN) && passing.has(ACK))?;
    let mut old = segment(PSH).seq(seq).ack(passing.ack);
    old.window = passing.window;
    // Twelve days back: the timestamp alone shows it, and the sequence number does not.
    old.options = vec![Opt::Timestamps(value.wrapping_sub(1 << 30), echo)];
    old.payload = vec![0x6f; OLD_BYTES as usize];
    Some(old)
}

impl SwarmRun {
    /// Forgers wait for their moment: the first that is ready sends a segment.
    pub(super) fn forge(&mut self, host: usize, path: usize, passing: &Frame) {
        let waiting = |forgery: &Forgery| (forgery.host, forgery.path) == (host, path);
        if !self.forgeries.iter().any(waiting) {
            return;
        }
        let Some(expected) = self.machines[host].wires.expected(passing.dst, passing.src) else { return };
        let forged = |forgery: &Forgery| {
            let seq = forgery.seq(&expected).filter(|_| waiting(forgery))?;
            forgery.segment(&passing.seg, seq, expected.nxt)
        };
        let all = self.forgeries.iter().enumerate();
        let mut ready = all.filter_map(|(at, forgery)| Some((at, forged(forgery)?))).peekable();
        let tuple = FourTuple::new(passing.dst, passing.src);
        let established = |info: &ConnectionInfo| info.state == State::Established;
        if ready.peek().is_some()
            && let Some(before) = self.machines[host].info_of(tuple).filter(established)
            && let Some((at, forged)) =
                ready.find(|(at, _)| self.forgeries[*at].can_strike(&before, passing.seg.ack, expected.nxt))
        {
            let forgery = self.forgeries.remove(at);
            self.strike(forgery.event);
            self.send_forged(&forgery, tuple, forged, &before);
        }
    }

    fn send_forged(&mut self, forgery: &Forgery, tuple: FourTuple, forged: Seg, before: &ConnectionInfo) {
        let Forgery { what, host, path, .. } = *forgery;
        if what == Fault::ResetExact {
            self.excuses.add(self.shared.time.now(), Duration::ZERO, Some(path));
        }
        let frame = Frame::new(tuple.remote(), tuple.local(), forged);
        let packet = frame.to_bytes();
        self.log(host, '!', &packet);
        let machine = &mut self.machines[host];
        if forgery.is_sack() {
            machine.wires.received(frame.dst, frame.src, &frame.seg);
        }
        machine.receive(path, &packet, RxMeta { checksum: ChecksumState::Complete, segment_size: None });
        let after = machine.info_of(tuple).filter(|info| info.state == State::Established);
        let forged = &frame.seg;
        let should = what != Fault::ResetExact;
        assert_eq!(after.is_some(), should, "{what:?} {forged:?}: whether {tuple:?} lives");
        let Some(after) = after else { return };
        let taken = after.bytes_received - before.bytes_received;
        assert_eq!(taken, 0, "{what:?} {forged:?}: text was taken from it");
        // RFC 2018 §3: a block reports data that was sent.
        let counted = what == Fault::SackOutside && after.sacked != before.sacked;
        assert!(!counted, "{what:?} {forged:?}: blocks of no data count as held: {before:?} {after:?}");
    }
}

impl Forgery {
    fn is_sack(&self) -> bool {
        matches!(self.what, Fault::SackOutside | Fault::SackInside)
    }

    /// Whether the connection heeds the segment: it uses SACK, and `ack` is its SND.UNA.
    fn can_strike(&self, info: &ConnectionInfo, ack: u32, nxt: u32) -> bool {
        !self.is_sack() || info.sack && info.unacked == u64::from(nxt.wrapping_sub(ack))
    }
}

/// Payload of an old segment.
const OLD_BYTES: u32 = 100;
/// Two full segments, so that blocks cover some.
const OUTSTANDING_LEAST: u32 = 3_000;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use super::*;

    fn forgery(what: Fault, size: u64) -> Forgery {
        Forgery { event: 0, what, host: 0, path: 0, size }
    }

    #[test]
    fn a_forged_number_is_where_its_name_says() {
        let mut rng = crate::rng::Rng::new(1);
        for _ in 0..10_000 {
            let ack = rng.next_u64() as u32;
            let end = ack.wrapping_add(rng.below(10_000) as u32);
            let edge = end.wrapping_add(rng.below(10_000) as u32);
            let expected = Expected { ack, edge, end, nxt: 0 };
            let size = rng.next_u64();
            let window = edge.wrapping_sub(ack);
            if let Some(seq) = forgery(Fault::ResetInside, size).seq(&expected) {
                assert!(
                    (end.wrapping_sub(ack) + 1..window).contains(&seq.wrapping_sub(ack)),
                    "{expected:?} {seq}"
                );
            }
            let seq = forgery(Fault::ResetOutside, size).seq(&expected).expect("always");
            assert!(seq.wrapping_sub(ack) >= window, "{expected:?} {seq}");
            let exact = forgery(Fault::ResetExact, size).seq(&expected);
            assert_eq!(exact, (ack == end).then_some(ack));
            let old = forgery(Fault::OldSegment, size).seq(&expected);
            assert_eq!(old, (ack == end && window >= OLD_BYTES).then_some(ack));
        }
    }

    #[test]
    fn forged_blocks_are_where_their_name_says() {
        let passing = segment(ACK).ack(u32::MAX - 10_000).opt(Opt::Timestamps(1, 2));
        let nxt = passing.ack.wrapping_add(50_000);
        let held = |(left, right): (u32, u32)| {
            let (left, right) = (left.wrapping_sub(passing.ack), right.wrapping_sub(passing.ack));
            0 < left && left < right && right <= 50_000
        };
        for size in 0..10_000 {
            let forged = |what| forgery(what, size).segment(&passing, 7, nxt).expect("enough is outstanding");
            let outside = forged(Fault::SackOutside);
            assert!(outside.sack().iter().all(|block| !held(*block)), "{outside:?}");
            let inside = forged(Fault::SackInside);
            assert!(inside.sack().iter().any(|block| held(*block)), "{inside:?}");
            assert!(inside.sack().iter().all(|block| held(*block) || block.0 == block.1), "{inside:?}");
            let read = Frame::parse(&Frame::new(A, B, inside.clone()).to_bytes()).expect("a packet");
            assert_eq!(read.seg, inside);
        }
        let nothing = passing.ack.wrapping_add(OUTSTANDING_LEAST - 1);
        assert_eq!(forgery(Fault::SackInside, 1).segment(&passing, 7, nothing), None);
    }

    const A: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1);
    const B: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 2);
}
