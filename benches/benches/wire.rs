//! A data segment parsed and built, compared with what etherparse alone would take.
//!
//! The packet is a segment of 1,448 bytes with timestamps: MTU 1500 over IPv4.

use std::hint::black_box;
use std::net::SocketAddr;

use ackclock_wire::{
    ChecksumState, Codepoint, ControlSegment, Fields, Flags, FlowLabel, HEADER_MAX, HeaderTemplate, IpPacket,
    IpPayload, Segment, SeqNum, TcpOptions, TxChecksum, checksum, write_control,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use etherparse::checksum::Sum16BitWords;
use etherparse::{PacketBuilder, PacketHeaders, TcpOptionElement};

const PAYLOAD: [u8; 1448] = [0x5a; 1448];

fn sockets() -> (SocketAddr, SocketAddr) {
    (SocketAddr::from(([10, 0, 0, 1], 1000)), SocketAddr::from(([10, 0, 0, 2], 2000)))
}

fn fields() -> Fields {
    let options = TcpOptions { timestamps: Some((1, 2)), ..TcpOptions::default() };
    let (seq, ack) = (SeqNum::new(1), SeqNum::new(2));
    Fields { seq, ack, flags: Flags::ACK, window: 500, urgent: 0, ecn: Codepoint::NotEct, options }
}

fn template() -> HeaderTemplate {
    let (src, dst) = sockets();
    HeaderTemplate::new(src, dst, 64, 0)
}

fn packet() -> Vec<u8> {
    let mut header = [0; HEADER_MAX];
    let len = template().write(&mut header, &fields(), [&PAYLOAD, &[]], TxChecksum::Full);
    [&header[..len], &PAYLOAD].concat()
}

/// Returns the sequence number, so that the compiler can leave nothing out.
fn parse(packet: &[u8], checksum: ChecksumState) -> Option<SeqNum> {
    let ip = IpPacket::parse(packet).ok()?;
    let IpPayload::Tcp(bytes) = ip.payload else { return None };
    let segment = Segment::parse(ip.src, ip.dst, bytes, checksum).ok()?;
    Some(black_box(segment).seq)
}

fn parsing(c: &mut Criterion) {
    let packet = packet();
    let mut group = c.benchmark_group("parse");
    group.bench_function("headers", |b| b.iter(|| parse(black_box(&packet), ChecksumState::Verified)));
    group.bench_function("headers and checksum", |b| {
        b.iter(|| parse(black_box(&packet), ChecksumState::Complete));
    });
    group.bench_function("etherparse PacketHeaders", |b| {
        b.iter(|| PacketHeaders::from_ip_slice(black_box(&packet)).map(|headers| headers.transport));
    });
    group.finish();
}

fn writing(c: &mut Criterion) {
    let (template, fields, (src, dst)) = (template(), fields(), sockets());
    let mut out = [0; HEADER_MAX];
    let mut group = c.benchmark_group("write");
    group.bench_function("template, checksum left to the device", |b| {
        b.iter(|| template.write(&mut out, black_box(&fields), [&PAYLOAD, &[]], TxChecksum::Partial));
    });
    group.bench_function("template and checksum", |b| {
        b.iter(|| template.write(&mut out, black_box(&fields), [&PAYLOAD, &[]], TxChecksum::Full));
    });
    group.bench_function("control segment", |b| {
        let segment =
            ControlSegment { src, dst, ttl: 64, traffic_class: 0, flow_label: FlowLabel::NONE, fields };
        b.iter(|| write_control(&mut out, black_box(&segment)));
    });
    group.bench_function("etherparse PacketBuilder", |b| {
        let mut packet = Vec::with_capacity(1500);
        b.iter(|| {
            packet.clear();
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
                .tcp(1000, 2000, black_box(1), 500)
                .ack(2)
                .options(&[TcpOptionElement::Noop, TcpOptionElement::Noop, TcpOptionElement::Timestamp(1, 2)])
                .expect("12 bytes of options fit")
                .write(&mut packet, &PAYLOAD)
                .expect("a vector takes all that is written")
        });
    });
    group.finish();
}

fn sums(c: &mut Criterion) {
    let mut group = c.benchmark_group("checksum");
    group.throughput(Throughput::Bytes(PAYLOAD.len() as u64));
    group.bench_function("own", |b| b.iter(|| checksum::sum(black_box(&PAYLOAD)).checksum()));
    group.bench_function("etherparse", |b| {
        b.iter(|| Sum16BitWords::new().add_slice(black_box(&PAYLOAD)).ones_complement());
    });
    group.finish();
}

criterion_group!(benches, parsing, writing, sums);
criterion_main!(benches);
