//! State under one lock: the endpoint, the tasks that wait for it, and the stack's own deadlines.
//!
//! Nothing here makes a TCP decision. Methods translate between the endpoint's events and the waiting tasks,
//! and between socket behaviour (linger, deferred accept, closing a whole stack) and the endpoint's calls.

mod closing;
mod datagrams;
#[cfg(all(feature = "hand-over", target_os = "linux"))]
mod handed;
mod listeners;
mod network;
#[cfg(all(feature = "control", unix))]
mod taps;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use ackclock_core::trace::Batch;
use ackclock_core::{
    Connection, ConnectionId, ConnectionInfo, Event, IncomingId, Instant, Limits, ListenerId, Readiness,
    State as Tcp, TcpConfig, WriteError,
};
use ackclock_device::outlet::Backlog;
use ackclock_journal::{RecordedConnection, RecordedEndpoint};

use self::datagrams::Datagrams;
#[cfg(all(feature = "hand-over", target_os = "linux"))]
pub(crate) use self::handed::Handed;
use self::listeners::{Accepted, Listeners};
pub(crate) use self::network::{Network, check_families};
#[cfg(all(feature = "control", unix))]
pub(crate) use self::taps::{Tap, Taps};
use self::writers::{Hold, Writers};
use crate::choices::{self, Choices};
pub(crate) use crate::waiters::{Queue, Side};
use crate::waiters::{StreamTable, WaitKey, WaitList};
use crate::{Hosts, NoRoute, StackError, error};

/// The state of a stack.
#[derive(Debug)]
pub(crate) struct StackState {
    pub(crate) endpoint: RecordedEndpoint,
    pub(crate) streams: StreamTable,
    pub(crate) listeners: Listeners,
    pub(crate) limits: Limits,
    /// Settings of connections that name none of their own.
    pub(crate) tcp: TcpConfig,
    pub(crate) network: Network,
    /// Wakers of tasks whose wait is over, to be woken once the lock is released.
    pub(crate) woken: Vec<Waker>,
    pub(crate) shutdown: WaitList,
    /// Tasks that wait for trace records.
    pub(crate) traces: WaitList,
    pub(crate) others: OtherSlot,
    pub(crate) pings: PingSlot,
    pub(crate) datagrams: Datagrams,
    pub(crate) phase: Phase,
    /// Blocks for the reader of the stack's recording.
    pub(crate) recording: Option<Backlog>,
    /// Whose turn it is to write.
    pub(crate) writers: Writers,
    /// Streams that were written to, whose last packet waits until it is full.
    pub(crate) following: Vec<ConnectionId>,
    /// Who drives the stack, and when.
    pub(crate) turns: Turns,
    choices: Arc<Choices>,
    close_timeout: Duration,
    /// Connections that the stack opened for itself.
    pub(crate) own: BTreeSet<ConnectionId>,
    /// The numbers that the program gave its streams.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub(crate) keys: BTreeMap<ConnectionId, u64>,
    /// Dropped streams whose linger time runs, ordered by its end.
    lingering: BTreeMap<(Instant, u64), ConnectionId>,
    lingerings_made: u64,
    /// Connections that were reset because closing the stack took too long.
    unfinished: usize,
    /// Names that the stack knows.
    pub(crate) hosts: Hosts,
    /// The name servers that the stack asks.
    #[cfg(feature = "dns")]
    pub(crate) names: Arc<crate::name_servers::Names>,
    /// Connections whose traces go to clients of the control socket.
    #[cfg(all(feature = "control", unix))]
    pub(crate) taps: Taps,
    /// The spans of the connections; `None` while a thread reports their changes.
    #[cfg(feature = "tracing")]
    pub(crate) spans: Option<crate::spans::Spans>,
}

/// The settings that each shard is made with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub tcp: TcpConfig,
    pub choices: Choices,
    pub network: Network,
    pub close_timeout: Duration,
    /// Whether the channel of other packets exists.
    pub others: bool,
    /// Whether the program decides about pings to other addresses.
    pub pings: bool,
    pub hosts: Hosts,
    #[cfg(feature = "dns")]
    pub names: crate::name_servers::Names,
}

/// The stages of a stack's life.
#[derive(Debug)]
pub(crate) enum Phase {
    /// It serves.
    Up,
    /// No new connections; existing ones have until then to finish. While the stack drains, they end when
    /// their programs end them.
    Closing { until: Instant, drains: bool },
    /// Every call fails.
    Down(StackError),
}

