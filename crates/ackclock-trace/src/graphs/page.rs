//! A whole trace as one page.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use crate::explain::{self, Account};
use crate::file::{Trace, TracedSource};
use ackclock_chart::{Figure, Html};

/// A page that says in sentences where the time of each connection in `shown` went, with its graphs and those
/// of the queues. For several connections it begins with a table of all of them.
#[must_use]
pub fn report(trace: &Trace, title: &str, shown: &BTreeSet<usize>) -> String {
    let mut page = Html::new(title);
    if let Some(damage) = &trace.damage {
        page.paragraph(&format!("The trace is not whole: {damage}."));
    }
    if let Some(epoch) = trace.origin.epoch_unix_nanos {
        let zero =
            UNIX_EPOCH + Duration::from_nanos(epoch.saturating_add(super::beginning(trace).as_nanos()));
        page.paragraph(&format!("Time 0 of the graphs is {}.", httpdate::fmt_http_date(zero)));
    }
    let mut order = super::worst(trace);
    let silent = trace.connections().filter(|source| !super::timeline::has_data(source));
    order.extend(silent.map(|source| source.number));
    if shown.len() > 1 {
        overview(trace, &order, shown, &mut page);
    }
    let connections = order.iter().filter(|number| shown.contains(number));
    let connections = connections.filter_map(|number| trace.sources.iter().find(|one| one.number == *number));
    for source in connections.chain(trace.queues()) {
        let mut graphs = super::of_source(trace, source).into_iter();
        let Some(first) = graphs.next() else { continue };
        page.section(&section(source), &heading(source));
        if source.missed > 0 {
            page.paragraph(&format!("{} entries are missing.", source.missed));
        }
        if source.source.is_connection() {
            page.facts(&facts(&explain::account(source)));
        }
        draw(&mut page, &first);
        if source.source.is_connection() {
            page.words(&explain::sentences(source));
        }
        graphs.for_each(|graph| draw(&mut page, &graph));
    }
    page.finish()
}

/// Graphs over time share their axis.
fn draw(page: &mut Html, (over_time, graph): &(bool, Figure)) {
    page.linked(graph, if *over_time { "time" } else { "" });
}

/// A connection in a few figures.
fn facts(account: &Account) -> [(&'static str, String); 6] {
    let (most, share) = longest_wait(account);
    let [_, _, seconds, lost, sent, again, timeouts, probes, round_trip] = figures(account);
    let known = |text: String, unit: &str| if text.is_empty() { "–".to_owned() } else { text + unit };
    [
        ("time", seconds + " s"),
        ("lost to timeouts, tail probes and recovery", lost + " s"),
        ("sent, and again", format!("{sent} KB, {again} KB")),
        ("timeouts, tail probes", format!("{timeouts}, {probes}")),
        ("mean round trip", known(round_trip, " ms")),
        ("waited most for", known(most, &format!(" ({share} %)"))),
    ]
}

/// The name of a source's section.
fn section(source: &TracedSource) -> String {
    let kind = if source.source.is_connection() { "connection" } else { "queue" };
    format!("{kind}-{}", source.number)
}

fn heading(source: &TracedSource) -> String {
    if source.source.is_connection() {
        format!("Connection {}: {}", source.number, source.source)
    } else {
        source.source.to_string()
    }
}

/// The table of all connections, in this order.
fn overview(trace: &Trace, order: &[usize], shown: &BTreeSet<usize>, page: &mut Html) {
    let sources =
        order.iter().filter_map(|number| trace.sources.iter().find(|source| source.number == *number));
    let rows: Vec<_> = sources
        .map(|source| {
            let has_graphs = shown.contains(&source.number) && super::timeline::has_data(source);
            (has_graphs.then(|| section(source)), row(source))
        })
        .collect();
    page.heading("Connections");
    let without = rows.iter().filter(|(section, _)| section.is_none()).count();
    if without > 0 {
        page.paragraph(&format!(
            "{} of {} connections have graphs below. Those that lost most time come first, then those that \
             sent most.",
            rows.len() - without,
            rows.len()
        ));
    }
    page.listing(&HEAD, &rows);
}

/// The heads of a table of connections: what [`row`] fills.
pub const HEAD: [&str; 11] = [
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

/// A connection's row in a table of connections. Causes of waiting have their names in [`explain::Waiting`].
#[must_use]
pub fn row(source: &TracedSource) -> Vec<String> {
    let account = explain::account(source);
    let (most, share) = longest_wait(&account);
    let mut row = figures(&account).to_vec();
    (row[0], row[1]) = (source.number.to_string(), source.source.to_string());
    row.extend([most, share]);
    row
}

/// The figures of a row behind the connection's number and name.
fn figures(account: &Account) -> [String; 9] {
    let kilobytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e3);
    let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64());
    let round_trip = account.round_trips.range;
    [
        String::new(),
        String::new(),
        seconds(account.duration),
        seconds(super::lost_time(account)),
        kilobytes(account.bytes_sent),
        kilobytes(account.again.bytes),
        account.waits.timeouts.len().to_string(),
        account.waits.probes.len().to_string(),
        round_trip.map_or(String::new(), |(_, mean, _)| format!("{:.1}", mean.as_secs_f64() * 1e3)),
    ]
}

fn longest_wait(account: &Account) -> (String, String) {
    let Some((what, time)) = account.waits.time.iter().max_by_key(|(_, time)| **time) else {
        return (String::new(), String::new());
    };
    let share = time.as_secs_f64() / account.duration.as_secs_f64().max(f64::MIN_POSITIVE);
    (what.name().to_owned(), format!("{:.0}", share * 100.0))
}
