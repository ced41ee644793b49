//! What a receiver accepts from a segment, what it reports, and what its headers carry.

mod discarded;
mod edge;
mod labels;
mod reports;
mod resets;
mod stamps;
