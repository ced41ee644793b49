//! What becomes of what was written: for programs that can send less, or something else, when the path is slow.

use std::io;
use std::task::Poll;

use ackclock_core::{Connection, ConnectionId, DeliveryInfo, Instant};

use super::TcpStream;
use crate::error;
use crate::shards::ShardRef;
use crate::state::{Queue, State, is_over};

/// What [`TcpStream::delivered`] waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivered {
    /// Bytes of the stream, from the first on, that the peer has acknowledged: its TCP has them, its program may not have read
    /// them.
    pub bytes: u64,
    /// When the acknowledgement arrived that brought as many, by the stack's clock. What was acknowledged before the stream was
    /// first asked for feedback has the time of the last segment that arrived until then.
    pub at: Instant,
}

/// The figures of a connection's delivery, and when they change: made by [`TcpStream::watch_delivery`].
///
/// It keeps neither the stream nor the stack alive, and may be moved to another task.
#[derive(Clone, Debug)]
pub struct DeliveryWatch {
    shared: ShardRef,
    id: ConnectionId,
    seen: u64,
}

/// Feedback of delivery.
///
/// A program that makes what it sends, as a camera does, can learn what has become of it and send less:
///
/// ```
/// # use ackclock::Stack;
/// # use ackclock_device::memory;
/// use tokio::io::AsyncWriteExt;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (left, right) = memory::pair(memory::Config::default());
/// # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
/// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
/// # let listener = server.listen("10.0.0.2:7".parse()?)?;
/// let mut stream = client.connect("10.0.0.2:7".parse()?).await?;
/// # let (mut accepted, _) = listener.accept().await?;
/// // A write waits while more than 32 KiB have not been sent at all.
/// stream.set_not_sent_lowat(Some(32 << 10))?;
/// stream.write_all(b"a frame").await?;
///
/// let delivered = stream.delivered().await?;
/// assert_eq!((delivered.bytes, stream.not_sent()?), (7, 0));
/// println!("{:?} in queues on the path", stream.delivery()?.queueing_delay);
/// # Ok(()) }
/// ```
impl TcpStream {
    /// Waits until the peer has acknowledged all that was written before this call.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing happens but waiting.
    ///
    /// # Errors
    /// The connection ended in an error: then what was written may be lost. The stack is gone.
    pub async fn delivered(&self) -> io::Result<Delivered> {
        let written = self.look(|connection| match connection.error() {
            Some(error) => Err(error::connection(error)),
            None => Ok(connection.written()),
        })??;
        self.delivered_to(written).await
    }

    /// Waits until the peer has acknowledged the first `offset` bytes of the stream; they need not be written yet. How many were
    /// written so far is in [`delivery`](Self::delivery).
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// The connection ended, in an error or because both ends closed it, before as many were acknowledged.
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe): as many were not written before the sending side was shut down. The stack is gone.
    pub async fn delivered_to(&self, offset: u64) -> io::Result<Delivered> {
        let id = self.id;
        self.shared.wait(Queue::Delivered(id), |state, now| state.poll_delivered(now, id, offset)).await
    }

    /// Bytes that were written and not yet sent for the first time. What is sent and not yet acknowledged is not among them.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn not_sent(&self) -> io::Result<u64> {
        self.look(Connection::not_sent)
    }

    /// The mark that was set with [`set_not_sent_lowat`](Self::set_not_sent_lowat).
    ///
    /// # Errors
    /// The stack is gone.
    pub fn not_sent_lowat(&self) -> io::Result<Option<u32>> {
        self.look(Connection::not_sent_lowat)
    }

    /// Bounds what is written and not yet sent: a write takes no more than leaves `bytes` of it, and one that waits, as
    /// [`writable`](Self::writable) does, goes on once half of that has left. `None`, the default: the send buffer is the bound.
    ///
    /// What lies in the send buffer is what the program can no longer take back; a small mark keeps that short, at the price of a
    /// wake-up for each half of it. It is what `TCP_NOTSENT_LOWAT` is on Linux (in tcp(7) among the options that have no
    /// description yet; since Linux 3.12, and half of it since 4.21), except that there a write may take one packet's
    /// buffer more. Less than two segments counts as two.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn set_not_sent_lowat(&self, bytes: Option<u32>) -> io::Result<()> {
        self.update(|connection, _| connection.set_not_sent_lowat(bytes))
    }

    /// What became of what was written so far, and how fast the path is, by the last acknowledgement.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn delivery(&self) -> io::Result<DeliveryInfo> {
        self.look(Connection::delivery)
    }

    /// Watches the figures of [`delivery`](Self::delivery).
    pub fn watch_delivery(&self) -> DeliveryWatch {
        DeliveryWatch { shared: self.shared.uncounted(), id: self.id, seen: 0 }
    }
}

impl DeliveryWatch {
    /// Waits until an acknowledgement has changed the figures since the last call, and gives the newest ones: several
    /// acknowledgements since then are one change.
    ///
    /// # Cancel safety
    /// Cancel-safe: a change that was not given is given by the next call.
    ///
    /// # Errors
    /// [`NotConnected`](io::ErrorKind::NotConnected) once the stream was dropped; the error in which the connection ended, or
    /// `NotConnected` if it ended without one; the stack is gone.
    pub async fn changed(&mut self) -> io::Result<DeliveryInfo> {
        let (id, seen) = (self.id, self.seen);
        let wait = self.shared.wait(Queue::Delivered(id), |state, now| state.poll_feedback(now, id, seen));
        let (seen, figures) = wait.await?;
        self.seen = seen;
        Ok(figures)
    }

    /// The figures, without waiting.
    ///
    /// # Errors
    /// As those of [`changed`](Self::changed), but that of a connection that ended.
    pub fn get(&self) -> io::Result<DeliveryInfo> {
        self.shared.look(|state| state.connection(self.id).map(Connection::delivery))
    }
}

impl State {
    fn poll_delivered(&mut self, now: Instant, id: ConnectionId, offset: u64) -> Poll<io::Result<Delivered>> {
        let awaited = self.update(now, id, |connection, _| connection.await_delivered(offset))?;
        if let Some((bytes, at)) = awaited {
            return Poll::Ready(Ok(Delivered { bytes, at }));
        }
        let connection = self.connection(id)?;
        match over(connection) {
            Some(error) => Poll::Ready(Err(error)),
            None if connection.is_write_closed() && offset > connection.written() => {
                Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
            }
            None => Poll::Pending,
        }
    }

    fn poll_feedback(
        &mut self,
        now: Instant,
        id: ConnectionId,
        seen: u64,
    ) -> Poll<io::Result<(u64, DeliveryInfo)>> {
        if let Some(changes) = self.update(now, id, |connection, _| connection.await_feedback(seen))? {
            return Poll::Ready(Ok((changes, self.connection(id)?.delivery())));
        }
        match over(self.connection(id)?) {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Pending,
        }
    }
}

/// Why nothing will be acknowledged any more, if so.
fn over(connection: &Connection) -> Option<io::Error> {
    let error = connection.error().map(error::connection);
    error.or_else(|| is_over(connection).then(error::not_connected))
}
