//! The algorithms that decide *when to send*: round-trip estimators, retransmission timeouts and congestion
//! controllers. They see numbers and instants. Packets, sequence numbers and clocks do not reach this crate.
//!
//! - [`congestion`]: the controllers, from Tahoe to BBR, with a table of them, and how to write one;
//! - [`rtt`]: round trips and the retransmission timeout, with presets from the literature;
//! - [`bandwidth`]: estimates of the bandwidth at the start of a connection;
//! - [`assess`]: how good such estimates would have been on a recorded connection;
//! - [`profile`]: named sets of choices, and the table of all choices;
//! - [`kit`]: checks for any controller, and a path in virtual time to try it on;
//! - [`rate`]: congestion avoidance for datagrams;
//! - [`names`]: the nearest name to one that does not exist;
//! - [`quantity`]: rates, sizes, times, limits and shares, read and written with their units.
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
//! - `serde` (off): serialises the types that describe a connection's state, and the configuration of its
//!   timeout; reads and writes quantities as text.
//!
//! # Limits
//!
//! Windows and rates are 64-bit numbers of bytes and bytes a second. Times are nanoseconds since an epoch
//! that the caller chooses. A controller allocates nothing after its creation except histories of bounded
//! length.
#![doc = include_str!("../control.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::indexing_slicing)]
// Each operation says whether it is checked or saturates (docs/security.md, "Arithmetic").
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod assess;
pub mod bandwidth;
pub mod congestion;
mod divide;
pub mod kit;
#[cfg(feature = "serde")]
pub mod micros;
pub mod names;
mod parameter;
mod parse;
pub mod profile;
pub mod quantity;
pub mod rate;
pub mod rtt;
pub mod tally;
pub mod time;

pub use parameter::InvalidParameter;
pub use time::Instant;
