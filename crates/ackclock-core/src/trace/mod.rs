//! Traces: why each thing was done, in records of 16 bytes that others format afterwards.
//!
//! A traced connection ([`TraceConfig`]) writes an [`Entry`] for each arrival, each departure with its
//! reason, each timer, each loss with the rule that declared it, each change of the windows with its cause,
//! each limit of sending, and the controller's own numbers. Entries become [`Record`]s in preallocated
//! memory; nothing is formatted. [`Endpoint::poll_trace`](crate::Endpoint::poll_trace) delivers them as
//! [`Batch`]es. Switched off, which is the default, an entry costs one branch.
//!
//! The idea is that of Brakmo and Peterson (1995), §II-B: small fixed-size entries in memory, written out
//! afterwards.

#[macro_use]
mod coded;
mod entry;
mod log;
mod names;
mod reason;
mod record;
mod writer;

pub use entry::{Entry, Shown};
pub(crate) use log::Log;
pub use log::{Batch, BatchCause, TraceConfig, TraceKeep};
pub use reason::{Extension, Failure, Limit, LossCounts, LossRule, SendReason, Timer, UndoRule, WindowCause};
pub use record::{Record, TraceClock};
pub(crate) use writer::{Deadlines, Reader, Trace, low, saturated};
