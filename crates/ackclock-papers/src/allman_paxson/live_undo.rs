//! §2.8 in live connections: what it gains to take a timeout back, and what it costs to take back a good one.

use ackclock_control::assess::timeouts::{Event, Why, assess_each};
use ackclock_control::rtt::presets;

use super::path::{DrawnPath, with_timeout};
use super::shared::value;
use super::trace_set::{Recorded, TraceSet, on_all_cores, record};
use super::undo::PRESET;
use crate::many::Summary;
use crate::{Band, Table, Value};

/// The largest number of paths, and how often each runs, with other traffic every time.
const PATHS: usize = 40;
const SEEDS: u64 = 5;
/// Far apart, so that a path never gets the traffic of another.
const SEED_STEP: u64 = 1 << 20;

/// The proof that takes timeouts back, and whether there are timestamps. A sender without undo precedes those
/// that are compared with it.
const SENDERS: [(&str, bool); 5] =
    [("off", false), ("min-rtt:2", false), ("min-rtt:3", false), ("off", true), ("timestamps", true)];
/// For each sender with undo: the sender that differs in nothing else.
const COMPARED: [(usize, usize); 3] = [(1, 0), (2, 0), (4, 3)];

/// Read from the table.
pub(super) const NOTE: &str = "Live connections gain little time by undo: about one or two hundredths \
    where the smallest round trip shows bad timeouts, nothing with timestamps. The paths lose packets all \
    the time, and the good timeouts, more than ten times as many as the bad ones, take most of it. Where \
    timestamps take back a good timeout, acknowledgements were lost and not the data, which they cannot \
    tell (RFC 3522 §3.2); busy hauls lose both alike, so it happens more often than that they take back a \
    bad one. The fast retransmits answer duplicates of what a timeout before them sent again.";

/// The values and the table.
pub(super) fn live(set: &TraceSet) -> anyhow::Result<(Vec<Value>, Table)> {
    let paths = paths_with_bad_timeouts(set)?;
    let seeds = |path: DrawnPath| (0..SEEDS).map(move |seed| (path, seed * SEED_STEP + path.seed));
    let runs: Vec<(DrawnPath, u64)> = paths.into_iter().flat_map(seeds).collect();
    let number = runs.len();
    let all = on_all_cores((SENDERS.len() * number) as u64, |at| {
        let (undo, timestamps) = SENDERS[at as usize / number];
        let (path, seed) = runs[at as usize % number];
        let scenario = path.scenario().seed(seed);
        record(&with_timeout(scenario, PRESET, undo, timestamps))
    })?;
    let by_sender: Vec<&[Recorded]> = all.chunks(number.max(1)).collect();
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    for (with, without) in COMPARED {
        let (undo, _) = SENDERS[with];
        let pairs: Vec<RunPair> =
            by_sender[with].iter().zip(by_sender[without]).filter_map(|(a, b)| RunPair::of(a, b)).collect();
        values.push(value(
            format!("live, {undo}: time of all runs over that without undo"),
            "",
            Ratio::of(pairs.iter()).summary(),
            Band::NoReference,
        ));
        for (which, chosen) in KINDS {
            let chosen: Vec<&RunPair> = pairs.iter().filter(|pair| chosen(pair)).collect();
            rows.push(row(undo, which, &chosen));
        }
    }
    let title = "Live connections on the paths where the estimator has bad timeouts: the runs with undo, \
                 beside the same ones without; the ratio of their times is a geometric mean ± its standard \
                 error";
    Ok((values, Table { title: title.to_owned(), head: HEAD.map(str::to_owned).to_vec(), rows }))
}

