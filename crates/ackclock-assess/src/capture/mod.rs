//! Packet captures: files, and the TCP connections in them.
//!
//! | question | file |
//! |---|---|
//! | Which formats are read, and what of a broken file? What may precede the IP packet? | `ackclock_device::recording` |
//! | What is kept of a packet? | `segment.rs` |
//! | Which packets are one connection? | `connections.rs` |
//! | Which packets of two captures are the same one? | `pair.rs` |

mod connections;
mod pair;
mod segment;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::{Path, PathBuf};

use ackclock_device::recording::{self, Frame, NoIp, NotCapture, ReadExtent, Reader};
use serde::Serialize;

pub use self::connections::Vantage;
pub(crate) use self::connections::{CapturePoint, Connections};
pub(crate) use self::pair::{Delivery, NotPaired, pair};
pub(crate) use self::segment::{NoSegment, Segment, parse};

/// The contents of a file, and the parts that are not assessed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FileReport {
    /// Its name.
    pub path: PathBuf,
    /// Why reading ended before the file's end, in a sentence.
    pub broken: Option<String>,
    /// Frames read.
    pub frames: u64,
    /// TCP segments among them.
    pub segments: u64,
    /// Frames without an IP packet.
    pub not_ip: u64,
    /// Frames of an unknown link type.
    pub unknown_link: u64,
    /// The last such type.
    pub unknown_link_type: Option<u16>,
    /// Frames on an interface that the file does not describe.
    pub undescribed: u64,
    /// IP packets of other protocols.
    pub not_tcp: u64,
    /// Fragments.
    pub fragments: u64,
    /// Packets with too few bytes captured.
    pub cut_off: u64,
    /// Packets with contradictory headers.
    pub malformed: u64,
    /// How often the clock was set back.
    pub clock_steps_back: u64,
}

/// Reads one file, which has the index `number`: what it contains, and its connections, once for each
/// interface that saw them.
///
/// # Errors
/// It is not a capture. Later damage is in the report.
pub fn read_one(
    number: usize,
    path: &Path,
    input: impl Read,
) -> Result<(FileReport, Vec<Vantage>), NotCapture> {
    let mut tally = Tally::new(number, path);
    let extent = recording::read(input, |frame| tally.frame(frame))?;
    Ok(tally.finish(&extent))
}

/// Reads one file that comes in pieces.
///
/// ```
/// use std::path::Path;
///
/// use ackclock_assess::capture::Reading;
///
/// let mut reading = Reading::new(0, Path::new("notes.txt"));
/// reading.push(b"Dear diary")?;
/// let error = reading.finish().unwrap_err();
/// assert!(error.to_string().starts_with("is neither pcap nor pcapng"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reading {
    reader: Reader,
    tally: Tally,
}

impl Reading {
    /// A file of this name, which has the index `number`.
    #[must_use]
    pub fn new(number: usize, path: &Path) -> Self {
        Self { reader: Reader::new(), tally: Tally::new(number, path) }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// It is not a capture.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), NotCapture> {
        self.reader.push(bytes, |frame| self.tally.frame(frame))
    }

    /// The number of frames so far, and of TCP segments among them.
    #[must_use]
    pub fn counted(&self) -> (u64, u64) {
        (self.tally.report.frames, self.tally.report.segments)
    }

    /// The contents of the file and its connections, once for each interface that saw them.
    ///
    /// # Errors
    /// It is not a capture. Later damage is in the report.
    pub fn finish(self) -> Result<(FileReport, Vec<Vantage>), NotCapture> {
        let Self { reader, mut tally } = self;
        let extent = reader.finish(|frame| tally.frame(frame))?;
        Ok(tally.finish(&extent))
    }
}

/// The frames of a file, counted and sorted into connections.
#[derive(Debug)]
struct Tally {
    number: usize,
    report: FileReport,
    connections: Connections,
}

impl Tally {
    fn new(number: usize, path: &Path) -> Self {
        let report = FileReport { path: path.to_owned(), ..FileReport::default() };
        Self { number, report, connections: Connections::default() }
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        self.report.frames += 1;
        let packet = match recording::ip_packet(frame.link_type, frame.bytes) {
            Ok(packet) => packet,
            Err(why) => return self.report.count_no_ip(why),
        };
        let in_front = frame.bytes.len() - packet.len();
        let len = (frame.len as usize).max(frame.bytes.len()) - in_front;
        match parse(packet, len, frame.time_ns) {
            Ok(parsed) => {
                self.report.segments += 1;
                let point = CapturePoint { file: self.number, interface: frame.interface };
                self.connections.push(point, &parsed);
            }
            Err(why) => self.report.count_no_segment(why),
        }
    }

    fn finish(mut self, (extent, undescribed): &(ReadExtent, u64)) -> (FileReport, Vec<Vantage>) {
        self.report.undescribed = *undescribed;
        self.report.clock_steps_back = self.connections.clock_steps_back;
        self.report.broken = in_words(extent, self.report.frames);
        (self.report, self.connections.finish())
    }
}

impl FileReport {
    fn count_no_ip(&mut self, why: NoIp) {
        match why {
            NoIp::Other => self.not_ip += 1,
            NoIp::CutOff => self.cut_off += 1,
            NoIp::LinkType(link_type) => {
                self.unknown_link += 1;
                self.unknown_link_type = Some(link_type);
            }
        }
    }

    fn count_no_segment(&mut self, why: NoSegment) {
        *match why {
            NoSegment::NotTcp => &mut self.not_tcp,
            NoSegment::Fragment => &mut self.fragments,
            NoSegment::CutOff => &mut self.cut_off,
            NoSegment::Malformed => &mut self.malformed,
        } += 1;
    }

    /// The parts of the file that are not assessed, one line each.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let link = self.unknown_link_type.map_or_else(String::new, |number| format!(" ({number})"));
        let counts = [
            (self.not_ip, "frames carry no IP packet".to_owned()),
            (
                self.unknown_link,
                format!("frames have a link type that is not read{link}: convert with `editcap -T`"),
            ),
            (self.undescribed, "frames belong to no interface that the file describes".to_owned()),
            (self.not_tcp, "packets are not TCP".to_owned()),
            (self.fragments, "packets are fragments".to_owned()),
            (self.cut_off, "packets were captured too short: use `tcpdump -s 128` or more".to_owned()),
            (self.malformed, "packets have headers that contradict themselves".to_owned()),
            (self.clock_steps_back, "times lie before the ones in front of them".to_owned()),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let path = self.path.display();
        let counts = counts.map(|(count, what)| format!("{path}: {count} {what}"));
        self.broken.iter().map(|broken| format!("{path}: {broken}")).chain(counts).collect()
    }
}

/// Why a file was not read to its end, of which `frames` were read.
fn in_words(outcome: &ReadExtent, frames: u64) -> Option<String> {
    let next = frames + 1;
    match outcome {
        ReadExtent::Whole => None,
        ReadExtent::CutOff { at } => Some(format!(
            "ends within a block that begins at byte {at}, where frame {next} is expected; what is before it \
             is assessed"
        )),
        ReadExtent::Broken { at } => Some(format!(
            "holds no block at byte {at}, where frame {next} is expected; what is before it is \
             assessed, what follows is not"
        )),
        ReadExtent::Unreadable { at } => Some(format!(
            "cannot be read beyond byte {at}, after frame {frames}; what is before it is assessed"
        )),
    }
}
