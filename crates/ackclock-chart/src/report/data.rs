//! A figure as data for a report's scripts: columns of numbers, with the ends of the axes already computed.

use serde::Serialize;

use crate::layout::{Layout, Placed, Row, places};
use crate::palette::colours;
use crate::{Axis, Figure, Panel, Point, Scale, Series, Style};

#[derive(Serialize)]
struct GraphData<'a> {
    title: &'a str,
    caption: &'a str,
    x: AxisData<'a>,
    /// Pixels for the labels of the vertical axes.
    left: f64,
    panels: Vec<PanelData<'a>>,
}

#[derive(Serialize)]
struct AxisData<'a> {
    label: &'a str,
    scale: Scale,
    ends: (f64, f64),
    categories: &'a [String],
}

#[derive(Serialize)]
struct PanelData<'a> {
    y: AxisData<'a>,
    /// Height of the frame.
    pixels: f64,
    /// Rows of marks above and below it.
    above: usize,
    below: usize,
    series: Vec<SeriesData<'a>>,
}

/// NaN and infinities become `null`.
#[derive(Serialize)]
struct SeriesData<'a> {
    name: &'a str,
    style: Style,
    colour: u8,
    above: Option<usize>,
    below: Option<usize>,
    x: Vec<f64>,
    y: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<Vec<&'a str>>,
}

/// A figure as JSON, for `showFigures` of the [viewer](crate::viewer_script). It is safe within a `<script>`.
#[must_use]
pub fn data(figure: &Figure) -> String {
    let layout = Layout::new(figure);
    let data = GraphData {
        title: &figure.title,
        caption: &figure.caption,
        x: axis(&figure.x, layout.x.ends()),
        left: layout.left,
        panels: layout.panels.iter().map(panel).collect(),
    };
    within_script(&data)
}

/// A value as JSON that is safe within a `<script>`. Its keys must be texts.
pub(super) fn within_script(value: &impl Serialize) -> String {
    // This cannot fail: keys are texts, and non-finite numbers have a form.
    let json = serde_json::to_string(value).unwrap_or_default();
    // "</script>" and "<!--" would end the element or change its parsing.
    json.replace('<', "\\u003c")
}

fn axis(axis: &Axis, ends: (f64, f64)) -> AxisData<'_> {
    AxisData { label: &axis.label, scale: axis.scale, ends, categories: &axis.categories }
}

fn panel<'a>(placed: &Placed<'a>) -> PanelData<'a> {
    let panel: &'a Panel = placed.panel;
    PanelData {
        y: axis(&panel.y, placed.y.ends()),
        pixels: placed.y.length(),
        above: placed.rows.above,
        below: placed.rows.below,
        series: panel.series.iter().zip(places(panel)).map(|(of, row)| series(of, row)).collect(),
    }
}

fn series(series: &Series, row: Row) -> SeriesData<'_> {
    let points = &series.points;
    let ranges = points.iter().any(|point| point.range.is_some());
    let ends = |end: fn((f64, f64)) -> f64| {
        ranges.then(|| points.iter().map(|point| point.range.map_or(f64::NAN, end)).collect())
    };
    let column = |of: fn(&Point) -> f64| points.iter().map(of).collect();
    SeriesData {
        name: &series.name,
        style: series.style,
        colour: series.colour % colours(),
        above: if let Row::Above(row) = row { Some(row) } else { None },
        below: if let Row::Below(row) = row { Some(row) } else { None },
        x: column(|point| point.x),
        y: column(|point| point.y),
        low: ends(|range| range.0),
        high: ends(|range| range.1),
        note: points
            .iter()
            .any(|point| !point.note.is_empty())
            .then(|| points.iter().map(|point| point.note.as_str()).collect()),
    }
}
