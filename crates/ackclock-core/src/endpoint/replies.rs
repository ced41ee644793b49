//! Segments without a connection: resets, SYN-ACKs and acknowledgements of compact records.
//!
//! The queues are bounded; what does not fit is dropped and counted, as by a full interface. Every reply
//! answers one segment and is no longer than it, except for the options of a SYN-ACK for MSS and, if
//! requested, Accurate ECN.
//!
//! Replies take turns with the segments of connections, so that no flood of one holds up the other. Replies
//! to strangers wait for those to sources that are known, in a queue of their own: a flood from false
//! addresses fills only that.

use std::collections::VecDeque;
use std::net::IpAddr;

use ackclock_wire::{ControlSegment, Fields, Flags, FlowLabel, Segment, SeqNum};

use super::keys::Key;
use crate::FourTuple;

/// Replies that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Replies {
    to_known: VecDeque<ControlSegment>,
    to_strangers: VecDeque<ControlSegment>,
    /// Whether the last turn was a reply's.
    had_turn: bool,
    /// While the driver is behind: how many packets must have arrived before the next reply to a stranger
    /// leaves.
    strangers_after: Option<u64>,
    /// Present once a SYN queue was full.
    known: Option<Box<KnownSources>>,
}

impl Replies {
    /// Adds a reply. Returns whether there was room.
    pub fn push(&mut self, reply: ControlSegment) -> bool {
        let is_known = self.is_known(reply.dst.ip());
        let queue = if is_known { &mut self.to_known } else { &mut self.to_strangers };
        let room = queue.len() < REPLIES_MAX;
        if room {
            if queue.capacity() == 0 {
                // Most endpoints have one at a time; the queue's default first capacity is four.
                queue.reserve_exact(1);
            }
            queue.push_back(reply);
        }
        room
    }

    /// From now on, sources that complete a handshake are known, and so are these.
    pub fn know(&mut self, key: Key, sources: impl Iterator<Item = IpAddr>) {
        let mut known = Box::new(KnownSources::new(key));
        sources.for_each(|source| known.remember(source));
        self.known = Some(known);
    }

    /// Whether sources are told apart.
    pub fn knows_sources(&self) -> bool {
        self.known.is_some()
    }

    /// Whether a source has completed a handshake since then, as far as is remembered.
    pub fn is_known(&self, source: IpAddr) -> bool {
        self.known.as_ref().is_some_and(|known| known.knows(source))
    }

    /// A source has completed a handshake.
    pub fn remember(&mut self, source: IpAddr) {
        if let Some(known) = &mut self.known {
            known.remember(source);
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.to_known.is_empty() && self.to_strangers.is_empty()
    }

    /// Whether the driver is behind, `arrived` packets having arrived.
    pub fn set_behind(&mut self, behind: bool, arrived: u64) {
        self.strangers_after = behind.then_some(self.strangers_after.unwrap_or(arrived));
    }

    /// Whether a reply goes before the next segment of a connection, `arrived` packets having arrived.
    pub fn takes_turn(&mut self, arrived: u64) -> bool {
        self.had_turn = !self.had_turn && (!self.to_known.is_empty() || self.has_for_strangers(arrived));
        self.had_turn
    }

    /// The next reply: those to known sources first.
    pub fn pop(&mut self, arrived: u64) -> Option<ControlSegment> {
        if let Some(reply) = self.to_known.pop_front() {
            return Some(reply);
        }
        if !self.has_for_strangers(arrived) {
            return None;
        }
        if let Some(after) = &mut self.strangers_after {
            let saved = arrived.saturating_sub(SAVED_MAX);
            *after = (*after).max(saved).saturating_add(PACKETS_PER_STRANGER);
        }
        self.to_strangers.pop_front()
    }

    fn has_for_strangers(&self, arrived: u64) -> bool {
        !self.to_strangers.is_empty() && self.strangers_after.is_none_or(|after| arrived >= after)
    }
}

/// Which sources have shown that they receive at their address, by completing a handshake.
///
/// The table has a fixed size. A keyed hash gives each source one place, and the newest source takes it. To
/// displace a given source, an attacker must complete handshakes from thousands of addresses. A
/// displaced source counts as a stranger until its next handshake.
#[derive(Debug)]
struct KnownSources {
    key: Key,
    /// Parts of their hashes; 0 for none.
    places: Box<[u32]>,
}

impl KnownSources {
    fn new(key: Key) -> Self {
        Self { key, places: vec![0; PLACES].into() }
    }

    /// A source has completed a handshake.
    fn remember(&mut self, source: IpAddr) {
        let (place, tag) = self.place(source);
        if let Some(kept) = self.places.get_mut(place) {
            *kept = tag;
        }
    }

    fn knows(&self, source: IpAddr) -> bool {
        let (place, tag) = self.place(source);
        self.places.get(place) == Some(&tag)
    }

