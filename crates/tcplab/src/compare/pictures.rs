//! Pictures of a comparison: what changes with the buffer, the loss or the controller.

use ackclock_chart::{Axis, Figure, Panel, Point, Series, Style};
use tcplab::grid::Cell;
use tcplab::measure::Measures;

use super::report::{Comparison, Row};

/// The quantity in a panel.
struct Quantity {
    label: &'static str,
    of: fn(&Measures) -> f64,
}

const THROUGHPUT: Quantity = Quantity { label: "throughput (Mbit/s)", of: |one| one.throughput * 8.0 / 1e6 };
const POWER: Quantity = Quantity { label: "power (MB/s²)", of: |one| one.power / 1e6 };
const DELAY: Quantity = Quantity { label: "mean queueing delay (ms)", of: |one| one.queue_mean * 1e3 };
const AGAIN: Quantity = Quantity { label: "sent again (%)", of: |one| one.retransmitted * 100.0 };
const JAIN: Quantity = Quantity { label: "Jain's index", of: |one| one.jain };

/// A parameter of cells, as text.
type Parameter = fn(&Cell) -> String;

/// All pictures, with the stems of their file names.
pub(super) fn figures(comparison: &Comparison<'_>) -> Vec<(String, Figure)> {
    let grid = comparison.grid;
    let (rate, delay): (Parameter, Parameter) = (|cell| cell.rate.to_string(), |cell| cell.delay.to_string());
    let (buffer, loss): (Parameter, Parameter) =
        (|cell| cell.buffer.to_string(), |cell| cell.loss.to_string());
    let mut figures = Vec::new();
    if grid.buffers.len() > 1 {
        let kind = Kind {
            name: "buffer",
            by: buffer,
            fixed: [rate, delay, loss],
            shown: &[THROUGHPUT, DELAY, POWER],
        };
        figures.extend(kind.figures(comparison));
    }
    if grid.losses.len() > 1 {
        let kind = Kind { name: "loss", by: loss, fixed: [rate, delay, buffer], shown: &[THROUGHPUT, AGAIN] };
        figures.extend(kind.figures(comparison));
    }
    if figures.is_empty() {
        let controller: Parameter = |cell| cell.cc.clone();
        let fixed = [rate, delay, |cell: &Cell| format!("{}, {}", cell.buffer, cell.loss)];
        let shown: &[Quantity] = &[THROUGHPUT, DELAY, POWER, JAIN];
        // One flow shares with no other.
        let shown = if grid.flows > 1 { shown } else { &shown[..shown.len() - 1] };
        let kind = Kind { name: "controller", by: controller, fixed, shown };
        figures.extend(kind.figures(comparison));
    }
    figures
}

/// Pictures of one kind: one for each combination of the fixed parameters.
struct Kind {
    /// The parameter that changes from left to right.
    name: &'static str,
    by: Parameter,
    fixed: [Parameter; 3],
    shown: &'static [Quantity],
}

impl Kind {
    fn figures(&self, comparison: &Comparison<'_>) -> Vec<(String, Figure)> {
        let fixed = |row: &Row<'_>| self.fixed.map(|parameter| parameter(&row.cell)).join(", ");
        let mut groups: Vec<(String, Vec<&Row<'_>>)> = Vec::new();
        for row in &comparison.rows {
            let name = fixed(row);
            match groups.iter_mut().find(|(other, _)| *other == name) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((name, vec![row])),
            }
        }
        let stem = |name: &str| {
            let plain = |c: char| if c.is_alphanumeric() || c == '.' { c } else { '-' };
            format!("{}-{}", self.name, name.replace(", ", "_").chars().map(plain).collect::<String>())
        };
        groups.iter().map(|(name, rows)| (stem(name), self.figure(name, rows, comparison))).collect()
    }

    fn figure(&self, fixed: &str, rows: &[&Row<'_>], comparison: &Comparison<'_>) -> Figure {
        let mut categories: Vec<String> = Vec::new();
        for row in rows {
            let category = (self.by)(&row.cell);
            if !categories.contains(&category) {
                categories.push(category);
            }
        }
        let runs = comparison.grid.seeds;
        let spread =
            if runs > 1 { format!(", with the least and the most of {runs} runs") } else { String::new() };
        Figure {
            title: format!("By {}: {fixed}", self.name),
            caption: format!("{} by {}, at {fixed}{spread}.", comparison.grid.cc.join(", "), self.name),
            panels: self.shown.iter().map(|shown| self.panel(shown, rows, &categories, comparison)).collect(),
            x: Axis { label: self.name.to_owned(), categories, ..Axis::default() },
        }
    }

    fn panel(
        &self,
        shown: &Quantity,
        rows: &[&Row<'_>],
        categories: &[String],
        comparison: &Comparison<'_>,
    ) -> Panel {
        let point = |row: &Row<'_>| {
            let at = categories.iter().position(|category| *category == (self.by)(&row.cell));
            let values = || row.runs.iter().map(shown.of);
            let range = (row.runs.len() > 1).then(|| {
                (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
            });
            Point { x: at.unwrap_or(0) as f64, y: (shown.of)(&row.mean), range, note: row.cell.cc.clone() }
        };
        let by_controller = self.name == "controller";
        let controllers: Vec<&str> = match by_controller {
            true => vec![""],
            false => comparison.grid.cc.iter().map(String::as_str).collect(),
        };
        let series = (0..).zip(controllers).map(|(colour, name)| Series {
            name: name.to_owned(),
            style: if by_controller { Style::Bars } else { Style::Line },
            colour,
            points: rows
                .iter()
                .filter(|row| by_controller || row.cell.cc == name)
                .map(|row| point(row))
                .collect(),
        });
        let series: Vec<Series> = series.collect();
        // From zero: a difference of 3 % looks like one.
        let ends = |point: &Point| point.range.map_or(point.y, |(_, most)| most);
        let most = series.iter().flat_map(|series| &series.points).map(ends).fold(0.0, f64::max);
        let range = (most > 0.0).then_some((0.0, 1.05 * most));
        Panel { height: 1.0, y: Axis { label: shown.label.to_owned(), range, ..Axis::default() }, series }
    }
}
