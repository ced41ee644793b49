//! Options of the small programs, whose command lines scripts write: `--name`, or `--name value`.

/// Whether `--name` is there.
#[must_use]
pub fn flag(name: &str) -> bool {
    std::env::args().any(|arg| arg.strip_prefix("--") == Some(name))
}

/// The word behind `--name`.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    std::env::args().skip_while(|arg| arg.strip_prefix("--") != Some(name)).nth(1)
}

/// The whole number behind `--name`.
///
/// # Panics
/// The word there is something else.
#[must_use]
pub fn number(name: &str) -> Option<usize> {
    let parsed = |value: String| {
        value.parse().unwrap_or_else(|_| panic!("--{name} takes a whole number, not {value}"))
    };
    text(name).map(parsed)
}