/// The tasks that wait at the channel of other packets.
#[derive(Debug, Default)]
pub(crate) struct OtherSlot {
    pub receive: WaitList,
    pub send: WaitList,
    /// Whether the channel exists and neither end has been taken.
    pub free: bool,
}

/// The tasks that wait for pings.
#[derive(Debug, Default)]
pub(crate) struct PingSlot {
    pub receive: WaitList,
    /// Whether the program decides about pings, and has not taken the receiver.
    pub free: bool,
}

/// Who drives a stack, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    /// A [`Port`](crate::Port), or nothing yet: writers never wait for a turn.
    Foreign,
    /// The driver, on its own thread or beside tasks that do not use the stack.
    Alone,
    /// The driver takes turns with the tasks on its thread, so that a writer's next bytes arrive before its
    /// next turn.
    WithTasks,
}

impl StackState {
    pub(crate) fn new(endpoint: RecordedEndpoint, limits: Limits, settings: Settings) -> Self {
        let Settings { tcp, choices, network, close_timeout, others, pings, hosts, .. } = settings;
        let mut state = Self {
            endpoint,
            streams: StreamTable::default(),
            listeners: Listeners::default(),
            limits,
            tcp,
            choices: Arc::new(choices),
            network,
            woken: Vec::new(),
            shutdown: WaitList::default(),
            traces: WaitList::default(),
            others: OtherSlot { free: others, ..OtherSlot::default() },
            pings: PingSlot { free: pings, ..PingSlot::default() },
            datagrams: Datagrams::default(),
            phase: Phase::Up,
            recording: None,
            writers: Writers::default(),
            following: Vec::new(),
            turns: Turns::Foreign,
            close_timeout,
            own: BTreeSet::new(),
            #[cfg(all(feature = "hand-over", target_os = "linux"))]
            keys: BTreeMap::new(),
            lingering: BTreeMap::new(),
            lingerings_made: 0,
            unfinished: 0,
            hosts,
            #[cfg(feature = "dns")]
            names: Arc::new(settings.names),
            #[cfg(all(feature = "control", unix))]
            taps: Taps::default(),
            #[cfg(feature = "tracing")]
            spans: Some(crate::spans::Spans::default()),
        };
        state.network.tell(&mut state.endpoint);
        state
    }

    /// The choices available here.
    pub(crate) fn choices(&self) -> Arc<Choices> {
        Arc::clone(&self.choices)
    }

    /// Whether existing connections can be used.
    pub(crate) fn check_alive(&self) -> io::Result<()> {
        match &self.phase {
            Phase::Down(error) => Err(error.clone().into()),
            Phase::Up | Phase::Closing { .. } => Ok(()),
        }
    }

    /// Whether new connections and listeners can be made.
    pub(crate) fn check_up(&self) -> io::Result<()> {
        match &self.phase {
            Phase::Up => Ok(()),
            Phase::Closing { .. } => Err(self.closed().into()),
            Phase::Down(error) => Err(error.clone().into()),
        }
    }

    /// Why there are no listeners any more.
    pub(crate) fn closed(&self) -> StackError {
        match self.phase {
            Phase::Closing { drains: true, .. } => StackError::Draining,
            _ => StackError::Shutdown,
        }
    }

    /// Whether connections with these settings, or with the stack's own, may be made here.
    pub(crate) fn check_tcp(&self, tcp: Option<&TcpConfig>) -> io::Result<()> {
        let tcp = tcp.unwrap_or(&self.tcp);
        self.choices.check(&*tcp.congestion).map_err(choices::invalid)
    }

    /// Whether a route leads to `remote`. Without routes every destination goes to the device.
    pub(crate) fn check_route(&self, remote: IpAddr) -> Result<(), NoRoute> {
        self.network.check_route(remote)
    }

    /// A connection that a handle owns.
    pub(crate) fn connection(&self, id: ConnectionId) -> io::Result<&Connection> {
        self.check_alive()?;
        self.endpoint.connection(id).ok_or_else(error::not_connected)
    }

    /// As [`connection`](Self::connection), for a call that reads. Data that arrived before the device failed
    /// can be read to its last byte, and to the end of the stream if that had arrived, as before a reset.
    pub(crate) fn connection_to_read(&self, id: ConnectionId) -> io::Result<&Connection> {
        let Phase::Down(error) = &self.phase else { return self.connection(id) };
        let connection = self.endpoint.connection(id).filter(|connection| has_rest(connection));
        connection.ok_or_else(|| error.clone().into())
    }

