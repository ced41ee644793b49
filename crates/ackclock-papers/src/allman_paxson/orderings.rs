//! Whether the estimators of a table have the order that the paper gives them.

use super::shared::{least_significant, rank_correlation, reversals, value};
use super::timeouts::Row;
use crate::{Band, Table, Value};

const MEASURES: [&str; 3] = ["W", "W~", "B"];

/// Seen in the table of reversals.
const ALIKE: &str = "the pairs that change places are all those of G up to 100 ms (last table), whose W the \
    paper calls essentially identical: they differ by 1 % in the paper and here";

/// A rank correlation for each table and measure, and the pairs that change places. `measured` gives W, W~
/// and B of a preset.
pub(super) fn of(tables: &[(&str, &[Row]); 4], measured: impl Fn(&str) -> [f64; 3]) -> (Vec<Value>, Table) {
    let (mut values, mut reversed) = (Vec::new(), Vec::new());
    for (number, (_, rows)) in (1..).zip(tables) {
        let least = least_significant(rows.len());
        for (which, measure) in MEASURES.into_iter().enumerate() {
            let paper: Vec<f64> = rows.iter().map(|&(_, w, w_tilde, b)| [w, w_tilde, b][which]).collect();
            let ours: Vec<f64> = rows.iter().map(|(name, ..)| measured(name)[which]).collect();
            let name = format!("table {number}: rank correlation of {measure} with the paper's");
            let correlation = rank_correlation(&paper, &ours);
            let reason = (number == 2 && measure == "W").then_some(ALIKE);
            values.push(Value { reason, ..value(name, "1", correlation, Band::AtLeast(least)) });
            let pairs = reversals(&paper, &ours);
            let names = pairs.iter().map(|&(one, other)| format!("{}/{}", rows[one].0, rows[other].0));
            let names: Vec<String> = names.map(|names| names.replace("ap-", "")).collect();
            reversed.push(vec![
                number.to_string(),
                measure.to_owned(),
                format!("{correlation:.2}"),
                format!("{} of {}", pairs.len(), rows.len() * (rows.len() - 1) / 2),
                names.join(", "),
            ]);
        }
    }
    let head =
        ["table", "measure", "rank correlation", "pairs reversed", "which"].map(str::to_owned).to_vec();
    (
        values,
        Table {
            title: "The orders of the paper's tables that are reversed here".to_owned(),
            head,
            rows: reversed,
        },
    )
}
