//! Estimators by name: RFC 6298, its ancestors, and every row of the tables that M. Allman and V. Paxson
//! measured ("On Estimating End-to-End Network Path Properties", SIGCOMM 1999, tables 1 to 4).
//!
//! The rows share what the paper states for all of them, except where a row says otherwise: 3 s before the
//! first sample, no timeout above 64 s, RTTVAR not below one tick, the standard gains and k = 4, one timed
//! segment a flight, and a heartbeat clock.
//!
//! Deviation: the scanned table 3 gives `fast` as 1/2 and 1/4, its text as twice the standard parameters. The
//! text's 1/4 and 1/2 are used.

use std::time::Duration;

use super::{Arithmetic, Backoff, DeviationFloor, Formula, Gain, RtoConfig, Sampling};

/// An estimator with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name under which it is chosen.
    pub name: &'static str,
    /// Where it is described.
    pub source: &'static str,
    /// Its parameters.
    pub config: RtoConfig,
}

/// No estimator has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no timeout estimator is called `{name}`; choose one of: {}", names().collect::<Vec<_>>().join(", "))]
pub struct UnknownPreset {
    /// The name asked for.
    pub name: String,
}

/// Finds a preset by name.
///
/// # Errors
/// [`UnknownPreset`]; its message lists the valid names.
pub fn find(name: &str) -> Result<Preset, UnknownPreset> {
    all().find(|preset| preset.name == name).ok_or_else(|| UnknownPreset { name: name.to_owned() })
}

/// The names of all presets, table by table.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|preset| preset.name)
}

/// All presets, table by table.
pub fn all() -> impl Iterator<Item = Preset> {
    let groups: [&[Preset]; 5] = [STANDARDS, &TABLE_1, &TABLE_2, &TABLE_3, &TABLE_4];
    groups.into_iter().flatten().copied()
}

const STANDARDS: &[Preset] = &[
    Preset { name: "rfc6298", source: "RFC 6298, with at least 200 ms", config: RtoConfig::RFC_6298 },
    Preset {
        name: "rfc6298-strict",
        source: "RFC 6298, with at least 1 s (2.4)",
        config: RtoConfig { rto_min: Duration::from_secs(1), ..RtoConfig::RFC_6298 },
    },
    Preset {
        name: "rfc793",
        source: "RFC 793, alpha = 0.9, beta = 2; Jacobson and Karels 1988, fig. 5",
        config: RtoConfig {
            srtt_gain: Gain::one_in(10),
            formula: Formula::Multiple { beta: 2 },
            rto_min: Duration::from_secs(1),
            ..RtoConfig::RFC_6298
        },
    },
    Preset {
        name: "jacobson-1988",
        source: "Jacobson and Karels, SIGCOMM 1988: a + 2v, ticks of 500 ms",
        config: RtoConfig { formula: MEAN_PLUS_2, ..BSD },
    },
    Preset {
        name: "jacobson-1992",
        source: "Jacobson and Karels, revised, Appendix A: a + 4v, ticks of 500 ms",
        config: BSD,
    },
    Preset {
        name: "bfa-1998",
        source: "Awadallah and Rai 1998, §6: 4v, or 2v while round trips get shorter; ticks of 500 ms",
        config: RtoConfig {
            formula: Formula::SignedDeviation { k: 4, k_falling: 2 },
            granularity: Duration::from_millis(500),
            rto_min: Duration::from_secs(1),
            ..RtoConfig::RFC_6298
        },
    },
];

/// Effect of varying RTO_min, G = 1 ms.
const TABLE_1: [Preset; 8] = [
    row("ap-min-1000", TABLE_1_SOURCE, min(1000)),
    row("ap-min-750", TABLE_1_SOURCE, min(750)),
    row("ap-min-500", TABLE_1_SOURCE, min(500)),
    row("ap-min-250", TABLE_1_SOURCE, min(250)),
    row("ap-min-0", TABLE_1_SOURCE, min(0)),
    row("ap-static-2000", TABLE_1_SOURCE, fixed(2000)),
    row("ap-static-1000", TABLE_1_SOURCE, fixed(1000)),
    row("ap-static-500", TABLE_1_SOURCE, fixed(500)),
];

/// Effect of varying granularity G, RTO_min = 1 s.
const TABLE_2: [Preset; 8] = [
    row("ap-g-500", TABLE_2_SOURCE, granularity(500)),
    row("ap-ws95", TABLE_2_SOURCE, BSD),
    row("ap-g-250", TABLE_2_SOURCE, granularity(250)),
    row("ap-g-100", TABLE_2_SOURCE, granularity(100)),
    row("ap-g-50", TABLE_2_SOURCE, granularity(50)),
    row("ap-g-20", TABLE_2_SOURCE, granularity(20)),
    row("ap-g-10", TABLE_2_SOURCE, granularity(10)),
    row("ap-g-1", TABLE_2_SOURCE, granularity(1)),
];

