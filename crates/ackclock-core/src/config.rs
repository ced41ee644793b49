//! What an endpoint, a listener and a connection are told at their making. Every bound has its name here.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ackclock_control::bandwidth::SenderEstimatorKind;
use ackclock_control::congestion::{ControllerFactory, IdlePolicy, Registry, UnknownController};
use ackclock_control::profile::{AckPolicy, Ecn, Profile, Recovery, UndoChoice};
use ackclock_control::rtt::RtoConfig;
use ackclock_wire::{Experiment, TcpOptions};

use crate::trace::TraceConfig;
use crate::{ListenAddr, ReassemblyConfig, Shard};

/// Settings of one endpoint.
#[derive(Clone)]
pub struct EndpointConfig {
    /// The addresses that the endpoint answers for.
    pub addresses: Vec<IpAddr>,
    /// Largest IP packet in bytes that the device carries.
    pub mtu: usize,
    /// Directed broadcast addresses of the endpoint's networks: never a peer (RFC 9293 MUST-57).
    pub broadcast: Vec<IpAddr>,
    /// Secret from the operating system's random source, for ISNs, ports, cookies and tables.
    pub secret: [u8; 32],
    /// The most connections at one time.
    pub connections_max: usize,
    /// The most listeners at one time.
    pub listeners_max: usize,
    /// The most connections that the application has released and that still finish; beyond it the oldest is reset.
    pub orphans_max: usize,
    /// The most connections kept in TIME-WAIT; beyond it the oldest is recycled.
    pub time_wait_max: usize,
    /// Bytes that all buffers of all connections may take together.
    pub memory_budget: usize,
    /// Whether buffers keep the bytes that are written and received. `false` is for simulations in which no byte has a
    /// meaning: buffers then take their share of the budget as ever, hold no memory, and give zeros. Nothing but
    /// the values of payload bytes depends on it.
    pub keep_bytes: bool,
    /// First and last ephemeral port.
    pub ephemeral_ports: (u16, u16),
    /// How late a driver's timer may be: what pacing lets go at one time is at least what its rate makes of this
    /// span. A millisecond unless told otherwise, as tokio's timers count; less where time is exact. At most 4.29 s.
    pub timer_granularity: Duration,
    /// Whether IPv6 packets carry flow labels (RFC 6437): one for each connection, and another after each of its timeouts.
    /// Where routers choose by the label between several servers of one address, `false` keeps a connection at its own.
    pub flow_labels: bool,
    /// Whether a segment that is as predicted, or leaves as most do, takes the short way. It changes the cost of a segment and
    /// nothing else; `false` is for those who want to compare.
    pub header_prediction: bool,
    /// The most packets that wait for the program that takes what is not the endpoint's own, and as many from it
    /// ([`Endpoint::poll_other`](crate::Endpoint::poll_other)); 0 (the default): there is none.
    pub other_packets: usize,
    /// The most ICMP echo requests that are answered in a second (RFC 1122 §3.2.2.6, RFC 4443 §4.2); 0: none are.
    pub echo_replies_per_second: u32,
    /// Whether a datagram for a port without a socket is answered by ICMP port unreachable (RFC 1122 §4.1.3.1), at a limited
    /// rate.
    pub port_unreachable: bool,
    /// Whether fragmented packets are put together, and within which bounds; `None` (the default): fragments are dropped
    /// and counted.
    pub reassembly: Option<Box<ReassemblyConfig>>,
    /// Whether [`Endpoint::poll_changes`](crate::Endpoint::poll_changes) gives out what changes each connection or costs it data.
    /// It takes every segment of theirs the long way, as a trace does.
    pub tell_changes: bool,
    /// Settings of connections that name none; endpoints may share them.
    pub tcp: Arc<TcpConfig>,
    /// Which of several endpoints of one host this is ([`split`](Self::split)); `None` (the default): the only one.
    pub shard: Option<Shard>,
}

