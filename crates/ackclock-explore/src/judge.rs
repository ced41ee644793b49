//! [`Breach`]: what no world may do, and the checks of a single state.

use std::fmt;

use ackclock_core::{ConnectionError, ConnectionInfo, State};

use crate::world::End;

/// Something that a world must not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach(pub(crate) String);

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Breach {}

/// RCV.NXT as a place.
pub(crate) fn rcv_nxt(info: &ConnectionInfo) -> u64 {
    let has_fin = matches!(info.state, State::CloseWait | State::Closing | State::LastAck | State::TimeWait);
    info.bytes_received.saturating_add(1).saturating_add(u64::from(has_fin))
}

impl End {
    /// Names a belief that this sender must not have of its stream, if it has one.
    pub fn wrong_belief(&self, info: &ConnectionInfo) -> Option<&'static str> {
        let arrived = if self.wire.is_mixed { return None } else { self.wire.arrived };
        if info.bytes_acked > u64::from(arrived.trailing_ones()) {
            return Some("bytes count as acknowledged that have not arrived");
        }
        if info.bytes_acked.saturating_add(info.sacked) > u64::from(arrived.count_ones()) {
            return Some("bytes count as selectively acknowledged that have not arrived");
        }
        None
    }

    /// Whether its window stays closed although all was read, in a world in which nothing is on the way to
    /// tell of it.
    pub fn keeps_its_window_shut(&self, info: &ConnectionInfo) -> bool {
        let open = matches!(info.state, State::Established | State::FinWait1 | State::FinWait2);
        open && info.receive_queue == 0 && u64::from(self.wire.edge) <= rcv_nxt(info)
    }
}

/// Why an end must not have failed, given what the applications did. Faults are too few to use up a
/// connection's patience, so no time limit may strike.
pub(crate) fn failure(error: ConnectionError, reset_by_application: bool) -> Option<String> {
    match error {
        ConnectionError::Reset | ConnectionError::Refused | ConnectionError::Aborted
            if reset_by_application =>
        {
            None
        }
        error => Some(format!("a connection fails without a cause: {error}")),
    }
}
