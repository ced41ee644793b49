//! Shorthands for the parts of a picture.

use ackclock_chart::{Axis, Figure, Panel, Point, Series, Style};

use crate::many::Summary;

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

/// Means over runs, with bars from the least to the most of single runs.
pub(crate) fn measured(
    name: &str,
    style: Style,
    colour: u8,
    points: impl IntoIterator<Item = (f64, Summary)>,
) -> Series {
    let point = |(x, of): (f64, Summary)| {
        let range = (of.count > 1 && of.least < of.most).then_some((of.least, of.most));
        Point { x, y: of.mean, range, ..Point::default() }
    };
    Series { name: name.to_owned(), style, colour, points: points.into_iter().map(point).collect() }
}

/// The ends of an axis that begins at zero and leaves some room above the panel's highest point.
pub(crate) fn from_zero(panel: &Panel) -> Option<(f64, f64)> {
    let points = panel.series.iter().flat_map(|series| &series.points);
    let most = points.map(|point| point.range.map_or(point.y, |(_, most)| most)).fold(0.0, f64::max);
    (most > 0.0).then_some((0.0, 1.05 * most))
}

/// The colour of a controller, the same in all pictures.
pub(crate) fn colour(controller: &str) -> u8 {
    let found = CONTROLLERS.iter().find(|(name, _)| *name == controller);
    found.map_or(OTHER, |(_, colour)| *colour)
}

const CONTROLLERS: [(&str, u8); 7] =
    [("Reno", 0), ("Vegas", 1), ("BFA", 2), ("Vegas*", 9), ("Vegas-2,4", 11), (BEFORE, 8), (SINCE, 13)];

/// 4.3BSD's sender, before congestion avoidance and with it.
pub(crate) const BEFORE: &str = "4.3BSD";
pub(crate) const SINCE: &str = "4.3BSD+";
/// Greys, for everything but controllers.
pub(crate) const OTHER: u8 = 6;
pub(crate) const PALE: u8 = 10;
/// Hosts, conversations, estimators.
pub(crate) const KINDS: [u8; 6] = [3, 4, 5, 7, 12, 14];

/// An axis whose ends come from its points.
pub(crate) fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), ..Axis::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_controller_has_a_colour_of_its_own() {
        let colours: std::collections::BTreeSet<u8> = CONTROLLERS.iter().map(|(_, colour)| *colour).collect();
        assert_eq!(colours.len(), CONTROLLERS.len());
        assert!([OTHER, PALE].iter().chain(&KINDS).all(|other| !colours.contains(other)));
        assert_eq!(colour("anything else"), OTHER);
    }

    #[test]
    fn bars_reach_from_the_least_to_the_most_and_one_run_has_none() {
        let points =
            [(1.0, Summary::of([1.0, 2.0, 6.0])), (2.0, Summary::of([4.0])), (3.0, Summary::of([4.0; 2]))];
        let series = measured("Reno", Style::Line, 0, points);
        let ranges: Vec<_> = series.points.iter().map(|point| (point.y, point.range)).collect();
        assert_eq!(ranges, [(3.0, Some((1.0, 6.0))), (4.0, None), (4.0, None)]);
    }
}
