//! [`StackBuilder`]: from a device and addresses to a running stack.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ackclock_core::congestion::{ControllerFactory, Registry};
use ackclock_core::profile::Profile;
use ackclock_core::trace::{TraceConfig, TraceKeep};
use ackclock_core::{Endpoint, EndpointConfig, Limits, ReassemblyConfig, TcpConfig};
use ackclock_device::{Capabilities, Device, Medium};

use crate::choices::{self, Choices, IntoController, SimulatedOnly};
use crate::clock::{Clock, TokioClock};
use crate::driver::{self, Driver};
use crate::network::{self, Network, Route};
use crate::shared::{Handle, Shared};
use crate::state::{Settings, State};
use crate::{Cidr, Port, Stack};

/// Builds a [`Stack`].
///
/// ```
/// use ackclock::Stack;
/// use ackclock_device::memory;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (device, _other_end) = memory::pair(memory::Config::default());
/// let stack = Stack::builder()
///     .device(device)
///     .address("10.0.0.1/24".parse()?)
///     .address("fd00::1/64".parse()?)
///     .profile("newreno-1999")?
///     .congestion_control("reno")?
///     .memory_budget(64 << 20)
///     .spawn()?;
/// assert_eq!(stack.info().addresses.len(), 2);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing runs before `spawn`"]
pub struct StackBuilder {
    device: Option<Box<dyn Device>>,
    addresses: Vec<Cidr>,
    routes: Option<Vec<Route>>,
    tcp: TcpConfig,
    choices: Choices,
    busy_poll: Duration,
    close_timeout: Duration,
    secret: Option<[u8; 32]>,
    epoch: Option<tokio::time::Instant>,
    adjust: Limited,
}

/// Bounds that differ from [`EndpointConfig`]'s defaults.
#[derive(Clone, Copy, Debug, Default)]
struct Limited {
    memory_budget: Option<usize>,
    connections_max: Option<usize>,
    ephemeral_ports: Option<(u16, u16)>,
    timer_granularity: Option<Duration>,
    flow_labels: Option<bool>,
    other_packets: usize,
    echo_replies: Option<u32>,
    port_unreachable: Option<bool>,
    reassembly: Option<ReassemblyConfig>,
}

/// Why a stack could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No device was given.
    #[error("a stack needs a device: call `device`, or `detached` to drive it yourself")]
    NoDevice,
    /// The device carries frames with a link-layer header.
    #[error(
        "the device carries link-layer frames; a stack needs one that carries IP packets, as a TUN device does"
    )]
    LinkLayer,
    /// Not called within a tokio runtime.
    #[error(
        "no tokio runtime here: call `spawn` from a task, with the runtime's time and io drivers enabled"
    )]
    NoRuntime,
    /// An address that no host can have.
    #[error("{0} cannot be a host's address: it is unspecified, multicast or broadcast")]
    BadAddress(IpAddr),
    /// The connections would have no congestion control.
    #[error(transparent)]
    SimulatedOnly(#[from] SimulatedOnly),
    /// The operating system gave no random numbers.
    #[error("the operating system gave no random numbers for the stack's secret: {0}")]
    NoRandomness(io::Error),
}

impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}

impl StackBuilder {
    pub(crate) fn new() -> Self {
        Self {
            device: None,
            addresses: Vec::new(),
            routes: None,
            tcp: TcpConfig::default(),
            choices: Choices::any(),
            busy_poll: Duration::ZERO,
            close_timeout: CLOSE_TIMEOUT,
            secret: None,
            epoch: None,
            adjust: Limited::default(),
        }
    }

    /// The device that packets come from and go to; a boxed one will do. The stack owns it, and drops it when
    /// it closes.
    pub fn device(mut self, device: impl Device + 'static) -> Self {
        self.device = Some(Box::new(device));
        self
    }

    /// Adds a local address. Where there are several, RFC 6724 §5 says from which a connection is opened. A stack without
    /// addresses can still accept connections to any.
    ///
    /// The address must not be one that the kernel has, or the kernel answers too: on a TUN device with
    /// `10.0.0.1/24` the stack may be `10.0.0.2/24`.
    pub fn address(mut self, address: Cidr) -> Self {
        self.addresses.push(address);
        self
    }

    /// Adds a route. Without any, the device leads everywhere. With routes, connections are opened only to
    /// addresses that a route or a local address's prefix contains; to others they fail with
    /// [`io::ErrorKind::NetworkUnreachable`].
    pub fn route(mut self, destination: Cidr) -> Self {
        self.routes.get_or_insert_default().push(Route { destination, source: None });
        self
    }

    /// Adds a route whose destinations are reached from this local address, unless a connection or socket names another:
    /// what `src` is to `ip route`. Of several such routes the one with the longest prefix counts; to all else leads the
    /// address that RFC 6724 §5 chooses.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the two are of different families.
    pub fn route_from(mut self, destination: Cidr, source: IpAddr) -> io::Result<Self> {
        network::check_families(destination, source)?;
        self.routes.get_or_insert_default().push(Route { destination, source: Some(source) });
        Ok(self)
    }

