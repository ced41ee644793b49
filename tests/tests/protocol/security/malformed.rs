//! D: packets whose fields contradict each other.

use std::num::NonZeroU16;
use std::time::Duration;

use ackclock_core::State;
use ackclock_tests::rng::Rng;
use ackclock_tests::script::{Script, Setup, pattern};
use ackclock_tests::segment::{ACK, Opt, PSH, RST, SYN, flip_bit, seg};
use ackclock_wire::{ChecksumAt, ChecksumState, RxMeta};

/// The IPv4 header's checksum made right again.
pub(crate) fn sum_ipv4(packet: &mut [u8]) {
    let len = packet.first().map_or(0, |byte| usize::from(byte & 15) * 4);
    if packet.len() < len.max(20) {
        return;
    }
    packet[10..12].fill(0);
    let mut sum: u32 = packet[..len].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[test]
fn sec_d1_every_header_length_and_every_truncation_is_survived() {
    let mut s = Script::accepted(&Setup::default());
    let good = s.packet(seg(PSH).seq(1).ack(1).opt(Opt::Other(200, vec![0; 6])).data(&[9; 20]));
    for header in 0..=15_u8 {
        for offset in 0..=15_u8 {
            for len in 0..=good.len() {
                let mut packet = good[..len].to_vec();
                if let Some(byte) = packet.first_mut() {
                    *byte = 0x40 | header;
                }
                if let Some(byte) = packet.get_mut(20 + 12) {
                    *byte = offset << 4;
                }
                if header == 5 && (len, offset) == (good.len(), good[32] >> 4) {
                    continue;
                }
                if header >= 5 {
                    sum_ipv4(&mut packet);
                }
                s.raw(&packet);
                s.take_sent();
            }
        }
    }
    assert_eq!(s.state(), State::Established);
    assert!(s.read(100).is_empty(), "a malformed packet was delivered");
    s.raw(&good);
    assert_eq!(s.read(100), [9; 20]);
}

#[test]
fn sec_d1_total_length_that_lies_is_survived() {
    for v6 in [false, true] {
        let mut s = Script::accepted(&Setup { v6, ..Setup::default() });
        let good = s.packet(seg(PSH).seq(1).ack(1).data(&[9; 20]));
        let field = if v6 { 4 } else { 2 };
        let right = u16::from_be_bytes([good[field], good[field + 1]]);
        for len in (0..200).chain([0x7fff, 0x8000, 0xffff]).filter(|len| *len != right) {
            let mut packet = good.clone();
            packet[field..field + 2].copy_from_slice(&len.to_be_bytes());
            if !v6 {
                sum_ipv4(&mut packet);
            }
            s.raw(&packet);
            assert!(s.take_sent().is_empty(), "length {len}");
            assert!(s.read(100).is_empty(), "length {len}");
        }
        // Bytes after the end of the packet are the link layer's padding.
        s.raw(&[good.as_slice(), &[0; 6]].concat());
        assert_eq!(s.read(100), [9; 20]);
    }
}

#[test]
fn sec_d2_option_bytes_of_all_kinds_and_lengths_terminate() {
    let mut s = Script::accepted(&Setup::default());
    let mut rng = Rng::new(0xd2);
    for kind in 0..=255_u8 {
        for len in [0, 1, 2, 3, 4, 6, 10, 11, 18, 34, 40, 41, 255] {
            for offset in [0, 1, 2, 37, 38] {
                let mut raw = vec![1; offset];
                raw.extend([kind, len]);
                raw.resize(40, rng.next_u64() as u8);
                s.peer(seg(ACK).seq(1).ack(1).opt(Opt::Raw(raw)));
                s.take_sent();
            }
        }
    }
    assert_eq!(s.state(), State::Established);
}

#[test]
fn sec_d2_options_on_resets_and_random_option_bytes_are_survived() {
    let mut rng = Rng::new(0xd2d2);
    for _ in 0..20_000 {
        let mut s_raw: Vec<u8> = (0..40).map(|_| rng.next_u64() as u8).collect();
        s_raw.truncate(4 * rng.between(0, 10) as usize);
        let mut s = Script::listening(&Setup::default());
        s.peer(seg(rng.next_u64() as u8).seq(1).opt(Opt::Raw(s_raw.clone())));
        s.take_sent();
    }
    let mut s = Script::accepted(&Setup::default());
    s.peer(seg(RST).seq(1).opt(Opt::Raw(vec![8, 0, 0, 0])));
    assert!(matches!(s.state(), State::Established | State::Closed));
}

#[test]
fn sec_d4_chains_of_extension_headers_end() {
    let mut s = Script::accepted(&Setup { v6: true, ..Setup::default() });
    let good = s.packet(seg(PSH).seq(1).ack(1).data(b"deep"));
    for kind in [0_u8, 43, 44, 60, 135, 51] {
        for count in [1_usize, 2, 7, 8, 9, 50] {
            for len in [0_u8, 1, 255] {
                let mut chain = Vec::new();
                for i in 0..count {
                    let next = if i + 1 == count { 6 } else { kind };
                    chain.extend([next, len, 1, 4, 0, 0, 0, 0]);
                }
                let mut packet = good[..40].to_vec();
                packet[6] = kind;
                let payload = (chain.len() + good.len() - 40) as u16;
                packet[4..6].copy_from_slice(&payload.to_be_bytes());
                packet.extend(chain);
                packet.extend(&good[40..]);
                s.raw(&packet);
                s.take_sent();
            }
        }
    }
    assert_eq!(s.state(), State::Established);
}

#[test]
fn sec_d5_fragments_are_not_taken() {
    let mut s = Script::accepted(&Setup::default());
    let good = s.packet(seg(PSH).seq(1).ack(1).data(b"in pieces"));
    for field in [0x2000_u16, 0x2001, 0x0001, 0x1fff] {
        let mut packet = good.clone();
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        sum_ipv4(&mut packet);
        s.raw(&packet);
        s.nothing();
        assert!(s.read(100).is_empty(), "fragment field {field:#x}");
    }
}

#[test]
fn sec_d6_zero_checksums_are_wrong_checksums() {
    for v6 in [false, true] {
        let mut s = Script::accepted(&Setup { v6, ..Setup::default() });
        let mut packet = s.packet(seg(PSH).seq(1).ack(1).data(b"sum"));
        let tcp = if v6 { 40 } else { 20 };
        assert_ne!(packet[tcp + 16..tcp + 18], [0, 0]);
        packet[tcp + 16..tcp + 18].fill(0);
        s.raw(&packet);
        s.nothing();
        assert!(s.read(10).is_empty());
    }
}

#[test]
fn sec_d6_random_damage_is_survived() {
    let mut rng = Rng::new(0xd6);
    for v6 in [false, true] {
        let mut s = Script::accepted(&Setup { v6, ..Setup::default() });
        let good = s.packet(seg(PSH).seq(1).ack(1).opt(Opt::Timestamps(1, 2)).data(&[3; 30]));
        for _ in 0..50_000 {
            let mut packet = good.clone();
            for _ in 0..rng.between(1, 6) {
                let bit = rng.below(packet.len() as u64 * 8) as usize;
                packet = flip_bit(&packet, bit);
            }
            if rng.chance(300_000) {
                packet.truncate(rng.below(packet.len() as u64) as usize);
            }
            if !v6 && rng.chance(500_000) && packet.len() >= 20 && packet[0] & 15 >= 5 {
                sum_ipv4(&mut packet);
            }
            s.host.receive(&packet);
            s.host.transmit();
        }
    }
}

#[test]
fn sec_d3_ipv4_options_are_stepped_over_and_source_routes_dropped() {
    let mut dropped = 0;
    for kind in 0..=255_u8 {
        for len in [0_u8, 1, 2, 3, 4, 7, 8, 11, 39, 40, 41, 255] {
            let mut s = Script::accepted(&Setup::default());
            let good = s.packet(seg(PSH).seq(1).ack(1).data(b"optional"));
            let mut options = vec![kind, len];
            options.resize(usize::from(len).clamp(2, 40).next_multiple_of(4), 1);
            let mut packet = good.clone();
            packet[0] = 0x40 | (5 + options.len() / 4) as u8;
            packet[2..4].copy_from_slice(&((good.len() + options.len()) as u16).to_be_bytes());
            packet.splice(20..20, options);
            sum_ipv4(&mut packet);
            s.raw(&packet);
            s.take_sent();
            // RFC 7126 §4.3, §4.4: source routes are not followed, and their packets are dropped.
            let source_route = matches!(kind, 131 | 137) && (3..=40).contains(&len);
            let read = s.read(100);
            assert!(read.is_empty() || read == b"optional" && !source_route, "kind {kind}, length {len}");
            if source_route {
                dropped += s.host.endpoint.counters().dropped_source_route;
            }
            let well_formed = kind == 0 || kind > 1 && (2..=40).contains(&len);
            if well_formed && !matches!(kind, 131 | 137) {
                assert_eq!(read, b"optional", "kind {kind}, length {len}");
            }
            s.raw(&good);
            assert_eq!(s.state(), State::Established);
        }
    }
    assert!(dropped >= 10, "{dropped} source routes counted");
}

#[test]
fn sec_d7_segment_sizes_and_checksum_states_that_lie_are_survived() {
    let states =
        [ChecksumState::Complete, ChecksumState::Verified, ChecksumState::Partial(ChecksumAt::tcp(20))];
    for checksum in states {
        for size in [0, 1, 2, 535, 1_460, 9_000, 65_535] {
            for len in [0, 1, 1_460, 30_000] {
                let mut s = Script::accepted(&Setup::default());
                let meta = RxMeta { checksum, segment_size: NonZeroU16::new(size) };
                let packet = s.packet(seg(PSH).seq(1).ack(1).data(&pattern(1, len)));
                s.host.receive_as(&packet, meta);
                s.drain();
                s.advance(Duration::from_secs(1));
                let answers = s.take_sent();
                assert!(answers.len() <= 2 && answers.iter().all(|a| a.ack == 1 + len as u32), "{answers:?}");
                assert_eq!(s.read(65_536), pattern(1, len), "{meta:?}");
                // A SYN, a reset out of place, and bytes that are not a packet fare alike.
                for segment in [seg(SYN).seq(1), seg(RST).seq(9).ack(1)] {
                    s.host.receive_as(&s.packet(segment), meta);
                }
                s.host.receive_as(&packet[..30], meta);
                s.drain();
                assert_eq!(s.state(), State::Established);
            }
        }
    }
}
