//! Captured TCP connections, of any implementation, and what Allman and Paxson (1999) ask of them: whether a
//! retransmission was necessary, and what the path was like when the connection began.
//!
//! [`capture::read_one`] finds the connections of a file, [`transfers`] what can be assessed of them;
//! [`StartUp`] and [`Estimator`] assess estimates of the bandwidth, and a transfer's [`Replay`] is what
//! `ackclock_control::assess` takes for timeouts. [`traced`] makes a trace of a capture, and [`simulated`] a
//! capture or a trace of a simulation.
//!
//! ```
//! use std::path::Path;
//!
//! use ackclock_assess::{Side, capture, transfers};
//!
//! // A pcap file of raw IP packets, without any.
//! let header: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 101];
//! let file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
//! let (report, connections) = capture::read_one(0, Path::new("none.pcap"), &file[..])?;
//! let (found, left_out) = transfers(&connections, Side::Guess);
//! assert_eq!((report.frames, found.len(), left_out.len()), (0, 0, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | question | file |
//! |---|---|
//! | Which captures show which end of which transfer, and which connections are left out? | `transfer.rs` |
//! | Where in the stream of bytes is a segment? | `view.rs` |
//! | Why was data retransmitted, and was that necessary? | `retransmissions.rs` |
//! | What would the sender's own trace contain? | `traced.rs` |
//! | What did the path look like when the connection began, and what would estimators have made of it? | `beginning.rs` |
//! | What are the rows of the paper's tables? | `rows.rs` |
//! | Which packets are one connection, and which packets of two captures are the same? | `capture` |
//!
//! # Features
//!
//! None.
//!
//! # Limits
//!
//! The segments of a capture are in memory as a whole, at some hundred bytes each, without their payload. Of
//! a connection, the direction with more data is assessed.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod beginning;
pub mod capture;
mod retransmissions;
mod rows;
pub mod simulated;
#[cfg(test)]
mod tests;
mod traced;
mod transfer;
mod view;

pub use self::beginning::{Combined, Estimator, Regions, StartUp, Unfit};
pub use self::retransmissions::{Replay, TimedClass, TimedRetransmission};
pub use self::rows::{EstimateRow, LossCounts, LosslessCounts, TimeoutRow, timeouts};
pub use self::traced::traced;
pub use self::transfer::{Doubt, LeftOut, Side, Transfer, transfers};
