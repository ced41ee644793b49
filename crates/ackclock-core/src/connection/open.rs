//! OPEN: creating a connection, and what its SYN exchange settles (RFC 9293 §3.10.1, RFC 7323, RFC 2018).

use std::sync::Arc;
use std::time::Duration;

use ackclock_control::time::nanos;
use ackclock_wire::{Experiment, SeqNum, TcpOptions};

use super::cold::Cold;
use super::cork::Cork;
use super::ecn::EcnState;
use super::ecn::negotiation::Agreement;
use super::errors::Errors;
use super::flow_labels::{FlowLabels, LabelledTemplate};
use super::persist::Persist;
use super::receive::ReceiveHalf;
use super::sender::Sender;
use super::silence::Silence;
use super::timestamps::Timestamps;
use super::{Connection, Counts, Pending, State, lend};
use crate::budget::Budget;
use crate::deadline::Deadline;
use crate::position::Position;
use crate::sending::Flight;
use crate::trace::Trace;
use crate::{FourTuple, Instant, Readiness, TcpConfig};

/// What the endpoint gives a new connection.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) iss: SeqNum,
    pub(crate) timestamp_offset: u32,
    pub(crate) flow_labels: FlowLabels,
    pub(crate) mtu: usize,
    pub(crate) budget: Budget,
    pub(crate) timer_granularity: Duration,
    pub(crate) tell_changes: bool,
    /// Segments are signed: TCP-AO takes 16 bytes of their options.
    #[cfg(feature = "tcp-ao")]
    pub(crate) authenticated: bool,
}

/// What a passive handshake settled. All of it fits into a half-open record or a SYN cookie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    pub(crate) irs: SeqNum,
    /// The peer's MSS option, or the default.
    pub(crate) peer_mss: u16,
    /// Shift counts: the peer's, ours.
    pub(crate) window_scale: Option<(u8, u8)>,
    pub(crate) sack: bool,
    /// TS.Recent.
    pub(crate) timestamps: Option<u32>,
    /// From SYN,ACK to its acknowledgement; `None` when retransmitted (Karn) or unknown.
    pub(crate) rtt: Option<Duration>,
    /// How often the SYN,ACK was retransmitted.
    pub(crate) repetitions: u8,
    /// The window of the SYN.
    pub(crate) peer_window: u16,
    pub(crate) ecn: Option<Agreement>,
    pub(crate) experiment: Option<Experiment>,
}

/// How many SYNs, or SYN-ACKs, carry an experiment. A third transmission goes without, because a middlebox
/// may drop unknown options.
pub(crate) const EXPERIMENT_SYNS: u32 = 2;

/// The largest shift count (RFC 7323 §2.3).
pub(crate) const WINDOW_SCALE_MAX: u8 = 14;

/// The smallest shift count that can express a window of `receive_buffer_max` bytes.
pub(crate) fn window_scale_for(receive_buffer_max: usize) -> u8 {
    (0..WINDOW_SCALE_MAX)
        .find(|&shift| receive_buffer_max <= usize::from(u16::MAX) << shift)
        .unwrap_or(WINDOW_SCALE_MAX)
}

/// The window in our SYN or SYN,ACK.
pub(crate) fn initial_receive_window(tcp: &TcpConfig) -> u16 {
    u16::try_from(tcp.receive_buffer_initial.min(tcp.receive_buffer_max)).unwrap_or(u16::MAX)
}

/// The MSS option of our SYN: the largest packet that we accept, minus fixed headers.
// RFC 9293 MUST-67: MMS_R - 20. RFC 9293 SHLD-6: the device's MTU is the smallest that a packet to us can
// meet here.
pub(crate) fn advertised_mss(tcp: &TcpConfig, mtu: usize, ip_header: u16) -> u16 {
    let fits = mtu.saturating_sub(usize::from(ip_header) + 20);
    u16::try_from(fits).unwrap_or(u16::MAX).min(tcp.mss_max.unwrap_or(u16::MAX))
}

/// The MSS of a peer that sent no option.
// RFC 9293 MUST-15: 536 for IPv4, 1220 for IPv6.
pub(crate) fn default_mss(tuple: &FourTuple) -> u16 {
    if tuple.remote_addr.is_ipv4() { 536 } else { 1220 }
}

