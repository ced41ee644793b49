//! Every estimator of round trips and of bandwidth, what stands around a controller, and the arithmetic of
//! windows, each on seeded random input.

use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::bandwidth::{
    Combine, CsaConfig, Passage, Receiver, SenderEstimatorKind, pbm, pbm_between, pbm_prime,
};
use ackclock_control::congestion::{
    Ack, Controller, Counting, HyStart, IdlePolicy, IdleRestart, LossEpisode, SlowStart, Start, StartUp,
    Timeout, Validation, Window, window_rate,
};
use ackclock_control::rate::DatagramRate;
use ackclock_control::rtt::{RtoConfig, RttEstimator, TickEstimator, presets};
use ackclock_control::time::nanos;
use ackclock_test_support::rng::Rng;

use crate::controllers::{all, find};
use crate::observed::Shared;
use crate::recorder::{Recorder, Run, compare};
use crate::walk::{KINDS, Walk};

const MS: u64 = 1_000_000;

fn ns(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

/// What a timeout estimator shows at a time.
fn shown(rtt: &RttEstimator, now: Instant) -> [u64; 14] {
    let later = now + ns(7_300_011);
    [
        nanos(rtt.srtt()),
        rtt.srtt_nanos(),
        nanos(rtt.rttvar()),
        nanos(rtt.rtt_min()),
        rtt.rtt_min_nanos(),
        nanos(rtt.latest()),
        u64::from(rtt.has_sample()),
        u64::from(rtt.backoff()),
        nanos(rtt.rto()),
        nanos(rtt.rto_unbacked()),
        rtt.rto_min_nanos(),
        u64::from(rtt.times_one_segment()),
        rtt.expires_at(now).as_nanos(),
        rtt.deadline(later, rtt.rto_unbacked() / 3).as_nanos(),
    ]
}

fn round_trip(random: &mut Rng) -> u64 {
    let base = random.pick(&[0, 1, 200, 30_000, MS, 40 * MS, 100 * MS, 500 * MS, 3000 * MS, u64::MAX / 3]);
    base + random.below(1 + base / 3)
}

fn drive_rtt(recorder: &mut Recorder, config: RtoConfig, seed: u64) {
    let mut random = Rng::new(seed);
    let mut rtt = RttEstimator::new(&config);
    let configs: Vec<RtoConfig> = presets::all().map(|preset| preset.config).collect();
    let (mut now, mut usual) = (Instant::from_millis(777), 80 * MS);
    for _ in 0..600 {
        now += ns(random.below(60 * MS));
        if random.one_in(40) {
            usual = round_trip(&mut random).min(1 << 40);
        }
        let sample = usual + random.below(1 + usual / 8);
        let call = random.below(40);
        match call {
            0 => rtt.on_expiry(),
            1 => rtt.on_spurious_expiry(),
            2 => rtt.adapt_to_spurious_expiry(ns(round_trip(&mut random)), ns(round_trip(&mut random))),
            3 => rtt.reset_backoff(),
            4 if random.one_in(10) => rtt.on_handshake_after_expiry(),
            5 if random.one_in(10) => {
                (0..random.below(3)).for_each(|_| rtt.on_expiry());
                rtt.set_config(&random.pick(&configs));
            }
            5 => (0..random.below(80)).for_each(|_| rtt.on_expiry()),
            6 => rtt.on_segment_retransmitted(),
            7 => rtt.on_sample(ns(round_trip(&mut random))),
            8..=16 => rtt.on_segment_sent(now),
            17..=24 => rtt.on_sample(ns(sample)),
            _ => {
                let sampled = rtt.on_segment_acked(now - ns(sample), now);
                recorder.note(&[u64::from(sampled)], || format!("sampled: {sampled}"));
            }
        }
        let shown = shown(&rtt, now);
        recorder.note(&shown, || format!("{now:?} call {call} sample {sample}: {shown:?}"));
    }
}

#[test]
fn every_timeout_estimator_answers_as_recorded() {
    let changed = [
        "rfc6298,min=0,g=100ms",
        "rfc6298,max=1s,initial=1.5s",
        "rfc6298,a1=0,a2=1,k=1",
        "rfc6298,a1=1/3,a2=1/7,k=255,adapt=on,floor=deviation,g=1ms",
        "rfc6298,heartbeat=on,g=7ms",
        "rfc6298,sampling=flight,heartbeat=on,g=500ms",
        "rfc6298,arithmetic=ticks,g=10ms",
        "rfc793,beta=3,min=0",
    ];
    let named = presets::all().map(|preset| (preset.name.to_owned(), preset.config));
    let changed = changed.map(|words| (words.to_owned(), RtoConfig::find(words).unwrap()));
    let without = RtoConfig { backoff: false, ..RtoConfig::RFC_6298 };
    let all = named.chain(changed).chain([("backoff=off".to_owned(), without)]);
    let runs: Vec<Run> = all
        .map(|(name, config)| {
            Run::new(name, move |mut recorder| {
                (1..=3).for_each(|seed| drive_rtt(&mut recorder, config, seed));
                recorder
            })
        })
        .collect();
    compare("timeouts.txt", &runs);
}

/// Acknowledgements of flights that a bottleneck spaced, some late, some doubled; times and bytes.
fn spaced(random: &mut Rng, count: usize) -> Vec<(Instant, u64)> {
    let (mut at, mut gap) = (Instant::from_millis(100), 3 * MS);
    (0..count)
        .map(|_| {
            if random.one_in(12) {
                gap = random.pick(&[0, 1, 11_000, MS, 4 * MS, 8 * MS, 9 * MS, 10 * MS, 12 * MS, 90 * MS]);
            }
            let noise = if random.one_in(2) { 0 } else { random.below(1 + gap / 8) };
            at += ns(gap + noise);
            (at, random.pick(&[0, 1000, 1000, 1000, 2000, 2000, 3000]))
        })
        .collect()
}

fn sender_estimators() -> Vec<(String, SenderEstimatorKind)> {
    let csa = |n, nu_e4| CsaConfig::new(n, nu_e4).unwrap();
    let changed = [
        SenderEstimatorKind::Tssf { n: 2 },
        SenderEstimatorKind::Tssf { n: 7 },
        SenderEstimatorKind::Csa(csa(2, 1)),
        SenderEstimatorKind::Csa(csa(5, 2000)),
        SenderEstimatorKind::Tcsa(csa(4, 10_000)),
        SenderEstimatorKind::TcsaPrime(csa(2, 5000)),
    ];
    let all = SenderEstimatorKind::ALL.into_iter().map(|(_, kind)| kind).chain(changed);
    all.map(|kind| (kind.to_string(), kind)).collect()
}

#[test]
fn every_bandwidth_estimator_answers_as_recorded() {
    let mut runs: Vec<Run> = sender_estimators()
        .into_iter()
        .map(|(name, kind)| {
            Run::new(name, move |mut recorder| {
                for seed in 1..=60 {
                    let mut random = Rng::new(seed);
                    let (rtt, initial) = (ns(random.pick(&[10, 40, 100, 400]) * MS), random.below(9) * 1000);
                    let mut estimator = kind.create(rtt, initial, 1000);
                    for (at, bytes) in spaced(&mut random, 40) {
                        estimator.on_ack(at, bytes);
                        let (estimate, done) = (estimator.estimate(), estimator.is_done());
                        let numbers =
                            [estimate.map_or(0, |estimate| estimate.wrapping_add(1)), u64::from(done)];
                        recorder.note(&numbers, || format!("{seed} {at:?} {bytes}: {estimate:?} {done}"));
                    }
                }
                recorder
            })
        })
        .collect();
    runs.push(Run::new("receiver", |mut recorder| {
        (1..=40).for_each(|seed| drive_receiver(&mut recorder, seed));
        recorder
    }));
    runs.push(Run::new("pbm", |mut recorder| {
        (1..=60).for_each(|seed| drive_pbm(&mut recorder, seed));
        recorder
    }));
    compare("bandwidth.txt", &runs);
}

fn drive_receiver(recorder: &mut Recorder, seed: u64) {
    let mut random = Rng::new(seed);
    let samples_max = random.pick(&[0, 1, 2, 5, 12, 1000]);
    let mut receiver = Receiver::new(samples_max, random.pick(&[1000, 2000, 4000]), 1000);
    for (at, bytes) in spaced(&mut random, 150) {
        receiver.on_data(at, bytes);
        if random.one_in(2) {
            receiver.on_ack_sent();
        }
        if random.one_in(140) {
            receiver.on_loss();
        }
        let all = receiver.estimates();
        let each = [Combine::Min, Combine::Avg, Combine::Med, Combine::Max].map(|how| receiver.estimate(how));
        recorder.say(format!("{seed} {at:?} {bytes}: {all:?} {each:?} {}", receiver.samples()));
    }
    if seed.is_multiple_of(8) {
        // A sender that uses little of its window, up to the bound on the bursts that are remembered.
        let mut receiver = Receiver::new(8, 1 << 40, 1000);
        for count in 0..4200_u64 {
            receiver.on_data(Instant::from_nanos(count * MS), 1000);
            receiver.on_ack_sent();
        }
        recorder.say(format!("{receiver:?}"));
    }
}

fn drive_pbm(recorder: &mut Recorder, seed: u64) {
    let mut random = Rng::new(seed);
    let count = random.below(40) as usize;
    let arrivals = spaced(&mut random, count);
    let with_losses: Vec<_> = arrivals.iter().map(|&(at, bytes)| (at, bytes, random.one_in(30))).collect();
    let passages: Vec<Passage> =
        arrivals
            .iter()
            .map(|&(arrived, bytes)| Passage {
                sent: Instant::from_nanos(arrived.as_nanos() / 3),
                arrived,
                bytes,
            })
            .map(|passage| {
                if random.one_in(3) { Passage { sent: Instant::from_millis(5), ..passage } } else { passage }
            })
            .collect();
    let found = (pbm(arrivals), pbm_prime(with_losses), pbm_between(passages));
    recorder.say(format!("{seed} {count}: {found:?}"));
}

/// A controller behind start-up estimation and validation, as a connection has them.
#[derive(Debug)]
struct Layered {
    inner: Box<dyn Controller>,
    start_up: StartUp,
    validation: Validation,
    shared: Shared,
}

impl Controller for Layered {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.start_up.before_ack(self.inner.as_mut(), ack);
        self.validation.before_ack(self.inner.as_mut(), ack);
        self.inner.on_ack(ack);
        self.shared.recorder().say(format!("{:?}", self.start_up.estimate()));
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.start_up.end();
        let used = self.validation.as_used(self.inner.as_ref(), *loss);
        self.inner.on_loss_episode(&used);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.start_up.end();
        self.inner.on_timeout(timeout);
    }

    fn on_mss_change(&mut self, smss: u32) {
        self.inner.on_mss_change(smss);
    }

    fn on_idle_restart(&mut self, idle: &IdleRestart) {
        self.inner.on_idle_restart(idle);
    }

    fn cwnd(&self) -> u64 {
        self.inner.cwnd()
    }

    fn ssthresh(&self) -> u64 {
        self.inner.ssthresh()
    }
}

