//! The model of Linux: its table is that of docs/linux.md, and each way in which it differs is met.

use ackclock_explore::{Bounds, Entry, Model, ROWS, SETUPS, Setup, Variation, explore};

#[test]
fn table_has_the_rows_of_the_document() {
    let document = include_str!("../../../docs/linux.md");
    let shown =
        document.split("<!-- rows: begin -->\n").nth(1).and_then(|rest| rest.split("<!-- rows: end").next());
    let lines = shown.expect("the document has a table").lines().skip(2);
    let listed: Vec<_> = lines.map(|line| line.split('|').nth(1).unwrap_or_default().trim()).collect();
    let modelled: Vec<_> = ROWS.iter().map(|row| row.what).collect();
    assert_eq!(modelled, listed);
}

#[test]
fn each_variation_is_in_one_row_and_each_other_row_says_why_not() {
    let mut names: Vec<_> = Variation::entries().map(|entry| entry.name).collect();
    let of_rows = ROWS.iter().filter(|row| match row.model {
        Model::Varied(entries) => !entries.is_empty(),
        Model::Never(why) => why.is_empty(),
    });
    println!("{} rows of {} are modelled, by {} variations", of_rows.count(), ROWS.len(), names.len());
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

/// Worlds with a bound of states, and the ways of a Linux that are met within it.
const WORLDS: [(&str, usize, &[Variation]); 7] = [
    (
        "linux",
        10_000,
        &[Variation::CloseAtGap, Variation::Blockless, Variation::Silent, Variation::FinReported],
    ),
    ("linux-nagle", 3_000, &[Variation::SmallBehindFull]),
    (
        "linux-window",
        20_000,
        &[
            Variation::EdgeResetChallenged,
            Variation::FinWaits,
            Variation::SmallWaits,
            Variation::OldSegmentsWindow,
        ],
    ),
    ("linux-late", 20_000, &[Variation::LateAck, Variation::AckOneBefore]),
    ("linux-time-wait", 40_000, &[Variation::FinUnreported, Variation::TimeWaitUnreported]),
    ("linux-closing", 10_000, &[Variation::OrphanResets, Variation::AbortUnsaid, Variation::AbortInTimeWait]),
    ("linux-crossing", 3_000, &[Variation::OptionsAgain, Variation::ShutdownGivesUp]),
];

#[test]
fn server_acts_in_each_way_of_a_linux() {
    let listed = |entry: &&Entry| WORLDS.iter().any(|(.., ways)| ways.contains(&entry.variation));
    let unlisted: Vec<_> = Variation::entries().filter(|entry| !listed(entry)).collect();
    assert!(unlisted.is_empty(), "no world is known to meet {unlisted:?}");
    let of_table = SETUPS.iter().filter(|setup| setup.variations > 0).map(|setup| setup.name);
    assert!(of_table.eq(WORLDS.map(|(name, ..)| name)), "the worlds of a Linux are these");
    std::thread::scope(|scope| {
        for (name, states, ways) in WORLDS {
            scope.spawn(move || meets(name, states, ways));
        }
    });
}

fn meets(name: &str, states: usize, ways: &[Variation]) {
    let setup = Setup::find(name).expect("it is in the table");
    // Another test lets the network run out.
    let report = explore(setup, &Bounds { run_out_every: u32::MAX, ..Bounds::states(states) });
    let found = report.counterexample.map(|found| format!("{}\n{}", found.breach, found.script));
    assert_eq!(found, None, "{name}");
    for way in ways {
        assert!(
            report.varied.contains_key(way),
            "{name}: no {way:?} in {states} states: {:?}",
            report.varied
        );
    }
}
