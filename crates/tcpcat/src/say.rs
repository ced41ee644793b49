//! Words to the user: results on stdout, everything else on stderr. `println!` and `eprintln!` would panic
//! when a reader has gone away or a disk is full.
//!
//! A result that cannot be written does not stop a transfer, but the command then ends with [`Exit::File`]. A
//! reader that has seen enough, such as `head`, is not a failure.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

use crate::exit::{Exit, Failure};

/// A line on stderr.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        // Nothing can be reported if stderr fails.
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

/// A line on stdout.
macro_rules! show {
    ($($words:tt)*) => { $crate::say::show(format_args!("{}\n", format_args!($($words)*))) };
}

/// The first failure to write a result.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Writes a result to stdout.
pub(crate) fn show(result: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    note(out.write_fmt(result).and_then(|()| out.flush()));
}

/// Notes a failure to write to stdout.
pub(crate) fn note(written: io::Result<()>) {
    let Err(error) = written else { return };
    let mut failed = FAILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    failed.get_or_insert(error);
}

/// The exit of the command, which changes only if a result is missing on stdout.
pub(crate) fn end(exit: Exit) -> Exit {
    let failed = FAILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    match failed {
        Some(error) if exit == Exit::Done && error.kind() != io::ErrorKind::BrokenPipe => {
            let failure = Failure::file("write", Path::new("stdout"), &error);
            say!("tcpcat: {failure}");
            failure.exit()
        }
        _ => exit,
    }
}
