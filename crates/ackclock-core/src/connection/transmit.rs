//! Chooses what to send next, in this order: a reply, a SYN, a probe, lost data, new data, an
//! acknowledgement. Also builds the header of each.
//!
//! Most headers are plain: nothing differs from the last one but five fields. This is the counterpart of the
//! predicted segment in [`arrives`](super::arrives), and V. Jacobson's idea again ("4BSD TCP Header
//! Prediction", Computer Communication Review 20(2), 1990; not read, cited by its title).

use std::num::NonZeroU16;

use ackclock_control::tally::Tally;
use ackclock_wire::options::OPTIONS_MAX;
use ackclock_wire::packet::{ChecksumAt, ChecksumState};
use ackclock_wire::template::{Fields, HEADER_MAX, Plain, TxChecksum};
use ackclock_wire::{Flags, SeqNum, TcpOptions, options_len};

use super::ecn::negotiation::syn_flags;
use super::pending::Reply;
use super::segment::Segment;
use super::send::SegmentLimits;
use super::{Connection, State, lend};
use crate::position::Position;
use crate::trace::{Entry, SendReason, low, saturated};
use crate::{Instant, Limits};

/// A segment that leaves. Its header is in the caller's buffer, its payload in the send buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub header_len: usize,
    pub transport_offset: u16,
    pub start: Position,
    pub payload_len: usize,
    pub segment_size: Option<NonZeroU16>,
    pub checksum: ChecksumState,
}

impl Connection {
    /// The payload of a segment that `poll_transmit` made.
    #[inline]
    pub(crate) fn payload(&self, outgoing: &Outgoing) -> [&[u8]; 2] {
        self.snd.slices(outgoing.start, outgoing.payload_len)
    }

