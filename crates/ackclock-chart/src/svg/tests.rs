//! The pictures, read back as XML.

use roxmltree::{Document, Node};

use super::*;
use crate::{Axis, Panel, Point, Scale, Series, Style};

fn series(name: &str, style: Style, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    let points = points.into_iter().map(|(x, y)| Point { x, y, ..Point::default() }).collect();
    Series { name: name.to_owned(), style, colour: 0, points }
}

fn figure(series: Vec<Series>) -> Figure {
    let y = Axis { label: "window (KB)".to_owned(), ..Axis::default() };
    Figure {
        title: "Windows".to_owned(),
        caption: "A caption with <angles> & \"quotes\".".to_owned(),
        x: Axis { label: "time (s)".to_owned(), ..Axis::default() },
        panels: vec![Panel { height: 1.0, y, series }],
    }
}

fn fixed(mut figure: Figure) -> Figure {
    figure.x.range = Some((0.0, 10.0));
    figure.panels[0].y.range = Some((0.0, 100.0));
    figure
}

/// The elements in the panels that clip them.
fn marks<'a>(document: &'a Document<'_>) -> Vec<Node<'a, 'a>> {
    let panels = document.root_element().children().filter(|node| node.has_tag_name("svg"));
    panels.flat_map(|panel| panel.children().filter(Node::is_element)).collect()
}

/// Where the pen goes, of the commands that this crate writes but arcs.
fn pen(data: &str) -> Vec<(f64, f64)> {
    let mut places: Vec<(f64, f64)> = Vec::new();
    let mut at = (0.0, 0.0);
    let spaced: String = data.chars().flat_map(|c| if c == '-' { vec![' ', '-'] } else { vec![c] }).collect();
    for (start, command) in spaced.match_indices(|c: char| c.is_ascii_alphabetic()) {
        let rest = &spaced[start + 1..];
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let numbers: Vec<f64> =
            rest[..end].split_whitespace().map(|text| text.parse().expect("a number")).collect();
        let steps: Vec<(f64, f64)> = match command {
            "h" => numbers.iter().map(|&by| (by, 0.0)).collect(),
            "v" => numbers.iter().map(|&by| (0.0, by)).collect(),
            _ => numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect(),
        };
        for by in steps {
            at = if command == "M" { by } else { (at.0 + by.0, at.1 + by.1) };
            places.push(at);
        }
    }
    places
}

/// The frame of the first panel: width and height.
fn frame(figure: &Figure) -> (f64, f64) {
    let layout = Layout::new(figure);
    (layout.x.length(), layout.panels[0].y.length())
}

fn texts(text: &str) -> Vec<String> {
    let document = Document::parse(text).expect("XML");
    document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .filter_map(|node| node.text().map(str::to_owned))
        .collect()
}

#[test]
fn points_lie_where_their_values_say() {
    let figure = fixed(figure(vec![series("cwnd", Style::Line, [(0.0, 0.0), (5.0, 50.0), (10.0, 100.0)])]));
    let (width, height) = frame(&figure);
    let text = svg(&figure);
    let document = Document::parse(&text).expect("XML");
    let places = pen(marks(&document)[0].attribute("d").expect("a path"));
    let expected = [(0.0, height), (width / 2.0, height / 2.0), (width, 0.0)];
    assert_eq!(places.len(), expected.len());
    for ((x, y), (other_x, other_y)) in places.iter().zip(expected) {
        assert!((x - other_x).abs() < 0.1 && (y - other_y).abs() < 0.1, "{places:?} instead of {expected:?}");
    }
}

#[test]
fn steps_hold_each_value_until_the_next() {
    let figure = fixed(figure(vec![series("cwnd", Style::Steps, [(0.0, 20.0), (5.0, 80.0)])]));
    let (width, height) = frame(&figure);
    let text = svg(&figure);
    let document = Document::parse(&text).expect("XML");
    let places = pen(marks(&document)[0].attribute("d").expect("a path"));
    assert_eq!(places.len(), 3, "{places:?}");
    assert!((places[1].0 - width / 2.0).abs() < 0.1 && (places[1].1 - places[0].1).abs() < 0.1, "{places:?}");
    assert!((places[2].1 - 0.2 * height).abs() < 0.1, "{places:?}");
}

