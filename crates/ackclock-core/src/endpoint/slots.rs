//! A slab: values under small, reused indices, with generations that distinguish the users.

/// Values of one kind.
#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Entry<T>>,
    free: Vec<u32>,
}

/// An index with its value.
#[derive(Debug)]
pub(super) struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    /// The size of an entry.
    pub const BYTES: usize = size_of::<Entry<T>>();

    /// Adds a value. Returns its index and generation. The callers' limits are far below 2^32.
    pub fn insert(&mut self, value: T) -> (u32, u32) {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = self.slots.len();
            if index == 0 {
                // Many endpoints have one connection; the vector's default first capacity is four.
                self.slots.reserve_exact(1);
            }
            self.slots.push(Entry { generation: 0, value: None });
            u32::try_from(index).unwrap_or(u32::MAX)
        });
        let entry = self.slots.get_mut(index as usize);
        let generation = entry.map_or(0, |entry| {
            entry.value = Some(value);
            entry.generation
        });
        (index, generation)
    }

    /// Whether every free index is free, once, and no other is.
    fn is_sound(&self) -> bool {
        let mut free: Vec<bool> = self.slots.iter().map(|entry| entry.value.is_none()).collect();
        let all_free =
            self.free.iter().all(|&index| free.get_mut(index as usize).is_some_and(std::mem::take));
        all_free && !free.contains(&true)
    }

    pub fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.slots.get_mut(index as usize)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
        Some(value)
    }

    #[inline]
    pub fn at(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)?.value.as_ref()
    }

    #[inline]
    pub fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.value.as_mut()
    }

    /// The value added under this generation, not a later one at its index.
    #[inline]
    pub fn get(&self, index: u32, generation: u32) -> Option<&T> {
        self.slots.get(index as usize).filter(|entry| entry.generation == generation)?.value.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32, generation: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize).filter(|entry| entry.generation == generation)?.value.as_mut()
    }

    /// The generation of the value at `index`.
    pub fn generation(&self, index: u32) -> Option<u32> {
        self.slots.get(index as usize).filter(|entry| entry.value.is_some()).map(|entry| entry.generation)
    }

    pub fn len(&self) -> usize {
        self.slots.len().saturating_sub(self.free.len())
    }

    /// All indices ever used, for walks that change the table.
    pub fn indices(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// All values.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> + '_ {
        self.slots.iter_mut().filter_map(|entry| entry.value.as_mut())
    }

    /// Index, generation and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, &T)> + '_ {
        (0..)
            .zip(&self.slots)
            .filter_map(|(index, entry)| Some((index, entry.generation, entry.value.as_ref()?)))
    }

    /// Walks through a range of indices.
    pub fn iter_in(&self, range: std::ops::Range<u32>) -> impl Iterator<Item = (u32, u32, &T)> + '_ {
        let at = |index: u32| Some((index, self.slots.get(index as usize)?));
        range
            .map_while(at)
            .filter_map(|(index, entry)| Some((index, entry.generation, entry.value.as_ref()?)))
    }
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

ackclock_form::form! {
    struct Slots<T> { slots, free } => |slots| slots.is_sound();
    struct Entry<T> { generation, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_used_again_under_another_generation() {
        let mut slots = Slots::default();
        let (index, first) = slots.insert('a');
        assert_eq!(slots.remove(index), Some('a'));
        assert_eq!(slots.remove(index), None);
        let (again, second) = slots.insert('b');
        assert_eq!(again, index);
        assert_eq!((slots.get(index, first), slots.get(index, second)), (None, Some(&'b')));
        assert_eq!((slots.at(index), slots.len()), (Some(&'b'), 1));
    }

    #[test]
    fn an_empty_place_has_neither_value_nor_generation() {
        let mut slots = Slots::default();
        let (index, generation) = slots.insert(());
        slots.insert(());
        slots.remove(index);
        assert_eq!((slots.generation(index), slots.get(index, generation + 1)), (None, None));
        assert_eq!(slots.iter().map(|(index, ..)| index).collect::<Vec<_>>(), [1]);
    }
}
