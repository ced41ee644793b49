//! What an endpoint keeps besides plain TCP: for other protocols, for Fast Open, and the counters of both.
//! All of it, including its keys, is created at its first use: an endpoint with only ordinary connections
//! pays a pointer and a key.

use ackclock_wire::TxPacket;

use super::counters::RareCounters;
use super::fast_open::ServerCache;
use super::keys::{Key, KeyedState, Purpose};
use super::limits::{EchoLimiter, ErrorLimiter};
use super::looped::LoopQueue;
use super::others::Others;
use super::outbox::Outbox;
use super::{Endpoint, Settings};
use crate::Instant;
use crate::reassembly::Reassembler;
use crate::udp::{PathMtus, Sockets};

/// The state besides plain TCP.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) outbox: Outbox,
    pub(super) looped: LoopQueue,
    pub(super) others: Others,
    pub(super) udp: Sockets,
    pub(super) paths: PathMtus,
    /// `None`: fragments are not reassembled.
    pub(super) reassembler: Option<Reassembler>,
    pub(super) echoes: EchoLimiter,
    pub(super) errors: ErrorLimiter,
    /// Whether a packet of the outbox goes before the next segment. Both take turns.
    outbox_first: bool,
    /// The servers known to a client of Fast Open.
    pub(super) servers: ServerCache,
    pub(super) counters: RareCounters,
    /// The earliest time for another search for connections that hold memory without progress.
    pub(super) walk_after: Instant,
}

impl Beside {
    fn new(later: &Key, config: &Settings) -> Self {
        Self {
            outbox: Outbox::default(),
            looped: LoopQueue::default(),
            others: Others::new(config.other_packets),
            udp: Sockets::default(),
            paths: PathMtus::default(),
            reassembler: config.reassembly.as_deref().copied().map(Reassembler::new),
            echoes: EchoLimiter::default(),
            errors: ErrorLimiter::new(later.subkey(Purpose::Beside)),
            outbox_first: false,
            servers: ServerCache::new(KeyedState(later.subkey(Purpose::FastOpenServers))),
            counters: RareCounters::default(),
            walk_after: Instant::ZERO,
        }
    }

    /// Whether it is the outbox's turn.
    pub(super) fn takes_turn(&mut self) -> bool {
        self.outbox_first = !self.outbox_first;
        self.outbox_first
    }
}

impl Endpoint {
    /// The state besides plain TCP, created at its first use.
    pub(super) fn beside(&mut self) -> &mut Beside {
        self.beside.get_or_insert_with(|| Box::new(Beside::new(&self.later, &self.config)))
    }

    /// The counters besides plain TCP.
    pub(super) fn rare_counters(&mut self) -> &mut RareCounters {
        &mut self.beside().counters
    }

    /// Takes the next whole packet from the outbox. Returns whether there was one.
    pub(super) fn next_whole(&mut self) -> bool {
        let Some(beside) = &mut self.beside else { return false };
        let Some((origin, bytes)) = beside.outbox.take() else { return false };
        self.on_left(origin, bytes);
        true
    }

    /// The whole packet last taken.
    pub(super) fn whole_packet(&self) -> Option<TxPacket<'_>> {
        Some(self.beside.as_ref()?.outbox.taken())
    }
}
