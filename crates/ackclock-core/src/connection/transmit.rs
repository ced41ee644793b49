//! What to send next, and why: a reply, a SYN, lost data, a probe, new data, an acknowledgement, in this order.

use ackclock_control::congestion::Sent;
use ackclock_wire::template::HEADER_MAX;
use ackclock_wire::{Flags, TcpOptions};

use super::header::{Outgoing, Segment};
use super::{Connection, Reply, State};
use crate::position::Position;
use crate::recovery::SendMoment;
use crate::trace::SendReason;
use crate::{Instant, Limits};

/// Data chosen to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) start: Position,
    pub(super) end: Position,
    pub(super) reason: SendReason,
}

impl Connection {
    /// The payload of a segment that `poll_transmit` made.
    #[inline]
    pub(crate) fn payload(&self, outgoing: &Outgoing) -> [&[u8]; 2] {
        self.snd.slices(outgoing.start, outgoing.payload_len)
    }

    /// The next segment to send, its header written to `header`. Once taken it counts as sent.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        limits: Limits,
        header: &mut [u8; HEADER_MAX],
    ) -> Option<Outgoing> {
        let segment = self.next_segment(now, limits);
        if let Some(segment) = &segment {
            let outgoing = self.write_segment(now, limits, header, segment);
            self.check_invariants();
            return Some(outgoing);
        }
        self.trace_limit(now);
        None
    }

    pub(super) fn next_segment(&mut self, now: Instant, limits: Limits) -> Option<Segment> {
        if let Some(reply) = self.reply.take() {
            return Some(self.reply_segment(now, reply));
        }
        if self.pending.reset {
            self.pending.reset = false;
            return Some(Segment::bare(self.snd.nxt, Flags::RST | Flags::ACK, SendReason::Reset));
        }
        match self.state {
            State::Closed | State::Listen => return None,
            State::SynSent | State::SynReceived => return self.handshake_segment(now),
            _ if self.owes_handshake_ack() => {
                return Some(Segment::bare(self.snd.nxt, Self::ACK, SendReason::Ack));
            }
            _ => {}
        }
        if self.state.may_send_data()
            && let Some(chosen) = self.choose_data(now, limits)
        {
            return Some(self.data_segment(now, chosen));
        }
        if std::mem::take(&mut self.pending.keepalive) {
            // RFC 9293 §3.8.4: SEG.SEQ = SND.NXT-1 draws an acknowledgement. RFC 9293 SHLD-12: no data with it.
            return Some(Segment::bare(self.snd.nxt.back(1), Self::ACK, SendReason::Keepalive));
        }
        self.acks.now.then(|| Segment::bare(self.snd.nxt, Self::ACK, SendReason::Ack))
    }

    fn reply_segment(&self, now: Instant, reply: Reply) -> Segment {
        match reply {
            Reply::Reset(seq) => Segment::bare(Position::initial(seq), Flags::RST, SendReason::Reset),
            // In SYN-RECEIVED the answer is the SYN,ACK, else crossing opens never end (RFC 9293 §3.5).
            Reply::Ack if self.state == State::SynReceived => self.syn_segment(now),
            Reply::Ack => Segment::bare(self.snd.nxt, Self::ACK, SendReason::Challenge),
        }
    }

    fn handshake_segment(&mut self, now: Instant) -> Option<Segment> {
        if !std::mem::take(&mut self.pending.syn) {
            return None;
        }
        self.snd.nxt = self.snd.nxt.max(self.snd.iss + 1);
        self.give_up.waiting_since.get_or_insert(now);
        self.counts.sent_at = Some(now);
        self.update_send_timer(now);
        Some(self.syn_segment(now))
    }

    fn syn_segment(&self, now: Instant) -> Segment {
        let flags = if self.state == State::SynReceived { Flags::SYN | Flags::ACK } else { Flags::SYN };
        let options = self.syn_options(now);
        let flags = flags | self.ecn_of_syn();
        Segment { options, ..Segment::bare(self.snd.iss, flags, SendReason::Handshake) }
    }

    fn choose_data(&mut self, now: Instant, limits: Limits) -> Option<Chosen> {
        if let Some(chosen) = self.choose_lost(now, limits) {
            return Some(chosen);
        }
        if std::mem::take(&mut self.pending.probe) {
            return self.choose_probe();
        }
        // All may have been acknowledged since the probe was decided on: then new data goes.
        if std::mem::take(&mut self.pending.tail_probe)
            && let Some(chosen) = self.choose_tail_probe()
        {
            return Some(chosen);
        }
        self.restart_after_idleness(now);
        let chosen = self.choose_new(now, limits).or_else(|| self.choose_rescue());
        if chosen.is_none() {
            self.note_nothing_to_send();
        }
        chosen
    }

    /// What RFC 6675 lets go when nothing is known to be lost and new data cannot.
    fn choose_rescue(&mut self) -> Option<Chosen> {
        // What waits for its time is known to be lost, or can go then.
        if self.timers.pacing != super::timers::Timers::UNSET {
            return None;
        }
        let stuck = self.snd.unsent() == 0 || self.snd.right_edge() <= self.snd.nxt;
        if !stuck || !self.recovery.in_recovery() || self.cwnd_room() < u64::from(self.smss()) {
            return None;
        }
        let rescued = self.next_rescue()?;
        let (start, end) = self.within_smss(rescued);
        Some(Chosen { start, end, reason: SendReason::Rescue })
    }

    /// The end of a segment that was sent when the path took larger ones.
    fn within_smss(&self, (start, end): (Position, Position)) -> (Position, Position) {
        (start.max(end.back(u64::from(self.smss()))), end)
    }

    /// The last segment again, whatever the congestion window says (RFC 8985 §7.3).
    // Deviation from RFC 8985 §7.3: new data is not preferred. What the probe asks is mostly whether an acknowledgement was
    // lost; a receiver delays the answer to one new segment by 40 ms and more, that to a repeated one not at all, and
    // its D-SACK tells that nothing was lost.
    fn choose_tail_probe(&mut self) -> Option<Chosen> {
        let (start, end) = self.within_smss(self.scoreboard.last_segment()?);
        self.recovery.tail_probe = Some(end);
        Some(Chosen { start, end, reason: SendReason::TailProbe })
    }

    /// Lost data, as far as the window and the pipe allow (RFC 6675 §4 NextSeg (1)).
    fn choose_lost(&mut self, now: Instant, limits: Limits) -> Option<Chosen> {
        if self.scoreboard.lost() == 0 || self.holds_retransmissions() {
            return None;
        }
        let smss = u64::from(self.smss());
        let room = self.cwnd_room();
        if room < smss && !self.recovery.first_retransmission {
            return None;
        }
        let most = self.burst_max(limits).min(room.max(smss) / smss * smss);
        let (start, end) = self.scoreboard.next_lost(most)?;
        // RFC 9293 SHLD-16: old data within a window that shrank. RFC 9293 MAY-7: not beyond it.
        let edge = self.snd.right_edge();
        let end = if end > edge && !self.is_lone_fin(start, end) { edge } else { end };
        if start >= end {
            return None;
        }
        let chosen = self.pace(now, Chosen { start, end, reason: SendReason::Retransmission })?;
        self.recovery.first_retransmission = false;
        Some(chosen)
    }

    fn is_lone_fin(&self, start: Position, end: Position) -> bool {
        start >= self.snd.data_end() && start < end
    }

    /// One byte into the closed window (RFC 9293 §3.8.6.1): the first unacknowledged, or the next.
    fn choose_probe(&mut self) -> Option<Chosen> {
        let start = self.snd.una;
        let last = self.snd.data_end() + u64::from(self.snd.closed);
        (start < last).then(|| Chosen { start, end: start + 1, reason: SendReason::WindowProbe })
    }

    /// Data that was never sent, as far as both windows and the two silly-window rules allow.
    fn choose_new(&mut self, now: Instant, limits: Limits) -> Option<Chosen> {
        let start = self.snd.nxt;
        let unsent = self.snd.unsent();
        if unsent == 0 {
            let fin_due = self.snd.closed && !self.snd.fin_sent();
            return fin_due.then(|| Chosen { start, end: start + 1, reason: SendReason::NewData });
        }
        let smss = u64::from(self.smss());
        // RFC 9293 SHLD-15: a peer that shrank its window gets nothing new; RFC 9293 MUST-34: the usable window may be negative.
        let window = self.snd.right_edge().since(start);
        let room = self.cwnd_room();
        let full = unsent.min(window).min(room).min(self.burst_max(limits)) / smss * smss;
        if room < unsent.min(window).min(smss) || room < unsent && room < smss {
            self.delivery.cwnd_limited_until = Some(self.snd.nxt);
            return None;
        }
        let rest = unsent - full;
        let tail = rest < smss && rest <= window - full && full + rest <= self.burst_max(limits).max(smss);
        let end = if tail && rest > 0 && self.may_send_tail(full) {
            start + unsent
        } else if full > 0 {
            start + full
        } else {
            start + self.override_silly_window(unsent.min(window))?
        };
        // RFC 9293 SHLD-27, RFC 9293 SHLD-28: as large as possible, whatever the sizes of the writes.
        let fin = self.snd.closed && end == self.snd.data_end();
        self.pace(now, Chosen { start, end: end + u64::from(fin), reason: SendReason::NewData })
    }

    /// Nagle's algorithm (RFC 9293 SHLD-7, §3.7.4) and the cork: whether less than a segment may follow `full` bytes.
    fn may_send_tail(&self, full: u64) -> bool {
        // RFC 9293 MAY-16: small writes are put together.
        if self.corked && !self.pending.cork_expired {
            return self.snd.closed;
        }
        self.tcp.nodelay
            || self.snd.closed
            || self.pending.cork_expired
            || self.snd.una == self.snd.nxt && full == 0
    }

    /// RFC 9293 MUST-38 (§3.8.6.2.1): less than a segment goes into a small window only if it is half of the largest that
    /// the peer ever offered, or after the override timeout.
    fn override_silly_window(&self, usable: u64) -> Option<u64> {
        let limited_by_window = usable < self.snd.unsent();
        let half = u64::from(self.snd.max_wnd / 2).max(1);
        if usable == 0 || !limited_by_window {
            return None;
        }
        (self.pending.override_sws || usable >= half).then_some(usable.min(u64::from(self.smss())))
    }

    /// How much may be sent now, as congestion control and the recovery policy say.
    pub(super) fn cwnd_room(&self) -> u64 {
        let in_flight = self.in_flight();
        let within_window = || self.congestion.cwnd().saturating_sub(in_flight);
        let room = self.recovery.allowance().unwrap_or_else(within_window);
        // One segment may always be in flight.
        if in_flight == 0 { room.max(u64::from(self.smss())) } else { room }
    }

    /// The most payload of one call: one segment, or as many as the device cuts.
    fn burst_max(&self, limits: Limits) -> u64 {
        let smss = u64::from(self.smss());
        let gso_max = if self.tuple.remote_addr.is_ipv4() { limits.gso_max_v4 } else { limits.gso_max_v6 };
        if gso_max <= self.snd.pmtu as usize || self.sends_lone_segment() {
            return smss;
        }
        let header = u64::from(self.template.transport_offset()) + 60;
        let payload = (gso_max.min(65_535) as u64).saturating_sub(header);
        (payload / smss * smss).max(smss)
    }

    fn data_segment(&mut self, now: Instant, chosen: Chosen) -> Segment {
        let Chosen { start, end, reason } = chosen;
        let options = self.data_options(now);
        // SACK blocks take room in each segment; what does not fit goes with the next.
        let options_len = u32::try_from(ackclock_wire::options_len(&options)).unwrap_or(u32::MAX);
        let segment_max = self.payload_max(options_len);
        let data_end = self.snd.data_end();
        let text = end.min(data_end).since(start);
        let segments = text.div_ceil(u64::from(self.smss()));
        let text_end = start + text.min(segments * u64::from(segment_max));
        let fin = end > data_end && text_end >= data_end;
        self.note_sent(now, start, text_end + u64::from(fin), reason);
        let payload_len = text_end.index_from(start);
        let mut flags = Self::ACK;
        if fin {
            flags = flags | Flags::FIN;
        }
        if payload_len > 0 && text_end == data_end {
            // RFC 9293 MUST-61: the last of what is buffered is pushed.
            flags = flags | Flags::PSH;
        }
        Segment { start, flags, payload_len, segment_max, reason, options }
    }

    fn note_sent(&mut self, now: Instant, start: Position, end: Position, reason: SendReason) {
        let bytes = end.since(start);
        // A FIN takes a number, and is no payload.
        let payload = end.min(self.snd.data_end()).since(start);
        let retransmission = start < self.snd.nxt;
        let moment = self.send_moment(now, bytes);
        if retransmission {
            if reason == SendReason::WindowProbe {
                self.scoreboard.on_probe(start, end);
            } else {
                self.scoreboard.on_retransmitted(start, end, moment);
            }
            self.rtt.on_segment_retransmitted();
            self.watch_retransmission(now, start, end, reason);
            self.counts.bytes_retransmitted += payload;
            self.counts.retransmits += payload.div_ceil(u64::from(self.smss())).max(1);
        } else {
            self.scoreboard.on_sent(start, end, self.smss(), moment);
            self.rtt.on_segment_sent(now);
            self.snd.nxt = end;
            self.pending.override_sws = false;
        }
        if self.snd.unsent() == 0 && self.in_flight() < self.congestion.cwnd() {
            self.delivery.app_limited_until = self.delivery.bytes + self.in_flight().max(1);
        }
        if self.snd.unsent() == 0 {
            // The next rest that a cork holds back has its own time.
            self.pending.cork_expired = false;
            self.timers.cork = super::timers::Timers::UNSET;
        }
        self.pending.restarted = false;
        if let Some(pacer) = &mut self.pacer {
            pacer.charge(now, bytes);
        }
        self.counts.bytes_sent += payload;
        self.give_up.waiting_since.get_or_insert(now);
        self.counts.sent_at = Some(now);
        self.recovery.on_sent(end, bytes, reason);
        self.tell_sent(&Sent { now, bytes, in_flight: self.in_flight(), retransmission });
        if matches!(reason, SendReason::Retransmission | SendReason::Rescue | SendReason::TailProbe) {
            // The timer measures from the retransmission (RFC 6298 §5.1; 5.6 after a timeout).
            self.timers.send = super::timers::SendTimer::Idle;
        }
        self.update_send_timer(now);
        self.arm_tail_probe(now);
    }

    /// What samples of `bytes` that leave now will need.
    fn send_moment(&mut self, now: Instant, bytes: u64) -> SendMoment {
        let in_flight = self.in_flight();
        if in_flight == 0 {
            // Time in which nothing was out says nothing about the path.
            (self.delivery.at, self.delivery.sent_at) = (now, now);
        }
        let sending = now.saturating_since(self.delivery.sent_at).as_micros();
        SendMoment {
            at: now,
            delivered: self.delivery.bytes,
            delivered_at: self.delivery.at,
            sending_us: u32::try_from(sending).unwrap_or(u32::MAX),
            in_flight: u32::try_from(in_flight + bytes).unwrap_or(u32::MAX),
            lost: self.delivery.lost,
            app_limited: self.delivery.app_limited_until > self.delivery.bytes,
        }
    }

    /// Options of a data segment.
    pub(super) fn data_options(&self, now: Instant) -> TcpOptions {
        let mut options = TcpOptions {
            timestamps: self.timestamps.map(|timestamps| (timestamps.value(now), timestamps.echo())),
            ..TcpOptions::default()
        };
        if self.sack && (self.rcv.buffer.has_gap() || self.acks.duplicate.is_some()) {
            let max = if options.timestamps.is_some() { 3 } else { 4 };
            if let Some((left, right)) = self.acks.duplicate {
                options.sack.push(left, right);
            }
            let room = max - options.sack.as_slice().len();
            for &(left, right) in self.rcv.buffer.sack_blocks(room).as_slice() {
                options.sack.push(left, right);
            }
        }
        options.accecn = self.ecn_option(false, !options.sack.is_empty());
        options
    }
}
