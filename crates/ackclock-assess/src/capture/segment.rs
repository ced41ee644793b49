//! Extracts what the assessments need from an IP packet, or from its beginning.
//!
//! Lengths come from the IP header, because captures truncate packets. Checksums are not checked: they are
//! wrong in captures at a sender whose device computes them.

use std::net::SocketAddr;

use ackclock_wire::{ChecksumState, Flags, SackBlocks, SeqNum, TcpOptions};
use etherparse::{LaxIpSlice, ip_number};

/// A captured TCP segment without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The time in nanoseconds since the clock's epoch.
    pub at: u64,
    /// SEG.SEQ.
    pub seq: SeqNum,
    /// SEG.ACK; meaningless without the ACK flag.
    pub ack: SeqNum,
    pub flags: Flags,
    /// SEG.WND, not scaled.
    pub window: u16,
    /// The identification field of IPv4; 0 in IPv6.
    pub id: u16,
    /// Bytes of payload.
    pub len: u32,
    /// Timestamps: (TSval, TSecr).
    pub timestamps: Option<(u32, u32)>,
    pub sack: SackBlocks,
    /// Whether it came from the connection's client, as far as that is known.
    pub from_client: bool,
}

/// A segment with what is only needed to assemble connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parsed {
    pub src: SocketAddr,
    pub dst: SocketAddr,
    pub mss: Option<u16>,
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub segment: Segment,
}

/// Why a packet is not a segment that can be assessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSegment {
    /// It carries another protocol.
    NotTcp,
    /// It is a fragment.
    Fragment,
    /// It was captured too short to tell.
    CutOff,
    /// Its headers are contradictory.
    Malformed,
}

/// Parses an IP packet of `len` bytes, of which `bytes` were captured at time `at`.
pub(crate) fn parse(bytes: &[u8], len: usize, at: u64) -> Result<Parsed, NoSegment> {
    let cut_off = if bytes.len() < len { NoSegment::CutOff } else { NoSegment::Malformed };
    let (ip, _) = LaxIpSlice::from_slice(bytes).map_err(|_| cut_off)?;
    let payload = ip.payload();
    if payload.fragmented {
        return Err(NoSegment::Fragment);
    }
    if payload.ip_number != ip_number::TCP {
        return Err(NoSegment::NotTcp);
    }
    let headers = payload.payload.as_ptr().addr().checked_sub(bytes.as_ptr().addr());
    let headers = headers.filter(|headers| *headers <= bytes.len()).ok_or(NoSegment::Malformed)?;
    let (stated, id) = match &ip {
        LaxIpSlice::Ipv4(v4) => (usize::from(v4.header().total_len()), v4.header().identification()),
        LaxIpSlice::Ipv6(v6) => match v6.header().payload_length() {
            0 => (0, 0),
            payload => (usize::from(payload) + 40, 0),
        },
    };
    // A length of 0 marks packets of more than 64 KB that the device has yet to cut.
    let tcp_len = if stated == 0 { len } else { stated }.checked_sub(headers).ok_or(NoSegment::Malformed)?;
    let header = Header::parse(payload.payload, cut_off)?;
    let payload_len = tcp_len.checked_sub(header.bytes).ok_or(NoSegment::Malformed)?;
    let segment = Segment {
        at,
        seq: header.seq,
        ack: header.ack,
        flags: header.flags,
        window: header.window,
        id,
        len: u32::try_from(payload_len).map_err(|_| NoSegment::Malformed)?,
        timestamps: header.options.timestamps,
        sack: header.options.sack,
        from_client: true,
    };
    let (src, dst) = (ip.source_addr(), ip.destination_addr());
    Ok(Parsed {
        src: SocketAddr::new(src, header.ports.0),
        dst: SocketAddr::new(dst, header.ports.1),
        mss: header.options.mss,
        window_scale: header.options.window_scale,
        sack_permitted: header.options.sack_permitted,
        segment,
    })
}

struct Header {
    ports: (u16, u16),
    seq: SeqNum,
    ack: SeqNum,
    flags: Flags,
    window: u16,
    options: TcpOptions,
    /// Its length.
    bytes: usize,
}

impl Header {
    /// Parses a segment's header, without its options if these were not captured.
    fn parse(bytes: &[u8], cut_off: NoSegment) -> Result<Self, NoSegment> {
        let fixed = bytes.first_chunk::<20>().ok_or(cut_off)?;
        let header_len = usize::from(fixed[12] >> 4) * 4;
        // As a header without options.
        let mut alone = *fixed;
        alone[12] = 5 << 4 | fixed[12] & 0xf;
        let header = bytes.get(..header_len).unwrap_or(&alone);
        // Addresses only affect the checksum, which is not checked.
        let nowhere = std::net::Ipv4Addr::UNSPECIFIED.into();
        let segment = ackclock_wire::Segment::parse(nowhere, nowhere, header, ChecksumState::Verified)
            .map_err(|_| NoSegment::Malformed)?;
        Ok(Self {
            ports: (segment.src_port, segment.dst_port),
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags,
            window: segment.window,
            options: segment.options,
            bytes: header_len.max(20),
        })
    }
}
