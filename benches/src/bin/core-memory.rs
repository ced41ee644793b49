//! The core alone: two endpoints in memory, on one thread.
//!
//! `core-memory bulk [--secs S | --segments N] [--mtu M] [--offload] [--no-checksums] [--buffer BYTES]
//! [--trace] [--zerocopy]` `core-memory rr [--secs S | --turns N]` `core-memory crr [--secs S | --connections
//! N]` `core-memory idle [--connections N]`

#![forbid(unsafe_code)]

use std::time::{Duration, Instant as Clock};

use ackclock_benches::options::{flag, number};
use ackclock_benches::pair::{Bulk, Handshakes, Link, Pair};
use ackclock_core::trace::TraceConfig;
use ackclock_core::{Instant, TcpConfig};

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let link = Link {
        mtu: number("mtu").unwrap_or(1500),
        offload: flag("offload"),
        checksums: !flag("no-checksums"),
        burst: number("burst").unwrap_or(64) as u64,
    };
    match mode.as_str() {
        "bulk" => bulk(link),
        "rr" => request_response(link),
        "crr" => connect_close(link),
        "idle" => idle(link),
        _ => {
            eprintln!(
                "usage: core-memory bulk|rr|crr|idle [--secs S] [--segments N] [--turns N] [--mtu M] [--offload] [--no-checksums] [--buffer BYTES] [--trace] [--zerocopy] [--connections N]"
            );
            std::process::exit(2);
        }
    }
}

fn tcp() -> TcpConfig {
    let buffer = number("buffer").unwrap_or(1 << 20);
    TcpConfig {
        nodelay: true,
        send_buffer_max: buffer,
        receive_buffer_max: buffer,
        trace: flag("trace").then_some(TraceConfig::FULL),
        ..TcpConfig::default()
    }
}

fn bulk(link: Link) {
    let segments_max = number("segments").map_or(u64::MAX, |n| n as u64);
    let limit = Duration::from_secs(number("secs").unwrap_or(4) as u64);
    let mut bulk = Bulk::new(link, &tcp(), number("chunk").unwrap_or(1 << 16));
    if flag("zerocopy") {
        bulk = bulk.zerocopy();
    }
    let start = Clock::now();
    while bulk.totals.segments < segments_max && (segments_max != u64::MAX || start.elapsed() < limit) {
        bulk.round(at(start));
    }
    let seconds = start.elapsed().as_secs_f64();
    let totals = bulk.totals;
    println!(
        "bulk segs={} acks={} records={} gbps={:.3} ns_per_seg={:.1}",
        totals.segments,
        totals.acks,
        totals.records,
        totals.bytes as f64 * 8e-9 / seconds,
        seconds * 1e9 / totals.segments as f64
    );
}

fn request_response(link: Link) {
    let turns_max = number("turns").map_or(u64::MAX, |n| n as u64);
    let limit = Duration::from_secs(number("secs").unwrap_or(4) as u64);
    let mut pair = Pair::new(link, &tcp());
    let ids = pair.connect(Instant::from_millis(1));
    let start = Clock::now();
    let mut turns = 0u64;
    while turns < turns_max && (turns_max != u64::MAX || start.elapsed() < limit) {
        let now = at(start);
        for side in [0, 1] {
            pair.ends[side].endpoint.update(now, ids[side], |connection, now| connection.write(now, b"x"));
            pair.carry(now, side);
            let read = pair.ends[1 - side]
                .endpoint
                .update(now, ids[1 - side], |connection, now| connection.read(now, &mut [0; 8]));
            assert_eq!(read, Some(Ok(1)), "each byte arrives at once");
        }
        turns += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("rr tps={:.0} ns_per_txn={:.0}", turns as f64 / seconds, seconds * 1e9 / turns as f64);
}

fn connect_close(link: Link) {
    let connections_max = number("connections").map_or(u64::MAX, |n| n as u64);
    let limit = Duration::from_secs(number("secs").unwrap_or(4) as u64);
    let mut handshakes = Handshakes::new(link, &tcp());
    let start = Clock::now();
    while handshakes.connections < connections_max && (connections_max != u64::MAX || start.elapsed() < limit)
    {
        handshakes.round();
    }
    let (connections, seconds) = (handshakes.connections, start.elapsed().as_secs_f64());
    println!(
        "crr connections={connections} per_second={:.0} ns_per_connection={:.0}",
        connections as f64 / seconds,
        seconds * 1e9 / connections as f64
    );
}

fn idle(link: Link) {
    let connections = number("connections").unwrap_or(100_000);
    let mut pair = Pair::new(link, &TcpConfig::default());
    let before = resident();
    let start = Clock::now();
    for _ in 0..connections {
        pair.connect(at(start));
    }
    let established = pair.ends.iter().map(|end| end.endpoint.connections().count()).sum::<usize>();
    println!(
        "idle connections={connections} established_ends={established} secs={:.2} rss_per_end_bytes={:.0}",
        start.elapsed().as_secs_f64(),
        (resident() - before) as f64 / (2 * connections) as f64
    );
}

/// The epoch lies a little before the start, so that no deadline is zero.
fn at(start: Clock) -> Instant {
    Instant::from_millis(10) + start.elapsed()
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("the kernel tells VmRSS");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number of KiB") * 1024
}
