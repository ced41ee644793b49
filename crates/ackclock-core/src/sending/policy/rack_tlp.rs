//! RACK-TLP: losses found by time, and a probe for lost tails.
//!
//! Y. Cheng, N. Cardwell, N. Dukkipati and P. Jha, "The RACK-TLP Loss Detection Algorithm for TCP", RFC 8985,
//! 2021. The arithmetic of §6.2 is in [`rack`](super::rack), the probe of §7 in
//! [`probe`](super::super::probe); [`prr`](super::prr) decides how much is sent during recovery.

use ackclock_control::congestion::LossCause;

use super::prr::Prr;
use super::rack::Rack;
use super::{
    DUP_THRESH, Episode, Evidence, LossAnswer, LossFound, Marked, Policy, Progress, RttEstimator, Scoreboard,
};
use crate::Instant;
use crate::position::Position;
use crate::trace::LossRule;

#[derive(Debug)]
pub(in crate::sending) struct RackTlp {
    rack: Rack,
    /// PRR of the present or the last episode, if the controller has a threshold.
    prr: Option<Box<Prr>>,
    /// When the reordering window of the oldest possibly late segment closes.
    reordering: Instant,
}

impl Default for RackTlp {
    fn default() -> Self {
        Self { rack: Rack::default(), prr: None, reordering: Instant::FAR_FUTURE }
    }
}

impl Policy for RackTlp {
    fn heeds_sack(&self) -> bool {
        true
    }

    fn probes_tail(&self) -> bool {
        true
    }

