//! Shards of a grid for several machines: the runs that belong to each, and the file that labels a folder
//! with its shard.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;

use ackclock_cli::{Failure, output};
use serde::{Deserialize, Serialize};
use tcplab::grid::{Cell, Grid};

use super::difference::difference;

/// One shard of a grid, counted from 1: `2/4` is the second of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Shard {
    index: usize,
    of: usize,
}

/// The file that says which shard of which grid a folder holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Label {
    format: u32,
    pub(super) build: String,
    pub(super) shard: Shard,
    pub(super) grid: Grid,
}

/// The part of a label that all formats share.
#[derive(Debug, Deserialize)]
struct Mark {
    format: u32,
    build: String,
}

impl Shard {
    /// All shards of this one's division.
    pub fn siblings(self) -> impl Iterator<Item = Self> {
        (1..=self.of).map(move |index| Self { index, ..self })
    }

    /// Whether both belong to the same division.
    pub fn is_sibling_of(self, other: Self) -> bool {
        self.of == other.of
    }

    /// The runs of this shard, in the grid's order.
    ///
    /// # Errors
    /// There are more shards than runs.
    pub fn cells(self, grid: &Grid) -> Result<Vec<Cell>, Failure> {
        let cells = grid.cells();
        if self.of > cells.len() {
            let message = format!("--shard {self}: the grid has {} runs, fewer than shards", cells.len());
            return Err(Failure::usage(message).remedy(format!("divide by {} at most", cells.len())));
        }
        let owners = self.owners(&cells);
        Ok(cells.into_iter().zip(owners).filter(|(_, owner)| *owner == self).map(|(cell, _)| cell).collect())
    }

    /// The shard of each cell. The most expensive cells are dealt first, each to the shard with the least
    /// work, so the shards differ by the cost of one cell at most.
    pub fn owners(self, cells: &[Cell]) -> Vec<Self> {
        let mut order: Vec<usize> = (0..cells.len()).collect();
        order.sort_by_key(|&cell| Reverse(cost(&cells[cell])));
        let mut loads: BinaryHeap<Reverse<(u128, Self)>> =
            self.siblings().map(|one| Reverse((0, one))).collect();
        let mut owners = vec![self; cells.len()];
        for cell in order {
            let Some(Reverse((load, owner))) = loads.pop() else { break };
            owners[cell] = owner;
            loads.push(Reverse((load + cost(&cells[cell]), owner)));
        }
        owners
    }
}

/// The expected cost of a run in packets, as far as the rate determines their number.
fn cost(cell: &Cell) -> u128 {
    u128::from(cell.rate.bits()) * u128::from(cell.duration.0)
}

impl Label {
    /// The label of a folder; `None` if it has none.
    ///
    /// # Errors
    /// The file cannot be read, or another program wrote it.
    pub fn read(folder: &Path, build: &str) -> anyhow::Result<Option<Self>> {
        let path = folder.join(NAME);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::file("read", &path, &error).into()),
        };
        let damaged = |error: serde_json::Error| {
            Failure::usage(format!("{} is damaged: {error}", path.display())).remedy("run this shard again")
        };
        let mark: Mark = serde_json::from_slice(&text).map_err(damaged)?;
        if mark.format != FORMAT || mark.build != build {
            let message = format!("{} was run by another build of tcplab", folder.display());
            let remedy = "merge with the program that ran the shards, or run the shards again with this one";
            return Err(Failure::usage(message).remedy(remedy).into());
        }
        Ok(Some(serde_json::from_slice(&text).map_err(damaged)?))
    }

    /// Labels a folder for a shard that is about to run there.
    ///
    /// # Errors
    /// Its label names another shard or another grid, and `fresh` is not set; or the file cannot be written.
    pub fn put(folder: &Path, build: &str, shard: Shard, grid: &Grid, fresh: bool) -> anyhow::Result<()> {
        // Another build's label is replaced, since its results are not used either.
        let old = if fresh { None } else { Self::read(folder, build).ok().flatten() };
        if let Some(old) = old {
            let holds = if old.shard != shard {
                Some(format!("shard {}", old.shard))
            } else {
                difference(&old.grid, grid).map(|which| format!("a shard of another grid ({which})"))
            };
            if let Some(holds) = holds {
                let message = format!("{} holds {holds}, not this shard {shard}", folder.display());
                let remedy = "name another folder with --out, or start over in this one with --fresh";
                return Err(Failure::usage(message).remedy(remedy).into());
            }
        }
        let label = Self { format: FORMAT, build: build.to_owned(), shard, grid: grid.clone() };
        Ok(output::write_json(&folder.join(NAME), &label)?)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((index, of)) if (1..=of).contains(&index) && of <= SHARDS_MAX => Ok(Self { index, of }),
            _ => Err(format!(
                "found `{text}`; allowed is I/N with I from 1 to N, as 2/4, and N up to {SHARDS_MAX}"
            )),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Increase it when the meaning of a label changes.
const FORMAT: u32 = 1;
/// The label's name within its folder.
const NAME: &str = "shard.json";
/// A grid cannot have more runs than this.
const SHARDS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use ackclock_sim::units::Rate;

    use super::*;

    #[test]
    fn every_run_belongs_to_one_shard_and_shards_cost_the_same() {
        let grid = Grid {
            cc: vec!["cubic".into(), "reno".into()],
            rates: [1, 3, 50, 200].map(Rate::mbit).to_vec(),
            seeds: 7,
            ..Grid::default()
        };
        let cells = grid.cells();
        for of in [1, 2, 3, 8, 56] {
            let first: Shard = format!("1/{of}").parse().unwrap();
            let parts: Vec<Vec<Cell>> = first.siblings().map(|shard| shard.cells(&grid).unwrap()).collect();
            let mut found: Vec<&Cell> = parts.iter().flatten().collect();
            found.sort_by_key(|cell| cells.iter().position(|other| other == *cell));
            assert_eq!(found, cells.iter().collect::<Vec<_>>(), "of {of}");
            let loads = || parts.iter().map(|part| part.iter().map(cost).sum::<u128>());
            let most = cells.iter().map(cost).max().unwrap();
            assert!(
                loads().max().unwrap() - loads().min().unwrap() <= most,
                "of {of}: {:?}",
                loads().collect::<Vec<_>>()
            );
        }
        let many: Shard = "1/57".parse().unwrap();
        assert!(many.cells(&grid).unwrap_err().to_string().contains("divide by 56 at most"));
    }

    #[test]
    fn shards_count_from_one() {
        let shard: Shard = "2/4".parse().unwrap();
        assert_eq!((shard.to_string().as_str(), shard.siblings().count()), ("2/4", 4));
        for wrong in ["", "2", "0/4", "5/4", "/4", "2/", "-1/4", "2/4/4", "1/0", "1/1000001"] {
            let error = wrong.parse::<Shard>().unwrap_err();
            assert!(error.contains("as 2/4"), "{wrong}: {error}");
        }
    }
}
