//! What endpoints answer in a life, line by line, and its digests: equal for builds that behave alike.

use std::fmt::{Debug, Write as _};

use ackclock_core::trace::Batch;
use ackclock_core::{Endpoint, Instant};

/// The answers of a life: its packets and what its calls returned, the figures that applications can ask for,
/// and what the connections keep of it.
#[derive(Debug, Default)]
pub struct Answers(Option<Box<Book>>);

#[derive(Debug, Default)]
struct Book {
    answers: blake3::Hasher,
    packets: blake3::Hasher,
    packets_count: u64,
    figures: blake3::Hasher,
    state: blake3::Hasher,
    /// Whether each line is also printed.
    is_read: bool,
    line: String,
}

impl Answers {
    /// They are digested, and printed if `is_read`. The default does neither.
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
        book.put(|line| {
            write!(line, "{} {}: ", now.as_nanos(), u8::from(side))?;
            bytes.iter().try_for_each(|byte| write!(line, "{byte:02x}"))
        });
        book.packets.update(book.line.as_bytes());
        book.packets_count += 1;
    }

    /// What a call returned, or an event.
    pub fn told(&mut self, what: &str, value: &impl Debug) {
        if let Some(book) = &mut self.0 {
            book.put(|line| write!(line, "{what}: {value:?}"));
        }
    }

    /// What an endpoint and its connections look like from outside.
    pub fn figures(&mut self, now: Instant, endpoint: &Endpoint) {
        let Some(book) = &mut self.0 else { return };
        let (memory, due) = (endpoint.memory(), endpoint.poll_timeout());
        book.put_figure(|line| write!(line, "{:?} {memory:?} {due:?}", endpoint.counters()));
        for (id, connection) in endpoint.connections() {
            let (limit, delivery) = (connection.limited_by(), connection.delivery());
            let info = connection.info(now);
            book.put_figure(|line| write!(line, "{id:?} {limit:?} {delivery:?} {info:?}"));
            book.put_state(|line| write!(line, "{id:?} {connection:?}"));
        }
        book.put_state(|line| write!(line, "{endpoint:?}"));
    }

    /// What a connection wrote into its trace.
    pub fn trace(&mut self, batch: &Batch) {
        let Some(book) = &mut self.0 else { return };
        for record in &batch.records {
            book.put_figure(|line| write!(line, "{record:?}"));
        }
    }

    /// The hash of the packets and their times, and their number.
    #[must_use]
    pub fn packets(&self) -> Option<(blake3::Hash, u64)> {
        self.0.as_ref().map(|book| (book.packets.finalize(), book.packets_count))
    }

    /// The digests of the answers, of the figures, and of every field of the connections.
    #[must_use]
    pub fn digests(&self) -> Option<[String; 3]> {
        let book = self.0.as_ref()?;
        let hashers = [&book.answers, &book.figures, &book.state];
        Some(hashers.map(|hasher| hasher.finalize().to_hex()[..12].to_owned()))
    }
}

impl Book {
    fn put(&mut self, write: impl FnOnce(&mut String) -> std::fmt::Result) {
        self.write(write);
        self.answers.update(self.line.as_bytes());
    }

    fn put_figure(&mut self, write: impl FnOnce(&mut String) -> std::fmt::Result) {
        self.write(write);
        self.figures.update(self.line.as_bytes());
    }

    fn put_state(&mut self, write: impl FnOnce(&mut String) -> std::fmt::Result) {
        self.write(write);
        // A field that only exists with the feature `tcp-ao`.
        self.state.update(self.line.replace(", authenticated: false", "").as_bytes());
    }

    fn write(&mut self, write: impl FnOnce(&mut String) -> std::fmt::Result) {
        self.line.clear();
        write(&mut self.line).expect("a string takes it");
        if self.is_read {
            println!("{}", self.line);
        }
        self.line.push('\n');
    }
}
