//! A file that takes its name only when it is complete.
//!
//! Data goes to another file in the same directory, `.NAME.PID.part`, which is renamed over the target at the
//! end. Until then any file with the target's name stays as it was. A transfer that breaks off keeps its part
//! under that name, or removes it if it is useless: nothing arrived, the disk is full, or the data is wrong.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use tokio::io::{AsyncSeekExt, AsyncWrite};

/// Where received data goes.
#[derive(Debug)]
pub(super) struct PartFile {
    target: PathBuf,
    destination: Destination,
}

#[derive(Debug)]
enum Destination {
    Stdout,
    /// A device or a pipe, which cannot be replaced.
    Direct,
    /// The file to rename at the end.
    Beside(PathBuf),
}

impl PartFile {
    /// Creates the file, or stands for stdout if `target` is `-`.
    pub(super) fn create(target: &Path) -> io::Result<Self> {
        if target == Path::new("-") {
            return Ok(Self { target: target.to_owned(), destination: Destination::Stdout });
        }
        // A symbolic link stays: the file that it points to is replaced.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        match fs::metadata(&target) {
            Ok(existing) if existing.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(existing) if !existing.is_file() => {
                return Ok(Self { target, destination: Destination::Direct });
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let name = target.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
        // Leaves room for the rest of the name within the 255 bytes that file systems allow.
        let short: String = name.chars().take(50).collect();
        let beside = target.with_file_name(format!(".{short}.{}.part", std::process::id()));
        OpenOptions::new().write(true).create_new(true).open(&beside)?;
        Ok(Self { target, destination: Destination::Beside(beside) })
    }

    /// A writer from `offset` on.
    pub(super) async fn writer(&self, offset: u64) -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
        let path = match &self.destination {
            Destination::Stdout => return Ok(Box::new(tokio::io::stdout())),
            Destination::Direct => &self.target,
            Destination::Beside(path) => path,
        };
        let mut file = tokio::fs::OpenOptions::new().write(true).open(path).await?;
        if offset > 0 {
            file.seek(SeekFrom::Start(offset)).await?;
        }
        Ok(Box::new(file))
    }

    /// The regular file, to be written from `offset` on; `None` if it is not one.
    pub(super) fn regular(&self, offset: u64) -> io::Result<Option<File>> {
        let Destination::Beside(path) = &self.destination else { return Ok(None) };
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Some(file))
    }

    /// Whether several writers can write to different places.
    pub(super) fn is_seekable(&self) -> bool {
        matches!(self.destination, Destination::Beside(_))
    }

    /// The number of bytes written, if it is known.
    pub(super) fn len(&self) -> Option<u64> {
        let Destination::Beside(path) = &self.destination else { return None };
        fs::metadata(path).ok().map(|metadata| metadata.len())
    }

    /// Leaves the part in place; returns its name, if it has its own.
    pub(super) fn keep(mut self) -> Option<PathBuf> {
        match std::mem::replace(&mut self.destination, Destination::Direct) {
            Destination::Beside(path) => Some(path),
            Destination::Stdout | Destination::Direct => None,
        }
    }

    /// Gives the complete file its name.
    pub(super) fn commit(mut self) -> io::Result<()> {
        let Destination::Beside(path) = &self.destination else { return Ok(()) };
        if let Ok(existing) = fs::metadata(&self.target) {
            fs::set_permissions(path, existing.permissions())?;
        }
        // Some file systems report a full disk only now.
        File::open(path)?.sync_all()?;
        fs::rename(path, &self.target)?;
        self.destination = Destination::Direct;
        Ok(())
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if let Destination::Beside(path) = &self.destination {
            // If it cannot be removed it stays, under a name that explains it.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// A directory that is removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tcpcat-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    async fn write(part: &PartFile, offset: u64, data: &[u8]) {
        let mut writer = part.writer(offset).await.unwrap();
        writer.write_all(data).await.unwrap();
        writer.flush().await.unwrap();
    }

    #[tokio::test]
    async fn an_existing_file_is_replaced_only_by_a_complete_one() {
        let scratch = Scratch::new("replace");
        let target = scratch.0.join("file");
        fs::write(&target, "old").unwrap();

        let part = PartFile::create(&target).unwrap();
        write(&part, 0, b"incomplete").await;
        drop(part);
        assert_eq!(fs::read(&target).unwrap(), b"old");
        assert_eq!(scratch.names(), ["file"]);

        let part = PartFile::create(&target).unwrap();
        write(&part, 4, b"5678").await;
        write(&part, 0, b"1234").await;
        assert_eq!(fs::read(&target).unwrap(), b"old");
        part.commit().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"12345678");
        assert_eq!(scratch.names(), ["file"]);
    }

    #[tokio::test]
    async fn a_part_that_is_kept_stays_under_its_own_name() {
        let scratch = Scratch::new("keep");
        let target = scratch.0.join("file");
        fs::write(&target, "old").unwrap();
        let part = PartFile::create(&target).unwrap();
        assert_eq!(part.len(), Some(0));
        write(&part, 0, b"a part").await;
        assert_eq!(part.len(), Some(6));
        let kept = part.keep().unwrap();
        assert_eq!(kept, scratch.0.join(format!(".file.{}.part", std::process::id())));
        assert_eq!(
            (fs::read(&kept).unwrap(), fs::read(&target).unwrap()),
            (b"a part".to_vec(), b"old".to_vec())
        );
    }

    #[tokio::test]
    async fn a_link_keeps_pointing() {
        let scratch = Scratch::new("link");
        let (real, link) = (scratch.0.join("real"), scratch.0.join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let part = PartFile::create(&link).unwrap();
        write(&part, 0, b"new").await;
        part.commit().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
    }

    #[tokio::test]
    async fn a_device_is_written_in_place() {
        let part = PartFile::create(Path::new("/dev/null")).unwrap();
        assert!(!part.is_seekable());
        write(&part, 0, b"gone").await;
        part.commit().unwrap();
    }

    #[test]
    fn a_directory_is_refused() {
        assert_eq!(PartFile::create(&std::env::temp_dir()).unwrap_err().kind(), ErrorKind::IsADirectory);
    }
}
