//! Sending: how much may leave, what must be retransmitted first, and what is recorded about it.

use ackclock_control::congestion::{Sent, window_rate};

use super::mtu_probe::MtuProbe;
use super::policy::Policy;
use super::probe::Silence;
use super::{Call, Flight, whole_segments};
use crate::position::Position;
use crate::trace::{Limit, SendReason, WindowCause};
use crate::{Instant, TcpConfig};

/// Data chosen to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    pub start: Position,
    pub end: Position,
    pub reason: SendReason,
}

/// Limits of a retransmission, besides the congestion window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// The most payload of one call.
    pub burst_max: u64,
    /// The right edge of the peer's window.
    pub right_edge: Position,
    /// The end of the data, where a FIN goes.
    pub data_end: Position,
}

/// Data or a FIN that leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    pub(crate) start: Position,
    pub(crate) end: Position,
    pub(crate) reason: SendReason,
    /// The most payload of one segment on the wire.
    pub(crate) segment: u32,
    /// Whether nothing more waits behind it.
    pub(crate) drained: bool,
}

impl Flight {
    /// A SYN leaves: it takes the first sequence number.
    pub(crate) fn on_syn_sent(&mut self, call: &mut Call<'_>, iss: Position) {
        if self.is_outstanding() {
            self.history.get_or_insert_default().syn_repeated = true;
        }
        self.nxt = self.nxt.max(iss + 1);
        self.rto.note_waiting(call.now);
        self.sent_at = Some(call.now);
        self.rto.start(call.now, call.tcp);
    }

    /// How much may be sent now, according to congestion control and the recovery policy.
    #[inline]
    pub(crate) fn room(&self) -> u64 {
        let in_flight = self.in_flight();
        let room = match self.policy.allowance(&self.episode) {
            Some(allowance) => allowance,
            None => self.control.cwnd().saturating_sub(in_flight),
        };
        // One segment may always be in flight.
        if in_flight == 0 { room.max(u64::from(self.smss)) } else { room }
    }

    /// The window is full, and more waits.
    #[inline]
    pub(crate) fn note_cwnd_limited(&mut self) {
        self.delivery.note_cwnd_limited(self.nxt);
    }

    /// Whether there may be something to retransmit.
    #[inline]
    pub(crate) fn may_resend(&self) -> bool {
        self.scoreboard.lost() > 0 || self.probe.is_due()
    }

    /// Chooses the data that must be retransmitted now: lost data, as far as the window and the pipe allow
    /// (RFC 6675 §4 NextSeg (1)), or a probe for a lost tail.
    pub(crate) fn next_resend(&mut self, call: &mut Call<'_>, offer: &Offer) -> Option<Chosen> {
        if self.scoreboard.lost() == 0 {
            // Everything may have been acknowledged since the probe was decided on; then new data leaves.
            return self.choose_tail_probe();
        }
        if self.holds_retransmissions() {
            if self.room() < u64::from(self.smss) {
                self.delivery.note_cwnd_limited(self.nxt);
            }
            return self.choose_tail_probe();
        }
        if self.probe.is_due() {
            self.episode.force();
        }
        let chosen = self.choose_lost(call, offer)?;
        if self.probe.take_due() {
            self.probe.count();
        }
        Some(chosen)
    }

    fn choose_lost(&mut self, call: &mut Call<'_>, offer: &Offer) -> Option<Chosen> {
        let smss = u64::from(self.smss);
        let room = self.room();
        if room < smss && !self.episode.is_forced() && !self.resends_mtu_probe() {
            // Data waiting for retransmission fills the window like new data.
            self.delivery.note_cwnd_limited(self.nxt);
            return None;
        }
        let burst_max = if self.retransmits_alone() { smss } else { offer.burst_max };
        let most = burst_max.min(whole_segments(room.max(smss), smss));
        let (start, end) = self.scoreboard.next_lost(most)?;
        // RFC 9293 SHLD-16: old data within a window that shrank. RFC 9293 MAY-7: not beyond it.
        let is_lone_fin = start >= offer.data_end;
        let end = if end > offer.right_edge && !is_lone_fin { offer.right_edge } else { end };
        if start >= end {
            return None;
        }
        let chosen =
            self.pace(call.now, call.tcp, Chosen { start, end, reason: SendReason::Retransmission })?;
        self.episode.on_retransmitted();
        Some(chosen)
    }

