//! Async code on simulated hosts: the socket API of `ackclock`, and tokio's tasks and timers, in virtual
//! time.
//!
//! A [`VirtualNetwork`] is a simulation in which some hosts hold a real [`ackclock::Stack`], together with a
//! single-threaded tokio runtime whose clock only the simulation moves. Time stands still while any task can
//! run. When none can, the next thing happens, whichever comes first: an event of the network, at its
//! nanosecond, or a tokio timer, at its millisecond.
//!
//! | question | file |
//! |---|---|
//! | How does a stack connect to the network? | `line.rs`; a device, in real time, `attached.rs` |
//! | How is it known that no task can run, and what is the time? | `pulse.rs` |
//! | What happens next, and how far may time go? | `turn.rs`; in real time, `real.rs` |
//! | How do the program's hosts start, crash and start again? | `stage.rs` |
//! | What can a test do to its network? | `faults.rs` |
//! | How does a program find a host by DNS? | `name_server.rs` |
//! | How does a test run on many seeds? | `seeds.rs` |

#[cfg(feature = "real-time")]
mod attached;
mod faults;
mod line;
#[cfg(feature = "dns")]
mod name_server;
mod pulse;
#[cfg(feature = "real-time")]
mod real;
mod seeds;
mod stage;
mod turn;

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use ackclock::{BuildError, Clock, Stack, StackBuilder};
use ackclock_control::congestion::Registry;
use ackclock_core::Instant;
use tokio::runtime::Runtime;

use crate::app::App;
use crate::guest::GuestError;
use crate::observe::Observer;
use crate::report::Report;
use crate::scenario::{Problem, Scenario, unknown};
use crate::simulation::Simulation;
use crate::world::Gateway;
pub use faults::Faults;
use pulse::Pulse;
#[cfg(feature = "real-time")]
pub use real::Lateness;
pub use seeds::seeds;
use stage::{Adjust, Play, Program, Stage};
use turn::Turn;

/// A simulated network for unmodified async code. Its hosts provide [`Stack`]s, with the same listeners and
/// streams that a program uses on a device, and [`Self::run`] runs the program.
///
/// ```
/// use std::time::Duration;
///
/// use ackclock_sim::units::{Rate, Share, Span};
/// use ackclock_sim::{Direction, Scenario, VirtualNetwork};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let path = Direction::new(Rate::mbit(10), Span::millis(20)).buffers(50);
/// let scenario = Scenario::new(Span::seconds(7200)).seed(1).host("a").host("b").link("a", "b", path);
/// let mut net = VirtualNetwork::new(&scenario)?;
/// let (client, server) = (net.stack("a")?, net.stack("b")?);
///
/// let addr = (server.info().addresses[0].addr(), 7).into();
/// let echoed = net.run(async move {
///     let listener = server.listen(addr)?;
///     tokio::spawn(async move {
///         let (mut stream, _) = listener.accept().await?;
///         let (mut reader, mut writer) = stream.split();
///         tokio::io::copy(&mut reader, &mut writer).await
///     });
///     let mut stream = client.connect(addr).await?;
///     tokio::time::sleep(Duration::from_secs(3600)).await;
///     stream.write_all(b"an hour later").await?;
///     stream.shutdown().await?;
///     let mut echoed = String::new();
///     stream.read_to_string(&mut echoed).await?;
///     std::io::Result::Ok(echoed)
/// })??;
/// assert_eq!(echoed, "an hour later");
/// // A round trip for the handshake, an hour to the whole millisecond, a round trip for the echo.
/// assert_eq!(net.now().as_millis(), 3_600_000 + 41 + 40);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Time
///
/// `tokio::time` is virtual within `run`: tokio's `sleep`, `timeout`, `interval` and `Instant::now`, but not
/// those of `std`. Tokio's timers end at whole milliseconds, as everywhere; packets and TCP's timers are
/// exact to the nanosecond. At the same instant, tokio's timers come first. Data that a task writes leaves at
/// once, as from a real stack, so small writes show the effects of Nagle's algorithm and delayed
/// acknowledgements.
///
/// # What is reproducible
///
/// With the same scenario, seed and program, a network gives the same packets at the same nanoseconds, in
/// every build, as long as the program uses nothing from outside:
///
/// - `tokio::select!` without `biased;` polls its branches in an order that tokio draws at random. The seed
///   can be set only if the program is built with `--cfg tokio_unstable`; it then comes from the scenario's
///   seed. The order matters only if two branches become ready at the same instant.
/// - Threads (`spawn_blocking`, `tokio::fs`, `block_in_place`) run in real time. Virtual time does not jump
///   meanwhile, though events of the present millisecond happen.
/// - The program itself must control the clock of `std`, random numbers, and the order of `std`'s hash
///   tables. An HTTP server's `Date` header, for example, holds the real date.
/// - A program must not call `tokio::time::{pause, resume, advance}`.
///
/// There is no I/O driver: sockets of `tokio::net` and signals panic, as in any runtime without one.
///
/// # Many seeds
///
/// One seed is one history. [`seeds`] runs a test on as many as you like and reports the first that fails.
///
/// # Background traffic
///
/// The scenario's traffic runs on other hosts, and all links, queues and changes are as in a [`Simulation`].
/// Packets are always carried whole (`full_packets`).
///
/// # In real time
///
/// With the feature `real-time`, [`Self::in_real_time`] makes the same network for the wall clock: a program
/// may then use the system's sockets beside those of its stacks, and connect other programs through the
/// network.
#[derive(Debug)]
pub struct VirtualNetwork {
    // Dropped first, because dropping its tasks still uses their stacks.
    runtime: Runtime,
    simulation: Simulation,
    stage: Stage,
    pulse: Arc<Pulse>,
    /// Keeps step with the wall clock, in a network in real time.
    #[cfg(feature = "real-time")]
    pacer: Option<real::Pacer>,
}

