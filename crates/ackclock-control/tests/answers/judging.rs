//! The conformance kit's checks, on controllers that conform and on ones made at random around the bounds of
//! the checks; and the assessment of estimators on random connections.

use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::assess::ssthresh::{LossRow, LosslessRow, Path, rate};
use ackclock_control::assess::timeouts::{Event, Summary, Why, assess_each};
use ackclock_control::congestion::{
    Ack, Controller, IdleRestart, LossCause, LossEpisode, Start, Timeout, Undo, factory,
};
use ackclock_control::kit::examine;
use ackclock_control::rtt::presets;
use ackclock_test_support::rng::Rng;

use crate::controllers::find;
use crate::observed::Shared;
use crate::recorder::{Recorder, Run, compare};

/// A controller with a rule for each event, drawn at random. Most rules are right, or wrong by a byte.
#[derive(Debug)]
struct Drawn {
    name: &'static str,
    rules: Rules,
    cwnd: u64,
    ssthresh: u64,
    before: Option<(u64, u64)>,
    smss: u64,
    expired: bool,
    storm: u64,
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Where growth ends, and where it ends after a timeout.
    most: u64,
    most_after_timeout: u64,
    growth: u64,
    grows_at_limits: bool,
    loss: (u64, u64),
    mark: (u64, u64),
    ssthresh_extra: u64,
    after_timeout: u64,
    ssthresh_stays: bool,
    idle_extra: u64,
    undo_extra: u64,
    undoes_second: bool,
    initial_extra: u64,
    smallest: u64,
    rate: Option<u64>,
}

impl Rules {
    fn drawn(random: &mut Rng) -> Self {
        let mut rare =
            |usual: u64, others: &[u64]| if random.one_in(3) { random.pick(others) } else { usual };
        Self {
            most: rare(1 << 32, &[10_000, 11_000, 12_000, 20_000, 21_000, 90_000, 105_000, 200_000, 1 << 33]),
            most_after_timeout: rare(1 << 32, &[1000, 3000, 3999, 4000]),
            growth: rare(1000, &[0, 1, 500, 1001, 1500, 2000, 2500, 100_000]),
            grows_at_limits: rare(0, &[0, 0, 1]) == 1,
            loss: (rare(8, &[0, 4, 12, 14, 15, 16]), rare(0, &[1, 999, 1000, 1001])),
            mark: (rare(8, &[0, 4, 14, 14, 15, 16]), rare(0, &[0, 0, 1])),
            ssthresh_extra: rare(0, &[0, 1, 1000, 1 << 34]),
            after_timeout: rare(1000, &[999, 1001, 1000, 2000]),
            ssthresh_stays: rare(1, &[0, 1]) == 1,
            idle_extra: rare(0, &[0, 0, 1, 1000]),
            undo_extra: rare(0, &[0, 0, 1]),
            undoes_second: rare(1, &[0, 1]) == 1,
            initial_extra: rare(0, &[0, 0, 0, 1]),
            smallest: rare(1000, &[999, 1000, 0]),
            rate: match rare(0, &[0, 0, 1, 2, 3]) {
                1 => Some(0),
                2 => Some(1),
                3 => Some(1_250_000),
                _ => None,
            },
        }
    }
}

impl Drawn {
    fn new(name: &'static str, rules: Rules, start: &Start) -> Self {
        let cwnd = start.initial_window + rules.initial_extra;
        let smss = u64::from(start.smss);
        Self { name, rules, cwnd, ssthresh: u64::MAX, before: None, smss, expired: false, storm: 0 }
    }

    fn set(&mut self, cwnd: u64) {
        let least = if self.rules.smallest == 1000 { self.smss } else { self.rules.smallest };
        self.cwnd = cwnd.clamp(least, 1 << 34);
    }
}

impl Controller for Drawn {
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.storm += 1;
        if ack.bytes_acked > 0 && self.storm > 1 {
            self.expired |= false;
        }
        let limited = ack.in_recovery || !ack.cwnd_limited;
        if ack.bytes_acked == 0 || limited && !self.rules.grows_at_limits {
            return;
        }
        let most = if self.expired { self.rules.most_after_timeout } else { self.rules.most };
        let step = ack.bytes_acked.min(self.smss) * self.rules.growth / 1000;
        let step = if self.cwnd < self.ssthresh { step } else { step * self.smss / self.cwnd.max(1) };
        if self.cwnd < most {
            self.set((self.cwnd + step).min(most));
        }
    }

    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.before = Some((self.cwnd, self.ssthresh));
        let (sixteenths, extra) =
            if loss.cause == LossCause::EcnEcho { self.rules.mark } else { self.rules.loss };
        let of = if loss.cause == LossCause::Reordering && self.rules.ssthresh_extra == 1000 {
            loss.flight_size
        } else {
            self.cwnd
        };
        self.set((of / 16).saturating_mul(sixteenths) + extra);
        self.ssthresh = self.cwnd.saturating_add(self.rules.ssthresh_extra);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if timeout.expiries == 1 || !self.rules.undoes_second {
            self.before = Some((self.cwnd, self.ssthresh));
        }
        if timeout.expiries == 1 || !self.rules.ssthresh_stays {
            self.ssthresh = (timeout.flight_size / 2).max(2 * self.smss);
        }
        self.expired = true;
        self.set(self.rules.after_timeout * self.smss / 1000);
    }

    fn on_idle_restart(&mut self, idle: &IdleRestart) {
        self.set(idle.restart_window.saturating_add(self.rules.idle_extra).min(self.cwnd));
    }

    fn on_undo(&mut self, _: &Undo) {
        if let Some((cwnd, ssthresh)) = self.before {
            self.set(cwnd.saturating_add(self.rules.undo_extra));
            self.ssthresh = ssthresh;
        }
    }

    fn on_mss_change(&mut self, smss: u32) {
        self.smss = u64::from(smss);
        self.set(self.cwnd);
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.rules.rate.map(|rate| if rate == 1 { self.cwnd } else { rate })
    }
}

