//! Pure acknowledgements, and which of them another makes superfluous. What thins acknowledgements asks here:
//! the link property of that name and the filters of queue disciplines.
//!
//! The rules follow Toke Høiland-Jørgensen, Dave Täht and Jonathan Morton, "Piece of CAKE: A Comprehensive
//! Queue Management Solution for Home Gateways", LANMAN 2018, §III-D, and are stricter: an acknowledgement
//! with any option but timestamps is never superfluous.

use ackclock_wire::{SeqNum, TcpOptions};

use crate::packet::Packet;

/// The acknowledgement that a TCP segment carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub number: SeqNum,
    /// Whether the segment says nothing but this number, a window and a time: it has no payload, no flag but
    /// ACK and those of ECN, and no option but timestamps.
    pub is_plain: bool,
    /// The flags of ECN: AE, CWR and ECE.
    ecn: u16,
    /// TSval and TSecr.
    times: Option<(u32, u32)>,
}

/// Addresses and ports: what the segments of a connection in one direction have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowKey {
    addresses: [u8; 32],
    ports: [u8; 4],
}

impl Ack {
    /// The acknowledgement in `packet`. `None` for a packet without a whole TCP header, and for a segment
    /// that acknowledges nothing.
    pub fn of(packet: &Packet) -> Option<Self> {
        let tcp = packet.tcp()?;
        let transport = packet.transport();
        let &[_, _, _, _, _, _, _, _, _, _, _, _, offset, _] = transport.first_chunk()?;
        let header_len = usize::from(offset >> 4) * 4;
        let options = transport.get(TCP_HEADER..header_len)?;
        let flags = u16::from(offset & 0xf) << 8 | u16::from(tcp.flags);
        if flags & ACK == 0 {
            return None;
        }
        let parsed = TcpOptions::parse(options).ok();
        let times = parsed.and_then(|options| options.timestamps);
        // An unknown option takes room, too.
        let room = if times.is_some() { TIMESTAMPS } else { 0 };
        let has_no_other = options.len() == room
            && parsed == Some(TcpOptions { timestamps: times, ..TcpOptions::default() });
        let is_empty = packet.header().len() - transport.len() + header_len == packet.len() as usize;
        let is_plain = is_empty && has_no_other && flags & !ECN == ACK;
        Some(Self { number: SeqNum::new(tcp.ack), is_plain, ecn: flags & ECN, times })
    }

    /// Whether nothing is lost if only `later` arrives, which is of the same flow.
    ///
    /// A duplicate is not covered, because a number must be passed; nor is one with another sign of ECN.
    /// A window update is covered where a later window comes with a later number. Times must not go back.
    pub fn is_covered_by(self, later: Self) -> bool {
        let in_order = match (self.times, later.times) {
            (None, None) => true,
            (Some((value, echo)), Some((later_value, later_echo))) => {
                let [value, echo, later_value, later_echo] =
                    [value, echo, later_value, later_echo].map(SeqNum::new);
                later_value.after_eq(value) && later_echo.after_eq(echo)
            }
            _ => false,
        };
        let is_pure = self.is_plain && later.is_plain;
        is_pure && later.number.after(self.number) && self.ecn == later.ecn && in_order
    }
}

impl FlowKey {
    /// The flow of a TCP segment.
    pub fn of(packet: &Packet) -> Option<Self> {
        let (header, transport) = (packet.header(), packet.transport());
        let from = if packet.is_v6() { header.get(8..40)? } else { header.get(12..20)? };
        let mut addresses = [0; 32];
        addresses[..from.len()].copy_from_slice(from);
        packet.is_tcp().then_some(Self { addresses, ports: *transport.first_chunk()? })
    }
}

/// Whether `later` makes `earlier` superfluous: both are pure acknowledgements of the same connection, and
/// nothing is lost with the earlier one. See [`Ack::is_covered_by`].
///
/// Two packets cannot show that the earlier one is a duplicate of one before it. Who knows that must keep it.
pub(crate) fn covers(earlier: &Packet, later: &Packet) -> bool {
    let acks = Ack::of(earlier).zip(Ack::of(later));
    acks.is_some_and(|(earlier, later)| earlier.is_covered_by(later))
        // A CE mark on an acknowledgement counts, too (RFC 9768).
        && earlier.ecn() == later.ecn()
        && FlowKey::of(earlier) == FlowKey::of(later)
}

/// Whether `ack` tells its receiver nothing between two others of its flow: it acknowledges more than the one
/// before it (a duplicate does not), and the one behind it covers it.
pub(crate) fn is_superfluous(before: &Packet, ack: &Packet, behind: &Packet) -> bool {
    let numbers = Ack::of(before).zip(Ack::of(ack));
    numbers.is_some_and(|(before, ack)| ack.number.after(before.number))
        && FlowKey::of(before) == FlowKey::of(ack)
        && covers(ack, behind)
}

const TCP_HEADER: usize = 20;
/// Timestamps with their padding (RFC 7323, appendix A).
const TIMESTAMPS: usize = 12;
const ACK: u16 = 0x010;
/// AE, CWR and ECE.
const ECN: u16 = 0x1c0;

#[cfg(test)]
pub(crate) mod testing {
    use std::net::Ipv4Addr;

    use ackclock_wire::{Codepoint, ControlSegment, Fields, Flags, FlowLabel, HEADER_MAX, write_control};

    use super::*;
    use crate::packet::{PacketId, Packets};

