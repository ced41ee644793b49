//! What the tests of several crates share. It uses none of those crates, so that each of them can use it.

#![forbid(unsafe_code)]

pub mod rng;
pub mod snapshot;
