//! The papers' graphs of a simulated transfer of 1 MB over the network of Brakmo and Peterson's figure 6, as
//! SVG and as a report: `cargo run -p ackclock-trace --example graphs -- FOLDER PROFILE`.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use ackclock_chart::svg;
use ackclock_sim::observe::Traces;
use ackclock_sim::queue::DropRule;
use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Direction, Scenario, Simulation, TcpSettings, TrafficConfig};
use ackclock_trace::file::{Origin, Trace, Writer};
use ackclock_trace::graphs;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("name a folder for the graphs")?);
    let profile = arguments.next().unwrap_or_else(|| "reno-1990".to_owned());
    let access = Direction::new(Rate::mbit(10), Span::millis(1));
    let bottleneck = Direction::new(Rate::bytes_per_second(200_000), Span::millis(48)).buffers(10);
    let mut scenario = Scenario::new(Span::seconds(30))
        .host("sender")
        .host("receiver")
        .router("router")
        .link("sender", "router", access)
        .link("router", "receiver", bottleneck)
        .traffic(TrafficConfig::bulk("transfer", "sender", "receiver", Some(Bytes(1_000_000))));
    scenario.tcp = TcpSettings::profile(&profile).traced();

    let mut simulation = Simulation::new(&scenario)?;
    let link = simulation.link("router", "receiver").ok_or("no such link")?;
    let traces = Rc::new(RefCell::new(Traces::new([link])));
    simulation.observe(Rc::clone(&traces));
    simulation.run();

    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &Origin::default())?;
    for (node, batch) in traces.borrow().batches() {
        writer.batch(if *node == 0 { "sender" } else { "receiver" }, batch)?;
    }
    let rules: Vec<String> = DropRule::ALL.iter().map(|rule| format!("{rule:?}")).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    for (_, records) in traces.borrow().queues() {
        writer.queue("router > receiver", &rules, records)?;
    }
    let trace = Trace::read(&bytes)?;
    std::fs::create_dir_all(&folder)?;
    let shown = graphs::worst(&trace).into_iter().collect();
    for (stem, figure) in graphs::all(&trace, &shown) {
        std::fs::write(folder.join(format!("{stem}.svg")), svg(&figure))?;
    }
    std::fs::write(
        folder.join("report.html"),
        graphs::report(&trace, &format!("1 MB with {profile}"), &shown),
    )?;
    Ok(())
}
