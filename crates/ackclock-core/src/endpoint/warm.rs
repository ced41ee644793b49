//! Prefetches what the next segment will need.
//!
//! The driver of one endpoint has it in the cache. A simulation has thousands of endpoints, and the next
//! packet's state is in none of the nearer caches: some fifty lines, which a segment on its way through the
//! steps would wait for one after the other. Here they are requested together, without waiting. There are
//! several steps, because a step follows the pointers that the last one fetched. A driver of several
//! endpoints takes each step for all of them before the next.
//!
//! Prefetching changes no state. The row `sim pairs-1000` of `ackclock-benches` pays for this file.

use prefetch_index::prefetch_index;

/// The steps, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmStep {
    /// The endpoint itself.
    Endpoint,
    /// The slot of the connection of the last segment.
    Slot,
    /// That connection.
    Connection,
    /// The memory that it points to.
    Behind,
}

impl WarmStep {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::Endpoint, Self::Slot, Self::Connection, Self::Behind];
}

/// Requests the cache lines of the first `bytes` of a value, without waiting.
#[inline]
pub fn fetch<T: ?Sized>(value: &T, bytes: usize) {
    // Offsets from a byte elsewhere: an address is requested, and nothing is read.
    let offset = (&raw const *value).addr().wrapping_sub((&raw const ORIGIN).addr());
    for line in (0..bytes).step_by(LINE) {
        prefetch_index(std::slice::from_ref(&ORIGIN), offset.wrapping_add(line));
    }
}

static ORIGIN: u8 = 0;
/// Bytes of a cache line.
const LINE: usize = 64;
/// The size of the fields of an endpoint that each segment uses; they come first.
pub(super) const OFTEN_USED: usize = 1024;
