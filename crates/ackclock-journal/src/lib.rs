//! Recordings: every call of an endpoint in a file, and the same calls made again.
//!
//! An endpoint's packets, events and traces depend on its configuration, its secret and its calls with their
//! times, and on nothing else (ARCHITECTURE.md, "time is an argument"). A [`RecordedEndpoint`] passes each
//! call on and writes it to a [`Journal`]; a [`Replay`] reads them, makes them again on a new endpoint, and
//! compares each packet that leaves and each result with what was recorded.
//!
//! A recording leaves out what no decision depends on: the bytes that the application reads and writes, TCP's
//! payload in packets that arrive, and payload and transport checksum of packets that leave. It keeps their
//! lengths. Datagrams and packets that are not the endpoint's are kept whole, because an ICMP error may quote
//! them.
//!
#![doc = include_str!("format.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
// Tests index and cast freely: there a panic fails the test.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::indexing_slicing))]
// Each operation says whether it is checked, saturates or wraps (docs/security.md, "Arithmetic").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod block;
mod calls;
mod connection;
mod outcome;
mod record;
mod recorded;
mod replay;
mod sent;
mod settings;
mod value;
mod writer;

use std::fmt;
use std::io;

pub use self::connection::RecordedConnection;
pub use self::recorded::RecordedEndpoint;
pub use self::replay::{Changes, Departure, Difference, Replay, ReplayError, Seen, Step, ThawError};
pub use self::sent::SentPacket;
use self::value::Value;
pub use self::writer::Journal;
use ackclock_core::{EndpointConfig, Instant};
pub use ackclock_form::FormError;
use ackclock_form::{Reader, Writer};

/// The head of a journal: everything that an endpoint is made from.
#[derive(Clone, Debug)]
pub struct JournalHeader {
    /// The program that recorded.
    pub program: String,
    /// Nanoseconds since 1970 at time zero of the endpoint's driver; `None` if its time is virtual.
    pub epoch_unix_nanos: Option<u64>,
    /// The driver's time when the endpoint was made.
    pub start: Instant,
    /// The endpoint's configuration, its secret too.
    pub config: EndpointConfig,
}

/// Why a journal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalEnd {
    /// The endpoint was dropped, or the program ended the journal.
    Closed,
    /// The file has reached the size that it may have.
    Limit,
    /// A call was longer than a record may be.
    TooLong,
    /// The endpoint was given keys of TCP-AO, which are not written to files.
    Keys,
    /// Writing failed.
    Failed(io::ErrorKind),
}

impl fmt::Display for JournalEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the stack closed"),
            Self::Limit => f.write_str("the recording reached its size limit"),
            Self::TooLong => f.write_str("a call was too long to record"),
            Self::Keys => f.write_str("the stack was given keys of TCP-AO, which a recording never holds"),
            Self::Failed(io::ErrorKind::WouldBlock) => {
                f.write_str("the program that reads the recording is too slow")
            }
            Self::Failed(error) => write!(f, "the recording could not be written: {error}"),
        }
    }
}

impl Value for JournalEnd {
    fn put(&self, out: &mut Writer) {
        out.push(match self {
            Self::Closed | Self::Failed(_) => 0,
            Self::Limit => 1,
            Self::TooLong => 2,
            Self::Keys => 3,
        });
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        match input.byte()? {
            0 => Ok(Self::Closed),
            1 => Ok(Self::Limit),
            2 => Ok(Self::TooLong),
            3 => Ok(Self::Keys),
            code => Err(FormError::Code(code)),
        }
    }
}

impl Value for JournalHeader {
    fn put(&self, out: &mut Writer) {
        self.program.put(out);
        self.epoch_unix_nanos.put(out);
        self.start.put(out);
        self.config.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok(Self {
            program: Value::take(input)?,
            epoch_unix_nanos: Value::take(input)?,
            start: Value::take(input)?,
            config: Value::take(input)?,
        })
    }
}

/// Where a recording cannot be read any further, and why. Everything before it has been replayed.
#[derive(Debug, thiserror::Error)]
#[error("at byte {offset}: {kind}")]
pub struct Damage {
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The kind of damage.
    pub kind: DamageKind,
}

/// The kinds of damage to a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file could not be read.
    #[error(transparent)]
    Read(io::Error),
    /// It is something else.
    #[error("this is not a recording (tcpcat's --record writes them)")]
    NoJournal,
    /// It is from a version with another format.
    #[error("the recording has another version's format; replay it with the version that wrote it")]
    Version,
    /// The last block is not whole: the program was killed while it wrote, or the file is cut.
    #[error("the file ends within a block: the program was killed, or the file was cut")]
    Torn,
    /// Something changed the file after it was written.
    #[error("the block's checksum or number is wrong: the file is damaged")]
    Checksum,
    /// A record makes no sense, though its block's checksum is right.
    #[error("record {record}: {malformed}")]
    Malformed {
        /// Its number.
        record: u64,
        /// The fault in it.
        malformed: FormError,
    },
}

impl DamageKind {
    fn at(self, offset: u64) -> Damage {
        Damage { offset, kind: self }
    }
}

#[cfg(test)]
mod tests;
