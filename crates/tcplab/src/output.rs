//! What a command leaves: text on stdout, files that are complete or absent, a progress bar on a terminal.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::exit::Failure;

/// Writes to stdout. A reader that has gone away is not a failure; a full disk is.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes())
}

/// The same with bytes.
pub(crate) fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::file("write", Path::new("stdout"), &error).into())
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr. A failure of that cannot be reported.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether a file named on the command line means stdin or stdout.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes the text for people to stdout, unless the results for programs go there.
pub(crate) fn print_beside(json: Option<&PathBuf>, text: &str) -> anyhow::Result<()> {
    if json.is_some_and(|json| is_standard(json)) { Ok(()) } else { print(text) }
}

/// Refuses files that are named twice, where the second would overwrite the first. Each follows its option;
/// input files have an empty one.
///
/// # Errors
/// Two of them are the same file.
pub(crate) fn distinct(files: &[(&str, Option<&PathBuf>)]) -> anyhow::Result<()> {
    let mut known: Vec<(&str, PathBuf)> = Vec::new();
    // Reading stdin and writing stdout is what `-` is for.
    let reads_stdin = |(option, path): &(&str, &PathBuf)| option.is_empty() && is_standard(path);
    let files = files.iter().filter_map(|(option, path)| Some((*option, (*path)?)));
    for (option, path) in files.filter(|file| !reads_stdin(file)) {
        let file = std::path::absolute(path).map_err(|error| Failure::file("find", path, &error))?;
        let file = fs::canonicalize(&file).unwrap_or(file);
        let clash = |(other, same): &&(&str, PathBuf)| *same == file && [*other, option] != ["", ""];
        if let Some((other, _)) = known.iter().find(clash) {
            let use_of = if other.is_empty() { "is read".to_owned() } else { format!("{other} writes") };
            let message = format!("{option} would overwrite {}, which {use_of}", path.display());
            return Err(Failure::usage(message).remedy("name another file").into());
        }
        known.push((option, file));
    }
    Ok(())
}

/// Writes a whole file, first under another name, so that a reader sees the old one or the new one. `-` is
/// stdout.
pub(crate) fn write_file(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    if is_standard(path) {
        return print_bytes(contents);
    }
    let (new, mut file) = NewFile::create(path)?;
    new.commit(file.write_all(contents))
}

/// Writes a value as JSON with a newline.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    write_file(path, &text)
}

/// Creates a folder and its parents.
pub(crate) fn make_folder(path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(path).map_err(|error| Failure::file("make the folder", path, &error).into())
}

/// A progress bar on stderr, if that is a terminal.
pub(crate) fn progress(steps: u64, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {elapsed}, {eta} to go");
    let bar = ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what.to_owned());
    bar
}

/// A file under construction. It gets its name when it is complete; until then an existing file of that name
/// stays.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    /// With links resolved, so that they stay.
    target: PathBuf,
    /// Where it is written; `None` for a device or a pipe, which cannot be replaced.
    beside: Option<PathBuf>,
}

impl NewFile {
    /// Begins a file. Returns where to write.
    pub(crate) fn create(path: &Path) -> anyhow::Result<(Self, File)> {
        Self::open(path).map_err(|error| Failure::file("write", path, &error).into())
    }

    fn open(path: &Path) -> io::Result<(Self, File)> {
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let existing = fs::metadata(&target);
        if existing.is_ok_and(|existing| !existing.is_file() && !existing.is_dir()) {
            let file = File::options().write(true).open(&target)?;
            return Ok((Self { path: path.to_owned(), target, beside: None }, file));
        }
        let name = target.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
        let beside = target.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let file = File::create(&beside)?;
        Ok((Self { path: path.to_owned(), target, beside: Some(beside) }, file))
    }

    /// Gives the file its name, unless writing has failed.
    pub(crate) fn commit(mut self, written: io::Result<()>) -> anyhow::Result<()> {
        let done = written.and_then(|()| {
            let Some(beside) = &self.beside else { return Ok(()) };
            // Some file systems only report a full disk now.
            File::open(beside)?.sync_all()?;
            fs::rename(beside, &self.target)
        });
        done.map_err(|error| Failure::file("write", &self.path, &error))?;
        self.beside = None;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // If it cannot be removed, it stays under a name that says what it is.
            let _ = fs::remove_file(beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_beside_it() {
        let folder = std::env::temp_dir().join(format!("tcplab-output-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        // A folder of that name makes the last step fail.
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
