//! An endpoint as bytes: [`Endpoint::freeze`] and [`Endpoint::thaw`]; and one of its connections:
//! [`Endpoint::freeze_connection`] and [`Endpoint::thaw_connection`].
//!
//! The exact form holds everything on which a later packet, event or answer depends, so that the thawed
//! endpoint goes on as the frozen one would have. Each owner of state declares its own part beside itself
//! ([`ackclock_form::form!`]); this module adds the head, and the parts that a form cannot hold.

use std::sync::Arc;

use ackclock_control::congestion::Registry;
use ackclock_form::{Form, FormError, Reader, Writer};

use super::Endpoint;
use super::demux::Target;
use super::slot::{Owner, Slot};
use crate::budget::MemoryMax;
use crate::tuple::FourTuple;
use crate::{ConnectError, Connection, ConnectionId, Instant};

impl Endpoint {
    /// Writes the endpoint to bytes, in the form of the [crate's documentation](crate#frozen-endpoints).
    /// This does not change the endpoint. Drop it before the thawed one sends: both speak for the same
    /// connections.
    ///
    /// The bytes hold the endpoint's secrets and its peers' data: keep them where no other user reads them.
    ///
    /// # Errors
    /// The endpoint is one of several of its host, or has keys of TCP-AO.
    ///
    /// ```
    /// use ackclock_core::congestion::Registry;
    /// use ackclock_core::{Endpoint, EndpointConfig, Instant};
    ///
    /// let now = Instant::from_millis(5);
    /// let config = EndpointConfig::new(vec!["10.0.0.1".parse()?], [7; 32]);
    /// let endpoint = Endpoint::new(config, now);
    /// let form = endpoint.freeze()?;
    /// let thawed = Endpoint::thaw(&form, &Registry::builtin(), 1 << 30)?;
    /// assert_eq!(thawed.endpoint.freeze()?, form);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn freeze(&self) -> Result<Vec<u8>, FreezeError> {
        let mut out = Writer::default();
        self.freeze_to(&mut out)?;
        Ok(out.into_bytes())
    }

    /// [`Self::freeze`] into a writer that is used again.
    ///
    /// # Errors
    /// As [`Self::freeze`].
    pub fn freeze_to(&self, out: &mut Writer) -> Result<(), FreezeError> {
        self.check_freezable()?;
        out.clear();
        out.extend_from_slice(&MAGIC);
        VERSION.write(out);
        Form::write(self, out);
        Ok(())
    }

    pub(super) fn check_freezable(&self) -> Result<(), FreezeError> {
        if self.tuples.is_sharded() {
            return Err(FreezeError::Sharded);
        }
        #[cfg(feature = "tcp-ao")]
        if self.authentication.is_some() {
            return Err(FreezeError::Keys);
        }
        Ok(())
    }

    /// The connection, if it may leave the endpoint.
    pub(super) fn freezable(&self, id: ConnectionId) -> Result<&Slot, FreezeError> {
        self.check_freezable()?;
        let slot = self.connections.get(id.index, id.generation);
        let slot = slot.filter(|slot| slot.is_bound() && slot.owner() == Owner::Application);
        let slot = slot.ok_or(FreezeError::NoConnection)?;
        if slot.is_looped() { Err(FreezeError::Looped) } else { Ok(slot) }
    }

    /// Whether the endpoint could have opened a connection between these addresses.
    pub(super) fn check_free(&self, tuple: &FourTuple) -> Result<(), ThawError> {
        if !self.addresses.valid_peer(tuple.remote()) || self.addresses.is_own(tuple.remote_addr) {
            return Err(ConnectError::InvalidRemote(tuple.remote()).into());
        }
        self.local_addr_for(tuple.remote_addr, Some(tuple.local_addr))?;
        if self.connections.len() >= self.config.connections_max {
            return Err(ConnectError::TooManyConnections(self.config.connections_max).into());
        }
        match self.find(tuple) {
            Some(_) => Err(ConnectError::AddressInUse(tuple.remote()).into()),
            None => Ok(()),
        }
    }

    /// Takes a connection out of the endpoint as bytes, unread and unsent data included. The endpoint that
    /// [thaws](Self::thaw_connection) them goes on with the connection. Until then this endpoint answers the
    /// peer's packets with resets, so let none in. If the other endpoint refuses the connection, thaw it
    /// here.
    ///
    /// The bytes hold its data: keep them where no other user reads them.
    ///
    /// # Errors
    /// The endpoint cannot be frozen, it has no such connection that lives and was accepted or connected,
    /// or the peer is the endpoint itself. The connection stays as it was.
    pub fn freeze_connection(&mut self, now: Instant, id: ConnectionId) -> Result<Vec<u8>, FreezeError> {
        let now = self.advance(now);
        let slot = self.freezable(id)?;
        let mut out = Writer::default();
        let budget = self.memory.budget();
        budget.leave_out(&mut out);
        out.extend_from_slice(&MAGIC_OF_CONNECTION);
        VERSION.write(&mut out);
        now.write(&mut out);
        self.clock.origin().write(&mut out);
        budget.keeps_bytes().write(&mut out);
        Form::write(&slot.connection, &mut out);
        self.take_out(id.index);
        Ok(out.into_bytes())
    }

    /// Goes on with the connection that [`freeze_connection`](Self::freeze_connection) took out of another
    /// endpoint, or of this one. Its times are those of the clock there: both endpoints must have the same
    /// driver's clock and have left out the same pauses. Its buffers count in the budget of this endpoint.
    /// Its controller is found in `registry`.
    ///
    /// ```
    /// use ackclock_core::congestion::Registry;
    /// use ackclock_core::testing::Pair;
    /// use ackclock_core::{Endpoint, EndpointConfig, Instant, ListenAddr, ListenOptions};
    ///
    /// let config = |addr: &str| EndpointConfig::new(vec![addr.parse().expect("an address")], [1; 32]);
    /// let mut pair = Pair::at(Instant::from_millis(1), config("10.0.0.1"), config("10.0.0.2"));
    /// let port = ListenAddr { addr: None, port: Some(7) };
    /// let listener = pair.server.listen(pair.now, ListenOptions::new(port))?;
    /// let [client, _server] = pair.open("10.0.0.2:7".parse()?, listener);
    ///
    /// let form = pair.client.freeze_connection(pair.now, client)?;
    /// pair.client = Endpoint::new(config("10.0.0.1"), pair.now);
    /// let thawed = pair.client.thaw_connection(pair.now, &form, &Registry::builtin())?;
    /// let wrote = pair.client.update(pair.now, thawed.id, |stream, now| stream.write(now, b"still here"));
    /// assert_eq!(wrote.expect("it is open")?, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The bytes are of another version or of something else, or contradict themselves; the clocks differ;
    /// or the endpoint could not have opened this connection. Nothing has changed then.
    pub fn thaw_connection(
        &mut self,
        now: Instant,
        form: &[u8],
        registry: &Registry,
    ) -> Result<ThawedConnection, ThawError> {
        let now = self.advance(now);
        self.check_freezable()?;
        let mut input = Reader::new(form);
        let budget = self.memory.budget();
        budget.stand_in(&mut input);
        if input.bytes(MAGIC_OF_CONNECTION.len())? != MAGIC_OF_CONNECTION {
            return Err(FormError::Unsupported("this is not a frozen connection").into());
        }
        if u32::read(&mut input)? != VERSION {
            return Err(FormError::Unsupported(
                "the frozen connection is of another version; thaw it with the version that froze it",
            )
            .into());
        }
        let (frozen_at, origin) = (Instant::read(&mut input)?, Instant::read(&mut input)?);
        if frozen_at > now || origin != self.clock.origin() {
            return Err(ThawError::Clock);
        }
        if bool::read(&mut input)? != budget.keeps_bytes() {
            let what = "only one of the two endpoints keeps bytes; set keep_bytes to the same at both";
            return Err(FormError::Unsupported(what).into());
        }
        input.lend(Arc::new(registry.clone()));
        input.lend(Arc::new(now));
        // It has no budget of its own.
        input.lend(Arc::new(MemoryMax(0)));
        let connection: Connection = Form::read(&mut input)?;
        input.end()?;
        self.check_free(&connection.tuple())?;
        if connection.is_gone() {
            return Err(FormError::Invariant("Connection").into());
        }
        let mtu = self.addresses.mtu_to(connection.tuple().remote_addr);
        let id = self.add_connection(connection, Owner::Application);
        self.change(id.index, |connection| connection.fit_mtu(now, mtu));
        self.check_invariants();
        Ok(ThawedConnection { id, begun_again: input.take_notes() })
    }

    /// The endpoint whose [`freeze`](Self::freeze) wrote `form`. Its clock is that of the frozen endpoint's
    /// driver: the first call must not be earlier than the last one before.
    ///
    /// Controllers are found in `registry`. A form whose memory budget exceeds `memory_max` bytes is refused,
    /// so the endpoint never holds more than that in buffers.
    ///
    /// # Errors
    /// The bytes are of another version or of something else, or contradict themselves.
    pub fn thaw(form: &[u8], registry: &Registry, memory_max: usize) -> Result<Thawed, FormError> {
        let mut input = Reader::new(form);
        if input.bytes(MAGIC.len())? != MAGIC {
            return Err(FormError::Unsupported("this is not a frozen endpoint"));
        }
        if u32::read(&mut input)? != VERSION {
            return Err(FormError::Unsupported(
                "the frozen endpoint is of another version; thaw it with the version that froze it",
            ));
        }
        input.lend(Arc::new(registry.clone()));
        input.lend(Arc::new(MemoryMax(memory_max)));
        let mut endpoint = Self::read(&mut input)?;
        input.end()?;
        endpoint.restore_tuples()?;
        Ok(Thawed { endpoint, begun_again: input.take_notes() })
    }

    /// Leads to the connections and records that were read.
    fn restore_tuples(&mut self) -> Result<(), FormError> {
        let connections = self.connections.iter().filter(|(_, _, slot)| slot.is_bound());
        let connections = connections.map(|(index, _, slot)| (Target::Connection(index), slot.tuple()));
        let half_open = self.listening.bound_records().map(|(index, tuple)| (Target::HalfOpen(index), tuple));
        let time_wait = self.time_wait.bound().map(|(index, tuple)| (Target::TimeWait(index), tuple));
        let all: Vec<_> = connections.chain(half_open).chain(time_wait).collect();
        for (target, tuple) in all {
            if self.find(&tuple).is_some_and(|found| found != target) {
                return Err(FormError::Invariant("Endpoint"));
            }
            self.tuples.restore(&tuple, target);
        }
        Ok(())
    }
}

