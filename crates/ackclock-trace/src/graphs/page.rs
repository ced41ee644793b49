//! A whole trace as one page.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use crate::explain::{self, Account};
use crate::file::{Trace, TracedSource};
use ackclock_chart::Html;

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
    if shown.len() > 1 {
        overview(trace, shown, &mut page);
    }
    let zero = super::beginning(trace);
    for source in super::chosen(trace, shown) {
        let graphs = super::of(trace, source, zero);
        if graphs.is_empty() {
            continue;
        }
        page.section(&section(source), &heading(source));
        if source.missed > 0 {
            page.paragraph(&format!("{} entries are missing.", source.missed));
        }
        if source.source.is_connection() {
            explain::sentences(source).iter().for_each(|sentence| {
                page.paragraph(sentence);
            });
        }
        graphs.iter().for_each(|(_, graph)| {
            page.figure(graph);
        });
    }
    page.finish()
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

fn overview(trace: &Trace, shown: &BTreeSet<usize>, page: &mut Html) {
    let rows: Vec<_> = trace
        .connections()
        .map(|source| {
            let has_graphs = shown.contains(&source.number) && super::timeline::has_data(source);
            (has_graphs.then(|| section(source)), row(source))
        })
        .collect();
    let head = [
        "connection",
        "",
        "seconds",
        "KB sent",
        "KB again",
        "timeouts",
        "mean RTT (ms)",
        "waited most for",
        "%",
    ];
    page.heading("Connections");
    let without = rows.iter().filter(|(section, _)| section.is_none()).count();
    if without > 0 {
        page.paragraph(&format!(
            "Of {} connections {} have graphs below; those without a link sent no data or were not asked \
             for.",
            rows.len(),
            rows.len() - without
        ));
    }
    page.listing(&head, &rows);
}

/// A connection's row. What it waited for is named as in [`explain::Waiting`].
fn row(source: &TracedSource) -> Vec<String> {
    let account = explain::account(source);
    let kilobytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e3);
    let round_trip = account
        .round_trips
        .range
        .map_or(String::new(), |(_, mean, _)| format!("{:.1}", mean.as_secs_f64() * 1e3));
    let (most, share) = longest_wait(&account);
    vec![
        source.number.to_string(),
        source.source.to_string(),
        format!("{:.3}", account.duration.as_secs_f64()),
        kilobytes(account.bytes_sent),
        kilobytes(account.again.bytes),
        account.waits.timeouts.len().to_string(),
        round_trip,
        most,
        share,
    ]
}

fn longest_wait(account: &Account) -> (String, String) {
    let Some((what, time)) = account.waits.time.iter().max_by_key(|(_, time)| **time) else {
        return (String::new(), String::new());
    };
    let share = time.as_secs_f64() / account.duration.as_secs_f64().max(f64::MIN_POSITIVE);
    (what.name().to_owned(), format!("{:.0}", share * 100.0))
}
