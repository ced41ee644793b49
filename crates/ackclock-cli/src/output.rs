//! The output of a command: text on stdout, files that are complete or absent, a progress bar on a terminal.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::{Exit, Failure, NewFile};

/// Writes to stdout. A reader that has gone away is not a failure; a full disk is.
///
/// # Errors
/// The text could not be written whole, and its reader waits for it.
pub fn print(text: impl fmt::Display) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    printed(write!(out, "{text}").and_then(|()| out.flush()))
}

/// Prints bytes.
///
/// # Errors
/// As [`print()`].
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    printed(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Judges the result of something that prints itself.
///
/// # Errors
/// As [`print()`].
pub fn printed(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::file("write", Path::new("stdout"), &error))
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr; a failure to do so cannot be reported.
pub fn say(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether a file named on the command line means stdin or stdout.
#[must_use]
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes the text for people to stdout, unless the results for programs go there.
///
/// # Errors
/// As [`print()`].
pub fn print_beside(json: Option<&PathBuf>, text: &str) -> Result<(), Failure> {
    if json.is_some_and(|json| is_standard(json)) { Ok(()) } else { print(text) }
}

/// Refuses files that are named twice, where the second would overwrite the first. Each follows its option;
/// input files have an empty one.
///
/// # Errors
/// Two of them are the same file.
pub fn distinct(files: &[(&str, Option<&Path>)]) -> Result<(), Failure> {
    let mut known: Vec<(&str, PathBuf)> = Vec::new();
    // Reading stdin and writing stdout is what `-` is for.
    let reads_stdin = |(option, path): &(&str, &Path)| option.is_empty() && is_standard(path);
    let files = files.iter().filter_map(|(option, path)| Some((*option, (*path)?)));
    for (option, path) in files.filter(|file| !reads_stdin(file)) {
        let file = std::path::absolute(path).map_err(|error| Failure::file("find", path, &error))?;
        let file = fs::canonicalize(&file).unwrap_or(file);
        let clash = |(other, same): &&(&str, PathBuf)| *same == file && [*other, option] != ["", ""];
        if let Some((other, _)) = known.iter().find(clash) {
            let path = path.display();
            return Err(match (*other, option) {
                ("", writes) | (writes, "") => {
                    Failure::usage(format!("{writes} would overwrite {path}, which is read"))
                        .remedy("name another file")
                }
                (other, option) => Failure::usage(format!("{other} and {option} would both write {path}"))
                    .remedy("give each its own file"),
            });
        }
        known.push((option, file));
    }
    Ok(())
}

/// Writes a whole file, first under another name, so that a reader sees the old one or the new one. `-` is
/// stdout.
///
/// # Errors
/// The file cannot be written; if there was one, it stays.
pub fn write_file(path: &Path, contents: &[u8]) -> Result<(), Failure> {
    if is_standard(path) {
        return print_bytes(contents);
    }
    let (new, mut file) = NewFile::create(path)?;
    new.commit(file.write_all(contents))
}

/// Writes a value as JSON with a newline.
///
/// # Errors
/// As [`write_file`], or the value is not JSON.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot write JSON: {error}")))?;
    text.push(b'\n');
    write_file(path, &text)
}

/// A result as JSON: an object that begins with the number of its schema. The number grows when a field
/// changes its meaning or goes; new ones may come.
#[derive(Debug, Serialize)]
pub struct Described<T> {
    schema: u32,
    #[serde(flatten)]
    result: T,
}

impl<T: Serialize> Described<T> {
    /// A result, which must be an object in JSON.
    pub fn new(result: T) -> Self {
        Self { schema: 1, result }
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// As [`write_json`].
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        write_json(path, self)
    }
}

/// Creates a folder and its parents.
///
/// # Errors
/// The system refuses.
pub fn make_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| Failure::file("make the folder", path, &error))
}

/// A progress bar on stderr, if that is a terminal.
#[must_use]
pub fn progress(steps: u64, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {elapsed}, {eta} to go");
    let bar = ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what.to_owned());
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_outputs_to_one_file_are_refused_and_so_is_one_over_an_input() {
        let clash = |files: &[(&str, Option<&Path>)]| distinct(files).map_err(|failure| failure.to_string());
        let (one, same, other) = (Path::new("x"), Path::new("./x"), Path::new("y"));
        assert_eq!(clash(&[("", Some(one)), ("--a", Some(other)), ("--b", None)]), Ok(()));
        assert_eq!(clash(&[("", Some(one)), ("", Some(one)), ("", Some(Path::new("-")))]), Ok(()));
        let refused = clash(&[("--a", Some(one)), ("--b", Some(same))]).unwrap_err();
        assert!(refused.starts_with("--a and --b would both write ./x"), "{refused}");
        let refused = clash(&[("", Some(one)), ("--b", Some(same))]).unwrap_err();
        assert!(refused.starts_with("--b would overwrite ./x, which is read"), "{refused}");
        let stdout = Some(Path::new("-"));
        assert_eq!(clash(&[("", stdout), ("--a", stdout)]), Ok(()));
        assert!(clash(&[("--a", stdout), ("--b", stdout)]).is_err());
    }
}
