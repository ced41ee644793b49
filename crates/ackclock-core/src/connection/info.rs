//! STATUS (RFC 9293 §3.10.6): the state of a connection; and what it records in its trace.

use std::time::Duration;

use ackclock_wire::Experiment;

use super::{Connection, State};
use crate::trace::{BatchCause, Deadlines, Entry, Limit, Reader, Record, TraceConfig, WindowCause};
use crate::{ConnectionError, ConnectionInfo, FourTuple, IcmpError, Instant};

/// The last figures of an established connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AtEnd {
    /// Smoothed round-trip time, if one was measured.
    pub srtt: Option<Duration>,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// The largest IP packet that the path was found to take, in bytes.
    pub pmtu: u32,
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// Where slow start ends, in bytes; `None` where nothing has ended it.
    pub ssthresh: Option<u64>,
    /// The peer stopped answering.
    pub timed_out: bool,
    /// The last rate of delivery in bytes a second; zero before the first sample.
    pub delivery_rate: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Those of them that were retransmitted.
    pub bytes_retransmitted: u64,
}

impl Connection {
    /// Its last figures, if it was ever established.
    pub(crate) fn at_end(&self) -> Option<AtEnd> {
        let rtt = self.snd.rtt();
        let (bytes_sent, bytes_retransmitted, _) = self.snd.sent_counts();
        self.life.is_established().then(|| AtEnd {
            srtt: rtt.has_sample().then(|| rtt.srtt()),
            rttvar: rtt.rttvar(),
            pmtu: self.snd.pmtu(),
            cwnd: self.snd.controller().cwnd(),
            ssthresh: Some(self.snd.controller().ssthresh()).filter(|ssthresh| *ssthresh != u64::MAX),
            timed_out: self.errors.hard() == Some(ConnectionError::TimedOut),
            delivery_rate: self.snd.delivery_rate(),
            bytes_sent,
            bytes_retransmitted,
        })
    }

    /// When the first SYN of an open that is not over left.
    pub(crate) fn opening_since(&self) -> Option<Instant> {
        self.snd.waiting_since().filter(|_| !self.life.is_established())
    }

    /// The two sockets.
    #[must_use]
    #[inline]
    pub fn tuple(&self) -> FourTuple {
        self.template.tuple()
    }

    /// The state of RFC 9293 §3.3.2.
    #[must_use]
    pub fn state(&self) -> State {
        self.life.state()
    }

    /// Whether the handshake was ever completed.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.life.is_established()
    }

    /// Whether the application has [released](crate::Endpoint::release) it: it finishes by itself.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.life.is_orphaned()
    }

    /// The peer's data in its SYN or SYN-ACK for the experiment (RFC 6994) that this end takes part in
    /// ([`TcpConfig::experiment`](crate::TcpConfig::experiment)), if any arrived. A handshake by cookie does
    /// not keep it.
    #[must_use]
    pub fn peer_experiment(&self) -> Option<Experiment> {
        self.cold.parts()?.experiment
    }

    /// How the connection ended, if it ended in error. Stays set.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        self.errors.hard()
    }

    /// The error, returned once.
    pub fn take_error(&mut self) -> Option<ConnectionError> {
        self.errors.take_hard()
    }

    /// The last soft error that ICMP reported (RFC 9293 MUST-47, RFC 9293 SHLD-25), returned once. An
    /// application that does not ask is not disturbed (RFC 9293 SHLD-20).
    pub fn take_soft_error(&mut self) -> Option<IcmpError> {
        self.errors.take_soft()
    }

    /// Bytes allocated for the buffers.
    #[must_use]
    pub fn buffer_capacity(&self) -> usize {
        self.snd.capacity().saturating_add(self.rcv.capacity())
    }

    /// Everything known about the connection. `now` is the time of its endpoint's clock
    /// ([`Endpoint::own_time`](crate::Endpoint::own_time)).
    #[must_use]
    pub fn info(&self, now: Instant) -> ConnectionInfo {
        let (sending, rtt) = (self.snd.info(&self.tcp), self.snd.rtt());
        let (bytes_sent, bytes_retransmitted, retransmits) = self.snd.sent_counts();
        let (bytes_duplicate, out_of_order) = self.rcv.rare_counts();
        let ssthresh = self.snd.controller().ssthresh();
        let scaled = self.snd.scale() > 0 || self.rcv.scale() > 0;
        ConnectionInfo {
            state: self.life.state(),
            profile: self.tcp.profile,
            congestion: self.snd.controller().name(),
            recovery: self.snd.recovery(),
            rto_config: self.tcp.choices.rto,
            acks: self.tcp.choices.acks,
            start_up: sending.start_up,
            bandwidth: self.rcv.bandwidth(),
            timestamps: self.timestamps.is_some(),
            sack: self.sack,
            window_scale: scaled.then_some((self.snd.scale(), self.rcv.scale())),
            snd_mss: self.snd.smss(),
            rcv_mss: self.rcv.mss(),
            pmtu: self.snd.pmtu(),
            srtt: rtt.srtt(),
            rttvar: rtt.rttvar(),
            rtt_min: rtt.rtt_min(),
            rto: rtt.rto(),
            backoff: rtt.backoff(),
            cwnd: sending.cwnd,
            ssthresh: (ssthresh != u64::MAX).then_some(ssthresh),
            pacing_rate: sending.pacing_rate,
            delivery_rate: sending.delivery_rate,
            in_flight: sending.in_flight,
            unacked: sending.unacked,
            sacked: sending.sacked,
            lost: sending.lost,
            snd_wnd: self.snd.wnd(),
            rcv_wnd: u32::try_from(self.rcv.shown_wnd()).unwrap_or(u32::MAX),
            send_queue: self.snd.queued(),
            receive_queue: self.rcv.readable(),
            bytes_sent,
            bytes_acked: self.snd.acked(),
            bytes_received: self.rcv.received(),
            bytes_retransmitted,
            segments_sent: self.segments_sent,
            segments_received: self.segments_received,
            retransmits,
            timeouts: sending.timeouts,
            loss_episodes: sending.loss_episodes,
            losses: sending.losses,
            undone: sending.undone,
            bytes_duplicate,
            out_of_order,
            last_sent: self.snd.sent_at().map(|at| now.saturating_since(at)),
            last_received: self.silence.received_at().map(|at| now.saturating_since(at)),
            idle_left: self.idle_left(now),
            ecn: self.ecn.info(),
            controller: self.snd.controller().snapshot(),
        }
    }

    /// The peer's user timeout (RFC 5482), if it sent one and this end accepts it.
    #[must_use]
    pub fn peer_user_timeout(&self) -> Option<Duration> {
        self.cold.parts()?.user_timeouts?.heard
    }
}

