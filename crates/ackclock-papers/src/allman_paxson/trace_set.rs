//! The trace set: transfers over paths of a stated distribution, recorded at both ends. It is made once, for
//! all experiments.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ackclock_core::Instant;
use ackclock_core::trace::Entry;
use ackclock_sim::Scenario;
use ackclock_sim::observe::Traces;
use ackclock_sim::units::Span;

use super::path::{DrawnPath, GIVE_UP, Model};
use crate::changes::{self, Changes};
use ackclock_assess::simulated::Recorder;
use ackclock_assess::{LeftOut, Side, Transfer, transfers};

/// Transfers, and what happened to the others.
#[derive(Debug)]
pub(super) struct TraceSet {
    pub transfers: Vec<Transfer>,
    /// Their paths.
    pub paths: Vec<DrawnPath>,
    /// Transfers that were simulated.
    pub simulated: usize,
    /// Expiries counted by the simulated sender of each.
    pub expiries: Vec<u64>,
    pub left_out: Vec<LeftOut>,
}

/// A simulated transfer.
#[derive(Debug)]
pub(super) struct Recorded {
    pub transfer: Result<Transfer, LeftOut>,
    /// The sender's own count of timer expiries.
    pub expiries: u64,
    /// How long it took, in seconds; `None` if it was given up.
    pub seconds: Option<f64>,
    /// When the sender took a reduction back, according to its trace; empty without one.
    pub undone: Vec<Instant>,
}

/// How the set is made, for readers of the results.
pub(super) const SET_UP: &str = "The trace set of 1995 is not public; this one is simulated: 2,400 \
    transfers of 100 KB, each over a path of its own. Ends: two of 31 places like the paper's, half as far \
    apart again as the crow flies, and 30 ms one way for routers. Each end has a line of 64 or 512 kbit/s (7 \
    % each), 1.544 Mbit/s (45 %), 2.048 (11 %) or 10 Mbit/s (30 %) with a drop-tail queue of 12 to 92 \
    packets. On each line other TCP transfers begin at random, with sizes after Pareto (at least 2 KB, mean \
    12 KB) in segments of 536 bytes, or 1460 on lines above 1 Mbit/s, which ask for 0 to 30 % of the rate \
    with the data and for 0 to 20 % against it; for 0 to 10 % at 10 Mbit/s. The haul between the lines is \
    busy for 73 % of the paths. Both ways it then loses packets in bursts, of 45 ms in the mean (Pareto, α = \
    1.5), each of which takes half of the packets; over time it loses a share after Pareto (at least 4.3 %, \
    α = 2.3). It keeps each packet for 15 ms in the mean (Pareto, α = 1.5), the same for all packets of 300 \
    ms in the mean; a quiet haul keeps it for 1 ms. Senders: Reno (75 %) and Tahoe (25 %) with ticks of 500 \
    ms; segments of 512, 536 and 1460 bytes, windows of 32 or 60 KB; receivers acknowledge every second \
    segment, and a single one at the next tick of a clock of 200 ms (50 %) or after 50 ms (50 %). \
    Calibrated on: 25 % of connections without loss, 34 % of traces without a timeout, 3.68 first timeouts \
    a trace, W~ = 8.2 and W = 2.57 s a timeout of a static second, and the row of PBM' in table 5 (no \
    impact 46 %, optimal 11 %), by 36 trials with the first 500 to 2,400 paths. Everything else is \
    held out, but it was in view; the notes say what it decided. `open.NAME` changes each number (paths, \
    detour-percent, routers-ms, slow-percent, ethernet-percent, load-percent, load-back-percent, buffers, \
    busy-percent, loss-ppm, loss-shape, burst-ms, burst-percent, wait-ms, wait-lasts-ms, wait-shape). \
    Standard errors: of 200 resamples of the transfers. Both ends are recorded and paired, and go through \
    the same assessment as captures.";

