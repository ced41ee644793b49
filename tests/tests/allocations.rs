//! The data path does not allocate: not the core for a segment in order or its acknowledgement, not a
//! controller, not the estimator of the retransmission timeout. The allocations of a connection from its SYN
//! to its end are counted, and bounded.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use ackclock::Stack;
use ackclock_benches::pair::{Bulk, Link, Linked};
use ackclock_control::Instant;
use ackclock_control::congestion::{
    Ack, Controller, LossCause, LossEpisode, Lost, RecoveryEnd, Registry, Sent, Start, Timeout, Undo,
    Validation,
};
use ackclock_control::rtt::{RtoConfig, RttEstimator};
use ackclock_core::TcpConfig;
use ackclock_device::memory;
use tokio::io::AsyncReadExt;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "an allocator that counts")]
// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory that it manages.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        BYTES.with(|bytes| bytes.set(bytes.get() + layout.size() as u64));
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
    let before = Allocated::so_far();
    work();
    Allocated::so_far().since(before).times
}

/// The allocations of this thread.
#[derive(Clone, Copy, Debug, Default)]
struct Allocated {
    times: u64,
    bytes: u64,
}

impl Allocated {
    fn so_far() -> Self {
        Self { times: ALLOCATIONS.with(Cell::get), bytes: BYTES.with(Cell::get) }
    }

    fn since(self, before: Self) -> Self {
        Self { times: self.times - before.times, bytes: self.bytes - before.bytes }
    }

    fn add(&mut self, other: Self) {
        self.times += other.times;
        self.bytes += other.bytes;
    }

    /// Per connection, rounded.
    fn each(self, connections: u64) -> Self {
        let each = |total: u64| (total + connections / 2) / connections;
        Self { times: each(self.times), bytes: each(self.bytes) }
    }
}

fn ack(n: u64) -> Ack {
    let rtt_ns = 20_000_000 + n % 1000 * 1000;
    Ack {
        now: Instant::from_micros(n * 100),
        bytes_acked: 1448,
        bytes_cumulative: 1448,
        rtt_ns: Some(rtt_ns),
        srtt_ns: rtt_ns,
        rtt_min_ns: 20_000_000,
        delivered: n * 1448,
        prior_delivered: n.saturating_sub(100) * 1448,
        sent_at: Instant::from_micros(n * 100) - Duration::from_nanos(rtt_ns),
        delivery_interval_ns: rtt_ns,
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

/// Rare events of a controller.
fn seldom(controller: &mut dyn Controller, n: u64) {
    let (now, delivered, flight_size) = (Instant::from_micros(n * 100), n * 1448, 144_800);
    let (bytes, prior_delivered, app_limited) = (1448, delivered.saturating_sub(144_800), false);
    controller.on_sent(&Sent { now, bytes, in_flight: flight_size, retransmission: true });
    let cause = if n.is_multiple_of(200) { LossCause::EcnEcho } else { LossCause::Reordering };
    match n % 500 {
        100 => controller.on_timeout(&Timeout {
            now,
            flight_size,
            expiries: 1,
            delivered,
            peer_window: u64::MAX,
        }),
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
                repeated: false,
                peer_window: u64::MAX,
            });
        }
        400 => controller.on_undo(&Undo { now }),
        _ => {
            controller.on_recovery_end(&RecoveryEnd { now, in_flight: flight_size, delivered, inflation: 0 })
        }
    }
}

