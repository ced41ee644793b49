//! Capture files: pcap with micro- and nanoseconds, pcapng with several interfaces, in either byte order.
//!
//! A file is read block by block through a buffer that grows to the largest block, at most
//! [`BLOCK_BYTES_MAX`]. Nothing after a broken block is read, because the start of the next one is unknown.

use std::io::{Cursor, Read};

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, InterfaceDescriptionBlock, PcapBlockOwned, PcapError, PcapHeader, create_reader};

/// A captured frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The interface of the file, from 0.
    pub interface: u32,
    /// The time in nanoseconds since 1970.
    pub time_ns: u64,
    /// Its link type: a number of <https://www.tcpdump.org/linktypes.html>.
    pub link_type: u16,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// The original length.
    pub len: u32,
}

/// How far a file could be read, in bytes from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadExtent {
    /// To its end.
    Whole,
    /// To a frame that the end of the file truncates.
    CutOff {
        /// Bytes before it.
        at: u64,
    },
    /// To bytes that are not a block.
    Broken {
        /// Bytes before them.
        at: u64,
    },
    /// The system could not read on.
    Unreadable {
        /// Bytes before that.
        at: u64,
    },
}

/// Why the input is not a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotCapture {
    /// It is empty.
    #[error("is empty: was the capture stopped before anything was written? (tcpdump -U writes at once)")]
    Empty,
    /// It is gzip.
    #[error("is compressed: unpack it first, as `gzip -dk FILE`")]
    Gzip,
    /// It is something else.
    #[error("is neither pcap nor pcapng: capture with `tcpdump -w FILE`, or convert with `editcap`")]
    Unknown,
    /// It is too short.
    #[error("ends within its first header: it holds no packet")]
    Header,
    /// It cannot be read.
    #[error("cannot be read: name a file, not a folder")]
    Unreadable,
}

/// Passes each frame of a capture to `each`, in the file's order. Also returns how many frames were on
/// interfaces that the file does not describe.
///
/// # Errors
/// The input is not a capture. One that breaks off later is read as far as it goes: see [`ReadExtent`].
pub fn read(
    input: impl Read + Send,
    mut each: impl FnMut(&Frame<'_>),
) -> Result<(ReadExtent, u64), NotCapture> {
    let mut input = Full(input);
    let mut magic = [0; 2];
    let known = input.read(&mut magic).map_err(|_| NotCapture::Unreadable)?;
    if magic == GZIP_MAGIC {
        return Err(NotCapture::Gzip);
    }
    let whole = Full(Cursor::new(magic).take(known as u64).chain(input));
    let mut reader = match create_reader(BUFFER_BYTES, whole) {
        Ok(reader) => reader,
        Err(PcapError::Eof) => return Err(NotCapture::Empty),
        Err(PcapError::Incomplete(_) | PcapError::UnexpectedEof) => return Err(NotCapture::Header),
        Err(PcapError::ReadError) => return Err(NotCapture::Unreadable),
        Err(_) => return Err(NotCapture::Unknown),
    };
    let mut state = State::default();
    let mut buffer_bytes = BUFFER_BYTES;
    loop {
        let at = reader.consumed() as u64;
        let offset = match reader.next() {
            Ok((offset, block)) => {
                state.block(&block, &mut each);
                offset
            }
            Err(PcapError::Eof) => return Ok((ReadExtent::Whole, state.undescribed)),
            Err(PcapError::Incomplete(_)) => {
                if reader.refill().is_err() {
                    return Ok((ReadExtent::Unreadable { at }, state.undescribed));
                }
                continue;
            }
            Err(PcapError::BufferTooSmall) => {
                buffer_bytes *= 2;
                if buffer_bytes > BLOCK_BYTES_MAX || !reader.grow(buffer_bytes) {
                    return Ok((ReadExtent::Broken { at }, state.undescribed));
                }
                if reader.refill().is_err() {
                    return Ok((ReadExtent::Unreadable { at }, state.undescribed));
                }
                continue;
            }
            Err(PcapError::UnexpectedEof) => return Ok((ReadExtent::CutOff { at }, state.undescribed)),
            Err(_) => return Ok((ReadExtent::Broken { at }, state.undescribed)),
        };
        reader.consume(offset);
    }
}

/// A reader that fills its buffer unless the input ends: a pipe may deliver the first header in pieces.
struct Full<R>(R);

impl<R: Read> Read for Full<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.0.read(rest) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // What was read counts. The error recurs.
                Err(error) => return if filled > 0 { Ok(filled) } else { Err(error) },
            }
        }
        Ok(filled)
    }
}

