//! What an endpoint keeps for what is not TCP. All of it is made when the first such thing happens: an endpoint that has
//! connections alone pays a pointer.

use ackclock_wire::TxPacket;

use super::Endpoint;
use super::keys::Key;
use super::limits::{EchoLimiter, ErrorLimiter};
use super::looped::LoopQueue;
use super::others::Others;
use super::outbox::Outbox;
use crate::EndpointConfig;
use crate::reassembly::Reassembler;
use crate::udp::{PathMtus, Sockets};

/// The state of what is not TCP.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) outbox: Outbox,
    pub(super) looped: LoopQueue,
    pub(super) others: Others,
    pub(super) udp: Sockets,
    pub(super) paths: PathMtus,
    /// `None`: fragments are not put together.
    pub(super) reassembler: Option<Reassembler>,
    pub(super) echoes: EchoLimiter,
    pub(super) errors: ErrorLimiter,
    /// Whether a packet of the outbox goes before the next segment: both take turns.
    outbox_first: bool,
}

impl Beside {
    fn new(key: &Key, config: &EndpointConfig) -> Self {
        Self {
            outbox: Outbox::default(),
            looped: LoopQueue::default(),
            others: Others::new(config.other_packets),
            udp: Sockets::default(),
            paths: PathMtus::default(),
            reassembler: config.reassembly.map(Reassembler::new),
            echoes: EchoLimiter::default(),
            errors: ErrorLimiter::new(key.clone()),
            outbox_first: false,
        }
    }

    /// Whether it is the outbox's turn.
    pub(super) fn takes_turn(&mut self) -> bool {
        self.outbox_first = !self.outbox_first;
        self.outbox_first
    }
}

impl Endpoint {
    /// The state of what is not TCP, made if this is the first time.
    pub(super) fn beside(&mut self) -> &mut Beside {
        self.beside.get_or_insert_with(|| Box::new(Beside::new(&self.beside_key, &self.config)))
    }

    /// Takes the next whole packet out of the outbox; whether there was one.
    pub(super) fn next_whole(&mut self) -> bool {
        let Some(beside) = &mut self.beside else { return false };
        let Some((origin, bytes)) = beside.outbox.take() else { return false };
        self.on_left(origin, bytes);
        true
    }

    /// The whole packet that was taken last.
    pub(super) fn whole_packet(&self) -> Option<TxPacket<'_>> {
        Some(self.beside.as_ref()?.outbox.taken())
    }
}
