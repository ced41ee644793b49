//! The fast path of an acknowledgement that only advances SND.UNA while nothing is unusual.
//!
//! It equals [`Flight::on_ack`] with [`Flight::tell_ack`], without what plays no part in it:
//!
//! | the slow path | the answer here |
//! |---|---|
//! | SACK blocks, duplicates, reports of either | there are none: [`Predicted`](ackclock_wire::Predicted) has no such option |
//! | what was retransmitted, lost, or held beyond a gap | [`Scoreboard::on_plain_ack`] takes none of it |
//! | an episode: its end, its inflation, PRR | [`Episode::is_undisturbed`] |
//! | probes of the tail and of the path; undo; F-RTO; Eifel | none has an answer to come |
//! | what the policy finds to be lost | nothing, as [`Policy::trusts_advances`] says beforehand |
//! | marks | ECN is not agreed on |
//! | the trace | it is off |
//!
//! What is left is what V. Jacobson's receiver did ("4BSD TCP Header Prediction", Computer Communication
//! Review 20(2), 1990; not read, cited by its title), plus a delivery rate: the front of the scoreboard is
//! removed, one round trip is measured, congestion control is called once, and the timers restart.

use std::time::Duration;

use super::acked::Delivered;
use super::policy::Policy;
use super::{Call, Flight, History};
use crate::position::Position;

impl Flight {
    /// Processes an acknowledgement of everything before `ack`, which is beyond SND.UNA. Returns whether it
    /// did; if not, nothing has changed, and [`Self::on_ack`] must process it.
    #[inline]
    pub(crate) fn on_advance(&mut self, call: &mut Call<'_>, ack: Position, window_open: bool) -> bool {
        let (now, prior_una, prior_in_flight) = (call.now, self.una, self.in_flight());
        if !self.expects_nothing_unusual() {
            return false;
        }
        let Some(moment) = self.scoreboard.on_plain_ack(prior_una, ack) else { return false };
        let advanced = ack.since(prior_una);
        self.una = ack;
        self.rto.on_progress(now, self.is_outstanding());
        // RFC 9293 MUST-18: Karn's rule. It was sent once.
        self.rto.estimator_mut().on_segment_acked(moment.at, now);
        self.delivery.on_delivered(now, advanced, &moment, false);
        self.restart_timer(call, window_open);
        self.probe.on_answer();
        self.policy.on_advance(now, moment.at, ack);
        self.arm_tail_probe(now);
        self.episode.note_advance(advanced);
        self.tell_delivered(
            call,
            &Delivered {
                moment: &moment,
                repeated: false,
                bytes: advanced,
                advanced,
                rtt: Some(Duration::from_nanos(now.nanos_since(moment.at))),
                prior_in_flight,
                prior_una,
                ecn_marked: 0,
            },
        );
        true
    }

    /// Whether an acknowledgement that advances can have no other meaning.
    #[inline]
    fn expects_nothing_unusual(&self) -> bool {
        self.episode.is_undisturbed()
            && self.mark.is_none()
            && !self.awaits_probe_answer()
            && self.history.as_ref().is_none_or(|history| history.is_settled())
            && self.policy.trusts_advances(&self.scoreboard)
    }
}

impl History {
    /// Whether what happened has no sequel: no reduction can be taken back, no probe of the path is out, and
    /// nothing from before a pause.
    fn is_settled(&self) -> bool {
        self.undo.is_settled() && self.mtu_probe.is_none() && self.resumed.is_none()
    }
}
