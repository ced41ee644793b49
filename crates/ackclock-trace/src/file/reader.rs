//! Reading trace files, whole or damaged.

use std::collections::BTreeMap;

use ackclock_core::Instant;
use ackclock_core::trace::{BatchCause, Entry, Record, TraceClock};

use super::{CHUNK_MAX, HEAD, MAGIC, ORIGIN, Origin, RECORDS, RECORDS_HEAD, SOURCE, Source};

/// The content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Where it comes from.
    pub origin: Origin,
    /// Connections and queues, in the order in which they appeared.
    pub sources: Vec<TracedSource>,
    /// The damage, if any. Everything before it is here.
    pub damage: Option<Damage>,
}

/// A source and all its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedSource {
    /// Its index among the connections of the file, or among its queues, from 0. It stays when others are
    /// left out.
    pub number: usize,
    /// The source of the records.
    pub source: Source,
    /// The entries with their times, oldest first.
    pub entries: Vec<(Instant, Entry)>,
    /// The number of missing entries: overwritten, or dropped because they were not collected in time.
    pub missed: u64,
    /// Records of a kind unknown to this version.
    pub unknown: u64,
    /// Why the last of them were delivered, if any were.
    pub cause: Option<BatchCause>,
}

/// Damage of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("broken at byte {offset}: {what}; {ignored} bytes are ignored")]
pub struct Damage {
    /// Its offset.
    pub offset: usize,
    /// The mistake there.
    pub what: &'static str,
    /// The number of bytes from there on that could not be read.
    pub ignored: usize,
}

/// The bytes are not a readable trace file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file does not begin with the magic bytes.
    #[error(
        "not a trace file: it does not begin with \"ackclock trace\"; --trace of tcpcat and tcplab writes one"
    )]
    Magic,
    /// The file has another version.
    #[error("a trace file of version {0}; this program reads version 1")]
    Version(u8),
}

impl Trace {
    /// Reads a file. A truncated or damaged file is read up to the damage; [`damage`](Self::damage) describes
    /// it.
    ///
    /// # Errors
    /// The file is not a trace file, or has another version.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        let (name, rest) = MAGIC.split_at(MAGIC.len() - 2);
        let Some(after) = bytes.strip_prefix(name) else { return Err(ReadError::Magic) };
        match after {
            [version, b'\n', ..] if *version == rest[0] => {}
            [version, ..] => return Err(ReadError::Version(*version)),
            [] => return Err(ReadError::Magic),
        }
        let mut reader = Reader::default();
        let mut offset = MAGIC.len();
        while let Some(chunk) = next_chunk(bytes, offset) {
            let read = chunk.and_then(|(kind, source, content)| {
                reader.chunk(kind, source, content).map(|()| offset + HEAD + content.len())
            });
            match read {
                Ok(next) => offset = next,
                Err(what) => {
                    reader.trace.damage = Some(Damage { offset, what, ignored: bytes.len() - offset });
                    break;
                }
            }
        }
        Ok(reader.trace)
    }

    /// The connections among the sources.
    pub fn connections(&self) -> impl Iterator<Item = &TracedSource> {
        self.sources.iter().filter(|source| source.source.is_connection())
    }

    /// Leaves out all connections whose number `wanted` refuses. Queues stay.
    pub fn keep_connections(&mut self, wanted: impl Fn(usize) -> bool) {
        self.sources.retain(|source| !source.source.is_connection() || wanted(source.number));
    }

    /// The queues among the sources.
    pub fn queues(&self) -> impl Iterator<Item = &TracedSource> {
        self.sources.iter().filter(|source| !source.source.is_connection())
    }
}

type Chunk<'a> = (u8, u32, &'a [u8]);

/// The chunk at `offset`; `None` at the end.
fn next_chunk(bytes: &[u8], offset: usize) -> Option<Result<Chunk<'_>, &'static str>> {
    let rest = bytes.get(offset..).filter(|rest| !rest.is_empty())?;
    let Some((head, rest)) = rest.split_first_chunk::<HEAD>() else {
        return Some(Err("a chunk without a head"));
    };
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let len = number(8) as usize;
    if len > CHUNK_MAX {
        return Some(Err("a chunk that is too long"));
    }
    Some(rest.get(..len).map(|content| (head[0], number(4), content)).ok_or("a chunk without its end"))
}

#[derive(Default)]
struct Reader {
    trace: Trace,
    places: BTreeMap<u32, (usize, TraceClock)>,
}

impl Reader {
    fn chunk(&mut self, kind: u8, source: u32, content: &[u8]) -> Result<(), &'static str> {
        match kind {
            ORIGIN => {
                self.trace.origin =
                    serde_json::from_slice(content).map_err(|_| "an origin that is not JSON")?
            }
            SOURCE => {
                let known = serde_json::from_slice(content).map_err(|_| "a source that is not JSON")?;
                self.source(source, known)?;
            }
            RECORDS => self.records(source, content)?,
            _ => {}
        }
        Ok(())
    }

    fn source(&mut self, number: u32, source: Source) -> Result<(), &'static str> {
        let sources = &mut self.trace.sources;
        if let Some(&(place, _)) = self.places.get(&number) {
            let known = &mut sources[place].source;
            // Connections and queues are counted apart.
            if known.is_connection() != source.is_connection() {
                return Err("a connection that becomes a queue, or a queue a connection");
            }
            *known = source;
            return Ok(());
        }
        self.places.insert(number, (sources.len(), TraceClock::default()));
        let alike = |other: &&TracedSource| other.source.is_connection() == source.is_connection();
        let number = sources.iter().filter(alike).count();
        sources.push(TracedSource {
            number,
            source,
            entries: Vec::new(),
            missed: 0,
            unknown: 0,
            cause: None,
        });
        Ok(())
    }

    fn records(&mut self, source: u32, content: &[u8]) -> Result<(), &'static str> {
        let (place, clock) = self.places.get_mut(&source).ok_or("records of an unknown source")?;
        let Some((head, records)) = content.split_first_chunk::<RECORDS_HEAD>() else {
            return Err("records without a head");
        };
        let (records, rest) = records.as_chunks::<{ Record::LEN }>();
        if !rest.is_empty() {
            return Err("half a record");
        }
        let into = &mut self.trace.sources[*place];
        let [missed @ .., _, _, _, _, _, _, _, _] = head;
        into.missed = into.missed.saturating_add(u64::from_le_bytes(*missed));
        into.cause = BatchCause::from_code(head[8]);
        for &record in records {
            let record = Record::from_bytes(record);
            let at = clock.time(record);
            match Entry::decode(record) {
                Some(entry) => into.entries.push((at, entry)),
                None => into.unknown += 1,
            }
        }
        Ok(())
    }
}
