//! A controller's own numbers.

/// A controller's named numbers, for traces and `info()`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot {
    values: [(&'static str, i64); Self::MAX],
    len: usize,
}

/// An unsigned number as a snapshot value.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Snapshot {
    /// The most values a snapshot holds.
    pub const MAX: usize = 10;

    /// Adds a value. Values beyond [`Self::MAX`] are left out.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: i64) -> Self {
        if let Some(slot) = self.values.get_mut(self.len) {
            *slot = (name, value);
            self.len = self.len.saturating_add(1);
        }
        self
    }

    /// The values in the order of their addition.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, i64)> + '_ {
        self.values.iter().copied().take(self.len)
    }
}

/// A map from names to values.
#[cfg(feature = "serde")]
impl serde::Serialize for Snapshot {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}
