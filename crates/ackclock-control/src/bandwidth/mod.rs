//! Bandwidth at the start of a connection, estimated from the spacing of acknowledgements or arrivals.
//!
//! M. Allman and V. Paxson, "On Estimating End-to-End Network Path Properties", SIGCOMM 1999, §3. Each
//! estimator takes one event at a time, so it runs both in a live connection and over the events of a trace
//! ([`run`]):
//!
//! | estimator | where | rule |
//! |---|---|---|
//! | [`Tssf`] | sender | n acknowledgements of one slow-start flight |
//! | [`Csa`] | sender | n acknowledgements, each within ν of a round trip after the last |
//! | [`Tcsa`] | sender | repeated CSA, the smallest, until one is within 10 % of it |
//! | [`TcsaPrime`] | sender | repeated CSA, until two in a row are within 10 % of each other |
//! | [`PacketPair`] | sender | acknowledgements of pairs sent back to back |
//! | [`Receiver`] | receiver | bursts that its own acknowledgements allow; min, mean, median or max of K |
//! | [`pbm`], [`pbm_prime`], [`pbm_between`] | trace | the mode over bunches of packets |

mod csa;
mod kind;
mod packet_pair;
mod pbm;
mod receiver;
mod tssf;

pub use csa::{Csa, Tcsa, TcsaPrime};
pub use kind::{CsaConfig, InvalidEstimator, SenderEstimatorKind};
pub use packet_pair::PacketPair;
pub use pbm::{Passage, pbm, pbm_between, pbm_prime};
pub use receiver::{Combine, Receiver, ReceiverEstimates};
pub use tssf::Tssf;

use ackclock_form::{FormError, Reader, Writer};

use crate::Instant;
use crate::time::nanos;

/// An estimator at the sender.
pub trait SenderEstimator: std::fmt::Debug + Send {
    /// An acknowledgement of `bytes` new bytes arrived. Zero bytes means a duplicate.
    fn on_ack(&mut self, at: Instant, bytes: u64);

    /// The bandwidth in bytes a second, once there is an estimate.
    fn estimate(&self) -> Option<u64>;

    /// Whether the estimate is final, or none will be made.
    fn is_done(&self) -> bool;

    /// Writes its state, as [`Controller::freeze`](crate::congestion::Controller::freeze) does.
    fn freeze(&self, out: &mut Writer) -> bool {
        let _ = out;
        false
    }

    /// Takes the state that [`Self::freeze`] wrote.
    ///
    /// # Errors
    /// The bytes are not such a state, or it has none.
    fn thaw(&mut self, input: &mut Reader<'_>) -> Result<(), FormError> {
        let _ = input;
        Err(FormError::Unsupported("the estimator has no form"))
    }
}

/// Runs an estimator over the acknowledgements of a trace up to the first loss: when each came, and how many
/// bytes it acknowledged. Returns the bandwidth in bytes a second, or `None` without an estimate.
///
/// ```
/// use std::time::Duration;
/// use ackclock_control::Instant;
/// use ackclock_control::bandwidth::{Csa, CsaConfig, run};
///
/// let acks = (0..10).map(|n| (Instant::from_millis(100 + 2 * n), 1000));
/// assert_eq!(run(Csa::new(CsaConfig::PAPER, Duration::from_millis(100)), acks), Some(500_000));
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
