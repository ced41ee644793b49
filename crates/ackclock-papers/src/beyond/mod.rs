//! Published figures of other sources than the four papers, judged the same way.

mod cubic_window;
mod drops;
mod lossy;
mod lossy_link;
mod recovery;
mod response;

use super::Experiment;

pub(crate) const EXPERIMENTS: &[Experiment] = &[
    cubic_window::EXPERIMENT,
    response::EXPERIMENT,
    drops::EXPERIMENT,
    recovery::EXPERIMENT,
    lossy_link::EXPERIMENT,
];
