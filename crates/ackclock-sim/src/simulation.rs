//! Runs a scenario.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ackclock_control::congestion::Registry;
use ackclock_core::{Instant, Limits, TcpConfig};

use crate::app::{App, AppEvent};
use crate::build::Builder;
use crate::calendar::Calendar;
use crate::faults::{Act, Names};
use crate::flow::{Flow, Side};
use crate::foresight;
use crate::guest::{Guest, GuestError, Guests, Seat};
use crate::host::{Host, Hosted, addr_of};
use crate::link::Link;
use crate::observe::{FlowPoint, LinkPoint, Observer, Sample};
use crate::packet::Scratch;
use crate::report::{LinkState, Report};
use crate::rng::{Rng, secret};
use crate::route::{Edge, Routes};
use crate::scenario::{Change, Problem, Scenario, TcpSettings};

use crate::traffic::{Answerer, Caller};
use crate::units::Span;
use crate::world::{Net, Wake, World};

/// A network in virtual time.
///
/// ```
/// use ackclock_sim::units::{Bytes, Rate, Span};
/// use ackclock_sim::{Direction, Scenario, Simulation, TrafficConfig};
///
/// // The network of Brakmo and Peterson's figure 6, and one transfer of a megabyte.
/// let access = Direction::new(Rate::mbit(10), Span(0));
/// let bottleneck = Direction::new(Rate::bytes_per_second(200_000), Span::millis(50)).buffers(10);
/// let scenario = Scenario::new(Span::seconds(60))
///     .host("a")
///     .host("b")
///     .router("r1")
///     .router("r2")
///     .link("a", "r1", access.clone())
///     .link("r1", "r2", bottleneck)
///     .link("r2", "b", access)
///     .traffic(TrafficConfig::bulk("transfer", "a", "b", Some(Bytes(1_000_000))));
/// let report = Simulation::new(&scenario)?.run();
/// assert_eq!(report.flows[0].there.bytes, 1_000_000);
/// assert!(report.flows[0].goodput_bytes_per_second > 100_000.0);
/// # Ok::<(), ackclock_sim::Problem>(())
/// ```
#[derive(Debug)]
pub struct Simulation {
    pub(crate) seed: u64,
    ipv6: bool,
    /// See [`foresight`].
    pub(crate) foresees: bool,
    pub(crate) names: Arc<Names>,
    /// The scenario's, and those that were asked for since.
    changes: Vec<(Change, Act)>,
    /// How many changes were made.
    pub(crate) made: u64,
    sample_every: Option<Span>,
    pub(crate) world: World,
    /// By node; `None`: a router, or a guest.
    pub(crate) hosts: Vec<Option<Box<Host>>>,
    pub(crate) guests: Guests,
    pub(crate) flow_names: Vec<String>,
    edges: Vec<Edge>,
    pub(crate) end: Instant,
}

/// A node of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its number: hosts first, then routers, as the scenario lists them.
    pub number: u32,
    /// Its address.
    pub addr: IpAddr,
}

impl Simulation {
    /// Makes the network of a scenario with the known controllers, experiments included.
    ///
    /// # Errors
    /// The scenario cannot be run; see [`Scenario::check`].
    pub fn new(scenario: &Scenario) -> Result<Self, Problem> {
        Self::with_registry(scenario, &Registry::with_experiments())
    }

    /// Makes the network of a scenario, with controllers from `registry`, which may include the caller's.
    ///
    /// # Errors
    /// The scenario cannot be run.
    pub fn with_registry(scenario: &Scenario, registry: &Registry) -> Result<Self, Problem> {
        scenario.check_with(registry)?;
        scenario.check_loaded()?;
        let names = Arc::new(Names::of(scenario));
        let mut builder = Builder::new(scenario, registry, &names);
        let edges = builder.edges();
        let forwards = names.forwards();
        let ports: Vec<u16> = scenario.traffic.iter().map(|traffic| builder.port(traffic)).collect();
        let net = Net::new(builder.links(&ports), Routes::new(&forwards, &edges), scenario.ipv6);
        let hosts = builder.hosts()?;
        let world = World {
            now: Instant::ZERO,
            net,
            timers: Calendar::new(),
            flows: Vec::with_capacity(scenario.traffic.len()),
            scratch: Scratch::new(),
            zeros: vec![0; ZEROS].into(),
        };
        let end = Instant::from_nanos(scenario.duration.0);
        let mut simulation = Self {
            seed: scenario.seed,
            ipv6: scenario.ipv6,
            foresees: scenario.hosts.len() >= foresight::HOSTS_MIN,
            names,
            changes: Vec::with_capacity(scenario.changes.len()),
            made: 0,
            sample_every: scenario.sample_every,
            world,
            hosts,
            guests: Guests::default(),
            flow_names: Vec::new(),
            edges,
            end,
        };
        simulation.begin(scenario, &ports, registry)?;
        Ok(simulation)
    }

