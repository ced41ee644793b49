//! Carries bytes between a stream of a stack and another socket: the inside of a proxy.
//!
//! [`Pump`] does what `tokio::io::copy_bidirectional` does, for a [`TcpStream`] of a stack and a socket of
//! the kernel or anything else that reads and writes. It adds what a proxy needs:
//!
//! - Bytes from the stream are not copied: the blocks in which they were received go to the socket, several
//!   in one `writev`. Bytes from the socket arrive in reads of up to 64 KiB, and long ones are kept by the
//!   stream as they are.
//! - A connection on which nothing moves holds no buffer. One whose receiver does not keep up holds at most
//!   [`HELD_BYTES_MAX`]. All pumps of a thread share 2 MiB to read into.
//! - The end of one direction is passed on alone, so half-closed connections go on. A reset on one side
//!   resets the other.
//! - A pump yields to others after [`turn_bytes`](Pump::turn_bytes), not after a number of calls.
//! - An idle timeout, and counts that others can read while bytes move.
//!
//! ```
//! # use ackclock::Stack;
//! # use ackclock::device::memory;
//! use ackclock::pump::{End, Pump};
//! use std::time::Duration;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::{TcpListener, TcpStream};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (left, right) = memory::pair(memory::Config::default());
//! # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
//! # let proxy = Stack::builder().device(right).spawn()?;
//! // A server of the kernel's that answers once it has the whole request.
//! let server = TcpListener::bind("127.0.0.1:0").await?;
//! let server_addr = server.local_addr()?;
//! tokio::spawn(async move {
//!     let (mut socket, _) = server.accept().await?;
//!     let mut request = String::new();
//!     socket.read_to_string(&mut request).await?;
//!     socket.write_all(request.to_uppercase().as_bytes()).await
//! });
//!
//! // A proxy that leads any address there.
//! let listener = proxy.listener().bind()?;
//! let carried = tokio::spawn(async move {
//!     let (stream, _) = listener.accept().await?;
//!     let socket = TcpStream::connect(server_addr).await?;
//!     socket.set_nodelay(true)?;
//!     std::io::Result::Ok(Pump::new(stream, socket).idle_timeout(Duration::from_secs(300)).await)
//! });
//!
//! let mut stream = client.connect("203.0.113.5:80".parse()?).await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?; // the answer still comes
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "HELLO");
//!
//! let carried = carried.await??;
//! assert_eq!((carried.to_socket, carried.to_stream), (5, 5));
//! assert!(matches!(carried.end, End::Finished));
//! # Ok(()) }
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::TcpStream;
use crate::waiters::WaitKey;

/// The most bytes that a pump holds: two blocks on the way to the socket, and one read on the way to the
/// stream. Bytes that the stream or the socket has taken count as theirs.
pub const HELD_BYTES_MAX: usize = BLOCKS * BLOCK_BYTES + READ_BYTES;

/// Carries bytes between a stream of a stack and `socket` until both directions have ended: a future of
/// [`Pumped`]. See the [module](self).
///
/// Dropped before it is ready, it resets both sides, since neither has everything.
#[must_use = "a pump moves nothing unless it is awaited"]
pub struct Pump<S: Socket> {
    stream: TcpStream,
    socket: S,
    to_socket: ToSocket,
    to_stream: ToStream,
    counts: Option<Arc<Counts>>,
    idle: Option<Idle>,
    turn_bytes: usize,
    over: bool,
}

/// The other side of a [`Pump`]: reads, writes, and can be reset.
///
/// Implement it for a socket of your own. For one that cannot be reset, such as a pipe, `reset_on_drop` does
/// nothing.
///
/// ```
/// # use std::io;
/// # use std::pin::Pin;
/// # use std::task::{Context, Poll};
/// use ackclock::pump::Socket;
/// use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
/// use tokio::net::TcpStream;
///
/// /// A session of TLS, say, over a kernel's socket.
/// struct Session(TcpStream);
///
/// impl Socket for Session {
///     fn reset_on_drop(&mut self) {
///         self.0.reset_on_drop();
///     }
/// }
/// # impl AsyncRead for Session {
/// #     fn poll_read(
/// #         mut self: Pin<&mut Self>,
/// #         cx: &mut Context<'_>,
/// #         buf: &mut ReadBuf<'_>,
/// #     ) -> Poll<io::Result<()>> {
/// #         Pin::new(&mut self.0).poll_read(cx, buf)
/// #     }
/// # }
/// # impl AsyncWrite for Session {
/// #     fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
/// #         Pin::new(&mut self.0).poll_write(cx, buf)
/// #     }
/// #     fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
/// #         Pin::new(&mut self.0).poll_flush(cx)
/// #     }
/// #     fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
/// #         Pin::new(&mut self.0).poll_shutdown(cx)
/// #     }
/// # }
/// ```
pub trait Socket: AsyncRead + AsyncWrite + Unpin {
    /// Makes dropping the socket reset its connection, which tells the peer that bytes are missing.
    fn reset_on_drop(&mut self);
}

