//! The time of a connection, divided by what it waited for.
//!
//! From one [`Entry::Limited`] to the next a connection is kept from sending by one thing, and the time between counts to
//! that. Two things override it: before the handshake is complete all time is the handshake's; and when a retransmission
//! timer runs out, the silence before it, since the last acknowledgement that said something new, was spent on waiting
//! for that timer.

use std::collections::BTreeMap;
use std::time::Duration;

use ackclock_core::trace::{Entry, Failure, Limit, LossRule, SendReason, Timer, UndoRule, WindowCause};
use ackclock_core::{Instant, State};
use serde_json::{Value, json};

use crate::file::TracedSource;

/// What a connection can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waiting {
    /// The handshake.
    Handshake,
    /// The application, to write something.
    Application,
    /// The peer's window, to open.
    PeerWindow,
    /// Acknowledgements, with the congestion window full.
    Cwnd,
    /// Acknowledgements, during loss recovery.
    Recovery,
    /// A retransmission timer, to run out.
    Timeout,
    /// Its turn at the pacing rate.
    Pacing,
    /// Nagle's algorithm or a cork, to let a small segment go.
    SmallSegment,
    /// The end: all has been sent, and is to be acknowledged or closed by the peer.
    Closing,
}

/// Where the time of a connection went.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// From the first entry to the last.
    pub duration: Duration,
    /// The time by what was waited for; what is not there took none.
    pub waiting: BTreeMap<Waiting, Duration>,
    /// Bytes of payload that left for the first time.
    pub bytes_sent: u64,
    /// Bytes of payload that arrived, as far as segments show.
    pub bytes_received: u64,
    /// What was sent again.
    pub again: Retransmissions,
    /// Loss episodes without a timeout.
    pub episodes: u64,
    /// Answers to Congestion Experienced marks.
    pub marks: u64,
    /// Retransmission timers that ran out: when, after which silence, the how-manieth in a row.
    pub timeouts: Vec<(Instant, Duration, u32)>,
    /// Reductions that were taken back, by what told.
    pub undone: BTreeMap<&'static str, u64>,
    /// Timers that ran out more than a millisecond late, and the latest.
    pub late: (u64, Duration),
    /// The smallest, the mean and the largest sample of the round trip.
    pub round_trip: Option<(Duration, Duration, Duration)>,
    /// How it failed.
    pub failed: Option<Failure>,
    /// The first and the last entry.
    pub span: Option<(Instant, Instant)>,
}

impl Waiting {
    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Application => "application",
            Self::PeerWindow => "peer-window",
            Self::Cwnd => "cwnd",
            Self::Recovery => "recovery",
            Self::Timeout => "timeout",
            Self::Pacing => "pacing",
            Self::SmallSegment => "small-segment",
            Self::Closing => "closing",
        }
    }
}

impl Account {
    /// The account for programs: times in seconds, sizes in bytes.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let waiting: BTreeMap<&str, f64> =
            self.waiting.iter().map(|(what, time)| (what.name(), time.as_secs_f64())).collect();
        let timeout = |&(at, silence, count): &(Instant, Duration, u32)| json!({ "at": at.as_nanos() as f64 / 1e9, "silence": silence.as_secs_f64(), "in_a_row": count });
        let round_trip = self.round_trip.map(|(least, mean, most)| {
            json!({ "min": least.as_secs_f64(), "mean": mean.as_secs_f64(), "max": most.as_secs_f64() })
        });
        json!({
            "duration": self.duration.as_secs_f64(),
            "waiting": waiting,
            "bytes_sent": self.bytes_sent,
            "bytes_received": self.bytes_received,
            "bytes_sent_again": self.again.bytes,
            "segments_sent_again": self.again.segments,
            "losses": self.again.rules,
            "loss_episodes": self.episodes,
            "marks": self.marks,
            "timeouts": self.timeouts.iter().map(timeout).collect::<Vec<_>>(),
            "undone": self.undone,
            "late_timers": { "count": self.late.0, "most": self.late.1.as_secs_f64() },
            "round_trip": round_trip,
            "failed": self.failed.map(Failure::name),
        })
    }
}

/// What was sent again.
#[derive(Clone, Debug, Default)]
pub struct Retransmissions {
    /// Bytes.
    pub bytes: u64,
    /// Segments, or trains of them, by why they left.
    pub segments: BTreeMap<&'static str, u64>,
    /// Declarations of loss, by rule.
    pub rules: BTreeMap<&'static str, u64>,
}

/// Divides the time of a connection.
#[must_use]
pub fn account(source: &TracedSource) -> Account {
    let mut walk = Walk::default();
    for &(at, entry) in &source.entries {
        walk.entry(at, entry);
    }
    walk.finish()
}

/// An account in the making.
#[derive(Default)]
struct Walk {
    account: Account,
    /// Since when the present wait lasts, and what for.
    wait: Option<(Instant, Waiting)>,
    /// Waits that have ended, as they were before timeouts claimed their share.
    waits: Vec<(Instant, Instant, Waiting)>,
    /// When an acknowledgement last said something new, or something was sent into silence.
    news: Option<Instant>,
    open: bool,
    acked: u32,
    sent_end: u32,
    round_trips: (u64, Duration),
}

