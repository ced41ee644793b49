//! BE11/12: how evenly sources of one kind share the bottleneck.

use ackclock_chart::{Figure, Style};
use ackclock_sim::report::jain_index;
use ackclock_sim::units::Span;
use ackclock_sim::{Scenario, TrafficConfig};

use super::{BFA, BUFFERS, DELAY_MS, PACKET_BYTES, RENO, figure_3, ns, payload};
use crate::many::{Summary, each};
use crate::{Band, Experiment, Findings, Table, Value, draw, segments};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "BE11/12",
    source: "Awadallah & Rai 1998, §4.3, figs. 11 and 12",
    title: "how evenly six sources share, and two whose delays differ by a quarter",
    set_up: "As BE4-6: six sources of one kind, or two, the second with a path 25 % longer; buffers of 5 to \
             100 packets. They start together, or 20 s apart, which the paper leaves open; throughput is \
             taken from 200 s, when all have started, to 1000 s. Three runs a point, whose starts fall \
             differently on the 500 ms tick. The paper's indices for two sources are held against the mean \
             over all buffers, since it does not say for which they are.",
    run,
};

/// The sources that share, and when they start.
#[derive(Clone, Copy)]
struct Sharing {
    profile: &'static str,
    sources: usize,
    /// Time between the starts.
    apart: Span,
}

/// The mean over the runs of one point.
struct Point {
    buffers: u64,
    index: f64,
    /// Packets per second of each source in the first run.
    shares: Vec<f64>,
}

fn run() -> anyhow::Result<Findings> {
    let of = |sources: usize| {
        each([(BFA, Span(0)), (BFA, APART), (RENO, Span(0)), (RENO, APART)], |(profile, apart)| {
            curve(Sharing { profile, sources, apart })
        })
    };
    let (six, two) = (of(6)?, of(2)?);
    let index = |curve: &[Point]| Summary::of(curve.iter().map(|point| point.index));
    let value = |curves: &[Vec<Point>], which: usize, name: &str, paper: &'static str, band: Band| Value {
        paper,
        band,
        ..index(&curves[which]).value(name, "")
    };
    let above =
        |curves: &[Vec<Point>], which: usize| Band::Above((1e4 * index(&curves[which]).mean).round() / 1e4);
    let below_together = Band::Below((1e4 * index(&six[0]).mean).round() / 1e4);
    let values = vec![
        value(&two, 0, "two unequal paths, together: BFA", "1.0000", Band::printed("1.0000"))
            .limited(above(&two, 2))
            .because(TWO_AND_FIVE),
        value(&two, 2, "two unequal paths, together: Reno", "0.6164", Band::printed("0.6164"))
            .because(BY_BUFFERS),
        value(&two, 1, "two unequal paths, 20 s apart: BFA", "0.8989", Band::printed("0.8989"))
            .limited(above(&two, 3))
            .because(APART_BY),
        value(&two, 3, "two unequal paths, 20 s apart: Reno", "0.6467", Band::printed("0.6467"))
            .because(BY_BUFFERS),
        value(&six, 0, "six, together: BFA", "1.00: perfectly fair", Band::printed("1.00"))
            .because(FIVE_BUFFERS),
        value(&six, 2, "six, together: Reno", "", Band::NoReference),
        value(&six, 1, "six, 20 s apart: BFA", "lower than together", below_together),
        value(&six, 3, "six, 20 s apart: Reno", "", Band::NoReference),
    ];
    let figures = vec![("BE11".to_owned(), shares(&six[1])), ("BE12".to_owned(), indices(&six))];
    let tables = vec![
        table("Jain's index of six sources", &six),
        table("Jain's index of two sources, one 25 % farther", &two),
    ];
    Ok(Findings { values, tables, figures, notes: Vec::new() })
}

fn curve(sharing: Sharing) -> anyhow::Result<Vec<Point>> {
    each(BUFFERS, |buffers| {
        let shares = each(0..RUNS, |run| shares_of(&scenario(sharing, buffers, run), sharing))?;
        let index = Summary::of(shares.iter().map(|shares| jain_index(shares))).mean;
        Ok(Point { buffers, index, shares: shares.into_iter().next().unwrap_or_default() })
    })
}

