//! Words to the user: results on stdout, everything else on stderr. `println!` and `eprintln!` would panic
//! when a reader has gone away or a disk is full.
//!
//! A result that cannot be written does not stop a transfer, but the command then ends with [`Exit::File`]. A
//! reader that has seen enough, such as `head`, is not a failure.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use ackclock_cli::{Exit, Failure, output};

/// A line on stderr.
macro_rules! say {
    ($($words:tt)*) => { ackclock_cli::output::say(format_args!($($words)*)) };
}

/// A line on stdout.
macro_rules! show {
    ($($words:tt)*) => { $crate::say::show(format_args!("{}\n", format_args!($($words)*))) };
}

/// The first failure to write a result.
static FAILED: Mutex<Option<Failure>> = Mutex::new(None);

/// Writes a result to stdout.
pub(crate) fn show(result: fmt::Arguments<'_>) {
    note(output::print(result));
}

/// Notes a failure to write to stdout.
pub(crate) fn note(written: Result<(), Failure>) {
    let Err(failure) = written else { return };
    FAILED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
}

/// The exit of the command, which changes only if a result is missing on stdout.
pub(crate) fn end(exit: Exit) -> Exit {
    match FAILED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(failure) if exit == Exit::Done => {
            say!("tcpcat: {failure}");
            failure.exit()
        }
        _ => exit,
    }
}
