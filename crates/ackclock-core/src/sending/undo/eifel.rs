//! Undo by timestamps: the acknowledgement echoes one that is older than the retransmission.
//!
//! R. Ludwig and M. Meyer, "The Eifel Detection Algorithm for TCP", RFC 3522, 2003, §3; the response is R.
//! Ludwig and A. Gurtov, "The Eifel Response Algorithm for TCP", RFC 4015, 2005.
//!
//! The first acknowledgement that covers the first retransmission decides, for timeouts and fast retransmits
//! alike. Timestamps count milliseconds, so original and retransmission may bear the same one: equal is not a
//! proof (§3.2 step (4) asks for a smaller one). If an acknowledgement was lost, not the data, a receiver may
//! echo the original's timestamp; then only that acknowledgement had been lost, and the verdict is the RFC's.
//!
//! Deviations: an echo is believed only if a segment that was outstanding when the window was reduced bore
//! it. RFC 3522 §5 leaves open what a receiver may claim; an echo from before that flight does not answer it.

/// The bounds of a true echo: the timestamp of the oldest segment outstanding, and that of the first
/// retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Eifel {
    pub oldest: u32,
    pub retransmission: u32,
}

impl Eifel {
    /// Whether an acknowledgement with this TSecr answers a segment from before the retransmission.
    pub fn answers_original(self, echoed: u32) -> bool {
        let age = self.retransmission.wrapping_sub(echoed);
        let age_max = self.retransmission.wrapping_sub(self.oldest);
        // RFC 3522 §3.2 (4): smaller than RetransmitTS.
        age > 0 && age <= age_max && age_max < 1 << 31
    }
}

#[cfg(test)]
mod tests {
    use super::Eifel;

    const FLIGHT: Eifel = Eifel { oldest: u32::MAX - 10, retransmission: 300 };

    #[test]
    fn stamp_of_the_original_proves_it() {
        assert!(FLIGHT.answers_original(u32::MAX - 10) && FLIGHT.answers_original(0));
        assert!(FLIGHT.answers_original(299));
    }

    #[test]
    fn same_tick_proves_nothing() {
        assert!(!FLIGHT.answers_original(300));
        let one_tick = Eifel { oldest: 300, retransmission: 300 };
        assert!(!one_tick.answers_original(300));
    }

    #[test]
    fn stamp_that_the_flight_did_not_bear_proves_nothing() {
        assert!(!FLIGHT.answers_original(u32::MAX - 11), "older than the flight");
        assert!(!FLIGHT.answers_original(301), "newer than the retransmission");
        assert!(!FLIGHT.answers_original(300 + (1 << 31)));
        let half_the_circle = Eifel { oldest: 300 + (1 << 31), retransmission: 300 };
        assert!(!half_the_circle.answers_original(299), "what is older cannot be told from what is newer");
        let less = Eifel { oldest: 301 + (1 << 31), retransmission: 300 };
        assert!(less.answers_original(299) && less.answers_original(301 + (1 << 31)));
    }
}
