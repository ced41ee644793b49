//! Segments without a connection: resets, SYN-ACKs and acknowledgements of compact records.
//!
//! The queue is bounded; what does not fit is dropped and counted, as by a full interface. Every reply
//! answers one segment and is no longer than it, except for the options of a SYN-ACK for MSS and, if
//! requested, Accurate ECN.

use std::collections::VecDeque;

use ackclock_wire::{ControlSegment, Fields, Flags, FlowLabel, Segment, SeqNum};

use crate::FourTuple;

/// Replies that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Replies {
    queue: VecDeque<ControlSegment>,
}

impl Replies {
    /// Adds a reply. Returns whether there was room.
    pub(super) fn push(&mut self, reply: ControlSegment) -> bool {
        let room = self.queue.len() < REPLIES_MAX;
        if room {
            if self.queue.capacity() == 0 {
                // Most endpoints have one at a time; the queue's default first capacity is four.
                self.queue.reserve_exact(1);
            }
            self.queue.push_back(reply);
        }
        room
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<ControlSegment> {
        self.queue.pop_front()
    }
}

/// A control segment on the connection `tuple` with these fields.
pub(super) fn control(tuple: &FourTuple, ttl: u8, flow_label: FlowLabel, fields: Fields) -> ControlSegment {
    ControlSegment { src: tuple.local(), dst: tuple.remote(), ttl, traffic_class: 0, flow_label, fields }
}

/// The reset that answers a segment without a connection (RFC 9293 §3.5.2, group 1, and §3.10.7.1). `None`
/// for a reset, which is never answered.
pub(super) fn reset_for(segment: &Segment<'_>) -> Option<Fields> {
    if segment.flags.contains(Flags::RST) {
        return None;
    }
    Some(if segment.flags.contains(Flags::ACK) {
        // <SEQ=SEG.ACK><CTL=RST>
        bare(segment.ack, SeqNum::default(), Flags::RST)
    } else {
        // <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>
        bare(SeqNum::default(), segment.seq + segment.seq_len(), Flags::RST | Flags::ACK)
    })
}

/// A segment without window and options.
pub(super) fn bare(seq: SeqNum, ack: SeqNum, flags: Flags) -> Fields {
    Fields { seq, ack, flags, ..Fields::default() }
}

/// The most replies that wait: what some batches of received packets can cause.
pub(super) const REPLIES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use ackclock_wire::TcpOptions;

    use super::*;

    #[test]
    fn first_reply_takes_room_for_one() {
        let reset = bare(SeqNum::default(), SeqNum::default(), Flags::RST);
        let ends = ("192.0.2.1:1".parse().unwrap(), "192.0.2.2:2".parse().unwrap());
        let reply = control(&FourTuple::new(ends.0, ends.1), 64, FlowLabel::default(), reset);
        let mut replies = Replies::default();
        assert!(replies.push(reply));
        assert_eq!(replies.queue.capacity(), 1);
    }

    fn segment(flags: Flags, payload: &[u8]) -> Segment<'_> {
        Segment {
            src_port: 1,
            dst_port: 2,
            seq: SeqNum::new(u32::MAX - 1),
            ack: SeqNum::new(77),
            flags,
            window: 9,
            urgent: 0,
            options: TcpOptions::default(),
            payload,
        }
    }

    #[test]
    fn a_segment_without_ack_is_reset_by_sequence_zero_and_its_end() {
        let reset = reset_for(&segment(Flags::SYN, &[])).unwrap();
        assert_eq!(
            (reset.seq, reset.ack, reset.flags),
            (SeqNum::new(0), SeqNum::new(u32::MAX), Flags::RST | Flags::ACK)
        );
        let reset = reset_for(&segment(Flags::SYN | Flags::FIN, &[1, 2])).unwrap();
        assert_eq!(reset.ack, SeqNum::new(2));
    }

    #[test]
    fn a_segment_with_ack_is_reset_at_the_number_that_it_acknowledges() {
        let reset = reset_for(&segment(Flags::ACK | Flags::PSH, &[1])).unwrap();
        assert_eq!((reset.seq, reset.flags), (SeqNum::new(77), Flags::RST));
    }

    #[test]
    fn sec_a14_a_reset_is_never_answered_whatever_else_it_carries() {
        for bits in 0..0x200 {
            let flags = Flags::from_bits(bits);
            assert_eq!(reset_for(&segment(flags, &[])).is_none(), flags.contains(Flags::RST), "{flags:?}");
        }
    }

    #[test]
    fn a_full_queue_refuses_and_keeps_what_it_has() {
        let tuple = FourTuple::new("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        let mut replies = Replies::default();
        let reply = |n: usize| {
            let reset = bare(SeqNum::new(u32::try_from(n).unwrap()), SeqNum::new(0), Flags::RST);
            control(&tuple, 64, FlowLabel::NONE, reset)
        };
        assert!((0..REPLIES_MAX).all(|n| replies.push(reply(n))));
        assert!(!replies.push(reply(REPLIES_MAX)));
        assert_eq!(replies.pop().unwrap().fields.seq, SeqNum::new(0));
        assert!(replies.push(reply(REPLIES_MAX)));
    }
}
