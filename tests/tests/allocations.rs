//! Nothing is allocated on the path of data: not by the core for a segment in order or its acknowledgement, not by a
//! controller, not by the estimator of the timeout.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use ackclock_benches::pair::{Bulk, Link};
use ackclock_control::Instant;
use ackclock_control::congestion::{
    Ack, Controller, LossCause, LossEpisode, Lost, RecoveryEnd, Registry, Sent, Start, Timeout, Undo, paced,
    validated,
};
use ackclock_control::rtt::{RtoConfig, RttEstimator};
use ackclock_core::TcpConfig;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory that it manages.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps to the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract of `GlobalAlloc::dealloc`; `pointer` came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread while `work` runs.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

fn ack(n: u64) -> Ack {
    let rtt = Duration::from_micros(20_000 + n % 1000);
    Ack {
        now: Instant::from_micros(n * 100),
        bytes_acked: 1448,
        bytes_cumulative: 1448,
        rtt: Some(rtt),
        srtt: rtt,
        rtt_min: Duration::from_millis(20),
        delivered: n * 1448,
        prior_delivered: n.saturating_sub(100) * 1448,
        sent_at: Instant::from_micros(n * 100) - rtt,
        delivery_interval: rtt,
        app_limited: false,
        tx_in_flight: 144_800,
        lost: 0,
        prior_in_flight: 144_800,
        in_flight: 143_352,
        cwnd_limited: true,
        in_recovery: false,
        ecn_marked: n % 7,
    }
}

/// What happens to a controller once in a while.
fn seldom(controller: &mut dyn Controller, n: u64) {
    let (now, delivered, flight_size) = (Instant::from_micros(n * 100), n * 1448, 144_800);
    let (bytes, prior_delivered, app_limited) = (1448, delivered.saturating_sub(144_800), false);
    controller.on_sent(&Sent { now, bytes, in_flight: flight_size, retransmission: true });
    let cause = if n.is_multiple_of(200) { LossCause::EcnEcho } else { LossCause::Reordering };
    match n % 500 {
        100 => controller.on_timeout(&Timeout { now, flight_size, expiries: 1, delivered }),
        200 | 300 => {
            let (tx_in_flight, lost) = (flight_size, bytes);
            let lost = Lost { now, bytes, delivered, prior_delivered, app_limited, tx_in_flight, lost };
            controller.on_lost(&lost);
            controller.on_loss_episode(&LossEpisode {
                now,
                cause,
                flight_size,
                bytes_lost: bytes,
                delivered,
            });
        }
        400 => controller.on_undo(&Undo { now }),
        _ => controller.on_recovery_end(&RecoveryEnd { now, in_flight: flight_size, delivered }),
    }
}

#[test]
fn controllers_and_their_layers_allocate_nothing() {
    let registry = Registry::builtin();
    let start = Start { smss: 1448, initial_window: 14_480, now: Instant::ZERO };
    for name in registry.names() {
        let plain = registry.find(name).unwrap();
        let layered = paced(validated(Arc::clone(&plain)));
        for factory in [plain, layered] {
            let mut controller = factory.create(&start);
            let count = allocations(|| {
                for n in 1..10_000 {
                    controller.on_ack(&ack(n));
                    std::hint::black_box((controller.cwnd(), controller.pacing_rate()));
                    if n.is_multiple_of(100) {
                        seldom(controller.as_mut(), n);
                    }
                }
            });
            assert_eq!(count, 0, "{name}");
        }
    }
}

#[test]
fn samples_allocate_nothing() {
    let mut rtt = RttEstimator::new(&RtoConfig::default());
    let count = allocations(|| (1..10_000).for_each(|n| rtt.on_sample(Duration::from_micros(n))));
    assert_eq!(count, 0);
}

#[test]
fn counting_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

#[test]
fn core_allocates_nothing_for_segments_in_order_and_their_acknowledgements() {
    for offload in [false, true] {
        let link = Link { mtu: 1500, offload, checksums: true, burst: 64 };
        let tcp = TcpConfig { send_buffer_max: 1 << 20, receive_buffer_max: 1 << 20, ..TcpConfig::default() };
        let mut bulk = Bulk::new(link, &tcp, 1 << 16);
        let mut now = Instant::from_millis(10);
        let mut rounds = |bulk: &mut Bulk, rounds: u64| {
            for _ in 0..rounds {
                now += Duration::from_micros(50);
                bulk.round(now);
            }
        };
        // Until windows, buffers and queues have their size.
        rounds(&mut bulk, 2000);
        let before = bulk.totals;
        let count = allocations(|| rounds(&mut bulk, 2000));
        assert!(bulk.totals.bytes - before.bytes > 64 << 20, "{:?}", bulk.totals);
        assert_eq!(count, 0, "offload {offload}: {} segments", bulk.totals.segments - before.segments);
    }
}