/// Why a virtual network, or a stack on it, could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostedError {
    /// The scenario cannot be run.
    #[error(transparent)]
    Scenario(#[from] Problem),
    /// The host cannot have a stack.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// The stack refuses a setting.
    #[error("the settings of the stack on `{host}`: {error}")]
    Settings {
        /// The host.
        host: String,
        /// The builder's error.
        error: io::Error,
    },
    /// The stack could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Tokio could not make a runtime.
    #[error("tokio could not make a runtime: {0}")]
    Runtime(io::Error),
    /// A runtime cannot be made or dropped within another.
    #[error(
        "a virtual network has a tokio runtime of its own: make it outside of any other, in a plain \
         `#[test]` or `main` without `#[tokio::test]` or `#[tokio::main]`"
    )]
    WithinRuntime,
}

/// Why [`VirtualNetwork::run`] has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Nothing can happen any more.
    #[error(
        "the program waits for something that will never happen: it was last woken, or one of its stacks \
         last called or reached, at {}; no packet is under way, no timer of a stack is set, and none of \
         tokio's did anything before the scenario's end at {}. If it is a long sleep that it waits for, give \
         the scenario a longer `duration`",
        seconds(*since), seconds(*end)
    )]
    Stalled {
        /// When the program was last woken, or one of its stacks called or reached.
        since: Instant,
        /// When the scenario ends.
        end: Instant,
    },
    /// The scenario has ended.
    #[error(
        "the program had not finished when the scenario ended at {}: give it a longer `duration`, unless the \
         program waits for ever; it was last woken, or one of its stacks last called or reached, at {}",
        seconds(*end), seconds(*since)
    )]
    OutOfTime {
        /// When the program was last woken, or one of its stacks called or reached.
        since: Instant,
        /// When the scenario ends.
        end: Instant,
    },
    /// The program has moved tokio's clock.
    #[error(
        "tokio's clock stands at {}, beyond an event of the network at {}: a program on a virtual network \
         must not call `tokio::time::advance`, `pause` or `resume`",
        seconds(*clock), seconds(*event)
    )]
    ClockMoved {
        /// The time on tokio's clock.
        clock: Instant,
        /// The event that should have happened first.
        event: Instant,
    },
}

impl VirtualNetwork {
    /// Makes the network of a scenario. It carries packets whole, whatever the scenario says.
    ///
    /// # Errors
    /// The scenario cannot be run, or a tokio runtime exists here already.
    pub fn new(scenario: &Scenario) -> Result<Self, HostedError> {
        Self::with_registry(scenario, &Registry::with_experiments())
    }

