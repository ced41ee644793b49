//! Trace files.
//!
//! A file begins with [`MAGIC`]. Then come chunks, each with a head of 12 bytes, with numbers in
//! little-endian order:
//!
//! | bytes | what |
//! |---|---|
//! | 0 | kind: 1 the file's origin, 2 a source, 3 records |
//! | 1-3 | zero |
//! | 4-7 | number of the source, for kinds 2 and 3 |
//! | 8-11 | bytes that follow |
//!
//! Origin and source are JSON ([`Origin`], [`Source`]). A later description of a source replaces an earlier
//! one. A chunk of records holds: how many records are missing before it (8 bytes), why they were delivered
//! (1 byte, the code of [`BatchCause`](ackclock_core::trace::BatchCause)), 7 zero bytes, then
//! [`Record`](ackclock_core::trace::Record)s of 16 bytes. Readers skip chunks of unknown kinds. A truncated
//! file is read up to where it ends.

mod reader;
mod writer;

use serde::{Deserialize, Serialize};

pub use reader::{Damage, ReadError, Trace, TracedSource};
pub use writer::Writer;

/// The first bytes of a file; the last but one is the version.
pub const MAGIC: &[u8; 16] = b"ackclock trace\x01\n";

/// Where a file comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The program that wrote it.
    pub program: String,
    /// Nanoseconds since 1970 at time zero of the records; absent if time is virtual. Records carry the times
    /// of the endpoint's own clock, which leaves out pauses of the process: a wall-clock time computed from
    /// them lags by the pauses before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_unix_nanos: Option<u64>,
}

/// The source of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Source {
    /// One end of a connection.
    Connection {
        /// The host, if a file has several.
        #[serde(default)]
        host: String,
        /// Its number on that host.
        number: u64,
        /// This end, for example `10.0.0.1:40000`.
        local: std::net::SocketAddr,
        /// The other end.
        remote: std::net::SocketAddr,
        /// Its profile.
        profile: String,
        /// Its congestion controller.
        congestion: String,
        /// Names of the controller's numbers.
        names: Vec<String>,
        /// Whether a packet capture saw it from outside. The reasons for sending are then inferred, and what
        /// packets do not show is missing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        captured: bool,
    },
    /// The queue before a simulated link.
    Queue {
        /// The link and its direction, for example `r1-r2:there`.
        link: String,
        /// Names of the rules that drop packets.
        names: Vec<String>,
    },
}

impl Source {
    /// Whether it is a connection, not a queue.
    #[must_use]
    pub fn is_connection(&self) -> bool {
        matches!(self, Self::Connection { .. })
    }

    /// Whether it is a connection seen by a packet capture.
    #[must_use]
    pub fn is_captured(&self) -> bool {
        matches!(self, Self::Connection { captured: true, .. })
    }

    /// The name for the index in an entry.
    #[must_use]
    pub fn name(&self, index: u8) -> &str {
        let (Self::Connection { names, .. } | Self::Queue { names, .. }) = self;
        names.get(usize::from(index)).map_or("?", String::as_str)
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connection { host, local, remote, .. } if host.is_empty() => {
                write!(f, "{local} > {remote}")
            }
            Self::Connection { host, local, remote, .. } => write!(f, "{host}: {local} > {remote}"),
            Self::Queue { link, .. } => write!(f, "queue {link}"),
        }
    }
}

const ORIGIN: u8 = 1;
const SOURCE: u8 = 2;
const RECORDS: u8 = 3;
/// Bytes of a chunk before its content.
const HEAD: usize = 12;
/// Bytes of a chunk's content before its records.
const RECORDS_HEAD: usize = 16;
/// The largest content of a chunk. More is damage.
const CHUNK_MAX: usize = 1 << 26;

#[cfg(test)]
mod tests;
