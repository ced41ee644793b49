//! A file that takes its name only when it is complete.
//!
//! Data goes to another file in the same directory, `.NAME.PID.part`, which is renamed over the target at the
//! end. Until then any file with the target's name stays as it was.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file under construction. Dropped before [`NewFile::commit`], it leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    /// As the user names it.
    path: PathBuf,
    /// With links resolved, so that they stay.
    target: PathBuf,
    /// Where it is written; `None` for a device or a pipe, which cannot be replaced.
    beside: Option<PathBuf>,
}

impl NewFile {
    /// Begins a file, and opens it for writing.
    ///
    /// # Errors
    /// The file cannot be created there.
    pub fn create(path: &Path) -> Result<(Self, File), Failure> {
        let new = Self::begin(path)?;
        let file = new.open().map_err(|error| new.failure(&error))?;
        Ok((new, file))
    }

    /// Begins a file. A device or a pipe is not opened yet: its reader would see an end.
    ///
    /// # Errors
    /// The file cannot be created there.
    pub fn begin(path: &Path) -> Result<Self, Failure> {
        Self::placed(path).map_err(|error| Failure::file("write", path, &error))
    }

    fn placed(path: &Path) -> io::Result<Self> {
        // A symbolic link stays: the file that it points to is replaced.
        let target = destination(path)?;
        let mut new = Self { path: path.to_owned(), target, beside: None };
        let exists = match fs::metadata(&new.target) {
            Ok(existing) if existing.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(existing) if !existing.is_file() => return Ok(new),
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        let name = new.target.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
        new.beside = Some(create_beside(&new.target, &name, exists)?);
        Ok(new)
    }

    /// Opens it for writing, from its beginning.
    ///
    /// # Errors
    /// The system refuses.
    pub fn open(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.written_to())
    }

    /// Where its data goes until it is complete.
    #[must_use]
    pub fn written_to(&self) -> &Path {
        self.beside.as_deref().unwrap_or(&self.target)
    }

    /// Whether it is a regular file, in which any offset can be written.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        self.beside.is_some()
    }

    /// Why it could not be written.
    #[must_use]
    pub fn failure(&self, error: &io::Error) -> Failure {
        let failure = Failure::file("write", &self.path, error);
        let remedy = match failure.help() {
            Some(help) if is_full(error) && self.is_regular() && self.target.exists() => {
                format!("{help}; the old file is untouched")
            }
            _ => return failure,
        };
        failure.remedy(remedy)
    }

    /// Leaves the part in place; returns its name, if it has its own.
    #[must_use]
    pub fn keep(mut self) -> Option<PathBuf> {
        self.beside.take()
    }

    /// Gives the file its name, unless writing has failed. It is on the disk then. If it is complete and
    /// cannot have its name, it stays beside, and the failure says where.
    ///
    /// # Errors
    /// `written` is one, or the file cannot be completed.
    pub fn commit(mut self, written: io::Result<()>) -> Result<(), Failure> {
        written.and_then(|()| self.sync()).map_err(|error| self.failure(&error))?;
        let Err(error) = self.take_name() else {
            self.beside = None;
            return Ok(());
        };
        let failure = self.failure(&error);
        Err(match self.beside.take_if(|part| part.exists()) {
            Some(part) => failure.after(&format!("the complete file is in {}", part.display())),
            None => failure,
        })
    }

    /// Some file systems report a full disk only now.
    fn sync(&self) -> io::Result<()> {
        self.beside.as_ref().map_or(Ok(()), |beside| File::open(beside)?.sync_all())
    }

    fn take_name(&self) -> io::Result<()> {
        let Some(beside) = &self.beside else { return Ok(()) };
        match fs::metadata(&self.target) {
            Ok(existing) => inherit(beside, &existing)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        fs::rename(beside, &self.target)?;
        // The name is durable once its directory is. Not every file system can do that.
        let directory = self.target.parent().filter(|path| *path != Path::new("")).unwrap_or(Path::new("."));
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

/// Gives a new file the owner and the permissions of the one that it replaces. Where the group cannot be
/// kept, another group gets no more than everybody.
#[cfg(unix)]
fn inherit(beside: &Path, existing: &fs::Metadata) -> io::Result<()> {
    let kept = chown(beside, Some(existing.uid()), Some(existing.gid()))
        .or_else(|_| chown(beside, None, Some(existing.gid())))
        .is_ok();
    // A program that runs as its owner is not replaced by another one.
    let mode = existing.mode() & 0o777;
    let mode = if kept { mode } else { mode & !0o070 | mode & (mode & 0o007) << 3 };
    fs::set_permissions(beside, fs::Permissions::from_mode(mode))
}

/// Elsewhere a file inherits its owner and rights from its folder. Only its read-only flag is its own.
#[cfg(not(unix))]
fn inherit(beside: &Path, existing: &fs::Metadata) -> io::Result<()> {
    fs::set_permissions(beside, existing.permissions())
}

/// The file that a name leads to, even if it is a link to a file that does not exist yet.
fn destination(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::canonicalize(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return found,
        }
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // If it cannot be removed it stays, under a name that explains it.
            let _ = fs::remove_file(beside);
        }
    }
}

