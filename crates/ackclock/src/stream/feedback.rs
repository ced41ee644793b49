//! How far the peer has received what was written, for programs that can send less, or something else, when
//! the path is slow.

use std::io;
use std::task::Poll;

use ackclock_core::{Connection, ConnectionId, DeliveryInfo, Instant};

use super::TcpStream;
use crate::error;
use crate::shards::ShardRef;
use crate::state::{Queue, StackState, is_over};

/// The result of [`TcpStream::delivered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivered {
    /// Bytes from the start of the stream that the peer has acknowledged. Its TCP has them; its program may
    /// not have read them yet.
    pub bytes: u64,
    /// When the acknowledgement that completed these bytes arrived, by the stack's clock. For bytes
    /// acknowledged before the stream was first asked for feedback, it is when the last segment before that
    /// call arrived.
    pub at: Instant,
}

/// Watches a connection's delivery figures: made by [`TcpStream::watch_delivery`].
///
/// It keeps neither the stream nor the stack alive, and may be moved to another task.
#[derive(Clone, Debug)]
pub struct DeliveryWatch {
    shared: ShardRef,
    id: ConnectionId,
    seen: u64,
}

/// Delivery feedback.
///
/// A program that produces data as it goes, as a camera does, can see how much has arrived and send less:
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
/// // A write waits while more than 32 KiB is still unsent.
/// stream.set_not_sent_lowat(Some(32 << 10))?;
/// stream.write_all(b"a frame").await?;
///
/// let delivered = stream.delivered().await?;
/// assert_eq!((delivered.bytes, stream.not_sent()?), (7, 0));
/// println!("{:?} in queues on the path", stream.delivery()?.queueing_delay);
/// # Ok(()) }
/// ```
impl TcpStream {
    /// Waits until the peer has acknowledged everything written before this call.
    ///
    /// # Cancel safety
    /// Cancel-safe: the call only waits.
    ///
    /// # Errors
    /// The connection ended with an error, and written data may be lost; or the stack is gone.
    pub async fn delivered(&self) -> io::Result<Delivered> {
        let written = self.look(|connection| match connection.error() {
            Some(error) => Err(error::connection(error)),
            None => Ok(connection.written()),
        })??;
        self.delivered_to(written).await
    }

    /// Waits until the peer has acknowledged the first `offset` bytes of the stream, which need not be
    /// written yet. [`delivery`](Self::delivery) says how many bytes were written so far.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// The connection ended, with an error or because both ends closed it, before that many bytes were
    /// acknowledged. [`BrokenPipe`](io::ErrorKind::BrokenPipe): the sending side was shut down before that
    /// many bytes were written. The stack is gone.
    pub async fn delivered_to(&self, offset: u64) -> io::Result<Delivered> {
        let id = self.id;
        let queue = Queue::Delivered(id, offset);
        self.shared.wait(queue, |state, now| poll_delivered(state, now, id, offset)).await
    }

    /// Bytes that were written but never sent. Bytes in flight do not count.
    ///
    /// # Errors
    /// The stack is gone.
    #[doc(alias = "SIOCOUTQNSD")]
    pub fn not_sent(&self) -> io::Result<u64> {
        self.look(Connection::not_sent)
    }

    /// The low-water mark set with [`set_not_sent_lowat`](Self::set_not_sent_lowat).
    ///
    /// # Errors
    /// The stack is gone.
    pub fn not_sent_lowat(&self) -> io::Result<Option<u32>> {
        self.look(Connection::not_sent_lowat)
    }

    /// Bounds the bytes that are written but not yet sent. A write takes no more than keeps them within
    /// `bytes`; a writer that waits, as in [`writable`](Self::writable), continues once half of that has been
    /// sent. `None`, the default: only the send buffer limits a write.
    ///
    /// A program cannot take back what is in the send buffer. A small mark keeps that backlog short, at the
    /// cost of one wake-up for each half of it. Linux's `TCP_NOTSENT_LOWAT` does the same (tcp(7) lists it
    /// among the options without a description; since Linux 3.12, and half of it since 4.21), except that a
    /// write there may take one packet's buffer more. A mark below two segments counts as two.
    ///
    /// # Errors
    /// The stack is gone.
    #[doc(alias = "TCP_NOTSENT_LOWAT")]
    pub fn set_not_sent_lowat(&self, bytes: Option<u32>) -> io::Result<()> {
        self.update(|connection, _| connection.set_not_sent_lowat(bytes))
    }

