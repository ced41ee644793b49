//! Loss recovery: which bytes are outstanding, which are held to be lost, what is sent again.
//!
//! The [`Scoreboard`] knows what was sent and what became of it; a policy decides from it when something is
//! lost. Congestion control is told of episodes and knows none of this.

mod rack;
mod records;
mod scoreboard;
#[cfg(test)]
mod scoreboard_tests;

pub(crate) use rack::Rack;
pub(crate) use scoreboard::{AckOutcome, Marked, Scoreboard, SendMoment};
