use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::testing::{bytes, sockets};
use crate::{
    Codepoint, Fields, Flags, HEADER_MAX, HeaderTemplate, IpPacket, IpPayload, Segment, TcpOptions,
    TxChecksum,
};

/// A packet of the predicted form, from its fields.
fn packet(
    (src, dst): (SocketAddr, SocketAddr),
    (seq, ack, window): (u32, u32, u16),
    timestamps: Option<(u32, u32)>,
    payload: &[u8],
) -> Vec<u8> {
    let fields = Fields {
        seq: SeqNum::new(seq),
        ack: SeqNum::new(ack),
        flags: Flags::ACK,
        window,
        ecn: Codepoint::Ect0,
        options: TcpOptions { timestamps, ..TcpOptions::default() },
        ..Fields::default()
    };
    let mut header = [0; HEADER_MAX];
    let template = HeaderTemplate::new(src, dst, 64, 0x28);
    let len = template.write(&mut header, &fields, [payload, &[]], TxChecksum::Full);
    [&header[..len], payload].concat()
}

/// The template of the connection that receives from `src`.
fn answered_by(src: SocketAddr, dst: SocketAddr) -> HeaderTemplate {
    HeaderTemplate::new(dst, src, 64, 0)
}

/// The packet as the slow path reads it.
fn parsed(packet: &[u8], checksum: ChecksumState) -> Option<(IpPacket<'_>, Segment<'_>)> {
    let ip = IpPacket::parse(packet).ok()?;
    let IpPayload::Tcp(bytes) = ip.payload else { return None };
    Some((ip, Segment::parse(ip.src, ip.dst, bytes, checksum).ok()?))
}

proptest! {
    #[test]
    fn every_packet_of_the_form_is_recognised(
        (src, dst) in sockets(), numbers: (u32, u32, u16), stamps: Option<(u32, u32)>, payload in bytes(3000),
    ) {
        let packet = packet((src, dst), numbers, stamps, &payload);
        let expected = Predicted {
            seq: SeqNum::new(numbers.0),
            ack: SeqNum::new(numbers.1),
            window: numbers.2,
            timestamps: stamps,
            payload: &payload,
        };
        let read = Predicted::parse(&packet, &answered_by(src, dst), stamps.is_some(), ChecksumState::Complete);
        prop_assert_eq!(read, Some(expected));
        let other = Predicted::parse(&packet, &answered_by(src, dst), stamps.is_none(), ChecksumState::Complete);
        prop_assert!(stamps.is_none() || other.is_none(), "timestamps that were not agreed on");
    }

    /// A packet recognised after bytes were changed, cut off or added reads as on the slow path.
    #[test]
    fn what_is_recognised_is_what_the_long_way_reads(
        (src, dst) in sockets(), numbers: (u32, u32, u16), stamps: Option<(u32, u32)>, payload in bytes(40),
        changes in prop::collection::vec((0usize..80, any::<u8>()), 0..3), length in -2isize..3,
        verified: bool,
    ) {
        let mut packet = packet((src, dst), numbers, stamps, &payload);
        for (at, value) in changes {
            if let Some(byte) = packet.get_mut(at) {
                *byte = value;
            }
        }
        packet.resize(packet.len().saturating_add_signed(length), 0);
        let checksum = if verified { ChecksumState::Verified } else { ChecksumState::Complete };
        if let Some(read) = Predicted::parse(&packet, &answered_by(src, dst), stamps.is_some(), checksum) {
            let (ip, segment) = parsed(&packet, checksum).expect("the long way takes it, too");
            prop_assert_eq!((ip.src, segment.src_port), (src.ip(), src.port()));
            prop_assert_eq!((ip.dst, segment.dst_port), (dst.ip(), dst.port()));
            prop_assert_eq!(segment.flags.bits() & !Flags::PSH.bits(), Flags::ACK.bits());
            prop_assert_eq!((segment.seq, segment.ack, segment.window), (read.seq, read.ack, read.window));
            prop_assert_eq!(
                segment.options,
                TcpOptions { timestamps: read.timestamps, ..TcpOptions::default() }
            );
            prop_assert_eq!(segment.payload, read.payload);
        }
    }
}

#[test]
fn packet_of_another_connection_is_not_recognised() {
    let socket = |text: &str| text.parse::<SocketAddr>().unwrap();
    let (src, dst) = (socket("10.0.0.1:80"), socket("10.0.0.2:1024"));
    let packet = packet((src, dst), (1, 2, 3), None, b"x");
    let recognised = |src, dst| {
        Predicted::parse(&packet, &answered_by(src, dst), false, ChecksumState::Complete).is_some()
    };
    assert!(recognised(src, dst));
    for other in ["10.0.0.3:80", "10.0.0.1:81", "[::ffff:10.0.0.1]:80"] {
        assert!(!recognised(socket(other), dst), "{other}");
    }
    assert!(!recognised(src, socket("10.0.0.2:1025")));
    assert!(!recognised(dst, src));
}
