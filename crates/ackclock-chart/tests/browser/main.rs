//! Goal: reports work in a real browser: nothing is loaded and no error occurs, pointing at a point shows its
//! values, dragging, the wheel and keys zoom, resetting restores, the legend switches series, 200,000 points
//! work.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use ackclock_chart::{Axis, Figure, Html, Panel, Point, Scale, Series, Style};
use ackclock_test_browser::Browser;

/// A report as a file, removed when the value is dropped.
struct Page(PathBuf);

impl Page {
    fn new(name: &str, figures: &[Figure]) -> Self {
        let mut report = Html::new("Report");
        report.heading("Graphs").paragraph("Graphs of a test.");
        figures.iter().for_each(|figure| drop(report.figure(figure).clone()));
        Self::of(name, &report)
    }

    fn of(name: &str, report: &Html) -> Self {
        let path = std::env::temp_dir().join(format!("ackclock-report-{}-{name}.html", std::process::id()));
        std::fs::write(&path, report.finish()).expect("a file for the report");
        Self(path)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), ..Axis::default() }
}

fn series(name: &str, style: Style, colour: u8, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    let point = |(x, y)| Point { x, y, note: format!("segment {x}"), ..Point::default() };
    Series { name: name.to_owned(), style, colour, points: points.into_iter().map(point).collect() }
}

/// Two panels over 0 to 100 s. The points of the upper one lie on a line, so their positions are known.
fn figure() -> Figure {
    let numbers = || (0..=100).map(f64::from);
    Figure {
        title: "Windows".to_owned(),
        caption: "A line and dots.".to_owned(),
        x: axis("time (s)"),
        panels: vec![
            Panel {
                height: 1.0,
                y: axis("window (KB)"),
                series: vec![
                    series("cwnd", Style::Line, 0, numbers().map(|x| (x, 50.0 * x))),
                    series("timer", Style::Diamonds, 4, numbers().step_by(10).map(|x| (x, f64::INFINITY))),
                ],
            },
            Panel {
                height: 1.0,
                y: axis("rate (KB/s)"),
                series: vec![series("rate", Style::Dots, 1, numbers().map(|x| (x, 8.0)))],
            },
        ],
    }
}

/// What is asked of the graphs in a page.
trait Graphs {
    fn tick(&self, axis: &str, label: &str) -> f64;
    fn readout(&self) -> Option<String>;
    fn ends(&self, axis: &str) -> Vec<f64>;
    fn pixels(&self, colour: [u8; 3]) -> u64;
    fn assert_quiet(&self);
}

impl Graphs for Browser {
    /// The position of a tick's label in the window: the middle of the text, along its axis.
    fn tick(&self, axis: &str, label: &str) -> f64 {
        let script = format!(
            "const labels = [...document.querySelectorAll('.stage text.{axis}')];
             const label = labels.find(text => text.textContent === '{label}');
             if (!label) return labels.map(text => text.textContent).join();
             const box = label.getBoundingClientRect();
             return '{axis}' === 'x' ? box.x + box.width / 2 : box.y + box.height / 2;"
        );
        let place = self.run(&script);
        place.as_f64().unwrap_or_else(|| panic!("no tick {label} among {place}"))
    }

    fn readout(&self) -> Option<String> {
        let script = "const readout = document.querySelector('.readout'); return readout.hidden ? null : \
            readout.textContent;";
        self.run(script).as_str().map(str::to_owned)
    }

    fn ends(&self, axis: &str) -> Vec<f64> {
        let ends = self.run(&format!("return document.querySelector('.graph').dataset.{axis}"));
        let ends = ends.as_str().expect("a graph").split(' ').map(|end| end.parse().expect("a number"));
        ends.collect()
    }

    /// How many pixels of the first canvas have this colour.
    fn pixels(&self, [red, green, blue]: [u8; 3]) -> u64 {
        let script = format!(
            "const canvas = document.querySelector('.stage canvas');
             const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', {{ willReadFrequently: true }});
             copy.drawImage(canvas, 0, 0);
             const {{ data }} = copy.getImageData(0, 0, canvas.width, canvas.height);
             let count = 0;
             for (let at = 0; at < data.length; at += 4) {{
                 const [red, green, blue, opaque] = data.subarray(at, at + 4);
                 count += opaque === 255 && red === {red} && green === {green} && blue === {blue};
             }}
             return count;"
        );
        self.run(&script).as_u64().expect("a count")
    }

    fn assert_quiet(&self) {
        self.assert_no_errors();
        assert_eq!(
            self.run("return performance.getEntriesByType('resource').length"),
            0,
            "nothing is loaded"
        );
    }
}

const BLUE: [u8; 3] = [0x00, 0x72, 0xb2];

fn assert_near(ends: &[f64], expected: [f64; 2], tolerance: f64) {
    let near = |(one, other): (&f64, f64)| (one - other).abs() <= tolerance;
    assert!(ends.iter().zip(expected).all(near), "{ends:?} instead of {expected:?}");
}

