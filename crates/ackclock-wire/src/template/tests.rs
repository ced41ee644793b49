use etherparse::{IpHeaders, Ipv4Header, Ipv6Header, PacketBuilder, TcpHeader, ip_number};
use proptest::prelude::*;

use super::*;
use crate::options::{OPTIONS_MAX, options_len};
use crate::testing::{bytes, data_fields, data_sockets, fields, sockets};

/// The packet as etherparse builds it from the same fields.
fn built_by_etherparse(
    (src, dst): (SocketAddr, SocketAddr),
    ttl: u8,
    (traffic_class, label): (u8, FlowLabel),
    fields: &Fields,
    payload: &[u8],
) -> Vec<u8> {
    let ip = match (src.ip(), dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut header = Ipv4Header::new(0, ttl, ip_number::TCP, src.octets(), dst.octets()).unwrap();
            header.dscp = etherparse::IpDscp::try_new(traffic_class >> 2).unwrap();
            header.ecn = etherparse::IpEcn::try_new(traffic_class & 3).unwrap();
            IpHeaders::Ipv4(header, Default::default())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = Ipv6Header {
                traffic_class,
                flow_label: etherparse::Ipv6FlowLabel::try_new(label.bits()).unwrap(),
                next_header: ip_number::TCP,
                hop_limit: ttl,
                source: src.octets(),
                destination: dst.octets(),
                ..Default::default()
            };
            IpHeaders::Ipv6(header, Default::default())
        }
        _ => unreachable!("one family"),
    };
    let flag = |flag| fields.flags.contains(flag);
    let mut options = [0; OPTIONS_MAX];
    let len = fields.options.write(&mut options);
    let tcp = TcpHeader {
        acknowledgment_number: fields.ack.raw(),
        ns: flag(Flags::AE),
        fin: flag(Flags::FIN),
        syn: flag(Flags::SYN),
        rst: flag(Flags::RST),
        psh: flag(Flags::PSH),
        ack: flag(Flags::ACK),
        urg: flag(Flags::URG),
        ece: flag(Flags::ECE),
        cwr: flag(Flags::CWR),
        urgent_pointer: fields.urgent,
        options: etherparse::TcpOptions::try_from_slice(&options[..len]).unwrap(),
        ..TcpHeader::new(src.port(), dst.port(), fields.seq.raw(), fields.window)
    };
    let mut packet = Vec::new();
    PacketBuilder::ip(ip).tcp_header(tcp).write(&mut packet, payload).unwrap();
    packet
}

fn plain() -> impl Strategy<Value = Plain> {
    (any::<(u32, u32, bool, u16)>(), any::<Option<(u32, u32)>>()).prop_map(
        |((seq, ack, push, window), timestamps)| {
            let (seq, ack) = (SeqNum::new(seq), SeqNum::new(ack));
            Plain { seq, ack, push, window, timestamps }
        },
    )
}

/// Names these fields as a general segment does.
fn fields_of(plain: &Plain) -> Fields {
    let Plain { seq, ack, push, window, timestamps } = *plain;
    let flags = if push { Flags::ACK | Flags::PSH } else { Flags::ACK };
    let options = TcpOptions { timestamps, ..TcpOptions::default() };
    Fields { seq, ack, flags, window, options, ..Fields::default() }
}

