//! What an experiment is, and what it finds.

use std::fmt;

use ackclock_trace::chart::Figure;
use serde::Serialize;
use tcplab::table::number;

/// One row of the list of experiments.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// Its id, for example `VE5/7`.
    pub(crate) id: &'static str,
    /// The paper and its section or figure, for example `Brakmo & Peterson 1995, figs. 5 and 7`.
    pub(crate) source: &'static str,
    /// What it shows, in a line.
    pub(crate) title: &'static str,
    /// The network, the connections, the number of seeds; the paper's open points and the choices made
    /// instead.
    pub(crate) set_up: &'static str,
    /// Runs it, on all cores if it has many runs.
    pub(crate) run: fn() -> anyhow::Result<Findings>,
}

/// What an experiment found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Findings {
    /// The values compared with the paper's, each with its verdict.
    pub(crate) values: Vec<Value>,
    /// Further measurements.
    pub(crate) tables: Vec<Table>,
    /// Pictures, with the stems of their file names.
    pub(crate) figures: Vec<(String, Figure)>,
    /// Notes for the reader: why a value is outside its band, how the set-up differs from the paper's.
    pub(crate) notes: Vec<String>,
}

/// A measured value beside the paper's.
#[derive(Debug, Serialize)]
pub(crate) struct Value {
    /// The quantity, for example `Vegas/Reno throughput`.
    pub(crate) name: String,
    /// Its unit; empty for ratios and counts.
    pub(crate) unit: &'static str,
    /// The paper's value in its own words; empty if it gives none.
    pub(crate) paper: &'static str,
    /// What another simulator gave for the same set-up, and which; empty if unknown.
    pub(crate) others: &'static str,
    /// The mean over the runs.
    pub(crate) measured: f64,
    /// The smallest and the largest of single runs, if there were several.
    pub(crate) spread: Option<(f64, f64)>,
    /// Where it must lie.
    pub(crate) band: Band,
    /// Why it may be outside, as found by investigation. Without a reason, a value outside fails the command.
    pub(crate) reason: Option<&'static str>,
}

/// Where a value must lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Band {
    /// Anywhere: it is only reported.
    Reported,
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
    Above(f64),
    Within(f64, f64),
}

/// The verdict on a value and its band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BandVerdict {
    /// It is inside, or there is no band.
    Ok,
    /// It is outside, and the reason is known and documented.
    Explained,
    /// It is outside without an explanation.
    Outside,
}

/// A table of text.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Value {
    pub(crate) fn verdict(&self) -> BandVerdict {
        match (self.band.holds(self.measured), self.reason) {
            (true, _) => BandVerdict::Ok,
            (false, Some(_)) => BandVerdict::Explained,
            (false, None) => BandVerdict::Outside,
        }
    }
}

impl Band {
    /// Whether `value` is inside. NaN is in no band, not even one that is only reported.
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::Reported => !value.is_nan(),
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
            Self::Reported => Ok(()),
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
            let (name, unit, paper, others, spread) = (String::new(), "", "", "", None);
            Value { name, unit, paper, others, measured, spread, band, reason }.verdict()
        };
        assert_eq!(value(2.0, Band::AtLeast(2.0), None), BandVerdict::Ok);
        assert_eq!(value(2.0, Band::Above(2.0), None), BandVerdict::Outside);
        assert_eq!(value(2.0, Band::Below(2.0), Some("why")), BandVerdict::Explained);
        assert_eq!(value(2.0, Band::AtMost(2.0), Some("why")), BandVerdict::Ok);
        assert_eq!(value(2.0, Band::Within(2.1, 3.0), None), BandVerdict::Outside);
        assert_eq!(value(f64::NAN, Band::Reported, None), BandVerdict::Outside);
    }
}
