//! No congestion control: the sender of 4.3BSD before 1988, limited only by the receiver's window.
//!
//! V. Jacobson and M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988, figures 3 and 8, show what it
//! does to a network. Use it on simulated networks only: [`Registry::builtin`](super::Registry::builtin)
//! leaves it out.

use super::window::CWND_MAX;
use super::{About, Ack, Controller, Exception, LossEpisode, Signal, Start, Timeout};

/// A window that is always open.
#[derive(Clone, Debug)]
pub struct Uncontrolled {}

impl Uncontrolled {
    /// The name in the registry.
    pub const NAME: &'static str = "none-1987";
    /// What it is.
    pub const ABOUT: About = About {
        year: 1987,
        source: "4.3BSD before Jacobson and Karels, SIGCOMM 1988, figs. 3 and 8",
        signal: Signal::None,
        keeps_in_queue: "the receiver's window",
        deviations: "none known",
        exceptions: &[
            excused("starts with the initial window"),
            excused("at most doubles in a round"),
            excused("reduces on loss"),
            excused("halves on loss"),
            excused("reduces on loss whatever is outstanding"),
            excused("reduces on a mark"),
            excused("restarts from one segment after a timeout"),
            excused("does not grow when the application is the limit"),
            excused("restarts small after idleness"),
            excused("survives a queue of three segments"),
        ],
    };

    /// A controller for one connection.
    #[must_use]
    pub fn new(_: &Start) -> Self {
        Self {}
    }
}

impl Controller for Uncontrolled {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, _: &Ack) {}

    fn on_loss_episode(&mut self, _: &LossEpisode) {}

    fn on_timeout(&mut self, _: &Timeout) {}

    fn on_mss_change(&mut self, _: u32) {}

    fn cwnd(&self) -> u64 {
        CWND_MAX
    }

    fn ssthresh(&self) -> u64 {
        u64::MAX
    }
}

const fn excused(check: &'static str) -> Exception {
    Exception { check, why: "it controls nothing" }
}
