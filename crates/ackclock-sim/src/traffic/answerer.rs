//! The accepting side: it reads what arrives and sends the answers requested.

use std::collections::BTreeMap;
use std::sync::Arc;

use ackclock_core::{ConnectionId, TcpConfig, fetch};

use super::{Answer, ByConnection, Table, pop_if};
use crate::app::{App, AppContext, AppEvent};

/// Listens on one port.
#[derive(Debug)]
pub(crate) struct Answerer {
    port: u16,
    tcp: Option<Arc<TcpConfig>>,
    /// `None` if nothing is ever answered.
    table: Option<Table>,
    /// By the connection's index.
    served: ByConnection<Served>,
    next: u64,
    /// The connection of each timer.
    timers: BTreeMap<u64, ConnectionId>,
}

/// One connection.
#[derive(Debug)]
struct Served {
    id: ConnectionId,
    caller_port: u16,
    received: u64,
    /// The bytes that are still to be written.
    pending: u64,
    /// The answer that waits for its time.
    waits: Option<Answer>,
    ended: bool,
}

impl Answerer {
    pub fn new(port: u16, tcp: Option<Arc<TcpConfig>>, table: Option<Table>) -> Self {
        Self { port, tcp, table, served: ByConnection::new(), next: 0, timers: BTreeMap::new() }
    }

    fn ready(&mut self, id: ConnectionId, cx: &mut AppContext<'_>) {
        let Some(served) = self.served.get_mut(id.index()).filter(|served| served.id == id) else { return };
        match cx.read_any(id) {
            Ok((bytes, end)) => {
                served.received += bytes;
                served.ended |= end;
            }
            Err(_) => return self.release(id, cx),
        }
        self.answer(id, cx);
    }

    /// Sends the answers that are due.
    fn answer(&mut self, id: ConnectionId, cx: &mut AppContext<'_>) {
        let Some(served) = self.served.get_mut(id.index()).filter(|served| served.id == id) else { return };
        if let Some(table) = &self.table
            && let Some(answers) = table.borrow_mut().get_mut(&served.caller_port)
        {
            while served.waits.is_none()
                && let Some(answer) = pop_if(answers, |answer| answer.needs <= served.received)
            {
                if answer.after.0 == 0 {
                    served.pending += answer.bytes;
                } else {
                    served.waits = Some(answer);
                    self.timers.insert(self.next, id);
                    cx.set_timer(answer.after.duration(), self.next);
                    self.next += 1;
                }
            }
        }
        if served.pending > 0
            && let Ok(written) = cx.write_any(id, served.pending)
        {
            served.pending -= written;
        }
        if served.ended && served.pending == 0 && served.waits.is_none() {
            if cx.connection(id).is_some_and(ackclock_core::Connection::is_flushed) {
                return self.release(id, cx);
            }
            cx.shutdown(id);
        }
    }

    fn release(&mut self, id: ConnectionId, cx: &mut AppContext<'_>) {
        if let (Some(served), Some(table)) = (self.served.remove(id.index()), &self.table) {
            table.borrow_mut().remove(&served.caller_port);
        }
        cx.release(id);
    }
}

impl App for Answerer {
    fn forget(&mut self) {
        self.served = ByConnection::new();
        self.timers.clear();
    }

    fn warm(&self) {
        if let Some(connection) = self.served.first() {
            fetch(connection, size_of_val(connection));
        }
    }

    fn on_event(&mut self, event: AppEvent, cx: &mut AppContext<'_>) {
        match event {
            AppEvent::Start => {
                // Ports are assigned so that no two listeners of a host share one.
                let _ = cx.listen(self.port, self.tcp.as_deref().cloned());
            }
            AppEvent::Accepted(id) => {
                let Some(caller_port) = cx.connection(id).map(|connection| connection.tuple().remote_port)
                else {
                    return;
                };
                let served = Served { id, caller_port, received: 0, pending: 0, waits: None, ended: false };
                self.served.insert(id.index(), served);
            }
            AppEvent::Ready(id, readiness) => {
                self.ready(id, cx);
                if readiness.closed {
                    self.release(id, cx);
                }
            }
            AppEvent::Timer(number) => {
                let Some(id) = self.timers.remove(&number) else { return };
                if let Some(served) = self.served.get_mut(id.index()).filter(|served| served.id == id) {
                    served.pending += served.waits.take().map_or(0, |answer| answer.bytes);
                    self.answer(id, cx);
                }
            }
        }
    }
}
