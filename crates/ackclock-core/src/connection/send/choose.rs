//! Chooses the data that leaves next: lost data, a probe, new data. Both windows, the two silly-window rules,
//! Nagle's algorithm and the cork limit it.

use ackclock_control::tally::Tally;
use ackclock_wire::Flags;

use super::mtu_search::{self, MtuSearch};
use super::write::BETWEEN_MIN;
use super::{Lent, SendHalf};
use crate::connection::segment::Segment;
use crate::position::Position;
use crate::sending::{Chosen, Departure, Offer, whole_segments};
use crate::trace::{Extension, SendReason};

/// Limits of a segment besides those of the path and the peer.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct SegmentLimits {
    /// The largest packet that the device cuts, in bytes.
    pub gso_max: usize,
    /// A device must not cut it: its header would be wrong on the pieces.
    pub lone: bool,
    /// Bytes of its options, without a signature.
    pub options_len: u32,
}

impl SendHalf {
    /// Whether there is no new data, no FIN and no retransmission: choosing what to send would find nothing
    /// and change nothing. This holds for most receivers, and for senders of a short message.
    #[inline]
    pub(in crate::connection) fn is_idle(&self) -> bool {
        self.flight.is_idle() && self.unsent() == 0 && !self.closed
    }

    /// Whether a probe must leave.
    #[inline]
    pub(in crate::connection) fn owes_probe(&self) -> bool {
        self.probe_due
    }

    /// The next segment with data, a FIN or a probe, if one may leave now. It counts as sent.
    #[inline]
    pub(in crate::connection) fn next_segment(
        &mut self,
        lent: &mut Lent<'_>,
        limits: &SegmentLimits,
    ) -> Option<Segment> {
        if std::mem::take(&mut self.probe_due)
            && let Some(segment) = self.next_probe(lent, limits)
        {
            return Some(segment);
        }
        if self.is_idle() {
            return None;
        }
        self.next_data(lent, limits)
    }

    /// The next segment with data or a FIN, if one may leave now. It counts as sent.
    #[inline]
    pub(in crate::connection) fn next_data(
        &mut self,
        lent: &mut Lent<'_>,
        limits: &SegmentLimits,
    ) -> Option<Segment> {
        let chosen = self.choose_data(lent, limits)?;
        Some(self.leave(lent, limits, chosen))
    }

    /// The next new data of a connection that has room for it and nothing else to send: full segments if at
    /// least another follows, or the last written data if one segment holds it. `None` if it is not that
    /// simple; [`Self::next_segment`] then finds out.
    ///
    /// The common case of [`Self::next_data`], with the answers known beforehand, for the rows "data sent"
    /// and "acknowledgement sent" of the counted instructions.
    #[inline(never)]
    pub(in crate::connection) fn next_plain(
        &mut self,
        lent: &mut Lent<'_>,
        gso_max: usize,
    ) -> Option<Segment> {
        if self.probe_due || !self.flight.is_plain() {
            return None;
        }
        let (unsent, smss) = (self.unsent(), self.smss());
        self.flight.restart_after_idleness(&mut lent.call, unsent);
        let chosen = self.choose_plain(lent, unsent, self.burst_max(gso_max, false))?;
        let Chosen { start, end, reason } = self.flight.pace(lent.call.now, lent.call.tcp, chosen)?;
        let payload_len = end.index_from(start);
        self.persist.end_override();
        self.bytes_sent.grow(payload_len as u64);
        let drained = payload_len as u64 == unsent;
        self.flight.on_next_sent(lent.call.now, end, drained);
        let flags = if drained { Flags::ACK | Flags::PSH } else { Flags::ACK };
        if drained {
            self.forget_cork(lent);
        }
        // As `update_timer` would: something is outstanding, and the window is open.
        self.persist.stop();
        self.flight.run_timer(&mut lent.call, true);
        self.flight.arm_tail_probe(lent.call.now);
        Some(Segment { start, flags, payload_len, segment_max: smss, reason })
    }

