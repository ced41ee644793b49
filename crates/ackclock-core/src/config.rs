//! The settings of an endpoint, a listener and a connection. Every bound has its name here.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ackclock_control::congestion::{ControllerFactory, Registry, UnknownController};
use ackclock_control::profile::{Choices, Profile};
use ackclock_wire::{Experiment, TcpOptions};

use crate::trace::TraceConfig;
use crate::{ListenAddr, PathCacheConfig, PingPolicy, ReassemblyConfig, Shaping, Shard};
use ackclock_control::congestion::form::factory;

/// Settings of one endpoint.
#[derive(Clone)]
pub struct EndpointConfig {
    /// The endpoint's addresses.
    pub addresses: Vec<IpAddr>,
    /// Whether connections, listeners and UDP sockets may use the address of any host as their local one, as
    /// a transparent proxy does, which speaks to a server from its client's address. Packets to that address
    /// must come back here, so other hosts need routes for it. `false` by default.
    pub transparent: bool,
    /// Whether [`Histograms`](crate::Histograms) are kept. They take some hundred bytes, which count where
    /// one process has thousands of endpoints. `true` by default.
    pub histograms: bool,
    /// Largest IP packet in bytes that the device carries.
    pub mtu: usize,
    /// Directed broadcast addresses of the endpoint's networks, which are never a peer (RFC 9293 MUST-57).
    pub broadcast: Vec<IpAddr>,
    /// Secret from the operating system's random source, for ISNs, ports, cookies and tables.
    pub secret: [u8; 32],
    /// The most connections.
    pub connections_max: usize,
    /// The most listeners.
    pub listeners_max: usize,
    /// The most connections that the application has released and that still finish. Beyond it the oldest is
    /// reset.
    pub orphans_max: usize,
    /// The most connections in TIME-WAIT. Beyond it the oldest is recycled.
    pub time_wait_max: usize,
    /// The memory of all buffers of all connections together, in bytes.
    pub memory_budget: usize,
    /// Whether buffers keep the bytes written and received. `false` is for simulations in which the values of
    /// bytes do not matter: buffers still take their share of the budget, but hold no memory and return
    /// zeros. Nothing else depends on it.
    pub keep_bytes: bool,
    /// First and last ephemeral port.
    pub ephemeral_ports: (u16, u16),
    /// How late a driver's timer may be. Pacing releases at one time at least what its rate makes of this
    /// span. A millisecond by default, because tokio's timers count milliseconds; use less where time is
    /// exact. At most 4.29 s.
    pub timer_granularity: Duration,
    /// Whether IPv6 packets carry flow labels (RFC 6437): one for each connection, and another after each of
    /// its timeouts. Where routers use the label to choose between several servers of one address, `false`
    /// keeps a connection at its server.
    pub flow_labels: bool,
    /// Whether predicted segments, and those sent in their usual form, take the fast path. It only changes
    /// the cost of a segment; `false` is for comparisons.
    pub header_prediction: bool,
    /// The most packets that wait for, and from, the program that handles other traffic
    /// ([`Endpoint::poll_other`](crate::Endpoint::poll_other)); 0 (the default): there is no such program.
    pub other_packets: usize,
    /// The most ICMP echo requests answered in a second (RFC 1122 §3.2.2.6, RFC 4443 §4.2); 0: none.
    pub echo_replies_per_second: u32,
    /// The answer to echo requests for addresses that are not the endpoint's. With [`PingPolicy::Own`] (the
    /// default) there is none.
    pub pings: PingPolicy,
    /// The most echo requests that wait for the program with [`PingPolicy::Deferred`].
    pub pings_max: usize,
    /// Whether a datagram for a port without a socket is answered by ICMP port unreachable
    /// (RFC 1122 §4.1.3.1), at a limited rate.
    pub port_unreachable: bool,
    /// Whether to reassemble fragmented packets, and within which bounds; `None` (the default): fragments are
    /// dropped and counted.
    pub reassembly: Option<Box<ReassemblyConfig>>,
    /// Limits the endpoint to one rate; with `None` (the default) it sends as much as the device takes.
    /// Connections that wait for it take turns by bytes. Endpoints of one host ([`split`](Self::split)) have
    /// equal parts of it.
    pub shaping: Option<Shaping>,
    /// Whether connections begin with what earlier ones between the same addresses have learned of their path
    /// ([`KnownPath`](crate::KnownPath)), and within which bounds; `None` (the default): they do not. Leave
    /// it off where connections of several users share the endpoint's addresses: one user's connection would
    /// show what another's did.
    pub path_cache: Option<Box<PathCacheConfig>>,
    /// Whether [`Endpoint::poll_changes`](crate::Endpoint::poll_changes) reports what changes each connection
    /// or costs it data. Like a trace, it takes every segment off the fast path.
    pub tell_changes: bool,
    /// Default settings of connections. Endpoints may share them.
    pub tcp: Arc<TcpConfig>,
    /// Which of several endpoints of one host this is ([`split`](Self::split)); `None` (the default): the
    /// only one.
    pub shard: Option<Shard>,
}

