//! The entries of a trace.

use super::Record;
use super::reason::{Extension, Failure, Limit, LossRule, SendReason, Timer, UndoRule, WindowCause};
use crate::{Instant, State};

/// One entry of a trace.
///
/// Sequence numbers are relative to the initial one of their direction, modulo 2^32: the SYN is 0, the first
/// byte 1. Times are in microseconds, sizes in bytes; both saturate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// The state changed.
    State(State, State),
    /// A segment left, or a train of them for the device to cut.
    Sent {
        /// The reason.
        reason: SendReason,
        /// As those of [`Received`](Self::Received).
        flags: u8,
        /// Sequence number.
        seq: u32,
        /// Bytes of payload, less than 2^24.
        len: u32,
    },
    /// Sent segments acknowledge or offer other values from here on.
    Told {
        /// All of the peer's data before this has arrived.
        ack: u32,
        /// The offered window.
        window: u32,
    },
    /// A segment arrived, or several that the device coalesced.
    Received {
        /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
        flags: u8,
        /// The peer's sequence number.
        seq: u32,
        /// Bytes of payload.
        len: u32,
    },
    /// The content of an acknowledgement.
    Acked {
        /// Whether it counts as a duplicate (RFC 5681 §2, RFC 6675 §2).
        duplicate: bool,
        /// All before this has arrived.
        ack: u32,
        /// The peer's window.
        window: u32,
    },
    /// The peer holds this beyond a gap (RFC 2018).
    Sacked {
        /// Its first byte.
        left: u32,
        /// The byte after its last.
        right: u32,
    },
    /// A round trip was timed.
    RoundTrip {
        /// The sample.
        sample_us: u32,
        /// The retransmission timeout that follows from it.
        rto_us: u32,
    },
    /// The estimate after the last sample, if it changed.
    Smoothed {
        /// SRTT.
        srtt_us: u32,
        /// RTTVAR.
        rttvar_us: u32,
    },
    /// A timer was set, or moved.
    TimerSet {
        /// The timer.
        timer: Timer,
        /// The time until it expires.
        in_us: u32,
    },
    /// A timer was stopped before its time.
    TimerStopped(Timer),
    /// A timer expired.
    TimerFired {
        /// The timer.
        timer: Timer,
        /// How much later than it was set for.
        late_us: u32,
        /// The number of consecutive expiries, for the retransmission timer.
        count: u32,
    },
    /// Another limit keeps the connection from sending more.
    Limited {
        /// The limit.
        by: Limit,
        /// Bytes in flight.
        in_flight: u32,
        /// Bytes written and not yet sent.
        unsent: u32,
    },
    /// The wait that ends here was the host's: for this long data might have left, or the application might
    /// have written what it has, and neither the driver nor the application ran.
    HeldByHost {
        /// How long.
        for_us: u32,
    },
    /// The congestion window or the threshold changed.
    Window {
        /// The cause.
        cause: WindowCause,
        /// cwnd.
        cwnd: u32,
        /// ssthresh; `u32::MAX` while unset.
        ssthresh: u32,
    },
    /// Data was declared lost, all of it within these bounds.
    Lost {
        /// The rule.
        rule: LossRule,
        /// The first byte.
        start: u32,
        /// The byte after the last.
        end: u32,
    },
    /// The segment size is known, or changed.
    SegmentSize {
        /// Payload of a full segment (RFC 5681's SMSS less the options of every segment).
        bytes: u32,
    },
    /// The last reduction of the window was taken back.
    Undone(UndoRule),
    /// A loss episode ended.
    Recovered,
    /// One of the controller's own numbers changed. They are sampled when something other than an
    /// acknowledgement moves the window, and on acknowledgements up to eight times in a round trip, at least
    /// 100 µs apart.
    Controller {
        /// Its index in [`Batch::names`](super::Batch::names).
        name: u8,
        /// Its value.
        value: i64,
    },
    /// The application wrote.
    Written {
        /// Bytes accepted.
        len: u32,
        /// Bytes that wait to be sent or acknowledged, including these.
        queued: u32,
    },
    /// The application read.
    Read {
        /// Bytes.
        len: u32,
        /// Bytes that still wait to be read.
        waiting: u32,
    },
    /// The application closed its direction.
    Shutdown,
    /// The connection failed.
    Failed(Failure),
    /// An extension that is off by default made a decision.
    Extension {
        /// The decision.
        what: Extension,
        /// Its number.
        value: u32,
    },
    /// A queue of a simulated router, after it changed.
    Queue {
        /// Packets in it.
        packets: u32,
        /// Their bytes.
        bytes: u32,
    },
    /// A simulated router dropped a packet.
    Dropped {
        /// The rule's index in [`Batch::names`](super::Batch::names).
        rule: u8,
        /// Bytes of the packet.
        len: u32,
    },
}

