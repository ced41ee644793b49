//! A received file, which takes its name only when it is complete.
//!
//! A transfer that breaks off keeps its part, `.NAME.PID.part`, or removes it if it is useless: nothing
//! arrived, the disk is full, or the data is wrong.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ackclock_cli::{Failure, NewFile};
use tokio::task::spawn_blocking;

use super::output::{self, Output};

/// Where received data goes.
#[derive(Debug)]
pub(super) enum PartFile {
    Stdout(Arc<File>),
    File(NewFile),
}

impl PartFile {
    /// Creates the file, or stands for stdout if `target` is `-`.
    pub fn create(target: &Path) -> Result<Self, Failure> {
        if target != Path::new("-") {
            return NewFile::begin(target).map(Self::File);
        }
        output::stdout().map(Self::Stdout).map_err(|error| Failure::file("write", target, &error))
    }

    /// A writer from `offset` on.
    pub async fn writer(&self, offset: u64) -> io::Result<Output> {
        let path = match self {
            Self::Stdout(stdout) => return Ok(Output::new(Arc::clone(stdout))),
            Self::File(new) => new.written_to().to_owned(),
        };
        // A pipe may have to wait for its reader.
        let open = move || {
            let mut file = File::options().write(true).open(path)?;
            if offset > 0 {
                file.seek(SeekFrom::Start(offset))?;
            }
            Ok(Output::new(Arc::new(file)))
        };
        spawn_blocking(open).await.map_err(io::Error::other)?
    }

    /// The regular file, to be written from `offset` on; `None` if it is not one.
    pub fn regular(&self, offset: u64) -> io::Result<Option<File>> {
        let Some(new) = self.seekable() else { return Ok(None) };
        let mut file = new.open()?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Some(file))
    }

    /// Whether several writers can write to different places.
    pub fn is_seekable(&self) -> bool {
        self.seekable().is_some()
    }

    /// The number of bytes written, if it is known.
    pub fn len(&self) -> Option<u64> {
        fs::metadata(self.seekable()?.written_to()).ok().map(|metadata| metadata.len())
    }

    /// Leaves the part in place; returns its name, if it has its own.
    pub fn keep(self) -> Option<PathBuf> {
        match self {
            Self::Stdout(_) => None,
            Self::File(new) => new.keep(),
        }
    }

    /// Gives the complete file its name.
    pub fn commit(self) -> Result<(), Failure> {
        match self {
            Self::Stdout(_) => Ok(()),
            Self::File(new) => new.commit(Ok(())),
        }
    }

    /// Why it could not be written.
    pub fn failure(&self, error: &io::Error) -> Failure {
        match self {
            Self::Stdout(_) => Failure::file("write", Path::new("-"), error),
            Self::File(new) => new.failure(error),
        }
    }

    fn seekable(&self) -> Option<&NewFile> {
        match self {
            Self::File(new) if new.is_regular() => Some(new),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn write(part: &PartFile, offset: u64, data: &[u8]) {
        let mut writer = part.writer(offset).await.unwrap();
        writer.write_all(data).await.unwrap();
        writer.flush().await.unwrap();
    }

    #[tokio::test]
    async fn an_existing_file_is_replaced_only_by_a_complete_one() {
        let scratch = tempdir().unwrap();
        let target = scratch.path().join("file");
        fs::write(&target, "old").unwrap();

        let part = PartFile::create(&target).unwrap();
        write(&part, 0, b"incomplete").await;
        drop(part);
        assert_eq!(fs::read(&target).unwrap(), b"old");
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 1);

        let part = PartFile::create(&target).unwrap();
        write(&part, 4, b"5678").await;
        write(&part, 0, b"1234").await;
        assert_eq!(fs::read(&target).unwrap(), b"old");
        part.commit().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"12345678");
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_part_that_is_kept_stays_under_its_own_name() {
        let scratch = tempdir().unwrap();
        let target = scratch.path().join("file");
        fs::write(&target, "old").unwrap();
        let part = PartFile::create(&target).unwrap();
        assert_eq!(part.len(), Some(0));
        write(&part, 0, b"a part").await;
        assert_eq!(part.len(), Some(6));
        let kept = part.keep().unwrap();
        assert_eq!(kept, scratch.path().join(format!(".file.{}.part", std::process::id())));
        assert_eq!(
            (fs::read(&kept).unwrap(), fs::read(&target).unwrap()),
            (b"a part".to_vec(), b"old".to_vec())
        );
    }

    #[tokio::test]
    async fn a_device_is_written_in_place() {
        let part = PartFile::create(Path::new("/dev/null")).unwrap();
        assert!(!part.is_seekable());
        write(&part, 0, b"gone").await;
        part.commit().unwrap();
    }
}
