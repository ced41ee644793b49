//! The busy flows of each host, for shares by host: see [`cake`](super::cake).

use std::collections::BTreeMap;

use crate::scenario::Isolation;

/// How many busy flows come from and go to each host.
#[derive(Debug)]
pub(super) struct Hosts {
    isolation: Isolation,
    /// By the host's number, sources and destinations apart.
    flows: [BTreeMap<u32, u32>; 2],
}

impl Hosts {
    pub fn new(isolation: Isolation) -> Self {
        Self { isolation, flows: [BTreeMap::new(), BTreeMap::new()] }
    }

    /// A flow between `hosts` has become busy.
    pub fn add(&mut self, hosts: [u32; 2]) {
        for (flows, host) in self.flows.iter_mut().zip(hosts) {
            *flows.entry(host).or_default() += 1;
        }
    }

    /// A busy flow between `hosts` has ended.
    pub fn remove(&mut self, hosts: [u32; 2]) {
        for (flows, host) in self.flows.iter_mut().zip(hosts) {
            let Some(count) = flows.get_mut(&host) else { continue };
            *count -= 1;
            if *count == 0 {
                flows.remove(&host);
            }
        }
    }

    /// Among how many flows a host's turn is divided: those of the busier host, if both count.
    pub fn load(&self, hosts: [u32; 2]) -> u32 {
        let counts = match self.isolation {
            Isolation::Flows => [false, false],
            Isolation::DualSrchost => [true, false],
            Isolation::DualDsthost => [false, true],
            Isolation::TripleIsolate => [true, true],
        };
        let of = |side: usize| self.flows[side].get(&hosts[side]).copied().unwrap_or(0);
        (0..2).filter(|side| counts[*side]).map(of).max().unwrap_or(0).max(1)
    }
}
