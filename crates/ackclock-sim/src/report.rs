//! The results of a run, for people and for programs.

use ackclock_core::Instant;
use serde::Serialize;

use crate::flow::{Flow, SentTotals, Side};
use crate::guest::Seat;
use crate::link::Link;
use crate::meter::Histogram;
use crate::queue::{DropRule, LaneStats};
use crate::scenario::Loss;
use crate::simulation::Simulation;
use crate::units::{Rate, Span};

/// The results of a run. Times are in seconds, rates in bytes a second.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The scenario's seed.
    pub seed: u64,
    /// Simulated time.
    pub time: f64,
    /// When the first flow began. With guest stacks, whose connections only they know, the beginning of the
    /// run.
    pub ran_from: f64,
    /// When the last flow ended. The end of the run while a connection is open, and with guest stacks.
    pub ran_until: f64,
    /// One for each traffic and each added application.
    pub flows: Vec<FlowReport>,
    /// One for each guest stack. Only the guest knows its connections.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<GuestReport>,
    /// One for each direction of each link.
    pub links: Vec<LinkReport>,
    /// Packets handed to hosts.
    pub packets_delivered: u64,
    /// Packets without a route.
    pub packets_without_route: u64,
    /// Packets whose hop limit ran out.
    pub packets_out_of_hops: u64,
    /// Packets that a partition kept from their hosts.
    pub packets_partitioned: u64,
    /// Packets for hosts that were down.
    pub packets_to_hosts_down: u64,
    /// Packets that are still under way, or held back.
    pub packets_under_way: u64,
    /// Jain's index over the goodputs of the flows.
    pub jain_index: f64,
}

/// The results of a traffic.
#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// Connections opened.
    pub connections: u64,
    /// Connections that ended.
    pub closed: u64,
    /// Connections that ended in error.
    pub failed: u64,
    /// The traffic from `from` to `to`.
    pub there: WayReport,
    /// The traffic from `to` to `from`.
    pub back: WayReport,
    /// Payload delivered in both directions, from the traffic's start to its last byte, per second.
    pub goodput_bytes_per_second: f64,
    /// When the first byte was read.
    pub first_byte: Option<f64>,
    /// When the last byte was read.
    pub last_byte: Option<f64>,
    /// When the last of its connections had ended in order; `None` while some are open.
    pub completed: Option<f64>,
    /// The response times of requests.
    pub latency: TimeReport,
}

/// The results of a guest stack: a [`crate::Guest`], or one of a virtual network.
#[derive(Clone, Debug, Serialize)]
pub struct GuestReport {
    /// Its host.
    pub host: String,
    /// Packets that it sent.
    pub packets_sent: u64,
    /// Their bytes, headers included.
    pub bytes_sent: u64,
    /// Packets handed to it.
    pub packets_received: u64,
    /// Their bytes, headers included.
    pub bytes_received: u64,
}

/// The traffic that one side sent.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct WayReport {
    /// Payload that the other side read.
    pub bytes: u64,
    /// Payload sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload retransmitted.
    pub bytes_retransmitted: u64,
    /// Segments sent.
    pub segments: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Expiries of retransmission timers.
    pub timeouts: u64,
    /// Loss episodes that did not begin with a timeout.
    pub loss_episodes: u64,
    /// Round trips of timed segments.
    pub rtt: TimeReport,
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TimeReport {
    /// The number of times.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The median.
    pub median: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// The results of one direction of a link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    /// The link's name and its direction's: `r1-r2:there`.
    pub name: String,
    /// Packets that arrived at it.
    pub offered: u64,
    /// Packets that left its queue.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Share of the time in which it was sending.
    pub utilisation: f64,
    /// Packets dropped, by rule; rules that dropped none are left out.
    pub drops: Vec<(DropRule, u64)>,
    /// Packets marked.
    pub marked: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets sent out of order.
    pub reordered: u64,
    /// Packets that arrived damaged.
    pub damaged: u64,
    /// Packets in the queue, on average over the time in which flows ran: from [`Report::ran_from`] to
    /// [`Report::ran_until`], or until the last packet has left if that is later.
    pub queue_mean: f64,
    /// The most packets in the queue.
    pub queue_peak: u32,
    /// The most bytes in the queue.
    pub queue_peak_bytes: u64,
    /// How long packets waited in the queue.
    pub queue_delay: TimeReport,
    /// The figures of each of the queues that the discipline has for different traffic: DualPI2's L queue and
    /// its C queue. Empty for other disciplines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneReport>,
}