proptest! {
    // Tests: RFC 9293 MUST-2
    // Tests: RFC 9293 MUST-49
    // Tests: RFC 9293 SHLD-22
    #[test]
    fn template_writes_what_etherparse_builds(
        sockets in sockets(), ttl: u8, traffic_class: u8, label: u32, fields in fields(), payload in bytes(300),
        at in 0usize..300,
    ) {
        // Set afterwards, over other values.
        let mut template = HeaderTemplate::new(sockets.0, sockets.1, !ttl, !traffic_class);
        template.set_flow_label(FlowLabel::new(!label));
        template.set_flow_label(FlowLabel::new(label));
        template.set_ttl(ttl);
        template.set_traffic_class(traffic_class);
        prop_assert_eq!((template.src(), template.dst()), sockets);
        let (first, second) = payload.split_at(at.min(payload.len()));
        let mut out = [0xaa; HEADER_MAX];
        let len = template.write(&mut out, &fields, [first, second], TxChecksum::Full);
        let packet = [&out[..len], &payload].concat();
        let traffic_class = traffic_class & !3 | fields.ecn.bits();
        prop_assert_eq!(packet, built_by_etherparse(sockets, ttl, (traffic_class, FlowLabel::new(label)), &fields, &payload));
        let transport = usize::from(template.transport_offset());
        prop_assert_eq!(len, transport + 20 + options_len(&fields.options));
    }

    #[test]
    fn plain_segment_is_written_as_any_other_with_its_fields(
        sockets in sockets(), traffic_class: u8, plain in plain(), payload in bytes(300), at in 0usize..300,
        partial: bool,
    ) {
        let template = HeaderTemplate::new(sockets.0, sockets.1, 64, traffic_class);
        let (first, second) = payload.split_at(at.min(payload.len()));
        let checksum = if partial { TxChecksum::Partial } else { TxChecksum::Full };
        let (mut short, mut long) = ([0xaa; HEADER_MAX], [0xaa; HEADER_MAX]);
        let len = template.write_plain(&mut short, &plain, payload.len(), || [first, second], checksum);
        prop_assert_eq!(len, template.write(&mut long, &fields_of(&plain), [first, second], checksum));
        prop_assert_eq!(short, long);
    }

    #[test]
    fn plain_segment_has_the_predicted_form(sockets in sockets(), plain in plain(), payload in bytes(300)) {
        let template = HeaderTemplate::new(sockets.0, sockets.1, 64, 0);
        let mut out = [0; HEADER_MAX];
        let len = template.write_plain(&mut out, &plain, payload.len(), || [&payload, &[]], TxChecksum::Full);
        let packet = [&out[..len], &payload].concat();
        let Plain { seq, ack, window, timestamps, .. } = plain;
        let answering = HeaderTemplate::new(sockets.1, sockets.0, 64, 0);
        let complete = crate::ChecksumState::Complete;
        let parsed = crate::Predicted::parse(&packet, &answering, timestamps.is_some(), complete);
        prop_assert_eq!(parsed, Some(crate::Predicted { seq, ack, window, timestamps, payload: &payload }));
    }

    #[test]
    fn partial_checksum_is_finished_to_the_full_one(
        sockets in sockets(), fields in fields(), payload in bytes(300),
    ) {
        let template = HeaderTemplate::new(sockets.0, sockets.1, 64, 0);
        let whole = |checksum| {
            let mut out = [0; HEADER_MAX];
            let len = template.write(&mut out, &fields, [&payload, &[]], checksum);
            [&out[..len], &payload].concat()
        };
        let (mut partial, full) = (whole(TxChecksum::Partial), whole(TxChecksum::Full));
        crate::gso::finish_checksum(&mut partial, crate::ChecksumAt::tcp(template.transport_offset()));
        prop_assert_eq!(partial, full);
    }
}

/// docs/security.md A9: connections share no counter, and reveal none.
#[test]
fn v4_identification_is_always_zero_with_df_set() {
    let (src, dst) = data_sockets(false);
    let mut out = [0; HEADER_MAX];
    for _ in 0..3 {
        HeaderTemplate::new(src, dst, 64, 0).write(&mut out, &data_fields(), [&[], &[]], TxChecksum::Full);
        assert_eq!(out[4..8], [0, 0, 0x40, 0]);
    }
}

#[test]
fn addresses_of_two_families_go_out_mapped() {
    let (v4, v6) = (data_sockets(false).0, data_sockets(true).1);
    let mut out = [0; HEADER_MAX];
    let template = HeaderTemplate::new(v4, v6, 64, 0);
    let len = template.write(&mut out, &data_fields(), [&[], &[]], TxChecksum::Partial);
    let parsed = crate::IpPacket::parse(&out[..len]).unwrap();
    assert_eq!(parsed.src, "::ffff:10.0.0.1".parse::<IpAddr>().unwrap());
}

#[test]
fn longest_header_fits_exactly() {
    let (src, dst) = data_sockets(true);
    let mut fields = data_fields();
    fields.options.sack = crate::testing::sack_blocks(&[(1, 2), (3, 4), (5, 6), (7, 8)]);
    let mut out = [0; HEADER_MAX];
    let len = HeaderTemplate::new(src, dst, 64, 0).write(&mut out, &fields, [&[], &[]], TxChecksum::Full);
    assert_eq!(len, HEADER_MAX);
}
