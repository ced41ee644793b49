//! Pins what every parser answers to a packet of each kind, whole, cut short at every length, and with each
//! byte changed, and what every writer writes. What is right is for the other tests to say.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p ackclock-wire --test answers` rewrites the file.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::Path;
use std::time::Duration;

use ackclock_test_support::snapshot::{self, fingerprint};
use ackclock_wire::fragment::Fragment;
use ackclock_wire::icmp_out::{IcmpError, is_echo_request, is_icmp_error, write_echo_reply, write_error};
use ackclock_wire::pcapng::{self, Direction, LinkType, Record};
use ackclock_wire::{
    AccEcn, AccEcnOrder, ChecksumAt, ChecksumState, Codepoint, ControlSegment, Experiment, FastOpenCookie,
    Fields, Flags, FlowLabel, HEADER_MAX, HeaderTemplate, IpPacket, IpPayload, Plain, Predicted, RxMeta,
    SackBlocks, Segment, SeqNum, TcpOptions, TxChecksum, TxPacket, UdpDatagram, UdpHeader, UserTimeout,
    checksum, ecn, gso, options_len, parse_icmp4, parse_icmp6, parse_udp_error4, parse_udp_error6,
    write_control, write_udp,
};

/// Rows of a text file: a name, and a letter for each answer.
#[derive(Default)]
struct Page {
    rows: String,
    answers: Vec<(String, String)>,
}

impl Page {
    fn row(&mut self, name: &str, answers: impl IntoIterator<Item = String>) {
        write!(self.rows, "{name}: ").unwrap();
        for (at, answer) in answers.into_iter().enumerate() {
            let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
            let hash = fingerprint(&answer);
            self.rows.push(char::from(letters[(hash >> 58) as usize]));
            self.rows.push(char::from(letters[(hash >> 20 & 63) as usize]));
            self.answers.push((format!("{name} {at}"), answer));
        }
        self.rows.push('\n');
    }

    /// Compares with the file, and shows the first answer that differs.
    fn compare(&self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/answers.txt");
        let recorded = snapshot::kept(&path, &self.rows);
        for (ours, theirs) in self.rows.lines().zip(recorded.lines()) {
            if ours == theirs {
                continue;
            }
            let name = ours.split(": ").next().unwrap();
            let same = ours.bytes().zip(theirs.bytes()).take_while(|(our, their)| our == their).count();
            let key = format!("{name} {}", same.saturating_sub(name.len() + 2) / 2);
            let answer = self.answers.iter().find(|(found, _)| *found == key);
            panic!("answers.txt: if this is meant, run with UPDATE_SNAPSHOTS=1\n{key}: {answer:?}");
        }
        assert_eq!(self.rows.lines().count(), recorded.lines().count(), "answers.txt");
    }
}

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn ends(v6: bool) -> (SocketAddr, SocketAddr) {
    match v6 {
        false => (socket("10.0.0.1:1000"), socket("10.0.0.2:2000")),
        true => (socket("[fd00::1]:1000"), socket("[fd00::2]:2000")),
    }
}

