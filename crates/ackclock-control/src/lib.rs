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
//! ```
//! use ackclock_control::congestion::Registry;
//! use ackclock_control::kit;
//!
//! let factory = Registry::builtin().find("cubic")?;
//! let report = kit::examine(factory.as_ref());
//! assert!(report.passed(), "{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! - `serde` (off): what says how a connection is doing can be serialised, the configuration of its timeout included.
//!
//! # Limits
//!
//! Windows and rates are 64-bit numbers of bytes and bytes a second, times nanoseconds since an epoch of the caller's. Nothing
//! allocates after a controller was made but histories of bounded length.
//!
#![doc = include_str!("../control.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
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
