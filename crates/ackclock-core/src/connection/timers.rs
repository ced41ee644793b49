//! The deadlines of a connection. An unset one is in the far future, so the next deadline is a plain minimum.

use std::time::Duration;

use crate::Instant;

/// All deadlines except those of what is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    /// A probe of a window too small to send into is due (RFC 9293 §3.8.6.1). It excludes the retransmission
    /// timer.
    pub(crate) persist: Instant,
    /// When a delayed acknowledgement must leave (RFC 9293 §3.8.6.3).
    pub(crate) delayed_ack: Instant,
    /// When a keep-alive probe, or giving up, is due.
    pub(crate) keepalive: Instant,
    /// The end of an orphan's FIN-WAIT-2, or of TIME-WAIT. In ESTABLISHED and CLOSE-WAIT: a probe of the
    /// path's MTU is due or in flight.
    pub(crate) close: Instant,
    /// The latest time for corked data to leave.
    pub(crate) cork: Instant,
    /// When empty buffers free their memory.
    pub(crate) buffers: Instant,
    /// When a writer that waits for the memory budget looks at it again.
    pub(crate) memory: Instant,
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
            memory: Self::UNSET,
        }
    }

    /// The next deadline. `sending` is that of what is in flight.
    #[inline]
    pub(crate) fn next(&self, sending: Instant) -> Option<Instant> {
        let next = sending
            .min(self.persist)
            .min(self.delayed_ack)
            .min(self.keepalive)
            .min(self.close)
            .min(self.cork)
            .min(self.buffers)
            .min(self.memory);
        (next != Self::UNSET).then_some(next)
    }
}

/// R1 in retransmissions: from here on the application is notified (RFC 9293 §3.8.3).
// RFC 9293 SHLD-10: at least 3.
pub(crate) const R1: u32 = 3;
/// R2 for data: the time in which a 200 ms timer expires 16 times.
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