#[test]
fn pointing_tells_values_and_dragging_zooms_all_panels() {
    let Some(browser) = Browser::start(false) else { return };
    let page = Page::new("zoom", &[figure()]);
    browser.load(&page.0);
    assert_near(&browser.ends("x"), [0.0, 102.0], 3.0);
    let whole = browser.ends("x");

    browser.point_at((browser.tick("x", "40"), browser.tick("y", "2000")));
    assert_eq!(browser.readout().as_deref(), Some("cwnd\ntime (s): 40\nwindow (KB): 2000\nsegment 40"));
    let above = browser.run("return document.querySelector('.stage').getBoundingClientRect().top + 20 + 6");
    browser.point_at((browser.tick("x", "60"), above.as_f64().expect("a place")));
    assert_eq!(browser.readout().as_deref(), Some("timer\ntime (s): 60\nsegment 60"));

    // A drag along the axis zooms time in both panels and leaves the heights.
    let (heights, middle) = (browser.ends("y"), browser.tick("y", "2000"));
    browser.drag((browser.tick("x", "20"), middle), (browser.tick("x", "60"), middle + 3.0));
    assert_near(&browser.ends("x"), [20.0, 60.0], 0.2);
    assert_eq!(browser.ends("y"), heights);
    browser.point_at((browser.tick("x", "40"), browser.tick("y", "2000")));
    assert!(browser.readout().expect("a point").contains("time (s): 40\nwindow (KB): 2000"));
    browser.point_at((browser.tick("x", "50"), browser.tick("y", "8.0")));
    assert_eq!(browser.readout().as_deref(), Some("rate\ntime (s): 50\nrate (KB/s): 8\nsegment 50"));

    // Dragging a box zooms both ways, in the panel where it began.
    browser.drag(
        (browser.tick("x", "30"), browser.tick("y", "4000")),
        (browser.tick("x", "50"), browser.tick("y", "2000")),
    );
    assert_near(&browser.ends("x"), [30.0, 50.0], 0.3);
    assert_near(&browser.ends("y")[..2], [2000.0, 4000.0], 60.0);
    assert_eq!(browser.ends("y")[2..], heights[2..]);

    browser.click_element(".reset");
    assert_eq!((browser.ends("x"), browser.ends("y")), (whole, heights));
    browser.assert_quiet();
}

#[test]
fn the_wheel_and_keys_zoom_where_the_reader_is() {
    let Some(browser) = Browser::start(false) else { return };
    let page = Page::new("wheel", &[figure()]);
    browser.load(&page.0);
    let whole = browser.ends("x");
    let place = (browser.tick("x", "40"), browser.tick("y", "2000"));
    browser.wheel(place, -300);
    assert_eq!(browser.ends("x"), whole, "before the graph is chosen, the wheel is the page's");
    browser.click(place);
    browser.wheel(place, -300);
    let ends = browser.ends("x");
    assert!(ends[0] > whole[0] + 5.0 && ends[1] < whole[1] - 5.0, "{ends:?}");
    assert!((browser.tick("x", "40") - place.0).abs() <= 1.0, "what the pointer is at stays there");
    browser.press("0");
    assert_eq!(browser.ends("x"), whole);
    browser.press("+");
    let closer = browser.ends("x");
    assert!((closer[1] - closer[0]) < 0.8 * (whole[1] - whole[0]), "{closer:?}");
    browser.press("\u{e014}");
    assert!(browser.ends("x")[0] > closer[0], "the right arrow moves on");
    browser.assert_quiet();
}

#[test]
fn the_legend_switches_series_and_colours_follow_the_ground() {
    let Some(browser) = Browser::start(false) else { return };
    let page = Page::new("legend", &[figure()]);
    browser.load(&page.0);
    let words = browser
        .run("return [...document.querySelectorAll('.legend button')].map(button => button.textContent)");
    assert_eq!(words, serde_json::json!(["cwnd", "timer", "rate"]));
    assert!(browser.pixels(BLUE) > 200, "{}", browser.pixels(BLUE));
    browser.click_element(".legend button");
    assert_eq!(browser.pixels(BLUE), 0);
    assert_eq!(browser.run("return document.querySelector('.legend button').ariaPressed"), "false");
    browser.point_at((browser.tick("x", "40"), browser.tick("y", "2000")));
    assert_eq!(browser.readout(), None, "what is not there is not pointed at");
    browser.click_element(".legend button");
    assert!(browser.pixels(BLUE) > 200);
    browser.assert_quiet();
    drop(browser);

    let Some(browser) = Browser::start(true) else { return };
    browser.load(&page.0);
    assert_eq!(browser.run("return matchMedia('(prefers-color-scheme: dark)').matches"), true);
    assert_eq!(browser.run("return getComputedStyle(document.body).backgroundColor"), "rgb(20, 23, 26)");
    assert!(browser.pixels(BLUE) == 0 && browser.pixels([0x4f, 0xa8, 0xe0]) > 200);
    browser.assert_quiet();
}

