//! Pages: one description, shown as Markdown and as a self-contained HTML file.

use ackclock_trace::chart::Figure;

use crate::table;

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// What stands above it.
    pub title: String,
    /// From top to bottom.
    pub blocks: Vec<Block>,
}

/// A part of a page. Texts may hold `code` in backticks and **bold** words.
#[derive(Clone, Debug)]
pub enum Block {
    /// A heading of the second level.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// Lines that keep their form.
    Code(String),
    /// A table.
    Table {
        /// Names of the columns.
        head: Vec<String>,
        /// The rows, each as long as `head`.
        rows: Vec<Vec<String>>,
    },
    /// A picture with its caption.
    Picture {
        /// Where its file lies, seen from the page.
        path: String,
        /// What it shows.
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

    /// Adds lines that keep their form.
    pub fn code(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Code(text.into()));
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
            Block::Code(text) => format!("\n```\n{}\n```\n", text.trim_end()),
            Block::Table { head, rows } => format!("\n{}", table::markdown(head, rows)),
            Block::Picture { path, figure } => {
                format!("\n![{}]({path})\n\n{}\n", figure.title, figure.caption)
            }
        });
        format!("# {}\n{}", self.title, blocks.collect::<String>())
    }

    /// The page as an HTML file that needs no other; pictures are drawn into it by `draw`, which makes SVG of a figure.
    #[must_use]
    pub fn html(&self, draw: impl Fn(&Figure) -> String) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        for block in &self.blocks {
            html += &match block {
                Block::Heading(text) => format!("<h2>{}</h2>\n", inline(text)),
                Block::Text(text) => format!("<p>{}</p>\n", inline(text)),
                Block::Code(text) => format!("<pre>{}</pre>\n", escape(text)),
                Block::Table { head, rows } => html_table(head, rows),
                Block::Picture { figure, .. } => format!(
                    "<figure>\n{}\n<figcaption>{}</figcaption>\n</figure>\n",
                    draw(figure),
                    inline(&figure.caption)
                ),
            };
        }
        html + "</body>\n</html>\n"
    }
}

fn html_table(head: &[String], rows: &[Vec<String>]) -> String {
    let row = |cells: &[String], tag: &str| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", inline(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.iter().map(|cells| row(cells, "td")).collect();
    format!("<table>\n<thead>{}</thead>\n<tbody>\n{body}</tbody>\n</table>\n", row(head, "th"))
}

/// Text with `code`, **bold** words and links.
fn inline(text: &str) -> String {
    let marked = |text: String, mark: &str, tag: &str| {
        let parts: Vec<&str> = text.split(mark).collect();
        // A mark that is not closed stands for itself.
        if parts.len().is_multiple_of(2) {
            return text;
        }
        let parts = parts.iter().enumerate();
        parts
            .map(|(n, part)| if n % 2 == 1 { format!("<{tag}>{part}</{tag}>") } else { (*part).to_owned() })
            .collect()
    };
    links(&marked(marked(escape(text), "`", "code"), "**", "strong"))
}

/// `[words](address)` as links.
fn links(text: &str) -> String {
    let Some((before, words, address, after)) = first_link(text) else { return text.to_owned() };
    format!("{before}<a href=\"{address}\">{words}</a>{}", links(after))
}

fn first_link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (start, middle) = text.split_once("](")?;
    let (before, words) = start.rsplit_once('[')?;
    let (address, after) = middle.split_once(')')?;
    Some((before, words, address, after))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222;\
background:#fff}table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}\
th,td{border-bottom:1px solid #ddd;padding:.25rem .75rem;text-align:right;font-variant-numeric:tabular-nums}\
th:first-child,td:first-child{text-align:left}thead{border-bottom:2px solid #888}\
pre,code{font-family:ui-monospace,monospace;background:#f4f4f4}pre{padding:.5rem 1rem;overflow-x:auto}\
figure{margin:1.5rem 0}figure svg{max-width:100%;height:auto}figcaption{color:#555}";

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let mut page = Page::new("a < b");
        page.heading("Values");
        page.text("Made by `tcplab`, **once**; see [this](x.md).");
        page.table(&["name", "n"], vec![vec!["a|b".to_owned(), "< 5".to_owned()]]);
        page.code("one\ntwo\n");
        page
    }

    #[test]
    fn a_page_is_shown_as_markdown() {
        assert_eq!(
            page().markdown(),
            "# a < b\n\n## Values\n\nMade by `tcplab`, **once**; see [this](x.md).\n\n| name | n |\n|---|---|\n\
             | a\\|b | < 5 |\n\n```\none\ntwo\n```\n"
        );
    }

    #[test]
    fn a_page_is_shown_as_html_with_what_is_text_escaped() {
        let html = page().html(|_| String::new());
        for wanted in [
            "<h1>a &lt; b</h1>",
            "<p>Made by <code>tcplab</code>, <strong>once</strong>; see <a href=\"x.md\">this</a>.</p>",
            "<td>a|b</td><td>&lt; 5</td>",
            "<pre>one\ntwo\n</pre>",
        ] {
            assert!(html.contains(wanted), "{wanted} in {html}");
        }
        assert_eq!(inline("2 * 3 ** 4 and `"), "2 * 3 ** 4 and `");
    }
}
