//! Traces of simulated networks, for tests.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_sim::observe::Traces;
use ackclock_sim::queue::DropRule;
use ackclock_sim::{Report, Scenario, Simulation};

use crate::file::{Origin, Trace, Writer};

/// Runs a scenario. Returns the report, and the trace of its connections and of the queue from one node to
/// another, read back from a file. Hosts are named after their nodes.
pub(crate) fn traced(scenario: &Scenario, queue: Option<(&str, &str)>) -> (Report, Trace) {
    let mut simulation = Simulation::new(scenario).unwrap();
    let link = queue.map(|(from, to)| simulation.link(from, to).unwrap());
    let traces = Rc::new(RefCell::new(Traces::new(link)));
    simulation.observe(Rc::clone(&traces));
    let report = simulation.run();
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &Origin::default()).unwrap();
    let traces = traces.borrow();
    for (node, batch) in traces.batches() {
        writer.batch(["a", "b"].get(*node as usize).unwrap_or(&"?"), batch).unwrap();
    }
    let rules: Vec<String> = DropRule::ALL.iter().map(|rule| format!("{rule:?}")).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    for (_, records) in traces.queues() {
        writer.queue("bottleneck", &rules, records).unwrap();
    }
    (report, Trace::read(&bytes).unwrap())
}
