use proptest::prelude::*;

use ackclock_wire::random::Rng;
use ackclock_wire::{FlowLabel, IpPacket, IpPayload, UdpDatagram, UdpHeader, write_udp};

use super::*;

fn budget() -> Budget {
    Budget::new(64 << 20)
}

fn at(seconds: u64) -> Instant {
    Instant::from_millis(1_000_000 + seconds * 1000)
}

fn reassembler() -> Reassembler {
    Reassembler::new(ReassemblyConfig::default())
}

/// A datagram of `len` bytes from host `host`, as one packet.
fn whole(v6: bool, host: u8, len: usize) -> Vec<u8> {
    let (src, dst) = if v6 {
        (format!("[fd00::{host:x}]:5"), "[fd00::1]:7")
    } else {
        (format!("10.0.0.{host}:5"), "10.0.0.1:7")
    };
    let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
    let header = UdpHeader { src, dst, ttl: 64, traffic_class: 2, flow_label: FlowLabel::NONE };
    let data: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
    let mut packet = write_udp(&header, &data).unwrap();
    if !v6 {
        packet[6] = 0;
        fix(&mut packet);
    }
    packet
}

fn fix(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let checksum = ackclock_wire::checksum::sum(&packet[..20]).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// The bytes `from..to` of a packet's payload as a fragment.
fn fragment(packet: &[u8], id: u16, from: usize, to: usize, more: bool) -> Vec<u8> {
    assert_eq!(from % 8, 0);
    let flags = (from as u16) | u16::from(more);
    if packet[0] >> 4 == 4 {
        let mut piece = [&packet[..20], &packet[20 + from..20 + to]].concat();
        let len = piece.len() as u16;
        piece[2..4].copy_from_slice(&len.to_be_bytes());
        piece[4..6].copy_from_slice(&id.to_be_bytes());
        piece[6..8].copy_from_slice(&((from as u16 / 8) | u16::from(more) << 13).to_be_bytes());
        fix(&mut piece);
        return piece;
    }
    let mut head = packet[..40].to_vec();
    let [f0, f1] = flags.to_be_bytes();
    let [i0, i1] = id.to_be_bytes();
    let header = [head[6], 0, f0, f1, 0, 0, i0, i1];
    head[6] = 44;
    let len = (8 + to - from) as u16;
    head[4..6].copy_from_slice(&len.to_be_bytes());
    [&head[..], &header, &packet[40 + from..40 + to]].concat()
}

fn payload_len(packet: &[u8]) -> usize {
    packet.len() - if packet[0] >> 4 == 4 { 20 } else { 40 }
}

/// All fragments of a packet, `size` bytes each.
fn cut(packet: &[u8], id: u16, size: usize) -> Vec<Vec<u8>> {
    let len = payload_len(packet);
    (0..len).step_by(size).map(|at| fragment(packet, id, at, (at + size).min(len), at + size < len)).collect()
}

proptest! {
    #[test]
    fn fragments_in_any_order_make_the_packet(
        v6: bool,
        len in 100usize..5000,
        eighths in 4usize..40,
        seed: u64,
    ) {
        let packet = whole(v6, 9, len);
        let mut pieces = cut(&packet, 7, eighths * 8);
        prop_assume!(pieces.len() > 1 && pieces.len() <= 64);
        let mut rng = Rng::new(seed);
        for last in (1..pieces.len()).rev() {
            pieces.swap(last, rng.below(last as u64 + 1) as usize);
        }
        let mut reassembler = reassembler();
        let budget = budget();
        for piece in &pieces[..pieces.len() - 1] {
            prop_assert_eq!(reassembler.push(at(0), &budget, piece), FragmentFate::Waits);
            // A copy of what has arrived changes nothing.
            prop_assert_eq!(reassembler.push(at(0), &budget, piece), FragmentFate::Waits);
        }
        let FragmentFate::Whole(made) = reassembler.push(at(0), &budget, pieces.last().unwrap()) else {
            panic!("not whole")
        };
        let mut expected = packet.clone();
        if !v6 {
            expected[4..6].copy_from_slice(&7_u16.to_be_bytes());
            fix(&mut expected);
        }
        prop_assert_eq!(&made, &expected);
        prop_assert_eq!((reassembler.packets.len(), reassembler.bytes, budget.used()), (0, 0, 0));
        let ip = IpPacket::parse(&made).unwrap();
        let IpPayload::Udp(bytes) = ip.payload else { panic!("not UDP") };
        prop_assert!(UdpDatagram::parse(ip.src, ip.dst, bytes, ackclock_wire::ChecksumState::Complete).is_ok());
    }

    /// Arbitrary fragments cause no panic, break no bound, and leave the accounts right.
    #[test]
    fn no_sequence_of_fragments_breaks_a_bound(
        steps in prop::collection::vec((0u8..3, 0u16..4, 0usize..20, 1usize..12, any::<bool>(), any::<bool>()), 1..200),
    ) {
        let config = ReassemblyConfig { bytes_max: 4000, packets_max: 8, fragments_max: 6, ..Default::default() };
        let mut reassembler = Reassembler::new(config);
        let budget = budget();
        for (second, (host, id, from, len, more, v6)) in steps.into_iter().enumerate() {
            let packet = whole(v6, host + 2, 400);
            let to = ((from + len) * 8).min(payload_len(&packet));
            if from * 8 < to {
                reassembler.push(at(second as u64), &budget, &fragment(&packet, id, from * 8, to, more));
            }
            while reassembler.expire(at(second as u64)).is_some() {}
            prop_assert!(reassembler.bytes <= config.bytes_max);
            prop_assert!(reassembler.packets.len() <= config.packets_max);
            prop_assert_eq!(reassembler.packets.len(), reassembler.by_age.len());
            let counted: usize = reassembler.packets.values().map(Partial::bytes).sum();
            prop_assert_eq!(reassembler.bytes, counted);
            prop_assert_eq!(budget.used(), counted);
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), v6: bool) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = if v6 { 0x60 } else { 0x45 };
        }
        if v6 && bytes.len() > 6 {
            bytes[6] = 44;
        }
        reassembler().push(at(0), &budget(), &bytes);
    }
}

