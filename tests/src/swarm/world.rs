//! One run: what happens next, and what must hold after it.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ackclock::{Instant, RxMeta};

use super::boxes::Way;
use super::faults::Counts;
use super::forgery::Forgery;
use super::judge::{Bounds, Excuses};
use super::machine::Machine;
use super::path::{ClientPath, Struck, addr, path_of};
use super::plan::{Cut, Plan};
use super::program::{self, Shared, Transfer};
use super::tasks::Tasks;
use super::{Done, SeedResult};
use crate::host::check_frame;
use crate::rng::Rng;
use crate::segment::{Frame, SYN};

/// A run.
pub(super) struct SwarmRun {
    pub(super) plan: Plan,
    pub(super) tasks: Tasks,
    pub(super) shared: Rc<Shared>,
    /// The server, then each path's client.
    pub(super) machines: Vec<Machine>,
    pub(super) paths: Vec<ClientPath>,
    /// The times at which events begin (`true`) or end.
    pub(super) schedule: BTreeMap<(Instant, usize, bool), ()>,
    pub(super) excuses: Excuses,
    pub(super) forgeries: Vec<Forgery>,
    /// The event that fills the server's memory.
    pub(super) hogging: Option<usize>,
    counts: Counts,
    /// Events that have struck.
    struck: Vec<usize>,
    hash: blake3::Hasher,
    trace: Option<Box<dyn Write>>,
    spins: u32,
    packets: u64,
    old_segments: u64,
}

impl SwarmRun {
    pub(super) fn new(seed: u64, cut: &Cut, trace: Option<Box<dyn Write>>) -> Self {
        let plan = Plan::draw(seed, cut);
        let mut rng = Rng::new(seed ^ 0x0057_a127);
        let tasks = Tasks::default();
        let mut paths = Vec::new();
        for (number, path) in plan.paths.iter().enumerate() {
            paths.push(ClientPath::new(number, plan.v6, path, &mut rng));
        }
        let machines = plan.hosts.iter().map(|host| Machine::new(host.clone(), rng.next_u64())).collect();
        let mut schedule = BTreeMap::new();
        for (at, (_, event)) in plan.events.iter().enumerate() {
            schedule.insert((Instant::ZERO + event.at, at, true), ());
        }
        let shared = Rc::new(Shared {
            time: Default::default(),
            spawner: tasks.spawner(),
            seed,
            transfers: plan
                .transfers
                .iter()
                .map(|(_, transfer)| Transfer::new(transfer))
                .collect::<Vec<_>>()
                .into(),
            failures: Vec::new().into(),
            hog_until: Instant::ZERO.into(),
            compared: 0.into(),
            connections: 0.into(),
        });
        let mut run = Self {
            plan,
            tasks,
            shared,
            machines,
            paths,
            schedule,
            excuses: Excuses::default(),
            forgeries: Vec::new(),
            hogging: None,
            counts: Counts::default(),
            struck: Vec::new(),
            hash: blake3::Hasher::new(),
            trace,
            spins: 0,
            packets: 0,
            old_segments: 0,
        };
        (0..run.machines.len()).for_each(|host| run.boot(host));
        run
    }

    /// How many events and transfers a seed has.
    pub(super) fn sizes(seed: u64) -> (usize, usize) {
        let plan = Plan::draw(seed, &Cut::default());
        (plan.events.len(), plan.transfers.len())
    }

