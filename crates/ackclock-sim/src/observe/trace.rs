//! Collected traces of connections and of link queues.

use std::collections::BTreeMap;

use ackclock_core::trace::{Batch, Entry, Record};

use super::{Observer, PacketEvent, QueueLength, What};

/// Keeps everything that traced connections and the chosen links record.
#[derive(Debug, Default)]
pub struct Traces {
    batches: Vec<(u32, Batch)>,
    queues: BTreeMap<u32, Vec<Record>>,
}

impl Traces {
    /// Also records the queues of these links; see [`Simulation::link`](crate::Simulation::link).
    pub fn new(links: impl IntoIterator<Item = u32>) -> Self {
        Self { batches: Vec::new(), queues: links.into_iter().map(|link| (link, Vec::new())).collect() }
    }

    /// The batches of the connections so far, each with its node, in order of arrival.
    #[must_use]
    pub fn batches(&self) -> &[(u32, Batch)] {
        &self.batches
    }

    /// The records of the queues, in the order of the links' numbers. A drop is identified by the index of
    /// its rule in [`DropRule::ALL`](crate::queue::DropRule::ALL).
    pub fn queues(&self) -> impl Iterator<Item = (u32, &[Record])> {
        self.queues.iter().map(|(link, records)| (*link, records.as_slice()))
    }
}

impl Observer for Traces {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        if let (What::Dropped(rule), Some(link)) = (event.what, event.link)
            && let Some(records) = self.queues.get_mut(&link)
        {
            records.push(Entry::Dropped { rule: rule as u8, len: event.packet.len() }.encode(event.at));
        }
    }

    fn trace(&mut self, node: u32, batch: &Batch) {
        self.batches.push((node, batch.clone()));
    }

    fn queue(&mut self, queue: &QueueLength) {
        if let Some(records) = self.queues.get_mut(&queue.link) {
            let bytes = u32::try_from(queue.bytes).unwrap_or(u32::MAX);
            records.push(Entry::Queue { packets: queue.packets, bytes }.encode(queue.at));
        }
    }
}
