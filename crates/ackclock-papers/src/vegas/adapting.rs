//! Figs. 9 and 10: how a transfer follows the traffic beside it.

use ackclock_chart::{Axis, Figure, Style};
use ackclock_sim::units::Span;

use super::background::Background;
use super::network::{MEGABYTE, RENO, Sender, Transfer, VEGAS, ratio, transfer};
use super::watch::{SAMPLE, Watched, watch, windows};
use crate::draw::{OTHER, PALE, axis, colour, panel, series};
use crate::many::{Summary, each};
use crate::{Band, Experiment, Findings, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "VE9/10",
    source: "Brakmo and Peterson 1995, figs. 9 and 10",
    title: "a megabyte that follows the load beside it",
    set_up: "As VT4, with 10 buffers and 20 seeds; how far the transfer's rate and the background's move \
             against each other, as the correlation of both over half seconds, and how busy the bottleneck \
             is while the transfer lasts: the mean output, and the share of intervals of 100 ms, as in the \
             paper's bottom graph, in which it sends at 95 % of its rate or more.",
    run,
};

const WITHIN_NOISE: &str = "the two correlations differ by less than the noise of 20 runs: by this measure \
    it is not shown that Vegas follows the load better. The paper compares the windows of one run of each by \
    eye";
const PART_BUSY: &str = "the paper's statement is about one run whose traffic is not given; single runs \
    reach over it where the traffic is dense (column runs)";
const ONE_RUN: &str =
    "the paper's is one run of traffic that is not given; column runs has the range of ours";
const SEEDS: u64 = 20;
/// The bottleneck's rate in KB/s (fig. 6).
const RATE: f64 = 200.0;
const BEGIN: Span = Span::seconds(20);
/// Samples in half a second.
const HALF_SECOND: usize = (500_000_000 / SAMPLE.0) as usize;

fn run() -> anyhow::Result<Findings> {
    let [reno, vegas] = [RENO, VEGAS].map(|sender| each(0..SEEDS, |seed| follow(sender, seed)));
    let over =
        |found: Vec<[f64; 4]>| std::array::from_fn(|which| Summary::of(found.iter().map(|one| one[which])));
    let (reno, vegas) = (reno?, vegas?);
    let errors = in_standard_errors(&reno, &vegas);
    let [reno_follows, reno_output, reno_busy, reno_lasts] = over(reno);
    let [vegas_follows, vegas_output, vegas_busy, _] = over(vegas);
    let values = vec![
        Value {
            paper: "“very little correlation”",
            ..reno_follows.value("correlation of Reno's rate with the background's", "")
        },
        Value {
            paper: "“adapts to the changing conditions”",
            band: Band::Below(reno_follows.mean),
            ..vegas_follows.value("correlation of Vegas' rate with the background's", "")
        },
        Value {
            paper: "Vegas follows, Reno does not",
            // The usual two standard errors; the paper shows one run of each.
            band: Band::Below(-2.0),
            reason: Some(WITHIN_NOISE),
            ..Summary::of([errors]).value("the difference of the two, in standard errors of it", "")
        },
        Value {
            paper: "“under-utilization”",
            ..reno_output.value("bottleneck's output during Reno's transfer", "KB/s")
        },
        vegas_output.value("bottleneck's output during Vegas' transfer", "KB/s"),
        reno_busy.value("share of 100 ms in which the bottleneck is busy, with Reno", ""),
        Value {
            paper: "“most of the time … 100% utilization”",
            band: Band::Within(0.5, 1.0),
            reason: Some(PART_BUSY),
            ..vegas_busy.value("share of 100 ms in which the bottleneck is busy, with Vegas", "")
        },
        reno_lasts.value("time that Reno's transfer takes", "s").printed("14.2").because(ONE_RUN),
    ];
    let figures = vec![picture("fig9-vegas-background", VEGAS)?, picture("fig10-reno-background", RENO)?];
    Ok(Findings { values, figures, ..Findings::default() })
}

/// The mean of the differences of Vegas' and Reno's correlations with the same traffic, over its standard
/// error.
fn in_standard_errors(reno: &[[f64; 4]], vegas: &[[f64; 4]]) -> f64 {
    let differences: Vec<f64> = vegas.iter().zip(reno).map(|(vegas, reno)| vegas[0] - reno[0]).collect();
    let number = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / number;
    let squares: f64 = differences.iter().map(|one| (one - mean).powi(2)).sum();
    mean / (squares / (number - 1.0) / number).sqrt()
}