    /// The next segment to send, with its header written to `header`. It counts as sent. `short`: it may take
    /// the shortcuts for plain segments, which make no other difference.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        limits: Limits,
        short: bool,
        header: &mut [u8; HEADER_MAX],
    ) -> Option<Outgoing> {
        let plain = short && self.is_plain();
        let (segment, plain) = if plain && let Some(segment) = self.next_plain(now, limits) {
            (segment, true)
        } else if let Some(segment) = self.next_segment(now, limits) {
            let flags = segment.flags;
            (segment, plain && flags.contains(Flags::ACK) && !flags.intersects(UNUSUAL))
        } else {
            self.trace_limit(now);
            return None;
        };
        let outgoing = self.write_segment(now, limits, header, &segment, plain);
        self.trace_freed(now);
        self.check_invariants();
        Some(outgoing)
    }

    /// Records why nothing more leaves now.
    #[inline]
    fn trace_limit(&mut self, now: Instant) {
        if self.trace.is_on() {
            self.trace.host_ran(now);
            let (in_flight, unsent) = self.snd.waiting();
            self.trace.limited(now, self.limited_by(), in_flight, unsent);
            self.trace.timers(now, self.deadlines());
        }
    }

    /// Whether segments only have their sequence numbers, window and timestamps to say, and are not traced.
    #[inline]
    fn is_plain(&self) -> bool {
        !self.snd.is_urgent() && self.ecn.is_off() && self.rcv.is_in_order() && !self.trace.is_on()
    }

    /// New data of a connection with nothing else to send. [`Self::next_segment`] would find the same.
    ///
    /// The branch pays in the row "data segment sent" of `scripts/instructions.py`: 1,482 instructions
    /// without it (e291aae4), 1,391 with it (9cb3c381).
    #[inline]
    fn next_plain(&mut self, now: Instant, limits: Limits) -> Option<Segment> {
        let only_data =
            self.life.state() == State::Established && self.snd.unsent() > 0 && self.pending.is_empty();
        if !only_data {
            return None;
        }
        let gso_max = self.gso_max(limits);
        self.snd.next_plain(&mut lend!(self, now), gso_max)
    }

    #[inline]
    fn next_segment(&mut self, now: Instant, limits: Limits) -> Option<Segment> {
        if let Some(reply) = self.pending.take_reply() {
            return Some(self.reply_segment(now, reply));
        }
        if self.pending.take_reset() {
            let flags = Flags::RST | Flags::ACK;
            return Some(Segment::bare(self.snd.bare_start(), flags, SendReason::Reset));
        }
        let state = self.life.state();
        match state {
            State::Closed | State::Listen => return None,
            State::SynSent | State::SynReceived => return self.next_of_handshake(now, limits),
            _ if self.rcv.owes_pure_ack() || self.rcv.owes_ack_now() && self.ecn.owes_handshake_ack() => {
                return Some(self.ack_segment());
            }
            _ => {}
        }
        if state.may_send_data() && (self.snd.owes_probe() || !self.snd.is_idle()) {
            let limits = self.segment_limits(now, limits);
            if let Some(segment) = self.snd.next_segment(&mut lend!(self, now), &limits) {
                return Some(segment);
            }
        }
        if self.pending.take_keepalive() {
            // RFC 9293 §3.8.4: SEG.SEQ = SND.NXT-1 elicits an acknowledgement. RFC 9293 SHLD-12: no data with
            // it.
            return Some(Segment::bare(self.snd.bare_start().back(1), Flags::ACK, SendReason::Keepalive));
        }
        self.rcv.owes_ack_now().then(|| self.ack_segment())
    }

    fn ack_segment(&self) -> Segment {
        Segment::bare(self.snd.bare_start(), Flags::ACK, SendReason::Ack)
    }

    #[inline(never)]
    fn reply_segment(&mut self, now: Instant, reply: Reply) -> Segment {
        match reply {
            Reply::Reset(seq) => Segment::bare(Position::initial(seq), Flags::RST, SendReason::Reset),
            // In SYN-RECEIVED the answer is the SYN,ACK, or crossing opens would never end (RFC 9293 §3.5).
            Reply::Ack if self.life.state() == State::SynReceived => self.syn_segment(now),
            Reply::UserTimeout => {
                Segment::bare(self.snd.bare_start(), Flags::ACK | Flags::RARE, SendReason::Ack)
            }
            Reply::Ack | Reply::BareAck => {
                Segment::bare(self.snd.bare_start(), Flags::ACK, SendReason::Challenge)
            }
        }
    }

    /// The SYN or SYN,ACK, and the data that a server sends behind it if it took data from the SYN.
    #[inline(never)]
    fn next_of_handshake(&mut self, now: Instant, limits: Limits) -> Option<Segment> {
        if self.pending.take_syn() {
            let mut segment = self.syn_segment(now);
            segment.payload_len = self.data_of_syn(now);
            return Some(segment);
        }
        if !self.cold.serves_fast_open() {
            return None;
        }
        let limits = self.segment_limits(now, limits);
        self.snd.next_data(&mut lend!(self, now), &limits)
    }

    fn syn_segment(&mut self, now: Instant) -> Segment {
        self.snd.on_syn_sent(&mut lend!(self, now));
        let answers = self.life.state() == State::SynReceived;
        let flags = if answers { Flags::SYN | Flags::ACK } else { Flags::SYN };
        Segment::bare(self.snd.iss(), flags | self.ecn_of_syn(), SendReason::Handshake)
    }

    /// The ECN flags of our SYN, or of our SYN,ACK; that of a crossing open has none.
    fn ecn_of_syn(&self) -> Flags {
        let retries = self.snd.timeouts_in_a_row();
        match self.cold.served() {
            _ if self.life.state() == State::SynSent => syn_flags(self.tcp.choices.ecn, retries),
            Some(offer) => offer.answer(u8::try_from(retries).unwrap_or(u8::MAX)),
            None => Flags::NONE,
        }
    }

    #[inline]
    fn gso_max(&self, limits: Limits) -> usize {
        if self.template.is_ipv4() { limits.gso_max_v4 } else { limits.gso_max_v6 }
    }

    fn segment_limits(&self, now: Instant, limits: Limits) -> SegmentLimits {
        let (lone, options_len) = (self.ecn.needs_lone_segment(), self.data_options_len(now));
        SegmentLimits { gso_max: self.gso_max(limits), lone, options_len }
    }
}

