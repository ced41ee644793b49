//! Listeners: which one takes a SYN, and which connections wait to be accepted.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::claims::{BoundId, Claims, Sharing};
use super::cookies::COOKIE_LIFETIME;
use super::fast_open::PendingFastOpens;
use super::keys::{Key, KeyedState, Purpose};
use super::reuse::{Group, MEMBERS_MAX};
use super::slots::Slots;
use crate::{ConnectionId, FourTuple, IncomingId, Instant, ListenAddr, ListenError, ListenerId, TcpConfig};

/// All listeners of an endpoint.
#[derive(Debug)]
pub(super) struct Listeners {
    slots: Slots<Listener>,
    by_addr: HashMap<ListenAddr, ListenersAt, KeyedState>,
    /// All claimed ports, including those of sockets that do not listen yet.
    pub(super) claims: Claims,
    max: usize,
}

/// The listeners on an address.
#[derive(Debug)]
enum ListenersAt {
    One(u32),
    Several(Box<Group>),
}

/// One listener.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) addr: ListenAddr,
    /// The port that it has; `None`: it is for every unclaimed port.
    pub(super) claim: Option<BoundId>,
    /// Settings of the connections it accepts.
    pub(super) tcp: Arc<TcpConfig>,
    pub(super) backlog: usize,
    pub(super) syn_backlog: usize,
    pub(super) decisions_max: usize,
    pub(super) deferred: bool,
    /// Whether others that also set this may listen on the same address.
    pub(super) reuse_port: bool,
    /// Present if Fast Open is served.
    pub(super) fast_open: Option<Box<PendingFastOpens>>,
    /// Established connections that wait, the oldest first; with deferred accept, with their SYNs.
    pub(super) accept_queue: VecDeque<(ConnectionId, Option<IncomingId>)>,
    /// Half-open records, including those that wait for a decision and those whose end the application has
    /// not learned.
    pub(super) half_open: usize,
    /// Those that wait for a decision.
    pub(super) undecided: usize,
    /// When a SYN last found the queue full.
    pub(super) overflowed: Option<Instant>,
}

impl Listeners {
    pub(super) fn new(state: KeyedState, max: usize) -> Self {
        Self { slots: Slots::default(), by_addr: HashMap::with_hasher(state), claims: Claims::default(), max }
    }

    /// Takes a port for a socket. Twice as many may be bound as may listen.
    pub(super) fn claim(
        &mut self,
        addr: Option<IpAddr>,
        port: u16,
        sharing: Sharing,
    ) -> Result<BoundId, ListenError> {
        self.claims.claim(addr, port, sharing, self.max.saturating_mul(2))
    }

    /// The same under a name given by another endpoint.
    pub(super) fn claim_as(
        &mut self,
        id: BoundId,
        addr: Option<IpAddr>,
        sharing: Sharing,
    ) -> Result<(), ListenError> {
        self.claims.claim_as(id, addr, sharing, self.max.saturating_mul(2))
    }

    // RFC 9293 MUST-41, RFC 9293 MUST-42: a passive OPEN adds an entry here and touches no connection,
    // whichever port it is for.
    // `later`: the source of the key for a shared address.
    pub(super) fn insert(&mut self, listener: Listener, later: &Key) -> Result<ListenerId, ListenError> {
        if let Some(place) = self.by_addr.get(&listener.addr) {
            self.check_shared(place, &listener)?;
        }
        if self.slots.len() >= self.max {
            return Err(ListenError::TooManyListeners(self.max));
        }
        let addr = listener.addr;
        let (index, generation) = self.slots.insert(listener);
        match self.by_addr.get_mut(&addr) {
            None => drop(self.by_addr.insert(addr, ListenersAt::One(index))),
            Some(ListenersAt::Several(group)) => {
                // `check_shared` found room.
                group.join(index);
            }
            Some(place) => {
                if let ListenersAt::One(first) = *place {
                    let key = later.subkey(Purpose::Reuse);
                    *place = ListenersAt::Several(Box::new(Group::of(key, first, index)));
                }
            }
        }
        Ok(ListenerId { index, generation })
    }

