//! Results of runs in a file, one per line, so that an interrupted comparison can continue.
//!
//! Each line is written at once and as a whole. A line torn by a crash is left out and reported when the file
//! is read. A line contains all parameters of its run, the number of this format, and a hash of the program
//! that made it. Results of another build stay in the file but are not used.
//!
//! A folder serves one comparison at a time. Two would both run what is missing, and each would overwrite the
//! other's file.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ackclock_cli::{Failure, output};
use ackclock_wire::hash::Fnv1a;
use serde::{Deserialize, Serialize};
use tcplab::grid::Cell;
use tcplab::measure::Measures;

/// Increase it when the meaning of a line changes.
const FORMAT: u32 = 1;
/// The file's name within its folder.
const NAME: &str = "cells.jsonl";

/// The file, and the known results.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    build: String,
    known: Known,
    file: Mutex<File>,
    /// A lock on the folder, held until this is dropped or the process ends in any way.
    _held: Lock,
}

/// The results in a file.
#[derive(Debug, Default)]
pub(super) struct Known {
    results: HashMap<String, Measures>,
    /// All lines that could be read.
    lines: Vec<u8>,
    /// Lines of other builds or formats.
    pub(super) foreign: usize,
    /// Lines that could not be read.
    pub(super) torn: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    format: u32,
    build: String,
    cell: Cell,
    measures: Measures,
}

/// The part of a line that all formats share.
#[derive(Debug, Deserialize)]
struct Mark {
    format: u32,
    build: String,
}

impl Store {
    /// Reads what is in `folder`, or with `fresh` starts empty.
    pub fn open(folder: &Path, fresh: bool) -> anyhow::Result<Self> {
        let held = hold(folder)?;
        let path = folder.join(NAME);
        let build = build()?;
        let known = if fresh { Known::default() } else { Known::read(folder, &build)? };
        if known.torn > 0 || fresh {
            output::write_file(&path, &known.lines)?;
        }
        let file = File::options().create(true).append(true).open(&path);
        let file = Mutex::new(file.map_err(|error| Failure::file("write", &path, &error))?);
        Ok(Self { path, build, known, file, _held: held })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The contents of the file when it was opened.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// The hash of this program.
    pub fn build(&self) -> &str {
        &self.build
    }

    /// The result of a run, if known.
    pub fn find(&self, cell: &Cell) -> Option<&Measures> {
        self.known.find(cell)
    }

    /// Stores the result of a run.
    pub fn add(&self, cell: &Cell, measures: &Measures) -> anyhow::Result<()> {
        let (build, cell, measures) = (self.build.clone(), cell.clone(), measures.clone());
        let mut line = serde_json::to_vec(&Line { format: FORMAT, build, cell, measures })?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.write_all(&line).map_err(|error| Failure::file("write", &self.path, &error).into())
    }
}

impl Known {
    /// Reads the results of `build` in `folder`, which is not changed.
    pub fn read(folder: &Path, build: &str) -> anyhow::Result<Self> {
        let path = folder.join(NAME);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Failure::file("read", &path, &error).into()),
        };
        let mut known = Self::default();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match read(line, build) {
                Read::Known(line) => {
                    known.results.insert(key(&line.cell)?, line.measures);
                }
                Read::Foreign => known.foreign += 1,
                Read::Torn => {
                    known.torn += 1;
                    continue;
                }
            }
            known.lines.extend_from_slice(line);
        }
        Ok(known)
    }

    /// The result of a run, if known.
    pub fn find(&self, cell: &Cell) -> Option<&Measures> {
        self.results.get(&key(cell).ok()?)
    }
}

/// A lock on a folder.
#[cfg(unix)]
type Lock = File;
#[cfg(not(unix))]
type Lock = ();

/// Locks `folder`, if its file system supports locks.
#[cfg(unix)]
fn hold(folder: &Path) -> anyhow::Result<Lock> {
    use rustix::fs::FlockOperation;
    use rustix::io::Errno;
    let held = File::open(folder).map_err(|error| Failure::file("open the folder", folder, &error))?;
    match rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            let message = format!("another `tcplab compare` is at work in {}", folder.display());
            Err(Failure::usage(message)
                .remedy("wait until it is done, or name another folder with --out")
                .into())
        }
        _ => Ok(held),
    }
}

/// Only systems of Unix lock folders.
#[cfg(not(unix))]
fn hold(_: &Path) -> anyhow::Result<Lock> {
    Ok(())
}

enum Read {
    Known(Box<Line>),
    Foreign,
    Torn,
}

fn read(line: &[u8], build: &str) -> Read {
    let whole = line.ends_with(b"\n");
    match serde_json::from_slice::<Mark>(line) {
        Ok(mark) if whole && (mark.format != FORMAT || mark.build != build) => Read::Foreign,
        Ok(_) if whole => serde_json::from_slice(line).map_or(Read::Torn, |line| Read::Known(Box::new(line))),
        _ => Read::Torn,
    }
}

fn key(cell: &Cell) -> serde_json::Result<String> {
    serde_json::to_string(cell)
}

/// A hash of this program, because another build may give other results.
pub(super) fn build() -> anyhow::Result<String> {
    let path = std::env::current_exe()?;
    let program = fs::read(&path).map_err(|error| Failure::file("read", &path, &error))?;
    Ok(format!("{:016x}", Fnv1a::of(&program)))
}

#[cfg(test)]
mod tests {
    use tcplab::grid::Grid;

    use super::*;

    #[test]
    fn what_was_kept_is_found_again_and_what_was_torn_is_not() {
        let folder = std::env::temp_dir().join(format!("tcplab-store-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let cells = Grid { seeds: 3, ..Grid::default() }.cells();
        // A value without a short decimal form survives to the last bit.
        let measures = Measures { throughput: 1e6 / 3.0, flows: vec![0.1 + 0.2], ..Measures::default() };
        let store = Store::open(&folder, false).unwrap();
        cells.iter().for_each(|cell| store.add(cell, &measures).unwrap());
        let path = store.path().to_owned();
        let refused = Store::open(&folder, false).unwrap_err().to_string();
        assert!(refused.contains("another `tcplab compare` is at work in"), "{refused}");
        drop(store);

        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 20]).unwrap();
        let store = Store::open(&folder, false).unwrap();
        assert_eq!((store.known.torn, store.known.foreign), (1, 0));
        assert_eq!(store.find(&cells[1]), Some(&measures));
        assert_eq!(store.find(&cells[2]), None);
        store.add(&cells[2], &measures).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
        drop(store);

        let other = String::from_utf8(whole).unwrap().replace(&build().unwrap(), "another");
        fs::write(&path, &other).unwrap();
        let store = Store::open(&folder, false).unwrap();
        assert_eq!((store.known.torn, store.known.foreign, store.find(&cells[0])), (0, 3, None));
        assert_eq!(fs::read(&path).unwrap(), other.as_bytes());
        drop(store);
        Store::open(&folder, true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        fs::remove_dir_all(&folder).unwrap();
    }
}
