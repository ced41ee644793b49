//! Reading and writing without copies: the stream's queues hold slices of the application's memory.

use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::TcpStream;
use crate::shared::{WaitSlot, now_or_would_block};
use crate::state::Queue;

/// Slices instead of copies, next to `AsyncRead` and `AsyncWrite`; one stream can mix both kinds of call.
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
    /// Waits for room, then takes as many bytes as fit off the front of `bytes` without copying them, and
    /// returns their number. The rest stays in `bytes`.
    ///
    /// The stream keeps slices of `bytes` until the peer has acknowledged them, and reads them again for
    /// retransmissions. A short slice (less than 32 KiB) is copied after all: that costs less than a packet
    /// of its own. An empty `bytes` acts as an empty buffer does: nothing is sent, and errors are returned.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future is dropped before it is ready, nothing was taken.
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write), except that it waits.
    pub async fn write_bytes(&mut self, bytes: &mut Bytes) -> io::Result<usize> {
        self.write_bytes_priv(bytes).await
    }

    /// Writes all of `bytes`, part by part, as [`write_bytes`](Self::write_bytes) does.
    ///
    /// # Cancel safety
    /// Cancel-safe: `bytes` holds exactly what was not taken, and another call can write it.
    ///
    /// # Errors
    /// As [`write_bytes`](Self::write_bytes).
    pub async fn write_all_bytes(&mut self, bytes: &mut Bytes) -> io::Result<()> {
        self.write_all_bytes_priv(bytes).await
    }

    /// Like [`write_bytes`](Self::write_bytes), without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is no room; [`io::ErrorKind::BrokenPipe`] after a shutdown;
    /// the connection's error.
    pub fn try_write_bytes(&self, bytes: &mut Bytes) -> io::Result<usize> {
        now_or_would_block(self.shared.call(|state, now| state.write_bytes(now, self.id, bytes)))
    }

    /// Polls for room, and takes as much of `bytes` as [`write_bytes`](Self::write_bytes) does. Only the
    /// waker of the last call of this, `poll_write` or `poll_write_ready` is kept.
    ///
    /// # Errors
    /// As [`write_bytes`](Self::write_bytes).
    pub fn poll_write_bytes(&self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<usize>> {
        let queue = Queue::Write(self.id);
        self.shared.poll(cx, queue, WaitSlot::Poller, |state, now| state.write_bytes(now, self.id, bytes))
    }

    /// Waits for data and takes at most `max` contiguous bytes of one block as a slice. If `max` is not 0, an
    /// empty slice is the end of the stream.
    ///
    /// The slice is part of the block into which the data was received, unless that would use less than half
    /// of the block: then it is a copy, so that a short slice does not keep a large block. While the slice
    /// lives, the caller owns its block (64 KiB) outside the stack's memory budget; the block is reused when
    /// its last slice is dropped.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future is dropped before it is ready, nothing was taken.
    ///
    /// # Errors
    /// The connection's error, once all data received before it has been read.
    pub async fn read_bytes(&mut self, max: usize) -> io::Result<Bytes> {
        self.read_bytes_priv(max).await
    }

    /// Like [`read_bytes`](Self::read_bytes), without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when no data is available; the connection's error.
    pub fn try_read_bytes(&self, max: usize) -> io::Result<Bytes> {
        now_or_would_block(self.shared.call(|state, now| state.read_bytes(now, self.id, max)))
    }

    /// Polls for data, and takes it as [`read_bytes`](Self::read_bytes) does. Only the waker of the last call
    /// of this, `poll_read`, `poll_peek` or `poll_read_ready` is kept.
    ///
    /// # Errors
    /// As [`read_bytes`](Self::read_bytes).
    pub fn poll_read_bytes(&self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        let queue = Queue::Read(self.id);
        self.shared.poll(cx, queue, WaitSlot::Poller, |state, now| state.read_bytes(now, self.id, max))
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
