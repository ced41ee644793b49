//! The core in memory: both ends on one thread, checksums on. Throughput of a round of up to 64 packets and
//! its acknowledgement, and a request with its answer.

use std::time::Duration;

use ackclock_benches::pair::{Bulk, Link, Pair};
use ackclock_core::{Instant, TcpConfig};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn tcp() -> TcpConfig {
    TcpConfig { nodelay: true, send_buffer_max: 1 << 20, receive_buffer_max: 1 << 20, ..TcpConfig::default() }
}

fn bulk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core/bulk");
    for (name, mtu, offload) in [("mtu-1500", 1500, false), ("64-kilobyte-segments", 1500, true)] {
        let link = Link { mtu, offload, checksums: true, burst: 64 };
        let mut bulk = Bulk::new(link, &tcp(), 1 << 16);
        let mut now = Instant::from_millis(10);
        let mut round = || {
            now += Duration::from_micros(50);
            bulk.round(now);
            bulk.totals.bytes
        };
        // Until the windows have reached their final size, so that each round carries the same amount.
        let before = (0..1000).fold(0, |_, _| round());
        let bytes = round() - before;
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(name, |bencher| bencher.iter(&mut round));
    }
    group.finish();
}

fn request_response(criterion: &mut Criterion) {
    let link = Link { mtu: 1500, offload: false, checksums: true, burst: 64 };
    let mut pair = Pair::new(link, &tcp());
    let ids = pair.connect(Instant::from_millis(1));
    let mut now = Instant::from_millis(10);
    criterion.bench_function("core/request-response", |bencher| {
        bencher.iter(|| {
            now += Duration::from_micros(10);
            for side in [0, 1] {
                pair.ends[side]
                    .endpoint
                    .update(now, ids[side], |connection, now| connection.write(now, b"x"));
                pair.carry(now, side);
                let (end, id) = (&mut pair.ends[1 - side].endpoint, ids[1 - side]);
                let read = end.update(now, id, |connection, now| connection.read(now, &mut [0; 8]));
                assert_eq!(read, Some(Ok(1)), "each byte arrives at once");
            }
        });
    });
}

criterion_group!(benches, bulk, request_response);
criterion_main!(benches);
