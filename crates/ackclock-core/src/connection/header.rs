//! The header of a segment.

use std::num::NonZeroU16;

use ackclock_control::tally::Tally;
use ackclock_wire::options::OPTIONS_MAX;
use ackclock_wire::packet::{ChecksumAt, ChecksumState};
use ackclock_wire::template::{Fields, HEADER_MAX, TxChecksum};
use ackclock_wire::{Flags, TcpOptions, options_len};

use super::Connection;
use crate::position::Position;
use crate::trace::SendReason;
use crate::{Instant, Limits};

/// A segment to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) start: Position,
    pub(super) flags: Flags,
    pub(super) payload_len: usize,
    /// The most payload of one segment on the wire.
    pub(super) segment_max: u32,
    pub(super) reason: SendReason,
}

/// A segment that leaves. Its header is in the caller's buffer, its payload in the send buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) header_len: usize,
    pub(crate) transport_offset: u16,
    pub(crate) start: Position,
    pub(crate) payload_len: usize,
    pub(crate) segment_size: Option<NonZeroU16>,
    pub(crate) checksum: ChecksumState,
}

impl Segment {
    /// A segment without text.
    pub(super) fn bare(start: Position, flags: Flags, reason: SendReason) -> Self {
        Self { start, flags, payload_len: 0, segment_max: 0, reason }
    }

    /// Where its text begins. RFC 9293 §3.4: a SYN takes the first number, text follows it.
    #[inline]
    fn text_start(&self) -> Position {
        self.start + u64::from(self.flags.contains(Flags::SYN))
    }
}

impl Connection {
    /// Sends a segment. `plain`: its header is a plain one.
    #[inline]
    pub(super) fn write_segment(
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
        self.counts.segments_sent.grow(segments);
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
            self.ecn_was_told(fields.options.accecn.is_some());
        }
        header_len
    }

    /// RFC 7323 §3.2: once timestamps are agreed on, they SHOULD be on a reset as well. A reset without ACK
    /// does not belong to an agreement.
    fn reset_options(&self, now: Instant, ack: bool) -> TcpOptions {
        let agreed = self.timestamps.filter(|_| ack);
        let timestamps = agreed.map(|timestamps| (timestamps.value(now), timestamps.echo()));
        TcpOptions { timestamps, ..TcpOptions::default() }
    }

    /// Options of a segment without text other than a plain acknowledgement.
    #[cold]
    fn rare_options(&self, now: Instant, flags: Flags) -> TcpOptions {
        let options = self.reset_options(now, flags.contains(Flags::ACK));
        let user_timeout = if flags.contains(Flags::RARE) { self.told_user_timeout() } else { None };
        TcpOptions { user_timeout, ..options }
    }

    /// Options of a data segment.
    pub(super) fn data_options(&self, now: Instant) -> TcpOptions {
        self.options(now, false)
    }

    /// The bytes that the options of a data segment take. SACK blocks and counters take room in each segment;
    /// payload that does not fit goes with the next.
    #[inline]
    pub(super) fn data_options_len(&self, now: Instant) -> u32 {
        if self.ecn.is_none() && !self.rcv.has_gap() {
            return if self.timestamps.is_some() { TIMESTAMPS_LEN } else { 0 };
        }
        u32::try_from(options_len(&self.data_options(now))).unwrap_or(u32::MAX)
    }

    /// Options of a segment without text that is neither SYN nor RST.
    pub(super) fn ack_options(&self, now: Instant) -> TcpOptions {
        self.options(now, true)
    }

    #[inline]
    fn options(&self, now: Instant, pure_ack: bool) -> TcpOptions {
        let reports = self.sack && self.rcv.has_blocks(pure_ack);
        let mut options = TcpOptions {
            timestamps: self.timestamps.map(|timestamps| (timestamps.value(now), timestamps.echo())),
            accecn: self.ecn_option(pure_ack, reports),
            ..TcpOptions::default()
        };
        if reports {
            let left = OPTIONS_MAX.saturating_sub(options_len(&options));
            let room = left.saturating_sub(4).saturating_sub(self.option_reserve() as usize) / 8;
            options.sack = self.rcv.blocks(pure_ack, room);
        }
        options
    }

    /// A segment that acknowledged all before `ack` has left. `pure_ack`: its options are
    /// [`Self::ack_options`].
    #[inline]
    pub(super) fn ack_was_sent(&mut self, ack: Position, pure_ack: bool) {
        self.rcv.on_ack_sent(ack, pure_ack);
        if let Some(arrivals) = self.cold.rest_mut().and_then(|rest| rest.arrivals.as_mut()) {
            arrivals.on_ack_sent();
        }
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.last_ack_sent = ack;
        }
    }

    /// The fields of a segment. With the ACK flag, it acknowledges all before `ack`.
    pub(super) fn fields(&mut self, now: Instant, segment: &Segment, ack: Position) -> Fields {
        let mut flags = segment.flags;
        let syn = flags.contains(Flags::SYN);
        let acknowledges = flags.contains(Flags::ACK);
        let options = if syn {
            self.syn_options(now)
        } else if segment.payload_len > 0 {
            self.data_options(now)
        } else if flags.intersects(Flags::RST | Flags::RARE) {
            self.rare_options(now, flags)
        } else {
            self.ack_options(now)
        };
        let window = if syn { self.rcv.offer_unscaled() } else { self.rcv.offer(ack) };
        let mut urgent = 0;
        // RFC 9293 MUST-62: the pointer names the octet after the urgent data.
        if let Some(up) = self.snd.up.filter(|&up| up > segment.start && !syn && !flags.contains(Flags::RST))
        {
            flags = flags | Flags::URG;
            urgent = u16::try_from(up.since(segment.start)).unwrap_or(u16::MAX);
        }
        let (flags, ecn) = self.stamp_ecn(segment, flags);
        Fields {
            seq: segment.start.seq(),
            ack: if acknowledges { ack.seq() } else { ackclock_wire::SeqNum::new(0) },
            flags,
            window,
            urgent,
            ecn,
            options,
        }
    }
}

/// The timestamps option, aligned (RFC 7323 appendix A).
const TIMESTAMPS_LEN: u32 = 12;
