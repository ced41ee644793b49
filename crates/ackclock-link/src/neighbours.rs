//! The neighbours: which Ethernet address belongs to an IP address, and how reliable that is.
//!
//! RFC 4861 §7.3 describes the states for IPv6. IPv4 uses the same here: RFC 1122 §2.3.2.1 asks for a way to
//! remove old entries and names a unicast request to the neighbour as one.
//!
//! Deviation from RFC 4861 §7.2.2: packets whose neighbour does not answer are dropped and counted; they
//! cause no ICMP error, because a connection continues when the neighbour is back. The source of a request
//! for a neighbour is the host's address nearest to it, not the source of the packet.

use ackclock_control::tally::Tally;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use ackclock_wire::HeldPacket;
use ackclock_wire::random::Rng;

use crate::hold::HoldQueue;
use crate::nd::Advertisement;
use crate::{Instant, Limits, LinkCounters, MacAddr, Timing};

/// How reliable a neighbour's Ethernet address is (RFC 4861 §7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Requested and not known yet; packets wait.
    Incomplete,
    /// An answer arrived recently.
    Reachable,
    /// Known, but possibly out of date; the next packet starts the check.
    Stale,
    /// In use while reachability may yet be confirmed.
    Delay,
    /// In use while requests go to the neighbour itself.
    Probe,
}

/// The state of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourInfo {
    /// Its address.
    pub addr: IpAddr,
    /// Its Ethernet address, once there was an answer.
    pub mac: Option<MacAddr>,
    /// How reliable that is.
    pub state: NeighbourState,
    /// Packets that wait for it.
    pub waiting: usize,
}

/// A request to send: to the neighbour itself, or to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub target: IpAddr,
    pub to: Option<MacAddr>,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Neighbours {
    entries: BTreeMap<IpAddr, Entry>,
    limits: Limits,
    timing: Timing,
    /// BaseReachableTime times its random factor.
    reachable: Duration,
    /// No entry is due earlier.
    next_due: Option<Instant>,
    waiting_bytes: usize,
    questions: VecDeque<Question>,
    /// Neighbours that were found and still have packets waiting, each once.
    found: VecDeque<IpAddr>,
}

#[derive(Debug)]
struct Entry {
    /// Zero while incomplete.
    mac: MacAddr,
    state: NeighbourState,
    is_router: bool,
    /// Requests sent in this state.
    asked: u32,
    due: Instant,
    /// When this host last sent to it, if ever.
    used_at: Option<Instant>,
    /// Packets that came before the neighbour was found, and those behind them.
    waiting: HoldQueue,
}

impl Neighbours {
    pub fn new(limits: Limits, timing: Timing, random: &mut Rng) -> Self {
        Self {
            entries: BTreeMap::new(),
            reachable: random_reachable(timing.reachable, random),
            limits,
            timing,
            next_due: None,
            waiting_bytes: 0,
            questions: VecDeque::new(),
            found: VecDeque::new(),
        }
    }

    /// The Ethernet address for a packet to `addr`; `None`: the packet has to wait ([`Neighbours::hold`]).
    pub fn resolve(&mut self, now: Instant, addr: IpAddr) -> Option<MacAddr> {
        let first_probe = now + self.timing.first_probe;
        let entry = self.entries.get_mut(&addr)?;
        entry.used_at = Some(now);
        match entry.state {
            NeighbourState::Incomplete => return None,
            NeighbourState::Stale => {
                // RFC 4861 §7.3.3: the first packet to a stale neighbour starts the delay.
                entry.enter(NeighbourState::Delay, first_probe);
                self.next_due = Some(self.next_due.map_or(first_probe, |next| next.min(first_probe)));
            }
            _ => {}
        }
        // No packet overtakes those that waited.
        entry.waiting.is_empty().then_some(entry.mac)
    }

