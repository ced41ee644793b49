//! [`StackBuilder`]: from a device and addresses to a running stack.

#[cfg(all(feature = "control", unix))]
mod control_socket;
#[cfg(feature = "dns")]
mod resolv_conf;
#[cfg(all(feature = "hand-over", target_os = "linux"))]
mod taken;

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ackclock_core::congestion::{ControllerFactory, Registry};
use ackclock_core::profile::Profile;
use ackclock_core::trace::{TraceConfig, TraceKeep};
use ackclock_core::{
    EndpointConfig, Limits, PathCacheConfig, PingPolicy, ReassemblyConfig, Shaping, TcpConfig,
};
use ackclock_device::{Capabilities, Device, Medium};
use ackclock_wire::Route;

use crate::build_error::{BuildError, check_address};
use crate::choices::{self, Choices, IntoController};
use crate::clock::{Clock, ShardClock, TokioClock};
use crate::driver::Driver;
use crate::shards::{Handle, Shards};
use crate::shared::Shared;
use crate::state::{Network, Settings, StackState, check_families};
use crate::{Cidr, Hosts, Port, Recording, RecordingError, Stack, recording, transmit};

#[cfg(all(feature = "hand-over", target_os = "linux"))]
pub(crate) use self::taken::Standing;

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
    /// The device's queues: one, unless it was opened with several.
    queues: Vec<Box<dyn Device>>,
    addresses: Vec<Cidr>,
    routes: Option<Vec<Route<Option<IpAddr>>>>,
    tcp: TcpConfig,
    choices: Choices,
    busy_poll: Duration,
    close_timeout: Duration,
    secret: Option<[u8; 32]>,
    epoch: Option<tokio::time::Instant>,
    adjust: Limited,
    recording: Option<Recording>,
    hosts: Hosts,
    #[cfg(all(feature = "control", unix))]
    control: Option<std::path::PathBuf>,
    #[cfg(feature = "dns")]
    names: crate::name_servers::Names,
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
    pings: PingPolicy,
    transparent: bool,
    port_unreachable: Option<bool>,
    reassembly: Option<ReassemblyConfig>,
    path_cache: Option<PathCacheConfig>,
    shaping: Option<Shaping>,
}
impl StackBuilder {
    pub(crate) fn new() -> Self {
        Self {
            queues: Vec::new(),
            addresses: Vec::new(),
            routes: None,
            tcp: TcpConfig::default(),
            choices: Choices::any(),
            busy_poll: Duration::ZERO,
            close_timeout: CLOSE_TIMEOUT,
            secret: None,
            epoch: None,
            adjust: Limited::default(),
            recording: None,
            hosts: Hosts::default(),
            #[cfg(all(feature = "control", unix))]
            control: None,
            #[cfg(feature = "dns")]
            names: crate::name_servers::Names::default(),
        }
    }

    /// Sets the device that carries the packets; it may be boxed. The stack owns it, and drops it when it
    /// closes.
    pub fn device(mut self, device: impl Device + 'static) -> Self {
        self.queues = vec![Box::new(device)];
        self
    }

    /// Gives the stack names, like `/etc/hosts`. It looks there before it asks its name servers. A stack with
    /// names never asks the host's resolver.
    ///
    /// ```
    /// # use ackclock::{Hosts, Stack, TcpListener, TcpStream};
    /// # use ackclock_device::memory;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (left, right) = memory::pair(memory::Config::default());
    /// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
    /// # let _listener = TcpListener::bind(&server, "10.0.0.2:80").await?;
    /// let hosts: Hosts = [("server", "10.0.0.2".parse()?)].into_iter().collect();
    /// let stack = Stack::builder().device(left).address("10.0.0.1/24".parse()?).hosts(hosts).spawn()?;
    /// let stream = TcpStream::connect(&stack, "server:80").await?;
    /// assert_eq!(stream.peer_addr()?, "10.0.0.2:80".parse()?);
    ///
    /// let error = TcpStream::connect(&stack, "sever:80").await.unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// # Ok(()) }
    /// ```
    pub fn hosts(mut self, hosts: Hosts) -> Self {
        self.hosts = hosts;
        self
    }