    /// As many full segments as may leave at one time, if another follows; or the last one, whole.
    #[inline]
    fn choose_plain(&mut self, lent: &Lent<'_>, unsent: u64, burst_max: u64) -> Option<Chosen> {
        let (start, smss) = (self.flight.nxt(), u64::from(self.smss()));
        debug_assert_eq!(self.smss(), self.effective_mss(), "a change of the path changes both");
        if smss > BETWEEN_MIN as u64 || self.waits_for_more(unsent, burst_max) {
            return None;
        }
        let usable = self.right_edge().since(start).min(self.flight.room());
        let bytes = if unsent > smss {
            self.full_segments(unsent, usable, burst_max)?
        } else if unsent <= usable && (unsent == smss || self.may_send_tail(lent.call.tcp.nodelay, 0)) {
            unsent
        } else {
            return None;
        };
        Some(Chosen { start, end: start + bytes, reason: SendReason::NewData })
    }

    /// As many bytes of full segments as may leave at one time, if another follows.
    #[inline]
    fn full_segments(&mut self, unsent: u64, usable: u64, burst_max: u64) -> Option<u64> {
        let smss = u64::from(self.smss());
        let most = unsent.min(usable).min(self.gathered_max(self.flight.nxt(), unsent, burst_max));
        let full = if most < smss.saturating_mul(2) { most.min(smss) } else { whole_segments(most, smss) };
        // The rest leaves by itself, or it might have gone with these.
        let remains = unsent.saturating_sub(full);
        let follows = burst_max == smss || remains >= smss;
        (full >= smss && follows).then_some(full)
    }

    #[inline]
    fn choose_data(&mut self, lent: &mut Lent<'_>, limits: &SegmentLimits) -> Option<Chosen> {
        let burst_max = self.burst_max(limits.gso_max, limits.lone);
        if self.flight.may_resend() {
            let offer = Offer {
                burst_max: self.until_urgent(self.flight.una(), burst_max),
                right_edge: self.right_edge(),
                data_end: self.data_end(),
            };
            if let Some(chosen) = self.flight.next_resend(&mut lent.call, &offer) {
                return Some(chosen);
            }
        }
        let unsent = self.unsent();
        self.flight.restart_after_idleness(&mut lent.call, unsent);
        let burst_max = self.until_urgent(self.flight.nxt(), burst_max);
        let chosen = self.choose_new(lent, burst_max).or_else(|| self.choose_rescue());
        if chosen.is_none() {
            self.note_sent_enough(lent);
            self.flight.note_nothing_to_send();
        }
        chosen
    }

    /// Chooses data that RFC 6675 allows although none is known to be lost, if new data cannot leave.
    fn choose_rescue(&mut self) -> Option<Chosen> {
        let stuck = self.unsent() == 0 || self.right_edge() <= self.flight.nxt();
        if stuck { self.flight.next_rescue() } else { None }
    }