/// The smallest MSS that is believed: a smaller one costs more headers than it carries (CVE-2019-11479;
/// docs/security.md, B7).
pub(crate) const PEER_MSS_MIN: u16 = 216;

impl Connection {
    fn new(now: Instant, tuple: FourTuple, tcp: Arc<TcpConfig>, env: &Environment, irs: SeqNum) -> Self {
        let iss = Position::initial(env.iss);
        let mtu = u32::try_from(env.mtu).unwrap_or(u32::MAX);
        let trace = Trace::new(tcp.trace, env.tell_changes, iss);
        let granularity_ns = u32::try_from(nanos(env.timer_granularity)).unwrap_or(u32::MAX);
        let flight = Flight::new(now, iss, u32::from(default_mss(&tuple)), granularity_ns, &tcp);
        let rcv = ReceiveHalf::new(
            Position::initial(irs),
            &env.budget,
            tcp.receive_buffer_initial,
            tcp.receive_buffer_max,
        );
        let cold = Cold::default();
        #[cfg(feature = "tcp-ao")]
        let cold = cold.signed(env.authenticated);
        Self {
            tuple,
            state: State::Closed,
            established: false,
            snd: Sender::new(iss, &env.budget, tcp.send_buffer_max, mtu),
            rcv,
            timestamps: None,
            sack: false,
            template: LabelledTemplate::new(&tuple, &tcp, env.flow_labels),
            flight,
            ecn: None,
            reply: None,
            pending: Pending::default(),
            cold,
            tcp,
            persist: Persist::default(),
            cork: Cork::default(),
            silence: Silence::since(now),
            closing: Deadline::UNSET,
            keeps_buffers: Deadline::UNSET,
            counts: Counts::default(),
            readiness: Readiness::default(),
            errors: Errors::default(),
            orphaned: false,
            progressed: false,
            trace,
        }
    }

    /// An active OPEN: SYN-SENT, the SYN waiting to be transmitted.
    pub(crate) fn active(now: Instant, tuple: FourTuple, tcp: Arc<TcpConfig>, env: &Environment) -> Self {
        let mut connection = Self::new(now, tuple, tcp, env, SeqNum::new(0));
        connection.state = State::SynSent;
        connection.trace.opened(now);
        connection.pending.syn = true;
        connection.flight.open(now, &connection.tcp);
        if connection.tcp.choices.timestamps {
            connection.timestamps = Some(Timestamps::new(env.timestamp_offset, connection.rcv.nxt()));
        }
        connection
    }

    /// A passive OPEN whose handshake is complete; the segment that completed it comes next.
    pub(crate) fn passive(
        now: Instant,
        tuple: FourTuple,
        tcp: Arc<TcpConfig>,
        env: &Environment,
        handshake: Handshake,
    ) -> Self {
        let mut connection = Self::agreed(now, tuple, tcp, env, handshake);
        let una = connection.snd.iss + 1;
        connection.flight.on_syn_acked(una);
        if let Some(rtt) = handshake.rtt {
            connection.flight.on_handshake_sample(rtt);
        }
        connection.establish(now, handshake.repetitions == 0);
        connection
    }

    /// A connection with everything that a passive handshake settled, except its end.
    pub(super) fn agreed(
        now: Instant,
        tuple: FourTuple,
        tcp: Arc<TcpConfig>,
        env: &Environment,
        handshake: Handshake,
    ) -> Self {
        let mut connection = Self::new(now, tuple, tcp, env, handshake.irs);
        connection.set_peer_mss(Some(handshake.peer_mss));
        connection.sack = handshake.sack;
        connection.note_experiment(handshake.experiment);
        connection.ecn = handshake.ecn.map(|agreement| Box::new(EcnState::passive(agreement)));
        if let Some((peers, ours)) = handshake.window_scale {
            connection.snd.scale = peers;
            connection.rcv.set_scale(ours);
        }
        connection.rcv.set_limit_max(connection.tcp.receive_buffer_max);
        if let Some(recent) = handshake.timestamps {
            let mut timestamps = Timestamps::new(env.timestamp_offset, connection.rcv.nxt());
            timestamps.set(now, recent);
            connection.timestamps = Some(timestamps);
        }
        connection.rcv.offer_unscaled();
        connection.set_window_of_syn(handshake.peer_window);
        connection
    }

