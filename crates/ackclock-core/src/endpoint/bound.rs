//! Passive opening, and binding: a socket is bound to an address and a port, and may then listen or connect.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::Endpoint;
use super::claims::{BoundId, Sharing, overlap};
use super::fast_open::PendingFastOpens;
use super::listener::Listener;
use crate::{FourTuple, Instant, ListenAddr, ListenError, ListenOptions, ListenerId, TcpConfig};

/// The binding of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindOptions {
    /// The local address, as a listener's; `None` means any.
    pub addr: Option<IpAddr>,
    /// The local port; 0 asks for a free one.
    pub port: u16,
    /// How the port is shared.
    pub sharing: Sharing,
}

impl Endpoint {
    /// Binds a socket: only sockets that share the port can also get it.
    /// [`release_bound`](Self::release_bound) releases it.
    ///
    /// # Errors
    /// The address is not ours; the port is in use by a listener or socket or, without `reuse_address`, by a
    /// connection; or there are too many.
    pub fn bind(&mut self, now: Instant, options: BindOptions) -> Result<BoundId, ListenError> {
        self.advance(now);
        let BindOptions { addr, port, sharing } = options;
        self.check_local(addr)?;
        let taken = if sharing.reuse_address { Vec::new() } else { self.connected_ports(addr) };
        let is_free = |port: u16| {
            let (word, bit) = (usize::from(port) / 64, u32::from(port) % 64);
            let connected = taken.get(word).is_some_and(|bits: &u64| bits & 1_u64.wrapping_shl(bit) != 0);
            !connected && self.listeners.claims.is_free(addr, port, sharing)
        };
        let port = if port == 0 {
            let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            let mut ports = self.ports.candidates(addr.unwrap_or(any), SocketAddr::new(any, 0));
            ports.find(|&port| is_free(port)).ok_or(ListenError::AddressInUse)?
        } else if is_free(port) {
            port
        } else {
            return Err(ListenError::AddressInUse);
        };
        self.listeners.claim(addr, port, sharing)
    }

    /// Records a binding made at the first of several endpoints, under the same name.
    ///
    /// # Errors
    /// The port is in use here, or there are too many.
    pub fn bind_as(&mut self, id: BoundId, options: BindOptions) -> Result<(), ListenError> {
        let BindOptions { addr, sharing, .. } = options;
        self.listeners.claim_as(id, addr, sharing)
    }

    /// The address of a bound socket.
    #[must_use]
    pub fn bound_addr(&self, id: BoundId) -> Option<ListenAddr> {
        let (addr, port, _) = self.listeners.claims.get(id)?;
        Some(ListenAddr { addr, port: Some(port) })
    }

    /// Releases the port of a bound socket. Connections opened from it keep theirs.
    pub fn release_bound(&mut self, id: BoundId) {
        self.listeners.claims.release(id);
    }

    /// Starts to listen (RFC 9293 §3.10.1, passive). Port 0 asks for a free one.
    ///
    /// # Errors
    /// The address is not ours or in use, or there are too many listeners.
    pub fn listen(&mut self, now: Instant, options: ListenOptions) -> Result<ListenerId, ListenError> {
        let Some(port) = options.addr.port else {
            self.advance(now);
            self.check_local(options.addr.addr)?;
            return self.insert_listener(options, None);
        };
        let sharing = Sharing { reuse_address: options.reuse_address, reuse_port: options.reuse_port };
        let bound = self.bind(now, BindOptions { addr: options.addr.addr, port, sharing })?;
        self.listen_bound(now, bound, options)
    }

    /// The same with a bound socket. Its address, port and sharing count, and `options` give the rest. The
    /// socket becomes the listener's, even if this fails.
    ///
    /// # Errors
    /// Another socket that shares the address listens, or there are too many listeners.
    pub fn listen_bound(
        &mut self,
        now: Instant,
        bound: BoundId,
        options: ListenOptions,
    ) -> Result<ListenerId, ListenError> {
        self.advance(now);
        let Some((addr, port, sharing)) = self.listeners.claims.get(bound) else {
            return Err(ListenError::AddressInUse);
        };
        let (addr, reuse_port) = (ListenAddr { addr, port: Some(port) }, sharing.reuse_port);
        let listens = self.listeners.claims.listen(bound);
        let made = listens
            .and_then(|()| self.insert_listener(ListenOptions { addr, reuse_port, ..options }, Some(bound)));
        if made.is_err() {
            self.release_bound(bound);
        }
        made
    }

    /// Changes the settings of connections that a listener accepts from now on. Returns whether the listener
    /// exists.
    pub fn update_listener(&mut self, id: ListenerId, change: impl FnOnce(&mut TcpConfig)) -> bool {
        let listener = self.listeners.get_mut(id);
        listener.map(|listener| change(Arc::make_mut(&mut listener.tcp))).is_some()
    }

    /// The settings of the connections that a listener accepts.
    #[must_use]
    pub fn listener_tcp(&self, id: ListenerId) -> Option<&TcpConfig> {
        self.listeners.get(id).map(|listener| &*listener.tcp)
    }

    fn insert_listener(
        &mut self,
        options: ListenOptions,
        claim: Option<BoundId>,
    ) -> Result<ListenerId, ListenError> {
        let tcp = options.tcp.map_or_else(|| Arc::clone(&self.config.tcp), Arc::new);
        let fast_open = options.fast_open_max > 0;
        let listener = Listener {
            addr: options.addr,
            claim,
            tcp,
            backlog: options.backlog,
            syn_backlog: options.syn_backlog,
            decisions_max: options.decisions_max,
            deferred: options.deferred,
            reuse_port: options.reuse_port,
            fast_open: fast_open.then(|| Box::new(PendingFastOpens::new(options.fast_open_max))),
            accept_queue: VecDeque::new(),
            half_open: 0,
            undecided: 0,
            overflowed: None,
        };
        self.listeners.insert(listener, &self.later)
    }

    fn check_local(&self, addr: Option<IpAddr>) -> Result<(), ListenError> {
        match addr.filter(|&addr| !addr.is_unspecified() && !self.addresses.is_own(addr)) {
            Some(addr) => Err(ListenError::NotLocal(addr)),
            None => Ok(()),
        }
    }

    /// The ports of this address with connections, TIME-WAIT included, as a bitmap. It searches all
    /// connections; only a socket that does not reuse addresses pays for that.
    fn connected_ports(&self, addr: Option<IpAddr>) -> Vec<u64> {
        let mut ports = vec![0_u64; (usize::from(u16::MAX) + 1) / 64];
        let connections = self.connections.iter().filter(|(_, _, live)| live.bound);
        let connections = connections.map(|(_, _, live)| *live.name());
        let mut note = |tuple: &FourTuple| {
            let word = ports.get_mut(usize::from(tuple.local_port) / 64);
            if let Some(word) = word.filter(|_| overlap(addr, Some(tuple.local_addr))) {
                // The shift wraps at 64.
                *word |= 1_u64.wrapping_shl(tuple.local_port.into());
            }
        };
        match self.directory() {
            // Including those of the other endpoints.
            Some(directory) => directory.for_each(&mut note),
            None => connections.chain(self.time_wait.names()).for_each(|tuple| note(&tuple)),
        }
        ports
    }
}
