//! BE11/12: how evenly sources of one kind share the bottleneck.

use ackclock_chart::{Figure, Style};
use ackclock_sim::report::jain_index;
use ackclock_sim::units::Span;
use ackclock_sim::{Scenario, TrafficConfig};

use super::{BFA, BUFFERS, DELAY_MS, PAYLOAD_BYTES, RENO, figure_3, ns};
use crate::many::{Summary, each};
use crate::printed::Place;
use crate::{Band, Experiment, Findings, Table, Value, draw, segments};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "BE11/12",
    source: "Awadallah & Rai 1998, §4.3, figs. 11 and 12",
    title: "how evenly six sources share, and two whose delays differ by a quarter",
    set_up: "As BE4-6: six sources of one kind, or two, the second with a path 25 % longer; buffers of 5 \
             to 100 packets. They start together, or apart: by 2, 5, 10 and 20 s in the four runs of a \
             point, since the paper does not say by how much, and their starts fall differently on the 500 \
             ms tick. Throughput is that of the whole run of 1000 s, as in its other figures. The paper's \
             indices for two sources are held against the mean over all buffers, since it does not say for \
             which they are.",
    run,
};

/// The sources that share, and when they start.
#[derive(Clone, Copy)]
struct Sharing {
    profile: &'static str,
    sources: usize,
    /// Whether they start one after the other.
    apart: bool,
}

/// The mean over the runs of one point.
struct Point {
    buffers: u64,
    index: Summary,
    /// Packets per second of each source in the first run.
    shares: Vec<f64>,
}

fn run() -> anyhow::Result<Findings> {
    let of = |sources: usize| {
        each([(BFA, false), (BFA, true), (RENO, false), (RENO, true)], |(profile, apart)| {
            curve(Sharing { profile, sources, apart })
        })
    };
    let (six, two) = (of(6)?, of(2)?);
    let index = |curve: &[Point]| Summary::of(curve.iter().map(|point| point.index.mean));
    let value = |curves: &[Vec<Point>], which: usize, name: &str| {
        let paper = Place::BFA_FAIRNESS.words(JAIN, name);
        let band = if paper.is_empty() { Band::NoReference } else { Band::printed(paper) };
        Value { paper, band, ..index(&curves[which]).value(name, "") }
    };
    let above =
        |curves: &[Vec<Point>], which: usize| Band::Above((1e4 * index(&curves[which]).mean).round() / 1e4);
    let below_together = Band::Below((1e4 * index(&six[0]).mean).round() / 1e4);
    let values = vec![
        value(&two, 0, "two unequal paths, together: BFA").limited(above(&two, 2)),
        value(&two, 2, "two unequal paths, together: Reno"),
        value(&two, 1, "two unequal paths, apart: BFA").limited(above(&two, 3)),
        value(&two, 3, "two unequal paths, apart: Reno"),
        Value { paper: "1.00: perfectly fair", ..value(&six, 0, "six, together: BFA") },
        value(&six, 2, "six, together: Reno"),
        value(&six, 1, "six, apart: BFA").limited(below_together),
        value(&six, 3, "six, apart: Reno"),
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
        let shares = each(0..RUNS as u64, |run| shares_of(&scenario(sharing, buffers, run), sharing))?;
        let index = Summary::of(shares.iter().map(|shares| jain_index(shares)));
        Ok(Point { buffers, index, shares: shares.into_iter().next().unwrap_or_default() })
    })
}

/// Packets per second of each source.
fn shares_of(scenario: &Scenario, sharing: Sharing) -> anyhow::Result<Vec<f64>> {
    let series = segments::observe(scenario, &[])?.series;
    let Some(flows) = series.flows.last() else { anyhow::bail!("no samples were taken") };
    let packets = PAYLOAD_BYTES as f64 * END.0 as f64 / 1e9;
    let share = |one: usize| flows[one].bytes as f64 / packets;
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
    let apart = if sharing.apart { APART[run as usize % RUNS] } else { Span(0) };
    for number in 0..sharing.sources {
        let (from, to) = (format!("a{}", number + 1), format!("b{}", number + 1));
        let start = Span(number as u64 * apart.0 + Span::millis(run * TICK_MS / RUNS as u64).0);
        scenario = scenario.traffic(TrafficConfig::bulk(&from, &from, &to, None).start(start));
    }
    scenario
}

const NAMES: [&str; 4] = ["BFA, together", "BFA, apart", "Reno, together", "Reno, apart"];

fn table(title: &str, curves: &[Vec<Point>]) -> Table {
    let row = |(index, buffers): (usize, &u64)| {
        let indices = curves.iter().map(|curve| format!("{:.4}", curve[index].index.mean));
        [buffers.to_string()].into_iter().chain(indices).collect()
    };
    Table {
        title: format!("{title} (means of 4 runs)"),
        head: ["buffers"].into_iter().chain(NAMES).map(str::to_owned).collect(),
        rows: BUFFERS.iter().enumerate().map(row).collect(),
    }
}

fn shares(curve: &[Point]) -> Figure {
    let line = |one: usize| curve.iter().map(move |point| (point.buffers as f64, point.shares[one]));
    let series = (0..6)
        .map(|one| draw::series(&format!("source {}", one + 1), Style::Line, draw::KINDS[one], line(one)));
    let caption = "Six BFA sources that start 2 s apart, one run a point: throughput of each.";
    let panel = draw::panel("throughput (packets/s)", series.collect());
    draw::figure("What six BFA sources get", caption, "buffers (packets)", vec![panel])
}

fn indices(curves: &[Vec<Point>]) -> Figure {
    let colours = ["BFA", "BFA", "Reno", "Reno"].map(draw::colour);
    let series = NAMES.iter().zip(curves).enumerate().map(|(index, (name, curve))| {
        let style = if index % 2 == 0 { Style::Line } else { Style::Dashed };
        let line = curve.iter().map(|point| (point.buffers as f64, point.index));
        draw::measured(name, style, colours[index], line)
    });
    // The paper does not say with how many buffers.
    let paper = ["together", "apart"].map(|how| {
        let index = Place::BFA_FAIRNESS.number(JAIN, &format!("six, {how}: BFA"));
        (draw::colour("BFA"), BUFFERS.map(|buffers| (buffers as f64, index)).to_vec())
    });
    let series = series.chain(Place::BFA_FAIRNESS.dotted(paper));
    let caption = "Six sources of one kind over 64 kbit/s; 1: all have the same; means of 4 runs, with the \
                   least and the most of single ones. The paper's two numbers are BFA's, together and apart.";
    let mut panel = draw::panel(JAIN, series.collect());
    panel.y.range = draw::from_zero(&panel);
    draw::figure("Fairness by the bottleneck's buffers", caption, "buffers (packets)", vec![panel])
}

const JAIN: &str = "Jain's index";
const APART: [Span; RUNS] = [Span::seconds(2), Span::seconds(5), Span::seconds(10), Span::seconds(20)];
const END: Span = Span::seconds(1000);
const SAMPLE: Span = Span::seconds(100);
const RUNS: usize = 4;
const TICK_MS: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_unequal_bfas_share_better_than_two_unequal_renos() {
        let index = |profile| {
            let sharing = Sharing { profile, sources: 2, apart: false };
            jain_index(&shares_of(&scenario(sharing, 60, 0), sharing).unwrap())
        };
        assert!(index(BFA) > index(RENO), "{} {}", index(BFA), index(RENO));
    }
}
