//! Problems that no connection's error reports: TCP sees them as loss.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use ackclock_device::LinkHandle;
use ackclock_device::link::NeighbourState;

/// Watches a link.
#[derive(Debug)]
pub(crate) struct Remarks {
    link: LinkHandle,
    interface: String,
    /// Neighbours that had not answered at the last look.
    silent: BTreeSet<IpAddr>,
    told: BTreeSet<String>,
}

impl Remarks {
    pub fn new(link: LinkHandle, interface: String) -> Self {
        Self { link, interface, silent: BTreeSet::new(), told: BTreeSet::new() }
    }

    /// Reports each problem once, for as long as it is polled.
    pub async fn tell(mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            for remark in self.look() {
                if self.told.len() < TOLD_MAX && self.told.insert(remark.clone()) {
                    say!("tcpcat: warning: {remark}");
                }
            }
        }
    }

    fn look(&mut self) -> Vec<String> {
        let name = &self.interface;
        let counters = self.link.counters();
        let mut remarks = Vec::new();
        // Twice in a row: one query may be lost.
        let silent: BTreeSet<IpAddr> = self
            .link
            .neighbours()
            .into_iter()
            .filter(|neighbour| neighbour.state == NeighbourState::Incomplete && neighbour.waiting > 0)
            .map(|neighbour| neighbour.addr)
            .collect();
        for addr in silent.intersection(&self.silent) {
            let asked = if addr.is_ipv4() { "ARP" } else { "neighbour discovery" };
            remarks
                .push(format!("no station on {name} answers for {addr} ({asked}): see whether it is there"));
        }
        self.silent = silent;
        if counters.no_route > 0 {
            remarks.push(format!("packets for other networks have no way out of {name}: add --gateway ADDR"));
        }
        if counters.conflicts > 0 {
            remarks.push(format!(
                "another station on {name} uses an address of the stack's: take it from that host, or give \
                 the stack another"
            ));
        }
        remarks
    }
}

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The most remarks that are reported.
const TOLD_MAX: usize = 16;