#[test]
fn the_kit_judges_as_recorded() {
    let drawn = (1..=DRAWN).map(|seed| {
        Run::new(format!("drawn-{seed}"), move |mut recorder: Recorder| {
            let rules = Rules::drawn(&mut Rng::new(seed));
            let name = if seed % 20 == 0 { "another" } else { "drawn" };
            let report =
                examine(factory("drawn", move |start| Box::new(Drawn::new(name, rules, start))).as_ref());
            report.to_string().lines().for_each(|line| recorder.say(line.to_owned()));
            recorder.say(format!("{} {:?}", report.passed(), report.failures().collect::<Vec<_>>()));
            recorder
        })
    });
    // What the checks tell a controller.
    let told = ["reno", "bbr"].map(|words| {
        Run::new(format!("{words} examined"), move |recorder| {
            let shared = Shared::new(recorder);
            let report = examine(shared.observe(find(words)).as_ref());
            shared.recorder().say(report.to_string());
            shared.taken()
        })
    });
    let runs: Vec<Run> = drawn.chain(told).collect();
    compare("kit.txt", &runs);
}

const DRAWN: u64 = 40;

/// A connection that loses, repeats and acknowledges at random.
fn connection(random: &mut Rng) -> Vec<Event> {
    let mut events = Vec::new();
    let (mut at, mut sent, mut acked) = (Instant::from_millis(10), 0, 0);
    let mut rtt_ms = random.pick(&[20, 100, 700]);
    for _ in 0..200 {
        at += Duration::from_micros(random.below(rtt_ms * 700));
        match random.below(10) {
            0..=3 => {
                let to = sent + random.pick(&[1000, 1000, 1, 500]);
                events.push(Event::Sent { at, from: sent, to, why: Why::New });
                sent = to;
            }
            4 if acked < sent => {
                at += Duration::from_millis(random.below(3) * 400);
                let avoidable = random.one_in(3);
                let why = if random.one_in(3) { Why::FastRetransmit } else { Why::Timeout { avoidable } };
                let to = (acked + 1000).min(sent);
                events.push(Event::Sent { at, from: acked, to, why });
            }
            5 if random.one_in(6) => at += Duration::from_millis(random.pick(&[300, 900, 5000, 90_000])),
            6 if random.one_in(8) => rtt_ms = random.pick(&[20, 100, 700]),
            _ => {
                let to = acked + random.below(1 + sent - acked);
                events.push(Event::Acked { at, to });
                acked = to;
            }
        }
    }
    events
}

fn assess_timeouts(recorder: &mut Recorder, seed: u64) {
    let mut random = Rng::new(seed);
    let configs: Vec<_> = presets::all().map(|preset| preset.config).collect();
    let mut all = Vec::new();
    for _ in 0..5 {
        let (config, undo) = (random.pick(&configs), random.pick(&[None, Some(1), Some(2), Some(3)]));
        let mut told = |expiry: &_| recorder.say(format!("{expiry:?}"));
        let timeouts = assess_each(connection(&mut random), &config, undo, &mut told);
        recorder.say(format!("{undo:?} {timeouts:?} {:.9}", timeouts.bad_share()));
        all.push(timeouts);
    }
    recorder.say(format!("{:?}", Summary::of(all)));
}

fn assess_ssthresh(recorder: &mut Recorder, seed: u64) {
    let mut random = Rng::new(seed);
    let connections: Vec<(Path, u64, Option<u64>)> = (0..random.below(7))
        .map(|_| {
            let path = Path {
                bottleneck: random.pick(&[0, 50_000, 100_000, u64::MAX]),
                rtt: Duration::from_millis(random.pick(&[0, 40, 100])),
                segment: random.pick(&[0, 1, 1000, 1448]),
                segments_per_ack: random.pick(&[0, 1, 2, 3]),
            };
            let point = random.pick(&[0, 1, 60_000, 100_000, 300_000, u64::MAX]);
            let parts = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 1000];
            let near = (point / 4).saturating_mul(random.pick(&parts)).saturating_add(random.below(3));
            let below =
                path.bottleneck.saturating_sub(random.pick(&[0, 10_000, 10_001, 14_480, 25_000, 25_001]));
            let estimates = [None, Some(near), Some(near.saturating_sub(2)), Some(below), Some(below / 2)];
            (path, point, random.pick(&estimates))
        })
        .collect();
    for &(path, point, estimate) in &connections {
        let regions = (path.with_loss(point, estimate), path.without_loss(point, estimate));
        let e = estimate.unwrap_or(7);
        let benefits = (path.drops_prevented(point, e), path.queue_spared(point, e), rate(point, path.rtt));
        recorder.say(format!("{path:?} {point} {estimate:?}: {regions:?} {benefits:?}"));
    }
    let row = LossRow::of(connections.clone());
    let lossless = LosslessRow::of(connections);
    let bad = (row.helped(), row.is_especially_bad(), lossless.is_especially_bad());
    recorder.say(format!("{row:?} {lossless:?} {bad:?}"));
}

#[test]
fn estimators_are_assessed_as_recorded() {
    let runs =
        [("timeouts", assess_timeouts as fn(&mut Recorder, u64), 60), ("ssthresh", assess_ssthresh, 1500)]
            .map(|(name, drive, seeds)| {
                Run::new(name, move |mut recorder| {
                    (1..=seeds).for_each(|seed| drive(&mut recorder, seed));
                    recorder
                })
            });
    compare("assess.txt", &runs);
}
