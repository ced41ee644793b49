//! Passive opening, and binding: a socket is bound to an address and a port, and may then listen or connect.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use super::Endpoint;
use super::claims::{BoundId, Sharing};
use super::fast_open::PendingFastOpens;
use super::listener::Listener;
use super::taken::{Taken, Use};
use crate::{Instant, ListenAddr, ListenError, ListenOptions, ListenerId, TcpConfig};

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
        if !sharing.reuse_address {
            self.count_names();
        }
        let wanted = Use::Bound(addr, sharing);
        let port = match port {
            0 => self.find_port(wanted, |endpoint, port| !endpoint.is_port_taken(wanted, port)),
            port => Some(port).filter(|&port| !self.is_port_taken(wanted, port)),
        };
        self.taken(Taken::forget_few_names);
        let port = port.ok_or(ListenError::AddressInUse)?;
        let bound = self.listeners.claim(addr, port, sharing)?;
        self.taken(|taken| taken.note(wanted, port));
        Ok(bound)
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
        self.taken(|taken| taken.released(id.port));
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

    /// Whether a socket cannot be bound to this port. If so, it is known then.
    fn is_port_taken(&mut self, wanted: Use, port: u16) -> bool {
        let Use::Bound(addr, sharing) = wanted else { return false };
        let claimed = !self.listeners.claims.is_free(addr, port, sharing);
        // In one step: another endpoint may end the connection meanwhile.
        self.taken(|taken| {
            let is_taken = claimed || !sharing.reuse_address && taken.is_connected(addr, port);
            if is_taken {
                taken.learn(wanted, port);
            }
            is_taken
        })
    }

    /// Counts the names on each port, if they are not counted already. It visits all names; that is once,
    /// unless they are few.
    fn count_names(&mut self) {
        match self.directory() {
            // Including those of the other endpoints.
            Some(directory) => directory.count_names(),
            None if self.ports.taken.counts_names() => {}
            None => {
                let connections = self.connections.iter().filter(|(_, _, live)| live.bound);
                let connections = connections.map(|(_, _, live)| *live.name());
                self.ports.taken.count_names(connections.chain(self.time_wait.names()));
            }
        }
    }
}
