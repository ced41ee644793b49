//! The state of a stack beside its endpoint, as data: for a process that takes over.
//!
//! Tasks and their wakers end with their process. Everything else that is left out begins again: spans,
//! traces of the control socket, and who writes next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ackclock_core::{ConnectionId, Instant, TcpConfig};
use ackclock_form::{Form, Writer, form};

use super::datagrams::Datagrams;
use super::listeners::Listeners;
use super::{Network, Phase, StackState};

/// The state beside the endpoint.
#[derive(Debug)]
pub(crate) struct Handed {
    pub network: Network,
    pub tcp: TcpConfig,
    listeners: Listeners,
    datagrams: Datagrams,
    keys: BTreeMap<ConnectionId, u64>,
    own: BTreeSet<ConnectionId>,
    lingering: BTreeMap<(Instant, u64), ConnectionId>,
    lingerings_made: u64,
    rare: Vec<(ConnectionId, Marks)>,
}

/// The notes about a stream besides its tasks.
#[derive(Debug)]
struct Marks {
    urgent: bool,
    soft_error: bool,
    linger: Option<Duration>,
    lingers: bool,
}

form! {
    struct Handed { network, tcp, listeners, datagrams, keys, own, lingering, lingerings_made, rare }
    struct Marks { urgent, soft_error, linger, lingers }
}

impl StackState {
    /// Whether another process may go on with it.
    pub fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up)
    }

    /// Writes the fields that [`Handed`] reads, in its order. They are not copied first: the stack stands
    /// still meanwhile.
    pub fn write_handed(&self, out: &mut Writer) {
        self.network.write(out);
        self.tcp.write(out);
        self.listeners.write(out);
        self.datagrams.write(out);
        self.keys.write(out);
        self.own.write(out);
        self.lingering.write(out);
        self.lingerings_made.write(out);
        let marks = self.streams.iter().filter_map(|slot| {
            let rare = slot.rare.as_deref()?;
            let marks = Marks {
                urgent: rare.urgent,
                soft_error: rare.soft_error,
                linger: rare.linger,
                lingers: rare.lingers,
            };
            Some((slot.id, marks))
        });
        marks.collect::<Vec<_>>().write(out);
    }

    /// Goes on with the rest of `handed` on the endpoint that came with it. SYNs that the other process was
    /// still looking at wait for a decision again.
    pub fn take(&mut self, now: Instant, handed: Handed) {
        let Handed { listeners, datagrams, keys, own, lingering, lingerings_made, rare, .. } = handed;
        (self.listeners, self.datagrams, self.keys) = (listeners, datagrams, keys);
        (self.lingering, self.lingerings_made) = (lingering, lingerings_made);
        for (id, marks) in rare {
            // Nothing would ever remove the slot of a connection that is not there.
            if self.endpoint.connection(id).is_none() {
                continue;
            }
            let rare = self.streams.get_or_insert(id, &mut self.woken).rare_mut();
            (rare.urgent, rare.soft_error) = (marks.urgent, marks.soft_error);
            (rare.linger, rare.lingers) = (marks.linger, marks.lingers);
        }
        let awaited: Vec<_> = self.endpoint.awaited().collect();
        for (listener, incoming) in awaited {
            self.listeners.await_again(listener, incoming);
        }
        // The resolver that opened these has gone with its process.
        for id in own {
            self.endpoint.update(now, id, |connection, now| connection.abort(now));
            self.endpoint.release(now, id);
        }
    }

    /// The connections that streams of the other process stood for.
    pub fn held(&self) -> Vec<ConnectionId> {
        let lingers = |id| self.lingering.values().any(|&lingering| lingering == id);
        let all = self.endpoint.connections().map(|(id, _)| id);
        all.filter(|&id| self.endpoint.connection(id).is_some() && !lingers(id)).collect()
    }
}
