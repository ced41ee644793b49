//! Code that these experiments share.

use std::collections::BTreeMap;

use super::trace_set::TraceSet;
use crate::many::Summary;
use crate::{Band, Value};

/// A value without a reason. The paper's rests on its traces.
pub(super) fn value(name: impl Into<String>, paper: &'static str, measured: Summary, band: Band) -> Value {
    Value { paper, band, ..measured.value(name, "").of_runs(PAPER_TRACES) }
}

/// The traces that the paper analyses in its section 2.
const PAPER_TRACES: usize = 14_433;

/// How many of the steps from each value to the next do not decrease.
pub(super) fn rises(values: impl IntoIterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.into_iter().collect();
    values.windows(2).filter(|pair| pair[1] >= pair[0]).count() as f64
}

/// Spearman's rank correlation: 1 if both sides have the same order, -1 if the one has the other's reversed.
/// Equal values share the mean of their ranks.
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

/// The least rank correlation of `n` values that chance reaches in at most 5 % of all orders without ties
/// (one-sided), exactly: the orders are counted by their sum of squared differences of ranks.
pub(super) fn least_significant(n: usize) -> f64 {
    let largest = n * (n * n - 1) / 3;
    // Half of the orders have at most half of the largest sum, so the tail of 5 % is below it.
    let sums = largest / 2 + 1;
    // By the set of ranks that the first places have taken: the number of ways to each sum.
    let mut ways = BTreeMap::from([(0_u32, vec![1_u64])]);
    for place in 0..n {
        let mut next: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (taken, ways) in &ways {
            for rank in (0..n).filter(|rank| taken & (1 << rank) == 0) {
                let more = place.abs_diff(rank).pow(2);
                let to = next.entry(taken | (1 << rank)).or_default();
                let reached = (ways.len() + more).min(sums);
                if to.len() < reached {
                    to.resize(reached, 0);
                }
                to.iter_mut().skip(more).zip(ways).for_each(|(to, ways)| *to += ways);
            }
        }
        ways = next;
    }
    let orders: u64 = (1..=n as u64).product();
    let within = |count: &u64| *count * 20 <= orders;
    let sums = ways.into_values().next().unwrap_or_default();
    let below = sums.iter().scan(0, |count, ways| {
        *count += ways;
        Some(*count)
    });
    let tail = below.take_while(within).count();
    // Sums are even, so the largest of the tail is even, too.
    let sum = tail.saturating_sub(1) & !1;
    1.0 - 2.0 * sum as f64 / largest as f64
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
    use super::{least_significant, rank_correlation, reversals, rises};

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
    fn the_least_significant_correlation_leaves_5_percent_of_the_orders_above_it() {
        // Of the 24 orders of four only the same one has a correlation of 1; 4 have at least 0.8.
        assert_eq!(least_significant(4), 1.0);
        // Of the 120 orders of five 1 has 1, and 4 more 0.9: 4.2 %.
        assert!((least_significant(5) - 0.9).abs() < 1e-9);
        // By listing all orders of eight.
        let (mut orders, mut reached) = (0, 0);
        let least = least_significant(8);
        each_order(&mut Vec::new(), &mut |order| {
            let ranks: Vec<f64> = (0..8).map(f64::from).collect();
            orders += 1;
            reached += u32::from(rank_correlation(&ranks, order) >= least - 1e-9);
        });
        assert_eq!(orders, 40_320);
        assert!(reached * 20 <= orders && reached * 24 > orders, "{reached} of {orders}");
        let rounded = [8, 13, 15].map(|n| (1000.0 * least_significant(n)).round() / 1000.0);
        assert_eq!(rounded, [0.643, 0.484, 0.446]);
    }

    fn each_order(order: &mut Vec<f64>, then: &mut impl FnMut(&[f64])) {
        if order.len() == 8 {
            return then(order);
        }
        for rank in (0..8).map(f64::from) {
            if !order.contains(&rank) {
                order.push(rank);
                each_order(order, then);
                order.pop();
            }
        }
    }

    #[test]
    fn steps_that_do_not_go_down_are_counted() {
        assert_eq!(rises([3.0, 2.0, 1.0]), 0.0);
        assert_eq!(rises([3.0, 3.0, 4.0, 1.0]), 2.0);
    }
}
