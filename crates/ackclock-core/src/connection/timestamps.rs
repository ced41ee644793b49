//! Timestamps (RFC 7323): the clock we send, the clock we echo, and PAWS.

use std::time::Duration;

use crate::Instant;
use crate::position::Position;

/// The state of the timestamps option on one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamps {
    offset: u32,
    /// TS.Recent.
    recent: u32,
    /// When TS.Recent was last updated; `None`: it holds nothing yet.
    recent_at: Option<Instant>,
    /// Last.ACK.sent.
    pub(crate) last_ack_sent: Position,
}

impl Timestamps {
    /// RFC 7323 §5.5: after 24 days of idleness TS.Recent says nothing.
    const RECENT_LIFE: Duration = Duration::from_secs(24 * 86_400);

    /// `offset` is keyed by the connection, so that one does not tell of another (RFC 7323 §7.1).
    pub(crate) fn new(offset: u32, last_ack_sent: Position) -> Self {
        Self { offset, recent: 0, recent_at: None, last_ack_sent }
    }

    /// TSval: milliseconds since an epoch of this connection's own (RFC 7323 §5.4: 1 ms to 1 s a tick).
    #[inline]
    pub(crate) fn value(&self, now: Instant) -> u32 {
        clock(now).wrapping_add(self.offset)
    }

    /// The offset of this connection's clock.
    pub(crate) fn offset(&self) -> u32 {
        self.offset
    }

    /// TSecr.
    #[inline]
    pub(crate) fn echo(&self) -> u32 {
        self.recent
    }

    /// How long ago, at least and at most, we sent a segment with this TSval: the clock has ticked once between the two.
    /// `None` for a value that we cannot have sent within the last half hour.
    pub(crate) fn age(&self, now: Instant, echoed: u32) -> Option<(Duration, Duration)> {
        let ticks = self.value(now).wrapping_sub(echoed);
        let since_tick = Duration::from_nanos(now.as_nanos() % NANOS_PER_TICK);
        let most = Duration::from_millis(u64::from(ticks)) + since_tick;
        let least = most.saturating_sub(Duration::from_nanos(NANOS_PER_TICK));
        (echoed != 0 && ticks < 1_800_000).then_some((least, most))
    }

    /// PAWS (RFC 7323 §5.3 R1): whether a segment with this TSval is an old duplicate.
    #[inline]
    pub(crate) fn is_old(&self, now: Instant, value: u32) -> bool {
        let Some(at) = self.recent_at else { return false };
        value.wrapping_sub(self.recent) & (1 << 31) != 0 && now.saturating_since(at) < Self::RECENT_LIFE
    }

    /// RFC 7323 §4.3 (2): an acceptable segment that begins at or before Last.ACK.sent sets TS.Recent.
    #[inline]
    pub(crate) fn update(&mut self, now: Instant, value: u32, start: Position) {
        if start <= self.last_ack_sent {
            self.set(now, value);
        }
    }

    pub(crate) fn set(&mut self, now: Instant, value: u32) {
        self.recent = value;
        self.recent_at = Some(now);
    }
}

const NANOS_PER_TICK: u64 = 1_000_000;

/// The millisecond clock behind all TSvals, before the offset.
#[expect(clippy::cast_possible_truncation, reason = "the clock wraps")]
pub(crate) fn clock(now: Instant) -> u32 {
    now.as_millis() as u32
}
