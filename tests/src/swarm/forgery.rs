//! Segments that an attacker invents, and what must not come of them.

use std::time::Duration;

use ackclock::{ChecksumState, FourTuple, RxMeta, State};

use super::faults::Fault;
use super::wires::Expected;
use super::world::World;
use crate::segment::{ACK, Frame, Opt, PSH, RST, SYN, Seg, seg as segment};

/// A segment waiting to be sent: a reset, or an old segment.
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
    pub(super) fn seq(&self, expected: &Expected) -> Option<u32> {
        let Expected { ack, edge, end } = *expected;
        let far = (self.size >> 8) as u32 & 0x3fff_ffff;
        match self.what {
            Fault::ResetExact => (ack == end).then_some(ack),
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

    /// The segment with this number, modelled on `passing`, which was sent to the same host.
    pub(super) fn segment(&self, passing: &Seg, seq: u32) -> Option<Seg> {
        if self.what != Fault::OldSegment {
            return Some(segment(RST).seq(seq));
        }
        let (value, echo) = passing.timestamps().filter(|_| !passing.has(SYN) && passing.has(ACK))?;
        let mut old = segment(PSH).seq(seq).ack(passing.ack);
        old.window = passing.window;
        // Twelve days back: the timestamp alone shows it, and the sequence number does not.
        old.options = vec![Opt::Timestamps(value.wrapping_sub(1 << 30), echo)];
        old.payload = vec![0x6f; OLD_BYTES as usize];
        Some(old)
    }
}

impl World {
    /// A forger waits for its moment.
    pub(super) fn forge(&mut self, host: usize, path: usize, passing: &Frame) {
        let Some(at) = self.forgeries.iter().position(|forgery| (forgery.host, forgery.path) == (host, path))
        else {
            return;
        };
        let (local, remote) = (passing.dst, passing.src);
        let Some(expected) = self.machines[host].wires.expected(local, remote) else { return };
        let forgery = self.forgeries[at];
        let Some(seq) = forgery.seq(&expected) else { return };
        let tuple = FourTuple::new(local, remote);
        if self.machines[host].state_of(tuple) != Some(State::Established) {
            return;
        }
        let Some(forged) = forgery.segment(&passing.seg, seq) else { return };
        let received = self.machines[host].received_by(tuple);
        self.forgeries.remove(at);
        self.strike(forgery.event);
        if forgery.what == Fault::ResetExact {
            self.excuses.add(self.shared.time.now(), Duration::ZERO, Some(path));
        }
        let packet = Frame::new(remote, local, forged).to_bytes();
        self.log(host, '!', &packet);
        self.machines[host].receive(
            path,
            &packet,
            RxMeta { checksum: ChecksumState::Complete, segment_size: None },
        );
        let lives = self.machines[host].state_of(tuple) == Some(State::Established);
        let should = forgery.what != Fault::ResetExact;
        assert_eq!(lives, should, "{:?} with {seq}, {expected:?}: whether {tuple:?} lives", forgery.what);
        if lives {
            let taken = self.machines[host].received_by(tuple) - received;
            assert_eq!(taken, 0, "{:?} with {seq}, {expected:?}: text was taken from it", forgery.what);
        }
    }
}

/// Payload of an old segment.
const OLD_BYTES: u32 = 100;

#[cfg(test)]
mod tests {
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
            let expected = Expected { ack, edge, end };
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
}
