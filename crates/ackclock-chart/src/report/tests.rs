//! The content of a report. Its behaviour is tested in a browser (`tests/browser`).

use super::*;
use crate::{Axis, Panel, Point, Scale, Series, Style};

fn figure(points: Vec<Point>) -> Figure {
    let series = Series { name: "cwnd </script><!--".to_owned(), style: Style::Dots, colour: 17, points };
    Figure {
        title: "a < b".to_owned(),
        caption: "caption".to_owned(),
        x: Axis { label: "time (s)".to_owned(), scale: Scale::Log, ..Axis::default() },
        panels: vec![Panel { height: 1.0, y: Axis::default(), series: vec![series] }],
    }
}

/// The JSON of the only graph.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("<script type=\"application/json\">").expect("a graph");
    let (json, _) = rest.split_once("</script>").expect("its end");
    serde_json::from_str(json).expect("JSON")
}

#[test]
fn graphs_keep_all_points_their_ranges_and_notes() {
    let plain = Point { x: 1.0, y: 2.0, ..Point::default() };
    let full = Point { x: 2.0, y: f64::NAN, range: Some((1.0, 3.0)), note: "lost".to_owned() };
    let page = Html::new("t").figure(&figure(vec![plain, full])).finish();
    let series = data(&page)["panels"][0]["series"][0].clone();
    assert_eq!(series["name"], "cwnd </script><!--");
    assert_eq!(series["style"], "dots");
    assert_eq!(series["colour"], 1);
    assert_eq!(series["x"], serde_json::json!([1.0, 2.0]));
    assert_eq!(series["y"], serde_json::json!([2.0, null]));
    assert_eq!(series["low"], serde_json::json!([null, 1.0]));
    assert_eq!(series["high"], serde_json::json!([null, 3.0]));
    assert_eq!(series["note"], serde_json::json!(["", "lost"]));
}

#[test]
fn nothing_is_loaded_from_elsewhere_and_words_are_escaped() {
    let mut report = Html::new("Reno & <Vegas>");
    report.heading("1 < 2").paragraph("a\"b").figure(&figure(vec![]));
    let page = report.finish();
    assert!(
        page.contains("<title>Reno &amp; &lt;Vegas&gt;</title>")
            && page.contains("<h2 id=\"s0\">1 &lt; 2</h2>")
    );
    assert!(page.contains("default-src 'none'"));
    for reference in ["src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!page.contains(reference), "{reference}");
    }
    // The only address is the name of SVG's elements.
    assert_eq!(page.matches("http").count() - page.matches("http-equiv").count(), 1);
}

#[test]
fn three_sections_have_a_list_of_contents() {
    let mut report = Html::new("t");
    report.heading("first").heading("second");
    assert!(!report.finish().contains("<nav>"));
    let page = report.heading("a < b").finish();
    assert!(page.contains("<a href=\"#s2\">a &lt; b</a>") && page.contains("<h2 id=\"s2\">a &lt; b</h2>"));
}

#[test]
fn numbers_of_tables_stand_at_the_right() {
    let rows = [vec!["Reno".to_owned(), "−1.5 %".to_owned()], vec!["Vegas".to_owned(), "n/a".to_owned()]];
    let page = Html::new("t").table("of <what>", &["name", "change"], &rows).finish();
    assert!(page.contains("<caption>of &lt;what&gt;</caption>"));
    assert!(page.contains("<th>name</th><th class=\"n\">change</th>"));
    assert!(page.contains("<td>Reno</td><td class=\"n\">−1.5 %</td>"));
    assert!(page.contains("<td class=\"n\">n/a</td>"), "a missing one stands where numbers do");
}

#[test]
fn a_program_of_the_callers_reads_its_values_and_its_own_server_alone() {
    let mut report = Html::new("t");
    report.markup("<p id=\"mine\"></p>").value("values", &["</script>"]).program("p { margin: 0 }", "go();");
    let page = report.finish();
    for part in [
        "<p id=\"mine\"></p>",
        "id=\"values\">[\"\\u003c/script>\"]</script>",
        "p { margin: 0 }</style>",
        "go();</script>",
        "; connect-src 'self'\">",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!Html::new("t").finish().contains("connect-src"));
}
