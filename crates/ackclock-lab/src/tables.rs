//! The results of a run, in tables.

use ackclock_assess::simulated::rule_name;
use ackclock_chart::table::{bit_rate, millis, number, percent};
use ackclock_sim::report::{FlowReport, LaneReport, LinkReport, Report, WayReport};
use serde::Serialize;

/// Rows of texts under a head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rows {
    /// Names of the columns.
    pub head: Vec<String>,
    /// The rows, each as long as `head`.
    pub rows: Vec<Vec<String>>,
}

/// A row for each flow: what it delivered, and at what price.
#[must_use]
pub fn flows(report: &Report) -> Rows {
    Rows { head: FLOWS.map(str::to_owned).to_vec(), rows: report.flows.iter().map(flow_row).collect() }
}

/// A row for each direction of each link: how busy it was, what waited and what was dropped. A row for each
/// queue within its queue follows.
#[must_use]
pub fn links(report: &Report) -> Rows {
    let rows = |link: &LinkReport| {
        let lanes = link.lanes.iter().map(|lane| lane_row(&link.name, lane));
        std::iter::once(link_row(link)).chain(lanes).collect::<Vec<_>>()
    };
    Rows { head: LINKS.map(str::to_owned).to_vec(), rows: report.links.iter().flat_map(rows).collect() }
}

/// The time, the seed, and when flows ran.
#[must_use]
pub fn summary(report: &Report) -> String {
    let (from, until) = (number(report.ran_from), number(report.ran_until));
    format!("{} s with seed {}; flows ran from {from} s to {until} s", number(report.time), report.seed)
}

/// Jain's index of the flows. One flow alone has none: it shares with no other.
#[must_use]
pub fn fairness(report: &Report) -> Option<String> {
    (report.flows.len() > 1).then(|| format!("Jain's index of the flows: {}", number(report.jain_index)))
}

fn flow_row(flow: &FlowReport) -> Vec<String> {
    let both = |of: fn(&WayReport) -> u64| of(&flow.there) + of(&flow.back);
    let (sent, again) = (both(|way| way.bytes_sent), both(|way| way.bytes_retransmitted));
    let time = |count: u64, seconds: f64| if count == 0 { "-".to_owned() } else { millis(seconds) };
    let (rtt, latency) = (flow.there.rtt, flow.latency);
    vec![
        flow.name.clone(),
        flow.connections.to_string(),
        flow.failed.to_string(),
        format!("{} B", both(|way| way.bytes)),
        bit_rate(flow.goodput_bytes_per_second),
        percent(again as f64 / sent.max(1) as f64),
        both(|way| way.timeouts).to_string(),
        time(rtt.count, rtt.mean),
        time(rtt.count, rtt.p99),
        time(latency.count, latency.p99),
        flow.completed.map_or("-".to_owned(), |at| format!("{} s", number(at))),
    ]
}

fn link_row(link: &LinkReport) -> Vec<String> {
    let drops: Vec<String> =
        link.drops.iter().map(|(rule, count)| format!("{count} {}", rule_name(rule))).collect();
    vec![
        link.name.clone(),
        link.sent.to_string(),
        percent(link.utilisation),
        if drops.is_empty() { "0".to_owned() } else { drops.join(", ") },
        link.marked.to_string(),
        number(link.queue_mean),
        link.queue_peak.to_string(),
        millis(link.queue_delay.mean),
        millis(link.queue_delay.p99),
    ]
}

fn lane_row(link: &str, lane: &LaneReport) -> Vec<String> {
    let unknown = || "-".to_owned();
    vec![
        format!("{link}, {} queue", lane.name),
        lane.sent.to_string(),
        unknown(),
        lane.dropped.to_string(),
        lane.marked.to_string(),
        unknown(),
        unknown(),
        millis(lane.queue_delay.mean),
        millis(lane.queue_delay.p99),
    ]
}

const FLOWS: [&str; 11] = [
    "flow",
    "connections",
    "failed",
    "delivered",
    "goodput",
    "sent again",
    "timeouts",
    "RTT mean",
    "RTT p99",
    "answers p99",
    "done at",
];
const LINKS: [&str; 9] = [
    "link",
    "packets",
    "used",
    "dropped",
    "marked",
    "queue mean",
    "queue most",
    "queueing delay mean",
    "p99",
];
