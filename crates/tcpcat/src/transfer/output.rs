//! Stdout, a pipe or a device: what arrives is written at once.
//!
//! The standard library's stdout keeps the bytes behind the last newline, so a prompt, or the end of a
//! binary message, would wait for bytes that may never come.

use std::fs::File;
use std::future::Future;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;
use tokio::task::{JoinHandle, spawn_blocking};

/// A descriptor that is written without a buffer, one piece while the next one is read.
#[derive(Debug)]
pub(super) struct Output {
    file: Arc<File>,
    /// The memory of the last piece, for the next.
    spare: Vec<u8>,
    writing: Option<JoinHandle<(Vec<u8>, io::Result<()>)>>,
}

/// This process's stdout, past the standard library's buffer.
pub(super) fn stdout() -> io::Result<Arc<File>> {
    Ok(Arc::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
}

/// The bytes that all outputs of this process have taken so far. A slow reader takes its time for a piece,
/// and is not idle.
pub(crate) fn written() -> u64 {
    WRITTEN.load(Ordering::Relaxed)
}

impl Output {
    pub fn new(file: Arc<File>) -> Self {
        Self { file, spare: Vec::new(), writing: None }
    }

    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writing) = &mut self.writing else { return Poll::Ready(Ok(())) };
        let ended = ready!(Pin::new(writing).poll(cx));
        self.writing = None;
        let (spare, result) = ended.map_err(io::Error::other)?;
        self.spare = spare;
        Poll::Ready(result)
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_written(cx))?;
        let mut piece = std::mem::take(&mut this.spare);
        piece.clear();
        piece.extend_from_slice(&buf[..buf.len().min(PIECE_MAX)]);
        let (file, taken) = (Arc::clone(&this.file), piece.len());
        this.writing = Some(spawn_blocking(move || {
            let result = piece.chunks(STEP).try_for_each(|step| {
                (&*file).write_all(step)?;
                WRITTEN.fetch_add(step.len() as u64, Ordering::Relaxed);
                Ok(())
            });
            (piece, result)
        }));
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_written(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// The most that is written at once.
const PIECE_MAX: usize = 256 << 10;

/// Progress is counted in steps of this many bytes.
const STEP: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use std::io::Read;

    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn bytes_without_a_newline_leave_without_a_flush() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut output = Output::new(Arc::new(File::from(std::os::fd::OwnedFd::from(writer))));
        output.write_all(b"login: ").await.unwrap();
        let mut seen = [0; 7];
        let seen = spawn_blocking(move || reader.read_exact(&mut seen).map(|()| seen)).await.unwrap();
        assert_eq!(&seen.unwrap(), b"login: ");
        drop(output);
    }

    #[tokio::test]
    async fn pieces_keep_their_order_and_a_failure_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let data: Vec<u8> = (0..3 * PIECE_MAX + 5).map(|i| (i / 7) as u8).collect();
        let mut output = Output::new(Arc::new(file.reopen().unwrap()));
        output.write_all(&data).await.unwrap();
        output.flush().await.unwrap();
        assert!(std::fs::read(file.path()).unwrap() == data);

        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut output = Output::new(Arc::new(full));
        let written = output.write_all(b"x").await;
        let error = written.and(output.flush().await).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
