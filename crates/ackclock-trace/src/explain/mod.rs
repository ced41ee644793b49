//! Where the time of a connection went, and why single bytes were retransmitted, in sentences.
//!
//! | question | file |
//! |---|---|
//! | What did it wait for? | `waits`, with the causes in `waiting`, and evidence in `queueing` |
//! | What was declared lost, what delayed the repair, and which declarations were wrong? | `verdicts` |
//! | Which round-trip samples are far from the others, and what did they set? | `samples` |
//! | How many segments does an acknowledgement cover? | `acks` |
//! | What do loss and round trip allow in theory? | `allowed`, with [`theory`](crate::theory) |
//! | What happened to one byte? | `byte` |

mod account;
mod acks;
mod allowed;
mod byte;
mod byte_words;
mod json;
mod queueing;
mod samples;
mod spans;
mod units;
mod verdicts;
mod waiting;
mod waits;
mod words;

pub use account::{Account, Retransmissions, account};
pub use acks::{Acks, OwnAcks, PeerAcks, STRETCHED};
pub use allowed::{Allowed, GOVERNED_MIN_PERCENT, REDUCTIONS_MIN};
pub use byte::{Event, history};
pub use byte_words::byte_sentences;
pub(crate) use byte_words::rule_words;
pub use samples::{AROUND, FAR_RANGES, FAR_TIMES, FarSample, RoundTrips, SetRate};
pub(crate) use units::span;
pub use verdicts::{Held, Refuted, Verdicts};
pub use waiting::Waiting;
pub use waits::{Silence, Waits};
pub use words::sentences;

#[cfg(test)]
mod tests;
