//! The error for a parameter with an impossible value.

/// A parameter with an impossible value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not possible: {valid}")]
pub struct InvalidParameter {
    /// The value given.
    pub given: String,
    /// The valid values.
    pub valid: String,
}

impl InvalidParameter {
    pub(crate) fn new(given: impl Into<String>, valid: impl Into<String>) -> Self {
        Self { given: given.into(), valid: valid.into() }
    }
}
