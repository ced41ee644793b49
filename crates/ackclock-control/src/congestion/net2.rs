//! Reno as it was released: the window of 4.3BSD-Reno (June 1990) and Net/2 (June 1991).
//!
//! V. Jacobson, "Modified TCP Congestion Avoidance Algorithm", 1990, in `sys/netinet/tcp_input.c` of 28 June
//! 1990 and `tcp_timer.c` of the same day. [`Reno`](super::Reno) is what RFC 5681 made of it in 2009:
//!
//! | point | here | [`Reno`](super::Reno) |
//! |---|---|---|
//! | ssthresh after a loss | half of the window, the peer's or cwnd, in whole segments | half of what is in flight |
//! | a second timeout of a segment | halves again | keeps ssthresh |
//! | growth | with every acknowledgement of new data | only if cwnd was the limit |
//! | at cwnd = ssthresh | a whole segment | a segment's share |
//! | end of fast recovery | with exactly three duplicates the window keeps their three segments | ssthresh |
//! | largest window | 65,535 bytes | 4 GiB |
//!
//! From June 1990 to October 1994 each acknowledgement in congestion avoidance added an eighth of a segment
//! as well (`eighth=yes`). Whether the code in use had it differs from vendor to vendor.
//!
//! Deviation: an acknowledgement of less than a segment counts for what it acknowledges, or a receiver could
//! divide its acknowledgements to gain rate.

use super::window::{Window, window_methods};
use super::{
    About, Ack, Controller, Exception, IdleRestart, LossEpisode, Parameter, RecoveryEnd, Settings, Signal,
    Start, Timeout, Undo, Values,
};
use crate::InvalidParameter;
use crate::divide::at_least_one;

/// The controller of Net/2.
#[derive(Clone, Debug)]
pub struct Net2Reno {
    window: Window,
    eighth: bool,
}

impl Net2Reno {
    /// The name in the registry.
    pub const NAME: &'static str = "net2-reno";
    /// Its row in tables and reports.
    pub const ABOUT: About = About {
        year: 1991,
        source: "Net/2, tcp_input.c and tcp_timer.c of June 1990; Jacobson 1990",
        signal: Signal::Loss,
        keeps_in_queue: "up to the whole buffer, half of the window after a loss",
        deviations: "small acknowledgements count for what they acknowledge",
        exceptions: &[
            Exception {
                check: "keeps ssthresh at a second expiry",
                why: "halves the window of the moment at each expiry",
            },
            Exception {
                check: "does not grow when the application is the limit",
                why: "grows with every acknowledgement, up to 65,535 bytes",
            },
            Exception { check: "uses the path", why: "65,535 bytes are half of what that path holds" },
        ],
    };

    pub(super) const PARAMETERS: &[Parameter] =
        &[Parameter { name: "eighth", values: Values::Words(&["no", "yes"]), default: 0 }];

    pub(super) fn eighth_from(settings: &Settings) -> Result<bool, InvalidParameter> {
        Ok(settings.value("eighth") == 1)
    }

    /// A controller for one connection.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self::with_eighth(start, false)
    }

    /// A controller that adds an eighth of a segment for each acknowledgement in congestion avoidance, or
    /// does not.
    #[must_use]
    pub fn with_eighth(start: &Start, eighth: bool) -> Self {
        let mut window = Window::new(start);
        window.set_cwnd(window.cwnd().min(MAXWIN));
        Self { window, eighth }
    }

    /// Half of what the peer and cwnd allow, in whole segments, two at least.
    fn half(&self, peer_window: u64) -> u64 {
        let smss = at_least_one(self.window.smss());
        self.window.segments((peer_window.min(self.window.cwnd()) / 2 / smss).max(2))
    }
}

