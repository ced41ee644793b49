//! Deadlines from settings, which may be any duration.

use std::time::Duration;

use tokio::time::Instant;

/// The instant `by` after `at`, or a century after it if that is earlier: clocks end somewhere.
pub(crate) fn after(at: Instant, by: Duration) -> Instant {
    at + by.min(CENTURY)
}

const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