/// A name for the runs of a row, and whether a run is one of them.
type Kind = (&'static str, fn(&RunPair) -> bool);

const KINDS: [Kind; 5] = [
    ("all", |_| true),
    ("bad timeouts, the first thing sent again", |pair| pair.is_right() && pair.first),
    ("bad timeouts, later ones", |pair| pair.is_right() && !pair.first),
    ("a good timeout among them", |pair| pair.good > 0),
    ("fast retransmits, no good timeout", |pair| pair.good == 0 && pair.fast > 0),
];
const HEAD: [&str; 8] = [
    "undo",
    "taken back",
    "runs",
    "timeouts taken back, bad + good",
    "time over that without undo",
    "sent again, with and without",
    "good timeouts, with and without",
    "bad timeouts, with and without",
];

fn row(undo: &str, which: &str, pairs: &[&RunPair]) -> Vec<String> {
    let sum = |of: fn(&RunPair) -> u32| pairs.iter().map(|pair| of(pair)).sum::<u32>();
    let both = |of: fn(&Counts) -> u32| {
        let sum = |side: usize| pairs.iter().map(|pair| of(&pair.counts[side])).sum::<u32>();
        format!("{} / {}", sum(0), sum(1))
    };
    vec![
        undo.to_owned(),
        which.to_owned(),
        pairs.len().to_string(),
        format!("{} + {}", sum(|pair| pair.bad), sum(|pair| pair.good)),
        Ratio::of(pairs.iter().copied()).to_string(),
        both(|counts| counts.sent_again),
        both(|counts| counts.good),
        both(|counts| counts.bad),
    ]
}

fn paths_with_bad_timeouts(set: &TraceSet) -> anyhow::Result<Vec<DrawnPath>> {
    let config = presets::find(PRESET)?.config;
    let has_bad = |number: &usize| {
        let events = set.transfers[*number].replay.events.iter().copied();
        assess_each(events, &config, None, &mut |_| ()).bad > 0
    };
    Ok((0..set.transfers.len()).filter(has_bad).take(PATHS).map(|number| set.paths[number]).collect())
}

/// A run with undo and the same one without.
struct RunPair {
    /// The logarithm of the ratio of their times.
    ln_ratio: f64,
    /// Bad and good timeouts taken back, and fast retransmits.
    bad: u32,
    good: u32,
    fast: u32,
    /// Whether the first retransmission was taken back.
    first: bool,
    /// The counts of both.
    counts: [Counts; 2],
}

/// A transfer's retransmissions and timeouts.
struct Counts {
    sent_again: u32,
    good: u32,
    bad: u32,
}

impl RunPair {
    /// `None`: one of them was given up.
    fn of(with: &Recorded, without: &Recorded) -> Option<Self> {
        let replays = [&with.transfer.as_ref().ok()?.replay, &without.transfer.as_ref().ok()?.replay];
        let counts = replays.map(|replay| Counts {
            sent_again: replay.retransmissions,
            good: replay.timeouts,
            bad: replay.avoidable,
        });
        let ln_ratio = (with.seconds? / without.seconds?).ln();
        let mut pair = Self { ln_ratio, bad: 0, good: 0, fast: 0, first: false, counts };
        for undone in &with.undone {
            // It takes back the last retransmission before it.
            let again: Vec<Why> = replays[0]
                .events
                .iter()
                .filter_map(|event| match *event {
                    Event::Sent { at, why, .. } if at <= *undone && why != Why::New => Some(why),
                    Event::Sent { .. } | Event::Acked { .. } => None,
                })
                .collect();
            pair.first |= again.len() == 1;
            match again.last() {
                Some(Why::Timeout { avoidable: true }) => pair.bad += 1,
                Some(Why::Timeout { avoidable: false }) => pair.good += 1,
                Some(Why::New | Why::FastRetransmit) | None => pair.fast += 1,
            }
        }
        Some(pair)
    }

    fn is_right(&self) -> bool {
        self.bad > 0 && self.good == 0 && self.fast == 0
    }
}

/// A mean of ratios.
struct Ratio {
    mean_ln: f64,
    error_ln: f64,
    number: usize,
}

impl Ratio {
    fn of<'a>(pairs: impl Iterator<Item = &'a RunPair>) -> Self {
        let all: Vec<f64> = pairs.map(|pair| pair.ln_ratio).collect();
        let number = all.len() as f64;
        let mean_ln = all.iter().sum::<f64>() / number;
        let squares: f64 = all.iter().map(|ln| (ln - mean_ln).powi(2)).sum();
        Self { mean_ln, error_ln: (squares / (number - 1.0) / number).sqrt(), number: all.len() }
    }

    fn summary(&self) -> Summary {
        let mean = self.mean_ln.exp();
        let deviation = mean * self.error_ln * (self.number as f64).sqrt();
        Summary { mean, least: f64::NAN, most: f64::NAN, count: self.number, deviation }
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.number < 2 {
            return f.write_str("-");
        }
        let mean = self.mean_ln.exp();
        write!(f, "{mean:.3} ± {:.3}", mean * self.error_ln)
    }
}
