//! Reports: one HTML file with text, tables and interactive graphs, which loads nothing from elsewhere.

mod data;

use std::fmt::Write;

use serde::Serialize;

use crate::Figure;
use crate::palette::properties;
use crate::text::escape;

pub use self::data::data;

/// A report under construction.
///
/// ```
/// use ackclock_chart::Html;
///
/// let mut report = Html::new("Reno over a short queue");
/// report.heading("What was measured").paragraph("One connection, 1 MB.");
/// report.table("Transfer", &["bytes", "seconds"], &[vec!["1000000".to_owned(), "8.1".to_owned()]]);
/// assert!(report.finish().starts_with("<!DOCTYPE html>"));
/// ```
#[derive(Clone, Debug)]
pub struct Html {
    title: String,
    body: String,
    /// The headings with their anchors, for the table of contents.
    sections: Vec<(String, String)>,
    /// A style sheet and a script of the caller's.
    program: Option<[String; 2]>,
}

impl Html {
    /// A report that only has a title.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), body: String::new(), sections: Vec::new(), program: None }
    }

    /// Begins a section. With three or more sections, the report begins with a table of contents.
    pub fn heading(&mut self, text: &str) -> &mut Self {
        self.section(&format!("s{}", self.sections.len()), text)
    }

    /// Begins a section with a name of letters, digits and hyphens. Rows of a [`listing`](Self::listing) can
    /// link to it.
    pub fn section(&mut self, name: &str, text: &str) -> &mut Self {
        // Writing to a String does not fail, here and below.
        let _ = writeln!(self.body, "<h2 id=\"{}\">{}</h2>", escape(name), escape(text));
        self.sections.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Adds a paragraph of plain text.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.element("p", text)
    }

    /// Adds a table. Numbers are right-aligned.
    pub fn table<S: AsRef<str>>(&mut self, caption: &str, head: &[S], rows: &[Vec<String>]) -> &mut Self {
        self.body.push_str("<div class=\"wide\"><table>");
        if !caption.is_empty() {
            self.element("caption", caption);
        }
        self.rows(head, rows.iter().map(|row| (None, row.as_slice())));
        self.body.push_str("</table></div>\n");
        self
    }

    /// Adds a table that can be searched and sorted by each column. A row's first cell links to the section
    /// named beside the row, if any.
    pub fn listing<S: AsRef<str>>(
        &mut self,
        head: &[S],
        rows: &[(Option<String>, Vec<String>)],
    ) -> &mut Self {
        self.body.push_str(
            "<div class=\"listing\"><p hidden><label>Search <input type=\"search\"></label> <span \
             role=\"status\"></span></p><div class=\"wide\" tabindex=\"0\"><table>",
        );
        self.rows(head, rows.iter().map(|(section, row)| (section.as_deref(), row.as_slice())));
        self.body.push_str("</table></div></div>\n");
        self
    }

    fn rows<'a, S: AsRef<str>>(
        &mut self,
        head: &[S],
        rows: impl Iterator<Item = (Option<&'a str>, &'a [String])> + Clone,
    ) {
        let numbers: Vec<bool> = (0..head.len())
            .map(|column| {
                // A column in which all numbers are missing stays aligned with its neighbours.
                let mut cells = rows.clone().filter_map(|(_, row)| row.get(column)).peekable();
                cells.peek().is_some() && cells.all(|cell| is_number(cell) || is_missing(cell))
            })
            .collect();
        let right = |column: usize, cell: &str| numbers.get(column) == Some(&true) || is_number(cell);
        self.body.push_str("<thead><tr>");
        for (column, text) in head.iter().enumerate() {
            self.cell("th", right(column, ""), text.as_ref());
        }
        self.body.push_str("</tr></thead>\n<tbody>");
        for (section, row) in rows {
            self.body.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                match section.filter(|_| column == 0) {
                    Some(section) => self.link(section, cell),
                    None => self.cell("td", right(column, cell), cell),
                }
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody>");
    }

    fn link(&mut self, section: &str, text: &str) {
        let class = if is_number(text) { " class=\"n\"" } else { "" };
        let _ = write!(self.body, "<td{class}><a href=\"#{}\">{}</a></td>", escape(section), escape(text));
    }

    /// Adds a graph with all its points. Dragging and the wheel zoom, pointing at a point shows its values
    /// and note, clicking it or stepping there by keys shows them beside the graph, the legend switches
    /// series on and off.
    pub fn figure(&mut self, figure: &Figure) -> &mut Self {
        self.linked(figure, "")
    }

    /// Adds a linked graph. Graphs of one `axis`, a name of your choice, share it: zooming one zooms
    /// all, and a cursor moves through all of them.
    pub fn linked(&mut self, figure: &Figure, axis: &str) -> &mut Self {
        let link = if axis.is_empty() { String::new() } else { format!(" data-link=\"{}\"", escape(axis)) };
        let _ = writeln!(
            self.body,
            "<figure class=\"graph\"{link}><h3>{title}</h3><figcaption>{caption}</figcaption>\n<script \
             type=\"application/json\">{data}</script></figure>",
            title = escape(&figure.title),
            caption = escape(&figure.caption),
            data = data(figure),
        );
        self
    }

    /// Adds a few figures, each with its name, in one row.
    pub fn facts(&mut self, facts: &[(&str, String)]) -> &mut Self {
        self.body.push_str("<dl class=\"facts\">");
        for (name, value) in facts {
            let _ = write!(self.body, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
        }
        self.body.push_str("</dl>\n");
        self
    }

    /// Adds paragraphs, in columns where the window is wide.
    pub fn words<S: AsRef<str>>(&mut self, paragraphs: &[S]) -> &mut Self {
        self.body.push_str("<div class=\"words\">");
        for text in paragraphs {
            self.element("p", text.as_ref());
        }
        self.body.push_str("</div>\n");
        self
    }

    /// Adds the caller's HTML unchanged.
    pub fn markup(&mut self, html: &str) -> &mut Self {
        self.body.push_str(html);
        self
    }

    /// Adds a value as JSON for a script to read: the text of the element whose id is `name`.
    pub fn value(&mut self, name: &str, value: &impl Serialize) -> &mut Self {
        let (name, json) = (escape(name), data::within_script(value));
        let _ = writeln!(self.body, "<script type=\"application/json\" id=\"{name}\">{json}</script>");
        self
    }

    /// Adds a style sheet and a script of the caller's behind the report's own. The script finds
    /// a graph as `element.graph`, hears of its drawing by the element's event `made`, and gives it other
    /// points by `graph.update(ends, panels)`. It may read from the server that the page came from, and from
    /// nowhere else.
    pub fn program(&mut self, style: &str, script: &str) -> &mut Self {
        self.program = Some([style.to_owned(), script.to_owned()]);
        self
    }

    /// The whole file.
    pub fn finish(&self) -> String {
        let title = escape(&self.title);
        let [style, script] =
            self.program.as_ref().map_or(["", ""], |program| program.each_ref().map(|text| &**text));
        let reads = if self.program.is_some() { "; connect-src 'self'" } else { "" };
        format!(
            r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}{reads}">
<title>{title}</title>
<style>
{viewer}{style}</style>
</head>
<body>
<h1>{title}</h1>
{contents}<noscript><p>The graphs of this page are drawn by scripts within it; switch JavaScript on to see them.</p></noscript>
{body}<script>
{scripts}{script}</script>
</body>
</html>
"#,
            contents = self.contents(),
            viewer = viewer_style(),
            body = self.body,
            scripts = viewer_script(),
        )
    }

    fn contents(&self) -> String {
        if self.sections.len() < SECTIONS_LISTED {
            return String::new();
        }
        let mut list = format!("<nav><details><summary>{} sections</summary><ol>", self.sections.len());
        for (name, text) in &self.sections {
            let _ = write!(list, "<li><a href=\"#{}\">{}</a></li>", escape(name), escape(text));
        }
        list + "</ol></details></nav>\n"
    }

    fn element(&mut self, name: &str, text: &str) -> &mut Self {
        let _ = writeln!(self.body, "<{name}>{}</{name}>", escape(text));
        self
    }

    fn cell(&mut self, name: &str, number: bool, text: &str) {
        let class = if number { " class=\"n\"" } else { "" };
        let _ = write!(self.body, "<{name}{class}>{}</{name}>", escape(text));
    }
}

