//! Infers the events of the assessment from what a sender was seen to do: why each segment was sent, and
//! whether a timeout was avoidable.
//!
//! A capture does not show a sender's reasons. A retransmission is attributed to the retransmission timer if
//! it is the oldest segment outstanding and nothing else explains it: no acknowledgement has just arrived, no
//! three duplicates wait for an answer, and the timer could have expired, which takes at least a round trip
//! from its start. Segments that follow such a one in answer to acknowledgements belong to its sequence.
//!
//! With SACK there are two further explanations (RFC 8985). A segment is retransmitted without the timer if a
//! segment sent later was delivered at most a reordering window before; that window is never longer than SRTT
//! (§6.2). A segment that is alone in flight, never retransmitted, and sent again within the time of a tail
//! loss probe is one (§7.2). A sender that has SACK and no probes, and whose timeout is as short, cannot be
//! told from it.
//!
//! A timeout was unavoidable if the segment was lost, or all acknowledgements sent between its arrival and
//! the retransmission's were (Allman and Paxson 1999, §2.2). If the receiver had sent none by then, it was
//! about to: waiting would have helped (§3.1). With captures of both ends this is looked up. At the sender
//! alone it is inferred. The timeout was avoidable if the next acknowledgement echoes a timestamp older than
//! the retransmission's (RFC 3522), or if it comes before a later one reports the segment as received twice
//! (RFC 2883), or, without timestamps, if it comes within half of the smallest round trip (§2.8).

use std::collections::VecDeque;
use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::assess::timeouts::{Event, Why};
use ackclock_control::rtt::{RtoConfig, RttEstimator};
use serde::Serialize;

use crate::capture::Delivery;
use crate::view::{Entry, View};

/// A transfer in the form that the assessment of timeouts takes.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// The input of `ackclock_control::assess::timeouts::assess`.
    pub events: Vec<Event>,
    /// Retransmitted segments, except those below the cumulative acknowledgement.
    pub retransmissions: u32,
    /// Unavoidable timeouts among them.
    pub timeouts: u32,
    /// Avoidable timeouts among them.
    pub avoidable: u32,
    /// Tail loss probes that retransmitted.
    pub probes: u32,
    /// These timeouts and probes, in order.
    pub timed: Vec<TimedRetransmission>,
    /// The smallest round trip of a segment sent once.
    pub rtt_min: Option<Duration>,
    /// The first byte of the first necessary retransmission. `Some(None)`: the first retransmission was not
    /// necessary.
    pub first_repair: Option<Option<u64>>,
}

/// A retransmission that a timer of the sender caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedRetransmission {
    /// When, in nanoseconds.
    pub at: u64,
    /// The position of its first byte.
    pub from: u64,
    /// Which timer, and whether it had to expire.
    pub class: TimedClass,
}

/// Which timer it was, and whether it had to expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimedClass {
    /// An unavoidable timeout of a segment not retransmitted before.
    FirstTimeout,
    /// An unavoidable one of a segment retransmitted before.
    RepeatedTimeout,
    /// Waiting would have helped.
    AvoidableTimeout,
    /// A probe for the loss of the last segments.
    TailLossProbe,
}

impl TimedClass {
    /// A phrase.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::FirstTimeout => "timeout",
            Self::RepeatedTimeout => "timeout of a segment retransmitted before",
            Self::AvoidableTimeout => "avoidable timeout",
            Self::TailLossProbe => "tail loss probe",
        }
    }
}

impl Replay {
    /// From what was seen at the sender, and what happened to it if the receiver's side is known. `response`:
    /// the longest that the sender takes to answer an acknowledgement.
    pub(crate) fn new(view: &View, delivery: Option<&Delivery>, response: Duration) -> Self {
        let mut sender = Sender { view, delivery, response_ns: nanos(response), ..Sender::new(view) };
        for number in 0..view.entries.len() {
            match view.entries[number] {
                Entry::Data { at, from, to, timestamp, .. } => {
                    sender.timestamp = timestamp;
                    sender.data(number, at, from, to);
                }
                Entry::Ack { at, to, beyond, bare, closed, echo, .. } => {
                    sender.echo = echo;
                    sender.ack(at, to, beyond, bare);
                    sender.closed = closed;
                }
            }
        }
        sender.replay.rtt_min = sender.rtt_min.map(Duration::from_nanos);
        sender.replay
    }
}