/// Effect of varying the gains. The first row, WS95, is also in table 2.
const TABLE_3: [Preset; 12] = [
    row("ap-ws95-every", TABLE_3_SOURCE, every(BSD)),
    row("ap-take-first-1000", TABLE_3_SOURCE, RtoConfig { rto_min: ms(1000), ..gains(0, 0) }),
    row("ap-take-first", TABLE_3_SOURCE, gains(0, 0)),
    row("ap-very-slow", TABLE_3_SOURCE, gains(80, 40)),
    row("ap-slow-every", TABLE_3_SOURCE, every(gains(32, 16))),
    row("ap-slow", TABLE_3_SOURCE, gains(16, 8)),
    row("ap-std", TABLE_3_SOURCE, gains(8, 4)),
    row("ap-std-every", TABLE_3_SOURCE, every(gains(8, 4))),
    row("ap-fast", TABLE_3_SOURCE, gains(4, 2)),
    row("ap-take-last", TABLE_3_SOURCE, gains(1, 1)),
    row("ap-take-last-every", TABLE_3_SOURCE, every(gains(1, 1))),
    row("ap-take-last-1000", TABLE_3_SOURCE, RtoConfig { rto_min: ms(1000), ..gains(1, 1) }),
];

/// Effect of varying k. The rows with k = 4 and another RTO_min are also in table 1.
const TABLE_4: [Preset; 12] = [
    row("ap-k-16", TABLE_4_SOURCE, factor(0, 16)),
    row("ap-k-12", TABLE_4_SOURCE, factor(0, 12)),
    row("ap-k-8", TABLE_4_SOURCE, factor(0, 8)),
    row("ap-k-6", TABLE_4_SOURCE, factor(0, 6)),
    row("ap-adapt", TABLE_4_SOURCE, RtoConfig { formula: ADAPT, ..BASE }),
    row("ap-k-4", TABLE_4_SOURCE, factor(0, 4)),
    row("ap-k-3", TABLE_4_SOURCE, factor(0, 3)),
    row("ap-k-2", TABLE_4_SOURCE, factor(0, 2)),
    row("ap-min-750-k-6", TABLE_4_SOURCE, factor(750, 6)),
    row(
        "ap-take-first-250-k-6",
        TABLE_4_SOURCE,
        RtoConfig { formula: mean_plus(6), rto_min: ms(250), ..gains(0, 0) },
    ),
    row("ap-min-500-k-6", TABLE_4_SOURCE, factor(500, 6)),
    row("ap-min-250-k-6", TABLE_4_SOURCE, factor(250, 6)),
];

/// The settings that the rows share (§2.1): G = 1 ms and no lower bound.
const BASE: RtoConfig = RtoConfig {
    srtt_gain: Gain::one_in(8),
    rttvar_gain: Gain::one_in(4),
    formula: mean_plus(4),
    arithmetic: Arithmetic::Fine,
    initial: ms(3000),
    rto_min: ms(0),
    rto_max: ms(64_000),
    granularity: ms(1),
    deviation_floor: DeviationFloor::Deviation,
    heartbeat: true,
    sampling: Sampling::OncePerFlight,
    backoff: Backoff::Doubling,
};

/// WS95: the implementation in G. Wright and W. R. Stevens, "TCP/IP Illustrated, Volume 2", 1995.
const BSD: RtoConfig =
    RtoConfig { arithmetic: Arithmetic::Ticks, rto_min: ms(1000), granularity: ms(500), ..BASE };

const MEAN_PLUS_2: Formula = mean_plus(2);
const ADAPT: Formula = Formula::MeanDeviation { k: 4, adapt: true };
const TABLE_1_SOURCE: &str = "Allman and Paxson, SIGCOMM 1999, table 1";
const TABLE_2_SOURCE: &str = "Allman and Paxson, SIGCOMM 1999, table 2";
const TABLE_3_SOURCE: &str = "Allman and Paxson, SIGCOMM 1999, table 3";
const TABLE_4_SOURCE: &str = "Allman and Paxson, SIGCOMM 1999, table 4";