    /// Everything known about a connection. `now` is the driver's time.
    pub(crate) fn info(&self, now: Instant, connection: &Connection) -> ConnectionInfo {
        connection.info(self.endpoint.own_time(now))
    }

    /// Calls `f` on a connection that a handle owns.
    pub(crate) fn update<R>(
        &mut self,
        now: Instant,
        id: ConnectionId,
        f: impl FnOnce(&mut RecordedConnection<'_>, Instant) -> R,
    ) -> io::Result<R> {
        self.check_alive()?;
        self.endpoint.update(now, id, f).ok_or_else(error::not_connected)
    }

    /// The list to wait in; `None` when its owner is gone.
    pub(crate) fn list(&mut self, queue: Queue) -> Option<&mut WaitList> {
        let Self { streams, woken, .. } = self;
        match queue {
            Queue::Read(id) | Queue::Ready(id, Side::Read, _) => {
                Some(&mut streams.get_or_insert(id, woken).read)
            }
            Queue::Write(id) | Queue::Ready(id, Side::Write, _) => {
                Some(&mut streams.get_or_insert(id, woken).write)
            }
            Queue::Notice(id) | Queue::Ready(id, Side::Notice, _) => {
                Some(&mut streams.get_or_insert(id, woken).rare_mut().notice)
            }
            Queue::Delivered(id, _) | Queue::Changed(id, _) => {
                Some(&mut streams.get_or_insert(id, woken).rare_mut().delivered)
            }
            Queue::Accept(id) => self.listeners.list(id),
            Queue::Traces => Some(&mut self.traces),
            Queue::OtherReceive => Some(&mut self.others.receive),
            Queue::OtherSend => Some(&mut self.others.send),
            Queue::Pings => Some(&mut self.pings.receive),
            Queue::UdpRead(id) => self.datagrams.list(id, Side::Read),
            Queue::UdpWrite(id) => self.datagrams.list(id, Side::Write),
            Queue::UdpReady(id, side, _) => self.datagrams.list(id, side),
            Queue::Closing | Queue::Down => Some(&mut self.shutdown),
        }
    }

    /// Gives up a place in a list and returns its waker, to be dropped outside the lock. A list that is gone
    /// has woken all its tasks and returns nothing.
    pub(crate) fn leave(&mut self, queue: Queue, key: WaitKey) -> Option<Waker> {
        let is_gone = queue.stream().is_some_and(|id| self.streams.get(id).is_none());
        if is_gone { None } else { self.list(queue)?.leave(key) }
    }

    /// The latest time for the next call of [`handle_timeout`](Self::handle_timeout).
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let own = self.lingering.first_key_value().map(|((at, _), _)| *at);
        let closing = match self.phase {
            Phase::Closing { until, .. } => Some(until),
            Phase::Up | Phase::Down(_) => None,
        };
        let next = [self.endpoint.poll_timeout(), own, closing].into_iter().flatten().min();
        next.filter(|&at| at < Instant::FAR_FUTURE)
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        while let Some(entry) = self.lingering.first_entry().filter(|entry| entry.key().0 <= now) {
            let id = entry.remove();
            self.end_linger(now, id);
        }
        if let Phase::Closing { until, .. } = &mut self.phase
            && *until <= now
        {
            *until = Instant::FAR_FUTURE;
            self.unfinished +=
                self.endpoint.connections().filter(|(_, connection)| !is_over(connection)).count();
            self.abort_all(now);
        }
    }

