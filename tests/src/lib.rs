//! Support code shared by the tests of this package.

pub mod kernel;
pub mod netns;