impl Entry {
    /// The entry as a record.
    #[must_use]
    #[inline]
    pub fn encode(self, at: Instant) -> Record {
        let (kind, detail, body) = self.parts();
        Record::new(at, kind, detail, body)
    }

    /// The name of the kind, and the values by name. Sizes are in bytes; names ending in `_us` are times in
    /// microseconds.
    #[must_use]
    pub fn fields(self) -> (&'static str, Vec<(&'static str, Shown)>) {
        let number = |value: u32| Shown::Number(value.into());
        let text = Shown::Text;
        match self {
            Self::State(from, to) => ("state", vec![("from", Shown::State(from)), ("to", Shown::State(to))]),
            Self::Sent { reason, flags, seq, len } => {
                let what = ("what", text(reason.name()));
                (
                    "sent",
                    vec![what, ("flags", Shown::Flags(flags)), ("seq", number(seq)), ("len", number(len))],
                )
            }
            Self::Told { ack, window } => ("told", vec![("ack", number(ack)), ("window", number(window))]),
            Self::Received { flags, seq, len } => {
                ("received", vec![("flags", Shown::Flags(flags)), ("seq", number(seq)), ("len", number(len))])
            }
            Self::Acked { duplicate, ack, window } => {
                let what = text(if duplicate { "duplicate" } else { "new" });
                ("acked", vec![("what", what), ("ack", number(ack)), ("window", number(window))])
            }
            Self::Sacked { left, right } => ("sacked", vec![("seq", number(left)), ("end", number(right))]),
            Self::RoundTrip { sample_us, rto_us } => {
                ("round-trip", vec![("rtt_us", number(sample_us)), ("rto_us", number(rto_us))])
            }
            Self::Smoothed { srtt_us, rttvar_us } => {
                ("smoothed", vec![("srtt_us", number(srtt_us)), ("rttvar_us", number(rttvar_us))])
            }
            Self::TimerSet { timer, in_us } => {
                ("timer-set", vec![("what", text(timer.name())), ("in_us", number(in_us))])
            }
            Self::TimerStopped(timer) => ("timer-stopped", vec![("what", text(timer.name()))]),
            Self::TimerFired { timer, late_us, count } => {
                let what = ("what", text(timer.name()));
                ("timer-fired", vec![what, ("late_us", number(late_us)), ("count", number(count))])
            }
            Self::Limited { by, in_flight, unsent } => {
                let what = ("what", text(by.name()));
                ("limited", vec![what, ("in_flight", number(in_flight)), ("unsent", number(unsent))])
            }
            Self::HeldByHost { for_us } => ("held-by-host", vec![("for_us", number(for_us))]),
            Self::Window { cause, cwnd, ssthresh } => {
                let mut values = vec![("what", text(cause.name())), ("cwnd", number(cwnd))];
                if ssthresh != u32::MAX {
                    values.push(("ssthresh", number(ssthresh)));
                }
                ("window", values)
            }
            Self::Lost { rule, start, end } => {
                ("lost", vec![("what", text(rule.name())), ("seq", number(start)), ("end", number(end))])
            }
            Self::SegmentSize { bytes } => ("segment-size", vec![("bytes", number(bytes))]),
            Self::Undone(rule) => ("undone", vec![("what", text(rule.name()))]),
            Self::Recovered => ("recovered", vec![]),
            Self::Controller { name, value } => {
                ("controller", vec![("what", Shown::Name(name)), ("value", Shown::Number(value))])
            }
            Self::Written { len, queued } => {
                ("written", vec![("len", number(len)), ("queued", number(queued))])
            }
            Self::Read { len, waiting } => ("read", vec![("len", number(len)), ("waiting", number(waiting))]),
            Self::Shutdown => ("shutdown", vec![]),
            Self::Failed(failure) => ("failed", vec![("what", text(failure.name()))]),
            Self::Queue { packets, bytes } => {
                ("queue", vec![("packets", number(packets)), ("bytes", number(bytes))])
            }
            Self::Dropped { rule, len } => {
                ("dropped", vec![("what", Shown::Name(rule)), ("len", number(len))])
            }
            Self::Extension { what, value } => {
                ("extension", vec![("what", text(what.name())), ("value", number(value))])
            }
        }
    }

    /// Whether it changes the connection or costs it data: what
    /// [`TraceKeep::Changes`](super::TraceKeep::Changes) keeps.
    #[must_use]
    pub fn is_change(self) -> bool {
        match self {
            Self::State(from, to) => from != to,
            Self::Lost { .. } | Self::Undone(_) | Self::Recovered | Self::Failed(_) => true,
            Self::TimerFired { timer, .. } => timer == Timer::Retransmission,
            Self::Sent { reason, .. } => reason == SendReason::Reset,
            _ => false,
        }
    }

    #[inline]
    fn parts(self) -> (u8, u8, u64) {
        match self {
            Self::State(from, to) => (Kind::STATE, from.code(), u64::from(to.code())),
            Self::Sent { reason, flags, seq, len } => {
                let len = len.min(LEN_MAX);
                (Kind::SENT, reason.code(), pair(seq, u32::from(flags) << 24 | len))
            }
            Self::Told { ack, window } => (Kind::TOLD, 0, pair(ack, window)),
            Self::Received { flags, seq, len } => (Kind::RECEIVED, flags, pair(seq, len)),
            Self::Acked { duplicate, ack, window } => (Kind::ACKED, duplicate.into(), pair(ack, window)),
            Self::Sacked { left, right } => (Kind::SACKED, 0, pair(left, right)),
            Self::RoundTrip { sample_us, rto_us } => (Kind::ROUND_TRIP, 0, pair(sample_us, rto_us)),
            Self::Smoothed { srtt_us, rttvar_us } => (Kind::SMOOTHED, 0, pair(srtt_us, rttvar_us)),
            Self::TimerSet { timer, in_us } => (Kind::TIMER_SET, timer.code(), pair(in_us, 0)),
            Self::TimerStopped(timer) => (Kind::TIMER_STOPPED, timer.code(), 0),
            Self::TimerFired { timer, late_us, count } => {
                (Kind::TIMER_FIRED, timer.code(), pair(late_us, count))
            }
            Self::Limited { by, in_flight, unsent } => (Kind::LIMITED, by.code(), pair(in_flight, unsent)),
            Self::HeldByHost { for_us } => (Kind::HELD_BY_HOST, 0, pair(for_us, 0)),
            Self::Window { cause, cwnd, ssthresh } => (Kind::WINDOW, cause.code(), pair(cwnd, ssthresh)),
            Self::Lost { rule, start, end } => (Kind::LOST, rule.code(), pair(start, end)),
            Self::SegmentSize { bytes } => (Kind::SEGMENT_SIZE, 0, pair(bytes, 0)),
            Self::Undone(rule) => (Kind::UNDONE, rule.code(), 0),
            Self::Recovered => (Kind::RECOVERED, 0, 0),
            Self::Controller { name, value } => (Kind::CONTROLLER, name, value.cast_unsigned()),
            Self::Written { len, queued } => (Kind::WRITTEN, 0, pair(len, queued)),
            Self::Read { len, waiting } => (Kind::READ, 0, pair(len, waiting)),
            Self::Shutdown => (Kind::SHUTDOWN, 0, 0),
            Self::Failed(failure) => (Kind::FAILED, failure.code(), 0),
            Self::Extension { what, value } => (Kind::EXTENSION, what.code(), pair(value, 0)),
            Self::Queue { packets, bytes } => (Kind::QUEUE, 0, pair(packets, bytes)),
            Self::Dropped { rule, len } => (Kind::DROPPED, rule, pair(len, 0)),
        }
    }

    /// The entry in a record; `None` if this version does not know its kind, or the record is damaged.
    #[must_use]
    pub fn decode(record: Record) -> Option<Self> {
        let (kind, detail) = record.kind();
        let (first, second) = halves(record.body());
        Some(match kind {
            Kind::STATE => {
                Self::State(State::from_code(detail)?, State::from_code(u8::try_from(first).ok()?)?)
            }
            Kind::SENT => {
                let [flags, ..] = second.to_be_bytes();
                let (reason, len) = (SendReason::from_code(detail)?, second & LEN_MAX);
                Self::Sent { reason, flags, seq: first, len }
            }
            Kind::TOLD => Self::Told { ack: first, window: second },
            Kind::RECEIVED => Self::Received { flags: detail, seq: first, len: second },
            Kind::ACKED => Self::Acked { duplicate: detail != 0, ack: first, window: second },
            Kind::SACKED => Self::Sacked { left: first, right: second },
            Kind::ROUND_TRIP => Self::RoundTrip { sample_us: first, rto_us: second },
            Kind::SMOOTHED => Self::Smoothed { srtt_us: first, rttvar_us: second },
            Kind::TIMER_SET => Self::TimerSet { timer: Timer::from_code(detail)?, in_us: first },
            Kind::TIMER_STOPPED => Self::TimerStopped(Timer::from_code(detail)?),
            Kind::TIMER_FIRED => {
                Self::TimerFired { timer: Timer::from_code(detail)?, late_us: first, count: second }
            }
            Kind::LIMITED => {
                Self::Limited { by: Limit::from_code(detail)?, in_flight: first, unsent: second }
            }
            Kind::HELD_BY_HOST => Self::HeldByHost { for_us: first },
            Kind::WINDOW => {
                Self::Window { cause: WindowCause::from_code(detail)?, cwnd: first, ssthresh: second }
            }
            Kind::LOST => Self::Lost { rule: LossRule::from_code(detail)?, start: first, end: second },
            Kind::SEGMENT_SIZE => Self::SegmentSize { bytes: first },
            Kind::UNDONE => Self::Undone(UndoRule::from_code(detail)?),
            Kind::RECOVERED => Self::Recovered,
            Kind::CONTROLLER => Self::Controller { name: detail, value: record.body().cast_signed() },
            Kind::WRITTEN => Self::Written { len: first, queued: second },
            Kind::READ => Self::Read { len: first, waiting: second },
            Kind::SHUTDOWN => Self::Shutdown,
            Kind::FAILED => Self::Failed(Failure::from_code(detail)?),
            Kind::QUEUE => Self::Queue { packets: first, bytes: second },
            Kind::DROPPED => Self::Dropped { rule: detail, len: first },
            Kind::EXTENSION => Self::Extension { what: Extension::from_code(detail)?, value: first },
            _ => return None,
        })
    }
}