    /// Keeps a packet until `addr` is known and the packets before it have left. Requests the address unless
    /// that has been done.
    pub fn hold(&mut self, now: Instant, addr: IpAddr, packet: HeldPacket, counters: &mut LinkCounters) {
        if !self.entries.contains_key(&addr) {
            self.make_room(counters);
            let due = now + self.timing.retransmit;
            let entry = Entry::new(MacAddr::ZERO, NeighbourState::Incomplete, due);
            self.insert(addr, Entry { used_at: Some(now), ..entry });
            self.ask(addr);
        }
        if packet.len() > self.limits.waiting_bytes_max {
            counters.waiting_dropped.count();
            return;
        }
        // RFC 4861 §7.2.2: a full queue drops its oldest packet.
        if self.entries.get(&addr).is_some_and(|entry| entry.waiting.len() >= self.limits.waiting_packets_max)
        {
            self.drop_oldest(addr, counters);
        }
        // Those that share the bytes are not equal: one that never answers has the longest queue.
        while self.waiting_bytes.saturating_add(packet.len()) > self.limits.waiting_bytes_max {
            let waiting = self.entries.iter().filter(|(_, entry)| !entry.waiting.is_empty());
            let longest = waiting.max_by_key(|(_, entry)| entry.waiting.bytes());
            let Some(longest) = longest.map(|(addr, _)| *addr) else { break };
            self.drop_oldest(longest, counters);
        }
        if let Some(entry) = self.entries.get_mut(&addr) {
            self.waiting_bytes.grow(packet.len());
            entry.waiting.push(packet);
        }
    }

    /// The oldest packet that waits for `addr` is dropped.
    fn drop_oldest(&mut self, addr: IpAddr, counters: &mut LinkCounters) {
        let Some(entry) = self.entries.get_mut(&addr) else { return };
        let Some(oldest) = entry.waiting.pop() else { return };
        self.waiting_bytes = self.waiting_bytes.saturating_sub(oldest.len());
        counters.waiting_dropped.count();
        if entry.waiting.is_empty() {
            self.found.retain(|other| *other != addr);
        }
    }

    /// A message of a neighbour carried its address (RFC 826; RFC 4861 §7.2.3, §6.3.4). A neighbour that was
    /// not known gets an entry if `create`.
    pub fn learn(
        &mut self,
        now: Instant,
        addr: IpAddr,
        mac: MacAddr,
        create: bool,
        counters: &mut LinkCounters,
    ) {
        let stale_until = now + self.timing.forget;
        let full = self.entries.len() >= self.limits.neighbours_max;
        match self.entries.get_mut(&addr) {
            Some(entry) if entry.mac == mac => {}
            Some(entry) => {
                entry.mac = mac;
                entry.enter(NeighbourState::Stale, stale_until);
                self.schedule(stale_until);
                self.release(now, addr);
            }
            None if !create => {}
            None if full => counters.table_full.count(),
            None => self.insert(addr, Entry::new(mac, NeighbourState::Stale, stale_until)),
        }
    }

    /// An ARP reply to this host. It confirms reachability only if it was requested; otherwise it counts as a
    /// request does.
    pub fn answered(&mut self, now: Instant, addr: IpAddr, mac: MacAddr, counters: &mut LinkCounters) {
        let asked = |entry: &Entry| matches!(entry.state, NeighbourState::Incomplete | NeighbourState::Probe);
        if self.entries.get(&addr).is_some_and(asked) {
            self.confirm(now, addr, mac);
        } else {
            self.learn(now, addr, mac, false, counters);
        }
    }

    /// A neighbour advertisement (RFC 4861 §7.2.5). Returns whether the neighbour ceased to be a router.
    pub fn advertised(&mut self, now: Instant, told: &Advertisement) -> bool {
        let addr = IpAddr::V6(told.target);
        let stale_until = now + self.timing.forget;
        // Without an entry nothing is waiting, and none is made.
        let Some(entry) = self.entries.get_mut(&addr) else { return false };
        if entry.state == NeighbourState::Incomplete {
            let Some(mac) = told.target_mac else { return false };
            entry.is_router = told.is_router;
            if told.solicited {
                self.confirm(now, addr, mac);
            } else {
                entry.mac = mac;
                entry.enter(NeighbourState::Stale, stale_until);
                self.schedule(stale_until);
                self.release(now, addr);
            }
            return false;
        }
        let changes = told.target_mac.is_some_and(|mac| mac != entry.mac);
        if changes && !told.overrides {
            // RFC 4861 §7.2.5 I: another address without the flag only makes a reachable neighbour stale.
            if entry.state == NeighbourState::Reachable {
                entry.enter(NeighbourState::Stale, stale_until);
                self.schedule(stale_until);
            }
            return false;
        }
        let left = entry.is_router && !told.is_router;
        entry.is_router = told.is_router;
        let mac = told.target_mac.unwrap_or(entry.mac);
        if told.solicited {
            self.confirm(now, addr, mac);
        } else if changes {
            entry.mac = mac;
            entry.enter(NeighbourState::Stale, stale_until);
            self.schedule(stale_until);
        }
        left
    }