impl Controller for Net2Reno {
    ackclock_form::frozen!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, ack: &Ack) {
        if ack.bytes_cumulative == 0 || ack.in_recovery {
            return;
        }
        let (smss, cwnd) = (self.window.smss(), self.window.cwnd());
        let counted = ack.bytes_acked.min(smss);
        let growth = if cwnd > self.window.ssthresh() {
            let share = smss.saturating_mul(counted) / at_least_one(cwnd);
            share.saturating_add(if self.eighth { counted / 8 } else { 0 })
        } else {
            counted
        };
        self.window.set_cwnd(cwnd.saturating_add(growth).min(MAXWIN.max(cwnd)));
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.window.reduce(self.half(loss.peer_window));
    }

    fn on_recovery_end(&mut self, end: &RecoveryEnd) {
        // Only more than three duplicates retract the inflation.
        if end.inflation <= self.window.segments(3) {
            self.window.set_cwnd(self.window.cwnd().saturating_add(end.inflation));
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let half = self.half(timeout.peer_window);
        self.window.collapse(timeout, half);
        self.window.set_ssthresh(half);
    }

    fn on_undo(&mut self, _: &Undo) {
        self.window.undo();
    }

    window_methods!();
}

/// TCP_MAXWIN, the largest window without scaling.
const MAXWIN: u64 = 65_535;

ackclock_form::form! {
    struct Net2Reno { window, eighth }
}

#[cfg(test)]
mod tests {
    use super::{MAXWIN, Net2Reno};
    use crate::Instant;
    use crate::congestion::testing::{SMSS, START, ack, loss, timeout};
    use crate::congestion::{Ack, Controller, LossEpisode, RecoveryEnd, Start, Timeout};

    fn with(segments: u64) -> Net2Reno {
        Net2Reno::new(&Start { initial_window: segments * SMSS, ..START })
    }

    #[test]
    fn a_loss_halves_the_smaller_window_whatever_is_in_flight() {
        for (peer_window, ssthresh) in [(u64::MAX, 10), (13_900, 6), (3000, 2), (0, 2)] {
            let mut reno = with(21);
            reno.on_loss_episode(&LossEpisode { peer_window, ..loss(100, SMSS) });
            assert_eq!((reno.ssthresh(), reno.cwnd()), (ssthresh * SMSS, ssthresh * SMSS), "{peer_window}");
        }
    }

    #[test]
    fn each_timeout_halves_the_window_of_the_moment() {
        let mut reno = with(20);
        reno.on_timeout(&Timeout { peer_window: 16_000, ..timeout(20 * SMSS, 1) });
        assert_eq!((reno.ssthresh(), reno.cwnd()), (8 * SMSS, SMSS));
        reno.on_timeout(&timeout(20 * SMSS, 2));
        assert_eq!((reno.ssthresh(), reno.cwnd()), (2 * SMSS, SMSS));
    }

    #[test]
    fn every_acknowledgement_grows_the_window_until_65535_bytes() {
        let mut reno = with(1);
        for _ in 0..100 {
            reno.on_ack(&Ack { cwnd_limited: false, ..ack(100, 2 * SMSS) });
        }
        assert_eq!(reno.cwnd(), MAXWIN);
        // A divided one counts for its bytes.
        let mut reno = with(1);
        (0..SMSS).for_each(|_| reno.on_ack(&ack(100, 1)));
        assert_eq!(reno.cwnd(), 2 * SMSS);
    }

    #[test]
    fn above_the_threshold_it_grows_by_a_share_and_perhaps_an_eighth() {
        for (eighth, grown) in [(false, 90), (true, 215)] {
            let mut reno = Net2Reno::with_eighth(&Start { initial_window: 20 * SMSS, ..START }, eighth);
            reno.on_loss_episode(&loss(100, 20 * SMSS));
            // At the threshold itself it is still slow start.
            reno.on_ack(&ack(200, SMSS));
            assert_eq!(reno.cwnd(), 11 * SMSS);
            reno.on_ack(&ack(200, SMSS));
            assert_eq!(reno.cwnd(), 11 * SMSS + grown);
        }
    }

    #[test]
    fn the_inflation_of_exactly_three_duplicates_stays() {
        for (duplicates, cwnd) in [(3, 13), (4, 10)] {
            let mut reno = with(20);
            reno.on_loss_episode(&loss(100, 20 * SMSS));
            let inflation = duplicates * SMSS;
            reno.on_recovery_end(&RecoveryEnd { now: Instant::ZERO, in_flight: 0, inflation, delivered: 0 });
            assert_eq!(reno.cwnd(), cwnd * SMSS, "{duplicates}");
        }
    }
}