    /// Delivery so far and the speed of the path, as of the last acknowledgement.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn delivery(&self) -> io::Result<DeliveryInfo> {
        self.look(Connection::delivery)
    }

    /// Watches the figures that [`delivery`](Self::delivery) returns.
    pub fn watch_delivery(&self) -> DeliveryWatch {
        DeliveryWatch { shared: self.shared.uncounted(), id: self.id, seen: 0 }
    }
}

impl DeliveryWatch {
    /// Waits until an acknowledgement has changed the figures since the last call, and returns the newest
    /// ones. Several acknowledgements in between count as one change.
    ///
    /// # Cancel safety
    /// Cancel-safe: the next call returns a change that this one did not.
    ///
    /// # Errors
    /// [`NotConnected`](io::ErrorKind::NotConnected) once the stream is dropped; the connection's error, or
    /// `NotConnected` if it ended without one; the stack is gone.
    pub async fn changed(&mut self) -> io::Result<DeliveryInfo> {
        let (id, seen) = (self.id, self.seen);
        let queue = Queue::Changed(id, seen);
        let wait = self.shared.wait(queue, |state, now| poll_feedback(state, now, id, seen));
        let (seen, figures) = wait.await?;
        self.seen = seen;
        Ok(figures)
    }

    /// The figures, without waiting.
    ///
    /// # Errors
    /// Those of [`changed`](Self::changed), except for the end of the connection.
    pub fn get(&self) -> io::Result<DeliveryInfo> {
        self.shared.look(|state| state.connection(self.id).map(Connection::delivery))
    }
}

fn poll_delivered(
    state: &mut StackState,
    now: Instant,
    id: ConnectionId,
    offset: u64,
) -> Poll<io::Result<Delivered>> {
    let awaited = state.update(now, id, |connection, _| connection.await_delivered(offset))?;
    match awaited {
        Some((bytes, at)) => Poll::Ready(Ok(Delivered { bytes, at })),
        None => undeliverable(state.connection(id)?, offset)
            .map_or(Poll::Pending, |error| Poll::Ready(Err(error))),
    }
}

fn poll_feedback(
    state: &mut StackState,
    now: Instant,
    id: ConnectionId,
    seen: u64,
) -> Poll<io::Result<(u64, DeliveryInfo)>> {
    if let Some(changes) = state.update(now, id, |connection, _| connection.await_feedback(seen))? {
        return Poll::Ready(Ok((changes, state.connection(id)?.delivery())));
    }
    match over(state.connection(id)?) {
        Some(error) => Poll::Ready(Err(error)),
        None => Poll::Pending,
    }
}

/// Whether a call that waits for this many bytes to be delivered has an answer.
pub(crate) fn is_delivery_decided(state: &StackState, id: ConnectionId, offset: u64) -> bool {
    state.connection(id).map_or(true, |connection| {
        connection.acked() >= offset || undeliverable(connection, offset).is_some()
    })
}

/// Whether a call that has seen this many changes has an answer.
pub(crate) fn has_changed(state: &StackState, id: ConnectionId, seen: u64) -> bool {
    state
        .connection(id)
        .map_or(true, |connection| connection.feedback_changes() != seen || over(connection).is_some())
}

/// Why this many bytes will not be delivered, if that is so.
fn undeliverable(connection: &Connection, offset: u64) -> Option<io::Error> {
    let unwritten = connection.is_write_closed() && offset > connection.written();
    over(connection).or_else(|| unwritten.then(|| io::ErrorKind::BrokenPipe.into()))
}

/// Why nothing more will be acknowledged, if that is so.
fn over(connection: &Connection) -> Option<io::Error> {
    let error = connection.error().map(error::connection);
    error.or_else(|| is_over(connection).then(error::not_connected))
}
