//! §2.8: the heuristic that takes bad timeouts back, over the trace set and in live connections.

use ackclock_control::assess::timeouts::{Expiry, Summary, assess_each};
use ackclock_control::rtt::presets;

use super::shared::{about, percent, share, value};
use super::trace_set::{TraceSet, on_all_cores, trace_set};
use crate::papers::{Band, Findings, Table};

pub(super) const SET_UP: &str = "The estimator with G = 1 ms and no minimum over the trace set of AT1-4: a timeout is taken \
    for bad if the next acknowledgement of new data comes within f of the smallest round trip.";

/// f in quarters; `None`: no undo.
const FRACTIONS: [Option<u8>; 4] = [None, Some(2), Some(3), Some(4)];

pub(super) fn undo() -> anyhow::Result<Findings> {
    let set = trace_set()?;
    let all = on_all_cores(FRACTIONS.len() as u64, |number| Undo::measure(set, FRACTIONS[number as usize]))?;
    let [plain, half, three_quarters, whole] = &all[..] else {
        anyhow::bail!("one result for each fraction")
    };
    let fall = |undo: &Undo| 1.0 - undo.b / plain.b;
    let values = vec![
        value("B without undo, percent", "4.71", plain.b * 100.0, Band::Reported),
        value("B with f = 1/2, percent", "2.39", half.b * 100.0, Band::Reported),
        value("fall of B with f = 1/2", "0.49", fall(half), Band::AtLeast(0.3)),
        value("fall of B with f = 3/4", "", fall(three_quarters), Band::AtLeast(0.3)),
        value(
            "share of good timeouts among those that f = 1 takes for bad",
            "0.75",
            whole.wrongly(),
            Band::Reported,
        ),
        value("the same with f = 3/4", "0.20", three_quarters.wrongly(), Band::Reported),
        value("the same with f = 1/2", "0.025", half.wrongly(), Band::AtMost(0.1)),
    ];
    let head = ["f", "B", "good timeouts taken for bad", "bad ones found", "share of the bad ones"];
    let rows = FRACTIONS.iter().zip(&all).map(|(quarters, undo)| undo.row(*quarters));
    let table = Table {
        title: "The heuristic by its threshold f".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    };
    Ok(Findings { values, tables: vec![table], figures: Vec::new(), notes: vec![about(set)] })
}

/// What the heuristic does at one threshold.
struct Undo {
    b: f64,
    /// Good timeouts that it takes for bad.
    good: usize,
    /// Bad timeouts that it finds, of so many.
    bad: usize,
    bad_of: usize,
}

impl Undo {
    fn measure(set: &TraceSet, quarters: Option<u8>) -> anyhow::Result<Self> {
        let config = presets::find("ap-min-0")?.config;
        let found = |expiry: &Expiry| {
            let smallest = expiry.rtt_smallest.zip(quarters);
            smallest.is_some_and(|(smallest, quarters)| expiry.until_ack * 4 < smallest * u32::from(quarters))
        };
        let mut expiries = Vec::new();
        let each = set.transfers.iter().map(|transfer| {
            let events = transfer.replay.events.iter().copied();
            assess_each(events, &config, quarters, &mut |expiry| expiries.push(*expiry))
        });
        let b = Summary::of(each.collect::<Vec<_>>()).b;
        let count = |good: bool| expiries.iter().filter(move |expiry| expiry.good == good);
        Ok(Self {
            b,
            good: count(true).filter(|expiry| found(expiry)).count(),
            bad: count(false).filter(|expiry| found(expiry)).count(),
            bad_of: count(false).count(),
        })
    }

    fn wrongly(&self) -> f64 {
        share(self.good, self.good + self.bad)
    }

    fn row(&self, quarters: Option<u8>) -> Vec<String> {
        let f = quarters.map_or_else(|| "no undo".to_owned(), |quarters| format!("{}/4", quarters));
        let found = share(self.bad, self.bad_of);
        vec![f, percent(self.b), self.good.to_string(), self.bad.to_string(), percent(found)]
    }
}
