//! Merges the results of all shards of a grid.

use std::fs;
use std::path::{Path, PathBuf};

use ackclock_cli::{Exit, Failure};
use tcplab::grid::{Cell, Grid};
use tcplab::measure::Measures;

use super::difference::difference;
use super::shard::{Label, Shard};
use super::store::Known;

/// All runs of a grid with their results, in the grid's order.
#[derive(Debug)]
pub(super) struct Merged {
    pub grid: Grid,
    pub cells: Vec<Cell>,
    pub results: Vec<Measures>,
}

/// A folder with the results of a shard.
#[derive(Debug)]
struct Part<'a> {
    folder: &'a Path,
    label: Label,
}

impl Merged {
    /// Reads the shards in `folders` without changing them.
    ///
    /// # Errors
    /// A folder has no shard, or one of another build, grid or division; a shard appears twice; results are
    /// missing; a file cannot be read.
    pub fn read(folders: &[PathBuf], build: &str) -> anyhow::Result<Self> {
        let parts =
            folders.iter().map(|folder| Part::read(folder, build)).collect::<anyhow::Result<Vec<_>>>()?;
        let Some(first) = parts.first() else { return Err(Failure::usage("--merge names no folder").into()) };
        for (number, part) in parts.iter().enumerate() {
            first.check(part)?;
            let same = parts[..number].iter().find(|other| other.label.shard == part.label.shard);
            if let Some(same) = same {
                let message = format!("shard {} is both {same} and {part}", part.label.shard);
                return Err(Failure::usage(message).remedy("name one of the two").into());
            }
        }
        let grid = first.label.grid.clone();
        let cells = grid.cells();
        let owners = first.label.shard.owners(&cells);
        let mut gaps = Gaps::default();
        let mut found: Vec<Option<Measures>> = vec![None; cells.len()];
        for shard in first.label.shard.siblings() {
            let Some(part) = parts.iter().find(|part| part.label.shard == shard) else {
                gaps.absent.push(shard);
                continue;
            };
            let known = Known::read(part.folder, build)?;
            let own = || cells.iter().zip(&owners).enumerate().filter(|(_, (_, owner))| **owner == shard);
            for (index, (cell, _)) in own() {
                found[index] = known.find(cell).cloned();
            }
            let lacking: Vec<&Cell> =
                own().filter(|(index, _)| found[*index].is_none()).map(|(_, (cell, _))| cell).collect();
            gaps.note(part, &lacking, own().count());
        }
        match found.into_iter().collect() {
            Some(results) => Ok(Self { grid, cells, results }),
            None => Err(gaps.failure().into()),
        }
    }
}

impl<'a> Part<'a> {
    fn read(folder: &'a Path, build: &str) -> anyhow::Result<Self> {
        if let Err(error) = fs::read_dir(folder) {
            return Err(Failure::file("read the folder", folder, &error).into());
        }
        let label = Label::read(folder, build)?.ok_or_else(|| {
            let message = format!("{} holds no shard", folder.display());
            Failure::usage(message)
                .remedy("name the folders that `tcplab compare --shard I/N --out DIR` wrote")
        })?;
        Ok(Self { folder, label })
    }

    /// Refuses shards of another grid or another division.
    fn check(&self, other: &Self) -> Result<(), Failure> {
        let refused = if let Some(which) = difference(&self.label.grid, &other.label.grid) {
            format!("{self} and {other} are shards of different grids: {which}")
        } else if !self.label.shard.is_sibling_of(other.label.shard) {
            let (one, two) = (self.label.shard, other.label.shard);
            format!("{self} is shard {one} and {other} is shard {two}: the grid was divided in two ways")
        } else {
            return Ok(());
        };
        Err(Failure::usage(refused)
            .remedy("merge shards of one command, or run the others again with its options"))
    }
}

impl std::fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.folder.display().fmt(f)
    }
}

/// The missing shards and runs.
#[derive(Debug, Default)]
struct Gaps {
    absent: Vec<Shard>,
    /// Lines about incomplete shards.
    partial: Vec<String>,
}

impl Gaps {
    fn note(&mut self, part: &Part<'_>, lacking: &[&Cell], of: usize) {
        if lacking.is_empty() {
            return;
        }
        let named: Vec<String> = lacking.iter().take(SHOWN).map(|cell| name(cell)).collect();
        let more = if lacking.len() > SHOWN {
            format!("; and {} more", lacking.len() - SHOWN)
        } else {
            String::new()
        };
        let (shard, named) = (part.label.shard, named.join("; "));
        self.partial
            .push(format!("shard {shard} in {part} lacks {} of {of} runs: {named}{more}", lacking.len()));
    }

    fn failure(&self) -> Failure {
        let mut lines = Vec::new();
        if !self.absent.is_empty() {
            let named: Vec<String> = self.absent.iter().take(SHOWN).map(Shard::to_string).collect();
            let more = self.absent.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            lines.push(format!("none of the folders holds shard {}{more}", named.join(", ")));
        }
        lines.extend(self.partial.iter().cloned());
        Failure::new(Exit::Failed, lines.join("\n")).remedy(
            "run each of these shards again with its own command, which goes on where it stopped; \
                then merge all",
        )
    }
}

/// A run on one line.
fn name(cell: &Cell) -> String {
    let Cell { cc, rate, delay, buffer, loss, seed, .. } = cell;
    format!("{cc} at {rate}, {delay}, {buffer}, {loss}, seed {seed}")
}

/// The most missing runs or shards that are named.
const SHOWN: usize = 5;
