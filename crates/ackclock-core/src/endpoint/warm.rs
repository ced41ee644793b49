//! What the next segment will need is fetched into the caches ahead of it.
//!
//! A driver of one endpoint has it there. A simulation has thousands, and the next packet's is in none of the nearer
//! caches: some fifty lines, for which a segment on its way through the steps waits one after the other. Here they are asked
//! for together, and nothing waits. They come in steps, because a step has to know where the last one's pointers
//! lead; a driver of several endpoints takes each step for all of them before the next.
//!
//! Nothing changes. `sim pairs-1000` of `ackclock-benches` is what pays for this file.

use prefetch_index::prefetch_index;

use super::Endpoint;

/// Which of the steps, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmStep {
    /// What stands in the endpoint itself.
    Endpoint,
    /// The slot of the connection that had the last segment.
    Slot,
    /// That connection.
    Connection,
    /// What it points to.
    Behind,
}

impl WarmStep {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::Endpoint, Self::Slot, Self::Connection, Self::Behind];
}

impl Endpoint {
    /// Asks for what the next segment will probably need, if it is for the connection that had the last one. Nothing
    /// changes; it is for drivers of very many endpoints, which know some time ahead whose turn it is.
    #[inline]
    pub fn warm(&self, step: WarmStep) {
        if step == WarmStep::Endpoint {
            return fetch(self, OFTEN_USED);
        }
        let Some(live) = self.connections.at(self.last_connection) else { return };
        match step {
            WarmStep::Endpoint => {}
            WarmStep::Slot => fetch(live, size_of_val(live)),
            WarmStep::Connection => fetch(&**live, size_of_val(&**live)),
            WarmStep::Behind => live.connection.warm_behind(),
        }
    }
}

/// Asks for the cache lines of the first `bytes` of a value, and waits for none.
#[inline]
pub fn fetch<T: ?Sized>(value: &T, bytes: usize) {
    // Offsets from a byte elsewhere: what is asked for is an address, and nothing is read.
    let offset = (&raw const *value).addr().wrapping_sub((&raw const ORIGIN).addr());
    for line in (0..bytes).step_by(LINE) {
        prefetch_index(std::slice::from_ref(&ORIGIN), offset.wrapping_add(line));
    }
}

static ORIGIN: u8 = 0;
/// Bytes of a cache line.
const LINE: usize = 64;
/// The fields of an endpoint that each segment uses come first.
const OFTEN_USED: usize = 1024;
