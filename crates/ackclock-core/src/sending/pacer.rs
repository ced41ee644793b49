//! Pacing: what leaves is spaced by a rate, the controller's, or that of a window spread over its round trip.
//!
//! A. Aggarwal, S. Savage and T. Anderson, "Understanding the Performance of TCP Pacing", INFOCOM 2000, on a
//! virtual schedule (the generic cell rate algorithm, ITU-T Recommendation I.371, Annex A): each byte takes
//! its time at the rate, and a sender that is a quantum ahead of the schedule waits until it is even with it.
//!
//! A quantum is two segments, so that a receiver that acknowledges every second one does not wait. If that is
//! more, it is what the rate makes of the timers' granularity (as configured, or as observed), because finer
//! spacing is impossible. A timer for the schedule is set earlier by that granularity, and may be later by
//! the same amount; what is sent ahead of the schedule meanwhile comes on top of the quantum. Otherwise each
//! wait would cost up to a granularity, a good part of a short round trip. A window whose round trip is no
//! longer than two granularities is not paced. Large segments are no larger than what one wait allows.
//!
//! Deviations from the paper: not every segment has a separate instant (see above). The first flight leaves
//! at once even if the handshake gave a round trip: since RFC 6928, ten segments are the burst that a path
//! must bear, and spreading them over half a round trip would delay each short answer by that much. A
//! controller with its own rate also paces the first flight. A late timer is made up for, up to 40 ms; a
//! sender without data or window gains nothing by it.

ackclock_form::form! {
    struct Pacer { even_at, remainder, rate, late_ns, is_owed }
    struct Pacing { pacer, due, granularity_ns }
}

#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::time::Duration;

use ackclock_control::time::nanos;

use super::{Chosen, whole_segments};
use crate::Instant;

/// A sender's position on its schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    /// When what was sent will have taken its time.
    even_at: Instant,
    /// The part that is not in `even_at`: bytes times 10⁹, less than a nanosecond's worth at the rate.
    remainder: u64,
    /// Bytes a second; 0 while nothing is paced.
    rate: u64,
    /// The recent lateness of its timer: the real granularity of the driver's timers.
    late_ns: u64,
    /// Data has waited for the rate since `even_at`, so the time since then is not lost.
    is_owed: bool,
}

impl Pacer {
    /// The most timer lateness that is made up for: the scheduling delays of a busy machine, and a small part
    /// of a window.
    const LATE_MAX_NS: u64 = 40_000_000;
    const SECOND_NS: u64 = 1_000_000_000;
    /// Bursts are far below this, and its product with a second in nanoseconds fits.
    pub(crate) const BYTES_MAX: u64 = 1 << 32;
    const RATE_MAX: u64 = 1 << 62;

    pub(crate) fn new(now: Instant) -> Self {
        Self { even_at: now, remainder: 0, rate: 0, late_ns: 0, is_owed: false }
    }

    /// Bytes that may leave now, if `quantum` may leave at one time.
    #[inline]
    pub(crate) fn allowance(&self, now: Instant, quantum: u64) -> u64 {
        let (now, even_at) = (now.as_nanos(), self.base(now));
        if even_at > now {
            quantum
                .saturating_sub(even_at.wrapping_sub(now).saturating_mul(self.rate).div_ceil(Self::SECOND_NS))
        } else {
            quantum.saturating_add(now.wrapping_sub(even_at).saturating_mul(self.rate) / Self::SECOND_NS)
        }
    }

    /// These bytes left.
    #[inline]
    pub(crate) fn charge(&mut self, now: Instant, bytes: u64) {
        let Some(rate) = NonZeroU64::new(self.rate) else { return };
        let work = bytes.min(Self::BYTES_MAX).saturating_mul(Self::SECOND_NS).saturating_add(self.remainder);
        self.remainder = work % rate;
        self.even_at = Instant::from_nanos(self.base(now).saturating_add(work / rate));
    }

    /// Its timer expired `late` after it was due. A quantum grows at once to what the rate makes of that, and
    /// shrinks by an eighth with each timer that is on time.
    fn on_timer(&mut self, late: Duration) {
        let late_ns = nanos(late).min(Self::LATE_MAX_NS);
        self.late_ns = late_ns.max(self.late_ns.saturating_sub(self.late_ns.div_ceil(8)));
    }

    /// An acknowledgement, or another event, arrived `late` after the timer was due and before it expired, so
    /// the timer is at least that late. A flow whose acknowledgements outrun its timers would otherwise never
    /// learn how late they are.
    fn on_event_before_timer(&mut self, late: Duration) {
        self.late_ns = self.late_ns.max(nanos(late).min(Self::LATE_MAX_NS));
    }

    /// Whether everything sent has taken its time.
    fn is_even(&self, now: Instant) -> bool {
        self.even_at <= now
    }

    /// When everything sent will have taken its time.
    pub(crate) fn even_at(&self) -> Instant {
        self.even_at
    }

