//! The table of the demonstration. Each row appears when its transfer is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ackclock_cli::Failure;
use ackclock_control::quantity::Share;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Serialize, Serializer};

use super::transfer::{Done, Route};
use crate::json;
use crate::units::{bits_per_second, show_bytes, show_rate};

/// One transfer.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    transfer: &'static str,
    /// The sender's congestion controller.
    controller: Option<String>,
    #[serde(serialize_with = "fraction")]
    loss: Share,
    bytes: u64,
    seconds: Option<f64>,
    bits_per_second: Option<f64>,
    retransmits: Option<u64>,
    verified: bool,
    #[serde(skip)]
    pub(super) failure: Option<Failure>,
}

/// Prints rows as they come, or all of them as JSON.
#[derive(Debug)]
pub(super) struct Table {
    json: bool,
    head_shown: AtomicBool,
    /// On a terminal, shows the running transfer.
    spinner: ProgressBar,
}

impl Row {
    pub fn new(route: Route, loss: Share, bytes: u64, result: Result<Done, Failure>) -> Self {
        let (done, failure) = match result {
            Ok(done) => (Some(done), None),
            Err(failure) => (None, Some(failure)),
        };
        Self {
            transfer: route.name(),
            loss,
            bytes: done.as_ref().map_or(bytes, |done| done.bytes),
            seconds: done.as_ref().map(|done| done.took.as_secs_f64()),
            bits_per_second: done.as_ref().map(|done| bits_per_second(done.bytes, done.took)),
            retransmits: done.as_ref().map(|done| done.retransmits),
            verified: done.is_some(),
            controller: done.map(|done| done.controller),
            failure,
        }
    }

    pub fn moved_less_than(&self, bytes: u64) -> bool {
        self.verified && self.bytes < bytes
    }

    fn cells(&self) -> [String; 8] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        [
            self.transfer.to_owned(),
            or_dash(self.controller.clone()),
            percent(self.loss),
            show_bytes(self.bytes),
            or_dash(self.seconds.map(|seconds| format!("{seconds:.2}"))),
            or_dash(self.bits_per_second.map(show_rate)),
            or_dash(self.retransmits.map(|count| count.to_string())),
            if self.verified { "✓ blake3".to_owned() } else { "✗ failed".to_owned() },
        ]
    }
}

impl Table {
    pub fn new(json: bool) -> Self {
        let spinner = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            spinner.set_style(style);
        }
        Self { json, head_shown: AtomicBool::new(false), spinner }
    }

    /// Shows the transfer that begins.
    pub fn begin(&self, route: Route, loss: Share) {
        self.spinner.set_message(format!("{}, {} loss", route.name(), percent(loss)));
        self.spinner.enable_steady_tick(Duration::from_millis(100));
    }

    /// Shows a row.
    pub fn show(&self, row: &Row) {
        self.spinner.suspend(|| {
            if !self.json {
                if !self.head_shown.swap(true, Ordering::Relaxed) {
                    show!("{}", rule('┌', '┬', '┐'));
                    show!("{}", line(&HEAD.map(str::to_owned)));
                    show!("{}", rule('├', '┼', '┤'));
                }
                show!("{}", line(&row.cells()));
            }
            if let Some(failure) = &row.failure {
                say!("tcpcat: {}: {failure}", row.transfer);
            }
        });
    }

    /// Closes the table.
    pub fn finish(&self, rows: &[Row]) {
        self.spinner.finish_and_clear();
        if !self.json {
            show!("{}", rule('└', '┴', '┘'));
            return;
        }
        json::show(Rounds { transfers: rows });
    }
}

/// The table as JSON.
#[derive(Serialize)]
struct Rounds<'a> {
    transfers: &'a [Row],
}

/// A row's cells in their columns: the first aligned left, the others right.
fn line(cells: &[String; 8]) -> String {
    let cells = cells.iter().zip(WIDTHS).enumerate().map(|(column, (cell, width))| {
        if column == 0 { format!(" {cell:<width$} ") } else { format!(" {cell:>width$} ") }
    });
    format!("│{}│", cells.collect::<Vec<_>>().join("│"))
}

fn rule(left: char, middle: char, right: char) -> String {
    let parts: Vec<String> = WIDTHS.iter().map(|width| "─".repeat(width + 2)).collect();
    format!("{left}{}{right}", parts.join(&middle.to_string()))
}

pub(super) fn percent(loss: Share) -> String {
    let text = format!("{:.2}", loss.fraction() * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn fraction<S: Serializer>(loss: &Share, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(loss.fraction())
}

const HEAD: [&str; 8] = ["transfer", "controller", "loss", "bytes", "seconds", "rate", "resent", "verified"];
const WIDTHS: [usize; 8] = [23, 10, 6, 11, 7, 13, 7, 8];

#[cfg(test)]
mod tests {
    use super::*;
    use ackclock_cli::Exit;

    fn row(result: Result<Done, Failure>) -> Row {
        Row::new(Route::UserToKernel, Share::percent(1), 256 << 20, result)
    }

    #[test]
    fn lines_are_as_wide_as_the_rules() {
        let done = row(Ok(Done {
            controller: "dctcp-reno".to_owned(),
            bytes: 256 << 20,
            took: Duration::from_millis(12_345),
            retransmits: 1_234_567,
        }));
        let failed = row(Err(Failure::new(Exit::Failed, "why")));
        let width = rule('┌', '┬', '┐').chars().count();
        for row in [done, failed] {
            assert_eq!(line(&row.cells()).chars().count(), width);
        }
        assert!(width <= 110, "{width}");
    }

    #[test]
    fn a_failed_row_has_no_figures() {
        let failed = row(Err(Failure::new(Exit::Failed, "why")));
        assert_eq!(failed.cells()[1], "–");
        assert_eq!(failed.cells()[4..], ["–", "–", "–", "✗ failed"].map(str::to_owned));
    }

    #[test]
    fn loss_is_shown_without_idle_digits() {
        let losses = [0, 10_000, 5_000, 100_000].map(Share::per_million);
        assert_eq!(losses.map(percent), ["0 %", "1 %", "0.5 %", "10 %"]);
    }
}
