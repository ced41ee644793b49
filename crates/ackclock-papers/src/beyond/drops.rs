//! Fall and Floyd 1996: one to four packets lost from one window.

use ackclock_sim::report::WayReport;
use ackclock_sim::scenario::Scripted;
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario, TcpSettings, TrafficConfig};
use anyhow::Context;

use crate::many::{Summary, each};
use crate::segments::{Observed, observe};
use crate::{Band, Experiment, Findings, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "FF96",
    source: "Fall and Floyd, \"Simulation-based Comparisons of Tahoe, Reno, and SACK TCP\", CCR 26(3), 1996, \
             by the scripts of ns-2",
    title: "one to four packets lost from one window by Tahoe, Reno, NewReno and SACK",
    set_up: "The network and the losses of ns-2's `test-suite-tcpVariants.tcl`: a link of 0.8 Mbit/s and 100 \
             ms with 8 buffers behind one of 8 Mbit/s, packets of 1,000 bytes, a receiver's window of 28, an \
             initial window of two, every segment acknowledged. The 14th packet is lost, then also the 28th, \
             the 26th and the 24th. Profiles tahoe-1988, reno-1990, newreno-1999 and sack-2003. What ns-2.35 \
             does was counted in its traces, for Reno without `bugFix_`, the guard against a second fast \
             retransmission that RFC 6582 §1 says Reno lacks. The paper's text was not at hand, so its \
             column is empty.",
    run,
};

/// A sender, and what ns-2's does for one to four losses.
#[derive(Clone, Copy)]
struct Sender {
    name: &'static str,
    profile: &'static str,
    /// Fast retransmissions that reduce the window.
    fast: [u64; 4],
    timeouts: [u64; 4],
    /// Packets sent again.
    again: [u64; 4],
    /// How much later than the first of them the last leaves, in milliseconds, if several do and no timer is
    /// awaited.
    span: [&'static str; 4],
}

const SENDERS: [Sender; 4] = [
    Sender {
        name: "Tahoe",
        profile: "tahoe-1988",
        fast: [1, 1, 1, 1],
        timeouts: [0, 0, 0, 0],
        again: [1, 2, 4, 6],
        span: ["", "212 (ns-2.35)", "424 (ns-2.35)", "424 (ns-2.35)"],
    },
    Sender {
        name: "Reno",
        profile: "reno-1990",
        fast: [1, 2, 2, 2],
        timeouts: [0, 0, 1, 1],
        again: [1, 2, 3, 5],
        span: ["", "295 (ns-2.35)", "", ""],
    },
    Sender {
        name: "NewReno",
        profile: "newreno-1999",
        fast: [1, 1, 1, 1],
        timeouts: [0, 0, 0, 0],
        again: [1, 2, 3, 4],
        span: ["", "212 (ns-2.35)", "424 (ns-2.35)", "636 (ns-2.35)"],
    },
    Sender {
        name: "SACK",
        profile: "sack-2003",
        fast: [1, 1, 1, 1],
        timeouts: [0, 0, 0, 0],
        again: [1, 2, 3, 4],
        span: ["", "275 (ns-2.35)", "275 (ns-2.35)", "275 (ns-2.35)"],
    },
];

fn run() -> anyhow::Result<Findings> {
    let found = each(SENDERS, values)?;
    let (values, rows): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let head = ["sender", "lost", "fast retransmissions", "timeouts", "packets sent again"];
    let table = Table {
        title: "What was counted".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.into_iter().flatten().collect(),
    };
    Ok(Findings {
        values: values.into_iter().flatten().collect(),
        tables: vec![table],
        ..Findings::default()
    })
}

/// The values of a sender, and its counts by losses.
fn values(sender: Sender) -> anyhow::Result<(Vec<Value>, Vec<Vec<String>>)> {
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    let mut alike = 0;
    for losses in 0..LOST.len() {
        let Observed { report, conversations, .. } = observe(&scenario(sender, losses + 1), &["a"])?;
        let WayReport { loss_episodes, timeouts, retransmits, .. } =
            report.flow("transfer").context("no transfer")?.there;
        let counts = [loss_episodes, timeouts, retransmits];
        let ns = [sender.fast[losses], sender.timeouts[losses], sender.again[losses]];
        alike += counts.iter().zip(ns).filter(|(here, ns)| **here == *ns).count();
        let row = [sender.name.to_owned(), (losses + 1).to_string()];
        rows.push(row.into_iter().chain(counts.map(|count| count.to_string())).collect());
        let ns = sender.span[losses];
        if !ns.is_empty() {
            let again = || conversations[0].sent.iter().filter(|sent| sent.again).map(|sent| sent.at);
            let (first, last) = again().min().zip(again().max()).context("nothing is sent again")?;
            let span = last.saturating_since(first).as_secs_f64() * 1000.0;
            let value = Summary::of([span]).value(
                format!("{}, {} lost: last sent again after the first", sender.name, losses + 1),
                "ms",
            );
            let reason = (sender.name == "SACK").then_some(IS_LOST);
            values.push(Value {
                others: ns,
                band: Band::printed(ns.trim_end_matches(" (ns-2.35)")),
                reason,
                ..value
            });
        }
    }
    let name = format!("{}: counts that are ns-2's, of twelve", sender.name);
    let counts = Value {
        others: "12 (ns-2.35)",
        band: Band::Printed { number: 12.0, half: 0.0 },
        ..Summary::of([alike as f64]).value(name, "")
    };
    Ok(([counts].into_iter().chain(values).collect(), rows))
}

fn scenario(sender: Sender, losses: usize) -> Scenario {
    let tcp = TcpSettings { mss: Some(1000), ..TcpSettings::profile(sender.profile).fixed_window(28_000) };
    let tcp = tcp.choose("initial-window", 2).choose("acks", "every-second:0s").choose("timestamps", "off");
    let slow = Direction::new(Rate::bits_per_second(800_000), Span::millis(100)).buffers(8);
    let mut lossy = slow.clone();
    lossy.drop = vec![Scripted { packets: LOST[..losses].to_vec(), data: true, of: None }];
    Scenario::new(Span::seconds(5))
        .tcp(tcp)
        .router("r")
        .host("a")
        .host("b")
        .link("a", "r", Direction::new(Rate::mbit(8), Span(0)))
        .asymmetric("r", "b", lossy, slow)
        .traffic(TrafficConfig::bulk("transfer", "a", "b", None))
}

/// In the order in which the scripts add them.
const LOST: [u64; 4] = [14, 28, 26, 24];
const IS_LOST: &str = "RFC 6675 §4 takes a segment for lost when three above it have arrived. The SACK of \
    1996, as ns-2 has it, sends the next hole again as soon as the pipe has room, two to four packets of 10 \
    ms earlier";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BandVerdict;

    #[test]
    fn all_counts_are_those_of_ns() {
        let findings = run().unwrap();
        assert_eq!(findings.values.len(), 4 + 10);
        for value in findings.values.iter().filter(|value| value.unit.is_empty()) {
            assert_eq!(value.verdict(), BandVerdict::Equal, "{}", value.name);
        }
    }
}
