//! Controllers on lossy paths against their sources' predictions: simulated transfers, many seeds, both
//! bounds.

mod bbr;
mod beside;
mod loss;
mod paths;
mod slow_start;
