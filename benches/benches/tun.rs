//! Over TUN against the kernel's TCP, in a private network that ends with the bench: both directions, a
//! one-byte round trip, and connections, with and without offload. A responder without the work of a TCP
//! gives the ceiling.
//!
//! It takes root or a user namespace, and `/dev/net/tun`; where these are missing, it says so and measures
//! nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use ackclock_benches::over_tun::{Client, Ground, Program, Running, Service, Settings};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};

fn main() {
    let programs = Path::new(env!("CARGO_BIN_EXE_tun-peer")).parent().expect("a program lies in a folder");
    let ground = match Ground::prepare(programs) {
        Ok(ground) => ground,
        Err(why) => return println!("skipped: tun: {why:#}"),
    };
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(20)
        .configure_from_args();
    for service in Service::ALL {
        bench(&mut criterion, &ground, service);
    }
    criterion.final_summary();
}

fn bench(criterion: &mut Criterion, ground: &Ground, service: Service) {
    let (name, unit, throughput) = match service {
        Service::Sink => ("kernel-to-stack", 1 << 20, Throughput::Bytes(1 << 20)),
        Service::Source => ("stack-to-kernel", 1 << 20, Throughput::Bytes(1 << 20)),
        Service::Echo => ("request-response", 1, Throughput::Elements(1)),
        Service::Close => ("connections", 1, Throughput::Elements(1)),
    };
    let mut group = criterion.benchmark_group(format!("tun/{name}"));
    group.throughput(throughput).sampling_mode(SamplingMode::Flat);
    for offload in [false, true] {
        for program in [Program::Null, Program::Ackclock(Settings::default())] {
            // The first call starts it, since a filter may leave this one out.
            let mut started: Option<(Running, Client)> = None;
            let id = BenchmarkId::new(program.to_string(), if offload { "offload" } else { "plain" });
            group.bench_function(id, |bencher| {
                let (_, client) = started.get_or_insert_with(|| {
                    let running = ground.start(program, offload).expect("the program starts");
                    (running, Client::connect(service, 1).expect("the program listens"))
                });
                bencher.iter_custom(|count| {
                    let began = Instant::now();
                    client.run(count * unit).expect("the program does its part");
                    began.elapsed()
                });
            });
        }
    }
    group.finish();
}
