//! The application's calls about TCP: to open and accept connections, bind and listen, configure addresses
//! and routes, and fetch traces. [`closing`](super::closing) has the release.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ackclock_control::tally::Tally;
use ackclock_wire::{Egress, Route};

use super::Endpoint;
use super::addresses::{Addresses, LocalAddress};
use super::claims::{BoundId, Sharing};
use super::deferred::IncomingId;
use super::listening::Closed;
use super::schedule::Subject;
use super::slot::{Owner, Slot};
use super::traces::{Traces, recorded};
use super::tuples::Use;
use crate::connection::{Environment, default_mss};
use crate::later::{self, Kept};
use crate::trace::{Batch, Reader};
use crate::{
    ConnectError, Connection, ConnectionId, FourTuple, Instant, ListenAddr, ListenError, ListenOptions,
    ListenerId, TcpConfig,
};

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
    /// Opens a connection (RFC 9293 §3.10.1, active). `local` is the address and port to use; `None` or port
    /// 0 leaves either open. The address is one of the endpoint's, or with
    /// [`transparent`](crate::EndpointConfig::transparent) that of any host.
    ///
    /// # Errors
    /// The remote address cannot be a peer, there is no local address for it, the four-tuple is in use, or
    /// there are too many connections. Nothing has been sent then.
    // RFC 9293 MUST-43: OPEN takes an optional local address.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local: (Option<IpAddr>, u16),
        tcp: Option<TcpConfig>,
    ) -> Result<ConnectionId, ConnectError> {
        let now = self.advance(now);
        let tuple = self.tuple_for(remote, local)?;
        Ok(self
            .open(now, tuple, tcp, |now, tcp, environment| Connection::active(now, tuple, tcp, environment)))
    }

    /// Opens a connection as [`connect`](Self::connect) does, with `data` that the server may read from the
    /// SYN if it gave this end a cookie before (TCP Fast Open, RFC 7413). Without a cookie, or where such
    /// SYNs get lost, the data follows the handshake. Returns how much was accepted; write the rest.
    ///
    /// The server may see this data twice, on two connections, if a SYN is duplicated on its way. That must
    /// not matter (RFC 7413 §2.1).
    ///
    /// # Errors
    /// As `connect`.
    pub fn connect_with_data(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local: (Option<IpAddr>, u16),
        tcp: Option<TcpConfig>,
        data: &[u8],
    ) -> Result<(ConnectionId, usize), ConnectError> {
        let now = self.advance(now);
        let tuple = self.tuple_for(remote, local)?;
        let offer = self.non_tcp().servers.offer(now, remote.ip(), default_mss(&tuple));
        self.rare_counters().fast_open_suspended.grow(u64::from(offer.is_none()));
        let mut taken = 0;
        let id = self.open(now, tuple, tcp, |now, tcp, environment| {
            let (connection, len) = Connection::active_with_data(now, tuple, tcp, environment, offer, data);
            taken = len;
            connection
        });
        Ok((id, taken))
    }

    /// The four-tuple of a new connection, held.
    fn tuple_for(
        &mut self,
        remote: SocketAddr,
        local: (Option<IpAddr>, u16),
    ) -> Result<FourTuple, ConnectError> {
        if !self.addresses.valid_peer(remote) {
            return Err(ConnectError::InvalidRemote(remote));
        }
        let addr = self.local_addr_for(remote.ip(), local.0)?;
        if self.connections.len() >= self.config.connections_max {
            return Err(ConnectError::TooManyConnections(self.config.connections_max));
        }
        let tuple_from = |port| FourTuple::new(SocketAddr::new(addr, port), remote);
        let port = match local.1 {
            0 => self.find_port(Use::Connection(addr, remote), |endpoint, port| {
                endpoint.hold_drawn(&tuple_from(port))
            }),
            port => {
                let tuple = tuple_from(port);
                self.sample_ports(&tuple);
                let to_itself = tuple.local() == tuple.remote() && !self.addresses.is_own(addr);
                let is_free = !to_itself && self.find(&tuple).is_none();
                Some(port).filter(|_| is_free && self.tuples.hold(&tuple).is_ok())
            }
        };
        port.map(tuple_from).ok_or(ConnectError::AddressInUse(remote))
    }

    /// Holds a four-tuple with a port that was drawn, unless that is taken, which is known then.
    fn hold_drawn(&mut self, tuple: &FourTuple) -> bool {
        // A connection from a socket to itself must be requested by that port.
        let claimed = self.claims.has(tuple.local_addr, tuple.local_port);
        if claimed || tuple.local() == tuple.remote() {
            self.tuples.learn_port(Use::of(tuple), tuple.local_port);
            return false;
        }
        !self.is_taken(tuple) && self.tuples.hold(tuple).is_ok()
    }

    /// Whether a connection or record of any endpoint has this four-tuple. If so, remembers that its port is
    /// taken.
    fn is_taken(&mut self, tuple: &FourTuple) -> bool {
        self.tuples.is_taken_anywhere(tuple).unwrap_or_else(|| {
            let is_taken = self.find(tuple).is_some();
            if is_taken {
                self.tuples.learn_port(Use::of(tuple), tuple.local_port);
            }
            is_taken
        })
    }

    /// A random port that `take` takes. If it does not, it has made that port known as taken, so that the
    /// search ends.
    pub(super) fn find_port(
        &mut self,
        wanted: Use,
        mut take: impl FnMut(&mut Self, u16) -> bool,
    ) -> Option<u16> {
        loop {
            let port = self.tuples.draw_port(wanted)?;
            if take(self, port) {
                return Some(port);
            }
        }
    }

    /// A connection is opened from a port that the application chose. Ports taken in this way are noticed as
    /// drawn ones are: one random port to the same peer is looked at.
    fn sample_ports(&mut self, chosen: &FourTuple) {
        if let Some(local_port) = self.tuples.sample_port(chosen) {
            self.is_taken(&FourTuple { local_port, ..*chosen });
        }
    }

    fn open(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        tcp: Option<TcpConfig>,
        make: impl FnOnce(Instant, Arc<TcpConfig>, &Environment) -> Connection,
    ) -> ConnectionId {
        let tcp = tcp.map_or_else(|| Arc::clone(&self.config.tcp), Arc::new);
        let connection = make(now, tcp, &self.environment(&tuple, self.numbers.iss(now, &tuple)));
        let id = self.add_connection(connection, Owner::Application);
        self.tuples.release(&tuple);
        self.counters.opened_actively.count();
        self.change(id.index, |_| ());
        self.check_invariants();
        id
    }

    pub(super) fn local_addr_for(
        &self,
        remote: IpAddr,
        wanted: Option<IpAddr>,
    ) -> Result<IpAddr, ConnectError> {
        match wanted {
            Some(addr) if !self.addresses.may_be_local(addr) => Err(ConnectError::NotLocal(addr)),
            // A packet to an address of ours comes back here, but an answer to another host leaves.
            Some(addr) if self.addresses.is_own(remote) && !self.addresses.is_own(addr) => {
                Err(ConnectError::NotLocal(addr))
            }
            Some(addr) if addr.is_ipv4() != remote.is_ipv4() => Err(ConnectError::NoLocalAddress(remote)),
            Some(addr) => Ok(addr),
            None => self.addresses.source_for(remote).ok_or(ConnectError::NoLocalAddress(remote)),
        }
    }

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
            let connections = self.connections.iter().filter(|(_, _, slot)| slot.is_bound());
            let connections = connections.map(|(_, _, slot)| slot.tuple());
            let records = self.time_wait.tuples();
            self.tuples.count_connections(|| connections.chain(records));
        }
        let wanted = Use::Bound(addr, sharing);
        let is_free = |endpoint: &mut Self, port| {
            let claimed = !endpoint.claims.is_free(addr, port, sharing);
            !endpoint.tuples.is_port_taken(addr, sharing, port, claimed)
        };
        let port = match port {
            0 => self.find_port(wanted, is_free),
            port => Some(port).filter(|&port| is_free(self, port)),
        };
        self.tuples.forget_few_connections();
        let port = port.ok_or(ListenError::AddressInUse)?;
        let bound = self.claims.claim(addr, port, sharing)?;
        if !self.claims.is_free(addr, port, sharing) {
            // Another like it cannot have the port, too.
            self.tuples.note_port(wanted, port);
        }
        Ok(bound)
    }

    /// Records a binding made at the first of several endpoints, under the same id.
    ///
    /// # Errors
    /// The port is in use here, or there are too many.
    pub fn bind_as(&mut self, id: BoundId, options: BindOptions) -> Result<(), ListenError> {
        let BindOptions { addr, sharing, .. } = options;
        self.claims.claim_as(id, addr, sharing)
    }

    /// The address of a bound socket.
    #[must_use]
    pub fn bound_addr(&self, id: BoundId) -> Option<ListenAddr> {
        let (addr, port, _) = self.claims.get(id)?;
        Some(ListenAddr { addr, port: Some(port) })
    }

    /// Releases the port of a bound socket. Connections opened from it keep theirs.
    pub fn release_bound(&mut self, id: BoundId) {
        self.claims.release(id);
        self.tuples.release_port(id.port);
    }

    /// Starts to listen (RFC 9293 §3.10.1, passive). Port 0 asks for a free one.
    ///
    /// # Errors
    /// The address is not ours or in use, or there are too many listeners.
    pub fn listen(&mut self, now: Instant, options: ListenOptions) -> Result<ListenerId, ListenError> {
        let Some(port) = options.addr.port else {
            self.advance(now);
            self.check_local(options.addr.addr)?;
            return self.listening.open(options, None, &self.config.tcp, &self.later);
        };
        let sharing = Sharing { reuse_address: options.reuse_address, reuse_port: options.reuse_port };
        let bound = self.bind(now, BindOptions { addr: options.addr.addr, port, sharing })?;
        self.listen_bound(now, bound, options)
    }

    /// Listens with a bound socket, at its address and port and with its sharing; `options` give the rest.
    /// The socket becomes the listener's, even if this fails.
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
        let Some((addr, port, sharing)) = self.claims.get(bound) else {
            return Err(ListenError::AddressInUse);
        };
        let (addr, reuse_port) = (ListenAddr { addr, port: Some(port) }, sharing.reuse_port);
        let listens = self.claims.listen(bound);
        let options = ListenOptions { addr, reuse_port, ..options };
        let made =
            listens.and_then(|()| self.listening.open(options, Some(bound), &self.config.tcp, &self.later));
        if made.is_err() {
            self.release_bound(bound);
        }
        made
    }

    /// All listeners, in no particular order.
    pub fn listeners(&self) -> impl Iterator<Item = crate::ListenerInfo> + '_ {
        self.listening.infos()
    }

    fn check_local(&self, addr: Option<IpAddr>) -> Result<(), ListenError> {
        match addr.filter(|&addr| !addr.is_unspecified() && !self.addresses.may_be_local(addr)) {
            Some(addr) => Err(ListenError::NotLocal(addr)),
            None => Ok(()),
        }
    }

    /// Changes the settings of connections that a listener accepts from now on. Returns whether the listener
    /// exists.
    pub fn update_listener(&mut self, id: ListenerId, change: impl FnOnce(&mut TcpConfig)) -> bool {
        self.listening.tcp_mut(id).map(change).is_some()
    }

    /// The settings of the connections that a listener accepts.
    #[must_use]
    pub fn listener_tcp(&self, id: ListenerId) -> Option<&TcpConfig> {
        self.listening.tcp(id).map(|tcp| &**tcp)
    }

    /// A listener's address, with the ephemeral port if port 0 was requested.
    #[must_use]
    pub fn listener_addr(&self, id: ListenerId) -> Option<ListenAddr> {
        self.listening.addr(id)
    }

    /// Stops listening. Half-open connections are dropped, those that wait to be accepted are reset.
    pub fn close_listener(&mut self, now: Instant, id: ListenerId) {
        let now = self.advance(now);
        let Some(Closed { tcp, claim, half_open, unaccepted }) = self.listening.close(id) else { return };
        later::keep(|| Kept::Settings(tcp));
        if let Some(claim) = claim {
            self.release_bound(claim);
        }
        for index in half_open {
            self.remove_half_open(index);
        }
        for (id, _) in unaccepted {
            self.abort_unowned(now, id);
        }
        self.check_invariants();
    }

    /// Whether [`accept`](Self::accept) would return a connection.
    #[must_use]
    pub fn has_acceptable(&self, id: ListenerId) -> bool {
        self.listening.has_acceptable(id)
    }

    /// The next established connection of a listener. The caller owns it until `release`.
    pub fn accept(&mut self, now: Instant, id: ListenerId) -> Option<ConnectionId> {
        self.accept_decided(now, id).map(|(connection, _)| connection)
    }

    /// The next established connection of a listener. If the listener defers accepting, also the SYN that it
    /// had reported.
    pub fn accept_decided(
        &mut self,
        now: Instant,
        id: ListenerId,
    ) -> Option<(ConnectionId, Option<IncomingId>)> {
        self.advance(now);
        let (connection, incoming) = self.listening.accept(id)?;
        let slot = self.connections.get_mut(connection.index, connection.generation)?;
        if slot.pass_to(Owner::Application) {
            self.schedule.report(Subject::Connection(connection.index));
        }
        Some((connection, incoming))
    }

    /// A connection that the caller owns, or `None` after `release`.
    #[must_use]
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        let slot = self.connections.get(id.index, id.generation)?;
        (slot.owner() == Owner::Application).then_some(&slot.connection)
    }

    /// Calls `f` on a connection, and handles the segments and timers that follow from it.
    pub fn update<R>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        f: impl FnOnce(&mut Connection, Instant) -> R,
    ) -> Option<R> {
        let now = self.advance(now);
        self.connection(id)?;
        let most = self.openings.most(id.index);
        let result = self.change(id.index, |connection| {
            let result = f(connection, now);
            (result, most.map(|most| connection.open_window(most)))
        });
        let (result, opening) = result?;
        if let Some((bytes, wants_more)) = opening {
            self.openings.note(id.index, bytes, wants_more);
        }
        self.relieve(now);
        Some(result)
    }

    /// The ids of all connections, including those in accept queues and those released, but not TIME-WAIT
    /// records.
    pub fn connections(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> + '_ {
        let all = self.connections.iter();
        all.map(|(index, generation, slot)| (ConnectionId { index, generation }, &slot.connection))
    }

    /// The number of those connections.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Those with an [index](ConnectionId::index) in this range, to look at a large table in parts.
    pub fn connections_in(
        &self,
        indices: std::ops::Range<u32>,
    ) -> impl Iterator<Item = (ConnectionId, &Connection)> + '_ {
        let some = self.connections.iter_in(indices);
        some.map(|(index, generation, slot)| (ConnectionId { index, generation }, &slot.connection))
    }

    /// The indices that connections have or had.
    #[must_use]
    pub fn connection_indices(&self) -> std::ops::Range<u32> {
        self.connections.indices()
    }

    /// Replaces the local addresses, each in a separate network.
    // RFC 9293 MUST-45: existing connections keep theirs.
    pub fn set_addresses(&mut self, addresses: Vec<IpAddr>) {
        self.addresses.set_own(addresses.into_iter().map(LocalAddress::from).collect());
    }

    /// Replaces the local addresses, and the directed broadcast addresses of their networks.
    pub fn set_local_addresses(&mut self, addresses: Vec<LocalAddress>, broadcast: Vec<IpAddr>) {
        self.addresses.set_own(addresses);
        self.addresses.set_broadcast(broadcast);
    }

    /// Replaces the networks that are reached from a chosen address.
    pub fn set_source_routes(&mut self, routes: Vec<Route<IpAddr>>) {
        self.addresses.set_routes(routes);
    }

    /// The device's MTU changed. It applies to all destinations without a link's route.
    pub fn set_mtu(&mut self, now: Instant, mtu: usize) {
        self.addresses.set_mtu(mtu);
        self.set_mtus(now, |addresses, remote| addresses.link_to(remote).is_none().then_some(mtu));
    }

    /// Replaces the links' routes. Connections to destinations with a new packet size follow.
    pub fn set_link_routes(&mut self, now: Instant, routes: Vec<Route<Egress>>) {
        let before = self.addresses.set_links(routes);
        self.set_mtus(now, |addresses, remote| {
            let mtu = addresses.mtu_to(remote);
            Some(mtu).filter(|&mtu| mtu != addresses.mtu_by(&before, remote))
        });
    }

    /// Tells connections of the packet size to their peers, where there is another.
    fn set_mtus(&mut self, now: Instant, changed: impl Fn(&Addresses, IpAddr) -> Option<usize>) {
        let now = self.advance(now);
        for index in self.connections.indices() {
            let remote = self.connections.at(index).map(|slot| slot.tuple().remote_addr);
            if let Some(mtu) = remote.and_then(|remote| changed(&self.addresses, remote)) {
                self.change(index, |connection| connection.set_mtu(now, mtu));
            }
        }
    }

    /// Sorts addresses of one name, of one family or both, into the order in which to try them (RFC 6724 §6).
    /// Equals keep their order.
    pub fn sort_destinations(&self, remotes: &mut [IpAddr]) {
        self.addresses.sort_destinations(remotes);
    }

    /// How often a connection that makes progress was refused memory, at any endpoint that shares the budget.
    /// When this changes, the others have a new deadline ([`poll_timeout`](Self::poll_timeout)): what holds
    /// the memory may be theirs.
    #[must_use]
    pub fn memory_refusals(&self) -> u32 {
        self.memory.refusals()
    }

    /// Reports whether the driver is behind: packets have been waiting at the device for a while, and it will
    /// drop further ones, from any sender, once it is full. While the driver is behind, answers to strangers,
    /// whose addresses may be false, leave at a sixteenth of the rate at which packets arrive. Answers
    /// without room to wait are dropped and counted
    /// ([`Counters::dropped_replies`](crate::Counters::dropped_replies)). Everything else goes on as usual.
    pub fn set_behind(&mut self, behind: bool) {
        self.replies.set_behind(behind, self.counters.packets_received);
    }

    /// Records of traced connections, if some are due. A driver that traces calls this after each turn. At
    /// most 4 Mi records wait (64 MiB). Later ones are dropped and counted, in the connection's next batch
    /// ([`Batch::missed`]) and in
    /// [`Counters::trace_records_dropped`](super::Counters::trace_records_dropped).
    pub fn poll_trace(&mut self) -> Option<Batch> {
        self.traces.next(Reader::Trace)
    }

    /// Returns the first batch that is `wanted`. The others stay where they are.
    pub fn poll_trace_if(&mut self, wanted: impl Fn(&Batch) -> bool) -> Option<Batch> {
        self.traces.next_if(wanted)
    }

    /// Copies the records that a connection's trace has not given out; they stay in the trace. `None`: the
    /// connection is not traced, or its trace keeps no records.
    #[must_use]
    pub fn recorded(&self, id: ConnectionId) -> Option<Batch> {
        recorded(self.connections.get(id.index, id.generation)?)
    }

    /// The number of a connection, by which batches name it: they are numbered as they are made, from 0.
    #[must_use]
    pub fn number(&self, id: ConnectionId) -> Option<u64> {
        Some(self.connections.get(id.index, id.generation)?.number())
    }

    /// The connection that has this number, if it still exists.
    #[must_use]
    pub fn numbered(&self, number: u64) -> Option<ConnectionId> {
        let found = self.connections.iter().find(|(_, _, slot)| slot.number() == number);
        found.map(|(index, generation, _)| ConnectionId { index, generation })
    }

    /// Events that changed a connection or cost it data, if the endpoint [reports
    /// changes](crate::EndpointConfig::tell_changes), whether or not the connection is traced. A driver that
    /// reports them calls this after each turn. The bound of [`poll_trace`](Self::poll_trace) is for both
    /// together.
    pub fn poll_changes(&mut self) -> Option<Batch> {
        self.traces.next(Reader::Changes)
    }

    /// Whether [`poll_changes`](Self::poll_changes) would return something.
    #[inline]
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.traces.has_changes()
    }

    /// Whether [`poll_trace`](Self::poll_trace) would return something.
    #[inline]
    #[must_use]
    pub fn has_traces(&self) -> bool {
        self.traces.has_traces()
    }

    /// Whether records have come from any connection so far.
    #[inline]
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.traces.is_used()
    }

    /// Makes all traced connections deliver their records now.
    pub fn request_traces(&mut self) {
        self.for_each_traced(|traces, slot| {
            slot.connection.request_trace();
            traces.collect(slot);
        });
    }

    /// Makes all connections deliver what they would at their end, because the driver stops polling.
    pub fn end_traces(&mut self) {
        self.for_each_traced(Traces::end);
    }

    fn for_each_traced(&mut self, f: impl Fn(&mut Traces, &mut Slot)) {
        for index in self.connections.indices() {
            if let Some(slot) = self.connections.at_mut(index) {
                f(&mut self.traces, slot);
            }
        }
    }
}

ackclock_form::form! {
    struct BindOptions { addr, port, sharing }
}
