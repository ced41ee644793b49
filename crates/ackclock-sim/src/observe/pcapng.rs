//! Captures at nodes, in the format that Wireshark opens: one interface for each node.
//!
//! Times count from 1970-01-01 as simulated time zero. Where payloads are not carried a packet is cut behind its headers
//! and says how long it was.

use std::io::{self, Write};

use ackclock_wire::pcapng::{self, Direction, Record};

use super::{Observer, PacketEvent, What};

/// A capture of what the chosen nodes send and receive.
#[derive(Debug)]
pub struct Pcapng<W> {
    out: W,
    buffer: Vec<u8>,
    /// The interface of each captured node.
    nodes: Vec<u32>,
    failed: Option<io::Error>,
}

impl<W: Write> Pcapng<W> {
    /// A capture into `out` at these nodes, given as (number, name); see [`Simulation::node`](crate::Simulation::node).
    pub fn new<'a>(out: W, nodes: impl IntoIterator<Item = (u32, &'a str)>) -> Self {
        let mut buffer = Vec::new();
        pcapng::section_header(&mut buffer);
        let mut numbers = Vec::new();
        for (number, name) in nodes {
            pcapng::interface(&mut buffer, name, SNAP_LEN);
            numbers.push(number);
        }
        Self { out, buffer, nodes: numbers, failed: None }
    }

    /// Writes what is still in the buffer.
    ///
    /// # Errors
    /// The first failure to write, of this call or an earlier one; what came after it is missing.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush();
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }
}

impl<W: Write> Observer for Pcapng<W> {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        let direction = match event.what {
            What::Sent | What::Departed => Direction::Sent,
            What::Delivered => Direction::Received,
            _ => return,
        };
        // A host's packet departs, too; it was captured when it was sent.
        let first_hop = event.what == What::Departed && event.packet.0.hops == 0;
        let Some(interface) = self.nodes.iter().position(|node| *node == event.node) else { return };
        if first_hop {
            return;
        }
        let record = Record {
            interface: interface as u32,
            time_ns: event.at.as_nanos(),
            direction,
            parts: &[event.packet.header(), event.packet.payload()],
            len: event.packet.len() as usize,
            comment: "",
        };
        pcapng::packet(&mut self.buffer, &record, SNAP_LEN);
        if self.buffer.len() > BUFFER_BYTES {
            self.flush();
        }
    }
}

const SNAP_LEN: u32 = 262_144;
const BUFFER_BYTES: usize = 256 << 10;