    /// Makes the network of a scenario, with controllers from `registry`, which may include the caller's.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_registry(scenario: &Scenario, registry: &Registry) -> Result<Self, HostedError> {
        let pulse = Arc::new(Pulse::default());
        Self::moved_by(pulse, scenario, registry, |pulse| pulse::runtime(pulse, scenario.seed))
    }

    /// Makes the network of a scenario for real time: its clock is the wall clock, from the first call of
    /// [`run`](Self::run) on, and its program may use tokio's sockets. Whether the machine kept up is in
    /// [`lateness`](Self::lateness).
    ///
    /// A run in real time is not reproducible: when bytes arrive from outside, and how late each event is, is
    /// up to the machine. Losses and delays follow the scenario's seed packet by packet.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// use ackclock_sim::units::{Rate, Span};
    /// use ackclock_sim::{Direction, Scenario, VirtualNetwork};
    ///
    /// let path = Direction::new(Rate::mbit(10), Span::millis(20));
    /// let scenario = Scenario::new(Span::seconds(60)).host("a").host("b").link("a", "b", path);
    /// let mut net = VirtualNetwork::in_real_time(&scenario)?;
    /// let (client, server) = (net.stack("a")?, net.stack("b")?);
    /// let addr = (server.info().addresses[0].addr(), 7).into();
    ///
    /// let begun = Instant::now();
    /// net.run(async move {
    ///     let listener = server.listen(addr)?;
    ///     client.connect(addr).await?;
    ///     listener.accept().await
    /// })??;
    /// assert!(begun.elapsed() >= Duration::from_millis(60));
    /// println!("{}", net.lateness().expect("in real time"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::new`]; or the system refuses a thread.
    #[cfg(feature = "real-time")]
    pub fn in_real_time(scenario: &Scenario) -> Result<Self, HostedError> {
        let (pulse, registry) = (Arc::new(Pulse::real()), Registry::with_experiments());
        let mut net = Self::moved_by(pulse, scenario, &registry, |pulse| pulse::real_runtime(pulse))?;
        net.pacer = Some(real::Pacer::new().map_err(HostedError::Runtime)?);
        Ok(net)
    }

    fn moved_by(
        pulse: Arc<Pulse>,
        scenario: &Scenario,
        registry: &Registry,
        runtime: impl FnOnce(&Arc<Pulse>) -> io::Result<Runtime>,
    ) -> Result<Self, HostedError> {
        if tokio::runtime::Handle::try_current().is_ok() {
            return Err(HostedError::WithinRuntime);
        }
        let scenario = Scenario { full_packets: true, ..scenario.clone() };
        let simulation = Simulation::with_registry(&scenario, registry)?;
        let runtime = runtime(&pulse).map_err(HostedError::Runtime)?;
        let stage = Stage::new(scenario, registry.clone(), Arc::clone(&pulse));
        Ok(Self {
            runtime,
            simulation,
            stage,
            pulse,
            #[cfg(feature = "real-time")]
            pacer: None,
        })
    }

    /// The stack of a host, with the scenario's settings and the host's address. It closes when its last
    /// handle is dropped, as any stack does.
    ///
    /// # Errors
    /// The host does not exist, has its stack already, or runs traffic of the scenario.
    #[doc(alias = "host")]
    pub fn stack(&mut self, host: &str) -> Result<Stack, HostedError> {
        self.stack_with(host, Ok)
    }

    /// The stack of a host, with settings that `adjust` lays over the scenario's.
    ///
    /// # Errors
    /// As [`Self::stack`]; or `adjust` fails.
    ///
    /// ```
    /// use ackclock_sim::units::{Rate, Span};
    /// use ackclock_sim::{Direction, Scenario, VirtualNetwork};
    ///
    /// let link = Direction::new(Rate::mbit(1), Span::millis(5));
    /// let scenario = Scenario::new(Span::seconds(1)).host("a").host("b").link("a", "b", link);
    /// let mut net = VirtualNetwork::new(&scenario)?;
    /// let stack = net.stack_with("a", |builder| builder.profile("vegas-1995"))?;
    /// assert!(net.stack_with("b", |builder| builder.profile("no-such-profile")).is_err());
    /// # Ok::<(), ackclock_sim::HostedError>(())
    /// ```
    pub fn stack_with(
        &mut self,
        host: &str,
        adjust: impl FnOnce(StackBuilder) -> io::Result<StackBuilder>,
    ) -> Result<Stack, HostedError> {
        self.stage.stack(&mut self.simulation, host, adjust)
    }

    /// Starts a host with a program of its own, which gets its stack. It runs whenever [`run`](Self::run)
    /// does, until it ends or its host crashes, and from the beginning when the host restarts. Its panic is
    /// the panic of `run`.
    ///
    /// ```
    /// use ackclock_sim::units::{Rate, Span};
    /// use ackclock_sim::{Direction, Scenario, VirtualNetwork};
    ///
    /// let link = Direction::new(Rate::mbit(1), Span::millis(5));
    /// let scenario = Scenario::new(Span::seconds(1)).host("a").host("b").link("a", "b", link);
    /// let mut net = VirtualNetwork::new(&scenario)?;
    /// net.start("b", |stack| async move {
    ///     let listener = stack.listen("0.0.0.0:7".parse().expect("an address")).expect("a free port");
    ///     while let Ok(accepted) = listener.accept().await {
    ///         drop(accepted);
    ///     }
    /// })?;
    /// let (a, b) = (net.stack("a")?, net.lookup("b").expect("a host"));
    /// net.run(a.connect((b, 7).into()))??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::stack`].
    pub fn start<F>(
        &mut self,
        host: &str,
        program: impl Fn(Stack) -> F + Send + Sync + 'static,
    ) -> Result<(), HostedError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.start_with(host, Ok, program)
    }

    /// As [`Self::start`], with settings of each of its stacks, which `adjust` lays over the scenario's.
    ///
    /// # Errors
    /// As [`Self::stack_with`].
    pub fn start_with<F>(
        &mut self,
        host: &str,
        adjust: impl Fn(StackBuilder) -> io::Result<StackBuilder> + Send + Sync + 'static,
        program: impl Fn(Stack) -> F + Send + Sync + 'static,
    ) -> Result<(), HostedError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let node = self.simulation.vacancy(host)?;
        let program = self::program(Box::new(adjust), program);
        self.stage.start(&mut self.simulation, self.runtime.handle(), node, program)
    }

    /// Puts a device in a host's place. The host sends the packets that the device receives, and packets to
    /// the host leave by the device. Behind it is another stack, such as the kernel's behind a TUN device,
    /// with the host's [address](Self::lookup) and [MTU](Self::mtu). Packets from another address, longer
    /// ones, and multicast do not enter the network.
    ///
    /// Open a device of the system within [`enter`](Self::enter), so that it belongs to this network's
    /// runtime. While the host is down, packets that the device receives are lost.
    ///
    /// ```
    /// use ackclock::device::memory;
    /// use ackclock::{Cidr, Stack};
    /// use ackclock_sim::units::{Rate, Span};
    /// use ackclock_sim::{Direction, Scenario, VirtualNetwork};
    ///
    /// let path = Direction::new(Rate::mbit(10), Span::millis(5));
    /// let scenario = Scenario::new(Span::seconds(60)).host("phone").host("server").link("phone", "server", path);
    /// let mut net = VirtualNetwork::in_real_time(&scenario)?;
    /// let (addr, server) = (net.lookup("phone")?, net.stack("server")?);
    /// // A stack outside of the network, at the other end of a cable; for the kernel's, it is a TUN device.
    /// let (near, far) = memory::pair(memory::Config::default());
    /// net.attach("phone", far)?;
    /// let phone = {
    ///     let _within = net.enter();
    ///     Stack::builder().device(near).address(Cidr::new(addr, 24)?).spawn()?
    /// };
    /// let to = (net.lookup("server")?, 7).into();
    /// let (local, peer) = net.run(async move {
    ///     let listener = server.listen(to)?;
    ///     let stream = phone.connect(to).await?;
    ///     std::io::Result::Ok((stream.local_addr()?, listener.accept().await?.1))
    /// })??;
    /// assert_eq!((local.ip(), local), (addr, peer));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::stack`].
    ///
    /// # Panics
    /// In virtual time, which does not wait for a device.
    #[cfg(feature = "real-time")]
    pub fn attach(
        &mut self,
        host: &str,
        device: impl ackclock::device::Device + 'static,
    ) -> Result<(), HostedError> {
        assert!(self.pacer.is_some(), "a device needs a network in real time");
        self.stage.attach(&mut self.simulation, host, Box::new(device))
    }

    /// Makes a host the gateway: packets to addresses that no host or router has go there. Its stack takes
    /// them with a listener on any address ([`Stack::listen_any`]) and answers from there.
    ///
    /// ```
    /// use std::net::SocketAddr;
    ///
    /// use ackclock_sim::units::{Rate, Span};
    /// use ackclock_sim::{Direction, Scenario, VirtualNetwork};
    ///
    /// let path = Direction::new(Rate::mbit(10), Span::millis(5));
    /// let scenario = Scenario::new(Span::seconds(60)).host("phone").host("proxy").link("phone", "proxy", path);
    /// let mut net = VirtualNetwork::new(&scenario)?;
    /// net.set_gateway("proxy")?;
    /// let (phone, proxy) = (net.stack("phone")?, net.stack("proxy")?);
    /// let outside: SocketAddr = "198.51.100.7:443".parse()?;
    /// let dialled = net.run(async move {
    ///     let listener = proxy.listen_any()?;
    ///     let _stream = phone.connect(outside).await?;
    ///     listener.accept().await?.0.local_addr()
    /// })??;
    /// assert_eq!(dialled, outside);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The name is unknown.
    pub fn set_gateway(&mut self, host: &str) -> Result<(), Problem> {
        self.lookup(host)?;
        let node = self.simulation.node(host).map(|node| node.number);
        let nodes = self.simulation.names.nodes().len() as u32;
        self.simulation.world.net.gateway = node.map(|node| Gateway { node, nodes });
        Ok(())
    }

    /// The largest IP packet in bytes that a host may send; `None` if it is unknown, or a router.
    ///
    /// ```
    /// use ackclock_sim::units::{Rate, Span};
    /// use ackclock_sim::{Direction, Scenario, VirtualNetwork};
    ///
    /// let link = Direction::new(Rate::mbit(10), Span::millis(5));
    /// let scenario = Scenario::new(Span::seconds(60)).host("a").host("b").link("a", "b", link);
    /// let net = VirtualNetwork::new(&scenario)?;
    /// // The default of links.
    /// assert_eq!((net.mtu("a"), net.mtu("c")), (Some(1500), None));
    /// # Ok::<(), ackclock_sim::HostedError>(())
    /// ```
    #[must_use]
    pub fn mtu(&self, host: &str) -> Option<usize> {
        let node = self.simulation.node(host)?.number;
        Some(self.simulation.mtu(node)).filter(|mtu| *mtu > 0)
    }

    /// The context of this network's runtime, for what must be opened in it before a [`run`](Self::run).
    #[cfg(feature = "real-time")]
    pub fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Makes a host the network's name server: it answers queries for the addresses of hosts and routers,
    /// over UDP and TCP. Stacks know these names anyhow; this is for programs that ask DNS themselves, and
    /// for tests in which a name server is slow, loses queries, or is gone.
    ///
    /// # Errors
    /// As [`Self::stack`].
    #[cfg(feature = "dns")]
    pub fn serve_names(&mut self, host: &str) -> Result<(), HostedError> {
        let names: ackclock::Hosts = self.simulation.addresses().collect();
        self.start(host, move |stack| name_server::serve(stack, names.clone()))
    }

    /// Controls the faults of the network and its hosts while a program runs.
    #[must_use]
    pub fn faults(&self) -> Faults {
        let (names, requests) = (Arc::clone(&self.simulation.names), Arc::clone(self.stage.requests()));
        Faults::new(names, requests, Arc::clone(&self.pulse))
    }

    /// Runs a program, and the tasks that it spawns, until it completes. Returns its output. Tasks that still
    /// run continue with the next call.
    ///
    /// # Errors
    /// The program was not done when the scenario ended, or nothing could happen any more.
    ///
    /// # Panics
    /// If the program panics, or within another runtime.
    pub fn run<F: Future>(&mut self, program: F) -> Result<F::Output, RunError> {
        let turn = Turn::new(&mut self.simulation, &mut self.stage, &self.pulse);
        #[cfg(feature = "real-time")]
        if let Some(pacer) = &mut self.pacer {
            return self.runtime.block_on(pacer.run(turn, &self.pulse, program));
        }
        self.runtime.block_on(turn.run(program))
    }

    /// How late events were so far; `None` in virtual time, in which they never are.
    ///
    /// An event is too late if it happens more than 5 % of the least one-way delay between two of the stacks
    /// after its time, within 0.1 ms and 1 ms, unless [`allow_lateness`](Self::allow_lateness) says
    /// otherwise.
    #[cfg(feature = "real-time")]
    #[must_use]
    pub fn lateness(&self) -> Option<Lateness> {
        self.pulse.lateness()
    }

    /// Sets for how long before an event the network polls the clock instead of sleeping (default 1 ms). More
    /// makes fewer events late where threads wake late, on virtual machines above all, and costs a processor.
    /// Without effect in virtual time.
    #[cfg(feature = "real-time")]
    pub fn poll_ahead(&mut self, time: std::time::Duration) {
        if let Some(pacer) = &mut self.pacer {
            pacer.poll_ahead(time);
        }
    }

    /// Sets how late an event may be. Without effect in virtual time.
    #[cfg(feature = "real-time")]
    pub fn allow_lateness(&mut self, late: std::time::Duration) {
        if let Some(pacer) = &mut self.pacer {
            pacer.allow(late);
        }
    }

    /// The address of a host or router. The stacks know all of them, too: a program may connect to
    /// `"server:80"`.
    ///
    /// # Errors
    /// The name is unknown.
    #[doc(alias = "address")]
    pub fn lookup(&self, node: &str) -> Result<IpAddr, Problem> {
        let names = || self.simulation.names.nodes().into_iter();
        let found = self.simulation.node(node).map(|node| node.addr);
        found.ok_or_else(|| Problem::new("lookup", unknown(node, names())))
    }

    /// The seed of the scenario.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.simulation.seed
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.pulse.now()
    }

    /// The measurements so far: links, the scenario's traffic, and what each stack sent and received. A stack
    /// reports more about its connections (`Stack::connections`, `TcpStream::info`).
    #[must_use]
    pub fn report(&self) -> Report {
        self.simulation.report()
    }

    /// The underlying simulation, for inspection.
    #[must_use]
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Adds an observer: a capture, a log, a hash over all packets.
    pub fn observe(&mut self, observer: impl Observer + 'static) {
        self.simulation.observe(observer);
    }

    /// Puts a simulator application on a host without a stack; see [`Simulation::add_app`].
    pub fn add_app(&mut self, host: &str, name: &str, start: Instant, app: Box<dyn App>) -> bool {
        self.simulation.add_app(host, name, start, app)
    }
}

