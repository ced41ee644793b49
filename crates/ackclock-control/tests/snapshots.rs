//! Tables made from the controllers: their windows by round trip, which a change of behaviour must change
//! too, and what they are, for the documentation.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p ackclock-control --test snapshots` writes both anew.

use std::fmt::Write as _;
use std::path::Path as FilePath;
use std::time::Duration;

use ackclock_control::congestion::{About, Registry};
use ackclock_control::kit::{Flow, Path};

/// 2 Mbit/s, 100 ms, segments of 1000 bytes: 25 segments fill the path, 20 more its queue.
const PATH: Path = Path { rate: 250_000, buffer: 20_000, ..Path::TYPICAL };
const ROUNDS: usize = 60;

fn windows_by_round() -> String {
    let mut table = String::from(
        "Window in segments after each of 60 round trips; 25 fill the path, 20 its queue; initial window 4.\n\
         The last column: KB/s delivered, KB dropped, timeouts and mean KB queued, over 60 s.\n",
    );
    let registry = Registry::builtin();
    for name in registry.names() {
        let factory = registry.find(name).unwrap();
        let windows = Flow::with_initial_window(factory.as_ref(), PATH, 4).rounds(ROUNDS);
        let windows: Vec<String> = windows.iter().map(u64::to_string).collect();
        let mut flow = Flow::with_initial_window(factory.as_ref(), PATH, 4);
        let mut queued = 0;
        for _ in 0..600 {
            flow.run(Duration::from_millis(100));
            queued += flow.queue();
        }
        let totals = flow.totals();
        let figures = [totals.delivered / 60_000, totals.dropped / 1000, totals.timeouts, queued / 600_000];
        writeln!(table, "{name}: {} | {figures:?}", windows.join(" ")).unwrap();
    }
    table
}

fn description() -> String {
    let mut table = String::from(
        "| name | year | source | signal | keeps in the queue | deviations |\n|---|---|---|---|---|---|\n",
    );
    let registry = Registry::with_experiments();
    let mut factories: Vec<_> = registry.names().map(|name| registry.find(name).unwrap()).collect();
    factories.sort_by_key(|factory| factory.about().year);
    for factory in factories {
        let About { year, source, signal, keeps_in_queue, deviations, .. } = factory.about();
        let (name, signal) = (factory.name(), format!("{signal:?}").to_lowercase());
        writeln!(table, "| `{name}` | {year} | {source} | {signal} | {keeps_in_queue} | {deviations} |")
            .unwrap();
    }
    table
}

/// Compares with the file of this name in the crate, line by line; writes it when asked to.
fn compare(file: &str, table: &str) {
    let path = FilePath::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, table).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    for (ours, theirs) in table.lines().zip(recorded.lines()) {
        assert_eq!(ours, theirs, "{file}: if this is meant, run with UPDATE_SNAPSHOTS=1");
    }
    assert_eq!(table.lines().count(), recorded.lines().count(), "{file}");
}

#[test]
fn windows_by_round_are_those_of_the_table() {
    compare("tests/cwnd_by_round.txt", &windows_by_round());
}

#[test]
fn documentation_describes_the_controllers_that_exist() {
    compare("src/congestion/controllers.md", &description());
}
