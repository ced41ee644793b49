//! Listeners: who takes a SYN, and which connections wait to be accepted.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use super::cookies::COOKIE_LIFETIME;
use super::keys::KeyedState;
use super::slots::Slots;
use crate::{ConnectionId, IncomingId, Instant, ListenAddr, ListenError, ListenerId, TcpConfig};

/// All listeners of an endpoint.
#[derive(Debug)]
pub(super) struct Listeners {
    slots: Slots<Listener>,
    by_addr: HashMap<ListenAddr, u32, KeyedState>,
    max: usize,
}

/// One listener.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) addr: ListenAddr,
    /// Settings of the connections it accepts.
    pub(super) tcp: Arc<TcpConfig>,
    pub(super) backlog: usize,
    pub(super) syn_backlog: usize,
    pub(super) decisions_max: usize,
    pub(super) deferred: bool,
    /// Established connections that wait, the oldest first; with deferred accept, which SYN each came of.
    pub(super) accept_queue: VecDeque<(ConnectionId, Option<IncomingId>)>,
    /// Half-open records, those that wait for a decision or whose end the application has not heard of included.
    pub(super) half_open: usize,
    /// Those that wait for a decision.
    pub(super) undecided: usize,
    /// When a SYN last found the queue full.
    pub(super) overflowed: Option<Instant>,
}

impl Listeners {
    pub(super) fn new(state: KeyedState, max: usize) -> Self {
        Self { slots: Slots::default(), by_addr: HashMap::with_hasher(state), max }
    }

    // RFC 9293 MUST-41, RFC 9293 MUST-42: a passive OPEN adds an entry here and touches no connection, whichever port
    // it is for.
    pub(super) fn insert(&mut self, listener: Listener) -> Result<ListenerId, ListenError> {
        if self.by_addr.contains_key(&listener.addr) {
            return Err(ListenError::AddressInUse);
        }
        if self.slots.len() >= self.max {
            return Err(ListenError::TooManyListeners(self.max));
        }
        let addr = listener.addr;
        let (index, generation) = self.slots.insert(listener);
        self.by_addr.insert(addr, index);
        Ok(ListenerId { index, generation })
    }

    pub(super) fn remove(&mut self, id: ListenerId) -> Option<Listener> {
        self.get(id)?;
        let listener = self.slots.remove(id.index)?;
        self.by_addr.remove(&listener.addr);
        Some(listener)
    }

    /// The listener for a SYN to this socket: the most specific one, where an address says more than a port.
    pub(super) fn find(&self, addr: IpAddr, port: u16) -> Option<ListenerId> {
        let (addr, port) = (Some(addr), Some(port));
        let candidates = [(addr, port), (addr, None), (None, port), (None, None)];
        let found =
            candidates.into_iter().find_map(|(addr, port)| self.by_addr.get(&ListenAddr { addr, port }));
        self.id_at(*found?)
    }

    /// Whether some listener names this port.
    pub(super) fn has_port(&self, addr: IpAddr, port: u16) -> bool {
        [Some(addr), None].into_iter().any(|addr| self.has(ListenAddr { addr, port: Some(port) }))
    }

    pub(super) fn has(&self, addr: ListenAddr) -> bool {
        self.by_addr.contains_key(&addr)
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
    /// Whether one more connection may wait to be accepted.
    pub(super) fn has_room(&self) -> bool {
        self.accept_queue.len() < self.backlog.max(1)
    }

    /// Whether one more SYN has room, as far as this listener goes.
    pub(super) fn has_room_for_syn(&self) -> bool {
        let undecided = self.deferred && self.undecided >= self.decisions_max.max(1);
        self.half_open < self.syn_backlog.max(1) && !undecided
    }

    /// Whether an ACK may be a cookie that comes back.
    pub(super) fn recently_overflowed(&self, now: Instant) -> bool {
        self.overflowed.is_some_and(|at| now.saturating_since(at) <= COOKIE_LIFETIME)
    }

    /// The most half-open records that one source may have.
    pub(super) fn per_source_max(&self) -> usize {
        (self.syn_backlog / 4).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::{Key, Purpose};
    use super::*;

    fn listeners(max: usize) -> Listeners {
        Listeners::new(KeyedState(Key::derive(&[1; 32], Purpose::Tables)), max)
    }

    fn on(addr: Option<&str>, port: Option<u16>) -> Listener {
        Listener {
            addr: ListenAddr { addr: addr.map(|addr| addr.parse().unwrap()), port },
            tcp: Arc::new(super::super::tests::tcp_config()),
            backlog: 1,
            syn_backlog: 1,
            decisions_max: 1,
            deferred: false,
            accept_queue: VecDeque::new(),
            half_open: 0,
            undecided: 0,
            overflowed: None,
        }
    }

    #[test]
    fn the_most_specific_listener_wins() {
        let mut listeners = listeners(8);
        let find = |listeners: &Listeners| listeners.find("10.0.0.1".parse().unwrap(), 80);
        assert_eq!(find(&listeners), None);
        for listener in
            [on(None, None), on(None, Some(80)), on(Some("10.0.0.1"), None), on(Some("10.0.0.1"), Some(80))]
        {
            let id = listeners.insert(listener).unwrap();
            assert_eq!(find(&listeners), Some(id));
        }
        let others = listeners.insert(on(Some("10.0.0.2"), Some(80))).unwrap();
        assert_ne!(find(&listeners), Some(others));
    }

    #[test]
    fn one_address_has_one_listener_and_is_free_again_after_it() {
        let mut listeners = listeners(8);
        let id = listeners.insert(on(None, Some(80))).unwrap();
        assert_eq!(listeners.insert(on(None, Some(80))), Err(ListenError::AddressInUse));
        assert!(listeners.remove(id).is_some());
        assert!(listeners.remove(id).is_none());
        assert!(listeners.insert(on(None, Some(80))).is_ok());
    }

    #[test]
    fn the_table_of_listeners_is_bounded() {
        let mut listeners = listeners(1);
        listeners.insert(on(None, Some(80))).unwrap();
        assert_eq!(listeners.insert(on(None, Some(81))), Err(ListenError::TooManyListeners(1)));
    }
}