/// The style sheet of graphs and tables, with the palette for light and dark, for pages that are made
/// otherwise.
#[must_use]
pub fn viewer_style() -> String {
    let (light, dark) = (properties(false), properties(true));
    format!(
        ":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{}",
        include_str!("page.css")
    )
}

/// The script of graphs and tables, for pages that this crate does not make. It makes graphs of all elements
/// `figure.graph` in front of it, and has these functions:
///
/// - `showFigures(container, figures, link)` shows figures, as [`data`] makes them, in an element. Graphs
///   that are there already take the new points and keep the reader's zoom. Those with the same `link` share
///   their horizontal axis and a cursor, which `moveCursor(link, x)` moves.
/// - An event `pick` rises from a figure when the reader chooses a point. Its `detail` has `figure`, `panel`,
///   `series`, `index`, `x`, `y` and `note`, and `say(text)` shows another text in place of the note.
/// - `showTable(container, {head, rows}, choose)` shows a table that can be sorted and searched; `choose`
///   takes the index of the row that the reader chose.
#[must_use]
pub fn viewer_script() -> &'static str {
    concat!(
        include_str!("scale.js"),
        include_str!("marks.js"),
        include_str!("link.js"),
        include_str!("overview.js"),
        include_str!("page.js"),
        include_str!("listing.js"),
    )
}

/// Whether a cell is a number, possibly with a unit, a sign, a per cent sign or an interval: it begins with a
/// digit, or a sign and a digit.
fn is_number(cell: &str) -> bool {
    cell.trim_start_matches(['-', '−', '+', '<', '>', '≤', '≥', ' '])
        .starts_with(|first: char| first.is_ascii_digit())
        // An address and a port.
        && !cell.contains(':')
}

/// Whether a cell stands for a missing number.
fn is_missing(cell: &str) -> bool {
    matches!(cell, "" | "-" | "–" | "n/a" | "none" | "?")
}

/// From this many sections on there is a table of contents.
const SECTIONS_LISTED: usize = 3;
/// Nothing may be loaded.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

#[cfg(test)]
mod tests;