/// The results of one of the queues of a link's discipline.
#[derive(Clone, Debug, Serialize)]
pub struct LaneReport {
    /// Its name in its RFC: `L` and `C` (RFC 9332).
    pub name: String,
    /// Packets that left it for the link.
    pub sent: u64,
    /// Packets dropped, by the discipline or because it was full.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// How long those that left had waited.
    pub queue_delay: TimeReport,
}

/// The state of one direction of a link at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LinkState {
    /// The link's name and its direction's: `r1-r2:there`.
    pub name: String,
    /// The rate; of a link that follows a trace, the trace's mean.
    pub rate: Rate,
    /// The propagation delay.
    pub delay: Span,
    /// The loss; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Whether it carries packets.
    pub up: bool,
    /// Packets that wait in the queue.
    pub queue_packets: u64,
    /// Their bytes.
    pub queue_bytes: u64,
    /// Packets that have left the queue.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets dropped, by any rule.
    pub dropped: u64,
}

impl LinkState {
    pub(crate) fn new(name: String, link: &Link) -> Self {
        Self {
            name,
            rate: link.transmitter.rate(),
            delay: Span(link.delay),
            loss: link.wire.as_ref().and_then(|wire| wire.loss()).cloned(),
            up: link.up,
            queue_packets: link.queue.len() as u64,
            queue_bytes: link.queue.bytes(),
            sent: link.stats.sent,
            sent_bytes: link.stats.sent_bytes,
            dropped: link.stats.dropped().iter().sum(),
        }
    }
}

impl Report {
    pub(crate) fn new(simulation: &Simulation) -> Self {
        let net = &simulation.world.net;
        let now = simulation.world.now;
        let ran = ran(simulation);
        let flows = flows(simulation);
        let [packets_without_route, packets_out_of_hops, packets_partitioned, packets_to_hosts_down] =
            net.lost_at_nodes;
        let goodputs: Vec<f64> = flows.iter().map(|flow| flow.goodput_bytes_per_second).collect();
        Self {
            seed: simulation.seed,
            time: seconds(now.as_nanos()),
            ran_from: seconds(ran[0].as_nanos()),
            ran_until: seconds(ran[1].as_nanos()),
            jain_index: jain_index(&goodputs),
            flows,
            guests: guests(simulation),
            links: simulation
                .link_names()
                .into_iter()
                .zip(&net.links)
                .map(|(name, link)| LinkReport::new(name, link, ran, now))
                .collect(),
            packets_delivered: net.delivered,
            packets_without_route,
            packets_out_of_hops,
            packets_partitioned,
            packets_to_hosts_down,
            packets_under_way: net.packets.len() as u64,
        }
    }

    /// Finds a traffic by name.
    #[must_use]
    pub fn flow(&self, name: &str) -> Option<&FlowReport> {
        self.flows.iter().find(|flow| flow.name == name)
    }

    /// Finds a guest stack by its host.
    #[must_use]
    pub fn guest(&self, host: &str) -> Option<&GuestReport> {
        self.guests.iter().find(|guest| guest.host == host)
    }

    /// Finds one direction of a link by name.
    #[must_use]
    pub fn link(&self, name: &str) -> Option<&LinkReport> {
        self.links.iter().find(|link| link.name == name)
    }
}

impl LinkReport {
    fn new(name: String, link: &Link, ran: [Instant; 2], now: Instant) -> Self {
        let stats = &link.stats;
        let [from, until] = ran.map(Instant::as_nanos);
        let drops = DropRule::ALL.into_iter().zip(stats.dropped()).filter(|(_, count)| *count > 0).collect();
        Self {
            name,
            offered: stats.offered,
            sent: stats.sent,
            sent_bytes: stats.sent_bytes,
            utilisation: utilisation(link, now.as_nanos()),
            drops,
            marked: stats.marked,
            duplicated: stats.duplicated,
            reordered: stats.reordered,
            damaged: stats.damaged,
            queue_mean: stats.length.mean_thousandths(from, until, now.as_nanos()) as f64 / 1000.0,
            queue_peak: stats.length.peak_packets,
            queue_peak_bytes: stats.length.peak_bytes,
            queue_delay: (&stats.delays()).into(),
            lanes: link.queue.lanes().into_iter().map(LaneReport::new).collect(),
        }
    }

    /// Packets dropped, by any rule.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, count)| count).sum()
    }

    /// Packets dropped by this rule.
    #[must_use]
    pub fn dropped_by(&self, rule: DropRule) -> u64 {
        self.drops.iter().filter(|(by, _)| *by == rule).map(|(_, count)| count).sum()
    }
}

impl LaneReport {
    fn new((name, stats): (&str, &LaneStats)) -> Self {
        Self {
            name: name.to_owned(),
            sent: stats.sent,
            dropped: stats.dropped,
            marked: stats.marked,
            queue_delay: (&stats.waits).into(),
        }
    }
}

