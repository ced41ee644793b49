//! What a connection records in its trace: segments, calls, and why nothing more leaves.

use ackclock_wire::{Fields, Flags};

use super::header::Segment;
use super::sender::Awaited;
use super::{Connection, State};
use crate::Instant;
use crate::trace::{
    BatchCause, Deadlines, Entry, Limit, Reader, Record, TraceConfig, WindowCause, low, saturated,
};

impl Connection {
    /// Starts or stops tracing the connection. Records of its trace that were not delivered are lost.
    pub fn set_trace(&mut self, now: Instant, config: Option<TraceConfig>) {
        self.own_tcp().trace = config;
        self.trace.renew(config, self.snd.iss);
        self.trace.note(now, Entry::SegmentSize { bytes: self.flight.smss() });
        self.trace.window(now, WindowCause::Start, self.flight.controller(), self.flight.rtt().srtt());
        self.trace_timers(now);
    }

    /// How the connection is traced, if it is.
    #[must_use]
    pub fn trace_config(&self) -> Option<TraceConfig> {
        self.tcp.trace
    }

    /// What keeps the connection from sending more than it has sent: what a trace tells each time when
    /// nothing more leaves.
    #[must_use]
    pub fn limited_by(&self) -> Limit {
        self.limit()
    }

    /// The records not delivered yet, oldest first.
    pub fn trace(&self) -> impl Iterator<Item = Record> + '_ {
        self.trace.records()
    }

    /// Delivers the records now; without a trace it does nothing.
    pub fn request_trace(&mut self) {
        self.trace.call(BatchCause::Requested);
    }

    /// The reader to deliver to now, and the cause.
    #[inline]
    pub(crate) fn trace_due(&self) -> Option<(Reader, BatchCause)> {
        self.trace.due()
    }

    /// Whether records are left that are wanted after the connection is gone.
    pub(crate) fn has_trace_to_end(&self) -> bool {
        self.trace.has_rest()
    }

    /// The names of the controller's numbers, the records, and how many are missing before them.
    pub(crate) fn take_trace(&mut self, reader: Reader) -> (Vec<&'static str>, Vec<Record>, u64) {
        self.trace.take(reader)
    }

    /// This many delivered records did not reach their reader.
    pub(crate) fn miss_trace(&mut self, reader: Reader, records: u64) {
        self.trace.miss(reader, records);
    }

    /// The names of the controller's numbers, and how many records are missing before those that are kept;
    /// `None` where none are.
    pub(crate) fn trace_kept(&self) -> Option<(Vec<&'static str>, u64)> {
        self.trace.kept()
    }

    /// The profile and the controller, for readers of a trace.
    pub(crate) fn trace_choices(&self) -> (&'static str, &'static str) {
        (self.tcp.profile, self.flight.controller().name())
    }

    pub(super) fn trace_state(&mut self, now: Instant, to: State) {
        self.trace.note(now, Entry::State(self.state, to));
    }

    #[inline]
    pub(super) fn trace_sent(&mut self, now: Instant, segment: &Segment, fields: &Fields) {
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
        let seq = low(segment.start.since(self.snd.iss));
        let ([_, flags], len) = (fields.flags.bits().to_be_bytes(), saturated(segment.payload_len as u64));
        self.trace.note(now, Entry::Sent { reason: segment.reason, flags, seq, len });
    }

    #[inline]
    pub(super) fn trace_received(&mut self, now: Instant, segment: &ackclock_wire::Segment<'_>) {
        if self.trace.is_on() {
            let syn = segment.flags.contains(Flags::SYN);
            let irs = if syn { segment.seq } else { self.rcv.irs().seq() };
            let seq = segment.seq.raw().wrapping_sub(irs.raw());
            let len = saturated(segment.payload.len() as u64);
            let [_, flags] = segment.flags.bits().to_be_bytes();
            self.trace.note(now, Entry::Received { flags, seq, len });
        }
    }

    #[inline]
    pub(super) fn trace_written(&mut self, now: Instant, len: usize) {
        if self.trace.is_on() {
            self.trace.host_ran(now);
            let queued = saturated(self.snd.queued() as u64);
            self.trace.note(now, Entry::Written { len: saturated(len as u64), queued });
            self.trace_freed(now);
        }
    }

    /// Records from when on the host alone keeps the connection from going on, after anything that may have
    /// lifted a limit.
    #[inline]
    pub(super) fn trace_freed(&mut self, now: Instant) {
        if self.trace.is_on() {
            let free = self.limit() == Limit::Host;
            self.trace.freed(now, free);
        }
    }

    #[inline]
    pub(super) fn trace_read(&mut self, now: Instant, len: usize) {
        let waiting = saturated(self.rcv.readable() as u64);
        self.trace.note(now, Entry::Read { len: saturated(len as u64), waiting });
    }

    /// Records which timers run now, after any change.
    #[inline]
    pub(super) fn trace_timers(&mut self, now: Instant) {
        if self.trace.is_on() {
            self.trace.timers(now, self.deadlines());
        }
    }

    /// Records why nothing more leaves now.
    #[inline]
    pub(super) fn trace_limit(&mut self, now: Instant) {
        if self.trace.is_on() {
            self.trace.host_ran(now);
            self.trace.limited(now, self.limit(), self.flight.in_flight(), self.unsent());
            self.trace.timers(now, self.deadlines());
        }
    }

    /// What would let the next byte leave now if it alone were lifted. RFC 4898's three states
    /// (tcpEStatsPerfSndLimTimeRwin, -Cwnd and -Snd), with the last one, "any reason which cannot be
    /// classified as Receiver Limited or Congestion Limited", told apart.
    fn limit(&self) -> Limit {
        let unsent = self.unsent();
        let piece = unsent.min(u64::from(self.smss()));
        if !self.state.may_send_data() && self.state != State::FinWait2 {
            return Limit::NotOpen;
        }
        if self.flight.expiries().pacing != Instant::FAR_FUTURE {
            return self.flight.pacing_limit(&self.tcp);
        }
        if self.flight.lost() > 0 {
            return Limit::Recovery;
        }
        if unsent == 0 {
            return if self.snd.closed { Limit::Finished } else { self.limit_of_writer(Limit::Application) };
        }
        let window = self.right_edge().since(self.flight.nxt());
        let room = self.flight.room();
        if window < piece && window <= room {
            Limit::PeerWindow
        } else if room < piece {
            if self.flight.in_recovery() { Limit::Recovery } else { Limit::Cwnd }
        } else {
            let held = unsent < u64::from(self.smss()) && !self.may_send_tail(0);
            match (held, self.cork.is_in(), self.pending.more_follows) {
                (true, true, _) => self.limit_of_writer(Limit::Cork),
                (_, _, true) => self.limit_of_writer(Limit::Application),
                (true, false, false) => self.limit_of_writer(Limit::Nagle),
                (false, _, false) => Limit::Host,
            }
        }
    }

    /// The limit of a connection that has sent all that makes a segment: what kept the application from
    /// writing the rest, or `otherwise` if it is not known to have more.
    fn limit_of_writer(&self, otherwise: Limit) -> Limit {
        if !self.snd.awaited.has(Awaited::MORE) {
            otherwise
        } else if self.is_write_due() && !self.awaits_memory() {
            Limit::Host
        } else {
            Limit::SendBuffer
        }
    }

    /// When each of [`Timer::ALL`](crate::trace::Timer::ALL) expires, in that order.
    fn deadlines(&self) -> Deadlines {
        let sending = self.flight.expiries();
        [
            sending.retransmission,
            self.persist.deadline().at(),
            sending.reordering,
            sending.tail_probe,
            sending.pacing,
            self.rcv.deadline().at(),
            self.silence.deadline().at(),
            self.closing.at(),
            self.cork.deadline().at(),
        ]
    }
}
