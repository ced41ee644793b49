//! x
#![forbid(unsafe_code)]
#![warn(missing_docs)]
mod heap;
mod meter;
mod packet;
pub mod queue;
pub mod rng;
pub mod units;