/// The sender's state, as far as it shows.
struct Sender<'a> {
    view: &'a View,
    delivery: Option<&'a Delivery>,
    response_ns: u64,
    /// Everything below is acknowledged.
    una: u64,
    /// Everything below was sent.
    max: u64,
    outstanding: VecDeque<Outstanding>,
    /// The number of new acknowledgements so far.
    epoch: u64,
    /// The duplicates since the last new acknowledgement, and when the third came.
    duplicates: u32,
    third_duplicate: u64,
    /// Whether any of them reported data beyond a gap.
    selective: bool,
    /// Of the delivered segments the one sent last: when it was sent, and its end. RACK.segment in RFC 8985
    /// §5.2.
    newest_delivered: (u64, u64),
    /// When that was reported.
    reported_at: u64,
    rtt: RttEstimator,
    last_ack: Option<u64>,
    last_new_ack: Option<u64>,
    rtt_min: Option<u64>,
    closed: bool,
    /// The timestamp of the segment that was sent last, and the one that was echoed last.
    timestamp: Option<u32>,
    echo: Option<u32>,
    replay: Replay,
}

#[derive(Clone, Copy)]
struct Outstanding {
    from: u64,
    to: u64,
    sent_at: u64,
    /// When it was last sent, and with which timestamp.
    last_sent: u64,
    timestamp: Option<u32>,
    /// The epoch in which it was last retransmitted.
    repaired: Option<u64>,
    /// Whether a SACK reported it.
    sacked: bool,
}

/// The cause of a retransmission of the oldest segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Acknowledgements,
    Probe,
    Timer,
}

impl<'a> Sender<'a> {
    fn new(view: &'a View) -> Self {
        Self {
            view,
            delivery: None,
            response_ns: 0,
            una: 0,
            max: 0,
            outstanding: VecDeque::new(),
            epoch: 0,
            duplicates: 0,
            third_duplicate: 0,
            selective: false,
            newest_delivered: (0, 0),
            reported_at: 0,
            rtt: RttEstimator::new(&RtoConfig::default()),
            last_ack: None,
            last_new_ack: None,
            rtt_min: None,
            closed: false,
            timestamp: None,
            echo: None,
            replay: Replay::default(),
        }
    }

    fn data(&mut self, number: usize, at: u64, from: u64, to: u64) {
        // Keep-alives, data that the peer has had for long, and window probes say nothing.
        if to <= self.una || self.closed && to - from == 1 {
            return;
        }
        if from < self.max {
            let why = self.why_again(number, at, from);
            let again_to = to.min(self.max);
            for segment in
                self.outstanding.iter_mut().filter(|segment| segment.from < again_to && from < segment.to)
            {
                (segment.last_sent, segment.repaired) = (at, Some(self.epoch));
                segment.timestamp = self.timestamp;
            }
            self.send(at, from, again_to, why);
        }
        let new_from = from.max(self.max);
        if new_from < to {
            self.outstanding.push_back(Outstanding {
                from: new_from,
                to,
                sent_at: at,
                last_sent: at,
                timestamp: self.timestamp,
                repaired: None,
                sacked: false,
            });
            self.send(at, new_from, to, Why::New);
            self.max = to;
        }
    }

    fn send(&mut self, at: u64, from: u64, to: u64, why: Why) {
        self.replay.events.push(Event::Sent { at: Instant::from_nanos(at), from, to, why });
        self.replay.retransmissions += u32::from(why != Why::New);
        match why {
            Why::Timeout { avoidable: true } => self.replay.avoidable += 1,
            Why::Timeout { avoidable: false } => self.replay.timeouts += 1,
            Why::New | Why::FastRetransmit => {}
        }
    }

