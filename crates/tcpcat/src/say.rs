//! Words to the user. A reader that has gone away, or a full disk behind a redirection, costs the words and not the
//! transfer: `println!` and `eprintln!` would panic.

/// A line on stderr.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        // Nobody is left to be told.
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

/// A line on stdout.
macro_rules! show {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        // As above.
        let _ = writeln!(std::io::stdout(), $($words)*);
    }};
}
