//! A cellular link as a phone on the move sees it: a rate that wanders, and outages.
//!
//! The rate is a Brownian motion that outages interrupt, as in the model that Sprout forecasts with (Keith
//! Winstein, Anirudh Sivaraman and Hari Balakrishnan, "Stochastic Forecasts Achieve High Throughput and Low
//! Delay over Cellular Networks", NSDI 2013). The constants are this model's own: between 0 and 24 Mbit/s
//! with a deviation of 4.8 Mbit/s after a second. Where it reaches 0 the phone has lost its cell: an outage
//! of half a second on average, exponentially distributed, after which it begins at 10 % to 50 % of the top
//! rate.
//!
//! From such a beginning x, with the top rate M reflecting, 0 is reached after (2Mx - x²)/σ² on average.
//! Over all beginnings that is 12.3 seconds, so outages take 3.9 % of the time.
//!
//! Subframes last a millisecond. The scheduler, which serves other phones too, gives this one every second
//! subframe at random, and makes up for missed ones with the next.
//!
//! Left out: retransmissions of the link layer (they take 8 ms each), and everything below a millisecond.

use super::{between, normal, opportunities};
use crate::rng::{Rng, Variates as _};
use crate::units::{Share, Span};

pub(super) const NAME: &str = "lte";
pub(super) const SUMMARY: &str =
    "A cellular link on the move: 0 to 24 Mbit/s as a random walk, with outages.";

pub(super) fn write(rng: &mut Rng) -> String {
    let mut lines = String::new();
    let mut rate = TOP / 2;
    // In thousandths of an opportunity.
    let mut credit = 0;
    let mut at_ms = 0;
    while at_ms < LENGTH_MS {
        if at_ms % STEP_MS == 0 {
            rate += normal(rng, DEVIATION);
            if rate > TOP {
                rate = 2 * TOP - rate;
            }
        }
        at_ms += 1;
        if rate <= 0 {
            at_ms += rng.exponential(OUTAGE).0 / 1_000_000;
            rate = between(rng, TOP as u64 / 10, TOP as u64 / 2) as i64;
            credit = 0;
            continue;
        }
        credit += rate as u64;
        if rng.happens(Share::percent(50)) {
            opportunities(&mut lines, at_ms, credit / 1000);
            credit %= 1000;
        }
    }
    lines
}

const LENGTH_MS: u64 = 120_000;
const STEP_MS: u64 = 20;
/// Opportunities a second: 24 Mbit/s.
const TOP: i64 = 2000;
/// After a step, for 400 opportunities after a second: 400 sqrt(0.02).
const DEVIATION: i64 = 57;
const OUTAGE: Span = Span::millis(500);

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::super::tests::{groups, mean_mbit};
    use super::*;

    fn text(seed: u64) -> String {
        all().iter().find(|model| model.name == NAME).expect("this model").text(seed)
    }

    #[test]
    fn the_rate_stays_in_its_range_and_moves() {
        let text = text(0);
        let mut in_second = vec![0u64; 121];
        for (at, count) in groups(&text) {
            in_second[at as usize / 1000] += count;
        }
        // An outage's credit may move a few opportunities.
        assert!(in_second.iter().all(|count| *count <= TOP as u64 + 50), "{in_second:?}");
        let (fast, slow) = (in_second.iter().filter(|n| **n > 1200), in_second.iter().filter(|n| **n < 400));
        assert!(fast.count() > 5 && slow.count() > 5, "{in_second:?}");
        let mean = mean_mbit(&text);
        assert!((4.0..16.0).contains(&mean), "{mean} Mbit/s");
    }

    #[test]
    fn outages_take_the_share_of_time_that_the_model_says() {
        let (mut outages, mut out_ms, mut all_ms, mut mean) = (0.0, 0.0, 0.0, 0.0);
        for seed in 0..40 {
            let text = text(seed);
            let groups = groups(&text);
            // At the lowest rates opportunities are far apart, too: 150 ms without one is an outage.
            let gaps = groups.windows(2).map(|pair| pair[1].0 - pair[0].0).filter(|gap| *gap > 150);
            for gap in gaps {
                outages += 1.0;
                out_ms += gap as f64;
            }
            all_ms += groups.last().map_or(0, |(at, _)| *at) as f64;
            mean += mean_mbit(&text) / 40.0;
        }
        // 4,800 s hold some 370 outages, of which exp(-0.3) = 74 % are longer than 150 ms: with the 20 ms of
        // a step, every 18 s. A deviation of the count is 17; four of them and the approximation of steps.
        let every = all_ms / outages / 1000.0;
        assert!((13.0..22.0).contains(&every), "an outage every {every} s");
        // Those beyond 150 ms last 650 ms on average.
        let length = out_ms / outages;
        assert!((550.0..750.0).contains(&length), "{length} ms");
        let share = out_ms / all_ms;
        assert!((0.025..0.055).contains(&share), "{share}");
        assert!((8.0..13.0).contains(&mean), "{mean} Mbit/s on average");
    }
}
