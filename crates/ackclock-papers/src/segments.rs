//! Segments that senders of bulk data sent and received, and the resulting events for judging estimators.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ackclock_control::Instant;
use ackclock_control::assess::timeouts::{Event, Why};
use ackclock_sim::observe::{Observer, PacketEvent, Series, What};
use ackclock_sim::{Report, Scenario};

/// Observes some hosts, each the sender of one conversation.
#[derive(Debug, Default)]
struct Watch {
    /// By the host's node.
    senders: BTreeMap<u32, Conversation>,
}

/// One conversation, seen at its sender. Positions count bytes from the start of the stream.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// The sequence number of the first byte.
    first: Option<u32>,
    /// The byte after the last sent.
    highest: u64,
    /// Data segments as they left the host.
    pub(crate) sent: Vec<DataSegment>,
    /// Acknowledgements as they reached the host: the time, and the byte after the last that each
    /// acknowledges.
    pub(crate) acks: Vec<(Instant, u64)>,
    /// The first byte of each data segment that the network lost, in the order of the losses.
    pub(crate) lost: Vec<u64>,
}

/// A data segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataSegment {
    pub at: Instant,
    /// Its first byte, and the byte after its last.
    pub from: u64,
    pub to: u64,
    /// Whether all of it had been sent before.
    pub again: bool,
}

/// The observations of a run.
#[derive(Debug)]
pub(crate) struct Observed {
    pub report: Report,
    /// In the order of the requested hosts.
    pub conversations: Vec<Conversation>,
    /// Empty if the scenario takes no samples.
    pub series: Series,
}

/// Runs a scenario and observes the samples and these hosts. Each host sends in one conversation.
pub(crate) fn observe(scenario: &Scenario, hosts: &[&str]) -> anyhow::Result<Observed> {
    let mut simulation = crate::changes::simulation(scenario)?;
    let nodes: Vec<u32> =
        hosts.iter().filter_map(|host| simulation.node(host)).map(|node| node.number).collect();
    anyhow::ensure!(nodes.len() == hosts.len(), "the network lacks one of the hosts {hosts:?}");
    let senders = nodes.iter().map(|node| (*node, Conversation::default())).collect();
    let watch = Rc::new(RefCell::new(Watch { senders }));
    let series = Rc::new(RefCell::new(Series::default()));
    if !hosts.is_empty() {
        simulation.observe(watch.clone());
    }
    if scenario.sample_every.is_some() {
        simulation.observe(series.clone());
    }
    let report = simulation.run();
    let mut senders = std::mem::take(&mut watch.borrow_mut().senders);
    let conversations = nodes.iter().filter_map(|node| senders.remove(node)).collect();
    Ok(Observed { report, conversations, series: series.take() })
}

impl Conversation {
    /// Bytes acknowledged by `until`.
    pub fn acked_by(&self, until: Instant) -> u64 {
        self.acks.iter().take_while(|(at, _)| *at <= until).map(|(_, to)| *to).max().unwrap_or(0)
    }

    /// How often each segment of `bytes` bytes was sent, from the first on.
    pub fn times_sent(&self, bytes: u64) -> Vec<u32> {
        let end = self.sent.iter().map(|sent| sent.to).max().unwrap_or(0);
        let mut times = vec![0; usize::try_from(end.div_ceil(bytes)).unwrap_or(0)];
        for sent in &self.sent {
            let (from, to) = (sent.from / bytes, sent.to.div_ceil(bytes));
            times.iter_mut().take(to as usize).skip(from as usize).for_each(|times| *times += 1);
        }
        times
    }

    /// How many segments of each window were lost. A window is what was out when its first loss was sent
    /// again.
    pub fn losses_by_window(&self) -> Vec<u64> {
        let mut windows: Vec<(u64, u64)> = Vec::new();
        for &from in &self.lost {
            match windows.last_mut() {
                Some((end, losses)) if from < *end => *losses += 1,
                _ => windows.push((self.out_at_repair(from), 1)),
            }
        }
        windows.into_iter().map(|(_, losses)| losses).collect()
    }

    /// The byte after the last that had been sent when the segment at `from` was sent again.
    fn out_at_repair(&self, from: u64) -> u64 {
        let before = self.sent.iter().take_while(|sent| !(sent.again && sent.from == from));
        before.map(|sent| sent.to).max().unwrap_or(0)
    }

    /// Share of the data segments that had been sent before.
    pub fn share_sent_again(&self) -> f64 {
        share(self.sent.iter().filter(|sent| sent.again).count() as f64, self.sent.len() as f64)
    }

    /// The events for judging an estimator. Every retransmission counts as an unavoidable timeout.
    pub fn events(&self) -> Vec<Event> {
        let sent = self.sent.iter().map(|sent| {
            let why = if sent.again { Why::Timeout { avoidable: false } } else { Why::New };
            Event::Sent { at: sent.at, from: sent.from, to: sent.to, why }
        });
        let acks = self.acks.iter().map(|&(at, to)| Event::Acked { at, to });
        let mut events: Vec<Event> = sent.chain(acks).collect();
        // An acknowledgement precedes what it releases.
        events.sort_by_key(|event| match event {
            Event::Acked { at, .. } => (*at, 0),
            Event::Sent { at, .. } => (*at, 1),
        });
        events
    }
}

impl Observer for Watch {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        if !matches!(event.what, What::Sent | What::Delivered | What::Dropped(_)) {
            return;
        }
        let (Some(segment), len) = (event.packet.segment(), event.packet.payload_len()) else { return };
        if event.what == What::Delivered {
            if let Some(conversation) = self.senders.get_mut(&event.node)
                && let Some(first) = conversation.first
            {
                let to = u64::from(segment.ack.wrapping_sub(first));
                // A reset may acknowledge nothing, and a FIN takes one number more than there are bytes.
                if to <= conversation.highest + 1 {
                    conversation.acks.push((event.at, to.min(conversation.highest)));
                }
            }
            return;
        }
        let Some(conversation) = self.senders.get_mut(&segment.source).filter(|_| len > 0) else { return };
        let first = *conversation.first.get_or_insert(segment.seq);
        let from = u64::from(segment.seq.wrapping_sub(first));
        if event.what != What::Sent {
            conversation.lost.push(from);
            return;
        }
        let to = from + u64::from(len);
        let again = to <= conversation.highest;
        conversation.highest = conversation.highest.max(to);
        conversation.sent.push(DataSegment { at: event.at, from, to, again });
    }
}

pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_belong_to_the_window_that_was_out_at_the_first_repair() {
        let sent = |from: u64, again: bool| DataSegment { at: Instant::ZERO, from, to: from + 1, again };
        let order =
            [(0, false), (1, false), (2, false), (3, false), (1, true), (4, false), (5, false), (5, true)];
        let sent = order.map(|(from, again)| sent(from, again)).to_vec();
        let conversation = Conversation { sent, lost: vec![1, 3, 5], ..Conversation::default() };
        assert_eq!(conversation.losses_by_window(), [2, 1]);
    }
}
