//! The stacks of the program's hosts, and the programs that hosts run: how they start, crash and start again.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

#[cfg(feature = "real-time")]
use ackclock::device::Device;
use ackclock::{Cidr, Hosts, Stack, StackBuilder};
use ackclock_control::congestion::Registry;
use ackclock_core::Instant;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::HostedError;
#[cfg(feature = "real-time")]
use super::attached::Attached;
use super::line::Line;
use super::pulse::Pulse;
use crate::host::MEMORY_BUDGET;
#[cfg(feature = "real-time")]
use crate::host::addr_of;
use crate::rng::Rng;
use crate::scenario::{Change, Problem, Scenario};
use crate::simulation::Simulation;
use crate::units::Span;

/// The program of a host, from the beginning, whenever it starts.
pub(super) type Program = Arc<Play>;

/// A program, and what its host's stack is to have.
pub(super) struct Play {
    pub adjust: Adjust,
    pub run: Box<dyn Fn(Stack) -> Running + Send + Sync>,
}

pub(super) type Adjust = Box<dyn Fn(StackBuilder) -> io::Result<StackBuilder> + Send + Sync>;
pub(super) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The program's hosts.
pub(super) struct Stage {
    scenario: Scenario,
    registry: Registry,
    pulse: Arc<Pulse>,
    requests: Arc<Requests>,
    hosts: BTreeMap<u32, Played>,
    /// The names by which the stacks call each other.
    names: Option<Hosts>,
}

/// A host of the program.
#[derive(Default)]
struct Played {
    /// How many stacks it has had.
    lives: u32,
    program: Option<Program>,
    running: Option<AbortHandle>,
    /// The device in its place.
    #[cfg(feature = "real-time")]
    attached: Option<Attached>,
}

/// Requests of the program to the network while it runs.
#[derive(Default)]
pub(super) struct Requests(Mutex<Asked>);

#[derive(Default)]
struct Asked {
    all: Vec<Request>,
    /// The panic of a host's program.
    panic: Option<Box<dyn Any + Send>>,
}

/// One thing that is asked.
pub(super) enum Request {
    /// At its time, or now if that is over.
    Change(Box<Change>),
    /// The program of a host from its next start on.
    Program(u32, Program),
    /// To be shown the network.
    Look(Look),
}

/// A look at the network.
pub(super) type Look = Box<dyn FnOnce(&Simulation) + Send>;

impl Stage {
    pub fn new(scenario: Scenario, registry: Registry, pulse: Arc<Pulse>) -> Self {
        Self { scenario, registry, pulse, requests: Arc::default(), hosts: BTreeMap::new(), names: None }
    }

    pub fn requests(&self) -> &Arc<Requests> {
        &self.requests
    }

    /// Makes the stack of a host that has none, or whose stack is gone.
    pub fn stack(
        &mut self,
        simulation: &mut Simulation,
        host: &str,
        adjust: impl FnOnce(StackBuilder) -> io::Result<StackBuilder>,
    ) -> Result<Stack, HostedError> {
        let node = simulation.vacancy(host)?;
        let index = node as usize;
        let config = &self.scenario.hosts[index];
        let tcp = config.tcp.over(&self.scenario.tcp).config(&self.registry);
        let tcp = tcp.map_err(|wrong| Problem::wrong_setting(&format!("host[{index}].tcp"), wrong))?;
        let addr = simulation.node(host).map(|node| Cidr::from(node.addr));
        let lives = &mut self.hosts.entry(node).or_default().lives;
        let life = if *lives == 0 { String::new() } else { format!(" {lives}") };
        let seed = Rng::derive(self.scenario.seed, &format!("{host}:stack{life}")).next_u64();
        let builder =
            Stack::builder().tcp(tcp).registry(self.registry.clone()).memory_budget(MEMORY_BUDGET).seed(seed);
        let names = self.names.get_or_insert_with(|| simulation.addresses().collect()).clone();
        let builder = addr.into_iter().fold(builder, StackBuilder::address).hosts(names);
        let builder =
            adjust(builder).map_err(|error| HostedError::Settings { host: host.to_owned(), error })?;
        let mtu = simulation.mtu(node);
        let (stack, port) = builder.detached(Arc::clone(&self.pulse), mtu)?;
        *lives += 1;
        let line = Line::new(port, node, mtu, Arc::clone(&self.pulse));
        simulation.add_guest(host, Box::new(line))?;
        Ok(stack)
    }

