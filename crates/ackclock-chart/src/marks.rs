//! A series as elements of SVG, in the coordinates of its panel.

use std::fmt::Write;

use crate::axis::Mapping;
use crate::layout::{Placed, Row, STRIP, SWATCH, TEXT_SIZE};
use crate::path::{PathData, pixels};
use crate::{Panel, Point, Series, Style, palette, text, thin};

/// Half the size of crosses, diamonds and circles.
const HALF: f64 = 4.0;
/// Length of a hash mark.
const HASH: f64 = 9.0;
/// Half the width of the ends of an error bar.
const SERIF: f64 = 3.0;

/// The least distance of vertical lines in pixels: closer ones would be a wall.
const APART: f64 = 3.0;

/// The drawing area of a panel.
#[derive(Debug)]
pub(crate) struct Canvas<'a> {
    pub x: Mapping,
    pub placed: &'a Placed<'a>,
    /// Bytes that each series may take in a picture.
    pub bytes: usize,
}

/// The slot of a bar: its width in pixels, its index, and the number of bars at a place.
#[derive(Clone, Copy, Debug)]
struct Slot {
    width: f64,
    index: usize,
    count: usize,
}

impl Canvas<'_> {
    /// The elements of one of the panel's series.
    pub fn series(&self, series: &Series, row: Row, out: &mut String) {
        // A ring stands over the bar of its colour; bars have their offset where they are drawn.
        let over = if series.style == Style::Rings { self.slot(series).offset() } else { 0.0 };
        let place = |point: &Point| self.place(point.x, point.y, row).map(|(x, y)| (x + over, y));
        let places: Vec<_> = series.points.iter().map(place).collect();
        let colour = palette::on_light(series.colour);
        let budget = self.bytes / cost(series);
        let scattered = || thin::within(budget, |cell| thin::scattered(&places, cell));
        let joined = || thin::within(budget, |column| thin::joined(&places, column));
        let drawn = match series.style {
            Style::Line | Style::Dashed | Style::Dotted | Style::Steps | Style::Strip => joined(),
            Style::Bars => joined().into_iter().filter(Option::is_some).collect(),
            Style::Labels => (0..places.len()).map(Some).collect(),
            Style::Verticals => {
                let feet: Vec<_> =
                    series.points.iter().map(|point| self.x.position(point.x).map(|x| (x, 0.0))).collect();
                let ranges = series.points.iter().any(|point| point.range.is_some());
                let least = if ranges { 0.0 } else { APART };
                thin::within(budget, |step| thin::apart(&feet, least.max(step)))
                    .into_iter()
                    .map(Some)
                    .collect()
            }
            _ => scattered().into_iter().map(Some).collect(),
        };
        let mut path = PathData::default();
        match series.style {
            Style::Line | Style::Dashed | Style::Dotted | Style::Strip => {
                line(&mut path, &drawn, &places, false);
            }
            Style::Steps => line(&mut path, &drawn, &places, true),
            Style::Bars => self.bars(&mut path, series, &drawn),
            Style::Labels => return labels(series, &places, colour, out),
            Style::Verticals => self.verticals(&mut path, series, &drawn),
            style => drawn
                .iter()
                .flatten()
                .filter_map(|&index| places[index])
                .for_each(|at| mark(&mut path, style, at)),
        }
        element(out, series.style, colour, &path);
        self.ranges(series, &drawn, colour, out);
    }

    /// The position of a point, from the top left of the panel's first row.
    fn place(&self, x: f64, y: f64, row: Row) -> Option<(f64, f64)> {
        let frame = self.placed.frame();
        let y = match row {
            Row::Frame => self.height(y)?,
            Row::Above(row) => STRIP * (row as f64 + 0.5),
            Row::Below(row) => frame + self.placed.y.length() + STRIP * (row as f64 + 0.5),
        };
        Some((self.x.position(x)?, y))
    }

    fn height(&self, y: f64) -> Option<f64> {
        self.placed.y.position(y).map(|up| self.placed.frame() + self.placed.y.length() - up)
    }

    fn bars(&self, path: &mut PathData, series: &Series, drawn: &[Option<usize>]) {
        let slot = self.slot(series);
        let bottom = self.placed.frame() + self.placed.y.length();
        let foot = self.height(0.0).unwrap_or(bottom);
        for point in drawn.iter().flatten().map(|&index| &series.points[index]) {
            let (Some(x), Some(top)) = (self.x.position(point.x), self.height(point.y)) else { continue };
            let from = x + slot.offset() - slot.width / 2.0;
            path.move_to(from, foot);
            path.line_to(from, top);
            path.line_to(from + slot.width, top);
            path.line_to(from + slot.width, foot);
        }
    }

    /// The bars of several series are side by side around their place.
    fn slot(&self, series: &Series) -> Slot {
        let all: Vec<_> = bar_series(self.placed.panel).collect();
        let found = match series.style {
            Style::Bars => all.iter().position(|other| std::ptr::eq(*other, series)),
            Style::Rings => all.iter().position(|bars| bars.colour == series.colour),
            _ => None,
        };
        let Some(index) = found else { return Slot { width: 0.0, index: 0, count: 1 } };
        let mut places: Vec<f64> = all
            .iter()
            .flat_map(|series| &series.points)
            .filter_map(|point| self.x.position(point.x))
            .collect();
        places.sort_by(f64::total_cmp);
        let gaps = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|&gap| gap > 0.05);
        let gap = gaps.fold(self.x.length() / 4.0, f64::min);
        Slot { width: (gap * 0.8 / all.len() as f64).clamp(0.5, 70.0), index, count: all.len() }
    }

    fn verticals(&self, path: &mut PathData, series: &Series, drawn: &[Option<usize>]) {
        for point in drawn.iter().flatten().map(|&index| &series.points[index]) {
            let Some(x) = self.x.position(point.x) else { continue };
            let span = point.range.and_then(|(low, high)| Some((self.height(low)?, self.height(high)?)));
            let frame = self.placed.frame();
            let (from, to) = span.unwrap_or((frame, frame + self.placed.y.length()));
            path.move_to(x, from);
            path.line_to(x, to);
        }
    }

    /// The error bars of the points that are drawn.
    fn ranges(&self, series: &Series, drawn: &[Option<usize>], colour: &str, out: &mut String) {
        if series.style == Style::Verticals {
            return;
        }
        let mut path = PathData::default();
        let offset = self.slot(series).offset();
        for point in drawn.iter().flatten().map(|&index| &series.points[index]) {
            let span = point.range.and_then(|(low, high)| Some((self.height(low)?, self.height(high)?)));
            let (Some(x), Some((low, high))) = (self.x.position(point.x), span) else { continue };
            path.move_to(x + offset - SERIF, low);
            path.lines_by(&[(2.0 * SERIF, 0.0)]);
            path.move_to(x + offset, low);
            path.line_to(x + offset, high);
            path.lines_by(&[(-SERIF, 0.0), (2.0 * SERIF, 0.0)]);
        }
        let colour = if series.style == Style::Bars { palette::OnLight::INK } else { colour };
        element(out, Style::Verticals, colour, &path);
    }
}

