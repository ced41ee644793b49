//! A run and what it shows: figures, tables, a hash of its packets, and the trace from which single segments
//! are explained.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_assess::simulated::write_traces;
use ackclock_chart::{Axis, Figure, data};
use ackclock_control::congestion::Registry;
use ackclock_core::Instant;
use ackclock_sim::observe::{LogHash, Series, Traces};
use ackclock_sim::units::Span;
use ackclock_sim::{Report, Scenario, Simulation};
use ackclock_trace::explain::{byte_sentences, sentences};
use ackclock_trace::file::{Origin, Source, Trace, TracedSource};
use ackclock_trace::graphs;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::dials::bottleneck;
use crate::pictures;
use crate::tables::{self, Rows};

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Run {
    report: Report,
    trace: Trace,
    series: Series,
    scenario: Scenario,
    hash: LogHash,
    /// Why it ended early, if it did.
    stopped: Option<String>,
}

/// A run, as a page shows it.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    /// The hash over the log of all packets, in sixteen hexadecimal digits; equal runs give equal ones.
    hash: String,
    /// Events of packets in that log.
    records: u64,
    summary: String,
    stopped: Option<String>,
    flows: Rows,
    links: Rows,
    /// The flows side by side and the queues.
    together: Vec<Box<RawValue>>,
    /// The sending ends of the first connections of each flow.
    connections: Vec<Connection>,
}

#[derive(Debug, Serialize)]
struct Connection {
    /// Its number in the trace, for `explain`.
    number: usize,
    title: String,
    sentences: Vec<String>,
    /// Those over time share the axis of `together`.
    over_time: Vec<Box<RawValue>>,
    others: Vec<Box<RawValue>>,
}

impl Run {
    /// Runs a scenario, until its traffic is over or the run has become too long to show.
    pub fn new(mut scenario: Scenario, registry: &Registry) -> Result<Self, String> {
        scenario.tcp = scenario.tcp.traced();
        scenario.sample_every.get_or_insert(Span((scenario.duration.0 / SAMPLES).max(SAMPLE_MIN.0)));
        let mut simulation =
            Simulation::with_registry(&scenario, registry).map_err(|problem| problem.to_string())?;
        let hash = Rc::new(RefCell::new(LogHash::default()));
        let series = Rc::new(RefCell::new(Series::default()));
        let traces = Rc::new(RefCell::new(Traces::new(link(&scenario))));
        simulation.observe(Rc::clone(&hash));
        simulation.observe(Rc::clone(&series));
        simulation.observe(Rc::clone(&traces));
        let stopped = advance(&mut simulation, &scenario);
        simulation.request_traces();
        let mut bytes = Vec::new();
        write_traces(&mut bytes, &Origin::default(), &simulation, &traces.borrow())
            .map_err(|error| format!("the trace cannot be written: {error}"))?;
        let trace = Trace::read(&bytes[..]).map_err(|error| format!("the trace cannot be read: {error}"))?;
        let (hash, series) = (*hash.borrow(), series.take());
        Ok(Self { report: simulation.report(), trace, series, scenario, hash, stopped })
    }

    /// The table of its flows.
    pub fn flows(&self) -> Rows {
        tables::flows(&self.report)
    }

    /// The hash over its packets.
    pub fn hash(&self) -> u64 {
        self.hash.value()
    }

    /// Everything that a page shows.
    pub fn shown(&self) -> Shown {
        let zero = graphs::beginning(&self.trace);
        let mut together: Vec<Figure> =
            pictures::figures(&self.scenario, &self.series, self.series.at_ns.len() / 100).into();
        // The bottleneck's queue with every packet, in place of samples.
        let queues = self.trace.sources.iter().filter(|source| !source.source.is_connection());
        together.truncate(1);
        together.extend(queues.map(|source| graphs::queue(source, zero)));
        Shown {
            hash: format!("{:016x}", self.hash.value()),
            records: self.hash.records(),
            summary: tables::summary(&self.report),
            stopped: self.stopped.clone(),
            flows: self.flows(),
            links: tables::links(&self.report),
            together: together.into_iter().filter_map(|figure| raw(self.wide(figure))).collect(),
            connections: self.senders().map(|(flow, source)| self.connection(flow, source)).collect(),
        }
    }