fn watched(sender: Sender, seed: u64) -> anyhow::Result<Watched> {
    let transfer = transfer("transfer", 2, MEGABYTE, sender).start(BEGIN);
    watch(Background::usual()?.scenario(10).seed(seed).traffic(transfer), &["transfer"])
}

/// During the transfer: the correlation of both rates, the bottleneck's output in KB/s, and the share of 100
/// ms in which that is at least 95 % of its rate. Then how long the transfer takes, in seconds.
fn follow(sender: Sender, seed: u64) -> anyhow::Result<[f64; 4]> {
    let watched = watched(sender, seed)?;
    let (begin, end) = (BEGIN.0 as f64 / 1e9, watched.end_of("transfer"));
    // The first two seconds are start-up.
    let during = |points: Vec<(f64, f64)>, from: f64| -> Vec<f64> {
        points.into_iter().filter(|(at, _)| (from..=end).contains(at)).map(|(_, rate)| rate).collect()
    };
    let [own, other] = ["transfer", "background"].map(|name| {
        during(watched.rate(name, HALF_SECOND), begin + 2.0 + SAMPLE.0 as f64 * HALF_SECOND as f64 / 1e9)
    });
    let output = Summary::of(during(watched.output(HALF_SECOND), begin));
    let tenths = during(watched.output(HALF_SECOND / 5), begin);
    let busy = tenths.iter().filter(|rate| **rate >= 0.95 * RATE).count();
    Ok([correlation(&own, &other), output.mean, ratio(busy as f64, tenths.len() as f64), end - begin])
}

/// Pearson's correlation coefficient; 0 if one side does not change.
fn correlation(left: &[f64], right: &[f64]) -> f64 {
    let [left_mean, right_mean] = [left, right].map(|values| Summary::of(values.iter().copied()).mean);
    let (mut both, mut left_square, mut right_square) = (0.0, 0.0, 0.0);
    for (left, right) in left.iter().zip(right) {
        let (left, right) = (left - left_mean, right - right_mean);
        both += left * right;
        left_square += left * left;
        right_square += right * right;
    }
    let square: f64 = left_square * right_square;
    if square == 0.0 { 0.0 } else { both / square.sqrt() }
}

fn picture(stem: &str, sender: Sender) -> anyhow::Result<(String, Figure)> {
    const SEED: u64 = 3;
    let watched = watched(sender, SEED)?;
    let throughput = Transfer::of(&watched.report, "transfer")?.throughput;
    let mut panels = windows(&watched, "transfer", sender, f64::INFINITY);
    let smoothed = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points.windows(3).map(|three| (three[1].0, three.iter().map(|(_, rate)| rate / 3.0).sum())).collect()
    };
    for (label, line, rate) in [
        ("background (KB/s)", colour(RENO.name), watched.rate("background", HALF_SECOND / 5)),
        ("output (KB/s)", OTHER, watched.output(HALF_SECOND / 5)),
    ] {
        let lines = vec![
            series("over 100 ms", Style::Dots, PALE, rate.clone()),
            series("over 300 ms", Style::Line, line, smoothed(&rate)),
        ];
        panels.push(panel(label, lines));
    }
    let figure = Figure {
        title: format!("{} beside tcplib's traffic: {throughput:.0} KB/s", sender.name),
        caption: format!(
            "A megabyte by {} from the 20th second on, beside tcplib's traffic over Reno, through 10 buffers \
             (seed {SEED}): window, rate and queue, then the rate of the background and of the bottleneck, \
             as figs. 9 and 10 have them.",
            sender.name
        ),
        x: Axis { range: Some((20.0, watched.end_of("transfer"))), ..axis("time (s)") },
        panels,
    };
    Ok((stem.to_owned(), figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_is_one_for_what_moves_together() {
        assert_eq!(correlation(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), 1.0);
        assert_eq!(correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), -1.0);
        assert_eq!(correlation(&[1.0, 1.0], &[3.0, 2.0]), 0.0);
    }

    #[test]
    fn a_difference_is_measured_in_its_standard_errors() {
        let runs = |correlations: [f64; 3]| correlations.map(|correlation| [correlation, 9.0, 9.0, 9.0]);
        let [reno, vegas] = [[0.0; 3], [-1.0, -2.0, -3.0]].map(runs);
        // A mean of -2 and a standard deviation of 1 over the root of 3.
        assert!((in_standard_errors(&reno, &vegas) + 2.0 * 3_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn the_bottleneck_is_busier_with_vegas() {
        let [reno, vegas] =
            [RENO, VEGAS].map(|sender| Summary::of((0..3).map(|seed| follow(sender, seed).unwrap()[1])).mean);
        assert!(vegas > reno, "{vegas} {reno}");
    }
}
