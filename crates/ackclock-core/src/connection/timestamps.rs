//! Timestamps (RFC 7323): the clock we send, the clock we echo, and PAWS.

use std::time::Duration;

use crate::Instant;
use crate::position::Position;
use crate::sending::{Echo, clock};

/// The state of the timestamps option on one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamps {
    offset: u32,
    /// TS.Recent.
    recent: u32,
    /// When TS.Recent was last updated; `None` before the first update.
    recent_at: Option<Instant>,
    /// Last.ACK.sent.
    last_ack_sent: Position,
}

impl Timestamps {
    /// RFC 7323 §5.5: after 24 days of idleness TS.Recent is invalid.
    const RECENT_LIFE: Duration = Duration::from_secs(24 * 86_400);

    /// `offset` is keyed by the connection, so that one reveals nothing about another (RFC 7323 §7.1).
    pub fn new(offset: u32, last_ack_sent: Position) -> Self {
        Self { offset, recent: 0, recent_at: None, last_ack_sent }
    }

    /// TSval: milliseconds since this connection's epoch (RFC 7323 §5.4: 1 ms to 1 s a tick).
    #[inline]
    pub fn value(&self, now: Instant) -> u32 {
        clock(now).wrapping_add(self.offset)
    }

    /// The offset of this connection's clock.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// TSecr.
    #[inline]
    pub fn echo(&self) -> u32 {
        self.recent
    }

    /// The meaning of a TSecr on this connection.
    #[inline]
    pub fn echoed(&self, echoed: u32) -> Echo {
        Echo::new(echoed, self.offset)
    }

    /// PAWS (RFC 7323 §5.3 R1): whether a segment with this TSval is an old duplicate.
    #[inline]
    pub fn is_old(&self, now: Instant, value: u32) -> bool {
        let Some(at) = self.recent_at else { return false };
        value.wrapping_sub(self.recent) & (1 << 31) != 0 && now.saturating_since(at) < Self::RECENT_LIFE
    }

    /// RFC 7323 §4.3 (2): an acceptable segment that begins at or before Last.ACK.sent sets TS.Recent.
    #[inline]
    pub fn update(&mut self, now: Instant, value: u32, start: Position) {
        if start <= self.last_ack_sent {
            self.set(now, value);
        }
    }

    /// A segment that acknowledged all before `ack` has left.
    #[inline]
    pub fn on_ack_sent(&mut self, ack: Position) {
        self.last_ack_sent = ack;
    }

    pub fn set(&mut self, now: Instant, value: u32) {
        self.recent = value;
        self.recent_at = Some(now);
    }
}

ackclock_form::form! {
    struct Timestamps { offset, recent, recent_at, last_ack_sent }
}

#[cfg(test)]
mod tests {
    use ackclock_wire::SeqNum;

    use super::*;

    /// RFC 7323 §5.3 R1 and §5.5: older than TS.Recent on the circle, unless that is 24 days old.
    #[test]
    fn timestamp_is_old_behind_the_last_and_for_twenty_four_days() {
        let next = Position::initial(SeqNum::new(1));
        let (now, nanosecond) = (Instant::from_millis(1000), Duration::from_nanos(1));
        let mut timestamps = Timestamps::new(0, next);
        assert!(!timestamps.is_old(now, 0), "nothing has been heard");
        timestamps.update(now, 5, next);
        timestamps.update(now, 9, next + 1);
        assert_eq!(timestamps.echo(), 5, "what begins beyond Last.ACK.sent does not count");
        for (value, old) in [(5, false), (6, false), (4, true), (5 + (1 << 31), true), (4 + (1 << 31), false)]
        {
            assert_eq!(timestamps.is_old(now, value), old, "{value}");
        }
        let expires = now + Duration::from_secs(24 * 86_400);
        assert!(timestamps.is_old(now + (Duration::from_secs(24 * 86_400) - nanosecond), 4));
        assert!(!timestamps.is_old(expires, 4));
    }
}
