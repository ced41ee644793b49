//! How far a value of the trace set would move with other transfers: the bootstrap of B. Efron, "Bootstrap
//! Methods: Another Look at the Jackknife", Annals of Statistics 7(1), 1979.

use ackclock_sim::rng::Rng;

use crate::many::Summary;

const RESAMPLES: usize = 200;

/// `measure` of all `transfers`, by their numbers, and its deviation: that of one transfer, so that the
/// standard error over n of them is the spread of `measure` over resamples of n, drawn with replacement. The
/// same transfers are drawn for every value.
pub(super) fn resampled(transfers: usize, measure: impl Fn(&[usize]) -> f64) -> Summary {
    let mut rng = Rng::derive(transfers as u64, "bootstrap");
    let draws = (0..RESAMPLES).map(|_| {
        let drawn: Vec<usize> = (0..transfers).map(|_| rng.below(transfers as u64) as usize).collect();
        measure(&drawn)
    });
    // A resample may lack what a ratio divides by.
    let spread = Summary::of(draws.filter(|value| value.is_finite()));
    let all: Vec<usize> = (0..transfers).collect();
    let deviation = spread.deviation * (transfers as f64).sqrt();
    Summary { mean: measure(&all), least: f64::NAN, most: f64::NAN, count: transfers, deviation }
}

#[cfg(test)]
mod tests {
    use super::resampled;

    #[test]
    fn the_error_of_a_share_is_that_of_a_binomial_count() {
        // A quarter of 400: sqrt(p (1 - p) / n) = 0.0217, which 200 resamples meet within a tenth or so.
        let share = |of: &[usize]| of.iter().filter(|one| **one < 100).count() as f64 / of.len() as f64;
        let summary = resampled(400, share);
        assert_eq!((summary.mean, summary.count), (0.25, 400));
        assert!((summary.error() - 0.0217).abs() < 0.004, "{}", summary.error());
        assert_eq!(resampled(400, share).deviation, summary.deviation);
        assert_eq!(resampled(10, |_| 2.0).deviation, 0.0);
    }
}
