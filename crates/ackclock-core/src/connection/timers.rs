//! The deadlines of a connection. An unset one lies in the far future, so that the next is a plain minimum.

use std::time::Duration;

use crate::Instant;

/// All deadlines but those of what is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    /// A probe of a window too small to send into is due (RFC 9293 §3.8.6.1). It excludes the retransmission timer.
    pub(crate) persist: Instant,
    /// An acknowledgement is owed by then (RFC 9293 §3.8.6.3).
    pub(crate) delayed_ack: Instant,
    /// A keep-alive probe, or the verdict, is due.
    pub(crate) keepalive: Instant,
    /// FIN-WAIT-2 of an orphan or TIME-WAIT ends. In ESTABLISHED and CLOSE-WAIT: the path's MTU is to be probed, or was.
    pub(crate) close: Instant,
    /// Corked data leaves at the latest.
    pub(crate) cork: Instant,
    /// Empty buffers give their memory back.
    pub(crate) buffers: Instant,
}

impl Timers {
    /// No deadline.
    pub(crate) const UNSET: Instant = Instant::FAR_FUTURE;

    pub(crate) fn new() -> Self {
        Self {
            persist: Self::UNSET,
            delayed_ack: Self::UNSET,
            keepalive: Self::UNSET,
            close: Self::UNSET,
            cork: Self::UNSET,
            buffers: Self::UNSET,
        }
    }

    /// The next deadline, `sending` being that of what is in flight.
    #[inline]
    pub(crate) fn next(&self, sending: Instant) -> Option<Instant> {
        let next = sending
            .min(self.persist)
            .min(self.delayed_ack)
            .min(self.keepalive)
            .min(self.close)
            .min(self.cork)
            .min(self.buffers);
        (next != Self::UNSET).then_some(next)
    }
}

/// R1 in retransmissions: from here on the application is told (RFC 9293 §3.8.3).
// RFC 9293 SHLD-10: at least 3.
pub(crate) const R1: u32 = 3;
/// R2 for data: the time a 200 ms timer takes to expire 16 times.
// RFC 9293 SHLD-11: at least 100 s.
pub(crate) const R2_DATA: Duration = Duration::from_millis(924_600);
/// R2 for a SYN.
// RFC 9293 MUST-23: at least 3 minutes.
pub(crate) const R2_SYN: Duration = Duration::from_secs(180);
/// The longest time between window probes.
pub(crate) const PERSIST_MAX: Duration = Duration::from_secs(60);
/// How long sender silly-window avoidance may hold data back (RFC 9293 §3.8.6.2.1: 0.1 to 1.0 s).
pub(crate) const OVERRIDE: Duration = Duration::from_millis(200);
/// How long an acknowledgement may be delayed.
// RFC 9293 MUST-40: less than 0.5 seconds.
pub(crate) const ACK_DELAY_MAX: Duration = Duration::from_millis(499);
/// How long a cork holds.
pub(crate) const CORK_MAX: Duration = Duration::from_millis(200);
/// How long empty buffers keep their memory.
pub(crate) const BUFFERS_KEPT: Duration = Duration::from_millis(500);
/// How long a writer waits before it tries again, when the memory budget had nothing for it.
pub(crate) const BUDGET_RETRY: Duration = Duration::from_millis(100);
/// The same, when connections that do not get on are to make room for it.
pub(crate) const PLEA_RETRY: Duration = Duration::from_millis(1);
