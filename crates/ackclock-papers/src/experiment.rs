//! What an experiment is, and what it finds.

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
    /// What it shows, in a line.
    pub title: &'static str,
    /// The network, the connections, the number of seeds; the paper's open points and the choices made
    /// instead.
    pub set_up: &'static str,
    /// Runs it, on all cores if it has many runs.
    pub(crate) run: fn() -> anyhow::Result<Findings>,
}

/// What an experiment found.
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
    /// What another simulator gave for the same set-up, and which; empty if unknown.
    pub others: &'static str,
    /// The mean over the runs.
    pub measured: f64,
    /// The smallest and the largest of single runs, if there were several.
    pub spread: Option<(f64, f64)>,
    /// Where it must lie. It follows from the paper or from the other simulator, never from what is measured.
    pub band: Band,
    /// What every correct implementation must reach, if that was decided before the value was measured. No
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

/// The verdict on a value and its band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BandVerdict {
    /// It is inside.
    Ok,
    /// There is nothing to judge it by.
    NoReference,
    /// It is outside, and the reason is known and documented.
    Explained,
    /// It is outside without an explanation.
    Outside,
}

/// A table of text.
#[derive(Debug, Serialize)]
pub struct Table {
    /// What it shows.
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
        if self.limit.is_some_and(|limit| !limit.holds(self.measured)) {
            return BandVerdict::Outside;
        }
        match (self.band.holds(self.measured), self.reason) {
            (true, _) if self.band == Band::NoReference => BandVerdict::NoReference,
            (true, _) => BandVerdict::Ok,
            (false, Some(_)) => BandVerdict::Explained,
            (false, None) => BandVerdict::Outside,
        }
    }

    /// Holds it against the number that the paper prints, to the paper's last digit.
    pub(crate) fn printed(self, paper: &'static str) -> Self {
        Self { paper, band: Band::printed(paper), ..self }
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
    /// What the papers call unchanged, unaffected or the same: Brakmo and Peterson (1995, §IV-B1) say of
    /// ratios of 1.02 and 1.09 that the throughput "stays pretty much unchanged".
    pub(crate) const UNCHANGED: Self = Self::Within(0.91, 1.09);

    /// A number as it is printed: within half a unit of its last digit. Other words are a band that holds
    /// nothing.
    pub(crate) fn printed(number: &str) -> Self {
        Self::between(number, number)
    }

    /// From the smaller to the larger of two printed numbers, with half a unit of the last digit on either
    /// side.
    pub(crate) fn between(one: &str, other: &str) -> Self {
        let [(one, half_one), (other, half_other)] = [one, other].map(|number| {
            let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            (number.parse().unwrap_or(f64::NAN), 0.5 / 10_f64.powi(decimals as i32))
        });
        Self::Within((one - half_one).min(other - half_other), (one + half_one).max(other + half_other))
    }

    /// Whether `value` is inside. NaN is in no band, not even where there is no reference.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::NoReference => !value.is_nan(),
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Below(limit) => value < limit,
            Self::Above(limit) => value > limit,
            Self::Within(least, most) => (least..=most).contains(&value),
        }
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReference => Ok(()),
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
            Self::Ok => "ok",
            Self::NoReference => "no reference",
            Self::Explained => "outside, with reason",
            Self::Outside => "OUTSIDE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_outside_its_band_needs_a_reason() {
        let value = |measured, band, reason| {
            let (name, unit, paper, others, spread, limit) = (String::new(), "", "", "", None, None);
            Value { name, unit, paper, others, measured, spread, band, limit, reason }
        };
        let verdict = |measured, band, reason| value(measured, band, reason).verdict();
        assert_eq!(verdict(2.0, Band::AtLeast(2.0), None), BandVerdict::Ok);
        assert_eq!(verdict(2.0, Band::Above(2.0), None), BandVerdict::Outside);
        assert_eq!(verdict(2.0, Band::Below(2.0), Some("why")), BandVerdict::Explained);
        assert_eq!(verdict(2.0, Band::AtMost(2.0), Some("why")), BandVerdict::Ok);
        assert_eq!(verdict(2.0, Band::Within(2.1, 3.0), None), BandVerdict::Outside);
        assert_eq!(verdict(2.0, Band::NoReference, None), BandVerdict::NoReference);
        assert_eq!(verdict(f64::NAN, Band::NoReference, None), BandVerdict::Outside);
        for (measured, expected) in [(2.0, BandVerdict::Explained), (1.9, BandVerdict::Outside)] {
            let limited = value(measured, Band::Above(2.0), Some("why")).limited(Band::AtLeast(2.0));
            assert_eq!(limited.verdict(), expected);
        }
    }

    #[test]
    fn a_printed_number_is_a_band_of_half_a_unit_of_its_last_digit() {
        assert!(Band::printed("123").holds(122.5) && Band::printed("123").holds(123.5));
        assert!(!Band::printed("123").holds(122.4) && !Band::printed("123").holds(123.6));
        assert!(Band::printed("0.993").holds(0.9934) && !Band::printed("0.993").holds(0.9936));
        assert!(Band::between("66", "56").holds(55.6) && Band::between("66", "56").holds(66.4));
        assert!(!Band::between("66", "56").holds(55.4) && !Band::between("66", "56").holds(66.6));
        assert!(!Band::printed("about 5").holds(5.0));
    }
}
