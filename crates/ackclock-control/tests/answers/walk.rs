//! Random events of a connection: its round trip, queue, marks, losses and application change as they like,
//! and what the events say of one another fits.

use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::congestion::{
    Ack, Controller, IdleRestart, LossCause, LossEpisode, Lost, RecoveryEnd, Sent, Start, Timeout, Undo,
};
use ackclock_test_support::rng::Rng;

/// What kind of connection a walk is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) smss: u32,
    pub(crate) initial_segments: u64,
    pub(crate) base_rtt: Duration,
    /// The largest number of segments in flight.
    pub(crate) segments_max: u64,
    /// One event in this number is not an acknowledgement.
    pub(crate) calm: u64,
}

pub(crate) const KINDS: [Kind; 7] = [
    Kind { name: "calm", ..Kind::PLAIN },
    Kind { name: "rough", calm: 12, ..Kind::PLAIN },
    Kind { name: "small", segments_max: 8, calm: 60, ..Kind::PLAIN },
    Kind { name: "long", segments_max: 24, calm: 400, base_rtt: Duration::from_millis(40), ..Kind::PLAIN },
    Kind { name: "quick", smss: 9000, base_rtt: Duration::from_micros(150), ..Kind::PLAIN },
    Kind { name: "bytes", smss: 1, initial_segments: 2, calm: 30, ..Kind::PLAIN },
    Kind {
        name: "huge",
        smss: 65_535,
        initial_segments: 65_000,
        segments_max: 1 << 20,
        calm: 20,
        ..Kind::PLAIN
    },
];

impl Kind {
    const PLAIN: Self = Self {
        name: "",
        smss: 1448,
        initial_segments: 10,
        base_rtt: Duration::from_millis(100),
        segments_max: 200,
        calm: 150,
    };

    pub(crate) fn start(&self) -> Start {
        let initial_window = u64::from(self.smss) * self.initial_segments;
        Start { smss: self.smss, initial_window, now: Instant::from_millis(1000) }
    }
}

/// How the path behaves for some dozen acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Steady,
    Filling,
    Draining,
    Jittery,
    Marking,
    Unused,
    Lossy,
    Divided,
}

#[derive(Debug)]
pub(crate) struct Walk {
    kind: Kind,
    random: Rng,
    weather: Weather,
    now: Instant,
    smss: u64,
    base_ns: u64,
    queue_ns: u64,
    srtt_ns: u64,
    rtt_min_ns: u64,
    delivered: u64,
    lost: u64,
    in_flight: u64,
    expiries: u32,
    in_recovery: bool,
}

