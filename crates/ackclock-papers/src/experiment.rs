//! Experiments and their findings.

use std::fmt;

use ackclock_chart::Figure;
use ackclock_cli::table::number;
use serde::Serialize;

/// One row of the list of experiments.
#[derive(Debug)]
pub struct Experiment {
    /// Its id, for example `VE5/7`.
    pub id: &'static str,
    /// The paper and its section or figure, for example `Brakmo & Peterson 1995, figs. 5 and 7`.
    pub source: &'static str,
    /// Its subject, in a line.
    pub title: &'static str,
    /// The network, the connections, the number of seeds; the paper's open points and the choices made
    /// instead.
    pub set_up: &'static str,
    /// Runs it, on all cores if it has many runs.
    pub(crate) run: fn() -> anyhow::Result<Findings>,
}

/// The findings of an experiment.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    /// The values compared with the paper's, each with its verdict.
    pub values: Vec<Value>,
    /// Further measurements.
    pub tables: Vec<Table>,
    /// Pictures, with the stems of their file names.
    pub figures: Vec<(String, Figure)>,
    /// Notes for the reader: why a value is outside its band, how the set-up differs from the paper's.
    pub notes: Vec<String>,
}

/// A measured value beside the paper's.
#[derive(Debug, Serialize)]
pub struct Value {
    /// The quantity, for example `Vegas/Reno throughput`.
    pub name: String,
    /// Its unit; empty for ratios and counts.
    pub unit: &'static str,
    /// The paper's value in its own words; empty if it gives none.
    pub paper: &'static str,
    /// The value of another simulator for the same set-up, and which; empty if unknown.
    pub others: &'static str,
    /// The mean over the runs.
    pub measured: f64,
    /// The smallest and the largest of single runs, if there were several.
    pub spread: Option<(f64, f64)>,
    /// The number of runs, and the standard deviation of one of them; zero without noise.
    pub runs: usize,
    /// See `runs`.
    pub deviation: f64,
    /// The number of runs that the paper's value rests on: one, unless the paper gives another.
    pub paper_runs: usize,
    /// Where it must lie. It follows from the paper or from the other simulator, never from what is measured.
    pub band: Band,
    /// The band that every correct implementation must reach, if it was fixed before the measurement. No
    /// reason excuses a value outside it.
    pub limit: Option<Band>,
    /// Why it may be outside its band, as found by investigation. Without a reason, a value outside fails the
    /// command.
    pub reason: Option<&'static str>,
}

/// Where a value must lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Band {
    /// Neither the paper nor another simulator says anything to hold it against.
    NoReference,
    /// Equal to this number, which is printed to within `half`, half a unit of its last digit.
    Printed {
        /// The number.
        number: f64,
        /// Half a unit of its last digit.
        half: f64,
    },
    /// At this or above.
    AtLeast(f64),
    /// At this or below.
    AtMost(f64),
    /// Below this.
    Below(f64),
    /// Above this.
    Above(f64),
    /// Between these, ends included.
    Within(f64, f64),
}

/// The verdict on a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BandVerdict {
    /// It differs from the number that the paper prints, or from the edge of its range, by at most two
    /// standard errors of the difference.
    Equal,
    /// The paper claims an order, or a range, and it holds.
    Order,
    /// There is nothing to judge it by.
    NoReference,
    /// It differs, and the reason is documented.
    Differs,
    /// It differs without an explanation.
    Outside,
}

/// A table of text.
#[derive(Debug, Serialize)]
pub struct Table {
    /// Its subject.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// The rows, each as long as `head`.
    pub rows: Vec<Vec<String>>,
}

