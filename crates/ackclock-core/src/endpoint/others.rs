//! Other packets: everything that arrives and is not this endpoint's, and packets of any kind that a program
//! sends.
//!
//! A proxy or a VPN receives and sends whole IP packets here.
//! [`EndpointConfig::other_packets`](crate::EndpointConfig::other_packets) bounds both queues: packets that
//! arrive when the first is full are dropped and counted; sending when the second is full is refused until an
//! event reports room.

use std::collections::VecDeque;

use ackclock_control::tally::Tally;
use ackclock_wire::RxMeta;
use ackclock_wire::gso::cut_contiguous;

use super::Endpoint;
use super::input::Frame;
use super::outbox::{Origin, destination};
use crate::Instant;
use crate::budget::Lease;

/// A whole IP packet that is not the endpoint's.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OtherPacket {
    /// The packet, from its IP header on.
    pub bytes: Vec<u8>,
    /// Its offload state: an unfinished checksum is labelled
    /// ([`ChecksumState::Partial`](ackclock_wire::ChecksumState::Partial)), and so is the segment size of a
    /// coalesced packet. [`OtherPacket::whole`] makes plain packets of it.
    pub meta: RxMeta,
}

/// Why a packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OtherError {
    /// The queue is full.
    #[error("no room: as many packets wait to be sent as the channel holds")]
    Full,
    /// The endpoint has no such channel, or its program has closed it.
    #[error("this stack gives no other packets: ask for them when it is built")]
    Off,
    /// The bytes are not an IP packet.
    #[error("not an IP packet: its version or its length fields contradict its bytes")]
    Malformed,
    /// The packet is longer than the device carries.
    #[error("the packet is longer than the MTU of {mtu} bytes; send an ICMP error to its source")]
    TooLong {
        /// Largest IP packet in bytes.
        mtu: usize,
    },
    /// The memory budget is used up.
    #[error("the stack's memory budget is exhausted")]
    NoMemory,
}

/// The two queues.
#[derive(Debug)]
pub(super) struct Others {
    /// The most packets in each queue; 0: the channel is closed.
    max: usize,
    arrived: VecDeque<(OtherPacket, Lease)>,
    /// Packets in the outbox.
    leaving: usize,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Whether sending was refused for lack of room.
    refused: bool,
}

impl Others {
    pub(super) fn new(max: usize) -> Self {
        Self { max, arrived: VecDeque::new(), leaving: 0, readable: false, writable: false, refused: false }
    }

    pub(super) fn on_left(&mut self) {
        self.leaving = self.leaving.saturating_sub(1);
        if self.refused && self.leaving < self.max {
            self.refused = false;
            self.writable = true;
        }
    }
}

impl OtherPacket {
    /// A packet with finished checksums.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, meta: RxMeta::default() }
    }

    /// Passes the packets that belong on a wire to `emit`: coalesced ones are cut, and every checksum is
    /// finished.
    pub fn whole(&self, emit: impl FnMut(&[u8])) {
        cut_contiguous(&self.bytes, self.meta, emit);
    }
}

impl Endpoint {
    /// The next packet that arrived and is not the endpoint's.
    pub fn poll_other(&mut self) -> Option<OtherPacket> {
        let (packet, _lease) = self.beside.as_mut()?.others.arrived.pop_front()?;
        Some(packet)
    }

    /// Whether [`poll_other`](Self::poll_other) would return a packet.
    #[must_use]
    pub fn has_other(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| !beside.others.arrived.is_empty())
    }

    /// Whether [`Event::OtherRoom`](crate::Event::OtherRoom) will report room to a caller that waits for it:
    /// it has asked, and there is none.
    #[must_use]
    pub fn awaits_other_room(&self) -> bool {
        let others = self.beside.as_ref().map(|beside| &beside.others);
        others.is_some_and(|others| others.refused && others.leaving >= others.max && others.max > 0)
    }

    /// Whether [`send_other`](Self::send_other) has room for a packet. If not,
    /// [`Event::OtherRoom`](crate::Event::OtherRoom) reports when it has.
    pub fn has_other_room(&mut self) -> bool {
        if self.config.other_packets == 0 {
            return true;
        }
        let others = &mut self.beside().others;
        let room = others.leaving < others.max;
        others.refused |= !room;
        room
    }

    /// Sends a whole IP packet of any kind. An unfinished checksum is finished, and a packet with a segment
    /// size is cut. A packet to one of the endpoint's addresses comes back to it.
    ///
    /// # Errors
    /// See [`OtherError`]; nothing has been sent then.
    pub fn send_other(&mut self, now: Instant, packet: &OtherPacket) -> Result<(), OtherError> {
        self.advance(now);
        if self.config.other_packets == 0 {
            return Err(OtherError::Off);
        }
        let to = destination(&packet.bytes).ok_or(OtherError::Malformed)?;
        if !self.has_other_room() {
            return Err(OtherError::Full);
        }
        let mut whole = Vec::new();
        packet.whole(|packet| whole.push(packet.to_vec()));
        let mtu = self.mtu_to(to);
        if whole.iter().any(|packet| packet.len() > mtu) {
            return Err(OtherError::TooLong { mtu });
        }
        let budget = self.budget.clone();
        let beside = self.beside();
        let (all, mut sent) = (whole.len(), 0_usize);
        for packet in whole {
            sent.grow(usize::from(beside.outbox.push(&budget, Origin::Other, packet)));
        }
        beside.others.leaving.grow(sent);
        beside.counters.others_sent.grow(sent as u64);
        beside.counters.dropped_other_full.grow(all.saturating_sub(sent) as u64);
        if sent == 0 { Err(OtherError::NoMemory) } else { Ok(()) }
    }

    /// Closes the channel of other packets. What arrives from now on is refused as without it.
    pub fn close_others(&mut self) {
        self.config.other_packets = 0;
        if let Some(beside) = &mut self.beside {
            beside.others.max = 0;
            beside.others.arrived.clear();
        }
    }

    /// Gives a packet that is not the endpoint's to the program that handles such packets, if there is one.
    #[cold]
    pub(super) fn divert(&mut self, frame: &Frame<'_>) -> bool {
        // What the endpoint sent to itself is not for others.
        if self.config.other_packets == 0 || frame.looped {
            return false;
        }
        if self.goes_to_first(frame) {
            return true;
        }
        let budget = self.budget.clone();
        let others = &mut self.beside().others;
        let lease = budget.try_lease(frame.packet.len()).filter(|_| others.arrived.len() < others.max);
        match lease {
            Some(lease) => {
                let packet = OtherPacket { bytes: frame.packet.to_vec(), meta: frame.meta };
                others.arrived.push_back((packet, lease));
                others.readable = true;
                self.rare_counters().others_received.count();
            }
            None => self.rare_counters().dropped_other_full.count(),
        }
        true
    }
}
