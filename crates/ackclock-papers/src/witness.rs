//! The runs of models in Python, which were written from a paper's rules without this code
//! (`tests/reference`). Published beside ours, they show which differences come from the rules.

use anyhow::Context;

use crate::many::Summary;

/// A model's runs as CSV, made by `scripts/vectors.py`: the names of the columns, then a line for each run.
pub(crate) struct Witness(&'static str);

impl Witness {
    /// The runs in this text.
    pub const fn new(csv: &'static str) -> Self {
        Self(csv)
    }

    /// A column over the runs whose lines begin with these cells.
    pub fn of(&self, first: &[&str], column: &str) -> anyhow::Result<Summary> {
        let mut lines = self.0.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let place = lines.next().and_then(|names| names.iter().position(|name| *name == column));
        let place = place.with_context(|| format!("the model has no `{column}`"))?;
        let these = lines.filter(|cells| cells.starts_with(first));
        let numbers: Vec<f64> = these.filter_map(|cells| cells.get(place)?.parse().ok()).collect();
        anyhow::ensure!(!numbers.is_empty(), "the model has no `{column}` of {}", first.join(", "));
        Ok(Summary::of(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_found_by_its_name_and_runs_by_their_first_cells() {
        let model = Witness::new("sender,run,kb_s\nreno,0,10\nvegas,0,7\nreno,1,12\nreno,2,\n");
        let reno = model.of(&["reno"], "kb_s").unwrap();
        assert_eq!((reno.mean, reno.count), (11.0, 2));
        assert_eq!(model.of(&["reno", "1"], "kb_s").unwrap().mean, 12.0);
        let error = |first: &str, column| model.of(&[first], column).unwrap_err().to_string();
        assert_eq!(error("tahoe", "kb_s"), "the model has no `kb_s` of tahoe");
        assert_eq!(error("reno", "drops"), "the model has no `drops`");
    }
}
