//! The pcapng file format, as far as interfaces with IP packets need it.
//!
//! Source: draft-ietf-opsawg-pcapng, "PCAP Now Generic (pcapng) Capture File Format" §3.1, §4.1-4.3. Blocks
//! are appended to a buffer, which the caller writes to a file.

use crate::bytes::put;

/// The direction of a captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    Received,
    /// Sent.
    Sent,
}

/// A packet to write.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The interface, counted from 0 in the order of their descriptions.
    pub interface: u32,
    /// The time in nanoseconds since 1970.
    pub time_ns: u64,
    /// The direction.
    pub direction: Direction,
    /// The captured bytes, in parts.
    pub parts: &'a [&'a [u8]],
    /// The original length in bytes.
    pub len: usize,
    /// A comment; none if empty.
    pub comment: &'a str,
}

/// The header with which an interface's packets begin: <https://www.tcpdump.org/linktypes.html>.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// An IP header of either version. libpcap (1.10) does not read a file with several such interfaces.
    Raw,
    /// An IPv4 header.
    Ipv4,
    /// An IPv6 header.
    Ipv6,
}

/// Appends the section header, which starts a file.
pub fn section_header(out: &mut Vec<u8>) {
    block(out, SECTION_HEADER, |body| {
        body.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        body.extend(1u16.to_le_bytes());
        body.extend(0u16.to_le_bytes());
        body.extend((-1i64).to_le_bytes()); // the section's length: unspecified
        option(body, SHB_USERAPPL, concat!("ackclock ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(body, END_OF_OPTIONS, &[]);
    });
}

/// Appends the description of interface `name`, whose packets start at their IP header and have times in
/// nanoseconds.
pub fn interface(out: &mut Vec<u8>, name: &str, link_type: LinkType, snap_len: u32) {
    let link_type: u16 = match link_type {
        LinkType::Raw => 101,
        LinkType::Ipv4 => 228,
        LinkType::Ipv6 => 229,
    };
    block(out, INTERFACE_DESCRIPTION, |body| {
        body.extend(link_type.to_le_bytes());
        body.extend(0u16.to_le_bytes());
        body.extend(snap_len.to_le_bytes());
        option(body, IF_NAME, name.as_bytes());
        option(body, IF_TSRESOL, &[9]); // 10^-9 s
        option(body, END_OF_OPTIONS, &[]);
    });
}

/// Appends one packet, of which at most `snap_len` bytes are kept.
pub fn packet(out: &mut Vec<u8>, record: &Record<'_>, snap_len: u32) {
    let given = record.parts.iter().map(|part| part.len()).sum::<usize>();
    let kept = given.min(usize::try_from(snap_len).unwrap_or(usize::MAX));
    block(out, ENHANCED_PACKET, |body| {
        body.extend(record.interface.to_le_bytes());
        let [low, high] = halves(record.time_ns);
        body.extend(high.to_le_bytes());
        body.extend(low.to_le_bytes());
        body.extend(u32_from(kept).to_le_bytes());
        body.extend(u32_from(record.len).to_le_bytes());
        body.extend(record.parts.iter().flat_map(|part| part.iter()).take(kept));
        pad(body, kept);
        let flags: u32 = if record.direction == Direction::Received { 1 } else { 2 };
        if !record.comment.is_empty() {
            option(body, COMMENT, record.comment.as_bytes());
        }
        option(body, EPB_FLAGS, &flags.to_le_bytes());
        option(body, END_OF_OPTIONS, &[]);
    });
}

/// Appends a block: its type, its length, the content from `fill`, and the length again.
fn block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    fill(out);
    let block = out.get_mut(start..).unwrap_or_default();
    let len = u32_from(block.len().saturating_add(4)).to_le_bytes();
    put(block, 4, len);
    out.extend(len);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
    body.extend(code.to_le_bytes());
    body.extend(len.to_le_bytes());
    body.extend(value.iter().take(len.into()));
    pad(body, len.into());
}

/// Pads to a multiple of four bytes.
fn pad(body: &mut Vec<u8>, len: usize) {
    body.extend(std::iter::repeat_n(0, len.next_multiple_of(4).saturating_sub(len)));
}

/// The lower and the upper half.
fn halves(word: u64) -> [u32; 2] {
    [word & 0xffff_ffff, word >> 32].map(|half| u32::try_from(half).unwrap_or(u32::MAX))
}

/// Blocks are far below 4 GiB.
fn u32_from(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