    /// The sentences on a byte of a connection's data; the first is 1.
    pub fn explain(&self, connection: usize, byte: u32) -> Result<Vec<String>, String> {
        let source = self.trace.connections().find(|source| source.number == connection);
        let source = source
            .ok_or_else(|| format!("the run has no connection {connection}; its answer lists the numbers"))?;
        let said = byte_sentences(source, byte);
        if said.is_empty() {
            return Err(format!("byte {byte} was not sent; choose a point of the sequence graph"));
        }
        Ok(said)
    }

    /// With the time axis of the whole run, so that graphs can share it.
    fn wide(&self, figure: Figure) -> Figure {
        let room = self.report.time * 0.01;
        let x = Axis { range: Some((-room, self.report.time + room)), ..figure.x };
        Figure { x, ..figure }
    }

    fn connection(&self, flow: &str, source: &TracedSource) -> Connection {
        let (over_time, others): (Vec<_>, Vec<_>) =
            graphs::of_source(&self.trace, source).into_iter().partition(|(over_time, _)| *over_time);
        let title = match &source.source {
            Source::Connection { congestion, .. } => format!("{flow}: {congestion}"),
            Source::Queue { .. } => flow.to_owned(),
        };
        Connection {
            number: source.number,
            title,
            sentences: sentences(source),
            over_time: over_time.into_iter().filter_map(|(_, figure)| raw(self.wide(figure))).collect(),
            others: others.into_iter().filter_map(|(_, figure)| raw(figure)).collect(),
        }
    }

    /// The first connection of each of the first flows, at the end that sends, with the flow's name.
    fn senders(&self) -> impl Iterator<Item = (&str, &TracedSource)> {
        let first = |from: &str| {
            self.trace
                .connections()
                .find(|source| matches!(&source.source, Source::Connection { host, .. } if host == from))
        };
        let flows = self.scenario.traffic.iter().take(FLOWS_MAX);
        flows.filter_map(move |traffic| Some((traffic.name.as_str(), first(&traffic.from)?)))
    }
}

/// Runs to the end; says why it stopped before.
fn advance(simulation: &mut Simulation, scenario: &Scenario) -> Option<String> {
    let step = (scenario.duration.0 / STEPS).max(1);
    for number in 1..=STEPS {
        let until = if number == STEPS { scenario.duration.0 } else { step * number };
        simulation.run_until(Instant::from_nanos(until));
        let report = simulation.report();
        if report.flows.iter().all(|flow| flow.completed.is_some()) {
            return None;
        }
        if simulation.events() > EVENTS_MAX && number < STEPS {
            let at = Span(until);
            return Some(format!(
                "The run was ended after {at}, when it had more packets than a page can show. Lower the rate \
                 or the duration to see it whole."
            ));
        }
    }
    None
}

/// The number of the bottleneck's direction with the data.
fn link(scenario: &Scenario) -> Option<u32> {
    let bottleneck = bottleneck(scenario)?;
    let at = scenario.links.iter().position(|link| std::ptr::eq(link, bottleneck))?;
    u32::try_from(2 * at).ok()
}

/// A figure in the form that the page's scripts take.
fn raw(figure: Figure) -> Option<Box<RawValue>> {
    RawValue::from_string(data(&figure)).ok()
}

/// Samples of a run, at most, and the least time between two.
const SAMPLES: u64 = 2000;
const SAMPLE_MIN: Span = Span::millis(50);
/// How often a run is asked whether it is over.
const STEPS: u64 = 200;
/// A packet makes about ten.
const EVENTS_MAX: u64 = 1_500_000;
/// Flows whose connections are shown one by one.
const FLOWS_MAX: usize = 4;