#[test]
fn bars_of_several_series_stand_side_by_side_from_zero() {
    let mut bars = figure(vec![
        series("Reno", Style::Bars, [(0.0, 40.0), (1.0, 60.0)]),
        series("Vegas", Style::Bars, [(0.0, 80.0), (1.0, 90.0)]),
    ]);
    bars.x.categories = vec!["10 buffers".to_owned(), "20 buffers".to_owned()];
    let (_, height) = frame(&bars);
    let text = svg(&bars);
    let document = Document::parse(&text).expect("XML");
    let [reno, vegas] = [0, 1].map(|index| pen(marks(&document)[index].attribute("d").expect("a path")));
    assert!((reno[0].1 - height).abs() < 0.1, "from zero, which is the lower end: {reno:?}");
    let right = reno[..4].iter().map(|place| place.0).fold(0.0, f64::max);
    let left = vegas[..4].iter().map(|place| place.0).fold(f64::INFINITY, f64::min);
    assert!((right - left).abs() < 0.2, "{right} {left}");
    assert!(texts(&text).contains(&"20 buffers".to_owned()));
}

/// Values of another source are held beside the bars of their colour.
#[test]
fn rings_stand_over_the_bars_of_their_colour() {
    let mut bars = figure(vec![
        series("Reno", Style::Bars, [(0.0, 40.0), (1.0, 60.0)]),
        series("Vegas", Style::Bars, [(0.0, 80.0), (1.0, 90.0)]),
        series("the paper's", Style::Rings, [(1.0, 70.0)]),
    ]);
    bars.panels[0].series[1].colour = 1;
    bars.panels[0].series[2].colour = 1;
    bars.x.categories = vec!["10 buffers".to_owned(), "20 buffers".to_owned()];
    let text = svg(&bars);
    let document = Document::parse(&text).expect("XML");
    let marks = marks(&document);
    let vegas = pen(marks[1].attribute("d").expect("a path"));
    let ring = pen(marks[2].attribute("d").expect("a path").split('a').next().expect("a place"));
    let (left, right) = (vegas[4].0, vegas[6].0);
    // A circle begins at its left.
    assert!((ring[0].0 + 4.0 - (left + right) / 2.0).abs() < 0.2, "{ring:?} in {left} to {right}");
    assert_eq!(marks[2].attribute("fill"), Some("#fff"), "a bar does not hide it");
}

/// "The axes of throughput begin at 0 or are marked": 9.3 to 9.5 beside an axis from 0 looks like everything.
#[test]
fn an_axis_that_leaves_out_zero_is_marked() {
    let is_marked = |values: [f64; 2]| {
        let text = svg(&figure(vec![series("rate", Style::Line, [(0.0, values[0]), (1.0, values[1])])]));
        text.contains("this axis does not begin at 0")
    };
    assert!(is_marked([9.3, 9.5]) && is_marked([-9.5, -9.3]));
    assert!(!is_marked([1.0, 9.5]) && !is_marked([0.0, 9.5]) && !is_marked([-1.0, 9.5]));
    let mut log = figure(vec![series("rate", Style::Line, [(0.0, 9.3), (1.0, 9.5)])]);
    log.panels[0].y.scale = Scale::Log;
    assert!(!svg(&log).contains("does not begin"), "no logarithmic axis begins at 0");
}

/// 585 lines in 50 s were a wall over the windows and over the labels above them.
#[test]
fn verticals_that_would_touch_are_thinned_and_leave_the_rows_free() {
    let lines = series("again", Style::Verticals, (0..5000).map(|at| (f64::from(at) / 500.0, 0.0)));
    let labels = series("KB", Style::Labels, [(5.0, f64::INFINITY)]);
    let figure = fixed(figure(vec![lines, labels]));
    let layout = Layout::new(&figure);
    let text = svg(&figure);
    let document = Document::parse(&text).expect("XML");
    let places = pen(marks(&document)[0].attribute("d").expect("a path"));
    let mut across: Vec<f64> = places.iter().map(|place| place.0).collect();
    across.dedup();
    assert!(across.len() > 100 && across.windows(2).all(|pair| pair[1] - pair[0] > 2.7), "{across:?}");
    let frame = layout.panels[0].frame();
    assert!(frame > 0.0 && places.iter().all(|place| place.1 >= frame - 0.1), "{places:?}");
}