#[test]
fn two_hundred_thousand_points_and_odd_ones_are_drawn_and_found() {
    let Some(browser) = Browser::start(false) else { return };
    let mut large = figure();
    let noise = |index: u32| f64::from((index.wrapping_mul(2_654_435_761) >> 8) & 0xffff) / 65.536;
    let styles = [Style::Line, Style::Dots, Style::Steps, Style::Crosses];
    large.panels[0].series = styles
        .into_iter()
        .zip(0..)
        .map(|(style, colour)| {
            series("s", style, colour, (0..50_000).map(|at| (f64::from(at) / 500.0, noise(at))))
        })
        .collect();
    // One point above all the others.
    large.panels[0].series[0].points[20_000].y = 4000.0;
    let mut odd = figure();
    odd.panels[0].y.scale = Scale::Log;
    odd.panels[0].series =
        [Style::Bars, Style::Verticals, Style::Labels, Style::Hashes, Style::Circles, Style::Dashed]
            .map(|style| series("odd", style, 2, [(f64::NAN, 1.0), (1.0, f64::NAN), (2.0, -1.0), (3.0, 5.0)]))
            .into();
    odd.panels[0].series[0].points[3].range = Some((1.0, 9.0));
    odd.panels.push(Panel { height: 1.0, y: axis(""), series: vec![] });
    let page = Page::new("large", &[large, odd]);
    browser.load(&page.0);
    browser.point_at((browser.tick("x", "40"), browser.tick("y", "4000")));
    assert_eq!(browser.readout().as_deref(), Some("s\ntime (s): 40\nwindow (KB): 4000\nsegment 40"));
    browser.run("document.querySelectorAll('.graph')[1].scrollIntoView()");
    let drawn = "return document.querySelectorAll('.graph')[1].dataset.x !== undefined";
    assert!((0..100).any(|_| browser.run(drawn) == true), "the second graph is drawn when it is seen");
    browser.assert_quiet();
}

/// A listing of three rows with words and numbers. The first row links to a section.
fn listed() -> Html {
    let row = |name: &str, number: &str| vec![name.to_owned(), number.to_owned()];
    let mut report = Html::new("Listing");
    report.listing(
        &["name", "seconds"],
        &[(Some("b-1".to_owned()), row("beta", "9")), (None, row("alpha", "10")), (None, row("gamma", ""))],
    );
    report.section("b-1", "Beta");
    report
}

#[test]
fn a_listing_is_sorted_and_searched() {
    let Some(browser) = Browser::start(false) else { return };
    let page = Page::of("listing", &listed());
    browser.load(&page.0);
    let order = || {
        let cells = "return [...document.querySelectorAll('.listing tbody tr')].filter(row => \
            !row.hidden).map(row => row.cells[0].textContent).join();";
        browser.run(cells).as_str().expect("words").to_owned()
    };
    assert_eq!(order(), "beta,alpha,gamma");
    browser.click_element(".listing th:nth-child(2) button");
    assert_eq!(order(), "alpha,beta,gamma", "numbers as numbers, the largest first");
    browser.click_element(".listing th:nth-child(2) button");
    assert_eq!(order(), "gamma,beta,alpha");
    browser.click_element(".listing th:nth-child(1) button");
    assert_eq!(order(), "alpha,beta,gamma");
    browser.run(
        "const input = document.querySelector('.listing input'); input.value = 'A 10';
         input.dispatchEvent(new Event('input'));",
    );
    assert_eq!(order(), "alpha");
    assert_eq!(browser.run("return document.querySelector('.listing [role=status]').textContent"), "1 of 3");
    assert_eq!(browser.run("return document.querySelector('.listing a').hash"), "#b-1");
    browser.assert_quiet();
}

/// At 400 pixels a wide table scrolls within its box, and the page does not scroll.
#[test]
fn a_narrow_window_keeps_the_page_in_its_width() {
    let Some(browser) = Browser::start(false) else { return };
    let head: Vec<String> = (0..12).map(|column| format!("a column {column}")).collect();
    let mut report = listed();
    report.table("wide", &head, std::slice::from_ref(&head)).figure(&figure());
    let page = Page::of("narrow", &report);
    browser.resize(400, 800);
    browser.load(&page.0);
    let widths = browser.run(
        "const box = [...document.querySelectorAll('.wide')].at(-1);
         return [document.documentElement.scrollWidth, window.innerWidth, box.scrollWidth, box.clientWidth];",
    );
    let width = |index: usize| widths[index].as_u64().expect("a width");
    assert!(width(0) <= width(1) && width(1) < 600, "{widths}");
    assert!(width(2) > width(3), "{widths}");
}
