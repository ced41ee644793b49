//! What to send next, and why: a reply, a SYN, lost data, a probe, new data, an acknowledgement, in this
//! order.

use ackclock_control::tally::Tally;
use ackclock_wire::Flags;
use ackclock_wire::template::HEADER_MAX;

use super::header::{Outgoing, Segment};
use super::{Connection, Reply, State, lend};
use crate::position::Position;
use crate::sending::{Chosen, Departure, Offer, whole_segments};
use crate::trace::SendReason;
use crate::{Instant, Limits};

impl Connection {
    /// The payload of a segment that `poll_transmit` made.
    #[inline]
    pub(crate) fn payload(&self, outgoing: &Outgoing) -> [&[u8]; 2] {
        self.snd.slices(outgoing.start, outgoing.payload_len)
    }

    /// The next segment to send, with its header written to `header`. It counts as sent. `short`: it may take
    /// the fast path, which makes no other difference.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        limits: Limits,
        short: bool,
        header: &mut [u8; HEADER_MAX],
    ) -> Option<Outgoing> {
        let (segment, plain) = if short
            && self.unsent() > 0
            && let Some(fresh) = self.next_fresh(now, limits)
        {
            (fresh, true)
        } else if let Some(segment) = self.next_segment(now, limits) {
            let plain = self.is_plain(&segment);
            (segment, plain)
        } else {
            self.trace_limit(now);
            return None;
        };
        let outgoing = self.write_segment(now, limits, header, &segment, plain);
        self.trace_freed(now);
        self.check_invariants();
        Some(outgoing)
    }

    #[inline]
    pub(super) fn next_segment(&mut self, now: Instant, limits: Limits) -> Option<Segment> {
        if let Some(reply) = self.reply.take() {
            return Some(self.reply_segment(now, reply));
        }
        if self.pending.reset {
            self.pending.reset = false;
            return Some(Segment::bare(self.bare_start(), Flags::RST | Flags::ACK, SendReason::Reset));
        }
        match self.state {
            State::Closed | State::Listen => return None,
            State::SynSent | State::SynReceived => {
                return self
                    .handshake_segment(now)
                    .or_else(|| self.segment_before_handshake_ends(now, limits));
            }
            _ if self.owes_handshake_ack() || self.rcv.owes_pure_ack() => {
                return Some(Segment::bare(self.bare_start(), Self::ACK, SendReason::Ack));
            }
            _ => {}
        }
        if self.state.may_send_data() {
            if std::mem::take(&mut self.pending.probe)
                && let Some(segment) = self.probe_segment(now)
            {
                return Some(segment);
            }
            let is_idle = self.is_sender_idle();
            debug_assert!(
                !is_idle || self.choose_data(now, limits).is_none(),
                "an idle sender has nothing to send"
            );
            if !is_idle && let Some(chosen) = self.choose_data(now, limits) {
                return Some(self.data_segment(now, chosen));
            }
        }
        if std::mem::take(&mut self.pending.keepalive) {
            // RFC 9293 §3.8.4: SEG.SEQ = SND.NXT-1 elicits an acknowledgement. RFC 9293 SHLD-12: no data with
            // it.
            return Some(Segment::bare(self.bare_start().back(1), Self::ACK, SendReason::Keepalive));
        }
        self.rcv.owes_ack_now().then(|| Segment::bare(self.bare_start(), Self::ACK, SendReason::Ack))
    }

    #[inline(never)]
    fn reply_segment(&mut self, now: Instant, reply: Reply) -> Segment {
        match reply {
            Reply::Reset(seq) => Segment::bare(Position::initial(seq), Flags::RST, SendReason::Reset),
            // In SYN-RECEIVED the answer is the SYN,ACK, or crossing opens would never end (RFC 9293 §3.5).
            Reply::Ack if self.state == State::SynReceived => {
                self.flight.on_syn_sent(lend!(self, now), self.snd.iss);
                self.syn_segment()
            }
            Reply::UserTimeout => Segment::bare(self.bare_start(), Flags::ACK | Flags::RARE, SendReason::Ack),
            Reply::Ack => Segment::bare(self.bare_start(), Self::ACK, SendReason::Challenge),
        }
    }

    #[inline(never)]
    fn handshake_segment(&mut self, now: Instant) -> Option<Segment> {
        if !std::mem::take(&mut self.pending.syn) {
            return None;
        }
        self.flight.on_syn_sent(lend!(self, now), self.snd.iss);
        let mut segment = self.syn_segment();
        segment.payload_len = self.data_of_syn(now);
        Some(segment)
    }

    fn syn_segment(&self) -> Segment {
        let flags = if self.state == State::SynReceived { Flags::SYN | Flags::ACK } else { Flags::SYN };
        Segment::bare(self.snd.iss, flags | self.ecn_of_syn(), SendReason::Handshake)
    }

    #[inline]
    pub(super) fn choose_data(&mut self, now: Instant, limits: Limits) -> Option<Chosen> {
        let burst_max = self.burst_max(limits);
        if self.flight.may_resend() {
            let offer = self.offer(self.until_urgent(self.flight.una(), burst_max));
            if let Some(chosen) = self.flight.next_resend(lend!(self, now), &offer) {
                return Some(chosen);
            }
        }
        let unsent = self.unsent();
        self.flight.restart_after_idleness(lend!(self, now), unsent);
        let burst_max = self.until_urgent(self.flight.nxt(), burst_max);
        let chosen = self.choose_new(now, burst_max).or_else(|| self.choose_rescue());
        if chosen.is_none() {
            self.note_sent_enough();
            self.flight.note_nothing_to_send();
        }
        chosen
    }

    /// A probe of the peer's window, or of the path.
    #[inline(never)]
    fn probe_segment(&mut self, now: Instant) -> Option<Segment> {
        if self.wants_mtu_probe() {
            return self.mtu_probe(now);
        }
        let chosen = self.choose_probe()?;
        Some(self.data_segment(now, chosen))
    }

    /// The most that may be retransmitted.
    fn offer(&self, burst_max: u64) -> Offer {
        Offer { burst_max, right_edge: self.right_edge(), data_end: self.snd.data_end() }
    }

    /// What RFC 6675 allows when nothing is known to be lost and new data cannot leave.
    fn choose_rescue(&mut self) -> Option<Chosen> {
        let stuck = self.unsent() == 0 || self.right_edge() <= self.flight.nxt();
        if stuck { self.flight.next_rescue() } else { None }
    }

    /// One byte into the closed window (RFC 9293 §3.8.6.1): the first unacknowledged, or the next.
    fn choose_probe(&mut self) -> Option<Chosen> {
        let start = self.flight.una();
        let last = self.snd.data_end() + u64::from(self.snd.closed);
        (start < last).then(|| Chosen { start, end: start + 1, reason: SendReason::WindowProbe })
    }

    /// New data, as far as both windows and the two silly-window rules allow.
    #[inline]
    fn choose_new(&mut self, now: Instant, burst_max: u64) -> Option<Chosen> {
        let start = self.flight.nxt();
        let unsent = self.unsent();
        if unsent == 0 {
            // A FIN takes one number beyond a closed window, as a probe does. Behind a probe it would take
            // the second.
            let fin_due = self.snd.closed && !self.fin_sent() && start <= self.right_edge();
            return fin_due.then(|| Chosen { start, end: start + 1, reason: SendReason::NewData });
        }
        let smss = u64::from(self.smss());
        let waits_for_more = self.waits_for_more(unsent, burst_max);
        let burst_max = self.gathered_max(start, unsent, burst_max);
        // RFC 9293 SHLD-15: a peer that shrank its window gets nothing new; RFC 9293 MUST-34: the usable
        // window may be negative.
        let window = self.right_edge().since(start);
        let room = self.flight.room();
        let full = whole_segments(unsent.min(window).min(room).min(burst_max), smss);
        if room < unsent.min(smss) {
            self.flight.note_cwnd_limited();
            return None;
        }
        if waits_for_more {
            return None;
        }
        let rest = unsent.saturating_sub(full);
        let tail = rest < smss && unsent <= window.min(room) && unsent <= burst_max.max(smss);
        let end = if tail && self.may_send_tail(full) {
            start + unsent
        } else if full > 0 {
            start + full
        } else {
            start + self.override_silly_window(unsent.min(window))?
        };
        // RFC 9293 SHLD-27, RFC 9293 SHLD-28: as large as possible, whatever the sizes of the writes.
        let fin = self.snd.closed && end == self.snd.data_end();
        let chosen = Chosen { start, end: end + u64::from(fin), reason: SendReason::NewData };
        let chosen = self.flight.pace(now, &self.tcp, chosen)?;
        Some(self.flight.shorten_for_proof(now, chosen, unsent))
    }

    /// As many of `burst_max` bytes as lie together in the buffer; at least a segment.
    #[inline]
    pub(super) fn gathered_max(&mut self, start: Position, unsent: u64, burst_max: u64) -> u64 {
        let smss = u64::from(self.smss());
        if burst_max > smss { self.snd.gather(start, burst_max.min(unsent), smss).max(smss) } else { smss }
    }

    /// Whether a partial packet that the device cuts should wait for the rest of it. A short packet costs the
    /// device almost as much as a full one.
    #[inline]
    pub(super) fn waits_for_more(&self, unsent: u64, burst_max: u64) -> bool {
        self.pending.more_follows && self.is_part_of_more(unsent, burst_max)
    }

    #[inline(never)]
    fn is_part_of_more(&self, unsent: u64, burst_max: u64) -> bool {
        let smss = u64::from(self.smss());
        let whole = whole_segments(burst_max, smss);
        whole > smss
            && unsent < whole
            && self.flight.flight_size() >= whole
            && !self.snd.closed
            && self.snd.up.is_none()
    }

    /// Nagle's algorithm (RFC 9293 SHLD-7, §3.7.4) and the cork: whether less than a segment may follow
    /// `full` bytes.
    #[inline]
    pub(super) fn may_send_tail(&self, full: u64) -> bool {
        // RFC 9293 MAY-16: small writes are put together.
        if self.cork.holds() {
            return self.snd.closed;
        }
        self.tcp.nodelay
            || self.snd.closed
            || self.cork.has_expired()
            // An outstanding SYN,ACK does not hold data back.
            || !self.flight.has_data() && full == 0
    }

    /// Everything written has left.
    #[inline]
    pub(super) fn forget_cork(&mut self) {
        self.cork.release();
        self.note_sent_enough();
    }

    /// RFC 9293 MUST-38 (§3.8.6.2.1): less than a segment goes into a small window only if it is half of the
    /// largest window that the peer ever offered, or after the override timeout.
    fn override_silly_window(&self, usable: u64) -> Option<u64> {
        let limited_by_window = usable < self.unsent();
        let half = u64::from(self.snd.max_wnd / 2).max(1);
        if usable == 0 || !limited_by_window {
            return None;
        }
        (self.persist.allows_override() || usable >= half).then_some(usable.min(u64::from(self.smss())))
    }

    /// The most payload of one call: one segment, or as many as the device cuts.
    #[inline]
    pub(super) fn burst_max(&self, limits: Limits) -> u64 {
        let smss = u64::from(self.smss());
        let gso_max = if self.tuple.remote_addr.is_ipv4() { limits.gso_max_v4 } else { limits.gso_max_v6 };
        if gso_max <= self.snd.pmtu as usize || self.sends_lone_segment() || self.option_reserve() > 0 {
            return smss;
        }
        let header = u64::from(self.template.transport_offset()) + 60;
        let payload = (gso_max.min(65_535) as u64).saturating_sub(header);
        whole_segments(payload, smss).max(smss)
    }

    /// The same for what begins at `start` or later: a device that cuts would repeat the urgent pointer on
    /// each piece, where it names another octet (RFC 9293 MUST-62).
    #[inline]
    fn until_urgent(&self, start: Position, burst_max: u64) -> u64 {
        if self.snd.up.is_some_and(|up| up > start) { u64::from(self.smss()) } else { burst_max }
    }

    #[inline]
    pub(super) fn data_segment(&mut self, now: Instant, chosen: Chosen) -> Segment {
        let Chosen { start, end, reason } = chosen;
        let segment_max = self.payload_max(self.data_options_len(now));
        let data_end = self.snd.data_end();
        let text = self.snd.gather(start, end.min(data_end).since(start), u64::from(self.smss()));
        let segments = text.div_ceil(u64::from(self.smss()));
        let text_end = start + text.min(segments.saturating_mul(segment_max.into()));
        let fin = end > data_end && text_end >= data_end;
        self.note_sent(now, Chosen { start, end: text_end + u64::from(fin), reason }, segment_max);
        let payload_len = text_end.index_from(start);
        let mut flags = Self::ACK;
        if fin {
            flags = flags | Flags::FIN;
        }
        if payload_len > 0 && text_end == data_end {
            // RFC 9293 MUST-61: the last of the buffered data is pushed.
            flags = flags | Flags::PSH;
        }
        Segment { start, flags, payload_len, segment_max, reason }
    }

    /// `chosen` left in segments of `segment` bytes.
    fn note_sent(&mut self, now: Instant, chosen: Chosen, segment: u32) {
        let Chosen { start, end, reason } = chosen;
        let data_end = self.snd.data_end();
        // A FIN takes a number, but is not payload.
        let payload = end.min(data_end).since(start);
        if start < self.flight.nxt() {
            let segments = payload.div_ceil(u64::from(segment.max(1))).max(1);
            self.cold.count_retransmission(payload, segments);
        } else {
            self.persist.end_override();
        }
        self.counts.bytes_sent.grow(payload);
        let drained = end.max(self.flight.nxt()) >= data_end;
        self.flight.on_sent(lend!(self, now), &Departure { start, end, reason, segment, drained });
        if drained {
            self.forget_cork();
        }
        if self.flight.in_recovery() {
            // No acknowledgement frees room behind a hole.
            self.note_write_room();
        }
        self.update_send_timer(now);
        self.flight.arm_tail_probe(now);
    }
}