    /// The layer above has shown that packets reach the neighbour.
    pub fn reached(&mut self, now: Instant, addr: IpAddr) {
        let until = now + self.reachable;
        if let Some(entry) = self.entries.get_mut(&addr)
            && entry.state != NeighbourState::Incomplete
        {
            entry.enter(NeighbourState::Reachable, until);
            self.schedule(until);
        }
    }

    /// Records that `addr` is a router.
    pub fn note_router(&mut self, addr: IpAddr) {
        if let Some(entry) = self.entries.get_mut(&addr) {
            entry.is_router = true;
        }
    }

    /// Takes over the times that a router advertises for all hosts of the link (RFC 4861 §6.3.4).
    pub fn set_times(&mut self, reachable: Option<Duration>, retransmit: Option<Duration>, random: &mut Rng) {
        if let Some(reachable) = reachable.map(|time| time.clamp(REACHABLE_MIN, REACHABLE_MAX))
            && reachable != self.timing.reachable
        {
            self.timing.reachable = reachable;
            self.reachable = random_reachable(reachable, random);
        }
        if let Some(retransmit) = retransmit {
            self.timing.retransmit = retransmit.clamp(RETRANSMIT_MIN, RETRANSMIT_MAX);
        }
    }

    /// Every entry becomes stale: the link was down, and may be another one.
    pub fn doubt(&mut self, now: Instant) {
        let stale_until = now + self.timing.forget;
        for entry in self.entries.values_mut().filter(|entry| entry.state != NeighbourState::Incomplete) {
            entry.enter(NeighbourState::Stale, stale_until);
        }
        self.schedule(stale_until);
    }

    /// Runs what is due. Removes and returns neighbours that did not answer.
    pub fn handle_timeout(&mut self, now: Instant, counters: &mut LinkCounters) -> Vec<IpAddr> {
        let mut failed = Vec::new();
        if self.next_due.is_none_or(|due| due > now) {
            return failed;
        }
        let timing = self.timing;
        let (questions, waiting_bytes, found) =
            (&mut self.questions, &mut self.waiting_bytes, &mut self.found);
        self.entries.retain(|addr, entry| {
            if entry.due > now {
                return true;
            }
            match entry.expire(now, &timing) {
                Expired::Kept => true,
                Expired::Ask(to) => {
                    questions.push_back(Question { target: *addr, to });
                    true
                }
                Expired::Forgotten => {
                    counters.waiting_dropped.grow(entry.leave(*addr, waiting_bytes, found));
                    false
                }
                Expired::Failed => {
                    counters.unresolved.grow(entry.leave(*addr, waiting_bytes, found));
                    failed.push(*addr);
                    false
                }
            }
        });
        self.next_due = self.entries.values().map(|entry| entry.due).min();
        failed
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next_due
    }

    pub fn poll_question(&mut self) -> Option<Question> {
        self.questions.pop_front()
    }

    /// The next packet whose neighbour was found.
    pub fn poll_found(&mut self) -> Option<(MacAddr, HeldPacket)> {
        let addr = *self.found.front()?;
        let entry = self.entries.get_mut(&addr)?;
        let packet = entry.waiting.pop()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(packet.len());
        if entry.waiting.is_empty() {
            self.found.pop_front();
        }
        Some((entry.mac, packet))
    }

