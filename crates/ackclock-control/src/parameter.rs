//! What is said when a parameter is impossible.

/// A parameter with a value that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not possible: {valid}")]
pub struct InvalidParameter {
    /// What was given.
    pub given: String,
    /// What would do.
    pub valid: String,
}

impl InvalidParameter {
    pub(crate) fn new(given: impl Into<String>, valid: impl Into<String>) -> Self {
        Self { given: given.into(), valid: valid.into() }
    }
}
