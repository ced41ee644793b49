//! Reads a TOML file into a scenario, and finds the line of each error.
//!
//! The file is parsed twice: into a tree with positions, and into the scenario. Errors of the second parse
//! and of the check are looked up in the tree, so the scenario's types carry no positions.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::check::{KeyPath, PathStep, unknown};
use super::{Problem, Scenario};

/// An error in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {key}{}{what}", if key.is_empty() { "" } else { ": " })]
pub struct ScenarioError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The key, with its enclosing tables; empty if the text is not TOML.
    pub key: String,
    /// The value found there, and those that are allowed.
    pub what: String,
}

/// Reads a scenario, and finishes it with `finish`, whose problems are located, too.
pub(super) fn read(
    file: &str,
    text: &str,
    finish: impl FnOnce(&mut Scenario) -> Result<(), Problem>,
) -> Result<Scenario, ScenarioError> {
    let at = |offset: usize, key: String, what: String| {
        let line = text.get(..offset).unwrap_or(text).matches('\n').count() + 1;
        ScenarioError { file: file.to_owned(), line, key, what }
    };
    let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    let tree =
        DeTable::parse(text).map_err(|error| at(start(&error), String::new(), error.message().to_owned()))?;
    let tree = tree.get_ref();
    let mut scenario: Scenario = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        let mut path = Vec::new();
        if !span.is_empty() {
            find(tree, &span, error.message(), &mut path);
        }
        at(span.start, KeyPath(&path).to_string(), in_our_words(error.message()))
    })?;
    required(tree).and_then(|()| finish(&mut scenario)).map_err(|problem| {
        let Problem { path, what } = &problem;
        at(position(tree, path), KeyPath(path).to_string(), what.clone())
    })?;
    Ok(scenario)
}

/// Whether each direction of a link without a trace has a rate and a delay. Beside a trace, they may be
/// missing, so the reader of a direction lets them.
fn required(tree: &DeTable<'_>) -> Result<(), Problem> {
    let links = tree.get("link").and_then(|links| links.get_ref().as_array());
    for (index, link) in links.into_iter().flatten().enumerate() {
        for way in ["there", "back"] {
            let Some(direction) = link.get_ref().get(way).and_then(|way| way.get_ref().as_table()) else {
                continue;
            };
            let lacks = ["rate", "delay"].into_iter().find(|key| !direction.contains_key(*key));
            if let Some(key) = lacks.filter(|_| !direction.contains_key("trace")) {
                return Err(Problem::new(&format!("link[{index}].{way}"), format!("lacks the key `{key}`")));
            }
        }
    }
    Ok(())
}

/// The path to the value at `span`: the deepest key or value that encloses it. If that is a table, because
/// the reader of an enum knows no better, the path goes on to the text that `message` quotes.
fn find(table: &DeTable<'_>, span: &Range<usize>, message: &str, path: &mut Vec<PathStep>) {
    for (key, value) in table.iter() {
        let is_key = encloses(&key.span(), span);
        if is_key || encloses(&value.span(), span) || holds(value.get_ref(), span) {
            path.push(PathStep::Key(key.get_ref().to_string()));
            if !is_key {
                find_in(value.get_ref(), span, message, path);
            }
            return;
        }
    }
    let quoted = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(text) => {
            let number = text.trim();
            message.starts_with(&format!("found `{text}`"))
                || message.starts_with(&format!("`{number}` has no unit"))
        }
        _ => false,
    };
    if let Some((key, _)) = table.iter().find(|(_, value)| quoted(value)) {
        path.push(PathStep::Key(key.get_ref().to_string()));
    }
}

fn find_in(value: &DeValue<'_>, span: &Range<usize>, message: &str, path: &mut Vec<PathStep>) {
    match value {
        DeValue::Table(table) => find(table, span, message, path),
        DeValue::Array(array) => {
            let element = (0..)
                .zip(array.iter())
                .find(|(_, element)| encloses(&element.span(), span) || holds(element.get_ref(), span));
            if let Some((index, element)) = element {
                path.push(PathStep::Index(index));
                find_in(element.get_ref(), span, message, path);
            }
        }
        _ => {}
    }
}

/// Whether something within `value` encloses `span`. A table's span is only its header; its contents may be
/// anywhere.
fn holds(value: &DeValue<'_>, span: &Range<usize>) -> bool {
    let inside = |value: &Spanned<DeValue<'_>>| encloses(&value.span(), span) || holds(value.get_ref(), span);
    match value {
        DeValue::Table(table) => {
            table.iter().any(|(key, value)| encloses(&key.span(), span) || inside(value))
        }
        DeValue::Array(array) => array.iter().any(inside),
        _ => false,
    }
}

fn encloses(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// The position of `path`, or of its longest part that exists.
fn position(tree: &DeTable<'_>, path: &[PathStep]) -> usize {
    let (mut table, mut array) = (Some(tree), None);
    let mut found = 0;
    for place in path {
        let value: Option<&Spanned<DeValue<'_>>> = match place {
            PathStep::Key(name) => {
                let entry = table
                    .and_then(|table| table.iter().find(|(key, _)| key.get_ref().as_ref() == name.as_str()));
                entry.map(|(key, value)| {
                    found = key.span().start;
                    value
                })
            }
            PathStep::Index(index) => {
                let element: Option<&Spanned<DeValue<'_>>> =
                    array.and_then(|array: &toml::de::DeArray<'_>| array.get(*index));
                element.inspect(|element| found = element.span().start)
            }
        };
        (table, array) = match value.map(Spanned::get_ref) {
            Some(DeValue::Table(table)) => (Some(table), None),
            Some(DeValue::Array(array)) => (None, Some(array)),
            _ => (None, None),
        };
    }
    found
}

/// Rephrases serde's sentences: what was found first, what is nearest last.
pub(super) fn in_our_words(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((found, names))
            if message.starts_with("unknown field") || message.starts_with("unknown variant") =>
        {
            unknown(found, names.iter().copied())
        }
        Some((key, _)) if message.starts_with("missing field") => format!("lacks the key `{key}`"),
        _ => message
            .replace("invalid type: ", "found ")
            .replace("invalid value: ", "found ")
            .replace(", expected ", "; allowed is "),
    }
}
