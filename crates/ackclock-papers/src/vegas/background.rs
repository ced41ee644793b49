//! Table IV and figs. 9 and 10: a megabyte beside tcplib's traffic.

use ackclock_chart::{Axis, Figure, Style};
use ackclock_sim::scenario::TcplibMix;
use ackclock_sim::units::Span;
use ackclock_sim::{Report, Scenario, TrafficConfig, TrafficKind};

use super::network::{
    MEGABYTE, RENO, Sender, Transfer, Transfers, VEGAS, VEGAS_2_4, fig6, flow, head, ratio, run_until_over,
    transfer,
};
use crate::draw::{axis, colour, measured, panel};
use crate::many::{Summary, each};
use crate::printed::Place;
use crate::{Band, Experiment, Findings, Table, Value, changes};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "VT4",
    source: "Brakmo and Peterson 1995, table IV",
    title: "a megabyte beside tcplib's traffic",
    set_up: "The network of fig. 6 with 10, 15 and 20 buffers; tcplib between the hosts of the first pair \
             over Reno, and from the 20th second a megabyte between those of the second: 19 seeds for each \
             number of buffers, 57 runs. Kinds, sizes and numbers of items come from tcplib's tables. The \
             paper does not say how dense the traffic is. Calibrated: conversations begin every 125 ms on \
             average, with which Reno's megabyte comes to about the paper's 58 KB/s, and everything else is \
             held out. The table shows other densities, and tcplib over Vegas.",
    run,
};

/// The background of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Background {
    /// Mean time between conversations.
    pub every: Span,
    pub sender: Sender,
    /// The mean time between conversations from right to left, between the hosts of the third pair, if there
    /// are any.
    pub reverse: Option<Span>,
}

/// The mean time between conversations with which Reno reaches the paper's throughput.
const EVERY_MS: u64 = 125;
/// Quantities of the paper's table.
const QUANTITIES: [&str; 3] = ["KB/s", "KB sent again", "coarse timeouts"];
/// "The numbers shown are averages from 57 runs" (§IV-B2).
pub(super) const PAPER_RUNS: usize = 57;
/// Runs for each number of buffers.
const SEEDS: u64 = 19;
const SENDERS: [Sender; 3] = [RENO, VEGAS, VEGAS_2_4];
/// When the megabyte begins: after the traffic has started.
const BEGIN: Span = Span::seconds(20);

impl Background {
    /// Reno's, with the density of most experiments.
    pub fn usual() -> anyhow::Result<Self> {
        let every = Span::millis(changes::open("every-ms", EVERY_MS)?);
        Ok(Self { every, sender: RENO, reverse: None })
    }

    /// The network with this traffic.
    pub fn scenario(self, buffers: u64) -> Scenario {
        let tcplib = |name, from, to, every| {
            let what = TrafficKind::Tcplib { every, until: None, mix: TcplibMix::default() };
            TrafficConfig::new(name, from, to, what)
        };
        let scenario = fig6(200, buffers).scenario(Span::seconds(3600)).tcp(self.sender.tcp());
        let scenario = scenario.traffic(tcplib("background", "a1", "b1", self.every));
        match self.reverse {
            Some(every) => scenario.traffic(tcplib("reverse", "b3", "a3", every)),
            None => scenario,
        }
    }
}

/// The results of a megabyte and of the traffic beside it, over 10, 15 and 20 buffers.
pub(super) struct Beside {
    pub(super) transfers: Transfers,
    /// KB/s of the background from the beginning to the megabyte's end.
    background: Summary,
}

/// A megabyte by `sender` over 10, 15 and 20 buffers, with this many seeds each.
pub(super) fn beside(background: Background, sender: Sender, seeds: u64) -> anyhow::Result<Beside> {
    beside_with(background, seeds, || transfer("transfer", 2, MEGABYTE, sender))
}

pub(super) fn beside_with(
    background: Background,
    seeds: u64,
    megabyte: impl Fn() -> TrafficConfig + Send + Sync,
) -> anyhow::Result<Beside> {
    let runs = [10, 15, 20].into_iter().flat_map(|buffers| (0..seeds).map(move |seed| (buffers, seed)));
    let found = each(runs, |(buffers, seed)| {
        let scenario = background.scenario(buffers).seed(seed).traffic(megabyte().start(BEGIN));
        let report = run_until_over(&scenario, &["transfer"])?;
        Ok((Transfer::of(&report, "transfer")?, background_rate(&report)?))
    })?;
    let transfers: Vec<Transfer> = found.iter().map(|(transfer, _)| *transfer).collect();
    Ok(Beside {
        transfers: Transfers::of(&transfers),
        background: Summary::of(found.into_iter().map(|(_, rate)| rate)),
    })
}

fn background_rate(report: &Report) -> anyhow::Result<f64> {
    let background = flow(report, "background")?;
    Ok((background.there.bytes + background.back.bytes) as f64 / 1000.0 / report.time)
}