    /// Finds a node by name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<Node> {
        let number = self.names.number(name)?;
        Some(Node { number, addr: addr_of(number, self.ipv6) })
    }

    /// The hosts and routers by name, and their addresses.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, IpAddr)> {
        let nodes = self.names.nodes().into_iter().zip(0..);
        nodes.map(|(name, number)| (name, addr_of(number, self.ipv6)))
    }

    /// The number of the direction of a link that goes from `from` to `to`, as observers see it.
    #[must_use]
    pub fn link(&self, from: &str, to: &str) -> Option<u32> {
        let (from, to) = (self.node(from)?.number, self.node(to)?.number);
        let found = self.edges.iter().position(|edge| (edge.from, edge.to) == (from, to));
        found.map(|index| index as u32)
    }

    /// Adds an observer.
    pub fn observe(&mut self, observer: impl Observer + 'static) {
        self.world.net.observers.add(Box::new(observer));
    }

    /// Puts an application on a host, to begin at `start`; `name` is its row in the report. Set
    /// `full_packets` in the scenario, or the values of the application's bytes are lost.
    ///
    /// Returns `false`, and does nothing, if the host does not exist.
    pub fn add_app(&mut self, host: &str, name: &str, start: Instant, app: Box<dyn App>) -> bool {
        let Some(node) = self.node(host).filter(|node| self.hosts[node.number as usize].is_some()) else {
            return false;
        };
        let flow = self.add_flow(name, start);
        self.place(node.number, app, flow, Side::From, start);
        true
    }

    /// Replaces a host's endpoint by a guest stack, or brings a guest to a host whose guest has crashed. The
    /// scenario must have `full_packets`, and the guest the address from [`Self::node`].
    ///
    /// # Errors
    /// The host does not exist or is taken.
    pub fn add_guest(&mut self, host: &str, guest: Box<dyn Guest>) -> Result<(), GuestError> {
        let node = self.vacancy(host)?;
        if let Some(place) = self.hosts[node as usize].take() {
            let Limits { gso_max_v4, gso_max_v6, .. } = place.core.limits;
            let limits = Limits { gso_max_v4, gso_max_v6, tx_checksum: false };
            self.guests.add(Seat::new(node, guest, limits, place.core.alarm));
        } else if let Some(seat) = self.guests.call(node) {
            seat.occupy(guest);
        }
        self.world.net.faults.set_down(node, false);
        self.pump_guest(node);
        Ok(())
    }

    /// Takes what a guest has to send without a packet or a timer event.
    ///
    /// Returns `false` if the host has no guest.
    pub fn poke(&mut self, host: &str) -> bool {
        self.node(host).is_some_and(|node| self.pump_guest(node.number))
    }

    /// The node number of a host that a guest can take.
    pub(crate) fn vacancy(&self, host: &str) -> Result<u32, GuestError> {
        let Some(node) = self.node(host) else {
            let hosts = self.names.hosts().into_iter().map(str::to_owned).collect();
            return Err(GuestError::NoSuchHost { name: host.to_owned(), hosts });
        };
        if self.guests.has(node.number) {
            return Err(GuestError::Taken(host.to_owned()));
        }
        if self.guests.seat(node.number).is_some() {
            return Ok(node.number);
        }
        let Some(place) = &self.hosts[node.number as usize] else {
            return Err(GuestError::Router(host.to_owned()));
        };
        if let Some(app) = place.apps.first() {
            let traffic = self.flow_names[app.flow as usize].clone();
            return Err(GuestError::Busy { host: host.to_owned(), traffic });
        }
        if !place.core.carries_bytes() {
            return Err(GuestError::NoPayloads);
        }
        Ok(node.number)
    }

    pub(crate) fn pump_guest(&mut self, node: u32) -> bool {
        let Some(seat) = self.guests.call(node) else { return false };
        seat.pump(&mut self.world);
        true
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.world.now
    }

    /// Runs to the scenario's end and reports.
    pub fn run(&mut self) -> Report {
        self.run_until(self.end);
        self.request_traces();
        self.report()
    }

    /// Runs until `until`. Later events have not happened then.
    pub fn run_until(&mut self, until: Instant) {
        while self.step(until) {}
        self.world.now = self.world.now.max(until);
    }

    /// Makes all traced connections deliver their records; [`run`](Self::run) ends with it.
    pub fn request_traces(&mut self) {
        for host in self.hosts.iter_mut().flatten() {
            host.core.endpoint.request_traces();
            host.core.give_traces(&mut self.world);
        }
    }

    /// The names of the hosts and routers, by node number.
    #[must_use]
    pub fn node_names(&self) -> Vec<&str> {
        self.names.nodes()
    }

    /// The names of the directions of the links, by the number that observers see, as in reports.
    #[must_use]
    pub fn link_names(&self) -> Vec<String> {
        self.names.directions().collect()
    }

    /// The state of the links.
    #[must_use]
    pub fn links(&self) -> Vec<LinkState> {
        let links = self.link_names().into_iter().zip(&self.world.net.links);
        links.map(|(name, link)| LinkState::new(name, link)).collect()
    }

    /// The scenario's traffic by name, as it stands.
    #[must_use]
    pub fn flows(&self) -> Vec<(&str, FlowPoint)> {
        self.flow_names.iter().map(String::as_str).zip(self.flow_points()).collect()
    }

    /// The changes that were made or will be, each with its time: the scenario's, then those that were asked
    /// for since. Of those that are made at once, the first ten thousand.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = &Change> {
        self.changes.iter().map(|(change, _)| change)
    }

    /// The numbers of the hosts that have crashed and not started again.
    #[must_use]
    pub fn hosts_down(&self) -> &[u32] {
        self.world.net.faults.down()
    }

    /// The pairs of hosts with numbers below `until` between which a partition lies, the lower number first.
    /// This looks at each pair, so keep `until` small.
    #[must_use]
    pub fn partitions(&self, until: u32) -> Vec<[u32; 2]> {
        self.world.net.faults.cuts(until)
    }

    /// The propagation delay from one node to another, in nanoseconds, by today's routes; `None` if there is
    /// no way.
    #[must_use]
    pub fn one_way_delay(&self, from: &str, to: &str) -> Option<u64> {
        self.delay_between(self.node(from)?.number, self.node(to)?.number)
    }

    pub(crate) fn delay_between(&self, from: u32, to: u32) -> Option<u64> {
        let (mut at, mut delay) = (from, 0);
        // Routes have no loops.
        while at != to {
            let link = &self.world.net.links[self.world.net.routes.next(at, to)? as usize];
            delay += link.delay;
            at = link.to;
        }
        Some(delay)
    }

    /// The measurements so far.
    #[must_use]
    pub fn report(&self) -> Report {
        Report::new(self)
    }

    /// The number of events so far: the cost of a run.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.world.net.events
    }

    /// Handles the next event, unless it is later than `until`.
    #[inline]
    pub(crate) fn step(&mut self, until: Instant) -> bool {
        let world = &mut self.world;
        let until = until.as_nanos();
        let packet = world.net.calendar.peek_until(until);
        // Timers after the next packet need not be sorted yet.
        let timer = world.timers.peek_until(packet.map_or(until, |packet| packet.at.min(until)));
        if world.net.calendar.take_turned() | world.timers.take_turned() && self.foresees {
            foresight::warm(world, &self.hosts);
        }
        let packets_first = match (packet, timer) {
            (Some(packet), Some(timer)) => packet < timer,
            (packet, _) => packet.is_some(),
        };
        let next = if packets_first { packet } else { timer };
        let Some(key) = next.filter(|key| key.at <= until) else { return false };
        world.now = Instant::from_nanos(key.at);
        if !packets_first {
            if let Some(entry) = world.timers.pop() {
                self.wake(entry.event);
            }
        } else if let Some((node, id)) = world.net.step(world.now)
            && (world.net.faults.is_empty() || world.net.gets_through(world.now, node, id))
        {
            match &mut self.hosts[node as usize] {
                Some(host) => {
                    world.net.delivered += 1;
                    host.receive(id, world);
                }
                None => match self.guests.call(node) {
                    Some(guest) => {
                        world.net.delivered += 1;
                        guest.receive(id, world);
                    }
                    None => world.net.route(world.now, node, id),
                },
            }
        }
        true
    }

    fn wake(&mut self, wake: Wake) {
        let world = &mut self.world;
        match wake {
            Wake::Host(host) => {
                if let Some(host) = &mut self.hosts[host as usize] {
                    host.timer(world);
                } else if let Some(guest) = self.guests.call(host) {
                    guest.timer(world);
                }
            }
            Wake::App { host, app, life, number } => {
                if let Some(host) = self.hosts[host as usize].as_mut().filter(|host| host.core.life == life) {
                    host.tell(app, AppEvent::Timer(number), world);
                }
            }
            Wake::Start { host: node, app } => {
                let is_down = world.net.faults.is_down(node);
                if let Some(host) = &mut self.hosts[node as usize] {
                    if is_down {
                        host.apps[app as usize].begun = true;
                    } else {
                        host.begin(app, world);
                    }
                }
            }
            Wake::Change(index) => self.act(&self.changes[index as usize].1.clone()),
            Wake::Sample => self.sample(),
        }
    }

    /// Puts the scenario's traffic on its hosts and sets its times.
    fn begin(&mut self, scenario: &Scenario, ports: &[u16], registry: &Registry) -> Result<(), Problem> {
        let mut last: [Option<(TcpSettings, Arc<TcpConfig>)>; 2] = [None, None];
        for (index, traffic) in scenario.traffic.iter().enumerate() {
            let (Some(from), Some(to)) = (self.node(&traffic.from), self.node(&traffic.to)) else { continue };
            let start = Instant::from_nanos(traffic.start.0);
            let flow = self.add_flow(&traffic.name, start);
            let table = crate::traffic::table();
            let mut settings = |side: usize, node: Node, own: &TcpSettings| {
                if own == &TcpSettings::default() {
                    return Ok(None);
                }
                // Laid over the host's settings. Most traffic has those of the traffic before it.
                let all = own.over(&scenario.hosts[node.number as usize].tcp.over(&scenario.tcp));
                if let Some((_, config)) = last[side].as_ref().filter(|(last, _)| *last == all) {
                    return Ok(Some(Arc::clone(config)));
                }
                let config = all.config(registry).map(Arc::new);
                let config = config
                    .map_err(|wrong| Problem::wrong_setting(&format!("traffic[{index}].tcp"), wrong))?;
                last[side] = Some((all, Arc::clone(&config)));
                Ok(Some(config))
            };
            let (tcp, peer) = (settings(0, from, &traffic.tcp)?, settings(1, to, &traffic.peer_tcp)?);
            let server = SocketAddr::new(to.addr, ports[index]);
            let answerer =
                Answerer::new(ports[index], peer, traffic.what.wants_answers().then(|| table.clone()));
            // Listening must begin first.
            self.place(to.number, Box::new(answerer), flow, Side::To, Instant::ZERO);
            let caller = Caller::new(&traffic.what, server, tcp, table);
            self.place(from.number, Box::new(caller), flow, Side::From, start);
        }
        for change in &scenario.changes {
            self.schedule(change)?;
        }
        if let Some(every) = self.sample_every {
            self.world.wake(every.0, Wake::Sample);
        }
        Ok(())
    }

    fn add_flow(&mut self, name: &str, start: Instant) -> u32 {
        self.world.flows.push(Flow { start, ..Flow::default() });
        self.flow_names.push(name.to_owned());
        (self.flow_names.len() - 1) as u32
    }

    fn place(&mut self, node: u32, app: Box<dyn App>, flow: u32, side: Side, start: Instant) {
        let Some(host) = &mut self.hosts[node as usize] else { return };
        let name = format!("{}:{side:?}", self.flow_names[flow as usize]);
        let rng = Rng::derive(self.seed, &name);
        host.apps.push(Hosted { app, flow, side, rng, begun: false });
        let app = (host.apps.len() - 1) as u32;
        self.world.wake(start.as_nanos(), Wake::Start { host: node, app });
    }

    /// Makes a change now, whatever its time says.
    ///
    /// # Errors
    /// A name fits nothing, or a value is impossible.
    pub fn apply(&mut self, change: &Change) -> Result<(), Problem> {
        let act = self.names.act(change)?;
        self.act(&act);
        if self.changes.len() < CHANGES_LISTED {
            self.changes.push((Change { at: Span(self.world.now.as_nanos()), ..change.clone() }, act));
        }
        Ok(())
    }

    /// Makes a change at its time, or now if that is over.
    ///
    /// # Errors
    /// A name fits nothing, or a value is impossible.
    pub fn schedule(&mut self, change: &Change) -> Result<(), Problem> {
        let act = self.names.act(change)?;
        let at = change.at.0.max(self.world.now.as_nanos());
        self.changes.push((Change { at: Span(at), ..change.clone() }, act));
        self.world.wake(at, Wake::Change((self.changes.len() - 1) as u32));
        Ok(())
    }

    fn act(&mut self, act: &Act) {
        self.made += 1;
        let faults = &mut self.world.net.faults;
        match act {
            Act::Links(directions, change) => {
                for &direction in directions {
                    self.change_direction(direction, change);
                }
                if change.up.is_some() || change.cost.is_some() {
                    self.world.net.routes = Routes::new(&self.names.forwards(), &self.edges);
                }
            }
            Act::Cut(pair, on) => faults.cut(pair, *on),
            Act::Hold(pair, on) => {
                faults.hold(pair, *on);
                self.world.net.release(self.world.now);
            }
            Act::Crash(group) => group.iter().for_each(|&node| self.crash(node)),
            Act::Restart(group) => group.iter().for_each(|&node| self.restart(node)),
        }
    }

    fn crash(&mut self, node: u32) {
        if !self.world.net.faults.set_down(node, true) {
            return;
        }
        if let Some(host) = &mut self.hosts[node as usize] {
            let life = format!("{}:life {}", self.names.nodes()[node as usize], host.core.life + 1);
            host.crash(secret(&mut Rng::derive(self.seed, &life)), &mut self.world);
        } else {
            self.guests.lose(node);
        }
    }

    fn restart(&mut self, node: u32) {
        if !self.world.net.faults.is_down(node) {
            return;
        }
        let Some(host) = &mut self.hosts[node as usize] else {
            return self.guests.await_again(node);
        };
        self.world.net.faults.set_down(node, false);
        for app in 0..host.apps.len() {
            if host.apps[app].begun {
                host.begin(app as u32, &mut self.world);
            }
        }
    }

    fn change_direction(&mut self, direction: usize, change: &Change) {
        let link = &mut self.world.net.links[direction];
        if let Some(rate) = change.rate {
            link.set_rate(rate);
        }
        if let Some(delay) = change.delay {
            link.delay = delay.0;
        }
        if let Some(loss) = change.loss {
            link.set_loss(loss);
        }
        if let Some(bytes) = change.drop_above {
            link.wire().set_drop_above(bytes);
        }
        let edge = &mut self.edges[direction];
        edge.up = change.up.unwrap_or(edge.up);
        link.up = edge.up;
        edge.cost = change.cost.unwrap_or(edge.cost);
    }

    fn sample(&mut self) {
        let links: Vec<LinkPoint> = self.world.net.links.iter().map(link_point).collect();
        let flows = self.flow_points();
        let at = self.world.now;
        self.world.net.observers.sample(&Sample { at, links: &links, flows: &flows });
        if let Some(every) = self.sample_every {
            self.world.wake(at.as_nanos() + every.0, Wake::Sample);
        }
    }

    fn flow_points(&self) -> Vec<FlowPoint> {
        let bytes = self.world.flows.iter().map(|flow| flow.bytes);
        let mut points: Vec<FlowPoint> = bytes
            .map(|[bytes, bytes_back]| FlowPoint { bytes, bytes_back, ..FlowPoint::default() })
            .collect();
        for host in self.hosts.iter().flatten() {
            for owned in host.core.owned.iter().filter(|owned| owned.side == Side::From) {
                if let Some(connection) = owned.id.and_then(|id| host.core.endpoint.connection(id)) {
                    let (info, point) = (connection.info(self.world.now), &mut points[owned.flow as usize]);
                    point.cwnd += info.cwnd;
                    point.in_flight += info.in_flight;
                    point.srtt_ns = point.srtt_ns.max(info.srtt.as_nanos() as u64);
                }
            }
        }
        points
    }
}

fn link_point(link: &Link) -> LinkPoint {
    LinkPoint {
        queue_packets: link.queue.len() as u32,
        queue_bytes: link.queue.bytes(),
        sent_bytes: link.stats.sent_bytes,
        dropped: link.stats.dropped().iter().sum(),
    }
}

/// How many changes are listed before those that are made at once are listed no longer.
const CHANGES_LISTED: usize = 10_000;
/// The size of one write of arbitrary bytes.
const ZEROS: usize = 64 << 10;
