//! A busy station of an 802.11n network on a shared channel: bursts, and the times between them in which
//! others send.
//!
//! Each access waits for DIFS and a backoff of up to 15 slots. Then this station wins with probability 60 %;
//! otherwise another sends for half a millisecond to four, and it tries again. A burst is as much as 65,535
//! bytes, the most of an A-MPDU, or 4 ms allow, the limit that Linux' ath9k sets itself; the preamble and the
//! block acknowledgement add 88 µs. All of it is delivered at its end, in whole milliseconds.
//!
//! Rates are those of two streams on 20 MHz, MCS 8 to 15. Every 100 ms the station's rate control moves by
//! one step with probability 40 %.
//!
//! Times are those of OFDM at 5 GHz: SIFS 16 µs, slots of 9 µs, DIFS 34 µs. Left out: collisions, lost
//! subframes, and bursts of a queue that runs empty: an opportunity that finds nothing is lost. To have a
//! burst wait for packets, use a link's `aggregation`.

use super::{OPPORTUNITY_BITS, between, opportunities};
use crate::rng::{Rng, Variates as _};
use crate::units::Share;

pub(super) const NAME: &str = "wifi";
pub(super) const SUMMARY: &str =
    "A station of a shared 802.11n channel: bursts of up to 65 KB or 4 ms, 13 to 130 Mbit/s on the air.";

pub(super) fn write(rng: &mut Rng) -> String {
    let mut lines = String::new();
    let (mut mcs, mut adapted_us, mut now_us) = (RATES.len() / 2, 0, 0);
    loop {
        while adapted_us <= now_us {
            adapted_us += ADAPT_US;
            if rng.happens(Share::percent(40)) {
                let up = rng.happens(Share::percent(50));
                mcs = if up { (mcs + 1).min(RATES.len() - 1) } else { mcs.saturating_sub(1) };
            }
        }
        now_us += DIFS_US + SLOT_US * between(rng, 0, 15);
        if !rng.happens(Share::percent(60)) {
            now_us += between(rng, 500, BURST_US);
            continue;
        }
        let rate_mbit = RATES[mcs];
        let count = (rate_mbit * BURST_US).min(BURST_BYTES * 8) / OPPORTUNITY_BITS;
        now_us += OVERHEAD_US + count * OPPORTUNITY_BITS / rate_mbit;
        if now_us > LENGTH_US {
            return lines;
        }
        opportunities(&mut lines, now_us / 1000, count);
    }
}

const LENGTH_US: u64 = 30_000_000;
/// Mbit/s of MCS 8 to 15 at 20 MHz with the long guard interval.
const RATES: [u64; 8] = [13, 26, 39, 52, 78, 104, 117, 130];
const ADAPT_US: u64 = 100_000;
const DIFS_US: u64 = 34;
const SLOT_US: u64 = 9;
const BURST_US: u64 = 4000;
const BURST_BYTES: u64 = 65_535;
/// A preamble of 40 µs, SIFS, a block acknowledgement of 32 µs.
const OVERHEAD_US: u64 = 88;

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::super::tests::{groups, mean_mbit};
    use super::*;

    #[test]
    fn packets_come_in_bursts_with_pauses_between_them() {
        let model = all().iter().find(|model| model.name == NAME).expect("this model");
        for seed in 0..10 {
            let text = model.text(seed);
            let groups = groups(&text);
            // 4 ms at 13 Mbit/s are 4 opportunities, 65,535 bytes are 43.
            assert!(groups.iter().all(|(_, count)| (4..=43).contains(count)), "{groups:?}");
            let gaps: Vec<u64> = groups.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
            // A burst of four takes 3.8 ms with its overhead, and the next waits for access.
            assert!(gaps.iter().all(|gap| *gap >= 3), "{gaps:?}");
            // 40 % of the accesses are lost: on average 2/3 of one before each burst, of 2.25 ms and another
            // access. Bursts are 3.8 to 4.1 ms: 5.7 ms in all, to a twentieth.
            let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
            assert!((5.4..6.0).contains(&mean), "{mean} ms");
            let rate = mean_mbit(&text);
            assert!((13.0 * 0.6..130.0 * 0.75).contains(&rate), "{rate} Mbit/s");
        }
    }
}
