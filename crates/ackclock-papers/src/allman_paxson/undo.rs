//! §2.8: the heuristic that takes bad timeouts back, on the trace set and in live connections.

use std::time::Duration;

use ackclock_control::assess::timeouts::{Expiry, assess_each};
use ackclock_control::rtt::presets;

use super::bootstrap::resampled;
use super::live_undo;
use super::path::DrawnPath;
use super::shared::{about, percent, share, value};
use super::trace_set::{TraceSet, on_all_cores, trace_set};
use crate::many::Summary as Spread;
use crate::{Band, Findings, Table};
use ackclock_assess::Transfer;

pub(super) const SET_UP: &str = "The estimator with G = 1 ms and no minimum over the trace set of AT1-4: a \
    timeout is taken for bad if the next acknowledgement of new data comes within f of the smallest round \
    trip. Live connections: on those of the set's paths where that estimator has a bad timeout, the first 40 \
    of them, each with five seeds of the other traffic, the sender has this estimator itself; it undoes a \
    timeout by the same rule, or by timestamps, which it then has (the Eifel algorithm), or does not. Runs \
    of the same path and seed are compared; they differ from the first undo on.";

/// G = 1 ms and no minimum.
pub(super) const PRESET: &str = "ap-min-0";
// From the table of parts of AT1-4, the notes, and the table of variants there.

const QUIET: &str = "quiet hauls decide it (AT1-4, table of parts): on busy ones B without undo is 5.2 %, on \
    the quiet ones, two fifths of the paths, 0.9 %, as their round trips hardly vary. The paper has bad \
    timeouts \"not clustered among a particular small subset of the traces\"";
const FALL: &str = "slow lines decide it (AT1-4, table of parts): with a line of 64 or 512 kbit/s B falls by \
    0.45, with faster ones by 0.6 to 0.7, as bad timeouts behind a queue are answered too late for half a \
    round trip";
const WRONG: &str = "the smallest round trip so far is not yet the path's: nearly all of the good timeouts \
    that f = 1/2 takes for bad are of transfers whose later round trips were shorter than all before (note). \
    The paper finds that, too, for f = 1, where the share is its own. None of the parts and variants of \
    AT1-4 comes to the paper's 0.025 (0.10 to 0.40), so none of the properties varied there decides it";
/// f in quarters; `None`: no undo.
const FRACTIONS: [Option<u8>; 4] = [None, Some(2), Some(3), Some(4)];

pub(super) fn undo() -> anyhow::Result<Findings> {
    let set = &*trace_set()?;
    let all = on_all_cores(FRACTIONS.len() as u64, |number| Undo::measure(set, FRACTIONS[number as usize]))?;
    let [plain, half, three_quarters, whole] = &all[..] else {
        anyhow::bail!("one result for each fraction")
    };
    let measured = |name: &str, paper, undo: &Undo, of: fn(&Counts) -> f64| {
        value(name, paper, undo.resampled(of), Band::printed(paper))
    };
    let fall = |undo: &Undo| resampled(set.transfers.len(), |numbers| undo.fall_from(plain, numbers));
    let mut values = vec![
        measured("B without undo, percent", "4.71", plain, Counts::percent_bad).because(QUIET),
        measured("B with f = 1/2, percent", "2.39", half, Counts::percent_bad).because(QUIET),
        value("fall of B with f = 1/2", "0.49", fall(half), Band::printed("0.49"))
            .limited(Band::AtLeast(0.3))
            .because(FALL),
        value("fall of B with f = 3/4", "", fall(three_quarters), Band::NoReference)
            .limited(Band::AtLeast(0.3)),
        measured(
            "share of good timeouts among those that f = 1 takes for bad",
            "0.75",
            whole,
            Counts::wrongly,
        )
        .because(WRONG),
        measured("the same with f = 3/4", "0.20", three_quarters, Counts::wrongly).because(WRONG),
        measured("the same with f = 1/2", "0.025", half, Counts::wrongly).because(WRONG),
        measured("share of the good timeouts that f = 3/4 takes for bad", "0.01", three_quarters, |of| {
            share(of.good, of.good_of)
        })
        .because(WRONG),
        measured("share of the bad timeouts that f = 1 finds", "0.74", whole, Counts::finds),
        measured("the same with f = 3/4", "0.68", three_quarters, Counts::finds),
        measured("the same with f = 1/2", "0.59", half, Counts::finds),
    ];
    let head = ["f", "B", "good timeouts taken for bad", "bad ones found", "share of the bad ones"];
    let rows = FRACTIONS.iter().zip(&all).map(|(quarters, undo)| undo.row(*quarters));
    let table = Table {
        title: "The heuristic by its threshold f".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    };
    let (live, live_table) = live_undo::live(set)?;
    values.extend(live);
    let notes = vec![about(set), half.drained.in_words(), live_undo::NOTE.to_owned()];
    Ok(Findings { values, tables: vec![table, live_table], figures: Vec::new(), notes })
}

