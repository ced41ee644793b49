//! Figures of a path that earlier connections between the same addresses have learned, for a new one to begin
//! with (RFC 9040); see `endpoint/path_cache.rs`.

use std::time::Duration;

use super::{Connection, lend};
use crate::Instant;
use crate::trace::Extension;

/// Figures of a path; `None` where nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The largest IP packet in bytes, if it is less than the device's MTU.
    pub pmtu: Option<u32>,
    /// SRTT and RTTVAR.
    pub rtt: Option<(Duration, Duration)>,
    /// Where slow start ends, in bytes.
    pub ssthresh: Option<u64>,
}

impl Connection {
    /// The connection is new: its SYN waits no longer than the path is known to take.
    pub(super) fn begin_with(&mut self, now: Instant, known: Option<Known>) {
        let Some(known) = known else { return };
        if let Some((srtt, rttvar)) = known.rtt {
            self.snd.expect_rtt(srtt, rttvar);
            let rto_us = self.snd.rtt().rto().as_micros();
            self.note_known(now, Extension::KnownRtt, u64::try_from(rto_us).unwrap_or(u64::MAX));
        }
        self.cold.need().known = Some(known);
    }

    /// The handshake is over. Our SYN told the peer what the device takes, which may be more than the path
    /// does the other way.
    pub(super) fn limit_to_known(&mut self, now: Instant, known: Option<Known>) {
        if let Some(mtu) = known.and_then(|known| known.pmtu).filter(|&mtu| mtu < self.snd.pmtu()) {
            self.snd.on_known_mtu(&mut lend!(self, now), mtu);
            self.note_known(now, Extension::KnownMtu, mtu.into());
        }
    }

    /// The controller has started.
    pub(super) fn slow_start_to_known(&mut self, now: Instant, known: Option<Known>) {
        let Some(known) = known else { return };
        self.snd.rest_search(&lend!(self, now));
        if let Some(bytes) = known.ssthresh
            && self.snd.limit_slow_start(&mut lend!(self, now), bytes)
        {
            self.note_known(now, Extension::KnownSsthresh, bytes);
        }
    }

    fn note_known(&mut self, now: Instant, what: Extension, value: u64) {
        self.trace.extension(now, what, value);
    }
}

ackclock_form::form! {
    struct Known { pmtu, rtt, ssthresh }
}