    /// Runs to the end.
    ///
    /// # Panics
    /// If a check fails.
    pub(super) fn run(mut self) -> SeedResult {
        let bounds: Vec<Bounds> =
            self.plan.transfers.iter().map(|(_, transfer)| Bounds::of(&self.plan, transfer)).collect();
        let last = Instant::ZERO + bounds.iter().map(|bounds| bounds.until).max().unwrap_or_default();
        self.settle();
        while !self.shared.is_done() {
            let next =
                self.next_time().unwrap_or_else(|| panic!("nothing will ever happen: {}", self.describe()));
            assert!(next <= last, "not done at {last:?}, the latest of all bounds: {}", self.describe());
            self.advance(next);
        }
        let (of_bound, ended) = self.check_bounds(&bounds);
        self.wind_down();
        let mut hash = [0; 8];
        hash.copy_from_slice(&self.hash.finalize().as_bytes()[..8]);
        let done = Done {
            bytes: self.shared.compared.get(),
            transfers: bounds.len() as u64,
            connections: self.shared.connections.get(),
            packets: self.packets,
            old_segments: self.old_segments,
            seconds: ended.as_secs_f64(),
            of_bound,
            counts: self.counts,
        };
        SeedResult {
            done,
            links: self.paths.iter().flat_map(|path| path.links.each_ref().map(|link| link.stats)).collect(),
            hash: u64::from_be_bytes(hash),
        }
    }

    /// Checks that each transfer is within its bounds. Returns the largest share of the upper one that was
    /// used, and when the last ended.
    fn check_bounds(&self, bounds: &[Bounds]) -> (f64, Duration) {
        let transfers = self.shared.transfers.borrow();
        let (mut most, mut last) = (0_f64, Duration::ZERO);
        for (number, (transfer, bounds)) in transfers.iter().zip(bounds).enumerate() {
            let (Some(began), Some(ended)) = (transfer.began, transfer.ended) else {
                panic!("transfer {number} never ended");
            };
            let took = ended.saturating_since(began);
            assert!(
                took >= bounds.least,
                "transfer {number} took {took:?}; at least {:?} it must",
                bounds.least
            );
            let ended = ended.saturating_since(Instant::ZERO);
            assert!(
                ended <= bounds.until,
                "transfer {number} ended after {ended:?}, its bound is {:?}: {}",
                bounds.until,
                self.describe()
            );
            assert_eq!(
                (transfer.got_up, transfer.got_down),
                (transfer.up, transfer.down),
                "transfer {number}"
            );
            let allowed = bounds.until.saturating_sub(transfer.start).as_secs_f64();
            most = most.max(ended.saturating_sub(transfer.start).as_secs_f64() / allowed);
            last = last.max(ended);
        }
        (most, last)
    }

    /// All connections end, and then there is silence.
    fn wind_down(&mut self) {
        self.schedule.retain(|(_, _, begins), ()| !begins);
        let deadline = self.shared.time.now() + WIND_DOWN;
        while self.machines.iter().any(|machine| machine.connections() > 0) || !self.schedule.is_empty() {
            let Some(next) = self.next_time().filter(|next| *next < deadline) else { break };
            self.advance(next);
        }
        self.machines.iter().for_each(Machine::check_empty);
        // Packets in flight still arrive, and may be answered.
        let quiet = self.shared.time.now() + QUIET_AFTER;
        while let Some(next) = self.next_time().filter(|next| *next < quiet) {
            self.advance(next);
        }
        let (packets, until) = (self.packets, quiet + SILENCE);
        while let Some(next) = self.next_time().filter(|next| *next < until) {
            self.advance(next);
        }
        assert_eq!(packets, self.packets, "something is still sent when all is over");
    }

    fn next_time(&self) -> Option<Instant> {
        let arrivals = self.paths.iter().filter_map(ClientPath::next_arrival);
        let timers = self.machines.iter().filter_map(Machine::wakes_at);
        let event = self.schedule.keys().next().map(|(at, _, _)| *at);
        arrivals.chain(timers).chain(self.shared.time.next()).chain(event).min()
    }

    fn advance(&mut self, to: Instant) {
        let now = self.shared.time.now();
        self.spins = if to > now { 0 } else { self.spins + 1 };
        assert!(self.spins < SPINS_MAX, "time stands still: {}", self.describe());
        let now = now.max(to);
        self.machines.iter().for_each(|machine| machine.set_time(now));
        self.shared.time.set(now);
        while let Some((&(at, event, begins), ())) = self.schedule.first_key_value()
            && at <= now
        {
            self.schedule.pop_first();
            if begins {
                self.begin(event);
            } else {
                self.end(event);
            }
            self.settle();
        }
        for path in 0..self.paths.len() {
            self.deliver(path, Way::Up);
            self.deliver(path, Way::Down);
        }
        for host in 0..self.machines.len() {
            if self.machines[host].wakes_at().is_some_and(|at| at <= now) {
                self.machines[host].handle_timeout();
                self.pump(host);
            }
        }
        self.settle();
    }

