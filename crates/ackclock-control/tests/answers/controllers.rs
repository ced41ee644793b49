//! Every controller, on random walks, through hostile events and on simulated paths.

use std::sync::Arc;
use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::congestion::{ControllerFactory, Registry, Start};
use ackclock_control::kit::{Flow, Path, State, sequence};

use crate::observed::Shared;
use crate::recorder::{Recorder, Run, compare};
use crate::walk::{KINDS, Walk};

/// Every controller, and each of its parameters with another value.
pub(crate) fn all() -> Vec<String> {
    let registry = Registry::with_experiments();
    let mut all: Vec<String> = registry.names().map(str::to_owned).collect();
    let changed = [
        "bbr:loss=draft",
        "bfa:gain=3/4,on=20ms,off=-5ms,tick=1ms,decreasing=yes",
        "bfa:thresholds=path,gain=0",
        "bfa:gain=1/4",
        "vegas:alpha=4,beta=7,gamma=2",
        "vegas-star:alpha=2,beta=7,gamma=3",
        "reno:count=acks",
        "newreno:count=bytes",
        "dual:count=bytes",
    ];
    all.extend(changed.map(str::to_owned));
    all
}

pub(crate) fn find(words: &str) -> Arc<dyn ControllerFactory> {
    Registry::with_experiments().find(words).unwrap()
}

/// Runs that begin with an observed controller.
fn run(name: String, words: &str, drive: impl Fn(&dyn ControllerFactory) + 'static) -> Run {
    let factory = find(words);
    Run::new(name, move |recorder: Recorder| {
        let shared = Shared::new(recorder);
        drive(shared.observe(Arc::clone(&factory)).as_ref());
        shared.taken()
    })
}

fn walks(words: &str) -> impl Iterator<Item = Run> {
    KINDS.into_iter().enumerate().map(move |(at, kind)| {
        run(format!("{words} {}", kind.name), words, move |factory| {
            let mut controller = factory.create(&kind.start());
            let mut walk = Walk::new(kind, 1 + at as u64);
            (0..1500).for_each(|_| walk.step(controller.as_mut()));
        })
    })
}

fn hostile(words: &str) -> impl Iterator<Item = Run> {
    (1..=3_u64).map(move |seed| {
        run(format!("{words} hostile-{seed}"), words, move |factory| {
            let start = Start { smss: 1000, initial_window: 10_000, now: Instant::ZERO };
            let mut controller = factory.create(&start);
            let mut state = State::new(1000);
            sequence(seed * 1000).take(400).for_each(|event| event.apply(controller.as_mut(), &mut state));
        })
    })
}

/// A path, the segments of the initial window, and the segments that the application has, if they are few.
const PATHS: [(&str, Path, u32, Option<u64>); 8] = [
    ("plain", Path { rate: 250_000, buffer: 20_000, ..Path::TYPICAL }, 10, None),
    ("small-queue", Path { rate: 250_000, buffer: 3000, ..Path::TYPICAL }, 4, None),
    ("no-queue", Path { rate: 250_000, buffer: 500, ..Path::TYPICAL }, 4, None),
    ("deep-queue", Path { rate: 250_000, buffer: 200_000, ..Path::TYPICAL }, 10, None),
    (
        "marked",
        Path { rate: 250_000, mark_above: Some(5000), segments_per_ack: 2, ..Path::TYPICAL },
        10,
        None,
    ),
    (
        "stretched",
        Path { rate: 250_000, buffer: 30_000, segments_per_ack: 6, smss: 1448, ..Path::TYPICAL },
        3,
        None,
    ),
    (
        "short",
        Path { base_rtt: Duration::from_millis(2), rate: 500_000, buffer: 10_000, ..Path::TYPICAL },
        10,
        None,
    ),
    ("unused", Path { rate: 250_000, buffer: 20_000, ..Path::TYPICAL }, 10, Some(15)),
];

fn flows(words: &str) -> impl Iterator<Item = Run> {
    PATHS.into_iter().map(move |(name, path, initial, limit)| {
        run(format!("{words} {name}"), words, move |factory| {
            let mut flow = Flow::with_initial_window(factory, path, initial);
            if let Some(segments) = limit {
                flow.limit_application(segments * u64::from(path.smss));
            }
            flow.run(Duration::from_secs(8));
            flow.set_path(Path { base_rtt: path.base_rtt * 3 / 2, rate: path.rate * 2 / 3, ..path });
            flow.run(Duration::from_secs(6));
        })
    })
}

#[test]
fn every_controller_answers_every_event_as_recorded() {
    let runs: Vec<Run> = all().iter().flat_map(|words| walks(words).chain(hostile(words))).collect();
    compare("events.txt", &runs);
}

#[test]
fn every_controller_answers_every_path_as_recorded() {
    let runs: Vec<Run> = all().iter().flat_map(|words| flows(words)).collect();
    compare("paths.txt", &runs);
}
