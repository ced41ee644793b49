//! Memory that a connection holds without progress: a peer that takes nothing, an application that does not
//! read, bytes that wait for a gap to be filled.
//!
//! RFC 9293 MUST-37: a connection stays open as long as its peer answers window probes, so no timer ends one.
//! But when the budget is spent and a connection that makes progress is refused memory, those without
//! progress for at least [`PINNED_MIN`] are reset, the longest first (CVE-2008-4609).

use std::time::Duration;

use super::Connection;
use super::timers::PLEA_RETRY;
use crate::{ConnectionError, Instant};

/// A connection that has held memory for less time than this is never reset for it: longer than an honest
/// path stalls for two losses of the same segment.
const PINNED_MIN: Duration = Duration::from_secs(5);

impl Connection {
    /// Since when it has held memory without progress, if that is long enough for a reset.
    pub(crate) fn pinned_since(&self, now: Instant) -> Option<Instant> {
        let untaken = self.flight.waiting_since().filter(|_| self.snd.held() > 0);
        let buffer = &self.rcv.buffer;
        let unread = (buffer.readable() > 0 || buffer.has_gap()).then_some(self.rcv.waits_since);
        let since = untaken.into_iter().chain(unread).min()?;
        (now.saturating_since(since) >= PINNED_MIN).then_some(since)
    }

    /// The budget refused this connection. If it makes progress, it pleads for room. Returns whether it did.
    pub(super) fn plead(&mut self, now: Instant) -> bool {
        let gets_on = self.pinned_since(now).is_none();
        if gets_on {
            self.snd.budget().plead();
        }
        gets_on
    }

    /// Text was dropped for lack of memory, or of room in the list of ranges.
    #[cold]
    pub(super) fn on_text_refused(&mut self, now: Instant) {
        if self.rcv.buffer.can_grow() {
            return;
        }
        self.rcv.narrow();
        if self.plead(now) {
            self.timers.buffers = self.timers.buffers.min(now + PLEA_RETRY);
        }
    }

    /// Resets this connection in favour of those that make progress: buffered data in both directions is
    /// lost, as in an abort.
    pub(crate) fn give_way(&mut self, now: Instant) {
        self.rcv.buffer.clear();
        self.reset(now, ConnectionError::OutOfMemory);
    }
}
