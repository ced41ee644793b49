//! Applications: what they are told, and what they may do. They are sans-IO like everything else: an event comes, calls
//! go out, nobody waits.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use ackclock_core::{
    ConnectError, Connection, ConnectionId, Instant, ListenAddr, ListenError, ListenOptions, ListenerId,
    ReadError, Readiness, TcpConfig, WriteError,
};

use crate::flow::{Flow, Side, name};
use crate::host::{Core, Owned, node_of};
use crate::rng::Rng;
use crate::world::{Wake, World};

/// An application on one host.
pub trait App: fmt::Debug {
    /// Something happened that concerns it.
    fn on_event(&mut self, event: AppEvent, cx: &mut AppContext<'_>);

    /// An event may be coming soon: what it will need can be asked for ahead
    /// ([`fetch`](ackclock_core::fetch)). Nothing need be done.
    fn warm(&self) {}
}

/// What an application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppEvent {
    /// The simulation begins, or its start time has come.
    Start,
    /// A time that it asked for has come; with the number that it gave.
    Timer(u64),
    /// One of its listeners has accepted a connection, which is its own from now on.
    Accepted(ConnectionId),
    /// Something became possible on one of its connections, or happened to it.
    Ready(ConnectionId, Readiness),
}

/// What an application may do.
pub struct AppContext<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) world: &'a mut World,
    pub(crate) app: u32,
    pub(crate) flow: u32,
    pub(crate) side: Side,
    pub(crate) rng: &'a mut Rng,
}

