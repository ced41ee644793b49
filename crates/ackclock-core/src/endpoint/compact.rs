//! Checks that half-open and TIME-WAIT records share: those of RFC 9293 §3.10.7.4 that need no buffers.

use std::time::Duration;

use ackclock_wire::{Flags, Segment, SeqNum};

use crate::Instant;

/// Whether a segment is acceptable: RFC 9293 §3.4, and an acknowledgement without text at the window's edge,
/// as in a connection.
pub(super) fn is_acceptable(segment: &Segment<'_>, rcv_nxt: SeqNum, rcv_wnd: u32) -> bool {
    let len = segment.seq_len();
    let bare_ack = len == 0 && segment.flags.contains(Flags::ACK) && !segment.flags.contains(Flags::RST);
    acceptable(segment.seq, len, rcv_nxt, rcv_wnd) || bare_ack && segment.seq == rcv_nxt + rcv_wnd
}

/// RFC 9293 §3.4: whether a segment of `len` sequence numbers from `seq` on has any inside the window.
fn acceptable(seq: SeqNum, len: u32, rcv_nxt: SeqNum, rcv_wnd: u32) -> bool {
    match (len, rcv_wnd) {
        (0, 0) => seq == rcv_nxt,
        (0, _) => seq.in_window(rcv_nxt, rcv_wnd),
        (_, 0) => false,
        _ => seq.in_window(rcv_nxt, rcv_wnd) || (seq + len.saturating_sub(1)).in_window(rcv_nxt, rcv_wnd),
    }
}

/// RFC 7323 §5.3 R1: whether a timestamp is older than the last one.
pub(super) fn is_old_timestamp(value: u32, ts_recent: u32) -> bool {
    value.wrapping_sub(ts_recent) >= 1 << 31
}

/// Spaces the answers to unacceptable segments, with one limiter for each record: a limit that connections
/// share would let an outsider count the answers of one on another (CVE-2016-5696).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limiter {
    next: Instant,
}

impl Limiter {
    /// Whether an answer may leave now. If so, the next may not for [`CHALLENGE_INTERVAL`].
    // RFC 5961 §7: challenge ACKs are limited.
    pub(super) fn allow(&mut self, now: Instant) -> bool {
        let allowed = now >= self.next;
        if allowed {
            self.next = now + CHALLENGE_INTERVAL;
        }
        allowed
    }
}

/// The time between two answers to unacceptable segments.
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(500);

ackclock_form::form! {
    struct Limiter { next }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9293 §3.4, table 6, number by number.
    fn reference(seq: u32, len: u32, nxt: u32, wnd: u32) -> bool {
        let inside = |number: u32| (0..wnd).any(|offset| nxt.wrapping_add(offset) == number);
        match (len, wnd) {
            (0, 0) => seq == nxt,
            (_, 0) => false,
            (0, _) => inside(seq),
            _ => inside(seq) || inside(seq.wrapping_add(len - 1)),
        }
    }

    #[test]
    fn acceptability_is_that_of_the_table_around_every_edge() {
        for nxt in [0, 5, u32::MAX, (1 << 31) - 1, 1 << 31] {
            for wnd in 0..5 {
                for len in 0..8 {
                    for offset in -9_i32..9 {
                        let seq = nxt.wrapping_add_signed(offset);
                        let found = acceptable(SeqNum::new(seq), len, SeqNum::new(nxt), wnd);
                        assert_eq!(found, reference(seq, len, nxt, wnd), "{seq} +{len} in {nxt} +{wnd}");
                    }
                }
            }
        }
    }

    #[test]
    fn timestamps_are_compared_on_their_circle() {
        assert!(is_old_timestamp(0xffff_ffff, 0));
        assert!(!is_old_timestamp(0, 0xffff_ffff));
        assert!(!is_old_timestamp(5, 5));
    }

    #[test]
    fn sec_a5_one_answer_leaves_in_half_a_second() {
        let mut limiter = Limiter::default();
        let allowed = (0..10_000).filter(|&ms| limiter.allow(Instant::from_millis(ms))).count();
        assert_eq!(allowed, 20);
    }
}
