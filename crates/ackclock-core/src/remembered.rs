//! A bounded table that forgets what was not used for the longest time.

use ackclock_form::{Form, FormError, Reader, Writer};
use std::collections::BTreeMap;

/// Values by key, at most `max` of them. Every operation takes logarithmic time, also if an attacker chooses
/// the keys.
#[derive(Debug)]
pub(crate) struct Remembered<K, V> {
    known: BTreeMap<K, (u64, V)>,
    /// The keys in the order of their last use.
    order: BTreeMap<u64, K>,
    uses: u64,
    max: usize,
}

impl<K: Ord + Copy, V> Remembered<K, V> {
    pub fn new(max: usize) -> Self {
        Self { known: BTreeMap::new(), order: BTreeMap::new(), uses: 0, max: max.max(1) }
    }

    /// The value, without using it.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.known.get(key).map(|(_, value)| value)
    }

    /// The value, which counts as used now.
    pub fn touch(&mut self, key: &K) -> Option<&mut V> {
        let (used, value) = self.known.get_mut(key)?;
        self.order.remove(used);
        self.uses = self.uses.wrapping_add(1);
        *used = self.uses;
        self.order.insert(self.uses, *key);
        Some(value)
    }

    /// Puts the value in place of the last one, used now. A full table forgets another for a new key.
    pub fn insert(&mut self, key: K, value: V) {
        if let Some(last) = self.touch(&key) {
            *last = value;
            return;
        }
        while self.known.len() >= self.max
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.known.remove(&oldest);
        }
        self.uses = self.uses.wrapping_add(1);
        self.known.insert(key, (self.uses, value));
        self.order.insert(self.uses, key);
    }

    pub fn remove(&mut self, key: &K) {
        if let Some((used, _)) = self.known.remove(key) {
            self.order.remove(&used);
        }
    }

    /// All of them, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.known.iter().map(|(key, (_, value))| (key, value))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        assert_eq!(self.known.len(), self.order.len());
        self.known.len()
    }
}

/// The values in the order of their last use: its numbers count from one again.
impl<K: Form + Ord + Copy, V: Form> Form for Remembered<K, V> {
    fn write(&self, out: &mut Writer) {
        let Self { known, order, uses: _, max } = self;
        max.write(out);
        order.len().write(out);
        for key in order.values() {
            key.write(out);
            if let Some((_, value)) = known.get(key) {
                value.write(out);
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, FormError> {
        let mut table = Self::new(usize::read(input)?);
        for _ in 0..usize::read(input)? {
            table.insert(K::read(input)?, V::read(input)?);
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a list in the order of use.
    #[test]
    fn the_least_recently_used_is_forgotten() {
        let mut table = Remembered::new(4);
        let mut model: Vec<(u32, u32)> = Vec::new();
        let mut random = ackclock_wire::random::Rng::new(7);
        for step in 0..10_000 {
            let key = u32::try_from(random.below(8)).unwrap();
            let at = model.iter().position(|(known, _)| *known == key);
            match random.below(4) {
                0 => {
                    let found = at.map(|at| model.remove(at));
                    model.extend(found);
                    assert_eq!(table.touch(&key).copied(), found.map(|(_, value)| value));
                }
                1 => {
                    at.map(|at| model.remove(at));
                    table.remove(&key);
                }
                _ => {
                    at.map(|at| model.remove(at));
                    if model.len() == 4 {
                        model.remove(0);
                    }
                    model.push((key, step));
                    table.insert(key, step);
                }
            }
            let mut sorted = model.clone();
            sorted.sort_unstable();
            assert!(table.iter().map(|(key, value)| (*key, *value)).eq(sorted), "step {step}");
            assert_eq!(table.len(), model.len());
        }
    }
}
