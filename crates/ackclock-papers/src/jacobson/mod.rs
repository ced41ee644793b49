//! V. Jacobson and M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988.

mod conversations;
mod datagrams;
mod slow_start;
mod timers;

use ackclock_sim::papers::jacobson::{LINK, LINK_DATA, PACKET_BYTES, SEGMENT_BYTES, bsd, bsd_plus, old};

use super::Experiment;

pub(crate) const EXPERIMENTS: &[Experiment] =
    &[slow_start::EXPERIMENT, timers::EXPERIMENT, conversations::EXPERIMENT, datagrams::EXPERIMENT];

/// The timeout of bsd43-plus-1987 with the factor of the first version of the paper.
const A_PLUS_2V: &str = "jacobson-1988,arithmetic=bsd-ticks";