    /// Delivers what has arrived at one end of a path.
    fn deliver(&mut self, path: usize, way: Way) {
        let now = self.shared.time.now();
        if self.paths[path].links[way as usize].next_arrival().is_none_or(|at| at > now) {
            return;
        }
        let (arrived, struck) = self.paths[path].arrived(now, way);
        self.note(struck);
        let host = if way == Way::Up { 0 } else { path + 1 };
        for (packet, meta) in arrived {
            self.receive(host, path, &packet, meta);
        }
        self.settle();
    }

    pub(super) fn receive(&mut self, host: usize, path: usize, packet: &[u8], meta: RxMeta) {
        self.log(host, '<', packet);
        if !self.machines[host].receive(path, packet, meta) {
            if let Some(event) = self.machines[host].suspended {
                self.strike(event);
            }
            return;
        }
        if let Ok(frame) = Frame::parse(packet) {
            let machine = &mut self.machines[host];
            if !machine.wires.knows(frame.dst, frame.src) && machine.old_wires.knows(frame.dst, frame.src) {
                self.old_segments += u64::from(!frame.seg.has(SYN));
            }
            machine.wires.received(frame.dst, frame.src, &frame.seg);
            self.pump(host);
            self.forge(host, path, &frame);
        }
        self.pump(host);
    }

    /// Runs programs and sends packets, until nothing more happens at this instant.
    pub(super) fn settle(&mut self) {
        for _ in 0..SPINS_MAX {
            let machines = &self.machines;
            let Some(host) = self.tasks.poll_one(|host| machines[host].runs()) else {
                self.judge();
                return;
            };
            self.pump(host);
        }
        panic!("programs never come to rest: {}", self.describe());
    }

    pub(super) fn pump(&mut self, host: usize) {
        while let Some(packet) = self.machines[host].transmit() {
            self.packets += 1;
            self.log(host, '>', &packet);
            // Fields that no IPv6 checksum covers may be damaged, and a host may report that by ICMP; that
            // has no effect here.
            if (if packet[0] >> 4 == 4 { packet[9] } else { packet[6] }) != TCP {
                continue;
            }
            let machine = &mut self.machines[host];
            let frame =
                check_frame(&packet, machine.mtu).unwrap_or_else(|why| panic!("{why}: {packet:02x?}"));
            machine.wires.sent(frame.src, frame.dst, &frame.seg);
            let (path, way) = if host == 0 { (path_of(frame.dst), Way::Down) } else { (host - 1, Way::Up) };
            let struck = self.paths[path].enter(self.shared.time.now(), way, packet, frame);
            self.note(struck);
        }
        self.machines[host].check();
        self.watch_memory(host);
    }

    fn watch_memory(&mut self, host: usize) {
        if let Some(event) = self.hogging
            && host == 0
            && !self.struck.contains(&event)
            && self.machines[0].memory_percent() >= 87
        {
            self.strike(event);
        }
        if self.machines[host].has_reset_for_memory() {
            self.excuses.add(self.shared.time.now(), Duration::ZERO, host.checked_sub(1));
        }
    }

    /// Every error needs an excuse.
    fn judge(&mut self) {
        let failures = std::mem::take(&mut *self.shared.failures.borrow_mut());
        for failure in failures {
            self.say(&format!("failed: {failure:?}"));
            let kind = failure.error.kind();
            let ends_early = kind == ErrorKind::UnexpectedEof && !failure.at_server;
            assert!(!ends_early, "the client's stream ends too early: {failure:?}: {}", self.describe());
            let exhausted = kind == ErrorKind::AddrNotAvailable;
            assert!(
                exhausted || self.excuses.cover(&failure),
                "an error without a cause: {failure:?}, {:?}: {}",
                self.excuses,
                self.describe()
            );
        }
    }

