//! [`Journal`]: the calls of an endpoint on their way to a file.

use std::fmt;
use std::io::{self, Write};

use ackclock_control::tally::Tally;

use super::block::{self, HEAD, MAGIC};
use super::calls::{Call, ConnectionCall};
use super::record::{self, END, HEADER, OUTCOME, SENT, TIME, UPDATE_ENDS};
use super::sent::SentPacket;
use super::value::Value;
use crate::{JournalEnd, JournalHeader};
use ackclock_core::Instant;
use ackclock_form::Writer;

/// Where the calls of an endpoint are written. It holds back at most [`BLOCK`](Self::BLOCK) bytes, or what
/// came since [`flush`](Self::flush); a process that is killed loses that.
///
/// A failure to write ends the journal, never the endpoint.
pub struct Journal {
    out: Box<dyn Write + Send>,
    /// Room for the block's head, then the records that are not written yet.
    block: Writer,
    /// The record being made.
    record: Writer,
    blocks: u32,
    written: u64,
    calls: u64,
    limit: u64,
    last: Instant,
    end: Option<JournalEnd>,
}

impl Journal {
    /// Bytes of records that are held back before they are written.
    pub const BLOCK: usize = 64 << 10;

    /// The smallest limit: room for a header with some addresses, and for the end.
    pub const LIMIT_LEAST: u64 = 64 << 10;

    /// Begins a journal of at most `limit` bytes, with what the endpoint was made from.
    ///
    /// # Errors
    /// The header could not be written, or is longer than `limit`.
    pub fn begin(out: Box<dyn Write + Send>, header: &JournalHeader, limit: u64) -> io::Result<Self> {
        let mut journal = Self {
            out,
            block: empty_block(),
            record: Writer::default(),
            blocks: 0,
            written: 0,
            calls: 0,
            limit,
            last: header.start,
            end: None,
        };
        journal.out.write_all(MAGIC)?;
        journal.written = MAGIC.len() as u64;
        journal.record(|record| {
            record.push(HEADER);
            header.put(record);
        });
        match journal.try_flush() {
            Ok(()) if journal.end.is_some() => Err(io::ErrorKind::FileTooLarge.into()),
            begun => begun.map(|()| journal),
        }
    }

    /// Bytes written to the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.written
    }

    /// Calls recorded, without those of connections.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Why nothing more is written, if so.
    #[must_use]
    pub fn ended(&self) -> Option<JournalEnd> {
        self.end
    }

    /// Writes what was held back.
    #[inline]
    pub fn flush(&mut self) {
        if self.block.len() > HEAD && self.end.is_none() {
            self.write_block();
        }
    }

    /// Ends the journal, and says why in the file. A second end changes nothing.
    pub fn end(&mut self, why: JournalEnd) {
        self.flush();
        if self.end.is_some() {
            return;
        }
        self.write_end(why);
    }

    /// The driver's time at the last call.
    pub(super) fn last(&self) -> Instant {
        self.last
    }

    pub(super) fn call(&mut self, now: Instant, call: &Call) {
        if now != self.last {
            let (before, now_ns) = (self.last.as_nanos(), now.as_nanos());
            self.last = now;
            self.record(|record| {
                record.push(TIME);
                record::put_step(before, now_ns, record);
            });
        }
        self.calls.grow(u64::from(self.end.is_none()));
        self.record(|record| call.put(record));
    }

    pub(super) fn connection_call(&mut self, call: &ConnectionCall) {
        self.record(|record| call.put(record));
    }

    pub(super) fn outcome(&mut self, code: Option<u64>) {
        if let Some(code) = code {
            self.record(|record| {
                record.push(OUTCOME);
                code.put(record);
            });
        }
    }

    pub(super) fn sent(&mut self, sent: &SentPacket) {
        self.record(|record| {
            record.push(SENT);
            sent.put(record);
        });
    }

    pub(super) fn update_ends(&mut self) {
        self.record(|record| record.push(UPDATE_ENDS));
    }

    fn record(&mut self, put: impl FnOnce(&mut Writer)) {
        if self.end.is_some() {
            return;
        }
        self.record.clear();
        put(&mut self.record);
        if self.record.len() > block::CONTENT_MAX / 2 {
            return self.end(JournalEnd::TooLong);
        }
        self.record.len().put(&mut self.block);
        self.block.extend_from_slice(self.record.bytes());
        if self.block.len() >= Self::BLOCK {
            self.write_block();
        }
    }

    /// Writes the block if it fits below the limit, with room for the end.
    fn write_block(&mut self) {
        if let Err(error) = self.try_flush() {
            self.end = Some(JournalEnd::Failed(error.kind()));
        }
    }

    fn try_flush(&mut self) -> io::Result<()> {
        let after = self.written.saturating_add(self.block.len() as u64);
        if after.saturating_add(END_MAX) > self.limit {
            self.block.truncate(HEAD);
            self.write_end(JournalEnd::Limit);
            return Ok(());
        }
        block::seal(self.block.bytes_mut(), self.blocks);
        let written = self.out.write_all(self.block.bytes()).and_then(|()| self.out.flush());
        self.block.truncate(HEAD);
        written?;
        self.written = after;
        self.blocks = self.blocks.wrapping_add(1);
        Ok(())
    }

    fn write_end(&mut self, why: JournalEnd) {
        let mut record = Writer::default();
        record.push(END);
        why.put(&mut record);
        self.block.truncate(HEAD);
        record.len().put(&mut self.block);
        self.block.extend_from_slice(record.bytes());
        block::seal(self.block.bytes_mut(), self.blocks);
        let written = self.out.write_all(self.block.bytes()).and_then(|()| self.out.flush());
        self.end = Some(match written {
            Ok(()) => {
                self.written = self.written.saturating_add(self.block.len() as u64);
                why
            }
            Err(error) => JournalEnd::Failed(error.kind()),
        });
        self.block = Writer::default();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The call that panicked is the last one, and the file has no end.
            self.flush();
        } else {
            self.end(JournalEnd::Closed);
        }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("bytes", &self.written)
            .field("calls", &self.calls)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// Room for a block's head.
fn empty_block() -> Writer {
    let mut block = Writer::default();
    block.extend_from_slice(&[0; HEAD]);
    block
}

/// The longest block of an end.
const END_MAX: u64 = 64;
