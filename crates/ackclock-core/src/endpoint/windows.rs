//! Receive windows that open in turn.
//!
//! A device delivers packets in order of arrival, so a short request waits behind everything that other
//! connections were allowed to send. The tuning of each window does not help: a thousand narrow windows fill
//! the queue, too. The driver therefore calls [`Endpoint::open_windows`] once a turn with a number of bytes.
//! Windows open by that many bytes in total, and the other connections wait in line. Their peers hold the
//! data back meanwhile.
//!
//! A window that waits does not shrink (RFC 9293 SHLD-14), and its connection still acknowledges data.

use super::Endpoint;
use super::schedule::IndexQueue;
use crate::Instant;

/// How far windows may open in this turn, and the connections in line.
#[derive(Debug, Default)]
pub(super) struct Openings {
    /// Bytes left in this turn; `None` before the first turn, when nothing limits windows.
    left: Option<u64>,
    /// The first connection whose window opened in this turn. While no other waits, it has no limit.
    first: Option<u32>,
    waiting: IndexQueue,
}

impl Openings {
    /// By how much the window of the connection at `index` may open now; `None` if nothing limits windows.
    #[inline]
    pub fn most(&self, index: u32) -> Option<u64> {
        let left = self.left?;
        let may = left > 0 || self.first.is_none_or(|first| first == index);
        Some(if may && self.waiting.is_empty() { u64::MAX } else { 0 })
    }

    /// A window opens by `bytes`; with `wants_more` its connection gets in line.
    #[inline]
    pub fn note(&mut self, index: u32, bytes: u64, wants_more: bool) {
        if bytes > 0 {
            self.first.get_or_insert(index);
            self.left = self.left.map(|left| left.saturating_sub(bytes));
        }
        if wants_more {
            self.waiting.push(index);
        }
    }
}

impl Endpoint {
    /// Begins a turn of the driver: until the next call, receive windows open by `bytes` in total.
    /// Connections in line come first and open by at most 128 KiB each. If none is in line, the first
    /// connection may open its window without limit.
    ///
    /// Nothing limits windows before the first call. After it the driver calls this each turn; while a
    /// connection is in line, [`poll_timeout`](Self::poll_timeout) says that a turn is due.
    pub fn open_windows(&mut self, now: Instant, bytes: u64) {
        self.advance(now);
        (self.openings.left, self.openings.first) = (Some(bytes), None);
        while self.openings.left != Some(0) || self.openings.first.is_none() {
            let Some(index) = self.openings.waiting.pop() else { break };
            let opened = self.change(index, |connection| connection.open_window(QUANTUM));
            if let Some((bytes, wants_more)) = opened {
                self.openings.note(index, bytes, wants_more);
            }
        }
        self.check_invariants();
    }

    /// Whether a connection is in line to open its window.
    #[must_use]
    #[inline]
    pub fn has_windows_to_open(&self) -> bool {
        !self.openings.waiting.is_empty()
    }
}

/// The most by which a window in line opens at once: two packets of 64 KB. With four, an echo beside a
/// hundred senders waits several times as long (`over-tun --together --flows 100 --echo-beside`).
const QUANTUM: u64 = 128 << 10;

ackclock_form::form! {
    struct Openings { left, first, waiting }
}
