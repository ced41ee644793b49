//! The options, and what they name.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ackclock_cli::{Exit, Failure};
use ackclock_sim::units::{Span, UnitError};
use ackclock_sim::{Scenario, VirtualNetwork};

use super::Way;
use super::outcome::Tally;

/// Options of `tcplab between`.
#[derive(Debug, clap::Args)]
pub(crate) struct BetweenArgs {
    /// The scenario, a TOML file; - reads stdin. Its `duration` does not count
    #[arg(long, value_name = "FILE.toml")]
    pub(super) scenario: PathBuf,
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
    /// Serve HTTP here, to look at links and to change the network: GET /links, POST /links/NAME,
    /// POST /changes, GET /report
    #[arg(long, value_name = "ADDR:PORT")]
    control: Option<SocketAddr>,
    /// Serve it to other machines, too: any program that reaches it can change the network
    #[arg(long, requires = "control")]
    control_exposed: bool,
    /// Stop after this long instead of at a signal
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(super) duration: Option<Span>,
    /// Use this seed instead of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Let events be this late [default: 5 % of the one-way delay, within 0.1ms and 1ms]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    late: Option<Span>,
    /// Poll the clock this long before an event instead of sleeping: more costs more of a processor, and
    /// makes fewer events late
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    poll: Span,
    /// Write all measurements to this file as JSON at the end; - is stdout, in place of the tables
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}

impl BetweenArgs {
    /// The network, and the two hosts between which it lies.
    pub fn network(&self) -> anyhow::Result<(VirtualNetwork, [String; 2])> {
        let mut scenario = crate::run::read(&self.scenario)?;
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        // What the file says is for `run`.
        scenario.duration = LONGEST;
        let ends = self.ends(&scenario)?;
        let mut net = VirtualNetwork::in_real_time(&scenario)?;
        if let Some(late) = self.late {
            net.allow_lateness(Duration::from_nanos(late.0));
        }
        net.poll_ahead(Duration::from_nanos(self.poll.0));
        Ok((net, ends))
    }

    fn ends(&self, scenario: &Scenario) -> Result<[String; 2], Failure> {
        let [first, .., last] = &*scenario.hosts else {
            let count = scenario.hosts.len();
            return Err(Failure::usage(format!(
                "the scenario has {count} hosts; the network lies between two"
            )));
        };
        let client = self.client.as_ref().unwrap_or(&first.name);
        let server = self.server.as_ref().unwrap_or(&last.name);
        if client == server {
            let what = format!("`{client}` is both ends; choose two hosts with --client and --server");
            return Err(Failure::usage(what));
        }
        Ok([client.clone(), server.clone()])
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

    pub fn control_listener(&self) -> Result<Option<TcpListener>, Failure> {
        let Some(addr) = self.control else { return Ok(None) };
        if !self.control_exposed && !is_here(addr.ip()) {
            let what = format!("--control {addr} can be reached from other machines");
            return Err(Failure::usage(what).remedy("use 127.0.0.1, or add --control-exposed"));
        }
        listener(addr).map(Some)
    }
}

fn is_here(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn listener(addr: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(addr).map_err(|error| cannot_listen(addr, &error))
}

fn cannot_listen(addr: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("cannot listen on {addr}: {error}"))
}

/// A name or an address, and a port. Names are looked up when they are used.
fn destination(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    match port.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0) {
        Some(_) => Ok(text.to_owned()),
        None => Err("allowed is a host and a port, as in localhost:80".to_owned()),
    }
}

fn positive(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: UnitError| error.to_string())?;
    if span.0 > 0 { Ok(span) } else { Err("allowed is more than 0".to_owned()) }
}

/// The port of the first way within the network.
const FIRST_PORT: u16 = 7001;
/// The longest duration of a scenario: a century.
const LONGEST: Span = Span::seconds(100 * 365 * 24 * 3600);
