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

use std::sync::Arc;

use ackclock_control::tally::Tally;
use ackclock_wire::{FastOpenCookie, options_len};

use super::ecn::negotiation::Offer;
use super::header::Segment;
use super::open::{Environment, Handshake};
use super::{Connection, State, lend};
use crate::position::Position;
use crate::trace::{Entry, Extension};
use crate::{FourTuple, Instant, Limits, TcpConfig};

/// The extra state of a connection opened this way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FastOpening {
    /// The SYN requests a cookie, or has one and data.
    Client { offer: FastOpenOffer, sent: u32, acked: u32 },
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

impl Connection {
    /// An active OPEN with data for the SYN. The send buffer takes as much as fits; returns how much. Without
    /// an `offer`, all of it follows the handshake.
    pub(crate) fn active_with_data(
        now: Instant,
        tuple: FourTuple,
        tcp: Arc<TcpConfig>,
        env: &Environment,
        offer: Option<FastOpenOffer>,
        data: &[u8],
    ) -> (Self, usize) {
        let mut connection = Self::active(now, tuple, tcp, env);
        let taken = connection.snd.append(data, connection.snd.buffer_max.min(DATA_MAX));
        if let Some(offer) = offer {
            let opening = FastOpening::Client { offer, sent: 0, acked: 0 };
            connection.cold.need_rest().fast_open = Some(opening);
        }
        (connection, taken)
    }

    /// A passive OPEN by a SYN with a valid cookie: in SYN-RECEIVED, with the SYN's text readable.
    pub(crate) fn passive_with_data(
        now: Instant,
        tuple: FourTuple,
        tcp: Arc<TcpConfig>,
        env: &Environment,
        handshake: Handshake,
        opening: (Option<FastOpenCookie>, Offer),
        text: &[u8],
    ) -> Self {
        let mut connection = Self::agreed(now, tuple, tcp, env, handshake);
        let (tell, ecn) = opening;
        connection.cold.need_rest().fast_open = Some(FastOpening::Server { tell, ecn });
        connection.enter(now, State::SynReceived);
        connection.pending.syn = true;
        // Congestion control also covers data sent before the handshake ends.
        let (sack, smss) = (connection.sack, connection.effective_mss());
        connection.flight.establish(lend!(connection, now), sack, smss, true);
        connection.take_text_of_syn(now, text);
        connection
    }

    /// Takes as much text from a SYN as one segment may have and the window accepts.
    fn take_text_of_syn(&mut self, now: Instant, text: &[u8]) {
        let taken = self.rcv.take_text_of_syn(text);
        self.counts.bytes_received.grow(taken);
        self.readiness.readable = taken > 0;
        self.readiness.writable = true;
        self.trace_extension(now, Extension::FastOpenTaken, taken);
    }

    /// Whether this end accepted a SYN with data and the handshake is not over.
    pub(super) fn serves_fast_open(&self) -> bool {
        self.state == State::SynReceived && matches!(self.opening(), Some(FastOpening::Server { .. }))
    }

    /// Whether the connection is over, and such a handshake never was.
    pub(crate) fn ended_in_fast_open(&self) -> bool {
        let serves = matches!(self.opening(), Some(FastOpening::Server { .. }));
        self.state == State::Closed && !self.established && serves
    }

    /// What a server sends between its SYN,ACK and its acknowledgement.
    #[inline(never)]
    pub(super) fn segment_before_handshake_ends(&mut self, now: Instant, limits: Limits) -> Option<Segment> {
        if !self.serves_fast_open() {
            return None;
        }
        let chosen = self.choose_data(now, limits)?;
        Some(self.data_segment(now, chosen))
    }

    /// The ECN flags of the SYN,ACK.
    pub(super) fn fast_open_ecn(&self) -> Offer {
        match self.opening() {
            Some(FastOpening::Server { ecn, .. }) => ecn,
            _ => Offer::None,
        }
    }

