//! What is seen of a sender at the near end of the path, before anything is lost: the same instrument for both.

use std::net::SocketAddrV4;

use super::packet::Glance;

/// The data of one sender as it enters the path.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub(super) from: SocketAddrV4,
    seen: Seen,
    highest: u32,
    first_at: u64,
    last_at: u64,
}

/// What was seen of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Seen {
    /// Packets with data.
    pub data_packets: u64,
    /// Bytes of payload in them.
    pub data_bytes: u64,
    /// Of these, bytes that had been sent before.
    pub bytes_again: u64,
    /// The longest time in which it sent no data, in nanoseconds.
    pub silence_max_ns: u64,
    /// When that began, in nanoseconds from the first data.
    pub silence_at_ns: u64,
    /// How often it sent no data for 200 ms and longer.
    pub silences_200ms: u64,
}

impl Meter {
    pub(super) fn new(now: u64, glance: &Glance) -> Self {
        let seen = Seen::default();
        Self { from: glance.from, seen, highest: glance.seq, first_at: now, last_at: now }
    }

    pub(super) fn see(&mut self, now: u64, glance: &Glance) {
        self.pause(now);
        self.last_at = now;
        self.seen.data_packets += 1;
        self.seen.data_bytes += u64::from(glance.payload);
        // Circular: how far the segment's end lies beyond the highest sequence number so far.
        let end = glance.seq.wrapping_add(glance.payload);
        let beyond = end.wrapping_sub(self.highest) as i32;
        let new = u32::try_from(beyond).unwrap_or(0).min(glance.payload);
        self.seen.bytes_again += u64::from(glance.payload - new);
        if beyond > 0 {
            self.highest = end;
        }
    }

    /// What was seen until `end`, the silence until then included.
    pub(super) fn finish(mut self, end: u64) -> Seen {
        self.pause(end);
        self.seen
    }

    fn pause(&mut self, now: u64) {
        let silence = now.saturating_sub(self.last_at);
        self.seen.silences_200ms += u64::from(silence >= 200_000_000);
        if silence > self.seen.silence_max_ns {
            self.seen.silence_max_ns = silence;
            self.seen.silence_at_ns = self.last_at - self.first_at;
        }
    }
}