impl AppContext<'_> {
    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.world.now
    }

    /// The application's own generator.
    pub fn rng(&mut self) -> &mut Rng {
        self.rng
    }

    /// Opens a connection with these settings, or the host's.
    ///
    /// # Errors
    /// As of [`Endpoint::connect`](ackclock_core::Endpoint::connect).
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        tcp: Option<TcpConfig>,
    ) -> Result<ConnectionId, ConnectError> {
        let id = self.core.endpoint.connect(self.world.now, remote, (None, 0), tcp)?;
        self.own(id);
        self.flow_mut().opened += 1;
        Ok(id)
    }

    /// Listens on a port with these settings, or the host's.
    ///
    /// # Errors
    /// As of [`Endpoint::listen`](ackclock_core::Endpoint::listen).
    pub fn listen(&mut self, port: u16, tcp: Option<TcpConfig>) -> Result<ListenerId, ListenError> {
        let mut options = ListenOptions::new(ListenAddr { addr: None, port: Some(port) });
        options.backlog = BACKLOG;
        options.syn_backlog = BACKLOG;
        options.tcp = tcp;
        let id = self.core.endpoint.listen(self.world.now, options)?;
        self.core.listeners.push((id, self.app));
        Ok(id)
    }

    /// Writes up to `len` bytes whose values do not matter; how many were taken.
    ///
    /// # Errors
    /// As of [`Connection::write`].
    pub fn write_any(&mut self, id: ConnectionId, len: u64) -> Result<u64, WriteError> {
        let zeros = &self.world.zeros;
        let written = self.core.endpoint.update(self.world.now, id, |connection, now| {
            let mut written = 0;
            while written < len {
                let chunk = (len - written).min(zeros.len() as u64) as usize;
                match connection.write(now, &zeros[..chunk]) {
                    Ok(taken) => written += taken as u64,
                    Err(WriteError::WouldBlock) => break,
                    Err(error) => return if written > 0 { Ok(written) } else { Err(error) },
                }
            }
            Ok(written)
        });
        written.unwrap_or(Err(WriteError::Shutdown))
    }

    /// Takes all that has arrived, without looking at it: how many bytes, and whether that was the end. An error comes
    /// only when nothing is left to take: bytes that came before it are told first.
    ///
    /// # Errors
    /// As of [`Connection::read`], but for there being nothing yet, which is 0 bytes.
    pub fn read_any(&mut self, id: ConnectionId) -> Result<(u64, bool), ReadError> {
        let read = self.core.endpoint.update(self.world.now, id, |connection, now| {
            let bytes = connection.readable();
            connection.consume(now, bytes);
            match connection.peek(&mut [0]) {
                Ok(_) => Ok((bytes as u64, true)),
                Err(ReadError::WouldBlock | ReadError::NotConnected) => Ok((bytes as u64, false)),
                Err(_) if bytes > 0 => Ok((bytes as u64, false)),
                Err(error) => Err(error),
            }
        });
        let (bytes, end) = read.unwrap_or(Err(ReadError::NotConnected))?;
        self.count_bytes(bytes);
        Ok((bytes, end))
    }

    /// Reads into `into`; how many bytes, 0 at the end of the stream.
    ///
    /// # Errors
    /// As of [`Connection::read`].
    pub fn read(&mut self, id: ConnectionId, into: &mut [u8]) -> Result<usize, ReadError> {
        let read =
            self.core.endpoint.update(self.world.now, id, |connection, now| connection.read(now, into));
        let bytes = read.unwrap_or(Err(ReadError::NotConnected))?;
        self.count_bytes(bytes as u64);
        Ok(bytes)
    }

    /// Does something else with a connection.
    pub fn update<R>(
        &mut self,
        id: ConnectionId,
        f: impl FnOnce(&mut Connection, Instant) -> R,
    ) -> Option<R> {
        self.core.endpoint.update(self.world.now, id, f)
    }

    /// A connection that has not been released.
    #[must_use]
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.core.endpoint.connection(id)
    }

    /// Closes the sending side after what was written.
    pub fn shutdown(&mut self, id: ConnectionId) {
        // A connection that is over need not be closed.
        let _ = self.update(id, |connection, now| connection.shutdown(now));
    }

    /// Gives a connection up; it finishes by itself. What it did is added to the traffic's counts.
    pub fn release(&mut self, id: ConnectionId) {
        self.core.harvest(id, self.world);
        self.core.endpoint.release(self.world.now, id);
    }

    /// Asks for [`AppEvent::Timer`] with this number after `after`.
    pub fn set_timer(&mut self, after: Duration, number: u64) {
        let at = self.world.now + after;
        let wake = Wake::App { host: self.core.node, app: self.app, number };
        self.world.wake(at.as_nanos(), wake);
    }

    /// A request was answered after this time.
    pub fn note_latency(&mut self, time: Duration) {
        self.flow_mut().latency.record(ackclock_nanos(time));
    }

    fn flow_mut(&mut self) -> &mut Flow {
        &mut self.world.flows[self.flow as usize]
    }

    fn count_bytes(&mut self, bytes: u64) {
        if bytes > 0 {
            let (now, side) = (self.world.now, self.side);
            let flow = self.flow_mut();
            flow.bytes[usize::from(side == Side::From)] += bytes;
            flow.first_byte.get_or_insert(now);
            flow.last_byte = Some(now);
        }
    }

    /// A connection is this application's from now on.
    pub(crate) fn own(&mut self, id: ConnectionId) {
        if self.core.owned.len() <= id.index() {
            if self.core.owned.is_empty() {
                // Most hosts have one connection.
                self.core.owned.reserve_exact(id.index() + 1);
            }
            self.core.owned.resize(id.index() + 1, Owned::NOBODY);
        }
        let Some(tuple) = self.core.endpoint.connection(id).map(Connection::tuple) else { return };
        let name = name(tuple.local_port, node_of(tuple.remote_addr), tuple.remote_port);
        self.core.owned[id.index()] =
            Owned { id: Some(id), app: self.app, flow: self.flow, side: self.side, name };
        self.core.stopwatches.insert(name, self.flow, self.side);
    }
}

impl fmt::Debug for AppContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppContext").field("now", &self.world.now).field("host", &self.core.node).finish()
    }
}

fn ackclock_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Simulated servers are not to be the bottleneck.
const BACKLOG: usize = 1 << 16;
