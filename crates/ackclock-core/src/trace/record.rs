//! The record: 16 bytes.

use crate::Instant;

/// One entry of a trace, in its form in memory and in files.
///
/// | bits | what |
/// |---|---|
/// | 0-15 | kind and detail, eight bits each |
/// | 16-63 | nanoseconds since the driver's epoch, modulo 2^48 (78 hours) |
/// | 64-127 | two numbers of 32 bits, or one of 64 |
///
/// [`TraceClock`] restores the whole time, [`Entry::decode`](super::Entry::decode) the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    head: u64,
    body: u64,
}

impl Record {
    /// Bytes of a record.
    pub const LEN: usize = 16;

    #[inline]
    pub(crate) fn new(at: Instant, kind: u8, detail: u8, body: u64) -> Self {
        Self { head: at.as_nanos() << 16 | u64::from(detail) << 8 | u64::from(kind), body }
    }

    #[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
    pub(crate) fn kind(self) -> (u8, u8) {
        (self.head as u8, (self.head >> 8) as u8)
    }

    pub(crate) fn body(self) -> u64 {
        self.body
    }

    /// Nanoseconds since the driver's epoch, modulo 2^48.
    #[must_use]
    pub fn nanos(self) -> u64 {
        self.head >> 16
    }

    /// The bytes in files, least significant first.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        (u128::from(self.body) << 64 | u128::from(self.head)).to_le_bytes()
    }

    /// A record from a file.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "two halves")]
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let whole = u128::from_le_bytes(bytes);
        Self { head: whole as u64, body: (whole >> 64) as u64 }
    }
}

/// Restores the whole times of one connection's records, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceClock {
    newest: u64,
}

impl TraceClock {
    /// When `record` was written, if less than 78 hours after the previous record.
    pub fn time(&mut self, record: Record) -> Instant {
        const TURN: u64 = 1 << 48;
        let mut nanos = (self.newest & !(TURN - 1)).saturating_add(record.nanos());
        if nanos < self.newest {
            nanos = nanos.saturating_add(TURN);
        }
        self.newest = nanos;
        Instant::from_nanos(nanos)
    }
}

ackclock_form::form! {
    struct Record { head, body }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_record_has_sixteen_bytes_and_comes_back_from_them() {
        let record = Record::new(Instant::from_millis(1234), 7, 9, u64::MAX - 5);
        assert_eq!(size_of::<Record>(), Record::LEN);
        let again = Record::from_bytes(record.to_bytes());
        assert_eq!(again, record);
        assert_eq!((again.kind(), again.body(), again.nanos()), ((7, 9), u64::MAX - 5, 1_234_000_000));
    }

    #[test]
    fn time_goes_on_where_the_field_turns_over() {
        let mut clock = TraceClock::default();
        let mut at = Instant::from_millis(5);
        for hours in [0, 70, 70, 1, 77] {
            at += Duration::from_secs(hours * 3600);
            assert_eq!(clock.time(Record::new(at, 0, 0, 0)), at);
        }
    }
}