#[test]
fn what_stands_before_a_controller_answers_as_recorded() {
    let kinds = sender_estimators();
    let runs: Vec<Run> = all()
        .into_iter()
        .zip(kinds.into_iter().cycle())
        .flat_map(|(words, (estimator, kind))| {
            KINDS.into_iter().take(4).enumerate().map(move |(at, walk_kind)| {
                let factory = find(&words);
                Run::new(format!("{words} {estimator} {}", walk_kind.name), move |recorder| {
                    let (shared, start) = (Shared::new(recorder), walk_kind.start());
                    let inner = shared.observed(factory.create(&start), &start);
                    let (start_up, validation) = (StartUp::new(kind, &start), Validation::new(&start));
                    let mut layered = Layered { inner, start_up, validation, shared: shared.clone() };
                    let mut walk = Walk::new(walk_kind, 50 + at as u64);
                    (0..600).for_each(|_| walk.step(&mut layered));
                    shared.taken()
                })
            })
        })
        .collect();
    compare("layers.txt", &runs);
}

/// A window after every kind of call, from states on both sides of each bound.
fn drive_window(recorder: &mut Recorder, seed: u64) {
    let mut random = Rng::new(seed);
    let smss = random.pick(&[1, 536, 1000, 1448, 65_535]);
    let start = Start { smss, initial_window: 10 * u64::from(smss), now: Instant::ZERO };
    let (mut window, smss) = (Window::new(&start), u64::from(smss));
    for _ in 0..200 {
        let size = |random: &mut Rng| match random.below(12) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << 32,
            3 => (1 << 32) - random.below(3 * smss),
            4 => random.below(1 << 33),
            5 => random.below(smss),
            _ => random.below(30) * smss + random.below(3),
        };
        let (call, bytes) = (random.below(13), size(&mut random));
        let answer = match call {
            0 => {
                window.grow(bytes, random.pick(&[Counting::Acks, Counting::Bytes]));
                0
            }
            1 => window.slow_start(bytes, SlowStart::Unlimited),
            2 => window.slow_start(bytes, random.pick(&[SlowStart::PerAck, SlowStart::Counted])),
            3 | 4 => {
                window.reno_step(bytes);
                0
            }
            5 => window.half_of(bytes),
            6 => {
                window.reduce(bytes);
                0
            }
            7 => {
                let expiries = 1 + u32::from(random.one_in(3));
                let timeout = Timeout { now: start.now, flight_size: bytes, expiries, delivered: 0 };
                window.collapse(&timeout, size(&mut random));
                0
            }
            8 => u64::from(window.undo()),
            9 => {
                window.set_cwnd(bytes);
                window.remember();
                0
            }
            10 => {
                window.ease(bytes);
                0
            }
            11 => {
                window.limit_slow_start(bytes);
                0
            }
            _ => {
                window.set_ssthresh(bytes);
                window.set_smss(random.pick(&[smss as u32, smss as u32 + 1]));
                0
            }
        };
        let shown =
            [window.cwnd(), window.ssthresh(), window.smss(), u64::from(window.in_slow_start()), answer];
        recorder.note(&shown, || format!("call {call} {bytes}: {shown:?}"));
    }
}

