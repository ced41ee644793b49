//! The side that opens connections and drives the conversation.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use ackclock_core::{ConnectionId, Instant, TcpConfig, fetch};

use super::source::{Source, Step};
use super::tcplib::{self, Script};
use super::{Answer, ByConnection, Table, pop_if};
use crate::app::{App, AppContext, AppEvent};
use crate::rng::Variates as _;
use crate::scenario::TrafficKind;
use crate::units::Span;

/// Generates one traffic.
#[derive(Debug)]
pub(crate) struct Caller {
    kind: TrafficKind,
    server: SocketAddr,
    tcp: Option<Arc<TcpConfig>>,
    table: Table,
    /// By the connection's index.
    talks: ByConnection<Talk>,
    /// The connection of each timer.
    timers: BTreeMap<u64, ConnectionId>,
    next: u64,
    /// Requests left for connections to come.
    requests_left: Option<u64>,
}

/// One connection.
#[derive(Debug)]
struct Talk {
    id: ConnectionId,
    port: u16,
    source: Source,
    /// The step that waits for its turn or its time, and whether its timer runs.
    waits: Option<(Step, bool)>,
    /// The bytes that are still to be written.
    pending: u64,
    /// Bytes in all steps so far.
    asked: u64,
    received: u64,
    /// The stream positions at which answers end, and when each was requested.
    expected: VecDeque<(u64, Instant)>,
    promised: u64,
    is_closed: bool,
    /// The connections that follow this one.
    then: VecDeque<Script>,
}

impl Caller {
    pub fn new(kind: &TrafficKind, server: SocketAddr, tcp: Option<Arc<TcpConfig>>, table: Table) -> Self {
        let requests_left = match kind {
            TrafficKind::RequestResponse { requests, .. } => *requests,
            _ => None,
        };
        Self {
            kind: kind.clone(),
            server,
            tcp,
            table,
            talks: ByConnection::new(),
            timers: BTreeMap::new(),
            next: FIRST_TALK,
            requests_left,
        }
    }

    fn start(&mut self, cx: &mut AppContext<'_>) {
        match self.kind.clone() {
            TrafficKind::Bulk { bytes, until } => {
                self.open(Source::bulk(bytes.map_or(u64::MAX, |bytes| bytes.0)), cx);
                if let Some(until) = until {
                    let left = Instant::from_nanos(until.0).saturating_since(cx.now());
                    cx.set_timer(left, STOP);
                }
            }
            TrafficKind::OnOff { rate, write, on, off } => {
                let (left, silence) = (0, Span(0));
                self.open(Source::OnOff { rate, write: write.0, on, off, left, silence }, cx);
            }
            TrafficKind::RequestResponse { .. } => self.open_requests(cx),
            TrafficKind::Tcplib { .. } | TrafficKind::Arrivals(_) => self.set_next_arrival(cx),
        }
    }

    /// Opens a connection for the remaining requests, or as many as one connection carries.
    fn open_requests(&mut self, cx: &mut AppContext<'_>) {
        let TrafficKind::RequestResponse { request, response, think, serve, per_connection, .. } = self.kind
        else {
            return;
        };
        let left = match (self.requests_left, per_connection) {
            (Some(0), _) => return,
            (Some(left), Some(most)) => Some(left.min(most)),
            (left, most) => left.or(most),
        };
        if let (Some(all), Some(these)) = (&mut self.requests_left, left) {
            *all -= these;
        }
        self.open(Source::Requests { request, response, think, serve, left, first: true }, cx);
    }

    fn set_next_arrival(&mut self, cx: &mut AppContext<'_>) {
        let after = match &self.kind {
            TrafficKind::Tcplib { every, .. } => cx.rng().exponential(*every),
            TrafficKind::Arrivals(arrivals) => arrivals.every.draw(cx.rng()),
            _ => return,
        };
        cx.set_timer(after.duration(), ARRIVAL);
    }

    fn arrival(&mut self, cx: &mut AppContext<'_>) {
        match self.kind.clone() {
            TrafficKind::Tcplib { until, mix, .. } => {
                if until.is_some_and(|until| cx.now() >= Instant::from_nanos(until.0)) {
                    return;
                }
                for row in tcplib::conversation(mix, cx.rng()) {
                    self.open_next(row, cx);
                }
            }
            TrafficKind::Arrivals(arrivals) => {
                let bytes = arrivals.size.draw(cx.rng());
                self.open(Source::bulk(bytes), cx);
            }
            _ => return,
        }
        self.set_next_arrival(cx);
    }

    /// Opens the first connection of a row; the others follow it.
    fn open_next(&mut self, mut row: VecDeque<Script>, cx: &mut AppContext<'_>) {
        if let Some(script) = row.pop_front() {
            self.open_with(Source::Script(script), row, cx);
        }
    }

    fn open(&mut self, source: Source, cx: &mut AppContext<'_>) {
        self.open_with(source, VecDeque::new(), cx);
    }

