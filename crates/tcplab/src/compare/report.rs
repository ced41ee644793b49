//! The results of a comparison: a table, pictures, a page.

use std::fs;
use std::path::Path;

use ackclock_chart::Figure;
use ackclock_cli::table::{bit_rate, columns, millis, number, percent};
use ackclock_cli::{Failure, output};
use serde::Serialize;
use tcplab::grid::{Cell, Grid};
use tcplab::measure::Measures;
use tcplab::page::Page;

use super::pictures;
use crate::picture;

/// A grid and its results.
#[derive(Debug, Serialize)]
pub(super) struct Comparison<'a> {
    pub grid: &'a Grid,
    pub rows: Vec<Row<'a>>,
}

/// All runs of a controller in one situation.
#[derive(Debug, Serialize)]
pub(super) struct Row<'a> {
    /// Its first run.
    #[serde(flatten)]
    pub cell: Cell,
    pub mean: Measures,
    /// One for each seed.
    pub runs: &'a [Measures],
}

impl<'a> Comparison<'a> {
    /// `results` must be in the order of the grid's cells.
    pub fn new(grid: &'a Grid, results: &'a [Measures]) -> Self {
        let seeds = usize::try_from(grid.seeds).unwrap_or(usize::MAX);
        let cells = grid.cells().into_iter().step_by(seeds);
        let rows = cells.zip(results.chunks(seeds)).map(|(cell, runs)| {
            let mean = Measures::mean(runs);
            Row { cell, mean, runs }
        });
        Self { grid, rows: rows.collect() }
    }

    /// The text for a terminal.
    pub fn text(&self) -> String {
        format!("{}\n\n{}", self.same(), columns(self.head(), &self.table()))
    }

    /// Writes the page, as Markdown and as HTML, and its pictures.
    pub fn write(&self, folder: &Path) -> Result<(), Failure> {
        let mut page = Page::new(format!("{} compared", self.grid.cc.join(", ")));
        page.text(format!("{}.", self.same()));
        page.table(self.head(), self.table());
        let figures = pictures::figures(self);
        if !figures.is_empty() {
            output::make_folder(&folder.join(PICTURES))?;
        }
        remove_others(&folder.join(PICTURES), &figures)?;
        for (stem, figure) in figures {
            picture::write(&folder.join(PICTURES), &stem, &figure)?;
            page.picture(format!("{PICTURES}/{stem}.{}", picture::ENDING), figure);
        }
        output::write_file(&folder.join("report.md"), page.markdown().as_bytes())?;
        output::write_file(&folder.join("report.html"), page.html().as_bytes())
    }

    /// The values that all rows share.
    fn same(&self) -> String {
        let Grid { profile, queue, flows, duration, seeds, .. } = self.grid;
        let ecn = self.grid.ecn.name();
        let flows = if *flows == 1 { "One flow".to_owned() } else { format!("{flows} flows") };
        let runs = if *seeds == 1 { "one run".to_owned() } else { format!("mean of {seeds} runs") };
        format!(
            "{flows} of profile {profile} for {duration} through a {queue} queue, ECN {ecn}, {runs} of each"
        )
    }

    /// One flow shares with no other: the last column, Jain's index, is left out then.
    fn head(&self) -> &'static [&'static str] {
        if self.grid.flows > 1 { &HEAD } else { &HEAD[..HEAD.len() - 1] }
    }

    fn table(&self) -> Vec<Vec<String>> {
        let row = |row: &Row<'_>| {
            let (cell, mean) = (&row.cell, &row.mean);
            vec![
                cell.rate.to_string(),
                cell.delay.to_string(),
                cell.buffer.to_string(),
                cell.loss.to_string(),
                cell.cc.clone(),
                bit_rate(mean.throughput),
                percent(mean.retransmitted),
                number(mean.timeouts),
                millis(mean.queue_mean),
                millis(mean.queue_p99),
                number(mean.power / 1e6),
                number(mean.jain),
            ]
        };
        let columns = self.head().len();
        self.rows.iter().map(row).map(|cells| cells.into_iter().take(columns).collect()).collect()
    }
}

const HEAD: [&str; 12] = [
    "rate",
    "delay",
    "buffer",
    "loss",
    "controller",
    "throughput",
    "sent again",
    "timeouts",
    "queueing delay, mean",
    "p99",
    "power (MB/s²)",
    "Jain",
];
/// The folder of the pictures, beside the page.
const PICTURES: &str = "pictures";

/// Removes the pictures of an earlier comparison in the folder, which the new report does not show.
fn remove_others(folder: &Path, figures: &[(String, Figure)]) -> Result<(), Failure> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for path in entries.flatten().map(|entry| entry.path()) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_picture = path.extension().is_some_and(|ending| ending == picture::ENDING);
        let is_ours = KINDS.iter().any(|kind| stem.starts_with(kind));
        if is_picture && is_ours && !figures.iter().any(|(kept, _)| *kept == stem) {
            fs::remove_file(&path).map_err(|error| Failure::file("remove", &path, &error))?;
        }
    }
    Ok(())
}

/// The prefixes of the pictures' names.
const KINDS: [&str; 3] = ["buffer-", "loss-", "controller-"];
