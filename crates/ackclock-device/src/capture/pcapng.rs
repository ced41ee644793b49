//! The pcapng file format, as far as one interface and its packets need it.
//!
//! Source: draft-ietf-opsawg-pcapng, "PCAP Now Generic (pcapng) Capture File Format" §3.1, §4.1-4.3.

/// Which way a captured packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Received,
    Sent,
}

/// Appends what a file starts with: a section header and the description of the interface `name`, whose packets
/// start at their IP header.
pub(super) fn file_header(out: &mut Vec<u8>, name: &str, snap_len: u32) {
    block(out, SECTION_HEADER, |body| {
        body.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        body.extend(1u16.to_le_bytes());
        body.extend(0u16.to_le_bytes());
        body.extend((-1i64).to_le_bytes()); // the section's length: not told
        option(body, SHB_USERAPPL, concat!("ackclock ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(body, END_OF_OPTIONS, &[]);
    });
    block(out, INTERFACE_DESCRIPTION, |body| {
        body.extend(LINKTYPE_RAW.to_le_bytes());
        body.extend(0u16.to_le_bytes());
        body.extend(snap_len.to_le_bytes());
        option(body, IF_NAME, name.as_bytes());
        option(body, IF_TSRESOL, &[9]); // 10^-9 s
        option(body, END_OF_OPTIONS, &[]);
    });
}

/// Appends one packet, given in parts, of which at most `snap_len` bytes are kept.
pub(super) fn packet(out: &mut Vec<u8>, time_ns: u64, direction: Direction, parts: &[&[u8]], snap_len: u32) {
    let len = parts.iter().map(|part| part.len()).sum::<usize>();
    let kept = len.min(usize_from(snap_len));
    block(out, ENHANCED_PACKET, |body| {
        body.extend(0u32.to_le_bytes()); // the interface
        body.extend(((time_ns >> 32) as u32).to_le_bytes());
        body.extend((time_ns as u32).to_le_bytes());
        body.extend(u32_from(kept).to_le_bytes());
        body.extend(u32_from(len).to_le_bytes());
        let mut left = kept;
        for part in parts {
            let part = &part[..part.len().min(left)];
            body.extend_from_slice(part);
            left -= part.len();
        }
        pad(body, kept);
        let flags: u32 = if direction == Direction::Received { 1 } else { 2 };
        option(body, EPB_FLAGS, &flags.to_le_bytes());
        option(body, END_OF_OPTIONS, &[]);
    });
}

/// Appends a block: its type, its length, what `fill` appends, and the length once more.
fn block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    fill(out);
    let len = u32_from(out.len() - start + 4).to_le_bytes();
    out[start + 4..start + 8].copy_from_slice(&len);
    out.extend(len);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    pad(body, value.len());
}

/// Fills up to a multiple of four bytes.
fn pad(body: &mut Vec<u8>, len: usize) {
    body.extend(&[0; 3][..len.next_multiple_of(4) - len]);
}

/// Blocks are far below 4 GiB.
fn u32_from(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn usize_from(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Packets start at the IP header, whose version tells IPv4 from IPv6.
const LINKTYPE_RAW: u16 = 101;

const END_OF_OPTIONS: u16 = 0;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