    /// Adds a route to a single host, as `ip addr add .. peer ..` does.
    pub fn peer(self, peer: IpAddr) -> Self {
        self.route(peer.into())
    }

    /// The settings so far of connections and listeners that name none of their own, to be changed and given to
    /// [`tcp`](Self::tcp).
    #[must_use]
    pub fn config(&self) -> TcpConfig {
        self.tcp.clone()
    }

    /// Settings of connections and listeners that name none of their own. Begin with [`config`](Self::config) after
    /// [`profile`](Self::profile): the default knows nothing of it.
    pub fn tcp(mut self, tcp: TcpConfig) -> Self {
        self.tcp = tcp;
        self
    }

    /// Makes all the choices of a profile for those connections, by name (`"vegas-1995"`) or by value; the other
    /// settings stay. The names of profiles are in [`Profile::all`].
    ///
    /// # Errors
    /// No profile has the name, or no controller is called what the profile says; the error lists those that there are.
    pub fn profile<P>(mut self, profile: P) -> io::Result<Self>
    where
        P: TryInto<Profile>,
        P::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.choices.apply(profile, &mut self.tcp)?;
        Ok(self)
    }

    /// The congestion controller of those connections, by name or by value.
    ///
    /// # Errors
    /// No controller has this name; the error lists those that there are.
    pub fn congestion_control(mut self, controller: impl IntoController) -> io::Result<Self> {
        self.tcp.congestion = self.choices.controller(controller)?;
        Ok(self)
    }

    /// Traces those connections: see [`Stack::next_trace`].
    pub fn trace(mut self, trace: TraceConfig) -> Self {
        self.tcp.trace = Some(trace);
        self
    }

    /// Keeps the newest `records` records of each of those connections, 16 bytes each, and has them given out when it fails,
    /// stalls or on request: see [`Stack::next_trace`].
    pub fn flight_recorder(self, records: usize) -> Self {
        self.trace(TraceConfig { records, keep: TraceKeep::Newest })
    }

    /// Registers a controller of your own, so that its name can be chosen on this stack wherever a built-in one's can.
    ///
    /// # Errors
    /// A controller of this name is registered already.
    pub fn register(mut self, factory: Arc<dyn ControllerFactory>) -> io::Result<Self> {
        self.choices.registry.register(factory).map_err(choices::invalid)?;
        Ok(self)
    }

    /// Replaces the controllers that can be chosen by name, the built-in ones unless this is called.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.choices.registry = registry;
        self
    }

    /// The most bytes that all buffers of all connections take together (default 1 GiB).
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.adjust.memory_budget = Some(bytes);
        self
    }

    /// The most connections at one time (default 1,048,576).
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.adjust.connections_max = Some(connections);
        self
    }

    /// First and last of the ports that `connect` chooses from (default 1,024 to 65,535, RFC 6056).
    pub fn ephemeral_ports(mut self, first: u16, last: u16) -> Self {
        self.adjust.ephemeral_ports = Some((first, last));
        self
    }

    /// How late a deadline may be met (default 1 ms, as tokio's timers count): what pacing lets go at one time is what the
    /// rate makes of it, or two segments. Less is for a [`detached`](Self::detached) stack whose time is exact.
    pub fn timer_granularity(mut self, granularity: Duration) -> Self {
        self.adjust.timer_granularity = Some(granularity);
        self
    }

    /// Whether IPv6 packets carry flow labels (RFC 6437; default `true`): one for each connection, and another after each
    /// of its timeouts. Where routers choose by the label between several servers of one address, `false` keeps a
    /// connection at its own.
    pub fn flow_labels(mut self, wanted: bool) -> Self {
        self.adjust.flow_labels = Some(wanted);
        self
    }

    /// Gives out what arrives and is not the stack's own, whole IP packets with their meta, and takes such to be sent: see
    /// [`Stack::other_packets`]. `capacity` packets wait each way (default 0: there is no such channel).
    pub fn other_packets(mut self, capacity: usize) -> Self {
        self.adjust.other_packets = capacity;
        self
    }

    /// The most ICMP echo requests ("pings") to the stack's addresses that are answered in a second (default 1,000; 0 turns
    /// it off). Every host answers them: RFC 1122 §3.2.2.6, RFC 4443 §4.2.
    pub fn echo_replies(mut self, per_second: u32) -> Self {
        self.adjust.echo_replies = Some(per_second);
        self
    }

    /// Whether a datagram for a UDP port to which nothing is bound is answered by ICMP port unreachable (default `true`): at
    /// most six at once and one a second for each peer, and 1,000 a second for all (RFC 1122 §4.1.3.1, RFC 4443 §3.1).
    pub fn port_unreachable(mut self, wanted: bool) -> Self {
        self.adjust.port_unreachable = Some(wanted);
        self
    }

    /// Puts fragmented packets together, within these bounds (default: fragments are dropped and counted). TCP needs none of
    /// it, as it is never fragmented by a peer with path MTU discovery; datagrams that are longer than a packet do.
    pub fn reassembly(mut self, config: ReassemblyConfig) -> Self {
        self.adjust.reassembly = Some(config);
        self
    }

    /// For how long after the last packet the driver asks the device again and again instead of sleeping (default
    /// zero). Trades a processor for latency. Where asking brings nothing in that time it is tried more and more rarely, one
    /// time in 65 at last, and when something else needs the processor meanwhile it rests for a hundred times as long: where
    /// no processor is free, or packets come seldom, little is lost.
    pub fn busy_poll(mut self, duration: Duration) -> Self {
        self.busy_poll = duration;
        self
    }

    /// How long connections may take to finish after [`Stack::shutdown`], or after the last handle was dropped, before
    /// they are reset and the device is closed (default 10 s).
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.close_timeout = timeout;
        self
    }

    /// Fixes the secret from which sequence numbers, ports and cookies are derived, which otherwise comes from the
    /// operating system. For reproducible tests only: who knows the seed can forge segments.
    pub fn seed(mut self, seed: u64) -> Self {
        let mut secret = [0; 32];
        for (index, byte) in secret.iter_mut().enumerate() {
            *byte = seed.to_le_bytes()[index % 8] ^ u8::try_from(index).unwrap_or(0);
        }
        self.secret = Some(secret);
        self
    }

    /// Time zero of the stack's clock (default: when it is spawned). Of stacks that have it in common the times of traces
    /// and packets can be compared.
    pub fn epoch(mut self, epoch: tokio::time::Instant) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// Starts the stack on the present tokio runtime.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn spawn(mut self) -> Result<Stack, BuildError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        let device = self.device.take().ok_or(BuildError::NoDevice)?;
        let capabilities = device.capabilities();
        if capabilities.medium != Medium::Ip {
            return Err(BuildError::LinkLayer);
        }
        let clock = TokioClock::new(self.epoch.unwrap_or_else(tokio::time::Instant::now));
        let busy_poll = self.busy_poll;
        let shared = self.share(Box::new(clock), &capabilities, Some(device))?;
        let stack = Stack::new(Handle::new(Arc::clone(&shared)));
        runtime.spawn(Driver::new(shared, clock, busy_poll).run());
        Ok(stack)
    }

    /// Makes a stack without a device, a runtime or a clock of its own: whoever holds the [`Port`] moves its packets and
    /// its time. `mtu` is the largest IP packet in bytes.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn detached(self, clock: impl Clock + 'static, mtu: usize) -> Result<(Stack, Port), BuildError> {
        let shared = self.share(Box::new(clock), &Capabilities::ip(mtu), None)?;
        Ok((Stack::new(Handle::new(Arc::clone(&shared))), Port::new(shared)))
    }

    fn share(
        self,
        clock: Box<dyn Clock>,
        capabilities: &Capabilities,
        device: Option<Box<dyn Device>>,
    ) -> Result<Arc<Shared>, BuildError> {
        let choices = Choices { simulated: device.is_none(), ..self.choices.clone() };
        choices.check(&*self.tcp.congestion)?;
        let endpoint = Endpoint::new(self.endpoint_config(capabilities.mtu)?, clock.now());
        let limits: Limits = driver::limits(capabilities);
        let links = device.as_ref().map(|device| device.routes()).unwrap_or_default();
        let settings = Settings {
            tcp: self.tcp,
            choices,
            network: Network::new(self.addresses, self.routes, capabilities.mtu, links),
            close_timeout: self.close_timeout,
            others: self.adjust.other_packets > 0,
        };
        Ok(Shared::new(clock, State::new(endpoint, limits, settings), device))
    }

    fn endpoint_config(&self, mtu: usize) -> Result<EndpointConfig, BuildError> {
        let mut config = EndpointConfig::new(self.hosts()?, self.secret()?);
        config.mtu = mtu;
        config.tcp = self.tcp.clone().into();
        let Limited {
            memory_budget,
            connections_max,
            ephemeral_ports,
            timer_granularity,
            flow_labels,
            other_packets,
            echo_replies,
            port_unreachable,
            reassembly,
        } = self.adjust;
        config.reassembly = reassembly.map(Box::new);
        config.port_unreachable = port_unreachable.unwrap_or(config.port_unreachable);
        config.other_packets = other_packets;
        config.echo_replies_per_second = echo_replies.unwrap_or(config.echo_replies_per_second);
        config.memory_budget = memory_budget.unwrap_or(config.memory_budget);
        config.connections_max = connections_max.unwrap_or(config.connections_max);
        config.ephemeral_ports = ephemeral_ports.unwrap_or(config.ephemeral_ports);
        config.timer_granularity = timer_granularity.unwrap_or(config.timer_granularity);
        config.flow_labels = flow_labels.unwrap_or(config.flow_labels);
        Ok(config)
    }

    fn hosts(&self) -> Result<Vec<IpAddr>, BuildError> {
        self.addresses.iter().map(network::check_address).collect()
    }

    fn secret(&self) -> Result<[u8; 32], BuildError> {
        if let Some(secret) = self.secret {
            return Ok(secret);
        }
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| BuildError::NoRandomness(io::Error::other(error)))?;
        Ok(secret)
    }
}

const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
