//! §2.8: the heuristic that takes bad timeouts back, over the trace set and in live connections.

use ackclock_control::assess::timeouts::{Expiry, Summary, assess_each};
use ackclock_control::rtt::presets;

use super::path::{Path, with_timeout};
use super::shared::{about, percent, share, value};
use super::trace_set::{TraceSet, on_all_cores, record, trace_set};
use crate::papers::{Band, Findings, Table, Value};

/// The most paths for live connections.
const LIVE_PATHS: usize = 60;

pub(super) const SET_UP: &str = "The estimator with G = 1 ms and no minimum over the trace set of AT1-4: a timeout is taken \
    for bad if the next acknowledgement of new data comes within f of the smallest round trip. \
    Live connections: on those of the set's paths where that estimator has a bad timeout, the first 60 of them, the sender \
    has this estimator itself, and undoes a timeout by the same rule, or does not.";

/// G = 1 ms and no minimum.
const PRESET: &str = "ap-min-0";
/// Found by looking at each of them.
const DRAINED: &str = "in each of these cases the answer took longer than the path without queues, and the transfer had \
    later round trips shorter than all before the timeout: the queues were standing before, and drained during the wait. \
    The paper sees the same for f = 1 and 3/4 (its section 2.8)";
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
        Value {
            reason: Some(DRAINED),
            ..value("the same with f = 1/2", "0.025", half.wrongly(), Band::AtMost(0.1))
        },
    ];
    let head = ["f", "B", "good timeouts taken for bad", "bad ones found", "share of the bad ones"];
    let rows = FRACTIONS.iter().zip(&all).map(|(quarters, undo)| undo.row(*quarters));
    let table = Table {
        title: "The heuristic by its threshold f".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    };
    let (live, live_table) = live(set)?;
    values.extend(live);
    Ok(Findings { values, tables: vec![table, live_table], figures: Vec::new(), notes: vec![about(set)] })
}

/// What live connections did with a choice of undo.
#[derive(Default)]
struct Live {
    transfers: usize,
    seconds: f64,
    avoidable: u32,
    timeouts: u32,
    retransmissions: u32,
}

/// The second number: the heuristic at work.
fn live(set: &TraceSet) -> anyhow::Result<(Vec<Value>, Table)> {
    let config = presets::find(PRESET)?.config;
    let has_bad = |number: &usize| {
        let events = set.transfers[*number].replay.events.iter().copied();
        assess_each(events, &config, None, &mut |_| ()).bad > 0
    };
    let paths: Vec<u64> =
        (0..set.transfers.len()).filter(has_bad).take(LIVE_PATHS).map(|number| set.seeds[number]).collect();
    let mut all = Vec::new();
    for undo in ["off", "min-rtt:2", "min-rtt:3"] {
        let recorded = on_all_cores(paths.len() as u64, |number| {
            record(&with_timeout(Path::draw(paths[number as usize]).scenario(), PRESET, undo))
        })?;
        let mut live = Live::default();
        for (transfer, seconds) in
            recorded.iter().filter_map(|one| Some((one.transfer.as_ref().ok()?, one.seconds?)))
        {
            live.transfers += 1;
            live.seconds += seconds;
            live.avoidable += transfer.replay.avoidable;
            live.timeouts += transfer.replay.timeouts;
            live.retransmissions += transfer.replay.retransmissions;
        }
        all.push((undo, live));
    }
    let mean = |live: &Live| live.seconds / live.transfers as f64;
    let values = vec![
        value(
            "live: time of a transfer with undo, f = 1/2, over that without",
            "",
            mean(&all[1].1) / mean(&all[0].1),
            Band::Reported,
        ),
        value("live: the same with f = 3/4", "", mean(&all[2].1) / mean(&all[0].1), Band::Reported),
    ];
    let head = ["undo", "transfers", "seconds each", "bad timeouts", "good timeouts", "segments sent again"];
    let rows = all.iter().map(|(undo, live)| {
        let counts = [live.avoidable, live.timeouts, live.retransmissions].map(|count| count.to_string());
        let mean = format!("{:.1}", mean(live));
        [(*undo).to_owned(), live.transfers.to_string(), mean].into_iter().chain(counts).collect()
    });
    let title = "Live connections on the paths where the estimator has bad timeouts".to_owned();
    Ok((values, Table { title, head: head.map(str::to_owned).to_vec(), rows: rows.collect() }))
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
        let config = presets::find(PRESET)?.config;
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
