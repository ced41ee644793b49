//! The experiments of the four papers from which ackclock's TCP comes, in virtual time: Jacobson and Karels
//! (1988), Brakmo and Peterson (1995), Awadallah and Rai (1998), Allman and Paxson (1999). Each holds what it
//! measures against what its paper prints. Some more hold the other controllers against figures of other
//! sources, judged the same way.
//!
//! [`experiments`] lists them, [`select`] finds them by their ids, and [`run`] runs them. [`table`] and
//! [`json`] show the outcomes, [`files`] is `RESULTS.md` with its pictures. The command is `tcplab papers`.
//!
//! ```no_run
//! use ackclock_papers::{Changes, run, select, table};
//!
//! let chosen = select(&["VE7".to_owned()])?;
//! assert_eq!(chosen[0].id, "VE5/7");
//! println!("{}", table(&run(&chosen, &Changes::default(), || ())?));
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! # Features
//!
//! None.
//!
//! # Limits
//!
//! An experiment is a function of this code and of the [`Changes`] that it is run with. A change reaches only
//! the scenarios that it builds, not the lists of sizes or the numbers of runs. All experiments take some
//! minutes on two processors. Drawings are in memory until they are written.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod allman_paxson;
mod beyond;
mod bfa;
mod changes;
mod claims;
mod draw;
mod experiment;
mod jacobson;
mod many;
mod net;
mod printed;
mod results;
mod segments;
mod select;
mod sweep;
mod traced;
mod unknowns;
mod vegas;
mod witness;

use std::panic::{AssertUnwindSafe, catch_unwind};

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

pub use self::changes::{Change, Changes, NotAChange};
pub use self::experiment::{Band, BandVerdict, Experiment, Findings, Table, Value};
pub use self::results::{Counts, ExperimentResult, PICTURES, files, json, table};
pub use self::select::{UnknownExperiment, select};
pub use self::sweep::{COMBINATIONS_MAX, Sweep, Unknown, combinations, sweep, sweeps};
pub use self::unknowns::unknowns;

/// All experiments, in the order of the papers; those of other sources follow.
#[must_use]
pub fn experiments() -> Vec<&'static Experiment> {
    let papers = [jacobson::EXPERIMENTS, vegas::EXPERIMENTS, bfa::EXPERIMENTS, allman_paxson::EXPERIMENTS];
    papers.into_iter().chain([beyond::EXPERIMENTS]).flatten().collect()
}

/// Runs these experiments with `changes` on all cores, and calls `done` after each. The outcomes are in the
/// experiments' order.
///
/// # Errors
/// No threads can be had, or a change changes nothing in any scenario.
pub fn run<'a>(
    chosen: &[&'a Experiment],
    changes: &Changes,
    done: impl Fn() + Sync,
) -> anyhow::Result<Vec<ExperimentResult<'a>>> {
    let one = |&experiment: &&'a Experiment| {
        let findings = catch_unwind(AssertUnwindSafe(experiment.run))
            .unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked; the message is on stderr")))
            .map_err(|error| format!("{error:#}"));
        done();
        ExperimentResult { experiment, findings }
    };
    let outcomes = changes.pool()?.install(|| chosen.par_iter().map(one).collect());
    let idle = changes.idle();
    anyhow::ensure!(
        idle.is_empty(),
        "nothing is changed by {}; keys are those of a scenario's file (docs/scenarios.md)",
        idle.join(", nor by ")
    );
    Ok(outcomes)
}
