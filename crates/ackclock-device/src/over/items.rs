//! Packets as the items of a stream and a sink.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use futures_core::Stream;
use futures_sink::Sink;

use super::{PacketIo, Waiting, closed};

/// Packets over a `Stream + Sink`: its items are results with bytes, and it takes items of the type `W`,
/// which is made from `BytesMut`: that itself, `Bytes` or `Vec<u8>`.
///
/// ```
/// use ackclock_device::over::{IpOver, Items};
/// use bytes::Bytes;
/// use tokio_util::codec::{Framed, LengthDelimitedCodec};
/// # let (near, _far) = tokio::io::duplex(1 << 16);
/// let packets = Framed::new(near, LengthDelimitedCodec::new());
/// let device = IpOver::new(Items::<_, Bytes>::new(packets), 1400);
/// ```
pub struct Items<T, W> {
    inner: T,
    /// Whether the sink said that it takes an item.
    ready: bool,
    flushed: bool,
    waiting: Waiting,
    item: PhantomData<fn(W)>,
}

impl<T, W> Items<T, W>
where
    T: Sink<W> + Unpin,
    T::Error: Into<io::Error>,
{
    /// Packets over `inner`.
    #[must_use]
    pub fn new(inner: T) -> Self {
        Self { inner, ready: false, flushed: true, waiting: Waiting::new(), item: PhantomData }
    }

    /// Asks the sink for room, on behalf of `cx`.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.ready {
            ready!(Pin::new(&mut self.inner).poll_ready(cx)).map_err(Into::<io::Error>::into)?;
            self.ready = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Goes on with what the sink holds back, on behalf of the receiving task.
    fn go_on(&mut self) -> io::Result<()> {
        let receiver = self.waiting.receiver.clone();
        if !self.flushed
            && let Poll::Ready(done) =
                Pin::new(&mut self.inner).poll_flush(&mut Context::from_waker(&receiver))
        {
            done.map_err(Into::<io::Error>::into)?;
            self.flushed = true;
            self.waiting.room();
        }
        Ok(())
    }
}

impl<T, R, E, W> PacketIo for Items<T, W>
where
    T: Stream<Item = Result<R, E>> + Sink<W> + Unpin + Send,
    R: AsRef<[u8]>,
    W: From<BytesMut>,
    E: Into<io::Error>,
    <T as Sink<W>>::Error: Into<io::Error>,
{
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.waiting.receiver.clone_from(cx.waker());
        self.go_on()?;
        Poll::Ready(match ready!(Pin::new(&mut self.inner).poll_next(cx)) {
            Some(Ok(packet)) => {
                let packet = packet.as_ref();
                let len = packet.len().min(into.len());
                into[..len].copy_from_slice(&packet[..len]);
                Ok(len)
            }
            Some(Err(error)) => Err(error.into()),
            None => Err(closed()),
        })
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = self.poll_room(cx);
        if polled.is_pending() {
            self.waiting.sender = Some(cx.waker().clone());
        }
        polled
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        let receiver = self.waiting.receiver.clone();
        match self.poll_room(&mut Context::from_waker(&receiver)) {
            Poll::Ready(room) => room?,
            Poll::Pending => return Err(io::ErrorKind::WouldBlock.into()),
        }
        (self.ready, self.flushed) = (false, false);
        Pin::new(&mut self.inner).start_send(BytesMut::from(packet).into()).map_err(Into::into)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.go_on()
    }
}

impl<T, W> fmt::Debug for Items<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").field("flushed", &self.flushed).finish_non_exhaustive()
    }
}
