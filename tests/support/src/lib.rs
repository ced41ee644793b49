//! What the tests of several crates share. Of those crates it uses only `ackclock-wire`, the
//! lowest, so that each of them can use it.

#![forbid(unsafe_code)]

pub mod rng;
pub mod snapshot;