impl Walk {
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        let base_ns = kind.base_rtt.as_nanos() as u64;
        Self {
            kind,
            random: Rng::new(seed),
            weather: Weather::Steady,
            now: kind.start().now,
            smss: u64::from(kind.smss),
            base_ns,
            queue_ns: 0,
            srtt_ns: 0,
            rtt_min_ns: u64::MAX,
            delivered: 0,
            lost: 0,
            in_flight: u64::from(kind.smss) * kind.initial_segments,
            expiries: 0,
            in_recovery: false,
        }
    }

    pub(crate) fn step(&mut self, controller: &mut dyn Controller) {
        use Weather::{Divided, Draining, Filling, Jittery, Lossy, Marking, Steady, Unused};
        if self.random.one_in(48) {
            let weathers = [Steady, Filling, Filling, Draining, Jittery, Marking, Unused, Lossy, Divided];
            self.weather = self.random.pick(&weathers);
        }
        if self.random.one_in(self.kind.calm) {
            return self.disturb(controller);
        }
        let ack = self.next_ack(controller.cwnd());
        controller.on_ack(&ack);
        let bytes = self.smss * (1 + self.random.below(2));
        let (now, in_flight, retransmission) = (self.now, self.in_flight + bytes, self.random.one_in(40));
        if self.random.one_in(3) {
            controller.on_sent(&Sent { now, bytes, in_flight, retransmission });
        }
    }

    /// The next acknowledgement; its segment was sent a window ago.
    fn next_ack(&mut self, cwnd: u64) -> Ack {
        let segments = self.random.pick(&[1, 1, 1, 2, 2, 3, 8]);
        let bytes_acked = match self.weather {
            Weather::Divided => self.random.below(self.smss + 1),
            _ => segments * self.smss,
        };
        let most = self.smss.saturating_mul(self.kind.segments_max);
        let share = if self.weather == Weather::Unused { 3 } else { 1 };
        let window = (cwnd / share).clamp(self.smss, most);
        let rtt_ns = self.next_rtt();
        let gap = u128::from(rtt_ns) * u128::from(bytes_acked) / u128::from(window);
        self.now += Duration::from_nanos(gap as u64);
        self.delivered += bytes_acked;
        let prior_in_flight = window;
        self.in_flight = window.saturating_sub(bytes_acked);
        let newly_lost = self.weather == Weather::Lossy && self.random.one_in(4);
        self.lost += if newly_lost { self.smss } else { 0 };
        let rtt = Duration::from_nanos(rtt_ns);
        let is_marked = self.weather == Weather::Marking && !self.random.one_in(3);
        Ack {
            now: self.now,
            bytes_acked,
            bytes_cumulative: if self.random.one_in(20) { 0 } else { bytes_acked },
            rtt: (!self.random.one_in(24)).then_some(rtt),
            srtt: Duration::from_nanos(self.srtt_ns),
            rtt_min: Duration::from_nanos(self.rtt_min_ns),
            delivered: self.delivered,
            prior_delivered: self.delivered.saturating_sub(window),
            sent_at: self.now - rtt,
            delivery_interval: rtt + Duration::from_nanos(self.random.below(1 + rtt_ns / 32)),
            app_limited: self.weather == Weather::Unused,
            tx_in_flight: window,
            lost: if self.weather == Weather::Lossy { self.smss * self.random.below(4) } else { 0 },
            prior_in_flight,
            in_flight: self.in_flight,
            cwnd_limited: self.weather != Weather::Unused,
            in_recovery: self.in_recovery,
            ecn_marked: if is_marked { self.random.pick(&[self.smss, bytes_acked]) } else { 0 },
        }
    }

    fn next_rtt(&mut self) -> u64 {
        match self.weather {
            Weather::Filling => self.queue_ns = (self.queue_ns + self.base_ns / 100).min(2 * self.base_ns),
            Weather::Draining => self.queue_ns -= self.queue_ns / 16,
            Weather::Steady if self.random.one_in(300) => {
                self.base_ns = self.base_ns * self.random.pick(&[1, 3, 5]) / 2 + 1000;
            }
            _ => {}
        }
        let jitter = if self.weather == Weather::Jittery { self.base_ns / 4 } else { self.base_ns / 500 };
        let rtt = self.base_ns + self.queue_ns + self.random.below(1 + jitter);
        self.srtt_ns = if self.srtt_ns == 0 { rtt } else { (7 * self.srtt_ns + rtt) / 8 };
        self.rtt_min_ns = self.rtt_min_ns.min(rtt);
        rtt
    }

    /// Anything but an acknowledgement.
    fn disturb(&mut self, controller: &mut dyn Controller) {
        let (now, delivered, in_flight) = (self.now, self.delivered, self.in_flight);
        match self.random.below(14) {
            0..=2 => self.lose(controller, LossCause::DuplicateAcks),
            3 => self.lose(controller, LossCause::Reordering),
            4 => self.lose(controller, LossCause::EcnEcho),
            5 | 6 => {
                self.expiries += 1;
                let expiries = self.expiries;
                self.now += Duration::from_nanos(self.srtt_ns + 200_000_000);
                let now = self.now;
                controller.on_timeout(&Timeout { now, flight_size: in_flight, expiries, delivered });
                if self.random.one_in(2) {
                    self.expiries = 0;
                }
            }
            7 | 8 => {
                self.in_recovery = false;
                controller.on_recovery_end(&RecoveryEnd { now, in_flight, delivered });
            }
            9 => self.idle(controller),
            10 | 11 => controller.on_undo(&Undo { now }),
            12 => controller.limit_slow_start(self.smss * self.random.below(64)),
            _ if self.random.one_in(2) => {
                let smss = self.random.pick(&[self.kind.smss, self.kind.smss / 2 + 1]);
                self.smss = u64::from(smss);
                controller.on_mss_change(smss);
            }
            _ => self.base_ns = self.base_ns * self.random.pick(&[2, 3]) / 3 + 1000,
        }
    }

    fn lose(&mut self, controller: &mut dyn Controller, cause: LossCause) {
        let (now, delivered) = (self.now, self.delivered);
        let segments = 1 + self.random.below(4);
        let bytes = if cause == LossCause::EcnEcho { 0 } else { segments * self.smss };
        let flight_size = controller.cwnd().min(self.in_flight + bytes);
        self.lost += bytes;
        for _ in 0..bytes / self.smss {
            controller.on_lost(&Lost {
                now,
                bytes: self.smss,
                delivered,
                prior_delivered: delivered.saturating_sub(flight_size),
                app_limited: self.weather == Weather::Unused,
                tx_in_flight: flight_size,
                lost: bytes,
            });
        }
        controller.on_loss_episode(&LossEpisode { now, cause, flight_size, bytes_lost: bytes, delivered });
        self.in_recovery = bytes > 0;
    }

    fn idle(&mut self, controller: &mut dyn Controller) {
        let idle = Duration::from_millis(self.random.pick(&[300, 1500, 12_000, 400_000]));
        self.now += idle;
        let (now, rto) = (self.now, Duration::from_nanos(self.srtt_ns + 200_000_000));
        let window = self.smss * self.kind.initial_segments;
        let restart_window = self.random.pick(&[window, self.smss, controller.cwnd()]);
        controller.on_idle_restart(&IdleRestart { now, idle, rto, restart_window });
        self.in_flight = 0;
    }
}
