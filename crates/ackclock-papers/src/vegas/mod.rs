//! Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC
//! 13(8), 1995.

mod adapting;
mod alone;
mod background;
mod fairness;
mod internet;
mod latency;
mod network;
mod one_on_one;
mod ring;
mod stability;
mod variations;
mod vegas_star;
mod watch;

use super::Experiment;

/// In the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    alone::EXPERIMENT,
    adapting::EXPERIMENT,
    vegas_star::EXPERIMENT,
    internet::EXPERIMENT,
    one_on_one::EXPERIMENT,
    background::EXPERIMENT,
    variations::TWO_WAY,
    variations::SEND_BUFFERS,
    fairness::EXPERIMENT,
    stability::EXPERIMENT,
    latency::EXPERIMENT,
];
