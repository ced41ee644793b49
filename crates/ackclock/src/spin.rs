//! Decides whether to poll the device or to sleep.
//!
//! Polling saves the time to wake a processor, if one is free. Otherwise, or if packets are rare, polling
//! only takes time from other tasks that would send, and a thread that has used up its share then waits for
//! milliseconds. So the driver tries polling, and backs off further and further while it finds nothing. If
//! another task has had the processor meanwhile, polling pauses for a hundred times as long.

use std::time::Duration;

use ackclock_core::Instant;

/// When the driver polls.
#[derive(Debug)]
pub(crate) struct Spin {
    /// How long it polls before it sleeps; zero: never.
    time: Duration,
    /// The end of the present polling.
    until: Option<Instant>,
    looked_at: Instant,
    /// Not before this, because it lost the processor.
    rests_until: Instant,
    /// How often to sleep at once, now and after the next failure.
    skips: u32,
    skips_next: u32,
}

impl Spin {
    pub fn new(time: Duration) -> Self {
        Self {
            time,
            until: None,
            looked_at: Instant::ZERO,
            rests_until: Instant::ZERO,
            skips: 0,
            skips_next: 1,
        }
    }

    /// Whether the driver ever polls. If not, callers need not read the clock.
    pub fn is_wanted(&self) -> bool {
        !self.time.is_zero()
    }

    /// There is nothing to do: whether to poll the device now rather than sleep.
    pub fn begins(&mut self, now: Instant) -> bool {
        if self.until.is_some() && self.has_lost_processor(now) {
            return false;
        }
        let goes_on = match self.until {
            Some(until) if now < until => true,
            Some(_) => {
                self.until = None;
                self.skips = self.skips_next;
                self.skips_next = (self.skips_next * 2).min(SKIPS_MAX);
                false
            }
            None if now < self.rests_until => false,
            None if self.skips > 0 => {
                self.skips -= 1;
                false
            }
            None => {
                self.until = Some(now + self.time);
                true
            }
        };
        self.looked_at = now;
        goes_on
    }

    /// The driver found work. If it had not slept before, polling was worth it.
    pub fn found_work(&mut self, now: Instant) {
        if self.until.is_some() && !self.has_lost_processor(now) {
            self.until = None;
            self.skips_next = 1;
        }
    }

    /// Whether another task of this runtime, or another program, has had the processor since the last look.
    fn has_lost_processor(&mut self, now: Instant) -> bool {
        let gap = now.saturating_since(self.looked_at);
        if gap < LOST_MIN {
            return false;
        }
        self.until = None;
        self.rests_until = now + gap * REST;
        true
    }
}

/// It polls at least once in this many times.
const SKIPS_MAX: u32 = 64;
/// A poll takes a few microseconds.
const LOST_MIN: Duration = Duration::from_micros(200);
/// The pause as a multiple of the time for which the processor was lost: polling then costs a hundredth at
/// most.
const REST: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_micros(50);

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn without_a_time_it_never_spins() {
        assert!(!Spin::new(Duration::ZERO).is_wanted() && Spin::new(TIME).is_wanted());
    }

    #[test]
    fn it_spins_for_its_time_each_time_while_work_comes() {
        let mut spin = Spin::new(TIME);
        for start in [0, 100, 200] {
            assert!(spin.begins(at(start)) && spin.begins(at(start + 49)));
            spin.found_work(at(start + 50));
        }
        assert!(spin.begins(at(300)) && !spin.begins(at(350)), "it ends");
    }

    #[test]
    fn the_more_often_it_fails_the_less_often_it_is_tried_until_it_succeeds() {
        let mut spin = Spin::new(TIME);
        let mut now = 0;
        // A failure. Returns how often it then slept at once before it polled again.
        let mut fail = |spin: &mut Spin| {
            now += 1000;
            assert!(spin.begins(at(now)) && !spin.begins(at(now + 50)));
            let mut slept = 0;
            while !spin.begins(at(now + 60)) {
                slept += 1;
                spin.found_work(at(now + 60));
            }
            spin.until = None;
            slept
        };
        let slept: Vec<u32> = (0..9).map(|_| fail(&mut spin)).collect();
        assert_eq!(slept, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        assert!(spin.begins(at(1_000_000)));
        spin.found_work(at(1_000_010));
        assert_eq!(fail(&mut spin), 1);
    }

    #[test]
    fn a_driver_that_lost_the_processor_rests_a_hundred_times_as_long() {
        for finds_work in [false, true] {
            let mut spin = Spin::new(Duration::from_millis(10));
            assert!(spin.begins(at(0)) && spin.begins(at(199)));
            let back_at = 199 + 3_000;
            if finds_work {
                spin.found_work(at(back_at));
            } else {
                assert!(!spin.begins(at(back_at)));
            }
            assert!(!spin.begins(at(back_at + 299_999)));
            assert!(spin.begins(at(back_at + 300_000)));
        }
    }
}
