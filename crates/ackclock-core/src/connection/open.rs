//! OPEN: creating a connection, and what its SYN exchange settles (RFC 9293 §3.10.1, RFC 7323, RFC 2018),
//! with data in the SYN (RFC 7413) and the user timeout (RFC 5482).

use std::sync::Arc;
use std::time::Duration;

use ackclock_wire::{Experiment, FastOpenCookie, SeqNum, TcpOptions, UserTimeout, options_len};

use super::cold::Cold;
use super::ecn::Marking;
use super::ecn::negotiation::{Agreement, Offer};
use super::errors::Errors;
use super::fast_open::{DATA_MAX, FastOpenOffer, FastOpenOutcome, FastOpening};
use super::flow_labels::{FlowLabels, LabelledTemplate};
use super::idle::IdleBuffers;
use super::known::Known;
use super::life::Life;
use super::pending::Pending;
use super::receive::ReceiveHalf;
use super::send::{self, SendHalf};
use super::silence::Silence;
use super::timestamps::Timestamps;
use super::user_timeout::{UserTimeouts, told_user_timeout};
use super::{Connection, R2_DATA, State, lend};
use crate::budget::Budget;
use crate::buffer::Queue;
use crate::event::ReadinessBits;
use crate::position::Position;
use crate::trace::{Entry, Extension, Trace};
use crate::{FourTuple, Instant, TcpConfig};

/// The settings and the knowledge that the endpoint gives a new connection.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub iss: SeqNum,
    /// Figures of the path that earlier connections between these addresses have learned.
    pub known: Option<Known>,
    pub timestamp_offset: u32,
    pub flow_labels: FlowLabels,
    pub mtu: usize,
    pub budget: Budget,
    pub timer_granularity: Duration,
    pub tell_changes: bool,
    /// Segments are signed: TCP-AO takes 16 bytes of their options.
    #[cfg(feature = "tcp-ao")]
    pub authenticated: bool,
}

