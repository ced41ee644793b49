//! Memory that a connection holds without progress: a peer that takes nothing, an application that does not
//! read, bytes that wait for a gap to be filled.
//!
//! RFC 9293 MUST-37: a connection stays open as long as its peer answers window probes, so no timer ends one.
//! But when the budget is spent and a connection that makes progress is refused memory, those without
//! progress for at least [`PINNED_MIN`] are reset, the longest first (CVE-2008-4609).

use std::time::Duration;

use super::Connection;
use super::sender::Awaited;
use crate::{ConnectionError, Instant};

/// A connection that has held memory for less time than this is never reset for it: longer than an honest
/// path stalls for two losses of the same segment.
const PINNED_MIN: Duration = Duration::from_secs(5);
/// How soon a writer that makes progress looks again after its first plea: connections without progress are
/// expected to make room for it at once.
const PLEA_RETRY: Duration = Duration::from_millis(1);
/// How soon it looks again after that: memory comes from connections that end.
const PLEA_AGAIN: Duration = Duration::from_millis(10);
/// How often any other writer looks at the budget.
const MEMORY_RETRY: Duration = Duration::from_millis(100);

impl Connection {
    /// Since when it has held memory without progress, if that is long enough for a reset.
    pub(crate) fn pinned_since(&self, now: Instant) -> Option<Instant> {
        let untaken = self.flight.waiting_since().filter(|_| self.snd.held() > 0);
        let since = untaken.into_iter().chain(self.rcv.holds_since()).min()?;
        (now.saturating_since(since) >= PINNED_MIN).then_some(since)
    }

    /// Whether the budget has room for another byte of the send buffer. No acknowledgement announces such
    /// room.
    pub(super) fn has_memory_to_write(&self) -> bool {
        self.snd.takes_more(self.flight.bytes_kept())
    }

    /// A writer waits for the memory budget: the connection looks at it again soon.
    pub(super) fn await_memory(&mut self, now: Instant) {
        let retry = if self.plead(now) { PLEA_RETRY } else { MEMORY_RETRY };
        self.cold.retry_memory(now + retry);
    }

    /// No writer waits for the memory budget.
    #[inline]
    pub(super) fn stop_awaiting_memory(&mut self) {
        self.cold.stop_retrying_memory();
    }

    /// Whether a writer waits for the memory budget.
    pub(super) fn awaits_memory(&self) -> bool {
        self.cold.memory_retry().is_set()
    }

    /// A writer that the memory budget refused learns of room, or waits on.
    pub(super) fn on_memory_timeout(&mut self, now: Instant) {
        self.stop_awaiting_memory();
        if !self.snd.awaited.has(Awaited::ROOM) {
            return;
        }
        if self.has_memory_to_write() {
            self.wake_writer();
        } else {
            let retry = if self.plead(now) { PLEA_AGAIN } else { MEMORY_RETRY };
            self.cold.retry_memory(now + retry);
        }
    }

    /// The budget refused this connection. If it makes progress, it pleads for room. Returns whether it did.
    fn plead(&self, now: Instant) -> bool {
        let gets_on = self.pinned_since(now).is_none();
        if gets_on {
            self.snd.budget().plead();
        }
        gets_on
    }

    /// Text was dropped for lack of memory, or of room in the list of ranges.
    #[cold]
    pub(super) fn on_text_refused(&mut self, now: Instant) {
        if self.rcv.narrow_if_refused() {
            self.plead(now);
        }
    }

    /// Resets this connection in favour of those that make progress: buffered data in both directions is
    /// lost, as in an abort.
    pub(crate) fn give_way(&mut self, now: Instant) {
        self.rcv.clear();
        self.reset(now, ConnectionError::OutOfMemory);
    }
}