impl Walk {
    fn entry(&mut self, at: Instant, entry: Entry) {
        let (first, last) = self.account.span.unwrap_or((at, at));
        self.account.span = Some((first, last.max(at)));
        if self.wait.is_none() {
            self.wait = Some((at, Waiting::Handshake));
        }
        match entry {
            Entry::State(_, State::Established) => {
                self.open = true;
                self.turn(at, Waiting::Application);
            }
            Entry::Limited { by, .. } => self.limited(at, by),
            Entry::Sent { reason, seq, len, .. } => self.sent(at, reason, seq, len),
            Entry::Received { len, .. } => self.account.bytes_received += u64::from(len),
            Entry::Acked { ack, .. } if ack.wrapping_sub(self.acked) as i32 > 0 => {
                self.acked = ack;
                self.news = Some(at);
            }
            Entry::Sacked { .. } => self.news = Some(at),
            Entry::RoundTrip { sample_us, .. } => self.round_trip(sample_us),
            Entry::TimerFired { timer, late_us, count } => self.fired(at, timer, late_us, count),
            Entry::Window { cause: WindowCause::LossEpisode, .. } => self.account.episodes += 1,
            Entry::Window { cause: WindowCause::Marked, .. } => self.account.marks += 1,
            Entry::Lost { rule, .. } => self.lost(rule),
            Entry::Undone(rule) => self.undone(rule),
            Entry::Failed(failure) => self.account.failed = Some(failure),
            _ => {}
        }
    }

    fn limited(&mut self, at: Instant, by: Limit) {
        // A trace that begins in the middle shows no handshake.
        self.open |= by != Limit::NotOpen;
        let waiting = match by {
            Limit::Application => Waiting::Application,
            Limit::Cwnd => Waiting::Cwnd,
            Limit::Recovery => Waiting::Recovery,
            Limit::PeerWindow => Waiting::PeerWindow,
            Limit::Pacing => Waiting::Pacing,
            Limit::Nagle | Limit::Cork => Waiting::SmallSegment,
            Limit::NotOpen if !self.open => Waiting::Handshake,
            _ => Waiting::Closing,
        };
        self.turn(at, waiting);
    }

    /// One wait ends, another begins.
    fn turn(&mut self, at: Instant, waiting: Waiting) {
        if let Some((since, before)) = self.wait.replace((at, waiting)) {
            self.waits.push((since, at, before));
        }
    }

    fn sent(&mut self, at: Instant, reason: SendReason, seq: u32, len: u32) {
        if len == 0 {
            return;
        }
        if self.acked == self.sent_end {
            self.news = Some(at);
        }
        let end = seq.wrapping_add(len);
        let ahead = end.wrapping_sub(self.sent_end) as i32;
        if reason == SendReason::NewData {
            self.account.bytes_sent += u64::from(len);
        } else {
            self.account.again.bytes += u64::from(len);
            *self.account.again.segments.entry(reason.name()).or_default() += 1;
        }
        if ahead > 0 || self.sent_end == 0 {
            self.sent_end = end;
        }
    }

    fn fired(&mut self, at: Instant, timer: Timer, late_us: u32, count: u32) {
        let late = Duration::from_micros(late_us.into());
        if late > Duration::from_millis(1) {
            self.account.late = (self.account.late.0 + 1, self.account.late.1.max(late));
        }
        if timer == Timer::Retransmission {
            let silence = at.saturating_since(self.news.unwrap_or(at));
            self.account.timeouts.push((at, silence, count));
            self.news = Some(at);
        }
    }

    fn round_trip(&mut self, sample_us: u32) {
        let sample = Duration::from_micros(sample_us.into());
        self.round_trips = (self.round_trips.0 + 1, self.round_trips.1 + sample);
        let (least, _, most) = self.account.round_trip.unwrap_or((sample, sample, sample));
        let mean = self.round_trips.1.div_f64(self.round_trips.0 as f64);
        self.account.round_trip = Some((least.min(sample), mean, most.max(sample)));
    }

    fn lost(&mut self, rule: LossRule) {
        *self.account.again.rules.entry(rule.name()).or_default() += 1;
    }

    fn undone(&mut self, rule: UndoRule) {
        *self.account.undone.entry(rule.name()).or_default() += 1;
    }

    fn finish(mut self) -> Account {
        let Some((first, last)) = self.account.span else { return self.account };
        self.account.duration = last.saturating_since(first);
        if let Some((since, waiting)) = self.wait {
            self.waits.push((since, last, waiting));
        }
        let silences: Vec<(Instant, Instant)> =
            self.account.timeouts.iter().map(|&(at, silence, _)| (at.back(silence), at)).collect();
        for (from, until, waiting) in self.waits {
            let whole = until.saturating_since(from);
            let claimed: Duration = if waiting == Waiting::Handshake {
                Duration::ZERO
            } else {
                silences.iter().map(|&(begin, end)| until.min(end).saturating_since(from.max(begin))).sum()
            };
            *self.account.waiting.entry(waiting).or_default() += whole.saturating_sub(claimed);
            *self.account.waiting.entry(Waiting::Timeout).or_default() += claimed.min(whole);
        }
        self.account.waiting.retain(|_, time| !time.is_zero());
        self.account
    }
}

/// The instant so long before.
trait Back {
    fn back(self, time: Duration) -> Self;
}

impl Back for Instant {
    fn back(self, time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self::from_nanos(self.as_nanos().saturating_sub(nanos))
    }
}
