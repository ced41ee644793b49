//! Pages: one description, shown as Markdown and as a self-contained HTML file.

use ackclock_chart::Figure;
use ackclock_chart::Html;
use ackclock_cli::table;

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The title at the top.
    pub title: String,
    /// From top to bottom.
    pub blocks: Vec<Block>,
}

/// A part of a page. Texts may contain `code` in backticks, **bold** words and links, as in Markdown.
#[derive(Clone, Debug)]
pub enum Block {
    /// A heading of the second level.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A table.
    Table {
        /// Names of the columns.
        head: Vec<String>,
        /// The rows, each as long as `head`.
        rows: Vec<Vec<String>>,
    },
    /// A picture with its caption.
    Picture {
        /// The path of its file relative to the page.
        path: String,
        /// The figure that it shows.
        figure: Box<Figure>,
    },
}

impl Page {
    /// A page without contents.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), blocks: Vec::new() }
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(text.into()));
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Adds a table.
    pub fn table<S: AsRef<str>>(&mut self, head: &[S], rows: Vec<Vec<String>>) {
        let head = head.iter().map(|name| name.as_ref().to_owned()).collect();
        self.blocks.push(Block::Table { head, rows });
    }

    /// Adds a picture.
    pub fn picture(&mut self, path: impl Into<String>, figure: Figure) {
        self.blocks.push(Block::Picture { path: path.into(), figure: Box::new(figure) });
    }

    /// The page as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let blocks = self.blocks.iter().map(|block| match block {
            Block::Heading(text) => format!("\n## {text}\n"),
            Block::Text(text) => format!("\n{text}\n"),
            Block::Table { head, rows } => format!("\n{}", table::markdown(head, rows)),
            Block::Picture { path, figure } => {
                format!("\n![{}]({path})\n\n{}\n", figure.title, figure.caption)
            }
        });
        format!("# {}\n{}", self.title, blocks.collect::<String>())
    }

    /// The page as one HTML file that loads nothing from elsewhere, with interactive graphs. Links become
    /// plain text.
    #[must_use]
    pub fn html(&self) -> String {
        let mut html = Html::new(&self.title);
        for block in &self.blocks {
            match block {
                Block::Heading(text) => html.heading(&plain(text)),
                Block::Text(text) => html.paragraph(&plain(text)),
                Block::Table { head, rows } => {
                    let rows: Vec<Vec<String>> =
                        rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
                    html.table("", head, &rows)
                }
                Block::Picture { figure, .. } => html.figure(figure),
            };
        }
        html.finish()
    }
}

/// Text without the marks of `code`, **bold** words and links.
fn plain(text: &str) -> String {
    let text = text.replace("**", "").replace('`', "");
    let mut words = String::new();
    let mut rest = text.as_str();
    while let Some((before, word, after)) = first_link(rest) {
        words.push_str(before);
        words.push_str(word);
        rest = after;
    }
    words + rest
}

/// The text before the first `[words](address)`, its words, and the text after it.
fn first_link(text: &str) -> Option<(&str, &str, &str)> {
    let (start, middle) = text.split_once("](")?;
    let (before, words) = start.rsplit_once('[')?;
    Some((before, words, middle.split_once(')')?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let mut page = Page::new("a < b");
        page.heading("Values");
        page.text("Made by `tcplab`, **once**; see [this](x.md).");
        page.table(&["name", "n"], vec![vec!["a|b".to_owned(), "< 5".to_owned()]]);
        page
    }

    #[test]
    fn a_page_is_shown_as_markdown() {
        assert_eq!(
            page().markdown(),
            "# a < b\n\n## Values\n\nMade by `tcplab`, **once**; see [this](x.md).\n\n| name | n \
             |\n|---|---|\n| a\\|b | < 5 |\n"
        );
    }

    #[test]
    fn a_page_is_shown_as_html_with_what_is_text_escaped() {
        let html = page().html();
        for wanted in
            ["<h1>a &lt; b</h1>", "<p>Made by tcplab, once; see this.</p>", ">a|b</td>", ">&lt; 5</td>"]
        {
            assert!(html.contains(wanted), "{wanted} in {html}");
        }
        assert_eq!(plain("[a](b) [c] (d) [e](f)"), "a [c] (d) e");
    }
}
