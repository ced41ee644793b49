//! Where the time of a connection went, and why single bytes were sent again, in sentences.

mod account;
mod byte;
mod words;

pub use account::{Account, Retransmissions, Waiting, account};
pub use byte::{Event, history};
pub use words::{byte_sentences, sentences};

#[cfg(test)]
mod tests;
