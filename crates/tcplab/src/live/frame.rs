//! A network at one moment.

use ackclock_sim::{Change, LinkState, Simulation};
use serde::Serialize;
use serde_json::Value;

use super::scene::Scene;

/// One moment, as the page shows it. Times are in seconds, rates in bits a second.
#[derive(Debug, Serialize)]
pub(super) struct Frame {
    pub at: f64,
    /// In the order of the scene's.
    pub links: Vec<Link>,
    pub flows: Vec<Flow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<Connection>,
    /// How many connections there are beside those.
    pub connections_left_out: usize,
    /// The numbers of the hosts that are down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<u32>,
    /// The pairs of hosts between which a partition lies, by number; those that a drawing has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<[u32; 2]>,
    /// Why a run in real time is not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
}

/// One direction of a link.
#[derive(Debug, Serialize)]
pub(super) struct Link {
    /// Absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u64>,
    delay: f64,
    up: bool,
    queue_packets: u64,
    queue_bytes: u64,
    sent_bytes: u64,
    dropped: u64,
}

/// One traffic: its bytes both ways, and its connections at the end where they begin.
#[derive(Debug, Serialize)]
pub(super) struct Flow {
    bytes: u64,
    cwnd: u64,
    in_flight: u64,
    srtt: f64,
}

/// A connection of a stack that is not the scenario's.
#[derive(Debug, Serialize)]
pub(crate) struct Connection {
    pub host: String,
    pub name: String,
    pub state: String,
    /// Payload that the peer has acknowledged, and payload from it.
    pub bytes: u64,
    pub cwnd: u64,
    pub in_flight: u64,
    pub srtt: f64,
}

/// A change of the network, in the words of a scenario.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Event {
    at: f64,
    what: String,
}

impl Frame {
    pub fn new(
        scene: &Scene,
        simulation: &Simulation,
        (connections, connections_left_out): (Vec<Connection>, usize),
        late: Option<String>,
    ) -> Self {
        let links = simulation.links();
        let flows = simulation.flows();
        Self {
            at: simulation.now().as_nanos() as f64 / 1e9,
            links: links.iter().take(scene.links.len()).map(Link::new).collect(),
            flows: flows
                .iter()
                .take(scene.flows.len())
                .map(|(_, point)| Flow {
                    bytes: point.bytes + point.bytes_back,
                    cwnd: point.cwnd,
                    in_flight: point.in_flight,
                    srtt: point.srtt_ns as f64 / 1e9,
                })
                .collect(),
            connections,
            connections_left_out,
            down: simulation.hosts_down().to_vec(),
            cuts: simulation.partitions(scene.hosts_drawn()),
            late,
        }
    }

    /// How many values it holds.
    pub fn size(&self) -> usize {
        self.links.len() + self.flows.len() + self.connections.len() + self.cuts.len() + 1
    }
}

impl Link {
    fn new(state: &LinkState) -> Self {
        Self {
            rate: Some(state.rate).filter(|rate| !rate.is_unlimited()).map(|rate| rate.bits()),
            delay: state.delay.0 as f64 / 1e9,
            up: state.up,
            queue_packets: state.queue_packets,
            queue_bytes: state.queue_bytes,
            sent_bytes: state.sent_bytes,
            dropped: state.dropped,
        }
    }
}

impl Event {
    pub fn new(change: &Change) -> Self {
        Self { at: change.at.0 as f64 / 1e9, what: words(change) }
    }
}

/// `link dsl, loss 2%`: the keys and values of a `[[change]]` but its time.
fn words(change: &Change) -> String {
    let Ok(Value::Object(keys)) = serde_json::to_value(change) else { return String::new() };
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(ends) => {
            let ends: Vec<String> =
                ends.iter().map(|end| end.as_str().map_or_else(|| end.to_string(), str::to_owned)).collect();
            ends.join(" | ")
        }
        value => value.to_string(),
    };
    // What it is about comes first.
    let (about, others): (Vec<_>, Vec<_>) =
        keys.iter().filter(|(key, _)| *key != "at").partition(|(key, _)| ABOUT.contains(&key.as_str()));
    let all = about.into_iter().chain(others).map(|(key, value)| format!("{key} {}", text(value)));
    all.collect::<Vec<_>>().join(", ")
}

/// The keys that say what a change is about.
const ABOUT: [&str; 7] = ["link", "partition", "heal", "hold", "release", "crash", "restart"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reads_as_in_its_file() {
        let read = |json| words(&Change::read(json).unwrap());
        assert_eq!(
            read(
                serde_json::json!({ "at": "2s", "link": "dsl", "loss": "2%", "delay": "7ms", "way": "back" })
            ),
            "link dsl, delay 7ms, loss 2%, way back"
        );
        assert_eq!(read(serde_json::json!({ "at": "2s", "partition": ["a*", "b"] })), "partition a* | b");
        assert_eq!(read(serde_json::json!({ "at": "2s", "link": "x", "up": false })), "link x, up false");
    }
}
