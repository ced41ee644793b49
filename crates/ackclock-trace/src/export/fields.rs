//! An entry as named values.

use ackclock_core::trace::{Entry, Shown};

use crate::file::Source;

/// A value of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A number.
    Number(i64),
    /// A name.
    Text(String),
}

/// The kind of an entry, and its values by name, in the order of [`COLUMNS`](super::COLUMNS). Sizes are in
/// bytes; names ending in `_us` are times in microseconds.
#[must_use]
pub fn fields(source: &Source, entry: &Entry) -> (&'static str, Vec<(&'static str, Value)>) {
    let (kind, shown) = entry.fields();
    let value = |shown| match shown {
        Shown::Number(number) => Value::Number(number),
        Shown::Text(text) => Value::Text(text.to_owned()),
        Shown::Flags(flags) => Value::Text(flag_names(flags)),
        Shown::Name(index) => Value::Text(source.name(index).to_owned()),
        Shown::State(state) => Value::Text(format!("{state:?}")),
        _ => Value::Text(String::new()),
    };
    (kind, shown.into_iter().map(|(name, shown)| (name, value(shown))).collect())
}

/// The control bits, as `SYN ACK`.
fn flag_names(flags: u8) -> String {
    const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    let set = NAMES.iter().enumerate().filter(|(bit, _)| flags >> bit & 1 == 1);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}
