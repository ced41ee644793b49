//! The results of a run, in tables.

use ackclock_cli::table::columns;
use ackclock_lab::tables::{self, Rows, fairness, summary};
use ackclock_sim::Report;
use tcplab::page::Page;

/// The text for a terminal: a table of the flows and one of the links.
pub(super) fn text(report: &Report) -> String {
    let flows = aligned(&tables::flows(report));
    format!("{}\n\n{flows}\n{}\n{}\n", summary(report), links(report), fairness(report))
}

/// The table of the links.
pub(crate) fn links(report: &Report) -> String {
    aligned(&tables::links(report))
}

/// The report as a page about the scenario called `name`.
pub(super) fn page(report: &Report, name: &str) -> Page {
    let mut page = Page::new(name);
    let table = |page: &mut Page, Rows { head, rows }: Rows| {
        page.table(&head.iter().map(String::as_str).collect::<Vec<_>>(), rows);
    };
    page.text(format!("{}.", summary(report)));
    table(&mut page, tables::flows(report));
    page.text(format!("{}.", fairness(report)));
    table(&mut page, tables::links(report));
    page
}

fn aligned(Rows { head, rows }: &Rows) -> String {
    columns(head, rows)
}
