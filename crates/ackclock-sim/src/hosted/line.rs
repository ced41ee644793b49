//! A line connects one of the program's stacks to its node.
//!
//! A call leaves packets to send. They are taken from the stack before the call returns, as a driver on a
//! device would, and wait here until the program is idle. Then the node sends them, at the same instant.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::{Context, Wake, Waker};

use ackclock::{Clock, Port};
use ackclock_core::{Instant, Limits};
use ackclock_wire::{ChecksumState, RxMeta, TxPacket};

use super::pulse::Pulse;
use crate::guest::Guest;

/// A stack on the network.
#[derive(Debug)]
pub(super) struct Line(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ends: Mutex<Ends>,
    node: u32,
    limits: Limits,
    pulse: Arc<Pulse>,
}

#[derive(Debug)]
struct Ends {
    port: Port,
    outbox: Outbox,
    /// The port's waker.
    bell: Waker,
}

/// The waker of the stack's port. It collects the packets that a call has left.
#[derive(Debug)]
struct Bell(Weak<Shared>);

/// Packets that have left the stack.
#[derive(Debug, Default)]
struct Outbox {
    packets: VecDeque<QueuedPacket>,
    bytes: Vec<u8>,
    /// How many of the bytes have been handed on.
    taken: usize,
}

#[derive(Clone, Copy, Debug)]
struct QueuedPacket {
    header_len: usize,
    payload_len: usize,
    transport_offset: u16,
    checksum: ChecksumState,
}

impl Line {
    pub fn new(port: Port, node: u32, mtu: usize, pulse: Arc<Pulse>) -> Self {
        let limits = Limits { gso_max_v4: mtu, gso_max_v6: mtu, tx_checksum: false };
        let shared = Arc::new_cyclic(|shared| {
            let bell = Waker::from(Arc::new(Bell(Weak::clone(shared))));
            Shared { ends: Mutex::new(Ends { port, outbox: Outbox::default(), bell }), node, limits, pulse }
        });
        shared.ring();
        Self(shared)
    }
}

impl Guest for Line {
    fn handle_packet(&mut self, now: Instant, packet: &[u8], meta: RxMeta) {
        let mut ends = self.0.ends();
        // A closed stack is a host without TCP and does not answer.
        if !ends.port.is_closed() {
            self.0.pulse.note_activity();
            ends.port.handle_packet(now, packet, meta);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.ends().port.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.ends().port.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Instant, limits: Limits, send: &mut dyn FnMut(&TxPacket<'_>)) -> bool {
        let mut ends = self.0.ends();
        ends.outbox.pop(send) || ends.port.poll_transmit(now, limits, send)
    }
}

impl Shared {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of the program has left work to do.
    fn ring(&self) {
        let ends = match self.ends.try_lock() {
            Ok(ends) => Some(ends),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            // The network holds the port and takes what there is.
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut ends) = ends {
            let Ends { port, outbox, bell } = &mut *ends;
            // Arms the bell for the next call.
            let _ = port.poll_work(&mut Context::from_waker(bell));
            while port.poll_transmit(self.pulse.now(), self.limits, |packet| outbox.push(packet)) {}
            // The simulated network sends nothing to groups.
            port.take_groups();
        }
        self.pulse.ring(self.node);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(line) = self.0.upgrade() {
            line.ring();
        }
    }
}

impl Outbox {
    fn push(&mut self, packet: &TxPacket<'_>) {
        for part in packet.parts() {
            self.bytes.extend_from_slice(part);
        }
        self.packets.push_back(QueuedPacket {
            header_len: packet.header.len(),
            payload_len: packet.payload_len(),
            transport_offset: packet.transport_offset,
            checksum: packet.checksum,
        });
    }

    fn pop(&mut self, send: &mut dyn FnMut(&TxPacket<'_>)) -> bool {
        let Some(sent) = self.packets.pop_front() else { return false };
        let (header, rest) = self.bytes[self.taken..].split_at(sent.header_len);
        self.taken += sent.header_len + sent.payload_len;
        send(&TxPacket {
            header,
            transport_offset: sent.transport_offset,
            payload: [&rest[..sent.payload_len], &[]],
            segment_size: None,
            checksum: sent.checksum,
        });
        if self.packets.is_empty() {
            self.bytes.clear();
            self.taken = 0;
        }
        true
    }
}
