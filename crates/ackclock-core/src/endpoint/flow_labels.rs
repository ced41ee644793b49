//! The source of all connections' flow labels (RFC 6437 §3).

use super::keys::{Key, Purpose};
use crate::FourTuple;
use crate::connection::FlowLabels;

/// Computes flow labels from names.
#[derive(Debug)]
pub(super) struct FlowLabeller {
    /// `None`: labels are off.
    key: Option<Key>,
}

impl FlowLabeller {
    pub(super) fn new(secret: &[u8; 32], wanted: bool) -> Self {
        Self { key: wanted.then(|| Key::derive(secret, Purpose::FlowLabels)) }
    }

    /// The labels of a name: the same for each connection with it, and for answers without a connection.
    pub(super) fn of(&self, tuple: &FourTuple) -> FlowLabels {
        match &self.key {
            Some(key) if !tuple.local_addr.is_ipv4() => {
                FlowLabels::from_hash(key.hash24_tuple(tuple, [0, 0]))
            }
            _ => FlowLabels::NONE,
        }
    }
}
