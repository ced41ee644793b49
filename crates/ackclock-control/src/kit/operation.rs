//! Events as data: sequences that a network would not produce but controllers must survive.

use std::time::Duration;

use crate::Instant;
use crate::congestion::{
    Ack, Controller, IdleRestart, LossCause, LossEpisode, Lost, RecoveryEnd, Sent, Timeout, Undo,
};

/// One event with arbitrary contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the events")]
#[non_exhaustive]
pub enum Operation {
    /// See [`Ack`].
    Ack { bytes: u64, rtt_ns: u64, delivered: u64, in_flight: u64, flags: u8 },
    /// See [`LossEpisode`].
    LossEpisode { flight_size: u64, ecn: bool },
    /// See [`Timeout`].
    Timeout { flight_size: u64, expiries: u32 },
    /// See [`Sent`].
    Sent { bytes: u64, in_flight: u64 },
    /// See [`RecoveryEnd`].
    RecoveryEnd { in_flight: u64 },
    /// See [`IdleRestart`].
    IdleRestart { restart_window: u64 },
    /// See [`Undo`].
    Undo,
    /// See [`Controller::on_mss_change`].
    MssChange { smss: u16 },
    /// The clock moves, in either direction.
    Clock { to_ns: u64 },
}

impl Operation {
    /// The operation that these numbers encode. Any numbers give one.
    #[must_use]
    pub fn from_numbers(kind: u8, a: u64, b: u64, c: u64, d: u64) -> Self {
        let low = |value: u64| u8::try_from(value & 0xff).unwrap_or(0);
        match kind % 16 {
            0..=6 => Self::Ack { bytes: a, rtt_ns: b, delivered: c, in_flight: d, flags: low(a ^ c) },
            7 => Self::LossEpisode { flight_size: a, ecn: b.is_multiple_of(4) },
            8 => Self::Timeout { flight_size: a, expiries: u32::try_from(b % 20).unwrap_or(0) },
            9 | 10 => Self::Sent { bytes: a, in_flight: b },
            11 => Self::RecoveryEnd { in_flight: a },
            12 => Self::IdleRestart { restart_window: a },
            13 => Self::Undo,
            14 => Self::MssChange { smss: u16::try_from(a & 0xffff).unwrap_or(0) },
            _ => Self::Clock { to_ns: a },
        }
    }

    /// Hands the event to `controller`. `state` carries what one event passes to the next.
    pub fn apply(self, controller: &mut dyn Controller, state: &mut State) {
        let State { now, delivered, .. } = *state;
        match self {
            Self::Ack { bytes, rtt_ns, delivered, in_flight, flags } => {
                state.delivered = delivered;
                controller.on_ack(&hostile_ack(now, bytes, rtt_ns, delivered, in_flight, flags));
            }
            Self::LossEpisode { flight_size, ecn } => {
                let prior_delivered = delivered.saturating_sub(flight_size);
                let app_limited = flight_size.is_multiple_of(3);
                controller.on_lost(&Lost {
                    now,
                    bytes: flight_size / 2,
                    delivered,
                    prior_delivered,
                    app_limited,
                    tx_in_flight: flight_size,
                    lost: flight_size,
                });
                let cause = if ecn { LossCause::EcnEcho } else { LossCause::Reordering };
                controller.on_loss_episode(&LossEpisode {
                    now,
                    cause,
                    flight_size,
                    peer_window: flight_size.rotate_left(17),
                    bytes_lost: flight_size / 2,
                    delivered,
                    repeated: flight_size.is_multiple_of(2),
                });
            }
            Self::Timeout { flight_size, expiries } => {
                controller.on_timeout(&Timeout {
                    now,
                    flight_size,
                    peer_window: flight_size.rotate_left(17),
                    expiries,
                    delivered,
                });
            }
            Self::Sent { bytes, in_flight } => {
                controller.on_sent(&Sent { now, bytes, in_flight, retransmission: bytes % 2 == 1 });
            }
            Self::RecoveryEnd { in_flight } => {
                controller.on_recovery_end(&RecoveryEnd {
                    now,
                    in_flight,
                    inflation: in_flight.rotate_left(17),
                    delivered,
                });
            }
            Self::IdleRestart { restart_window } => {
                let (idle, rto) = (Duration::from_nanos(restart_window), Duration::from_secs(1));
                controller.on_idle_restart(&IdleRestart { now, idle, rto, restart_window });
            }
            Self::Undo => controller.on_undo(&Undo { now }),
            Self::MssChange { smss } => {
                state.smss = smss.max(1);
                controller.on_mss_change(u32::from(state.smss));
            }
            Self::Clock { to_ns } => state.now = Instant::from_nanos(to_ns),
        }
    }
}

/// The state that a sequence of operations carries along.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The present time.
    pub now: Instant,
    /// Bytes delivered, as last claimed.
    pub delivered: u64,
    /// The segment size last set.
    pub smss: u16,
}

impl State {
    /// The state at the start of a sequence.
    #[must_use]
    pub fn new(smss: u16) -> Self {
        Self { now: Instant::ZERO, delivered: 0, smss }
    }
}

/// A sequence of operations from a seed: the same seed gives the same sequence.
pub fn sequence(seed: u64) -> impl Iterator<Item = Operation> {
    let mut random = Xorshift(seed | 1);
    std::iter::repeat_with(move || {
        let kind = random.byte();
        let mut number = || random.size();
        Operation::from_numbers(kind, number(), number(), number(), number())
    })
}

fn hostile_ack(now: Instant, bytes: u64, rtt_ns: u64, delivered: u64, in_flight: u64, flags: u8) -> Ack {
    let flag = |bit: u8| flags & (1 << bit) != 0;
    Ack {
        now,
        bytes_acked: bytes,
        bytes_cumulative: if flag(0) { bytes } else { 0 },
        rtt_ns: flag(1).then_some(rtt_ns),
        srtt_ns: rtt_ns,
        rtt_min_ns: if flag(2) { rtt_ns } else { rtt_ns / 2 },
        delivered,
        prior_delivered: if flag(3) { delivered.saturating_sub(in_flight) } else { in_flight },
        sent_at: now - Duration::from_nanos(rtt_ns),
        delivery_interval_ns: if flag(4) { rtt_ns } else { 0 },
        app_limited: flag(5),
        tx_in_flight: in_flight,
        lost: if flag(7) { in_flight / 16 } else { 0 },
        prior_in_flight: in_flight.saturating_add(bytes),
        in_flight,
        cwnd_limited: flag(6),
        in_recovery: flag(7),
        ecn_marked: if flag(0) { bytes / 2 } else { 0 },
    }
}

/// G. Marsaglia, "Xorshift RNGs", 2003: random enough to vary tests, and the same on every machine.
struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.next() >> 56).unwrap_or(0)
    }

    /// A number of random magnitude; zero and the largest are among them.
    fn size(&mut self) -> u64 {
        match self.byte() {
            0..=7 => 0,
            8..=15 => u64::MAX,
            _ => {
                let bits = self.next() % 64;
                self.next() >> bits
            }
        }
    }
}