fn drive_hystart(recorder: &mut Recorder, seed: u64) {
    let kind = KINDS[seed as usize % 4];
    #[derive(Debug)]
    struct Slow(Window, HyStart);
    impl Controller for Slow {
        fn name(&self) -> &'static str {
            "slow"
        }
        fn on_ack(&mut self, ack: &Ack) {
            let rest = self.1.slow_start(&mut self.0, ack);
            self.0.reno_step(rest);
        }
        fn on_loss_episode(&mut self, loss: &LossEpisode) {
            self.0.reduce(loss.flight_size / 2);
            self.0.set_ssthresh(u64::MAX);
        }
        fn on_timeout(&mut self, _: &Timeout) {
            (self.0, self.1) = (self.0, HyStart::new());
        }
        fn on_mss_change(&mut self, smss: u32) {
            self.0.set_smss(smss);
        }
        fn cwnd(&self) -> u64 {
            self.0.cwnd()
        }
        fn ssthresh(&self) -> u64 {
            self.0.ssthresh() ^ u64::from(self.1.is_conservative())
        }
    }
    let (shared, start) = (Shared::new(std::mem::take(recorder)), kind.start());
    let slow = Box::new(Slow(Window::new(&start), HyStart::default()));
    let mut controller = shared.observed(slow, &start);
    let mut walk = Walk::new(kind, 90 + seed);
    (0..800).for_each(|_| walk.step(controller.as_mut()));
    *recorder = shared.taken();
}