/// The outcome of a passive handshake. All of it fits into a half-open record or a SYN cookie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    pub irs: SeqNum,
    /// The peer's MSS option, or the default.
    pub peer_mss: u16,
    /// Shift counts: the peer's, ours.
    pub window_scale: Option<(u8, u8)>,
    pub sack: bool,
    /// TS.Recent.
    pub timestamps: Option<u32>,
    /// From SYN,ACK to its acknowledgement; `None` when retransmitted (Karn) or unknown.
    pub rtt: Option<Duration>,
    /// How often the SYN,ACK was retransmitted.
    pub repetitions: u8,
    /// The window of the SYN.
    pub peer_window: u16,
    pub ecn: Option<Agreement>,
    pub experiment: Option<Experiment>,
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
        let template = LabelledTemplate::new(&tuple, &tcp, env.flow_labels);
        let start = send::Start {
            now,
            iss,
            mtu: u32::try_from(env.mtu).unwrap_or(u32::MAX),
            is_ipv4: tuple.remote_addr.is_ipv4(),
            #[cfg(feature = "tcp-ao")]
            signature: if env.authenticated { 16 } else { 0 },
            #[cfg(not(feature = "tcp-ao"))]
            signature: 0,
            default_mss: default_mss(&tuple),
            granularity: env.timer_granularity,
        };
        let snd = SendHalf::new(&start, Queue::new(&env.budget), &tcp);
        let rcv = ReceiveHalf::new(
            Position::initial(irs),
            &env.budget,
            tcp.receive_buffer_initial,
            tcp.receive_buffer_max,
        );
        let mut connection = Self {
            life: Life::new(),
            snd,
            rcv,
            timestamps: None,
            sack: false,
            progressed: false,
            template,
            ecn: Marking::OFF,
            pending: Pending::default(),
            cold: Cold::default(),
            trace: Trace::new(tcp.trace, env.tell_changes, iss),
            tcp,
            silence: Silence::since(now),
            idle_buffers: IdleBuffers::default(),
            segments_sent: 0,
            segments_received: 0,
            readiness: ReadinessBits::default(),
            errors: Errors::default(),
        };
        connection.begin_with(now, env.known);
        connection
    }

    /// An active OPEN: SYN-SENT, the SYN waiting to be transmitted.
    pub(crate) fn active(now: Instant, tuple: FourTuple, tcp: Arc<TcpConfig>, env: &Environment) -> Self {
        let mut connection = Self::new(now, tuple, tcp, env, SeqNum::new(0));
        connection.life.enter(now, State::SynSent, &connection.tcp);
        connection.trace.opened(now);
        connection.pending.owe_syn();
        connection.snd.open(now, &connection.tcp);
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
        connection.snd.on_syn_acked(now, connection.snd.iss() + 1, false);
        if let Some(rtt) = handshake.rtt {
            connection.snd.on_handshake_sample(rtt, now);
        }
        connection.establish(now, handshake.repetitions == 0);
        connection
    }

    /// A connection with everything that a passive handshake settled, except its end.
    fn agreed(
        now: Instant,
        tuple: FourTuple,
        tcp: Arc<TcpConfig>,
        env: &Environment,
        handshake: Handshake,
    ) -> Self {
        let mut connection = Self::new(now, tuple, tcp, env, handshake.irs);
        connection.sack = handshake.sack;
        connection.note_experiment(handshake.experiment);
        connection.ecn = Marking::passive(handshake.ecn);
        let (peers_scale, own_scale) = handshake.window_scale.unwrap_or((0, 0));
        connection.rcv.set_scale(own_scale);
        connection.rcv.set_limit_max(connection.tcp.receive_buffer_max);
        if let Some(recent) = handshake.timestamps {
            let mut timestamps = Timestamps::new(env.timestamp_offset, connection.rcv.nxt());
            timestamps.set(now, recent);
            connection.timestamps = Some(timestamps);
        }
        connection.set_peer(Some(handshake.peer_mss), peers_scale);
        connection.rcv.offer_unscaled();
        connection.snd.set_window_of_syn(handshake.peer_window, connection.rcv.irs());
        connection
    }

    /// The options of our SYN, or of a SYN,ACK, which only has what the peer's SYN offered.
    pub(super) fn syn_options(&self, now: Instant) -> TcpOptions {
        let answering = self.life.state() == State::SynReceived;
        let mss = advertised_mss(&self.tcp, self.snd.pmtu() as usize, self.template.transport_offset());
        TcpOptions {
            // RFC 9293 MUST-14, RFC 9293 SHLD-5, RFC 9293 MAY-3: in every SYN.
            mss: Some(mss),
            window_scale: (if answering {
                self.rcv.scale() > 0 || self.snd.scale() > 0
            } else {
                self.tcp.choices.window_scaling
            })
            .then(|| window_scale_for(self.tcp.receive_buffer_max)),
            sack_permitted: if answering { self.sack } else { self.tcp.choices.sack },
            timestamps: self.timestamps.map(|timestamps| (timestamps.value(now), timestamps.echo())),
            experiment: self
                .tcp
                .experiment
                .filter(|_| self.snd.timeouts_in_a_row() < EXPERIMENT_SYNS && self.snd.signature() == 0),
            fast_open: self.fast_open_option(),
            user_timeout: self.told_user_timeout().filter(|_| self.snd.timeouts_in_a_row() < EXPERIMENT_SYNS),
            ..TcpOptions::default()
        }
    }

    /// Keeps the experimental option of the peer's SYN.
    fn note_experiment(&mut self, experiment: Option<Experiment>) {
        if experiment.is_some() {
            self.cold.need().experiment = experiment;
        }
    }

    /// Takes the options of the peer's SYN or SYN,ACK, which answers our offer.
    pub(super) fn adopt_syn_options(&mut self, now: Instant, options: &TcpOptions) {
        self.note_experiment(self.tcp.shared_experiment(options));
        self.hear_user_timeout(now, options.user_timeout);
        // RFC 7323 §2.3: a larger count is taken as 14.
        let peers_scale = options
            .window_scale
            .filter(|_| self.tcp.choices.window_scaling)
            .map(|shift| shift.min(WINDOW_SCALE_MAX));
        let own_scale = peers_scale.map_or(0, |_| window_scale_for(self.tcp.receive_buffer_max));
        self.rcv.set_scale(own_scale);
        self.rcv.set_limit_max(self.tcp.receive_buffer_max);
        self.sack = self.tcp.choices.sack && options.sack_permitted;
        match (&mut self.timestamps, options.timestamps) {
            (Some(timestamps), Some((value, _))) => {
                timestamps.on_ack_sent(self.rcv.nxt());
                timestamps.set(now, value);
            }
            _ => self.timestamps = None,
        }
        self.set_peer(options.mss, peers_scale.unwrap_or(0));
    }

    /// The peer's MSS option and shift count are known, and whether timestamps are agreed on.
    fn set_peer(&mut self, mss: Option<u16>, scale: u8) {
        let mss = mss.unwrap_or_else(|| default_mss(&self.tuple())).max(PEER_MSS_MIN);
        let mss = mss.min(self.tcp.mss_max.unwrap_or(u16::MAX));
        self.snd.set_peer(u32::from(mss), scale, self.timestamps.is_some());
        let ours = advertised_mss(&self.tcp, self.snd.pmtu() as usize, self.template.transport_offset());
        self.rcv.set_mss(u32::from(ours));
    }

    /// ESTABLISHED is reached: the controller starts. `clean`: no SYN of ours was lost.
    pub(super) fn establish(&mut self, now: Instant, clean: bool) {
        if self.cold.end_fast_open(clean) {
            // RFC 9768 §3.1.5: the flags of ECN may have been given up meanwhile.
            self.ecn = Marking::OFF;
        }
        let known = self.cold.parts_mut().and_then(|parts| parts.known.take());
        self.limit_to_known(now, known);
        self.snd.establish(&mut lend!(self, now), self.sack, clean);
        self.silence.begin(now);
        self.arm_keepalive(now);
        self.enter(now, State::Established);
        self.slow_start_to_known(now, known);
        self.watch_data(now);
        self.readiness.add(ReadinessBits::CONNECTED);
        self.tell_user_timeout();
        self.readiness.add(ReadinessBits::WRITABLE);
    }
}

