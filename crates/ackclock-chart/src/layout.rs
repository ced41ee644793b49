//! The positions of a figure's parts, computed before drawing. Pictures and reports share them.

use crate::axis::{self, Mapping, Room, Tick};
use crate::text;
use crate::{Axis, Figure, Panel, Scale, Series, Style};

/// Width of a picture in pixels.
pub(crate) const WIDTH: f64 = 900.0;
pub(crate) const TITLE_SIZE: f64 = 16.0;
pub(crate) const TEXT_SIZE: f64 = 12.0;
/// Height of a row of marks above or below a frame.
pub(crate) const STRIP: f64 = 13.0;
/// Width of a legend's sample of a line.
pub(crate) const SWATCH: f64 = 22.0;
const LEGEND_ROW: f64 = 18.0;
const TITLE_ROW: f64 = 22.0;

/// A figure with positions.
#[derive(Debug)]
pub(crate) struct Layout<'a> {
    pub title: Vec<String>,
    pub left: f64,
    pub height: f64,
    pub x: Mapping,
    pub x_ticks: Vec<Tick>,
    /// Whether the labels of the horizontal axis are too long to be side by side.
    pub slanted: bool,
    pub panels: Vec<Placed<'a>>,
    /// The lower end of the last frame and its rows.
    pub bottom: f64,
}

/// A panel with positions.
#[derive(Debug)]
pub(crate) struct Placed<'a> {
    pub panel: &'a Panel,
    /// The top of the header, and of the frame with its rows of marks.
    pub header: f64,
    pub top: f64,
    pub legend: Vec<Entry<'a>>,
    pub rows: Rows,
    pub y: Mapping,
    pub y_ticks: Vec<Tick>,
}

/// The legend entry of one series, with its position.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub series: &'a Series,
    pub x: f64,
    pub y: f64,
}

/// The number of rows of marks above and below a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rows {
    pub above: usize,
    pub below: usize,
}

/// The position of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    Frame,
    /// In a row above the frame, counted from the top, or below it.
    Above(usize),
    Below(usize),
}

impl<'a> Layout<'a> {
    pub fn new(figure: &'a Figure) -> Self {
        let title = text::wrap(&figure.title, TITLE_SIZE, WIDTH - 24.0);
        let ends: Vec<_> = figure.panels.iter().map(y_ends).collect();
        let unit = match figure.panels.len() {
            0 | 1 => 270.0,
            2 => 190.0,
            _ => 150.0,
        };
        let scales: Vec<Mapping> = figure
            .panels
            .iter()
            .zip(&ends)
            .map(|(panel, ends)| Mapping::new(panel.y.scale, *ends, unit * share(panel.height)))
            .collect();
        let y_ticks: Vec<_> =
            figure.panels.iter().zip(&scales).map(|(panel, y)| ticks(&panel.y, y, 42.0)).collect();
        let labels = y_ticks.iter().map(|ticks| widest(ticks)).fold(0.0, f64::max);
        let left = (labels + 14.0).clamp(40.0, WIDTH / 3.0);
        let x = Mapping::new(figure.x.scale, x_ends(figure), WIDTH - left - 24.0);
        let x_ticks = ticks(&figure.x, &x, 95.0);
        let slot = x.length() / x_ticks.len().max(1) as f64;
        let slanted = !figure.x.categories.is_empty() && widest(&x_ticks) > slot - 8.0;
        let mut y = 12.0 + TITLE_ROW * title.len() as f64;
        let mut shown = Vec::new();
        let mut panels = Vec::new();
        for ((panel, scale), y_ticks) in figure.panels.iter().zip(scales).zip(y_ticks) {
            let (legend, rows_of_text) = legend(panel, left, &mut shown);
            let rows = rows(panel);
            let top = y + LEGEND_ROW * rows_of_text as f64 + 4.0;
            panels.push(Placed { panel, header: y, top, legend, rows, y: scale, y_ticks });
            y = top + rows.height() + scale.length() + 12.0;
        }
        let bottom = y - 12.0;
        let labels = if slanted { 14.0 + 0.5 * widest(&x_ticks).min(200.0) } else { 18.0 };
        let height = bottom + labels + if figure.x.label.is_empty() { 8.0 } else { 24.0 };
        Self { title, left, height, x, x_ticks, slanted, panels, bottom }
    }
}

impl Rows {
    pub fn height(self) -> f64 {
        STRIP * (self.above + self.below) as f64
    }
}

impl Placed<'_> {
    /// Pixels from the top of the first row of marks to the end of the last.
    pub fn whole(&self) -> f64 {
        self.rows.height() + self.y.length()
    }

    /// Whether the vertical axis leaves out zero, which a reader expects at its foot.
    pub fn is_broken(&self) -> bool {
        let (low, high) = self.y.ends();
        let quantity = self.panel.y.scale == Scale::Linear && self.panel.y.categories.is_empty();
        quantity && (low > 0.0 || high < 0.0)
    }

    /// Where the frame begins below `top`.
    pub fn frame(&self) -> f64 {
        STRIP * self.rows.above as f64
    }
}

