//! Several listeners on one address and port, each with its own queue: what `SO_REUSEPORT` is to a kernel.
//!
//! A keyed hash of its connection's name assigns a SYN to one of them, so that an outsider cannot aim at one.
//! Each member is weighted against the name, and the heaviest wins (D. G. Thaler, C. V. Ravishankar, "Using
//! Name-Based Mappings to Increase Hit Rates", IEEE/ACM Transactions on Networking 6(1), 1998; known from
//! memory, not read here). A member that comes or goes then only moves its own names: a half-open handshake,
//! or a cookie on its way back, still finds the listener that answered its SYN. A remainder of the hash would
//! move nearly all of them.
//!
//! A group costs one hash for each member and SYN, and has at most [`MEMBERS_MAX`] of them. A listener that
//! is alone on its address is found without a hash.

use super::keys::{Key, TupleBytes};
use crate::FourTuple;

/// The listeners of one address, by slot.
#[derive(Debug)]
pub(super) struct Group {
    key: Key,
    members: Vec<u32>,
}

impl Group {
    /// Two listeners on one address. `key` decides between them.
    pub(super) fn of(key: Key, first: u32, second: u32) -> Self {
        Self { key, members: vec![first, second] }
    }

    /// Adds a listener. Returns whether there was room.
    pub(super) fn join(&mut self, index: u32) -> bool {
        let room = self.has_room();
        if room {
            self.members.push(index);
        }
        room
    }

    /// Removes a listener. Returns the remaining one if it is alone.
    pub(super) fn leave(&mut self, index: u32) -> Option<u32> {
        self.members.retain(|&member| member != index);
        match *self.members {
            [last] => Some(last),
            _ => None,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.members.len() < MEMBERS_MAX
    }

    /// Any of them: they agreed to share when they joined.
    pub(super) fn first(&self) -> Option<u32> {
        self.members.first().copied()
    }

    /// The listener for this name. A reused slot counts as the same member.
    pub(super) fn choose(&self, tuple: &FourTuple) -> Option<u32> {
        let name = self.key.hash13(TupleBytes::new(tuple).as_slice());
        self.members.iter().copied().max_by_key(|&member| weight(&self.key, name, member))
    }
}

/// A member's weight for a name. Both are hashed, so that members rank differently for each name.
fn weight(key: &Key, name: u64, member: u32) -> u64 {
    let mut bytes = [0; 12];
    let parts = name.to_le_bytes().into_iter().chain(member.to_le_bytes());
    for (to, from) in bytes.iter_mut().zip(parts) {
        *to = from;
    }
    key.hash13(&bytes)
}

/// The most listeners that share an address.
pub(super) const MEMBERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::super::keys::Purpose;
    use super::*;

    fn names() -> impl Iterator<Item = FourTuple> {
        let local = "10.0.0.1:80".parse().unwrap();
        (1024..5120).map(move |port| FourTuple::new(local, format!("10.0.0.2:{port}").parse().unwrap()))
    }

    fn key() -> Key {
        Key::derive(&[3; 32], Purpose::Reuse)
    }

    fn group(members: u32) -> Group {
        let mut group = Group::of(key(), 0, 1);
        (2..members).for_each(|member| assert!(group.join(member)));
        group
    }

    #[test]
    fn each_member_has_its_share_of_the_names() {
        let group = group(4);
        let mut counts = [0; 4];
        names().for_each(|name| counts[group.choose(&name).unwrap() as usize] += 1);
        // 4,096 names: 1,024 each, and a standard deviation of 28.
        assert!(counts.iter().all(|count| (900..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_member_that_leaves_moves_its_own_names_only() {
        let mut group = group(4);
        let before: Vec<_> = names().map(|name| group.choose(&name)).collect();
        assert_eq!(group.leave(2), None);
        for (name, before) in names().zip(before) {
            let after = group.choose(&name);
            assert!(before == Some(2) && after != before || before != Some(2) && after == before);
        }
    }

    #[test]
    fn a_member_that_comes_takes_names_only_for_itself() {
        let mut group = group(3);
        let before: Vec<_> = names().map(|name| group.choose(&name)).collect();
        assert!(group.join(3));
        for (name, before) in names().zip(before) {
            let after = group.choose(&name);
            assert!(after == before || after == Some(3));
        }
    }

    #[test]
    fn another_key_spreads_otherwise() {
        let (group, mut other) = (group(4), group(4));
        other.key = Key::derive(&[4; 32], Purpose::Reuse);
        let same = names().filter(|name| group.choose(name) == other.choose(name)).count();
        assert!((900..1150).contains(&same), "{same} of 4096 names: a quarter by chance");
    }

    #[test]
    fn a_group_is_bounded_and_says_who_is_left() {
        let mut group = group(64);
        assert!(!group.join(64));
        (2..64).for_each(|member| assert_eq!(group.leave(member), None));
        assert_eq!(group.leave(0), Some(1));
    }
    #[test]
    fn the_first_is_the_member_that_has_been_there_longest() {
        let mut group = Group::of(key(), 5, 9);
        assert!(group.join(7));
        assert_eq!(group.first(), Some(5));
        assert_eq!(group.leave(5), None);
        assert_eq!(group.first(), Some(9));
        assert_eq!((group.leave(7), group.leave(9), group.first()), (Some(9), None, None));
    }
}