    /// The option of our first SYN or SYN,ACK.
    pub(super) fn fast_open_option(&self) -> Option<FastOpenCookie> {
        // There is no room for it beside a signature.
        if self.flight.timeouts_in_a_row() > 0 || self.option_reserve() > 0 {
            return None;
        }
        match self.opening()? {
            FastOpening::Client { offer, .. } => Some(offer.cookie),
            FastOpening::Server { tell, .. } => tell,
        }
    }

    /// How much data fits on a SYN that carries a cookie, after its options.
    pub(super) fn data_of_syn(&mut self, now: Instant) -> usize {
        let has_cookie = self.state == State::SynSent
            && self.fast_open_option().is_some_and(|cookie| !cookie.is_request());
        if !has_cookie {
            return 0;
        }
        let ip_and_tcp = usize::from(self.template.transport_offset()) + 20;
        let fits = (self.snd.pmtu as usize).saturating_sub(ip_and_tcp);
        let (queued, options_len) = (self.snd.queued(), options_len(&self.syn_options(now)));
        let Some(FastOpening::Client { offer, sent, .. }) = self.opening_mut() else { return 0 };
        let most = fits.min(usize::from(offer.mss)).saturating_sub(options_len);
        let len = queued.min(most);
        *sent = u32::try_from(len).unwrap_or(u32::MAX);
        self.counts.bytes_sent.grow(len as u64);
        self.trace_extension(now, Extension::FastOpenSent, len as u64);
        len
    }

    /// Data that a SYN,ACK may acknowledge.
    pub(super) fn sent_with_syn(&self) -> u64 {
        match self.opening() {
            Some(FastOpening::Client { sent, .. }) => u64::from(sent),
            _ => 0,
        }
    }

    /// The SYN,ACK acknowledges up to `ack`, possibly including data of the SYN. The rest is sent again.
    pub(super) fn take_ack_of_syn(&mut self, now: Instant, ack: Position) {
        let bytes = ack.since(self.snd.iss + 1);
        if let Some(FastOpening::Client { acked, .. }) = self.opening_mut() {
            *acked = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.snd.acknowledge(ack);
            self.counts.bytes_acked.grow(bytes);
            if bytes > 0 {
                self.note_feedback(true);
            }
            self.trace_extension(now, Extension::FastOpenAcked, bytes);
        }
    }

    /// After the handshake: its outcome for a client, returned once.
    pub(crate) fn take_fast_open_outcome(&mut self) -> Option<FastOpenOutcome> {
        let established = self.established;
        let rest = self.cold.rest_mut().filter(|_| established)?;
        let FastOpening::Client { sent, acked, .. } = rest.fast_open? else { return None };
        rest.fast_open = None;
        let clean = rest.fast_open_clean;
        Some(if clean { FastOpenOutcome::Answered { sent, acked } } else { FastOpenOutcome::FellBack })
    }

    /// The handshake is over. `clean`: its first SYN, or SYN,ACK, was answered.
    pub(super) fn end_fast_open(&mut self, clean: bool) {
        let Some(rest) = self.cold.rest_mut().filter(|rest| rest.fast_open.is_some()) else {
            return;
        };
        rest.fast_open_clean = clean;
        if matches!(rest.fast_open, Some(FastOpening::Server { .. })) {
            rest.fast_open = None;
            if !clean {
                // RFC 9768 §3.1.5: the flags of ECN may have been given up meanwhile.
                self.ecn = None;
            }
        }
    }

    fn opening(&self) -> Option<FastOpening> {
        self.cold.rest()?.fast_open
    }

    fn opening_mut(&mut self) -> Option<&mut FastOpening> {
        self.cold.rest_mut()?.fast_open.as_mut()
    }

    pub(crate) fn trace_extension(&mut self, now: Instant, what: Extension, value: u64) {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        self.trace.note(now, Entry::Extension { what, value });
    }
}

/// The most data accepted before the handshake.
const DATA_MAX: usize = 64 << 10;
