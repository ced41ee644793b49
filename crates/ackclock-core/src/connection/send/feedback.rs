//! Delivery feedback for an application that asks: how much is acknowledged and since when, and how much may
//! wait unsent.
//!
//! A connection whose application does not ask pays nothing for it on the fast paths:
//! [`Awaited`](super::write::Awaited) is in a byte that an acknowledgement reads anyway.

use ackclock_control::tally::Tally;

use crate::Instant;

/// The application's requests, and the answers so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Feedback {
    /// The most bytes that may wait to be sent for the first time.
    lowat: Option<u32>,
    /// Acknowledgements that delivered something since the application first asked.
    changes: u64,
    /// When the last acknowledgement that advanced SND.UNA arrived.
    acked_at: Option<Instant>,
    /// Wake the application once this many bytes are acknowledged.
    tell_at: Option<u64>,
    /// Wake the application at the next change.
    tell_next: bool,
}

impl Feedback {
    /// How many bytes are acknowledged, and since when, if they are at least `upto`. Otherwise an
    /// acknowledgement will tell. `heard_at` stands in for a time that was not noted.
    pub fn await_delivered(&mut self, upto: u64, acked: u64, heard_at: Instant) -> Option<(u64, Instant)> {
        if acked >= upto {
            return Some((acked, *self.acked_at.get_or_insert(heard_at)));
        }
        self.tell_at = Some(self.tell_at.map_or(upto, |other| other.min(upto)));
        None
    }

    /// The number of changes, if it differs from `seen`. Otherwise the next one will tell.
    pub fn await_change(&mut self, seen: u64) -> Option<u64> {
        self.tell_next |= self.changes == seen;
        (self.changes != seen).then_some(self.changes)
    }

    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// An acknowledgement delivered something, `acked` bytes in all. Returns whether the application wants to
    /// know.
    pub fn on_ack(&mut self, now: Instant, acked: u64, advanced: bool) -> bool {
        self.changes.count();
        if advanced {
            self.acked_at = Some(now);
        }
        let reached = self.tell_at.take_if(|upto| *upto <= acked).is_some();
        std::mem::take(&mut self.tell_next) || reached
    }

    /// Nothing more will be written. Returns whether the application waits for more to be acknowledged.
    pub fn end(&mut self) -> bool {
        self.tell_at.take().is_some()
    }

    pub fn lowat(&self) -> Option<u32> {
        self.lowat
    }

    pub fn set_lowat(&mut self, lowat: Option<u32>) {
        self.lowat = lowat;
    }
}

ackclock_form::form! {
    struct Feedback { lowat, changes, acked_at, tell_at, tell_next }
}