impl Slot {
    fn offset(self) -> f64 {
        self.width * (self.index as f64 - (self.count as f64 - 1.0) / 2.0)
    }
}

/// The legend's sample of a style, `SWATCH` wide, around a height.
pub(crate) fn swatch(series: &Series, x: f64, y: f64, out: &mut String) {
    let mut path = PathData::default();
    let middle = x + SWATCH / 2.0;
    match series.style {
        Style::Line | Style::Dashed | Style::Dotted | Style::Steps | Style::Strip => {
            path.move_to(x, y);
            path.line_to(x + SWATCH, y);
        }
        Style::Bars => {
            path.move_to(middle - 5.0, y - 5.0);
            path.lines_by(&[(10.0, 0.0), (0.0, 10.0), (-10.0, 0.0)]);
        }
        Style::Verticals => {
            path.move_to(middle, y - 7.0);
            path.line_to(middle, y + 7.0);
        }
        Style::Hashes => {
            [-6.0, 0.0, 6.0].into_iter().for_each(|by| mark(&mut path, Style::Hashes, (middle + by, y)))
        }
        Style::Labels => return write_text(out, middle, y, "12", palette::on_light(series.colour)),
        style => mark(&mut path, style, (middle, y)),
    }
    element(out, series.style, palette::on_light(series.colour), &path);
}

/// The series of a panel that are bars.
pub(crate) fn bar_series(panel: &Panel) -> impl Iterator<Item = &Series> {
    panel.series.iter().filter(|series| series.style == Style::Bars && !series.points.is_empty())
}

