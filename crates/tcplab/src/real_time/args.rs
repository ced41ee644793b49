//! The options of every network in real time.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ackclock_cli::{Exit, Failure};
use ackclock_sim::units::{Span, UnitError};
use ackclock_sim::{Scenario, VirtualNetwork};

use crate::http::is_here;
use crate::live::{Live, LiveArgs};

/// Options of `tcplab between` and `tcplab shell`.
#[derive(Debug, clap::Args)]
pub(crate) struct RealTimeArgs {
    /// The scenario, a TOML file; - reads stdin. Its `duration` does not count
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) scenario: PathBuf,
    /// Serve HTTP here, to look at links and to change the network: GET /links, POST /links/NAME,
    /// POST /changes, GET /report
    #[arg(long, value_name = "ADDR:PORT")]
    control: Option<SocketAddr>,
    /// Serve it to other machines, too: any program that reaches it can change the network
    #[arg(long, requires = "control")]
    control_exposed: bool,
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
    /// Write all measurements to this file as JSON at the end; - is stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    live: LiveArgs,
}

impl RealTimeArgs {
    /// The files, each with its option.
    pub(crate) fn files(&self) -> [(&'static str, Option<&Path>); 3] {
        [
            ("", Some(&self.scenario)),
            ("--report", self.report.as_deref()),
            ("--live-page", self.live.page_file()),
        ]
    }

    /// The scenario.
    pub(crate) fn read(&self) -> anyhow::Result<Scenario> {
        let mut scenario = crate::run::read(&self.scenario)?;
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        // The file's duration is for `run`.
        scenario.duration = LONGEST;
        Ok(scenario)
    }

    /// Its network, and the two hosts between which it lies. `chosen`: the options that name them, with their
    /// values; by default they are the first host and the last.
    pub(crate) fn network(
        &self,
        scenario: &Scenario,
        chosen: [(&str, Option<&String>); 2],
    ) -> anyhow::Result<(VirtualNetwork, [String; 2])> {
        let ends = ends(scenario, chosen)?;
        let mut net = VirtualNetwork::in_real_time(scenario)?;
        if let Some(late) = self.late {
            net.allow_lateness(Duration::from_nanos(late.0));
        }
        net.poll_ahead(Duration::from_nanos(self.poll.0));
        Ok((net, ends))
    }

    /// The page, if one is asked for. `ends`: hosts whose stacks are this program's.
    pub(crate) fn live(&self, scenario: &Scenario, ends: &[String]) -> anyhow::Result<Option<Live>> {
        self.live.start(&self.scenario, scenario, false, ends)
    }

    pub(crate) fn control_listener(&self) -> Result<Option<TcpListener>, Failure> {
        let Some(addr) = self.control else { return Ok(None) };
        if !self.control_exposed && !is_here(addr.ip()) {
            let what = format!("--control {addr} can be reached from other machines");
            return Err(Failure::usage(what).remedy("use 127.0.0.1, or add --control-exposed"));
        }
        listener(addr).map(Some)
    }
}

fn ends(scenario: &Scenario, chosen: [(&str, Option<&String>); 2]) -> Result<[String; 2], Failure> {
    let [first, .., last] = &*scenario.hosts else {
        let count = scenario.hosts.len();
        return Err(Failure::usage(format!("the scenario has {count} hosts; the network lies between two")));
    };
    let [(one, near), (other, far)] = chosen;
    let (near, far) = (near.unwrap_or(&first.name), far.unwrap_or(&last.name));
    if near == far {
        let what = format!("`{near}` is both ends; choose two hosts with {one} and {other}");
        return Err(Failure::usage(what));
    }
    Ok([near.clone(), far.clone()])
}

pub(crate) fn listener(addr: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(addr).map_err(|error| cannot_listen(addr, &error))
}

pub(crate) fn cannot_listen(addr: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("cannot listen on {addr}: {error}"))
}

pub(crate) fn positive(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: UnitError| error.to_string())?;
    if span.0 > 0 { Ok(span) } else { Err("allowed is more than 0".to_owned()) }
}

/// The longest duration of a scenario: a century.
const LONGEST: Span = Span::seconds(100 * 365 * 24 * 3600);
