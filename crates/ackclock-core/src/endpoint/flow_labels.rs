//! Where the flow labels of all connections come from (RFC 6437 §3).

use super::keys::{Key, Purpose};
use crate::FourTuple;
use crate::connection::FlowLabels;

/// Makes flow labels of names.
#[derive(Debug)]
pub(super) struct FlowLabeller {
    /// `None`: no labels are wanted.
    key: Option<Key>,
}

impl FlowLabeller {
    pub(super) fn new(secret: &[u8; 32], wanted: bool) -> Self {
        Self { key: wanted.then(|| Key::derive(secret, Purpose::FlowLabels)) }
    }

    /// The labels of a name: the same for each connection of it, and for what is answered without one.
    pub(super) fn of(&self, tuple: &FourTuple) -> FlowLabels {
        match &self.key {
            Some(key) if !tuple.local_addr.is_ipv4() => {
                FlowLabels::from_hash(key.hash24_tuple(tuple, [0, 0]))
            }
            _ => FlowLabels::NONE,
        }
    }
}
