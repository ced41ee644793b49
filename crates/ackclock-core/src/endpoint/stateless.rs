//! Handshakes by cookie: the SYN-ACK that carries one, and the ACK that returns it.

use ackclock_control::profile::Ecn;
use ackclock_control::tally::Tally;
use ackclock_wire::{Codepoint, Flags};

use super::Endpoint;
use super::cookies::{CookieExtras, CookieOptions, cookie_timestamp};
use super::input::Arrival;
use super::listener::Listener;
use super::passive::syn_ack;
use super::syn_queue::PeerSyn;
use crate::connection::{Agreement, Handshake, Offer, default_mss, timestamp_clock, window_scale_for};
use crate::{FourTuple, Instant, ListenerId};

impl Endpoint {
    /// Answers a SYN for which there is no room.
    pub(super) fn send_cookie(&mut self, now: Instant, id: ListenerId, tuple: &FourTuple, peer: &PeerSyn) {
        let Some(listener) = self.listeners.get(id) else { return };
        let ecn = peer.ecn != Offer::None;
        let extras = CookieExtras { window_scale: peer.window_scale, sack: peer.sack, ecn };
        let options = CookieOptions {
            mss: peer.mss.unwrap_or_else(|| default_mss(tuple)),
            with_timestamps: peer.timestamps.map(|_| extras),
        };
        let iss = self.cookies.issue(self.driver_time(now), tuple, peer.irs, options);
        // What cannot be remembered must not be agreed on.
        let without = PeerSyn { window_scale: None, sack: false, ecn: Offer::None, ..*peer };
        let answered = if peer.timestamps.is_some() { peer } else { &without };
        let mut fields = syn_ack(tuple, iss, answered, &listener.tcp, self.mtu_to(tuple.remote_addr));
        fields.flags = fields.flags | answered.ecn.answer(0);
        fields.options.timestamps = peer.timestamps.map(|recent| {
            let clock = timestamp_clock(now).wrapping_add(self.isn.timestamp_offset(tuple));
            (cookie_timestamp(clock, extras), recent)
        });
        let ttl = listener.tcp.ttl;
        self.counters.cookies_sent.count();
        if let Some(directory) = self.directory() {
            directory.cookies.sent(self.driver_time(now));
        }
        self.reply(tuple, ttl, fields);
    }

    /// Whether the ACK carries a cookie. If so, the connection is open, unless there is no room for it.
    pub(super) fn take_cookie(&mut self, now: Instant, id: ListenerId, arrival: &Arrival<'_>) -> bool {
        let Arrival { tuple, segment, .. } = arrival;
        let plain = !segment.flags.contains(Flags::SYN);
        // The SYN may have come to another endpoint of this host, whose queue was full.
        let elsewhere =
            self.directory().is_some_and(|directory| directory.cookies.is_out(self.driver_time(now)));
        let may_be = |listener: &&Listener| plain && (elsewhere || listener.recently_overflowed(now));
        let Some(listener) = self.listeners.get(id).filter(may_be) else { return false };
        let echo =
            segment.options.timestamps.map(|(_, echo)| echo).filter(|_| listener.tcp.choices.timestamps);
        let (irs, iss) = (segment.seq - 1, segment.ack - 1);
        let Some(cookie) = self.cookies.check(self.driver_time(now), tuple, irs, iss, echo) else {
            self.counters.cookies_refused.count();
            return false;
        };
        let extras = cookie.with_timestamps;
        let peers_scale = extras.and_then(|extras| extras.window_scale);
        let handshake = Handshake {
            irs,
            peer_mss: cookie.mss,
            window_scale: peers_scale.map(|peers| (peers, window_scale_for(listener.tcp.receive_buffer_max))),
            sack: extras.is_some_and(|extras| extras.sack),
            timestamps: extras.and(segment.options.timestamps).map(|(value, _)| value),
            rtt: None,
            // A cookie does not record this. The client gets the first window of a clean handshake, as
            // without cookies.
            repetitions: 0,
            peer_window: segment.window,
            ecn: extras
                .filter(|extras| extras.ecn)
                .and_then(|_| ecn_of_cookie(listener.tcp.choices.ecn, segment.flags)),
            experiment: None,
        };
        if self.may_establish(id) {
            self.counters.cookies_accepted.count();
            self.establish(now, id, iss, handshake, arrival, None);
        }
        true
    }
}

/// The agreement on ECN of a cookie that says there was one.
// RFC 9768 §3.2.2.1: the acknowledgement of a SYN-ACK that agreed on Accurate ECN never has an ACE field of
// zero, and one that agreed on classic ECN always.
fn ecn_of_cookie(wanted: Ecn, flags: Flags) -> Option<Agreement> {
    let offer = match (wanted, flags.ace()) {
        (Ecn::Off, _) => Offer::None,
        (Ecn::Accurate, ace) if ace != 0 => Offer::Accurate(Codepoint::NotEct),
        _ => Offer::Classic,
    };
    offer.agreement(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 9768 §3.2.2.1
    #[test]
    fn a_cookie_agreed_on_the_form_of_ecn_that_its_acknowledgement_shows() {
        let (none, some) = (Flags::ACK, Flags::ACK | Flags::from_ace(0b010));
        let accurate = Offer::Accurate(Codepoint::NotEct).agreement(0);
        let classic = Offer::Classic.agreement(0);
        for (wanted, flags, expected) in [
            (Ecn::Off, none, None),
            (Ecn::Off, some, None),
            (Ecn::Classic, none, classic),
            (Ecn::Classic, some, classic),
            (Ecn::Accurate, none, classic),
            (Ecn::Accurate, some, accurate),
        ] {
            let found = ecn_of_cookie(wanted, flags);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{wanted:?} {flags:?}");
        }
    }
}
