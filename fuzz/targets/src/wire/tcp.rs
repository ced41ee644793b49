//! TCP segments and their options.

use std::net::{IpAddr, SocketAddr};

use ackclock_wire::{
    ChecksumState, Codepoint, ControlSegment, Fields, Flags, FlowLabel, HEADER_MAX, HeaderTemplate, IpPacket,
    IpPayload, Predicted, Segment, TcpError, TcpOptions, TxChecksum, write_control,
};
use etherparse::{TcpOptionElement, TcpOptionsIterator, TcpSlice};

use super::Count;

/// Parses a segment, and holds what comes of it against etherparse and against its own printing.
pub(super) fn judge(ip: &IpPacket<'_>, bytes: &[u8], count: &mut Count) {
    let parsed = |checksum| Segment::parse(ip.src, ip.dst, bytes, checksum);
    let (verified, complete) = (parsed(ChecksumState::Verified), parsed(ChecksumState::Complete));
    count.one();
    count.one();
    let Ok(theirs) = TcpSlice::from_slice(bytes) else {
        assert!(matches!(verified, Err(TcpError::Length | TcpError::DataOffset)), "{verified:?}");
        return;
    };
    options(theirs.options(), count);
    let right = same_sum(theirs.checksum(), sum_of(ip, &theirs));
    match (verified, complete) {
        (Ok(segment), Ok(_)) => {
            assert!(right, "a wrong checksum");
            agree(&segment, &theirs);
            round_trip(ip, &segment, count);
        }
        (Ok(segment), Err(why)) => {
            assert!(why == TcpError::Checksum && !right, "{why} of {segment:?}");
            agree(&segment, &theirs);
        }
        (Err(why), Err(_)) => assert_eq!(why, TcpError::OptionLength),
        (Err(why), Ok(segment)) => panic!("{why} of {segment:?}"),
    }
}

fn sum_of(ip: &IpPacket<'_>, theirs: &TcpSlice<'_>) -> u16 {
    match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => theirs.calc_checksum_ipv4(src.octets(), dst.octets()),
        (IpAddr::V6(src), IpAddr::V6(dst)) => theirs.calc_checksum_ipv6(src.octets(), dst.octets()),
        _ => unreachable!("both of one family"),
    }
    .expect("it fits a packet")
}

/// Zero has two forms in the arithmetic of checksums (RFC 1071 §2).
pub(super) fn same_sum(one: u16, other: u16) -> bool {
    one % u16::MAX == other % u16::MAX
}

fn agree(ours: &Segment<'_>, theirs: &TcpSlice<'_>) {
    assert_eq!((ours.src_port, ours.dst_port), (theirs.source_port(), theirs.destination_port()));
    assert_eq!(ours.seq.raw(), theirs.sequence_number());
    assert_eq!(ours.ack.raw(), theirs.acknowledgment_number());
    assert_eq!((ours.window, ours.urgent), (theirs.window_size(), theirs.urgent_pointer()));
    let flags = [
        (Flags::FIN, theirs.fin()),
        (Flags::SYN, theirs.syn()),
        (Flags::RST, theirs.rst()),
        (Flags::PSH, theirs.psh()),
        (Flags::ACK, theirs.ack()),
        (Flags::URG, theirs.urg()),
        (Flags::ECE, theirs.ece()),
        (Flags::CWR, theirs.cwr()),
        (Flags::AE, theirs.ns()),
    ];
    for (flag, is_set) in flags {
        assert_eq!(ours.flags.contains(flag), is_set, "{flag:?}");
    }
    assert_eq!(ours.payload, theirs.payload());
    if !ours.flags.contains(Flags::SYN) {
        assert!(ours.options.mss.is_none() && ours.options.window_scale.is_none());
        assert!(!ours.options.sack_permitted);
    }
}

/// Options up to the first that etherparse does not know: it stops there.
fn options(bytes: &[u8], count: &mut Count) {
    count.one();
    let ours = TcpOptions::parse(bytes);
    let mut known = TcpOptions::default();
    let mut knows_all = true;
    for option in TcpOptionsIterator::from_slice(bytes) {
        match option {
            Ok(TcpOptionElement::Noop) => {}
            Ok(TcpOptionElement::MaximumSegmentSize(mss)) => known.mss = known.mss.or(Some(mss)),
            Ok(TcpOptionElement::WindowScale(shift)) => {
                known.window_scale = known.window_scale.or(Some(shift));
            }
            Ok(TcpOptionElement::SelectiveAcknowledgementPermitted) => known.sack_permitted = true,
            Ok(TcpOptionElement::Timestamp(value, echo)) => {
                known.timestamps = known.timestamps.or(Some((value, echo)));
            }
            Ok(TcpOptionElement::SelectiveAcknowledgement(first, others)) if known.sack.is_empty() => {
                let others = others.into_iter().flatten();
                for (left, right) in std::iter::once(first).chain(others) {
                    known.sack.push(ackclock_wire::SeqNum::new(left), ackclock_wire::SeqNum::new(right));
                }
            }
            Ok(TcpOptionElement::SelectiveAcknowledgement(..)) => {}
            Err(_) => {
                knows_all = false;
                break;
            }
        }
    }
    match ours {
        Ok(ours) if knows_all => assert_eq!(ours, known),
        Ok(ours) => {
            assert!(known.mss.is_none_or(|mss| ours.mss == Some(mss)));
            assert!(known.window_scale.is_none_or(|shift| ours.window_scale == Some(shift)));
            assert!(known.timestamps.is_none_or(|stamps| ours.timestamps == Some(stamps)));
            assert!(!known.sack_permitted || ours.sack_permitted);
            assert!(known.sack.is_empty() || ours.sack == known.sack);
        }
        Err(why) => assert!(!knows_all, "{why}, and etherparse reads {known:?}"),
    }
}