impl EndpointConfig {
    /// The defaults, for these addresses and this secret.
    #[must_use]
    pub fn new(addresses: Vec<IpAddr>, secret: [u8; 32]) -> Self {
        Self {
            addresses,
            mtu: 1500,
            broadcast: Vec::new(),
            secret,
            connections_max: 1 << 20,
            listeners_max: 1 << 16,
            orphans_max: 65_536,
            time_wait_max: 65_536,
            memory_budget: 1 << 30,
            keep_bytes: true,
            header_prediction: true,
            // RFC 6056 §3.2: as large a range as the system can spare.
            ephemeral_ports: (1024, 65_535),
            timer_granularity: Duration::from_millis(1),
            flow_labels: true,
            other_packets: 0,
            echo_replies_per_second: 1000,
            port_unreachable: true,
            reassembly: None,
            tell_changes: false,
            tcp: Arc::default(),
            shard: None,
        }
    }

    /// The settings of this many endpoints that are one host together, to be driven side by side, each with its queue of a
    /// device. They share the names of their connections and the memory budget; `connections_max`, `orphans_max` and
    /// `time_wait_max` are divided among them. What is not TCP is at the first: packets of it, and all that arrive where
    /// their connection is not, are [`Stray`](crate::Stray)s, to be taken from one endpoint's
    /// [`poll_stray`](crate::Endpoint::poll_stray) to another's [`handle_stray`](crate::Endpoint::handle_stray).
    ///
    /// Addresses are set, and listeners made, on each of them.
    #[must_use]
    pub fn split(self, endpoints: usize) -> Vec<Self> {
        if endpoints <= 1 {
            return vec![self];
        }
        let part = |max: usize| max.div_ceil(endpoints);
        let (connections_max, orphans_max) = (part(self.connections_max), part(self.orphans_max));
        let time_wait_max = part(self.time_wait_max);
        let of_shard =
            |shard| Self { connections_max, orphans_max, time_wait_max, shard: Some(shard), ..self.clone() };
        Shard::all(&self, endpoints).map(of_shard).collect()
    }
}

impl fmt::Debug for EndpointConfig {
    // RFC 9293 MUST-9: the secret of the ISNs must not be computable from outside, so it is never shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointConfig")
            .field("addresses", &self.addresses)
            .field("mtu", &self.mtu)
            .field("connections_max", &self.connections_max)
            .field("memory_budget", &self.memory_budget)
            .field("ephemeral_ports", &self.ephemeral_ports)
            .field("tcp", &self.tcp)
            .finish_non_exhaustive()
    }
}

