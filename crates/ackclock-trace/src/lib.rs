//! What becomes of a trace of a TCP connection: packet captures, tables, graphs, explanations.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod chart;
pub mod explain;
pub mod export;
pub mod file;
pub mod graphs;
pub mod report;
mod stream;
#[cfg(test)]
mod testing;
pub mod theory;