    pub fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    pub fn infos(&self) -> impl Iterator<Item = NeighbourInfo> + '_ {
        self.entries.iter().map(|(addr, entry)| NeighbourInfo {
            addr: *addr,
            mac: (entry.state != NeighbourState::Incomplete).then_some(entry.mac),
            state: entry.state,
            waiting: entry.waiting.len(),
        })
    }

    /// The Ethernet address of a neighbour, whatever its state.
    pub fn mac(&self, addr: IpAddr) -> Option<MacAddr> {
        let entry = self.entries.get(&addr)?;
        (entry.state != NeighbourState::Incomplete).then_some(entry.mac)
    }

    #[cfg(test)]
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// A neighbour proved that it has this Ethernet address.
    fn confirm(&mut self, now: Instant, addr: IpAddr, mac: MacAddr) {
        let until = now + self.reachable;
        if let Some(entry) = self.entries.get_mut(&addr) {
            entry.mac = mac;
            entry.enter(NeighbourState::Reachable, until);
            self.schedule(until);
            self.release(now, addr);
        }
    }

    /// Lets leave what waits for `addr`, whose Ethernet address is known by now.
    fn release(&mut self, now: Instant, addr: IpAddr) {
        let waits = self.entries.get(&addr).is_some_and(|entry| !entry.waiting.is_empty());
        if waits && !self.found.contains(&addr) {
            self.found.push_back(addr);
            self.resolve(now, addr); // what is sent now counts as use
        }
    }

    fn ask(&mut self, target: IpAddr) {
        self.questions.push_back(Question { target, to: None });
    }

    fn insert(&mut self, addr: IpAddr, entry: Entry) {
        self.schedule(entry.due);
        self.entries.insert(addr, entry);
    }

    fn schedule(&mut self, due: Instant) {
        self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
    }

    /// Removes the least important neighbour if the table is full.
    fn make_room(&mut self, counters: &mut LinkCounters) {
        if self.entries.len() < self.limits.neighbours_max {
            return;
        }
        let least = self.entries.iter().min_by_key(|(_, entry)| (entry.worth(), entry.used_at));
        let Some(addr) = least.map(|(addr, _)| *addr) else { return };
        if let Some(entry) = self.entries.remove(&addr) {
            counters.evicted.count();
            counters.waiting_dropped.grow(entry.leave(addr, &mut self.waiting_bytes, &mut self.found));
        }
    }
}

/// The result for an entry that was due.
enum Expired {
    Kept,
    Ask(Option<MacAddr>),
    Forgotten,
    Failed,
}

impl Entry {
    fn new(mac: MacAddr, state: NeighbourState, due: Instant) -> Self {
        Self { mac, state, is_router: false, asked: 1, due, used_at: None, waiting: HoldQueue::default() }
    }

    fn enter(&mut self, state: NeighbourState, due: Instant) {
        (self.state, self.asked, self.due) = (state, 0, due);
    }

    fn expire(&mut self, now: Instant, timing: &Timing) -> Expired {
        match self.state {
            NeighbourState::Incomplete if self.asked < timing.multicast_questions => {
                self.asked = self.asked.saturating_add(1);
                self.due = now + timing.retransmit;
                Expired::Ask(None)
            }
            NeighbourState::Probe if self.asked < timing.unicast_questions => {
                self.asked = self.asked.saturating_add(1);
                self.due = now + timing.retransmit;
                Expired::Ask(Some(self.mac))
            }
            NeighbourState::Incomplete | NeighbourState::Probe => Expired::Failed,
            NeighbourState::Reachable => {
                self.enter(NeighbourState::Stale, now + timing.forget);
                Expired::Kept
            }
            NeighbourState::Delay => {
                self.enter(NeighbourState::Probe, now + timing.retransmit);
                self.asked = 1;
                Expired::Ask(Some(self.mac))
            }
            NeighbourState::Stale => Expired::Forgotten,
        }
    }

    /// It leaves the table, with the packets that wait. Returns how many.
    fn leave(&self, addr: IpAddr, waiting_bytes: &mut usize, found: &mut VecDeque<IpAddr>) -> u64 {
        if !self.waiting.is_empty() {
            *waiting_bytes = waiting_bytes.saturating_sub(self.waiting.bytes());
            found.retain(|other| *other != addr);
        }
        self.waiting.len() as u64
    }

    /// Those of the lowest value go first: who only told of itself, then who was asked and has not answered.
    fn worth(&self) -> u8 {
        match self.state {
            NeighbourState::Stale if self.used_at.is_none() => 0,
            NeighbourState::Incomplete => 1,
            NeighbourState::Stale => 2,
            NeighbourState::Delay | NeighbourState::Probe => 3,
            NeighbourState::Reachable => 4,
        }
    }
}

/// RFC 4861 §6.3.2: a half to one and a half times the base, so that hosts do not send requests in step.
fn random_reachable(base: Duration, random: &mut Rng) -> Duration {
    let half = base.checked_div(2).unwrap_or_default();
    random.time_between(half, base.saturating_add(half))
}

/// A router may advertise at most an hour (RFC 4861 §6.2.1); less than a second would cause a flood of
/// requests.
const REACHABLE_MIN: Duration = Duration::from_secs(1);
const REACHABLE_MAX: Duration = Duration::from_secs(3600);
const RETRANSMIT_MIN: Duration = Duration::from_millis(250);
const RETRANSMIT_MAX: Duration = Duration::from_secs(10);
