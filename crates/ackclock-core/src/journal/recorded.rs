//! [`RecordedEndpoint`]: an endpoint whose every call is written to a [`Journal`] if there is one.
//!
//! The methods have the names of the endpoint's, and each is that call. A call is written before it is made,
//! so that one that panics is the last in the file; what it told its caller follows.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;

use ackclock_wire::{Egress, Route, RxMeta, TxPacket};
use bytes::Bytes;

#[cfg(feature = "tcp-ao")]
use super::JournalEnd;
use super::calls::{Call, Received};
use super::outcome::Outcome;
use super::sent::SentPacket;
use super::{Journal, RecordedConnection};
use crate::trace::Batch;
use crate::{
    BindOptions, BoundId, ConnectError, ConnectionId, Decision, Endpoint, Event, IncomingId, Instant, Limits,
    ListenError, ListenOptions, ListenerId, LocalAddress, OtherError, OtherPacket, Stray, TcpConfig, UdpId,
    UdpMeta, UdpOptions, UdpSocketError, UdpTransmit,
};

/// An endpoint, and where its calls are written. Without a journal each call costs one branch more than the
/// endpoint's own.
///
/// What only looks at the endpoint is called on it directly.
#[derive(Debug)]
pub struct RecordedEndpoint {
    endpoint: Endpoint,
    journal: Option<Box<Journal>>,
}

impl Deref for RecordedEndpoint {
    type Target = Endpoint;

