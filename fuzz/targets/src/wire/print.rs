//! Fields of headers, printed and read back: the other direction of `packet`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ackclock_tests::segment::Frame;
use ackclock_wire::fragment::Fragment;
use ackclock_wire::icmp_out::{OutgoingIcmpError, write_error};
use ackclock_wire::{
    AccEcn, AccEcnOrder, ChecksumState, Codepoint, Experiment, FastOpenCookie, Fields, Flags, FlowLabel,
    HEADER_MAX, HeaderTemplate, IpPayload, SackBlocks, Segment, SeqNum, TcpOptions, TxChecksum, UdpDatagram,
    UdpHeader, UserTimeout, options_len, parse_icmp4, parse_icmp6, write_udp,
};
use arbitrary::{Arbitrary, Unstructured};

use super::Count;
use super::tcp::fewer_options;

/// One packet to print.
#[derive(Debug, Arbitrary)]
struct Printed {
    v6: bool,
    addresses: [[u8; 16]; 2],
    ports: (u16, u16),
    ttl: u8,
    traffic_class: u8,
    flow_label: u32,
    what: What,
    payload: Payload,
}

/// Bytes that cost an input three, whatever their number.
#[derive(Debug)]
struct Payload(Vec<u8>);

impl<'a> Arbitrary<'a> for Payload {
    fn arbitrary(unstructured: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let (len, fill) = (u16::arbitrary(unstructured)? % PAYLOAD_MAX, u8::arbitrary(unstructured)?);
        let len = len >> (fill % 8);
        Ok(Self((0..len).map(|number| (number as u8).wrapping_mul(fill)).collect()))
    }
}

#[derive(Debug, Arbitrary)]
enum What {
    Segment { numbers: (u32, u32, u16, u16, u16), ecn: u8, options: Options },
    Datagram,
    Error { kind: u8 },
    Fragments { identification: u16, size: u8 },
}

#[derive(Debug, Arbitrary)]
struct Options {
    mss: Option<u16>,
    window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: Option<(u32, u32)>,
    sack: [(u32, u32); 4],
    blocks: u8,
    accecn: Option<(bool, [u32; 3], u8)>,
    experiment: Option<(u32, [u8; 8])>,
    user_timeout: Option<u32>,
    fast_open: Option<([u8; 16], u8)>,
}

/// Prints all the packets that the bytes describe.
pub(crate) fn print(bytes: &[u8]) -> u64 {
    let mut count = Count(0);
    let mut unstructured = Unstructured::new(bytes);
    while !unstructured.is_empty() {
        let Ok(printed) = Printed::arbitrary(&mut unstructured) else { break };
        printed.check(&mut count);
    }
    count.0
}

impl Printed {
    fn check(&self, count: &mut Count) {
        match &self.what {
            What::Segment { numbers, ecn, options } => {
                let &(seq, ack, flags, window, urgent) = numbers;
                let (seq, ack, flags) = (SeqNum::new(seq), SeqNum::new(ack), Flags::from_bits(flags));
                let (ecn, options) = (Codepoint::of(*ecn), options.options());
                self.segment(&Fields { seq, ack, flags, window, urgent, ecn, options }, count);
            }
            What::Datagram => self.datagram(count),
            What::Error { kind } => self.error(*kind, count),
            What::Fragments { identification, size } => self.fragments(*identification, *size, count),
        }
    }

    fn sockets(&self) -> (SocketAddr, SocketAddr) {
        let addr = |octets: [u8; 16]| -> IpAddr {
            match self.v6 {
                true => octets.into(),
                false => [octets[0], octets[1], octets[2], octets[3]].into(),
            }
        };
        let [src, dst] = self.addresses.map(addr);
        (SocketAddr::new(src, self.ports.0), SocketAddr::new(dst, self.ports.1))
    }

    fn template(&self) -> HeaderTemplate {
        let (src, dst) = self.sockets();
        let mut template = HeaderTemplate::new(src, dst, self.ttl, self.traffic_class);
        template.set_flow_label(FlowLabel::new(self.flow_label));
        template
    }

    /// A segment in one piece.
    fn written(&self, fields: &Fields) -> Vec<u8> {
        let mut header = [0; HEADER_MAX];
        let payload = &self.payload.0[..];
        let (one, other) = payload.split_at(payload.len() / 2);
        let len = self.template().write(&mut header, fields, [one, other], TxChecksum::Full);
        let fixed = usize::from(self.template().transport_offset()) + 20;
        assert_eq!(len, fixed + options_len(&fields.options), "the length of the options as computed");
        [&header[..len], one, other].concat()
    }

    fn segment(&self, fields: &Fields, count: &mut Count) {
        let packet = self.written(fields);
        let ip = super::ip::judge(&packet, count).expect("what is printed is a packet");
        assert_eq!((ip.ttl, ip.traffic_class), (self.ttl, self.traffic_class & !3 | fields.ecn.bits()));
        let IpPayload::Tcp(bytes) = ip.payload else { panic!("no segment: {ip:?}") };
        super::tcp::judge(&ip, bytes, count);
        let read = Segment::parse(ip.src, ip.dst, bytes, ChecksumState::Complete).expect("it is right");
        count.one();
        assert_eq!((read.seq, read.ack, read.flags), (fields.seq, fields.ack, fields.flags));
        assert_eq!((read.window, read.urgent), (fields.window, fields.urgent));
        assert_eq!(read.payload, self.payload.0);
        if fields.flags.contains(Flags::SYN) {
            fewer_options(&read.options, &fields.options);
        }
        // The tests' own reader stands on etherparse alone, and is stricter than a receiver has to be.
        let frame = Frame::parse(&packet).unwrap_or_else(|why| panic!("{why}: {packet:02x?}"));
        assert_eq!((frame.src, frame.dst), self.sockets());
        if self.v6 {
            assert_eq!(frame.flow_label, FlowLabel::new(self.flow_label).bits());
        }
    }

