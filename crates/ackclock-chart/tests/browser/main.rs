//! Goal: reports work in a real browser: nothing is loaded and no error occurs, pointing at a point shows its
//! values, clicking it or stepping there by keys shows its event, dragging, the wheel, keys and the overview
//! zoom, graphs of one axis zoom together, resetting restores, the legend switches series, 200,000 points
//! work.

#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::time::Duration;

use ackclock_chart::{Axis, Figure, Html, Panel, Point, Scale, Series, Style, data};
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

/// The questions about the graphs in a page.
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
/// Keys by their code points in WebDriver.
const SHIFT: &str = "\u{e008}";
const LEFT: &str = "\u{e012}";
const RIGHT: &str = "\u{e014}";
const DOWN: &str = "\u{e015}";
const END: &str = "\u{e010}";

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
    assert_eq!(browser.readout().as_deref(), Some("cwnd\ntime 40 s\nwindow 2000 KB\nsegment 40"));
    let above = browser.run("return document.querySelector('.stage').getBoundingClientRect().top + 20 + 6");
    browser.point_at((browser.tick("x", "60"), above.as_f64().expect("a place")));
    assert_eq!(browser.readout().as_deref(), Some("timer\ntime 60 s\nsegment 60"));

    // A drag along the axis zooms time in both panels and leaves the heights.
    let (heights, middle) = (browser.ends("y"), browser.tick("y", "2000"));
    browser.drag((browser.tick("x", "20"), middle), (browser.tick("x", "60"), middle + 3.0));
    assert_near(&browser.ends("x"), [20.0, 60.0], 0.2);
    assert_eq!(browser.ends("y"), heights);
    browser.point_at((browser.tick("x", "40"), browser.tick("y", "2000")));
    assert!(browser.readout().expect("a point").contains("time 40 s\nwindow 2000 KB"));
    browser.point_at((browser.tick("x", "50"), browser.tick("y", "8.0")));
    assert_eq!(browser.readout().as_deref(), Some("rate\ntime 50 s\nrate 8 KB/s\nsegment 50"));

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
    browser.press_with(SHIFT, RIGHT);
    assert!(browser.ends("x")[0] > closer[0], "Shift and the right arrow move on");
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
    assert_eq!(browser.readout().as_deref(), Some("s\ntime 40 s\nwindow 4000 KB\nsegment 40"));
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

/// The text beside the first graph.
fn picked(browser: &Browser) -> String {
    let text = browser.run("return document.querySelector('.picked').innerText.replaceAll('\\n', '|')");
    text.as_str().expect("a text").to_owned()
}

