//! SYNs that wait for the application's decision (listeners with deferred accept).
//!
//! After each SYN that was reported, the application gets exactly one more report, unless it refused the SYN
//! itself: either the SYN becomes a connection
//! ([`Endpoint::accept_decided`](super::Endpoint::accept_decided) names the SYN), or
//! [`Event::IncomingGone`](crate::Event::IncomingGone) says that it will not. The application needs no timer.

use crate::{FourTuple, Instant};

/// A SYN that waits for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IncomingId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A SYN before it is answered.
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

ackclock_form::form! {
    struct IncomingId { index, generation }
    enum Unreachable { 0 Network, 1 Host, 2 Prohibited }
}
