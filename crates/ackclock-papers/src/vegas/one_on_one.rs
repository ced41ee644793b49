//! Table III: 300 KB inside a megabyte, by Reno and by Vegas.

use ackclock_chart::{Axis, Figure, Style};
use ackclock_sim::units::Span;

use super::network::{
    MEGABYTE, OTHER_RENOS, RENO, Sender, Transfer, Transfers, VEGAS, fig6, ratio, run_until_over, transfer,
};
use crate::draw::{OTHER, PALE, axis, measured, panel};
use crate::many::{Summary, each};
use crate::printed::Place;
use crate::witness::Witness;
use crate::{Band, Experiment, Findings, Table, Value, changes};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "VT3",
    source: "Brakmo and Peterson 1995, table III",
    title: "a transfer of 300 KB within one of a megabyte, each by Reno or Vegas",
    set_up: "The network of fig. 6 with 15 and 20 buffers; the smaller transfer begins 0 to 2.5 s after the \
             larger, in 26 steps, and the larger one anywhere within a tick of the coarse timer: 52 runs of \
             each combination, where the paper has 12. The others' numbers are those of ns-3.48.",
    run,
};

const BY_DELAY: &str = "single runs reach over the distance (column runs); how the paper spread the delay \
    between the two is not given. What Reno's timer and growth are decides more (second table)";
const RENO_BESIDE_RENO: &str = "beside Reno single runs go down to 28 KB/s, beside Vegas they do not";
/// "averages from 12 runs" (§IV-B1).
const PAPER_RUNS: usize = 12;
/// Steps of the delay between the two.
const DELAYS: u64 = 26;
const SIZES: [&str; 2] = ["300 KB", "1 MB"];
/// Quantities of the paper's table.
const RATE: &str = "KB/s";
const AGAIN: &str = "KB sent again";
/// Small and large transfers in the order of the table.
const PAIRS: [SenderPair; 4] = [
    SenderPair { small: RENO, large: RENO, others: ["53", "126"] },
    SenderPair { small: RENO, large: VEGAS, others: ["52", "106"] },
    SenderPair { small: VEGAS, large: RENO, others: ["56", "121"] },
    SenderPair { small: VEGAS, large: VEGAS, others: ["86", "112"] },
];

struct SenderPair {
    small: Sender,
    large: Sender,
    /// KB/s by ns-3.48.
    others: [&'static str; 2],
}

impl SenderPair {
    fn name(&self) -> String {
        format!("{}/{}", self.small.name, self.large.name)
    }

