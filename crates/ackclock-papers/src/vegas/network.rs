//! Shared by the experiments of Brakmo and Peterson: the network of fig. 6, the senders, and the measurements
//! of a transfer.
//!
//! The paper leaves five points open. They are chosen once, to agree with its results, and hold for all
//! experiments:
//!
//! * The delay of 50 ms is one way (§V-B): a send buffer of 20 KB then just fills the pipe, as §IV-B3 says.
//! * Receivers acknowledge every segment. Only then does slow start reach 400 KB/s "at around 1 s" when it
//!   doubles every other round trip (fig. 11), and does Reno stall until "it times out at around 2 s"
//!   (§IV-B1).
//! * A packet holds one of the router's buffers while it is being sent. Only then does Vegas lose exactly "a
//!   packet" of the 32 that it sends into 300 KB/s and 16 buffers (fig. 11).
//! * A KB is 1,000 bytes and a packet of 1.4 KB an IP packet of 1,400; a megabyte is 1,024 KB, as in table
//!   II.
//! * Reno has the rules that the paper names: it halves the window (appendix), and "more than once for
//!   losses that occurred during one RTT interval" (§III-A), as the release of 1990 does. Only the timer's
//!   first round trip does not count a tick more, as it does there: with it, Reno's 300 KB beside Reno come
//!   to 45 KB/s instead of table III's 60, and with the eighth of a segment that §V-D mentions its megabyte
//!   to 70 instead of 109.
//!
//! [`super::alone`] and [`super::one_on_one`] show the results of other choices.

use ackclock_sim::report::FlowReport;
use ackclock_sim::units::{Bytes, Span};
use ackclock_sim::{Report, Scenario, Simulation, TcpSettings, TrafficConfig};
use anyhow::{Context, ensure};

use crate::changes;
use crate::many::Summary;
use crate::net::{self, Dumbbell};

/// Bytes in a KB.
pub(super) const KB: u64 = 1000;
/// KB in a megabyte.
pub(super) const MEGABYTE: u64 = 1024;
/// The send buffer, and so the largest window, in KB (§IV-B3).
pub(super) const SEND_BUFFER: u64 = 50;

/// A sender of the experiments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sender {
    /// Its name in the tables.
    pub(super) name: &'static str,
    profile: &'static str,
    /// The controller; overrides the profile's.
    congestion: Option<&'static str>,
    /// The estimator of the timeout; overrides the profile's.
    rto: Option<&'static str>,
}

/// Reno by the rules of its release, and a timer whose first round trip counts no tick more.
pub(super) const RENO: Sender =
    Sender { name: "Reno", profile: "net2-reno-1991", congestion: None, rto: Some("jacobson-1992") };
/// Other Renos: with the timer of the release, an eighth of a segment more for each acknowledgement, or RFC
/// 5681's rules.
pub(super) const OTHER_RENOS: [Sender; 3] = [
    Sender { name: "Reno, the timer of the release", rto: None, ..RENO },
    Sender { name: "Reno, an eighth more", congestion: Some("net2-reno:eighth=yes"), ..RENO },
    Sender { name: "Reno, RFC 5681", profile: "reno-1990", rto: None, ..RENO },
];
pub(super) const NEWRENO: Sender = Sender { name: "NewReno", profile: "newreno-1999", rto: None, ..RENO };
pub(super) const VEGAS: Sender = Sender { name: "Vegas", profile: "vegas-usc-1995", rto: None, ..RENO };
/// Vegas that leaves slow start at two and at three buffers, where the paper says one (§III-C).
pub(super) const VEGAS_LATE: [Sender; 2] = [
    Sender { name: "Vegas, γ = 2", congestion: Some("vegas-usc:gamma=2"), ..VEGAS },
    Sender { name: "Vegas, γ = 3", congestion: Some("vegas-usc:gamma=3"), ..VEGAS },
];
pub(super) const VEGAS_2_4: Sender =
    Sender { name: "Vegas-2,4", congestion: Some("vegas-usc:alpha=2,beta=4"), ..VEGAS };
/// Vegas as in vegas-1995, which compares the smallest round trip of a round, as Linux does.
pub(super) const VEGAS_LINUX_LIKE: Sender = Sender {
    name: "the controller vegas",
    profile: "vegas-1995",
    rto: None,
    congestion: Some("vegas:base=data"),
};
pub(super) const VEGAS_STAR: Sender =
    Sender { name: "Vegas*", profile: "vegas-star-1995", rto: None, congestion: Some("vegas-star:base=any") };

