//! Pictures from a connection's trace, as `tcplab convert` draws them.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_assess::simulated::write_traces;
use ackclock_chart::{Figure, Style};
use ackclock_core::Instant;
use ackclock_sim::Scenario;
use ackclock_sim::observe::Traces;
use ackclock_trace::file::{Origin, Source, Trace, TracedSource};
use ackclock_trace::graphs;
use anyhow::Context;

use crate::draw;

/// Runs a scenario. Returns the trace of a connection of `host`, which should have only one.
pub(crate) fn traced(mut scenario: Scenario, host: &str) -> anyhow::Result<TracedSource> {
    scenario.tcp = scenario.tcp.traced();
    let mut simulation = crate::changes::simulation(&scenario)?;
    let traces = Rc::new(RefCell::new(Traces::new([])));
    simulation.observe(Rc::clone(&traces));
    simulation.run();
    let mut bytes = Vec::new();
    write_traces(&mut bytes, &Origin::default(), &simulation, &traces.borrow())?;
    let ours =
        |source: &TracedSource| matches!(&source.source, Source::Connection { host: of, .. } if of == host);
    let mut sources = Trace::read(&bytes)?.sources.into_iter();
    sources.find(ours).with_context(|| format!("no connection of {host} was traced"))
}

/// The windows of a connection over minutes, without its sending rate and the marks of single segments
/// (Brakmo and Peterson 1995, fig. 1; Awadallah and Rai 1998, fig. 13).
pub(crate) fn windows(source: &TracedSource, controller: &str, title: String) -> Figure {
    let mut figure = graphs::windows(source, Instant::ZERO);
    figure.panels.truncate(1);
    for panel in &mut figure.panels {
        panel.series.retain(|series| series.style != Style::Hashes);
        for series in &mut panel.series {
            match series.name.as_str() {
                "cwnd" => series.colour = draw::colour(controller),
                // Vegas's colour otherwise.
                "ssthresh" => series.colour = 15,
                _ => {}
            }
        }
    }
    let caption =
        "Congestion window, threshold, the receiver's window and bytes in transit; a vertical line \
                   where a segment left that was sent again later, a circle where a retransmission timer ran \
                   out."
            .to_owned();
    Figure { title, caption, ..figure }
}
