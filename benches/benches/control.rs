//! One acknowledgement through each congestion controller, and one sample through the estimator of the
//! retransmission timeout.
//!
//! Each controller is in congestion avoidance on a path that it fills, whose delay rises and falls. A run is
//! ten thousand acknowledgements, so that the mean includes what happens once a round trip.

use std::hint::black_box;
use std::time::Duration;

use ackclock_control::Instant;
use ackclock_control::congestion::{Ack, Controller, ControllerFactory, Registry, Start};
use ackclock_control::rtt::{RtoConfig, RttEstimator};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const ACKS: u64 = 10_000;
const START: Start = Start { smss: 1448, initial_window: 14_480, now: Instant::ZERO };

/// Acknowledgements of one segment each on a path of 20 ms whose delay rises and falls by a tenth.
fn acks() -> Vec<Ack> {
    let smss = u64::from(START.smss);
    (1..=ACKS)
        .map(|n| {
            let rtt_ns = 20_000_000 + (n / 100 % 20) * 100_000;
            let now = Instant::from_micros(20_000 + n * 100);
            let (delivered, window) = (n * smss, 200 * smss);
            Ack {
                now,
                bytes_acked: smss,
                bytes_cumulative: smss,
                rtt_ns: Some(rtt_ns),
                srtt_ns: rtt_ns,
                rtt_min_ns: 20_000_000,
                delivered,
                prior_delivered: delivered.saturating_sub(window),
                sent_at: now - Duration::from_nanos(rtt_ns),
                delivery_interval_ns: rtt_ns,
                app_limited: false,
                tx_in_flight: window,
                lost: 0,
                prior_in_flight: window,
                in_flight: window - smss,
                cwnd_limited: true,
                in_recovery: false,
                ecn_marked: if n.is_multiple_of(50) { smss } else { 0 },
            }
        })
        .collect()
}

/// A controller in congestion avoidance, where connections spend most of their time.
fn controller(factory: &dyn ControllerFactory) -> Box<dyn Controller> {
    let mut controller = factory.create(&START);
    controller.limit_slow_start(0);
    controller
}

fn one_ack(c: &mut Criterion) {
    let acks = acks();
    let registry = Registry::builtin();
    let mut group = c.benchmark_group("ack");
    group.throughput(Throughput::Elements(ACKS));
    for name in registry.names() {
        let factory = registry.find(name).expect("a built-in controller");
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || controller(factory.as_ref()),
                |controller| {
                    for ack in &acks {
                        controller.on_ack(black_box(ack));
                        black_box(controller.cwnd());
                    }
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn one_sample(c: &mut Criterion) {
    let mut group = c.benchmark_group("rtt");
    group.throughput(Throughput::Elements(ACKS));
    group.bench_function("sample and rto", |b| {
        b.iter_batched_ref(
            || RttEstimator::new(&RtoConfig::default()),
            |rtt| {
                for n in 0..ACKS {
                    rtt.on_sample(black_box(Duration::from_micros(20_000 + n % 500)));
                    black_box(rtt.rto());
                }
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, one_ack, one_sample);
criterion_main!(benches);