/// What the heuristic does at one threshold.
pub(super) struct Undo {
    of_each: Vec<Counts>,
    drained: Drained,
}

/// What it does on some transfers.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// The sum of ρ, and of how many.
    bad_shares: f64,
    transfers: usize,
    /// Good timeouts that it mistakes for bad ones, and their total.
    good: usize,
    good_of: usize,
    /// Bad timeouts that it finds, and their total.
    bad: usize,
    bad_of: usize,
}

impl Counts {
    fn add(mut self, other: &Self) -> Self {
        self.bad_shares += other.bad_shares;
        self.transfers += other.transfers;
        self.good += other.good;
        self.good_of += other.good_of;
        self.bad += other.bad;
        self.bad_of += other.bad_of;
        self
    }

    fn b(&self) -> f64 {
        self.bad_shares / self.transfers as f64
    }

    fn percent_bad(&self) -> f64 {
        self.b() * 100.0
    }

    fn finds(&self) -> f64 {
        share(self.bad, self.bad_of)
    }

    pub fn wrongly(&self) -> f64 {
        share(self.good, self.good + self.bad)
    }
}

/// Why good timeouts are mistaken for bad ones.
#[derive(Default)]
struct Drained {
    all: usize,
    /// Those answered no sooner than the speed of light in cables allows.
    answered_in_time: usize,
    /// Those of transfers that later had a round trip below all before the timeout.
    with_shorter_later: usize,
}

impl Drained {
    fn count(&mut self, transfer: &Transfer, seed: u64, expiry: &Expiry) {
        let empty = Duration::from_millis(2 * DrawnPath::draw(seed).delay_ms);
        self.all += 1;
        self.answered_in_time += usize::from(expiry.until_ack >= empty);
        let later = transfer.replay.rtt_min.zip(expiry.rtt_smallest);
        self.with_shorter_later += usize::from(later.is_some_and(|(least, before)| least < before));
    }

    fn in_words(&self) -> String {
        format!(
            "Of the {} good timeouts that f = 1/2 takes for bad, {} were answered no sooner than the \
             distance allows, and {} are of transfers that later had a round trip shorter than all before \
             the timeout.",
            self.all, self.answered_in_time, self.with_shorter_later
        )
    }
}

impl Undo {
    pub fn measure(set: &TraceSet, quarters: Option<u8>) -> anyhow::Result<Self> {
        let config = presets::find(PRESET)?.config;
        let found = |expiry: &Expiry| {
            let smallest = expiry.rtt_smallest.zip(quarters);
            smallest.is_some_and(|(smallest, quarters)| expiry.until_ack * 4 < smallest * u32::from(quarters))
        };
        let mut undo = Self { of_each: Vec::new(), drained: Drained::default() };
        for (transfer, seed) in set.transfers.iter().zip(&set.seeds) {
            let events = transfer.replay.events.iter().copied();
            let mut counts = Counts { transfers: 1, ..Counts::default() };
            let timeouts = assess_each(events, &config, quarters, &mut |expiry| {
                let (of, among) = if expiry.good {
                    (&mut counts.good_of, &mut counts.good)
                } else {
                    (&mut counts.bad_of, &mut counts.bad)
                };
                *of += 1;
                *among += usize::from(found(expiry));
                if expiry.good && found(expiry) {
                    undo.drained.count(transfer, *seed, expiry);
                }
            });
            counts.bad_shares = timeouts.bad_share();
            undo.of_each.push(counts);
        }
        Ok(undo)
    }

    pub fn sum(&self, numbers: &[usize]) -> Counts {
        numbers.iter().fold(Counts::default(), |sum, number| sum.add(&self.of_each[*number]))
    }

    fn all(&self) -> Counts {
        self.of_each.iter().fold(Counts::default(), Counts::add)
    }

    fn resampled(&self, measure: fn(&Counts) -> f64) -> Spread {
        resampled(self.of_each.len(), |numbers| measure(&self.sum(numbers)))
    }

    /// By what share B of these transfers is below that of `other`.
    pub fn fall_from(&self, other: &Self, numbers: &[usize]) -> f64 {
        1.0 - self.sum(numbers).b() / other.sum(numbers).b()
    }

    fn row(&self, quarters: Option<u8>) -> Vec<String> {
        let f = quarters.map_or_else(|| "no undo".to_owned(), |quarters| format!("{}/4", quarters));
        let all = self.all();
        vec![f, percent(all.b()), all.good.to_string(), all.bad.to_string(), percent(all.finds())]
    }
}
