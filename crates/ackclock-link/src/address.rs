//! The link's own addresses: claimed, announced, defended; made from the prefixes of routers.
//!
//! IPv4 addresses are probed and announced as in RFC 5227 §2.1 and §2.3, IPv6 addresses as in RFC 4862 §5.4.
//!
//! Deviation from RFC 5227 §2.1: an interface that comes up again announces its addresses and does not probe
//! them once more; connections continue meanwhile, and messages of the other host reveal a conflict. Of
//! RFC 5227 §2.4 this is (c): the addresses are configured, and a forged message must not take them away.

use ackclock_control::tally::Tally;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use ackclock_wire::Cidr;
use ackclock_wire::random::Rng;

use crate::nd::AdvertisedPrefix;
use crate::{Detection, Instant, LinkConfig, LinkCounters, MacAddr, Timing};

/// Whether one of the host's addresses may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// Still probed; packets from it are dropped.
    Tentative,
    /// In use.
    Preferred,
    /// In use, but its router asks to use another for new connections (RFC 4862 §5.5.4).
    Deprecated,
    /// Another station has it; packets from it are dropped.
    Duplicate(MacAddr),
}

/// The state of one of the host's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressInfo {
    /// The address and its network.
    pub prefix: Cidr,
    /// Whether it may be used.
    pub state: AddressState,
    /// Whether it was made from a router's prefix or is the link-local address, rather than configured.
    pub automatic: bool,
}

/// A message about one of the host's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Asks whether another station has it.
    Probe(IpAddr),
    /// Announces it.
    Announce(IpAddr),
}

/// The host's addresses.
#[derive(Debug)]
pub(crate) struct Addresses {
    own: Vec<Own>,
    interface_id: [u8; 8],
    addresses_max: usize,
    detection: Detection,
    timing: Timing,
    claims: VecDeque<Claim>,
    /// Counts changes of the list.
    revision: u64,
}

#[derive(Debug)]
struct Own {
    prefix: Cidr,
    automatic: bool,
    phase: Phase,
    due: Option<Instant>,
    defended_at: Option<Instant>,
    lifetime: Option<Lifetime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// This many probes are still to be sent.
    Probing(u32),
    /// All probes are sent.
    Listening,
    /// In use, and this many announcements are still to be sent.
    Announcing(u32),
    /// In use.
    Settled,
    Duplicate(MacAddr),
}

/// `None`: for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lifetime {
    valid_until: Option<Instant>,
    preferred_until: Option<Instant>,
}

