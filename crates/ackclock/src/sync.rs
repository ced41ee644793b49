//! The locks and counters of this crate: the standard library's, and shuttle's where its scheduler runs the
//! models.

#[cfg(not(all(test, ackclock_shuttle)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(all(test, ackclock_shuttle)))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(all(test, ackclock_shuttle))]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
#[cfg(all(test, ackclock_shuttle))]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
