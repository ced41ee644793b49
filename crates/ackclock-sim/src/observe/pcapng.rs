//! Captures at nodes, in the format of Wireshark and tcpdump, with one interface for each node.
//!
//! Simulated time zero is 1970-01-01. Where payloads are not carried, a packet is cut after its headers and
//! its original length is recorded.

use std::io::{self, Write};

use ackclock_wire::pcapng::{self, Direction, LinkType, Record};

use super::{Observer, PacketEvent, What};

/// A capture of what the chosen nodes send and receive.
#[derive(Debug)]
pub struct Pcapng<W> {
    out: W,
    buffer: Vec<u8>,
    /// The captured nodes: their numbers and names.
    nodes: Vec<(u32, String)>,
    /// The interface of the first of them, for IPv4 and for IPv6. The others follow it.
    interfaces: [Option<usize>; 2],
    failed: Option<io::Error>,
}

impl<W: Write> Pcapng<W> {
    /// A capture into `out` at these nodes, given as (number, name); see
    /// [`Simulation::node`](crate::Simulation::node).
    pub fn new<'a>(out: W, nodes: impl IntoIterator<Item = (u32, &'a str)>) -> Self {
        let mut buffer = Vec::new();
        pcapng::section_header(&mut buffer);
        let nodes = nodes.into_iter().map(|(number, name)| (number, name.to_owned())).collect();
        Self { out, buffer, nodes, interfaces: [None; 2], failed: None }
    }

    /// Writes what is still in the buffer.
    ///
    /// # Errors
    /// The first write error, of this call or an earlier one. The output after it is missing.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.interfaces == [None; 2] {
            // tcpdump takes a file without an interface for a broken one.
            self.first_interface(&[]);
        }
        self.flush();
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    /// Returns the writer.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// The interface of the first node, for packets with this header. Interfaces are described before the
    /// first packet of an IP version: tcpdump reads a file with several interfaces if their link type gives
    /// the version, and not if the packets do.
    fn first_interface(&mut self, header: &[u8]) -> usize {
        let v6 = header.first().is_some_and(|byte| byte >> 4 == 6);
        let link_type = if v6 { LinkType::Ipv6 } else { LinkType::Ipv4 };
        if let Some(first) = self.interfaces[usize::from(v6)] {
            return first;
        }
        for (_, name) in &self.nodes {
            pcapng::interface(&mut self.buffer, name, link_type, SNAP_LEN);
        }
        let described = self.interfaces.iter().flatten().count() * self.nodes.len();
        *self.interfaces[usize::from(v6)].insert(described)
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
        // A host's packet departs too, but it was captured when it was sent.
        let first_hop = event.what == What::Departed && event.packet.0.hops == 0;
        let Some(node) = self.nodes.iter().position(|(node, _)| *node == event.node) else { return };
        if first_hop {
            return;
        }
        let interface = self.first_interface(event.packet.header()) + node;
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