    /// While F-RTO judges a timeout, only its first segment is retransmitted (RFC 5682).
    #[inline]
    pub(super) fn holds_retransmissions(&self) -> bool {
        self.history.as_ref().is_some_and(|history| history.undo.holds_retransmissions())
    }

    /// The next retransmission is the one by which F-RTO will judge.
    fn retransmits_alone(&self) -> bool {
        self.history.as_ref().is_some_and(|history| history.undo.retransmits_alone())
    }

    /// Chooses the rescue retransmission of RFC 6675, for when nothing is known to be lost and new data
    /// cannot leave.
    pub(crate) fn next_rescue(&mut self) -> Option<Chosen> {
        // What waits for its time is known to be lost, or can leave then.
        if self.pacing.is_waiting() || !self.episode.in_recovery() || self.room() < u64::from(self.smss) {
            return None;
        }
        let rescued = self.policy.next_rescue(self.una, &self.episode, &self.scoreboard)?;
        let (start, end) = self.within_smss(rescued);
        Some(Chosen { start, end, reason: SendReason::Rescue })
    }

    /// The end of a segment that was sent when the path took larger ones.
    pub(super) fn within_smss(&self, (start, end): (Position, Position)) -> (Position, Position) {
        (start.max(end.back(u64::from(self.smss))), end)
    }

    /// Nothing leaves now: the windows, or the application, limit sending, unless the rate does.
    #[inline]
    pub(crate) fn note_nothing_to_send(&mut self) {
        self.pacing.note_nothing_to_send();
    }

    /// Data or a FIN left.
    #[inline]
    pub(crate) fn on_sent(&mut self, call: &mut Call<'_>, departure: &Departure) {
        let Departure { start, end, reason, segment, drained } = *departure;
        let now = call.now;
        let bytes = end.since(start);
        let retransmission = start < self.nxt;
        let moment = self.delivery.moment(now, self.in_flight(), bytes);
        if retransmission {
            if reason == SendReason::WindowProbe {
                self.scoreboard.on_probe(start, end);
                self.note_copy(end);
            } else {
                self.scoreboard.on_retransmitted(start, end, segment, moment);
            }
            self.rto.estimator_mut().on_segment_retransmitted();
            if let Some(history) = &mut self.history {
                history.undo.on_retransmitted(now, start, end, reason);
            }
        } else {
            self.scoreboard.on_sent(start, end, segment, moment);
            self.rto.estimator_mut().on_segment_sent(now);
            self.nxt = end;
            if let Some(doubt) = self.history.as_mut().and_then(|history| history.doubt.as_mut()) {
                doubt.on_sent(now, departure);
            }
        }
        let in_flight = self.in_flight();
        if drained && in_flight < self.control.cwnd() {
            self.delivery.note_app_limited(in_flight);
        }
        self.pacing.charge(now, bytes);
        self.rto.note_waiting(now);
        self.sent_at = Some(now);
        self.restarted = false;
        if !self.episode.is_open() {
            self.policy.on_sent(end, bytes, reason == SendReason::Retransmission);
        }
        self.control.on_sent(&Sent { now, bytes, in_flight, retransmission });
        self.trace_window(call, WindowCause::Sent);
        let first_probe = reason == SendReason::TailProbe && self.probe.was_first();
        if first_probe || matches!(reason, SendReason::Retransmission | SendReason::Rescue) {
            // The timer measures from the retransmission (RFC 6298 §5.1; 5.6 after a timeout).
            self.rto.stop();
        }
    }

    /// Whether no loss is known, no probe is due and no proof wanted: only new data may leave.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.episode.is_open() && !self.may_resend() && !self.wants_proof()
    }

    /// New data up to `end` left in that state: [`Self::on_sent`] without the other cases and the trace.
    /// `drained`: nothing more waits behind it.
    #[inline]
    pub(crate) fn on_next_sent(&mut self, now: Instant, end: Position, drained: bool) {
        let bytes = end.since(self.nxt);
        let moment = self.delivery.moment(now, self.in_flight(), bytes);
        self.scoreboard.on_sent(self.nxt, end, self.smss, moment);
        self.rto.estimator_mut().on_segment_sent(now);
        self.nxt = end;
        let in_flight = self.in_flight();
        if drained && in_flight < self.control.cwnd() {
            self.delivery.note_app_limited(in_flight);
        }
        self.pacing.charge(now, bytes);
        self.rto.note_waiting(now);
        self.sent_at = Some(now);
        self.restarted = false;
        self.control.on_sent(&Sent { now, bytes, in_flight, retransmission: false });
    }

    /// Whether the retransmission timer runs.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.rto.is_running()
    }

    /// Runs the retransmission timer if something is outstanding and the peer's window is open, and stops it
    /// otherwise (RFC 9293 SHLD-17); the probe's timer likewise.
    #[inline]
    pub(crate) fn run_timer(&mut self, call: &mut Call<'_>, window_open: bool) {
        if self.is_outstanding() && window_open {
            self.rto.start(call.now, call.tcp);
        } else {
            self.rto.stop();
        }
    }
}

