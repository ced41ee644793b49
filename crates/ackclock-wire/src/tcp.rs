//! TCP segments: flags, options, the parsed view (RFC 9293 §3.1, RFC 7323, RFC 2018).

use crate::SeqNum;

/// The control bits of a segment (RFC 9293 §3.1, RFC 3168), as they stand in byte 13 of the header; AE of
/// RFC 9768 is bit 8.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u16);

/// The options of a segment that this stack understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window scale shift count as received; a receiver clamps it to 14 (RFC 7323 §2.3).
    pub window_scale: Option<u8>,
    /// SACK-permitted.
    pub sack_permitted: bool,
    /// Timestamps: (TSval, TSecr).
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks, in order; the first may be a D-SACK.
    pub sack: SackBlocks,
}

/// Up to four SACK blocks: (left edge, right edge), right edge exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(SeqNum, SeqNum); 4],
    len: u8,
}

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

    /// The nine bits: AE in bit 8, byte 13 of the header in the low byte.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x1ff)
    }

    /// The nine bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
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

impl SackBlocks {
    /// Adds a block; beyond four it is left out.
    pub fn push(&mut self, left: SeqNum, right: SeqNum) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.len)) {
            *slot = (left, right);
            self.len += 1;
        }
    }

    /// The blocks in their order.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[(SeqNum, SeqNum)] {
        self.blocks.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Whether there is none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Segment<'_> {
    /// SEG.LEN: the payload and one each for SYN and FIN.
    #[must_use]
    #[inline]
    pub fn seq_len(&self) -> u32 {
        // A payload never exceeds 64 KiB.
        u32::try_from(self.payload.len()).unwrap_or(u32::MAX)
            + u32::from(self.flags.contains(Flags::SYN))
            + u32::from(self.flags.contains(Flags::FIN))
    }
}