impl Addresses {
    pub fn new(config: &LinkConfig, now: Instant, random: &mut Rng) -> Self {
        let mut addresses = Self {
            own: Vec::new(),
            interface_id: config.interface_id,
            addresses_max: config.limits.addresses_max,
            detection: config.detection,
            timing: config.timing,
            claims: VecDeque::new(),
            revision: 0,
        };
        for prefix in &config.addresses {
            addresses.add(now, *prefix, false, None, random);
        }
        // RFC 4291 §2.8: every interface with IPv6 has a link-local address.
        let has_link_local =
            |own: &Own| matches!(own.prefix.addr(), IpAddr::V6(a) if a.is_unicast_link_local());
        let has_v6 = config.autoconfigure || addresses.own.iter().any(|own| own.prefix.addr().is_ipv6());
        if has_v6 && !addresses.own.iter().any(has_link_local) {
            let addr = with_interface_id(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), config.interface_id);
            addresses.add(now, Cidr::up_to(addr.into(), 64), true, None, random);
        }
        addresses
    }

    pub fn is_own(&self, addr: IpAddr) -> bool {
        self.find(addr).is_some()
    }

    pub fn is_tentative(&self, addr: IpAddr) -> bool {
        self.find(addr).is_some_and(Own::is_tentative)
    }

    pub fn is_usable(&self, addr: IpAddr) -> bool {
        self.find(addr).is_some_and(Own::is_usable)
    }

    /// Whether no address is tentative.
    pub fn is_settled(&self) -> bool {
        !self.own.iter().any(Own::is_tentative)
    }

    /// Whether `addr` is link-local, or in the network of one of the host's configured addresses.
    pub fn is_on_link(&self, addr: IpAddr) -> bool {
        let link_local = matches!(addr, IpAddr::V6(addr) if addr.is_unicast_link_local());
        // RFC 4862 §5.5.4, RFC 5942 §4: an address made from a prefix does not make the prefix on-link.
        link_local || self.own.iter().any(|own| !own.automatic && own.prefix.contains(addr))
    }

    pub fn is_broadcast(&self, addr: IpAddr) -> bool {
        self.own.iter().any(|own| own.prefix.broadcast() == Some(addr))
    }

    /// The host's address as the source of a request for `target`: one in its network if there is one, else
    /// link-local, else any.
    pub fn source_for(&self, target: IpAddr) -> Option<IpAddr> {
        let usable = || {
            let of_family = |own: &&Own| own.prefix.addr().is_ipv4() == target.is_ipv4() && own.is_usable();
            self.own.iter().filter(of_family)
        };
        let link_local =
            |own: &&Own| matches!(own.prefix.addr(), IpAddr::V6(addr) if addr.is_unicast_link_local());
        let chosen = usable()
            .find(|own| own.prefix.contains(target))
            .or_else(|| usable().find(link_local))
            .or_else(|| usable().next());
        chosen.map(|own| own.prefix.addr())
    }

    /// The station with the Ethernet address `by` uses one of the host's addresses.
    pub fn conflict(&mut self, now: Instant, addr: IpAddr, by: MacAddr) {
        let timing = self.timing;
        let Some(own) = self.own.iter_mut().find(|own| own.prefix.addr() == addr) else { return };
        if own.is_tentative() {
            own.phase = Phase::Duplicate(by);
            // RFC 4862 §5.4.5: an IPv6 address stays unused until an operator intervenes.
            own.due = addr.is_ipv4().then_some(now + timing.duplicate_retry);
            return;
        }
        // RFC 5227 §2.4 (c): at most one defence in DEFEND_INTERVAL.
        let recently = |at: Instant| now.saturating_since(at) < timing.defend_interval;
        if own.is_usable() && !own.defended_at.is_some_and(recently) {
            own.defended_at = Some(now);
            self.claims.push_back(Claim::Announce(addr));
        }
    }

    /// A router advertises a prefix to make addresses from (RFC 4862 §5.5.3).
    pub fn autoconfigure(
        &mut self,
        now: Instant,
        told: &AdvertisedPrefix,
        random: &mut Rng,
        counters: &mut LinkCounters,
    ) {
        // RFC 4862 §5.5.3 (b), (c), (d): and Ethernet's interface identifiers have 64 bits.
        let usable = told.len == 64 && !told.prefix.is_unicast_link_local() && !told.prefix.is_multicast();
        if !told.autonomous || !usable || told.preferred_s > told.valid_s {
            return;
        }
        let prefix = Cidr::up_to(with_interface_id(told.prefix, self.interface_id).into(), told.len);
        let preferred_until = until(now, told.preferred_s);
        if let Some(own) = self.own.iter_mut().find(|own| own.prefix == prefix) {
            if let Some(lifetime) = own.lifetime.as_mut() {
                lifetime.preferred_until = preferred_until;
                lifetime.refresh(now, told.valid_s);
            }
        } else if told.valid_s > 0 && self.own.len() >= self.addresses_max {
            counters.table_full.count();
        } else if told.valid_s > 0 {
            let lifetime = Lifetime { valid_until: until(now, told.valid_s), preferred_until };
            self.add(now, prefix, true, Some(lifetime), random);
        }
    }

    /// The link is back: the addresses in use are announced.
    pub fn announce(&mut self, now: Instant) {
        let announcements = self.timing.announcements;
        for own in self.own.iter_mut().filter(|own| own.is_usable()) {
            (own.phase, own.due) = (Phase::Announcing(announcements), Some(now));
        }
    }

    pub fn handle_timeout(&mut self, now: Instant, random: &mut Rng) {
        let (timing, claims) = (self.timing, &mut self.claims);
        for own in self.own.iter_mut().filter(|own| own.due.is_some_and(|due| due <= now)) {
            own.advance(now, &timing, claims, random);
        }
        let before = self.own.len();
        self.own.retain(|own| !own.has_expired(now));
        self.revision.grow(u64::from(self.own.len() != before));
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        let expiry = |own: &Own| own.lifetime.and_then(|lifetime| lifetime.valid_until);
        let due = |own: &Own| [own.due, expiry(own)].into_iter().flatten().min();
        self.own.iter().filter_map(due).min()
    }

    pub fn poll_claim(&mut self) -> Option<Claim> {
        self.claims.pop_front()
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn infos(&self, now: Instant) -> impl Iterator<Item = AddressInfo> + '_ {
        self.own.iter().map(move |own| AddressInfo {
            prefix: own.prefix,
            state: own.state(now),
            automatic: own.automatic,
        })
    }

    pub fn has_v4(&self) -> bool {
        self.own.iter().any(|own| own.prefix.addr().is_ipv4())
    }

    pub fn v6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.own.iter().filter_map(|own| match own.prefix.addr() {
            IpAddr::V6(addr) => Some(addr),
            IpAddr::V4(_) => None,
        })
    }

    /// The IPv6 addresses that appeared in any message, probes included.
    pub fn spoken_v6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let unspoken = Phase::Probing(self.timing.duplicate_questions);
        let spoken = move |own: &&Own| own.phase != unspoken;
        self.own.iter().filter(spoken).filter_map(|own| match own.prefix.addr() {
            IpAddr::V6(addr) => Some(addr),
            IpAddr::V4(_) => None,
        })
    }

    /// The usable link-local address.
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        self.own.iter().filter(|own| own.is_usable()).find_map(|own| match own.prefix.addr() {
            IpAddr::V6(addr) if addr.is_unicast_link_local() => Some(addr),
            _ => None,
        })
    }

    fn find(&self, addr: IpAddr) -> Option<&Own> {
        self.own.iter().find(|own| own.prefix.addr() == addr)
    }

    fn add(
        &mut self,
        now: Instant,
        prefix: Cidr,
        automatic: bool,
        lifetime: Option<Lifetime>,
        random: &mut Rng,
    ) {
        if self.own.len() >= self.addresses_max || self.is_own(prefix.addr()) {
            return;
        }
        let mut own =
            Own { prefix, automatic, phase: Phase::Settled, due: None, defended_at: None, lifetime };
        own.begin(now, self.detection, &self.timing, random);
        self.own.push(own);
        self.revision.count();
    }
}

