//! The options, and what they name.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use ackclock_cli::Failure;
use ackclock_sim::units::Span;
use ackclock_sim::{Scenario, VirtualNetwork};

use super::Way;
use crate::real_time::args::{RealTimeArgs, cannot_listen, listener, positive};
use crate::real_time::outcome::Tally;

/// Options of `tcplab between`.
#[derive(Debug, clap::Args)]
pub(crate) struct BetweenArgs {
    #[command(flatten)]
    pub(super) network: RealTimeArgs,
    /// Accept connections here; port 0 is a free one. With several, each has its --to
    #[arg(long, value_name = "ADDR:PORT", required = true)]
    listen: Vec<SocketAddr>,
    /// Connect each of them to this address or name, beyond the network
    #[arg(long, value_name = "HOST:PORT", required = true, value_parser = destination)]
    to: Vec<String>,
    /// Carry datagrams of UDP, too
    #[arg(long)]
    udp: bool,
    /// Forget a sender of datagrams after this long without any
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = positive, requires = "udp")]
    udp_idle: Span,
    /// The host of the scenario at which connections begin [default: the first]
    #[arg(long, value_name = "HOST")]
    client: Option<String>,
    /// The host of the scenario at which they end [default: the last]
    #[arg(long, value_name = "HOST")]
    server: Option<String>,
    /// Stop after this long instead of at a signal
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(super) duration: Option<Span>,
}

impl BetweenArgs {
    /// The network, and the two hosts between which it lies.
    pub fn network(&self, scenario: &Scenario) -> anyhow::Result<(VirtualNetwork, [String; 2])> {
        let chosen = [("--client", self.client.as_ref()), ("--server", self.server.as_ref())];
        self.network.network(scenario, chosen)
    }

    /// Binds the sockets.
    pub(super) fn ways(
        &self,
        net: &VirtualNetwork,
        ends: &[String; 2],
        tally: &Arc<Tally>,
    ) -> Result<Arc<[Way]>, Failure> {
        if self.listen.len() != self.to.len() {
            let (listen, to) = (self.listen.len(), self.to.len());
            return Err(Failure::usage(format!(
                "{listen} --listen and {to} --to; each has one of the other"
            )));
        }
        let server = net.lookup(&ends[1]).map_err(|problem| Failure::usage(problem.to_string()))?;
        let ways = self.listen.iter().zip(&self.to).zip(FIRST_PORT..);
        ways.map(|((listen, to), port)| {
            let listener = listener(*listen)?;
            let bound = listener.local_addr().map_err(|error| cannot_listen(*listen, &error))?;
            let datagrams = self.udp.then(|| UdpSocket::bind(bound));
            Ok(Way {
                listener,
                datagrams: datagrams.transpose().map_err(|error| cannot_listen(bound, &error))?,
                server: SocketAddr::new(server, port),
                to: to.clone(),
                datagrams_idle: Duration::from_nanos(self.udp_idle.0),
                tally: Arc::clone(tally),
            })
        })
        .collect()
    }
}

/// A name or an address, and a port. Names are looked up when they are used.
fn destination(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    match port.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0) {
        Some(_) => Ok(text.to_owned()),
        None => Err("allowed is a host and a port, as in localhost:80".to_owned()),
    }
}

/// The port of the first way within the network.
const FIRST_PORT: u16 = 7001;
