//! Fifth, the ACK field (RFC 9293 §3.10.7.4, with RFC 5961 §5): what the peer has, and what it will take.

use std::time::Duration;

use ackclock_control::congestion::Ack;
use ackclock_wire::Flags;

use super::super::limiter::Provocation;
use super::super::{Connection, Reply, State};
use super::{Arrival, Verdict};
use crate::position::Position;
use crate::recovery::{AckOutcome, reported_duplicate};
use crate::trace::LossRule;

/// From here on a millisecond more or less does not matter.
const TICKS_MATTER: Duration = Duration::from_millis(10);

impl Connection {
    pub(super) fn step5_ack(&mut self, arrival: &mut Arrival<'_>) -> Verdict {
        if !arrival.segment.flags.contains(Flags::ACK) {
            return Verdict::Drop;
        }
        let ack = self.snd.una.near(arrival.segment.ack);
        if self.state == State::SynReceived {
            if ack <= self.snd.una || ack > self.snd.nxt {
                self.reply = Some(Reply::Reset(arrival.segment.ack));
                return Verdict::Drop;
            }
            self.complete_crossing_open(arrival, ack);
        } else if !self.is_believable(ack) {
            if self.limiter.allow(arrival.now, Provocation::Unacceptable) {
                self.reply = Some(Reply::Ack);
            }
            return Verdict::Drop;
        }
        self.note_heard(arrival.now);
        if self.state == State::TimeWait {
            return Verdict::Continue;
        }
        self.take_ack(arrival, ack);
        self.advance_closing(arrival);
        if self.state == State::Closed { Verdict::Drop } else { Verdict::Continue }
    }

    /// RFC 9293 MAY-12 (RFC 5961 §5.2): SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT; and nothing below the first byte was ever
    /// there to be acknowledged, however large the window.
    #[inline]
    fn is_believable(&self, ack: Position) -> bool {
        let oldest = self.snd.una.back(u64::from(self.snd.max_wnd)).max(self.snd.iss + 1);
        oldest <= ack && ack <= self.snd.nxt
    }

    fn complete_crossing_open(&mut self, arrival: &Arrival<'_>, ack: Position) {
        let clean = self.give_up.expiries == 0;
        self.snd.acknowledge(ack.min(self.snd.iss + 1));
        self.pending.syn = false;
        self.establish(arrival.now, clean);
        if self.snd.closed {
            self.enter(arrival.now, State::FinWait1);
        }
    }

    #[inline]
    fn take_ack(&mut self, arrival: &Arrival<'_>, ack: Position) {
        if ack == self.snd.una && self.scoreboard.is_empty() {
            // Nothing is outstanding, so there is no news but the window, and perhaps a duplicate.
            self.take_duplicate_report(arrival, ack);
            return self.update_window(arrival, ack, ack);
        }
        self.take_news(arrival, ack);
    }

    fn take_news(&mut self, arrival: &Arrival<'_>, ack: Position) {
        let now = arrival.now;
        let prior_una = self.snd.una;
        let prior_wnd = self.snd.wnd;
        let prior_in_flight = self.in_flight();
        let mut outcome = AckOutcome::default();
        let mut advanced = 0;
        if ack > prior_una {
            advanced = ack.since(prior_una);
            self.scoreboard.on_cumulative_ack(ack, &mut outcome);
            self.counts.bytes_acked += ack.min(self.snd.data_end()).since(prior_una);
            self.snd.acknowledge(ack);
            self.pending.probe = false;
        }
        let heeds_sack = self.heeds_sack();
        if heeds_sack && !arrival.segment.options.sack.is_empty() {
            self.take_sack_blocks(arrival, ack, &mut outcome);
        }
        if ack >= prior_una {
            self.update_window(arrival, ack, prior_una);
        }
        self.take_duplicate_report(arrival, ack);
        // RFC 5681 §2: outstanding data, no text, no SYN or FIN, the same acknowledgement, the same window;
        // with SACK, news is what makes it count (RFC 6675 §2).
        let duplicate = ack == prior_una
            && !self.scoreboard.is_empty()
            && arrival.segment.seq_len() == 0
            && if heeds_sack { outcome.newly_sacked > 0 } else { self.snd.wnd == prior_wnd };
        if advanced == 0 && !duplicate && outcome.newly_acked == 0 && !outcome.duplicate_reported {
            return;
        }
        self.trace_ack(now, ack, duplicate, arrival.segment);
        self.take_samples(arrival, advanced, &outcome);
        if advanced > 0 {
            // RFC 6298 §5.3: the timer starts anew when new data is acknowledged.
            self.restart_send_timer(now);
        }
        if self.undo.is_some() && self.judge_reduction(arrival, prior_una, duplicate, &outcome)
            || self.answers_original(arrival, &outcome)
        {
            outcome.newest_is_original = outcome.newest_was_repeated;
        }
        self.judge_losses(now, advanced, duplicate, &outcome);
        let ecn_marked = self.take_marks(now, arrival.segment, outcome.newly_acked, prior_in_flight);
        self.tell_controller(arrival, prior_una, prior_in_flight, advanced, ecn_marked, &outcome);
        if advanced > 0 {
            self.note_write_room();
        }
    }

