//! What the next segment of a connection needs besides the connection; see `endpoint/warm.rs`.

use super::Connection;
use crate::endpoint::fetch;

impl Connection {
    /// Prefetches the congestion controller.
    pub(crate) fn warm_behind(&self) {
        let controller = self.flight.controller();
        fetch(controller, size_of_val(controller));
    }
}