/// An endpoint from its form.
#[derive(Debug)]
#[non_exhaustive]
pub struct Thawed {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The controllers that have no form: each stands for a connection whose controller began again with the
    /// window and threshold that it had.
    pub begun_again: Vec<&'static str>,
}

/// A connection from its form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThawedConnection {
    /// The connection.
    pub id: ConnectionId,
    /// Its controller, if that has no form and began again with the window and threshold that it had.
    pub begun_again: Vec<&'static str>,
}

/// Why a connection cannot go on at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ThawError {
    /// The bytes are not a frozen connection.
    #[error("the frozen connection cannot be read: {0}")]
    Form(#[from] FormError),
    /// The times of the form are not times of this endpoint.
    #[error(
        "the frozen connection's clock is not this endpoint's; give both endpoints the times of one clock"
    )]
    Clock,
    /// The endpoint is one of those that cannot be frozen either.
    #[error(transparent)]
    Endpoint(#[from] FreezeError),
    /// It could not have opened this connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// Why an endpoint, or one of its connections, cannot be frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreezeError {
    /// It shares tables with other endpoints.
    #[error("the endpoint is one of several of its host; freeze a host with one endpoint")]
    Sharded,
    /// It has keys of TCP-AO.
    #[error("the endpoint has keys of TCP-AO, which no form holds")]
    Keys,
    /// There is no such connection, it is over, or it is not the application's yet.
    #[error("the endpoint has no such open connection; freeze one that was accepted or connected")]
    NoConnection,
    /// Both ends of the connection are here.
    #[error("the connection's peer is the endpoint itself; freeze the endpoint")]
    Looped,
}

/// The first bytes of a form.
const MAGIC: [u8; 16] = *b"ackclock: frozen";
const MAGIC_OF_CONNECTION: [u8; 16] = *b"ackclock: stream";
/// The version of the format: one more with each change of any owner's form.
const VERSION: u32 = 1;
