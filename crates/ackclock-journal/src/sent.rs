//! A packet that left, as far as a replay compares it: everything but the payload's bytes and the transport's
//! checksum, which covers them.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU16;

use ackclock_wire::{ChecksumState, Flags, IpPacket, IpPayload, Segment, TxPacket};

use super::value::Value;
use ackclock_form::{FormError, Reader, Writer};

/// A packet that left.
#[derive(Clone, PartialEq, Eq)]
pub struct SentPacket {
    /// The IP header and the transport's, whose checksum is zero; of what is neither TCP nor UDP, the first
    /// [`HEAD_MAX`] bytes.
    head: Vec<u8>,
    /// The whole packet's length in bytes.
    len: u32,
    segment_size: Option<NonZeroU16>,
    /// Whether the device is to finish the checksum.
    partial: bool,
}

impl SentPacket {
    pub(super) fn new(packet: &TxPacket<'_>) -> Self {
        let start = usize::from(packet.transport_offset);
        let byte = |at: usize| packet.header.get(at).copied();
        let version = byte(0).map(|byte| byte >> 4);
        let protocol = if version == Some(4) { byte(9) } else { byte(6) };
        let (transport, checksum) = match protocol {
            Some(TCP) => (usize::from(byte(start.saturating_add(12)).unwrap_or(0) >> 4) << 2, Some(16)),
            Some(UDP) => (8, Some(6)),
            _ => (HEAD_MAX, None),
        };
        let end = start.saturating_add(transport).min(HEAD_MAX).min(packet.header.len());
        let mut head = packet.header.get(..end).unwrap_or_default().to_vec();
        let field = checksum.map(|at| start.saturating_add(at));
        if let Some(field) = field.and_then(|at| head.get_mut(at..at.saturating_add(2))) {
            field.fill(0);
        }
        Self {
            head,
            len: u32::try_from(packet.len()).unwrap_or(u32::MAX),
            segment_size: packet.segment_size,
            partial: packet.checksum.is_partial(),
        }
    }

    /// Both ends, the sender first, if it is TCP's or UDP's.
    #[must_use]
    pub fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        let whole = self.whole();
        let ip = IpPacket::parse(&whole).ok()?;
        let (IpPayload::Tcp(bytes) | IpPayload::Udp(bytes)) = ip.payload else { return None };
        let port = |at| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        Some((SocketAddr::new(ip.src, port(0)?), SocketAddr::new(ip.dst, port(2)?)))
    }

    /// The packet with zeros for its payload, its lengths those of the whole.
    fn whole(&self) -> Vec<u8> {
        let mut whole = self.head.clone();
        let len = self.len.min(u32::from(u16::MAX) + 40) as usize;
        whole.resize(len.max(whole.len()), 0);
        whole
    }
}

impl Value for SentPacket {
    fn put(&self, out: &mut Writer) {
        self.head.len().put(out);
        out.extend_from_slice(&self.head);
        self.len.put(out);
        self.segment_size.put(out);
        self.partial.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let len = usize::take(input)?;
        Ok(Self {
            head: input.bytes(len)?.to_vec(),
            len: Value::take(input)?,
            segment_size: Value::take(input)?,
            partial: Value::take(input)?,
        })
    }
}

impl fmt::Display for SentPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.whole();
        let parsed = IpPacket::parse(&whole);
        let segment = parsed.as_ref().ok().and_then(|ip| match ip.payload {
            IpPayload::Tcp(bytes) => Segment::parse(ip.src, ip.dst, bytes, ChecksumState::Verified).ok(),
            _ => None,
        });
        let (Ok(ip), Some(segment)) = (&parsed, segment) else {
            return write!(f, "{} bytes that begin {:02x?}", self.len, self.head);
        };
        let (from, to) =
            (SocketAddr::new(ip.src, segment.src_port), SocketAddr::new(ip.dst, segment.dst_port));
        write!(f, "{from} > {to} [{:?}] seq {}", segment.flags, segment.seq)?;
        if segment.flags.contains(Flags::ACK) {
            write!(f, " ack {}", segment.ack)?;
        }
        write!(f, " win {} len {}", segment.window, segment.payload.len())?;
        if let Some(size) = self.segment_size {
            write!(f, " in segments of {size}")?;
        }
        write!(f, ", ttl {}, class {}, {}", ip.ttl, ip.traffic_class, segment.options)
    }
}

impl fmt::Debug for SentPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;
/// IPv6's header and the longest of TCP.
pub(super) const HEAD_MAX: usize = 100;