    fn why_again(&mut self, number: usize, at: u64, from: u64) -> Why {
        let oldest = self.outstanding.iter().find(|segment| from < segment.to).copied();
        let oldest = oldest.filter(|_| from <= self.una);
        let cause = oldest.map_or(Cause::Acknowledgements, |oldest| self.cause(at, &oldest));
        let by_timer = cause == Cause::Timer;
        let first = self.replay.first_repair.is_none();
        let avoidable = (by_timer || first) && self.was_avoidable(number, at, from);
        if first {
            self.replay.first_repair = Some((!avoidable).then_some(from));
        }
        let class = match cause {
            Cause::Acknowledgements => return Why::FastRetransmit,
            Cause::Probe => TimedClass::TailLossProbe,
            Cause::Timer if avoidable => TimedClass::AvoidableTimeout,
            Cause::Timer if oldest.is_some_and(|oldest| oldest.repaired.is_some()) => {
                TimedClass::RepeatedTimeout
            }
            Cause::Timer => TimedClass::FirstTimeout,
        };
        self.replay.timed.push(TimedRetransmission { at, from, class });
        self.replay.probes += u32::from(cause == Cause::Probe);
        if by_timer { Why::Timeout { avoidable } } else { Why::FastRetransmit }
    }

    fn cause(&self, at: u64, oldest: &Outstanding) -> Cause {
        // RFC 6298 §5 (5.3): new data acknowledged restarts the timer.
        let started = oldest.last_sent.max(self.last_new_ack.unwrap_or(0));
        let ran = at.saturating_sub(started);
        if self.rtt_min.is_some_and(|rtt_min| ran < rtt_min) {
            return Cause::Acknowledgements;
        }
        let answers_at_most = self.response_ns.max(self.rtt_min.unwrap_or(0));
        let third_duplicate = self.duplicates >= 3
            && oldest.repaired != Some(self.epoch)
            && at.saturating_sub(self.third_duplicate) <= answers_at_most;
        let answered = self.last_ack.is_some_and(|ack| at - ack <= self.response_ns);
        let partial = self.last_ack == self.last_new_ack;
        // One or two duplicates cause no retransmission, unless they say what is missing. They do not say
        // that of a retransmission.
        let reported = self.selective && oldest.repaired.is_none();
        if third_duplicate || answered && (partial || reported) || self.is_held_lost(at, oldest) {
            Cause::Acknowledgements
        } else if self.is_probe(ran, oldest) {
            Cause::Probe
        } else {
            Cause::Timer
        }
    }

    /// RFC 8985 §6.2: whether a segment sent later was delivered, at most the longest reordering window
    /// before.
    fn is_held_lost(&self, at: u64, oldest: &Outstanding) -> bool {
        let window_ns = self.rtt.srtt_nanos().saturating_add(self.response_ns);
        self.view.selective
            && self.newest_delivered > (oldest.last_sent, oldest.to)
            && at.saturating_sub(self.reported_at) <= window_ns
    }

    /// RFC 8985 §7.2 and §7.3: a probe repeats the last segment. If that is the oldest, too, it waits for two
    /// SRTT and for a delayed acknowledgement, or a second before the first round trip. Linux's timers expire
    /// up to an eighth late (its timer wheel).
    fn is_probe(&self, ran: u64, oldest: &Outstanding) -> bool {
        let timeout_ns = match self.rtt.srtt_nanos() {
            0 => SECOND_NS,
            srtt => srtt.saturating_mul(2).saturating_add(ACK_DELAY_NS_MAX),
        };
        self.view.selective
            && self.outstanding.len() == 1
            && oldest.repaired.is_none()
            && oldest.to - oldest.from <= u64::from(self.view.mss)
            && ran <= timeout_ns.saturating_add(timeout_ns / 8).saturating_add(self.response_ns)
    }

    fn was_avoidable(&self, number: usize, at: u64, from: u64) -> bool {
        match self.delivery {
            Some(delivery) => was_answered(self.view, delivery, number, from),
            None => self.seems_avoidable(number, at, from),
        }
    }

    fn seems_avoidable(&self, number: usize, at: u64, from: u64) -> bool {
        let Entry::Data { timestamp, .. } = self.view.entries[number] else { return false };
        let later = self.view.entries.get(number + 1..).unwrap_or_default();
        let mut answers = later.iter().filter_map(|entry| match *entry {
            Entry::Ack { at, to, echo, sack, .. } if to > from => Some((at, to, echo, sack)),
            _ => None,
        });
        let Some((answered_at, to, echo, sack)) = answers.next() else { return false };
        let twice = |sack: Option<(u64, u64)>, to| {
            sack.is_some_and(|(left, right)| right <= to && left <= from && from < right)
        };
        match (timestamp, echo) {
            (Some(value), Some(echo)) => echo.wrapping_sub(value) > 1 << 31,
            _ if twice(sack, to) => false,
            _ if answers.take(REPORTS_WITHIN).any(|(_, to, _, sack)| twice(sack, to)) => true,
            _ => self.rtt_min.is_some_and(|rtt_min| answered_at - at < rtt_min / 2),
        }
    }

