//! A whole trace as one page.

use crate::explain::{self, Account};
use crate::file::{Source, Trace, TracedSource};
use crate::report::Html;

/// A page with the graphs of a trace and, in sentences, where the time of each connection went; of several connections
/// there is a table first.
#[must_use]
pub fn report(trace: &Trace, title: &str) -> String {
    let mut page = Html::new(title);
    if let Some(damage) = &trace.damage {
        page.paragraph(&format!("The trace is not whole: {damage}."));
    }
    if trace.connections().nth(1).is_some() {
        overview(trace, &mut page);
    }
    let zero = super::beginning(trace);
    for source in &trace.sources {
        let graphs = super::of(source, zero);
        if graphs.is_empty() {
            continue;
        }
        page.heading(&source.source.to_string());
        if source.missed > 0 {
            page.paragraph(&format!("{} entries are missing.", source.missed));
        }
        if matches!(source.source, Source::Connection { .. }) {
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

fn overview(trace: &Trace, page: &mut Html) {
    let rows: Vec<_> = trace.connections().enumerate().map(|(number, source)| row(number, source)).collect();
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
    page.heading("Connections").table("", &head, &rows);
}

/// A connection in a line; what it waited for is named as in [`explain::Waiting`].
fn row(number: usize, source: &TracedSource) -> Vec<String> {
    let account = explain::account(source);
    let kilobytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e3);
    let round_trip = account
        .round_trips
        .range
        .map_or(String::new(), |(_, mean, _)| format!("{:.1}", mean.as_secs_f64() * 1e3));
    let (most, share) = longest_wait(&account);
    vec![
        number.to_string(),
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
