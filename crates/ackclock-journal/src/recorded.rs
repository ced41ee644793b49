//! [`RecordedEndpoint`]: an endpoint whose every call is written to a [`Journal`] if there is one.
//!
//! The methods have the names of the endpoint's, and each is that call; `calls` declares most of them. A call
//! is written before it is made, so that one that panics is the last in the file; what it told its caller
//! follows.

use std::net::IpAddr;
use std::ops::Deref;

use ackclock_wire::{RxMeta, TxPacket};

use super::calls::{Call, Received};
use super::outcome::{ResultCode, noted};
use super::sent::SentPacket;
#[cfg(feature = "tcp-ao")]
use crate::JournalEnd;
use crate::{Journal, RecordedConnection};
use ackclock_core::trace::Batch;
use ackclock_core::{ConnectionId, Endpoint, Event, Instant, Limits, ListenerId, RxPacket, Stray, TcpConfig};

/// An endpoint, and where its calls are written. Without a journal each call costs one branch more than the
/// endpoint's own.
///
/// Calls that only look at the endpoint go to it directly.
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

impl RecordedEndpoint {
    /// An endpoint that has just been made, and where its calls go.
    #[must_use]
    pub fn new(endpoint: Endpoint, journal: Option<Journal>) -> Self {
        Self { endpoint, journal: journal.map(Box::new) }
    }

    /// The endpoint itself, for calls that a recording has no place for; `None` if there is a recording.
    pub fn unrecorded(&mut self) -> Option<&mut Endpoint> {
        if self.journal.is_none() { Some(&mut self.endpoint) } else { None }
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
    fn run<R: ResultCode>(
        &mut self,
        now: Instant,
        call: impl FnOnce() -> Call,
        make: impl FnOnce(&mut Endpoint) -> R,
    ) -> R {
        noted(self.journal.as_deref_mut(), |journal| journal.call(now, &call()), || make(&mut self.endpoint))
    }

    #[inline]
    pub(super) fn is_recorded(&self) -> bool {
        self.journal.is_some()
    }

    /// Makes a call that takes its arguments with it, or has no time; the last call's time counts then.
    #[inline]
    pub(super) fn make<R: ResultCode>(
        &mut self,
        now: Option<Instant>,
        call: Option<Call>,
        make: impl FnOnce(&mut Endpoint) -> R,
    ) -> R {
        let note = |journal: &mut Journal| {
            if let Some(call) = call {
                journal.call(now.unwrap_or(journal.last()), &call);
            }
        };
        noted(self.journal.as_deref_mut(), note, || make(&mut self.endpoint))
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

    /// See [`Endpoint::handle_packets`]. The journal records a separate call for each packet.
    #[inline]
    pub fn handle_packets<'p>(&mut self, now: Instant, packets: impl IntoIterator<Item = RxPacket<'p>>) {
        if self.journal.is_none() {
            return self.endpoint.handle_packets(now, packets);
        }
        for packet in packets {
            self.run(
                now,
                || Call::Packet { packet: Received::new(packet.bytes, packet.meta, packet.block.is_some()) },
                |endpoint| endpoint.handle_packets(now, [packet.clone()]),
            );
        }
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
        self.make(None, call, |endpoint| endpoint.update_listener(id, |changed| *changed = tcp))
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
    pub fn set_keys(&mut self, peer: IpAddr, chain: Option<ackclock_core::KeyChain>) {
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
