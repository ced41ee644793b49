//! What these experiments share.

use super::trace_set::TraceSet;
use crate::papers::{Band, Value};

/// A value without a reason and without a spread.
pub(super) fn value(name: impl Into<String>, paper: &'static str, measured: f64, band: Band) -> Value {
    Value { name: name.into(), unit: "", paper, others: "", measured, spread: None, band, limit: None, reason: None }
}

/// Why shares of the paper's set are not those of this one.
pub(super) const OTHER_SET: &str = "it is a property of the set of transfers and not of an estimator alone, and the paper's set is another \
    one: paths, loads and queues of this one are drawn from the stated distribution and were not fitted to the paper's numbers. \
    Which of its properties makes the difference is not known";

/// How many of the steps from each value to the next do not decrease.
pub(super) fn rises(values: impl IntoIterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.into_iter().collect();
    values.windows(2).filter(|pair| pair[1] >= pair[0]).count() as f64
}

/// Spearman's rank correlation: 1 if both sides have the same order, -1 if the one has the other's reversed. Equal
/// values share the mean of their ranks.
pub(super) fn rank_correlation(left: &[f64], right: &[f64]) -> f64 {
    let ranks = |values: &[f64]| -> Vec<f64> {
        let below = |value: f64| values.iter().filter(|other| **other < value).count() as f64;
        let alike = |value: f64| values.iter().filter(|other| **other == value).count() as f64;
        values.iter().map(|&value| below(value) + (alike(value) - 1.0) / 2.0).collect()
    };
    let (left, right) = (ranks(left), ranks(right));
    let mean = (left.len() as f64 - 1.0) / 2.0;
    let product = |left: &[f64], right: &[f64]| -> f64 {
        left.iter().zip(right).map(|(left, right)| (left - mean) * (right - mean)).sum()
    };
    product(&left, &right) / (product(&left, &left) * product(&right, &right)).sqrt()
}

/// The pairs that the one side has in one order and the other in the reverse.
pub(super) fn reversals(left: &[f64], right: &[f64]) -> Vec<(usize, usize)> {
    let pairs = (0..left.len()).flat_map(|one| (one + 1..left.len()).map(move |other| (one, other)));
    pairs.filter(|&(one, other)| (left[one] - left[other]) * (right[one] - right[other]) < 0.0).collect()
}

/// A percentage with two decimals.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// A fraction; 0 if `of` is 0.
pub(super) fn share(part: usize, of: usize) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// How much of the set is assessed, in a sentence.
pub(super) fn about(set: &TraceSet) -> String {
    format!(
        "{} transfers were simulated, {} of them assessed; {} could not be (of these {}).",
        set.simulated,
        set.transfers.len(),
        set.left_out.len(),
        set.left_out.first().map_or("none for any reason", |why| why.in_words()),
    )
}

#[cfg(test)]
mod tests {
    use super::{rank_correlation, reversals, rises};

    #[test]
    fn orders_are_compared_by_rank() {
        assert_eq!(rank_correlation(&[1.0, 2.0, 3.0], &[10.0, 20.0, 90.0]), 1.0);
        assert_eq!(rank_correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), -1.0);
        // 1 - 6 * 2 / (4 * 15).
        assert!((rank_correlation(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 3.0, 4.0]) - 0.8).abs() < 1e-9);
        assert_eq!(reversals(&[1.0, 2.0, 3.0], &[2.0, 1.0, 3.0]), [(0, 1)]);
        assert_eq!(reversals(&[1.0, 1.0, 3.0], &[2.0, 1.0, 3.0]), []);
    }

    #[test]
    fn steps_that_do_not_go_down_are_counted() {
        assert_eq!(rises([3.0, 2.0, 1.0]), 0.0);
        assert_eq!(rises([3.0, 3.0, 4.0, 1.0]), 2.0);
    }
}
