use std::path::Path;

use ackclock_device::recording::NotCapture;
use ackclock_sim::rng::Rng;

use super::testing::{Form, Kind, Seen, Tcp};
use super::{FileReport, Reading, Vantage, read_one};

fn read(bytes: &[u8]) -> (FileReport, Vec<Vantage>) {
    read_one(0, Path::new("made-by-hand"), bytes).unwrap()
}

/// A short connection.
fn packets() -> Vec<Seen> {
    let segments = [
        Tcp::data(20.0, 0).timestamps(5, 6),
        Tcp::data(20.5, 1),
        Tcp::acked(40.25, 2).sack(3, 4),
        Tcp { fin: true, ..Tcp::data(41.0, 2) },
        Tcp::acked(60.0, 3),
    ];
    Tcp::handshake(20.0).into_iter().chain(segments).map(Tcp::seen).collect()
}

const FORMS: [Form; 10] = {
    const fn form(kind: Kind, big_endian: bool, link_type: u16) -> Form {
        Form { kind, big_endian, link_type, snap_len: 262_144 }
    }
    [
        form(Kind::Micros, false, 101),
        form(Kind::Micros, true, 101),
        form(Kind::Nanos, false, 1),
        form(Kind::Nanos, true, 1),
        form(Kind::Ng(6), false, 101),
        form(Kind::Ng(6), true, 1),
        form(Kind::Ng(9), false, 1),
        form(Kind::Ng(9), true, 101),
        // Units of 2^-30 s are shorter than a nanosecond.
        form(Kind::Ng(0x80 | 30), false, 101),
        form(Kind::Ng(12), true, 101),
    ]
};

