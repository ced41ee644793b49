//! Support code shared by the benchmarks: two endpoints of the core joined by memory, on one thread.

#![forbid(unsafe_code)]

pub mod pair;
pub mod scenarios;
