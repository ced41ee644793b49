//! Round trips as evidence of a busy path.
//!
//! A packet whose round trip exceeds the shortest one by `e` waited for `e`, so that, as the sender sees it,
//! a link or a host on the path was busy for the `e` before the acknowledgement came. While it is, nothing
//! that leaves earlier arrives earlier. The union of these times is when the path set the rate.
//!
//! Behind another, a packet waits no longer than the link takes for one. So an acknowledgement of less than
//! two segments that comes much later than the one before it was delayed by the peer (RFC 9293 §3.8.6.3): by
//! [`DELAYED_MIN`] more than twice what a segment takes, which is the lower quartile of the gaps between
//! acknowledgements. Of a segment that found nothing else on its way, no queue of its own connection explains
//! anything.
//!
//! The round trips are those of the entries, whatever the connection itself timed: of the newest segment that
//! an acknowledgement covers, unless something that it covers was sent twice. The shortest is that of the
//! whole trace. A queue that other traffic fills throughout is not seen, and after a change to a longer path
//! the difference is taken for a queue.

use std::collections::VecDeque;
use std::time::Duration;

use ackclock_core::trace::{Entry, SendReason};
use ackclock_core::{Instant, State};

use super::spans::{Span, join};
use super::waiting::Waiting;
use crate::stream::extend;

/// Stacks delay an acknowledgement by 40 ms or more. What is later by less may have met other traffic.
const DELAYED_MIN: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(super) struct QueueEvidence {
    samples: Vec<Sample>,
    /// When the SYN was last sent, and how often.
    opening: Option<(Instant, u32)>,
    /// The segments on their way, in order.
    flight: VecDeque<Segment>,
    smss: u64,
    acked: u64,
    /// The end of what the peer reports to hold.
    held: u64,
    answered: Option<Instant>,
    /// Acknowledgements have come that acknowledge nothing new.
    duplicates: bool,
    /// The gaps between acknowledgements of segments that followed each other, for each segment.
    gaps: Vec<Duration>,
}

/// A segment, or a train of them.
struct Segment {
    start: u64,
    end: u64,
    at: Instant,
    /// It left while nothing else was on its way.
    first: bool,
    /// It was sent twice.
    again: bool,
}

struct Sample {
    at: Instant,
    time: Duration,
    /// The acknowledgement is of less than two segments.
    single: bool,
    /// When the acknowledgement before it came; `None` if the segment found nothing else on its way.
    before: Option<Instant>,
}

impl QueueEvidence {
    pub(super) fn entry(&mut self, at: Instant, entry: Entry) {
        match entry {
            Entry::SegmentSize { bytes } => self.smss = bytes.into(),
            Entry::Sent { reason: SendReason::Handshake, .. } => {
                self.opening = Some((at, self.opening.map_or(0, |(_, times)| times) + 1));
            }
            Entry::State(_, State::Established) => {
                if let Some((sent, 1)) = self.opening {
                    let time = at.saturating_since(sent);
                    self.samples.push(Sample { at, time, single: false, before: None });
                }
            }
            Entry::Sent { reason, seq, len, .. } if len > 0 => self.sent(at, reason, seq, len),
            Entry::Acked { duplicate, ack, .. } => self.acked(at, ack, duplicate),
            Entry::Sacked { right, .. } => self.sacked(at, right),
            _ => {}
        }
    }

    fn sent(&mut self, at: Instant, reason: SendReason, seq: u32, len: u32) {
        let newest = self.flight.back().map_or(self.acked, |segment| segment.end);
        let start = extend(newest, seq);
        let end = start + u64::from(len);
        if reason == SendReason::NewData {
            let first = self.flight.is_empty();
            self.flight.push_back(Segment { start, end, at, first, again: false });
            return;
        }
        let from = self.flight.partition_point(|segment| segment.end <= start);
        for segment in self.flight.range_mut(from..).take_while(|segment| segment.start < end) {
            segment.again = true;
        }
    }

    fn acked(&mut self, at: Instant, ack: u32, duplicate: bool) {
        let ack = extend(self.acked, ack);
        if ack <= self.acked {
            self.duplicates |= duplicate;
            return;
        }
        let (mut again, mut newest) = (std::mem::take(&mut self.duplicates), None);
        while let Some(segment) = self.flight.front().filter(|segment| segment.start < ack) {
            again |= segment.again;
            newest = Some((segment.at, segment.first));
            if segment.end > ack {
                break;
            }
            self.flight.pop_front();
        }
        if let Some((sent, first)) = newest
            && !again
            && self.held < ack
        {
            let time = at.saturating_since(sent);
            let covered = ack - self.acked;
            let single = covered < 2 * self.smss;
            let before = self.answered.filter(|_| !(first && single));
            if let Some(before) = before.filter(|before| *before > sent) {
                let segments = covered.div_ceil(self.smss.max(1)).max(1) as f64;
                self.gaps.push(at.saturating_since(before).div_f64(segments));
            }
            self.samples.push(Sample { at, time, single, before });
        }
        self.acked = ack;
        self.answered = Some(at);
    }

    fn sacked(&mut self, at: Instant, right: u32) {
        let right = extend(self.acked, right);
        if right <= self.held.max(self.acked) {
            return;
        }
        let place = self.flight.partition_point(|segment| segment.end < right);
        if let Some(segment) = self.flight.get(place).filter(|segment| !segment.again) {
            let time = at.saturating_since(segment.at);
            self.samples.push(Sample { at, time, single: false, before: None });
        }
        self.held = right;
        self.answered = Some(at);
    }

    /// When the path was busy, and when the peer delayed an acknowledgement.
    pub(super) fn finish(mut self) -> (Vec<Span>, Vec<Span>) {
        let quarter = self.gaps.len() / 4;
        self.gaps.sort_unstable();
        let gap = self.gaps.get(quarter).copied().unwrap_or_default();
        let base = self.samples.iter().map(|sample| sample.time).min().unwrap_or_default();
        let (mut busy, mut delayed) = (Vec::new(), Vec::new());
        for Sample { at, time, single, before } in self.samples {
            let since = super::waits::before(at, time.saturating_sub(base));
            let explained = before.map_or(since, |before| before.max(since));
            if single && at.saturating_since(explained) >= DELAYED_MIN + 2 * gap {
                delayed.push((explained, at, Waiting::DelayedAck));
                join(&mut busy, (since, explained, Waiting::Path));
            } else if !single || before.is_some() {
                join(&mut busy, (since, at, Waiting::Path));
            }
        }
        (busy, delayed)
    }
}