impl Value {
    /// The verdict: a limit outweighs a reason.
    #[must_use]
    pub fn verdict(&self) -> BandVerdict {
        if self.measured.is_nan() || self.limit.is_some_and(|limit| !limit.holds(self.measured)) {
            return BandVerdict::Outside;
        }
        match self.band {
            Band::NoReference => BandVerdict::NoReference,
            band if band.holds(self.measured) && !matches!(band, Band::Printed { .. }) => BandVerdict::Order,
            Band::Printed { .. } if self.distance() <= 2.0 => BandVerdict::Equal,
            _ if self.deviation > 0.0 && self.distance() <= 2.0 => BandVerdict::Equal,
            _ if self.reason.is_some() => BandVerdict::Differs,
            _ => BandVerdict::Outside,
        }
    }

    /// The standard error of the mean over the runs.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.deviation / (self.runs.max(1) as f64).sqrt()
    }

    /// The distance from the paper's number, or from the edge of its range, in standard errors of the
    /// difference. The paper's error is that of as many of our runs as it had, or half a digit if that
    /// is more. Without any error, infinite.
    #[must_use]
    pub fn distance(&self) -> f64 {
        self.distance_to(self.band)
    }

    /// Whether it is equal, within noise, to a number that the paper prints.
    pub(crate) fn is_equal_to(&self, paper: &str) -> bool {
        self.distance_to(Band::printed(paper)) <= 2.0
    }

    fn distance_to(&self, band: Band) -> f64 {
        let (away, half) = match band {
            Band::NoReference => return 0.0,
            Band::Printed { number, half } => ((self.measured - number).abs(), half),
            band => (band.away(self.measured), 0.0),
        };
        let papers = (self.deviation / (self.paper_runs.max(1) as f64).sqrt()).max(half);
        if away == 0.0 { 0.0 } else { away / self.error().hypot(papers) }
    }

    /// The verdict in words.
    #[must_use]
    pub fn words(&self) -> String {
        match (self.verdict(), self.distance()) {
            (BandVerdict::Differs, distance) if distance.is_finite() => {
                format!("differs by {} SE", number(distance))
            }
            (verdict, _) => verdict.to_string(),
        }
    }

    /// Holds it against the number that the paper prints.
    pub(crate) fn printed(self, paper: &'static str) -> Self {
        Self { paper, band: Band::printed(paper), ..self }
    }

    /// The paper's value rests on this many runs.
    pub(crate) fn of_runs(self, paper_runs: usize) -> Self {
        Self { paper_runs, ..self }
    }

    /// Gives it a limit that no reason excuses.
    pub(crate) fn limited(self, limit: Band) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Gives the reason why it may be outside.
    pub(crate) fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }
}

impl Band {
    /// The band of values that the papers call unchanged, unaffected or the same: Brakmo and Peterson (1995,
    /// §IV-B1) say of ratios of 1.02 and 1.09 that the throughput "stays pretty much unchanged".
    pub(crate) const UNCHANGED: Self = Self::Within(0.91, 1.09);

    /// The number that these words print. No value is in the band of words that print none.
    pub(crate) fn printed(words: &str) -> Self {
        let (number, half) = printed(words);
        Self::Printed { number, half }
    }

    /// Whether `value` is inside. NaN is in no band, not even where there is no reference.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::NoReference => !value.is_nan(),
            Self::Printed { number, half } => (value - number).abs() <= half,
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Below(limit) => value < limit,
            Self::Above(limit) => value > limit,
            Self::Within(least, most) => (least..=most).contains(&value),
        }
    }
}

impl Band {
    /// How far `value` lies beyond its edge; zero inside.
    fn away(self, value: f64) -> f64 {
        match self {
            band if band.holds(value) => 0.0,
            Self::NoReference => 0.0,
            Self::Printed { number, .. } => (value - number).abs(),
            Self::AtLeast(edge) | Self::AtMost(edge) | Self::Below(edge) | Self::Above(edge) => {
                (value - edge).abs()
            }
            Self::Within(least, most) => (least - value).max(value - most),
        }
    }
}

