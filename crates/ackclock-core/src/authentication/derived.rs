//! Cached traffic keys. Deriving one costs as much as the MAC of a small segment, and a connection needs two:
//! one for each direction, until a key rolls over.

use super::mac::TrafficKey;

/// The traffic keys of one direction of a connection, the most recently used first. While a key rolls over,
/// segments arrive with the old one and the new.
#[derive(Debug, Default)]
pub(crate) struct TrafficKeys {
    recent: [Option<Derived>; 2],
}

#[derive(Debug)]
struct Derived {
    /// The index of the master key in the chain.
    index: usize,
    isns: (u32, u32),
    key: TrafficKey,
}

impl TrafficKeys {
    /// The key for this master key and these ISNs. `derive` makes it unless it was used recently.
    pub fn get(
        &mut self,
        index: usize,
        isns: (u32, u32),
        derive: impl FnOnce() -> TrafficKey,
    ) -> &TrafficKey {
        let [first, second] = &mut self.recent;
        let is_it = |slot: &Option<Derived>| {
            slot.as_ref().is_some_and(|derived| (derived.index, derived.isns) == (index, isns))
        };
        if !is_it(first) {
            std::mem::swap(first, second);
            if !is_it(first) {
                *first = None;
            }
        }
        &first.get_or_insert_with(|| Derived { index, isns, key: derive() }).key
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::super::{Algorithm, MasterKey};
    use super::*;

    #[test]
    fn a_key_is_derived_once_and_the_one_before_it_is_kept() {
        let mut keys = TrafficKeys::default();
        let mut derived = Vec::new();
        let addr: SocketAddr = "10.0.0.1:80".parse().unwrap();
        let secret = b"secret".to_vec();
        let master = MasterKey {
            send_id: 1,
            receive_id: 1,
            algorithm: Algorithm::HmacSha1,
            covers_options: true,
            secret,
        };
        for (index, isns) in
            [(0, (1, 0)), (0, (1, 2)), (0, (1, 2)), (1, (1, 2)), (0, (1, 2)), (1, (1, 2)), (2, (1, 2))]
        {
            keys.get(index, isns, || {
                derived.push((index, isns));
                TrafficKey::derive(&master, addr, addr, isns)
            });
        }
        assert_eq!(derived, [(0, (1, 0)), (0, (1, 2)), (1, (1, 2)), (2, (1, 2))]);
    }
}