    fn datagram(&self, count: &mut Count) {
        let (src, dst) = self.sockets();
        let flow_label = FlowLabel::new(self.flow_label);
        let header = UdpHeader { src, dst, ttl: self.ttl, traffic_class: self.traffic_class, flow_label };
        let packet = write_udp(&header, &self.payload.0).expect("it is short, and both are of one family");
        let ip = super::ip::judge(&packet, count).expect("what is printed is a packet");
        let IpPayload::Udp(bytes) = ip.payload else { panic!("no datagram: {ip:?}") };
        super::udp::judge(&ip, bytes, count);
        count.one();
        let read = UdpDatagram::parse(ip.src, ip.dst, bytes, ChecksumState::Complete).expect("it is right");
        assert_eq!(
            (read.src_port, read.dst_port, read.payload),
            (src.port(), dst.port(), &self.payload.0[..])
        );
    }

    /// An ICMP error about a segment names the segment.
    fn error(&self, kind: u8, count: &mut Count) {
        let (src, dst) = self.sockets();
        let fields = Fields { seq: SeqNum::new(self.flow_label), flags: Flags::ACK, ..Fields::default() };
        let about = self.written(&fields);
        let error = ERRORS[usize::from(kind) % ERRORS.len()];
        let packet = write_error(error, &about, dst.ip(), src.ip(), self.ttl).expect("both of one family");
        assert!(packet.len() <= if self.v6 { 1280 } else { 576 }, "{} bytes", packet.len());
        let ip = super::ip::judge(&packet, count).expect("what is printed is a packet");
        count.one();
        let report = match (ip.payload, ip.src, ip.dst) {
            (IpPayload::Icmp4(message), ..) => parse_icmp4(message),
            (IpPayload::Icmp6(message), IpAddr::V6(from), IpAddr::V6(to)) => parse_icmp6(from, to, message),
            _ => panic!("no message: {ip:?}"),
        };
        let report = report.expect("it is right").expect("it is about a segment");
        assert_eq!((report.src, report.dst, report.seq), (src, dst, fields.seq));
    }

    /// A packet that is cut into fragments and put together again is what it was.
    fn fragments(&self, identification: u16, size: u8, count: &mut Count) {
        if self.v6 {
            return;
        }
        let mut packet = self.written(&Fields { flags: Flags::ACK, ..Fields::default() });
        let size = usize::from(size).max(3).next_multiple_of(8).max(24);
        packet[4..6].copy_from_slice(&identification.to_be_bytes());
        packet[6] = 0;
        super::repair(&mut packet);
        let (head, payload) = packet.split_at(20);
        let mut parts = Vec::new();
        let mut first = None;
        let pieces: Vec<Vec<u8>> = payload
            .chunks(size)
            .enumerate()
            .map(|(number, part)| {
                fragment(head, part, number * size / 8, (number + 1) * size < payload.len())
            })
            .collect();
        for (number, piece) in pieces.iter().enumerate().filter(|_| pieces.len() > 1) {
            count.one();
            let fragment = Fragment::parse(piece).expect("what is printed is a fragment");
            assert_eq!((fragment.offset, fragment.more), (number * size, number + 1 < pieces.len()));
            parts.extend_from_slice(fragment.payload);
            first = first.or(Some(fragment));
        }
        if let Some(first) = first {
            let ecn = Codepoint::of(packet[1]);
            assert_eq!(first.assemble(&parts, ecn).as_ref(), Some(&packet));
        }
    }
}

impl Options {
    fn options(&self) -> TcpOptions {
        let mut sack = SackBlocks::default();
        for (left, right) in &self.sack[..usize::from(self.blocks % 5)] {
            sack.push(SeqNum::new(*left), SeqNum::new(*right));
        }
        let accecn = self.accecn.map(|(ect1_first, [ect0, ce, ect1], len)| {
            let order = if ect1_first { AccEcnOrder::Ect1First } else { AccEcnOrder::Ect0First };
            AccEcn::new(order, ect0, ce, ect1).truncated(len % 4)
        });
        let seconds = |seconds: u32| UserTimeout::at_least(Duration::from_secs(seconds.into()));
        TcpOptions {
            mss: self.mss,
            window_scale: self.window_scale,
            sack_permitted: self.sack_permitted,
            timestamps: self.timestamps,
            sack,
            accecn,
            experiment: self.experiment.map(|(id, value)| Experiment { id, value }),
            user_timeout: self.user_timeout.map(seconds),
            fast_open: self
                .fast_open
                .and_then(|(bytes, len)| FastOpenCookie::new(&bytes[..usize::from(len % 17)])),
        }
    }
}

/// A fragment of IPv4 with this part of the payload, `offset` times eight bytes behind its beginning.
fn fragment(head: &[u8], part: &[u8], offset: usize, more: bool) -> Vec<u8> {
    let mut packet = [head, part].concat();
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    let flags = (offset as u16 | if more { 0x2000 } else { 0 }).to_be_bytes();
    packet[6..8].copy_from_slice(&flags);
    packet[10..12].fill(0);
    let sum = ackclock_wire::checksum::sum(&packet[..20]).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

const PAYLOAD_MAX: u16 = 2000;
const ERRORS: [OutgoingIcmpError; 5] = [
    OutgoingIcmpError::PortUnreachable,
    OutgoingIcmpError::ReassemblyTime,
    OutgoingIcmpError::NetworkUnreachable,
    OutgoingIcmpError::HostUnreachable,
    OutgoingIcmpError::Prohibited,
];
