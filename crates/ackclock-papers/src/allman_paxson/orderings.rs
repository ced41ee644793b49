//! Whether the estimators of a table have the order that the paper gives them.

use super::shared::{least_significant, rank_correlation, reversals};
use super::timeouts::{All, Chosen, Row};
use crate::{Band, Table, Value};

/// A measure with its name.
type Measure = (&'static str, fn(&Chosen<'_>, &str) -> f64);

const MEASURES: [Measure; 3] =
    [("W", |of, name| of.w(name)), ("W~", |of, name| of.w_tilde(name)), ("B", |of, name| of.b(name))];

/// Seen in the table of reversals.
const ALIKE: &str = "the pairs that change places are all those of G up to 100 ms (last table), whose W the \
    paper calls essentially identical: they differ by 1 % in the paper and here";

/// A rank correlation for each table and measure, and the pairs that change places.
pub(super) fn of(tables: &[(&str, &[Row]); 4], all: &All) -> (Vec<Value>, Table) {
    let (mut values, mut reversed) = (Vec::new(), Vec::new());
    for (number, (_, rows)) in (1..).zip(tables) {
        let least = least_significant(rows.len());
        for (which, (measure, of)) in MEASURES.into_iter().enumerate() {
            let paper: Vec<f64> = rows.iter().map(|&(_, w, w_tilde, b)| [w, w_tilde, b][which]).collect();
            let measured =
                |chosen: &Chosen<'_>| rows.iter().map(|(name, ..)| of(chosen, name)).collect::<Vec<f64>>();
            let name = format!("table {number}: rank correlation of {measure} with the paper's");
            let correlation = |chosen: &Chosen<'_>| rank_correlation(&paper, &measured(chosen));
            let reason = (number == 2 && measure == "W").then_some(ALIKE);
            let value = all.value(&name, "1", correlation, Band::AtLeast(least));
            let ours = all.of_all(measured);
            let correlation = value.measured;
            values.push(Value { reason, ..value });
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
