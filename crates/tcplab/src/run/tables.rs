//! The results of a run, in tables.

use ackclock_chart::Figure;
use ackclock_cli::table::columns;
use ackclock_lab::tables::{self, Rows, fairness, summary};
use ackclock_sim::Report;
use tcplab::page::Page;

/// The text for a terminal: a table of the flows and one of the links.
pub(super) fn text(report: &Report) -> String {
    let flows = aligned(&tables::flows(report));
    let fairness = fairness(report).map_or(String::new(), |fairness| format!("\n{fairness}\n"));
    format!("{}\n\n{flows}\n{}{fairness}", summary(report), links(report))
}

/// The table of the links.
pub(crate) fn links(report: &Report) -> String {
    aligned(&tables::links(report))
}

/// A page about the scenario called `name`: the tables of the flows and of the links. Each has its graph over
/// time below it.
pub(super) fn page(report: &Report, name: &str, [flows, queues]: [Figure; 2]) -> Page {
    let mut page = Page::new(name);
    let table = |page: &mut Page, Rows { head, rows }: Rows| {
        page.table(&head.iter().map(String::as_str).collect::<Vec<_>>(), rows);
    };
    page.text(format!("{}.", summary(report)));
    table(&mut page, tables::flows(report));
    if let Some(fairness) = fairness(report) {
        page.text(format!("{fairness}."));
    }
    page.picture("", flows);
    table(&mut page, tables::links(report));
    page.picture("", queues);
    page
}

fn aligned(Rows { head, rows }: &Rows) -> String {
    columns(head, rows)
}
