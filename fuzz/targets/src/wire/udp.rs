//! UDP datagrams.

use std::net::{IpAddr, SocketAddr};

use ackclock_wire::{
    ChecksumState, FlowLabel, IpPacket, IpPayload, UdpDatagram, UdpError, UdpHeader, write_udp,
};
use etherparse::UdpSlice;

use super::Count;
use super::tcp::same_sum;

/// Parses a datagram, and compares the result with etherparse's and with the datagram written again.
pub(super) fn judge(ip: &IpPacket<'_>, bytes: &[u8], count: &mut Count) {
    let parsed = |checksum| UdpDatagram::parse(ip.src, ip.dst, bytes, checksum);
    let (verified, complete) = (parsed(ChecksumState::Verified), parsed(ChecksumState::Complete));
    count.one();
    count.one();
    // A length of 0 stands for a jumbogram there (RFC 2675 §4), which is refused here.
    let theirs = UdpSlice::from_slice(bytes).ok().filter(|theirs| theirs.length() > 0);
    let Some(theirs) = theirs else {
        assert_eq!(verified, Err(UdpError::Length));
        return;
    };
    let ours = verified.expect("etherparse reads it");
    assert_eq!((ours.src_port, ours.dst_port), (theirs.source_port(), theirs.destination_port()));
    assert_eq!(ours.payload, theirs.payload());
    let header = theirs.to_header();
    let sum = match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            header.calc_checksum_ipv4_raw(src.octets(), dst.octets(), theirs.payload())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            header.calc_checksum_ipv6_raw(src.octets(), dst.octets(), theirs.payload())
        }
        _ => unreachable!("both of one family"),
    };
    let right = match theirs.checksum() {
        0 => ip.src.is_ipv4(),
        checksum => same_sum(checksum, sum.expect("it fits a packet")),
    };
    assert_eq!(complete.is_ok(), right, "{complete:?}");
    if right {
        round_trip(ip, &ours, count);
    }
}

fn round_trip(ip: &IpPacket<'_>, datagram: &UdpDatagram<'_>, count: &mut Count) {
    let header = UdpHeader {
        src: SocketAddr::new(ip.src, datagram.src_port),
        dst: SocketAddr::new(ip.dst, datagram.dst_port),
        ttl: ip.ttl,
        traffic_class: ip.traffic_class,
        flow_label: FlowLabel::NONE,
    };
    let packet = write_udp(&header, datagram.payload).expect("it was a packet before");
    let again = super::ip::parse(&packet, count).expect("what is printed is a packet");
    assert_eq!((again.ttl, again.traffic_class), (ip.ttl, ip.traffic_class));
    let IpPayload::Udp(bytes) = again.payload else { panic!("no datagram: {again:?}") };
    count.one();
    let read = UdpDatagram::parse(again.src, again.dst, bytes, ChecksumState::Complete);
    assert_eq!(read, Ok(*datagram));
}
