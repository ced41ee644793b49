//! Segments without a connection: the SYN-ACK of a half-open record, resets, challenge ACKs, and TIME-WAIT's
//! ACKs.
//!
//! They have no payload and are rare, so etherparse builds them whole; nothing is prepared or kept.

use std::net::{IpAddr, SocketAddr};

use etherparse::{
    IpDscp, IpEcn, IpHeaders, Ipv4Header, Ipv6FlowLabel, Ipv6Header, PacketBuilder, TcpHeader, ip_number,
};

use crate::options::OPTIONS_MAX;
use crate::template::{Fields, HEADER_MAX};
use crate::{Flags, FlowLabel};

/// A whole segment without payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlSegment {
    /// This end.
    pub src: SocketAddr,
    /// The other end, of the same address family.
    pub dst: SocketAddr,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Type of service, or traffic class. Its ECN field comes from `fields`.
    pub traffic_class: u8,
    /// Flow label; unused in IPv4.
    pub flow_label: FlowLabel,
    /// The segment.
    pub fields: Fields,
}

/// Writes the segment as an IP packet with all checksums and returns its length.
pub fn write_control(out: &mut [u8; HEADER_MAX], segment: &ControlSegment) -> usize {
    PacketBuilder::ip(ip_header(segment))
        .tcp_header(tcp_header(segment))
        .write_to_slice(out, &[])
        // Only a payload could make the packet too long.
        .unwrap_or(0)
}

fn ip_header(segment: &ControlSegment) -> IpHeaders {
    match (segment.src.ip(), segment.dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = Ipv4Header {
                dscp: IpDscp::try_new(segment.traffic_class >> 2).unwrap_or_default(),
                ecn: IpEcn::try_new(segment.fields.ecn.bits()).unwrap_or_default(),
                dont_fragment: true,
                time_to_live: segment.ttl,
                protocol: ip_number::TCP,
                source: src.octets(),
                destination: dst.octets(),
                ..Ipv4Header::default()
            };
            IpHeaders::Ipv4(header, Default::default())
        }
        (src, dst) => {
            let octets = |addr| match addr {
                IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
                IpAddr::V6(addr) => addr.octets(),
            };
            let header = Ipv6Header {
                traffic_class: segment.traffic_class & !3 | segment.fields.ecn.bits(),
                flow_label: Ipv6FlowLabel::try_new(segment.flow_label.bits()).unwrap_or_default(),
                next_header: ip_number::TCP,
                hop_limit: segment.ttl,
                source: octets(src),
                destination: octets(dst),
                ..Ipv6Header::default()
            };
            IpHeaders::Ipv6(header, Default::default())
        }
    }
}

fn tcp_header(segment: &ControlSegment) -> TcpHeader {
    let Fields { seq, ack, flags, window, urgent, ecn: _, options } = &segment.fields;
    let mut header = TcpHeader::new(segment.src.port(), segment.dst.port(), seq.raw(), *window);
    header.acknowledgment_number = ack.raw();
    header.urgent_pointer = *urgent;
    header.ns = flags.contains(Flags::AE);
    header.cwr = flags.contains(Flags::CWR);
    header.ece = flags.contains(Flags::ECE);
    header.urg = flags.contains(Flags::URG);
    header.ack = flags.contains(Flags::ACK);
    header.psh = flags.contains(Flags::PSH);
    header.rst = flags.contains(Flags::RST);
    header.syn = flags.contains(Flags::SYN);
    header.fin = flags.contains(Flags::FIN);
    let mut bytes = [0; OPTIONS_MAX];
    let len = options.write(&mut bytes);
    // At most 40 bytes, which always fit.
    header.options =
        etherparse::TcpOptions::try_from_slice(bytes.get(..len).unwrap_or_default()).unwrap_or_default();
    header
}

ackclock_form::form! {
    struct ControlSegment { src, dst, ttl, traffic_class, flow_label, fields }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{fields, sockets};
    use crate::{HeaderTemplate, TxChecksum};

    proptest! {
        /// The template is compared with etherparse in its own tests. Both writers must agree.
        #[test]
        fn control_segment_is_what_the_template_writes(
            (src, dst) in sockets(), ttl: u8, traffic_class: u8, label: u32, fields in fields(),
        ) {
            let (mut control, mut data) = ([0; HEADER_MAX], [0; HEADER_MAX]);
            let flow_label = FlowLabel::new(label);
            let segment = ControlSegment { src, dst, ttl, traffic_class, flow_label, fields };
            let len = write_control(&mut control, &segment);
            let mut template = HeaderTemplate::new(src, dst, ttl, traffic_class);
            template.set_flow_label(flow_label);
            prop_assert_eq!(len, template.write(&mut data, &fields, [&[], &[]], TxChecksum::Full));
            prop_assert_eq!(&control[..len], &data[..len]);
        }
    }
}
