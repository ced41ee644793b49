//! The algorithms that decide *when to send*: round-trip estimators, retransmission timeouts and congestion
//! controllers. They see numbers and instants; no packet, no sequence number and no clock reaches this crate.
//!
//! - [`congestion`]: the controllers, from Tahoe to BBR, with a table of them, and what a user's own needs;
//! - [`rtt`]: round trips and the retransmission timeout, with presets from the literature;
//! - [`bandwidth`]: estimates of the bandwidth at the start of a connection;
//! - [`assess`]: how good such estimates would have been on a recorded connection;
//! - [`profile`]: names for sets of such choices;
//! - [`kit`]: checks for any controller, and a path in virtual time to try it on;
//! - [`rate`]: congestion avoidance for datagrams;
//! - [`quantity`]: numbers with units, read exactly.
//!
#![doc = include_str!("../control.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::indexing_slicing)]

pub mod assess;
pub mod bandwidth;
pub mod congestion;
pub mod kit;
mod parameter;
mod parse;
pub mod profile;
pub mod quantity;
pub mod rate;
pub mod rtt;
pub mod time;

pub use parameter::InvalidParameter;
pub use time::Instant;
