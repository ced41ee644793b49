//! The applications that make a scenario's traffic: one that calls, one that answers.
//!
//! A conversation is a list of steps: wait, send so many bytes, expect so many in return. Bytes have no meaning here, so
//! an answerer cannot read from them what is wanted; the two sides share a table in which the caller leaves, for each
//! of its connections, what is to be answered when. Nothing else passes between them but packets.

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

/// What is to be answered, by the caller's port.
pub(crate) type Table = Rc<RefCell<BTreeMap<u16, VecDeque<Answer>>>>;

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// How many bytes must have come on the connection before.
    needs: u64,
    /// How long to wait then.
    after: Span,
    /// How many bytes to send.
    bytes: u64,
}

/// An empty table.
pub(crate) fn table() -> Table {
    Rc::default()
}

/// Takes the first element if it is as wanted.
fn pop_if<T>(queue: &mut VecDeque<T>, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
    if queue.front().is_some_and(wanted) { queue.pop_front() } else { None }
}
