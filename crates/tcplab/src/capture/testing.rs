//! Captures made by hand, for tests.