#[test]
fn overlapping_fragments_discard_the_packet_and_what_still_comes_of_it() {
    for v6 in [false, true] {
        let packet = whole(v6, 9, 400);
        // Overlaps into the one before, into the one behind, within one, around one, and other bytes in the
        // same place.
        for (from, to) in [(88, 160), (160, 248), (104, 184), (80, 264), (96, 192)] {
            let mut reassembler = reassembler();
            let budget = budget();
            assert_eq!(
                reassembler.push(at(0), &budget, &fragment(&packet, 1, 96, 192, true)),
                FragmentFate::Waits
            );
            let mut other = packet.clone();
            other[150] ^= 1;
            let overlap = fragment(&other, 1, from, to, true);
            assert_eq!(reassembler.push(at(0), &budget, &overlap), FragmentFate::Overlap, "{from}..{to}");
            assert_eq!((reassembler.bytes, budget.used()), (0, 0));
            for piece in cut(&packet, 1, 96) {
                assert_eq!(reassembler.push(at(1), &budget, &piece), FragmentFate::Overlap);
            }
            // Its time expires, and its identification is free.
            assert_eq!(reassembler.expire(at(60)), Some(None), "no error is sent about it");
            assert_eq!(
                reassembler.push(at(61), &budget, &fragment(&packet, 1, 0, 96, true)),
                FragmentFate::Waits
            );
        }
    }
}

#[test]
fn a_second_end_and_data_behind_the_end_are_contradictions() {
    for v6 in [false, true] {
        let packet = whole(v6, 9, 400);
        let len = payload_len(&packet);
        let outcome = |first: (usize, usize, bool), second: (usize, usize, bool)| {
            let mut reassembler = reassembler();
            let piece = |(from, to, more)| fragment(&packet, 1, from, to, more);
            assert_eq!(reassembler.push(at(0), &budget(), &piece(first)), FragmentFate::Waits);
            reassembler.push(at(0), &budget(), &piece(second))
        };
        assert_eq!(outcome((320, len, false), (240, 280, false)), FragmentFate::Overlap);
        assert_eq!(outcome((240, 280, false), (320, 360, true)), FragmentFate::Overlap);
        assert_eq!(outcome((320, 360, true), (240, 280, false)), FragmentFate::Overlap);
    }
}

