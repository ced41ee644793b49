//! Rows of a text file, each a fingerprint of what one part of the crate answered in one seeded run.

use std::fmt::Write as _;
use std::path::Path;

use ackclock_test_support::snapshot::{self, fold};

/// A run: its name, and what notes its answers. The same name always means the same run.
pub(crate) struct Run {
    name: String,
    notes: Box<dyn Fn(Recorder) -> Recorder>,
}

impl Run {
    pub(crate) fn new(name: impl Into<String>, notes: impl Fn(Recorder) -> Recorder + 'static) -> Self {
        Self { name: name.into(), notes: Box::new(notes) }
    }

    fn record(&self, wanted: Option<usize>) -> Recorder {
        (self.notes)(Recorder { wanted, ..Recorder::default() }).finished()
    }

    fn row(&self) -> String {
        let Recorder { marks, hash, count, .. } = self.record(None);
        format!("{} {count} {hash:016x} {marks}", self.name)
    }
}

/// Folds all that is noted into a hash, and adds a letter after every 32 notes: the first letter that differs
/// shows where a run has changed.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    hash: u64,
    count: usize,
    marks: String,
    /// The block whose notes are kept in words.
    wanted: Option<usize>,
    words: Vec<String>,
}

impl Recorder {
    pub(crate) fn note(&mut self, numbers: &[u64], words: impl FnOnce() -> String) {
        if self.wanted == Some(self.count / BLOCK) {
            self.words.push(format!("{:>6}  {}", self.count, words()));
        }
        for &number in numbers {
            self.hash = fold(self.hash, number);
        }
        self.count += 1;
        if self.count.is_multiple_of(BLOCK) {
            self.mark();
        }
    }

    /// Notes a value by its words.
    pub(crate) fn say(&mut self, words: String) {
        let numbers: Vec<u64> = words.bytes().map(u64::from).collect();
        self.note(&numbers, || words);
    }

    fn mark(&mut self) {
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
        self.marks.push(char::from(letters[(self.hash % 64) as usize]));
    }

    fn finished(mut self) -> Self {
        self.mark();
        self
    }
}

/// Compares all runs with the file of this name beside the tests; `UPDATE_SNAPSHOTS=1` writes it. The first
/// difference is reported with the notes of its block.
pub(crate) fn compare(file: &str, runs: &[Run]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/answers").join(file);
    let rows: Vec<String> = runs.iter().map(Run::row).collect();
    let recorded = snapshot::kept(&path, &(rows.join("\n") + "\n"));
    let mut expected = recorded.lines();
    for (run, row) in runs.iter().zip(&rows) {
        let was = expected.next().unwrap_or_default();
        if row != was {
            panic!("{}", difference(file, run, row, was));
        }
    }
    assert_eq!(expected.next(), None, "{file} has a row more");
}

fn difference(file: &str, run: &Run, row: &str, was: &str) -> String {
    let marks = |row: &str| row.rsplit(' ').next().unwrap_or_default().to_owned();
    let (ours, theirs) = (marks(row), marks(was));
    let block = ours.bytes().zip(theirs.bytes()).take_while(|(our, their)| our == their).count();
    let mut text = format!("{file}: if this is meant, run with UPDATE_SNAPSHOTS=1\n now {row}\n was {was}\n");
    writeln!(text, "`{}` differs within these notes:", run.name).unwrap();
    for line in run.record(Some(block)).words {
        writeln!(text, "{line}").unwrap();
    }
    text
}

const BLOCK: usize = 32;
