//! The list of differences, as the documentation shows it.

use std::collections::BTreeMap;

/// One line.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The first answer of the kernel that differs.
    pub(crate) kernel: String,
    /// That of the stack.
    pub(crate) stack: String,
}

/// The lines by the names of their cases.
pub(crate) fn listed() -> BTreeMap<&'static str, Difference> {
    let lines = include_str!("../../src/differences.md").lines();
    lines.filter(|line| line.starts_with("| `")).map(line).collect()
}

fn line(text: &'static str) -> (&'static str, Difference) {
    let columns: Vec<_> = text.trim_matches('|').split(" | ").map(str::trim).collect();
    let &[case, kernel, stack, reason] = columns.as_slice() else { panic!("four columns: {text}") };
    assert!(!reason.is_empty(), "a reason: {text}");
    (case.trim_matches('`'), Difference { kernel: kernel.to_owned(), stack: stack.to_owned() })
}
