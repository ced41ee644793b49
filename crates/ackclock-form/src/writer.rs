//! [`Writer`]: the bytes of a form while it is written.

use crate::Form;

/// The bytes that have been written so far.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// The addresses of the shared values written so far; the place is the number.
    shared: Vec<usize>,
    /// Present while states are compared: see [`Self::relative_to`].
    origin: Option<u64>,
}

impl Writer {
    /// A writer for comparing states instead of reading them back: states that go on alike have equal bytes.
    /// Points in time are written as distances from `origin_ns`, in nanoseconds, of shared values only the
    /// numbers, and [lifetime counts](crate::lifetime) not at all.
    #[must_use]
    pub fn relative_to(origin_ns: u64) -> Self {
        Self { origin: Some(origin_ns), ..Self::default() }
    }

    /// Whether states are compared, so that what influences nothing is left out.
    #[must_use]
    pub fn is_relative(&self) -> bool {
        self.origin.is_some()
    }

    /// Moves the origin of [`Self::relative_to`], and [clears](Self::clear) the writer.
    pub fn set_origin(&mut self, origin_ns: u64) {
        self.clear();
        self.origin = Some(origin_ns);
    }

    /// Appends a point in time, in nanoseconds. Zero and the largest number mean none, so they stay.
    pub fn instant(&mut self, nanos: u64, far_future: u64) {
        match self.origin.filter(|_| nanos != 0 && nanos < far_future) {
            Some(origin) => {
                self.push(1);
                nanos.wrapping_sub(origin).cast_signed().write(self);
            }
            None => nanos.write(self),
        }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes, to change some of them: the head of what follows it, say.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The bytes, without the writer.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Forgets what was written and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.shared.clear();
    }

    /// How many bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes back what was written behind the first `len` bytes. It must not hold a shared value.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// Appends one byte.
    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Appends bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The number of the shared value at `address`, and whether this is its first use.
    pub fn share(&mut self, address: usize) -> (usize, bool) {
        // A stack has a handful of settings and one budget; connections in a row share theirs.
        match self.shared.iter().rposition(|&known| known == address) {
            Some(at) => (at, false),
            None => {
                self.shared.push(address);
                (self.shared.len().saturating_sub(1), true)
            }
        }
    }
}