const fn row(name: &'static str, source: &'static str, config: RtoConfig) -> Preset {
    Preset { name, source, config }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn mean_plus(k: u8) -> Formula {
    Formula::MeanDeviation { k, adapt: false }
}

const fn min(millis: u64) -> RtoConfig {
    RtoConfig { rto_min: ms(millis), ..BASE }
}

const fn fixed(millis: u64) -> RtoConfig {
    RtoConfig { formula: Formula::Static, initial: ms(millis), ..BASE }
}

const fn granularity(millis: u64) -> RtoConfig {
    RtoConfig { granularity: ms(millis), rto_min: ms(1000), ..BASE }
}

const fn gains(one_in_1: u16, one_in_2: u16) -> RtoConfig {
    RtoConfig { srtt_gain: Gain::one_in(one_in_1), rttvar_gain: Gain::one_in(one_in_2), ..BASE }
}

const fn factor(min_ms: u64, k: u8) -> RtoConfig {
    RtoConfig { formula: mean_plus(k), ..min(min_ms) }
}

const fn every(config: RtoConfig) -> RtoConfig {
    RtoConfig { sampling: Sampling::EverySegment, ..config }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::{all, find, names};
    use crate::rtt::RttEstimator;

    /// The timeout in milliseconds after these samples.
    fn rto_ms(name: &str, samples_ms: &[u64]) -> u64 {
        let mut rtt = RttEstimator::new(&find(name).unwrap().config);
        for &sample in samples_ms {
            rtt.on_sample(Duration::from_millis(sample));
        }
        u64::try_from(rtt.rto().as_millis()).unwrap()
    }

    #[test]
    fn names_are_unique_and_found() {
        let unique: HashSet<_> = names().collect();
        assert_eq!(unique.len(), names().count());
        assert!(all().all(|preset| find(preset.name) == Ok(preset)));
    }

    #[test]
    fn unknown_name_lists_the_valid_ones() {
        let message = find("fastest").unwrap_err().to_string();
        assert!(message.contains("`fastest`") && message.contains("ap-take-last-every"), "{message}");
    }

    // Each row of tables 1 to 4 differs from every other one in some timeout.
    #[test]
    fn presets_are_distinct() {
        // Tests: A1
        let mut seen = HashSet::new();
        for preset in all() {
            assert!(
                seen.insert(format!("{:?}", preset.config)) || DOUBLES.contains(&preset.name),
                "{}",
                preset.name
            );
        }
    }

    /// Rows in two tables, each under its name there.
    const DOUBLES: [&str; 5] = ["ap-ws95", "ap-g-1", "ap-std", "ap-k-4", "ap-min-1000"];

    #[test]
    fn lower_bound_is_what_the_name_says() {
        for (name, bound) in
            [("ap-min-1000", 1000), ("ap-min-250", 250), ("ap-min-0", 14), ("rfc6298-strict", 1000)]
        {
            assert_eq!(rto_ms(name, &[10; 100]), bound, "{name}");
        }
    }

    #[test]
    fn static_timers_never_move() {
        assert_eq!(rto_ms("ap-static-500", &[2000, 10, 3000]), 500);
    }

    #[test]
    fn take_first_keeps_three_times_the_first_sample() {
        assert_eq!(rto_ms("ap-take-first", &[100, 900, 5]), 300);
    }

    #[test]
    fn take_last_is_the_last_sample_and_its_distance() {
        assert_eq!(rto_ms("ap-take-last", &[100, 300, 200]), 200 + 4 * 100);
    }

    #[test]
    fn factor_scales_the_deviation() {
        assert_eq!(rto_ms("ap-k-16", &[100]), 100 + 16 * 50);
        assert_eq!(rto_ms("ap-k-2", &[100]), 200);
    }

    #[test]
    fn coarse_granularity_costs_four_ticks_and_a_round_trip() {
        assert_eq!(rto_ms("ap-g-500", &[100; 50]), 2000);
        assert_eq!(rto_ms("ap-g-100", &[100; 50]), 1000);
    }

    // On a path whose delay grows with the load, RFC 793's timer expires for segments that are only late.
    #[test]
    fn mean_deviation_survives_a_loaded_path_where_rfc_793_does_not() {
        // Tests: J2
        // Round trips in milliseconds: quiet, then a load of above 30 % (Jacobson and Karels §2).
        let series: Vec<u64> =
            (0..200).map(|n| 600 + (n % 7) * 40 + if n % 23 > 17 { 900 } else { 0 }).collect();
        let spurious = |name| {
            let mut rtt = RttEstimator::new(&find(name).unwrap().config);
            series
                .iter()
                .filter(|&&sample| {
                    let sample = Duration::from_millis(sample);
                    let late = rtt.has_sample() && sample > rtt.rto();
                    rtt.on_sample(sample);
                    late
                })
                .count()
        };
        assert!(
            spurious("jacobson-1992") * 4 < spurious("rfc793"),
            "{} and {}",
            spurious("jacobson-1992"),
            spurious("rfc793")
        );
    }
}