// Fast Open (RFC 7413).
impl Connection {
    /// An active OPEN with data for the SYN. The send buffer takes as much as fits; returns how much. Without
    /// an `offer`, all of it follows the handshake.
    pub(crate) fn active_with_data(
        now: Instant,
        tuple: FourTuple,
        tcp: Arc<TcpConfig>,
        env: &Environment,
        offer: Option<FastOpenOffer>,
        data: &[u8],
    ) -> (Self, usize) {
        let mut connection = Self::active(now, tuple, tcp, env);
        let taken = connection.snd.append_before_syn(data, DATA_MAX);
        if let Some(offer) = offer {
            let opening = FastOpening::Client { offer, sent: 0, acked: 0, clean: false };
            connection.cold.need().fast_open = Some(opening);
        }
        (connection, taken)
    }

    /// A passive OPEN by a SYN with a valid cookie: in SYN-RECEIVED, with the SYN's text readable.
    pub(crate) fn passive_with_data(
        now: Instant,
        tuple: FourTuple,
        tcp: Arc<TcpConfig>,
        env: &Environment,
        handshake: Handshake,
        opening: (Option<FastOpenCookie>, Offer),
        text: &[u8],
    ) -> Self {
        let mut connection = Self::agreed(now, tuple, tcp, env, handshake);
        let (tell, ecn) = opening;
        connection.cold.need().fast_open = Some(FastOpening::Server { tell, ecn });
        connection.enter(now, State::SynReceived);
        connection.pending.owe_syn();
        // Congestion control also covers data sent before the handshake ends.
        let sack = connection.sack;
        connection.snd.establish(&mut lend!(connection, now), sack, true);
        connection.process_text_of_syn(now, text);
        connection
    }

    /// Takes as much text from a SYN as one segment may have and the window accepts.
    fn process_text_of_syn(&mut self, now: Instant, text: &[u8]) {
        let taken = self.rcv.on_text_of_syn(text);
        self.readiness.add_if(ReadinessBits::READABLE, taken > 0);
        self.readiness.add(ReadinessBits::WRITABLE);
        self.trace.extension(now, Extension::FastOpenTaken, taken);
    }

    /// Whether the connection is over, and such a handshake never was.
    pub(crate) fn ended_in_fast_open(&self) -> bool {
        let never_opened = self.life.state() == State::Closed && !self.life.is_established();
        never_opened && self.cold.serves_fast_open()
    }

    /// The option of our first SYN or SYN,ACK.
    fn fast_open_option(&self) -> Option<FastOpenCookie> {
        // There is no room for it beside a signature.
        if self.snd.timeouts_in_a_row() > 0 || self.snd.signature() > 0 {
            return None;
        }
        self.cold.parts()?.fast_open.as_ref()?.cookie()
    }

