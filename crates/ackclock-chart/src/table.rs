//! Numbers and tables as text.

/// Text in columns: the first left-aligned, the others right-aligned.
#[must_use]
pub fn columns<S: AsRef<str>>(head: &[S], rows: &[Vec<String>]) -> String {
    let first: Vec<&str> = head.iter().map(AsRef::as_ref).collect();
    let all: Vec<Vec<&str>> = std::iter::once(first).chain(rows.iter().map(|row| texts(row))).collect();
    let count = all.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in &all {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            line += &match column {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Formats a table of Markdown.
#[must_use]
pub fn markdown<S: AsRef<str>>(head: &[S], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<&str>| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(head.iter().map(AsRef::as_ref).collect());
    text += &format!("|{}\n", "---|".repeat(head.len()));
    rows.iter().for_each(|row| text += &line(texts(row)));
    text
}

/// A number with four significant digits and no exponent.
#[must_use]
pub fn number(value: f64) -> String {
    digits(value, 4)
}

/// A rate given in bytes a second, as bits a second.
#[must_use]
pub fn bit_rate(bytes_per_second: f64) -> String {
    let bits = bytes_per_second * 8.0;
    let units = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
    let (factor, unit) = units.into_iter().find(|(factor, _)| bits >= *factor).unwrap_or((1.0, "bit/s"));
    format!("{} {unit}", digits(bits / factor, 3))
}

/// A time given in seconds, as milliseconds.
#[must_use]
pub fn millis(seconds: f64) -> String {
    format!("{} ms", digits(seconds * 1e3, 3))
}

/// A share as a percentage.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0, 3))
}

fn digits(value: f64, count: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let places = count - 1 - value.abs().log10().floor() as i32;
    let rounded = format!("{value:.*}", usize::try_from(places.min(12)).unwrap_or(0));
    if rounded.contains('.') {
        rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        rounded
    }
}

fn texts(row: &[String]) -> Vec<&str> {
    row.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_digits() {
        let shown = [0.0, 0.012_345, 1.0, 12.5, 1234.56, 123_456.7, -0.5].map(number);
        assert_eq!(shown, ["0", "0.01235", "1", "12.5", "1235", "123457", "-0.5"]);
    }

    #[test]
    fn quantities_have_their_units() {
        assert_eq!(
            [0.0, 50.0, 125_000.0, 1.5e9].map(bit_rate),
            ["0 bit/s", "400 bit/s", "1 Mbit/s", "12 Gbit/s"]
        );
        assert_eq!((millis(0.0301), percent(0.123_45)), ("30.1 ms".to_owned(), "12.3 %".to_owned()));
    }

    #[test]
    fn columns_are_as_wide_as_their_widest() {
        let rows = vec![vec!["a".to_owned(), "1000".to_owned()], vec!["bcd".to_owned(), "2".to_owned()]];
        assert_eq!(columns(&["", "n"], &rows), "        n\na    1000\nbcd     2\n");
        assert_eq!(markdown(&["x", "n"], &rows), "| x | n |\n|---|---|\n| a | 1000 |\n| bcd | 2 |\n");
    }
}
