//! A host: a stack that the swarm drives, its clock and the queue of its device.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ackclock::{
    ChecksumState, Cidr, Clock, ConnectionInfo, FourTuple, Instant, Limits, Port, RxMeta, Stack, State,
};

use super::plan::HostPlan;
use super::wires::Wires;

/// A host.
#[derive(Debug)]
pub(super) struct Machine {
    plan: HostPlan,
    seed: u64,
    boots: u64,
    clock: Arc<HostClock>,
    /// `None` while it is off.
    on: Option<On>,
    pub(super) wires: Wires,
    /// Connections from before the last boot, until their four-tuples are used again.
    pub(super) old_wires: Wires,
    /// The event that holds it, if any.
    pub(super) off: Option<usize>,
    pub(super) suspended: Option<usize>,
    pub(super) stalled: Option<usize>,
    /// Packets that the device holds while the host is suspended, with their path.
    pub(super) inbox: VecDeque<(usize, Vec<u8>, RxMeta)>,
    pub(super) mtu: usize,
    /// The last value of its counter of connections reset for memory.
    memory_resets: u64,
    turns: u32,
}

#[derive(Debug)]
struct On {
    // Dropped first, so that nothing is sent when the stack is dropped.
    port: Port,
    stack: Stack,
}

/// A host's clock: the simulation's and an offset.
#[derive(Debug, Default)]
struct HostClock {
    sim: AtomicU64,
    offset: AtomicU64,
}

impl Clock for HostClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.sim.load(Ordering::Relaxed) + self.offset.load(Ordering::Relaxed))
    }
}

impl Machine {
    pub(super) fn new(plan: HostPlan, seed: u64) -> Self {
        Self {
            plan,
            seed,
            boots: 0,
            clock: Arc::default(),
            on: None,
            wires: Wires::default(),
            old_wires: Wires::default(),
            off: None,
            suspended: None,
            stalled: None,
            inbox: VecDeque::new(),
            mtu: DEVICE_MTU,
            memory_resets: 0,
            turns: 0,
        }
    }

    /// Starts a stack on `addr` that knows nothing of earlier ones.
    pub(super) fn boot(&mut self, now: Instant, addr: IpAddr) -> Stack {
        self.boots += 1;
        self.mtu = DEVICE_MTU;
        self.memory_resets = 0;
        // A host sets its clock when it boots, so earlier steps are forgotten.
        let clock = HostClock::default();
        clock.sim.store(now.as_nanos(), Ordering::Relaxed);
        self.clock = Arc::new(clock);
        let seed = self.seed ^ self.boots << 32;
        let (stack, port) = Stack::builder()
            .address(Cidr::new(addr, if addr.is_ipv4() { 8 } else { 16 }).expect("a prefix"))
            .seed(seed)
            .tcp(self.plan.tcp.clone())
            .memory_budget(self.plan.memory_budget)
            .ephemeral_ports(FIRST_PORT, FIRST_PORT + PORTS - 1)
            .detached(Arc::clone(&self.clock), DEVICE_MTU)
            .expect("settings that every stack takes");
        self.on = Some(On { port, stack: stack.clone() });
        stack
    }

    /// All state is lost, and nothing is sent.
    pub(super) fn crash(&mut self) {
        self.on = None;
        self.inbox.clear();
        self.old_wires = std::mem::take(&mut self.wires);
    }

    pub(super) fn stack(&self) -> Option<&Stack> {
        self.on.as_ref().map(|on| &on.stack)
    }