impl Simulation {
    /// When the next event happens.
    fn next_event(&mut self) -> Option<Instant> {
        let packet = self.world.net.calendar.peek_until(u64::MAX);
        let timer = self.world.timers.peek_until(packet.map_or(u64::MAX, |packet| packet.at));
        let next = packet.into_iter().chain(timer).min();
        next.map(|key| Instant::from_nanos(key.at))
    }

    /// Runs until an event reaches a guest, but not beyond `until`. Returns whether one did.
    fn run_to_guest(&mut self, until: Instant) -> bool {
        self.guests.called = false;
        while !self.guests.called && self.step(until) {}
        self.guests.called
    }

    /// The least propagation delay between two guests.
    #[cfg(feature = "real-time")]
    fn least_delay(&self) -> Option<u64> {
        let guests: Vec<u32> = self.guests.all().map(|seat| seat.node).take(ENDS_MAX).collect();
        let pairs = guests.iter().flat_map(|from| guests.iter().map(move |to| (*from, *to)));
        pairs.filter(|(from, to)| from != to).filter_map(|(from, to)| self.delay_between(from, to)).min()
    }

    /// Sets the time to `now`. Nothing may be due before.
    fn set_now(&mut self, now: Instant) {
        self.world.now = self.world.now.max(now);
    }

    /// The largest packet that a host may send.
    fn mtu(&self, node: u32) -> usize {
        let host = self.hosts[node as usize].as_ref().map(|host| &host.core.limits);
        let limits = host.or_else(|| self.guests.seat(node).map(|seat| &seat.limits));
        limits.map_or(0, |limits| limits.gso_max_v4)
    }
}

/// A program, whatever its future is.
fn program<F>(adjust: Adjust, program: impl Fn(Stack) -> F + Send + Sync + 'static) -> Program
where
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(Play { adjust, run: Box::new(move |stack| Box::pin(program(stack))) })
}

fn seconds(at: Instant) -> String {
    format!("{}.{:09} s", at.as_nanos() / 1_000_000_000, at.as_nanos() % 1_000_000_000)
}

/// Of how many stacks the delays are compared.
#[cfg(feature = "real-time")]
const ENDS_MAX: usize = 64;
