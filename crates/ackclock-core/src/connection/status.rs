//! STATUS (RFC 9293 §3.10.6): the state of a connection.

use ackclock_wire::Experiment;

use super::{Connection, State};
use crate::{ConnectionError, ConnectionInfo, FourTuple, IcmpError, Instant};

impl Connection {
    /// The two sockets.
    #[must_use]
    pub fn tuple(&self) -> FourTuple {
        self.tuple
    }

    /// The same, by reference.
    #[inline]
    pub(crate) fn name(&self) -> &FourTuple {
        &self.tuple
    }

    /// The state of RFC 9293 §3.3.2.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the handshake was ever completed.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Whether the application has [released](crate::Endpoint::release) it: it finishes by itself.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.orphaned
    }

    /// What the peer's application sent in its SYN or SYN-ACK in the experiment (RFC 6994) that this end
    /// takes part in ([`TcpConfig::experiment`](crate::TcpConfig::experiment)), if it arrived. A handshake by
    /// cookie does not keep it.
    #[must_use]
    pub fn peer_experiment(&self) -> Option<Experiment> {
        self.cold.rest()?.experiment
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
        let (counts, rare) = (&self.counts, self.cold.counts());
        let (sending, rtt) = (self.flight.info(&self.tcp), self.flight.rtt());
        let ssthresh = self.flight.controller().ssthresh();
        let scaled = self.snd.scale > 0 || self.rcv.scale() > 0;
        ConnectionInfo {
            state: self.state,
            profile: self.tcp.profile,
            congestion: self.flight.controller().name(),
            recovery: self.flight.recovery(),
            rto_config: self.tcp.choices.rto,
            acks: self.tcp.choices.acks,
            start_up: sending.start_up,
            bandwidth: self.cold.rest().and_then(|rest| rest.arrivals.as_ref()?.estimates()),
            timestamps: self.timestamps.is_some(),
            sack: self.sack,
            window_scale: scaled.then_some((self.snd.scale, self.rcv.scale())),
            snd_mss: self.smss(),
            rcv_mss: self.rcv.mss(),
            pmtu: self.snd.pmtu,
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
            snd_wnd: self.snd.wnd,
            rcv_wnd: u32::try_from(self.rcv.shown_wnd()).unwrap_or(u32::MAX),
            send_queue: self.snd.queued(),
            receive_queue: self.rcv.readable(),
            bytes_sent: counts.bytes_sent,
            bytes_acked: counts.bytes_acked,
            bytes_received: counts.bytes_received,
            bytes_retransmitted: rare.bytes_retransmitted,
            segments_sent: counts.segments_sent,
            segments_received: counts.segments_received,
            retransmits: rare.retransmits,
            timeouts: sending.timeouts,
            loss_episodes: sending.loss_episodes,
            losses: sending.losses,
            undone: sending.undone,
            bytes_duplicate: rare.bytes_duplicate,
            out_of_order: rare.out_of_order,
            last_sent: self.flight.sent_at().map(|at| now.saturating_since(at)),
            last_received: counts.received_at.map(|at| now.saturating_since(at)),
            ecn: self.ecn.as_ref().map(|ecn| ecn.info()),
            controller: self.flight.controller().snapshot(),
        }
    }
}