impl EndpointConfig {
    /// The defaults for these addresses and this secret.
    #[must_use]
    pub fn new(addresses: Vec<IpAddr>, secret: [u8; 32]) -> Self {
        Self {
            addresses,
            transparent: false,
            histograms: true,
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
            pings: PingPolicy::Own,
            pings_max: 256,
            port_unreachable: true,
            reassembly: None,
            shaping: None,
            path_cache: None,
            tell_changes: false,
            tcp: Arc::default(),
            shard: None,
        }
    }

    /// The settings of this many endpoints that form one host, to be driven in parallel, each with its queue
    /// of a device. They share the names of their connections and the memory budget. `connections_max`,
    /// `orphans_max`, `time_wait_max` and the rate of `shaping` are divided among them. Traffic other than
    /// TCP belongs to the first. Its packets, and packets that arrive at another endpoint than their
    /// connection's, are [`Stray`](crate::Stray)s: take them from one endpoint's
    /// [`poll_stray`](crate::Endpoint::poll_stray) to another's
    /// [`handle_stray`](crate::Endpoint::handle_stray).
    ///
    /// Set addresses, and create listeners, on each of them.
    #[must_use]
    pub fn split(self, endpoints: usize) -> Vec<Self> {
        if endpoints <= 1 {
            return vec![self];
        }
        let part = |max: usize| max.div_ceil(endpoints);
        let (connections_max, orphans_max) = (part(self.connections_max), part(self.orphans_max));
        let time_wait_max = part(self.time_wait_max);
        let shaping = self.shaping.map(|shaping| shaping.part(endpoints));
        let of_shard = |shard| Self {
            connections_max,
            orphans_max,
            time_wait_max,
            shaping,
            shard: Some(shard),
            ..self.clone()
        };
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

/// Settings of one connection. Those that few connections make are behind a pointer, because a connection may
/// have private settings, and a simulation has thousands.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Name of the profile last applied. Single settings may differ from it.
    pub profile: &'static str,
    // RFC 9293 MAY-18: CUBIC (RFC 9438) unless another is asked for.
    /// Makes the congestion controller.
    pub congestion: Arc<dyn ControllerFactory>,
    /// How to send and acknowledge.
    pub choices: Choices,
    /// The highest sending rate in bytes a second; `None`: no bound.
    pub pacing_rate_max: Option<u64>,
    /// An experimental option (RFC 6994) from the application, put on the SYN or the SYN-ACK if there is
    /// room; `None` (the default): none. Only a participant receives what the peer sent in the same
    /// experiment: [`Connection::peer_experiment`](crate::Connection::peer_experiment).
    pub experiment: Option<Experiment>,
    /// The trace of the connection; `None` (the default): nothing is traced.
    pub trace: Option<TraceConfig>,
    /// Send small segments at once (RFC 9293 MUST-17: switches Nagle's algorithm off).
    pub nodelay: bool,
    /// Probe an idle peer; `None` (the default): never (RFC 9293 MUST-25).
    pub keepalive: Option<Keepalive>,
    /// How long transmitted data may stay unacknowledged before the connection is given up (RFC 5482);
    /// `None`: only R2 decides.
    pub user_timeout: Option<Duration>,
    /// How long a connection may carry no data in either direction, from the end of its handshake on; then it
    /// is reset. `None` (the default): as long as both ends wish. Keep-alive and window probes,
    /// retransmissions, and acknowledgements of nothing new are not data. They may prolong the wait by less
    /// than this time again.
    pub idle_timeout: Option<Duration>,
    /// Finds the path's MTU without ICMP, downwards and upwards; `None` (the default): off.
    pub mtu_probing: Option<Box<MtuProbing>>,
    /// Sends the user timeout to the peer in an option, and takes the peer's into account; `None` (the
    /// default): neither.
    pub user_timeout_option: Option<Box<UserTimeoutOption>>,
    /// The capacity of the send buffer in bytes.
    pub send_buffer_max: usize,
    /// The capacity of the receive buffer in bytes. The window is tuned up to it.
    pub receive_buffer_max: usize,
    /// The window at the start in bytes, 64 KiB by default. At `receive_buffer_max` or more, nothing is
    /// tuned.
    pub receive_buffer_initial: usize,
    /// Upper bound of the MSS in both directions; `None`: what the MTU allows.
    pub mss_max: Option<u16>,
    /// IPv4 time to live and IPv6 hop limit (RFC 9293 MUST-49).
    pub ttl: u8,
    /// Differentiated Services field, the upper six bits of the TOS or Traffic Class byte (RFC 9293 MUST-48).
    pub dscp: u8,
    /// How long TIME-WAIT lasts: 2 MSL (RFC 9293 MUST-13).
    pub time_wait: Duration,
    /// How long an orphan waits in FIN-WAIT-2 for the peer's FIN.
    pub fin_wait_2_max: Duration,
}

impl TcpConfig {
    /// Makes all the choices that the profile names; the others stay. `registry` must have its controller.
    ///
    /// # Errors
    /// [`UnknownController`] if it does not; then nothing changes.
    pub fn apply(&mut self, profile: &Profile, registry: &Registry) -> Result<(), UnknownController> {
        self.congestion = registry.find(profile.congestion)?;
        self.profile = profile.name;
        self.choices = profile.choices;
        Ok(())
    }

