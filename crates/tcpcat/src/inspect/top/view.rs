//! The screen: a line about the stack, a table of connections, the windows of one of them, and the keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Row, Table, TableState};

use super::history::{Histories, History, Point, Sort};
use crate::units::show_rate;

/// The screen, and what is selected.
#[derive(Debug)]
pub(super) struct View {
    pub(super) histories: Histories,
    /// The id of the selected connection, which stays selected wherever it moves in the table.
    selected: Option<String>,
}

/// A column: its heading, its width, and the narrowest screen that shows it.
type Column = (&'static str, u16, u16, fn(&History) -> String);

const COLUMNS: [Column; 9] = [
    ("ID", 4, 0, |history| history.seen.id.clone()),
    ("PEER", 21, 0, |history| history.seen.remote.to_string()),
    ("STATE", 10, 80, |history| history.seen.info.state().to_owned()),
    ("RATE", 12, 0, |history| {
        history.rate_bps.map_or_else(|| "-".to_owned(), |rate| rate_word(rate).replace(' ', ""))
    }),
    ("CWND", 7, 69, |history| short_bytes(history.seen.info.cwnd)),
    ("SRTT", 8, 61, |history| format!("{:.1}ms", history.seen.info.srtt.as_secs_f64() * 1e3)),
    ("RETR", 6, 90, |history| history.seen.info.retransmits.to_string()),
    ("WAITS FOR", 11, 52, |history| history.seen.waits_for.clone()),
    ("", 16, 106, |history| sparkline(history.points.iter().map(|point| point.rate_bps), 16)),
];

impl View {
    pub fn new(sort: Sort) -> Self {
        Self { histories: Histories::new(sort), selected: None }
    }

    /// Moves the selection by that many rows.
    pub fn select(&mut self, rows: isize) {
        let last = self.histories.len().saturating_sub(1);
        let place = self.place().saturating_add_signed(rows).min(last);
        self.selected = self.histories.at(place).map(|history| history.seen.id.clone());
    }

    /// The row of the selected connection, or the first if it is gone.
    fn place(&self) -> usize {
        self.selected.as_deref().and_then(|id| self.histories.place(id)).unwrap_or(0)
    }

    pub fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let graph = if area.height >= GRAPH_FROM { area.height * 2 / 5 } else { 0 };
        let [title, table, windows, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(2),
            Constraint::Length(graph),
            Constraint::Length(1),
        ])
        .areas(area);
        frame.render_widget(self.title(), title);
        self.draw_table(frame, table);
        if graph > 0 {
            self.draw_windows(frame, windows);
        }
        frame.render_widget(self.keys(), keys);
    }

    fn title(&self) -> Paragraph<'static> {
        let count = self.histories.len() as u64 + self.histories.left_out;
        let noun = if count == 1 { "connection" } else { "connections" };
        let text = format!("tcpcat top: {count} {noun}, {}", rate_word(self.histories.rate_bps()));
        Paragraph::new(text).style(Style::new().add_modifier(Modifier::BOLD))
    }

    fn keys(&self) -> Paragraph<'static> {
        let sorts = Sort::ALL.map(|(key, sort, name)| {
            if sort == self.histories.sort() { format!("{key} [{name}]") } else { format!("{key} {name}") }
        });
        Paragraph::new(format!("q quit  up/down select  sort: {}", sorts.join("  ")))
            .style(Style::new().add_modifier(Modifier::DIM))
    }

    fn draw_table(&self, frame: &mut Frame<'_>, area: Rect) {
        let shown: Vec<&Column> = COLUMNS.iter().filter(|(_, _, from, _)| area.width >= *from).collect();
        let rows =
            self.histories.iter().map(|history| Row::new(shown.iter().map(|(.., cell)| cell(history))));
        // Long addresses get the width that is left over.
        let widths = shown.iter().map(|(name, width, ..)| match *name {
            "PEER" => Constraint::Min(*width),
            _ => Constraint::Length(*width),
        });
        let heading = Row::new(shown.iter().map(|(name, ..)| *name)).style(Style::new().fg(Color::Cyan));
        let table = Table::new(rows, widths)
            .header(heading)
            .column_spacing(1)
            .highlight_symbol(">")
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let selected = (self.histories.len() > 0).then(|| self.place());
        frame.render_stateful_widget(table, area, &mut TableState::default().with_selected(selected));
    }

    /// The windows of the selected connection, in bytes over seconds.
    fn draw_windows(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(history) = self.histories.at(self.place()) else {
            return frame.render_widget(Block::bordered().title(" no connection "), area);
        };
        let series = |of: fn(&Point) -> Option<u64>| -> Vec<(f64, f64)> {
            history
                .points
                .iter()
                .filter_map(|point| of(point).map(|bytes| (point.at, bytes as f64)))
                .collect()
        };
        let drawn = [
            ("cwnd", Color::Green, series(|point| Some(point.cwnd))),
            ("in flight", Color::Blue, series(|point| Some(point.in_flight))),
            ("ssthresh", Color::Yellow, series(|point| point.ssthresh)),
        ];
        let most = drawn.iter().flat_map(|(.., points)| points).map(|(_, bytes)| *bytes).fold(1.0, f64::max);
        let ends = history.points.back().map_or(0.0, |point| point.at);
        let begins = history.points.front().map_or(0.0, |point| point.at).min(ends - 1.0);
        let sets = drawn.iter().map(|(name, color, points)| {
            Dataset::default()
                .name(*name)
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(Style::new().fg(*color))
                .data(points)
        });
        let info = &history.seen.info;
        let title = format!(
            " {} to {}: cwnd {}, in flight {}, peer's window {} ",
            history.seen.local,
            history.seen.remote,
            short_bytes(info.cwnd),
            short_bytes(info.in_flight),
            short_bytes(history.points.back().map_or(0, |point| point.snd_wnd)),
        );
        let span = ends - begins;
        let chart = Chart::new(sets.collect())
            .block(Block::bordered().title(title))
            .x_axis(
                Axis::default()
                    .bounds([begins, ends])
                    .labels([Line::from(format!("-{span:.0}s")), Line::from("now")]),
            )
            .y_axis(
                Axis::default()
                    .bounds([0.0, most])
                    .labels([Line::from("0"), Line::from(short_bytes(most as u64))]),
            );
        frame.render_widget(chart, area);
    }
}

