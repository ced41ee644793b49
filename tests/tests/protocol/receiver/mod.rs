//! What a receiver takes from a segment, what it reports, and what its headers say.

mod discarded;
mod edge;
mod labels;
mod reports;
mod resets;
mod stamps;
