//! Assessment of estimators on a recorded connection, as in M. Allman and V. Paxson, "On Estimating
//! End-to-End Network Path Properties", SIGCOMM 1999:
//!
//! - [`timeouts`]: how long each estimator in [`rtt`](crate::rtt) waits, and how often it waits in vain
//!   (§2.2, tables 1 to 4);
//! - [`ssthresh`]: what the ssthresh of each estimator in [`bandwidth`](crate::bandwidth) would have done
//!   (§3.1, tables 5 and 6).
//!
//! Both take plain iterators of numbers, so live connections, simulated ones and captured packets are
//! assessed alike.

pub mod ssthresh;
pub mod timeouts;
