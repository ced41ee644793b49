//! The memory of a simulated flow: 20 KiB, with its two hosts, its links, its part of the scenario and of the
//! report, and the allocator's overhead.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use ackclock_benches::scenarios::{carried, pairs};
use ackclock_sim::Simulation;
use ackclock_sim::units::{Rate, Span};

struct Counting;

/// Bytes allocated now, and the highest number so far.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The size of a block in glibc's malloc: 8 bytes more, in steps of 16, and at least 32.
fn block(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

#[expect(unsafe_code, reason = "an allocator that counts")]
// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory that it manages.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(block(layout), Ordering::Relaxed) + block(layout);
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps to the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(block(layout), Ordering::Relaxed);
        // SAFETY: the caller keeps to the contract of `GlobalAlloc::dealloc`; `pointer` came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_flow_on_its_own_host_pair_takes_no_more_than_20_kib() {
    const FLOWS: usize = 1000;
    let before = LIVE.load(Ordering::Relaxed);
    let scenario = pairs(FLOWS, Rate::mbit(1000), Span::seconds(2));
    let report = Simulation::new(&scenario).expect("the scenario can be run").run();
    let flow_bytes = (PEAK.load(Ordering::Relaxed) - before) / FLOWS;
    println!("{flow_bytes} bytes for each flow at the most");
    assert!(flow_bytes <= 20 << 10, "{flow_bytes} bytes for each flow");
    // All of them have opened their connection, and fill the bottleneck; the crowd costs some their first
    // segments.
    assert!(report.flows.iter().all(|flow| flow.connections == 1), "each flow has a connection");
    let talking = report.flows.iter().filter(|flow| flow.there.bytes > 0).count();
    assert!(talking >= FLOWS * 9 / 10, "{talking} flows carried data");
    assert!(carried(&report) > 150_000, "{}", carried(&report));
}
