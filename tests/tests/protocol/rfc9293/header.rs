//! The header and its options: RFC 9293 §3.1, §3.2, §3.7.1.

use ackclock_core::{ReadError, State};
use ackclock_tests::script::{Script, Setup, modern_options, pattern};
use ackclock_tests::segment::{ACK, Opt, PSH, flip_bit, seg};

use super::nodelay;

// Tests: RFC 9293 MUST-1
// Tests: RFC 9293 REC-1
#[test]
fn window_of_all_ones_is_the_largest_one() {
    let mut s = Script::accepted(&Setup::default());
    s.peer_ack(1, 1);
    let widest: u32 = s.info().snd_wnd;
    assert_eq!(widest, 65_535);

    let mut s = Script::accepted(&Setup { peer_options: modern_options(14), ..Setup::default() });
    s.peer(seg(ACK).seq(1).ack(1).window(0xffff));
    assert_eq!(s.info().snd_wnd, 1_073_725_440);
}

// Tests: RFC 9293 MUST-2
// Tests: RFC 9293 MUST-68
// Tests: RFC 9293 MUST-69
#[test]
fn every_emitted_segment_satisfies_an_independent_decoder() {
    for v6 in [false, true] {
        for peer_options in [vec![Opt::Mss(1460)], modern_options(7)] {
            let mut s = Script::accepted(&Setup { v6, peer_options, ..nodelay() });
            let mut seq = 1;
            for len in [1, 2, 3, 64, 255, 536, 1400] {
                s.write(seq, len);
                // The host checks checksums, lengths, options and padding of each frame.
                s.expect_data(seq, len);
                seq += len as u32;
                s.peer_ack(1, seq);
            }
        }
    }
}

// Tests: RFC 9293 MUST-3
#[test]
fn segment_with_any_bit_flipped_changes_nothing() {
    for v6 in [false, true] {
        let mut s = Script::accepted(&Setup { v6, ..Setup::default() });
        let good = s.packet(seg(PSH).seq(1).ack(1).data(b"data"));
        // IPv6 has no header checksum: a changed hop limit or flow label is not detected.
        let first = if v6 { 40 * 8 } else { 0 };
        for bit in first..good.len() * 8 {
            s.raw(&flip_bit(&good, bit));
            assert!(s.take_sent().is_empty(), "bit {bit} got an answer");
            assert_eq!(s.try_read(), Err(ReadError::WouldBlock), "bit {bit}");
            assert_eq!(s.state(), State::Established);
        }
        s.raw(&good);
        assert_eq!(s.read(10), b"data");
    }
}

// Tests: RFC 9293 MUST-4
// Tests: RFC 9293 MUST-64
#[test]
fn options_are_found_at_any_alignment() {
    for nops in 0..4 {
        let mut peer_options = vec![Opt::Nop; nops];
        peer_options.extend([Opt::Other(200, vec![0]), Opt::Mss(1000), Opt::Raw(vec![0, 99, 99])]);
        let mut s = Script::accepted(&Setup { peer_options, ..Setup::default() });
        assert_eq!(s.info().snd_mss, 1000, "{nops} NOPs in front");
        s.write(1, 1000);
        s.expect_data(1, 1000);
    }
}

// Tests: RFC 9293 MUST-5
// Tests: RFC 9293 MUST-6
#[test]
fn unknown_option_is_skipped_wherever_it_stands() {
    let mut s = Script::accepted(&Setup::default());
    let mut seq = 1;
    let kinds = (9..=253).filter(|kind| ![19, 29].contains(kind)).map(|kind| (kind, 2));
    for (kind, len) in kinds.chain((0..=38).map(|len| (200, len))) {
        let option = Opt::Other(kind, vec![0xee; len]);
        s.peer(seg(PSH).seq(seq).ack(1).opt(option).data(&pattern(seq, 3)));
        assert_eq!(s.read(10), pattern(seq, 3), "kind {kind}, {len} bytes of data");
        seq += 3;
    }
}

// Tests: RFC 9293 MUST-7
#[test]
fn illegal_option_length_does_not_harm_the_connection() {
    let mut s = Script::accepted(&Setup::default());
    let mut seq = 1;
    for kind in [2, 3, 4, 5, 8, 77, 200] {
        for len in [0, 1, 3, 5, 9, 11, 40, 255] {
            for in_front in 0..3 {
                let mut raw = vec![1; in_front];
                raw.extend([kind, len, 7, 7]);
                s.peer(seg(PSH).seq(seq).ack(1).opt(Opt::Raw(raw)).data(b"x"));
                s.take_sent();
                assert_eq!(s.state(), State::Established, "kind {kind}, length {len}");
                // Whether the segment was dropped or its options only: this one counts in any case.
                s.peer(seg(PSH).seq(seq).ack(1).data(b"x"));
                assert_eq!(s.read(10), b"x");
                s.take_sent();
                seq += 1;
            }
        }
    }
}

// Tests: RFC 9293 MUST-65
#[test]
fn mss_option_counts_on_syn_segments_only() {
    let mut s = Script::accepted(&Setup::default());
    s.peer(seg(ACK).seq(1).ack(1).opt(Opt::Mss(200)).opt(Opt::WindowScale(7)));
    assert_eq!(s.info().snd_mss, 1460);
    assert_eq!(s.info().snd_wnd, 65_535);
    s.write(1, 3000);
    for segment in s.take_sent() {
        assert!(segment.options.is_empty(), "{segment:?}");
    }
}

// Tests: RFC 9293 MUST-14
// Tests: RFC 9293 MUST-67
// Tests: RFC 9293 SHLD-5
// Tests: RFC 9293 SHLD-6
// Tests: RFC 9293 MAY-3
#[test]
fn syn_and_syn_ack_offer_the_mtu_less_the_fixed_headers() {
    for mtu in [1280, 1400, 1500, 9000] {
        for (v6, headers) in [(false, 40), (true, 60)] {
            let setup = Setup { v6, mtu, ..Setup::default() };
            assert_eq!(Script::connecting(&setup).sent().mss(), Some(mtu as u16 - headers));
            let mut s = Script::listening(&setup);
            s.peer(ackclock_tests::script::peer_syn(&setup));
            assert_eq!(s.sent().mss(), Some(mtu as u16 - headers));
        }
    }
}

// Tests: RFC 9293 MUST-15
#[test]
fn peer_without_an_mss_option_gets_the_default_size() {
    for (v6, default) in [(false, 536), (true, 1220)] {
        let mut s = Script::accepted(&Setup { v6, peer_options: Vec::new(), ..Setup::default() });
        s.write(1, 3000);
        s.expect_data(1, default);
    }
}

// Tests: RFC 9293 MUST-16
#[test]
fn options_are_subtracted_from_what_the_mtu_allows() {
    for (v6, headers) in [(false, 40), (true, 60)] {
        let peer_options = vec![Opt::Mss(9000), Opt::SackPermitted, Opt::Timestamps(1, 0)];
        let mut s = Script::accepted(&Setup { v6, peer_options, ..Setup::default() });
        s.write(1, 20_000);
        // Twelve bytes of timestamps with their padding; the host checks every packet against the MTU.
        s.expect_data(1, 1500 - headers - 12);
    }
}
