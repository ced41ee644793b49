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