#[test]
fn an_event_is_picked_by_a_click_or_by_keys_and_stays_beside_the_graph() {
    let Some(browser) = Browser::start(false) else { return };
    let page = Page::new("pick", &[figure()]);
    browser.load(&page.0);
    browser.run("window.picks = []; addEventListener('pick', event => picks.push(event.detail.x))");
    assert!(picked(&browser).starts_with("Click a point"), "{}", picked(&browser));
    browser.click((browser.tick("x", "40"), browser.tick("y", "2000")));
    let said = picked(&browser);
    for part in ["cwnd", "time 40 s", "window 2000 KB", "segment 40"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    let cursor = "const line = document.querySelector('.cursor'); \
        return line.hidden ? -1 : line.getBoundingClientRect().x";
    let at = |script: &str| browser.run(script).as_f64().expect("a place");
    assert!((at(cursor) - browser.tick("x", "40")).abs() <= 1.5, "the cursor is at the event");

    browser.press(RIGHT);
    assert!(picked(&browser).contains("time 41 s"), "{}", picked(&browser));
    browser.press(LEFT);
    browser.press(LEFT);
    assert!(picked(&browser).contains("time 39 s"), "{}", picked(&browser));
    browser.press(DOWN);
    let said = picked(&browser);
    assert!(said.contains("timer") && said.contains("time 40 s"), "the nearest of the next series: {said}");
    browser.press(RIGHT);
    assert!(picked(&browser).contains("time 50 s"), "{}", picked(&browser));
    assert_eq!(browser.run("return picks"), serde_json::json!([40, 41, 40, 39, 40, 50]));

    // An event out of sight comes into sight.
    for _ in 0..4 {
        browser.press("+");
    }
    browser.press(END);
    let ends = browser.ends("x");
    assert!(ends[0] < 100.0 && ends[1] > 100.0 && ends[1] - ends[0] < 40.0, "{ends:?}");
    browser.run("addEventListener('pick', event => event.detail.say('because of a gap'), { once: true })");
    browser.press(LEFT);
    assert!(picked(&browser).ends_with("because of a gap"), "the page's own words: {}", picked(&browser));
    browser.press("\u{e00c}");
    assert!(picked(&browser).starts_with("Click a point"), "Escape takes it back");
    browser.assert_quiet();
}

#[test]
fn graphs_of_one_axis_zoom_together_and_the_overview_moves_them() {
    let Some(browser) = Browser::start(false) else { return };
    let mut report = Html::new("Linked");
    report.linked(&figure(), "time").linked(&figure(), "time").figure(&figure());
    let page = Page::of("linked", &report);
    browser.load(&page.0);
    browser.run("document.querySelectorAll('.graph').forEach(element => element.graph.start())");
    let ends = |graph: u32| -> Vec<f64> {
        let script = format!("return document.querySelectorAll('.graph')[{graph}].graph.x");
        let ends = browser.run(&script);
        ends.as_array().expect("ends").iter().map(|end| end.as_f64().expect("a number")).collect()
    };
    let whole = ends(0);
    let middle = browser.tick("y", "2000");
    browser.drag((browser.tick("x", "20"), middle), (browser.tick("x", "60"), middle + 3.0));
    assert_near(&ends(0), [20.0, 60.0], 0.3);
    assert_eq!(ends(1), ends(0), "the second has the same axis");
    assert_eq!(ends(2), whole, "the third has its own");

    // The brush lies over the part in sight. Dragging it by half of its width moves both.
    let brush = browser.run(
        "const box = document.querySelector('.brush').getBoundingClientRect();
         return [box.left, box.right, box.top + box.height / 2];",
    );
    let part = |index: usize| brush[index].as_f64().expect("a place");
    let from = (part(0) + part(1)) / 2.0;
    browser.drag((from, part(2)), (from + (part(1) - part(0)) / 2.0, part(2)));
    assert_near(&ends(1), [40.0, 80.0], 0.8);
    assert_near(&ends(0), [40.0, 80.0], 0.8);
    // Its edge changes one end.
    let (edge, end) = (from + (part(1) - part(0)), ends(0)[1]);
    browser.drag((edge, part(2)), (edge + 90.0, part(2)));
    assert!(ends(0)[1] > end + 5.0 && (ends(0)[0] - 40.0).abs() < 0.8, "{:?}", ends(0));

    // The pointer over one graph shows its time in both.
    browser.run("document.querySelector('.graph').graph.link.point(60)");
    let lines = "return [...document.querySelectorAll('.cursor')].map(line => !line.hidden)";
    assert_eq!(browser.run(lines), serde_json::json!([true, true, false]));
    browser.click_element(".reset");
    assert_eq!((ends(0), ends(1)), (whole.clone(), whole));
    browser.assert_quiet();
}

/// Nothing moves while the page is made or while a reader points, at the widths of a telephone and of two
/// screens. The page never scrolls sideways.
#[test]
fn nothing_moves_and_nothing_overflows_at_any_width() {
    let Some(browser) = Browser::start(false) else { return };
    let mut report = listed();
    report.words(&["A sentence."; 12]).linked(&figure(), "time").linked(&figure(), "time");
    let page = Page::of("widths", &report);
    for (width, beside) in [(400, false), (1600, true), (2000, true)] {
        browser.resize(width, 900);
        browser.load(&page.0);
        browser.run(MOVED);
        browser.run("scrollTo(0, document.querySelector('.graph').offsetTop)");
        browser.click((
            browser.tick("x", "50"),
            browser.tick("y", "2000") - 0.25 * (browser.tick("y", "2000") - browser.tick("y", "4000")),
        ));
        assert!(picked(&browser).contains("window 2500 KB"), "at {width}: {}", picked(&browser));
        let found = browser.run(
            "const [stage, picked] = ['.stage', '.picked'].map(one => document.querySelector(one).getBoundingClientRect());
             return [moved, document.documentElement.scrollWidth, picked.left >= stage.right, stage.width];",
        );
        assert_eq!(found[0], 0, "at {width} something moved");
        assert!(found[1].as_u64() <= Some(u64::from(width)), "at {width}: {found}");
        assert_eq!(found[2], beside, "at {width}: {found}");
        assert!(found[3].as_f64() > Some(f64::from(width) * 0.6), "at {width}: {found}");
    }
    browser.assert_quiet();
}

/// Adds up in `moved` how much has moved in the page since it was opened.
const MOVED: &str = "window.moved = 0;
     new PerformanceObserver(list => list.getEntries().forEach(entry => (moved += entry.value)))
         .observe({ type: 'layout-shift', buffered: true });";

/// A page that arrives in pieces is painted before its scripts are there. They move nothing of what is seen.
#[test]
fn nothing_moves_while_a_page_arrives() {
    let Some(browser) = Browser::start(false) else { return };
    let mut report = listed();
    report.words(&["A sentence."; 3]).figure(&figure()).words(&["Another one."; 3]).figure(&figure());
    let text = report.finish();
    let scripts = text.rfind("<script>").expect("scripts at the end");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // In the widest window the page stands in the middle, and a scroll bar that comes late would push it.
    let widths = [400, 1600, 2000];
    let server = std::thread::spawn(move || {
        for _ in widths {
            let (mut stream, _) = listener.accept().expect("a browser");
            let mut request = BufReader::new(stream.try_clone().expect("a descriptor"));
            let mut line = String::new();
            while request.read_line(&mut line).expect("a request") > 2 {
                line.clear();
            }
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                text.len()
            )
            .expect("a reader");
            for piece in [&text[..scripts], &text[scripts..]] {
                stream.write_all(piece.as_bytes()).expect("a reader");
                std::thread::sleep(Duration::from_millis(500));
            }
        }
    });
    for width in widths {
        browser.resize(width, 900);
        browser.open_url(&format!("http://{address}/{width}"));
        browser.wait_until("return document.querySelector('.graph')?.dataset.x !== undefined");
        browser.run(MOVED);
        let found = browser.run(
            "const painted = performance.getEntriesByName('first-contentful-paint')[0].startTime;
             const [made] = performance.getEntriesByName('graph');
             return [moved, painted < made.startTime];",
        );
        assert_eq!(found, serde_json::json!([0, true]), "at {width}");
    }
    server.join().expect("a server");
}

