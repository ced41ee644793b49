//! [`Reader`]: bytes that are read as a form, and what their reading needs besides.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::FormError;

/// The bytes that have not been read yet.
pub struct Reader<'a> {
    rest: &'a [u8],
    /// How many bytes there were.
    size: usize,
    shared: Vec<Arc<dyn Any + Send + Sync>>,
    lent: Vec<Arc<dyn Any + Send + Sync>>,
    notes: Vec<&'static str>,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("rest", &self.rest.len()).finish_non_exhaustive()
    }
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from their beginning.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, size: bytes.len(), shared: Vec::new(), lent: Vec::new(), notes: Vec::new() }
    }

    /// How many bytes are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// How many bytes there were. A table's entry takes a byte at least, so that no index into a table is
    /// larger.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether everything has been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes one byte.
    ///
    /// # Errors
    /// None is left.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, FormError> {
        let (&first, rest) = self.rest.split_first().ok_or(FormError::Short)?;
        self.rest = rest;
        Ok(first)
    }

    /// Takes `len` bytes.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], FormError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(FormError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// Bytes are left.
    pub fn end(&self) -> Result<(), FormError> {
        if self.rest.is_empty() { Ok(()) } else { Err(FormError::Long) }
    }

    /// Lends a value to what is read from here on: a registry of controllers, a connection's settings. A
    /// later one of the same type takes its place.
    pub fn lend<T: Any + Send + Sync>(&mut self, value: Arc<T>) {
        match self.lent.iter_mut().find(|lent| lent.is::<T>()) {
            Some(place) => *place = value,
            None => self.lent.push(value),
        }
    }

    /// The value of this type that was lent.
    #[must_use]
    pub fn lent<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.lent.iter().find_map(|lent| Arc::clone(lent).downcast().ok())
    }

    /// Leaves a note for the caller, such as the name of a controller that begins again.
    pub fn note(&mut self, note: &'static str) {
        self.notes.push(note);
    }

    /// The notes since the last call.
    pub fn take_notes(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.notes)
    }

    /// The shared value of this number; `None`: it follows, and must then be kept by [`Self::keep`].
    pub fn find<T: Any + Send + Sync>(&self, number: usize) -> Result<Option<Arc<T>>, FormError> {
        match self.shared.get(number) {
            Some(value) => Arc::clone(value).downcast().map(Some).map_err(|_| FormError::Misplaced),
            None if number == self.shared.len() => Ok(None),
            None => Err(FormError::Misplaced),
        }
    }

    /// Keeps a shared value under the next number.
    pub fn keep(&mut self, value: Arc<dyn Any + Send + Sync>) {
        self.shared.push(value);
    }
}