    fn open_with(&mut self, source: Source, then: VecDeque<Script>, cx: &mut AppContext<'_>) {
        // Out of ports: the conversation does not take place. The report shows the missing connection.
        let Ok(id) = cx.connect(self.server, self.tcp.as_deref().cloned()) else { return };
        let Some(port) = cx.connection(id).map(|connection| connection.tuple().local_port) else { return };
        let talk = Talk {
            id,
            port,
            source,
            waits: None,
            pending: 0,
            asked: 0,
            received: 0,
            expected: VecDeque::new(),
            promised: 0,
            is_closed: false,
            then,
        };
        self.talks.insert(id.index(), talk);
    }

    fn ready(&mut self, id: ConnectionId, cx: &mut AppContext<'_>) {
        let Some(talk) = self.talks.get_mut(id.index()).filter(|talk| talk.id == id) else { return };
        let Ok((bytes, end)) = cx.read_any(id) else { return self.release(id, cx) };
        talk.received += bytes;
        while let Some((_, since)) = pop_if(&mut talk.expected, |(target, _)| *target <= talk.received) {
            let took = cx.now().saturating_since(since);
            cx.note_latency(took);
        }
        if end {
            return self.release(id, cx);
        }
        self.go_on(id, cx);
    }

    /// Writes pending data, and takes every step that is ready.
    fn go_on(&mut self, id: ConnectionId, cx: &mut AppContext<'_>) {
        let Some(talk) = self.talks.get_mut(id.index()).filter(|talk| talk.id == id) else { return };
        loop {
            if talk.pending > 0 {
                // Not connected yet, or the buffer is full: an event will follow.
                let Ok(written) = cx.write_any(id, talk.pending) else { return };
                talk.pending -= written;
                if talk.pending > 0 {
                    return;
                }
            }
            if talk.is_closed {
                return;
            }
            match talk.waits.take().or_else(|| Some((talk.source.next(cx.rng())?, false))) {
                Some((step, runs)) if runs || (step.in_turn && !talk.expected.is_empty()) => {
                    talk.waits = Some((step, runs));
                    return;
                }
                Some((step, _)) if step.after.0 > 0 => {
                    talk.waits = Some((step, true));
                    self.timers.insert(self.next, id);
                    cx.set_timer(step.after.duration(), self.next);
                    self.next += 1;
                    return;
                }
                Some((step, _)) => talk.take(&step, cx.now(), &self.table),
                None if talk.expected.is_empty() => {
                    talk.is_closed = true;
                    cx.shutdown(id);
                    return;
                }
                None => return,
            }
        }
    }

    fn release(&mut self, id: ConnectionId, cx: &mut AppContext<'_>) {
        if let Some(talk) = self.talks.remove(id.index()) {
            self.table.borrow_mut().remove(&talk.port);
            cx.release(id);
            self.open_next(talk.then, cx);
            if matches!(self.kind, TrafficKind::RequestResponse { per_connection: Some(_), .. }) {
                self.open_requests(cx);
            }
        }
    }

    /// Stops writing.
    fn stop(&mut self, cx: &mut AppContext<'_>) {
        for talk in self.talks.values_mut() {
            talk.pending = 0;
            talk.is_closed = true;
            cx.shutdown(talk.id);
        }
    }
}

impl Talk {
    /// Takes a step: queues its bytes and expects its reply.
    fn take(&mut self, step: &Step, now: Instant, table: &Table) {
        self.pending = step.bytes;
        self.asked = self.asked.saturating_add(step.bytes);
        if step.reply > 0 {
            self.promised += step.reply;
            self.expected.push_back((self.promised, now));
            let answer = Answer { needs: self.asked, after: step.serve, bytes: step.reply };
            table.borrow_mut().entry(self.port).or_default().push_back(answer);
        }
    }
}

impl App for Caller {
    fn forget(&mut self) {
        for talk in self.talks.values_mut() {
            self.table.borrow_mut().remove(&talk.port);
        }
        *self = Self::new(&self.kind, self.server, self.tcp.clone(), self.table.clone());
    }

    fn warm(&self) {
        if let Some(connection) = self.talks.first() {
            fetch(connection, size_of_val(connection));
        }
    }

    fn on_event(&mut self, event: AppEvent, cx: &mut AppContext<'_>) {
        match event {
            AppEvent::Start => self.start(cx),
            AppEvent::Timer(ARRIVAL) => self.arrival(cx),
            AppEvent::Timer(STOP) => self.stop(cx),
            AppEvent::Timer(number) => {
                let Some(id) = self.timers.remove(&number) else { return };
                let Some(talk) = self.talks.get_mut(id.index()).filter(|talk| talk.id == id) else { return };
                if let Some((step, _)) = talk.waits.take() {
                    talk.take(&step, cx.now(), &self.table);
                }
                self.go_on(id, cx);
            }
            AppEvent::Ready(id, readiness) => {
                self.ready(id, cx);
                if readiness.closed {
                    self.release(id, cx);
                }
            }
            AppEvent::Accepted(_) => {}
        }
    }
}

const ARRIVAL: u64 = 0;
const STOP: u64 = 1;
/// Timers of connections are numbered from here.
const FIRST_TALK: u64 = 2;
