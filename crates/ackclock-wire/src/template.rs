//! The prepared header of a connection.
//!
//! A connection's addresses, ports, TTL and traffic class rarely change, and neither does their part of the
//! checksums. A segment's header is therefore the template, copied and patched. The properties below compare
//! it with etherparse's builder, byte for byte.

use std::net::{IpAddr, SocketAddr};

use ackclock_form::{Form, FormError, Reader, Writer};

use crate::bytes::{put, read};
use crate::checksum::{Sum, pseudo_header, sum};
use crate::options::{NOP, OPTIONS_MAX, TIMESTAMPS, TcpOptions};
use crate::tcp::PROTOCOL;
use crate::{Codepoint, Flags, FlowLabel, SeqNum};

/// The header of one connection's segments, except the fields that change from segment to segment.
#[derive(Clone, Copy, Debug)]
pub struct HeaderTemplate {
    /// The IP header, with zero length and checksum fields. An IPv4 header takes the first half.
    pub(crate) ip: [u8; V6_LEN],
    /// Source and destination port.
    pub(crate) ports: u32,
    pub(crate) version: Version,
    /// Sum of `ip`, for IPv4 only.
    ip_sum: Sum,
    /// Sum of the pseudo-header without its length, which is the same in both directions.
    pub(crate) pseudo_sum: Sum,
}

/// The fields that change from segment to segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// SEG.SEQ.
    pub seq: SeqNum,
    /// SEG.ACK.
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// SEG.WND as on the wire.
    pub window: u16,
    /// SEG.UP.
    pub urgent: u16,
    /// The ECN field of the IP header, set on top of the template's traffic class.
    pub ecn: Codepoint,
    /// Options. Three SACK blocks fit beside timestamps; further ones are left out.
    pub options: TcpOptions,
}

/// The five fields that change from one plain segment to the next.
///
/// Nearly all segments of a transfer are plain. Their flags are ACK, with or without PSH, and their only
/// option is the timestamps, if they have any. [`Predicted`](crate::Predicted) recognises them at the other
/// end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain {
    /// SEG.SEQ.
    pub seq: SeqNum,
    /// SEG.ACK.
    pub ack: SeqNum,
    /// Whether it has PSH.
    pub push: bool,
    /// SEG.WND as on the wire.
    pub window: u16,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
}

/// Who computes a segment's TCP checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxChecksum {
    /// The full checksum over header and payload is written.
    Full,
    /// The sum of the pseudo-header is written; the device finishes the checksum.
    Partial,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