fn run() -> anyhow::Result<Findings> {
    let usual = Background::usual()?;
    let [reno, vegas, vegas_2_4] = SENDERS.map(|sender| beside(usual, sender, SEEDS));
    let (reno, vegas, vegas_2_4) = (reno?, vegas?, vegas_2_4?);
    let over_reno =
        |of: fn(&Transfers) -> Summary, one: &Beside| of(&one.transfers).over_mean(of(&reno.transfers));
    let mut values = vec![
        Value {
            paper: "58.3: the density is chosen by it",
            ..reno.transfers.throughput.value("Reno: throughput", "KB/s")
        },
        reno.transfers.retransmitted.value("Reno: sent again", "KB").printed(paper(RENO)[1]),
        reno.transfers.timeouts.value("Reno: coarse timeouts", "").printed(paper(RENO)[2]),
    ];
    let of_vegas = [
        (VEGAS, &vegas, paper(VEGAS), ["1.53", "0.49", "0.16"]),
        (VEGAS_2_4, &vegas_2_4, paper(VEGAS_2_4), ["1.58", "0.53", "0.16"]),
    ];
    for (Sender { name, .. }, found, paper, ratios) in of_vegas {
        let Transfers { throughput, retransmitted, timeouts } = found.transfers;
        values.extend([
            throughput.value(format!("{name}: throughput"), "KB/s").printed(paper[0]),
            retransmitted.value(format!("{name}: sent again"), "KB").printed(paper[1]),
            timeouts.value(format!("{name}: coarse timeouts"), "").printed(paper[2]),
            over_reno(|one| one.throughput, found)
                .value(format!("{name}/Reno throughput"), "")
                .printed(ratios[0])
                .limited(Band::AtLeast(1.3)),
            over_reno(|one| one.retransmitted, found)
                .value(format!("{name}/Reno sent again"), "")
                .printed(ratios[1]),
            over_reno(|one| one.timeouts, found)
                .value(format!("{name}/Reno coarse timeouts"), "")
                .printed(ratios[2])
                .limited(Band::AtMost(0.5)),
        ]);
    }
    let mut values: Vec<Value> = values.into_iter().map(|value| value.of_runs(PAPER_RUNS)).collect();
    values.push(Value {
        paper: "“mostly unaffected”",
        band: Band::UNCHANGED,
        ..vegas
            .background
            .over_mean(reno.background)
            .value("background beside Vegas over beside Reno, throughput", "")
    });
    let found = [reno, vegas, vegas_2_4];
    Ok(Findings {
        values,
        figures: vec![figure(&found)],
        tables: changes::tables(|| Ok(vec![table(&found), densities()?]))?,
        ..Findings::default()
    })
}

/// The paper's values of a sender, by [`QUANTITIES`].
fn paper(sender: Sender) -> [&'static str; 3] {
    QUANTITIES.map(|quantity| Place::TABLE_IV.words(quantity, sender.name))
}

fn figure(found: &[Beside; 3]) -> (String, Figure) {
    let bars = |of: fn(&Transfers) -> Summary, quantity: &str| {
        let bar = |(sender, found): (Sender, &Beside)| {
            measured(sender.name, Style::Bars, colour(sender.name), [(0.0, of(&found.transfers))])
        };
        let ring = |sender: Sender| {
            (colour(sender.name), vec![(0.0, Place::TABLE_IV.number(quantity, sender.name))])
        };
        let bars = SENDERS.into_iter().zip(found).map(bar);
        bars.chain(Place::TABLE_IV.rings(SENDERS.map(ring))).collect()
    };
    let figure = Figure {
        title: "Beside tcplib's traffic".to_owned(),
        caption:
            "A megabyte beside tcplib's traffic over Reno: means of 57 runs, with the least and the most of \
                  single ones."
                .to_owned(),
        x: Axis { categories: vec!["57 runs of each".to_owned()], ..axis("") },
        panels: vec![
            panel("throughput (KB/s)", bars(|one| one.throughput, QUANTITIES[0])),
            panel("sent again (KB)", bars(|one| one.retransmitted, QUANTITIES[1])),
            panel("coarse timeouts", bars(|one| one.timeouts, QUANTITIES[2])),
        ],
    };
    ("table4-background".to_owned(), figure)
}

fn table(found: &[Beside; 3]) -> Table {
    let rows = SENDERS.into_iter().zip(found).map(|(sender, found)| {
        let cells = found.transfers.cells().into_iter().zip(paper(sender));
        let cells = cells.flat_map(|(measured, paper)| [measured, paper.to_owned()]);
        std::iter::once(sender.name.to_owned()).chain(cells).collect()
    });
    let head = ["", "KB/s", "the paper's", "sent again (KB)", "the paper's", "timeouts", "the paper's"];
    Table { title: "Table IV".to_owned(), head: head.map(str::to_owned).to_vec(), rows: rows.collect() }
}

/// Other densities, and Vegas for all traffic.
fn densities() -> anyhow::Result<Table> {
    let usual = Background::usual()?;
    let other = |millis| Background { every: Span::millis(millis), ..usual };
    let rows =
        [other(80), other(100), other(115), other(140), other(200), Background { sender: VEGAS, ..usual }];
    let rows = rows.into_iter().map(|background| {
        let [reno, vegas] = [RENO, VEGAS].map(|sender| beside(background, sender, SEEDS / 3));
        let (reno, vegas) = (reno?, vegas?);
        let ratio = ratio(vegas.transfers.throughput.mean, reno.transfers.throughput.mean);
        let what = format!("{} ms, {}", background.every.0 / 1_000_000, background.sender.name);
        let rate = format!("{:.0}", reno.background.mean);
        let (reno, vegas) = (reno.transfers.cells().to_vec(), vegas.transfers.cells().to_vec());
        Ok([vec![what, rate], reno, vegas, vec![format!("{ratio:.2}")]].concat())
    });
    Ok(Table {
        title: format!("The same with other densities, {} runs each", 3 * (SEEDS / 3)),
        head: head(&["tcplib: every, over", "background (KB/s)"], &[RENO, VEGAS], &["Vegas/Reno"]),
        rows: rows.collect::<anyhow::Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vegas_is_faster_beside_tcplib_and_times_out_less() {
        let [reno, vegas] =
            [RENO, VEGAS].map(|sender| beside(Background::usual().unwrap(), sender, 2).unwrap().transfers);
        assert!(vegas.throughput.mean > reno.throughput.mean, "{reno:?} {vegas:?}");
        assert!(vegas.timeouts.mean < reno.timeouts.mean, "{reno:?} {vegas:?}");
    }
}