/// Settings of one connection. Those that few connections make are behind a pointer: a connection may have settings of its
/// own, and a simulation has thousands.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Name of the profile that was applied last; single settings may differ from it.
    pub profile: &'static str,
    // RFC 9293 MAY-18: CUBIC (RFC 9438) unless another is asked for.
    /// What makes the congestion controller.
    pub congestion: Arc<dyn ControllerFactory>,
    /// What sets the first ssthresh, if anything.
    pub start_up: Option<SenderEstimatorKind>,
    /// Whether the window is spread over the round trip, by a rate made of the two, where the controller has no rate
    /// of its own.
    pub pacing: bool,
    /// The highest rate of sending in bytes a second; `None`: no bound of its own.
    pub pacing_rate_max: Option<u64>,
    /// What becomes of the congestion window after idleness.
    pub idle: IdlePolicy,
    /// How losses are found and repaired, as far as the peer's options allow.
    pub recovery: Recovery,
    /// Parameters of the retransmission timeout, with the tick of its clock.
    pub rto: RtoConfig,
    /// Which proofs take a wrong reduction back.
    pub undo: UndoChoice,
    /// When received data is acknowledged; no delay is longer than 500 ms (RFC 9293 MUST-40).
    pub acks: AckPolicy,
    /// How many samples of the bandwidth the receiver takes while the peer starts up, up to 256 (Allman and Paxson
    /// 1999, §3.4: 50); `None` (the default): it does not look.
    pub receiver_bandwidth: Option<usize>,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// An experimental option (RFC 6994) of the application's, put on the SYN or the SYN-ACK where there is room; `None`
    /// (the default): none. Only who takes part hears what the peer said in the same experiment:
    /// [`Connection::peer_experiment`](crate::Connection::peer_experiment).
    pub experiment: Option<Experiment>,
    /// What is written down of what the connection does and why; `None` (the default): nothing.
    pub trace: Option<TraceConfig>,
    /// Send small segments at once (RFC 9293 MUST-17: switches Nagle's algorithm off).
    pub nodelay: bool,
    /// Probe an idle peer; `None` (the default): never (RFC 9293 MUST-25).
    pub keepalive: Option<Keepalive>,
    /// How long transmitted data may stay unacknowledged before the connection is given up (RFC 5482);
    /// `None`: R2 alone decides.
    pub user_timeout: Option<Duration>,
    /// Finds the path's MTU without ICMP, downwards and upwards; `None` (the default): it does not.
    pub mtu_probing: Option<Box<MtuProbing>>,
    /// Tells the peer the user timeout by an option, and takes the peer's into account; `None` (the default): neither.
    pub user_timeout_option: Option<Box<UserTimeoutOption>>,
    /// The most bytes that wait in the send buffer.
    pub send_buffer_max: usize,
    /// The most bytes that wait in the receive buffer; the window is tuned up to it.
    pub receive_buffer_max: usize,
    /// The bytes of it that the window offers from the beginning, 64 KiB unless told otherwise; where this is
    /// `receive_buffer_max` or more, nothing is tuned.
    pub receive_buffer_initial: usize,
    /// Upper bound for the MSS in both directions; `None`: what the MTU allows.
    pub mss_max: Option<u16>,
    /// IPv4 time to live and IPv6 hop limit (RFC 9293 MUST-49).
    pub ttl: u8,
    /// Differentiated Services field, the upper six bits of the TOS or Traffic Class byte (RFC 9293 MUST-48).
    pub dscp: u8,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Initial window in segments (RFC 6928: 10).
    pub initial_window_segments: u32,
    /// How long TIME-WAIT lasts: 2 MSL (RFC 9293 MUST-13).
    pub time_wait: Duration,
    /// How long an orphan waits in FIN-WAIT-2 for the peer's FIN.
    pub fin_wait_2_max: Duration,
}

impl TcpConfig {
    /// Makes all the choices that the profile names; the others stay. `registry` has its controller.
    ///
    /// # Errors
    /// [`UnknownController`] if `registry` does not have it; then nothing changes.
    pub fn apply(&mut self, profile: &Profile, registry: &Registry) -> Result<(), UnknownController> {
        self.congestion = registry.find(profile.congestion)?;
        self.profile = profile.name;
        self.start_up = profile.start_up;
        self.pacing = profile.pacing;
        self.idle = profile.idle;
        self.recovery = profile.recovery;
        self.rto = profile.rto;
        self.undo = profile.undo;
        self.acks = profile.acks;
        self.ecn = profile.options.ecn;
        self.timestamps = profile.options.timestamps;
        self.sack = profile.options.sack;
        self.window_scaling = profile.options.window_scaling;
        self.initial_window_segments = profile.initial_window_segments;
        Ok(())
    }

    /// What a peer said in the experiment that this end takes part in.
    pub(crate) fn shared_experiment(&self, options: &TcpOptions) -> Option<Experiment> {
        options.experiment.filter(|theirs| self.experiment.is_some_and(|ours| ours.id == theirs.id))
    }
}

impl Default for TcpConfig {
    /// The profile `modern`.
    fn default() -> Self {
        let profile = Profile::modern();
        Self {
            profile: profile.name,
            congestion: ackclock_control::congestion::default_factory(),
            start_up: profile.start_up,
            pacing: profile.pacing,
            pacing_rate_max: None,
            idle: profile.idle,
            recovery: profile.recovery,
            rto: profile.rto,
            undo: profile.undo,
            acks: profile.acks,
            receiver_bandwidth: None,
            ecn: profile.options.ecn,
            experiment: None,
            trace: None,
            nodelay: false,
            keepalive: None,
            user_timeout: None,
            mtu_probing: None,
            user_timeout_option: None,
            send_buffer_max: 4 << 20,
            receive_buffer_max: 6 << 20,
            receive_buffer_initial: 64 << 10,
            mss_max: None,
            ttl: 64,
            dscp: 0,
            timestamps: profile.options.timestamps,
            sack: profile.options.sack,
            window_scaling: profile.options.window_scaling,
            initial_window_segments: profile.initial_window_segments,
            time_wait: Duration::from_secs(60),
            fin_wait_2_max: Duration::from_secs(60),
        }
    }
}