    fn on_ack(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound> {
        let outcome = evidence.seen.outcome;
        // Deviation from RFC 8985 §6.2 step 4: not for every report of a duplicate. A probe leaves without
        // anything held to be late, so a report of its copy says nothing about the window.
        if outcome.duplicate_reported && !evidence.seen.reports_probe {
            self.rack.on_duplicate_report(evidence.una, evidence.nxt);
        }
        self.rack.on_ack(evidence.now, outcome, evidence.rtt);
        self.find_late(evidence)
    }

    /// True if what was delivered last left before everything still in flight. Then what is delivered next,
    /// sent once and in order, did so too, and [`Self::find_late`] finds nothing.
    #[inline]
    fn trusts_advances(&self, scoreboard: &Scoreboard) -> bool {
        self.reordering == Instant::FAR_FUTURE
            && self.rack.newest().is_none_or(|newest| !scoreboard.was_sent_before(newest))
    }

    #[inline]
    fn on_advance(&mut self, now: Instant, sent_at: Instant, una: Position) {
        self.rack.on_delivered(now, sent_at, una);
    }

    /// The reordering window of a segment has closed.
    fn on_timer(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound> {
        self.find_late(evidence)
    }

    /// RFC 8985 §6.3, RACK_mark_losses_on_RTO: the first segment, and everything older than a round trip plus
    /// the reordering window.
    fn mark_at_timeout(
        &mut self,
        now: Instant,
        una: Position,
        rtt: &RttEstimator,
        scoreboard: &mut Scoreboard,
    ) -> Marked {
        let patience = self.rack.patience(rtt.rtt_min(), rtt.srtt(), false);
        scoreboard.mark_lost_at_timeout(now, una, patience)
    }

    fn deadline(&self) -> Instant {
        self.reordering
    }

    fn stop_timer(&mut self) {
        self.reordering = Instant::FAR_FUTURE;
    }

    fn regulate(&mut self, scoreboard: &Scoreboard, progress: &Progress) {
        if progress.ssthresh == u64::MAX {
            return;
        }
        let in_flight = scoreboard.pipe();
        let delivered = progress.delivered.unwrap_or(0);
        let before = in_flight.saturating_add(scoreboard.lost()).saturating_add(delivered);
        let prr = self.prr.get_or_insert_with(|| Box::new(Prr::new(progress.episode, before)));
        if !prr.is_of(progress.episode) {
            **prr = Prr::new(progress.episode, before);
        }
        prr.on_ack(progress, in_flight);
    }

    fn allowance(&self, episode: &Episode) -> Option<u64> {
        self.prr.as_ref()?.allowance(episode.recovery_point()?)
    }

    fn on_sent(&mut self, _: Position, bytes: u64, _: bool) {
        if let Some(prr) = &mut self.prr {
            prr.on_sent(bytes);
        }
    }

    fn on_episode_end(&mut self) {
        self.rack.on_recovery_end();
    }

    /// PRR follows the threshold of the former controller. The next acknowledgement begins again if the other
    /// has one.
    fn on_threshold_change(&mut self) {
        self.prr = None;
    }

    fn on_undo(&mut self, una: Position, nxt: Position, by_timer: bool) {
        self.rack.forget_delivery();
        if !by_timer {
            // RFC 8985 §6.2 step 4 widens the window for a reported duplicate; this is an equally good proof.
            self.rack.on_duplicate_report(una, nxt);
        }
        self.prr = None;
    }
}

impl RackTlp {
    /// RFC 8985 §6.2 step 5.
    fn find_late(&mut self, evidence: &mut Evidence<'_>) -> Option<LossFound> {
        self.reordering = Instant::FAR_FUTURE;
        let newest = self.rack.newest().filter(|&newest| evidence.scoreboard.was_sent_before(newest))?;
        // RFC 6675 §4 IsLost: three segments are more than two of SMSS bytes. Options make them shorter.
        let two = u64::from(DUP_THRESH.saturating_sub(1)).saturating_mul(evidence.smss);
        let three_held = evidence.scoreboard.sacked() > two;
        let certain = three_held || !evidence.episode.is_open();
        let patience = self.rack.patience(evidence.rtt.rtt_min(), evidence.rtt.srtt(), certain);
        let (marked, next) = evidence.scoreboard.mark_lost_by_time(evidence.now, newest, patience);
        self.reordering = next.unwrap_or(Instant::FAR_FUTURE);
        let answer = LossAnswer::Episode { cause: LossCause::Reordering, bytes_lost: marked.bytes };
        (marked.bytes > 0).then_some(LossFound {
            rule: LossRule::LaterDelivered,
            marked,
            answer,
            left_network: None,
        })
    }
}

ackclock_form::form! {
    struct RackTlp { rack, prr, reordering }
}

#[cfg(test)]
mod tests {
    use super::super::super::scoreboard::{AckOutcome, SendMoment};
    use super::*;

    #[test]
    fn recover_fs_is_all_that_was_out_before_the_first_acknowledgement_of_the_episode() {
        // RFC 9937: 20 segments in flight; the first four are lost and the last three just delivered.
        let start = Position::default() + 1;
        let at = Instant::from_millis(1);
        let moment = SendMoment {
            at,
            delivered: 0,
            delivered_at: at,
            sending_us: 0,
            in_flight: 20_000,
            lost: 0,
            app_limited: false,
        };
        let mut scoreboard = Scoreboard::default();
        scoreboard.on_sent(start, start + 20_000, 1000, moment);
        scoreboard.on_sack(start + 17_000, start + 20_000, &mut AckOutcome::default());
        scoreboard.mark_lost_before(start + 4000);
        assert_eq!((scoreboard.pipe(), scoreboard.lost()), (13_000, 4000));

        let mut policy = RackTlp::default();
        let episode = start + 20_000;
        let progress = Progress { episode, delivered: Some(3000), safe: false, ssthresh: 10_000, smss: 1000 };
        policy.regulate(&scoreboard, &progress);
        // sndcnt = CEIL(prr_delivered * ssthresh / RecoverFS): half of what was delivered, as 10,000 is of
        // 20,000.
        let allowance = policy.prr.as_ref().and_then(|prr| prr.allowance(episode));
        assert_eq!(allowance, Some(1500));
    }
}