#[test]
fn graphs_and_tables_are_made_and_changed_by_a_program() {
    let Some(browser) = Browser::start(false) else { return };
    let mut report = Html::new("Program");
    report.markup("<div id=\"here\"></div><div id=\"table\"></div>");
    report.markup(&format!("<script type=\"application/json\" id=\"figure\">{}</script>", data(&figure())));
    report.program("", "const figure = JSON.parse(document.querySelector('#figure').textContent);");
    let page = Page::of("program", &report);
    browser.load(&page.0);
    browser.run("showFigures(document.querySelector('#here'), [figure, figure], 'time')");
    browser.wait_until("return document.querySelector('#here .graph').dataset.x !== undefined");
    browser.click_element(".legend button");
    browser.run("document.querySelector('.graph').graph.showX([10, 20])");
    // Other points: the zoom and the series that is off stay; the second graph goes.
    browser.run(
        "const other = structuredClone(figure); other.title = 'Other';
         other.panels[0].series[0].y = other.panels[0].series[0].y.map(y => y / 2);
         showFigures(document.querySelector('#here'), [other], 'time')",
    );
    assert_eq!(browser.ends("x"), [10.0, 20.0]);
    let state = "return [document.querySelector('h3').textContent, \
        document.querySelectorAll('.graph').length, document.querySelector('.legend button').ariaPressed]";
    assert_eq!(browser.run(state), serde_json::json!(["Other", 1, "false"]));
    browser.run(
        "showTable(document.querySelector('#table'), { head: ['name', 'ms'], rows: [['a', '2'], ['b', ''], ['c', '10']] },
                   index => (window.chosen = index))",
    );
    browser.click_element("#table th:nth-child(2) button");
    let order = "return [...document.querySelectorAll('#table tbody tr')].map(row => row.cells[0].textContent).join('')";
    assert_eq!(browser.run(order), "cab", "the missing number is last");
    browser.click_element("#table tbody tr:nth-child(2) button");
    assert_eq!(browser.run("return chosen"), 0, "the first row as it was given");
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

