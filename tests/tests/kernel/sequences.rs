//! Sequences of segments and calls, answered as Linux answers them except for the rows of `docs/linux.md`.

use ackclock_tests::linux::judge_seeds;
use ackclock_tests::linux::rows::{ROWS, table};
use ackclock_tests::netns::{Namespace, in_namespaces};

#[test]
fn sequences_are_answered_as_linux_answers_them_but_for_the_rows_of_the_table() {
    in_namespaces(|[home]: [Namespace; 1]| {
        let report = judge_seeds(&home, 1..=SEQUENCES);
        println!("{report}");
        assert!(report.different.is_empty(), "{} kinds of difference: see above", report.different.len());
        assert!(report.same * 2 > SEQUENCES, "{} of {SEQUENCES} alike", report.same);
        assert!(report.unjudged * 20 <= SEQUENCES, "{} could not be judged", report.unjudged);
        assert!(report.passing * 100 <= SEQUENCES, "{} differed once and not again", report.passing);
    });
}

#[test]
fn the_table_of_differences_is_the_documents() {
    let document = include_str!("../../../docs/linux.md");
    let shown = document.split("<!-- rows: begin -->\n").nth(1);
    let shown = shown.and_then(|rest| rest.split("<!-- rows: end -->").next());
    assert_eq!(shown, Some(table().as_str()), "the {} rows of tests/src/linux/rows.rs", ROWS.len());
}

const SEQUENCES: u64 = 1_000;
