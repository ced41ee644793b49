//! TCP segments: flags and the parsed view (RFC 9293 §3.1).

use std::net::IpAddr;

use etherparse::TcpSlice;
use etherparse::err::tcp::HeaderSliceError;

use crate::checksum::{Sum, pseudo_header};
use crate::{ChecksumState, SeqNum, TcpOptions};

/// A parsed TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// SEG.SEQ.
    pub seq: SeqNum,
    /// SEG.ACK; meaningless without the ACK flag.
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// SEG.WND, not scaled.
    pub window: u16,
    /// SEG.UP; meaningless without the URG flag.
    pub urgent: u16,
    /// Options.
    pub options: TcpOptions,
    /// Payload.
    pub payload: &'a [u8],
}

/// The control bits of a segment (RFC 9293 §3.1, RFC 3168), as in byte 13 of the header. AE of RFC 9768 is
/// bit 8.
#[derive(Clone, Copy, Default)]
pub struct Flags(u16);

/// Why bytes are not a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TcpError {
    /// Fewer bytes than a header, or than the data offset says.
    #[error("the segment is shorter than its TCP header")]
    Length,
    /// A data offset below 5.
    #[error("the data offset is below 5 words and so within the fixed TCP header")]
    DataOffset,
    /// The checksum does not match the segment and its addresses.
    #[error("the TCP checksum is wrong")]
    Checksum,
    /// An option with a length below 2 or beyond the header.
    #[error("a TCP option has a length below 2 or reaches beyond the header")]
    OptionLength,
}

impl<'a> Segment<'a> {
    /// Parses and verifies the TCP segment in an IP packet between `src` and `dst`.
    ///
    /// MSS, window scale and SACK-permitted are left out of the options unless the segment is a SYN.
    ///
    /// # Errors
    /// The fault of the segment. Drop it without an answer.
    pub fn parse(
        src: IpAddr,
        dst: IpAddr,
        bytes: &'a [u8],
        checksum: ChecksumState,
    ) -> Result<Self, TcpError> {
        let tcp = TcpSlice::from_slice(bytes).map_err(refusal)?;
        if !is_intact(bytes, checksum, || pseudo_header(src, dst, PROTOCOL, bytes.len())) {
            return Err(TcpError::Checksum);
        }
        let Some([.., offset, control]) = tcp.header_slice().first_chunk::<14>() else {
            return Err(TcpError::Length);
        };
        let flags = Flags::from_bits(u16::from_be_bytes([*offset, *control]));
        // RFC 9293 MUST-5: options are accepted in any segment.
        let mut options = TcpOptions::parse(tcp.options())?;
        // Without a branch: hardly any segment has one.
        let flags = Flags(flags.0 | u16::from(options.user_timeout.is_some()) << Flags::RARE.0.ilog2());
        if !flags.contains(Flags::SYN) {
            options.drop_those_of_syns();
        }
        Ok(Self {
            src_port: tcp.source_port(),
            dst_port: tcp.destination_port(),
            seq: SeqNum::new(tcp.sequence_number()),
            ack: SeqNum::new(tcp.acknowledgment_number()),
            flags,
            window: tcp.window_size(),
            urgent: tcp.urgent_pointer(),
            options,
            payload: tcp.payload(),
        })
    }

    /// SEG.LEN: the payload, plus one each for SYN and FIN.
    #[must_use]
    #[inline]
    pub fn seq_len(&self) -> u32 {
        // A payload never exceeds 64 KiB.
        u32::try_from(self.payload.len())
            .unwrap_or(u32::MAX)
            .saturating_add(u32::from(self.flags.contains(Flags::SYN)))
            .saturating_add(u32::from(self.flags.contains(Flags::FIN)))
    }
}

/// Whether a segment's checksum is right or needs no check.
// RFC 9293 MUST-3: the checksum is checked, unless the packet never crossed a wire or the device did so. An
// unfinished checksum of another transport says nothing about this one.
#[inline]
pub(crate) fn is_intact(segment: &[u8], checksum: ChecksumState, pseudo_sum: impl FnOnce() -> Sum) -> bool {
    let is_settled = match checksum {
        ChecksumState::Complete => false,
        ChecksumState::Partial(at) => at.is_tcp(),
        ChecksumState::Verified => true,
    };
    is_settled || pseudo_sum().plus_bytes(segment).checksum() == 0
}

// A function instead of `From`, which would expose etherparse's type to users.
fn refusal(error: HeaderSliceError) -> TcpError {
    match error {
        HeaderSliceError::Len(_) => TcpError::Length,
        HeaderSliceError::Content(_) => TcpError::DataOffset,
    }
}

impl Flags {
    /// No bit set.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement field is significant.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is significant.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);
    /// Accurate ECN (RFC 9768), the low bit of byte 12.
    pub const AE: Self = Self(0x100);

    /// Not on the wire: the segment has an option for an open connection that hardly any segment has
    /// ([`TcpOptions::user_timeout`]). Code that tests for SYN finds it by the same test. It is never
    /// written.
    pub const RARE: Self = Self(0x8000);

    /// The three bits that make the ACE field (RFC 9768 §3.2.2).
    pub const ACE: Self = Self(0x1c0);

    /// The ACE field with this value. Three bits count: AE is the highest, ECE the lowest.
    #[must_use]
    pub const fn from_ace(ace: u8) -> Self {
        Self(((ace & 7) as u16) << 6)
    }

    /// The value of the ACE field, 0 to 7.
    #[must_use]
    pub const fn ace(self) -> u8 {
        ((self.0 >> 6) & 7) as u8
    }

    /// The nine bits: AE in bit 8, byte 13 of the header in the low byte.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x1ff)
    }

    /// The nine bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0 & 0x1ff
    }

    /// Whether all bits of `other` are set.
    #[must_use]
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set.
    #[must_use]
    #[inline]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The bits of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bits of `self` that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

// A flag that is not on the wire does not affect equality.
impl PartialEq for Flags {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for Flags {}

impl std::hash::Hash for Flags {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl std::fmt::Debug for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [(Flags, &str); 9] = [
            (Flags::SYN, "SYN"),
            (Flags::FIN, "FIN"),
            (Flags::RST, "RST"),
            (Flags::PSH, "PSH"),
            (Flags::ACK, "ACK"),
            (Flags::URG, "URG"),
            (Flags::ECE, "ECE"),
            (Flags::CWR, "CWR"),
            (Flags::AE, "AE"),
        ];
        let mut names = NAMES.iter().filter(|(flag, _)| self.contains(*flag)).map(|(_, name)| *name);
        f.write_str(names.next().unwrap_or("NONE"))?;
        names.try_for_each(|name| write!(f, ",{name}"))
    }
}

/// The protocol number of TCP in IP headers and pseudo-headers.
pub(crate) const PROTOCOL: u8 = 6;

ackclock_form::form! {
    struct Flags(bits)
}

#[cfg(test)]
mod tests;
