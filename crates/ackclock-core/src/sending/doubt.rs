//! Acknowledgements that come sooner than the path allows.
//!
//! S. Savage, N. Cardwell, D. Wetherall and T. Anderson, "TCP Congestion Control with a Misbehaving
//! Receiver", ACM Computer Communication Review 29(5), 1999, §2.3: a peer may acknowledge data that is still
//! in flight. Each round trip then seems as short as the peer likes, and the sender as fast as its buffer
//! refills.
//!
//! The handshake's round trip cannot be shortened, because a peer cannot know our first sequence number
//! before our SYN has arrived. An acknowledgement sooner than half of it after its data left is *early*. That
//! may be honest: the handshake waited for an address to be resolved or for a busy host, or the route has
//! become shorter. So the peer is asked for a proof, as the authors ask for a nonce: the next burst of full
//! segments ends some unpredictable number of bytes short, and all edges of segments behind it move by as
//! much. A peer acknowledges at an edge, and knows the edge only if the segment has arrived. With the proof,
//! its age is the round trip to compare with from now on. Until then early acknowledgements are not told to
//! congestion control, and no more than a window leaves in half of that round trip.
//!
//! A guess succeeds once in half a segment size of bytes, and the time between two attempts doubles. The
//! number comes from the nanosecond in which the burst leaves, which a remote peer does not know.
//!
//! A connection without pacing believes every acknowledgement: the bound is a rate, and the profiles of the
//! literature send what their sources would.
//!
//! So one thing holds, and only with pacing: acknowledgements without proof clock out no more than a window
//! in half of the handshake's round trip. What it does not bound: a peer that lies about what is lost, but no
//! sooner than that half, hides its losses, and gets about what an honest peer on a lossless path of that
//! length would get. Nor is anything doubted after a handshake shorter than 4 ms.

use std::time::Duration;

use ackclock_control::congestion::window_rate;

use super::{Chosen, Departure};
use crate::Instant;
use crate::position::Position;

/// A peer whose acknowledgements are early, and has not proven that it has what they acknowledge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    proof: Proof,
    /// Attempts that failed.
    failed: u8,
    /// When the next one may begin.
    next: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Proof {
    /// The next burst is to be short.
    Wanted,
    /// The segment that ends here was chosen to be sent.
    Chosen(Position),
    /// It left at this time, in segments of this size.
    Sent { edge: Position, at: Instant, segment: u64 },
}

/// Shorter round trips of a handshake are not compared with: hosts and timers are no more exact, and little
/// bounds a sender on so short a path anyway.
const COMPARED_MIN: Duration = Duration::from_millis(4);
/// Compared with where the handshake measured none. A SYN that came again does not; the peer decides that.
const UNMEASURED_US: u32 = 20_000;

/// The round trip that acknowledgements are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathRtt {
    /// Microseconds; 0: none is compared with.
    us: u32,
}

impl PathRtt {
    pub const UNMEASURED: Self = Self { us: UNMEASURED_US };

    /// The handshake, or a proof, took this long.
    pub fn measured(rtt: Duration) -> Self {
        let us = if rtt < COMPARED_MIN { 0 } else { u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX) };
        Self { us }
    }

    /// Whether the acknowledgement of data that left `age_ns` ago is early.
    #[inline]
    pub fn is_early(self, age_ns: u64) -> bool {
        age_ns < u64::from(self.us) * 500
    }

    fn nanos(self) -> u64 {
        u64::from(self.us) * 1000
    }

    /// The most that leaves while a proof is missing, in bytes a second: a window in half the round trip.
    pub fn doubted_rate(self, cwnd: u64) -> Option<u64> {
        window_rate(cwnd, self.nanos(), true)
    }
}

impl Doubt {
    /// The first early acknowledgement came at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self { proof: Proof::Wanted, failed: 0, next: now }
    }

    /// An early acknowledgement advanced SND.UNA to `una`, or reported something. Returns the round trip to
    /// compare with from now on, if it is the proof. `compared`: the one compared with so far.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        una: Position,
        nxt: Position,
        compared: PathRtt,
    ) -> Option<PathRtt> {
        let Proof::Sent { edge, at, segment } = self.proof else { return None };
        if una < edge {
            return None;
        }
        if una.since(edge).is_multiple_of(segment) {
            return Some(PathRtt::measured(now.saturating_since(at)));
        }
        self.proof = Proof::Wanted;
        if una < nxt {
            // The last segment of what was written is as long as it happens to be, and shows nothing.
            self.failed = self.failed.saturating_add(1);
            let rtt = Duration::from_nanos(compared.nanos());
            self.next = now + rtt.saturating_mul(1 << self.failed.min(24));
        }
        None
    }

    /// Whether the peer must prove that it has what it acknowledges.
    #[inline]
    pub(super) fn wants_proof(&self) -> bool {
        !matches!(self.proof, Proof::Sent { .. })
    }

    /// New data that leaves, shortened by an unpredictable number of bytes if a proof is wanted and full
    /// segments follow. `unsent`: with what follows.
    pub(super) fn shorten(&mut self, now: Instant, chosen: Chosen, unsent: u64, smss: u64) -> Chosen {
        if !self.wants_proof() || now < self.next {
            return chosen;
        }
        let bytes = chosen.end.since(chosen.start);
        if !bytes.is_multiple_of(smss) || unsent < bytes.saturating_add(smss) {
            return chosen;
        }
        let seed = now.as_nanos() ^ chosen.start.since(Position::default()).rotate_left(32);
        let mixed = (seed ^ seed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let less = (mixed >> 32).checked_rem(smss / 2).unwrap_or(0).saturating_add(1);
        let end = chosen.end.back(less.min(bytes.saturating_sub(1)));
        self.proof = Proof::Chosen(end);
        Chosen { end, ..chosen }
    }

    /// New data left.
    pub(super) fn on_sent(&mut self, now: Instant, departure: &Departure) {
        if let Proof::Chosen(end) = self.proof {
            // Options may have made it shorter, by as much as anyone can tell.
            let segment = u64::from(departure.segment.max(1));
            let sent = Proof::Sent { edge: end, at: now, segment };
            self.proof = if departure.end == end { sent } else { Proof::Wanted };
        }
    }
}

ackclock_form::form! {
    struct Doubt { proof, failed, next }
    enum Proof { 0 Wanted, 1 Chosen(value), 2 Sent { edge, at, segment } }
    struct PathRtt { us }
}
