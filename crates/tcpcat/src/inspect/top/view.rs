//! The screen: a line about the stack, a table of connections, the windows of one of them, and the keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Row, Table, TableState, Wrap};

use super::history::{Histories, History, Point, Sort};
use crate::observe::stats_words;
use crate::units::show_rate;

/// The screen, and what is selected.
#[derive(Debug)]
pub(super) struct View {
    pub(super) histories: Histories,
    /// The id of the selected connection, which stays selected wherever it moves in the table.
    selected: Option<String>,
    /// The part in the place of the graphs.
    pub(super) below: Below,
}

/// The part that shows the selected connection, or stands in its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Below {
    /// Its windows and its rate over time.
    #[default]
    Graphs,
    /// All its figures, in the words of `ss -i`.
    Figures,
    /// The keys.
    Keys,
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
        Self { histories: Histories::new(sort), selected: None, below: Below::Graphs }
    }

    /// Shows this, or the graphs again if it is shown.
    pub fn toggle(&mut self, below: Below) {
        self.below = if self.below == below { Below::Graphs } else { below };
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
        let graph = match self.below {
            // What was asked for is shown on a low screen, too.
            Below::Figures | Below::Keys => (area.height * 2 / 5).max(area.height.saturating_sub(3).min(8)),
            Below::Graphs if area.height >= GRAPH_FROM => area.height * 2 / 5,
            Below::Graphs => 0,
        };
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
            self.draw_below(frame, windows);
        }
        frame.render_widget(self.keys(area.width), keys);
    }

    fn title(&self) -> Paragraph<'static> {
        let count = self.histories.len() as u64 + self.histories.left_out;
        let noun = if count == 1 { "connection" } else { "connections" };
        let text = format!("tcpcat top: {count} {noun}, {}", rate_word(self.histories.rate_bps()));
        Paragraph::new(text).style(Style::new().add_modifier(Modifier::BOLD))
    }

    fn keys(&self, width: u16) -> Paragraph<'static> {
        let sorts = Sort::ALL.map(|(key, sort, name)| {
            if sort == self.histories.sort() { format!("{key} [{name}]") } else { format!("{key} {name}") }
        });
        let all = format!("q quit  ? keys  Enter figures  up/down select  sort: {}", sorts.join("  "));
        let (letters, names): (Vec<_>, Vec<_>) =
            Sort::ALL.iter().map(|(key, sort, name)| (key.to_string(), (*sort, *name))).unzip();
        let by = names.iter().find(|(sort, _)| *sort == self.histories.sort()).map_or("", |(_, name)| name);
        let few = format!("q quit  ? keys  Enter figures  {} sort [{by}]", letters.join(" "));
        let shown = if all.len() <= usize::from(width) { all } else { few };
        Paragraph::new(shown).style(Style::new().add_modifier(Modifier::DIM))
    }

    fn draw_below(&self, frame: &mut Frame<'_>, area: Rect) {
        let selected = self.histories.at(self.place());
        let text = |title: &str, words: String| {
            Paragraph::new(words)
                .wrap(Wrap { trim: true })
                .block(Block::bordered().title(format!(" {title} ")))
        };
        match (self.below, selected) {
            (Below::Keys, _) => {
                let sorts = Sort::ALL.map(|(key, _, name)| format!("{key}: {name}"));
                let keys = format!("{KEYS}\nsort by  {}", sorts.join(", "));
                frame.render_widget(text("keys", keys), area);
            }
            (_, None) => frame.render_widget(Block::bordered().title(" no connection "), area),
            (Below::Figures, Some(history)) => {
                let title = format!("{} to {}", history.seen.local, history.seen.remote);
                frame.render_widget(text(&title, stats_words(&history.seen.info)), area);
            }
            (Below::Graphs, Some(history)) if area.width >= RATE_FROM => {
                let parts = Layout::horizontal([Constraint::Fill(2), Constraint::Fill(1)]);
                let [windows, rate] = parts.areas(area);
                draw_windows(history, frame, windows);
                draw_rate(history, frame, rate);
            }
            (Below::Graphs, Some(history)) => draw_windows(history, frame, area),
        }
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
}

