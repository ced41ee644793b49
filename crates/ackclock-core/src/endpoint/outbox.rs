//! Whole packets that wait to be sent: ICMP, datagrams, and other programs' packets.
//!
//! Each packet's bytes come from the endpoint's budget. The producers limit how many of a kind wait: ICMP
//! here ([`ICMP_MAX`]), a socket by its send buffer, a program by its channel.

use std::collections::VecDeque;
use std::net::IpAddr;

use ackclock_control::tally::Tally;
use ackclock_wire::{ChecksumState, TxPacket};

use crate::UdpId;
use crate::budget::{Budget, Lease};

/// The queue, in order of insertion.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<Waiting>,
    /// The packet last taken.
    taken: Option<Waiting>,
    icmp: usize,
}

/// The origin of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// From the stack itself.
    Icmp,
    /// From a UDP socket.
    Udp(UdpId),
    /// From the program that handles other packets.
    Other,
}

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    origin: Origin,
    _lease: Lease,
}

impl Outbox {
    /// Adds a packet with finished checksums. Returns `false` if there is no room.
    pub(super) fn push(&mut self, budget: &Budget, origin: Origin, bytes: Vec<u8>) -> bool {
        let is_icmp = origin == Origin::Icmp;
        if is_icmp && self.icmp >= ICMP_MAX {
            return false;
        }
        let Some(lease) = budget.try_lease(bytes.len()) else { return false };
        self.icmp.grow(usize::from(is_icmp));
        self.queue.push_back(Waiting { bytes, origin, _lease: lease });
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes the next packet, which [`taken`](Self::taken) then shows. Returns its origin and length.
    pub(super) fn take(&mut self) -> Option<(Origin, usize)> {
        self.taken = self.queue.pop_front();
        let Waiting { origin, bytes, .. } = self.taken.as_ref()?;
        self.icmp.shrink(usize::from(*origin == Origin::Icmp));
        Some((*origin, bytes.len()))
    }

    /// The packet last taken.
    pub(super) fn taken(&self) -> TxPacket<'_> {
        let bytes = self.taken.as_ref().map_or(&[][..], |waiting| &waiting.bytes);
        let transport_offset = ip_header_len(bytes);
        // The header is the IP header plus the eight bytes of UDP or ICMP.
        let head = usize::from(transport_offset) + 8;
        let (header, payload) = bytes.split_at_checked(head).unwrap_or((bytes, &[]));
        TxPacket {
            header,
            transport_offset,
            payload: [payload, &[]],
            segment_size: None,
            checksum: ChecksumState::Complete,
        }
    }

    /// The destination of that packet.
    pub(super) fn taken_destination(&self) -> Option<IpAddr> {
        destination(&self.taken.as_ref()?.bytes)
    }
}

/// The length of an IP header without IPv6 extension headers.
fn ip_header_len(bytes: &[u8]) -> u16 {
    match bytes.first() {
        Some(first) if first >> 4 == 4 => u16::from(first & 15) * 4,
        _ => 40,
    }
}

/// The destination of a whole IP packet; `None` if its length fields contradict its bytes.
pub(super) fn destination(bytes: &[u8]) -> Option<IpAddr> {
    let length = |at: usize| Some(usize::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)));
    let (claimed, addr): (usize, IpAddr) = match bytes.first()? >> 4 {
        4 => (length(2)?, (*bytes.get(16..)?.first_chunk::<4>()?).into()),
        6 => (length(4)?.saturating_add(40), (*bytes.get(24..)?.first_chunk::<16>()?).into()),
        _ => return None,
    };
    (claimed == bytes.len() && usize::from(ip_header_len(bytes)) <= bytes.len()).then_some(addr)
}

/// The most ICMP messages that wait.
pub(super) const ICMP_MAX: usize = 64;