    /// Passes the endpoint's events to the tasks that wait for them.
    pub(crate) fn dispatch(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connection(id, readiness) => self.on_connection(now, id, readiness),
                Event::Acceptable(id) => self.on_acceptable(now, id),
                Event::Incoming(id, incoming) => {
                    self.listeners.on_incoming(&self.endpoint, id, incoming, &mut self.woken);
                }
                Event::IncomingGone(id, incoming) => {
                    self.listeners.conclude(id, incoming, Accepted::Gone, &mut self.woken);
                }
                Event::OtherPackets => self.others.receive.wake(&mut self.woken),
                Event::OtherRoom => self.others.send.wake(&mut self.woken),
                Event::Pings => self.pings.receive.wake(&mut self.woken),
                Event::Udp(id, readiness) => self.datagrams.wake(id, readiness, &mut self.woken),
                _ => {}
            }
        }
        if self.endpoint.has_traces() {
            self.traces.wake(&mut self.woken);
        }
    }

    /// The tasks to wake; an empty list keeps its memory for the driver's next turn.
    pub(crate) fn take_woken(&mut self) -> Vec<Waker> {
        if self.woken.is_empty() { Vec::new() } else { std::mem::take(&mut self.woken) }
    }

    /// Whether changes of connections wait to be reported to `tracing`.
    pub(crate) fn has_news(&self) -> bool {
        cfg!(feature = "tracing") && self.endpoint.has_changes()
    }

    /// The next records of a traced connection; `None` once the stack is down and there are no more.
    pub(crate) fn poll_trace(&mut self) -> Poll<Option<Batch>> {
        #[cfg(all(feature = "control", unix))]
        let batch = self.taps.poll_own(&mut self.endpoint);
        #[cfg(not(all(feature = "control", unix)))]
        let batch = self.endpoint.poll_trace();
        match batch {
            None if self.poll_down().is_pending() => Poll::Pending,
            batch => Poll::Ready(batch),
        }
    }

    /// Whether a writer of this stream waits for the driver's turn; if so, it is noted.
    pub(crate) fn holds_writer(&mut self, now: Instant, id: ConnectionId) -> bool {
        if matches!(self.phase, Phase::Down(_)) {
            return false;
        }
        let hold = self.writers.hold(id);
        if hold == Hold::Begins {
            // The connection then knows that the application is not the slow part.
            self.endpoint.update(now, id, |connection, now| connection.await_room(now));
        }
        hold != Hold::No
    }

    /// Calls `write` on a connection that a handle owns, and counts the bytes. In a byte stream the end of a
    /// write waits for the next one to fill its packet.
    pub(crate) fn write_with(
        &mut self,
        now: Instant,
        id: ConnectionId,
        write: impl FnOnce(&mut RecordedConnection<'_>, Instant) -> Result<usize, WriteError>,
    ) -> io::Result<Result<usize, WriteError>> {
        self.check_alive()?;
        let Self { endpoint, writers, following, turns, .. } = self;
        let written = endpoint.update(now, id, |connection, now| {
            let written = write(connection, now);
            let bytes = *written.as_ref().unwrap_or(&0);
            if bytes > 0 && *turns != Turns::Foreign {
                let owed = writers.note(id, bytes);
                if *turns == Turns::WithTasks && owed >= STREAM_MIN && !following.contains(&id) {
                    following.push(id);
                    connection.set_more_follows(true);
                }
            }
            written
        });
        written.ok_or_else(error::not_connected)
    }

    /// The driver has its turn.
    pub(crate) fn release_writers(&mut self, now: Instant) {
        while let Some(id) = self.following.pop() {
            self.endpoint.update(now, id, |connection, _| connection.set_more_follows(false));
        }
        let Self { writers, streams, woken, .. } = self;
        writers.pay(|id| {
            if let Some(slot) = streams.get_mut(id) {
                slot.write.wake(woken);
            }
        });
    }

    /// The next connection of a listener, and the SYN that opened it if accept is deferred.
    pub(crate) fn accept_decided(
        &mut self,
        now: Instant,
        id: ListenerId,
    ) -> Poll<io::Result<(ConnectionId, Option<IncomingId>)>> {
        self.check_alive()?;
        let linger = self.listeners.linger(id).ok_or_else(|| self.closed())?;
        let Some(accepted) = self.endpoint.accept_decided(now, id) else { return Poll::Pending };
        if linger.is_some() {
            self.streams.get_or_insert(accepted.0, &mut self.woken).rare_mut().linger = linger;
        }
        Poll::Ready(Ok(accepted))
    }

    fn on_acceptable(&mut self, now: Instant, id: ListenerId) {
        if !self.listeners.on_acceptable(id, &mut self.woken) {
            return;
        }
        while let Poll::Ready(Ok((connection, incoming))) = self.accept_decided(now, id) {
            let result = Accepted::Established(connection);
            let waits = incoming
                .is_some_and(|incoming| self.listeners.conclude(id, incoming, result, &mut self.woken));
            if !waits {
                self.release(now, connection);
            }
        }
    }

    /// Stops listening, and fails the calls that wait for it.
    pub(crate) fn close_listener(&mut self, now: Instant, id: ListenerId) {
        if self.listeners.remove(id, &mut self.woken) {
            self.endpoint.close_listener(now, id);
            self.discard_if_down(now);
        }
    }

    fn on_connection(&mut self, now: Instant, id: ConnectionId, readiness: Readiness) {
        if readiness.urgent || readiness.soft_error {
            let rare = self.streams.get_or_insert(id, &mut self.woken).rare_mut();
            rare.urgent |= readiness.urgent;
            rare.soft_error |= readiness.soft_error;
            rare.notice.wake(&mut self.woken);
        }
        if readiness.delivered
            && let Some(rare) = self.streams.get_mut(id).and_then(|slot| slot.rare.as_deref_mut())
        {
            rare.delivered.wake(&mut self.woken);
        }
        if !readiness.closed {
            let read = readiness.readable || readiness.connected;
            let write = readiness.writable || readiness.connected;
            self.streams.wake(id, read, write, &mut self.woken);
            return;
        }
        let Some(slot) = self.streams.get_mut(id) else { return };
        slot.wake_all(&mut self.woken);
        if slot.lingers() {
            self.end_linger(now, id);
        }
    }

    /// The connection has left the endpoint: tasks that wait for it learn that.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.own.remove(&id);
        #[cfg(all(feature = "hand-over", target_os = "linux"))]
        self.keys.remove(&id);
        if let Some(slot) = self.streams.get_mut(id) {
            slot.wake_all(&mut self.woken);
        }
        self.streams.remove(id, &mut self.woken);
    }

    /// Gives up a connection as SO_LINGER asks: without it the connection closes by itself; with zero it is
    /// reset; with a time it closes, and is reset if that takes longer.
    pub(crate) fn release(&mut self, now: Instant, id: ConnectionId) {
        self.own.remove(&id);
        #[cfg(all(feature = "hand-over", target_os = "linux"))]
        self.keys.remove(&id);
        if matches!(self.phase, Phase::Down(_)) {
            // It stayed for unread data, and cannot reach its peer.
            self.endpoint.update(now, id, |connection, now| connection.abort(now));
            self.streams.remove(id, &mut self.woken);
            self.endpoint.release(now, id);
            return self.discard_if_down(now);
        }
        let linger = self.streams.get_mut(id).and_then(|slot| slot.linger());
        match linger {
            Some(Duration::ZERO) => {
                self.endpoint.update(now, id, |connection, now| connection.abort(now));
            }
            Some(time) if self.can_linger(id) => {
                self.endpoint.update(now, id, |connection, now| connection.shutdown(now).ok());
                let slot = self.streams.get_or_insert(id, &mut self.woken);
                slot.rare_mut().lingers = true;
                // The waiting tasks have dropped the stream, or dropped the attempt before it was
                // established.
                slot.wake_all(&mut self.woken);
                self.lingerings_made += 1;
                self.lingering.insert((now + time, self.lingerings_made), id);
                return;
            }
            _ => {}
        }
        self.streams.remove(id, &mut self.woken);
        self.endpoint.release(now, id);
    }

    /// Whether there is something to wait for: closing a connection with unread data resets it, whatever its
    /// linger time.
    fn can_linger(&self, id: ConnectionId) -> bool {
        let Ok(connection) = self.connection(id) else { return false };
        connection.error().is_none() && connection.readable() == 0
    }

    fn end_linger(&mut self, now: Instant, id: ConnectionId) {
        if !self.streams.get_mut(id).is_some_and(|slot| slot.lingers()) {
            return;
        }
        let flushed = self.endpoint.connection(id).is_none_or(Connection::is_flushed);
        if !flushed {
            self.endpoint.update(now, id, |connection, now| connection.abort(now));
        }
        self.streams.remove(id, &mut self.woken);
        self.endpoint.release(now, id);
    }
}

/// Bytes of one stream from which on its writes count as a stream rather than a message.
const STREAM_MIN: usize = 128 << 10;

/// Whether a connection neither sends nor receives any more.
pub(crate) fn is_over(connection: &Connection) -> bool {
    matches!(connection.state(), Tcp::Closed | Tcp::TimeWait)
}

/// Whether there is something left to read that no longer depends on the network.
fn has_rest(connection: &Connection) -> bool {
    connection.error().is_none() && (connection.readable() > 0 || connection.is_read_closed())
}
