//! The exact transmission time of packets.
//!
//! A packet's bits times 10⁹ are rarely a multiple of the rate. The remainder carries over to the next packet
//! that follows without a pause, so N packets in a row take N times their size over the rate, to within a
//! nanosecond, however large N is.

use crate::units::Rate;

/// A transmitter: it sends one packet after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmitter {
    rate: Rate,
    /// When the present transmission ends, in nanoseconds, rounded down.
    busy_until: u64,
    /// The remainder of the rounding, in units of 1/rate nanoseconds.
    remainder: u64,
}

impl Transmitter {
    pub fn new(rate: Rate) -> Self {
        Self { rate, busy_until: 0, remainder: 0 }
    }

    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Sets the rate for later packets.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.remainder = 0;
    }

    /// A transmitter that is never free: its link sends in turns.
    pub fn in_turns(rate: Rate) -> Self {
        Self { busy_until: u64::MAX, ..Self::new(rate) }
    }

    /// Whether it is one that is never free.
    #[inline]
    pub fn is_in_turns(&self) -> bool {
        self.busy_until == u64::MAX
    }

    #[inline]
    pub fn busy_until(&self) -> u64 {
        self.busy_until
    }

    /// Sends this many bytes from `now` on, which is not before `busy_until`. Returns when they are sent.
    #[inline]
    pub fn send(&mut self, now: u64, bytes: u32) -> u64 {
        if now > self.busy_until {
            self.busy_until = now;
            self.remainder = 0;
        }
        if !self.rate.is_unlimited() {
            // Below 2^55: 2^16 bytes at most, and a remainder below the rate.
            let parts = u64::from(bytes) * 8_000_000_000 + self.remainder;
            let rate = self.rate.bits();
            self.busy_until = self.busy_until.saturating_add(parts / rate);
            self.remainder = parts % rate;
        }
        self.busy_until
    }

    /// The transmission time of a packet of this many bytes, rounded up.
    pub fn time_for(rate: Rate, bytes: u32) -> u64 {
        if rate.is_unlimited() { 0 } else { (u64::from(bytes) * 8_000_000_000).div_ceil(rate.bits()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packets_in_a_row_take_their_bits_over_the_rate(
            rate in prop_oneof![1u64..=1000, 1000u64..=1_000_000_000_000, Just(1_000_000_000_000)],
            start in 0u64..1 << 40,
            sizes in prop::collection::vec(1u32..65_536, 1..200),
        ) {
            let mut transmitter = Transmitter::new(Rate::bits_per_second(rate));
            let (mut now, mut bits) = (start, 0u128);
            for size in sizes {
                now = transmitter.send(now, size);
                bits += u128::from(size) * 8;
                let exact = bits * 1_000_000_000 / u128::from(rate);
                prop_assert_eq!(u128::from(now - start), exact);
            }
        }
    }

    #[test]
    fn a_pause_begins_anew() {
        let mut transmitter = Transmitter::new(Rate::bits_per_second(3));
        assert_eq!(transmitter.send(0, 1), 2_666_666_666);
        assert_eq!(transmitter.send(2_666_666_666, 1), 5_333_333_333);
        assert_eq!(transmitter.send(10_000_000_000, 1), 12_666_666_666);
    }

    #[test]
    fn an_unlimited_rate_takes_no_time() {
        let mut transmitter = Transmitter::new(Rate::UNLIMITED);
        assert_eq!((transmitter.send(5, 65_535), transmitter.send(5, 1)), (5, 5));
    }
}
