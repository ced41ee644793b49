//! The core alone: two endpoints in memory, on one thread. `core-memory --help` lists what it measures.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant as Clock};

use ackclock_benches::pair::{Bulk, Handshakes, Link, Linked};
use ackclock_core::trace::TraceConfig;
use ackclock_core::{Instant, TcpConfig};
use clap::{Args, Parser, Subcommand};

/// Measures the core alone: two endpoints in memory, on one thread.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    mode: Mode,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum Mode {
    /// One connection sends as fast as it can.
    Bulk {
        /// Data segments to send, however long that takes.
        #[arg(long)]
        segments: Option<u64>,
        /// Bytes that the applications write and read at a time.
        #[arg(long, default_value_t = 1 << 16)]
        chunk: usize,
        /// Send and receive by slices.
        #[arg(long)]
        zerocopy: bool,
    },
    /// A byte each way in turn, over one connection.
    Rr {
        /// Turns to take, however long that takes.
        #[arg(long)]
        turns: Option<u64>,
    },
    /// Connections opened and closed without data.
    Crr {
        /// Connections to open, however long that takes.
        #[arg(long)]
        connections: Option<u64>,
    },
    /// The memory of connections that do nothing.
    Idle {
        /// Connections to open.
        #[arg(long, default_value_t = 100_000)]
        connections: usize,
    },
}

#[derive(Args)]
struct Options {
    /// Seconds to measure.
    #[arg(long, global = true, default_value_t = 4)]
    secs: u64,
    /// MTU of the link, in bytes.
    #[arg(long, global = true, default_value_t = 1500)]
    mtu: usize,
    /// Pass segments of up to 64 KB whole.
    #[arg(long, global = true)]
    offload: bool,
    /// Neither compute nor verify checksums.
    #[arg(long, global = true)]
    no_checksums: bool,
    /// Packets that the link carries at a time.
    #[arg(long, global = true, default_value_t = 64)]
    burst: u64,
    /// Bytes of each buffer.
    #[arg(long, global = true, default_value_t = 1 << 20)]
    buffer: usize,
    /// Trace both ends and discard the records.
    #[arg(long, global = true)]
    trace: bool,
}

impl Options {
    fn link(&self) -> Link {
        let &Self { mtu, offload, no_checksums, burst, .. } = self;
        Link { mtu, offload, checksums: !no_checksums, burst }
    }

    fn tcp(&self) -> TcpConfig {
        TcpConfig {
            nodelay: true,
            send_buffer_max: self.buffer,
            receive_buffer_max: self.buffer,
            trace: self.trace.then_some(TraceConfig::FULL),
            ..TcpConfig::default()
        }
    }

    /// Until `count` is reached if given, otherwise until the time is over.
    fn goes_on(&self, done: u64, count: Option<u64>, start: Clock) -> bool {
        count.map_or_else(|| start.elapsed() < Duration::from_secs(self.secs), |count| done < count)
    }
}

fn main() {
    let Cli { mode, options } = Cli::parse();
    match mode {
        Mode::Bulk { segments, chunk, zerocopy } => {
            let bulk_pair = Bulk::new(options.link(), &options.tcp(), chunk);
            bulk(&options, if zerocopy { bulk_pair.zerocopy() } else { bulk_pair }, segments);
        }
        Mode::Rr { turns } => request_response(&options, turns),
        Mode::Crr { connections } => connect_close(&options, connections),
        Mode::Idle { connections } => idle(&options, connections),
    }
}

fn bulk(options: &Options, mut bulk: Bulk, segments: Option<u64>) {
    let start = Clock::now();
    while options.goes_on(bulk.totals.segments, segments, start) {
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

fn request_response(options: &Options, turns_max: Option<u64>) {
    let mut link = Linked::new(options.link(), &options.tcp());
    let ids = link.connect(Instant::from_millis(1));
    let start = Clock::now();
    let mut turns = 0;
    while options.goes_on(turns, turns_max, start) {
        let now = at(start);
        for side in [0, 1] {
            link.pair.end(side).update(now, ids[side], |connection, now| connection.write(now, b"x"));
            link.carry(now, side);
            let read = link
                .pair
                .end(1 - side)
                .update(now, ids[1 - side], |connection, now| connection.read(now, &mut [0; 8]));
            assert_eq!(read, Some(Ok(1)), "each byte arrives at once");
        }
        turns += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("rr tps={:.0} ns_per_txn={:.0}", turns as f64 / seconds, seconds * 1e9 / turns as f64);
}

fn connect_close(options: &Options, connections_max: Option<u64>) {
    let mut handshakes = Handshakes::new(options.link(), &options.tcp());
    let start = Clock::now();
    while options.goes_on(handshakes.connections, connections_max, start) {
        handshakes.round();
    }
    let (connections, seconds) = (handshakes.connections, start.elapsed().as_secs_f64());
    println!(
        "crr connections={connections} per_second={:.0} ns_per_connection={:.0}",
        connections as f64 / seconds,
        seconds * 1e9 / connections as f64
    );
}

fn idle(options: &Options, connections: usize) {
    let mut link = Linked::new(options.link(), &TcpConfig::default());
    let before = resident();
    let start = Clock::now();
    for _ in 0..connections {
        link.connect(at(start));
    }
    let established = link.pair.client.connections().count() + link.pair.server.connections().count();
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
