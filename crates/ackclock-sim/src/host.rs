//! A host: one endpoint, its applications, its timer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ackclock_core::{
    ConnectionId, Endpoint, EndpointConfig, Event, Instant, Limits, ListenerId, Readiness, TcpConfig,
    WarmStep, fetch,
};

use crate::alarm::Alarm;
use crate::app::{App, AppContext, AppEvent};
use crate::flow::{Side, Stopwatches, name};
use crate::observe::What;
use crate::packet::PacketId;
use crate::rng::Rng;
use crate::world::{Wake, World};

/// A host with its applications.
///
/// Fields here, in [`Core`] and in the endpoint are in order of use, as in [`Link`](crate::link::Link).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Host {
    pub apps: Vec<Hosted>,
    pub core: Core,
}

/// An application on a host.
#[derive(Debug)]
pub(crate) struct Hosted {
    pub app: Box<dyn App>,
    pub flow: u32,
    pub side: Side,
    pub rng: Rng,
    /// Its start time has come.
    pub begun: bool,
}

/// A host without its applications.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Core {
    pub(crate) node: u32,
    /// Whether packets carry payloads and real checksums.
    full: bool,
    pub(crate) stopwatches: Stopwatches,
    pub(crate) limits: Limits,
    /// The owner of each connection, by its index.
    pub(crate) owned: Vec<Owned>,
    pub(crate) alarm: Alarm,
    pub(crate) listeners: Vec<(ListenerId, u32)>,
    pub(crate) endpoint: Endpoint,
    /// How often the host has crashed.
    pub(crate) life: u32,
    /// The settings of its connections.
    tcp: Arc<TcpConfig>,
}

/// The owner of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owned {
    pub id: Option<ConnectionId>,
    pub app: u32,
    pub flow: u32,
    pub side: Side,
    pub name: u64,
}

/// The options of a host.
#[derive(Debug)]
pub(crate) struct HostOptions {
    pub node: u32,
    pub addr: IpAddr,
    pub mtu: usize,
    pub secret: [u8; 32],
    pub tcp: Arc<TcpConfig>,
    pub full: bool,
    pub alarm: Alarm,
}

impl Host {
    pub fn new(options: HostOptions) -> Self {
        let HostOptions { node, addr, mtu, secret, tcp, full, alarm } = options;
        let core = Core {
            node,
            endpoint: endpoint(Instant::ZERO, addr, mtu, secret, &tcp, full),
            listeners: Vec::new(),
            owned: Vec::new(),
            stopwatches: Stopwatches::default(),
            limits: Limits { gso_max_v4: mtu, gso_max_v6: mtu, tx_checksum: !full },
            full,
            alarm,
            life: 0,
            tcp,
        };
        Self { core, apps: Vec::with_capacity(1) }
    }

    /// Prefetches what the next event here will need; see [`WarmStep`].
    #[inline]
    pub fn warm(&self, step: WarmStep, world: &World) {
        let core = &self.core;
        core.endpoint.warm(step);
        if step == WarmStep::Endpoint {
            return fetch(self, IN_FRONT);
        }
        let Some(first) = self.apps.first() else { return };
        match step {
            WarmStep::Slot => {
                fetch(first, size_of_val(first));
                if let Some(owned) = core.owned.first() {
                    fetch(owned, size_of_val(owned));
                }
                core.stopwatches.warm();
                if let Some(link) = world.net.routes.next(core.node, core.node) {
                    world.net.links[link as usize].warm();
                }
            }
            WarmStep::Connection => {
                world.flows[first.flow as usize].warm();
                fetch(&*first.app, size_of_val(&*first.app));
            }
            WarmStep::Behind => first.app.warm(),
            WarmStep::Endpoint => {}
        }
    }

    /// A packet has arrived.
    #[inline]
    pub fn receive(&mut self, id: PacketId, world: &mut World) {
        let now = world.now;
        let packet = world.net.packets.get(id);
        world.net.observers.tell(now, What::Delivered, self.core.node, None, packet);
        if let Some(tcp) = packet.tcp() {
            let name = name(tcp.dst_port, source_node(packet.header()), tcp.src_port);
            if let Some((flow, side, time)) = self.core.stopwatches.acked(name, tcp.ack, now.as_nanos()) {
                world.flows[flow as usize].rtt[usize::from(side == Side::To)].record(time);
            }
        }
        let (bytes, meta) = packet.assemble(&mut world.scratch);
        self.core.endpoint.handle_packet(now, bytes, meta);
        world.net.packets.remove(id);
        self.pump(world);
    }

