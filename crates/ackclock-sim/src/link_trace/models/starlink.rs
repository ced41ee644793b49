//! A satellite link of low orbit, downwards, as a terminal of Starlink has it: every 15 seconds another
//! path.
//!
//! Terminals are assigned a satellite for 15 seconds at a time (Geoff Huston, "Measuring Starlink Protocol
//! Performance", 2024), and losses of up to half of the packets coincide with handovers (Mohamed Kassem et
//! al., "A Browser-side View of Starlink Connectivity", IMC 2022). The rest is this model's own: with each
//! slot come a delay of 15 to 35 ms and a rate of 40 to 220 Mbit/s. For the first 80 ms nothing is carried;
//! to the end of the first second 2 % of the packets are lost, later 0.1 %. Every second the rate is 80 to
//! 120 % of the slot's, and the delay up to 3 ms more than the slot's.
//!
//! Left out: the frames of 1.33 ms, and obstructions.

use std::fmt::Write as _;

use super::between;
use crate::rng::Rng;

pub(super) const NAME: &str = "starlink";
pub(super) const SUMMARY: &str =
    "A satellite link of low orbit: every 15 s a handover to another delay and rate.";

pub(super) fn write(rng: &mut Rng) -> String {
    let mut lines = "time (ms),rate (kbit/s),delay (us),loss (%)\n".to_owned();
    for slot in 0..SLOTS {
        let (delay, rate) = (between(rng, 15_000, 35_000), between(rng, 40_000, 220_000));
        _ = writeln!(lines, "{},0,{delay},2", slot * SLOT_MS);
        for second in 0..SLOT_MS / 1000 {
            let start = if second == 0 { OUTAGE_MS } else { second * 1000 };
            let loss = if second == 0 { "2" } else { "0.1" };
            let (rate, delay) = (rate * between(rng, 80, 120) / 100, delay + between(rng, 0, 3000));
            _ = writeln!(lines, "{},{rate},{delay},{loss}", slot * SLOT_MS + start);
        }
    }
    lines
}

const SLOTS: u64 = 12;
const SLOT_MS: u64 = 15_000;
const OUTAGE_MS: u64 = 80;

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::super::tests::mean_mbit;
    use super::*;
    use crate::link_trace::{Kind, LinkTrace};

    #[test]
    fn every_fifteen_seconds_comes_another_path() {
        let model = all().iter().find(|model| model.name == NAME).expect("this model");
        for seed in 0..10 {
            let text = model.text(seed);
            let trace = LinkTrace::parse(&text).expect("a trace");
            let Kind::Conditions(rows) = trace.kind() else { panic!("a table of rates") };
            assert_eq!(rows.length(), 180_000_000_000, "twelve slots");
            let at = |ms: u64| rows.at(ms * 1_000_000, true).row;
            // Nothing is carried for 80 ms of each 15 s, and at no other time.
            for ms in (0..360_000).step_by(10) {
                assert_eq!(at(ms).rate == 0, ms % 15_000 < 80, "at {ms} ms");
            }
            // Within a slot the delay stays within 3 ms and the rate within 80 to 120 %; from slot to slot
            // most move further.
            let slots = 0..12;
            let least: Vec<u64> = slots
                .map(|slot| {
                    let delays: Vec<u64> = (1..150).map(|n| at(slot * 15_000 + n * 100).delay).collect();
                    let rates: Vec<u64> = (1..150).map(|n| at(slot * 15_000 + n * 100).rate).collect();
                    let spread = delays.iter().max().unwrap() - delays.iter().min().unwrap();
                    assert!(spread <= 3_000_000, "{spread}");
                    assert!(rates.iter().max().unwrap() * 80 <= rates.iter().min().unwrap() * 121);
                    *delays.iter().min().unwrap()
                })
                .collect();
            assert!(least.iter().all(|delay| (15_000_000..38_000_000).contains(delay)));
            let moves = least.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) > 1_000_000).count();
            assert!(moves >= 7, "{least:?}");
            let mean = mean_mbit(&text);
            // 130 Mbit/s on average, with a deviation of 52/sqrt(12).
            assert!((70.0..190.0).contains(&mean), "{mean} Mbit/s");
        }
    }
}
