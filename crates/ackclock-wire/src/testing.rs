//! Strategies and packets shared by several test modules.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use proptest::prelude::*;

use crate::{
    AccEcn, AccEcnOrder, Codepoint, Experiment, FastOpenCookie, Fields, Flags, HEADER_MAX, HeaderTemplate,
    SackBlocks, SeqNum, TcpOptions, TxChecksum, UserTimeout,
};

/// Two sockets of the same family.
pub(crate) fn sockets() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let v4 = any::<([u8; 4], [u8; 4])>().prop_map(|(src, dst)| (IpAddr::from(src), IpAddr::from(dst)));
    let v6 = any::<([u8; 16], [u8; 16])>().prop_map(|(src, dst)| (IpAddr::from(src), IpAddr::from(dst)));
    (prop_oneof![v4, v6], any::<(u16, u16)>())
        .prop_map(|((src, dst), ports)| (SocketAddr::new(src, ports.0), SocketAddr::new(dst, ports.1)))
}

/// Any options. Half of the time the fast shapes: none, or only timestamps.
pub(crate) fn options() -> impl Strategy<Value = TcpOptions> {
    let sack = prop::collection::vec(any::<(u32, u32)>(), 0..=4).prop_map(|pairs| sack_blocks(&pairs));
    let any_options = (
        any::<Option<u16>>(),
        any::<Option<u8>>(),
        any::<bool>(),
        any::<Option<(u32, u32)>>(),
        sack,
        accecn(),
        any::<Option<(u32, [u8; 8])>>(),
        any::<Option<u64>>(),
        any::<Option<([u8; 16], u8)>>(),
    )
        .prop_map(
            |(mss, window_scale, sack_permitted, timestamps, sack, accecn, experiment, timeout, cookie)| {
                TcpOptions {
                    mss,
                    window_scale,
                    sack_permitted,
                    timestamps,
                    sack,
                    accecn,
                    experiment: experiment.map(|(id, value)| Experiment { id, value }),
                    user_timeout: timeout.map(|seconds| UserTimeout::at_least(Duration::from_secs(seconds))),
                    fast_open: cookie
                        .and_then(|(bytes, len)| FastOpenCookie::new(&bytes[..usize::from(len % 17)])),
                }
            },
        );
    let fast =
        any::<Option<(u32, u32)>>().prop_map(|timestamps| TcpOptions { timestamps, ..Default::default() });
    prop_oneof![any_options, fast]
}

/// Accurate ECN counters in either order, some or all of them.
fn accecn() -> impl Strategy<Value = Option<AccEcn>> {
    (any::<Option<(bool, u32, u32, u32)>>(), 0..=3u8).prop_map(|(counters, len)| {
        let (ect1_first, ect0, ce, ect1) = counters?;
        let order = if ect1_first { AccEcnOrder::Ect1First } else { AccEcnOrder::Ect0First };
        Some(AccEcn::new(order, ect0, ce, ect1).truncated(len))
    })
}

pub(crate) fn fields() -> impl Strategy<Value = Fields> {
    (any::<(u32, u32, u16, u16, u16)>(), any::<u8>(), options()).prop_map(
        |((seq, ack, flags, window, urgent), ecn, options)| {
            let (seq, ack, flags) = (SeqNum::new(seq), SeqNum::new(ack), Flags::from_bits(flags));
            Fields { seq, ack, flags, window, urgent, ecn: Codepoint::of(ecn), options }
        },
    )
}

pub(crate) fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=max)
}

pub(crate) fn sack_blocks(pairs: &[(u32, u32)]) -> SackBlocks {
    let mut blocks = SackBlocks::default();
    pairs.iter().for_each(|(left, right)| blocks.push(SeqNum::new(*left), SeqNum::new(*right)));
    blocks
}

/// A whole packet in one piece.
pub(crate) fn packet(
    (src, dst): (SocketAddr, SocketAddr),
    fields: &Fields,
    payload: &[u8],
    checksum: TxChecksum,
) -> Vec<u8> {
    let mut header = [0; HEADER_MAX];
    let template = HeaderTemplate::new(src, dst, 64, 0);
    let len = template.write(&mut header, fields, [payload, &[]], checksum);
    [&header[..len], payload].concat()
}

/// A plain data segment with timestamps: `10.0.0.1:1000` to `10.0.0.2:2000`, or the same in `fd00::/64`.
pub(crate) fn data_packet(v6: bool, payload: &[u8]) -> Vec<u8> {
    packet(data_sockets(v6), &data_fields(), payload, TxChecksum::Full)
}

pub(crate) fn data_sockets(v6: bool) -> (SocketAddr, SocketAddr) {
    let socket = |text: &str| text.parse().unwrap();
    match v6 {
        false => (socket("10.0.0.1:1000"), socket("10.0.0.2:2000")),
        true => (socket("[fd00::1]:1000"), socket("[fd00::2]:2000")),
    }
}

pub(crate) fn data_fields() -> Fields {
    Fields {
        seq: SeqNum::new(0xffff_ff00),
        ack: SeqNum::new(7),
        flags: Flags::ACK | Flags::PSH,
        window: 0xfffe,
        urgent: 0,
        ecn: Codepoint::NotEct,
        options: TcpOptions { timestamps: Some((1, 2)), ..Default::default() },
    }
}

/// Corrects the checksum of an IPv4 header after a change of its fields.
pub(crate) fn fix_v4_checksum(packet: &mut [u8]) {
    let Some(ihl) = packet.first().map(|byte| usize::from(byte & 15) * 4) else { return };
    if packet.len() < 20 || packet.len() < ihl {
        return;
    }
    packet[10..12].fill(0);
    let checksum = crate::checksum::sum(&packet[..ihl.max(20)]).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}
