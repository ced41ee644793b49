//! Controllers on lossy paths against what their sources predict: simulated transfers, many seeds, both bounds.

mod bbr;
mod loss;
mod paths;
mod slow_start;