/// The last values as bars of eight heights, scaled to the largest.
fn sparkline(values: impl DoubleEndedIterator<Item = u64>, width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut last: Vec<u64> = values.rev().take(width).collect();
    last.reverse();
    let most = last.iter().copied().max().unwrap_or(0).max(1);
    let height = |value: u64| usize::try_from(u128::from(value) * 7 / u128::from(most)).unwrap_or(7);
    last.into_iter().map(|value| BARS[height(value).min(7)]).collect()
}

fn rate_word(rate_bps: u64) -> String {
    show_rate(rate_bps as f64)
}

/// Bytes in at most seven characters.
fn short_bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes}B"),
        10_000..10_000_000 => format!("{}K", bytes >> 10),
        10_000_000..10_000_000_000 => format!("{}M", bytes >> 20),
        _ => format!("{}G", bytes >> 30),
    }
}

/// The least height that has room for the graph of the windows.
const GRAPH_FROM: u16 = 14;

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::text;
    use super::*;
    use crate::inspect::{Look, ss};

    /// Two looks at three connections, one second apart.
    fn view() -> View {
        let mut view = View::new(Sort::Rate);
        for look in 0..2_u64 {
            let connections = (0..3_u64).map(|number| {
                let mut seen = ss::tests::seen();
                seen.id = number.to_string();
                seen.remote = format!("10.9.0.{}:80", number + 1).parse().unwrap();
                seen.info.bytes_acked = look * number * 125_000;
                seen.info.cwnd = 100_000 - number * 20_000 + look * 10_000;
                seen.info.retransmits = (number == 0).into();
                seen
            });
            let look =
                Look { at_us: (5 + look) * 1_000_000, connections: connections.collect(), left_out: 0 };
            view.histories.add(look);
        }
        view
    }

    fn drawn(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        text(terminal.backend())
    }

    #[test]
    fn a_frame_has_the_table_the_windows_and_the_keys() {
        let drawn = drawn(&view(), 80, 24);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "tcpcat top: 3 connections, 3.00 Mbit/s");
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(cells(lines[1]), "ID PEER STATE RATE CWND SRTT WAITS FOR");
        assert_eq!(cells(lines[2]), ">2 10.9.0.3:80 ESTAB 2.00Mbit/s 68K 20.0ms cwnd");
        assert_eq!(cells(lines[4]), "0 10.9.0.1:80 ESTAB 0.00bit/s 107K 20.0ms cwnd");
        assert!(
            drawn.contains(" 10.9.0.2:40000 to 10.9.0.3:80: cwnd 68K, in flight 2896B, peer's window 63K "),
            "{drawn}"
        );
        assert!(drawn.contains("in flight") && drawn.contains("now"), "{drawn}");
        assert!(lines[23].starts_with("q quit  up/down select  sort: r [rate]  c cwnd"), "{drawn}");
    }

    #[test]
    fn what_is_selected_stays_so_when_the_order_changes() {
        let mut view = view();
        view.select(1);
        view.histories.sort_by(Sort::Cwnd);
        let order: Vec<&str> = view.histories.iter().map(|history| history.seen.id.as_str()).collect();
        assert_eq!((order, view.place()), (vec!["0", "1", "2"], 1));
        view.histories.sort_by(Sort::Retransmits);
        view.select(-5);
        assert!(drawn(&view, 80, 24).contains(">0 "), "no further than the first");
        view.select(50);
        assert!(drawn(&view, 80, 24).contains(">2 "), "nor than the last");
    }

    #[test]
    fn a_narrow_or_a_low_terminal_has_less_and_none_is_too_small() {
        let narrow = drawn(&view(), 44, 24);
        assert!(
            narrow.contains("PEER") && narrow.contains("2.00Mbit/s") && !narrow.contains("WAITS"),
            "{narrow}"
        );
        assert!(drawn(&view(), 52, 24).contains("WAITS FOR") && !drawn(&view(), 52, 24).contains("SRTT"));
        let low = drawn(&view(), 80, 8);
        assert!(low.contains(">2 ") && !low.contains("in flight"), "{low}");
        assert!(drawn(&view(), 120, 24).contains('█'), "a wide one has sparklines");
        for (width, height) in [(1, 1), (3, 2), (10, 4), (20, 15), (300, 100)] {
            drawn(&view(), width, height);
        }
        assert!(drawn(&View::new(Sort::Rate), 80, 24).contains("0 connections"));
    }

    #[test]
    fn bars_are_as_high_as_their_share_of_the_highest() {
        assert_eq!(sparkline([0, 1, 4, 7].into_iter(), 16), "▁▂▅█");
        assert_eq!(sparkline([9, 9, 9].into_iter(), 2), "██");
        assert_eq!(sparkline([0, 0].into_iter(), 2), "▁▁");
        assert_eq!(sparkline(std::iter::empty(), 2), "");
    }
}