    /// Sets several queues of one device in place of [`device`](Self::device). Each queue is a device of its
    /// own. The stack drives each on its own task, so it can use that many processors. A connection stays on
    /// the queue on which its packets arrive. If a packet arrives on another queue, the stack hands it over
    /// and counts it ([`Stack::queue_counters`]).
    ///
    /// The queues divide the bounds on connections and on listeners, rounded up. They share the memory
    /// budget. The first queue handles everything that is not TCP. The stack opens connections on each queue
    /// in turn.
    ///
    /// ```
    /// use ackclock::Stack;
    /// use ackclock::device::memory;
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // In memory a queue is a cable; for a TUN device, `device::open_queues` opens several.
    /// let (cables, ends): (Vec<_>, Vec<_>) = (0..2).map(|_| memory::pair(memory::Config::default())).unzip();
    /// let server = Stack::builder().queues(cables).address("10.0.0.1/24".parse()?).spawn()?;
    /// let listener = server.listen("10.0.0.1:7".parse()?)?;
    ///
    /// // One client on each. They stay: a cut cable ends the stack, as the removal of a device does.
    /// let mut clients = Vec::new();
    /// for (number, end) in (2..).zip(ends) {
    ///     let client = Stack::builder().device(end).address(format!("10.0.0.{number}/24").parse()?).spawn()?;
    ///     let (stream, accepted) = tokio::join!(client.connect("10.0.0.1:7".parse()?), listener.accept());
    ///     accepted?.0.write_all(b"hello").await?;
    ///     let mut greeting = String::new();
    ///     stream?.read_to_string(&mut greeting).await?;
    ///     assert_eq!(greeting, "hello");
    ///     clients.push(client);
    /// }
    /// let accepted: Vec<u64> = server.queue_counters().iter().map(|counters| counters.opened_passively).collect();
    /// assert_eq!(accepted, [1, 1]);
    /// # Ok(()) }
    /// ```
    pub fn queues<D: Device + 'static>(mut self, queues: impl IntoIterator<Item = D>) -> Self {
        self.queues = queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Device>).collect();
        self
    }

    /// Adds a local address. With several, RFC 6724 §5 chooses the source of each connection opened. A stack
    /// without addresses can still accept connections to any.
    ///
    /// The kernel must not have the same address, or it answers too: on a TUN device with `10.0.0.1/24` the
    /// stack may be `10.0.0.2/24`.
    pub fn address(mut self, address: Cidr) -> Self {
        self.addresses.push(address);
        self
    }

    /// Adds a route. Without any, the device leads everywhere. With routes, connections are opened only to
    /// addresses that a route or a local address's prefix contains; to others they fail with
    /// [`io::ErrorKind::NetworkUnreachable`].
    pub fn route(mut self, destination: Cidr) -> Self {
        self.routes.get_or_insert_default().push(Route::new(destination, None));
        self
    }

    /// Adds a route with a source address, like `src` of `ip route`: connections to its destinations use this
    /// local address unless they or their socket name another. The longest matching prefix wins; elsewhere
    /// RFC 6724 §5 chooses the address.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the two are of different families.
    pub fn route_from(mut self, destination: Cidr, source: IpAddr) -> io::Result<Self> {
        check_families(destination, source)?;
        self.routes.get_or_insert_default().push(Route::new(destination, Some(source)));
        Ok(self)
    }

    /// Adds a route to a single host, as `ip addr add .. peer ..` does.
    pub fn peer(self, peer: IpAddr) -> Self {
        self.route(peer.into())
    }

    /// Returns the present settings of connections and listeners that name none of their own. Change them
    /// and pass them to [`tcp`](Self::tcp).
    #[must_use]
    pub fn config(&self) -> TcpConfig {
        self.tcp.clone()
    }

    /// Sets the configuration of connections and listeners that name none of their own. Start from
    /// [`config`](Self::config) after [`profile`](Self::profile): `TcpConfig`'s default does not include the
    /// profile.
    pub fn tcp(mut self, tcp: TcpConfig) -> Self {
        self.tcp = tcp;
        self
    }

    /// Sets the profile of those connections, by name (`"vegas-1995"`) or by value. Settings that the profile
    /// does not name stay. [`Profile::all`] has the names.
    ///
    /// # Errors
    /// No profile has the name, or no controller has the name in the profile; the error lists the valid ones.
    pub fn profile<P>(mut self, profile: P) -> io::Result<Self>
    where
        P: TryInto<Profile>,
        P::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.choices.apply(profile, &mut self.tcp)?;
        Ok(self)
    }

    /// Sets the congestion controller of those connections, by name or by value.
    ///
    /// # Errors
    /// No controller has this name; the error lists the valid ones.
    pub fn congestion_control(mut self, controller: impl IntoController) -> io::Result<Self> {
        self.tcp.congestion = self.choices.controller(controller)?;
        Ok(self)
    }

    /// Sets one choice of those connections by its key, as in `choose("initial-window", "3")`. The keys are
    /// the flags of tcpcat and those of [`CHOICES`](crate::profile::CHOICES).
    ///
    /// # Errors
    /// No choice has the key, or it does not take the value; the error lists what is valid.
    pub fn choose(mut self, key: &str, value: &str) -> io::Result<Self> {
        choices::choose(&mut self.tcp, key, value)?;
        Ok(self)
    }

    /// Traces those connections: see [`Stack::next_trace`].
    pub fn trace(mut self, trace: TraceConfig) -> Self {
        self.tcp.trace = Some(trace);
        self
    }

    /// Keeps the newest `records` trace records of each of those connections, 16 bytes each, and hands them
    /// over when the connection fails or stalls, or on request: see [`Stack::next_trace`].
    pub fn flight_recorder(self, records: usize) -> Self {
        self.trace(TraceConfig { records, keep: TraceKeep::Newest })
    }

    /// Registers a controller of your own. Its name then works on this stack wherever a built-in name does.
    ///
    /// # Errors
    /// A controller of this name is registered already.
    pub fn register(mut self, factory: Arc<dyn ControllerFactory>) -> io::Result<Self> {
        self.choices.registry.register(factory).map_err(choices::invalid)?;
        Ok(self)
    }

    /// Replaces the set of controllers to choose from by name (default: the built-in ones).
    pub fn registry(mut self, registry: Registry) -> Self {
        self.choices.registry = registry;
        self
    }

    /// The most bytes that the buffers of all connections may use together (default 1 GiB).
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.adjust.memory_budget = Some(bytes);
        self
    }

    /// The most connections at one time (default 1,048,576); several queues share it.
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.adjust.connections_max = Some(connections);
        self
    }

    /// The first and last port that `connect` chooses from (default 1,024 to 65,535, RFC 6056).
    pub fn ephemeral_ports(mut self, first: u16, last: u16) -> Self {
        self.adjust.ephemeral_ports = Some((first, last));
        self
    }

    /// Sets how late a timer may be (default 1 ms, the granularity of tokio's timers). Pacing releases bursts
    /// of that time at its rate, or of two segments. Use less for a [`detached`](Self::detached) stack whose
    /// time is exact.
    pub fn timer_granularity(mut self, granularity: Duration) -> Self {
        self.adjust.timer_granularity = Some(granularity);
        self
    }

    /// Whether IPv6 packets carry flow labels (RFC 6437; default `true`): one for each connection, and a new
    /// one after each of its timeouts. Where routers use the label to choose between several servers with one
    /// address, `false` keeps a connection on its server.
    pub fn flow_labels(mut self, wanted: bool) -> Self {
        self.adjust.flow_labels = Some(wanted);
        self
    }

    /// Passes arriving IP packets that are not the stack's own to the program, whole and with their metadata,
    /// and sends such packets: see [`Stack::other_packets`]. `capacity` packets wait in each direction
    /// (default 0: no such channel).
    #[doc(alias = "raw")]
    pub fn other_packets(mut self, capacity: usize) -> Self {
        self.adjust.other_packets = capacity;
        self
    }

    /// The most ICMP echo requests ("pings") to the stack's addresses answered per second (default 1,000; 0
    /// turns answers off). Every host must answer them: RFC 1122 §3.2.2.6, RFC 4443 §4.2.
    #[doc(alias = "icmp")]
    pub fn echo_replies(mut self, per_second: u32) -> Self {
        self.adjust.echo_replies = Some(per_second);
        self
    }

    /// Sets who answers pings to addresses that are not the stack's own. By default ([`PingPolicy::Own`])
    /// nothing does. With [`PingPolicy::Any`] the stack answers them like its own, even if no such host
    /// exists; with [`PingPolicy::Deferred`] the program answers, by [`Stack::pings`]. The rate of
    /// [`echo_replies`](Self::echo_replies) bounds all of them together. None is answered for a broadcast or
    /// multicast address.
    pub fn pings(mut self, policy: PingPolicy) -> Self {
        self.adjust.pings = policy;
        self
    }

    /// Whether sockets may use the addresses of other hosts as their local ones (default `false`; Linux's
    /// `IP_TRANSPARENT`). A transparent proxy connects to a server from its client's address: bind a
    /// [`socket`](Stack::socket) to it. Packets to that address must come back to the device, so the network
    /// behind it needs a route. Own addresses cannot be reached from another host's.
    ///
    /// ```
    /// # use ackclock::Stack;
    /// # use ackclock_device::memory;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (left, right) = memory::pair(memory::Config::default());
    /// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
    /// let proxy = Stack::builder().device(left).transparent(true).spawn()?;
    /// let listener = server.listen("10.0.0.2:80".parse()?)?;
    ///
    /// let socket = proxy.socket();
    /// socket.bind("198.51.100.7:4000".parse()?)?;
    /// let (stream, accepted) = tokio::join!(socket.connect("10.0.0.2:80".parse()?), listener.accept());
    /// assert_eq!(accepted?.1, "198.51.100.7:4000".parse()?);
    /// assert_eq!(stream?.local_addr()?, "198.51.100.7:4000".parse()?);
    /// # Ok(()) }
    /// ```
    pub fn transparent(mut self, wanted: bool) -> Self {
        self.adjust.transparent = wanted;
        self
    }

    /// Whether the stack answers a datagram for a UDP port without a socket by ICMP port unreachable (default
    /// `true`). It sends at most six at once and one a second to each peer, and 1,000 a second to all
    /// (RFC 1122 §4.1.3.1, RFC 4443 §3.1).
    pub fn port_unreachable(mut self, wanted: bool) -> Self {
        self.adjust.port_unreachable = Some(wanted);
        self
    }

    /// Reassembles fragmented packets within these bounds (default: fragments are dropped and counted). TCP
    /// does not need it, because a peer with path MTU discovery never fragments it. Datagrams longer than a
    /// packet do.
    pub fn reassembly(mut self, config: ReassemblyConfig) -> Self {
        self.adjust.reassembly = Some(config);
        self
    }

    /// Limits everything that the stack sends to one rate, in bytes of IP packets a second (default: as fast
    /// as the device takes it). While the rate holds packets back, connections take turns by bytes. Each gets
    /// an equal share, however large its segments are, and an idle connection goes first. Packets other than
    /// TCP's take every second turn. The stack makes a packet when it may leave, so nothing queues. With
    /// several queues each has an equal part of the rate, which others cannot use.
    ///
    /// To limit one connection, use [`TcpStream::set_max_pacing_rate`](crate::TcpStream).
    ///
    /// ```
    /// # use ackclock::{Shaping, Stack};
    /// # use ackclock_device::memory;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (device, _other_end) = memory::pair(memory::Config::default());
    /// // 20 Mbit/s, and 64 KiB at one time.
    /// let shaping = Shaping::new(20_000_000 / 8).burst(64 << 10);
    /// let stack = Stack::builder().device(device).address("10.0.0.1/24".parse()?).shaping(shaping).spawn()?;
    /// # drop(stack);
    /// # Ok(()) }
    /// ```
    pub fn shaping(mut self, shaping: Shaping) -> Self {
        self.adjust.shaping = Some(shaping);
        self
    }

    /// Remembers paths: a connection begins with the path MTU, the round-trip time and the end of slow start
    /// that earlier connections between the same two addresses found (default: each connection finds out for
    /// itself). It repeats a lost SYN sooner, sends no packet that is too large at first, and ends slow start
    /// before it overruns the path. [`Stack::known_paths`] lists the paths, and the trace of a connection
    /// says what it used. Each queue remembers its own connections.
    ///
    /// Leave it off if connections of several users leave from the same address. The beginning of a user's
    /// connection would show whether another user had spoken with that host, and how well that worked.
    ///
    /// ```
    /// use ackclock::{PathCacheConfig, Stack};
    /// # use ackclock_device::memory;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (left, right) = memory::pair(memory::Config::default());
    /// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
    /// # let listener = server.listen("10.0.0.2:80".parse()?)?;
    /// let cache = PathCacheConfig { paths_max: 256, ..PathCacheConfig::default() };
    /// let stack = Stack::builder().device(left).address("10.0.0.1/24".parse()?).path_cache(cache).spawn()?;
    /// let stream = stack.connect("10.0.0.2:80".parse()?).await?;
    /// stream.abort();
    /// # while stack.known_paths().is_empty() {
    /// #     tokio::task::yield_now().await;
    /// # }
    /// assert!(stack.known_paths()[0].srtt.is_some());
    /// # Ok(()) }
    /// ```
    pub fn path_cache(mut self, config: PathCacheConfig) -> Self {
        self.adjust.path_cache = Some(config);
        self
    }

    /// Sets how long the driver polls the device after the last packet before it sleeps (default zero). This
    /// trades a processor for latency. If polling finds nothing, the driver tries it less and less often,
    /// down to one time in 65. If another task needs the processor meanwhile, polling pauses for a hundred
    /// times as long. So it costs little where no processor is free or packets are rare.
    pub fn busy_poll(mut self, duration: Duration) -> Self {
        self.busy_poll = duration;
        self
    }

    /// Sets how long connections may take to finish after [`Stack::shutdown`], or after the last handle was
    /// dropped (default 10 s). Then the stack resets them and closes the device.
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.close_timeout = timeout;
        self
    }

    /// Fixes the secret behind sequence numbers, ports and cookies; by default it comes from the operating
    /// system. Use it for reproducible tests only: anyone who knows the seed can forge segments.
    pub fn seed(mut self, seed: u64) -> Self {
        let mut secret = [0; 32];
        for (index, byte) in secret.iter_mut().enumerate() {
            *byte = seed.to_le_bytes()[index % 8] ^ u8::try_from(index).unwrap_or(0);
        }
        self.secret = Some(secret);
        self
    }

    /// Sets time zero of the stack's clock (default: when it is spawned). Stacks that share it have
    /// comparable times in traces and packets. An epoch in the future counts as the present.
    pub fn epoch(mut self, epoch: tokio::time::Instant) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// Starts the stack on the current tokio runtime.
    ///
    /// # Errors
    /// See [`BuildError`].
    #[doc(alias = "build")]
    pub fn spawn(self) -> Result<Stack, BuildError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        self.spawn_on(&[runtime])
    }

    /// Starts the stack with each of its [`queues`](Self::queues) on a runtime of its own, for a program with
    /// one thread for each processor: the first queue on the first runtime, and so on, starting over if there
    /// are fewer runtimes. A queue's device belongs to the runtime in whose context it was opened. Accept a
    /// listener's connections on each runtime with [`accept_at`](crate::TcpListener::accept_at), so that no
    /// packet wakes another thread.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn); `runtimes` is empty.
    pub fn spawn_on(self, runtimes: &[tokio::runtime::Handle]) -> Result<Stack, BuildError> {
        if runtimes.is_empty() {
            return Err(BuildError::NoRuntime);
        }
        let busy_poll = self.busy_poll;
        #[cfg(all(feature = "control", unix))]
        let control = self.open_control(&runtimes[0])?;
        let (stack, shards) = self.assemble(runtimes)?;
        #[cfg(all(feature = "control", unix))]
        if let (Some(control), Some(first)) = (control, shards.refs().next()) {
            runtimes[0].spawn(control.serve(first));
        }
        for (shard, runtime) in shards.refs().zip(runtimes.iter().cycle()) {
            let _entered = runtime.enter();
            runtime.spawn(Driver::new(shard, busy_poll).run());
        }
        Ok(stack)
    }

    /// The stack, and the parts that its drivers drive, each by the clock of its runtime.
    pub(crate) fn assemble(
        mut self,
        runtimes: &[tokio::runtime::Handle],
    ) -> Result<(Stack, Arc<Shards>), BuildError> {
        let queues = std::mem::take(&mut self.queues);
        let capabilities: Vec<Capabilities> = queues.iter().map(|queue| queue.capabilities()).collect();
        if capabilities.iter().any(|capabilities| capabilities.medium != Medium::Ip) {
            return Err(BuildError::LinkLayer);
        }
        let epoch = self.epoch;
        let clocks = runtimes.iter().cycle().map(|runtime| TokioClock::new(runtime.clone(), epoch));
        let places = queues.into_iter().zip(capabilities).zip(clocks);
        let places = places.map(|((device, capabilities), clock)| Place {
            device: Some(device),
            capabilities,
            clock: ShardClock::Runtime(clock),
        });
        let shards = self.shards(places.collect())?;
        let first = shards.refs().next().ok_or(BuildError::NoDevice)?;
        Ok((Stack::new(Handle::new(first)), shards))
    }

    /// Makes a stack without a device, runtime or clock of its own: the owner of the [`Port`] moves its
    /// packets and its time. `mtu` is the largest IP packet in bytes.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn detached(self, clock: impl Clock + 'static, mtu: usize) -> Result<(Stack, Port), BuildError> {
        let clock = ShardClock::Port(Arc::new(clock));
        let shards = self.shards(vec![Place { device: None, capabilities: Capabilities::ip(mtu), clock }])?;
        let only = shards.refs().next().ok_or(BuildError::NoDevice)?;
        Ok((Stack::new(Handle::new(only.clone())), Port::new(only)))
    }

    /// Records every call of the stack's endpoint (packets, calls, times and the secret of its random
    /// choices) to a new file, from which [`ackclock_journal::Replay`] and `tcplab replay` make the
    /// same packets and traces again. Its mode is 0600: it shows who spoke with whom, when and how much, and
    /// datagrams whole, but not what TCP carried. Any process that reads it while the stack runs can forge
    /// its segments.
    ///
    /// The driver writes before it sleeps, and whenever 64 KiB have come together; a program that is killed
    /// loses at most that. The driver's thread writes to files; a separate thread writes to a pipe or a
    /// terminal. A disk that is full, the limit, or a pipe whose reader is too slow ends the recording, not
    /// the stack: see [`Stack::recording`] and [`Warnings`](crate::Warnings).
    ///
    /// ```
    /// use ackclock::journal::{Changes, Replay};
    /// use ackclock::{Recording, Stack};
    /// # use ackclock_device::memory;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (device, _other_end) = memory::pair(memory::Config::default());
    /// # let path = std::env::temp_dir().join(format!("ackclock-recording-{}", std::process::id()));
    /// let recording = Recording::new(&path).limit(1 << 20);
    /// let stack = Stack::builder().device(device).address("10.0.0.1/24".parse()?).record(recording).spawn()?;
    /// stack.listen("10.0.0.1:7".parse()?)?;
    /// stack.shutdown().await;
    ///
    /// let file = std::fs::File::open(&path)?;
    /// let mut replay = Replay::open(file, &Default::default(), Changes::default())?;
    /// while replay.step(|_, _| ())?.is_some() {}
    /// assert_eq!(replay.departures(), 0);
    /// # std::fs::remove_file(&path)?;
    /// # Ok(()) }
    /// ```
    pub fn record(mut self, recording: impl Into<Recording>) -> Self {
        self.recording = Some(recording.into());
        self
    }

    /// One shard for each place.
    fn shards(mut self, places: Vec<Place>) -> Result<Arc<Shards>, BuildError> {
        if places.len() > QUEUES_MAX {
            return Err(BuildError::TooManyQueues { queues: places.len(), max: QUEUES_MAX });
        }
        let mut recording = self.recording.take();
        if recording.is_some() && places.len() > 1 {
            return Err(RecordingError::Queues.into());
        }
        let simulated = places.iter().all(|place| place.device.is_none());
        let choices = Choices { simulated, ..self.choices.clone() };
        choices.check(&*self.tcp.congestion)?;
        let configs = self.endpoint_config()?.split(places.len());
        let mut list = Vec::with_capacity(places.len());
        for (config, Place { device, capabilities, clock }) in configs.into_iter().zip(places) {
            let config = EndpointConfig { mtu: capabilities.mtu, ..config };
            let links = device.as_ref().map(|device| device.routes()).unwrap_or_default();
            let settings = Settings {
                tcp: self.tcp.clone(),
                choices: choices.clone(),
                network: Network::new(self.addresses.clone(), self.routes.clone(), capabilities.mtu, links),
                close_timeout: self.close_timeout,
                others: self.adjust.other_packets > 0 && list.is_empty(),
                pings: self.adjust.pings == PingPolicy::Deferred && list.is_empty(),
                hosts: self.hosts.clone(),
                #[cfg(feature = "dns")]
                names: self.names.clone(),
            };
            let limits: Limits = transmit::limits(&capabilities);
            let (endpoint, backlog) = recording::endpoint(config, clock.now(), recording.take(), simulated)?;
            let mut state = StackState::new(endpoint, limits, settings);
            state.recording = backlog;
            list.push(Shared::new(clock, state, device));
        }
        Ok(Shards::new(
            list,
            #[cfg(feature = "dns")]
            crate::hickory::name_lookup,
        ))
    }

    fn endpoint_config(&self) -> Result<EndpointConfig, BuildError> {
        let mut config = EndpointConfig::new(self.own_addresses()?, self.secret()?);
        config.tcp = self.tcp.clone().into();
        let Limited {
            memory_budget,
            connections_max,
            ephemeral_ports,
            timer_granularity,
            flow_labels,
            other_packets,
            echo_replies,
            pings,
            transparent,
            port_unreachable,
            reassembly,
            path_cache,
            shaping,
        } = self.adjust;
        config.tell_changes = cfg!(feature = "tracing");
        config.reassembly = reassembly.map(Box::new);
        config.path_cache = path_cache.map(Box::new);
        config.shaping = shaping;
        config.port_unreachable = port_unreachable.unwrap_or(config.port_unreachable);
        config.other_packets = other_packets;
        config.pings = pings;
        config.transparent = transparent;
        config.echo_replies_per_second = echo_replies.unwrap_or(config.echo_replies_per_second);
        config.memory_budget = memory_budget.unwrap_or(config.memory_budget);
        config.connections_max = connections_max.unwrap_or(config.connections_max);
        config.ephemeral_ports = ephemeral_ports.unwrap_or(config.ephemeral_ports);
        config.timer_granularity = timer_granularity.unwrap_or(config.timer_granularity);
        config.flow_labels = flow_labels.unwrap_or(config.flow_labels);
        Ok(config)
    }

    fn own_addresses(&self) -> Result<Vec<IpAddr>, BuildError> {
        self.addresses.iter().map(check_address).collect()
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

/// The parts of a shard.
struct Place {
    /// `None`: the owner of a [`Port`] moves the packets.
    device: Option<Box<dyn Device>>,
    capabilities: Capabilities,
    clock: ShardClock,
}

const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Linux's limit for an interface.
const QUEUES_MAX: usize = 256;
