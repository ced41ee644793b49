//! SYNs that wait for the application's decision (listeners with deferred accept).
//!
//! After each SYN that was reported, the application gets exactly one more report, unless it refused the SYN
//! itself: either the SYN becomes a connection ([`Endpoint::accept_decided`] names the SYN), or
//! [`Event::IncomingGone`](crate::Event::IncomingGone) says that it will not. The application needs no timer.

use ackclock_control::tally::Tally;
use ackclock_wire::{Flags, SeqNum};

use super::Endpoint;
use super::reply::bare;
use super::syn_queue::HalfOpen;
use crate::connection::initial_receive_window;
use crate::{FourTuple, Instant};

/// A SYN that waits for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IncomingId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// What is known of a SYN before it is answered.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Incoming {
    /// The sockets: `local` is the destination that the client dialled.
    pub tuple: FourTuple,
    /// The client's MSS, if it sent one.
    pub mss: Option<u16>,
    /// When the SYN arrived.
    pub arrived: Instant,
}

/// A decision on a waiting SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Answer it.
    Accept,
    /// Refuse it with a reset.
    Reset,
    /// Refuse it with an ICMP error.
    Unreachable(Unreachable),
    /// Forget it without an answer.
    Drop,
}

/// Why a client's destination cannot be reached, as a proxy has learned from its upstream.
///
/// These errors are soft: a client that follows RFC 9293 §3.9.2.2 notes them and keeps trying until its own
/// timeout. Linux gives up the attempt at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unreachable {
    /// No route to its network. A client on Linux fails with `ENETUNREACH`.
    Network,
    /// The host does not answer. A client on Linux fails with `EHOSTUNREACH`.
    Host,
    /// A rule forbids it. A client on Linux fails with `EHOSTUNREACH` over IPv4, with `EACCES` over IPv6.
    Prohibited,
}

impl Endpoint {
    /// The SYN that waits under this id; `None` if it has been decided or is gone.
    pub fn incoming(&self, id: IncomingId) -> Option<Incoming> {
        let record = self.half_open.undecided(id.index, id.generation)?;
        Some(Incoming { tuple: record.tuple, mss: record.peer.mss, arrived: record.since })
    }

    /// Decides on a waiting SYN: `Accept` answers it, `Reset` and `Unreachable` refuse it, `Drop` forgets it
    /// without an answer. Without a decision it waits for at most 60 s. Returns whether it was still waiting.
    /// After `Accept` it becomes a connection, or [`Event::IncomingGone`](crate::Event::IncomingGone)
    /// follows.
    pub fn decide(&mut self, now: Instant, id: IncomingId, decision: Decision) -> bool {
        let now = self.advance(now);
        let Some(record) = self.half_open.undecided(id.index, id.generation).copied() else { return false };
        match decision {
            Decision::Accept => {
                let Some(listener) = self.listeners.get(record.listener) else { return false };
                let window = initial_receive_window(&listener.tcp);
                self.note_decided(&record);
                self.half_open.answer(id.index, now, record.iss, window);
                self.send_syn_ack(now, id.index);
            }
            Decision::Reset => self.reset_half_open(id.index, &record),
            Decision::Unreachable(why) => {
                // If the limits allow no further error, a reset ends the client's attempt instead of letting
                // it wait.
                if self.send_unreachable(now, why, &record.tuple, record.peer.irs) {
                    self.remove_half_open(id.index);
                } else {
                    self.reset_half_open(id.index, &record);
                }
            }
            Decision::Drop => self.remove_half_open(id.index),
        }
        self.check_invariants();
        true
    }

    fn reset_half_open(&mut self, index: u32, record: &HalfOpen) {
        self.remove_half_open(index);
        self.counters.resets_sent.count();
        let reset = bare(SeqNum::default(), record.peer.irs + 1, Flags::RST | Flags::ACK);
        self.reply(&record.tuple, self.config.tcp.ttl, reset);
    }
}
