//! Packet pair: S. Keshav, "A Control-Theoretic Approach to Flow Control", SIGCOMM 1991, from the
//! acknowledgements alone.
//!
//! Deviation: Keshav smooths with a fuzzy predictor. Here each pair's spacing moves an average by an eighth.

use super::SenderEstimator;
use crate::Instant;
use crate::time::nanos;

/// The spacing of acknowledgements of two segments sent back to back.
#[derive(Clone, Debug, Default)]
pub struct PacketPair {
    first: Option<Instant>,
    /// Average time per byte, in 2^-16 ns.
    time_per_byte: Option<u64>,
}

impl PacketPair {
    /// An estimator that takes acknowledgements two by two.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl SenderEstimator for PacketPair {
    ackclock_form::frozen!();

    fn on_ack(&mut self, at: Instant, bytes: u64) {
        let Some(first) = self.first.take() else {
            self.first = Some(at);
            return;
        };
        let gap = u128::from(nanos(at.saturating_since(first))) << 16;
        let Some(sample) = gap.checked_div(u128::from(bytes)).and_then(|time| u64::try_from(time).ok())
        else {
            return;
        };
        if sample > 0 {
            let moved = |mean: u64| mean.saturating_sub(mean / 8).saturating_add(sample / 8);
            self.time_per_byte = Some(self.time_per_byte.map_or(sample, moved));
        }
    }

    fn estimate(&self) -> Option<u64> {
        let second = 1_000_000_000_u128 << 16;
        let rate = second.checked_div(u128::from(self.time_per_byte?))?;
        u64::try_from(rate).ok()
    }

    fn is_done(&self) -> bool {
        false
    }
}

ackclock_form::form! {
    struct PacketPair { first, time_per_byte }
}
