//! Where the time went.
//!
//! From one [`Entry::Limited`] to the next, one thing keeps a connection from sending, and the time between
//! counts to it. Three things override this. Before the handshake is complete, all time counts to the
//! handshake. When a retransmission timer expires, the silence before it, since the last acknowledgement with
//! news, counts to that timer. When a tail probe's timer expires, the silence before it, since the last
//! acknowledgement or the last data sent, counts to the probe.

use std::collections::BTreeMap;
use std::time::Duration;

use ackclock_core::trace::{Entry, Limit, Timer};
use ackclock_core::{Instant, State};

/// What a connection can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waiting {
    /// The handshake.
    Handshake,
    /// The application, to write data.
    Application,
    /// The peer's window, to open.
    PeerWindow,
    /// Acknowledgements, with the congestion window full.
    Cwnd,
    /// Acknowledgements, during loss recovery.
    Recovery,
    /// A retransmission timer, to expire.
    Timeout,
    /// A tail probe's timer, to expire.
    TailProbe,
    /// The pacing rate.
    Pacing,
    /// Nagle's algorithm or a cork, which holds a small segment.
    SmallSegment,
    /// The end: all data is sent, and the peer has yet to acknowledge it or to close.
    Closing,
    /// What a packet capture does not show: the congestion window, pacing, or the application.
    Unseen,
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
            Self::TailProbe => "tail-probe",
            Self::Pacing => "pacing",
            Self::SmallSegment => "small-segment",
            Self::Closing => "closing",
            Self::Unseen => "unseen",
        }
    }
}

/// A silence ended by a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// When the timer expired.
    pub at: Instant,
    /// How long it lasted.
    pub lasted: Duration,
    /// The number of this consecutive expiry.
    pub count: u32,
}

/// Where the time of a connection went.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// The time by cause; absent causes took none.
    pub time: BTreeMap<Waiting, Duration>,
    /// The same in order of time, without gaps: from, until, and the cause.
    pub spans: Vec<(Instant, Instant, Waiting)>,
    /// Expiries of the retransmission timer.
    pub timeouts: Vec<Silence>,
    /// Expiries of the tail probe's timer.
    pub probes: Vec<Silence>,
    /// How many timers expired more than a millisecond late, and the largest delay.
    pub late: (u64, Duration),
}

/// A connection's waits, under construction.
#[derive(Default)]
pub(super) struct Walk {
    waits: Waits,
    /// When the present wait began, and its cause.
    present: Option<(Instant, Waiting)>,
    /// Ended waits, before silences claim their share.
    ended: Vec<(Instant, Instant, Waiting)>,
    /// When an acknowledgement last brought news, or data was sent into silence.
    news: Option<Instant>,
    /// When data was last sent.
    sent_at: Option<Instant>,
    /// Silences and their causes, in order of time.
    silences: Vec<(Instant, Instant, Waiting)>,
    open: bool,
    /// Whether the only source is a packet capture.
    captured: bool,
    acked: u32,
    sent_end: u32,
}

impl Walk {
    pub(super) fn new(captured: bool) -> Self {
        Self { captured, ..Self::default() }
    }

    pub(super) fn entry(&mut self, at: Instant, entry: Entry) {
        if self.present.is_none() {
            self.present = Some((at, Waiting::Handshake));
        }
        match entry {
            Entry::State(_, State::Established) => {
                self.open = true;
                self.turn(at, if self.captured { Waiting::Unseen } else { Waiting::Application });
            }
            Entry::Limited { by, .. } => self.limited(at, by),
            Entry::Sent { seq, len, .. } if len > 0 => self.sent(at, seq.wrapping_add(len)),
            Entry::Acked { ack, .. } if ack.wrapping_sub(self.acked).cast_signed() > 0 => {
                self.acked = ack;
                self.news = Some(at);
            }
            Entry::Sacked { .. } => self.news = Some(at),
            Entry::TimerFired { timer, late_us, count } => self.fired(at, timer, late_us, count),
            _ => {}
        }
    }

    fn limited(&mut self, at: Instant, by: Limit) {
        // A trace that begins in the middle has no handshake.
        self.open |= by != Limit::NotOpen;
        let waiting = match by {
            Limit::Application if self.captured => Waiting::Unseen,
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

    /// Ends the present wait and begins another.
    fn turn(&mut self, at: Instant, waiting: Waiting) {
        if let Some((since, before)) = self.present.replace((at, waiting)) {
            self.ended.push((since, at, before));
        }
    }

    fn sent(&mut self, at: Instant, end: u32) {
        if self.acked == self.sent_end {
            self.news = Some(at);
        }
        self.sent_at = Some(at);
        if end.wrapping_sub(self.sent_end).cast_signed() > 0 || self.sent_end == 0 {
            self.sent_end = end;
        }
    }

    fn fired(&mut self, at: Instant, timer: Timer, late_us: u32, count: u32) {
        let late = Duration::from_micros(late_us.into());
        if late > Duration::from_millis(1) {
            self.waits.late = (self.waits.late.0 + 1, self.waits.late.1.max(late));
        }
        let (since, waiting, list) = match timer {
            Timer::Retransmission => (self.news, Waiting::Timeout, &mut self.waits.timeouts),
            Timer::TailProbe => (self.news.max(self.sent_at), Waiting::TailProbe, &mut self.waits.probes),
            _ => return,
        };
        let since = since.unwrap_or(at);
        list.push(Silence { at, lasted: at.saturating_since(since), count });
        self.silences.push((since, at, waiting));
        self.news = Some(at);
    }

    /// Gives silences their share of the waits up to `last`, the time of the last entry.
    pub(super) fn finish(mut self, last: Instant) -> Waits {
        if let Some((since, waiting)) = self.present {
            self.ended.push((since, last, waiting));
        }
        let mut silences = self.silences.as_slice();
        for (from, until, waiting) in std::mem::take(&mut self.ended) {
            while let [(_, end, _), rest @ ..] = silences
                && *end <= from
            {
                silences = rest;
            }
            let mut reached = from;
            if waiting != Waiting::Handshake {
                for &(begin, end, what) in silences.iter().take_while(|(begin, ..)| *begin < until) {
                    self.waits.add(reached, begin, waiting);
                    self.waits.add(reached.max(begin), end.min(until), what);
                    reached = reached.max(end.min(until));
                }
            }
            self.waits.add(reached, until, waiting);
        }
        for &(from, until, waiting) in &self.waits.spans {
            *self.waits.time.entry(waiting).or_default() += until.saturating_since(from);
        }
        self.waits
    }
}

impl Waits {
    /// Adds a wait if it took any time. Adjacent spans of one cause are merged.
    fn add(&mut self, from: Instant, until: Instant, waiting: Waiting) {
        if until <= from {
            return;
        }
        match self.spans.last_mut() {
            Some((_, end, before)) if *end == from && *before == waiting => *end = until,
            _ => self.spans.push((from, until, waiting)),
        }
    }
}