/// When and how often an idle peer is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle time before the first probe.
    pub idle: Duration,
    /// Time between unanswered probes.
    pub interval: Duration,
    /// Unanswered probes after which the connection is given up.
    pub probes: u32,
}

impl Default for Keepalive {
    /// RFC 9293 MUST-28: two hours; then nine probes, 75 s apart.
    fn default() -> Self {
        Self { idle: Duration::from_secs(7200), interval: Duration::from_secs(75), probes: 9 }
    }
}

/// How a connection finds the path's MTU by itself (RFC 4821).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuProbing {
    /// The size in bytes of the IP packets that are sent when full ones do not get through, before the search: 1,024 unless told
    /// otherwise, at least 552 over IPv4 and 1,280 over IPv6.
    pub least: u16,
    /// How long after a search that ended below what the device carries the path is tried again: 10 minutes unless told
    /// otherwise.
    pub raise_after: Duration,
}

impl Default for MtuProbing {
    fn default() -> Self {
        Self { least: 1024, raise_after: Duration::from_secs(600) }
    }
}

/// What the option of RFC 5482 may do to a connection. The user timeout becomes the larger of what both ends say, within
/// `least` and `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserTimeoutOption {
    /// L_LIMIT: the peer cannot bring the timeout below this. 100 s unless told otherwise (RFC 9293 SHLD-11).
    pub least: Duration,
    /// U_LIMIT: nor above this, which is how long a peer may have this end keep a dead connection. An hour unless told
    /// otherwise.
    pub most: Duration,
    /// CHANGEABLE: whether the peer's value counts. It does not any more once the application has set the timeout of the
    /// open connection itself.
    pub changeable: bool,
}

impl Default for UserTimeoutOption {
    fn default() -> Self {
        Self { least: Duration::from_secs(100), most: Duration::from_secs(3600), changeable: true }
    }
}

/// Settings of one listener.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// What to listen on.
    pub addr: ListenAddr,
    /// The most established connections that wait to be accepted.
    pub backlog: usize,
    /// The most half-open connections; beyond it SYN cookies answer, or with `deferred` the SYN is dropped.
    pub syn_backlog: usize,
    /// With `deferred`, the most SYNs that wait for a decision, among those of `syn_backlog`; beyond it a SYN is dropped,
    /// and its client sends it again.
    pub decisions_max: usize,
    /// Whether each SYN waits for [`crate::Endpoint::decide`] before it is answered.
    pub deferred: bool,
    /// Whether the port may be one that connections of an earlier listener still have, those in TIME-WAIT among them (the
    /// default: yes, as with tokio's listeners). Then it costs no search of them.
    pub reuse_address: bool,
    /// Whether other listeners that say so, too, may listen on the same address and port, up to 64 of them. Each has queues of
    /// its own; which one a SYN is for is decided by a keyed hash of both ends' addresses and ports.
    pub reuse_port: bool,
    /// Fast Open (RFC 7413): the most connections opened by a SYN with a cookie whose handshake is not over; 0 (the default): no
    /// Fast Open. The application may see the data of such a SYN twice, on two connections, when it is duplicated on its way.
    /// Without effect with `deferred`.
    pub fast_open_max: usize,
    /// Settings of the connections it accepts; `None`: the endpoint's.
    pub tcp: Option<TcpConfig>,
}

impl ListenOptions {
    /// The defaults for this address.
    #[must_use]
    pub fn new(addr: ListenAddr) -> Self {
        Self {
            addr,
            backlog: 1024,
            syn_backlog: 1024,
            decisions_max: 1024,
            deferred: false,
            reuse_address: true,
            reuse_port: false,
            fast_open_max: 0,
            tcp: None,
        }
    }
}
