//! Applications: the events that they receive and the calls that they can make. They are sans-IO: an event
//! arrives, calls go out, nothing blocks.

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

    /// The host has crashed, and the application's memory is gone: it is as it was before it began. If the
    /// host restarts, [`AppEvent::Start`] comes again. An application that does nothing here keeps its memory
    /// as if it were on a disk; its connections are gone.
    fn forget(&mut self) {}

    /// An event may be coming soon. The application may prefetch what it will need
    /// ([`fetch`](ackclock_core::fetch)), or do nothing.
    fn warm(&self) {}
}

/// An event for an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppEvent {
    /// The simulation begins, or its start time has come.
    Start,
    /// A timer of the application fired, with the number that it was set with.
    Timer(u64),
    /// One of the application's listeners accepted a connection. The application owns it from now on.
    Accepted(ConnectionId),
    /// A connection of the application became readable or writable, or its state changed.
    Ready(ConnectionId, Readiness),
}

/// The calls that an application can make.
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

    /// The application's random number generator.
    pub fn rng(&mut self) -> &mut Rng {
        self.rng
    }

    /// Opens a connection with these settings, or the host's.
    ///
    /// # Errors
    /// As [`Endpoint::connect`](ackclock_core::Endpoint::connect).
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
    /// As [`Endpoint::listen`](ackclock_core::Endpoint::listen).
    pub fn listen(&mut self, port: u16, tcp: Option<TcpConfig>) -> Result<ListenerId, ListenError> {
        let mut options = ListenOptions::new(ListenAddr { addr: None, port: Some(port) });
        options.backlog = BACKLOG;
        options.syn_backlog = BACKLOG;
        options.tcp = tcp;
        let id = self.core.endpoint.listen(self.world.now, options)?;
        self.core.listeners.push((id, self.app));
        Ok(id)
    }

    /// Writes up to `len` bytes of arbitrary values. Returns how many were accepted.
    ///
    /// # Errors
    /// As [`Connection::write`].
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

    /// Discards everything that has arrived. Returns how many bytes, and whether the stream ended. An error
    /// comes only once nothing is left: bytes that arrived before it are reported first.
    ///
    /// # Errors
    /// As [`Connection::read`], except that having no data yet is 0 bytes.
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

    /// Reads into `into`. Returns the number of bytes, 0 at the end of the stream.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn read(&mut self, id: ConnectionId, into: &mut [u8]) -> Result<usize, ReadError> {
        let read =
            self.core.endpoint.update(self.world.now, id, |connection, now| connection.read(now, into));
        let bytes = read.unwrap_or(Err(ReadError::NotConnected))?;
        self.count_bytes(bytes as u64);
        Ok(bytes)
    }

    /// Calls `f` on a connection, for anything else.
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
        // A connection that is over does not need to be closed.
        let _ = self.update(id, |connection, now| connection.shutdown(now));
    }

    /// Releases a connection, which finishes by itself. Its statistics are added to the traffic's.
    pub fn release(&mut self, id: ConnectionId) {
        self.core.harvest(id, self.world);
        self.core.endpoint.release(self.world.now, id);
    }

    /// Asks for [`AppEvent::Timer`] with this number after `after`.
    pub fn set_timer(&mut self, after: Duration, number: u64) {
        let at = self.world.now + after;
        let wake = Wake::App { host: self.core.node, app: self.app, life: self.core.life, number };
        self.world.wake(at.as_nanos(), wake);
    }

    /// Records that a request was answered after this time.
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

    /// Makes a connection this application's.
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

/// Large enough that simulated servers are not the bottleneck.
const BACKLOG: usize = 1 << 16;