    fn ack(&mut self, at: u64, to: u64, beyond: Option<(u64, u64)>, bare: bool) {
        self.last_ack = Some(at);
        if to > self.una {
            self.una = to;
            self.last_new_ack = Some(at);
            (self.duplicates, self.selective) = (0, false);
            let mut sample = None;
            while let Some(segment) = self.outstanding.front().copied().filter(|segment| segment.to <= to) {
                self.outstanding.pop_front();
                if segment.repaired.is_none() {
                    let rtt = at - segment.sent_at;
                    self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
                    sample = (!segment.sacked).then_some(rtt);
                } else if self.echo.is_some() && segment.timestamp == self.echo {
                    // RFC 6298 §3: with timestamps, one can be taken of a retransmission.
                    sample = (!segment.sacked).then_some(at - segment.last_sent);
                }
                if !segment.sacked {
                    self.delivered(at, &segment);
                }
            }
            sample.into_iter().for_each(|rtt| self.rtt.on_sample(Duration::from_nanos(rtt)));
            self.epoch += 1;
        } else if to == self.una && bare && self.max > self.una {
            self.duplicates += 1;
            if self.duplicates == 3 {
                self.third_duplicate = at;
            }
        }
        if let Some(block) = beyond {
            self.selective = true;
            self.sacked(at, block);
        }
        self.replay.events.push(Event::Acked { at: Instant::from_nanos(at), to: to.min(self.max) });
    }

    fn sacked(&mut self, at: u64, (left, right): (u64, u64)) {
        let first = self.outstanding.partition_point(|segment| segment.from < left);
        for number in first..self.outstanding.len() {
            let segment = &mut self.outstanding[number];
            if segment.to > right {
                break;
            }
            if !std::mem::replace(&mut segment.sacked, true) {
                let segment = *segment;
                self.delivered(at, &segment);
            }
        }
    }

    /// RFC 8985 §6.2: a retransmission acknowledged in less than the smallest round trip was not what
    /// arrived.
    fn delivered(&mut self, at: u64, segment: &Outstanding) {
        let sent = (segment.last_sent, segment.to);
        let original = segment.repaired.is_some()
            && self.rtt_min.is_none_or(|rtt_min| at.saturating_sub(segment.last_sent) < rtt_min);
        if !original && sent > self.newest_delivered {
            (self.newest_delivered, self.reported_at) = (sent, at);
        }
    }
}

/// Whether an earlier copy arrived, and not all answers to it were lost that the receiver sent before the
/// arrival of entry `number`. If there were no answers yet, the acknowledgement was being delayed.
fn was_answered(view: &View, delivery: &Delivery, number: usize, from: u64) -> bool {
    let arrival = |entry: &Entry| match *entry {
        Entry::Data { from: start, to: end, index, .. } if start <= from && from < end => {
            delivery.arrived.get(index).copied().flatten()
        }
        _ => None,
    };
    let Some(first) = view.entries[..number].iter().filter_map(arrival).min() else { return false };
    let again = view.entries[number..].iter().find_map(arrival).unwrap_or(usize::MAX);
    let after = delivery.answers.partition_point(|(index, _)| *index <= first);
    let answers = delivery.answers.get(after..).unwrap_or_default();
    let mut answers = answers.iter().take_while(|(index, _)| *index < again).peekable();
    answers.peek().is_none() || answers.any(|(_, arrived)| *arrived)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

const SECOND_NS: u64 = 1_000_000_000;
/// TLP.max_ack_delay, which RFC 8985 leaves to implementations; Linux takes its least timeout.
const ACK_DELAY_NS_MAX: u64 = 200_000_000;
/// How many acknowledgements after the first one may report the second arrival.
const REPORTS_WITHIN: usize = 64;