#[test]
fn teardrop_and_ping_of_death_are_refused() {
    let packet = whole(false, 9, 400);
    let mut reassembler = reassembler();
    // The second fragment ends within the first (CVE-1999-0015).
    assert_eq!(reassembler.push(at(0), &budget(), &fragment(&packet, 1, 0, 104, true)), FragmentFate::Waits);
    assert_eq!(
        reassembler.push(at(0), &budget(), &fragment(&packet, 1, 24, 28, false)),
        FragmentFate::Overlap
    );
    // The end would lie beyond the longest packet (CVE-1999-0128).
    let mut death = fragment(&packet, 2, 0, 400, false);
    death[6..8].copy_from_slice(&(65_528_u16 / 8).to_be_bytes());
    fix(&mut death);
    assert_eq!(reassembler.push(at(0), &budget(), &death), FragmentFate::Malformed(IpError::Length));
    // A length that is not a multiple of 8, though more follows; an empty one; a TCP header in two pieces.
    assert!(matches!(
        reassembler.push(at(0), &budget(), &fragment(&packet, 3, 0, 100, true)),
        FragmentFate::Malformed(_)
    ));
    assert!(matches!(
        reassembler.push(at(0), &budget(), &fragment(&packet, 3, 0, 0, true)),
        FragmentFate::Malformed(_)
    ));
    let mut tiny = fragment(&packet, 3, 8, 96, true);
    tiny[9] = 6;
    fix(&mut tiny);
    assert!(matches!(reassembler.push(at(0), &budget(), &tiny), FragmentFate::Malformed(_)));
}

#[test]
fn a_first_fragment_of_ipv6_without_all_headers_is_refused() {
    let mut packet = whole(true, 9, 400);
    // A destination options header that continues in the next fragment.
    packet[6] = 60;
    packet[40..48].copy_from_slice(&[17, 4, 1, 4, 0, 0, 0, 0]);
    let outcome = reassembler().push(at(0), &budget(), &fragment(&packet, 1, 0, 16, true));
    assert!(matches!(outcome, FragmentFate::Malformed(_)), "{outcome:?}");
}

#[test]
fn a_flood_of_first_fragments_is_bounded_and_one_source_has_a_quarter() {
    let mut reassembler = reassembler();
    let budget = budget();
    let packet = whole(false, 9, 1400);
    let honest = whole(false, 10, 400);
    assert_eq!(reassembler.push(at(0), &budget, &fragment(&honest, 1, 0, 96, true)), FragmentFate::Waits);
    for id in 0..10_000 {
        reassembler.push(at(0), &budget, &fragment(&packet, id, 0, 1400, true));
        assert!(reassembler.packets.len() <= 65 && reassembler.bytes <= 1 << 20);
    }
    assert_eq!(reassembler.packets.len(), 65);
    assert_eq!(reassembler.take_evicted(), 10_000 - 64);
    // The other source's packet has outlived it.
    let rest = fragment(&honest, 1, 96, payload_len(&honest), false);
    assert!(matches!(reassembler.push(at(1), &budget, &rest), FragmentFate::Whole(_)));
}

/// Of 64 packets one source may fill all the bytes there are: it pays with its own.
#[test]
fn a_flood_of_bytes_from_one_source_takes_none_of_another() {
    let (mut reassembler, budget) = (reassembler(), budget());
    let (flood, honest) = (whole(false, 9, 30_000), whole(false, 10, 400));
    assert_eq!(reassembler.push(at(0), &budget, &fragment(&honest, 1, 0, 96, true)), FragmentFate::Waits);
    for id in 0..64 {
        for piece in 0..20 {
            reassembler.push(at(0), &budget, &fragment(&flood, id, piece * 1400, (piece + 1) * 1400, true));
        }
    }
    assert!(reassembler.take_evicted() > 0 && reassembler.bytes <= 1 << 20);
    let rest = fragment(&honest, 1, 96, payload_len(&honest), false);
    assert!(matches!(reassembler.push(at(1), &budget, &rest), FragmentFate::Whole(_)));
}

#[test]
fn a_flood_from_many_sources_costs_the_oldest() {
    let config = ReassemblyConfig { bytes_max: 20_000, ..Default::default() };
    let mut reassembler = Reassembler::new(config);
    let budget = budget();
    for host in 2..250 {
        let packet = whole(host % 2 == 0, host, 1400);
        reassembler.push(at(0), &budget, &fragment(&packet, 1, 0, 1200, true));
        assert!(reassembler.bytes <= config.bytes_max && budget.used() <= config.bytes_max);
    }
    assert!(reassembler.packets.len() > 10);
    assert!(reassembler.packets.keys().all(|name| name.src.to_string() > String::new()));
}

