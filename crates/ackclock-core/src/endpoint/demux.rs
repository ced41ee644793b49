//! Finds the connection of a packet: a keyed hash table from four-tuples to targets.
//!
//! A Robin Hood table of 8-byte buckets, at most half full. It does not store four-tuples: a bucket holds 32
//! bits of the hash and a target, and the caller compares the target's four-tuple. The key keeps an outsider
//! from choosing four-tuples that collide (CVE-2023-1206; docs/security.md, B2).

use super::keys::{Key, TupleBytes};
use crate::FourTuple;
use ackclock_control::tally::Tally;
use ackclock_form::{Form, FormError, Reader, Writer};

/// The table. It never shrinks: 16 bytes for each four-tuple at its busiest time.
#[derive(Debug)]
pub(super) struct Demux {
    key: Key,
    buckets: Vec<Bucket>,
    len: usize,
}

/// The owner of a four-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A connection, by slot.
    Connection(u32),
    /// A half-open record or a SYN that waits for a decision.
    HalfOpen(u32),
    /// A connection in TIME-WAIT that the application has released.
    TimeWait(u32),
}

/// The 32 bits of a four-tuple's hash that the table keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u32);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tag: u32,
    /// Kind in the upper two bits, index below; [`EMPTY`] for none.
    target: u32,
}

impl Demux {
    pub fn new(key: Key) -> Self {
        Self { key, buckets: vec![Bucket::FREE; BUCKETS_MIN], len: 0 }
    }

    #[inline]
    pub fn tag(&self, tuple: &FourTuple) -> Tag {
        let hash = self.key.hash13(TupleBytes::new(tuple).as_slice());
        Tag((hash >> 32) as u32)
    }

    /// The target under this tag that `is_it` accepts.
    #[inline]
    pub fn find(&self, tag: Tag, mut is_it: impl FnMut(Target) -> bool) -> Option<Target> {
        let mask = self.mask();
        let mut position = tag.0 as usize & mask;
        for distance in 0.. {
            let bucket = self.buckets.get(position)?;
            // Robin Hood: a bucket closer to its home than this means that the tag is absent.
            if bucket.target == EMPTY || bucket.distance(position, mask) < distance {
                return None;
            }
            if bucket.tag == tag.0 {
                let target = Target::decode(bucket.target);
                if is_it(target) {
                    return Some(target);
                }
            }
            position = position.wrapping_add(1) & mask;
        }
        None
    }

    /// Adds a target. The four-tuple must not be in the table.
    pub fn insert(&mut self, tag: Tag, target: Target) {
        if self.len >= self.buckets.len() / 2 {
            self.grow();
        }
        self.place(Bucket { tag: tag.0, target: target.encode() });
        self.len.count();
    }

    /// Removes a target. Returns whether it was there.
    pub fn remove(&mut self, tag: Tag, target: Target) -> bool {
        let Some(mut hole) = self.position(tag, target) else { return false };
        let mask = self.mask();
        // Backward shift: the following buckets move one closer to their homes, so no tombstone is needed.
        loop {
            let next = hole.wrapping_add(1) & mask;
            let follower = self.buckets.get(next).copied().unwrap_or(Bucket::FREE);
            let stays = follower.target == EMPTY || follower.distance(next, mask) == 0;
            if let Some(bucket) = self.buckets.get_mut(hole) {
                *bucket = if stays { Bucket::FREE } else { follower };
            }
            if stays {
                break;
            }
            hole = next;
        }
        self.len.shrink(1);
        true
    }

    /// Puts another target under the same four-tuple. Returns whether the old one was there.
    pub fn replace(&mut self, tag: Tag, old: Target, new: Target) -> bool {
        let found = self.position(tag, old).and_then(|position| self.buckets.get_mut(position));
        found.map(|bucket| bucket.target = new.encode()).is_some()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    fn position(&self, tag: Tag, target: Target) -> Option<usize> {
        let mask = self.mask();
        let wanted = target.encode();
        let mut position = tag.0 as usize & mask;
        for distance in 0.. {
            let bucket = self.buckets.get(position)?;
            if bucket.target == EMPTY || bucket.distance(position, mask) < distance {
                return None;
            }
            if bucket.target == wanted {
                return Some(position);
            }
            position = position.wrapping_add(1) & mask;
        }
        None
    }

    fn place(&mut self, mut homeless: Bucket) {
        let mask = self.mask();
        let mut position = homeless.tag as usize & mask;
        while let Some(bucket) = self.buckets.get_mut(position) {
            if bucket.target == EMPTY {
                *bucket = homeless;
                return;
            }
            if bucket.distance(position, mask) < homeless.distance(position, mask) {
                std::mem::swap(bucket, &mut homeless);
            }
            position = position.wrapping_add(1) & mask;
        }
    }

    fn grow(&mut self) {
        let doubled = vec![Bucket::FREE; self.buckets.len().saturating_mul(2)];
        let old = std::mem::replace(&mut self.buckets, doubled);
        for bucket in old.into_iter().filter(|bucket| bucket.target != EMPTY) {
            self.place(bucket);
        }
    }

    #[inline]
    fn mask(&self) -> usize {
        // The number of buckets is a power of two.
        self.buckets.len().wrapping_sub(1)
    }
}

impl Target {
    /// The largest index of a target.
    pub const INDEX_MAX: u32 = (1 << KIND_SHIFT) - 1;

