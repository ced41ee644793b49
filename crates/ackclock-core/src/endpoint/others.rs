//! Other packets: everything that arrives and is not this endpoint's, and packets of any kind that a program
//! sends.
//!
//! A proxy or a VPN receives and sends whole IP packets here.
//! [`EndpointConfig::other_packets`](crate::EndpointConfig::other_packets) bounds both queues: packets that
//! arrive when the first is full are dropped and counted; sending when the second is full is refused until an
//! event reports room.

use ackclock_form::byte_string;
use ackclock_wire::RxMeta;
use ackclock_wire::gso::cut_contiguous;

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

ackclock_form::form! {
    struct OtherPacket { bytes as byte_string, meta }
}
