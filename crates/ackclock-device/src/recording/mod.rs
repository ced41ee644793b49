//! Recorded packets: which capture files are read, and what is read of broken ones.
//!
//! [`read`] yields the frames of a file one by one, a [`Reader`] those of a file in pieces, [`ip_packet`] the
//! IP packet in a frame. [`Recording`] keeps all IP packets of a file.

mod file;
mod link;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub use file::{Frame, NotCapture, ReadExtent, Reader, read};
pub use link::{NoIp, ip_packet};

/// The IP packets of a capture file, in its order.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    bytes: Vec<u8>,
    packets: Vec<Recorded>,
    skipped: Skipped,
    broken: Option<ReadExtent>,
}

/// One packet of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The time in nanoseconds since 1970.
    pub time_ns: u64,
    /// Its frame number in the file, from 1, as in Wireshark.
    pub frame: u64,
    start: usize,
    end: usize,
}

/// Frames that were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Skipped {
    /// Frames without an IP packet.
    pub not_ip: u64,
    /// Frames that lack bytes of their packet.
    pub cut_off: u64,
    /// Frames with an unsupported link type.
    pub link_type: u64,
    /// Frames on an interface that the file does not describe.
    pub undescribed: u64,
}

/// Why a capture file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureFileError {
    /// It cannot be opened.
    #[error("{} cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is not a capture.
    #[error("{} {why}", path.display())]
    NotCapture {
        /// The file.
        path: PathBuf,
        /// The kind of file that it is.
        why: NotCapture,
    },
    /// The file contains no IP packet.
    #[error("{} holds no whole IP packet: {remarks}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// The contents, in sentences.
        remarks: String,
    },
    /// Its packets would take too much memory.
    #[error("{} holds more than {} MiB of packets: cut it first (editcap -c 100000 FILE \
        PART)", path.display(), BYTES_MAX >> 20)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
}

impl Recording {
    /// Reads a file, as far as it goes; [`remarks`](Self::remarks) says how far.
    ///
    /// # Errors
    /// See [`CaptureFileError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureFileError> {
        let path = path.as_ref();
        let named = || path.to_owned();
        let file = File::open(path).map_err(|source| CaptureFileError::Open { path: named(), source })?;
        let mut recording = Self::default();
        let (mut frames, mut too_long) = (0, false);
        let read = read(file, |frame| {
            frames += 1;
            too_long |= !recording.push(frames, frame);
        });
        let (outcome, undescribed) =
            read.map_err(|why| CaptureFileError::NotCapture { path: named(), why })?;
        recording.skipped.undescribed = undescribed;
        recording.broken = Some(outcome).filter(|outcome| *outcome != ReadExtent::Whole);
        if too_long {
            return Err(CaptureFileError::TooLong { path: named() });
        }
        if recording.packets.is_empty() {
            let remarks = recording.remarks();
            let remarks = if remarks.is_empty() { "no frame at all".to_owned() } else { remarks.join("; ") };
            return Err(CaptureFileError::Empty { path: named(), remarks });
        }
        Ok(recording)
    }

    /// Its packets.
    #[must_use]
    pub fn packets(&self) -> &[Recorded] {
        &self.packets
    }

    /// The bytes of a packet, from its IP header to the end of its stated length.
    #[must_use]
    pub fn bytes(&self, packet: &Recorded) -> &[u8] {
        self.bytes.get(packet.start..packet.end).unwrap_or_default()
    }

    /// Counts of packets that were left out.
    #[must_use]
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// The parts of the file that were not used, one sentence each.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let broken = self.broken.as_ref().map(|outcome| match outcome {
            ReadExtent::CutOff { at } => format!("the file ends within a block that begins at byte {at}"),
            ReadExtent::Unreadable { at } => format!("the file cannot be read beyond byte {at}"),
            ReadExtent::Broken { at } => format!("there is no block at byte {at}: nothing behind it is read"),
            ReadExtent::Whole => String::new(),
        });
        let Skipped { not_ip, cut_off, link_type, undescribed } = self.skipped;
        let counts = [
            (not_ip, "frames carry no IP packet"),
            (cut_off, "packets were not kept whole: capture with `tcpdump -s 0`"),
            (link_type, "frames have a link type that is not read: convert with `editcap -T`"),
            (undescribed, "frames belong to no interface that the file describes"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        broken.into_iter().chain(counts.map(|(count, what)| format!("{count} {what}"))).collect()
    }

    /// Keeps a frame's packet. Returns `false` if there is no room.
    fn push(&mut self, number: u64, frame: &Frame<'_>) -> bool {
        let packet = match ip_packet(frame.link_type, frame.bytes) {
            Ok(packet) => packet,
            Err(why) => {
                *match why {
                    NoIp::Other => &mut self.skipped.not_ip,
                    NoIp::CutOff => &mut self.skipped.cut_off,
                    NoIp::LinkType(_) => &mut self.skipped.link_type,
                } += 1;
                return true;
            }
        };
        // Link-layer padding may follow the packet.
        let Some(packet) = stated_len(packet).and_then(|len| packet.get(..len)) else {
            self.skipped.cut_off += 1;
            return true;
        };
        if self.bytes.len() + packet.len() > BYTES_MAX {
            return false;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(packet);
        let end = self.bytes.len();
        self.packets.push(Recorded { time_ns: frame.time_ns, frame: number, start, end });
        true
    }
}

/// The packet length from the IP header.
fn stated_len(packet: &[u8]) -> Option<usize> {
    let at = |at: usize| Some(usize::from(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?])));
    match packet.first()? >> 4 {
        4 => at(2).filter(|len| *len >= 20),
        6 => at(4).map(|len| 40 + len),
        _ => None,
    }
}

/// The most memory that a recording takes.
const BYTES_MAX: usize = 1 << 30;