/// How many bytes a pump has carried, and how it ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Pumped {
    /// Bytes that came from the stream and that the socket has taken.
    pub to_socket: u64,
    /// Bytes that came from the socket and that the stream has taken.
    pub to_stream: u64,
    /// How it ended.
    pub end: End,
}

/// How a pump ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum End {
    /// Both directions have ended, and everything was passed on.
    Finished,
    /// Nothing moved for the [idle timeout](Pump::idle_timeout). Both sides were reset.
    Idle,
    /// The stream failed, and the socket was reset.
    StreamFailed(io::Error),
    /// The socket failed, and the stream was reset.
    SocketFailed(io::Error),
}

/// Bytes that pumps have carried: one pump, or all pumps with the same counts. A program may read them while
/// bytes move.
#[derive(Debug, Default)]
pub struct Counts {
    to_socket: AtomicU64,
    to_stream: AtomicU64,
}

impl<S: Socket> Pump<S> {
    /// Makes a pump between these two. It owns both, and closes or resets them when it ends.
    ///
    /// Set `nodelay` on a socket of TCP: the pump writes what has arrived at once.
    pub fn new(stream: TcpStream, socket: S) -> Self {
        Self {
            stream,
            socket,
            to_socket: ToSocket::default(),
            to_stream: ToStream::default(),
            counts: None,
            idle: None,
            turn_bytes: TURN_BYTES,
            over: false,
        }
    }

    /// Resets both sides once nothing has moved in either direction for this long (default: never). The
    /// runtime must have time enabled.
    pub fn idle_timeout(mut self, after: Duration) -> Self {
        self.idle = Some(Idle { after, moved: None, sleep: None });
        self
    }

    /// Adds what is carried to these counts, too.
    pub fn counts(mut self, counts: Arc<Counts>) -> Self {
        self.counts = Some(counts);
        self
    }

    /// Sets the bytes, both directions together, after which the pump lets other tasks run (default 256 KiB).
    /// One read or write may exceed it. Less is fairer; more is cheaper.
    pub fn turn_bytes(mut self, bytes: usize) -> Self {
        self.turn_bytes = bytes;
        self
    }

    /// Moves what can be moved, up to a turn. Ready when both directions have ended or one has failed.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        let Self { stream, socket, to_socket, to_stream, .. } = self;
        let counts = self.counts.as_deref();
        let (mut up, mut down) = (!to_socket.done, !to_stream.done);
        let mut moved = 0;
        let counted = |polled: Poll<usize>, count: fn(&Counts) -> &AtomicU64| {
            let Poll::Ready(len) = polled else { return 0 };
            counts.inspect(|counts| count(counts).add(len));
            len
        };
        // A direction that is pending has left its waker, and is not asked again in this turn.
        while up || down {
            if up {
                let len = counted(to_socket.poll(cx, stream, socket)?, |counts| &counts.to_socket);
                moved += len;
                up = len > 0;
            }
            if down {
                let len = counted(to_stream.poll(cx, stream, socket)?, |counts| &counts.to_stream);
                moved += len;
                down = len > 0;
            }
            if moved >= self.turn_bytes && (up || down) {
                cx.waker().wake_by_ref();
                break;
            }
        }
        if to_socket.done && to_stream.done {
            return Poll::Ready(Ok(()));
        }
        match &mut self.idle {
            Some(idle) => idle.poll(cx, moved > 0).map(|()| Err(End::Idle)),
            None => Poll::Pending,
        }
    }

    /// Makes both sides end in a reset.
    fn reset(&mut self) {
        self.stream.abort();
        self.socket.reset_on_drop();
    }
}

impl<S: Socket> Future for Pump<S> {
    type Output = Pumped;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Pumped> {
        let end = match ready!(self.poll_turn(cx)) {
            Ok(()) => End::Finished,
            Err(end) => {
                self.reset();
                end
            }
        };
        self.over = true;
        Poll::Ready(Pumped { to_socket: self.to_socket.total, to_stream: self.to_stream.total, end })
    }
}

impl<S: Socket> Drop for Pump<S> {
    fn drop(&mut self) {
        if !self.over {
            self.reset();
        }
    }
}

impl<S: Socket> fmt::Debug for Pump<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump")
            .field("stream", &self.stream)
            .field("to_socket", &self.to_socket.total)
            .field("to_stream", &self.to_stream.total)
            .finish_non_exhaustive()
    }
}