impl From<&Histogram> for TimeReport {
    fn from(times: &Histogram) -> Self {
        Self {
            count: times.count(),
            mean: seconds(times.mean()),
            median: seconds(times.quantile(500)),
            p99: seconds(times.quantile(990)),
            max: seconds(times.max()),
        }
    }
}

/// Jain, Chiu and Hawe's fairness index (1984): (Σx)² / (n Σx²); 1 without shares or if all are zero.
#[must_use]
pub fn jain_index(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// Kleinrock's power: throughput over delay, in bytes per second squared; 0 without a delay.
#[must_use]
pub fn power(bytes_per_second: f64, delay_seconds: f64) -> f64 {
    ratio(bytes_per_second, delay_seconds)
}

/// From the first start of a flow that opened a connection to the last end; the whole run if that is unknown.
fn ran(simulation: &Simulation) -> [Instant; 2] {
    let world = &simulation.world;
    let whole = [Instant::ZERO, world.now];
    if simulation.guests.all().next().is_some() {
        return whole;
    }
    let opened = || world.flows.iter().filter(|flow| flow.opened > 0);
    let end = |flow: &Flow| flow.ended.filter(|_| flow.closed == flow.opened).unwrap_or(world.now);
    match (opened().map(|flow| flow.start).min(), opened().map(end).max()) {
        (Some(from), Some(until)) => [from, until],
        _ => whole,
    }
}

/// All traffic, open connections included.
fn flows(simulation: &Simulation) -> Vec<FlowReport> {
    let world = &simulation.world;
    let mut sent: Vec<[SentTotals; 2]> = world.flows.iter().map(|flow| flow.sent).collect();
    for host in simulation.hosts.iter().flatten() {
        for owned in &host.core.owned {
            if let Some(connection) = owned.id.and_then(|id| host.core.endpoint.connection(id)) {
                let side = usize::from(owned.side == Side::To);
                sent[owned.flow as usize][side].add(&connection.info(world.now));
            }
        }
    }
    let flow = |(index, name): (usize, &String)| {
        let flow = &world.flows[index];
        let way = |side: usize| {
            let sent = sent[index][side];
            WayReport {
                bytes: flow.bytes[side],
                bytes_sent: sent.bytes,
                bytes_retransmitted: sent.bytes_retransmitted,
                segments: sent.segments,
                retransmits: sent.retransmits,
                timeouts: sent.timeouts,
                loss_episodes: sent.loss_episodes,
                rtt: (&flow.rtt[side]).into(),
            }
        };
        let time = |at: Option<Instant>| at.map(|at| seconds(at.as_nanos()));
        let (first_byte, last_byte) = (time(flow.first_byte), time(flow.last_byte));
        let spent = last_byte.map_or(0.0, |last| last - seconds(flow.start.as_nanos()));
        FlowReport {
            name: name.clone(),
            connections: flow.opened,
            closed: flow.closed,
            failed: flow.failed,
            there: way(0),
            back: way(1),
            goodput_bytes_per_second: ratio(flow.bytes.iter().sum::<u64>() as f64, spent),
            first_byte,
            last_byte,
            completed: time(flow.completed.filter(|_| flow.closed == flow.opened)),
            latency: (&flow.latency).into(),
        }
    };
    simulation.flow_names.iter().enumerate().map(flow).collect()
}

fn guests(simulation: &Simulation) -> Vec<GuestReport> {
    let names = simulation.node_names();
    let guest = |seat: &Seat| GuestReport {
        host: names[seat.node as usize].to_owned(),
        packets_sent: seat.sent.packets,
        bytes_sent: seat.sent.bytes,
        packets_received: seat.received.packets,
        bytes_received: seat.received.bytes,
    };
    simulation.guests.all().map(guest).collect()
}

/// The share of the time in which the link was sending; of a link whose trace sets the rate, the share of the
/// bytes that the trace allowed.
fn utilisation(link: &Link, now: u64) -> f64 {
    match link.service.as_ref().and_then(|service| service.bits_until(now)) {
        Some(bits) => ratio(link.stats.sent_bytes as f64 * 8.0, bits as f64),
        None => ratio(link.stats.busy_ns as f64, now as f64),
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equal_shares_and_one_over_n_for_a_monopoly() {
        assert_eq!(jain_index(&[3.0, 3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain_index(&[5.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!((jain_index(&[]), jain_index(&[0.0])), (1.0, 1.0));
        assert_eq!((power(100.0, 0.5), power(100.0, 0.0)), (200.0, 0.0));
    }
}
