//! Reading and writing without copies: slices of memory change hands, and the stream's queues keep them.

use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::TcpStream;
use crate::shared::{Place, now_or_would_block};
use crate::state::Queue;

/// Slices instead of copies, beside `AsyncRead` and `AsyncWrite`; both kinds of call can be mixed on one stream.
///
/// ```
/// # use ackclock::Stack;
/// # use ackclock_device::memory;
/// use bytes::Bytes;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (left, right) = memory::pair(memory::Config::default());
/// # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
/// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
/// # let listener = server.listen("10.0.0.2:7".parse()?)?;
/// # let mut stream = client.connect("10.0.0.2:7".parse()?).await?;
/// # let (mut accepted, _) = listener.accept().await?;
/// let file = Bytes::from(vec![7; 100_000]);
/// stream.write_all_bytes(&mut file.clone()).await?;
///
/// let mut received = 0;
/// while received < file.len() {
///     let part = accepted.read_bytes(usize::MAX).await?;
///     assert_eq!(part, file[received..received + part.len()]);
///     received += part.len();
/// }
/// # Ok(()) }
/// ```
impl TcpStream {
    /// Waits until there is room, and takes as much of `bytes` as there is room for off its front, without copying it:
    /// returns how many bytes. What is not taken stays in `bytes`.
    ///
    /// The stream keeps slices of `bytes` until the peer has acknowledged them, and reads them again if they have to be sent
    /// again. A short slice (less than 32 KiB) is copied after all: that costs less than a packet of its own. An empty
    /// `bytes` is written as an empty buffer is: nothing is sent, and errors are returned.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future is dropped before it is ready, nothing was taken.
    ///
    /// # Errors
    /// As those of [`try_write`](Self::try_write), but that it waits.
    pub async fn write_bytes(&mut self, bytes: &mut Bytes) -> io::Result<usize> {
        self.write_bytes_priv(bytes).await
    }

    /// Writes all of `bytes`, as [`write_bytes`](Self::write_bytes) does, part by part.
    ///
    /// # Cancel safety
    /// Cancel-safe: what was taken is no longer in `bytes`, and what is still there can be written by another call.
    ///
    /// # Errors
    /// As [`write_bytes`](Self::write_bytes).
    pub async fn write_all_bytes(&mut self, bytes: &mut Bytes) -> io::Result<()> {
        self.write_all_bytes_priv(bytes).await
    }

    /// Like [`write_bytes`](Self::write_bytes), without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is no room; [`io::ErrorKind::BrokenPipe`] after a shutdown; the
    /// connection's error.
    pub fn try_write_bytes(&self, bytes: &mut Bytes) -> io::Result<usize> {
        now_or_would_block(self.shared.call(|state, now| state.write_bytes(now, self.id, bytes)))
    }

    /// Polls for room, and takes as much of `bytes` as [`write_bytes`](Self::write_bytes) does. Only the waker of the last call
    /// of this, `poll_write` or `poll_write_ready` is kept.
    ///
    /// # Errors
    /// As [`write_bytes`](Self::write_bytes).
    pub fn poll_write_bytes(&self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<usize>> {
        let queue = Queue::Write(self.id);
        self.shared.poll(cx, queue, Place::Poller, |state, now| state.write_bytes(now, self.id, bytes))
    }

    /// Waits for data and takes at most `max` bytes of it, in one slice: what lies behind each other in one block. For a `max`
    /// that is not 0, an empty slice is the end of the stream.
    ///
    /// The slice is the block that the data was received into, unless less than half of that would be in use: then it is a
    /// copy, so that a short slice keeps no large block. While the slice lives, its block (64 KiB) is the caller's, outside
    /// of the stack's memory budget; it is used again when the last slice of it is dropped.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future is dropped before it is ready, nothing was taken.
    ///
    /// # Errors
    /// The connection's error, once all that was received before has been read.
    pub async fn read_bytes(&mut self, max: usize) -> io::Result<Bytes> {
        self.read_bytes_priv(max).await
    }

    /// Like [`read_bytes`](Self::read_bytes), without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when nothing is there; the connection's error.
    pub fn try_read_bytes(&self, max: usize) -> io::Result<Bytes> {
        now_or_would_block(self.shared.call(|state, now| state.read_bytes(now, self.id, max)))
    }

    /// Polls for data, and takes it as [`read_bytes`](Self::read_bytes) does. Only the waker of the last call of this,
    /// `poll_read`, `poll_peek` or `poll_read_ready` is kept.
    ///
    /// # Errors
    /// As [`read_bytes`](Self::read_bytes).
    pub fn poll_read_bytes(&self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        let queue = Queue::Read(self.id);
        self.shared.poll(cx, queue, Place::Poller, |state, now| state.read_bytes(now, self.id, max))
    }

    pub(super) async fn write_bytes_priv(&self, bytes: &mut Bytes) -> io::Result<usize> {
        let id = self.id;
        self.shared.wait(Queue::Write(id), |state, now| state.write_bytes(now, id, bytes)).await
    }

    pub(super) async fn write_all_bytes_priv(&self, bytes: &mut Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            self.write_bytes_priv(bytes).await?;
        }
        Ok(())
    }

    pub(super) async fn read_bytes_priv(&self, max: usize) -> io::Result<Bytes> {
        let id = self.id;
        self.shared.wait(Queue::Read(id), |state, now| state.read_bytes(now, id, max)).await
    }
}
