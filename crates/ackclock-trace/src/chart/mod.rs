//! Graphs as data: a [`Figure`] is panels above each other that share their horizontal axis.

mod axis;
mod layout;
mod marks;
mod palette;
mod path;
#[cfg(feature = "png")]
mod png;
mod svg;
mod text;
mod thin;

use serde::Serialize;

#[cfg(feature = "png")]
pub use png::{PNG_SCALE, PngError, png};
pub use svg::svg;

pub(crate) use layout::{Layout, Placed, Row, places as rows_of};
pub(crate) use palette::{colours, properties};
pub(crate) use text::escape;

/// A picture.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What stands above it.
    pub title: String,
    /// What it shows and how it was made, in a sentence or two, for those who cannot see it too.
    pub caption: String,
    /// The horizontal axis of all panels.
    pub x: Axis,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// One coordinate system.
#[derive(Clone, Debug, Serialize)]
pub struct Panel {
    /// Height as a share of the others' heights; 1.0 is usual.
    pub height: f64,
    /// The vertical axis.
    pub y: Axis,
    /// Drawn in this order, later ones above earlier ones.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Axis {
    /// Quantity and unit, as in `time (s)`.
    pub label: String,
    /// How values become distances.
    pub scale: Scale,
    /// Ends that are given instead of found from the points.
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
    /// What the legend calls it; an empty name keeps it out of the legend.
    pub name: String,
    /// How it is drawn.
    pub style: Style,
    /// Which colour of the palette; the same number is the same colour in every panel.
    pub colour: u8,
    /// The points, by their horizontal position where they are joined.
    pub points: Vec<Point>,
}

/// A point, or where it has an end too, a span.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// Horizontal position.
    pub x: f64,
    /// Vertical position. A series whose every `y` is infinite stands in a row of its own, above the panel's frame or
    /// below it: marks of when something happened, which have no height.
    pub y: f64,
    /// The other end of a bar of error, or of a span: the lowest and the highest value.
    pub range: Option<(f64, f64)>,
    /// What a reader who points at it is told, besides its values.
    pub note: String,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// Joined by straight lines.
    Line,
    /// The same, dashed.
    Dashed,
    /// Each value holds until the next.
    Steps,
    /// Joined by broad lines: spans of time, with a point without a place between them.
    Strip,
    /// Bars from zero, side by side where panels have several such series.
    Bars,
    /// Dots.
    Dots,
    /// Hash marks: short strokes upwards, as the papers draw segments and acknowledgements.
    Hashes,
    /// Hollow diamonds, as the papers draw checks of the timer.
    Diamonds,
    /// Hollow circles, as the papers draw timeouts.
    Circles,
    /// Crosses, as lost segments.
    Crosses,
    /// Vertical lines through the panel, or where a point has a range, over the range.
    Verticals,
    /// The points' notes, written out where they do not cover each other.
    Labels,
}