    /// Puts a device in the place of a host.
    #[cfg(feature = "real-time")]
    pub fn attach(
        &mut self,
        simulation: &mut Simulation,
        host: &str,
        device: Box<dyn Device>,
    ) -> Result<(), HostedError> {
        let node = simulation.vacancy(host)?;
        let addr = addr_of(node, simulation.world.net.ipv6);
        let attached = Attached::new(device, node, addr, simulation.mtu(node), Arc::clone(&self.pulse));
        simulation.add_guest(host, Box::new(attached.clone()))?;
        self.hosts.entry(node).or_default().attached = Some(attached);
        Ok(())
    }

    /// Starts a host with its program, which is there.
    pub fn start(
        &mut self,
        simulation: &mut Simulation,
        on: &Handle,
        node: u32,
        program: Program,
    ) -> Result<(), HostedError> {
        let host = self.scenario.hosts[node as usize].name.clone();
        let stack = self.stack(simulation, &host, &program.adjust)?;
        let watched = Watched { running: (program.run)(stack), requests: Arc::clone(&self.requests) };
        let played = self.hosts.entry(node).or_default();
        played.running = Some(on.spawn(watched).abort_handle());
        played.program = Some(program);
        Ok(())
    }

    /// Does what was asked, and lets the program's hosts follow what happened to them. Returns whether tasks
    /// may run because of it.
    pub fn follow(&mut self, simulation: &mut Simulation) -> bool {
        let mut moved = false;
        loop {
            let mut asked = self.requests.lock();
            let (all, panic) = (std::mem::take(&mut asked.all), asked.panic.take());
            drop(asked);
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
            moved |= !all.is_empty();
            for request in all {
                match request {
                    Request::Change(change) => {
                        // Its names were looked up when it was asked for.
                        let due = change.at.0 <= simulation.now().as_nanos();
                        let done = if due { simulation.apply(&change) } else { simulation.schedule(&change) };
                        debug_assert_eq!(done, Ok(()));
                    }
                    Request::Look(look) => look(simulation),
                    Request::Program(node, program) => {
                        self.hosts.entry(node).or_default().program = Some(program);
                    }
                }
            }
            let news = simulation.guests.take_news();
            if news.is_empty() {
                return moved;
            }
            moved = true;
            for (node, comes) in news {
                self.turn(simulation, node, comes);
            }
        }
    }

    /// A host has crashed, or starts again.
    fn turn(&mut self, simulation: &mut Simulation, node: u32, comes: bool) {
        let played = self.hosts.entry(node).or_default();
        #[cfg(feature = "real-time")]
        if let Some(attached) = played.attached.clone() {
            if comes {
                attached.drop_received();
                let host = &self.scenario.hosts[node as usize].name;
                let again = simulation.add_guest(host, Box::new(attached));
                debug_assert!(again.is_ok(), "{again:?}");
            }
            return;
        }
        if !comes {
            if let Some(running) = played.running.take() {
                running.abort();
            }
        } else if let Some(program) = played.program.clone() {
            // It had a stack with the same settings before.
            let started = self.start(simulation, &Handle::current(), node, program);
            debug_assert!(started.is_ok(), "{started:?}");
        }
    }
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn ask(&self, request: Request) {
        self.lock().all.push(request);
    }
}

/// The program of a host. Its panic is the run's.
struct Watched {
    running: Running,
    requests: Arc<Requests>,
}

impl Future for Watched {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let running = self.running.as_mut();
        match catch_unwind(AssertUnwindSafe(|| running.poll(cx))) {
            Ok(polled) => polled,
            Err(panic) => {
                self.requests.lock().panic = Some(panic);
                Poll::Ready(())
            }
        }
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("hosts", &self.hosts.len()).finish_non_exhaustive()
    }
}

/// A time of the network, as changes have it.
pub(super) fn span(at: Instant) -> Span {
    Span(at.as_nanos())
}