impl Pumped {
    /// The bytes to the socket and to the stream if everything was passed on.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after the idle timeout; otherwise the error of the side that failed.
    pub fn into_result(self) -> io::Result<(u64, u64)> {
        match self.end {
            End::Finished => Ok((self.to_socket, self.to_stream)),
            End::Idle => Err(io::ErrorKind::TimedOut.into()),
            End::StreamFailed(error) | End::SocketFailed(error) => Err(error),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("finished"),
            Self::Idle => f.write_str("idle for too long"),
            Self::StreamFailed(error) => write!(f, "the stream: {error}"),
            Self::SocketFailed(error) => write!(f, "the socket: {error}"),
        }
    }
}

impl Counts {
    /// Bytes that sockets have taken.
    pub fn to_socket(&self) -> u64 {
        self.to_socket.load(Ordering::Relaxed)
    }

    /// Bytes that streams have taken.
    pub fn to_stream(&self) -> u64 {
        self.to_stream.load(Ordering::Relaxed)
    }
}

/// Adds to a count.
trait Add {
    fn add(&self, len: usize);
}

impl Add for AtomicU64 {
    fn add(&self, len: usize) {
        self.fetch_add(len as u64, Ordering::Relaxed);
    }
}

/// The direction from the stream to the socket.
#[derive(Debug, Default)]
struct ToSocket {
    /// Bytes that were read and not yet written, in order.
    blocks: [Bytes; BLOCKS],
    /// The stream has ended.
    ended: bool,
    /// The socket may hold back what it was given.
    unflushed: bool,
    /// The end was passed on.
    done: bool,
    /// Where this pump waits to learn that the stream failed.
    watch: Option<WaitKey>,
    total: u64,
}

impl ToSocket {
    /// Writes what there is, or reads and writes; 0 once the end was passed on.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &TcpStream,
        socket: &mut impl Socket,
    ) -> Result<Poll<usize>, End> {
        if self.is_empty() && !self.ended {
            match self.poll_fill(cx, stream) {
                Poll::Ready(filled) => filled.map_err(End::StreamFailed)?,
                Poll::Pending => return self.poll_flush(cx, socket).map(|_| Poll::Pending),
            }
        }
        let mut socket = Pin::new(socket);
        if self.is_empty() {
            let Poll::Ready(shut) = socket.poll_shutdown(cx) else { return Ok(Poll::Pending) };
            shut.map_err(End::SocketFailed)?;
            self.done = true;
            return Ok(Poll::Ready(0));
        }
        let slices = self.blocks.each_ref().map(|block| IoSlice::new(block));
        match socket.as_mut().poll_write_vectored(cx, &slices) {
            Poll::Ready(Ok(0)) => Err(End::SocketFailed(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(len)) => {
                self.advance(len);
                self.unflushed = true;
                Ok(Poll::Ready(len))
            }
            Poll::Ready(Err(error)) => Err(End::SocketFailed(error)),
            // The pump reads nothing meanwhile, so no read notices that the client is gone.
            Poll::Pending => match stream.poll_failed(cx, &mut self.watch) {
                Poll::Ready(error) => Err(End::StreamFailed(error)),
                Poll::Pending => Ok(Poll::Pending),
            },
        }
    }

    /// Takes what the stream has, at most one block for each place.
    fn poll_fill(&mut self, cx: &mut Context<'_>, stream: &TcpStream) -> Poll<io::Result<()>> {
        let [first, others @ ..] = &mut self.blocks;
        *first = ready!(stream.poll_read_bytes(cx, BLOCK_BYTES))?;
        let mut last = first;
        for block in others {
            // This is the end or, most likely, all there is; another look would cost more than another write.
            if last.len() < BLOCK_BYTES / 2 {
                break;
            }
            // The next read reports the error, after the data before it.
            let Ok(bytes) = stream.try_read_bytes(BLOCK_BYTES) else { return Poll::Ready(Ok(())) };
            *block = bytes;
            last = block;
        }
        self.ended = last.is_empty();
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, socket: &mut impl Socket) -> Result<Poll<()>, End> {
        if self.unflushed {
            match Pin::new(socket).poll_flush(cx) {
                Poll::Ready(flushed) => flushed.map_err(End::SocketFailed)?,
                Poll::Pending => return Ok(Poll::Pending),
            }
            self.unflushed = false;
        }
        Ok(Poll::Ready(()))
    }

    fn is_empty(&self) -> bool {
        self.blocks.iter().all(Bytes::is_empty)
    }

    /// The socket has taken `len` bytes.
    fn advance(&mut self, len: usize) {
        self.total += len as u64;
        let mut left = len;
        for block in &mut self.blocks {
            let taken = left.min(block.len());
            if taken == block.len() {
                // An empty slice would keep the block.
                *block = Bytes::new();
            } else {
                block.advance(taken);
            }
            left -= taken;
        }
    }
}

