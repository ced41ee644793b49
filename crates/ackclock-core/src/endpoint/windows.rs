//! Which receive windows open in a turn of the driver, and which in a later one.
//!
//! A device's queue is served in the order of arrival, so a lone request waits for everything that the
//! windows of other connections have let in before it. One window is bounded by what its application takes in
//! a round trip; a thousand of them are not bounded together. So in each turn windows open by a share of what
//! a turn handles, and the other connections wait their turn. What the peers hold back meanwhile would
//! otherwise wait in the device's queue.
//!
//! A window that waits to open does not shrink (RFC 9293 SHLD-14), and data is acknowledged meanwhile.

use super::Endpoint;
use super::schedule::IndexQueue;
use crate::Instant;

/// What may open in this turn, and what waits for the next.
#[derive(Debug, Default)]
pub(super) struct Openings {
    /// Bytes left in this turn; `None` before the first turn: everything opens.
    left: Option<u64>,
    /// The connection whose window opened first in this turn: if none waits, it may go on.
    first: Option<u32>,
    /// Those whose windows wait, each once.
    waiting: IndexQueue,
}

impl Openings {
    /// By how much the window of the connection at `index` may open now; `None` if nothing is bounded.
    #[inline]
    pub fn most(&self, index: u32) -> Option<u64> {
        let left = self.left?;
        let may = left > 0 || self.first.is_none_or(|first| first == index);
        Some(if may && self.waiting.is_empty() { u64::MAX } else { 0 })
    }

    /// A window opens by this number of bytes; `goes_on`: it waits to open further.
    #[inline]
    pub fn note(&mut self, index: u32, bytes: u64, goes_on: bool) {
        if bytes > 0 {
            self.first.get_or_insert(index);
            self.left = self.left.map(|left| left.saturating_sub(bytes));
        }
        if goes_on {
            self.waiting.push(index);
        }
    }
}

impl Endpoint {
    /// A turn of the driver: receive windows may open by `bytes` together until the next call, those that
    /// wait first, by at most 256 KiB each. If none waits, one may open as far as it can. Before the first
    /// call all may.
    pub fn open_windows(&mut self, now: Instant, bytes: u64) {
        self.advance(now);
        (self.openings.left, self.openings.first) = (Some(bytes), None);
        while self.openings.left != Some(0) || self.openings.first.is_none() {
            let Some(index) = self.openings.waiting.pop() else { break };
            let opened = self.change(index, |connection| connection.open_window(QUANTUM));
            if let Some((bytes, goes_on)) = opened {
                self.openings.note(index, bytes, goes_on);
            }
        }
    }

    /// Whether windows wait to open: the driver's next turn is due at once.
    #[must_use]
    #[inline]
    pub fn has_windows_to_open(&self) -> bool {
        !self.openings.waiting.is_empty()
    }
}

/// By how much a window that has waited opens at once: what keeps packets large and switches rare, and is
/// soon handled.
const QUANTUM: u64 = 256 << 10;