    /// Whether the listeners of an address, and this one, all agreed to share it.
    fn check_shared(&self, place: &ListenersAt, listener: &Listener) -> Result<(), ListenError> {
        let (first, room) = match place {
            ListenersAt::One(index) => (Some(*index), true),
            ListenersAt::Several(group) => (group.first(), group.has_room()),
        };
        let shares = first.and_then(|index| self.slots.at(index)).is_some_and(|first| first.reuse_port);
        match (shares && listener.reuse_port, room) {
            (false, _) => Err(ListenError::AddressInUse),
            (true, false) => Err(ListenError::TooManyOnAddress(MEMBERS_MAX)),
            (true, true) => Ok(()),
        }
    }

    /// Removes a listener. The caller releases its port.
    pub(super) fn remove(&mut self, id: ListenerId) -> Option<Listener> {
        self.get(id)?;
        let listener = self.slots.remove(id.index)?;
        match self.by_addr.get_mut(&listener.addr) {
            Some(ListenersAt::Several(group)) => {
                if let Some(last) = group.leave(id.index) {
                    self.by_addr.insert(listener.addr, ListenersAt::One(last));
                }
            }
            _ => drop(self.by_addr.remove(&listener.addr)),
        }
        Some(listener)
    }

    /// The listener for a SYN with this name: the most specific one; an address outranks a port.
    pub(super) fn find(&self, tuple: &FourTuple) -> Option<ListenerId> {
        let (addr, port) = (Some(tuple.local_addr), Some(tuple.local_port));
        let family = Some(unspecified(tuple.local_addr));
        let candidates =
            [(addr, port), (addr, None), (family, port), (None, port), (family, None), (None, None)];
        let found =
            candidates.into_iter().find_map(|(addr, port)| self.by_addr.get(&ListenAddr { addr, port }));
        self.id_at(match found? {
            ListenersAt::One(index) => *index,
            ListenersAt::Several(group) => group.choose(tuple)?,
        })
    }

    pub(super) fn id_at(&self, index: u32) -> Option<ListenerId> {
        self.slots.generation(index).map(|generation| ListenerId { index, generation })
    }

    pub(super) fn get(&self, id: ListenerId) -> Option<&Listener> {
        self.slots.get(id.index, id.generation)
    }

    pub(super) fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listener> {
        self.slots.get_mut(id.index, id.generation)
    }
}

impl Listener {
    /// Whether another connection may wait to be accepted.
    pub(super) fn has_room(&self) -> bool {
        self.accept_queue.len() < self.backlog.max(1)
    }

    /// Whether this listener has room for another SYN.
    pub(super) fn has_room_for_syn(&self) -> bool {
        let undecided = self.deferred && self.undecided >= self.decisions_max.max(1);
        self.half_open < self.syn_backlog.max(1) && !undecided
    }

    /// Whether an ACK may carry a cookie.
    pub(super) fn recently_overflowed(&self, now: Instant) -> bool {
        self.overflowed.is_some_and(|at| now.saturating_since(at) <= COOKIE_LIFETIME)
    }

    /// The most half-open records of one source. All clients of a proxy may have one address, and no cookie
    /// answers a SYN that waits for a decision: there a source may have as many as it leaves free, after A.
    /// K. Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches",
    /// IEEE/ACM Transactions on Networking 6(2), 1998, with α = 1.
    pub(super) fn per_source_max(&self) -> usize {
        let quarter = (self.syn_backlog / 4).max(1);
        let free = self.syn_backlog.saturating_sub(self.half_open);
        let undecided = self.decisions_max.saturating_sub(self.undecided);
        if self.deferred { quarter.max(free.min(undecided)) } else { quarter }
    }
}