// When new data may leave: the window's age, the rate, and a proof that the peer owes.
impl Flight {
    /// RFC 5681 §4.1: a window last used more than a timeout ago says little about the path. Call this before
    /// choosing new data, of which `unsent` bytes wait.
    #[inline]
    pub(crate) fn restart_after_idleness(&mut self, call: &mut Call<'_>, unsent: u64) {
        let Some(sent_at) = self.sent_at else { return };
        // Only once: data held back by Nagle's algorithm or a cork comes here again.
        if self.una != self.nxt || sent_at == call.now || unsent == 0 || self.restarted {
            return;
        }
        let estimator = self.rto.estimator();
        if call.now.nanos_since(sent_at) > estimator.rto_min_nanos() {
            // It may exceed the timeout.
            self.restart_after(call, sent_at);
        }
    }

    /// Restarts from a window last used at `sent_at`.
    #[inline(never)]
    fn restart_after(&mut self, call: &mut Call<'_>, sent_at: Instant) {
        let (idle, rto) = (call.now.saturating_since(sent_at), self.rto.estimator().rto());
        if idle > rto {
            self.restarted = true;
            self.control.on_idle_restart(call, idle, rto, self.smss);
            self.trace_window(call, WindowCause::Idle);
        }
    }

    /// The pacing rate in bytes a second, if any.
    #[inline]
    pub(crate) fn pacing_rate(&self, tcp: &TcpConfig) -> Option<u64> {
        self.rate(tcp, true)
    }

    /// The pacing rate, without the window's rate unless `spreads_window`.
    // Always inlined, for the row "data segment sent" of the counted instructions.
    #[inline(always)]
    fn rate(&self, tcp: &TcpConfig, spreads_window: bool) -> Option<u64> {
        let congestion = self.control.controller();
        let wanted = match congestion.pacing_rate() {
            None if spreads_window && tcp.choices.pacing => {
                let cwnd = congestion.cwnd();
                window_rate(cwnd, self.rto.estimator().srtt_nanos(), cwnd < congestion.ssthresh())
            }
            wanted => wanted,
        };
        let max = [tcp.pacing_rate_max, self.doubted_rate()].into_iter().flatten().min();
        match (wanted, max) {
            (Some(wanted), Some(max)) => Some(wanted.min(max)),
            (wanted, max) => wanted.or(max),
        }
    }

    /// Whose rate a sender waits for that the schedule holds.
    pub(crate) fn pacing_limit(&self, tcp: &TcpConfig) -> Limit {
        let own = self.control.controller().pacing_rate();
        if tcp.pacing_rate_max.is_some() && self.pacing_rate(tcp) == tcp.pacing_rate_max {
            Limit::RateCap
        } else if own.is_some() {
            Limit::Pacing
        } else {
            Limit::PacedCwnd
        }
    }

    /// The part of `chosen` that may leave now. If nothing may, the pacing timer is set for it.
    // Always inlined, for the row "data segment sent" of the counted instructions.
    #[inline(always)]
    pub(crate) fn pace(&mut self, now: Instant, tcp: &TcpConfig, chosen: Chosen) -> Option<Chosen> {
        let two_granularities = self.pacing.two_granularities_ns();
        // The first flight, and windows that one wait releases: see the module.
        let spreads_window =
            self.delivery.bytes() > 0 && self.rto.estimator().srtt_nanos() > two_granularities;
        if self.pacing.is_held(now) && spreads_window && tcp.choices.pacing {
            // There is a rate, whatever its value.
            return None;
        }
        match self.rate(tcp, spreads_window) {
            Some(rate) => self.pacing.pace_at(now, rate.max(1), u64::from(self.smss), chosen),
            None => {
                self.pacing.let_go();
                Some(chosen)
            }
        }
    }

