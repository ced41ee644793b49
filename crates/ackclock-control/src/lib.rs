//! The algorithms that decide *when to send*: round-trip estimators, retransmission timeouts and congestion
//! controllers. They see numbers and instants; no packet, no sequence number and no clock reaches this crate.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::indexing_slicing)]

pub mod bandwidth;
pub mod congestion;
pub mod kit;
pub mod profile;
pub mod rate;
pub mod rtt;
pub mod time;

pub use time::Instant;
