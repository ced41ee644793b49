//! §2.8: the heuristic that takes bad timeouts back, on the trace set and in live connections.

use std::time::Duration;

use ackclock_control::assess::timeouts::{Expiry, Summary, assess_each};
use ackclock_control::rtt::presets;

use super::live_undo;
use super::path::DrawnPath;
use super::shared::{OTHER_SET, about, percent, share, value};
use super::trace_set::{TraceSet, on_all_cores, trace_set};
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
/// Counted by [`Drained`], and explained in a note.
const DRAINED: &str = "the answers took longer than the path without queues, and nearly all of the transfers \
    had later round trips shorter than all before the timeout, as the note counts: the queues were standing \
    before, and drained during the wait. The paper supposes that for f = 1 (its section 2.8). Why it is more \
    frequent here than in the paper is not known";
const NOT_COUNTED: &str = "not known. For f = 1/2 the queues drained during the wait (note), which the paper \
    supposes for f = 1 (its section 2.8); for this f it was not counted";
/// f in quarters; `None`: no undo.
const FRACTIONS: [Option<u8>; 4] = [None, Some(2), Some(3), Some(4)];

pub(super) fn undo() -> anyhow::Result<Findings> {
    let set = trace_set()?;
    let all = on_all_cores(FRACTIONS.len() as u64, |number| Undo::measure(set, FRACTIONS[number as usize]))?;
    let [plain, half, three_quarters, whole] = &all[..] else {
        anyhow::bail!("one result for each fraction")
    };
    let fall = |undo: &Undo| 1.0 - undo.b / plain.b;
    let mut values = vec![
        value("B without undo, percent", "4.71", plain.b * 100.0, Band::printed("4.71")).because(OTHER_SET),
        value("B with f = 1/2, percent", "2.39", half.b * 100.0, Band::printed("2.39")).because(OTHER_SET),
        value("fall of B with f = 1/2", "0.49", fall(half), Band::printed("0.49"))
            .limited(Band::AtLeast(0.3))
            .because(OTHER_SET),
        value("fall of B with f = 3/4", "", fall(three_quarters), Band::NoReference)
            .limited(Band::AtLeast(0.3)),
        value(
            "share of good timeouts among those that f = 1 takes for bad",
            "0.75",
            whole.wrongly(),
            Band::printed("0.75"),
        )
        .because(NOT_COUNTED),
        value("the same with f = 3/4", "0.20", three_quarters.wrongly(), Band::printed("0.20"))
            .because(NOT_COUNTED),
        value("the same with f = 1/2", "0.025", half.wrongly(), Band::printed("0.025")).because(DRAINED),
        value("share of the bad timeouts that f = 1 finds", "0.74", whole.finds(), Band::printed("0.74"))
            .because(OTHER_SET),
        value("the same with f = 3/4", "0.68", three_quarters.finds(), Band::printed("0.68"))
            .because(OTHER_SET),
        value("the same with f = 1/2", "0.59", half.finds(), Band::printed("0.59")).because(OTHER_SET),
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
struct Undo {
    b: f64,
    /// Good timeouts that it mistakes for bad ones.
    good: usize,
    /// Bad timeouts that it finds, and their total.
    bad: usize,
    bad_of: usize,
    drained: Drained,
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
    fn measure(set: &TraceSet, quarters: Option<u8>) -> anyhow::Result<Self> {
        let config = presets::find(PRESET)?.config;
        let found = |expiry: &Expiry| {
            let smallest = expiry.rtt_smallest.zip(quarters);
            smallest.is_some_and(|(smallest, quarters)| expiry.until_ack * 4 < smallest * u32::from(quarters))
        };
        let mut undo = Self { b: 0.0, good: 0, bad: 0, bad_of: 0, drained: Drained::default() };
        let mut each = Vec::new();
        for (transfer, seed) in set.transfers.iter().zip(&set.seeds) {
            let events = transfer.replay.events.iter().copied();
            each.push(assess_each(events, &config, quarters, &mut |expiry| {
                undo.bad_of += usize::from(!expiry.good);
                undo.bad += usize::from(!expiry.good && found(expiry));
                if expiry.good && found(expiry) {
                    undo.good += 1;
                    undo.drained.count(transfer, *seed, expiry);
                }
            }));
        }
        undo.b = Summary::of(each).b;
        Ok(undo)
    }

    fn finds(&self) -> f64 {
        share(self.bad, self.bad_of)
    }

    fn wrongly(&self) -> f64 {
        share(self.good, self.good + self.bad)
    }

    fn row(&self, quarters: Option<u8>) -> Vec<String> {
        let f = quarters.map_or_else(|| "no undo".to_owned(), |quarters| format!("{}/4", quarters));
        vec![f, percent(self.b), self.good.to_string(), self.bad.to_string(), percent(self.finds())]
    }
}