/// A table of twelve columns, as `tcplab compare` makes it, is whole in a window of 1,280 pixels. Where it is
/// not, a shadow shows that it goes on.
#[test]
fn a_wide_table_uses_the_window_and_shows_where_it_goes_on() {
    let Some(browser) = Browser::start(false) else { return };
    let head = [
        "rate",
        "delay",
        "buffer",
        "loss",
        "controller",
        "throughput",
        "sent again",
        "timeouts",
        "queueing delay, mean",
        "p99",
        "power (MB/s²)",
        "Jain",
    ];
    let row = [
        "10Mbit/s",
        "20ms",
        "0.5bdp",
        "0%",
        "vegas",
        "9.51 Mbit/s",
        "0.403 %",
        "0",
        "10.8 ms",
        "19.9 ms",
        "23.41",
        "-",
    ];
    let mut report = Html::new("Wide");
    let mut rows = vec![row.map(str::to_owned).to_vec(); 9];
    rows[0][11] = "0.98".to_owned();
    rows.iter_mut().for_each(|row| row[10] = "-".to_owned());
    report.table("", &head, &rows).figure(&figure());
    let page = Page::of("wide", &report);
    let overflow = |width: u32| {
        browser.resize(width, 900);
        browser.load(&page.0);
        let found = browser.run(
            "const box = document.querySelector('.wide');
             return [box.scrollWidth - box.clientWidth, getComputedStyle(box).backgroundImage.split('linear').length - 1];",
        );
        assert_eq!(found[1], 4, "two shadows and what covers them at the ends");
        found[0].as_i64().expect("a width")
    };
    assert!(overflow(1280) <= 0);
    assert!(overflow(400) > 200);
    // The missing value is aligned with the numbers above it, and so are those of a column without any.
    let aligned = "return [...document.querySelectorAll('tr:last-child td')].slice(-2)
         .map(cell => getComputedStyle(cell).textAlign)";
    assert_eq!(browser.run(aligned), serde_json::json!(["right", "right"]));
    browser.assert_quiet();
}