/// The set. The first caller makes it.
///
/// It does not run on rayon's threads: one that waited for its share would begin another experiment, which
/// would wait for the set that the first is making.
pub(super) fn trace_set() -> anyhow::Result<Arc<TraceSet>> {
    type Made = Result<Arc<TraceSet>, String>;
    /// The last one, and the changes that it was made with.
    static LAST: Mutex<Option<(String, Made)>> = Mutex::new(None);
    let changes = Changes::in_force().to_string();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let made = match &*last {
        Some((with, made)) if *with == changes => made.clone(),
        _ => {
            let set = Model::in_force().and_then(|model| TraceSet::of(&model, model.paths, |path| path));
            let made = set.map(Arc::new).map_err(|error| format!("{error:#}"));
            *last = Some((changes, made.clone()));
            made
        }
    };
    made.map_err(|error| anyhow::anyhow!("{error}"))
}

impl TraceSet {
    /// Makes the transfers over the first paths, after this change to each.
    pub fn of(
        model: &Model,
        paths: u64,
        change: impl Fn(DrawnPath) -> DrawnPath + Sync,
    ) -> anyhow::Result<Self> {
        let one = |seed| {
            let path = change(DrawnPath::draw(model, seed));
            Ok((path, record(&path.scenario())?))
        };
        on_all_cores(paths, one).map(Self::new)
    }

    fn new(recorded: Vec<(DrawnPath, Recorded)>) -> Self {
        let simulated = recorded.len();
        let mut set = Self {
            transfers: Vec::new(),
            paths: Vec::new(),
            simulated,
            expiries: Vec::new(),
            left_out: Vec::new(),
        };
        for (path, recorded) in recorded {
            match recorded.transfer {
                Ok(transfer) => {
                    set.transfers.push(transfer);
                    set.paths.push(path);
                    set.expiries.push(recorded.expiries);
                }
                Err(why) => set.left_out.push(why),
            }
        }
        set
    }
}

/// Runs `one` for each number below `end`. The results are in numerical order.
pub(super) fn on_all_cores<R: Send>(
    end: u64,
    one: impl Fn(u64) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let next = AtomicU64::new(0);
    let changes = Changes::in_force();
    let work = || {
        changes.enforce();
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end {
                return done;
            }
            done.push((number, one(number)));
        }
    };
    let mut all = thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    all.sort_unstable_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Runs a scenario whose first traffic is the transfer from `a` to `b`, until that is complete. Records both
/// ends.
pub(super) fn record(scenario: &Scenario) -> anyhow::Result<Recorded> {
    let mut simulation = changes::simulation(scenario)?;
    let nodes = ["a", "b"].map(|name| simulation.node(name).map(|node| node.number));
    let recorder = Rc::new(RefCell::new(Recorder::new(nodes.into_iter().flatten().collect())));
    simulation.observe(recorder.clone());
    let traces = Rc::new(RefCell::new(Traces::default()));
    simulation.observe(traces.clone());
    let mut until = Span(0);
    let (expiries, completed) = loop {
        until = Span(until.0 + STEP.0);
        simulation.run_until(Instant::from_nanos(until.0));
        let transfer = &simulation.report().flows[0];
        if transfer.completed.is_some() || until >= GIVE_UP {
            break (transfer.there.timeouts, transfer.completed);
        }
    };
    let vantages = recorder.borrow_mut().take();
    let (mut found, left_out) = transfers(&vantages, Side::Guess);
    let why = left_out.first().map_or(LeftOut::NoData, |(.., why)| *why);
    let began = scenario.traffic[0].start.duration().as_secs_f64();
    let seconds = completed.map(|at| at - began);
    simulation.request_traces();
    let undone = undone(&traces.borrow(), nodes[0]);
    Ok(Recorded { transfer: found.pop().ok_or(why), expiries, seconds, undone })
}

/// When the connections of a node took a reduction back.
fn undone(traces: &Traces, node: Option<u32>) -> Vec<Instant> {
    let batches = traces.batches().iter().filter(|(of, _)| Some(*of) == node);
    let records = batches.flat_map(|(_, batch)| &batch.records);
    let undone = records.filter(|record| matches!(Entry::decode(**record), Some(Entry::Undone(_))));
    // No transfer takes the 78 hours after which record times wrap.
    undone.map(|record| Instant::from_nanos(record.nanos())).collect()
}

/// How often to check whether the transfer is complete.
const STEP: Span = Span::seconds(5);
