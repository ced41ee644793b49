//! The upstream of a cable modem: 20 Mbit/s in grants.
//!
//! A modem sends only when the head-end has granted it a time, in a loop of requests and grants (Greg White,
//! Karthik Sundaresan and Bob Briscoe, "Low Latency DOCSIS - Technology Overview", draft-white-tsvwg-lld-00,
//! 2019). The figures are this model's own. Grants come every 2 ms, each of what the subscribed rate allows
//! since the last; with probability 25 % the head-end serves others first, and the grant is twice as large
//! the next time. A grant is one burst.
//!
//! Left out: the wait for the first grant after silence (an idle modem's opportunity comes with the next
//! one), and collisions of requests.

use super::{OPPORTUNITY_BITS, opportunities};
use crate::rng::{Rng, Variates as _};
use crate::units::Share;

pub(super) const NAME: &str = "docsis";
pub(super) const SUMMARY: &str =
    "The upstream of a cable modem: 20 Mbit/s in grants, a multiple of 2 ms apart.";

pub(super) fn write(rng: &mut Rng) -> String {
    let mut lines = String::new();
    let mut bits = 0;
    for at_ms in (MAP_MS..=LENGTH_MS).step_by(MAP_MS as usize) {
        bits += RATE_BITS_PER_MS * MAP_MS;
        // The last grant ends the round, so that it has its length.
        if at_ms == LENGTH_MS || !rng.happens(Share::percent(25)) {
            opportunities(&mut lines, at_ms, bits / OPPORTUNITY_BITS);
            bits %= OPPORTUNITY_BITS;
        }
    }
    lines
}

const LENGTH_MS: u64 = 20_000;
const MAP_MS: u64 = 2;
/// 20 Mbit/s.
const RATE_BITS_PER_MS: u64 = 20_000;

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::super::tests::{groups, mean_mbit};
    use super::*;

    #[test]
    fn grants_are_a_multiple_of_two_milliseconds_apart() {
        let model = all().iter().find(|model| model.name == NAME).expect("this model");
        for seed in 0..10 {
            let text = model.text(seed);
            let groups = groups(&text);
            let gaps: Vec<u64> = groups.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
            assert!(gaps.iter().all(|gap| gap % 2 == 0));
            // One in four is put off: some 7,500 grants, of which 5,600 follow after 2 ms.
            let at_once = gaps.iter().filter(|gap| **gap == 2).count() as f64 / gaps.len() as f64;
            assert!((0.73..0.77).contains(&at_once), "{at_once}");
            assert!(*gaps.iter().max().unwrap() <= 20, "4^-9 of them would be longer");
            let mean = mean_mbit(&text);
            assert!((19.98..=20.0).contains(&mean), "{mean} Mbit/s");
        }
    }
}