/// The blocks read so far.
#[derive(Default)]
struct State {
    /// For pcap: nanoseconds per unit of its fractions, and the link type.
    legacy: (u64, u16),
    /// The interfaces of the present section of a pcapng file.
    interfaces: Vec<Interface>,
    /// The number of interfaces in earlier sections.
    before: u32,
    undescribed: u64,
}

struct Interface {
    link_type: u16,
    /// Units a second.
    resolution: u128,
    offset_s: i64,
    snap_len: u32,
}

impl State {
    fn block(&mut self, block: &PcapBlockOwned<'_>, each: &mut impl FnMut(&Frame<'_>)) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => self.legacy = legacy(header),
            PcapBlockOwned::Legacy(packet) => {
                let (unit_ns, link_type) = self.legacy;
                let time_ns = u64::from(packet.ts_sec) * NANOS + u64::from(packet.ts_usec) * unit_ns;
                each(&Frame { interface: 0, time_ns, link_type, bytes: packet.data, len: packet.origlen });
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.before += u32::try_from(self.interfaces.len()).unwrap_or(u32::MAX);
                self.interfaces.clear();
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                self.interfaces.push(Interface::new(interface));
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let Some(interface) = self.interfaces.get(packet.if_id as usize) else {
                    self.undescribed += 1;
                    return;
                };
                each(&Frame {
                    interface: self.before + packet.if_id,
                    time_ns: interface.time_ns(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low)),
                    link_type: interface.link_type,
                    bytes: packet.packet_data(),
                    len: packet.origlen,
                });
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let Some(interface) = self.interfaces.first() else {
                    self.undescribed += 1;
                    return;
                };
                // Only the snap length tells its padding (draft-ietf-opsawg-pcapng §4.4). It has no time.
                let snap_len = if interface.snap_len == 0 { u32::MAX } else { interface.snap_len };
                let kept = packet.origlen.min(snap_len) as usize;
                let bytes = packet.data.get(..kept).unwrap_or(packet.data);
                each(&Frame {
                    interface: self.before,
                    time_ns: 0,
                    link_type: interface.link_type,
                    bytes,
                    len: packet.origlen,
                });
            }
            PcapBlockOwned::NG(_) => {}
        }
    }
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>) -> Self {
        Self {
            link_type: link_type(block.linktype.0),
            resolution: resolution(block.if_tsresol),
            offset_s: block.if_tsoffset,
            snap_len: block.snaplen,
        }
    }

    fn time_ns(&self, units: u64) -> u64 {
        let ns = i128::try_from(u128::from(units) * u128::from(NANOS) / self.resolution).unwrap_or(i128::MAX);
        let ns = ns.saturating_add(i128::from(self.offset_s) * i128::from(NANOS));
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// Units a second: a power of ten, or of two where the highest bit is set (draft-ietf-opsawg-pcapng §4.2).
fn resolution(if_tsresol: u8) -> u128 {
    let exponent = u32::from(if_tsresol & 0x7f);
    let base: u128 = if if_tsresol & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(exponent).unwrap_or(u128::MAX)
}

fn legacy(header: &PcapHeader) -> (u64, u16) {
    (if header.is_nanosecond_precision() { 1 } else { 1000 }, link_type(header.network.0))
}

/// The upper half of pcap's field describes frame check sequences.
fn link_type(field: i32) -> u16 {
    let [_, _, high, low] = field.to_be_bytes();
    u16::from_be_bytes([high, low])
}

const NANOS: u64 = 1_000_000_000;
const BUFFER_BYTES: usize = 256 << 10;
const BLOCK_BYTES_MAX: usize = 16 << 20;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
