//! The way off the link: configured gateways, and routers that advertise themselves (RFC 4861 §6.3).
//!
//! Deviation from RFC 4861 §6.3.4: an advertised hop limit is ignored, because the stack above writes
//! packets' headers.

use ackclock_control::tally::Tally;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use ackclock_wire::Cidr;
use ackclock_wire::random::Rng;

use crate::address::until;
use crate::nd::RouterAdvertisement;
use crate::{Instant, LinkConfig, LinkCounters, Timing};

/// The known routers, and the destinations that need none.
#[derive(Debug)]
pub(crate) struct Routers {
    gateways: Vec<IpAddr>,
    /// Those that advertise themselves; the first is used.
    learned: Vec<Router>,
    routers_max: usize,
    prefixes: Vec<OnLink>,
    prefixes_max: usize,
    /// The MTU of the link as routers tell it.
    mtu: Option<usize>,
    timing: Timing,
    /// Questions for routers still to be asked, and when.
    questions: u32,
    /// One was sent since the link came up.
    asked: bool,
    due: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Router {
    addr: Ipv6Addr,
    until: Instant,
}

#[derive(Clone, Copy, Debug)]
struct OnLink {
    prefix: Cidr,
    /// `None`: for ever.
    until: Option<Instant>,
}

impl Routers {
    pub fn new(config: &LinkConfig, now: Instant, random: &mut Rng) -> Self {
        let timing = config.timing;
        let due = config.autoconfigure.then(|| now + random.time_between(Duration::ZERO, timing.start_max));
        Self {
            gateways: config.gateways.clone(),
            learned: Vec::new(),
            routers_max: config.limits.routers_max,
            prefixes: Vec::new(),
            prefixes_max: config.limits.prefixes_max,
            mtu: None,
            questions: timing.router_questions,
            asked: false,
            timing,
            due,
        }
    }

    /// The router for an address that is not on the link.
    pub fn default_for(&self, dst: IpAddr) -> Option<IpAddr> {
        let gateway = self.gateways.iter().find(|gateway| gateway.is_ipv4() == dst.is_ipv4()).copied();
        let learned = || self.learned.first().filter(|_| dst.is_ipv6()).map(|router| router.addr.into());
        gateway.or_else(learned)
    }

    /// Whether routers advertise `addr` as on-link.
    pub fn is_on_link(&self, addr: IpAddr) -> bool {
        self.prefixes.iter().any(|on_link| on_link.prefix.contains(addr))
    }

    pub fn mtu(&self) -> Option<usize> {
        self.mtu
    }

    /// Whether a solicitation is still to be sent, or the last one to be answered.
    pub fn is_searching(&self) -> bool {
        self.due.is_some()
    }

    /// A router advertises itself (RFC 4861 §6.3.4).
    pub fn advertised(&mut self, now: Instant, told: &RouterAdvertisement, counters: &mut LinkCounters) {
        // RFC 4861 §6.3.7: an answer ends the solicitations. One is sent even if an advertisement came first,
        // because an answer may contain more.
        if told.lifetime_s > 0 && !self.asked {
            self.questions = self.questions.min(1);
        } else if told.lifetime_s > 0 {
            (self.questions, self.due) = (0, None);
        }
        let lifetime = Duration::from_secs(told.lifetime_s.into());
        let known = self.learned.iter().position(|router| router.addr == told.src);
        match known {
            Some(at) if lifetime.is_zero() => drop(self.learned.remove(at)),
            Some(at) => {
                if let Some(router) = self.learned.get_mut(at) {
                    router.until = now + lifetime;
                }
            }
            None if lifetime.is_zero() => {}
            None if self.learned.len() >= self.routers_max => counters.table_full.count(),
            None => self.learned.push(Router { addr: told.src, until: now + lifetime }),
        }
        // RFC 8200 §5: no link with IPv6 carries less than 1,280 bytes.
        let mtu = told.mtu.and_then(|mtu| usize::try_from(mtu).ok());
        self.mtu = mtu.filter(|mtu| *mtu >= MTU_MIN).or(self.mtu);
        for prefix in told.prefixes.iter().filter(|prefix| prefix.on_link) {
            // RFC 4861 §6.3.4: the link-local prefix is always on the link.
            if !prefix.prefix.is_unicast_link_local() && !prefix.prefix.is_multicast() {
                let network = Cidr::up_to(prefix.prefix.into(), prefix.len);
                self.on_link(now, network, prefix.valid_s, counters);
            }
        }
    }

    /// A neighbour did not answer, or is no longer a router: other routers come before it (RFC 4861 §6.3.6).
    pub fn failed(&mut self, addr: IpAddr) {
        if let Some(at) = self.learned.iter().position(|router| IpAddr::V6(router.addr) == addr) {
            let router = self.learned.remove(at);
            self.learned.push(router);
        }
    }

    /// A neighbour is a router no longer (RFC 4861 §7.2.5).
    pub fn left(&mut self, addr: IpAddr) {
        self.learned.retain(|router| IpAddr::V6(router.addr) != addr);
    }

    /// The link is back: routers are solicited again.
    pub fn ask_again(&mut self, now: Instant, autoconfigure: bool) {
        if autoconfigure {
            (self.questions, self.due) = (self.timing.router_questions, Some(now));
            self.asked = false;
        }
    }

    /// Runs what is due. Returns whether to solicit routers.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        self.learned.retain(|router| router.until > now);
        self.prefixes.retain(|on_link| on_link.until.is_none_or(|until| until > now));
        if self.due.is_none_or(|due| due > now) {
            return false;
        }
        let ask = self.questions > 0;
        self.questions = self.questions.saturating_sub(1);
        self.asked |= ask;
        // The last solicitation gets as much time for an answer as the others.
        self.due = ask.then_some(now + self.timing.router_interval);
        ask
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        let routers = self.learned.iter().map(|router| router.until);
        let prefixes = self.prefixes.iter().filter_map(|on_link| on_link.until);
        routers.chain(prefixes).chain(self.due).min()
    }

    fn on_link(&mut self, now: Instant, network: Cidr, valid_s: u32, counters: &mut LinkCounters) {
        let same = |on_link: &OnLink| {
            on_link.prefix.prefix_len() == network.prefix_len() && on_link.prefix.contains(network.addr())
        };
        let known = self.prefixes.iter().position(same);
        match known {
            Some(at) if valid_s == 0 => drop(self.prefixes.remove(at)),
            Some(at) => {
                if let Some(on_link) = self.prefixes.get_mut(at) {
                    on_link.until = until(now, valid_s);
                }
            }
            None if valid_s == 0 => {}
            None if self.prefixes.len() >= self.prefixes_max => counters.table_full.count(),
            None => self.prefixes.push(OnLink { prefix: network, until: until(now, valid_s) }),
        }
    }
}

const MTU_MIN: usize = 1280;