/// Packets per second of each source, from when all have started.
fn shares_of(scenario: &Scenario, sharing: Sharing) -> anyhow::Result<Vec<f64>> {
    let series = segments::observe(scenario, &[])?.series;
    let at = |span: Span| series.at_ns.iter().position(|at| *at >= span.0);
    let (Some(from), Some(to)) = (at(FROM), at(END)) else { anyhow::bail!("no samples were taken") };
    let packet = payload(sharing.profile, PACKET_BYTES);
    let seconds = (END.0 - FROM.0) as f64 / 1e9;
    let share =
        |one: usize| (series.flows[to][one].bytes - series.flows[from][one].bytes) as f64 / packet / seconds;
    Ok((0..sharing.sources).map(share).collect())
}

fn scenario(sharing: Sharing, buffers: u64, run: u64) -> Scenario {
    let mut scenario =
        figure_3(sharing.sources, buffers, DELAY_MS).scenario(END).seed(run).tcp(ns(sharing.profile));
    scenario.sample_every = Some(SAMPLE);
    if sharing.sources == 2 {
        // The first path is 102 ms long in each direction, a quarter more than the others.
        let label = "a2-left";
        for link in scenario.links.iter_mut().filter(|link| link.label() == label) {
            link.there.delay = Span(link.there.delay.0 + Span::millis(DELAY_MS + 2).0 / 4);
        }
    }
    for number in 0..sharing.sources {
        let (from, to) = (format!("a{}", number + 1), format!("b{}", number + 1));
        let start = Span(number as u64 * sharing.apart.0 + Span::millis(run * TICK_MS / RUNS).0);
        scenario = scenario.traffic(TrafficConfig::bulk(&from, &from, &to, None).start(start));
    }
    scenario
}

const BY_BUFFERS: &str = "the paper does not say for which number of buffers its index is; single ones are \
    on both sides of it here (second table)";
const FIVE_BUFFERS: &str = "with five buffers, where six sources cannot have a packet each in the queue, it \
    is 0.6818; from ten buffers on the index is 1.0000 everywhere (first table)";
const TWO_AND_FIVE: &str =
    "with five buffers it is 0.8999; from ten on it is the paper's 1.0000 everywhere (second table)";
const APART_BY: &str = "from ten buffers on it is 0.9003 everywhere, with five 0.9800 (second table). How \
    far apart the paper's two start is not given; other distances than 20 s were not tried";
const NAMES: [&str; 4] = ["BFA, together", "BFA, 20 s apart", "Reno, together", "Reno, 20 s apart"];

fn table(title: &str, curves: &[Vec<Point>]) -> Table {
    let row = |(index, buffers): (usize, &u64)| {
        let indices = curves.iter().map(|curve| format!("{:.4}", curve[index].index));
        [buffers.to_string()].into_iter().chain(indices).collect()
    };
    Table {
        title: format!("{title} (means of 3 runs)"),
        head: ["buffers"].into_iter().chain(NAMES).map(str::to_owned).collect(),
        rows: BUFFERS.iter().enumerate().map(row).collect(),
    }
}

fn shares(curve: &[Point]) -> Figure {
    let line = |one: usize| curve.iter().map(move |point| (point.buffers as f64, point.shares[one]));
    let series =
        (0..6u8).map(|one| draw::series(&format!("source {}", one + 1), Style::Line, one, line(one.into())));
    let caption =
        "Six BFA sources that start 20 s apart, one run a point: throughput of each from 200 s to 1000 s.";
    let panel = draw::panel("throughput (packets/s)", series.collect());
    draw::figure("What six BFA sources get", caption, "buffers (packets)", vec![panel])
}

fn indices(curves: &[Vec<Point>]) -> Figure {
    let series = NAMES.iter().zip(curves).enumerate().map(|(index, (name, curve))| {
        let style = if index % 2 == 0 { Style::Line } else { Style::Dashed };
        let line = curve.iter().map(|point| (point.buffers as f64, point.index));
        draw::series(name, style, (index / 2) as u8, line)
    });
    let caption = "Six sources of one kind over 64 kbit/s; 1: all have the same; means of 3 runs.";
    let panel = draw::panel("Jain's index", series.collect());
    draw::figure("Fairness by the bottleneck's buffers", caption, "buffers (packets)", vec![panel])
}

const APART: Span = Span::seconds(20);
const FROM: Span = Span::seconds(200);
const END: Span = Span::seconds(1000);
const SAMPLE: Span = Span::seconds(100);
const RUNS: u64 = 3;
const TICK_MS: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_unequal_bfas_share_better_than_two_unequal_renos() {
        let index = |profile| {
            let sharing = Sharing { profile, sources: 2, apart: Span(0) };
            jain_index(&shares_of(&scenario(sharing, 60, 0), sharing).unwrap())
        };
        assert!(index(BFA) > index(RENO), "{} {}", index(BFA), index(RENO));
    }
}