/// 68 connections do not push the first graph out of the first screen.
#[test]
fn the_first_graph_is_in_the_first_screen() {
    let Some(browser) = Browser::start(false) else { return };
    let head = [
        "connection",
        "between",
        "seconds",
        "seconds lost",
        "KB sent",
        "KB again",
        "timeouts",
        "tail probes",
        "mean RTT (ms)",
        "waited most for",
        "%",
    ];
    let row = |number: u32| {
        let between = "a2: 10.0.0.2:34785 > 10.0.0.5:20000".to_owned();
        let cells =
            ["9.510", "1.969", "1000.0", "44.9", "1", "0", "122.2", "application", "46"].map(str::to_owned);
        (None, [vec![number.to_string(), between], cells.to_vec()].concat())
    };
    let mut report = Html::new("Many");
    report.heading("Connections").paragraph("10 of 68 connections have graphs below.");
    report.listing(&head, &(0..68).map(row).collect::<Vec<_>>());
    report.section("first", "Connection 12").facts(&[("time", "9.510 s".to_owned())]).figure(&figure());
    let page = Page::of("first", &report);
    for (width, height) in [(1280, 900), (1920, 1080)] {
        browser.resize(width, height);
        browser.load(&page.0);
        let top = browser.run("return document.querySelector('.stage').getBoundingClientRect().top");
        let top = top.as_f64().expect("a place");
        assert!(top < 0.75 * f64::from(height), "at {width}: the graph begins at {top}");
        let hidden = browser
            .run("const box = document.querySelector('.wide'); return box.scrollWidth - box.clientWidth");
        assert_eq!(hidden, 0, "at {width} no column is hidden");
    }
    browser.assert_quiet();
}

#[test]
fn values_of_another_source_stand_over_their_bars_and_a_cut_axis_is_marked() {
    let Some(browser) = Browser::start(false) else { return };
    let mut bars = figure();
    bars.x.categories = vec!["10 buffers".to_owned(), "20 buffers".to_owned()];
    bars.panels.truncate(1);
    bars.panels[0].series = vec![
        series("Reno", Style::Bars, 0, [(0.0, 40.0), (1.0, 60.0)]),
        series("Vegas", Style::Bars, 1, [(0.0, 80.0), (1.0, 90.0)]),
        series("the paper's", Style::Rings, 1, [(0.0, 85.0)]),
        series("a bound", Style::Dotted, 2, [(0.0, 50.0), (1.0, 50.0)]),
    ];
    let page = Page::new("rings", &[bars]);
    browser.load(&page.0);
    let offsets = browser.run(
        "return document.querySelector('.graph').graph.data.panels[0].series.map(one => one.offset ?? 0)",
    );
    assert!(offsets[1].as_f64() > Some(5.0) && offsets[2] == offsets[1], "{offsets}");
    let marks = || browser.run("return document.querySelectorAll('.stage .broken').length");
    assert_eq!(marks(), 0, "it begins at 0");
    browser.run("const graph = document.querySelector('.graph').graph; graph.y[0] = [30, 90]; graph.draw()");
    assert_eq!(marks(), 1);
    browser.assert_quiet();
}

/// Lines through the frame leave the rows of marks above it free, and do not merge.
#[test]
fn lines_through_the_frame_are_thinned_and_cover_no_label() {
    let Some(browser) = Browser::start(false) else { return };
    let mut walls = figure();
    walls.panels.truncate(1);
    walls.panels[0].series = vec![
        series("again", Style::Verticals, 6, (0..=5000).map(|at| (f64::from(at) / 50.0, 0.0))),
        series("KB", Style::Labels, 8, [(99.0, f64::INFINITY)]),
    ];
    let page = Page::new("walls", &[walls]);
    browser.load(&page.0);
    let found = browser.run(
        "const { graph } = document.querySelector('.graph');
         const view = graph.views[0];
         const ratio = devicePixelRatio;
         const copy = new OffscreenCanvas(graph.canvas.width, graph.canvas.height).getContext('2d', { willReadFrequently: true });
         copy.drawImage(graph.canvas, 0, 0);
         const drawn = (top, height) => {
             const { data } = copy.getImageData(view.left * ratio, top * ratio, view.x.length * ratio * 0.8, height * ratio);
             let count = 0;
             for (let at = 3; at < data.length; at += 4) count += data[at] > 100;
             return count / (data.length / 4);
         };
         return [drawn(view.top, view.frame - 2), drawn(view.top + view.frame + 10, 50)];",
    );
    assert_eq!(found[0], 0.0, "the row above is free");
    let share = found[1].as_f64().expect("a share");
    assert!((0.1..=0.7).contains(&share), "lines with gaps between them: {share}");
    browser.assert_quiet();
}