/// The rules for a dark ground name every colour that the picture draws with.
#[test]
fn a_picture_has_a_dark_variant() {
    let all = (0..20).map(|colour| {
        let style = if colour % 2 == 0 { Style::Bars } else { Style::Rings };
        let mut series = series("s", style, [(f64::from(colour), 5.0)]);
        series.colour = colour;
        series.points[0].range = Some((4.0, 6.0));
        series
    });
    let text = svg(&figure(all.collect()));
    let document = Document::parse(&text).expect("XML");
    let style = document.descendants().find(|node| node.has_tag_name("style")).and_then(|node| node.text());
    let style = style.expect("a style sheet");
    assert!(style.starts_with("@media (prefers-color-scheme:dark){"), "white stays as it was: {style}");
    for node in document.descendants() {
        for name in ["fill", "stroke"] {
            if let Some(colour) = node.attribute(name).filter(|colour| *colour != "none") {
                assert!(style.contains(&format!("[{name}=\"{colour}\"]")), "{name} {colour} in {style}");
            }
        }
    }
}

#[test]
fn bars_of_error_reach_from_the_lowest_to_the_highest_value() {
    let mut one = fixed(figure(vec![series("", Style::Dots, [(5.0, 50.0)])]));
    one.panels[0].series[0].points[0].range = Some((25.0, 75.0));
    let (_, height) = frame(&one);
    let text = svg(&one);
    let document = Document::parse(&text).expect("XML");
    let places = pen(marks(&document)[1].attribute("d").expect("a path"));
    for expected in [0.75 * height, 0.25 * height] {
        assert!(places.iter().any(|place| (place.1 - expected).abs() < 0.1), "{places:?} {expected}");
    }
}

#[test]
fn marks_without_height_have_a_row_each_outside_the_frame() {
    let plain = figure(vec![series("cwnd", Style::Line, [(0.0, 1.0), (9.0, 2.0)])]);
    let mut marked = plain.clone();
    let at = |y| [(1.0, y), (2.0, y)];
    marked.panels[0].series.push(series("sent", Style::Hashes, at(f64::INFINITY)));
    marked.panels[0].series.push(series("timer", Style::Diamonds, at(f64::INFINITY)));
    marked.panels[0].series.push(series("ACK", Style::Hashes, at(f64::NEG_INFINITY)));
    let (bare, layout) = (Layout::new(&plain), Layout::new(&marked));
    assert_eq!(layout.panels[0].whole(), bare.panels[0].whole() + 3.0 * crate::layout::STRIP);
    assert_eq!(
        layout.panels[0].y.ends(),
        bare.panels[0].y.ends(),
        "the axis is that of the values with a height"
    );
    let text = svg(&marked);
    let document = Document::parse(&text).expect("XML");
    let heights: Vec<f64> =
        marks(&document)[1..].iter().map(|mark| pen(mark.attribute("d").expect("a path"))[0].1).collect();
    assert!(heights[0] < heights[1] && heights[1] < layout.panels[0].frame(), "{heights:?}");
    assert!(heights[2] > layout.panels[0].frame() + layout.panels[0].y.length(), "{heights:?}");
}

#[test]
fn verticals_cross_the_panel_or_their_range() {
    let mut lines = fixed(figure(vec![series("lost", Style::Verticals, [(5.0, 0.0), (6.0, 0.0)])]));
    lines.panels[0].series[0].points[1].range = Some((0.0, 50.0));
    let (_, height) = frame(&lines);
    let text = svg(&lines);
    let document = Document::parse(&text).expect("XML");
    let places = pen(marks(&document)[0].attribute("d").expect("a path"));
    assert!(places[0].1 == 0.0 && (places[1].1 - height).abs() < 0.1, "{places:?}");
    let ends = (places[2].1.min(places[3].1), places[2].1.max(places[3].1));
    assert!((ends.0 - height / 2.0).abs() < 0.1 && (ends.1 - height).abs() < 0.1, "{places:?}");
}