    /// The options of our SYN, or of a SYN,ACK, which only has what the peer's SYN offered.
    pub(super) fn syn_options(&self, now: Instant) -> TcpOptions {
        let answering = self.state == State::SynReceived;
        let mss = advertised_mss(&self.tcp, self.snd.pmtu as usize, self.template.transport_offset());
        TcpOptions {
            // RFC 9293 MUST-14, RFC 9293 SHLD-5, RFC 9293 MAY-3: in every SYN.
            mss: Some(mss),
            window_scale: (if answering {
                self.rcv.scale() > 0 || self.snd.scale > 0
            } else {
                self.tcp.choices.window_scaling
            })
            .then(|| window_scale_for(self.tcp.receive_buffer_max)),
            sack_permitted: if answering { self.sack } else { self.tcp.choices.sack },
            timestamps: self.timestamps.map(|timestamps| (timestamps.value(now), timestamps.echo())),
            experiment: self
                .tcp
                .experiment
                .filter(|_| self.flight.timeouts_in_a_row() < EXPERIMENT_SYNS && self.option_reserve() == 0),
            fast_open: self.fast_open_option(),
            user_timeout: self
                .told_user_timeout()
                .filter(|_| self.flight.timeouts_in_a_row() < EXPERIMENT_SYNS),
            ..TcpOptions::default()
        }
    }

    /// Keeps the experimental option of the peer's SYN.
    pub(super) fn note_experiment(&mut self, experiment: Option<Experiment>) {
        if experiment.is_some() {
            self.cold.need_rest().experiment = experiment;
        }
    }

    /// Takes the options of the peer's SYN or SYN,ACK, which answers our offer.
    pub(super) fn take_syn_options(&mut self, now: Instant, options: &TcpOptions) {
        self.set_peer_mss(options.mss);
        self.note_experiment(self.tcp.shared_experiment(options));
        self.hear_user_timeout(now, options.user_timeout);
        match options.window_scale.filter(|_| self.tcp.choices.window_scaling) {
            Some(shift) => {
                // RFC 7323 §2.3: a larger count is taken as 14.
                self.snd.scale = shift.min(WINDOW_SCALE_MAX);
                self.rcv.set_scale(window_scale_for(self.tcp.receive_buffer_max));
            }
            None => {
                self.snd.scale = 0;
                self.rcv.set_scale(0);
            }
        }
        self.rcv.set_limit_max(self.tcp.receive_buffer_max);
        self.sack = self.tcp.choices.sack && options.sack_permitted;
        match (&mut self.timestamps, options.timestamps) {
            (Some(timestamps), Some((value, _))) => {
                timestamps.last_ack_sent = self.rcv.nxt();
                timestamps.set(now, value);
            }
            _ => self.timestamps = None,
        }
    }

    fn set_peer_mss(&mut self, option: Option<u16>) {
        let mss = option.unwrap_or_else(|| default_mss(&self.tuple)).max(PEER_MSS_MIN);
        self.snd.peer_mss = u32::from(mss.min(self.tcp.mss_max.unwrap_or(u16::MAX)));
        let ours = advertised_mss(&self.tcp, self.snd.pmtu as usize, self.template.transport_offset());
        self.rcv.set_mss(u32::from(ours));
    }

    /// The window of a SYN is never shifted (RFC 7323 §2.2).
    pub(super) fn set_window_of_syn(&mut self, window: u16) {
        self.snd.wnd = u32::from(window);
        self.snd.max_wnd = self.snd.wnd;
        self.snd.wl1 = self.rcv.irs();
        self.snd.wl2 = self.flight.una();
    }

    /// ESTABLISHED is reached: the controller starts. `clean`: no SYN of ours was lost.
    pub(super) fn establish(&mut self, now: Instant, clean: bool) {
        let smss = self.effective_mss();
        // What a server sent behind its SYN,ACK is in flight already.
        if !self.flight.has_data() {
            self.flight.establish(lend!(self, now), self.sack, smss, clean);
        }
        self.silence.end(now);
        self.persist = Persist::default();
        self.arm_keepalive(now);
        self.established = true;
        self.enter(now, State::Established);
        self.readiness.connected = true;
        self.tell_user_timeout();
        self.readiness.writable = true;
    }
}
