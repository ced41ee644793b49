//! Turns a scenario's data into the engine's parts.

use std::sync::Arc;

use ackclock_control::congestion::Registry;
use ackclock_core::TcpConfig;

use crate::alarm::Alarm;
use crate::faults::Names;
use crate::host::{Host, HostOptions, addr_of};
use crate::link::Link;
use crate::rng::{Rng, secret};
use crate::route::Edge;
use crate::scenario::{Direction, LinkConfig, Problem, Scenario, TcpSettings, TrafficConfig, WrongSetting};
use crate::wire::{Conversation, Wire};

/// Turns a scenario's data into the engine's parts.
pub(crate) struct Builder<'a> {
    scenario: &'a Scenario,
    registry: &'a Registry,
    names: &'a Names,
    /// The number of traffics that each node serves.
    served: Vec<u16>,
    /// The settings of the last host; most others share them.
    settings: Option<(TcpSettings, Arc<TcpConfig>)>,
    /// [`Scenario::wants_full_packets`], cached because it scans every link.
    full: bool,
}

impl<'a> Builder<'a> {
    /// The scenario, whose names these are, must have been checked.
    pub fn new(scenario: &'a Scenario, registry: &'a Registry, names: &'a Names) -> Self {
        let (served, full) = (vec![0; names.count()], scenario.wants_full_packets());
        Self { scenario, registry, names, served, settings: None, full }
    }

    fn node(&self, name: &str) -> u32 {
        self.names.number(name).expect("the scenario was checked")
    }

    pub fn edges(&self) -> Vec<Edge> {
        let both = |link: &LinkConfig| {
            let [a, b] = [&link.between[0], &link.between[1]].map(|name| self.node(name));
            let cost = link.cost.unwrap_or(1);
            [Edge { from: a, to: b, cost, up: true }, Edge { from: b, to: a, cost, up: true }]
        };
        self.scenario.links.iter().flat_map(both).collect()
    }

    /// A separate port for each traffic that a host serves.
    pub fn port(&mut self, traffic: &TrafficConfig) -> u16 {
        let node = self.node(&traffic.to) as usize;
        self.served[node] += 1;
        FIRST_PORT + self.served[node] - 1
    }

    pub fn links(&self, ports: &[u16]) -> Vec<Link> {
        let resolve = |name: &str| {
            let index = self.scenario.traffic.iter().position(|traffic| traffic.name == name)?;
            let traffic = &self.scenario.traffic[index];
            let (client, server) = (self.node(&traffic.from), self.node(&traffic.to));
            Some(Conversation { client, server, port: ports[index] })
        };
        let edges = self.edges();
        let directions = self.scenario.links.iter().flat_map(|link| {
            let label = link.label();
            [(format!("{label}:there"), &link.there), (format!("{label}:back"), link.back())]
        });
        let link = |((name, config), edge): ((String, &Direction), &Edge)| {
            let rng = Rng::derive(self.scenario.seed, &name);
            Link::new(config, (edge.from, edge.to), Wire::new(config, resolve), rng)
        };
        directions.zip(&edges).map(link).collect()
    }

    /// The hosts, then `None` for each router.
    pub fn hosts(&mut self) -> Result<Vec<Option<Box<Host>>>, Problem> {
        let mut mtus = vec![usize::MAX; self.names.count()];
        for (edge, link) in self.edges().chunks(2).zip(&self.scenario.links) {
            for (edge, direction) in edge.iter().zip([&link.there, link.back()]) {
                let mtu = &mut mtus[edge.from as usize];
                *mtu = (*mtu).min(direction.mtu.0 as usize);
            }
        }
        let mut hosts = Vec::with_capacity(mtus.len());
        for (index, mtu) in mtus.iter().enumerate().take(self.scenario.hosts.len()) {
            hosts.push(Some(Box::new(self.host(index, *mtu)?)));
        }
        hosts.resize_with(mtus.len(), || None);
        Ok(hosts)
    }

    fn host(&mut self, index: usize, mtu: usize) -> Result<Host, Problem> {
        let config = &self.scenario.hosts[index];
        let node = index as u32;
        let mut rng = Rng::derive(self.scenario.seed, &config.name);
        let secret = secret(&mut rng);
        let tcp = self
            .shared(config.tcp.over(&self.scenario.tcp))
            .map_err(|wrong| Problem::wrong_setting(&format!("host[{index}].tcp"), wrong))?;
        let (addr, full, alarm) = (addr_of(node, self.scenario.ipv6), self.full, Alarm::new(config, rng));
        Ok(Host::new(HostOptions { node, addr, mtu, secret, tcp, full, alarm }))
    }

    /// The configuration that a host's connections take from these settings, shared by hosts with the same
    /// settings.
    fn shared(&mut self, settings: TcpSettings) -> Result<Arc<TcpConfig>, WrongSetting> {
        if let Some((_, config)) = self.settings.as_ref().filter(|(last, _)| *last == settings) {
            return Ok(config.clone());
        }
        let config = Arc::new(settings.config(self.registry)?);
        self.settings = Some((settings, config.clone()));
        Ok(config)
    }
}

/// The first port that a host serves traffic on.
const FIRST_PORT: u16 = 20_000;