    #[inline]
    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// Calls that pass their arguments on, with the time first if there is a `now`.
macro_rules! pass {
    ($(
        $(#[$doc:meta])*
        $method:ident $([$now:ident])? ($($arg:ident: $type:ty),*) $(-> $result:ty)? = $call:expr;
    )*) => {
        impl RecordedEndpoint {
            $(
                #[doc = concat!("See [`Endpoint::", stringify!($method), "`].")]
                $(#[$doc])*
                pub fn $method(&mut self $(, $now: Instant)? $(, $arg: $type)*) $(-> $result)? {
                    let at = Option::<Instant>::None $(.or(Some($now)))?;
                    let call = self.journal.is_some().then(|| $call);
                    self.run_noted(at, call, |endpoint| endpoint.$method($($now,)? $($arg),*))
                }
            )*
        }
    };
}

pass! {
    ///
    /// # Errors
    /// As there.
    connect[now](
        remote: SocketAddr, local: (Option<IpAddr>, u16), tcp: Option<TcpConfig>
    ) -> Result<ConnectionId, ConnectError> = Call::Connect { remote, local, tcp: tcp.clone() };
    ///
    /// # Errors
    /// As there.
    connect_with_data[now](
        remote: SocketAddr, local: (Option<IpAddr>, u16), tcp: Option<TcpConfig>, data: &[u8]
    ) -> Result<(ConnectionId, usize), ConnectError> =
        Call::ConnectWithData { remote, local, tcp: tcp.clone(), len: data.len() };
    ///
    /// # Errors
    /// As there.
    listen[now](options: ListenOptions) -> Result<ListenerId, ListenError> =
        Call::Listen { options: options.clone() };
    ///
    /// # Errors
    /// As there.
    listen_bound[now](bound: BoundId, options: ListenOptions) -> Result<ListenerId, ListenError> =
        Call::ListenBound { bound, options: options.clone() };
    ///
    /// # Errors
    /// As there.
    bind[now](options: BindOptions) -> Result<BoundId, ListenError> = Call::Bind { options };
    ///
    /// # Errors
    /// As there.
    bind_as(id: BoundId, options: BindOptions) -> Result<(), ListenError> = Call::BindAs { id, options };
    release_bound(id: BoundId) = Call::ReleaseBound { id };
    close_listener[now](id: ListenerId) = Call::CloseListener { id };
    accept_decided[now](id: ListenerId) -> Option<(ConnectionId, Option<IncomingId>)> = Call::Accept { id };
    decide[now](id: IncomingId, decision: Decision) -> bool = Call::Decide { id, decision };
    release[now](id: ConnectionId) = Call::Release { id };
    reset_orphans[now]() = Call::ResetOrphans;
    set_behind(behind: bool) = Call::SetBehind { behind };
    set_queue_stands(stands: bool) = Call::SetQueueStands { stands };
    set_mtu[now](mtu: usize) = Call::SetMtu { mtu };
    set_link_routes[now](routes: Vec<Route<Egress>>) = Call::SetLinkRoutes { routes: routes.clone() };
    set_local_addresses(addresses: Vec<LocalAddress>, broadcast: Vec<IpAddr>) =
        Call::SetLocalAddresses { addresses: addresses.clone(), broadcast: broadcast.clone() };
    set_source_routes(routes: Vec<Route<IpAddr>>) = Call::SetSourceRoutes { routes: routes.clone() };
    request_traces() = Call::RequestTraces;
    end_traces() = Call::EndTraces;
    poll_other() -> Option<OtherPacket> = Call::PollOther;
    has_other_room() -> bool = Call::HasOtherRoom;
    ///
    /// # Errors
    /// As there.
    send_other[now](packet: &OtherPacket) -> Result<(), OtherError> =
        Call::SendOther { bytes: packet.bytes.clone(), meta: packet.meta };
    close_others() = Call::CloseOthers;
    ///
    /// # Errors
    /// As there.
    udp_bind[now](options: UdpOptions) -> Result<UdpId, UdpSocketError> = Call::UdpBind { options };
    udp_close(id: UdpId) = Call::UdpClose { id };
    ///
    /// # Errors
    /// As there.
    udp_connect(id: UdpId, remote: Option<SocketAddr>) -> Result<(), UdpSocketError> =
        Call::UdpConnect { id, remote };
    ///
    /// # Errors
    /// As there.
    udp_send[now](id: UdpId, transmit: &UdpTransmit<'_>) -> Result<usize, UdpSocketError> = Call::UdpSend {
        id,
        len: transmit.contents.len(),
        to: transmit.to,
        from: transmit.from,
        segment_size: transmit.segment_size,
        ecn: transmit.ecn,
    };
    ///
    /// # Errors
    /// As there.
    udp_receive(id: UdpId, buf: &mut [u8], many: bool) -> Result<UdpMeta, UdpSocketError> =
        Call::UdpReceive { id, len: buf.len(), many };
    ///
    /// # Errors
    /// As there.
    udp_peek(id: UdpId, buf: &mut [u8]) -> Result<UdpMeta, UdpSocketError> =
        Call::UdpPeek { id, len: buf.len() };
    ///
    /// # Errors
    /// As there.
    udp_is_writable(id: UdpId) -> Result<bool, UdpSocketError> = Call::UdpIsWritable { id };
    ///
    /// # Errors
    /// As there.
    udp_take_error(id: UdpId) -> Result<(), UdpSocketError> = Call::UdpTakeError { id };
    ///
    /// # Errors
    /// As there.
    udp_set_ttl(id: UdpId, ttl: Option<u8>) -> Result<(), UdpSocketError> = Call::UdpSetTtl { id, ttl };
    ///
    /// # Errors
    /// As there.
    udp_set_traffic_class(id: UdpId, traffic_class: u8) -> Result<(), UdpSocketError> =
        Call::UdpSetTrafficClass { id, traffic_class };
}

impl RecordedEndpoint {
    /// An endpoint that has just been made, and where its calls go.
    #[must_use]
    pub fn new(endpoint: Endpoint, journal: Option<Journal>) -> Self {
        Self { endpoint, journal: journal.map(Box::new) }
    }

    /// Where the calls go.
    #[must_use]
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_deref()
    }

    /// Where the calls go, to flush or to end it.
    pub fn journal_mut(&mut self) -> Option<&mut Journal> {
        self.journal.as_deref_mut()
    }

    /// Writes what the journal holds back, for a driver that is about to sleep.
    #[inline]
    pub fn flush_journal(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.flush();
        }
    }

    /// Makes a call, with a note of it and of its result.
    #[inline]
    fn run<R: Outcome>(
        &mut self,
        now: Instant,
        call: impl FnOnce() -> Call,
        make: impl FnOnce(&mut Endpoint) -> R,
    ) -> R {
        match &mut self.journal {
            None => make(&mut self.endpoint),
            Some(journal) => {
                journal.call(now, &call());
                let result = make(&mut self.endpoint);
                journal.outcome(result.code());
                result
            }
        }
    }

    /// The same for a call that takes its arguments with it, or has no time: then the last call's counts.
    fn run_noted<R: Outcome>(
        &mut self,
        now: Option<Instant>,
        call: Option<Call>,
        make: impl FnOnce(&mut Endpoint) -> R,
    ) -> R {
        let last = self.journal.as_ref().map_or(Instant::ZERO, |journal| journal.last());
        if let (Some(journal), Some(call)) = (&mut self.journal, call) {
            journal.call(now.unwrap_or(last), &call);
        }
        let result = make(&mut self.endpoint);
        if let Some(journal) = &mut self.journal {
            journal.outcome(result.code());
        }
        result
    }

    /// See [`Endpoint::handle_packet`].
    #[inline]
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8], meta: RxMeta) {
        self.run(
            now,
            || Call::Packet { packet: Received::new(packet, meta, false) },
            |endpoint| endpoint.handle_packet(now, packet, meta),
        );
    }

    /// See [`Endpoint::handle_packet_bytes`].
    #[inline]
    pub fn handle_packet_bytes(&mut self, now: Instant, packet: &Bytes, meta: RxMeta) {
        self.run(
            now,
            || Call::Packet { packet: Received::new(packet, meta, true) },
            |endpoint| endpoint.handle_packet_bytes(now, packet, meta),
        );
    }

    /// See [`Endpoint::handle_timeout`].
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        self.run(now, || Call::Timeout, |endpoint| endpoint.handle_timeout(now));
    }

    /// See [`Endpoint::poll_transmit`].
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, limits: Limits) -> Option<TxPacket<'_>> {
        let Some(journal) = &mut self.journal else { return self.endpoint.poll_transmit(now, limits) };
        journal.call(now, &Call::Transmit { limits });
        let packet = self.endpoint.poll_transmit(now, limits);
        if let Some(packet) = &packet {
            journal.sent(&SentPacket::new(packet));
        }
        packet
    }

    /// See [`Endpoint::poll_event`].
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        let last = self.journal.as_ref().map_or(Instant::ZERO, |journal| journal.last());
        self.run(last, || Call::PollEvent, Endpoint::poll_event)
    }

    /// See [`Endpoint::update`].
    #[inline]
    pub fn update<R>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        f: impl FnOnce(&mut RecordedConnection<'_>, Instant) -> R,
    ) -> Option<R> {
        let mut journal = self.journal.as_deref_mut();
        if let Some(journal) = &mut journal {
            journal.call(now, &Call::Update { id });
        }
        let calls = journal.as_deref_mut();
        let result = self
            .endpoint
            .update(now, id, |connection, now| f(&mut RecordedConnection::new(connection, calls), now));
        if let Some(journal) = journal {
            journal.update_ends();
        }
        result
    }

    /// Changes the settings of connections that a listener accepts from now on. Returns whether the listener
    /// exists.
    pub fn set_listener_tcp(&mut self, id: ListenerId, tcp: TcpConfig) -> bool {
        let call = self.journal.is_some().then(|| Call::SetListenerTcp { id, tcp: Box::new(tcp.clone()) });
        self.run_noted(None, call, |endpoint| endpoint.update_listener(id, |changed| *changed = tcp))
    }

    /// See [`Endpoint::poll_trace`]. Not recorded: nothing depends on when traces are fetched.
    pub fn poll_trace(&mut self) -> Option<Batch> {
        self.endpoint.poll_trace()
    }

    /// See [`Endpoint::poll_trace_if`]. Not recorded, as [`poll_trace`](Self::poll_trace).
    pub fn poll_trace_if(&mut self, wanted: impl Fn(&Batch) -> bool) -> Option<Batch> {
        self.endpoint.poll_trace_if(wanted)
    }

    /// See [`Endpoint::poll_changes`]. Not recorded, as [`poll_trace`](Self::poll_trace).
    pub fn poll_changes(&mut self) -> Option<Batch> {
        self.endpoint.poll_changes()
    }

    /// See [`Endpoint::take_reached`]. Not recorded: it only tells.
    #[inline]
    pub fn take_reached(&mut self) -> Option<IpAddr> {
        self.endpoint.take_reached()
    }

    /// See [`Endpoint::poll_stray`]. Not recorded: a host of several endpoints has no journal.
    pub fn poll_stray(&mut self) -> Option<Stray> {
        self.endpoint.poll_stray()
    }

    /// See [`Endpoint::handle_stray`]. Not recorded, as [`poll_stray`](Self::poll_stray).
    pub fn handle_stray(&mut self, now: Instant, stray: &Stray) {
        self.endpoint.handle_stray(now, stray);
    }

    /// See [`Endpoint::set_keys`]. The journal ends there: it holds no keys.
    #[cfg(feature = "tcp-ao")]
    pub fn set_keys(&mut self, peer: IpAddr, chain: Option<crate::KeyChain>) {
        if let Some(journal) = self.journal_mut() {
            journal.end(JournalEnd::Keys);
        }
        self.endpoint.set_keys(peer, chain);
    }

    /// See [`Endpoint::request_key`].
    #[cfg(feature = "tcp-ao")]
    pub fn request_key(&mut self, id: ConnectionId, receive_id: u8) -> bool {
        self.endpoint.request_key(id, receive_id)
    }
}