#[test]
fn arithmetic_of_windows_answers_as_recorded() {
    let many = |name: &str, seeds: u64, drive: fn(&mut Recorder, u64)| {
        Run::new(name, move |mut recorder| {
            (1..=seeds).for_each(|seed| drive(&mut recorder, seed));
            recorder
        })
    };
    let runs = [
        many("window", 60, drive_window),
        many("hystart", 8, drive_hystart),
        many("ticks", 20, |recorder, seed| {
            let mut random = Rng::new(seed);
            let ticks = |random: &mut Rng| random.pick(&[0, 1, 2, 3, 5, 8, 30, 31, 1 << 20, u32::MAX]);
            let mut estimator = TickEstimator::first(ticks(&mut random));
            for _ in 0..60 {
                estimator.update(ticks(&mut random));
                if random.one_in(30) {
                    let (mean, deviation) = (round_trip(&mut random), round_trip(&mut random));
                    estimator =
                        TickEstimator::from_averages(mean, deviation, random.pick(&[1, 10 * MS, 500 * MS]));
                }
                let rto = [0, 1, 2, 4, 255].map(|k| estimator.rto_ticks(k));
                let (mean, deviation) = (estimator.mean_eighths(), estimator.deviation_quarters());
                recorder.say(format!("{rto:?} {mean} {deviation}"));
            }
        }),
        many("datagrams", 20, |recorder, seed| {
            let mut random = Rng::new(seed);
            let time =
                |random: &mut Rng| ns(random.pick(&[0, 999, 1000, MS, 40 * MS, 3_600_000 * MS, u64::MAX]));
            let mut rate = DatagramRate::new(time(&mut random), time(&mut random));
            for _ in 0..60 {
                if random.one_in(3) {
                    rate.on_loss()
                } else {
                    rate.on_success()
                }
                recorder.say(format!("{:?} {}", rate.interval(), rate.per_hour()));
            }
        }),
        many("sums", 200, |recorder, seed| {
            let mut random = Rng::new(seed);
            let mut size = || random.next_u64() >> random.below(64);
            let (cwnd, initial, smss, idle) = (size(), size(), size(), size());
            let slow = [true, false].map(|slow| window_rate(cwnd, idle, slow));
            let idle = [ns(idle), Duration::from_secs(300), Duration::from_secs(300) + ns(1)];
            let windows = IdlePolicy::ALL
                .map(|(_, policy)| idle.map(|idle| policy.restart_window(idle, cwnd, initial, smss)));
            recorder.say(format!("{slow:?} {windows:?}"));
        }),
    ];
    compare("arithmetic.txt", &runs);
}
