//! The simulator: packets per second that the bottleneck carries in either direction, in the two scenarios
//! that `docs/benchmarks.md` names. Each run builds a new network; this is not measured.

use ackclock_benches::scenarios::{carried, gigabit, hundred};
use ackclock_sim::Simulation;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

fn packets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sim");
    group.sample_size(10);
    for (name, scenario) in [("gigabit-4-flows", gigabit()), ("100-megabit-100-flows", hundred())] {
        let make = || Simulation::new(&scenario).expect("the scenario can be run");
        group.throughput(Throughput::Elements(carried(&make().run())));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(make, |mut simulation| simulation.run(), BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, packets);
criterion_main!(benches);
