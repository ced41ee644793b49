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

#[cfg(test)]
mod tests {
    use ackclock_wire::FlowLabel;

    use super::*;

    fn label(wanted: bool, local: &str, remote: &str) -> FlowLabel {
        let tuple = FourTuple::new(local.parse().unwrap(), remote.parse().unwrap());
        FlowLabeller::new(&[1; 32], wanted).of(&tuple).current()
    }

    #[test]
    fn each_name_of_ipv6_has_a_label_that_stays() {
        let first = label(true, "[fd00::1]:80", "[fd00::2]:4000");
        assert_ne!(first, FlowLabel::NONE);
        assert_eq!(label(true, "[fd00::1]:80", "[fd00::2]:4000"), first);
        assert_ne!(label(true, "[fd00::1]:80", "[fd00::2]:4001"), first);
        assert_eq!(label(false, "[fd00::1]:80", "[fd00::2]:4000"), FlowLabel::NONE);
        assert_eq!(label(true, "10.0.0.1:80", "10.0.0.2:4000"), FlowLabel::NONE);
    }
}