    /// RFC 8985 §6.2 step 2: of something sent again the echoed timestamp tells that the first transmission arrived.
    fn answers_original(&self, arrival: &Arrival<'_>, outcome: &AckOutcome) -> bool {
        // What is held beyond a gap is answered with the timestamp of what came before the gap.
        let repeated = outcome.newest_any.filter(|_| outcome.newest_was_repeated);
        let Some((moment, _)) = repeated.filter(|&(_, end)| end <= self.snd.una) else { return false };
        let (Some(timestamps), Some((_, echoed))) = (self.timestamps, arrival.segment.options.timestamps)
        else {
            return false;
        };
        let age = timestamps.value(moment.at).wrapping_sub(echoed);
        age != 0 && age < 1 << 31
    }

    fn take_sack_blocks(&mut self, arrival: &Arrival<'_>, ack: Position, outcome: &mut AckOutcome) {
        let blocks = arrival.segment.options.sack.as_slice();
        outcome.duplicate_reported = reported_duplicate(ack, blocks).is_some();
        for &(left, right) in blocks {
            let (left, right) = (self.snd.una.near(left), self.snd.una.near(right));
            if self.snd.una < right && left < right && right <= self.snd.nxt && left > self.snd.una {
                self.scoreboard.on_sack(left, right, outcome);
            }
        }
    }

    /// RFC 9293 §3.10.7.4: SND.WL1 and SND.WL2 keep an old segment from setting the window.
    #[inline]
    fn update_window(&mut self, arrival: &Arrival<'_>, ack: Position, prior_una: Position) {
        if self.snd.wl1 < arrival.start || self.snd.wl1 == arrival.start && self.snd.wl2 <= ack {
            let was_closed = self.snd.wnd == 0;
            // RFC 7323 §2.2: the window of a SYN, also of one that crossed ours, is never shifted.
            let scale = if arrival.segment.flags.contains(Flags::SYN) { 0 } else { self.snd.scale };
            self.snd.wnd = u32::from(arrival.segment.window) << scale;
            self.snd.max_wnd = self.snd.max_wnd.max(self.snd.wnd);
            self.snd.wl1 = arrival.start;
            self.snd.wl2 = ack;
            if was_closed && self.snd.wnd > 0 {
                self.on_window_opened(arrival);
            }
        } else {
            // Deviation from RFC 9293 §3.10.7.4: an old segment may acknowledge, but the right edge stays where a newer one put
            // it; SND.UNA + SND.WND would run ahead of what the peer ever offered.
            let advanced = u32::try_from(ack.since(prior_una)).unwrap_or(u32::MAX);
            self.snd.wnd = self.snd.wnd.saturating_sub(advanced);
        }
    }

    /// What was sent into the closed window was not taken: it goes out again at once.
    fn on_window_opened(&mut self, arrival: &Arrival<'_>) {
        if self.give_up.probes > 0 && !self.scoreboard.is_empty() && !self.recovery.in_recovery() {
            let lost = self.scoreboard.mark_first_lost();
            self.note_loss(arrival.now, LossRule::WindowReopened, &lost);
            self.recovery.first_retransmission |= lost.bytes > 0;
        }
        self.give_up.probes = 0;
        self.give_up.waiting_since = self.give_up.waiting_since.map(|_| arrival.now);
        self.pending.probe = false;
    }

