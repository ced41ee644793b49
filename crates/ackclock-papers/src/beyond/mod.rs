//! Published figures of other sources than the four papers, judged the same way.

mod cubic_window;
mod lossy;

use super::Experiment;

pub(crate) const EXPERIMENTS: &[Experiment] = &[cubic_window::EXPERIMENT];
