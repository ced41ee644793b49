//! The output of `--json`, for every command: one object with the number of its schema.

use ackclock_cli::{Exit, Failure};
use serde::Serialize;

/// Grows when a field changes its meaning or goes; new ones may come.
pub(crate) const SCHEMA: u32 = 1;

/// A result of one command.
#[derive(Debug, Serialize)]
struct Answer<T> {
    schema: u32,
    #[serde(flatten)]
    result: T,
}

/// Why there is no result.
#[derive(Debug, Serialize)]
struct Refusal<'a> {
    exit_code: u8,
    error_kind: &'static str,
    error: &'a str,
    /// The remedy, if one is known.
    help: Option<&'a str>,
}

/// Prints a result.
pub(crate) fn show(result: impl Serialize) {
    match serde_json::to_string_pretty(&Answer { schema: SCHEMA, result }) {
        Ok(text) => show!("{text}"),
        Err(error) => say!("tcpcat: cannot write JSON: {error}"),
    }
}

/// Prints a failure that leaves no result.
pub(crate) fn refuse(exit: Exit, error: &str, help: Option<&str>) {
    show(Refusal { exit_code: exit.code(), error_kind: exit.kind().unwrap_or("failed"), error, help });
}

/// Says a failure, also as JSON if that is asked for; the code to exit with.
pub(crate) fn fail(failure: &Failure, json: bool) -> Exit {
    say!("tcpcat: {failure}");
    if json {
        refuse(failure.exit(), failure.message(), failure.help());
    }
    failure.exit()
}