    /// The paper's values of a transfer: KB/s and KB sent again.
    fn paper(&self, size: &str) -> [&'static str; 2] {
        [RATE, AGAIN].map(|quantity| Place::TABLE_III.words(quantity, &format!("{}, {size}", self.name())))
    }
}

fn run() -> anyhow::Result<Findings> {
    let found =
        PAIRS.iter().map(|pair| both(pair.small, pair.large, DELAYS)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut values = Vec::new();
    for (pair, found) in PAIRS.iter().zip(&found) {
        for (which, size) in SIZES.into_iter().enumerate() {
            let [rate, again] = pair.paper(size);
            let name = format!("{}: throughput of {size}", pair.name());
            let others = pair.others[which];
            let value = found[which].throughput.value(name, "KB/s").printed(rate);
            values.push(Value { others, ..value.of_runs(PAPER_RUNS).because(BY_DELAY) });
            let name = format!("{}: sent again of {size}", pair.name());
            let value = found[which].retransmitted.value(name, "KB").printed(again);
            values.push(value.of_runs(PAPER_RUNS).because(BY_DELAY));
        }
    }
    let again = |pair: usize| found[pair][0].retransmitted.mean + found[pair][1].retransmitted.mean;
    values.push(Value {
        // "the combined Vegas/Vegas retransmits are less than 1 KB", beside 52 KB.
        paper: "< 1 of 52 KB",
        band: Band::Below(1.0 / 52.0),
        ..Summary::of([ratio(again(3), again(0))]).value("sent again, Vegas/Vegas over Reno/Reno", "")
    });
    values.push(Value {
        paper: "1.02: “pretty much unchanged”",
        band: Band::UNCHANGED,
        reason: Some(RENO_BESIDE_RENO),
        ..found[1][0]
            .throughput
            .over_mean(found[0][0].throughput)
            .value("Reno's 300 KB beside Vegas over beside Reno, throughput", "")
    });
    Ok(Findings {
        values,
        tables: changes::tables(|| Ok(vec![table(&found), renos(&found)?, witness(&found)?]))?,
        figures: vec![figure(&found)],
        notes: Vec::new(),
    })
}

/// The small and the large transfer over all buffers and delays.
fn both(small: Sender, large: Sender, delays: u64) -> anyhow::Result<[Transfers; 2]> {
    let runs = [15, 20].into_iter().flat_map(|buffers| (0..delays).map(move |step| (buffers, step)));
    let found = each(runs, |(buffers, step)| {
        // 37 and 500 are coprime: the phases within a tick do not repeat with the delays.
        let begin = Span::millis(37 * step % 500);
        let delay = Span::millis(begin.0 / 1_000_000 + 2500 * step / (delays - 1));
        let scenario = fig6(200, buffers)
            .scenario(Span::seconds(120))
            .tcp(RENO.tcp())
            .traffic(transfer("large", 1, MEGABYTE, large).start(begin))
            .traffic(transfer("small", 2, 300, small).start(delay));
        let report = run_until_over(&scenario, &["large", "small"])?;
        Ok([Transfer::of(&report, "small")?, Transfer::of(&report, "large")?])
    })?;
    Ok([0, 1].map(|which| Transfers::of(&found.iter().map(|both| both[which]).collect::<Vec<_>>())))
}

fn table(found: &[[Transfers; 2]]) -> Table {
    let rows = PAIRS.iter().zip(found).map(|(pair, [small, large])| {
        let two = |of: fn(&Transfers) -> f64, digits: usize| {
            format!("{:.*} / {:.*}", digits, of(small), digits, of(large))
        };
        let [[small_paper, small_again], [large_paper, large_again]] = SIZES.map(|size| pair.paper(size));
        vec![
            pair.name(),
            two(|one| one.throughput.mean, 0),
            format!("{small_paper} / {large_paper}"),
            two(|one| one.retransmitted.mean, 1),
            format!("{small_again} / {large_again}"),
            two(|one| one.timeouts.mean, 2),
        ]
    });
    let head = ["300 KB / 1 MB", "KB/s", "the paper's", "sent again (KB)", "the paper's", "timeouts"];
    Table { title: "Table III".to_owned(), head: head.map(str::to_owned).to_vec(), rows: rows.collect() }
}

/// The pairs with Reno, by Reno's rules.
fn renos(found: &[[Transfers; 2]]) -> anyhow::Result<Table> {
    let numbers = |[small, large]: &[Transfers; 2]| {
        [
            format!("{:.0} / {:.0}", small.throughput.mean, large.throughput.mean),
            format!("{:.1} / {:.1}", small.retransmitted.mean, large.retransmitted.mean),
        ]
    };
    let mut rows = vec![found.iter().take(3).flat_map(numbers).collect::<Vec<_>>()];
    for reno in OTHER_RENOS {
        let with = |sender: Sender| if sender == RENO { reno } else { sender };
        let pairs = PAIRS.iter().take(3);
        let found = pairs.map(|pair| both(with(pair.small), with(pair.large), DELAYS));
        rows.push(found.collect::<anyhow::Result<Vec<_>>>()?.iter().flat_map(numbers).collect());
    }
    let names = [RENO].into_iter().chain(OTHER_RENOS).map(|reno| reno.name.to_owned());
    let rows = names.zip(rows).map(|(name, row)| [name].into_iter().chain(row).collect()).collect();
    let pairs = PAIRS.iter().take(3).map(SenderPair::name);
    let heads = pairs.flat_map(|pair| [format!("{pair}: KB/s"), "sent again (KB)".to_owned()]);
    Ok(Table {
        title: "The same by Reno's rules (300 KB / 1 MB)".to_owned(),
        head: ["Reno".to_owned()].into_iter().chain(heads).collect(),
        rows,
    })
}

/// The results of a model of the same rules without this code (`tests/reference/table3.py`).
fn witness(found: &[[Transfers; 2]]) -> anyhow::Result<Table> {
    let rows = PAIRS.iter().zip(found).map(|(pair, [small, large])| {
        let name = pair.name();
        let pair = name.to_lowercase();
        let model = |column| anyhow::Ok(MODEL.of(&[&pair], column)?.mean);
        let two = |small: f64, large: f64| format!("{small:.1} / {large:.1}");
        let rates = [
            two(small.throughput.mean, large.throughput.mean),
            two(model("small_kb_s")?, model("large_kb_s")?),
        ];
        let again = [
            two(small.retransmitted.mean, large.retransmitted.mean),
            two(model("small_kb_again")?, model("large_kb_again")?),
        ];
        Ok([vec![name.clone()], rates.to_vec(), again.to_vec()].concat())
    });
    let head = [
        "300 KB / 1 MB",
        "KB/s: here",
        "KB/s: the model",
        "sent again (KB): here",
        "sent again (KB): the model",
    ];
    let title = "Beside a model in Python".to_owned();
    let rows = rows.collect::<anyhow::Result<_>>()?;
    Ok(Table { title, head: head.map(str::to_owned).to_vec(), rows })
}

const MODEL: Witness = Witness::new(include_str!("../../tests/vectors/table3.csv"));

fn figure(found: &[[Transfers; 2]]) -> (String, Figure) {
    // Greys: the senders are named below the bars.
    let colours = [OTHER, PALE];
    let bars = |of: fn(&Transfers) -> Summary, quantity: &str| {
        let bar = |(which, size): (usize, &str)| {
            let points = found.iter().zip(0u32..).map(|(both, n)| (n.into(), of(&both[which])));
            measured(size, Style::Bars, colours[which], points)
        };
        let paper = |(which, size): (usize, &str)| {
            let of =
                |pair: &SenderPair| Place::TABLE_III.number(quantity, &format!("{}, {size}", pair.name()));
            (colours[which], PAIRS.iter().zip(0u32..).map(|(pair, n)| (n.into(), of(pair))).collect())
        };
        let both = SIZES.into_iter().enumerate();
        both.clone().map(bar).chain(Place::TABLE_III.rings(both.map(paper))).collect()
    };
    let categories = PAIRS.iter().map(SenderPair::name).collect();
    let figure = Figure {
        title: "One on one".to_owned(),
        caption: "300 KB inside a megabyte, the smaller transfer's sender named first: mean throughput and \
                  KB sent again over 52 runs, with the least and the most of single ones."
            .to_owned(),
        x: Axis { categories, ..axis("") },
        panels: vec![
            panel("throughput (KB/s)", bars(|one| one.throughput, RATE)),
            panel("sent again (KB)", bars(|one| one.retransmitted, AGAIN)),
        ],
    };
    ("table3-one-on-one".to_owned(), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_vegas_send_hardly_anything_again_where_two_renos_send_much() {
        let [reno, vegas] = [RENO, VEGAS].map(|sender| both(sender, sender, 3).unwrap());
        let again = |found: &[Transfers; 2]| found[0].retransmitted.mean + found[1].retransmitted.mean;
        assert!(again(&reno) > 10.0 && again(&vegas) < 0.05 * again(&reno));
        assert!(vegas[0].throughput.mean > reno[0].throughput.mean);
    }

    #[test]
    fn the_picture_has_the_papers_numbers_over_the_bars_and_the_spread() {
        let runs = [1.0, 3.0].map(|throughput| Transfer { throughput, ..Transfer::default() });
        let (_, figure) = figure(&PAIRS.map(|_| [Transfers::of(&runs); 2]));
        let of = |style| figure.panels[0].series.iter().filter(move |series| series.style == style);
        assert!(of(Style::Bars).all(|bars| bars.points.iter().all(|point| point.range == Some((1.0, 3.0)))));
        let numbers: Vec<Vec<f64>> =
            of(Style::Rings).map(|rings| rings.points.iter().map(|point| point.y).collect()).collect();
        // Brakmo and Peterson 1995, table III.
        assert_eq!(numbers, [[60.0, 61.0, 66.0, 74.0], [109.0, 123.0, 119.0, 131.0]]);
        let named: Vec<&str> = of(Style::Rings).map(|rings| rings.name.as_str()).collect();
        assert_eq!(named, ["the paper's (table III)", ""]);
        assert!(of(Style::Rings).map(|rings| rings.colour).eq(of(Style::Bars).map(|bars| bars.colour)));
    }

    #[test]
    fn all_pairs_are_as_fast_and_send_as_much_again_as_in_the_model() {
        for pair in &PAIRS {
            let name = pair.name().to_lowercase();
            let here = both(pair.small, pair.large, DELAYS).unwrap();
            for (found, size) in here.iter().zip(["small", "large"]) {
                let model = |what: &str| MODEL.of(&[&name], &format!("{size}_{what}")).unwrap().mean;
                let faster = found.throughput.mean / model("kb_s") - 1.0;
                let more = found.retransmitted.mean - model("kb_again");
                assert!(faster.abs() < 0.07 && more.abs() < 2.0, "{name}, {size}: {faster}, {more} KB");
            }
        }
    }
}
