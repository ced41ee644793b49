//! Capture files: pcap with micro- and nanoseconds, pcapng with several interfaces, in either byte order.
//!
//! A file, or the pieces in which it comes, is read block by block through a buffer that grows to the
//! largest block, at most [`BLOCK_BYTES_MAX`]. Nothing after a broken block is read, because the start of the
//! next one is unknown.

use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
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
pub fn read(mut input: impl Read, mut each: impl FnMut(&Frame<'_>)) -> Result<(ReadExtent, u64), NotCapture> {
    let mut reader = Reader::new();
    let mut piece = vec![0; BUFFER_BYTES];
    loop {
        match input.read(&mut piece) {
            Ok(0) => return reader.finish(each),
            Ok(bytes) => reader.push(piece.get(..bytes).unwrap_or_default(), &mut each)?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return reader.broken_off(each),
        }
        if reader.extent.is_some() {
            return reader.finish(each);
        }
    }
}

/// Reads a capture that comes in pieces.
///
/// ```
/// use ackclock_device::recording::{ReadExtent, Reader};
///
/// // A pcap file of raw IP packets, without any.
/// let header: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 101];
/// let file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
/// let mut reader = Reader::new();
/// for piece in file.chunks(5) {
///     reader.push(piece, |frame| println!("{} bytes", frame.len))?;
/// }
/// assert_eq!(reader.finish(|_| {})?, (ReadExtent::Whole, 0));
/// # Ok::<(), ackclock_device::recording::NotCapture>(())
/// ```
#[derive(Default)]
pub struct Reader {
    feed: Feed,
    /// Once there is enough to know the format.
    parser: Option<Box<dyn PcapReaderIterator + Send>>,
    buffer_bytes: usize,
    state: State,
    /// Where reading ended, if it did.
    extent: Option<ReadExtent>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("read", &self.consumed()).field("extent", &self.extent).finish()
    }
}

impl Reader {
    /// A reader that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the file and passes each whole frame to `each`.
    ///
    /// # Errors
    /// The file is not a capture.
    pub fn push(&mut self, bytes: &[u8], each: impl FnMut(&Frame<'_>)) -> Result<(), NotCapture> {
        if self.extent.is_some() {
            return Ok(());
        }
        if self.feed.push(bytes) < BUFFER_BYTES && self.parser.is_none() {
            return Ok(());
        }
        self.open()?;
        self.advance(each);
        Ok(())
    }

    /// Takes the end of the file. Returns how far it could be read, and how many frames were on interfaces
    /// that it does not describe.
    ///
    /// # Errors
    /// The file is not a capture.
    pub fn finish(mut self, each: impl FnMut(&Frame<'_>)) -> Result<(ReadExtent, u64), NotCapture> {
        self.feed.lock().whole = true;
        self.open()?;
        self.advance(each);
        Ok((self.extent.unwrap_or(ReadExtent::Whole), self.state.undescribed))
    }

    /// The end of a recording where the system could not read on.
    fn broken_off(mut self, each: impl FnMut(&Frame<'_>)) -> Result<(ReadExtent, u64), NotCapture> {
        if self.parser.is_none() && self.feed.lock().bytes.is_empty() {
            return Err(NotCapture::Unreadable);
        }
        self.open()?;
        self.advance(each);
        let at = self.consumed();
        Ok((self.extent.unwrap_or(ReadExtent::Unreadable { at }), self.state.undescribed))
    }

    /// Bytes of whole blocks so far.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.parser.as_ref().map_or(0, |parser| parser.consumed() as u64)
    }

    /// Makes the parser of the file's format.
    fn open(&mut self) -> Result<(), NotCapture> {
        if self.parser.is_some() {
            return Ok(());
        }
        if self.feed.lock().bytes.starts_with(&GZIP_MAGIC) {
            return Err(NotCapture::Gzip);
        }
        self.buffer_bytes = BUFFER_BYTES;
        self.parser = Some(match create_reader(BUFFER_BYTES, self.feed.clone()) {
            Ok(parser) => parser,
            Err(PcapError::Eof) => return Err(NotCapture::Empty),
            Err(PcapError::Incomplete(_) | PcapError::UnexpectedEof) => return Err(NotCapture::Header),
            Err(PcapError::ReadError) => return Err(NotCapture::Unreadable),
            Err(_) => return Err(NotCapture::Unknown),
        });
        Ok(())
    }

    /// Parses what there is.
    fn advance(&mut self, mut each: impl FnMut(&Frame<'_>)) {
        let Some(parser) = &mut self.parser else { return };
        while self.extent.is_none() {
            let at = parser.consumed() as u64;
            let refill = match parser.next() {
                Ok((offset, block)) => {
                    self.state.block(&block, &mut each);
                    parser.consume(offset);
                    continue;
                }
                Err(PcapError::Incomplete(_)) => true,
                Err(PcapError::BufferTooSmall) => {
                    self.buffer_bytes *= 2;
                    if self.buffer_bytes > BLOCK_BYTES_MAX || !parser.grow(self.buffer_bytes) {
                        self.extent = Some(ReadExtent::Broken { at });
                    }
                    true
                }
                Err(PcapError::Eof) => {
                    self.extent = Some(ReadExtent::Whole);
                    false
                }
                Err(PcapError::UnexpectedEof) => {
                    self.extent = Some(ReadExtent::CutOff { at });
                    false
                }
                Err(_) => {
                    self.extent = Some(ReadExtent::Broken { at });
                    false
                }
            };
            if refill && self.extent.is_none() {
                // An empty read would mean the end.
                if !self.feed.lock().has_more() {
                    return;
                }
                if parser.refill().is_err() {
                    self.extent = Some(ReadExtent::Unreadable { at });
                }
            }
        }
    }
}

/// Bytes between the caller and the parser, which both hold it.
#[derive(Clone, Default)]
struct Feed(Arc<Mutex<Fed>>);

#[derive(Default)]
struct Fed {
    bytes: Vec<u8>,
    /// How many of them the parser has.
    taken: usize,
    /// Whether these are the last.
    whole: bool,
}

impl Feed {
    /// Returns how many bytes wait.
    fn push(&self, bytes: &[u8]) -> usize {
        let mut fed = self.lock();
        let taken = std::mem::take(&mut fed.taken);
        fed.bytes.drain(..taken);
        fed.bytes.extend_from_slice(bytes);
        fed.bytes.len()
    }

    fn lock(&self) -> MutexGuard<'_, Fed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fed {
    fn has_more(&self) -> bool {
        self.whole || self.taken < self.bytes.len()
    }
}

impl Read for Feed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut fed = self.lock();
        let rest = fed.bytes.get(fed.taken..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) else { return Ok(0) };
        to.copy_from_slice(from);
        fed.taken += count;
        Ok(count)
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