impl Sender {
    /// Its settings. The receiver's window limits the sender instead of the send buffer, which has the effect
    /// of BSD's: the simulator's applications fill a send buffer in larger steps than BSD's did.
    pub fn tcp(self) -> TcpSettings {
        let settings = TcpSettings::profile(self.profile).choose("acks", "every-second:0s");
        let settings = match self.rto {
            Some(rto) => settings.choose("rto", rto),
            None => settings,
        };
        TcpSettings {
            congestion: self.congestion.map(str::to_owned),
            send_buffer: Some(Bytes(1_000_000)),
            receive_buffer: Some(Bytes(SEND_BUFFER * KB)),
            ..settings
        }
    }
}

/// The network of fig. 6 with `rate` in KB/s. `buffers` are the router's; the packet being sent holds one.
pub(super) fn fig6(rate: u64, buffers: u64) -> Dumbbell {
    net::fig6(rate * KB, buffers - 1)
}

/// A transfer of this many KB between the hosts of a pair.
pub(super) fn transfer(name: &str, pair: usize, kilobytes: u64, sender: Sender) -> TrafficConfig {
    let (from, to) = (format!("a{pair}"), format!("b{pair}"));
    TrafficConfig::bulk(name, &from, &to, Some(Bytes(kilobytes * KB))).tcp(sender.tcp())
}

/// Runs until the transfers with these names are over.
pub(super) fn run_until_over(scenario: &Scenario, names: &[&str]) -> anyhow::Result<Report> {
    until_over(&mut changes::simulation(scenario)?, scenario, names)
}

/// Runs an observed simulation to its end.
pub(super) fn until_over(
    simulation: &mut Simulation,
    scenario: &Scenario,
    names: &[&str],
) -> anyhow::Result<Report> {
    let report = until_over_or_end(simulation, scenario, names);
    let (seed, time) = (scenario.seed, report.time);
    ensure!(are_over(&report, names), "with seed {seed}, {names:?} are not over after {time} s");
    Ok(report)
}

/// Runs until the transfers with these names are over, or the scenario is.
pub(super) fn until_over_or_end(simulation: &mut Simulation, scenario: &Scenario, names: &[&str]) -> Report {
    let mut now = ackclock_core::Instant::ZERO;
    loop {
        now += Span::seconds(2).duration();
        simulation.run_until(now);
        let report = simulation.report();
        if are_over(&report, names) || now.as_nanos() >= scenario.duration.0 {
            return report;
        }
    }
}

fn are_over(report: &Report, names: &[&str]) -> bool {
    names.iter().all(|name| report.flow(name).is_some_and(|flow| flow.completed.is_some()))
}

/// The results of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Transfer {
    /// KB/s from the start to the last byte.
    pub throughput: f64,
    /// KB retransmitted.
    pub retransmitted: f64,
    /// Coarse timeouts.
    pub timeouts: f64,
}

impl Transfer {
    pub fn of(report: &Report, name: &str) -> anyhow::Result<Self> {
        Ok(flow(report, name)?.into())
    }
}

impl From<&FlowReport> for Transfer {
    fn from(flow: &FlowReport) -> Self {
        Self {
            throughput: flow.goodput_bytes_per_second / KB as f64,
            retransmitted: flow.there.bytes_retransmitted as f64 / KB as f64,
            timeouts: flow.there.timeouts as f64,
        }
    }
}

/// Several transfers, summed up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfers {
    pub throughput: Summary,
    pub retransmitted: Summary,
    pub timeouts: Summary,
}

impl Transfers {
    pub fn of(all: &[Transfer]) -> Self {
        let over = |measure: fn(&Transfer) -> f64| Summary::of(all.iter().map(measure));
        Self {
            throughput: over(|one| one.throughput),
            retransmitted: over(|one| one.retransmitted),
            timeouts: over(|one| one.timeouts),
        }
    }

    /// Throughput, KB retransmitted and timeouts, for a table.
    pub fn cells(&self) -> [String; 3] {
        let Self { throughput, retransmitted, timeouts } = self;
        [
            format!("{:.1}", throughput.mean),
            format!("{:.1}", retransmitted.mean),
            format!("{:.2}", timeouts.mean),
        ]
    }
}

/// The head of a table with [`Transfers::cells`] of these senders between other columns; without senders, of
/// an unnamed one.
pub(super) fn head(first: &[&str], senders: &[Sender], last: &[&str]) -> Vec<String> {
    let of = |throughput: String| [throughput, "sent again (KB)".to_owned(), "timeouts".to_owned()];
    let named = senders.iter().map(|sender| of(format!("{} (KB/s)", sender.name)));
    let unnamed = senders.is_empty().then(|| of("KB/s".to_owned()));
    let columns = named.chain(unnamed).flatten();
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    owned(first).into_iter().chain(columns).chain(owned(last)).collect()
}

/// A traffic of a report.
pub(super) fn flow<'a>(report: &'a Report, name: &str) -> anyhow::Result<&'a FlowReport> {
    report.flow(name).with_context(|| format!("there is no traffic `{name}` in the report"))
}

/// One value over another.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { f64::NAN } else { part / whole }
}
