//! M. Allman and V. Paxson, "On Estimating End-to-End Network Path Properties", SIGCOMM 1999: its tables and
//! its figure over a simulated trace set.
//!
//! The set is made and assessed as captures are: `trace_set.rs` records both ends of each transfer,
//! `ackclock_assess` does the rest. The distribution of the paths was calibrated on a few numbers that the
//! paper states of its traces (`path.rs`); every other value is held out.

mod bootstrap;
mod elevated;
mod live_undo;
mod model;
mod orderings;
mod path;
mod shared;
mod sites;
mod ssthresh;
mod timeouts;
mod trace_set;
mod undo;
mod variants;

use super::Experiment;

/// In the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "AT1-4",
        source: "Allman & Paxson 1999, §2.3-2.6, tables 1 to 4",
        title: "what timeout estimators wait for lost segments, and how often they expire in vain",
        set_up: trace_set::SET_UP,
        run: timeouts::tables,
    },
    Experiment {
        id: "AF1",
        source: "Allman & Paxson 1999, §2.7, fig. 1",
        title: "by how much bad timeouts came too early",
        set_up: trace_set::SET_UP,
        run: timeouts::figure_1,
    },
    Experiment {
        id: "AU",
        source: "Allman & Paxson 1999, §2.8",
        title: "bad timeouts taken back because an acknowledgement follows too soon",
        set_up: undo::SET_UP,
        run: undo::undo,
    },
    Experiment {
        id: "AT5/6",
        source: "Allman & Paxson 1999, §3, tables 5 and 6",
        title: "what estimates of the bandwidth would have done to slow start",
        set_up: trace_set::SET_UP,
        run: ssthresh::tables,
    },
];
