//! Snapshots: texts that tests make and keep in files. A change of behaviour is a change of lines; if it was
//! meant, `UPDATE_SNAPSHOTS=1` writes them.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// Compares a text with the one kept in a file.
///
/// # Panics
/// They differ: the message shows the first lines that do. The file cannot be read or written.
pub fn compare(path: impl AsRef<Path>, found: &str) {
    let path = path.as_ref();
    if let Some(difference) = difference(&kept(path, found), found) {
        panic!("{}: if this is meant, run with UPDATE_SNAPSHOTS=1\n{difference}", path.display());
    }
}

/// The text that the file keeps; if asked to, `found` is written there before.
fn kept(path: &Path, found: &str) -> String {
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(path, found).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn difference(kept: &str, found: &str) -> Option<String> {
    if kept == found {
        return None;
    }
    let (was, now): (Vec<_>, Vec<_>) = (kept.lines().collect(), found.lines().collect());
    let mut text = format!("{} lines, and {} now\n", was.len(), now.len());
    let rows = (0..was.len().max(now.len())).map(|row| (row, was.get(row), now.get(row)));
    for (row, was, now) in rows.filter(|(_, was, now)| was != now).take(SHOWN) {
        let line = |line: Option<&&str>| line.map_or("no line", |line| *line).to_owned();
        writeln!(text, "line {}\n  was {}\n  now {}", row + 1, line(was), line(now))
            .expect("a string takes it");
    }
    Some(text)
}

/// How many lines that differ are shown.
const SHOWN: usize = 20;

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn any_change_of_a_text_is_a_difference() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        for (found, shown) in [
            ("a\nc\n", "line 2\n  was b\n  now c\n"),
            ("a\n", "line 2\n  was b\n  now no line\n"),
            ("a\nb\nc\n", "line 3\n  was no line\n  now c\n"),
            ("a\nb", "2 lines, and 2 now\n"),
        ] {
            assert!(difference("a\nb\n", found).unwrap().ends_with(shown), "{found:?}");
        }
        let long = "x\n".repeat(100);
        assert_eq!(difference(&long, "").unwrap().matches("was x").count(), 20);
    }
}
