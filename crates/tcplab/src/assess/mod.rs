//! Prepares captured connections for the assessments of Allman and Paxson (1999).
//!
//! | question | file |
//! |---|---|
//! | Which captures show which end of which transfer, and which connections are left out? | `transfer.rs` |
//! | Where in the stream of bytes is a segment? | `view.rs` |
//! | Why was data retransmitted, and was that necessary? | `retransmissions.rs` |
//! | What would the sender's own trace contain? | `traced.rs` |
//! | What did the path look like when the connection began, and what would estimators have made of it? | `beginning.rs` |

mod beginning;
mod retransmissions;
#[cfg(test)]
mod tests;
mod traced;
mod transfer;
mod view;

pub(crate) use self::beginning::{Combined, Estimator, Regions, StartUp, Unfit};
pub(crate) use self::retransmissions::{Replay, TimedClass, TimedRetransmission};
pub(crate) use self::traced::traced;
pub(crate) use self::transfer::{Doubt, LeftOut, Side, Transfer, transfers};