/// The direction from the socket to the stream.
#[derive(Debug, Default)]
struct ToStream {
    /// Bytes that were read and not yet written.
    rest: Bytes,
    /// The socket has ended.
    ended: bool,
    /// The end was passed on.
    done: bool,
    total: u64,
}

impl ToStream {
    /// Writes what there is, or reads and writes; 0 once the end was passed on.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &TcpStream,
        socket: &mut impl Socket,
    ) -> Result<Poll<usize>, End> {
        if self.rest.is_empty() && !self.ended {
            match read(cx, socket) {
                Poll::Ready(bytes) => self.rest = bytes.map_err(End::SocketFailed)?,
                Poll::Pending => return Ok(Poll::Pending),
            }
            self.ended = self.rest.is_empty();
        }
        if self.rest.is_empty() {
            stream.shutdown_write().map_err(End::StreamFailed)?;
            self.done = true;
            return Ok(Poll::Ready(0));
        }
        let Poll::Ready(written) = stream.poll_write_bytes(cx, &mut self.rest) else {
            return Ok(Poll::Pending);
        };
        let len = written.map_err(End::StreamFailed)?;
        self.total += len as u64;
        if self.rest.len() < READ_BYTES / 2 {
            // The rest of a large read must not keep all of it.
            self.rest = Bytes::copy_from_slice(&self.rest);
        }
        Ok(Poll::Ready(len))
    }
}

/// Reads once; nothing is the end.
fn read(cx: &mut Context<'_>, socket: &mut impl Socket) -> Poll<io::Result<Bytes>> {
    let mut buf = READ_BUFS.with_borrow_mut(take_free);
    // `poll_read` may be a program's, and run another pump.
    let read = pin!(socket.read_buf(&mut buf)).poll(cx);
    let bytes = read.map_ok(|_| buf.split().freeze());
    READ_BUFS.with_borrow_mut(|bufs| bufs.push_front(buf));
    bytes
}

/// A buffer with room for a read: one of those that nothing refers to any more, or a new one.
fn take_free(bufs: &mut VecDeque<BytesMut>) -> BytesMut {
    let free = bufs.iter_mut().position(|buf| buf.try_reclaim(READ_BYTES));
    bufs.truncate(READ_BUFS_MAX);
    let buf = free.and_then(|at| bufs.remove(at));
    buf.unwrap_or_else(|| BytesMut::with_capacity(READ_BYTES))
}

thread_local! {
    /// Where the pumps of a thread read, the last used first. The stream keeps long reads until they are
    /// acknowledged; fresh memory for each would cost more than the copy that this saves.
    static READ_BUFS: RefCell<VecDeque<BytesMut>> = const { RefCell::new(VecDeque::new()) };
}

/// When a pump has been idle for too long.
struct Idle {
    after: Duration,
    /// When something moved last.
    moved: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Idle {
    fn poll(&mut self, cx: &mut Context<'_>, has_moved: bool) -> Poll<()> {
        if has_moved || self.moved.is_none() {
            self.moved = Some(Instant::now());
        }
        let moved = self.moved.unwrap_or_else(Instant::now);
        let deadline = moved.checked_add(self.after.min(YEAR)).unwrap_or(moved);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        // A timer that was set before bytes moved rings early; it is set again then, not with every move.
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

impl Socket for TcpStream {
    fn reset_on_drop(&mut self) {
        self.abort();
    }
}

#[cfg(not(target_family = "wasm"))]
impl Socket for tokio::net::TcpStream {
    fn reset_on_drop(&mut self) {
        // It fails for a socket that is closed already.
        self.set_zero_linger().ok();
    }
}

#[cfg(unix)]
impl Socket for tokio::net::UnixStream {
    /// Does nothing: such a socket ends when it is dropped.
    fn reset_on_drop(&mut self) {}
}

impl Socket for tokio::io::DuplexStream {
    /// Does nothing: a pipe ends when it is dropped.
    fn reset_on_drop(&mut self) {}
}

/// Blocks of one write to the socket.
const BLOCKS: usize = 2;
/// The most bytes of one of them, which is what a stream receives into.
const BLOCK_BYTES: usize = 64 << 10;
/// The most bytes of one read from the socket.
const READ_BYTES: usize = 64 << 10;
/// How many buffers of reads a thread keeps.
const READ_BUFS_MAX: usize = 32;
/// The default of [`Pump::turn_bytes`].
const TURN_BYTES: usize = 256 << 10;
/// No clock reaches the longest time that a user can ask for.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
