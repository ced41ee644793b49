//! STATUS (RFC 9293 §3.10.6): what is known of a connection.

use ackclock_wire::Experiment;

use super::{Connection, State};
use crate::{ConnectionError, ConnectionInfo, FourTuple, IcmpError, Instant};

impl Connection {
    /// The two sockets.
    #[must_use]
    pub fn tuple(&self) -> FourTuple {
        self.tuple
    }

    /// The state of RFC 9293 §3.3.2.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the handshake was completed at some time.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// What the peer's application said in its SYN or SYN-ACK in the experiment (RFC 6994) that this end takes part in
    /// ([`TcpConfig::experiment`](crate::TcpConfig::experiment)), if it reached us. A handshake by cookie does not keep it.
    #[must_use]
    pub fn peer_experiment(&self) -> Option<Experiment> {
        self.extras.as_ref()?.experiment
    }

    /// How the connection ended, if it ended in error. Stays set.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        self.error
    }

    /// The error, given once.
    pub fn take_error(&mut self) -> Option<ConnectionError> {
        self.error.filter(|_| !std::mem::replace(&mut self.error_taken, true))
    }

    /// The last soft error that ICMP reported (RFC 9293 MUST-47, RFC 9293 SHLD-25), given once. An application that does not
    /// ask is not bothered (RFC 9293 SHLD-20).
    pub fn take_soft_error(&mut self) -> Option<IcmpError> {
        self.soft_error.take()
    }

    /// Bytes allocated for the buffers.
    #[must_use]
    pub fn buffer_capacity(&self) -> usize {
        self.snd.capacity() + self.rcv.buffer.capacity()
    }

    /// What is known of the connection.
    #[must_use]
    pub fn info(&self, now: Instant) -> ConnectionInfo {
        let (counts, extras) = (&self.counts, self.extras.as_deref());
        let ssthresh = self.congestion.ssthresh();
        let scaled = self.snd.scale > 0 || self.rcv.scale > 0;
        ConnectionInfo {
            state: self.state,
            profile: self.tcp.profile,
            congestion: self.congestion.name(),
            recovery: self.policy(),
            rto_config: self.tcp.rto,
            acks: self.tcp.acks,
            start_up: extras.and_then(|extras| extras.start_up.as_ref()?.estimate()),
            bandwidth: extras.and_then(|extras| extras.arrivals.as_ref()?.estimates()),
            timestamps: self.timestamps.is_some(),
            sack: self.sack,
            window_scale: scaled.then_some((self.snd.scale, self.rcv.scale)),
            snd_mss: self.smss(),
            rcv_mss: self.rcv.mss,
            pmtu: self.snd.pmtu,
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            rtt_min: self.rtt.rtt_min(),
            rto: self.rtt.rto(),
            backoff: self.rtt.backoff(),
            cwnd: self.congestion.cwnd(),
            ssthresh: (ssthresh != u64::MAX).then_some(ssthresh),
            pacing_rate: self.pacing_rate(),
            delivery_rate: self.delivery.rate,
            in_flight: self.in_flight(),
            unacked: self.snd.flight_size(),
            sacked: self.scoreboard.sacked(),
            lost: self.scoreboard.lost(),
            snd_wnd: self.snd.wnd,
            rcv_wnd: u32::try_from(self.rcv.wnd()).unwrap_or(u32::MAX),
            send_queue: self.snd.queued(),
            receive_queue: self.rcv.buffer.readable(),
            bytes_sent: counts.bytes_sent,
            bytes_acked: counts.bytes_acked,
            bytes_received: counts.bytes_received,
            bytes_retransmitted: counts.bytes_retransmitted,
            segments_sent: counts.segments_sent,
            segments_received: counts.segments_received,
            retransmits: counts.retransmits,
            timeouts: counts.timeouts,
            loss_episodes: counts.loss_episodes,
            losses: self.recovery.losses(),
            undone: self.undo.as_ref().map(|undo| undo.counts()).unwrap_or_default(),
            bytes_duplicate: counts.bytes_duplicate,
            out_of_order: counts.out_of_order,
            last_sent: counts.sent_at.map(|at| now.saturating_since(at)),
            last_received: counts.received_at.map(|at| now.saturating_since(at)),
            ecn: self.ecn.as_ref().map(|ecn| ecn.info()),
            controller: self.congestion.snapshot(),
        }
    }
}