#[test]
fn the_bound_of_bytes_is_reached_at_the_cost_of_another_packet_only() {
    let (first, second) = (whole(false, 9, 1400), whole(false, 10, 400));
    let pieces = cut(&second, 1, 208);
    let filled: usize = pieces.iter().map(|piece| cost(piece.len())).sum();
    for (bytes_max, evicted) in [(filled + cost(228), 0), (filled + cost(228) - 1, 1), (filled, 1)] {
        let mut reassembler = Reassembler::new(ReassemblyConfig { bytes_max, ..Default::default() });
        let budget = budget();
        assert_eq!(reassembler.push(at(0), &budget, &fragment(&first, 1, 0, 208, true)), FragmentFate::Waits);
        assert_eq!(reassembler.push(at(0), &budget, &pieces[0]), FragmentFate::Waits);
        assert!(
            matches!(reassembler.push(at(0), &budget, &pieces[1]), FragmentFate::Whole(_)),
            "{bytes_max}"
        );
        assert_eq!((reassembler.packets.len(), reassembler.take_evicted()), (1 - evicted as usize, evicted));
    }
}

#[test]
fn too_many_fragments_of_one_packet_end_it() {
    let mut reassembler = reassembler();
    let packet = whole(false, 9, 1400);
    let outcomes: Vec<_> = (0..66)
        .map(|n| reassembler.push(at(0), &budget(), &fragment(&packet, 1, n * 16, n * 16 + 8, true)))
        .collect();
    assert!(outcomes[..64].iter().all(|outcome| *outcome == FragmentFate::Waits));
    assert_eq!(outcomes[64..], [FragmentFate::Full, FragmentFate::Overlap]);
    assert_eq!(reassembler.bytes, 0);
}

#[test]
fn an_unfinished_packet_is_given_up_after_a_minute_and_shows_its_first_fragment() {
    let packet = whole(false, 9, 400);
    for (from, has_first) in [(0, true), (96, false)] {
        let mut reassembler = reassembler();
        let piece = fragment(&packet, 1, from, from + 96, true);
        reassembler.push(at(0), &budget(), &piece);
        assert_eq!(reassembler.poll_timeout(), Some(at(60)));
        assert_eq!(reassembler.expire(at(59)), None);
        assert_eq!(reassembler.expire(at(60)), Some(has_first.then_some(piece)));
        assert_eq!(reassembler.poll_timeout(), None);
    }
}

#[test]
fn a_mark_on_a_fragment_is_a_mark_on_the_whole() {
    let marked = |codepoints: [u8; 2]| {
        let packet = whole(false, 9, 400);
        let mut reassembler = reassembler();
        let mut pieces = cut(&packet, 1, 208);
        for (piece, codepoint) in pieces.iter_mut().zip(codepoints) {
            piece[1] = codepoint;
            fix(piece);
        }
        reassembler.push(at(0), &budget(), &pieces[0]);
        match reassembler.push(at(0), &budget(), &pieces[1]) {
            FragmentFate::Whole(packet) => Some(packet[1] & 3),
            _ => None,
        }
    };
    assert_eq!(
        [marked([2, 2]), marked([2, 3]), marked([3, 2]), marked([0, 3])],
        [Some(2), Some(3), Some(3), None]
    );
}

#[test]
fn packets_are_told_apart_by_protocol_in_ipv4_and_without_it_in_ipv6() {
    for v6 in [false, true] {
        let packet = whole(v6, 9, 400);
        let mut reassembler = reassembler();
        reassembler.push(at(0), &budget(), &fragment(&packet, 1, 0, 96, true));
        let mut other = fragment(&packet, 1, 96, payload_len(&packet), false);
        if v6 {
            other[40] = 99;
        } else {
            other[9] = 99;
            fix(&mut other);
        }
        let outcome = reassembler.push(at(0), &budget(), &other);
        assert_eq!(matches!(outcome, FragmentFate::Whole(_)), v6, "{outcome:?}");
    }
}