impl HeaderTemplate {
    /// The template of segments from `src` to `dst`. For addresses of different families the packets are
    /// IPv6, with the IPv4 address mapped (`::ffff:a.b.c.d`).
    #[must_use]
    pub fn new(src: SocketAddr, dst: SocketAddr, ttl: u8, traffic_class: u8) -> Self {
        let ports = u32::from(src.port()) << 16 | u32::from(dst.port());
        let pseudo_sum = pseudo_header(src.ip(), dst.ip(), PROTOCOL, 0);
        let mut ip = [0; V6_LEN];
        let version = match (src.ip(), dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                // RFC 6864 §4.1: with DF set (0x4000) the identification has no meaning. It stays 0, so that
                // it reveals nothing about other traffic.
                put(&mut ip, 0, [0x45, 0, 0, 0, 0, 0, 0x40, 0, 0, PROTOCOL]);
                put(&mut ip, 12, src.octets());
                put(&mut ip, 16, dst.octets());
                Version::V4
            }
            (src, dst) => {
                put(&mut ip, 0, [0x60, 0, 0, 0, 0, 0, PROTOCOL, 0]);
                put(&mut ip, 8, v6_octets(src));
                put(&mut ip, 24, v6_octets(dst));
                Version::V6
            }
        };
        let mut template = Self { ip, ports, version, ip_sum: Sum::ZERO, pseudo_sum };
        template.set_ttl(ttl);
        template.set_traffic_class(traffic_class);
        template
    }

    /// The source: the address and port that it was made from.
    #[must_use]
    #[inline]
    pub fn src(&self) -> SocketAddr {
        let [a, b, ..] = self.ports.to_be_bytes();
        SocketAddr::new(self.addr(12, 8), u16::from_be_bytes([a, b]))
    }

    /// The destination: the address and port that it was made for.
    #[must_use]
    #[inline]
    pub fn dst(&self) -> SocketAddr {
        let [.., c, d] = self.ports.to_be_bytes();
        SocketAddr::new(self.addr(16, 24), u16::from_be_bytes([c, d]))
    }

    /// Whether its packets are IPv4.
    #[must_use]
    #[inline]
    pub fn is_ipv4(&self) -> bool {
        self.version == Version::V4
    }

    /// The address that is at `v4` in an IPv4 header, and at `v6` in an IPv6 header.
    #[inline]
    fn addr(&self, v4: usize, v6: usize) -> IpAddr {
        match self.version {
            Version::V4 => IpAddr::from(read(&self.ip, v4).unwrap_or([0; 4])),
            Version::V6 => IpAddr::from(read(&self.ip, v6).unwrap_or([0; 16])),
        }
    }

    fn ttl(&self) -> u8 {
        match self.version {
            Version::V4 => self.ip[8],
            Version::V6 => self.ip[7],
        }
    }

    fn traffic_class(&self) -> u8 {
        match self.version {
            Version::V4 => self.ip[1],
            Version::V6 => self.ip[0] << 4 | self.ip[1] >> 4,
        }
    }

    /// Zero in IPv4.
    fn flow_label(&self) -> FlowLabel {
        match self.version {
            Version::V4 => FlowLabel::NONE,
            Version::V6 => FlowLabel::new(u32::from_be_bytes([0, self.ip[1] & 0x0f, self.ip[2], self.ip[3]])),
        }
    }

    /// Sets the time to live, or hop limit.
    // RFC 9293 MUST-49: it is configurable.
    pub fn set_ttl(&mut self, ttl: u8) {
        match self.version {
            Version::V4 => self.ip[8] = ttl,
            Version::V6 => self.ip[7] = ttl,
        }
        self.sum_ip();
    }

    /// Sets the type of service, or traffic class: its upper six bits, DSCP. [`Fields::ecn`] sets the ECN
    /// field.
    // RFC 9293 MUST-48: the Diffserv field can be set for a connection.
    // RFC 9293 SHLD-22: it is sent unchanged.
    pub fn set_traffic_class(&mut self, traffic_class: u8) {
        let traffic_class = traffic_class & !3;
        match self.version {
            Version::V4 => self.ip[1] = traffic_class,
            Version::V6 => {
                self.ip[0] = 0x60 | traffic_class >> 4;
                self.ip[1] = traffic_class << 4 | self.ip[1] & 0x0f;
            }
        }
        self.sum_ip();
    }

    /// Sets the flow label; unused in IPv4.
    pub fn set_flow_label(&mut self, label: FlowLabel) {
        if self.version == Version::V6 {
            let [_, high, middle, low] = label.bits().to_be_bytes();
            self.ip[1] = self.ip[1] & 0xf0 | high;
            put(&mut self.ip, 2, [middle, low]);
        }
    }

    /// Where the TCP header starts: 20 for IPv4, 40 for IPv6.
    #[must_use]
    #[inline]
    pub fn transport_offset(&self) -> u16 {
        match self.version {
            Version::V4 => 20,
            Version::V6 => 40,
        }
    }

    /// Writes the header of a segment with this payload. Returns its length. The whole packet, header and
    /// payload, must not exceed 65,535 bytes.
    #[inline]
    pub fn write(
        &self,
        out: &mut [u8; HEADER_MAX],
        fields: &Fields,
        payload: [&[u8]; 2],
        checksum: TxChecksum,
    ) -> usize {
        let Fields { seq, ack, flags, window, urgent, ecn, options } = fields;
        let fixed =
            Fixed { seq: *seq, ack: *ack, flags: *flags, window: *window, urgent: *urgent, ecn: *ecn };
        let payload_len = payload.iter().map(|part| part.len()).sum();
        let options = |out: &mut [u8; HEADER_MAX], at| write_options(out, at, options);
        self.write_with(out, &fixed, (payload_len, || payload), checksum, options)
    }

    /// Writes the header of a plain segment, with the same result as [`Self::write`] for the same fields, but
    /// without looking for others. The `payload` has `payload_len` bytes, and is only called if they need
    /// summing.
    #[inline]
    pub fn write_plain<'a>(
        &self,
        out: &mut [u8; HEADER_MAX],
        plain: &Plain,
        payload_len: usize,
        payload: impl FnOnce() -> [&'a [u8]; 2],
        checksum: TxChecksum,
    ) -> usize {
        let options = |out: &mut [u8; HEADER_MAX], at| write_timestamps(out, at, plain.timestamps);
        self.write_with(out, &plain.fixed(), (payload_len, payload), checksum, options)
    }

    /// Writes the header, with the options written by `options` at an offset. It is inlined, as is what it
    /// calls, so that all offsets, and what a plain segment never has, are constants.
    #[inline(always)]
    fn write_with<'a>(
        &self,
        out: &mut [u8; HEADER_MAX],
        fixed: &Fixed,
        payload: (usize, impl FnOnce() -> [&'a [u8]; 2]),
        checksum: TxChecksum,
        options: impl FnOnce(&mut [u8; HEADER_MAX], usize) -> (usize, Sum),
    ) -> usize {
        match self.version {
            Version::V4 => {
                out[..V4_LEN].copy_from_slice(&self.ip[..V4_LEN]);
                let options = options(out, V4_LEN + TCP_LEN);
                let (header_len, tcp_len) = self.write_tcp(out, V4_LEN, fixed, options, payload, checksum);
                let total_len = tcp_len.saturating_add(self.transport_offset());
                debug_assert!(total_len > tcp_len, "{tcp_len} bytes behind an IPv4 header");
                put(out, 2, total_len.to_be_bytes());
                out[1] |= fixed.ecn.bits();
                let ip_sum = self.ip_sum.plus_u16(total_len).plus_u16(fixed.ecn.bits().into());
                put(out, 10, ip_sum.checksum().to_be_bytes());
                header_len.saturating_add(V4_LEN)
            }
            Version::V6 => {
                out[..V6_LEN].copy_from_slice(&self.ip);
                let options = options(out, V6_LEN + TCP_LEN);
                let (header_len, tcp_len) = self.write_tcp(out, V6_LEN, fixed, options, payload, checksum);
                put(out, 4, tcp_len.to_be_bytes());
                out[1] |= fixed.ecn.bits() << 4;
                header_len.saturating_add(V6_LEN)
            }
        }
    }

    /// Writes the TCP header at `at`, in front of options already written. Returns its length, and the length
    /// with the payload in the form of a 16-bit field.
    #[inline(always)]
    fn write_tcp<'a>(
        &self,
        out: &mut [u8; HEADER_MAX],
        at: usize,
        fields: &Fixed,
        (options_len, options_sum): (usize, Sum),
        (payload_len, payload): (usize, impl FnOnce() -> [&'a [u8]; 2]),
        checksum: TxChecksum,
    ) -> (usize, u16) {
        let header_len = options_len.saturating_add(TCP_LEN);
        let tcp_len = length_field(header_len.saturating_add(payload_len));
        // At most 15 words: 4 bits.
        let offset = u32::try_from(header_len / 4).unwrap_or(0) << 28;
        let control = offset | u32::from(fields.flags.bits()) << 16 | u32::from(fields.window);
        let header = out.get_mut(at..).unwrap_or_default();
        put(header, 0, self.ports.to_be_bytes());
        put(header, 4, fields.seq.raw().to_be_bytes());
        put(header, 8, fields.ack.raw().to_be_bytes());
        put(header, 12, control.to_be_bytes());
        put(header, 18, fields.urgent.to_be_bytes());
        let pseudo = self.pseudo_sum.plus_u16(tcp_len);
        let field = match checksum {
            TxChecksum::Partial => pseudo.fold(),
            // RFC 9293 MUST-2: the checksum is always generated.
            TxChecksum::Full => pseudo
                .plus_u32(self.ports)
                .plus_u32(fields.seq.raw())
                .plus_u32(fields.ack.raw())
                .plus_u32(control)
                .plus_u16(fields.urgent)
                .plus(options_sum)
                .plus_parts(payload())
                .checksum(),
        };
        put(header, 16, field.to_be_bytes());
        (header_len, tcp_len)
    }

    fn sum_ip(&mut self) {
        self.ip_sum = sum(&self.ip[..V4_LEN]);
    }
}

impl Plain {
    #[inline]
    fn fixed(&self) -> Fixed {
        let flags = if self.push { Flags::ACK | Flags::PSH } else { Flags::ACK };
        let Self { seq, ack, window, .. } = *self;
        Fixed { seq, ack, flags, window, urgent: 0, ecn: Codepoint::NotEct }
    }
}

/// The fields that differ between two segments' headers, except options.
struct Fixed {
    seq: SeqNum,
    ack: SeqNum,
    flags: Flags,
    window: u16,
    urgent: u16,
    ecn: Codepoint,
}

/// Writes the options at `at`. Returns their length and sum.
#[inline(always)]
fn write_options(out: &mut [u8; HEADER_MAX], at: usize, options: &TcpOptions) -> (usize, Sum) {
    if options.only_timestamps() {
        write_timestamps(out, at, options.timestamps)
    } else {
        write_any_options(out, at, options)
    }
}

/// Writes the timestamps, if any.
#[inline(always)]
fn write_timestamps(out: &mut [u8; HEADER_MAX], at: usize, timestamps: Option<(u32, u32)>) -> (usize, Sum) {
    let Some((value, echo)) = timestamps else { return (0, Sum::ZERO) };
    // RFC 7323 appendix A: two NOPs align the two numbers.
    let kind = u32::from_be_bytes([NOP, NOP, TIMESTAMPS, 10]);
    let option = out.get_mut(at..).unwrap_or_default();
    put(option, 0, kind.to_be_bytes());
    put(option, 4, value.to_be_bytes());
    put(option, 8, echo.to_be_bytes());
    (12, Sum::ZERO.plus_u32(kind).plus_u32(value).plus_u32(echo))
}

/// Out of line: SYN segments and SACK blocks are rare.
#[cold]
fn write_any_options(out: &mut [u8; HEADER_MAX], at: usize, options: &TcpOptions) -> (usize, Sum) {
    let mut bytes = [0; OPTIONS_MAX];
    let len = options.write(&mut bytes);
    put(out, at, bytes);
    (len, sum(&bytes))
}

fn v6_octets(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
        IpAddr::V6(addr) => addr.octets(),
    }
}