    /// How much data fits on a SYN that carries a cookie, after its options.
    pub(super) fn data_of_syn(&mut self, now: Instant) -> usize {
        let has_cookie = self.life.state() == State::SynSent
            && self.fast_open_option().is_some_and(|cookie| !cookie.is_request());
        if !has_cookie {
            return 0;
        }
        let ip_and_tcp = usize::from(self.template.transport_offset()) + 20;
        let fits = (self.snd.pmtu() as usize).saturating_sub(ip_and_tcp);
        let (queued, options_len) = (self.snd.queued(), options_len(&self.syn_options(now)));
        let Some(FastOpening::Client { offer, sent, .. }) = self.cold.fast_open() else { return 0 };
        let most = fits.min(usize::from(offer.mss)).saturating_sub(options_len);
        let len = queued.min(most);
        *sent = u32::try_from(len).unwrap_or(u32::MAX);
        self.snd.on_text_of_syn_sent(len);
        self.trace.extension(now, Extension::FastOpenSent, len as u64);
        len
    }

    /// The SYN,ACK acknowledges up to `ack`, possibly including data of the SYN. The rest is sent again.
    pub(super) fn process_ack_of_syn(&mut self, now: Instant, ack: Position) {
        if let Some(FastOpening::Client { acked, .. }) = self.cold.fast_open() {
            let bytes = self.snd.acknowledge_text_of_syn(&mut lend!(self, now), ack);
            *acked = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.trace.extension(now, Extension::FastOpenAcked, bytes);
        }
    }

    /// After the handshake: its outcome for a client, returned once.
    pub(crate) fn take_fast_open_outcome(&mut self) -> Option<FastOpenOutcome> {
        let established = self.life.is_established();
        let parts = self.cold.parts_mut().filter(|_| established)?;
        let FastOpening::Client { sent, acked, clean, .. } = parts.fast_open? else { return None };
        parts.fast_open = None;
        Some(if clean { FastOpenOutcome::Answered { sent, acked } } else { FastOpenOutcome::FellBack })
    }
}

// The user timeout (RFC 5482).
impl Connection {
    /// The option that this end sends; `None`: none.
    pub(super) fn told_user_timeout(&self) -> Option<UserTimeout> {
        told_user_timeout(&self.tcp, self.own_user_timeout())
    }

    /// ESTABLISHED is reached, or the timeout was set: the next acknowledgement, which leaves at once, has
    /// the option.
    #[inline]
    pub(super) fn tell_user_timeout(&mut self) {
        if self.tcp.user_timeout_option.is_some() {
            self.pending.tell_user_timeout();
        }
    }

    /// The application set the timeout of an open connection. That value stands and is sent to the peer.
    pub(super) fn fix_user_timeout(&mut self, timeout: Option<Duration>) {
        if let Some(option) = &mut self.own_tcp().user_timeout_option {
            option.changeable = false;
            let timeouts = self.cold.need().user_timeouts.get_or_insert_default();
            timeouts.told = timeout;
            if self.life.is_established() {
                self.tell_user_timeout();
            }
        }
    }

    /// The peer sent its user timeout in an acceptable segment.
    #[cold]
    pub(super) fn hear_user_timeout(&mut self, now: Instant, option: Option<UserTimeout>) {
        let Some(bounds) = self.tcp.user_timeout_option.as_deref().copied() else { return };
        let Some(heard) = option.and_then(UserTimeout::duration) else { return };
        let told = self.own_user_timeout();
        self.cold.need().user_timeouts = Some(UserTimeouts { told, heard: Some(heard) });
        // USER_TIMEOUT = min(U_LIMIT, max(ADV_UTO, REMOTE_UTO, L_LIMIT))
        let adopted = told.unwrap_or(R2_DATA).max(heard).max(bounds.least).min(bounds.most);
        if bounds.changeable && self.tcp.user_timeout != Some(adopted) {
            self.own_tcp().user_timeout = Some(adopted);
            let value = u32::try_from(adopted.as_secs()).unwrap_or(u32::MAX);
            self.trace.note(now, Entry::Extension { what: Extension::UserTimeoutAdopted, value });
        }
    }

    /// The application's value, before the peer's changed it.
    fn own_user_timeout(&self) -> Option<Duration> {
        match self.cold.parts().and_then(|parts| parts.user_timeouts) {
            Some(timeouts) => timeouts.told,
            None => self.tcp.user_timeout,
        }
    }
}
