//! Vegas beside others at one queue, as docs/guide/starving.md tells it.

use ackclock_sim::{Scenario, Simulation};

const SCENARIO: &str = include_str!("../../../../examples/scenarios/vegas-beside.toml");
const DROP_TAIL: &str = "{ drop-tail = { limit = \"100packets\" } }";

/// The rates in Mbit/s of Vegas and its neighbour, and the mean delay of the queue in milliseconds.
fn rates(queue: &str, neighbour: &str, ecn: &str) -> [f64; 3] {
    assert!(SCENARIO.contains(DROP_TAIL) && SCENARIO.contains("\"cubic\", ecn = \"off\""));
    let text = SCENARIO
        .replace(DROP_TAIL, queue)
        .replace("\"cubic\"", &format!("\"{neighbour}\""))
        .replace("ecn = \"off\"", &format!("ecn = \"{ecn}\""));
    let scenario = Scenario::from_toml("vegas-beside.toml", &text).expect("a scenario");
    let report = Simulation::new(&scenario).expect("it can run").run();
    let rate = |name| report.flow(name).expect(name).goodput_bytes_per_second * 8e-6;
    let queue = report.link("left-right:there").expect("the bottleneck").queue_delay.mean * 1e3;
    [rate("vegas"), rate("neighbour"), queue]
}

/// Vegas keeps a segment or two in any queue, so its share is what the neighbour's queue
/// leaves: hardly anything where that is a full buffer, most where an AQM keeps it short, half where flows
/// have queues of their own or the neighbour's packets wait elsewhere.
#[test]
fn vegas_gets_what_the_neighbours_queue_leaves() {
    for (queue, neighbour, ecn, vegas, delay) in [
        (DROP_TAIL, "cubic", "off", 0.3..=1.0, 35.0..=60.0),
        ("{ pie = { limit = \"1000packets\" } }", "cubic", "off", 1.2..=3.5, 12.0..=17.0),
        ("{ codel = { limit = \"1000packets\" } }", "cubic", "off", 4.5..=8.5, 2.5..=6.0),
        ("{ fq-codel = { limit = \"1000packets\" } }", "cubic", "off", 8.5..=10.5, 1.5..=5.0),
        ("{ dualpi2 = { limit = \"1000packets\" } }", "cubic", "off", 1.2..=3.5, 11.0..=17.0),
        ("{ dualpi2 = { limit = \"1000packets\" } }", "prague", "accurate", 6.0..=9.5, 1.0..=4.0),
        (DROP_TAIL, "vegas", "off", 8.5..=10.5, 1.5..=5.0),
    ] {
        let [ours, theirs, waited] = rates(queue, neighbour, ecn);
        let said = format!("{queue} beside {neighbour}: {ours:.2} and {theirs:.2} Mbit/s, {waited:.2} ms");
        println!("{said}");
        assert!(vegas.contains(&ours) && delay.contains(&waited), "{said}");
        assert!((17.5..=20.0).contains(&(ours + theirs)), "{said}");
    }
}
