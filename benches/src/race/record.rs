//! The packets at the sender's end of the path, in a file for Wireshark; comments mark those that the path
//! loses.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ackclock_wire::pcapng::{self, Direction, LinkType, Record};

use super::lane::Fate;

/// A file that is being written.
#[derive(Debug)]
pub struct Recording {
    into: BufWriter<File>,
    epoch_ns: u64,
    block: Vec<u8>,
    failed: Option<io::Error>,
}

impl Recording {
    /// Begins the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut block = Vec::new();
        pcapng::section_header(&mut block);
        pcapng::interface(&mut block, "sender", LinkType::Ipv4, SNAP_LEN);
        let mut into = BufWriter::with_capacity(1 << 20, File::create(path)?);
        into.write_all(&block)?;
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self { into, epoch_ns: u64::try_from(epoch.as_nanos()).unwrap_or(0), block, failed: None })
    }

    pub(super) fn packet(&mut self, now: u64, sent: bool, packet: &[u8], fate: Fate) {
        let comment = match fate {
            Fate::Delivered => "",
            Fate::Lost => "lost",
            Fate::QueueFull => "queue full",
        };
        let direction = if sent { Direction::Sent } else { Direction::Received };
        let time_ns = self.epoch_ns + now;
        self.block.clear();
        let record =
            Record { interface: 0, time_ns, direction, parts: &[packet], len: packet.len(), comment };
        pcapng::packet(&mut self.block, &record, SNAP_LEN);
        if let Err(error) = self.into.write_all(&self.block) {
            self.failed.get_or_insert(error);
        }
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.failed.take().map_or_else(|| self.into.flush(), Err)
    }
}

/// Headers with all their options.
const SNAP_LEN: u32 = 120;
