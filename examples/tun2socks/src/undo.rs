//! Changes of the host that are taken back, even by the next start if this one is killed.
//!
//! Each change is written down before it is made, in a file with one line for what takes it back. The file is
//! locked while its gateway runs. The next gateway that finds it without a lock takes the changes back first.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

/// The changes made so far. Dropped, they are taken back.
#[derive(Debug)]
pub(crate) struct Changes {
    path: PathBuf,
    file: File,
    undo: Vec<Undo>,
}

/// The reversal of a change: one line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// Arguments of `ip`.
    Ip(Vec<String>),
    /// The old value of a setting under `/proc/sys`.
    Setting { name: String, value: String },
}

/// Why the host could not be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ChangeError {
    #[error("{0} cannot be written, and without it nothing is taken back after a crash: {1}; give --state")]
    File(PathBuf, io::Error),
    #[error("a gateway that runs has {0}: choose another --device or --state")]
    Locked(PathBuf),
    #[error("`ip {command}` failed: {said}")]
    Ip { command: String, said: String },
    #[error("`ip` of iproute2, which --configure needs, cannot be run: {0}")]
    NoIp(io::Error),
    #[error("the setting {0} cannot be changed: {1}")]
    Setting(String, io::Error),
}

impl Changes {
    /// Opens the file, and first takes back the changes that a killed gateway has left. Returns how many
    /// there were.
    pub(crate) fn begin(path: &Path) -> Result<(Self, usize), ChangeError> {
        let unusable = |error| ChangeError::File(path.to_owned(), error);
        let mut options = File::options();
        options
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
        let mut file = options.open(path).map_err(unusable)?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        // Its owner may have removed it between the two.
        let is_there = || io::Result::Ok(fs::metadata(path)?.ino() == file.metadata()?.ino());
        if !locked || !is_there().unwrap_or(false) {
            return Err(ChangeError::Locked(path.to_owned()));
        }
        // It may be older than this program.
        file.set_permissions(Permissions::from_mode(0o600)).map_err(unusable)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(unusable)?;
        // The last line may be cut: then its change was not made.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let undo: Vec<Undo> = whole.lines().filter_map(Undo::parse).collect();
        let left = undo.len();
        let mut changes = Self { path: path.to_owned(), file, undo };
        changes.take_back();
        Ok((changes, left))
    }

    /// Runs `ip` with these arguments. An entry that exists already is left alone, now and at the end.
    pub(crate) fn ip(&mut self, command: &str, undo: &str) -> Result<(), ChangeError> {
        let undo = Undo::Ip(words(undo));
        self.note(&undo)?;
        match ip(&words(command)) {
            Err(ChangeError::Ip { said, .. }) if said.contains("File exists") => {
                let kept = self.undo.pop();
                debug_assert_eq!(kept, Some(undo));
                self.rewrite()
            }
            done => done,
        }
    }

    /// Changes a setting under `/proc/sys`, unless it has that value.
    pub(crate) fn setting(&mut self, name: &str, value: &str) -> Result<(), ChangeError> {
        let failed = |error| ChangeError::Setting(name.to_owned(), error);
        let path = Path::new("/proc/sys").join(name);
        let old = fs::read_to_string(&path).map_err(failed)?.trim().to_owned();
        if old == value {
            return Ok(());
        }
        self.note(&Undo::Setting { name: name.to_owned(), value: old })?;
        fs::write(path, value).map_err(failed)
    }

    fn note(&mut self, undo: &Undo) -> Result<(), ChangeError> {
        let noted = writeln!(self.file, "{}", undo.line());
        noted.map_err(|error| ChangeError::File(self.path.clone(), error))?;
        self.undo.push(undo.clone());
        Ok(())
    }

    fn rewrite(&mut self) -> Result<(), ChangeError> {
        let text: String = self.undo.iter().map(|undo| undo.line() + "\n").collect();
        let written = self.file.set_len(0).and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|error| ChangeError::File(self.path.clone(), error))
    }

    /// Takes everything back, the last change first. Entries that have already gone, as with the device, are
    /// ignored.
    fn take_back(&mut self) {
        for undo in self.undo.drain(..).rev() {
            undo.run();
        }
        // The file is ours, and locked.
        self.file.set_len(0).ok();
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.take_back();
        fs::remove_file(&self.path).ok();
    }
}

impl Undo {
    fn line(&self) -> String {
        match self {
            Self::Ip(arguments) => format!("ip {}", arguments.join(" ")),
            Self::Setting { name, value } => format!("set {name} {value}"),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ')? {
            ("ip", arguments) => Some(Self::Ip(words(arguments))),
            ("set", rest) => {
                let (name, value) = rest.split_once(' ')?;
                let is_setting = !name.split('/').any(|part| part.is_empty() || part == "..");
                is_setting.then(|| Self::Setting { name: name.to_owned(), value: value.to_owned() })
            }
            _ => None,
        }
    }

    fn run(self) {
        match self {
            Self::Ip(arguments) => drop(ip(&arguments)),
            Self::Setting { name, value } => drop(fs::write(Path::new("/proc/sys").join(name), value)),
        }
    }
}

/// Runs `ip` of iproute2.
pub(crate) fn ip(arguments: &[String]) -> Result<(), ChangeError> {
    let output = Command::new("ip").args(arguments).output().map_err(ChangeError::NoIp)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(ChangeError::Ip { command: arguments.join(" "), said })
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_it_was_made_from() {
        let setting = Undo::Setting { name: "net/ipv4/conf/all/src_valid_mark".into(), value: "0".into() };
        for undo in [Undo::Ip(words("-4 rule del pref 7426")), setting] {
            assert_eq!(Undo::parse(&undo.line()), Some(undo));
        }
        for wrong in ["", "ip", "set", "set x", "set ../../etc/x 1", "set /etc/passwd 1", "rm -rf /"] {
            assert_eq!(Undo::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn one_gateway_has_the_file_and_the_next_finds_what_a_killed_one_left() {
        let path = std::env::temp_dir().join(format!("tun2socks-undo-{}", std::process::id()));
        // A line that was cut, and one whose undoing fails.
        fs::write(&path, "ip -4 rule del pref 4294967295\nip -4 rule d").unwrap();
        let (changes, left) = Changes::begin(&path).unwrap();
        assert_eq!(left, 1);
        assert!(matches!(Changes::begin(&path), Err(ChangeError::Locked(_))));
        drop(changes);
        assert!(!path.exists());
    }
}
