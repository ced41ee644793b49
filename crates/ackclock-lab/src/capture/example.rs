//! A capture to try the page with.

use std::cell::RefCell;
use std::rc::Rc;

use ackclock_sim::observe::Pcapng;
use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Direction, Scenario, Simulation, TcpSettings, TrafficConfig};

/// An upload of 200 KB from host `a` to host `b` over a line of 1 Mbit/s with a buffer of eight packets. The
/// TCP is of 1990: duplicate acknowledgements or its coarse timer repair its losses.
#[must_use]
pub fn lossy_upload() -> Scenario {
    let line = Direction::new(Rate::mbit(1), Span::millis(30)).buffers(8);
    let tcp = TcpSettings { mss: Some(512), ..TcpSettings::profile("reno-1990") };
    Scenario::new(Span::seconds(60))
        .tcp(tcp)
        .host("a")
        .host("b")
        .router("r")
        .link("a", "r", Direction::new(Rate::mbit(10), Span(0)))
        .link("r", "b", line)
        .traffic(TrafficConfig::bulk("transfer", "a", "b", Some(Bytes(200_000))))
}

/// The packets of [`lossy_upload`], as seen at the sender.
pub(super) fn capture() -> Result<Vec<u8>, String> {
    let mut simulation = Simulation::new(&lossy_upload()).map_err(|error| error.to_string())?;
    let node = simulation.node("a").map(|node| node.number);
    let nodes = node.map(|node| (node, "a"));
    let pcapng = Rc::new(RefCell::new(Pcapng::new(Vec::new(), nodes)));
    simulation.observe(Rc::clone(&pcapng));
    simulation.run();
    drop(simulation);
    pcapng.borrow_mut().finish().map_err(|error| error.to_string())?;
    let pcapng = Rc::into_inner(pcapng).ok_or("the simulation still holds the capture")?;
    Ok(pcapng.into_inner().into_inner())
}