    /// The simulation's clock has moved.
    pub(super) fn set_time(&self, now: Instant) {
        self.clock.sim.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn step_clock(&self, by: Duration) {
        self.clock.offset.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Whether its programs may run.
    pub(super) fn runs(&self) -> bool {
        self.on.is_some() && self.suspended.is_none() && self.stalled.is_none()
    }

    /// When its stack wants to be woken, in the simulation's time.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        let on = self.on.as_ref().filter(|_| self.suspended.is_none())?;
        let at = on.port.poll_timeout().filter(|at| *at != Instant::FAR_FUTURE)?;
        let offset = self.clock.offset.load(Ordering::Relaxed);
        Some(Instant::from_nanos(at.as_nanos().saturating_sub(offset)))
    }

    pub(super) fn handle_timeout(&mut self) {
        let now = self.clock.now();
        if let Some(on) = &mut self.on {
            on.port.handle_timeout(now);
        }
    }

    /// A packet arrives from the device. Returns whether the stack received it.
    pub(super) fn receive(&mut self, path: usize, packet: &[u8], meta: RxMeta) -> bool {
        let now = self.clock.now();
        match &mut self.on {
            Some(_) if self.suspended.is_some() => {
                if self.inbox.len() < DEVICE_QUEUE {
                    self.inbox.push_back((path, packet.to_vec(), meta));
                }
                false
            }
            Some(on) => {
                on.port.handle_packet(now, packet, meta);
                true
            }
            None => false,
        }
    }

    /// The next packet that it wants to send now.
    pub(super) fn transmit(&mut self) -> Option<Vec<u8>> {
        let now = self.clock.now();
        let on = self.on.as_mut().filter(|_| self.suspended.is_none())?;
        let mut sent = None;
        on.port.poll_transmit(now, LIMITS, |packet| {
            assert_eq!(packet.checksum, ChecksumState::Complete, "for a device that finishes none");
            sent = Some(packet.to_vec());
        });
        sent
    }

    /// Connections that are established.
    pub(super) fn established(&self) -> usize {
        let Some(stack) = self.stack() else { return 0 };
        stack.connections().iter().filter(|(_, info)| info.state == State::Established).count()
    }

    /// A connection's report, or `None` if it does not exist.
    pub(super) fn info_of(&self, tuple: FourTuple) -> Option<ConnectionInfo> {
        let all = self.stack()?.connections();
        all.into_iter().find(|(other, _)| *other == tuple).map(|(_, info)| info)
    }

    /// How much of the memory budget is in use, in percent.
    pub(super) fn memory_percent(&self) -> usize {
        self.stack().map_or(0, |stack| {
            let info = stack.info();
            info.memory_used * 100 / info.memory_max
        })
    }

    /// Whether connections were reset for memory since the last call.
    pub(super) fn has_reset_for_memory(&mut self) -> bool {
        let resets = self.stack().map_or(0, |stack| stack.counters().memory_resets);
        std::mem::replace(&mut self.memory_resets, resets) < resets
    }

    /// Checks what holds after every event. In builds with debug assertions the endpoint checks itself, too.
    ///
    /// # Panics
    /// If it does not.
    pub(super) fn check(&mut self) {
        self.turns += 1;
        let Some(on) = &self.on else { return };
        // A check that walks over all connections runs only now and then.
        if !self.turns.is_multiple_of(16) {
            return;
        }
        let info = on.stack.info();
        assert!(info.memory_used <= info.memory_max, "memory: {} of {}", info.memory_used, info.memory_max);
        for (tuple, info) in on.stack.connections() {
            // RFC 9293 §3.8.6.2.2: reading opened the window by all that was read, and the peer learns of it
            // without asking.
            let shut = info.state == State::Established && info.rcv_wnd == 0 && info.receive_queue == 0;
            let held = self.wires.held(tuple.local(), tuple.remote(), info.unacked);
            let told = held.is_none_or(|held| info.sacked <= held);
            assert!(
                told,
                "more bytes count as held than SACK blocks reported ({held:?}): {tuple:?} {info:?}"
            );
            assert!(
                !shut || self.suspended.is_some(),
                "no segment announced a window that has opened: {tuple:?} {info:?}"
            );
        }
        if self.suspended.is_some() || on.port.poll_timeout().is_some_and(|at| at != Instant::FAR_FUTURE) {
            return;
        }
        for (tuple, info) in on.stack.connections() {
            let waits = matches!(
                info.state,
                State::SynSent | State::SynReceived | State::FinWait1 | State::Closing | State::LastAck
            );
            let unsent = info.unacked > 0 || info.send_queue > 0;
            let waits = waits || unsent && info.state != State::Closed;
            assert!(!waits, "no timer is set, but {tuple:?} waits: {info:?}");
        }
    }

    /// Checks that nothing is left once all programs have ended.
    ///
    /// # Panics
    /// If something is left.
    pub(super) fn check_empty(&self) {
        let Some(stack) = self.stack() else { return };
        let info = stack.info();
        assert_eq!(info.connections, 0, "connections are left: {:?}", stack.connections());
        assert_eq!(info.memory_used, 0, "memory of no connection is in use");
    }

    pub(super) fn connections(&self) -> usize {
        self.stack().map_or(0, |stack| stack.info().connections)
    }
}

const LIMITS: Limits = Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };
pub(super) const DEVICE_MTU: usize = 1500;
/// As many as a TUN device holds.
const DEVICE_QUEUE: usize = 500;
const FIRST_PORT: u16 = 40_000;
/// Few, so that four-tuples are used again while segments of earlier connections are under way.
const PORTS: u16 = 48;
