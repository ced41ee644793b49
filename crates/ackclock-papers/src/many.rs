//! Runs over many seeds, and their summaries.

use ackclock_sim::{Report, Scenario};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::{Band, Value, changes};

/// Runs a scenario.
pub(crate) fn run(scenario: &Scenario) -> anyhow::Result<Report> {
    Ok(changes::simulation(scenario)?.run())
}

/// Runs `one` for each item, on all cores. The results are in the items' order, whichever finished first.
pub(crate) fn each<I, T, R>(
    items: I,
    one: impl Fn(T) -> anyhow::Result<R> + Send + Sync,
) -> anyhow::Result<Vec<R>>
where
    I: IntoIterator<Item = T>,
    T: Send,
    R: Send,
{
    let items: Vec<T> = items.into_iter().collect();
    items.into_par_iter().map(one).collect()
}

/// Mean, least and largest of a measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub mean: f64,
    pub least: f64,
    pub most: f64,
    pub count: usize,
    /// The standard deviation of one.
    pub deviation: f64,
}

impl Summary {
    /// Summarises values; zeros without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        if values.is_empty() {
            return Self { mean: 0.0, least: 0.0, most: 0.0, count: 0, deviation: 0.0 };
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        // Rounding leaves something of equal values.
        let squares = if squares < 1e-20 * mean * mean { 0.0 } else { squares };
        Self {
            mean,
            deviation: (squares / (values.len() - 1).max(1) as f64).sqrt(),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            count: values.len(),
        }
    }

    /// Summarises `measure` of each report.
    pub fn over(reports: &[Report], measure: impl Fn(&Report) -> f64) -> Self {
        Self::of(reports.iter().map(measure))
    }

    /// The standard error of the mean.
    pub fn error(self) -> f64 {
        self.deviation / (self.count.max(1) as f64).sqrt()
    }

    /// The ratio of two means, with the deviation that it would have for one run of each: both relative ones,
    /// which add as squares. There is no range.
    pub fn over_mean(self, other: Self) -> Self {
        let mean = self.mean / other.mean;
        let deviation = mean.abs() * (self.deviation / self.mean).hypot(other.deviation / other.mean);
        let deviation = if deviation.is_finite() { deviation } else { 0.0 };
        Self { mean, least: f64::NAN, most: f64::NAN, count: self.count.min(other.count), deviation }
    }

    /// A value without a reference. The caller fills in what there is.
    pub fn value(self, name: impl Into<String>, unit: &'static str) -> Value {
        Value {
            name: name.into(),
            unit,
            paper: "",
            others: "",
            measured: self.mean,
            spread: (self.count > 1 && !self.least.is_nan()).then_some((self.least, self.most)),
            runs: self.count,
            deviation: self.deviation,
            paper_runs: 1,
            band: Band::NoReference,
            limit: None,
            reason: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use ackclock_sim::TrafficConfig;
    use ackclock_sim::units::{Bytes, Span};

    use super::*;
    use crate::net::{BOTTLENECK, fig6};

    #[test]
    fn runs_are_in_the_order_of_their_seeds_and_repeat() {
        let transfer = TrafficConfig::bulk("transfer", "a1", "b1", Some(Bytes(100_000)));
        let scenario = |seed| {
            let start = Span::millis(10 * seed);
            fig6(200_000, 10).scenario(Span::seconds(10)).traffic(transfer.clone().start(start))
        };
        let reports = each(3..7, |seed| run(&scenario(seed).seed(seed))).unwrap();
        assert_eq!(reports.iter().map(|report| report.seed).collect::<Vec<_>>(), [3, 4, 5, 6]);
        let sent = Summary::over(&reports, |report| report.link(BOTTLENECK).unwrap().sent_bytes as f64);
        assert!(sent.count == 4 && sent.least > 100_000.0, "{sent:?}");
        let again = each(3..7, |seed| run(&scenario(seed).seed(seed))).unwrap();
        assert_eq!(format!("{reports:?}"), format!("{again:?}"));
    }

    #[test]
    fn a_summary_is_mean_least_and_most() {
        let summary = Summary::of([3.0, 1.0, 2.0]);
        assert_eq!((summary.mean, summary.least, summary.most, summary.deviation), (2.0, 1.0, 3.0, 1.0));
        let ratio = summary.over_mean(Summary::of([4.0, 4.0]));
        assert_eq!((ratio.mean, ratio.deviation, ratio.count), (0.5, 0.25, 2));
        assert_eq!(ratio.value("x", "").spread, None);
        assert_eq!(summary.value("x", "s").spread, Some((1.0, 3.0)));
        assert_eq!(Summary::of([5.0]).value("x", "s").spread, None);
    }
}