    fn take_samples(&mut self, arrival: &Arrival<'_>, advanced: u64, outcome: &AckOutcome) {
        let now = arrival.now;
        self.delivery.bytes += outcome.newly_acked;
        if advanced > 0 {
            self.give_up.waiting_since = (self.snd.una < self.snd.nxt).then_some(now);
            self.give_up.expiries = 0;
        }
        self.sample_round_trip(arrival, advanced, outcome);
        if let Some((moment, _)) = outcome.newest_any {
            let interval = self.delivery.interval(now, &moment);
            self.delivery.sent_at = moment.at;
            let bytes = self.delivery.bytes - moment.delivered;
            let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
            if let Some(rate) = bytes.saturating_mul(1_000_000_000).checked_div(nanos) {
                self.delivery.rate = rate;
            }
        }
        if outcome.newly_acked > 0 {
            self.delivery.at = now;
        }
    }

    /// RFC 9293 MUST-18: Karn's rule. What was sent once gives a sample; of what was sent more often, only the echoed
    /// timestamp tells which transmission was answered (RFC 7323 §4.3). It counts milliseconds, so short round trips
    /// are left to those, unless the path has become slower than was thought.
    fn sample_round_trip(&mut self, arrival: &Arrival<'_>, advanced: u64, outcome: &AckOutcome) {
        let now = arrival.now;
        if outcome.retransmission_acked {
            self.rtt.on_segment_retransmitted();
        } else if let Some(moment) = outcome.newest {
            // One timed segment at a time is a matter of cumulative acknowledgements: a selective one does not say
            // whether it was that segment.
            let counts = !self.rtt.times_one_segment() || advanced > 0 && outcome.newly_sacked == 0;
            if counts && self.rtt.on_segment_acked(moment.at, now) {
                self.trace_round_trip(now);
            }
            return;
        }
        if let (Some(timestamps), Some((_, echoed))) = (self.timestamps, arrival.segment.options.timestamps)
            && advanced > 0
            && !self.rtt.times_one_segment()
            && let Some(rtt) = timestamps.since_echoed(now, echoed)
            && (rtt >= TICKS_MATTER || rtt > self.rtt.srtt())
        {
            self.rtt.on_sample(rtt);
            self.trace_round_trip(now);
        }
    }

    fn tell_controller(
        &mut self,
        arrival: &Arrival<'_>,
        prior_una: Position,
        prior_in_flight: u64,
        advanced: u64,
        ecn_marked: u64,
        outcome: &AckOutcome,
    ) {
        let Some((moment, _)) = outcome.newest_any else { return };
        let now = arrival.now;
        self.tell_ack(&Ack {
            now,
            bytes_acked: outcome.newly_acked,
            bytes_cumulative: advanced,
            rtt: outcome
                .newest
                .filter(|_| !outcome.retransmission_acked)
                .map(|sent| now.saturating_since(sent.at)),
            srtt: self.rtt.srtt(),
            rtt_min: self.rtt.rtt_min(),
            delivered: self.delivery.bytes,
            prior_delivered: moment.delivered,
            sent_at: moment.at,
            delivery_interval: self.delivery.interval(now, &moment),
            app_limited: moment.app_limited,
            tx_in_flight: u64::from(moment.in_flight),
            lost: self.delivery.lost_since(&moment),
            prior_in_flight,
            in_flight: self.in_flight(),
            cwnd_limited: self.delivery.cwnd_limited_until.is_some_and(|until| prior_una <= until),
            in_recovery: self.recovery.in_recovery() || self.answers_mark(),
            ecn_marked,
        });
    }

    /// Our FIN may have been acknowledged (RFC 9293 §3.10.7.4, the states after ESTABLISHED).
    fn advance_closing(&mut self, arrival: &Arrival<'_>) {
        if self.snd.fin_acked() {
            self.enter(arrival.now, self.state.after_fin_acked());
        }
    }
}