#[test]
fn words_are_there_for_those_who_see_and_those_who_do_not() {
    let figure = figure(vec![
        series("cwnd & more", Style::Line, [(0.0, 0.0), (4.0, 10.0)]),
        series("", Style::Dots, []),
    ]);
    let text = svg(&figure);
    let document = Document::parse(&text).expect("XML");
    let root = document.root_element();
    assert_eq!(root.attribute("width"), Some("900"));
    let child = |name| root.children().find(|node| node.has_tag_name(name)).and_then(|node| node.text());
    assert_eq!(child("title"), Some("Windows"));
    assert_eq!(child("desc"), Some(figure.caption.as_str()));
    let words = texts(&text);
    for word in ["Windows", "window (KB)", "time (s)", "cwnd & more", "0", "4", "10"] {
        assert!(words.iter().any(|text| text == word), "{word} is not in {words:?}");
    }
}

#[test]
fn a_legend_says_once_what_panels_share_and_covers_no_frame() {
    let names: Vec<_> = (0..14).map(|index| format!("controller number {index}")).collect();
    let mut many =
        figure(names.iter().map(|name| series(name, Style::Line, [(0.0, 1.0), (1.0, 2.0)])).collect());
    many.panels.push(many.panels[0].clone());
    let layout = Layout::new(&many);
    assert_eq!(layout.panels[1].legend.len(), 0);
    let first = &layout.panels[0];
    assert_eq!(first.legend.len(), names.len());
    assert!(first.legend.iter().all(|entry| first.header + entry.y + 6.0 < first.top));
    assert!(first.legend.iter().all(|entry| entry.x + SWATCH < WIDTH));
}

/// Every style with nothing, with one point, with points that have no place, and with equal ones.
#[test]
fn odd_data_makes_a_picture_too() {
    let styles = [
        Style::Line,
        Style::Dashed,
        Style::Dotted,
        Style::Steps,
        Style::Strip,
        Style::Bars,
        Style::Dots,
        Style::Hashes,
        Style::Diamonds,
        Style::Circles,
        Style::Rings,
        Style::Crosses,
        Style::Verticals,
        Style::Labels,
    ];
    let odd = [
        vec![],
        vec![(1.0, 1.0)],
        vec![(f64::NAN, 1.0), (1.0, f64::NAN), (f64::INFINITY, f64::NEG_INFINITY)],
        vec![(3.0, 7.0); 5],
        vec![(-1e308, 1e308), (1e308, -1e308), (1e-320, 0.0)],
    ];
    for style in styles {
        for points in &odd {
            for scale in [Scale::Linear, Scale::Log] {
                let mut figure = figure(vec![series("s", style, points.clone())]);
                (figure.x.scale, figure.panels[0].y.scale) = (scale, scale);
                figure.panels[0].height = f64::NAN;
                figure.panels[0].series[0]
                    .points
                    .iter_mut()
                    .for_each(|point| point.range = Some((f64::NAN, 2.0)));
                let text = svg(&figure);
                assert!(Document::parse(&text).is_ok(), "{style:?} {points:?}");
                assert!(!text.contains("NaN") && !text.contains("inf"), "{style:?} {points:?}: {text}");
            }
        }
    }
    let empty = Figure { panels: vec![], ..figure(vec![]) };
    assert!(Document::parse(&svg(&empty)).is_ok());
}

#[test]
fn very_many_points_stay_below_300_kb_and_keep_their_spike() {
    let noise = |index: u32| f64::from(index.wrapping_mul(2_654_435_761) >> 8 & 0xffff) / 655.36;
    let styles =
        [Style::Line, Style::Steps, Style::Dots, Style::Circles, Style::Crosses, Style::Hashes, Style::Bars];
    let mut all: Vec<_> = styles
        .iter()
        .map(|&style| series("s", style, (0..100_000).map(|index| (f64::from(index) / 1e4, noise(index)))))
        .collect();
    all[0].points[61_803].y = 140.0;
    let mut figure = fixed(figure(all));
    figure.panels[0].y.range = Some((0.0, 150.0));
    let text = svg(&figure);
    assert!(text.len() < 300_000, "{}", text.len());
    let (width, height) = frame(&figure);
    let document = Document::parse(&text).expect("XML");
    let highest = pen(marks(&document)[0].attribute("d").expect("a path"))
        .into_iter()
        .min_by(|one, other| one.1.total_cmp(&other.1));
    let (x, y) = highest.expect("a line");
    assert!((x - 0.61803 * width).abs() < 1.0 && (y - height / 15.0).abs() < 0.1, "{x} {y}");
    assert_eq!(text, svg(&figure), "the same bytes each time");
}