    /// The peer's data in the experiment that this end takes part in.
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
            choices: profile.choices,
            pacing_rate_max: None,
            experiment: None,
            trace: None,
            nodelay: false,
            keepalive: None,
            user_timeout: None,
            idle_timeout: None,
            mtu_probing: None,
            user_timeout_option: None,
            send_buffer_max: 4 << 20,
            receive_buffer_max: 6 << 20,
            receive_buffer_initial: 64 << 10,
            mss_max: None,
            ttl: 64,
            dscp: 0,
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

/// How a connection finds the path's MTU without ICMP (RFC 4821).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuProbing {
    /// The size in bytes of the IP packets sent when full ones do not get through, before the search: 1,024
    /// by default, at least 552 over IPv4 and 1,280 over IPv6.
    pub least: u16,
    /// How long after a search that ended below what the device carries the path is tried again: 10 minutes
    /// by default.
    pub raise_after: Duration,
}

impl Default for MtuProbing {
    fn default() -> Self {
        Self { least: 1024, raise_after: Duration::from_secs(600) }
    }
}

/// The effect that the option of RFC 5482 may have on a connection. The user timeout becomes the larger of
/// both ends' values, within `least` and `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserTimeoutOption {
    /// L_LIMIT: the peer cannot lower the timeout below this. 100 s by default (RFC 9293 SHLD-11).
    pub least: Duration,
    /// U_LIMIT: the peer cannot raise it above this, which is how long a peer may make this end keep a dead
    /// connection. An hour by default.
    pub most: Duration,
    /// CHANGEABLE: whether the peer's value counts. It no longer does once the application has set the
    /// timeout of the open connection.
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
    /// The addresses and the port to listen on.
    pub addr: ListenAddr,
    /// The most established connections waiting to be accepted.
    pub backlog: usize,
    /// The most half-open connections, at most a quarter of them from one source. Beyond it SYN cookies
    /// answer. With `deferred` the SYN is dropped, and one source may have as many as it leaves free.
    pub syn_backlog: usize,
    /// With `deferred`, the most SYNs waiting for a decision, among those of `syn_backlog`. Beyond it a SYN
    /// is dropped, and its client repeats it.
    pub decisions_max: usize,
    /// Whether each SYN waits for [`crate::Endpoint::decide`] before it is answered.
    pub deferred: bool,
    /// Whether the port may be one that connections of an earlier listener still use, including those in
    /// TIME-WAIT (the default: yes, as with tokio's listeners). Then no search for them is needed.
    pub reuse_address: bool,
    /// Whether up to 64 listeners that all set this may listen on the same address and port. Each has its own
    /// queues. A keyed hash of both ends' addresses and ports decides which one gets a SYN.
    pub reuse_port: bool,
    /// Fast Open (RFC 7413): the most connections opened by a SYN with a cookie whose handshake is not over;
    /// 0 (the default): no Fast Open. If such a SYN is duplicated on its way, the application may see its
    /// data twice, on two connections. No effect with `deferred`.
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

ackclock_form::form! {
    struct TcpConfig {
        profile as profile_name, congestion as factory, choices, pacing_rate_max, experiment, trace,
        nodelay, keepalive, user_timeout, idle_timeout, mtu_probing, user_timeout_option, send_buffer_max,
        receive_buffer_max, receive_buffer_initial, mss_max, ttl, dscp, time_wait, fin_wait_2_max
    }
    struct Keepalive { idle, interval, probes }
    struct MtuProbing { least, raise_after }
    struct UserTimeoutOption { least, most, changeable }
}

/// A profile's name. One that this version does not have is only a name: its choices are written besides.
pub(crate) mod profile_name {
    use ackclock_control::profile::Profile;
    use ackclock_form::{FormError, Reader, Writer};

    pub(crate) fn write(name: &str, out: &mut Writer) {
        out.text(name);
    }

    pub(crate) fn read(input: &mut Reader<'_>) -> Result<&'static str, FormError> {
        Ok(Profile::find(input.text()?).map_or("unknown", |profile| profile.name))
    }
}
