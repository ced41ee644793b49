//! Fast Open in a connection (RFC 7413): data in the SYN, and data after a SYN,ACK that is not acknowledged
//! yet.
//!
//! A client puts its cookie and its first data only on the first SYN. The application never loses data by
//! this: what the SYN,ACK does not acknowledge is sent again as ordinary data. A retransmitted SYN carries
//! neither data nor the option, because a middlebox may have dropped the first for either (RFC 7413 §4.2.1,
//! §7.3).
//!
//! A server's connection exists from the SYN on, in SYN-RECEIVED. The application reads the SYN's data, and
//! its answer leaves behind the SYN,ACK. The endpoint handles cookies, the client's cache and the bounds
//! (`endpoint/fast_open.rs`). RFC 7413 was read in excerpts; the section numbers are from them and from
//! memory.

use ackclock_wire::FastOpenCookie;

use super::ecn::negotiation::Offer;

/// The extra state of a connection opened this way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FastOpening {
    /// The SYN requests a cookie, or has one and data.
    /// `clean`: the first SYN was answered.
    Client { offer: FastOpenOffer, sent: u32, acked: u32, clean: bool },
    /// The SYN had a valid cookie. `tell`: the new cookie for the SYN,ACK.
    Server { tell: Option<FastOpenCookie>, ecn: Offer },
}

/// The client's cache entry for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FastOpenOffer {
    /// Its cookie, or the request for one.
    pub(crate) cookie: FastOpenCookie,
    /// The MSS that it announced last time.
    pub(crate) mss: u16,
}

/// The outcome of a client's attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastOpenOutcome {
    /// The SYN,ACK answers the first SYN: the bytes that it carried, and those of them that were accepted.
    Answered { sent: u32, acked: u32 },
    /// Only a SYN without the option was answered.
    FellBack,
}

/// The most data accepted before the handshake.
pub(super) const DATA_MAX: usize = 64 << 10;