// The header.
impl Connection {
    /// Writes the header of a segment, which leaves. `plain`: it is a plain one.
    #[inline]
    fn write_segment(
        &mut self,
        now: Instant,
        limits: Limits,
        header: &mut [u8; HEADER_MAX],
        segment: &Segment,
        plain: bool,
    ) -> Outgoing {
        let segment_size = u16::try_from(segment.segment_max)
            .ok()
            .and_then(NonZeroU16::new)
            .filter(|size| segment.payload_len > usize::from(size.get()));
        // RFC 9293 MUST-2: always a checksum; a device that finishes it gets the pseudo-header's.
        let (checksum, state) = if limits.tx_checksum || segment_size.is_some() {
            (TxChecksum::Partial, ChecksumState::Partial(ChecksumAt::tcp(self.template.transport_offset())))
        } else {
            (TxChecksum::Full, ChecksumState::Complete)
        };
        let header_len = if plain {
            self.write_plain(now, header, segment, checksum)
        } else {
            self.write_any(now, header, segment, checksum)
        };
        let segments = match segment_size {
            Some(size) => segment.payload_len.div_ceil(usize::from(size.get())) as u64,
            None => 1,
        };
        self.segments_sent.grow(segments);
        Outgoing {
            header_len,
            transport_offset: self.template.transport_offset(),
            // No SYN is plain.
            start: if plain { segment.start } else { segment.text_start() },
            payload_len: segment.payload_len,
            segment_size,
            checksum: state,
        }
    }

    /// Writes a plain header, from the template. Returns its length. [`Self::fields`] would give these
    /// answers:
    ///
    /// | field | the answer here |
    /// |---|---|
    /// | flags | ACK, and PSH behind the last of what is buffered |
    /// | acknowledgement number | RCV.NXT; no report waits |
    /// | urgent pointer, ECN | none |
    /// | options | the timestamps; no gap, no report, and the others are given by the flags |
    ///
    /// For the rows "data segment sent" and "acknowledgement sent" of `scripts/instructions.py`: 1,661 and
    /// 1,028 without it, 1,372 and 796 with it (ffb68938).
    #[inline]
    fn write_plain(
        &mut self,
        now: Instant,
        header: &mut [u8; HEADER_MAX],
        segment: &Segment,
        checksum: TxChecksum,
    ) -> usize {
        let ack = self.rcv.nxt();
        let plain = Plain {
            seq: segment.start.seq(),
            ack: ack.seq(),
            push: segment.flags.contains(Flags::PSH),
            window: self.rcv.offer(ack),
            timestamps: self.timestamps.as_ref().map(|timestamps| (timestamps.value(now), timestamps.echo())),
        };
        let (start, len) = (segment.start, segment.payload_len);
        let payload = || self.snd.slices(start, len);
        let header_len = self.template.write_plain(header, &plain, len, payload, checksum);
        // No report waits that it could carry.
        self.ack_was_sent(ack, false);
        header_len
    }

    /// Writes the header of any segment. Returns its length.
    #[inline(never)]
    fn write_any(
        &mut self,
        now: Instant,
        header: &mut [u8; HEADER_MAX],
        segment: &Segment,
        checksum: TxChecksum,
    ) -> usize {
        let is_pure_ack =
            segment.payload_len == 0 && !segment.flags.intersects(Flags::SYN | Flags::RST | Flags::RARE);
        let ack = self.rcv.ack_position(is_pure_ack);
        let fields = self.fields(now, segment, ack);
        let payload = self.snd.slices(segment.text_start(), segment.payload_len);
        let header_len = self.template.write(header, &fields, payload, checksum);
        self.trace_sent(now, segment, &fields);
        if fields.flags.contains(Flags::ACK) {
            self.ack_was_sent(ack, is_pure_ack);
            self.ecn.on_ack_sent(fields.options.accecn.is_some());
        }
        header_len
    }