#[test]
fn every_form_and_byte_order_holds_the_same_segments() {
    let (_, expected) = read(&FORMS[2].file(&packets()));
    let [connection] = &expected[..] else { panic!("{expected:?}") };
    assert_eq!(connection.segments.len(), 8);
    assert_eq!(connection.segments[1].at - connection.segments[0].at, 20_000_000);
    assert_eq!(connection.segments[3].len, 1000);
    assert_eq!(connection.segments[3].timestamps, Some((5, 6)));
    assert_eq!((connection.client.port(), connection.server.port()), (5000, 80));
    assert_eq!(connection.server_mss, Some(1460));
    for form in FORMS {
        let (report, found) = read(&form.file(&packets()));
        assert_eq!((report.frames, report.segments, report.broken), (8, 8, None), "{form:?}");
        for (found, expected) in found[0].segments.iter().zip(&connection.segments) {
            assert!(found.at.abs_diff(expected.at) <= 1, "{form:?}: {} is not {}", found.at, expected.at);
            assert_eq!(super::Segment { at: expected.at, ..*found }, *expected, "{form:?}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_gives_what_is_before_the_cut() {
    for form in FORMS {
        let whole = form.file(&packets());
        let mut most = 0;
        for len in 0..whole.len() {
            match read_one(0, Path::new("cut"), &whole[..len]) {
                Err(why) => assert!(
                    matches!(why, NotCapture::Empty | NotCapture::Header | NotCapture::Unknown) && most == 0
                ),
                Ok((report, _)) => {
                    assert!(report.segments >= most, "{form:?} cut to {len}");
                    most = report.segments;
                }
            }
        }
        assert_eq!(most, 7, "{form:?}: all but the last, which lacks a byte");
        let (report, _) = read(&whole[..whole.len() - 1]);
        assert!(report.broken.is_some_and(|why| why.contains("ends within a block")), "{form:?}");
    }
}

/// A file larger than the reader's buffer, so that the reader begins to parse before the end.
#[test]
fn pieces_of_any_size_hold_what_the_whole_holds() {
    let many: Vec<Seen> = (0..40).flat_map(|_| packets()).collect();
    for form in FORMS {
        let whole = form.file(&many);
        let (report, expected) = read(&whole);
        for size in [1, 7, 4096, whole.len()] {
            let mut reading = Reading::new(0, Path::new("made-by-hand"));
            for piece in whole.chunks(size) {
                reading.push(piece).unwrap();
            }
            let (pieces, found) = reading.finish().unwrap();
            assert_eq!((pieces.frames, pieces.broken), (report.frames, None), "{form:?} by {size}");
            let segments =
                |all: &[Vantage]| all.iter().flat_map(|one| one.segments.clone()).collect::<Vec<_>>();
            assert_eq!(segments(&found), segments(&expected), "{form:?} by {size}");
        }
    }
}

/// The reader parses while pieces come, and names the frame and the byte where a file breaks.
#[test]
fn a_long_file_is_counted_as_it_comes_and_its_damage_has_a_place() {
    let form = FORMS[0];
    let long: Vec<Seen> = (0..2000).flat_map(|_| packets()).collect();
    let mut whole = form.file(&long);
    let mut reading = Reading::new(0, Path::new("made-by-hand"));
    reading.push(&whole[..600 << 10]).unwrap();
    let (frames, segments) = reading.counted();
    assert!((1000..16_000).contains(&frames) && frames == segments, "{frames} frames");
    // The captured length of frame 9 in a file of records without padding.
    let record = |seen: &Seen| 16 + seen.packet.len();
    let ninth = 24 + long[..8].iter().map(record).sum::<usize>();
    whole[ninth + 8..ninth + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let (report, _) = read(&whole);
    assert_eq!(report.frames, 8);
    let why = report.broken.unwrap();
    assert!(why.contains(&format!("at byte {ninth}, where frame 9 is expected")), "{why}");
}

#[test]
fn damaged_files_never_panic_and_are_read_to_the_damage() {
    let mut rng = Rng::derive(4, "damage");
    for form in FORMS {
        let whole = form.file(&packets());
        for _ in 0..300 {
            let mut bytes = whole.clone();
            for _ in 0..=rng.below(4) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            if rng.below(4) == 0 {
                bytes.truncate(rng.below(bytes.len() as u64) as usize);
            }
            if let Ok((report, vantages)) = read_one(0, Path::new("damaged"), &bytes[..]) {
                let kept: usize = vantages.iter().map(|vantage| vantage.segments.len()).sum();
                assert!(kept as u64 <= report.segments && report.segments <= report.frames, "{report:?}");
                let _ = crate::transfers(&vantages, crate::Side::Guess);
            }
        }
    }
}

#[test]
fn random_bytes_are_no_capture_or_an_empty_one() {
    let mut rng = Rng::derive(5, "noise");
    for _ in 0..500 {
        let bytes: Vec<u8> = (0..rng.below(300)).map(|_| rng.next_u64() as u8).collect();
        if let Ok((report, _)) = read_one(0, Path::new("noise"), &bytes[..]) {
            assert_eq!(report.segments, 0);
        }
    }
}

#[test]
fn what_is_no_capture_is_told_with_what_mends_it() {
    let why = |bytes: &[u8]| read_one(0, Path::new("x"), bytes).unwrap_err();
    assert_eq!(why(b""), NotCapture::Empty);
    assert_eq!(
        why(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
        NotCapture::Gzip
    );
    assert_eq!(why(b"GET / HTTP/1.0\r\nHost: example\r\n\r\n"), NotCapture::Unknown);
    assert_eq!(why(&FORMS[0].file(&packets())[..10]), NotCapture::Header);
}

#[test]
fn lengths_are_those_of_the_ip_header_where_packets_are_cut() {
    // 14 of Ethernet, 20 of IP, 20 of TCP: options are lost with the payload.
    let form = Form { link_type: 1, snap_len: 54, ..Form::default() };
    let (report, found) = read(&form.file(&packets()));
    assert_eq!((report.segments, report.cut_off), (8, 0));
    let lens: Vec<u32> = found[0].segments.iter().map(|segment| segment.len).collect();
    assert_eq!(lens, [0, 0, 0, 1000, 1000, 0, 1000, 0]);
    assert_eq!(found[0].segments[3].timestamps, None);
    let (report, _) = read(&Form { snap_len: 53, ..form }.file(&packets()));
    assert_eq!((report.segments, report.cut_off), (0, 8));
}

#[test]
fn what_is_not_assessed_is_counted() {
    let mut udp = packets()[0].clone();
    udp.packet[9] = 17;
    let mut fragment = packets()[3].clone();
    fragment.packet[6] = 0x20;
    let mut short = packets()[3].clone();
    short.packet[32] = 0xf0;
    short.packet[3] = 30;
    short.packet[2] = 0;
    let odd = [udp, fragment, short];
    let (report, _) = read(&Form::default().file(&odd));
    assert_eq!((report.not_tcp, report.fragments, report.malformed, report.segments), (1, 1, 1, 0));
    let (report, _) = read(&Form { link_type: 147, ..Form::default() }.file(&packets()));
    assert_eq!((report.unknown_link, report.unknown_link_type), (8, Some(147)));
    assert!(report.remarks()[0].contains("link type that is not read (147)"), "{:?}", report.remarks());
}

#[test]
fn interfaces_of_all_sections_are_places_of_their_own() {
    let form = Form::default();
    let mut file = Vec::new();
    let packets = packets();
    for big_endian in [false, true] {
        let form = Form { big_endian, ..form };
        form.section(&mut file);
        form.interface(&mut file, 9);
        form.interface(&mut file, 6);
        form.enhanced(&mut file, 0, 9, &packets[0]);
        form.enhanced(&mut file, 1, 6, &packets[0]);
        form.enhanced(&mut file, 2, 6, &packets[0]);
        form.simple(&mut file, &packets[1]);
    }
    let (report, found) = read(&file);
    let places: Vec<u32> = found.iter().map(|vantage| vantage.place.interface).collect();
    assert_eq!(places, [0, 1, 2, 3]);
    assert_eq!((report.segments, report.undescribed), (6, 2));
    // A simple packet block has no time and belongs to the first interface, whose clock then goes back.
    assert_eq!((found[0].segments.len(), found[0].segments[1].at), (2, found[0].segments[0].at));
    assert_eq!(report.clock_steps_back, 2);
}

#[test]
fn a_new_connection_between_the_same_addresses_is_another_one() {
    let mut again = Tcp::handshake(20.0);
    again[0].seq = 99;
    let segments = Tcp::handshake(20.0).into_iter().chain([Tcp::handshake(20.0)[0]]).chain(again);
    let seen: Vec<Seen> = segments.map(Tcp::seen).collect();
    let (_, found) = read(&Form::default().file(&seen));
    let lens: Vec<usize> = found.iter().map(|vantage| vantage.segments.len()).collect();
    assert_eq!(lens, [4, 3], "a SYN sent again belongs to the first");
}

#[test]
fn a_packet_captured_twice_counts_once() {
    let mut seen = packets();
    seen.iter_mut().zip(1..).for_each(|(seen, id)| seen.packet[5] = id);
    let twice: Vec<Seen> = seen.iter().flat_map(|seen| [seen.clone(), seen.clone()]).collect();
    let (report, found) = read(&Form::default().file(&twice));
    assert_eq!((report.segments, found[0].segments.len(), found[0].copies), (16, 8, 8));
}