/// Creates `.NAME.PID.part`, or `.NAME.PID-2.part` and so on if an earlier process of this number left one.
/// A new file may replace a private one, so only its owner can read it until the end.
fn create_beside(target: &Path, name: &str, replaces: bool) -> io::Result<PathBuf> {
    let options = for_new_part(replaces);
    // Leaves room for the rest of the name within the 255 bytes that file systems allow.
    let short: String = name.chars().take(50).collect();
    let pid = std::process::id();
    let mut tried = 1;
    loop {
        let number = if tried == 1 { String::new() } else { format!("-{tried}") };
        let beside = target.with_file_name(format!(".{short}.{pid}{number}.part"));
        match options.open(&beside) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && tried < PARTS_MAX => tried += 1,
            created => return created.map(|_| beside),
        }
    }
}

#[cfg(unix)]
fn for_new_part(replaces: bool) -> OpenOptions {
    let mode = if replaces { 0o600 } else { 0o666 };
    OpenOptions::new().write(true).create_new(true).mode(mode).clone()
}

#[cfg(not(unix))]
fn for_new_part(_: bool) -> OpenOptions {
    OpenOptions::new().write(true).create_new(true).clone()
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// How many links in a row are followed, as Linux does.
const LINKS_MAX: usize = 40;

/// How many parts of one name and process number may lie beside a file.
const PARTS_MAX: u32 = 100;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tempfile::{TempDir, tempdir};

    use super::*;

    fn names(directory: &TempDir) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        fs::read_dir(directory).unwrap().map(name).collect()
    }

    #[test]
    fn an_existing_file_is_replaced_only_by_a_complete_one() {
        let scratch = tempdir().unwrap();
        let target = scratch.path().join("file");
        fs::write(&target, "old").unwrap();

        let (new, mut file) = NewFile::create(&target).unwrap();
        file.write_all(b"incomplete").unwrap();
        drop(new);
        assert_eq!((fs::read(&target).unwrap(), names(&scratch)), (b"old".to_vec(), vec!["file".to_owned()]));

        let (new, mut file) = NewFile::create(&target).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"old");
        new.commit(Ok(())).unwrap();
        assert_eq!((fs::read(&target).unwrap(), names(&scratch)), (b"new".to_vec(), vec!["file".to_owned()]));
    }

    #[test]
    fn a_full_disk_leaves_the_old_file_and_says_so() {
        let scratch = tempdir().unwrap();
        let target = scratch.path().join("file");
        let full = || Err(io::Error::from_raw_os_error(libc::ENOSPC));
        let failure = NewFile::create(&target).unwrap().0.commit(full()).unwrap_err().to_string();
        assert!(failure.ends_with("and run it again"), "{failure}");
        fs::write(&target, "old").unwrap();
        let failure = NewFile::create(&target).unwrap().0.commit(full()).unwrap_err().to_string();
        assert!(failure.contains("df -h") && failure.ends_with("; the old file is untouched"), "{failure}");
        assert_eq!((fs::read(&target).unwrap(), names(&scratch)), (b"old".to_vec(), vec!["file".to_owned()]));
    }

    #[test]
    fn a_part_that_is_kept_stays_under_its_own_name_and_a_second_beside_it() {
        let scratch = tempdir().unwrap();
        let target = scratch.path().join("file");
        let pid = std::process::id();
        let names = [format!(".file.{pid}.part"), format!(".file.{pid}-2.part")];
        for name in &names {
            let (new, mut file) = NewFile::create(&target).unwrap();
            file.write_all(name.as_bytes()).unwrap();
            assert_eq!(new.keep().unwrap(), scratch.path().join(name));
        }
        for name in &names {
            assert_eq!(fs::read(scratch.path().join(name)).unwrap(), name.as_bytes());
        }
    }

    #[test]
    fn a_link_keeps_pointing_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let scratch = tempdir().unwrap();
        let (real, link) = (scratch.path().join("real"), scratch.path().join("link"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&real, &link).unwrap();
        let (new, mut file) = NewFile::create(&link).unwrap();
        new.commit(file.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn what_replaces_a_private_file_is_private_from_the_beginning() {
        let scratch = tempdir().unwrap();
        let target = scratch.path().join("file");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        for own in [0o600, 0o640, 0o4755] {
            fs::write(&target, "old").unwrap();
            fs::set_permissions(&target, fs::Permissions::from_mode(own)).unwrap();
            let (new, mut file) = NewFile::create(&target).unwrap();
            assert_eq!(mode(new.written_to()), 0o600, "{own:o}");
            new.commit(file.write_all(b"new")).unwrap();
            assert_eq!(mode(&target), own & 0o777, "{own:o}");
        }
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_yet_stays_a_link() {
        let scratch = tempdir().unwrap();
        let (real, link) = (scratch.path().join("real"), scratch.path().join("link"));
        std::os::unix::fs::symlink("real", &link).unwrap();
        let (new, mut file) = NewFile::create(&link).unwrap();
        new.commit(file.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");

        let (one, other) = (scratch.path().join("one"), scratch.path().join("other"));
        std::os::unix::fs::symlink(&one, &other).unwrap();
        std::os::unix::fs::symlink(&other, &one).unwrap();
        assert_eq!(NewFile::create(&one).unwrap_err().exit().code(), 6);
    }

    #[test]
    fn a_complete_file_that_cannot_have_its_name_stays_and_is_named() {
        let scratch = tempdir().unwrap();
        let target = scratch.path().join("file");
        let (new, mut file) = NewFile::create(&target).unwrap();
        file.write_all(b"new").unwrap();
        let part = new.written_to().to_owned();
        fs::create_dir(&target).unwrap();
        let failure = new.commit(Ok(())).unwrap_err();
        assert_eq!(failure.exit().code(), 6);
        assert!(failure.to_string().contains(&part.display().to_string()), "{failure}");
        assert_eq!(fs::read(&part).unwrap(), b"new");

        // Where the directory has gone, the file has gone with it.
        let directory = scratch.path().join("directory");
        fs::create_dir(&directory).unwrap();
        let (new, _) = NewFile::create(&directory.join("file")).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        let failure = new.commit(Ok(())).unwrap_err();
        assert!(!failure.to_string().contains("complete file"), "{failure}");
    }

    #[test]
    fn a_device_is_written_in_place() {
        let (new, mut file) = NewFile::create(Path::new("/dev/full")).unwrap();
        assert!(!new.is_regular());
        let failure = new.commit(file.write_all(b"x")).unwrap_err();
        assert_eq!(failure.exit().code(), 6);
        assert!(!failure.to_string().contains("untouched"), "{failure}");
    }

    #[test]
    fn a_directory_is_refused() {
        let failure = NewFile::create(&std::env::temp_dir()).unwrap_err();
        assert_eq!((failure.exit().code(), failure.help()), (6, Some("name a file in that directory")));
    }
}