    /// A segment that acknowledged all before `ack` has left. `pure_ack`: it has the options of one.
    #[inline]
    fn ack_was_sent(&mut self, ack: Position, pure_ack: bool) {
        self.rcv.on_ack_sent(ack, pure_ack);
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.on_ack_sent(ack);
        }
    }

    #[inline]
    fn trace_sent(&mut self, now: Instant, segment: &Segment, fields: &Fields) {
        if self.trace.is_on() {
            self.write_sent(now, segment, fields);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_sent(&mut self, now: Instant, segment: &Segment, fields: &Fields) {
        if fields.flags.contains(Flags::ACK) {
            self.trace.told(now, self.rcv.nxt().since(self.rcv.irs()), self.rcv.wnd());
        }
        if segment.payload_len > 0 {
            self.trace.host_ran(now);
        }
        let seq = low(segment.start.since(self.snd.iss()));
        let ([_, flags], len) = (fields.flags.bits().to_be_bytes(), saturated(segment.payload_len as u64));
        self.trace.note(now, Entry::Sent { reason: segment.reason, flags, seq, len });
    }

    /// The fields of a segment. With the ACK flag, it acknowledges all before `ack`.
    fn fields(&mut self, now: Instant, segment: &Segment, ack: Position) -> Fields {
        let mut flags = segment.flags;
        let syn = flags.contains(Flags::SYN);
        let acknowledges = flags.contains(Flags::ACK);
        let options = if syn {
            self.syn_options(now)
        } else if segment.payload_len > 0 {
            self.options(now, false)
        } else if flags.intersects(Flags::RST | Flags::RARE) {
            self.rare_options(now, flags)
        } else {
            self.options(now, true)
        };
        let window = if syn { self.rcv.offer_unscaled() } else { self.rcv.offer(ack) };
        let mut urgent = 0;
        // RFC 9293 MUST-62: the pointer names the octet after the urgent data.
        if let Some(up) = self.snd.urgent_beyond(segment.start)
            && !syn
            && !flags.contains(Flags::RST)
        {
            flags = flags | Flags::URG;
            urgent = u16::try_from(up.since(segment.start)).unwrap_or(u16::MAX);
        }
        let (flags, ecn) = self.ecn.stamp(segment, flags, || self.snd.controller().ect());
        Fields {
            seq: segment.start.seq(),
            ack: if acknowledges { ack.seq() } else { SeqNum::new(0) },
            flags,
            window,
            urgent,
            ecn,
            options,
        }
    }

    /// Options of a segment without text other than a plain acknowledgement.
    // RFC 7323 §3.2: once timestamps are agreed on, they SHOULD be on a reset as well. A reset without ACK
    // does not belong to an agreement.
    #[cold]
    fn rare_options(&self, now: Instant, flags: Flags) -> TcpOptions {
        let agreed = self.timestamps.filter(|_| flags.contains(Flags::ACK));
        let timestamps = agreed.map(|timestamps| (timestamps.value(now), timestamps.echo()));
        let user_timeout = if flags.contains(Flags::RARE) { self.told_user_timeout() } else { None };
        TcpOptions { timestamps, user_timeout, ..TcpOptions::default() }
    }

    #[cfg(all(test, feature = "tcp-ao"))]
    pub(super) fn data_options(&self, now: Instant) -> TcpOptions {
        self.options(now, false)
    }

    /// The bytes that the options of a data segment take. SACK blocks and counters take room in each segment;
    /// payload that does not fit goes with the next.
    #[inline]
    fn data_options_len(&self, now: Instant) -> u32 {
        if self.ecn.is_off() && !self.rcv.has_gap() {
            return self.snd.timestamps_len();
        }
        u32::try_from(options_len(&self.options(now, false))).unwrap_or(u32::MAX)
    }

    /// Options of a segment that is neither SYN nor RST.
    #[inline]
    fn options(&self, now: Instant, pure_ack: bool) -> TcpOptions {
        let reports = self.sack && self.rcv.has_blocks(pure_ack);
        let mut options = TcpOptions {
            timestamps: self.timestamps.map(|timestamps| (timestamps.value(now), timestamps.echo())),
            accecn: self.ecn.option(pure_ack, reports),
            ..TcpOptions::default()
        };
        if reports {
            let left = OPTIONS_MAX.saturating_sub(options_len(&options));
            let room = left.saturating_sub(4).saturating_sub(self.snd.signature().into()) / 8;
            options.sack = self.rcv.blocks(pure_ack, room);
        }
        options
    }
}

/// Flags of a header that is not plain, before urgent data and ECN are considered. Comparing flags for
/// equality would not work, because equality ignores RARE.
const UNUSUAL: Flags = Flags::SYN.union(Flags::FIN).union(Flags::RST).union(Flags::RARE);
