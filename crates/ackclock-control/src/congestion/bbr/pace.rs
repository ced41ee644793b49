//! The pacing rate, which both versions set by the same rules.

use super::super::round::per_second;
use super::model::scale;

/// A pacing rate in bytes a second.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    rate: u64,
    /// Whether it comes from a measured round trip.
    is_measured: bool,
}

impl Pace {
    /// InitPacingRate(): without a round trip, the initial window in one millisecond. `gain` is Startup's, in
    /// hundredths.
    pub fn new(initial_window: u64, gain: u64) -> Self {
        Self { rate: scale(initial_window.saturating_mul(1000), gain).max(1), is_measured: false }
    }

    /// InitPacingRate(), once the first round trip, of `srtt` nanoseconds, is known.
    pub fn seed(&mut self, initial_window: u64, srtt: u64, gain: u64) {
        if !self.is_measured && srtt > 0 {
            self.is_measured = true;
            self.rate = scale(per_second(initial_window, srtt), gain).max(1);
        }
    }

    /// SetPacingRateWithGain(): until the path is known to be full, the rate only rises.
    pub fn set(&mut self, rate: u64, is_full: bool) {
        if is_full || rate > self.rate {
            self.rate = rate.max(1);
        }
    }

    pub fn rate(&self) -> u64 {
        self.rate
    }
}

ackclock_form::form! {
    struct Pace { rate, is_measured }
}