/// A length in the form of a 16-bit field.
#[inline]
fn length_field(len: usize) -> u16 {
    debug_assert!(len <= usize::from(u16::MAX), "a packet of {len} bytes");
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// The longest header written: IPv6 and TCP with all its options.
pub const HEADER_MAX: usize = V6_LEN + TCP_LEN + OPTIONS_MAX;

const V4_LEN: usize = 20;
pub(crate) const V6_LEN: usize = 40;
const TCP_LEN: usize = 20;

// Every idle connection keeps one.
const _: () = assert!(size_of::<HeaderTemplate>() <= 104);

/// The sums follow from the rest, and lie in memory in the machine's byte order.
impl Form for HeaderTemplate {
    fn write(&self, out: &mut Writer) {
        let Self { ip, ports, version, ip_sum: _, pseudo_sum: _ } = self;
        ip.write(out);
        ports.write(out);
        version.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let (ip, ports, version) = (Form::read(input)?, Form::read(input)?, Form::read(input)?);
        let read = Self { ip, ports, version, ip_sum: Sum::ZERO, pseudo_sum: Sum::ZERO };
        let mut template = Self::new(read.src(), read.dst(), read.ttl(), read.traffic_class());
        template.set_flow_label(read.flow_label());
        let is_same = (template.ip, template.version) == (ip, version);
        is_same.then_some(template).ok_or(FormError::Invariant("HeaderTemplate"))
    }
}

ackclock_form::form! {
    struct Fields { seq, ack, flags, window, urgent, ecn, options }
    enum Version { 0 V4, 1 V6 }
}

#[cfg(test)]
mod tests;