    /// The place and tag of a source: an IPv4 address or an IPv6 /64, as for half-open records.
    fn place(&self, source: IpAddr) -> (usize, u32) {
        let hash = match source {
            IpAddr::V4(addr) => self.key.hash13(&addr.octets()),
            IpAddr::V6(addr) => self.key.hash13(&((addr.to_bits() >> 64) as u64).to_le_bytes()),
        };
        let [a, b, c, d, e, f, ..] = hash.to_le_bytes();
        let place = usize::from(u16::from_le_bytes([e, f]) & PLACE_MASK);
        (place, u32::from_le_bytes([a, b, c, d]).max(1))
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

/// The most replies that wait for each audience: what some batches of received packets can cause.
pub(super) const REPLIES_MAX: usize = 1024;
/// How many packets arrive for each reply to a stranger while the driver is behind. Measured beside 100,000
/// SYNs a second on a busy machine: without a limit 14 to 29 % of the honest connections waited for a lost
/// packet to be repeated, with 4 packets 6 to 13 %, and with 16 2 to 4 %.
const PACKETS_PER_STRANGER: u64 = 16;
/// Of how many packets at most the replies may leave at once then: a batch.
const SAVED_MAX: u64 = 64;
/// 16 KiB, allocated by the first SYN that finds a SYN queue full.
const PLACES: usize = 4096;
/// The bits of a hash that choose one of them.
const PLACE_MASK: u16 = 4095;

ackclock_form::form! {
    struct Replies { to_known, to_strangers, had_turn, strangers_after, known }
    struct KnownSources { key, places }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use ackclock_wire::TcpOptions;

    use super::super::keys::Purpose;
    use super::*;

    const STRANGER: &str = "10.0.0.2:2";
    const KNOWN: &str = "10.0.0.3:3";

    fn to(peer: &str) -> SocketAddr {
        peer.parse().unwrap()
    }

    fn reset_to(peer: &str, fields: Fields) -> ControlSegment {
        let tuple = FourTuple::new("10.0.0.1:1".parse().unwrap(), to(peer));
        control(&tuple, 64, FlowLabel::NONE, fields)
    }

    #[test]
    fn first_reply_takes_room_for_one() {
        let reset = bare(SeqNum::default(), SeqNum::default(), Flags::RST);
        let ends = ("192.0.2.1:1".parse().unwrap(), "192.0.2.2:2".parse().unwrap());
        let reply = control(&FourTuple::new(ends.0, ends.1), 64, FlowLabel::default(), reset);
        let mut replies = Replies::default();
        assert!(replies.push(reply));
        assert_eq!((replies.to_known.capacity(), replies.to_strangers.capacity()), (0, 1));
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
        assert_eq!(replies.pop(0).unwrap().fields.seq, SeqNum::new(0));
        assert!(replies.push(reply(REPLIES_MAX)));
    }

    #[test]
    fn those_who_are_known_come_first_and_have_room_though_strangers_have_none() {
        let mut replies = Replies::default();
        replies.know(Key::derive(&[1; 32], Purpose::Known), [to(KNOWN).ip()].into_iter());
        let reply = |n, peer| reset_to(peer, bare(SeqNum::new(n), SeqNum::new(0), Flags::RST));
        while replies.push(reply(1, STRANGER)) {}
        assert!(replies.push(reply(2, KNOWN)));
        let seqs = std::iter::from_fn(|| replies.pop(0)).map(|reply| reply.fields.seq);
        assert!(seqs.eq([2].into_iter().chain([1; REPLIES_MAX]).map(SeqNum::new)));
    }

    #[test]
    fn while_the_driver_is_behind_a_stranger_is_answered_for_every_sixteen_packets() {
        let tuple = FourTuple::new("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        let reply = control(&tuple, 64, FlowLabel::NONE, bare(SeqNum::new(1), SeqNum::new(0), Flags::RST));
        let mut replies = Replies::default();
        while replies.push(reply) {}
        let leave =
            |replies: &mut Replies, arrived| std::iter::from_fn(|| replies.pop(arrived)).take(100).count();
        replies.set_behind(true, 1_000);
        assert_eq!([1_000, 1_015, 1_016, 1_064].map(|arrived| leave(&mut replies, arrived)), [1, 0, 1, 3]);
        // An unused share is saved for one batch only.
        assert_eq!([1_079, 5_000].map(|arrived| leave(&mut replies, arrived)), [0, 5]);
        replies.know(Key::derive(&[1; 32], Purpose::Known), [to(KNOWN).ip()].into_iter());
        assert!(replies.push(reset_to(KNOWN, bare(SeqNum::new(2), SeqNum::new(0), Flags::RST))));
        assert!(replies.takes_turn(5_000) && leave(&mut replies, 5_000) == 1 && !replies.takes_turn(5_000));
        replies.set_behind(false, 5_000);
        assert_eq!(leave(&mut replies, 5_000), 100);
    }

    #[test]
    fn a_source_is_known_until_another_takes_its_place() {
        let mut known = KnownSources::new(Key::derive(&[1; 32], Purpose::Known));
        let source = |n: u32| IpAddr::V4((0x0a00_0000 + n).into());
        assert!(!known.knows(source(0)));
        (0..1000).for_each(|n| known.remember(source(n)));
        // Each place is empty with a chance of e^(-1000/4096), so of 1,000 about 887 have one for themselves
        // or came last.
        let kept = (0..1000).filter(|&n| known.knows(source(n))).count();
        assert!((850..=920).contains(&kept), "{kept}");
        assert_eq!((1000..100_000).filter(|&n| known.knows(source(n))).count(), 0);
    }

    #[test]
    fn an_ipv6_source_is_its_64_bit_prefix() {
        let mut known = KnownSources::new(Key::derive(&[1; 32], Purpose::Known));
        known.remember("2001:db8::1".parse().unwrap());
        assert!(known.knows("2001:db8::ffff".parse().unwrap()));
        assert!(!known.knows("2001:db8:0:1::1".parse().unwrap()));
    }
}