impl Own {
    fn begin(&mut self, now: Instant, detection: Detection, timing: &Timing, random: &mut Rng) {
        let probes =
            if self.prefix.addr().is_ipv4() { timing.arp_probes } else { timing.duplicate_questions };
        (self.phase, self.due) = match detection {
            Detection::Probe if probes > 0 => {
                (Phase::Probing(probes), Some(now + random.time_between(Duration::ZERO, timing.start_max)))
            }
            _ => (Phase::Announcing(timing.announcements), Some(now)),
        };
    }

    fn advance(&mut self, now: Instant, timing: &Timing, claims: &mut VecDeque<Claim>, random: &mut Rng) {
        let addr = self.prefix.addr();
        match self.phase {
            Phase::Probing(left) => {
                claims.push_back(Claim::Probe(addr));
                let left = left.saturating_sub(1);
                self.phase = if left > 0 { Phase::Probing(left) } else { Phase::Listening };
                let wait = match (addr, left) {
                    (IpAddr::V4(_), 0) => timing.arp_announce_wait,
                    (IpAddr::V4(_), _) => random.time_between(timing.arp_probe_min, timing.arp_probe_max),
                    (IpAddr::V6(_), _) => timing.retransmit,
                };
                self.due = Some(now + wait);
            }
            Phase::Listening => {
                (self.phase, self.due) = (Phase::Announcing(timing.announcements), Some(now));
                self.advance(now, timing, claims, random);
            }
            Phase::Announcing(0) => (self.phase, self.due) = (Phase::Settled, None),
            Phase::Announcing(left) => {
                claims.push_back(Claim::Announce(addr));
                let left = left.saturating_sub(1);
                self.phase = if left > 0 { Phase::Announcing(left) } else { Phase::Settled };
                self.due = (left > 0).then_some(now + timing.announce_interval);
            }
            Phase::Duplicate(_) => self.begin(now, Detection::Probe, timing, random),
            Phase::Settled => self.due = None,
        }
    }

    fn is_tentative(&self) -> bool {
        matches!(self.phase, Phase::Probing(_) | Phase::Listening)
    }

    fn is_usable(&self) -> bool {
        matches!(self.phase, Phase::Announcing(_) | Phase::Settled)
    }

    fn has_expired(&self, now: Instant) -> bool {
        self.lifetime.and_then(|lifetime| lifetime.valid_until).is_some_and(|until| until <= now)
    }

    fn state(&self, now: Instant) -> AddressState {
        let preferred_until = self.lifetime.and_then(|lifetime| lifetime.preferred_until);
        match self.phase {
            Phase::Probing(_) | Phase::Listening => AddressState::Tentative,
            Phase::Duplicate(by) => AddressState::Duplicate(by),
            _ if preferred_until.is_some_and(|until| until <= now) => AddressState::Deprecated,
            _ => AddressState::Preferred,
        }
    }
}

impl Lifetime {
    /// RFC 4862 §5.5.3 (e): a forged message cannot shorten an address's life to less than two hours.
    fn refresh(&mut self, now: Instant, valid_s: u32) {
        let told = until(now, valid_s);
        let two_hours = now + TWO_HOURS;
        let longer = match (told, self.valid_until) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(told), Some(known)) => told > known,
        };
        if longer || Duration::from_secs(valid_s.into()) > TWO_HOURS {
            self.valid_until = told;
        } else if self.valid_until.is_none_or(|known| known > two_hours) {
            self.valid_until = Some(two_hours);
        }
    }
}

/// `seconds` from now; the largest number means for ever (RFC 4861 §4.6.2).
pub(crate) fn until(now: Instant, seconds: u32) -> Option<Instant> {
    (seconds != u32::MAX).then(|| now + Duration::from_secs(seconds.into()))
}

/// The address in the /64 network of `prefix` with the interface identifier `id`.
fn with_interface_id(prefix: Ipv6Addr, id: [u8; 8]) -> Ipv6Addr {
    let id = u128::from(u64::from_be_bytes(id));
    Ipv6Addr::from_bits((prefix.to_bits() >> 64 << 64) | id)
}

const TWO_HOURS: Duration = Duration::from_secs(7200);