    /// `even_at` in nanoseconds, without unused time.
    #[inline]
    fn base(&self, now: Instant) -> u64 {
        let credit = if self.is_owed { Self::LATE_MAX_NS } else { 0 };
        self.even_at.as_nanos().max(now.as_nanos().saturating_sub(credit))
    }

    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.rate = rate.min(Self::RATE_MAX);
        // Less than a nanosecond's worth at the new rate, too.
        self.remainder = self.remainder.min(self.rate);
    }
}

/// A connection's schedule, and when it releases the next data.
#[derive(Debug)]
pub(super) struct Pacing {
    /// Created when a rate first needs it.
    pacer: Option<Box<Pacer>>,
    /// When the rate releases data that the windows allow; the far future if none waits.
    due: Instant,
    /// How late timers may be, as configured.
    granularity_ns: u32,
}

impl Pacing {
    const UNSET: Instant = Instant::FAR_FUTURE;

    pub fn new(granularity_ns: u32) -> Self {
        Self { pacer: None, due: Self::UNSET, granularity_ns }
    }

    #[inline]
    pub fn two_granularities_ns(&self) -> u64 {
        2 * u64::from(self.granularity_ns)
    }

    #[inline]
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Whether data waits for the rate.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.due != Self::UNSET
    }

    /// Whether there is no schedule.
    #[cfg(test)]
    pub fn is_absent(&self) -> bool {
        self.pacer.is_none()
    }

    /// Whether unused time is still to be made up for; [`Self::note_nothing_to_send`] ends that.
    #[inline]
    pub fn is_owed(&self) -> bool {
        self.pacer.as_ref().is_some_and(|pacer| pacer.is_owed)
    }

    pub fn stop(&mut self) {
        self.due = Self::UNSET;
    }

    /// These bytes left.
    #[inline]
    pub fn charge(&mut self, now: Instant, bytes: u64) {
        if let Some(pacer) = &mut self.pacer {
            pacer.charge(now, bytes);
        }
    }

    /// The waiting data is due.
    pub fn on_timer(&mut self, now: Instant) {
        if let Some(pacer) = &mut self.pacer {
            pacer.on_timer(now.saturating_since(self.due));
        }
        self.due = Self::UNSET;
    }

    /// The windows, or the application, limit sending, unless the rate does.
    #[inline]
    pub fn note_nothing_to_send(&mut self) {
        if let Some(pacer) = &mut self.pacer
            && self.due == Self::UNSET
        {
            pacer.is_owed = false;
        }
    }

    /// The rate has changed fundamentally: settles what was sent at the old one.
    pub fn restart(&mut self, now: Instant) {
        if let Some(pacer) = &mut self.pacer {
            **pacer = Pacer::new(now);
        }
        self.due = Self::UNSET;
    }

    /// Nothing that was sent or waits counts any more.
    pub fn forget(&mut self) {
        self.pacer = None;
        self.due = Self::UNSET;
    }

    /// Frees a schedule that has nothing left to pace.
    pub fn release(&mut self, now: Instant) {
        if self.pacer.as_ref().is_some_and(|pacer| pacer.is_even(now)) {
            self.pacer = None;
        }
    }

    /// Once held, a sender waits for its timer, or each acknowledgement would release a segment.
    #[inline]
    pub fn is_held(&self, now: Instant) -> bool {
        self.is_waiting() && self.due > now
    }

    /// Stops pacing for now.
    #[inline]
    pub fn let_go(&mut self) {
        if let Some(pacer) = &mut self.pacer {
            pacer.rate = 0;
            self.due = Self::UNSET;
        }
    }

    pub fn pace_at(&mut self, now: Instant, rate: u64, smss: u64, chosen: Chosen) -> Option<Chosen> {
        if self.is_held(now) {
            return None;
        }
        let pacer = self.pacer.get_or_insert_with(|| Box::new(Pacer::new(now)));
        if self.due != Self::UNSET {
            pacer.on_event_before_timer(now.saturating_since(self.due));
            self.due = Self::UNSET;
        }
        pacer.set_rate(rate);
        let granularity_ns = pacer.late_ns.max(u64::from(self.granularity_ns));
        let per_granularity = rate.saturating_mul(granularity_ns) / Pacer::SECOND_NS;
        let quantum = per_granularity.max(smss.saturating_mul(2));
        let allowance = pacer.allowance(now, quantum.saturating_add(per_granularity));
        let wanted = chosen.end.since(chosen.start);
        if wanted <= allowance {
            return Some(chosen);
        }
        if allowance >= smss {
            return Some(Chosen { end: chosen.start + whole_segments(allowance, smss), ..chosen });
        }
        pacer.is_owed = true;
        self.due = Instant::from_nanos(pacer.even_at.as_nanos().saturating_sub(granularity_ns)).max(now);
        None
    }
}
