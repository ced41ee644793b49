//! Loss recovery: which bytes are outstanding, which are held to be lost, what is sent again.
//!
//! The [`Scoreboard`] knows what was sent and what became of it; a policy decides from it when something is
//! lost. Congestion control is told of episodes and knows none of this.

mod rack;
mod scoreboard;
#[cfg(test)]
mod scoreboard_tests;

pub(crate) use rack::Rack;
pub(crate) use scoreboard::{AckOutcome, Scoreboard, SendMoment};

/// How a connection finds its losses, where the peer sends SACKs; without them it is always NewReno.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RecoveryPolicy {
    /// Three duplicate acknowledgements, then partial ones (RFC 6582). SACKs are not looked at.
    NewReno,
    /// Three discontiguous SACKed ranges, or two segments, above (RFC 6675).
    Sack,
    /// Time since sending, and a probe for lost tails (RFC 8985).
    #[default]
    RackTlp,
}