    /// New data, as far as both windows and the two silly-window rules allow.
    #[inline]
    fn choose_new(&mut self, lent: &Lent<'_>, burst_max: u64) -> Option<Chosen> {
        let start = self.flight.nxt();
        let unsent = self.unsent();
        if unsent == 0 {
            // A FIN takes one number beyond a closed window, as a probe does. Behind a probe it would take
            // the second.
            let fin_due = self.closed && !self.fin_sent() && start <= self.right_edge();
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
        let end = if tail && self.may_send_tail(lent.call.tcp.nodelay, full) {
            start + unsent
        } else if full > 0 {
            start + full
        } else {
            start + self.override_silly_window(unsent.min(window))?
        };
        // RFC 9293 SHLD-27, RFC 9293 SHLD-28: as large as possible, whatever the sizes of the writes.
        let fin = self.closed && end == self.data_end();
        let chosen = Chosen { start, end: end + u64::from(fin), reason: SendReason::NewData };
        let chosen = self.flight.pace(lent.call.now, lent.call.tcp, chosen)?;
        Some(self.flight.shorten_for_proof(lent.call.now, chosen, unsent))
    }

    /// As many of `burst_max` bytes as lie together in the buffer; at least a segment.
    #[inline]
    fn gathered_max(&mut self, start: Position, unsent: u64, burst_max: u64) -> u64 {
        let smss = u64::from(self.smss());
        if burst_max > smss { self.gather(start, burst_max.min(unsent), smss).max(smss) } else { smss }
    }

    /// How many of `len` bytes from `start` on can be one segment, or several cut from one packet: all of
    /// them, or as many full ones as two slices hold.
    #[inline]
    fn gather(&mut self, start: Position, len: u64, smss: u64) -> u64 {
        let offset = start.index_from(self.base);
        if self.buffer.seek(offset, len) { len } else { self.gather_across(offset, len, smss) }
    }

    #[inline(never)]
    fn gather_across(&self, offset: usize, len: u64, smss: u64) -> u64 {
        let reach = self.buffer.reach(offset) as u64;
        if len <= reach || reach < smss { len.min(reach) } else { whole_segments(reach, smss) }
    }

    /// Whether a partial packet that the device cuts should wait for the rest of it. A short packet costs the
    /// device almost as much as a full one.
    #[inline]
    fn waits_for_more(&self, unsent: u64, burst_max: u64) -> bool {
        self.more_follows && self.is_part_of_more(unsent, burst_max)
    }

    #[inline(never)]
    fn is_part_of_more(&self, unsent: u64, burst_max: u64) -> bool {
        let smss = u64::from(self.smss());
        let whole = whole_segments(burst_max, smss);
        whole > smss
            && unsent < whole
            && self.flight.flight_size() >= whole
            && !self.closed
            && self.up.is_none()
    }

    /// Nagle's algorithm (RFC 9293 SHLD-7, §3.7.4) and the cork: whether less than a segment may follow
    /// `full` bytes.
    #[inline]
    pub(super) fn may_send_tail(&self, nodelay: bool, full: u64) -> bool {
        // RFC 9293 MAY-16: small writes are put together.
        if self.cork.holds() {
            return self.closed;
        }
        nodelay
            || self.closed
            || self.cork.has_expired()
            // An outstanding SYN,ACK does not hold data back.
            || !self.flight.has_data() && full == 0
    }

    /// RFC 9293 MUST-38 (§3.8.6.2.1): less than a segment goes into a small window only if it is half of the
    /// largest window that the peer ever offered, or after the override timeout.
    fn override_silly_window(&self, usable: u64) -> Option<u64> {
        let limited_by_window = usable < self.unsent();
        let half = u64::from(self.max_wnd / 2).max(1);
        if usable == 0 || !limited_by_window {
            return None;
        }
        (self.persist.allows_override() || usable >= half).then_some(usable.min(u64::from(self.smss())))
    }

    /// The most payload of one call: one segment, or as many as the device cuts.
    #[inline]
    fn burst_max(&self, gso_max: usize, lone: bool) -> u64 {
        let smss = u64::from(self.smss());
        if gso_max <= self.pmtu as usize || lone || self.signature > 0 {
            return smss;
        }
        // The largest header: 40 bytes of options.
        let header = u64::from(self.headers).saturating_add(40);
        let payload = (gso_max.min(65_535) as u64).saturating_sub(header);
        whole_segments(payload, smss).max(smss)
    }

    /// The most payload of one call that begins at `start` or later: one segment if urgent data follows,
    /// because a device that cuts would repeat the urgent pointer on each piece. There it would name another
    /// octet (RFC 9293 MUST-62).
    #[inline]
    fn until_urgent(&self, start: Position, burst_max: u64) -> u64 {
        if self.up.is_some_and(|up| up > start) { u64::from(self.smss()) } else { burst_max }
    }

    /// Sends the chosen data, and returns its segment.
    #[inline]
    fn leave(&mut self, lent: &mut Lent<'_>, limits: &SegmentLimits, chosen: Chosen) -> Segment {
        let Chosen { start, end, reason } = chosen;
        let segment_max = self.payload_max(limits.options_len);
        let data_end = self.data_end();
        let text = self.gather(start, end.min(data_end).since(start), u64::from(self.smss()));
        let segments = text.div_ceil(u64::from(self.smss()));
        let text_end = start + text.min(segments.saturating_mul(segment_max.into()));
        let fin = end > data_end && text_end >= data_end;
        self.note_sent(lent, Chosen { start, end: text_end + u64::from(fin), reason }, segment_max);
        let payload_len = text_end.index_from(start);
        let mut flags = Flags::ACK;
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
    fn note_sent(&mut self, lent: &mut Lent<'_>, chosen: Chosen, segment: u32) {
        let Chosen { start, end, reason } = chosen;
        let data_end = self.data_end();
        // A FIN takes a number, but is not payload.
        let payload = end.min(data_end).since(start);
        if start < self.flight.nxt() {
            let segments = payload.div_ceil(u64::from(segment.max(1))).max(1);
            let rare = self.rare();
            rare.bytes_retransmitted.grow(payload);
            rare.retransmits.grow(segments);
        } else {
            self.persist.end_override();
        }
        self.bytes_sent.grow(payload);
        let drained = end.max(self.flight.nxt()) >= data_end;
        self.flight.on_sent(&mut lent.call, &Departure { start, end, reason, segment, drained });
        if drained {
            self.forget_cork(lent);
        }
        if self.flight.in_recovery() {
            // No acknowledgement frees room behind a hole.
            self.note_write_room(lent);
        }
        self.update_timer(lent);
        self.flight.arm_tail_probe(lent.call.now);
    }

    /// Text that was written in an earlier life; its first `sent` bytes left then. Returns whether there is
    /// room for it.
    pub(in crate::connection) fn resume_text(&mut self, lent: &mut Lent<'_>, text: &[u8], sent: u32) -> bool {
        if self.append(text, text.len()) < text.len() {
            return false;
        }
        let (start, end) = (self.flight.nxt(), self.flight.nxt() + u64::from(sent));
        if start < end {
            let segment = self.smss();
            self.note_sent(lent, Chosen { start, end, reason: SendReason::NewData }, segment);
            self.flight.probe_tail();
        }
        true
    }

    /// Everything written has left.
    #[inline]
    fn forget_cork(&mut self, lent: &mut Lent<'_>) {
        self.cork.release();
        self.note_sent_enough(lent);
    }

    /// `len` bytes of a SYN's data leave with it.
    pub(in crate::connection) fn on_text_of_syn_sent(&mut self, len: usize) {
        self.bytes_sent.grow(len as u64);
    }

    /// A probe of the peer's window, or of the path.
    #[inline(never)]
    fn next_probe(&mut self, lent: &mut Lent<'_>, limits: &SegmentLimits) -> Option<Segment> {
        if self.wants_mtu_probe() {
            let probe = self.next_mtu_probe(lent, limits);
            // One that cannot leave waits for the next acknowledgement.
            self.probe_due = probe.is_none() && self.flight.is_outstanding();
            return probe;
        }
        let chosen = self.choose_window_probe()?;
        Some(self.leave(lent, limits, chosen))
    }

    /// One byte into the closed window (RFC 9293 §3.8.6.1): the first unacknowledged, or the next.
    fn choose_window_probe(&self) -> Option<Chosen> {
        let start = self.flight.una();
        let last = self.data_end() + u64::from(self.closed);
        (start < last).then(|| Chosen { start, end: start + 1, reason: SendReason::WindowProbe })
    }

    /// The probe of the path, if one is due and can leave.
    fn next_mtu_probe(&mut self, lent: &mut Lent<'_>, limits: &SegmentLimits) -> Option<Segment> {
        let mut search = self.search().copied().filter(MtuSearch::is_due)?;
        let options_len = limits.options_len.saturating_add(self.signature.into());
        let payload = search.size().checked_sub(self.headers.into())?.checked_sub(options_len)?;
        let smss = u64::from(self.smss());
        let start = self.flight.nxt();
        let end = start + u64::from(payload);
        // RFC 4821 §7.4: enough must follow to reveal the loss.
        let follow = mtu_search::FOLLOWERS.saturating_mul(smss);
        let needed = u64::from(payload).saturating_add(follow);
        let calm = self.flight.may_probe_mtu(u64::from(payload));
        // Acknowledgements of the data in flight open the peer's window for the segments that follow.
        let right_edge = self.right_edge();
        let window = right_edge.since(end).saturating_add(self.flight.flight_size());
        let gathered = self.gather(start, u64::from(payload), smss) == u64::from(payload);
        if !gathered || !calm || self.unsent() < needed || right_edge < end || window < follow {
            return None;
        }
        search.on_sent();
        let wait = self.flight.rtt().rto().max(mtu_search::PAUSE);
        self.begin_search(search, lent, wait);
        self.bytes_sent.grow(u64::from(payload));
        self.flight.send_mtu_probe(&mut lent.call, start, end);
        self.update_timer(lent);
        self.flight.arm_tail_probe(lent.call.now);
        lent.call.trace.extension(lent.call.now, Extension::MtuProbed, u64::from(search.size()));
        Some(Segment {
            start,
            flags: Flags::ACK,
            payload_len: payload as usize,
            segment_max: payload,
            reason: SendReason::MtuProbe,
        })
    }
}
