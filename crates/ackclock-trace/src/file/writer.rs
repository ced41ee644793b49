//! Writing trace files, batch by batch.

use std::collections::HashMap;
use std::io::{self, Write};

use ackclock_core::trace::{Batch, BatchCause, Record};

use super::{CHUNK_MAX, HEAD, MAGIC, ORIGIN, Origin, RECORDS, RECORDS_HEAD, SOURCE, Source};

/// Writes a trace file. Each batch is complete when the call returns, so a file that ends early is intact up
/// to there.
///
/// ```
/// use ackclock_trace::file::{Origin, Trace, Writer};
///
/// let mut file = Vec::new();
/// Writer::new(&mut file, &Origin { program: "example".into(), ..Origin::default() })?;
/// assert_eq!(Trace::read(&file)?.origin.program, "example");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer<W> {
    into: W,
    /// Each source as last written, with its number.
    sources: HashMap<Key, (u32, Source)>,
}

/// The key of a source.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Connection(String, u64),
    Queue(String),
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn new(mut into: W, origin: &Origin) -> io::Result<Self> {
        into.write_all(MAGIC)?;
        let mut writer = Self { into, sources: HashMap::new() };
        writer.chunk(ORIGIN, 0, &[&serde_json::to_vec(origin)?])?;
        Ok(writer)
    }

    /// Adds a batch from a connection of `host`.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn batch(&mut self, host: &str, batch: &Batch) -> io::Result<()> {
        let source = Source::Connection {
            host: host.to_owned(),
            number: batch.connection,
            local: batch.tuple.local(),
            remote: batch.tuple.remote(),
            profile: batch.profile.to_owned(),
            congestion: batch.congestion.to_owned(),
            names: batch.names.iter().map(|&name| name.to_owned()).collect(),
            captured: false,
        };
        let number = self.source(Key::Connection(host.to_owned(), batch.connection), source)?;
        self.records(number, batch.missed, batch.cause, &batch.records)
    }

    /// Adds the records of the queue before a simulated link. `rules` names the rules that drop packets.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn queue(&mut self, link: &str, rules: &[&str], records: &[Record]) -> io::Result<()> {
        let names = rules.iter().map(|&rule| rule.to_owned()).collect();
        let source = Source::Queue { link: link.to_owned(), names };
        let number = self.source(Key::Queue(link.to_owned()), source)?;
        self.records(number, 0, BatchCause::Full, records)
    }

    /// Flushes the underlying writer.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }

    /// The number of a source. Writes its description if it is new or has changed.
    fn source(&mut self, key: Key, source: Source) -> io::Result<u32> {
        let next = u32::try_from(self.sources.len()).map_err(io::Error::other)?;
        let number = match self.sources.get(&key) {
            Some((number, known)) if *known == source => return Ok(*number),
            Some(&(number, _)) => number,
            None => next,
        };
        self.chunk(SOURCE, number, &[&serde_json::to_vec(&source)?])?;
        self.sources.insert(key, (number, source));
        Ok(number)
    }

    fn records(&mut self, source: u32, missed: u64, cause: BatchCause, records: &[Record]) -> io::Result<()> {
        let mut missed = missed;
        // Even an empty batch records its cause, and what is missing.
        let most = (CHUNK_MAX - RECORDS_HEAD) / Record::LEN;
        let parts = records.chunks(most).chain(records.is_empty().then_some(&[][..]));
        for part in parts {
            let mut head = [0; RECORDS_HEAD];
            head[..8].copy_from_slice(&std::mem::take(&mut missed).to_le_bytes());
            head[8] = cause.code();
            let bytes: Vec<u8> = part.iter().flat_map(|record| record.to_bytes()).collect();
            self.chunk(RECORDS, source, &[&head, &bytes])?;
        }
        Ok(())
    }

    fn chunk(&mut self, kind: u8, source: u32, content: &[&[u8]]) -> io::Result<()> {
        let len =
            u32::try_from(content.iter().map(|part| part.len()).sum::<usize>()).map_err(io::Error::other)?;
        let mut head = [0; HEAD];
        head[0] = kind;
        head[4..8].copy_from_slice(&source.to_le_bytes());
        head[8..].copy_from_slice(&len.to_le_bytes());
        self.into.write_all(&head)?;
        content.iter().try_for_each(|part| self.into.write_all(part))
    }
}
