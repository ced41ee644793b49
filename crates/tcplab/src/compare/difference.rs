//! The differences between two grids, in the words of the command line.

use serde_json::Value;
use tcplab::grid::Grid;

/// The options in which two grids differ, with both values; `None` if they are equal.
pub(super) fn difference(one: &Grid, other: &Grid) -> Option<String> {
    let (one, other) = (serde_json::to_value(one).ok()?, serde_json::to_value(other).ok()?);
    let differs = |(field, option): &(&str, &str)| {
        let (one, other) = (&one[*field], &other[*field]);
        (one != other).then(|| format!("{option} {} and {option} {}", words(one), words(other)))
    };
    let differences: Vec<String> = OPTIONS.iter().filter_map(differs).collect();
    (!differences.is_empty()).then(|| differences.join("; "))
}

fn words(value: &Value) -> String {
    match value {
        Value::Array(values) => values.iter().map(words).collect::<Vec<_>>().join(","),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The fields of a grid with their options.
const OPTIONS: [(&str, &str); 11] = [
    ("cc", "--cc"),
    ("profile", "--profile"),
    ("rates", "--rate"),
    ("delays", "--delay"),
    ("buffers", "--buffer"),
    ("losses", "--loss"),
    ("flows", "--flows"),
    ("queue", "--queue"),
    ("ecn", "--ecn"),
    ("duration", "--duration"),
    ("seeds", "--seeds"),
];

#[cfg(test)]
mod tests {
    use ackclock_sim::units::Span;

    use super::*;

    #[test]
    fn every_field_of_a_grid_has_its_option() {
        let fields = serde_json::to_value(Grid::default()).unwrap();
        let fields: Vec<&String> = fields.as_object().unwrap().keys().collect();
        assert_eq!(fields.len(), OPTIONS.len());
        assert!(fields.iter().all(|field| OPTIONS.iter().any(|(name, _)| name == *field)), "{fields:?}");
    }

    #[test]
    fn both_values_of_an_option_are_named() {
        let one = Grid { cc: vec!["cubic".into(), "bbr".into()], ..Grid::default() };
        assert_eq!(difference(&one, &one), None);
        let other = Grid { cc: vec!["cubic".into()], duration: Span::seconds(9), ..one.clone() };
        let wanted = "--cc cubic,bbr and --cc cubic; --duration 30s and --duration 9s";
        assert_eq!(difference(&one, &other).as_deref(), Some(wanted));
    }
}
