//! How good an estimator would have been on a connection that is recorded: the two assessments of M. Allman and V.
//! Paxson, "On Estimating End-to-End Network Path Properties", SIGCOMM 1999.
//!
//! - [`timeouts`]: of the estimators in [`rtt`](crate::rtt), how long they wait and how often in vain (§2.2, tables 1
//!   to 4);
//! - [`start_up`]: of those in [`bandwidth`](crate::bandwidth), what their ssthresh would have done (§3.1, tables 5
//!   and 6).
//!
//! Both take plain iterators of numbers, so that live connections, simulated ones and captured packets are assessed
//! alike.

pub mod start_up;
pub mod timeouts;