/// The row of each series of a panel. Each series of infinite height has a separate row.
pub(crate) fn places(panel: &Panel) -> Vec<Row> {
    let mut rows = Rows::default();
    let place = |series: &Series| {
        let all = |edge: f64| !series.points.is_empty() && series.points.iter().all(|point| point.y == edge);
        if all(f64::INFINITY) {
            rows.above += 1;
            Row::Above(rows.above - 1)
        } else if all(f64::NEG_INFINITY) {
            rows.below += 1;
            Row::Below(rows.below - 1)
        } else {
            Row::Frame
        }
    };
    panel.series.iter().map(place).collect()
}

fn rows(panel: &Panel) -> Rows {
    let places = places(panel);
    let count = |kind: fn(&Row) -> bool| places.iter().filter(|row| kind(row)).count();
    Rows {
        above: count(|row| matches!(row, Row::Above(_))),
        below: count(|row| matches!(row, Row::Below(_))),
    }
}

/// The ends of the horizontal axis, which all panels share.
pub(crate) fn x_ends(figure: &Figure) -> (f64, f64) {
    let series = || figure.panels.iter().flat_map(|panel| &panel.series);
    let marks = |style| {
        matches!(
            style,
            Style::Dots | Style::Crosses | Style::Diamonds | Style::Circles | Style::Rings | Style::Bars
        )
    };
    let whole =
        |series: &Series| marks(series.style) || series.points.iter().any(|point| point.range.is_some());
    let room = if series().any(whole) { Room::Marks } else { Room::Tight };
    axis::ends(&figure.x, series().flat_map(|series| series.points.iter().map(|point| point.x)), room)
}

/// The ends of a panel's vertical axis.
pub(crate) fn y_ends(panel: &Panel) -> (f64, f64) {
    let bars = panel.series.iter().any(|series| series.style == Style::Bars);
    let room = if bars { Room::FromZero } else { Room::Quantity };
    let counts = |series: &&Series| series.style != Style::Verticals;
    let values = panel.series.iter().filter(counts).flat_map(|series| &series.points).flat_map(|point| {
        let (low, high) = point.range.unwrap_or((point.y, point.y));
        [point.y, low, high]
    });
    axis::ends(&panel.y, values, room)
}

/// A panel's height relative to the others, limited to a sensible range.
pub(crate) fn share(height: f64) -> f64 {
    if height.is_finite() { height.clamp(0.2, 8.0) } else { 1.0 }
}

fn ticks(axis: &Axis, mapping: &Mapping, spacing: f64) -> Vec<Tick> {
    if axis.categories.is_empty() {
        return mapping.ticks(spacing);
    }
    let (low, high) = mapping.ends();
    let named = axis
        .categories
        .iter()
        .enumerate()
        .map(|(index, name)| Tick { value: index as f64, label: name.clone() });
    named.filter(|tick| (low..=high).contains(&tick.value)).collect()
}

fn widest(ticks: &[Tick]) -> f64 {
    ticks.iter().map(|tick| text::width(&tick.label, TEXT_SIZE)).fold(0.0, f64::max)
}

/// The start of a vertical axis's label: about above the axis, but not outside the picture.
pub(crate) fn label_at(left: f64) -> f64 {
    (left - 30.0).max(12.0)
}

/// A panel's legend beside its label, without entries that an earlier panel has already; and its number of
/// text rows.
fn legend<'a>(panel: &'a Panel, left: f64, shown: &mut Vec<(&'a str, Style, u8)>) -> (Vec<Entry<'a>>, usize) {
    let start = match panel.y.label.as_str() {
        "" => left,
        label => (label_at(left) + text::width(label, TEXT_SIZE) + 24.0).max(left).min(WIDTH - 200.0),
    };
    let (mut x, mut row) = (start, 0);
    let mut entries = Vec::new();
    for series in &panel.series {
        let key = (series.name.as_str(), series.style, series.colour);
        if series.name.is_empty() || shown.contains(&key) {
            continue;
        }
        shown.push(key);
        let width = SWATCH + 6.0 + text::width(&series.name, TEXT_SIZE) + 18.0;
        if x + width > WIDTH - 8.0 && x > start {
            (x, row) = (start, row + 1);
        }
        entries.push(Entry { series, x, y: LEGEND_ROW * row as f64 + LEGEND_ROW / 2.0 });
        x += width;
    }
    let any = !entries.is_empty() || !panel.y.label.is_empty();
    (entries, if any { row + 1 } else { 0 })
}
