//! No congestion control: the sender of 4.3BSD before 1988, limited only by the receiver's window, or by one
//! segment while it waits for an answer after a timeout.
//!
//! V. Jacobson and M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988, figures 3 and 8, show what it
//! does to a network. Use it on simulated networks only: [`Registry::builtin`](super::Registry::builtin)
//! leaves it out.

use super::window::CWND_MAX;
use super::{
    About, Ack, Controller, Exception, LossEpisode, Parameter, Settings, Signal, Start, Timeout, Values,
};
use crate::InvalidParameter;

/// A window that is always open, except possibly after a timeout.
#[derive(Clone, Debug)]
pub struct Uncontrolled {
    smss: u64,
    after_timeout: AfterTimeout,
    /// The timer has expired, and no new data has been acknowledged since.
    waiting: bool,
}

/// How much leaves between a timeout and the next acknowledgement of new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterTimeout {
    /// Everything again.
    All,
    /// One segment (4.3BSD from November 1984 on).
    One,
}

impl AfterTimeout {
    pub(super) fn from_settings(settings: &Settings) -> Result<Self, InvalidParameter> {
        Ok(if settings.value("timeout") == Self::One as i64 { Self::One } else { Self::All })
    }
}

impl Uncontrolled {
    /// The name in the registry.
    pub const NAME: &'static str = "none-1987";
    /// Its row in tables and reports.
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

    pub(super) const PARAMETERS: &[Parameter] = &[Parameter {
        name: "timeout",
        values: Values::Words(&["all", "one"]),
        default: AfterTimeout::All as i64,
    }];

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::with_timeout(start, AfterTimeout::All)
    }

    /// A controller that lets this much leave after a timeout.
    #[must_use]
    pub fn with_timeout(start: &Start, after_timeout: AfterTimeout) -> Self {
        Self { smss: start.smss.into(), after_timeout, waiting: false }
    }
}

impl Controller for Uncontrolled {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.waiting &= ack.bytes_cumulative == 0;
    }

    fn on_loss_episode(&mut self, _: &LossEpisode) {}

    fn on_timeout(&mut self, _: &Timeout) {
        self.waiting = true;
    }

    fn on_mss_change(&mut self, smss: u32) {
        self.smss = smss.into();
    }

    fn cwnd(&self) -> u64 {
        match self.after_timeout {
            AfterTimeout::One if self.waiting => self.smss.max(1),
            _ => CWND_MAX,
        }
    }

    fn ssthresh(&self) -> u64 {
        u64::MAX
    }
}

const fn excused(check: &'static str) -> Exception {
    Exception { check, why: "it controls nothing" }
}

ackclock_form::form! {
    struct Uncontrolled { smss, after_timeout, waiting }
    enum AfterTimeout { 0 All, 1 One }
}

#[cfg(test)]
mod tests {
    use super::{AfterTimeout, CWND_MAX, Uncontrolled};
    use crate::congestion::testing::{SMSS, START, ack, timeout};
    use crate::congestion::{Ack, Controller};

    #[test]
    fn one_segment_leaves_at_a_timeout_and_everything_after_the_next_acknowledgement() {
        // sys/netinet/tcp_output.c 6.7, 14 November 1984: "1 seg when timer goes off, then back to normal
        // after an ack".
        let mut one = Uncontrolled::with_timeout(&START, AfterTimeout::One);
        assert_eq!(one.cwnd(), CWND_MAX);
        one.on_timeout(&timeout(10 * SMSS, 1));
        assert_eq!(one.cwnd(), SMSS);
        one.on_ack(&Ack { bytes_cumulative: 0, ..ack(100, SMSS) });
        assert_eq!(one.cwnd(), SMSS, "a duplicate");
        one.on_ack(&ack(100, SMSS));
        assert_eq!(one.cwnd(), CWND_MAX);
        let mut all = Uncontrolled::new(&START);
        all.on_timeout(&timeout(10 * SMSS, 1));
        assert_eq!(all.cwnd(), CWND_MAX);
    }
}