/// Checks that a printed segment reads as that segment, and prints as the same bytes once more. Both writers
/// agree, and so does the parser of predicted segments.
fn round_trip(ip: &IpPacket<'_>, segment: &Segment<'_>, count: &mut Count) {
    let (src, dst) = (SocketAddr::new(ip.src, segment.src_port), SocketAddr::new(ip.dst, segment.dst_port));
    let (printed, len) = written(ip, segment);
    let packet = [&printed[..len], segment.payload].concat();
    let again = super::ip::parse(&packet, count).expect("what is printed is a packet");
    assert_eq!((again.src, again.dst, again.ttl), (ip.src, ip.dst, ip.ttl));
    assert_eq!(again.traffic_class, ip.traffic_class);
    let IpPayload::Tcp(bytes) = again.payload else { panic!("no segment: {again:?}") };
    count.one();
    let read = Segment::parse(again.src, again.dst, bytes, ChecksumState::Complete).expect("it is right");
    assert_eq!(
        (read.src_port, read.dst_port, read.seq, read.ack),
        (src.port(), dst.port(), segment.seq, segment.ack)
    );
    assert_eq!((read.flags, read.window, read.urgent), (segment.flags, segment.window, segment.urgent));
    assert_eq!(read.payload, segment.payload);
    fewer_options(&read.options, &segment.options);
    assert_eq!(written(&again, &read), (printed, len), "printed once more");
    let control = ControlSegment {
        src,
        dst,
        ttl: ip.ttl,
        traffic_class: ip.traffic_class,
        flow_label: FlowLabel::NONE,
        fields: fields(ip, segment),
    };
    let mut header = [0; HEADER_MAX];
    let control_len = write_control(&mut header, &control);
    assert_eq!(control_len, len, "both writers");
    predicted(&packet, &read, (src, dst), count);
}

fn fields(ip: &IpPacket<'_>, segment: &Segment<'_>) -> Fields {
    Fields {
        seq: segment.seq,
        ack: segment.ack,
        flags: segment.flags,
        window: segment.window,
        urgent: segment.urgent,
        ecn: Codepoint::of(ip.traffic_class),
        options: segment.options,
    }
}

fn written(ip: &IpPacket<'_>, segment: &Segment<'_>) -> ([u8; HEADER_MAX], usize) {
    let (src, dst) = (SocketAddr::new(ip.src, segment.src_port), SocketAddr::new(ip.dst, segment.dst_port));
    let template = HeaderTemplate::new(src, dst, ip.ttl, ip.traffic_class);
    let mut header = [0; HEADER_MAX];
    let len = template.write(&mut header, &fields(ip, segment), [segment.payload, &[]], TxChecksum::Full);
    header[len..].fill(0);
    (header, len)
}

/// Rare options and SACK blocks are left out where there is no room; all others are there.
pub(super) fn fewer_options(read: &TcpOptions, of: &TcpOptions) {
    assert_eq!((read.mss, read.window_scale), (of.mss, of.window_scale));
    assert_eq!(
        (read.sack_permitted, read.timestamps, read.accecn),
        (of.sack_permitted, of.timestamps, of.accecn)
    );
    assert!(of.sack.as_slice().starts_with(read.sack.as_slice()), "other SACK blocks");
    assert!(read.experiment.is_none_or(|experiment| of.experiment == Some(experiment)));
    assert!(read.user_timeout.is_none_or(|timeout| of.user_timeout == Some(timeout)));
    assert!(read.fast_open.is_none_or(|cookie| of.fast_open == Some(cookie)));
}

/// The short way of reading makes the same of a segment, or leaves it alone.
fn predicted(packet: &[u8], segment: &Segment<'_>, (src, dst): (SocketAddr, SocketAddr), count: &mut Count) {
    let template = HeaderTemplate::new(dst, src, 64, 0);
    let stamps = segment.options.timestamps;
    let only_stamps = segment.options == TcpOptions { timestamps: stamps, ..TcpOptions::default() };
    let plain = segment.flags.without(Flags::PSH) == Flags::ACK && only_stamps;
    count.one();
    let read = Predicted::parse(packet, &template, stamps.is_some(), ChecksumState::Complete);
    assert_eq!(read.is_some(), plain, "{segment:?}");
    let Some(read) = read else { return };
    assert_eq!((read.seq, read.ack, read.window), (segment.seq, segment.ack, segment.window));
    assert_eq!((read.timestamps, read.payload), (stamps, segment.payload));
}
