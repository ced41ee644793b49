//! Fast Open in a connection (RFC 7413): data in the SYN, and data after a SYN,ACK that is not acknowledged
//! yet.
//!
//! A client puts its cookie and its first data only on the first SYN. The application never loses data by
//! this. Data that the SYN,ACK does not acknowledge is sent again as ordinary data. A retransmitted SYN
//! carries neither data nor the option, because a middlebox may have dropped the first for either (RFC 7413
//! §4.2.1, §4.2.2).
//!
//! A server's connection exists from the SYN on, in SYN-RECEIVED. The application reads the SYN's data, and
//! its answer leaves behind the SYN,ACK. The endpoint handles cookies, the client's cache and the bounds
//! (`endpoint/fast_open.rs`).

use ackclock_wire::FastOpenCookie;

use super::cold::Cold;
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
    pub cookie: FastOpenCookie,
    /// The MSS that it announced last time.
    pub mss: u16,
}

/// The outcome of a client's attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastOpenOutcome {
    /// The SYN,ACK answers the first SYN: the bytes that it carried, and those of them that were accepted.
    Answered { sent: u32, acked: u32 },
    /// Only a SYN without the option was answered.
    FellBack,
}

impl FastOpening {
    /// The option of our first SYN or SYN,ACK.
    pub fn cookie(&self) -> Option<FastOpenCookie> {
        match self {
            Self::Client { offer, .. } => Some(offer.cookie),
            Self::Server { tell, .. } => *tell,
        }
    }
}

// The handshake with data in its SYN, if there is one.
impl Cold {
    #[inline]
    pub(super) fn fast_open(&mut self) -> Option<&mut FastOpening> {
        self.parts_mut()?.fast_open.as_mut()
    }

    /// Whether this end accepted a SYN with data and the handshake is not over.
    pub(super) fn serves_fast_open(&self) -> bool {
        self.served().is_some()
    }

    /// The ECN flags of the SYN that this end accepted with its data.
    pub(super) fn served(&self) -> Option<Offer> {
        match self.parts()?.fast_open {
            Some(FastOpening::Server { ecn, .. }) => Some(ecn),
            _ => None,
        }
    }

    /// Data that a SYN,ACK may acknowledge.
    pub(super) fn sent_with_syn(&self) -> u64 {
        match self.parts().and_then(|parts| parts.fast_open) {
            Some(FastOpening::Client { sent, .. }) => u64::from(sent),
            _ => 0,
        }
    }

    /// The handshake is over. `clean`: its first SYN, or SYN,ACK, was answered. Returns whether a server's
    /// was not.
    pub(super) fn end_fast_open(&mut self, clean: bool) -> bool {
        match self.fast_open() {
            Some(FastOpening::Client { clean: answered, .. }) => {
                *answered = clean;
                false
            }
            Some(FastOpening::Server { .. }) => {
                self.need().fast_open = None;
                !clean
            }
            None => false,
        }
    }
}

/// The most data accepted before the handshake.
pub(super) const DATA_MAX: usize = 64 << 10;

ackclock_form::form! {
    enum FastOpening { 0 Client { offer, sent, acked, clean }, 1 Server { tell, ecn } }
    struct FastOpenOffer { cookie, mss }
}
