//! The send sequence space (RFC 9293 §3.3.1), split in two: the flight has SND.UNA and SND.NXT, the sender
//! has the rest.

use super::Connection;
use crate::position::Position;

impl Connection {
    /// The largest payload of one segment, minus all options of a data segment (RFC 5681's SMSS).
    #[inline]
    pub(super) fn smss(&self) -> u32 {
        self.flight.smss()
    }

    /// The same, computed from the negotiated options and the path.
    // RFC 9293 MUST-16: Eff.snd.MSS = min(SendMSS + 20, MMS_S) - TCPhdrsize - IPoptionsize.
    pub(super) fn effective_mss(&self) -> u32 {
        self.payload_max(if self.timestamps.is_some() { 12 } else { 0 })
    }

    /// The largest payload of a segment with `options_len` bytes of options.
    pub(super) fn payload_max(&self, options_len: u32) -> u32 {
        let ip_and_tcp = u32::from(self.template.transport_offset()) + 20;
        let fits = self.snd.pmtu.saturating_sub(ip_and_tcp).min(self.snd.peer_mss);
        fits.saturating_sub(options_len).saturating_sub(self.option_reserve()).max(1)
    }

    /// Bytes of options that a signature takes after the others.
    #[cfg(feature = "tcp-ao")]
    pub(super) fn option_reserve(&self) -> u32 {
        if self.cold.rest().is_some_and(|rest| rest.authenticated) { 16 } else { 0 }
    }

    /// Bytes of options that a signature takes: none.
    #[cfg(not(feature = "tcp-ao"))]
    #[inline]
    pub(super) fn option_reserve(&self) -> u32 {
        0
    }

    /// Bytes not sent yet.
    #[inline]
    pub(super) fn unsent(&self) -> u64 {
        self.snd.data_end().since(self.flight.nxt())
    }

    /// The right edge of the peer's window.
    #[inline]
    pub(super) fn right_edge(&self) -> Position {
        self.flight.una() + u64::from(self.snd.wnd)
    }

    /// Where a segment without text begins: at SND.NXT, unless that lies beyond the peer's window, because a
    /// probe is out or the window shrank.
    // RFC 9293 §3.4: a peer takes nothing beyond its window, so what such a segment acknowledges or resets
    // would be lost on it. A SYN is before any window.
    #[inline]
    pub(super) fn bare_start(&self) -> Position {
        self.flight.nxt().min(self.right_edge().max(self.snd.iss + 1))
    }

    /// Whether our FIN has been sent.
    #[inline]
    pub(super) fn fin_sent(&self) -> bool {
        self.snd.closed && self.flight.nxt() > self.snd.data_end()
    }

    /// Whether our FIN has been acknowledged.
    #[inline]
    pub(super) fn fin_acked(&self) -> bool {
        self.snd.closed && self.flight.una() > self.snd.data_end()
    }
}