    /// The timer fires, unless it has been set to an earlier time since.
    pub fn timer(&mut self, world: &mut World) {
        if !self.core.alarm.rings(Wake::Host(self.core.node), world) {
            return;
        }
        self.core.endpoint.handle_timeout(world.now);
        self.pump(world);
    }

    /// Loses all memory without a word to its peers. `secret` is that of its next life.
    pub fn crash(&mut self, secret: [u8; 32], world: &mut World) {
        self.core.forget(secret, world);
        self.apps.iter_mut().for_each(|hosted| hosted.app.forget());
    }

    /// An application's start time has come, or its host starts again.
    pub fn begin(&mut self, app: u32, world: &mut World) {
        self.apps[app as usize].begun = true;
        self.tell(app, AppEvent::Start, world);
    }

    /// Passes an event to an application.
    pub fn tell(&mut self, app: u32, event: AppEvent, world: &mut World) {
        self.dispatch(app, event, world);
        self.pump(world);
    }

    /// Handles events and packets until none are left, then sets the timer.
    #[inline]
    pub fn pump(&mut self, world: &mut World) {
        let mut event = self.core.endpoint.poll_event();
        loop {
            while let Some(next) = event {
                self.on_event(next, world);
                event = self.core.endpoint.poll_event();
            }
            if !self.core.transmit(world) {
                break;
            }
            // Everything has been sent; only an application can have more.
            event = self.core.endpoint.poll_event();
            if event.is_none() {
                break;
            }
        }
        self.core.set_timer(world);
        self.core.give_traces(world);
    }

    fn on_event(&mut self, event: Event, world: &mut World) {
        match event {
            Event::Connection(id, readiness) => {
                let owned = self.core.owned.get(id.index()).filter(|owned| owned.id == Some(id));
                if let Some(app) = owned.map(|owned| owned.app) {
                    self.dispatch(app, AppEvent::Ready(id, readiness), world);
                }
            }
            Event::Acceptable(listener) => {
                let Some(&(_, app)) = self.core.listeners.iter().find(|(id, _)| *id == listener) else {
                    return;
                };
                while let Some(id) = self.core.endpoint.accept(world.now, listener) {
                    self.dispatch(app, AppEvent::Accepted(id), world);
                    // Reports what happened to the connection before it was accepted.
                    let readiness = Readiness { readable: true, writable: true, ..Readiness::default() };
                    self.dispatch(app, AppEvent::Ready(id, readiness), world);
                }
            }
            // Listeners here do not defer their decisions.
            _ => {}
        }
    }

    fn dispatch(&mut self, app: u32, event: AppEvent, world: &mut World) {
        let hosted = &mut self.apps[app as usize];
        let (flow, side) = (hosted.flow, hosted.side);
        let core = &mut self.core;
        let mut cx = AppContext { core, world, app, flow, side, rng: &mut hosted.rng };
        if let AppEvent::Accepted(id) = event {
            cx.own(id);
        }
        hosted.app.on_event(event, &mut cx);
    }
}

impl Core {
    /// Sends everything there is to send. Returns whether there was anything.
    #[inline]
    fn transmit(&mut self, world: &mut World) -> bool {
        let now = world.now;
        let mut any = false;
        while let Some(packet) = self.endpoint.poll_transmit(now, self.limits) {
            any = true;
            let dst = destination_node(packet.header);
            let id = world.net.admit(now, self.node, &packet, self.full, dst);
            let sent = world.net.packets.get(id);
            if sent.payload_len() > 0
                && let Some(tcp) = sent.tcp()
            {
                let name = name(tcp.src_port, dst, tcp.dst_port);
                self.stopwatches.sent(name, tcp.seq, sent.payload_len(), now.as_nanos());
            }
            world.net.forward(now, self.node, id);
        }
        any
    }

    /// Whether packets carry the written bytes.
    pub fn carries_bytes(&self) -> bool {
        self.full
    }

    /// Passes the output of traced connections to the observers.
    #[inline]
    pub fn give_traces(&mut self, world: &mut World) {
        while let Some(batch) = self.endpoint.poll_trace() {
            world.net.observers.trace(self.node, &batch);
        }
    }

    /// Sets the timer to the endpoint's next deadline, unless it fires earlier anyway.
    #[inline]
    fn set_timer(&mut self, world: &mut World) {
        if let Some(deadline) = self.endpoint.poll_timeout() {
            self.alarm.set(deadline, Wake::Host(self.node), world);
        }
    }

