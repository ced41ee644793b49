//! A simulation as recordings: its packets as a capture at both ends, its records as a trace.

use std::io::{self, Write};
use std::mem;

use ackclock_sim::Simulation;
use ackclock_sim::observe::{Observer, PacketEvent, Traces, What};
use ackclock_sim::queue::DropRule;
use ackclock_trace::file::{Origin, Writer};

use crate::capture::{CapturePoint, Connections, Vantage, parse};

/// Records the connections at some hosts. Each host is an interface of one capture.
#[derive(Debug)]
pub struct Recorder {
    nodes: Vec<u32>,
    connections: Connections,
}

impl Recorder {
    /// Records at the hosts with these numbers.
    #[must_use]
    pub fn new(nodes: Vec<u32>) -> Self {
        Self { nodes, connections: Connections::default() }
    }

    /// The recorded connections.
    pub fn take(&mut self) -> Vec<Vantage> {
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
        if let Ok(parsed) = parse(packet.header(), packet.len() as usize, event.at.as_nanos()) {
            self.connections.push(CapturePoint { file: 0, interface: interface as u32 }, &parsed);
        }
    }
}

/// Writes all records of a simulation as a trace file, connections first.
///
/// # Errors
/// `into` cannot be written.
pub fn write_traces(
    into: impl Write,
    origin: &Origin,
    simulation: &Simulation,
    traces: &Traces,
) -> io::Result<()> {
    let mut writer = Writer::new(into, origin)?;
    let (hosts, links) = (simulation.node_names(), simulation.link_names());
    for (node, batch) in traces.batches() {
        writer.batch(hosts.get(*node as usize).copied().unwrap_or_default(), batch)?;
    }
    let rules = DropRule::ALL.map(|rule| rule_name(&rule));
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    for (link, records) in traces.queues() {
        writer.queue(links.get(link as usize).map_or("", String::as_str), &rules, records)?;
    }
    writer.flush()
}

/// The name of a rule, as in JSON.
#[must_use]
pub fn rule_name(rule: &DropRule) -> String {
    let name = serde_json::to_value(rule).ok().and_then(|name| name.as_str().map(str::to_owned));
    name.unwrap_or_else(|| format!("{rule:?}"))
}
