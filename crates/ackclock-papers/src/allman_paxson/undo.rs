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
use crate::{Band, Findings, Table, changes};
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

const QUIET: &str = "busy hauls decide it (AT1-4, tables of parts and of variants): on busy ones B without \
    undo is 7.3 %, on quiet ones 0.8 %; it is 4.0 % if busy hauls do not delay, 9.8 % if they delay three \
    times as long";
const FALL: &str = "slow lines and the waits of busy hauls decide it (AT1-4, tables of parts and of \
    variants): with a line of 64 or 512 kbit/s B falls by 0.45, with faster ones by 0.6; by 0.47 where \
    busy hauls delay three times as long";
const WRONG: &str = "the smallest round trip so far is not yet the path's: nearly all of the good timeouts \
    that f = 1/2 takes for bad are of transfers whose later round trips were shorter than all before \
    (note). Other traffic on the lines and the waits of busy hauls decide it (AT1-4, table of variants): \
    without the one or the other it is 0.026 with f = 1/2, the paper's 0.025";
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
    let mut live = Vec::new();
    let tables = changes::tables(|| {
        let (values, live_table) = live_undo::live(set)?;
        live = values;
        Ok(vec![table, readings(&all[1..]), live_table])
    })?;
    values.extend(live);
    let notes = vec![about(set), half.drained.in_words(), live_undo::NOTE.to_owned()];
    Ok(Findings { values, tables, figures: Vec::new(), notes })
}

/// Other meanings that §2.8 can have. Its "minimum RTT measured so far" is taken for the smallest that the
/// estimator measures, and its "good" timeouts for first ones, as §2.2 defines both.
fn readings(by_threshold: &[Undo]) -> Table {
    type Reading = (&'static str, fn(&Counts) -> [usize; 4]);
    // Good ones taken for bad, of how many; bad ones found, of how many.
    const READINGS: [Reading; 3] = [
        ("round trips measured, first timeouts (as judged)", |of| [of.good, of.good_of, of.bad, of.bad_of]),
        ("all round trips seen, first timeouts", |of| [of.seen[0], of.good_of, of.seen[1], of.bad_of]),
        ("round trips measured, repeated timeouts, too", |of| {
            [of.good_or_repeated, of.good_of + of.repeated_of, of.bad, of.bad_of]
        }),
    ];
    const PAPERS: [[&str; 3]; 3] = [["0.025", "", "0.59"], ["0.20", "0.01", "0.68"], ["0.75", "", "0.74"]];
    let head =
        ["reading", "f", "good ones among the finds", "share of the good ones", "share of the bad ones"];
    let row = |name: &str, f: &str, cells: [String; 3]| -> Vec<String> {
        [name.to_owned(), f.to_owned()].into_iter().chain(cells).collect()
    };
    let mut rows = Vec::new();
    for ((undo, f), paper) in by_threshold.iter().zip(["1/2", "3/4", "1"]).zip(PAPERS) {
        rows.push(row("the paper's", f, paper.map(str::to_owned)));
        for (name, of) in READINGS {
            let [good, good_of, bad, bad_of] = of(&undo.all());
            let shares = [share(good, good + bad), share(good, good_of), share(bad, bad_of)];
            rows.push(row(name, f, shares.map(|share| format!("{share:.3}"))));
        }
    }
    Table {
        title: "The heuristic by what its words can mean".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows,
    }
}

/// The heuristic's results at one threshold.
pub(super) struct Undo {
    of_each: Vec<Counts>,
    drained: Drained,
}

/// Its results on some transfers.
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
    /// As `good` and `good_of` with the repeated ones.
    good_or_repeated: usize,
    repeated_of: usize,
    /// As `good` and `bad`, by the smallest of all round trips seen.
    seen: [usize; 2],
}

impl Counts {
    fn add(mut self, other: &Self) -> Self {
        self.bad_shares += other.bad_shares;
        self.transfers += other.transfers;
        self.good += other.good;
        self.good_of += other.good_of;
        self.bad += other.bad;
        self.bad_of += other.bad_of;
        self.good_or_repeated += other.good_or_repeated;
        self.repeated_of += other.repeated_of;
        self.seen = [0, 1].map(|which| self.seen[which] + other.seen[which]);
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
    fn count(&mut self, transfer: &Transfer, path: &DrawnPath, expiry: &Expiry) {
        let empty = Duration::from_millis(2 * path.delay_ms);
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
        let below = |expiry: &Expiry, smallest: Option<Duration>| {
            let smallest = smallest.zip(quarters);
            smallest.is_some_and(|(smallest, quarters)| expiry.until_ack * 4 < smallest * u32::from(quarters))
        };
        let mut undo = Self { of_each: Vec::new(), drained: Drained::default() };
        for (transfer, path) in set.transfers.iter().zip(&set.paths) {
            let events = transfer.replay.events.iter().copied();
            let mut counts = Counts { transfers: 1, ..Counts::default() };
            let timeouts = assess_each(events, &config, quarters, &mut |expiry| {
                let found = below(expiry, expiry.rtt_smallest);
                let seen = below(expiry, expiry.rtt_smallest_seen);
                if expiry.good {
                    counts.good_or_repeated += usize::from(found);
                    counts.repeated_of += usize::from(expiry.repeated);
                }
                if expiry.repeated {
                    return;
                }
                let (of, among) = if expiry.good {
                    (&mut counts.good_of, &mut counts.good)
                } else {
                    (&mut counts.bad_of, &mut counts.bad)
                };
                *of += 1;
                *among += usize::from(found);
                counts.seen[usize::from(!expiry.good)] += usize::from(seen);
                if expiry.good && found {
                    undo.drained.count(transfer, path, expiry);
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