/// A field of an entry, as a table shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shown {
    /// A number.
    Number(i64),
    /// A name.
    Text(&'static str),
    /// Control bits, as those of [`Entry::Received`].
    Flags(u8),
    /// An index in [`Batch::names`](super::Batch::names).
    Name(u8),
    /// A state.
    State(State),
}

#[inline]
fn pair(first: u32, second: u32) -> u64 {
    u64::from(second) << 32 | u64::from(first)
}

#[expect(clippy::cast_possible_truncation, reason = "two halves")]
fn halves(body: u64) -> (u32, u32) {
    (body as u32, (body >> 32) as u32)
}

/// The largest payload length that an entry can hold.
const LEN_MAX: u32 = (1 << 24) - 1;

/// The numbers of the kinds in files. Their meaning never changes.
struct Kind;

impl Kind {
    const STATE: u8 = 1;
    const SENT: u8 = 2;
    const RECEIVED: u8 = 3;
    const ACKED: u8 = 4;
    const SACKED: u8 = 5;
    const ROUND_TRIP: u8 = 6;
    const SMOOTHED: u8 = 7;
    const TIMER_SET: u8 = 8;
    const TIMER_STOPPED: u8 = 9;
    const TIMER_FIRED: u8 = 10;
    const LIMITED: u8 = 11;
    const WINDOW: u8 = 12;
    const LOST: u8 = 13;
    const UNDONE: u8 = 14;
    const RECOVERED: u8 = 15;
    const CONTROLLER: u8 = 16;
    const WRITTEN: u8 = 17;
    const READ: u8 = 18;
    const SHUTDOWN: u8 = 19;
    const FAILED: u8 = 20;
    const QUEUE: u8 = 21;
    const DROPPED: u8 = 22;
    const TOLD: u8 = 23;
    const SEGMENT_SIZE: u8 = 24;
    const EXTENSION: u8 = 25;
    const HELD_BY_HOST: u8 = 26;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_from_its_record() {
        let (a, b) = (7, u32::MAX);
        let entries = [
            Entry::State(State::SynSent, State::Established),
            Entry::Sent { reason: SendReason::Reset, flags: 0x81, seq: a, len: LEN_MAX },
            Entry::Told { ack: a, window: b },
            Entry::Received { flags: 0xff, seq: a, len: b },
            Entry::Acked { duplicate: true, ack: a, window: b },
            Entry::Sacked { left: a, right: b },
            Entry::RoundTrip { sample_us: a, rto_us: b },
            Entry::Smoothed { srtt_us: a, rttvar_us: b },
            Entry::TimerSet { timer: Timer::Cork, in_us: b },
            Entry::TimerStopped(Timer::Persist),
            Entry::TimerFired { timer: Timer::Retransmission, late_us: a, count: b },
            Entry::Limited { by: Limit::NotOpen, in_flight: a, unsent: b },
            Entry::Window { cause: WindowCause::SegmentSize, cwnd: a, ssthresh: b },
            Entry::Lost { rule: LossRule::WindowReopened, start: a, end: b },
            Entry::SegmentSize { bytes: b },
            Entry::Undone(UndoRule::MinRtt),
            Entry::Recovered,
            Entry::Controller { name: 3, value: i64::MIN },
            Entry::Written { len: a, queued: b },
            Entry::Read { len: a, waiting: b },
            Entry::Shutdown,
            Entry::Failed(Failure::OutOfMemory),
            Entry::Queue { packets: a, bytes: b },
            Entry::Dropped { rule: 2, len: b },
            Entry::Extension { what: Extension::UserTimeoutAdopted, value: b },
            Entry::HeldByHost { for_us: b },
        ];
        for entry in entries {
            let record = entry.encode(Instant::from_millis(42));
            assert_eq!(Entry::decode(record), Some(entry));
            assert_eq!(record.nanos(), 42_000_000);
        }
        // Catches a kind that is added to only one of the lists.
        let kinds: std::collections::BTreeSet<u8> =
            entries.iter().map(|entry| entry.encode(Instant::ZERO).kind().0).collect();
        assert_eq!(kinds, (Kind::STATE..=Kind::HELD_BY_HOST).collect());
    }

    #[test]
    fn what_is_not_known_is_none() {
        for (kind, detail) in [(0, 0), (255, 0), (Kind::SENT, 200), (Kind::STATE, 99), (Kind::LOST, 77)] {
            assert_eq!(Entry::decode(Record::new(Instant::ZERO, kind, detail, 0)), None);
        }
    }
}