/// All that the parsers say of a packet.
fn heard(packet: &[u8]) -> String {
    let mut said = format!("{:?} {:?}", IpPacket::parse(packet), Fragment::parse(packet));
    let template = HeaderTemplate::new(ends(packet[0] >> 4 == 6).1, ends(packet[0] >> 4 == 6).0, 64, 0);
    for timestamps in [false, true] {
        let predicted = Predicted::parse(packet, &template, timestamps, ChecksumState::Verified);
        write!(said, " {predicted:?}").unwrap();
    }
    let mut marked = packet.to_vec();
    write!(said, " {} {marked:x?}", ecn::mark(&mut marked)).unwrap();
    if let Ok(fragment) = Fragment::parse(packet) {
        write!(said, " {} {:?}", fragment.end(), fragment.assemble(&[7; 24], Codepoint::Ce)).unwrap();
    }
    let Ok(ip) = IpPacket::parse(packet) else { return said };
    write!(said, " {:?} {} {}", ip.ecn(), is_echo_request(&ip), is_icmp_error(&ip)).unwrap();
    write!(said, " {:?}", write_echo_reply(packet, &ip, 64, 1280)).unwrap();
    for checksum in [ChecksumState::Complete, ChecksumState::Verified] {
        match ip.payload {
            IpPayload::Tcp(bytes) => {
                let segment = Segment::parse(ip.src, ip.dst, bytes, checksum);
                let lens = segment.as_ref().map(|segment| (segment.seq_len(), options_len(&segment.options)));
                write!(said, " {segment:?} {lens:?}").unwrap();
            }
            IpPayload::Udp(bytes) => {
                write!(said, " {:?}", UdpDatagram::parse(ip.src, ip.dst, bytes, checksum)).unwrap();
            }
            IpPayload::Icmp4(bytes) => {
                write!(said, " {:?} {:?}", parse_icmp4(bytes), parse_udp_error4(bytes)).unwrap();
            }
            IpPayload::Icmp6(bytes) => {
                let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src, ip.dst) else { unreachable!() };
                write!(said, " {:?} {:?}", parse_icmp6(src, dst, bytes), parse_udp_error6(bytes)).unwrap();
            }
            IpPayload::Other(_) => {}
        }
    }
    said
}