fn line(path: &mut PathData, drawn: &[Option<usize>], places: &[Option<(f64, f64)>], steps: bool) {
    let mut before: Option<(f64, f64)> = None;
    for (nth, entry) in drawn.iter().enumerate() {
        let place = entry.and_then(|index| places[index]);
        match (before, place) {
            (Some((_, height)), Some((x, y))) => {
                if steps {
                    path.line_to(x, height);
                }
                path.line_to(x, y);
            }
            (None, Some((x, y))) => {
                path.move_to(x, y);
                // A point without neighbours would be a line of zero length.
                if drawn.get(nth + 1).copied().flatten().is_none() {
                    path.dot();
                }
            }
            (_, None) => {}
        }
        before = place;
    }
}

fn mark(path: &mut PathData, style: Style, (x, y): (f64, f64)) {
    match style {
        Style::Hashes => {
            path.move_to(x, y + HASH / 2.0);
            path.line_to(x, y - HASH / 2.0);
        }
        Style::Diamonds => {
            path.move_to(x, y - HALF);
            path.lines_by(&[(HALF, HALF), (-HALF, HALF), (-HALF, -HALF), (HALF, -HALF)]);
        }
        Style::Circles | Style::Rings => path.circle(x, y, HALF),
        Style::Crosses => {
            path.move_to(x - HALF, y - HALF);
            path.lines_by(&[(2.0 * HALF, 2.0 * HALF)]);
            path.move_to(x - HALF, y + HALF);
            path.lines_by(&[(2.0 * HALF, -2.0 * HALF)]);
        }
        _ => {
            path.move_to(x, y);
            path.dot();
        }
    }
}

/// The notes beside their points, except those that would cover an earlier one.
fn labels(series: &Series, places: &[Option<(f64, f64)>], colour: &str, out: &mut String) {
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    for (point, place) in series.points.iter().zip(places) {
        let Some((x, y)) = *place else { continue };
        let half = text::width(&point.note, TEXT_SIZE - 2.0) / 2.0 + 2.0;
        let covers = |&(other, height, width): &(f64, f64, f64)| {
            (other - x).abs() < half + width && (height - y).abs() < 12.0
        };
        if point.note.is_empty() || taken.len() >= 300 || taken.iter().any(covers) {
            continue;
        }
        taken.push((x, y, half));
        write_text(out, x, y, &point.note, colour);
    }
}

fn write_text(out: &mut String, x: f64, y: f64, note: &str, colour: &str) {
    let (x, y, size) = (pixels(x), pixels(y + 3.5), TEXT_SIZE - 2.0);
    // Writing to a String does not fail.
    let _ = write!(
        out,
        r#"<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" text-anchor="middle">{}</text>"#,
        text::escape(note)
    );
}

fn element(out: &mut String, style: Style, colour: &str, path: &PathData) {
    if path.is_empty() {
        return;
    }
    let look = match style {
        Style::Bars => format!(r#"fill="{colour}""#),
        Style::Dots => format!(r#"stroke="{colour}" stroke-width="4" stroke-linecap="round""#),
        Style::Dashed => format!(r#"stroke="{colour}" stroke-width="1.6" stroke-dasharray="6 4""#),
        Style::Dotted => {
            format!(r#"stroke="{colour}" stroke-width="2" stroke-linecap="round" stroke-dasharray="0 5""#)
        }
        Style::Hashes => format!(r#"stroke="{colour}""#),
        Style::Strip => format!(r#"stroke="{colour}" stroke-width="11""#),
        Style::Verticals => format!(r#"stroke="{colour}" stroke-opacity=".75""#),
        Style::Line | Style::Steps => {
            format!(r#"stroke="{colour}" stroke-width="1.6" stroke-linejoin="round" stroke-linecap="round""#)
        }
        _ => format!(r#"stroke="{colour}" stroke-width="1.5""#),
    };
    let fill = match style {
        Style::Bars => String::new(),
        Style::Rings => format!(r#"fill="{}" "#, palette::OnLight::GROUND),
        _ => r#"fill="none" "#.to_owned(),
    };
    let _ = writeln!(out, r#"<path {fill}{look} d="{}"/>"#, path.data());
}

/// The approximate number of bytes that a point takes.
fn cost(series: &Series) -> usize {
    let mark = match series.style {
        Style::Line | Style::Dashed | Style::Dotted | Style::Steps | Style::Strip => 10,
        Style::Dots | Style::Hashes | Style::Verticals => 14,
        Style::Bars | Style::Crosses | Style::Diamonds => 30,
        Style::Circles | Style::Rings => 48,
        Style::Labels => 90,
    };
    let range = if series.points.iter().any(|point| point.range.is_some()) { 40 } else { 0 };
    mark + range
}
