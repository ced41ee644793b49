//! A sender observed at the near end of the path, before any loss: the same instrument for both.

use std::net::SocketAddrV4;
use std::time::Duration;

use super::lane::nanos;
use super::packet::Glance;

/// The data of one sender as it enters the path.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub(super) from: SocketAddrV4,
    /// A silence as long as this is a pause.
    pause_ns: u64,
    seen: Seen,
    highest: u32,
    first_at: u64,
    last_at: u64,
}

/// The observations of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Seen {
    /// Packets with data.
    pub data_packets: u64,
    /// Bytes of payload in them.
    pub data_bytes: u64,
    /// Of these, bytes that were retransmitted.
    pub bytes_again: u64,
    /// The longest time without data from it, in nanoseconds.
    pub silence_max_ns: u64,
    /// The start of that time, in nanoseconds from the first data.
    pub silence_at_ns: u64,
    /// How often it sent no data for [`PAUSE`] plus two round trips of the path.
    pub pauses: u64,
    /// The total of these times, in nanoseconds.
    pub paused_ns: u64,
}

impl Meter {
    /// A meter for the sender of `glance`, over a path with this round trip.
    pub(super) fn new(now: u64, glance: &Glance, rtt: Duration) -> Self {
        let (seen, pause_ns) = (Seen::default(), nanos(PAUSE + 2 * rtt));
        Self { from: glance.from, pause_ns, seen, highest: glance.seq, first_at: now, last_at: now }
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

    /// The observations until `end`, the silence before it included.
    pub(super) fn finish(mut self, end: u64) -> Seen {
        self.pause(end);
        self.seen
    }

    fn pause(&mut self, now: u64) {
        let silence = now.saturating_sub(self.last_at);
        if silence >= self.pause_ns {
            self.seen.pauses += 1;
            self.seen.paused_ns += silence;
        }
        if silence > self.seen.silence_max_ns {
            self.seen.silence_max_ns = silence;
            self.seen.silence_at_ns = self.last_at - self.first_at;
        }
    }
}

/// Only a retransmission timeout keeps a sender silent this long beyond its round trip.
pub const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);
    const MS: u64 = 1_000_000;

    fn data(seq: u32, payload: u32) -> Glance {
        let from = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        Glance { from, seq, payload, is_handshake_or_end: false }
    }

    #[test]
    fn bytes_that_were_sent_before_are_counted_also_where_numbers_wrap() {
        let start = u32::MAX - 1500;
        let mut meter = Meter::new(0, &data(start, 1000), RTT);
        for (seq, payload) in [(0, 1000), (1000, 1000), (2000, 1000), (1000, 1000), (2500, 1000), (500, 100)]
        {
            meter.see(0, &data(start.wrapping_add(seq), payload));
        }
        let seen = meter.finish(0);
        // The fourth, half of the fifth, and the last.
        assert_eq!((seen.data_packets, seen.data_bytes, seen.bytes_again), (6, 5100, 1600));
    }

    #[test]
    fn the_longest_silence_is_found_and_pauses_are_summed() {
        let mut meter = Meter::new(5 * MS, &data(0, 1), RTT);
        for at in [5, 6, 145, 146, 287, 290] {
            meter.see(at * MS, &data(0, 1));
        }
        // 139 ms are not a pause with this round trip, 141 and 200 are.
        let seen = meter.finish(490 * MS);
        assert_eq!((seen.silence_max_ns, seen.silence_at_ns), (200 * MS, 285 * MS));
        assert_eq!((seen.pauses, seen.paused_ns), (2, 341 * MS));
    }
}
