//! A figure as SVG: no scripts or external resources, and the same bytes each time. Its attributes draw it on
//! white; a style sheet replaces their colours where a reader asks for a dark ground.

use std::fmt::Write;

use crate::Figure;
use crate::layout::{Layout, Placed, SWATCH, TEXT_SIZE, TITLE_SIZE, WIDTH, label_at, places};
use crate::marks::{self, Canvas};
use crate::palette::{OnLight, dark_rules};
use crate::path::pixels;
use crate::text::escape;

const GROUND: &str = OnLight::GROUND;
const INK: &str = OnLight::INK;
const PALE: &str = OnLight::PALE;
const GRID: &str = OnLight::GRID;
const FRAME: &str = OnLight::FRAME;

/// Fonts that a reader's machine may have.
pub(crate) const FONTS: &str = "DejaVu Sans, Verdana, Segoe UI, Helvetica, Arial, sans-serif";
/// The size limit for the marks of a picture; labels and the grid take some KB more.
const BYTES: usize = 240_000;

/// Draws `figure`, 900 pixels wide.
///
/// The text stays below 300 KB however many points there are: if many share a column of pixels, only the
/// first, the last and the extremes are drawn. Points without a finite position are left out, and break a
/// line. A series whose every `y` is infinite has a separate row above or below the frame.
pub fn svg(figure: &Figure) -> String {
    let layout = Layout::new(figure);
    let mut out = String::new();
    // Writing to a String does not fail, here and below.
    let _ = writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" font-family="{FONTS}" font-size="{TEXT_SIZE}">
<title>{}</title>
<desc>{}</desc>
<style>@media (prefers-color-scheme:dark){{{dark}}}</style>
<rect width="100%" height="100%" fill="{GROUND}"/>"##,
        escape(&figure.title),
        escape(&figure.caption),
        dark = dark_rules(),
        height = layout.height.ceil(),
    );
    for (index, line) in layout.title.iter().enumerate() {
        let y = 24.0 + 22.0 * index as f64;
        let _ = writeln!(
            out,
            r#"<text x="12" y="{y}" font-size="{TITLE_SIZE}" font-weight="600" fill="{INK}">{}</text>"#,
            escape(line)
        );
    }
    let series = figure.panels.iter().map(|panel| panel.series.len()).sum::<usize>().max(1);
    for placed in &layout.panels {
        header(&layout, placed, &mut out);
        grid(&layout, placed, &mut out);
        // An inner <svg> clips its content.
        let _ = writeln!(
            out,
            r#"<svg x="{}" y="{}" width="{}" height="{}" overflow="hidden">"#,
            pixels(layout.left),
            pixels(placed.top),
            pixels(layout.x.length()),
            pixels(placed.whole())
        );
        let canvas = Canvas { x: layout.x, placed, bytes: BYTES / series };
        for (series, row) in placed.panel.series.iter().zip(places(placed.panel)) {
            canvas.series(series, row, &mut out);
        }
        out.push_str("</svg>\n");
    }
    x_axis(figure, &layout, &mut out);
    out.push_str("</svg>\n");
    out
}

/// The panel's label and legend.
fn header(layout: &Layout<'_>, placed: &Placed<'_>, out: &mut String) {
    let label = &placed.panel.y.label;
    if !label.is_empty() {
        let (x, y) = (pixels(label_at(layout.left)), pixels(placed.header + 13.0));
        let _ = writeln!(out, r#"<text x="{x}" y="{y}" fill="{PALE}">{}</text>"#, escape(label));
    }
    for entry in &placed.legend {
        let y = placed.header + entry.y;
        marks::swatch(entry.series, entry.x, y, out);
        let (x, y) = (pixels(entry.x + SWATCH + 6.0), pixels(y + 4.0));
        let _ = writeln!(out, r#"<text x="{x}" y="{y}" fill="{INK}">{}</text>"#, escape(&entry.series.name));
    }
}

/// The grid lines, the frame, and the labels of the vertical axis.
fn grid(layout: &Layout<'_>, placed: &Placed<'_>, out: &mut String) {
    let (left, right) = (layout.left, layout.left + layout.x.length());
    let (top, length) = (placed.top + placed.frame(), placed.y.length());
    let (mut lines, mut labels) = (String::new(), String::new());
    for tick in &placed.y_ticks {
        let Some(up) = placed.y.position(tick.value) else { continue };
        let y = top + length - up;
        let _ = write!(lines, "M{} {}H{}", pixels(left), pixels(y), pixels(right));
        let (x, y) = (pixels(left - 7.0), pixels(y + 4.0));
        let _ = writeln!(labels, r#"<text x="{x}" y="{y}">{}</text>"#, escape(&tick.label));
    }
    for tick in &layout.x_ticks {
        let Some(x) = layout.x.position(tick.value) else { continue };
        let _ = write!(
            lines,
            "M{} {}V{}",
            pixels(left + x),
            pixels(placed.top),
            pixels(placed.top + placed.whole())
        );
    }
    let frame = format!("M{} {}V{}H{}", pixels(left), pixels(top), pixels(top + length), pixels(right));
    let _ = writeln!(out, r#"<path stroke="{GRID}" d="{lines}"/>"#);
    let _ = writeln!(out, r##"<path fill="none" stroke="{FRAME}" d="{frame}"/>"##);
    if placed.is_broken() {
        // Two strokes across the axis near its foot, as engineers draw an axis that leaves something out.
        let strokes: String = [7.0, 11.0]
            .map(|up| format!("M{} {}l10-4", pixels(left - 5.0), pixels(top + length - up + 2.0)))
            .concat();
        let _ = writeln!(
            out,
            r#"<path fill="none" stroke="{PALE}" d="{strokes}"><title>this axis does not begin at 0</title></path>"#
        );
    }
    let _ = write!(out, "<g fill=\"{PALE}\" text-anchor=\"end\">\n{labels}</g>\n");
}

fn x_axis(figure: &Figure, layout: &Layout<'_>, out: &mut String) {
    let y = layout.bottom + 16.0;
    let anchor = if layout.slanted { "end" } else { "middle" };
    let _ = writeln!(out, r#"<g fill="{PALE}" text-anchor="{anchor}">"#);
    for tick in &layout.x_ticks {
        let Some(x) = layout.x.position(tick.value) else { continue };
        let x = pixels(layout.left + x);
        let y = pixels(y);
        let turn =
            if layout.slanted { format!(r#" transform="rotate(-30 {x} {y})""#) } else { String::new() };
        let _ = writeln!(out, r#"<text x="{x}" y="{y}"{turn}>{}</text>"#, escape(&tick.label));
    }
    out.push_str("</g>\n");
    if !figure.x.label.is_empty() {
        let (x, y) = (pixels(layout.left + layout.x.length() / 2.0), pixels(layout.height.ceil() - 9.0));
        let _ = writeln!(
            out,
            r#"<text x="{x}" y="{y}" fill="{PALE}" text-anchor="middle">{}</text>"#,
            escape(&figure.x.label)
        );
    }
}

#[cfg(test)]
mod tests;
