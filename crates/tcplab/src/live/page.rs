//! The page as HTML: the same whether it follows a run or holds one.

use std::sync::Arc;

use ackclock_chart::{Axis, Figure, Html, Panel, Series, Style};

use super::board::State;
use super::scene::Scene;

/// The page that asks its server for everything that happens.
pub(super) fn following(scene: &Arc<Scene>) -> String {
    with(&State { scene: Arc::clone(scene), events: Vec::new(), frames: Vec::new(), over: false })
}

/// The page with this in it.
pub(super) fn with(state: &State) -> String {
    let scene = &state.scene;
    let mut page = Html::new(&scene.title);
    page.markup(include_str!("live.html"));
    page.markup("<div class=\"columns\">\n");
    let links = scene.charted.iter().map(|&index| scene.links[index].name.as_str());
    page.figure(&figure("Links over time", links, ["sent (Mbit/s)", "queue (packets)"]));
    let flows = scene.charted_flows.iter().map(|&index| scene.flows[index].as_str());
    let ends: Vec<String> = scene.ends.iter().map(|end| format!("connections at {end}")).collect();
    let flows = flows.chain(ends.iter().map(String::as_str));
    page.figure(&figure("Flows over time", flows, ["delivered (Mbit/s)", "congestion window (KB)"]));
    page.markup("</div>\n<p id=\"late\" role=\"status\"></p>\n");
    page.value("run", state);
    page.program(include_str!("live.css"), include_str!("live.js"));
    page.finish()
}

/// A graph whose points the page's script sets.
fn figure<'a>(title: &str, names: impl Iterator<Item = &'a str> + Clone, labels: [&str; 2]) -> Figure {
    let series = |name: &str, style: Style, colour: u8| Series {
        name: name.to_owned(),
        style,
        colour,
        points: Vec::new(),
    };
    let panels = labels.map(|label| {
        let lines =
            names.clone().zip((0..=u8::MAX).cycle()).map(|(name, colour)| series(name, Style::Line, colour));
        Panel {
            height: 0.8,
            // As wide as the labels become.
            y: Axis { label: label.to_owned(), range: Some((0.0, 10_000.0)), ..Axis::default() },
            series: lines
                .chain(VERTICALS.map(|(name, colour)| series(name, Style::Verticals, colour)))
                .collect(),
        }
    });
    Figure {
        title: title.to_owned(),
        caption: "The whole run so far: the last minutes in full, what is older with fewer points."
            .to_owned(),
        x: Axis { label: "time (s)".to_owned(), range: Some((0.0, 1.0)), ..Axis::default() },
        panels: panels.into(),
    }
}

/// The lines across all panels: those of changes are grey.
const VERTICALS: [(&str, u8); 2] = [("changes", 6), ("time shown", 1)];