// The trace: segments, calls, and why nothing more leaves.
impl Connection {
    /// Starts or stops tracing the connection. Records of its trace that were not delivered are lost.
    pub fn set_trace(&mut self, now: Instant, config: Option<TraceConfig>) {
        self.own_tcp().trace = config;
        self.trace.renew(config, self.snd.iss());
        self.trace.note(now, Entry::SegmentSize { bytes: self.snd.smss() });
        self.trace.window(now, WindowCause::Start, self.snd.controller(), self.snd.rtt().srtt());
        if self.trace.is_on() {
            self.trace.timers(now, self.deadlines());
        }
    }

    /// How the connection is traced, if it is.
    #[must_use]
    pub fn trace_config(&self) -> Option<TraceConfig> {
        self.tcp.trace
    }

    /// The limit that keeps the connection from sending more than it has sent. A trace tells it each time
    /// when nothing more leaves.
    #[must_use]
    pub fn limited_by(&self) -> Limit {
        self.snd.limit(self.life.state(), &self.tcp)
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

    /// Records what an extension of the endpoint's did, with a number that belongs to it.
    #[cfg(feature = "tcp-ao")]
    pub(crate) fn trace_extension(&mut self, now: Instant, what: crate::trace::Extension, value: u64) {
        self.trace.extension(now, what, value);
    }

    /// The names of the controller's numbers, and how many records are missing before those that are kept;
    /// `None` where none are.
    pub(crate) fn trace_kept(&self) -> Option<(Vec<&'static str>, u64)> {
        self.trace.kept()
    }

    /// The profile and the controller, for readers of a trace.
    pub(crate) fn trace_choices(&self) -> (&'static str, &'static str) {
        (self.tcp.profile, self.snd.controller().name())
    }

    /// Records from when on the host alone keeps the connection from going on, after anything that may have
    /// lifted a limit.
    #[inline]
    pub(super) fn trace_freed(&mut self, now: Instant) {
        if self.trace.is_on() {
            let free = self.limited_by() == Limit::Host;
            self.trace.freed(now, free);
        }
    }

    /// When each of [`Timer::ALL`](crate::trace::Timer::ALL) expires, in that order.
    pub(super) fn deadlines(&self) -> Deadlines {
        let (sending, persist, cork) = self.snd.expiries();
        [
            sending.retransmission,
            persist,
            sending.reordering,
            sending.tail_probe,
            sending.pacing,
            self.rcv.deadline().at(),
            self.silence.deadline().at(),
            self.life.deadline().at(),
            cork,
        ]
    }
}
