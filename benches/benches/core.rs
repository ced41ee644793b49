//! The core in memory: both ends on one thread, checksums on. Throughput of a round of up to 64 packets and
//! its acknowledgement, a request with its answer, and the choice of an ephemeral port.

use std::net::SocketAddr;
use std::time::Duration;

use ackclock_benches::pair::{Bulk, Link, Linked};
use ackclock_core::{ConnectError, Endpoint, EndpointConfig, Instant, TcpConfig};
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
    let mut link = Linked::new(link, &tcp());
    let ids = link.connect(Instant::from_millis(1));
    let mut now = Instant::from_millis(10);
    criterion.bench_function("core/request-response", |bencher| {
        bencher.iter(|| {
            now += Duration::from_micros(10);
            for side in [0, 1] {
                link.pair.end(side).update(now, ids[side], |connection, now| connection.write(now, b"x"));
                link.carry(now, side);
                let (end, id) = (link.pair.end(1 - side), ids[1 - side]);
                let read = end.update(now, id, |connection, now| connection.read(now, &mut [0; 8]));
                assert_eq!(read, Some(Ok(1)), "each byte arrives at once");
            }
        });
    });
}

/// A connection is opened to a peer to which this number of Linux's 28,232 ephemeral ports are taken, and
/// ends. The last row is the refusal when all are.
fn ephemeral_port(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core/connect");
    let now = Instant::from_millis(1);
    let remote = SocketAddr::from(([10, 0, 0, 2], 80));
    for taken in [0, 14_000, 28_000, 28_232] {
        let mut config = EndpointConfig::new(vec!["10.0.0.1".parse().expect("an address")], [7; 32]);
        config.ephemeral_ports = (32_768, 60_999);
        let mut endpoint = Endpoint::new(config, now);
        let connect = |endpoint: &mut Endpoint| endpoint.connect(now, remote, (None, 0), None);
        for _ in 0..taken {
            connect(&mut endpoint).expect("a port is free");
        }
        group.bench_function(format!("{taken}-taken"), |bencher| {
            bencher.iter(|| match connect(&mut endpoint) {
                Ok(id) => {
                    endpoint.update(now, id, |connection, now| connection.abort(now));
                    endpoint.release(now, id);
                }
                Err(error) => assert_eq!(error, ConnectError::AddressInUse(remote)),
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bulk, request_response, ephemeral_port);
criterion_main!(benches);
