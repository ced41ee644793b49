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

/// The lines by the names of their cases. In the table, spaces in the names let a narrow page wrap them.
pub(crate) fn listed() -> BTreeMap<String, Difference> {
    // Below the heads of the columns and the line under them.
    include_str!("../../src/differences.md").lines().skip(2).map(line).collect()
}

fn line(text: &str) -> (String, Difference) {
    let columns: Vec<_> = text.trim_matches('|').split(" | ").map(str::trim).collect();
    let &[case, kernel, stack, reason] = columns.as_slice() else { panic!("four columns: {text}") };
    assert!(!reason.is_empty(), "a reason: {text}");
    (case.replace(' ', "_"), Difference { kernel: kernel.to_owned(), stack: stack.to_owned() })
}
