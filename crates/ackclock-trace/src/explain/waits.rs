//! Where the time went.
//!
//! From one [`Entry::Limited`] to the next, one thing keeps a connection from sending, and the time between
//! counts to it, with what the windows say of it: whether the congestion window is in slow start, and whether
//! the peer's is full of what is on its way or of what its application has not read. Before the handshake is
//! complete, all time counts to the handshake.
//!
//! Evidence then claims a part of these times, the later in this list before the earlier:
//!
//! 1. A write, or an attempt at one, while a small segment is held: until then the application had not
//!    written what fills it, so the time counts to the application. So it does if the application writes
//!    again before the peer has sent anything, because it did not wait for an answer. Nagle's algorithm and
//!    a cork keep what delays an answer or the end.
//! 2. A long round trip: to the path, on which anything that left earlier would have arrived no earlier, or
//!    to the peer that delayed the acknowledgement of a lone segment (`queueing`).
//! 3. [`Entry::HeldByHost`], and a timer's lateness: to the host.
//! 4. A timer that expires: the silence before it. For a retransmission timer, this is the time since the
//!    last acknowledgement with news; for a tail probe's, since the last acknowledgement or data sent.

use std::collections::BTreeMap;
use std::time::Duration;

use ackclock_core::trace::{Entry, Limit, SendReason, Timer, WindowCause};
use ackclock_core::{Instant, State};

use super::queueing::QueueEvidence;
use super::spans::{Span, append, claim};
use super::waiting::Waiting;

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
    /// The waits in order of time, without gaps: from, until, and the cause.
    pub spans: Vec<(Instant, Instant, Waiting)>,
    /// Expiries of the retransmission timer.
    pub timeouts: Vec<Silence>,
    /// Expiries of the tail probe's timer.
    pub probes: Vec<Silence>,
    /// How many timers expired more than a millisecond late, and the largest delay.
    pub late: (u64, Duration),
    /// How often this end sent its SYN, and the time from the first to the last.
    pub attempts: (u32, Duration),
}

/// A connection's waits, under construction.
#[derive(Default)]
pub(super) struct WaitLog {
    waits: Waits,
    /// When the present wait began, and its cause.
    present: Option<(Instant, Waiting)>,
    /// Ended waits, before evidence claims its share.
    ended: Vec<Span>,
    /// Those of them in which a small segment was held and that no data of the peer has followed.
    unanswered: Vec<usize>,
    limit: Option<Limit>,
    windows: Windows,
    /// When an acknowledgement last brought news, or data was sent into silence.
    news: Option<Instant>,
    /// When data was last sent.
    sent_at: Option<Instant>,
    /// When the first SYN was sent.
    began: Option<Instant>,
    /// Silences and their causes, in order of time.
    silences: Vec<Span>,
    /// When the host kept the connection waiting.
    held: Vec<Span>,
    queueing: QueueEvidence,
    /// A loss episode is going on.
    recovering: bool,
    open: bool,
    /// Whether the only source is a packet capture.
    captured: bool,
    acked: u32,
    sent_end: u32,
}

/// The windows, as the last records show them.
#[derive(Clone, Copy, Default)]
struct Windows {
    cwnd: u32,
    ssthresh: u32,
    /// The peer's, and the largest that it has offered.
    peer: u32,
    peer_max: u32,
}

impl WaitLog {
    pub(super) fn new(captured: bool) -> Self {
        Self { captured, ..Self::default() }
    }

    pub(super) fn entry(&mut self, at: Instant, entry: Entry) {
        if self.present.is_none() {
            self.present = Some((at, Waiting::Handshake));
        }
        self.queueing.entry(at, entry);
        match entry {
            Entry::State(_, State::Established) => {
                self.open = true;
                self.limited(at, Limit::Application);
            }
            Entry::Limited { by, .. } => self.limited(at, by),
            Entry::Window { cause, cwnd, ssthresh } => {
                self.recovering |= cause == WindowCause::LossEpisode;
                (self.windows.cwnd, self.windows.ssthresh) = (cwnd, ssthresh);
                self.look_again(at);
            }
            Entry::Recovered | Entry::Undone(_) => {
                self.recovering = false;
                self.look_again(at);
            }
            Entry::Written { .. } => self.written(at),
            Entry::Received { len, .. } if len > 0 => self.unanswered.clear(),
            Entry::Sent { reason: SendReason::Handshake, .. } if !self.open => self.tried(at),
            Entry::Sent { seq, len, .. } if len > 0 => self.sent(at, seq.wrapping_add(len)),
            Entry::Acked { ack, window, .. } => self.answered(at, ack, window),
            Entry::Sacked { .. } => self.news = Some(at),
            Entry::HeldByHost { for_us } => self.held_by_host(at, Duration::from_micros(for_us.into())),
            Entry::TimerFired { timer, late_us, count } => self.fired(at, timer, late_us, count),
            _ => {}
        }
    }

