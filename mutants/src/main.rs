//! Writes mutants into a copy of the sources, so that one build holds them all. An environment variable
//! selects the active one.
//!
//! `scripts/mutants.py` calls it: a [`Task`] as JSON on standard input, a [`Report`] on standard output. Each
//! place with mutants becomes a `match` on the number of the active mutant; its last arm is the original
//! code. Comments around each arm (`/*m7*/ .. /*m7.*/`) and each place (`/*p7*/ .. /*p7.*/`) let the script
//! attribute a compiler error to a mutant or a place.

mod places;
mod render;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// The mutant to write.
#[derive(Deserialize)]
struct Task {
    /// The folder of the sources.
    from: PathBuf,
    /// The folder of the copy.
    to: PathBuf,
    /// The files to write, relative to both, with their mutants.
    files: BTreeMap<PathBuf, Vec<Mutant>>,
    /// Functions that must stay `const`. All others lose it, so that they can have mutants.
    constant: BTreeSet<String>,
    /// Text to append to some files.
    appended: BTreeMap<PathBuf, String>,
}

/// A mutant as `cargo mutants --list --json` describes it, with a number.
#[derive(Clone, Debug, Deserialize)]
struct Mutant {
    number: u32,
    genre: Genre,
    /// Where the replaced code begins: line and column in characters, both from 1.
    line: usize,
    column: usize,
    replacement: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

/// The mutants that were written and those that were not.
#[derive(Default, Serialize)]
struct Report {
    /// The place of each mutant that was written. The build reports a place when it is reached.
    places: BTreeMap<u32, u32>,
    /// Mutants that could not be written: those in constants, patterns or `let` chains.
    left_out: Vec<u32>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let task: Task = serde_json::from_reader(io::stdin().lock())?;
    let mut report = Report::default();
    for (file, mutants) in &task.files {
        let source = fs::read_to_string(task.from.join(file))?;
        let found = places::find(&source, mutants, &task.constant)?;
        let written: BTreeMap<u32, u32> = found
            .iter()
            .flat_map(|place| place.mutants().map(|mutant| (mutant.number, place.number())))
            .collect();
        report.left_out.extend(
            mutants.iter().map(|mutant| mutant.number).filter(|number| !written.contains_key(number)),
        );
        report.places.extend(written);
        let text = render::render(&source, found) + task.appended.get(file).map_or("", String::as_str);
        write_if_changed(&task.to.join(file), &text)?;
    }
    serde_json::to_writer(io::stdout().lock(), &report)?;
    Ok(())
}

/// An unchanged file keeps its time, so that its crate is not rebuilt.
fn write_if_changed(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text)
}
