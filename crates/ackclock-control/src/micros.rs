//! Times in JSON: whole microseconds, under names that end in `_us`.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// A time in microseconds, rounded down.
///
/// # Errors
/// The serializer's.
pub fn one<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole(*time))
}

/// Writes a time that may be unknown.
///
/// # Errors
/// The serializer's.
pub fn optional<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(whole).serialize(serializer)
}

fn whole(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