    /// The host crashes: nothing is left of its connections, which have failed.
    fn forget(&mut self, secret: [u8; 32], world: &mut World) {
        for Owned { id, flow, side, .. } in std::mem::take(&mut self.owned) {
            let Some(connection) = id.and_then(|id| self.endpoint.connection(id)) else { continue };
            let flow = &mut world.flows[flow as usize];
            flow.sent[usize::from(side == Side::To)].add(&connection.info(world.now));
            if side == Side::From {
                flow.closed += 1;
                flow.failed += 1;
                flow.ended = Some(world.now);
            }
        }
        self.stopwatches = Stopwatches::default();
        self.listeners.clear();
        self.life += 1;
        let addr = addr_of(self.node, world.net.ipv6);
        self.endpoint = endpoint(world.now, addr, self.limits.gso_max_v4, secret, &self.tcp, self.full);
    }

    /// Adds a connection's statistics to its traffic's, and forgets its owner.
    pub fn harvest(&mut self, id: ConnectionId, world: &mut World) {
        let Some(owned) = self.owned.get_mut(id.index()).filter(|owned| owned.id == Some(id)) else { return };
        let Owned { flow, side, name, .. } = std::mem::replace(owned, Owned::NOBODY);
        self.stopwatches.remove(name);
        let Some(connection) = self.endpoint.connection(id) else { return };
        let flow = &mut world.flows[flow as usize];
        flow.sent[usize::from(side == Side::To)].add(&connection.info(world.now));
        if side == Side::From {
            flow.closed += 1;
            flow.ended = Some(world.now);
            match connection.error() {
                Some(_) => flow.failed += 1,
                None => flow.completed = Some(world.now),
            }
        }
    }
}

/// A host's endpoint, without memory of anything.
fn endpoint(
    now: Instant,
    addr: IpAddr,
    mtu: usize,
    secret: [u8; 32],
    tcp: &Arc<TcpConfig>,
    full: bool,
) -> Endpoint {
    let mut config = EndpointConfig::new(vec![addr], secret);
    config.mtu = mtu;
    config.memory_budget = MEMORY_BUDGET;
    config.keep_bytes = full;
    config.histograms = false;
    config.tcp = Arc::clone(tcp);
    Endpoint::new(config, now)
}

/// The memory budget of a host: large enough that a simulated host never runs short, or the whole address
/// space where addresses have 32 bits.
pub(crate) const MEMORY_BUDGET: usize = if usize::BITS > 32 { 8 << 30 } else { usize::MAX };
/// The size of the fields in front of the endpoint.
const IN_FRONT: usize = 320;

impl Owned {
    pub const NOBODY: Self = Self { id: None, app: 0, flow: 0, side: Side::From, name: 0 };
}

/// The address of a node.
pub(crate) fn addr_of(node: u32, ipv6: bool) -> IpAddr {
    let number = node + 1;
    let [_, a, b, c] = number.to_be_bytes();
    if ipv6 {
        let number = number.to_be_bytes().map(u16::from);
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, number[0] << 8 | number[1], number[2] << 8 | number[3]).into()
    } else {
        Ipv4Addr::new(10, a, b, c).into()
    }
}

/// The node that has an address.
pub(crate) fn node_of(addr: IpAddr) -> u32 {
    match addr {
        IpAddr::V4(addr) => number(&addr.octets()),
        IpAddr::V6(addr) => number(&addr.octets()),
    }
}

#[inline]
pub(crate) fn destination_node(header: &[u8]) -> u32 {
    if header[0] >> 4 == 6 { number(&header[24..40]) } else { number(&header[16..20]) }
}

/// The destination of a packet; `None` if it has no IP header.
pub(crate) fn destination(header: &[u8]) -> Option<IpAddr> {
    match header.first()? >> 4 {
        4 => header.get(16..20)?.first_chunk::<4>().map(|octets| IpAddr::from(*octets)),
        6 => header.get(24..40)?.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
        _ => None,
    }
}

#[inline]
pub(crate) fn source_node(header: &[u8]) -> u32 {
    if header[0] >> 4 == 6 { number(&header[8..24]) } else { number(&header[12..16]) }
}

/// The last three bytes of an address, from 1.
#[inline]
fn number(addr: &[u8]) -> u32 {
    let at = addr.len() - 3;
    u32::from_be_bytes([0, addr[at], addr[at + 1], addr[at + 2]]).wrapping_sub(1)
}