/// Puts right the checksums that a change of the packet made wrong.
fn repair(packet: &mut [u8]) {
    let v4 = packet[0] >> 4 == 4;
    let ihl = if v4 { usize::from(packet[0] & 15) * 4 } else { 40 };
    if v4 && ihl >= 20 && packet.len() >= ihl {
        packet[10..12].fill(0);
        let sum = checksum::sum(&packet[..ihl]).checksum();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let Ok(ip) = IpPacket::parse(packet) else { return };
    let (at, bytes, protocol) = match ip.payload {
        IpPayload::Tcp(bytes) => (16, bytes, 6),
        IpPayload::Udp(bytes) => (6, bytes, 17),
        IpPayload::Icmp4(bytes) => (2, bytes, 1),
        IpPayload::Icmp6(bytes) => (2, bytes, 58),
        IpPayload::Other(_) => return,
    };
    let (src, dst, len) = (ip.src, ip.dst, bytes.len());
    let start = bytes.as_ptr() as usize - packet.as_ptr() as usize;
    if len < at + 2 {
        return;
    }
    packet[start + at..start + at + 2].fill(0);
    let pseudo =
        if protocol == 1 { checksum::Sum::ZERO } else { checksum::pseudo_header(src, dst, protocol, len) };
    let sum = pseudo.plus_bytes(&packet[start..start + len]).checksum();
    packet[start + at..start + at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn all_options() -> Vec<(&'static str, TcpOptions)> {
    let mut sack = SackBlocks::default();
    (0..3).for_each(|n| sack.push(SeqNum::new(100 * n), SeqNum::new(100 * n + 50)));
    let mut one = SackBlocks::default();
    one.push(SeqNum::new(u32::MAX - 5), SeqNum::new(7));
    let none = TcpOptions::default();
    let accecn = |order, len| Some(AccEcn::new(order, 0x11_2233, 0x44_5566, 0x77_8899).truncated(len));
    let user_timeout = |seconds| Some(UserTimeout::at_least(Duration::from_secs(seconds)));
    vec![
        ("plain", none),
        ("timestamps", TcpOptions { timestamps: Some((0x0102_0304, 0x0506_0708)), ..none }),
        (
            "syn",
            TcpOptions {
                mss: Some(1460),
                window_scale: Some(14),
                sack_permitted: true,
                timestamps: Some((1, 2)),
                ..none
            },
        ),
        ("sack", TcpOptions { timestamps: Some((1, 2)), sack, ..none }),
        ("sack-1", TcpOptions { sack: one, ..none }),
        ("accecn-3", TcpOptions { accecn: accecn(AccEcnOrder::Ect0First, 3), ..none }),
        ("accecn-2", TcpOptions { accecn: accecn(AccEcnOrder::Ect1First, 2), ..none }),
        ("accecn-0", TcpOptions { accecn: accecn(AccEcnOrder::Ect1First, 0), ..none }),
        (
            "experiment",
            TcpOptions { experiment: Some(Experiment { id: 0xf989_1234, value: [9; 8] }), ..none },
        ),
        ("user-timeout", TcpOptions { user_timeout: user_timeout(90), ..none }),
        ("cookie-0", TcpOptions { mss: Some(536), fast_open: FastOpenCookie::new(&[]), ..none }),
        ("cookie-8", TcpOptions { mss: Some(1), fast_open: FastOpenCookie::new(&[5; 8]), ..none }),
    ]
}

fn fields(flags: Flags, options: TcpOptions) -> Fields {
    let (seq, ack) = (SeqNum::new(0xffff_fff0), SeqNum::new(77));
    Fields { seq, ack, flags, window: 0x1234, urgent: 3, ecn: Codepoint::Ect0, options }
}

/// A packet of each kind.
fn packets() -> Vec<(String, Vec<u8>)> {
    let mut packets = Vec::new();
    for v6 in [false, true] {
        let (src, dst) = ends(v6);
        let family = if v6 { 6 } else { 4 };
        let mut template = HeaderTemplate::new(src, dst, 64, 0);
        for (name, options) in all_options() {
            let flags = if options.mss.is_some() { Flags::SYN } else { Flags::ACK | Flags::PSH };
            let mut header = [0; HEADER_MAX];
            let len =
                template.write(&mut header, &fields(flags, options), [b"hello", b"world"], TxChecksum::Full);
            packets.push((format!("tcp{family} {name}"), [&header[..len], b"helloworld"].concat()));
        }
        template.set_ttl(9);
        template.set_traffic_class(0x2c);
        template.set_flow_label(FlowLabel::new(0xa_bcde));
        let mut header = [0; HEADER_MAX];
        let len = template.write(
            &mut header,
            &fields(Flags::FIN, TcpOptions::default()),
            [&[], &[]],
            TxChecksum::Partial,
        );
        packets.push((format!("tcp{family} partial"), header[..len].to_vec()));
        let udp = UdpHeader { src, dst, ttl: 7, traffic_class: 0x29, flow_label: FlowLabel::new(5) };
        let datagram = write_udp(&udp, b"datagram").unwrap();
        for error in [
            IcmpError::PortUnreachable,
            IcmpError::ReassemblyTime,
            IcmpError::NetworkUnreachable,
            IcmpError::HostUnreachable,
            IcmpError::Prohibited,
        ] {
            for (about, quoted) in
                [("udp", &datagram), ("tcp", &packets.last().unwrap().1)].map(|(a, b)| (a, b.clone()))
            {
                if let Some(message) = write_error(error, &quoted, dst.ip(), src.ip(), 60) {
                    packets.push((format!("icmp{family} {error:?} {about}"), message));
                }
            }
        }
        packets.push((format!("udp{family}"), datagram));
    }
    packets.extend(by_hand());
    packets
}

/// Packets that the stack does not write: echo requests, fragments, options, extension headers.
fn by_hand() -> Vec<(String, Vec<u8>)> {
    let v4 = |protocol: u8, flags: u16, options: &[u8], payload: &[u8]| {
        let ihl = 20 + options.len();
        let total = u16::try_from(ihl + payload.len()).unwrap();
        let mut packet = vec![0x40 | u8::try_from(ihl / 4).unwrap(), 0];
        packet.extend(total.to_be_bytes());
        packet.extend([0x12, 0x34]);
        packet.extend(flags.to_be_bytes());
        packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(options);
        packet.extend(payload);
        packet
    };
    let v6 = |next: u8, payload: &[u8]| {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
        packet.extend([next, 64]);
        packet.extend("fd00::1".parse::<Ipv6Addr>().unwrap().octets());
        packet.extend("fd00::2".parse::<Ipv6Addr>().unwrap().octets());
        packet.extend(payload);
        packet
    };
    let udp = [0, 53, 0, 54, 0, 12, 0, 0, 1, 2, 3, 4];
    let echo = |kind: u8| [kind, 0, 0, 0, 0, 7, 0, 8, 1, 2, 3];
    let too_big = [&[3, 4, 0, 0, 0, 0, 5, 0][..], &v4(6, 0x4000, &[], &[0, 1, 0, 2, 0, 0, 0, 9])].concat();
    let big6 = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &v6(6, &[0, 1, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0])].concat();
    let packets = [
        ("echo4", v4(1, 0, &[], &echo(8))),
        ("echo4 reply", v4(1, 0, &[], &echo(0))),
        ("too big 4", v4(1, 0, &[], &too_big)),
        ("udp4 options", v4(17, 0x4000, &[1, 1, 7, 4, 4, 0, 0, 0], &udp)),
        ("udp4 source route", v4(17, 0, &[131, 7, 4, 10, 0, 0, 3, 0], &udp)),
        ("fragment4 first", v4(17, 0x2000, &[], &[5; 16])),
        ("fragment4 middle", v4(17, 0x2002, &[148, 4, 0, 0], &[5; 8])),
        ("fragment4 last", v4(17, 0x0004, &[], &[5; 3])),
        ("fragment4 far", v4(17, 0x1fff, &[], &[5; 3])),
        ("other4", v4(47, 0, &[], &[1, 2, 3])),
        ("echo6", v6(58, &echo(128))),
        ("too big 6", v6(58, &big6)),
        ("udp6 hop-by-hop", v6(0, &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &udp].concat())),
        (
            "udp6 destination",
            v6(60, &[&[17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &udp].concat()),
        ),
        ("udp6 routing", v6(43, &[&[17, 0, 0, 0, 0, 0, 0, 0][..], &udp].concat())),
        ("udp6 routing left", v6(43, &[&[17, 2, 0, 1, 0, 0, 0, 0][..], &[0; 16], &udp].concat())),
        (
            "udp6 two headers",
            v6(0, &[&[60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0][..], &udp].concat()),
        ),
        ("fragment6 first", v6(44, &[&[17, 0, 0, 1, 0, 0, 0, 9][..], &[5; 16]].concat())),
        ("fragment6 last", v6(44, &[&[17, 0, 0, 16, 0, 0, 0, 9][..], &[5; 3]].concat())),
        ("fragment6 whole", v6(44, &[&[17, 0, 0, 0, 0, 0, 0, 9][..], &udp].concat())),
        (
            "fragment6 behind",
            v6(0, &[&[44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 8, 0, 0, 0, 9][..], &[5; 3]].concat()),
        ),
        ("other6", v6(132, &[1, 2, 3])),
        ("none6", v6(59, &[])),
    ];
    packets.map(|(name, packet)| (name.to_owned(), packet)).to_vec()
}

fn parsers(page: &mut Page) {
    for (name, mut packet) in packets() {
        repair(&mut packet);
        page.row(&name, [heard(&packet)]);
        let longer = [&packet[..], &[0; 3]].concat();
        page.row(&format!("{name}, cut"), (1..=longer.len()).map(|len| heard(&longer[..len])));
        for repaired in [true, false] {
            let changed = (0..packet.len()).map(|at| {
                let mut said = String::new();
                for byte in
                    [packet[at].wrapping_add(1), packet[at].wrapping_sub(1), packet[at] ^ 0x80, 0, 0xff]
                {
                    let mut changed = packet.clone();
                    changed[at] = byte;
                    if repaired {
                        repair(&mut changed);
                    }
                    said += &heard(&changed);
                }
                said
            });
            page.row(&format!("{name}, changed{}", if repaired { "" } else { " alone" }), changed);
        }
        let states = [ChecksumState::Verified, ChecksumState::Complete].into_iter();
        let cut = states.flat_map(|checksum| [1, 3, 4, 5, 9, 10, 11, 100].map(|size| (checksum, size))).map(
            |(checksum, size)| {
                let mut pieces = Vec::new();
                let segment_size = NonZeroU16::new(size);
                gso::cut_contiguous(&packet, RxMeta { checksum, segment_size }, |piece| {
                    pieces.push(piece.to_vec())
                });
                format!("{pieces:?}")
            },
        );
        page.row(&format!("{name}, in pieces"), cut);
    }
}

fn writers(page: &mut Page) {
    for v6 in [false, true] {
        let (src, dst) = ends(v6);
        let template = HeaderTemplate::new(src, dst, 64, 0x28);
        let written = all_options().into_iter().map(|(_, options)| {
            let flow_label = FlowLabel::new(0xf_ffff);
            let fields = fields(Flags::ACK, options);
            let mut out = [0; HEADER_MAX];
            let len = write_control(
                &mut out,
                &ControlSegment { src, dst, ttl: 3, traffic_class: 0xff, flow_label, fields },
            );
            format!("{:?} {}", &out[..len], template.transport_offset())
        });
        page.row(if v6 { "control6" } else { "control4" }, written);
        let kinds = [(false, None, TxChecksum::Full), (true, Some((5, 6)), TxChecksum::Partial)];
        let plain = kinds.map(|(push, timestamps, checksum)| {
            let plain = Plain { seq: SeqNum::new(1), ack: SeqNum::new(2), push, window: 3, timestamps };
            let mut out = [0; HEADER_MAX];
            let len = template.write_plain(&mut out, &plain, 5, || [b"abc", b"de"], checksum);
            format!("{:?}", &out[..len])
        });
        page.row(if v6 { "plain6" } else { "plain4" }, plain);
        let pieces = [0_u16, 1, 3, 5, 7, 8, 9].into_iter().flat_map(|size| {
            [TxChecksum::Full, TxChecksum::Partial].map(|checksum| {
                let mut out = [0; HEADER_MAX];
                let flags = Flags::ACK | Flags::PSH | Flags::FIN | Flags::CWR;
                let len = template.write(
                    &mut out,
                    &fields(flags, TcpOptions::default()),
                    [b"abcd", b"efgh"],
                    checksum,
                );
                let at = ChecksumAt::tcp(template.transport_offset());
                let packet = TxPacket {
                    header: &out[..len],
                    transport_offset: template.transport_offset(),
                    payload: [b"abcd", b"efgh"],
                    segment_size: NonZeroU16::new(size),
                    checksum: if checksum == TxChecksum::Full {
                        ChecksumState::Complete
                    } else {
                        ChecksumState::Partial(at)
                    },
                };
                assert_eq!((packet.len(), packet.payload_len(), packet.is_empty()), (len + 8, 8, false));
                let mut pieces = format!("{at:?} {} {} {}", at.field(), at.is_tcp(), at.is_udp());
                gso::cut(&packet, |piece| write!(pieces, " {piece:?}").unwrap());
                let mut whole = [packet.header, packet.payload[0], packet.payload[1]].concat();
                gso::finish_checksum(&mut whole, at);
                format!("{pieces} {whole:?}")
            })
        });
        page.row(if v6 { "cut6" } else { "cut4" }, pieces);
    }
}

fn captures(page: &mut Page) {
    let empty = TxPacket {
        header: &[],
        transport_offset: 0,
        payload: [&[], &[]],
        segment_size: None,
        checksum: ChecksumState::Complete,
    };
    assert!(empty.is_empty());
    assert_eq!(empty.payload_len(), 0);
    assert!(ChecksumAt::udp(0).is_udp() && !ChecksumAt::udp(0).is_tcp());
    let mut file = vec![1, 2, 3];
    pcapng::section_header(&mut file);
    for link in [LinkType::Raw, LinkType::Ipv4, LinkType::Ipv6] {
        pcapng::interface(&mut file, "eth0", link, 96);
    }
    for (snap_len, direction, comment) in
        [(5, Direction::Sent, ""), (9, Direction::Received, "why"), (10, Direction::Sent, "four")]
    {
        let record = Record {
            interface: 2,
            time_ns: 0x0102_0304_0506_0708,
            direction,
            parts: &[b"abcd", b"efghi"],
            len: 77,
            comment,
        };
        pcapng::packet(&mut file, &record, snap_len);
    }
    // The version of the crate is in it.
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let at = file.windows(version.len()).position(|bytes| bytes == version).unwrap();
    file[at..at + version.len()].fill(b'v');
    page.row("pcapng", file.chunks(8).map(|bytes| format!("{bytes:?}")));
}

fn pattern() -> Vec<u8> {
    (0..200_u32).map(|n| (n * 37 + 11) as u8).collect()
}

fn numbers(page: &mut Page) {
    let edges = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, u32::MAX - 1, u32::MAX].map(SeqNum::new);
    page.row(
        "seq",
        edges.iter().flat_map(|&a| edges.map(|b| (a, b))).map(|(a, b)| {
            let order = [a.before(b), a.before_eq(b), a.after(b), a.after_eq(b)];
            let windows = [0, 1, 2, 0x8000_0000, u32::MAX].map(|len| a.in_window(b, len));
            format!(
                "{order:?} {windows:?} {} {} {} {} {}",
                a.offset_from(b),
                a.later(b),
                a.earlier(b),
                a + 7,
                a.raw()
            )
        }),
    );
    let bytes = pattern();
    page.row(
        "sums",
        (0..200).map(|len| {
            let (start, sum) = (len / 7, checksum::sum(&bytes[..len]));
            let parts = checksum::Sum::ZERO.plus_parts([&bytes[..start], &bytes[start..len]]);
            let more =
                sum.plus_u16(0xffff).plus_u32(0xfffe_fffd).plus_addr(ends(len % 2 == 0).0.ip()).plus(parts);
            format!("{} {} {} {}", sum.fold(), sum.checksum(), parts.fold(), more.fold())
        }),
    );
    page.row(
        "codepoints",
        (0..=255).map(|class| format!("{:?} {}", Codepoint::of(class), Codepoint::of(class).bits())),
    );
    page.row(
        "flags",
        (0..10).map(|bit| {
            let (a, b) = (Flags::from_bits(0x155 << (bit % 3)), Flags::from_bits(1 << bit | 1));
            let pairs = (a.contains(b), a.intersects(b), a.union(b), a.without(b), a | b);
            format!("{pairs:?} {:?} {} {} {:?}", a, a.ace(), a.bits(), Flags::from_ace(bit as u8 % 8))
        }),
    );
}

fn values(page: &mut Page) {
    let bytes = pattern();
    let times =
        [0, 1, 2, 29, 32_767, 32_768, 32_769, 59 * 60, 32_766 * 60, 32_767 * 60, 40_000 * 60, u64::MAX];
    page.row(
        "user timeouts",
        times.map(|seconds| {
            let timeout = UserTimeout::at_least(Duration::from_secs(seconds));
            format!(
                "{timeout:?} {:?} {:?}",
                timeout.duration(),
                UserTimeout::at_least(Duration::new(seconds, 1))
            )
        }),
    );
    page.row(
        "cookies",
        (0..20_usize).map(|len| {
            let cookie = FastOpenCookie::new(&bytes[..len]);
            format!("{:?}", cookie.map(|cookie| (cookie.as_slice().to_vec(), cookie.is_request())))
        }),
    );
    page.row(
        "labels",
        [0, 1, 0xf_ffff, 0x10_0000, u32::MAX].map(|bits| FlowLabel::new(bits).bits().to_string()),
    );
    page.row(
        "accecn",
        [AccEcnOrder::Ect0First, AccEcnOrder::Ect1First].into_iter().flat_map(|order| {
            (0..5).map(move |len| {
                let counts = AccEcn::new(order, 1, u32::MAX, 3).truncated(len);
                format!("{:?} {:?} {:?} {:?}", counts.order(), counts.ect0(), counts.ce(), counts.ect1())
            })
        }),
    );
    let mut sack = SackBlocks::default();
    page.row(
        "sack",
        (0..6)
            .map(|n| {
                let before = sack.is_empty();
                sack.push(SeqNum::new(n), SeqNum::new(n + 1));
                format!("{before} {:?}", sack.as_slice())
            })
            .collect::<Vec<_>>(),
    );
}

#[test]
fn every_packet_is_read_and_written_as_recorded() {
    let mut page = Page::default();
    for part in [parsers, writers, captures, numbers, values] {
        part(&mut page);
    }
    page.compare();
}