#[test]
fn controllers_and_the_validation_of_their_windows_allocate_nothing() {
    let registry = Registry::builtin();
    let start = Start { smss: 1448, initial_window: 14_480, now: Instant::ZERO };
    for name in registry.names() {
        let factory = registry.find(name).unwrap();
        for validated in [false, true] {
            let mut controller = factory.create(&start);
            let mut validation = validated.then(|| Validation::new(&start));
            let count = allocations(|| {
                for n in 1..10_000 {
                    let ack = ack(n);
                    if let Some(validation) = &mut validation {
                        validation.before_ack(controller.as_mut(), &ack);
                    }
                    controller.on_ack(&ack);
                    std::hint::black_box((controller.cwnd(), controller.pacing_rate()));
                    if n.is_multiple_of(100) {
                        seldom(controller.as_mut(), n);
                    }
                }
            });
            // CUBIC's curves, when the first slow start ends.
            assert_eq!(count, u64::from(name.starts_with("cubic")), "{name}");
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
        // Until windows, buffers and queues have reached their size.
        rounds(&mut bulk, 2000);
        let before = bulk.totals;
        let count = allocations(|| rounds(&mut bulk, 2000));
        assert!(bulk.totals.bytes - before.bytes > 64 << 20, "{:?}", bulk.totals);
        assert_eq!(count, 0, "offload {offload}: {} segments", bulk.totals.segments - before.segments);
    }
}

/// A connection from its SYN to the end of both directions, the client the first to close, with what the
/// server has done in `server`.
fn connect_and_close(
    linked: &mut Linked,
    now: Instant,
    mut server: impl FnMut(&mut Linked, &mut dyn FnMut(&mut Linked)),
) {
    let addr = std::net::SocketAddr::from(([10, 0, 0, 2], 5001));
    let client = linked.pair.client.connect(now, addr, (None, 0), None).expect("a port is free");
    let mut accepted = None;
    // SYN and SYN-ACK.
    linked.collect(now, 0);
    server(linked, &mut |linked| {
        linked.deliver(now, 1);
        linked.collect(now, 1);
    });
    // The ACK, and the server's application accepts.
    linked.deliver(now, 0);
    linked.collect(now, 0);
    server(linked, &mut |linked| {
        linked.deliver(now, 1);
        let listener = linked.listener;
        let end = &mut linked.pair.server;
        while end.poll_event().is_some() {}
        accepted = end.accept(now, listener);
    });
    // The client's FIN; the server reads the end and closes, too.
    linked.pair.client.release(now, client);
    linked.collect(now, 0);
    server(linked, &mut |linked| {
        linked.deliver(now, 1);
        let id = accepted.expect("the handshake is complete");
        let end = &mut linked.pair.server;
        while end.poll_event().is_some() {}
        assert_eq!(end.update(now, id, |connection, now| connection.read(now, &mut [0; 64])), Some(Ok(0)));
        end.release(now, id);
        linked.collect(now, 1);
    });
    linked.deliver(now, 0);
    linked.collect(now, 0);
    server(linked, &mut |linked| linked.deliver(now, 1));
    for side in 0..2 {
        let end = linked.pair.end(side);
        while end.poll_event().is_some() {}
        end.handle_timeout(now);
    }
}

#[test]
fn a_server_allocates_four_times_from_a_syn_to_the_end_of_its_connection() {
    const CONNECTIONS: u64 = 200;
    let link = Link { mtu: 1500, offload: false, checksums: true, burst: 64 };
    let tcp = TcpConfig { time_wait: Duration::from_millis(10), ..TcpConfig::default() };
    let mut linked = Linked::new(link, &tcp);
    let mut now = Instant::from_millis(10);
    let mut allocated = Allocated::default();
    for round in 0..2 * CONNECTIONS {
        now += Duration::from_millis(1);
        connect_and_close(&mut linked, now, |linked, work| {
            let before = Allocated::so_far();
            work(linked);
            // During the first half, tables and queues reach their size.
            if round >= CONNECTIONS {
                allocated.add(Allocated::so_far().since(before));
            }
        });
    }
    assert_eq!(linked.pair.server.connections().count(), 0, "all slots are free again");
    let each = allocated.each(CONNECTIONS);
    println!("{each:?}");
    // The connection, its controller, and two queues of what is in flight, for the FIN.
    assert_eq!(each.times, 4, "{each:?}");
    assert!((1200..1700).contains(&each.bytes), "{each:?}");
}

#[tokio::test]
async fn sockets_add_no_allocation_to_those_of_the_endpoints_and_the_device() {
    const CONNECTIONS: u64 = 200;
    let (left, right) = memory::pair(memory::Config::default());
    let tcp = TcpConfig { time_wait: Duration::from_millis(1), ..TcpConfig::default() };
    let stack = |device, address: &str| {
        let address = address.parse().expect("an address with a prefix");
        Stack::builder().device(device).address(address).tcp(tcp.clone()).spawn().expect("the device is open")
    };
    let (client, server) = (stack(left, "10.0.0.1/24"), stack(right, "10.0.0.2/24"));
    let addr = "10.0.0.2:7".parse().expect("a socket address");
    let listener = server.listen(addr).expect("the port is free");
    let mut before = Allocated::default();
    for round in 0..2 * CONNECTIONS {
        if round == CONNECTIONS {
            before = Allocated::so_far();
        }
        let (near, far) = tokio::join!(client.connect(addr), listener.accept());
        drop(near.expect("the server listens"));
        let mut far = far.expect("the client has connected").0;
        assert_eq!(far.read(&mut [0; 64]).await.expect("the end of the stream"), 0);
    }
    let each = Allocated::so_far().since(before).each(CONNECTIONS);
    println!("{each:?}");
    // Four of the server and five of the client, which has a controller while it waits for an answer.
    assert!((9..=10).contains(&each.times), "{each:?}");
    assert!((3000..4000).contains(&each.bytes), "{each:?}");
}
