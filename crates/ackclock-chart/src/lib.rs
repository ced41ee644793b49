//! Graphs as data: a [`Figure`] is a column of panels that share their horizontal axis. [`svg`] draws it, and
//! [`Html`] makes a page of figures, tables and text whose graphs zoom.
//!
//! ```
//! use ackclock_chart::{Axis, Figure, Html, Panel, Point, Series, Style, svg};
//!
//! let axis = |label: &str| Axis { label: label.to_owned(), ..Axis::default() };
//! let points = (0..100).map(|n| Point { x: f64::from(n), y: f64::from(n % 20), ..Point::default() });
//! let cwnd = Series { name: "cwnd".into(), style: Style::Steps, colour: 0, points: points.collect() };
//! let figure = Figure {
//!     title: "A sawtooth".into(),
//!     caption: "It falls by a half every twenty round trips.".into(),
//!     x: axis("time (round trips)"),
//!     panels: vec![Panel { height: 1.0, y: axis("window (segments)"), series: vec![cwnd] }],
//! };
//! assert!(svg(&figure).starts_with("<svg"));
//! assert!(Html::new("Windows").figure(&figure).finish().contains("A sawtooth"));
//! ```
//!
//! # Features
//!
//! None.
//!
//! # Limits
//!
//! A figure and what is drawn of it are in memory as a whole. A picture stays below 300 KB: of points that
//! share a column of pixels, only the first, the last and the extremes are drawn. A page contains every
//! point, and its graphs need JavaScript.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod axis;
mod layout;
mod marks;
mod palette;
mod path;
mod report;
mod svg;
pub mod table;
mod text;
mod thin;

use serde::Serialize;

pub use self::report::{Html, data, viewer_script, viewer_style};
pub use self::svg::svg;

/// A picture.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// The title above it.
    pub title: String,
    /// Its content and origin, in a sentence or two, also for readers who cannot see it.
    pub caption: String,
    /// The horizontal axis of all panels.
    pub x: Axis,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// One coordinate system.
#[derive(Clone, Debug, Serialize)]
pub struct Panel {
    /// Height relative to the other panels; 1.0 is usual.
    pub height: f64,
    /// The vertical axis.
    pub y: Axis,
    /// Drawn in this order, later ones on top.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Axis {
    /// Quantity and unit, for example `time (s)`.
    pub label: String,
    /// How values become distances.
    pub scale: Scale,
    /// Fixed ends, instead of ends found from the points.
    pub range: Option<(f64, f64)>,
    /// Names of the values 0, 1, 2, …, for an axis of categories.
    pub categories: Vec<String>,
}

/// How values become distances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Equal differences, equal distances.
    #[default]
    Linear,
    /// Equal ratios, equal distances; values of 0 and less are left out.
    Log,
}

/// Points that belong together.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Its name in the legend; empty to leave it out of the legend.
    pub name: String,
    /// The drawing style.
    pub style: Style,
    /// The colour's index in the palette. The same number is the same colour in every panel.
    pub colour: u8,
    /// The points, in order of their horizontal position where they are joined.
    pub points: Vec<Point>,
}

/// A point, or a span where it has an end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// Horizontal position.
    pub x: f64,
    /// Vertical position. A series whose every `y` is infinite has a separate row above or below the panel's
    /// frame: marks of when something happened, without a height.
    pub y: f64,
    /// The ends of an error bar or a span: the lowest and the highest value.
    pub range: Option<(f64, f64)>,
    /// A text that a reader sees, besides the values, on pointing at it.
    pub note: String,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// Joined by straight lines.
    Line,
    /// Joined by dashed lines.
    Dashed,
    /// Joined by dotted lines, as values of another source: a paper's, a theory's.
    Dotted,
    /// Each value holds until the next.
    Steps,
    /// Joined by broad lines: spans of time, separated by points without a position.
    Strip,
    /// Bars from zero, side by side if a panel has several such series.
    Bars,
    /// Dots.
    Dots,
    /// Hash marks: short upward strokes, as the papers draw segments and acknowledgements.
    Hashes,
    /// Hollow diamonds, as the papers draw checks of the timer.
    Diamonds,
    /// Hollow circles, as the papers draw timeouts.
    Circles,
    /// Circles filled with the ground, for values of another source. Those of a bar's colour stand over
    /// the bar.
    Rings,
    /// Crosses, for lost segments.
    Crosses,
    /// Vertical lines through the frame, or over a point's range if it has one. Of lines that would touch
    /// each other, the first is drawn.
    Verticals,
    /// The points' notes as text, where they do not cover each other.
    Labels,
}