/// The wildcard of the same family.
fn unspecified(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listeners(max: usize) -> Listeners {
        Listeners::new(KeyedState(Key::derive(&[1; 32], Purpose::Tables)), max)
    }

    fn insert(listeners: &mut Listeners, listener: Listener) -> Result<ListenerId, ListenError> {
        listeners.insert(listener, &Key::derive(&[1; 32], Purpose::Later))
    }

    fn on(addr: Option<&str>, port: Option<u16>) -> Listener {
        Listener {
            addr: ListenAddr { addr: addr.map(|addr| addr.parse().unwrap()), port },
            claim: None,
            tcp: Arc::new(super::super::tests::tcp_config()),
            backlog: 1,
            syn_backlog: 1,
            decisions_max: 1,
            deferred: false,
            reuse_port: false,
            fast_open: None,
            accept_queue: VecDeque::new(),
            half_open: 0,
            undecided: 0,
            overflowed: None,
        }
    }

    #[test]
    fn the_most_specific_listener_wins() {
        let mut listeners = listeners(8);
        let name = FourTuple::new("10.0.0.1:80".parse().unwrap(), "10.0.0.2:4000".parse().unwrap());
        let find = |listeners: &Listeners| listeners.find(&name);
        assert_eq!(find(&listeners), None);
        for (addr, port) in [
            (None, None),
            (Some("0.0.0.0"), None),
            (None, Some(80)),
            (Some("0.0.0.0"), Some(80)),
            (Some("10.0.0.1"), None),
            (Some("10.0.0.1"), Some(80)),
        ] {
            let listener = on(addr, port);
            let id = insert(&mut listeners, listener).unwrap();
            assert_eq!(find(&listeners), Some(id));
        }
        let others = insert(&mut listeners, on(Some("10.0.0.2"), Some(80))).unwrap();
        assert_ne!(find(&listeners), Some(others));
        let other_family = insert(&mut listeners, on(Some("::"), Some(80))).unwrap();
        assert_ne!(find(&listeners), Some(other_family));
    }

    #[test]
    fn one_address_has_one_listener_and_is_free_again_after_it() {
        let mut listeners = listeners(8);
        let id = insert(&mut listeners, on(None, Some(80))).unwrap();
        assert_eq!(insert(&mut listeners, on(None, Some(80))), Err(ListenError::AddressInUse));
        assert!(listeners.remove(id).is_some());
        assert!(listeners.remove(id).is_none());
        assert!(insert(&mut listeners, on(None, Some(80))).is_ok());
    }

    #[test]
    fn an_address_is_shared_only_by_those_who_all_said_so() {
        let shared = || Listener { reuse_port: true, ..on(None, Some(80)) };
        let mut listeners = listeners(128);
        let alone = insert(&mut listeners, on(None, Some(80))).unwrap();
        assert_eq!(insert(&mut listeners, shared()), Err(ListenError::AddressInUse));
        listeners.remove(alone).unwrap();
        let first = insert(&mut listeners, shared()).unwrap();
        let second = insert(&mut listeners, shared()).unwrap();
        assert_eq!(insert(&mut listeners, on(None, Some(80))), Err(ListenError::AddressInUse));
        // The remaining one has the address alone, and still shares it.
        listeners.remove(first).unwrap();
        let name = FourTuple::new("10.0.0.1:80".parse().unwrap(), "10.0.0.2:4000".parse().unwrap());
        assert_eq!(listeners.find(&name), Some(second));
        assert_eq!(insert(&mut listeners, on(None, Some(80))), Err(ListenError::AddressInUse));
        (1..MEMBERS_MAX).for_each(|_| assert!(insert(&mut listeners, shared()).is_ok()));
        assert_eq!(insert(&mut listeners, shared()), Err(ListenError::TooManyOnAddress(MEMBERS_MAX)));
    }

    #[test]
    fn the_table_of_listeners_is_bounded() {
        let mut listeners = listeners(1);
        insert(&mut listeners, on(None, Some(80))).unwrap();
        assert_eq!(insert(&mut listeners, on(None, Some(81))), Err(ListenError::TooManyListeners(1)));
    }
}
