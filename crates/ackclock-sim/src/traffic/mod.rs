//! The applications that make a scenario's traffic: a caller and an answerer.
//!
//! A conversation is a list of steps: wait, send a number of bytes, expect a number in return. The bytes have
//! no meaning, so an answerer cannot read requests from them. Instead the two sides share a table, in which
//! the caller notes for each of its connections what to answer and when. Otherwise only packets pass between
//! them.

mod answerer;
mod caller;
mod source;
mod tcplib;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::units::Span;

pub(crate) use answerer::Answerer;
pub(crate) use caller::Caller;

/// The answers to send, by the caller's port.
pub(crate) type Table = Rc<RefCell<BTreeMap<u16, VecDeque<Answer>>>>;

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// How many bytes must have arrived on the connection before.
    needs: u64,
    /// How long to wait then.
    after: Span,
    /// How many bytes to send.
    bytes: u64,
}

/// An application's state for each of its connections, by the connection's index. There are few, and each
/// packet looks one up.
#[derive(Debug)]
struct ByConnection<T>(Vec<(usize, Box<T>)>);

impl<T> ByConnection<T> {
    fn new() -> Self {
        Self(Vec::new())
    }

    #[inline]
    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let place = self.place(index).ok()?;
        Some(&mut self.0[place].1)
    }

    fn first(&self) -> Option<&T> {
        self.0.first().map(|(_, value)| &**value)
    }

    fn insert(&mut self, index: usize, value: T) {
        match self.place(index) {
            Ok(place) => *self.0[place].1 = value,
            Err(place) => {
                if self.0.is_empty() {
                    // Most have one connection; the vector's default first capacity is four.
                    self.0.reserve_exact(1);
                }
                self.0.insert(place, (index, Box::new(value)));
            }
        }
    }

    fn remove(&mut self, index: usize) -> Option<Box<T>> {
        let place = self.place(index).ok()?;
        Some(self.0.remove(place).1)
    }

    /// In the order of their indices.
    fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(|(_, value)| &mut **value)
    }

    /// The position of a connection, or where to insert it.
    #[inline]
    fn place(&self, index: usize) -> Result<usize, usize> {
        self.0.binary_search_by_key(&index, |(at, _)| *at)
    }
}

/// An empty table.
pub(crate) fn table() -> Table {
    Rc::default()
}

/// Removes the first element if it satisfies `wanted`.
fn pop_if<T>(queue: &mut VecDeque<T>, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
    if queue.front().is_some_and(wanted) { queue.pop_front() } else { None }
}
