//! Simulated packets as a capture at both ends.

use std::mem;

use ackclock_sim::observe::{Observer, PacketEvent, What};

use super::connections::{CapturePoint, Connections, Vantage};
use super::segment;

/// Records the connections at some hosts. Each host is an interface of one capture.
#[derive(Debug)]
pub(crate) struct Recorder {
    nodes: Vec<u32>,
    connections: Connections,
}

impl Recorder {
    /// Records at the hosts with these numbers.
    pub(crate) fn new(nodes: Vec<u32>) -> Self {
        Self { nodes, connections: Connections::default() }
    }

    /// The recorded connections.
    pub(crate) fn take(&mut self) -> Vec<Vantage> {
        mem::take(&mut self.connections).finish()
    }
}

impl Observer for Recorder {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        if !matches!(event.what, What::Sent | What::Delivered) {
            return;
        }
        let Some(interface) = self.nodes.iter().position(|node| *node == event.node) else { return };
        let packet = &event.packet;
        if let Ok(parsed) = segment::parse(packet.header(), packet.len() as usize, event.at.as_nanos()) {
            self.connections.push(CapturePoint { file: 0, interface: interface as u32 }, &parsed);
        }
    }
}