    fn limited(&mut self, at: Instant, by: Limit) {
        // A trace that begins in the middle has no handshake.
        self.open |= by != Limit::NotOpen;
        self.limit = Some(by);
        self.look_again(at);
    }

    /// The cause may be another since the last record.
    fn look_again(&mut self, at: Instant) {
        let Some(limit) = self.limit else { return };
        let windows = self.windows;
        let waiting = match Waiting::at(limit) {
            _ if limit == Limit::NotOpen && !self.open => Waiting::Handshake,
            Waiting::Application if self.captured => Waiting::Unseen,
            // What is left would arrive behind the hole.
            Waiting::Closing | Waiting::Nagle | Waiting::Cork if self.recovering => Waiting::Recovery,
            Waiting::Cwnd if windows.cwnd < windows.ssthresh => Waiting::SlowStart,
            Waiting::PeerWindow if windows.peer < windows.peer_max / 2 => Waiting::Reader,
            waiting => waiting,
        };
        if self.present.is_none_or(|(_, before)| before != waiting) {
            self.turn(at, waiting);
        }
    }

    /// Ends the present wait and begins another.
    fn turn(&mut self, at: Instant, waiting: Waiting) {
        if matches!(waiting, Waiting::SendBuffer | Waiting::Host) {
            self.written(at);
        }
        if let Some((since, before)) = self.present.replace((at, waiting)) {
            append(&mut self.ended, (since, at, before));
            if before.is_small_segment() && at > since {
                self.unanswered.push(self.ended.len() - 1);
            }
        }
    }

    /// The application has more to write.
    fn written(&mut self, at: Instant) {
        for place in self.unanswered.drain(..) {
            self.ended[place].2 = Waiting::Application;
        }
        if let Some((since, waiting)) = self.present.filter(|(_, waiting)| waiting.is_small_segment()) {
            append(&mut self.ended, (since, at, Waiting::Application));
            self.present = Some((at, waiting));
        }
    }

    fn tried(&mut self, at: Instant) {
        let began = *self.began.get_or_insert(at);
        self.waits.attempts = (self.waits.attempts.0 + 1, at.saturating_since(began));
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

    fn answered(&mut self, at: Instant, ack: u32, window: u32) {
        if ack.wrapping_sub(self.acked).cast_signed() > 0 {
            self.acked = ack;
            self.news = Some(at);
        }
        self.windows.peer = window;
        self.windows.peer_max = self.windows.peer_max.max(window);
        self.look_again(at);
    }

    fn held_by_host(&mut self, at: Instant, time: Duration) {
        self.held.push((before(at, time), at, Waiting::Host));
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
        let due = before(at, late).max(since);
        self.silences.push((since, due, waiting));
        self.silences.push((due, at, Waiting::Host));
        self.news = Some(at);
    }

    /// Gives the evidence its share of the waits up to `last`, the time of the last entry.
    pub(super) fn finish(mut self, last: Instant) -> Waits {
        if let Some((since, waiting)) = self.present {
            append(&mut self.ended, (since, last, waiting));
        }
        let mut ended = Vec::with_capacity(self.ended.len());
        self.ended.into_iter().for_each(|span| append(&mut ended, span));
        let (busy, delayed) = self.queueing.finish();
        let is_open = |waiting| waiting != Waiting::Handshake;
        let spans = claim(ended, &busy, Waiting::is_vain_on_a_busy_path);
        let spans = claim(spans, &delayed, Waiting::is_for_window);
        let spans = claim(spans, &self.held, |waiting| is_open(waiting) && waiting != Waiting::Closing);
        let spans = claim(spans, &self.silences, is_open);
        for &(from, until, waiting) in &spans {
            *self.waits.time.entry(waiting).or_default() += until.saturating_since(from);
        }
        Waits { spans, ..self.waits }
    }
}

pub(super) fn before(at: Instant, time: Duration) -> Instant {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Instant::from_nanos(at.as_nanos().saturating_sub(nanos))
}