/// The windows of a connection, in bytes over seconds: those that hold its sending, or what it receives into.
fn draw_windows(history: &History, frame: &mut Frame<'_>, area: Rect) {
    let curve = |name, color, of: fn(&Point) -> Option<u64>| {
        let points =
            history.points.iter().filter_map(|point| of(point).map(|bytes| (point.at, bytes as f64)));
        Curve { name, color, points: points.collect() }
    };
    let info = &history.seen.info;
    let (drawn, words) = if history.receives {
        let drawn = vec![
            curve("window", Color::Green, |point| Some(point.rcv_wnd)),
            curve("unread", Color::Blue, |point| Some(point.receive_queue)),
        ];
        let (window, unread) = (short_bytes(u64::from(info.rcv_wnd)), short_bytes(info.receive_queue));
        (drawn, format!("receives, window {window}, unread {unread}"))
    } else {
        let drawn = vec![
            curve("cwnd", Color::Green, |point| Some(point.cwnd)),
            curve("in flight", Color::Blue, |point| Some(point.in_flight)),
            curve("ssthresh", Color::Yellow, |point| point.ssthresh),
        ];
        let (cwnd, in_flight) = (short_bytes(info.cwnd), short_bytes(info.in_flight));
        let window = short_bytes(history.points.back().map_or(0, |point| point.snd_wnd));
        (drawn, format!("cwnd {cwnd}, in flight {in_flight}, peer's window {window}"))
    };
    let title = format!(" {} to {}: {words} ", history.seen.local, history.seen.remote);
    draw_lines(frame, area, title, &drawn, |most| short_bytes(most as u64));
}

/// Its rate, in bits a second over seconds.
fn draw_rate(history: &History, frame: &mut Frame<'_>, area: Rect) {
    let points = history.points.iter().skip(1).map(|point| (point.at, point.rate_bps as f64)).collect();
    let title = format!(" {} ", if history.receives { "rate of receiving" } else { "rate of sending" });
    draw_lines(frame, area, title, &[Curve { name: "", color: Color::Magenta, points }], |most| {
        rate_word(most as u64)
    });
}

/// A line of a graph.
struct Curve {
    name: &'static str,
    color: Color,
    points: Vec<(f64, f64)>,
}

/// Lines over the last seconds, from zero to the highest value.
fn draw_lines(
    frame: &mut Frame<'_>,
    area: Rect,
    title: String,
    drawn: &[Curve],
    word: impl Fn(f64) -> String,
) {
    let points = || drawn.iter().flat_map(|curve| &curve.points);
    let most = points().map(|(_, value)| *value).fold(1.0, f64::max);
    let ends = points().map(|(at, _)| *at).fold(0.0, f64::max);
    let begins = points().map(|(at, _)| *at).fold(ends, f64::min).min(ends - 1.0);
    let sets = drawn.iter().map(|curve| {
        Dataset::default()
            .name(curve.name)
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(curve.color))
            .data(&curve.points)
    });
    let span = ends - begins;
    let chart = Chart::new(sets.collect())
        .block(Block::bordered().title(title))
        .x_axis(
            Axis::default()
                .bounds([begins, ends])
                .labels([Line::from(format!("-{span:.0}s")), Line::from("now")]),
        )
        .y_axis(Axis::default().bounds([0.0, most]).labels([Line::from("0"), Line::from(word(most))]));
    frame.render_widget(chart, area);
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

const KEYS: &str = "\
q, Esc: quit
up, down, k, j, PageUp, PageDown: select a connection
Enter: its figures, or its graphs again
?: these keys, or the graphs again";

/// The least height that has room for the graph of the windows.
const GRAPH_FROM: u16 = 14;

/// The least width that has room for the rate beside the windows.
const RATE_FROM: u16 = 100;

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
        assert_eq!(lines[23], "q quit  ? keys  Enter figures  r c s t n sort [rate]");
    }

    #[test]
    fn a_receiver_shows_its_window_its_queue_and_its_rate() {
        let mut view = view();
        for look in 2..4_u64 {
            let mut seen = ss::tests::seen();
            (seen.info.bytes_received, seen.info.rcv_wnd) = (look * 250_000, 200_000);
            seen.info.receive_queue = 30_000;
            view.histories.add(Look { at_us: (5 + look) * 1_000_000, connections: vec![seen], left_out: 0 });
        }
        let drawn = drawn(&view, 120, 30);
        assert!(drawn.contains("receives, window 195K, unread 29K"), "{drawn}");
        assert!(drawn.contains("rate of receiving") && drawn.contains("2.00 Mbit/s"), "{drawn}");
        assert!(!drawn.contains("ssthresh"), "{drawn}");
    }

    #[test]
    fn enter_shows_all_figures_and_a_question_mark_the_keys() {
        let mut view = view();
        view.toggle(Below::Figures);
        for (width, height) in [(60, 24), (60, 12)] {
            let figures = drawn(&view, width, height);
            assert!(figures.contains("cubic ts sack") && figures.contains("10.9.0.3:80"), "{figures}");
        }
        view.toggle(Below::Keys);
        let keys = drawn(&view, 60, 24);
        assert!(keys.contains("Enter: its figures") && keys.contains("r: rate, c: cwnd"), "{keys}");
        assert!(keys.ends_with("q quit  ? keys  Enter figures  r c s t n sort [rate]\n"), "{keys}");
        view.toggle(Below::Keys);
        assert!(drawn(&view, 120, 24).contains("sort: r [rate]  c cwnd"));
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
