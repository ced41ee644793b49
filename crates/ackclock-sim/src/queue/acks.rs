//! CAKE's ACK filter: an acknowledgement goes where the ones before and behind it make it redundant.

use std::fmt;

use ackclock_wire::SeqNum;

use super::Fifo;
use crate::packet::PacketId;

/// What a discipline may ask about a packet's headers.
pub trait Headers: fmt::Debug {
    /// The hosts that it comes from and goes to, by number.
    fn hosts(&self, packet: PacketId) -> [u32; 2];

    /// The fields of a pure ACK: a TCP segment without payload, whose flags are ACK and at most those of ECN.
    fn pure_ack(&self, packet: PacketId) -> Option<PureAck>;
}

/// A pure ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PureAck {
    /// Its connection and direction: the hosts and ports that it comes from and goes to.
    pub connection: ([u32; 2], [u16; 2]),
    /// The acknowledgement number.
    pub ack: SeqNum,
    /// The flags of ECN: AE, CWR and ECE, from the highest bit.
    pub ecn: u8,
    /// Whether it has no option except timestamps: no SACK block, no counters.
    pub is_plain: bool,
}

/// Whether the last packet but one of a flow tells its receiver nothing. It must be an ACK between two others
/// of its connection that acknowledges more than the one before (so it is not a duplicate) and less than the
/// one behind, with the same flags of ECN as that one and no SACK block.
///
/// Two ACKs at least stay, as in CAKE's default mode.
pub(super) fn is_last_but_one_redundant(fifo: &Fifo, headers: &dyn Headers) -> bool {
    let mut last = fifo.packets.iter().rev().map_while(|packet| headers.pure_ack(packet.packet));
    let (Some(behind), Some(ack), Some(before)) = (last.next(), last.next(), last.next()) else {
        return false;
    };
    let same_connection = before.connection == ack.connection && ack.connection == behind.connection;
    let advances = before.ack.before(ack.ack) && ack.ack.before(behind.ack);
    same_connection && advances && ack.is_plain && ack.ecn == behind.ecn
}

#[cfg(test)]
mod tests {
    use ackclock_core::Instant;

    use super::super::Queued;
    use super::*;

    #[derive(Debug)]
    struct Acks(Vec<Option<PureAck>>);

    impl Headers for Acks {
        fn hosts(&self, _: PacketId) -> [u32; 2] {
            [0, 0]
        }

        fn pure_ack(&self, packet: PacketId) -> Option<PureAck> {
            self.0[packet.0 as usize]
        }
    }

    fn ack(number: u32) -> PureAck {
        PureAck { connection: ([1, 2], [80, 4000]), ack: SeqNum::new(number), ecn: 0, is_plain: true }
    }

    fn redundant(acks: &[Option<PureAck>]) -> bool {
        let mut fifo = Fifo::default();
        for packet in (0..acks.len() as u32).map(PacketId) {
            let (since, flow, ecn_capable, l4s) = (Instant::ZERO, 0, false, false);
            fifo.push(Queued { packet, bytes: 52, since, flow, ecn_capable, l4s });
        }
        is_last_but_one_redundant(&fifo, &Acks(acks.to_vec()))
    }

    #[test]
    fn an_ack_between_two_others_is_redundant_also_where_numbers_wrap() {
        assert!(redundant(&[Some(ack(100)), Some(ack(200)), Some(ack(300))]));
        assert!(redundant(&[None, Some(ack(u32::MAX - 50)), Some(ack(u32::MAX)), Some(ack(70))]));
    }

    #[test]
    fn two_acks_are_kept() {
        assert!(!redundant(&[]));
        assert!(!redundant(&[Some(ack(100))]));
        assert!(!redundant(&[Some(ack(100)), Some(ack(200))]));
        assert!(!redundant(&[None, Some(ack(100)), Some(ack(200))]));
    }

    #[test]
    fn what_says_more_than_the_ack_behind_it_is_kept() {
        let other = PureAck { connection: ([1, 2], [80, 4001]), ..ack(200) };
        for [first, second, third] in [
            // The second is a duplicate, or the third is one of it.
            [ack(100), ack(100), ack(300)],
            [ack(100), ack(300), ack(300)],
            // The third was overtaken by the second.
            [ack(100), ack(300), ack(200)],
            // SACK blocks, or the counters of Accurate ECN.
            [ack(100), PureAck { is_plain: false, ..ack(200) }, ack(300)],
            // The echo of a mark, and its end.
            [ack(100), PureAck { ecn: 1, ..ack(200) }, ack(300)],
            [ack(100), ack(200), PureAck { ecn: 1, ..ack(300) }],
            // Two connections in one queue.
            [ack(100), other, ack(300)],
            [other, ack(250), ack(300)],
            [ack(100), ack(200), PureAck { connection: other.connection, ..ack(300) }],
        ] {
            assert!(!redundant(&[Some(first), Some(second), Some(third)]), "{first:?} {second:?} {third:?}");
        }
        // Data, a SYN or a datagram between them.
        assert!(!redundant(&[Some(ack(100)), None, Some(ack(300))]));
        assert!(!redundant(&[Some(ack(100)), Some(ack(200)), None]));
        // The ones around it may say more.
        let sack = PureAck { is_plain: false, ..ack(300) };
        assert!(redundant(&[Some(ack(100)), Some(ack(200)), Some(sack)]));
    }
}
