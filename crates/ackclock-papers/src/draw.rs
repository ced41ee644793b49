//! Shorthands for the parts of a picture.

use ackclock_chart::{Axis, Figure, Panel, Point, Series, Style};

/// A picture of these panels over one horizontal axis.
pub(crate) fn figure(title: &str, caption: &str, x: &str, panels: Vec<Panel>) -> Figure {
    Figure { title: title.to_owned(), caption: caption.to_owned(), x: axis(x), panels }
}

/// A panel of usual height.
pub(crate) fn panel(y: &str, series: Vec<Series>) -> Panel {
    Panel { height: 1.0, y: axis(y), series }
}

/// Points that belong together.
pub(crate) fn series(
    name: &str,
    style: Style,
    colour: u8,
    points: impl IntoIterator<Item = (f64, f64)>,
) -> Series {
    let points = points.into_iter().map(|(x, y)| Point { x, y, ..Point::default() }).collect();
    Series { name: name.to_owned(), style, colour, points }
}

/// An axis whose ends come from its points.
pub(crate) fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), ..Axis::default() }
}
