//! What a command leaves: words on stdout, files that are complete or not there, tables, a bar on a terminal.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::exit::Failure;

/// Writes to stdout. A reader that has gone away is no failure; a full disk is one.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::file("write", Path::new("stdout"), &error).into())
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr; nobody is left to be told if that fails.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes a whole file: under another name first, so that whoever reads it sees the old one or the new one.
pub(crate) fn write_file(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let replaced = replace(path, contents);
    replaced.map_err(|error| Failure::file("write", path, &error).into())
}

/// Writes a value as JSON with a line's end.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    write_file(path, &text)
}

/// Makes a folder and those above it.
pub(crate) fn make_folder(path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(path).map_err(|error| Failure::file("make the folder", path, &error).into())
}

/// Text in columns: the first to the left, the others to the right.
pub(crate) fn columns<S: AsRef<str>>(head: &[S], rows: &[Vec<String>]) -> String {
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

/// The same as a table of Markdown.
pub(crate) fn markdown_table<S: AsRef<str>>(head: &[S], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<&str>| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(head.iter().map(AsRef::as_ref).collect());
    text += &format!("|{}\n", "---|".repeat(head.len()));
    rows.iter().for_each(|row| text += &line(texts(row)));
    text
}

/// A number with four digits that mean something, and no exponent.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    let rounded = format!("{value:.*}", usize::try_from(digits).unwrap_or(0));
    if rounded.contains('.') {
        rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        rounded
    }
}

/// A bar on stderr, where that is a terminal.
pub(crate) fn progress(steps: u64, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {elapsed}, {eta} to go");
    let bar = ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what.to_owned());
    bar
}

fn texts(row: &[String]) -> Vec<&str> {
    row.iter().map(String::as_str).collect()
}

fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    // A symbolic link stays one; a device or a pipe cannot be replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&target).is_ok_and(|existing| !existing.is_file() && !existing.is_dir()) {
        return File::options().write(true).open(&target)?.write_all(contents);
    }
    let name = target.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
    let beside = target.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(contents)?;
        // Some file systems tell only now that the disk is full.
        file.sync_all()
    });
    let renamed = written.and_then(|()| fs::rename(&beside, &target));
    if renamed.is_err() {
        // If it cannot be removed it stays, under a name that says what it is.
        let _ = fs::remove_file(&beside);
    }
    renamed
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
    fn columns_are_as_wide_as_their_widest() {
        let rows = vec![vec!["a".to_owned(), "1000".to_owned()], vec!["bcd".to_owned(), "2".to_owned()]];
        assert_eq!(columns(&["", "n"], &rows), "        n\na    1000\nbcd     2\n");
        assert_eq!(markdown_table(&["x", "n"], &rows), "| x | n |\n|---|---|\n| a | 1000 |\n| bcd | 2 |\n");
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_beside_it() {
        let folder = std::env::temp_dir().join(format!("tcplab-output-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        // A folder of that name stands in the way of the last step.
        fs::create_dir(folder.join("taken")).unwrap();
        let error = write_file(&folder.join("taken"), b"x").unwrap_err().to_string();
        write_file(&folder.join("free"), b"old").unwrap();
        write_file(&folder.join("free"), b"new").unwrap();
        let free = fs::read(folder.join("free")).unwrap();
        let left = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        assert!(error.starts_with("cannot write"), "{error}");
        assert_eq!((free.as_slice(), left), (b"new".as_slice(), 2));
    }
}
