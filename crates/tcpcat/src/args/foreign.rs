//! Flags of other programs, and what does the same here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A flag that nc or its relatives have, and what to use.
const FLAGS: [(&str, &str); 6] = [
    ("-u", "tcpcat moves data over TCP only; for UDP use nc -u"),
    ("-e", "tcpcat runs no program; join one to it by pipes, as in mkfifo p; sh < p | tcpcat -l PORT > p"),
    ("-c", "tcpcat runs no program; join one to it by pipes, as in mkfifo p; sh < p | tcpcat -l PORT > p"),
    (
        "-i",
        "--rate RATE slows the data down, --stats=TIME shows the connection, --interface NAME takes a device",
    ),
    ("-x", "tcpcat speaks to no proxy; reach it through a tunnel of ssh -L"),
    ("-r", "tcpcat chooses a free local port by itself, at random; -p PORT sets it"),
];

/// Adds what a flag of another program is called here.
pub(super) fn explain(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    // Behind other letters, as in `-lu`, clap names the letter alone.
    let known = FLAGS.iter().find(|(flag, _)| given == flag);
    if let Some((_, instead)) = known {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![(*instead).into()]));
    }
    error
}