    /// The rate has changed fundamentally: settles what was sent at the old one.
    pub(crate) fn restart_pacing(&mut self, now: Instant) {
        self.pacing.restart(now);
    }

    /// Whether the peer must prove that it has what it acknowledges.
    #[inline]
    fn wants_proof(&self) -> bool {
        let doubt = self.history.as_ref().and_then(|history| history.doubt.as_ref());
        doubt.is_some_and(|doubt| doubt.wants_proof())
    }

    /// New data that leaves, shortened if the peer must prove that it has it. `unsent`: with what follows.
    pub(crate) fn shorten_for_proof(&mut self, now: Instant, chosen: Chosen, unsent: u64) -> Chosen {
        match self.history.as_mut().and_then(|history| history.doubt.as_mut()) {
            Some(doubt) => doubt.shorten(now, chosen, unsent, u64::from(self.smss)),
            None => chosen,
        }
    }

    /// The most that leaves while a proof is missing, in bytes a second.
    #[inline]
    fn doubted_rate(&self) -> Option<u64> {
        self.history.as_ref()?.doubt.as_ref()?;
        self.delivery.path_rtt().doubted_rate(self.control.cwnd())
    }
}

// Probes of the tail (RFC 8985 §7) and of the path's MTU (RFC 4821).
impl Flight {
    /// RFC 8985 §7.2: a probe leaves if no acknowledgement comes for two round trips.
    #[inline]
    pub(crate) fn arm_tail_probe(&mut self, now: Instant) {
        let wanted = self.policy.probes_tail()
            && self.policy.deadline() == Instant::FAR_FUTURE
            && self.is_outstanding()
            && self.rto.is_running();
        if self.probe.is_due() {
            return;
        }
        let at = if wanted {
            let silence = Silence {
                srtt_ns: self.rto.estimator().srtt_nanos(),
                lost_any: self.delivery.lost_any(),
                single: self.flight_size() <= u64::from(self.smss),
                timeout: self.rto.deadline(),
            };
            self.probe.next(now, &silence)
        } else {
            Instant::FAR_FUTURE
        };
        self.probe.arm(at);
    }

    /// The probe, if one is due: the last segment again, whatever the congestion window says (RFC 8985 §7.3).
    // Deviation from RFC 8985 §7.3: new data is not preferred (see the module).
    fn choose_tail_probe(&mut self) -> Option<Chosen> {
        if !self.probe.take_due() {
            return None;
        }
        let (start, end) = self.within_smss(self.probe_segment()?);
        self.probe.on_sent(end);
        self.note_copy(end);
        Some(Chosen { start, end, reason: SendReason::TailProbe })
    }

    /// Whether there is anything to probe with: known lost data that is not held back, or a segment to
    /// repeat.
    pub(super) fn has_probe(&self) -> bool {
        self.scoreboard.lost() > 0 && !self.holds_retransmissions() || self.probe_segment().is_some()
    }

    /// The segment that a probe repeats if no lost data may leave.
    fn probe_segment(&self) -> Option<(Position, Position)> {
        if self.holds_retransmissions() {
            self.scoreboard.first_segment()
        } else {
            self.scoreboard.last_segment()
        }
    }

    /// A tail or window probe repeats what lies before `end`.
    fn note_copy(&mut self, end: Position) {
        self.history.get_or_insert_default().copies.add(end);
    }

    /// Sends a probe of the path's MTU: one segment of new data of this length.
    pub(crate) fn send_mtu_probe(&mut self, call: &mut Call<'_>, start: Position, end: Position) {
        let segment = u32::try_from(end.since(start)).unwrap_or(u32::MAX);
        self.on_sent(call, &Departure { start, end, reason: SendReason::MtuProbe, segment, drained: false });
        self.history.get_or_insert_default().mtu_probe = Some(MtuProbe::new(start, end));
    }

    /// Whether the loss of a probe of `bytes` would be detected: enough segments follow it within the
    /// congestion window, and no other loss is being repaired.
    pub(crate) fn may_probe_mtu(&self, bytes: u64) -> bool {
        self.episode.is_open()
            && self.scoreboard.lost() == 0
            && self.rto.expiries() == 0
            && self.control.cwnd() >= bytes.saturating_add(self.dup_thresh_bytes())
    }
}