    fn note(&mut self, struck: Struck) {
        struck.events.into_iter().for_each(|event| self.strike(event));
        struck.fixed.into_iter().for_each(|fault| self.counts.add(fault));
    }

    /// An event has had an effect.
    pub(super) fn strike(&mut self, event: usize) {
        if !self.struck.contains(&event) {
            self.struck.push(event);
            self.counts.add(self.plan.events[event].1.what);
        }
    }

    pub(super) fn boot(&mut self, host: usize) {
        let now = self.shared.time.now();
        let shared = || Rc::clone(&self.shared);
        if host == 0 {
            let stack = self.machines[0].boot(now, addr(self.plan.v6, 0, 1));
            let listen = |port| stack.listen(SocketAddr::new(addr(self.plan.v6, 0, 1), port)).expect("free");
            self.shared.spawner.spawn(0, program::serve(shared(), listen(SERVICE), path_of));
            self.shared.spawner.spawn(0, program::sink(shared(), listen(SINK)));
        } else {
            self.machines[host].boot(now, self.paths[host - 1].client_addr());
            self.start_clients(host);
        }
    }

    /// Starts the programs of a client's transfers that have not ended.
    pub(super) fn start_clients(&mut self, host: usize) {
        let Some(stack) = self.machines[host].stack().cloned() else { return };
        let server = SocketAddr::new(addr(self.plan.v6, 0, 1), SERVICE);
        for (id, transfer) in self.shared.transfers.borrow().iter().enumerate() {
            if transfer.path + 1 == host && transfer.ended.is_none() {
                let job = program::client(Rc::clone(&self.shared), stack.clone(), id, server);
                self.shared.spawner.spawn(host, job);
            }
        }
    }

    pub(super) fn log(&mut self, host: usize, way: char, packet: &[u8]) {
        let now = self.shared.time.now().as_nanos();
        self.hash.update(&now.to_le_bytes());
        self.hash.update(&[host as u8, way as u8]);
        self.hash.update(packet);
        if self.trace.is_some() {
            let what = Frame::parse(packet).map_or_else(
                |why| format!("{} bytes, {why}", packet.len()),
                |frame| format!("{} -> {} {:?}", frame.src, frame.dst, frame.seg),
            );
            self.say(&format!("{host} {way} {what}"));
        }
    }

    pub(super) fn say(&mut self, line: &str) {
        let now = self.shared.time.now().as_nanos() as f64 / 1e9;
        if let Some(trace) = &mut self.trace {
            writeln!(trace, "{now:.9} {line}").expect("the trace can be written");
        }
    }

    fn describe(&self) -> String {
        let unfinished: Vec<_> = self
            .shared
            .transfers
            .borrow()
            .iter()
            .enumerate()
            .filter(|(_, transfer)| transfer.ended.is_none())
            .map(|(id, transfer)| format!("{id}: {transfer:?}"))
            .collect();
        let connections: Vec<_> =
            self.machines.iter().map(|machine| machine.stack().map(|stack| stack.connections())).collect();
        format!(
            "at {:?}, transfers that go on {unfinished:#?}, connections {connections:#?}, events {:#?}",
            self.shared.time.now(),
            self.plan.events
        )
    }
}

const TCP: u8 = 6;
const SERVICE: u16 = 80;
pub(super) const SINK: u16 = 81;
const SPINS_MAX: u32 = 1_000_000;
/// User timeouts, keep-alive, FIN-WAIT-2 and TIME-WAIT, one after the other.
const WIND_DOWN: Duration = Duration::from_secs(900);
/// The longest time for which a segment may still be under way.
const QUIET_AFTER: Duration = Duration::from_secs(120);
const SILENCE: Duration = Duration::from_secs(3_600);
