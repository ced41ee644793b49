//! The parts of a network that stay while it runs: its hosts, routers, links and flows.

use ackclock_sim::Scenario;
use serde::Serialize;

/// A network without its state.
#[derive(Debug, Serialize)]
pub(super) struct Scene {
    pub title: String,
    /// How long the scenario lasts, in seconds, if it ends by itself.
    pub duration: Option<f64>,
    /// Hosts, then routers.
    pub nodes: Vec<Node>,
    /// The directions of links.
    pub links: Vec<Way>,
    /// How many more there are.
    pub links_left_out: usize,
    /// Those of them that graphs show.
    pub charted: Vec<usize>,
    /// The scenario's traffic.
    pub flows: Vec<String>,
    pub flows_left_out: usize,
    /// Those that graphs show.
    pub charted_flows: Vec<usize>,
    /// Hosts whose connections are listed.
    pub ends: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Node {
    pub name: String,
    pub router: bool,
}

/// One direction of a link, with the nodes that it joins.
#[derive(Debug, Serialize)]
pub(super) struct Way {
    pub name: String,
    pub from: String,
    pub to: String,
}

impl Scene {
    pub fn new(title: String, scenario: &Scenario, ends_by_itself: bool, ends: &[String]) -> Self {
        let hosts = scenario.hosts.iter().map(|host| Node { name: host.name.clone(), router: false });
        let routers = scenario.routers.iter().map(|name| Node { name: name.clone(), router: true });
        let ways = scenario.links.iter().flat_map(|link| {
            let [one, other] = &link.between;
            [("there", one, other), ("back", other, one)].map(|(way, from, to)| Way {
                name: format!("{}:{way}", link.label()),
                from: from.clone(),
                to: to.clone(),
            })
        });
        let links: Vec<Way> = ways.take(LINKS_SHOWN).collect();
        // Queues are where rates are low.
        let mut charted: Vec<usize> = (0..links.len()).collect();
        charted.sort_by_key(|index| {
            let link = &scenario.links[index / 2];
            if index % 2 == 0 { link.there.rate } else { link.back().rate }
        });
        charted.truncate(CHARTED);
        charted.sort_unstable();
        let flows = scenario.traffic.iter().map(|traffic| traffic.name.clone());
        Self {
            title,
            duration: ends_by_itself.then(|| scenario.duration.0 as f64 / 1e9),
            nodes: hosts.chain(routers).collect(),
            links,
            links_left_out: (2 * scenario.links.len()).saturating_sub(LINKS_SHOWN),
            charted,
            charted_flows: (0..scenario.traffic.len().min(CHARTED)).collect(),
            flows: flows.take(FLOWS_SHOWN).collect(),
            flows_left_out: scenario.traffic.len().saturating_sub(FLOWS_SHOWN),
            ends: ends.to_vec(),
        }
    }

    /// How many hosts a drawing has, the first of all nodes.
    pub fn hosts_drawn(&self) -> u32 {
        if self.nodes.len() > NODES_DRAWN {
            return 0;
        }
        self.nodes.iter().filter(|node| !node.router).count() as u32
    }
}

/// The most directions of links on a page, both of each link.
const LINKS_SHOWN: usize = 200;
/// The most hosts and routers of a drawing, as in `live.js`.
const NODES_DRAWN: usize = 60;
/// The most traffics.
const FLOWS_SHOWN: usize = 100;
/// The most lines in a graph, beside those of the ends.
const CHARTED: usize = 8;
