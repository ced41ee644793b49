//! The endpoints' answers in a life, line by line, and the hash of their packets.

use std::fmt::{Debug, Write as _};

use ackclock_core::trace::Batch;
use ackclock_core::{Endpoint, Instant};

/// The answers of a life: its packets, what its calls returned, and the figures that applications can ask
/// for.
#[derive(Debug, Default)]
pub struct Answers(Option<Box<Book>>);

#[derive(Debug, Default)]
struct Book {
    packets: blake3::Hasher,
    packets_count: u64,
    /// Whether each line is also printed.
    is_read: bool,
    line: String,
}

impl Answers {
    /// Packets are hashed, and all is printed if `is_read`. The default does neither.
    #[must_use]
    pub fn kept(is_read: bool) -> Self {
        Self(Some(Box::new(Book { is_read, ..Book::default() })))
    }

    /// Whether anything is done with them.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// A packet that an endpoint sends.
    pub fn packet(&mut self, now: Instant, side: bool, bytes: &[u8]) {
        let Some(book) = &mut self.0 else { return };
        book.write(|line| {
            write!(line, "{} {}: ", now.as_nanos(), u8::from(side))?;
            bytes.iter().try_for_each(|byte| write!(line, "{byte:02x}"))
        });
        book.packets.update(book.line.as_bytes());
        book.packets_count += 1;
    }

    /// Notes the result of a call, or an event.
    pub fn told(&mut self, what: &str, value: &impl Debug) {
        if let Some(book) = self.reader() {
            book.write(|line| write!(line, "{what}: {value:?}"));
        }
    }

    /// Notes an endpoint and its connections as they look from outside.
    pub fn figures(&mut self, now: Instant, endpoint: &Endpoint) {
        let Some(book) = self.reader() else { return };
        let (memory, due) = (endpoint.memory(), endpoint.poll_timeout());
        book.write(|line| write!(line, "{:?} {memory:?} {due:?}", endpoint.counters()));
        for (id, connection) in endpoint.connections() {
            let (limit, delivery) = (connection.limited_by(), connection.delivery());
            let info = connection.info(now);
            book.write(|line| write!(line, "{id:?} {limit:?} {delivery:?} {info:?}"));
        }
    }

    /// Notes the records of a connection's trace.
    pub fn trace(&mut self, batch: &Batch) {
        let Some(book) = self.reader() else { return };
        for record in &batch.records {
            book.write(|line| write!(line, "{record:?}"));
        }
    }

    /// The book, if it is printed.
    fn reader(&mut self) -> Option<&mut Book> {
        self.0.as_deref_mut().filter(|book| book.is_read)
    }

    /// The hash of the packets and their times, and their number.
    #[must_use]
    pub fn packets(&self) -> Option<(blake3::Hash, u64)> {
        self.0.as_ref().map(|book| (book.packets.finalize(), book.packets_count))
    }
}

impl Book {
    fn write(&mut self, write: impl FnOnce(&mut String) -> std::fmt::Result) {
        self.line.clear();
        write(&mut self.line).expect("a string takes it");
        if self.is_read {
            println!("{}", self.line);
        }
        self.line.push('\n');
    }
}
