//! Bandwidth at the start of a connection, estimated from the spacing of acknowledgements or arrivals.
//!
//! M. Allman and V. Paxson, "On Estimating End-to-End Network Path Properties", SIGCOMM 1999, §3. Each
//! estimator is fed one event at a time, so that it runs live in a connection and over the events of a trace
//! alike ([`run`]):
//!
//! | estimator | where | rule |
//! |---|---|---|
//! | [`Tssf`] | sender | n acknowledgements of one slow-start flight |
//! | [`Csa`] | sender | n acknowledgements, each within ν of a round trip after the last |
//! | [`Tcsa`] | sender | repeated CSA, the smallest, until one is within 10 % of it |
//! | [`TcsaPrime`] | sender | repeated CSA, until two in a row are within 10 % of each other |
//! | [`PacketPair`] | sender | acknowledgements of pairs sent back to back |
//! | [`Receiver`] | receiver | bursts that its own acknowledgements allow; min, mean, median or max of K |
//! | [`pbm`], [`pbm_prime`] | trace | the mode over bunches of packets |

mod csa;
mod packet_pair;
mod pbm;
mod receiver;
mod tssf;

use std::time::Duration;

pub use csa::{Csa, Tcsa, TcsaPrime};
pub use packet_pair::PacketPair;
pub use pbm::{pbm, pbm_prime};
pub use receiver::{Combine, Receiver};
pub use tssf::Tssf;

use crate::Instant;
use crate::time::nanos;

/// An estimator at the sender.
pub trait SenderEstimator: std::fmt::Debug + Send {
    /// An acknowledgement of `bytes` new bytes arrived; zero bytes: a duplicate.
    fn on_ack(&mut self, at: Instant, bytes: u64);

    /// The bandwidth in bytes a second, once there is an estimate.
    fn estimate(&self) -> Option<u64>;

    /// Whether the estimate will not change any more, or none will be made.
    fn is_done(&self) -> bool;
}

/// Runs an estimator over the acknowledgements of a trace: their times and the bytes that each acknowledged,
/// up to the first loss. The bandwidth in bytes a second, if it can tell.
///
/// ```
/// use std::time::Duration;
/// use ackclock_control::Instant;
/// use ackclock_control::bandwidth::{Csa, run};
///
/// let acks = (0..10).map(|n| (Instant::from_millis(100 + 2 * n), 1000));
/// assert_eq!(run(Csa::paper(Duration::from_millis(100)), acks), Some(500_000));
/// ```
pub fn run(
    mut estimator: impl SenderEstimator,
    acks: impl IntoIterator<Item = (Instant, u64)>,
) -> Option<u64> {
    for (at, bytes) in acks {
        if estimator.is_done() {
            break;
        }
        estimator.on_ack(at, bytes);
    }
    estimator.estimate()
}

/// The estimators that may set ssthresh in a live connection, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SenderEstimatorKind {
    /// [`Tssf`] with n = 3.
    Tssf,
    /// [`Csa`] with n = 3, ν = 0.1.
    Csa,
    /// [`Tcsa`].
    Tcsa,
    /// [`TcsaPrime`].
    TcsaPrime,
    /// [`PacketPair`].
    PacketPair,
}

impl SenderEstimatorKind {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("tssf", Self::Tssf),
        ("csa", Self::Csa),
        ("tcsa", Self::Tcsa),
        ("tcsa-prime", Self::TcsaPrime),
        ("packet-pair", Self::PacketPair),
    ];

    /// The estimator of this name.
    ///
    /// # Errors
    /// [`UnknownEstimator`], whose message lists the names that would do.
    pub fn find(name: &str) -> Result<Self, UnknownEstimator> {
        let found = Self::ALL.iter().find(|(valid, _)| *valid == name);
        found.map(|&(_, kind)| kind).ok_or_else(|| UnknownEstimator { name: name.to_owned() })
    }

    /// An estimator for a connection whose round trip is `rtt`, which starts with `initial_window` bytes.
    #[must_use]
    pub fn create(self, rtt: Duration, initial_window: u64, smss: u64) -> Box<dyn SenderEstimator> {
        let csa = Csa::paper(rtt);
        match self {
            Self::Tssf => Box::new(Tssf::new(3, initial_window, smss)),
            Self::Csa => Box::new(csa),
            Self::Tcsa => Box::new(Tcsa::new(csa)),
            Self::TcsaPrime => Box::new(TcsaPrime::new(csa)),
            Self::PacketPair => Box::new(PacketPair::new()),
        }
    }
}

/// No estimator has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no bandwidth estimator is called `{name}`; choose one of: {}",
    SenderEstimatorKind::ALL.map(|(name, _)| name).join(", ")
)]
pub struct UnknownEstimator {
    /// The name asked for.
    pub name: String,
}

/// `bytes` in the time from `from` to `to`, in bytes a second; `None` if no time passed.
fn bytes_per_second(bytes: u64, from: Instant, to: Instant) -> Option<u64> {
    let time = u128::from(nanos(to.saturating_since(from)));
    let rate = (u128::from(bytes) * 1_000_000_000).checked_div(time)?;
    (rate > 0).then(|| u64::try_from(rate).unwrap_or(u64::MAX))
}

/// Whether `a` is within a tenth of `b`.
fn within_tenth(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= b / 10
}

#[cfg(test)]
mod tests;
