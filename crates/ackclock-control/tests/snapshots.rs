//! Windows by round trip of every controller, as a table that a change of behaviour must change too.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p ackclock-control --test snapshots` writes the table anew.

use std::fmt::Write as _;
use std::path::Path as FilePath;
use std::time::Duration;

use ackclock_control::congestion::Registry;
use ackclock_control::kit::{Flow, Path};

/// 2 Mbit/s, 100 ms, segments of 1000 bytes: 25 segments fill the path, 20 more its queue.
const PATH: Path = Path { rate: 250_000, buffer: 20_000, ..Path::TYPICAL };
const ROUNDS: usize = 60;

fn table() -> String {
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

#[test]
fn windows_by_round_are_those_of_the_table() {
    let path = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/cwnd_by_round.txt");
    let table = table();
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    for (ours, theirs) in table.lines().zip(recorded.lines()) {
        assert_eq!(ours, theirs, "if this is meant, run with UPDATE_SNAPSHOTS=1");
    }
    assert_eq!(table.lines().count(), recorded.lines().count());
}
