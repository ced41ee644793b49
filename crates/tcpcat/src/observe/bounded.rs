//! A list for a report, which a process that runs for long does not fill without end.

use serde::{Serialize, Serializer};

/// The first items, and how many more there were.
#[derive(Debug)]
pub(super) struct Bounded<T> {
    kept: Vec<T>,
    left_out: u64,
}

impl<T> Bounded<T> {
    pub fn push(&mut self, item: T) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(item);
        } else {
            self.left_out += 1;
        }
    }

    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.kept.iter()
    }

    /// How many were not kept.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), left_out: 0 }
    }
}

impl<T: Serialize> Serialize for Bounded<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.kept.serialize(serializer)
    }
}

/// A report stays readable, and its process small.
const KEPT_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_kept_and_the_others_counted() {
        let mut list = Bounded::default();
        (0..KEPT_MAX as u64 + 7).for_each(|number| list.push(number));
        assert_eq!((list.iter().count(), list.left_out()), (KEPT_MAX, 7));
        assert_eq!(list.iter().last(), Some(&(KEPT_MAX as u64 - 1)));
    }
}
