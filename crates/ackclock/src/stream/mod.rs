//! [`TcpStream`]: one connection.

mod calls;
mod feedback;
mod open;
mod options;
mod split;
mod split_owned;

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use ackclock_core::{Connection, ConnectionId, Experiment, FourTuple, Instant};
use ackclock_journal::RecordedConnection;
use bytes::{BufMut, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use self::calls::Notice;
pub use self::feedback::{Delivered, DeliveryWatch};
pub(crate) use self::feedback::{has_changed, is_delivery_decided};
pub(crate) use self::open::{open, open_with_data};
pub use self::split::{ReadHalf, WriteHalf};
pub use self::split_owned::{OwnedReadHalf, OwnedWriteHalf, ReuniteError};
use crate::readiness::{Interest, Ready};
use crate::shards::Handle;
use crate::shared::{Seat, WaitSlot, now_or_would_block};
use crate::state::{Queue, Side, StackState};
use crate::waiters::{STREAM_SLOT_BYTES, WaitKey};
use crate::{Stack, ToSocketAddrs, error, names, resolve};

/// A TCP connection between a [`Stack`]'s address and a peer, with the methods of `tokio::net::TcpStream`.
///
/// Made by [`Stack::connect`], [`TcpListener::accept`](crate::TcpListener::accept),
/// [`TcpSocket::connect`](crate::TcpSocket::connect) or [`Incoming::accept`](crate::Incoming::accept).
///
/// # Dropping
///
/// A dropped stream closes as a kernel closes a socket: written data is still delivered in the background,
/// followed by the end of the stream. If received data was not read, the connection is reset, which shows the
/// peer that data was lost (RFC 9293 SHLD-3). [`set_linger`](Self::set_linger) changes this. Call `shutdown`
/// (of `tokio::io::AsyncWriteExt`) to close only the sending side.
///
/// # Errors
///
/// Every operation fails with [`io::ErrorKind::NetworkDown`] once the stack is gone ([`StackError`]), and
/// with the connection's own error once that has ended in one: [`ConnectionReset`], [`TimedOut`],
/// [`HostUnreachable`] and so on, with the [`ConnectionError`] inside. As with the kernel's sockets, reading
/// fails only after all data received in order has been read; only [`abort`](Self::abort) discards it. Reads
/// keep returning the error: unlike the kernel's sockets, a stream that was reset never shows an end that the
/// peer did not send. Writes report the error once, whichever call comes first, and from then on a broken
/// pipe ([`io::ErrorKind::BrokenPipe`]).
///
/// [`StackError`]: crate::StackError
/// [`ConnectionError`]: ackclock_core::ConnectionError
/// [`ConnectionReset`]: io::ErrorKind::ConnectionReset
/// [`TimedOut`]: io::ErrorKind::TimedOut
/// [`HostUnreachable`]: io::ErrorKind::HostUnreachable
///
/// ```
/// # use ackclock::Stack;
/// # use ackclock_device::memory;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (left, right) = memory::pair(memory::Config::default());
/// # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
/// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
/// let listener = server.listen("10.0.0.2:7".parse()?)?;
/// let mut stream = client.connect("10.0.0.2:7".parse()?).await?;
/// let (mut accepted, _) = listener.accept().await?;
///
/// stream.write_all(b"ping").await?;
/// let mut answer = [0; 4];
/// accepted.read_exact(&mut answer).await?;
/// assert_eq!(&answer, b"ping");
/// # Ok(()) }
/// ```
pub struct TcpStream {
    pub(crate) id: ConnectionId,
    pub(crate) shared: Handle,
    /// Whether IPv4 addresses are shown as IPv6 ones, because an IPv6 socket made it.
    mapped: bool,
}

/// The most bytes that this crate keeps for a stream on which tasks wait: slot, place in the table, and
/// handle.
const STREAM_BYTES_MAX: usize = 104;
const _: () = assert!(STREAM_SLOT_BYTES + size_of::<TcpStream>() <= STREAM_BYTES_MAX);

impl TcpStream {
    /// Opens a connection from `stack` to `addr`, as [`Stack::connect`] does. If a name has several
    /// addresses, connects to the first that answers.
    ///
    /// # Errors
    /// See [`Stack::connect`]; the name cannot be [resolved](ToSocketAddrs).
    #[doc(alias = "dial")]
    #[doc(alias = "open")]
    pub async fn connect(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        let attempt = |addr| {
            let stack = stack.clone();
            async move { stack.connect(addr).await }
        };
        resolve::connect(stack, addr, attempt).await
    }

    pub(crate) fn new(id: ConnectionId, shared: Handle) -> Self {
        Self { id, shared, mapped: false }
    }

    /// Shows IPv4 addresses as v4-mapped ones, as an IPv6 socket does.
    pub(crate) fn mapped(mut self, mapped: bool) -> Self {
        self.mapped = mapped;
        self
    }

    /// Waits until the handshake is complete.
    pub(crate) async fn connected(self) -> io::Result<Self> {
        let id = self.id;
        // No other task has this stream yet: the one place of its `poll_*` methods is free.
        poll_fn(|cx| {
            self.shared
                .poll(cx, Queue::Write(id), WaitSlot::Poller, |state, now| state.poll_connected(now, id))
        })
        .await?;
        Ok(self)
    }

    /// The address and port of this end. For a connection accepted on any address, the destination that the
    /// client dialled.
    ///
    /// # Errors
    /// None while the stack lives.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tuple().map(|tuple| names::shown(tuple.local(), self.mapped))
    }

    /// The address and port of the peer.
    ///
    /// # Errors
    /// None while the stack lives.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tuple().map(|tuple| names::shown(tuple.remote(), self.mapped))
    }

    /// The stack's queue that the connection's packets use, counted from 0
    /// ([`StackBuilder::queues`](crate::StackBuilder::queues)). It stays the same.
    pub fn queue(&self) -> usize {
        self.shared.index()
    }

    /// Gives the stream a number of the program's own, by which the process that takes over finds it:
    /// [`TakenOver::stream`](crate::TakenOver::stream).
    ///
    /// # Errors
    /// The stack is gone.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub fn set_key(&self, key: u64) -> io::Result<()> {
        self.shared.call_unhurried(|state, _| {
            state.check_alive()?;
            state.keys.insert(self.id, key);
            Ok(())
        })
    }

    /// The number that [`set_key`](Self::set_key) gave the stream last.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub fn key(&self) -> Option<u64> {
        self.shared.look(|state| state.keys.get(&self.id).copied())
    }

    fn tuple(&self) -> io::Result<FourTuple> {
        let tuple =
            |state: &StackState| state.endpoint.connection(self.id).map(|connection| connection.tuple());
        self.shared.look(tuple).ok_or_else(error::not_connected)
    }

    /// The data that the peer's application put in its SYN or SYN-ACK for the experiment (RFC 6994) in which
    /// this end takes part ([`TcpSocket::set_experiment`](crate::TcpSocket::set_experiment)); `None` if it
    /// sent none or a middlebox removed it.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn peer_experiment(&self) -> io::Result<Option<Experiment>> {
        self.look(Connection::peer_experiment)
    }

    /// The error that ended the connection, returned once.
    ///
    /// # Errors
    /// The stack is gone.
    #[doc(alias = "SO_ERROR")]
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let taken = self.update(|connection, _| connection.take_error())?;
        Ok(taken.map(error::connection))
    }

    // ----- waiting -----

    /// Waits until one of `interest` is ready, and returns what is. Readiness is the state of the connection
    /// at that moment, not a remembered edge, so nothing has to be cleared. [`Ready::READ_CLOSED`] says that
    /// the peer has ended, though data may be left to read; [`Ready::WRITE_CLOSED`] that both ends have.
    ///
    /// # Cancel safety
    /// Cancel-safe: it only waits.
    ///
    /// # Errors
    /// The stack is gone. An error of the connection makes it ready, and shows as [`Ready::ERROR`] to those
    /// that ask for [`Interest::ERROR`].
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let id = self.id;
        let seat = |side| Seat::new(&**self.shared, Queue::Ready(id, side, interest));
        let mut seats = Side::of(interest).map(|side| side.map(seat));
        poll_fn(|cx| {
            for seat in seats.iter_mut().flatten() {
                if let Poll::Ready(ready) = seat.poll(cx, |state, now| state.poll_ready(now, id, interest)) {
                    return Poll::Ready(ready);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Waits until a read would not wait.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// The stack is gone.
    pub async fn readable(&self) -> io::Result<()> {
        let id = self.id;
        self.shared.wait(Queue::Read(id), |state, _| state.poll_readable(id)).await
    }

    /// Waits until a write would not wait.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// The stack is gone.
    pub async fn writable(&self) -> io::Result<()> {
        let id = self.id;
        self.shared.wait(Queue::Write(id), |state, now| state.poll_writable(now, id)).await
    }

    /// Polls for readability. Only the waker of the last call of `poll_read_ready`, `poll_read`,
    /// `poll_read_bytes` or `poll_peek` is kept.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.poll(cx, Queue::Read(self.id), WaitSlot::Poller, |state, _| state.poll_readable(self.id))
    }

    /// Polls for writability. Only the waker of the last call of `poll_write_ready`, `poll_write` or
    /// `poll_write_bytes` is kept.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared
            .poll(cx, Queue::Write(self.id), WaitSlot::Poller, |state, now| state.poll_writable(now, self.id))
    }

    /// Calls `f` if one of `interest` is ready. `f` calls this stream's `try_*` methods; no file descriptor
    /// exists for system calls.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when nothing is ready; what `f` returns; the stack is gone.
    pub fn try_io<R>(&self, interest: Interest, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        now_or_would_block(self.shared.call(|state, now| state.poll_ready(now, self.id, interest)))?;
        f()
    }

    /// Waits until one of `interest` is ready and calls `f`, again and again while it returns
    /// [`io::ErrorKind::WouldBlock`], as this stream's `try_*` methods do when nothing is ready. If `f`
    /// returns that while the stream is ready, other tasks get a turn before the next call.
    ///
    /// # Cancel safety
    /// Cancel-safe if `f` does nothing before it is ready.
    ///
    /// # Errors
    /// The error that `f` returns; the stack is gone.
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            self.ready(interest).await?;
            match f() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::task::yield_now().await,
                done => return done,
            }
        }
    }

    // ----- reading -----

    /// Reads available data without waiting; `Ok(0)` is the end of the stream.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when no data is available; the connection's error.
    pub fn try_read(&self, mut buf: &mut [u8]) -> io::Result<usize> {
        self.try_read_limited(buf.len(), |bytes| buf.put_slice(bytes))
    }

    /// Like [`try_read`](Self::try_read), filling one buffer after the other.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let limit = bufs.iter().map(|buf| buf.len()).sum();
        let mut room = bufs.iter_mut().map(|buf| &mut **buf);
        let mut current: &mut [u8] = &mut [];
        self.try_read_limited(limit, |mut bytes| {
            while !bytes.is_empty() {
                while current.is_empty() {
                    let Some(next) = room.next() else { return };
                    current = next;
                }
                let len = bytes.len().min(current.len());
                current.put_slice(&bytes[..len]);
                bytes = &bytes[len..];
            }
        })
    }

    /// Like [`try_read`](Self::try_read), appending to `buf` as much as its present chunk of memory holds.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        let limit = buf.chunk_mut().len();
        self.try_read_limited(limit, |bytes| buf.put_slice(bytes))
    }

    fn try_read_limited(&self, limit: usize, put: impl FnMut(&[u8])) -> io::Result<usize> {
        now_or_would_block(self.shared.call_unhurried(|state, now| state.read(now, self.id, limit, put)))
    }

    /// Waits for data and copies it into `buf`, leaving it to be read again.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// The connection's error.
    #[doc(alias = "peek_slice")]
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let id = self.id;
        self.shared
            .wait(Queue::Read(id), |state, now| {
                let mut room = &mut *buf;
                state.peek(now, id, room.len(), |bytes| room.put_slice(bytes))
            })
            .await
    }

    /// Polls for data and copies it into `buf`, leaving it to be read again; ready with the number of bytes.
    ///
    /// # Errors
    /// The connection's error.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        self.shared.poll(cx, Queue::Read(self.id), WaitSlot::Poller, |state, now| {
            state.peek(now, self.id, buf.remaining(), |bytes| buf.put_slice(bytes))
        })
    }

    pub(crate) fn poll_read_priv(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = self.shared.poll(cx, Queue::Read(self.id), WaitSlot::Poller, |state, now| {
            state.read(now, self.id, buf.remaining(), |bytes| buf.put_slice(bytes))
        });
        read.map_ok(drop)
    }

    // ----- writing -----

    /// Writes as much as there is room for, without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is no room; [`io::ErrorKind::BrokenPipe`] after a shutdown;
    /// the connection's error.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(buf)])
    }

    /// Like [`try_write`](Self::try_write), taking one buffer after the other.
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write).
    pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        now_or_would_block(self.shared.call(|state, now| state.write(now, self.id, bufs)))
    }

    pub(crate) fn poll_write_priv(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.shared
            .poll(cx, Queue::Write(self.id), WaitSlot::Poller, |state, now| state.write(now, self.id, bufs))
    }

    /// Waits for the connection to fail, without reading. `key`: this caller's place, empty at first.
    pub(crate) fn poll_failed(&self, cx: &mut Context<'_>, key: &mut Option<WaitKey>) -> Poll<io::Error> {
        let queue = Queue::Ready(self.id, Side::Notice, Interest::ERROR);
        self.shared.poll(cx, queue, WaitSlot::Queued(key), |state, _| match state.connection(self.id) {
            Ok(connection) => connection.error().map_or(Poll::Pending, |e| Poll::Ready(error::connection(e))),
            Err(error) => Poll::Ready(error),
        })
    }

    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        self.shared.call_unhurried(|state, now| state.shutdown_write(now, self.id))
    }

    /// Resets the connection (RFC 9293's ABORT): sends a reset at once, discards the data of both directions,
    /// and fails every pending and later call with [`io::ErrorKind::ConnectionAborted`].
    #[doc(alias = "reset")]
    #[doc(alias = "close")]
    pub fn abort(&self) {
        self.shared
            .call(|state, now| state.update(now, self.id, |connection, now| connection.abort(now)).ok());
    }

    // ----- halves -----

    /// Splits the stream into halves that borrow it.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        split::split(self)
    }

    /// Splits the stream into halves that can move to different tasks. Dropping the write half closes the
    /// sending side.
    #[must_use]
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        split_owned::split_owned(self)
    }

    fn look<R>(&self, f: impl FnOnce(&Connection) -> R) -> io::Result<R> {
        self.shared.look(|state| state.connection(self.id).map(f))
    }

    fn update<R>(&self, f: impl FnOnce(&mut RecordedConnection<'_>, Instant) -> R) -> io::Result<R> {
        self.shared.call(|state, now| state.update(now, self.id, f))
    }
}

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
    /// retransmissions. A slice shorter than 32 KiB is copied, because a separate packet would cost more. An
    /// empty `bytes` sends nothing, but the call still reports errors, as it does for an empty buffer.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future is dropped before it is ready, nothing was taken.
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write), except that it waits.
    #[doc(alias = "write_chunk")]
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
    #[doc(alias = "read_chunk")]
    pub async fn read_bytes(&mut self, max: usize) -> io::Result<Bytes> {
        self.read_bytes_priv(max).await
    }

    /// Like [`read_bytes`](Self::read_bytes), without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when no data is available; the connection's error.
    pub fn try_read_bytes(&self, max: usize) -> io::Result<Bytes> {
        now_or_would_block(self.shared.call_unhurried(|state, now| state.read_bytes(now, self.id, max)))
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

    async fn write_bytes_priv(&self, bytes: &mut Bytes) -> io::Result<usize> {
        let id = self.id;
        self.shared.wait(Queue::Write(id), |state, now| state.write_bytes(now, id, bytes)).await
    }

    async fn write_all_bytes_priv(&self, bytes: &mut Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            self.write_bytes_priv(bytes).await?;
        }
        Ok(())
    }

    async fn read_bytes_priv(&self, max: usize) -> io::Result<Bytes> {
        let id = self.id;
        self.shared.wait(Queue::Read(id), |state, now| state.read_bytes(now, id, max)).await
    }
}

impl Drop for TcpStream {
    // RFC 9293 MAY-1: both directions are given up at once; `shutdown` closes one.
    fn drop(&mut self) {
        self.shared.call_unhurried(|state, now| state.release(now, self.id));
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_read_priv(cx, buf)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_priv(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_priv(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: written data leaves by itself.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes the sending side after the data in the send buffer; reading goes on. Ready at once.
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shutdown_write())
    }
}

impl AsRef<Self> for TcpStream {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stream = f.debug_struct("TcpStream");
        if let Ok(tuple) = self.tuple() {
            stream.field("local", &tuple.local()).field("peer", &tuple.remote());
        }
        stream.finish_non_exhaustive()
    }
}