    /// A segment from port `port` that acknowledges `number`.
    pub(crate) fn ack(
        packets: &mut Packets,
        port: u16,
        number: u32,
        adjust: impl Fn(&mut Fields),
    ) -> PacketId {
        let mut fields = Fields {
            seq: SeqNum::new(7),
            ack: SeqNum::new(number),
            flags: Flags::ACK,
            window: 1000,
            urgent: 0,
            ecn: Codepoint::NotEct,
            options: TcpOptions { timestamps: Some((number, number)), ..TcpOptions::default() },
        };
        adjust(&mut fields);
        let addr = |last| Ipv4Addr::new(10, 0, 0, last);
        let segment = ControlSegment {
            src: (addr(1), port).into(),
            dst: (addr(2), 80).into(),
            ttl: 64,
            traffic_class: 0,
            flow_label: FlowLabel::NONE,
            fields,
        };
        let mut bytes = [0; HEADER_MAX];
        let len = write_control(&mut bytes, &segment);
        packets.insert_bytes(&bytes[..len], 2)
    }
}

#[cfg(test)]
mod tests {
    use ackclock_wire::{AccEcn, AccEcnOrder, Codepoint, Fields, Flags};

    use super::testing::ack;
    use super::*;
    use crate::packet::Packets;

    fn is_covered(earlier: impl Fn(&mut Fields), later: impl Fn(&mut Fields)) -> bool {
        let mut packets = Packets::default();
        let ids = [ack(&mut packets, 1, 100, earlier), ack(&mut packets, 1, 200, later)];
        covers(packets.get(ids[0]), packets.get(ids[1]))
    }

    #[test]
    fn a_later_number_with_nothing_else_covers() {
        assert!(is_covered(|_| {}, |_| {}));
        assert!(is_covered(
            |fields| fields.options.timestamps = None,
            |fields| fields.options.timestamps = None
        ));
        assert!(is_covered(|fields| fields.ack = SeqNum::new(u32::MAX - 5), |_| {}), "across zero");
        // A window update that comes with the later number is not lost.
        assert!(is_covered(|fields| fields.window = 2000, |fields| fields.window = 3000));
        let echo = |fields: &mut Fields| fields.flags = Flags::ACK | Flags::ECE;
        assert!(is_covered(echo, echo), "the later one repeats the echo");
    }

    #[test]
    fn nothing_else_that_an_acknowledgement_says_is_lost() {
        let same = |_: &mut Fields| {};
        let sack = |fields: &mut Fields| {
            fields.options.sack.push(SeqNum::new(500), SeqNum::new(600));
        };
        let ecn = |fields: &mut Fields| {
            fields.options.accecn = Some(AccEcn::new(AccEcnOrder::Ect0First, 1, 1, 1));
        };
        type Adjust<'a> = &'a dyn Fn(&mut Fields);
        let table: [(&str, Adjust<'_>, Adjust<'_>); 12] = [
            ("a duplicate", &same, &|fields| fields.ack = SeqNum::new(100)),
            ("an older number", &same, &|fields| fields.ack = SeqNum::new(99)),
            ("SACK blocks", &sack, &same),
            ("SACK blocks in both", &sack, &sack),
            ("counters of ECN", &ecn, &same),
            ("an echo of congestion", &|fields| fields.flags = Flags::ACK | Flags::ECE, &same),
            ("the first echo of congestion", &same, &|fields| fields.flags = Flags::ACK | Flags::ECE),
            ("a mark on the acknowledgement", &|fields| fields.ecn = Codepoint::Ce, &same),
            ("a FIN", &|fields| fields.flags = Flags::ACK | Flags::FIN, &same),
            ("a PSH", &|fields| fields.flags = Flags::ACK | Flags::PSH, &same),
            ("a SYN", &same, &|fields| fields.flags = Flags::ACK | Flags::SYN),
            ("an older time", &|fields| fields.options.timestamps = Some((201, 1)), &same),
        ];
        for (what, earlier, later) in table {
            assert!(!is_covered(earlier, later), "{what}");
        }
    }

    #[test]
    fn a_duplicate_stays_between_two_others_and_what_advances_goes() {
        let mut packets = Packets::default();
        for (ports, numbers, goes) in [
            ([1, 1, 1], [100, 200, 300], true),
            ([1, 1, 1], [u32::MAX - 50, u32::MAX, 70], true),
            // The second is a duplicate, the third is one of it, or was overtaken.
            ([1, 1, 1], [100, 100, 300], false),
            ([1, 1, 1], [100, 300, 300], false),
            ([1, 1, 1], [100, 300, 200], false),
            // Two connections in one queue.
            ([1, 2, 1], [100, 200, 300], false),
            ([2, 1, 1], [100, 200, 300], false),
            ([1, 1, 2], [100, 200, 300], false),
        ] {
            let ids = [0, 1, 2].map(|n| ack(&mut packets, ports[n], numbers[n], |_| {}));
            let [before, between, behind] = ids.map(|id| packets.get(id));
            assert_eq!(is_superfluous(before, between, behind), goes, "{ports:?} {numbers:?}");
        }
        // The one before may say more.
        let sacked = ack(&mut packets, 1, 100, |fields| fields.flags = Flags::ACK | Flags::ECE);
        let [between, behind] = [200, 300].map(|number| ack(&mut packets, 1, number, |_| {}));
        assert!(is_superfluous(packets.get(sacked), packets.get(between), packets.get(behind)));
    }

    #[test]
    fn another_connection_and_a_segment_with_payload_cover_nothing() {
        let mut packets = Packets::default();
        let earlier = ack(&mut packets, 1, 100, |_| {});
        let other = ack(&mut packets, 2, 200, |_| {});
        assert!(!covers(packets.get(earlier), packets.get(other)));
        let bytes = [packets.get(earlier).header(), b"payload"].concat();
        let data = packets.insert_bytes(&bytes, 2);
        let later = ack(&mut packets, 1, 200, |_| {});
        assert!(!covers(packets.get(data), packets.get(later)));
        assert!(!Ack::of(packets.get(data)).expect("it acknowledges").is_plain);
    }
}