/// The number that these words print, with half a unit of its last digit.
fn printed(words: &str) -> (f64, f64) {
    let decimals = words.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    (words.parse().unwrap_or(f64::NAN), 0.5 / 10_f64.powi(decimals as i32))
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReference => Ok(()),
            Self::Printed { number: printed, half } => write!(f, "{} ± {}", number(*printed), number(*half)),
            Self::AtLeast(least) => write!(f, "≥ {}", number(*least)),
            Self::AtMost(most) => write!(f, "≤ {}", number(*most)),
            Self::Below(limit) => write!(f, "< {}", number(*limit)),
            Self::Above(limit) => write!(f, "> {}", number(*limit)),
            Self::Within(least, most) => write!(f, "{} … {}", number(*least), number(*most)),
        }
    }
}

impl fmt::Display for BandVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "equal within noise",
            Self::Order => "order only",
            Self::NoReference => "no reference",
            Self::Differs => "differs",
            Self::Outside => "OUTSIDE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::many::Summary;

    fn value(measured: f64, band: Band) -> Value {
        Value { band, ..Summary::of([measured]).value("", "") }
    }

    #[test]
    fn a_value_outside_its_band_needs_a_reason() {
        let verdict = |measured, band, reason| Value { reason, ..value(measured, band) }.verdict();
        assert_eq!(verdict(2.0, Band::AtLeast(2.0), None), BandVerdict::Order);
        assert_eq!(verdict(2.0, Band::Above(2.0), None), BandVerdict::Outside);
        assert_eq!(verdict(2.0, Band::Below(2.0), Some("why")), BandVerdict::Differs);
        assert_eq!(verdict(2.0, Band::AtMost(2.0), Some("why")), BandVerdict::Order);
        assert_eq!(verdict(2.0, Band::Within(2.1, 3.0), None), BandVerdict::Outside);
        assert_eq!(verdict(2.0, Band::NoReference, None), BandVerdict::NoReference);
        assert_eq!(verdict(f64::NAN, Band::NoReference, Some("why")), BandVerdict::Outside);
        assert_eq!(verdict(2.0, Band::printed("about 2"), None), BandVerdict::Outside);
        for (measured, expected) in [(2.0, BandVerdict::Differs), (1.9, BandVerdict::Outside)] {
            let limited = Value {
                limit: Some(Band::AtLeast(2.0)),
                reason: Some("why"),
                ..value(measured, Band::Above(2.0))
            };
            assert_eq!(limited.verdict(), expected);
        }
    }

    #[test]
    fn a_number_is_equal_within_two_standard_errors_of_the_difference() {
        // Nine runs of 10 ± 3 have an error of 1. The paper's one run has 3, its nine have 1.
        let ours = Value { runs: 9, deviation: 3.0, ..value(10.0, Band::printed("16")) };
        assert_eq!(ours.error(), 1.0);
        assert!((ours.distance() - 6.0 / 10.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(ours.verdict(), BandVerdict::Equal);
        let more = Value { reason: Some("why"), ..ours.of_runs(9) };
        assert!((more.distance() - 6.0 / 2.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(more.words(), "differs by 4.243 SE");
        // Without noise, half a digit is the error.
        assert_eq!(value(15.0, Band::printed("16")).verdict(), BandVerdict::Equal);
        assert_eq!(value(14.9, Band::printed("16")).verdict(), BandVerdict::Outside);
        let near = Value { runs: 9, deviation: 3.0, ..value(10.0, Band::AtLeast(16.0)) };
        assert_eq!(near.verdict(), BandVerdict::Equal);
        // Beyond the edge of a range there is no digit.
        let order = Value { reason: Some("why"), ..value(1.0, Band::AtLeast(2.0)) };
        assert_eq!(order.words(), "differs");
    }

    #[test]
    fn a_printed_number_is_a_band_of_half_a_unit_of_its_last_digit() {
        assert!(Band::printed("123").holds(122.5) && Band::printed("123").holds(123.5));
        assert!(!Band::printed("123").holds(122.4) && !Band::printed("123").holds(123.6));
        assert!(Band::printed("0.993").holds(0.9934) && !Band::printed("0.993").holds(0.9936));
        assert!(!Band::printed("about 5").holds(5.0));
    }
}