    #[inline]
    fn encode(self) -> u32 {
        match self {
            Self::Connection(index) => index & Self::INDEX_MAX,
            Self::HalfOpen(index) => (1 << KIND_SHIFT) | (index & Self::INDEX_MAX),
            Self::TimeWait(index) => (2 << KIND_SHIFT) | (index & Self::INDEX_MAX),
        }
    }

    #[inline]
    fn decode(bits: u32) -> Self {
        let index = bits & Self::INDEX_MAX;
        match bits >> KIND_SHIFT {
            0 => Self::Connection(index),
            1 => Self::HalfOpen(index),
            _ => Self::TimeWait(index),
        }
    }
}

impl Bucket {
    const FREE: Self = Self { tag: 0, target: EMPTY };

    /// How far the bucket at `position` is from its home.
    #[inline]
    fn distance(self, position: usize, mask: usize) -> usize {
        position.wrapping_sub(self.tag as usize) & mask
    }
}

const KIND_SHIFT: u32 = 30;
const EMPTY: u32 = u32::MAX;
const BUCKETS_MIN: usize = 8;

/// Its key alone: the entries are those of the connections and records that it leads to.
impl Form for Demux {
    fn write(&self, out: &mut Writer) {
        self.key.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        Key::read(input).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::{IpAddr, Ipv6Addr};

    use proptest::prelude::*;

    use super::super::keys::Purpose;
    use super::*;

    fn demux() -> Demux {
        Demux::new(Key::derive(&[5; 32], Purpose::Demux))
    }

    fn longest_probe(demux: &Demux) -> usize {
        let mask = demux.mask();
        let used = demux.buckets.iter().enumerate().filter(|(_, bucket)| bucket.target != EMPTY);
        used.map(|(position, bucket)| bucket.distance(position, mask) + 1).max().unwrap_or(0)
    }

    /// Names that differ only in bytes that an unkeyed hash (a sum or an exclusive or of words) folds
    /// together.
    fn crafted(n: u32) -> FourTuple {
        let word = u128::from(n);
        let addr = |bits: u128| IpAddr::V6(Ipv6Addr::from(bits));
        FourTuple {
            local_addr: addr(0xfd00 << 112 | 1),
            local_port: 80,
            remote_addr: addr(0xfd00 << 112 | word << 64 | word << 32 | word),
            remote_port: 1024,
        }
    }

    #[test]
    fn sec_b2_crafted_names_make_no_long_chain() {
        let mut demux = demux();
        for n in 0..100_000 {
            let tag = demux.tag(&crafted(n));
            demux.insert(tag, Target::Connection(n));
        }
        assert_eq!(demux.len(), 100_000);
        assert!(longest_probe(&demux) <= 16, "{}", longest_probe(&demux));
        let place = |n| demux.find(demux.tag(&crafted(n)), |target| target == Target::Connection(n));
        assert!((0..100_000).all(|n| place(n) == Some(Target::Connection(n))));
    }

    #[test]
    fn the_kind_of_place_survives_the_encoding() {
        for target in [Target::Connection(0), Target::HalfOpen(77), Target::TimeWait(Target::INDEX_MAX)] {
            assert_eq!(Target::decode(target.encode()), target);
        }
    }

    #[test]
    fn replacing_moves_a_name_to_another_place() {
        let mut demux = demux();
        demux.insert(Tag(9), Target::HalfOpen(1));
        assert!(demux.replace(Tag(9), Target::HalfOpen(1), Target::Connection(4)));
        assert!(!demux.replace(Tag(9), Target::HalfOpen(1), Target::Connection(4)));
        assert_eq!(demux.find(Tag(9), |_| true), Some(Target::Connection(4)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Few tags, so that almost everything collides. A map by target is the model.
        #[test]
        fn agrees_with_a_naive_model(steps in prop::collection::vec((any::<bool>(), 0_u32..300, 0_u32..12), 1..600)) {
            let mut demux = demux();
            let mut model: HashMap<u32, u32> = HashMap::new();
            for (add, index, tag) in steps {
                let tag = tag * 21;
                if add && !model.contains_key(&index) {
                    demux.insert(Tag(tag), Target::Connection(index));
                    model.insert(index, tag);
                } else if let Some(tag) = model.remove(&index) {
                    prop_assert!(demux.remove(Tag(tag), Target::Connection(index)));
                    prop_assert!(!demux.remove(Tag(tag), Target::Connection(index)));
                }
                prop_assert_eq!(demux.len(), model.len());
            }
            for (&index, &tag) in &model {
                let wanted = Target::Connection(index);
                prop_assert_eq!(demux.find(Tag(tag), |target| target == wanted), Some(wanted));
            }
            for tag in (0..12).map(|tag| tag * 21) {
                let mut seen = 0;
                demux.find(Tag(tag), |_| { seen += 1; false });
                prop_assert_eq!(seen, model.values().filter(|&&owner| owner == tag).count());
            }
        }
    }
}
