//! Since when no data has moved, for a connection with an idle timeout.
//!
//! Nothing is noted as data moves. How far both directions have got is compared where something else than
//! data may be about to move the times of the last segments: before a timer acts, and before a segment is
//! taken that is not as predicted. If they have got further, the last segment so far was the data, or its
//! acknowledgement.
//!
//! The predicted form does not distinguish an acknowledgement without news from one with news. The time may
//! therefore be that of such a segment, if no other came between it and the data. The connection then lasts
//! longer, by less than its timeout.

use crate::Instant;

#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    /// How far both directions had got: a number that changes with each byte.
    progress: u64,
    since: Instant,
}

impl Quiet {
    /// Data has moved up to `progress` so far, the last of it at `now`.
    pub fn new(now: Instant, progress: u64) -> Self {
        Self { progress, since: now }
    }

    /// Data has moved up to `progress` so far. If that is news, the last of it moved at `used`.
    pub fn note(&mut self, progress: u64, used: Instant) {
        if progress != self.progress {
            *self = Self { progress, since: used };
        }
    }

    /// When data last moved.
    pub fn since(&self) -> Instant {
        self.since
    }
}

ackclock_form::form! {
    struct Quiet { progress, since }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_no_data_does_not_end_the_quiet() {
        let at = |seconds: u64| Instant::from_millis(1000 * seconds);
        let mut quiet = Quiet::new(at(0), 0);
        quiet.note(0, at(5));
        assert_eq!(quiet.since(), at(0));
        quiet.note(1, at(7));
        quiet.note(1, at(9));
        assert_eq!(quiet.since(), at(7));
    }
}
