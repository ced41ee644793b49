//! Errors of calls on UDP sockets.

use std::net::{IpAddr, SocketAddr};

use crate::error::{why_no_peer, why_not_local};

/// Why a call on a UDP socket failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UdpSocketError {
    /// Nothing to receive, or no room to send, now.
    #[error("nothing to receive, or no room to send, at the moment")]
    WouldBlock,
    /// The peer's host answered that nothing is bound to the port (ICMP port or protocol unreachable).
    /// Reported once.
    #[error("connection refused: nothing is bound to the peer's port")]
    Refused,
    /// No destination was given, and the socket has no peer.
    #[error("not connected: give a destination, or connect the socket first")]
    NotConnected,
    /// Another socket has this address and port.
    #[error("address in use: another UDP socket has it")]
    AddressInUse,
    /// The limit of sockets is reached.
    #[error("too many UDP sockets: the limit is {0}")]
    TooManySockets(usize),
    /// The local address is not one of the endpoint's.
    #[error("{0} is not an address of this stack: {why}", why = why_not_local(*.0))]
    NotLocal(IpAddr),
    /// No local address of the peer's family.
    #[error("no local address to reach {0} from: give the stack one of its family")]
    NoLocalAddress(IpAddr),
    /// The socket accepts datagrams for any port, and so has none to send from.
    #[error("this socket takes datagrams for any port: say from which address and port to send")]
    NoSource,
    /// The source is not one that the socket accepts datagrams for.
    #[error("{0} is not an address and port of this socket")]
    WrongSource(SocketAddr),
    /// This cannot be a host's address.
    #[error("{0} cannot be sent to: {why}", why = why_no_peer(*.0))]
    InvalidRemote(SocketAddr),
    /// Longer than a packet of the device can carry, on a socket that sends no fragments.
    #[error("the datagram is too long: {max} bytes fit a packet on this path; send less at a time")]
    TooLong {
        /// Most bytes in one datagram.
        max: usize,
    },
    /// A router on the path reported a datagram as too long. Reported once; from then on longer ones are
    /// [`TooLong`](Self::TooLong).
    #[error(
        "a datagram was too long for the path to the peer and is lost: {max} bytes fit; send less at a time"
    )]
    PathTooSmall {
        /// Most bytes in one datagram.
        max: usize,
    },
    /// Too many segments in one call, or segments without a length.
    #[error("a call takes 1 to {max} segments of at least a byte")]
    Segments {
        /// Most segments in one call.
        max: usize,
    },
    /// This is not a group that a socket can join.
    #[error("{0} is not a multicast address: give one of 224.0.0.0/4 or ff00::/8")]
    NotMulticast(IpAddr),
    /// The socket has one address of the stack, and packets to a group go to none of those.
    #[error("a socket at {0} hears nothing of groups: bind it to the unspecified address")]
    BoundToOne(IpAddr),
    /// The socket listens to this group already.
    #[error("the socket has joined {0} before")]
    AlreadyJoined(IpAddr),
    /// The socket does not listen to this group.
    #[error("the socket has not joined {0}")]
    NotJoined(IpAddr),
    /// The limit of groups is reached.
    #[error("too many multicast groups: the limit is {0} for a stack")]
    TooManyGroups(usize),
    /// The memory budget is used up.
    #[error("the stack's memory budget is exhausted")]
    NoMemory,
    /// The socket has been closed.
    #[error("the socket has been closed")]
    Closed,
}

ackclock_form::form! {
    enum UdpSocketError {
        0 WouldBlock, 1 Refused, 2 NotConnected, 3 AddressInUse, 4 TooManySockets(value),
        5 NotLocal(value), 6 NoLocalAddress(value), 7 NoSource, 8 WrongSource(value),
        9 InvalidRemote(value), 10 TooLong { max }, 11 PathTooSmall { max }, 12 Segments { max },
        13 NotMulticast(value), 14 BoundToOne(value), 15 AlreadyJoined(value), 16 NotJoined(value),
        17 TooManyGroups(value), 18 NoMemory, 19 Closed
    }
}
