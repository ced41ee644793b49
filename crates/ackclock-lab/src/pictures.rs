//! Pictures of a run: what flows and queues did over time.

use ackclock_chart::{Axis, Figure, Panel, Point, Series, Style};
use ackclock_sim::Scenario;
use ackclock_sim::observe::{FlowPoint, LinkPoint, Series as Samples};

/// The flows, and the queues in which a packet ever waited. Rates are over this many intervals between
/// samples; one at least.
#[must_use]
pub fn figures(scenario: &Scenario, samples: &Samples, over: usize) -> [Figure; 2] {
    let seconds: Vec<f64> = samples.at_ns.iter().map(|&at| at as f64 / 1e9).collect();
    let flows = |of: &dyn Fn(usize, usize) -> f64| -> Vec<Series> {
        let named = scenario.traffic.iter().enumerate();
        named.map(|(flow, traffic)| line(&traffic.name, flow, &seconds, |at| of(at, flow))).collect()
    };
    let flow = |at: usize, flow: usize| samples.flows[at].get(flow).copied().unwrap_or_default();
    let rate = |at: usize, index: usize| {
        let (before, moved) = match at.checked_sub(over.max(1)) {
            Some(last) => (seconds[last], total(flow(at, index)) - total(flow(last, index))),
            None => (0.0, total(flow(at, index))),
        };
        moved * 8.0 / 1e6 / (seconds[at] - before)
    };
    let flow_panels = vec![
        panel("delivered (Mbit/s)", flows(&rate)),
        panel("congestion window (KB)", flows(&|at, index| flow(at, index).cwnd as f64 / 1e3)),
        panel("in flight (KB)", flows(&|at, index| flow(at, index).in_flight as f64 / 1e3)),
    ];
    let link = |at: usize, index: usize| samples.links[at].get(index).copied().unwrap_or_default();
    let waits = |index: &usize| (0..seconds.len()).any(|at| link(at, *index).queue_packets > 0);
    let names =
        scenario.links.iter().flat_map(|link| ["there", "back"].map(|way| format!("{}:{way}", link.label())));
    let names: Vec<String> = names.collect();
    let used: Vec<usize> = (0..names.len()).filter(waits).collect();
    let queues = |of: fn(LinkPoint) -> f64| -> Vec<Series> {
        let numbered = used.iter().enumerate();
        numbered
            .map(|(colour, &index)| line(&names[index], colour, &seconds, |at| of(link(at, index))))
            .collect()
    };
    let link_panels = vec![
        panel("packets that wait", queues(|link| f64::from(link.queue_packets))),
        panel("packets dropped so far", queues(|link| link.dropped as f64)),
    ];
    let caption = |what: &str| format!("{what}, sampled {} times in {}.", seconds.len(), scenario.duration);
    [
        figure(
            "Flows",
            caption("What each traffic delivered, and the windows of its connections"),
            flow_panels,
        ),
        figure("Queues", caption("Queues in which anything waited, and what was dropped there"), link_panels),
    ]
}

/// Payload delivered in both directions.
fn total(flow: FlowPoint) -> f64 {
    (flow.bytes + flow.bytes_back) as f64
}

fn figure(title: &str, caption: String, panels: Vec<Panel>) -> Figure {
    let x = Axis { label: "time (s)".to_owned(), ..Axis::default() };
    Figure { title: title.to_owned(), caption, x, panels }
}

fn panel(label: &str, series: Vec<Series>) -> Panel {
    Panel { height: 1.0, y: Axis { label: label.to_owned(), ..Axis::default() }, series }
}

fn line(name: &str, colour: usize, seconds: &[f64], of: impl Fn(usize) -> f64) -> Series {
    let points = seconds.iter().enumerate().map(|(at, &x)| Point { x, y: of(at), ..Point::default() });
    let colour = u8::try_from(colour).unwrap_or(u8::MAX);
    Series { name: name.to_owned(), style: Style::Line, colour, points: points.collect() }
}
