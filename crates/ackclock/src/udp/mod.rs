//! [`UdpSocket`].

mod calls;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use ackclock_core::{ListenAddr, UdpId, UdpMeta, UdpOptions, UdpTransmit};
use bytes::BufMut;
use tokio::io::ReadBuf;

use crate::Stack;
use crate::readiness::{Interest, Ready};
use crate::shards::Handle;
#[cfg(feature = "quinn")]
use crate::shards::ShardRef;
use crate::shared::{Seat, WaitSlot, now_or_would_block};
use crate::state::{Queue, Side, StackState};

/// Sends and receives datagrams, with the methods of `tokio::net::UdpSocket`.
///
/// Any number of tasks may use one socket at a time. Datagrams are never fragmented: one longer than a packet
/// of the device is refused with an error that gives the limit. Each direction queues up to 256 KiB
/// ([`UdpOptions`]) within the stack's memory budget; datagrams that arrive at a full socket are dropped and
/// counted ([`Counters::dropped_udp_full`](crate::Counters::dropped_udp_full)).
///
/// ```
/// use ackclock::{Stack, UdpSocket};
/// # use ackclock_device::memory;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (left, right) = memory::pair(memory::Config::default());
/// # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
/// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
/// let socket = UdpSocket::bind(&server, "10.0.0.2:7".parse()?).await?;
/// tokio::spawn(async move {
///     let mut buf = [0; 1500];
///     let (len, peer) = socket.recv_from(&mut buf).await?;
///     socket.send_to(&buf[..len], peer).await
/// });
///
/// let socket = UdpSocket::bind(&client, "0.0.0.0:0".parse()?).await?;
/// socket.connect("10.0.0.2:7".parse()?).await?;
/// socket.send(b"hello").await?;
/// let mut buf = [0; 1500];
/// let len = socket.recv(&mut buf).await?;
/// assert_eq!(&buf[..len], b"hello");
/// # Ok(()) }
/// ```
///
/// # Any destination
///
/// A socket that is bound to an unspecified address, or made by [`Stack::udp_any`] for every port as well,
/// receives datagrams for addresses that the stack was not given, as [`Stack::listen_any`] does for TCP.
/// [`recv_meta`](Self::recv_meta) returns the destination of each, and [`send_transmit`](Self::send_transmit)
/// answers from there.
///
/// # Several datagrams at a time
///
/// [`send_transmit`](Self::send_transmit) takes several datagrams of one size in one call, and
/// [`recv_meta`](Self::recv_meta) returns several of one peer, as QUIC implementations want (Linux's
/// `UDP_SEGMENT` and `UDP_GRO`). With the feature `quinn`, that of quinn runs on such sockets.
///
/// # Errors that the network tells
///
/// If nothing is bound to the peer's port and its host reports that, a connected socket fails once with
/// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused). If a router reports that a datagram was too long,
/// it fails once with [`UdpSocketError::PathTooSmall`](crate::UdpSocketError::PathTooSmall) (`EMSGSIZE`
/// elsewhere), which gives the size that fits. The stack remembers that size for ten minutes, for up to 1,024
/// destinations, and refuses longer datagrams to the destination from all its sockets
/// ([`payload_max`](Self::payload_max)). Other ICMP errors are not reported.
///
/// # What this socket lacks
///
/// Compared with tokio's, this socket lacks `from_std`, `into_std` and the traits of descriptors, because it
/// has no descriptor; `broadcast`, `multicast_ttl_*` and `multicast_loop_*`, because the stack sends to
/// single hosts only, though it [receives](Self::join_multicast_v4) what is sent to groups; `bind_device`
/// and `device`, because a stack has one device, or routes that choose among several; and `tos` and
/// `set_tos`, which tokio deprecates in favour of `tos_v4` and `set_tos_v4`. Addresses are [`SocketAddr`]s;
/// names are not resolved.
pub struct UdpSocket {
    id: UdpId,
    shared: Handle,
}

impl UdpSocket {
    /// Binds a socket of `stack`; the same as [`Stack::udp`].
    ///
    /// # Errors
    /// See [`Stack::udp`].
    // tokio's `bind` is async because it resolves names; this one is async so that code can move without a
    // change.
    pub async fn bind(stack: &Stack, addr: SocketAddr) -> io::Result<Self> {
        stack.udp(addr)
    }

    pub(crate) fn new(shared: &Handle, addr: ListenAddr) -> io::Result<Self> {
        let id = shared.call(|state, now| calls::bind(state, now, UdpOptions::new(addr)))?;
        Ok(Self { id, shared: shared.clone() })
    }

    /// The handle of a socket that came from another process.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub(crate) fn taken(shared: Handle, id: UdpId) -> Self {
        Self { id, shared }
    }

    /// Whether the socket is bound to `addr`.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub(crate) fn is_on(&self, addr: ListenAddr) -> bool {
        self.shared.look(|state| calls::names(state, self.id)).is_ok_and(|names| names.bound == addr)
    }

    /// Connects to `addr`: [`send`](Self::send) sends there, and only datagrams from there are received from
    /// now on.
    ///
    /// # Errors
    /// [`NetworkUnreachable`](io::ErrorKind::NetworkUnreachable) if no route leads there,
    /// [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if the stack has no address of the family,
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for an address that no peer can have.
    pub async fn connect(&self, addr: SocketAddr) -> io::Result<()> {
        self.shared.call(|state, _| calls::connect(state, self.id, addr))
    }

    /// The address and port that the socket is bound to; an unspecified address or port 0 stands for any. A
    /// connected socket returns the address from which it reaches its peer.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let names = self.shared.look(|state| calls::names(state, self.id))?;
        let connected = names.peer.map(|(_, source)| source);
        let ip = names.bound.addr.or(connected).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Ok(SocketAddr::new(ip, names.bound.port.unwrap_or(0)))
    }

    /// The peer that the socket is connected to.
    ///
    /// # Errors
    /// [`NotConnected`](io::ErrorKind::NotConnected) if there is none; or the stack is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let names = self.shared.look(|state| calls::names(state, self.id))?;
        names.peer.map(|(peer, _)| peer).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Sends a datagram to the peer and returns its length.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing has been sent by a future that is dropped before it is ready.
    ///
    /// # Errors
    /// [`NotConnected`](io::ErrorKind::NotConnected) without a peer; else as [`send_to`](Self::send_to).
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.send_transmit(&UdpTransmit::new(buf, None)).await
    }

    /// Sends a datagram to the peer if there is room.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none; else as [`send`](Self::send).
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.try_send_transmit(&UdpTransmit::new(buf, None))
    }

    /// Polls to send a datagram to the peer. Only the waker of the last call of a sending `poll_*` method is
    /// kept.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send_transmit(cx, &UdpTransmit::new(buf, None))
    }

    /// Sends a datagram to `target` and returns its length.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing has been sent by a future that is dropped before it is ready.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if the datagram is too long for a packet on the path, or
    /// no host can be at `target`; [`NetworkUnreachable`](io::ErrorKind::NetworkUnreachable) if no route
    /// leads there; [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if the stack has no address of the
    /// family; [`ConnectionRefused`](io::ErrorKind::ConnectionRefused), once, if the peer's host reported
    /// that; [`OutOfMemory`](io::ErrorKind::OutOfMemory) if the memory budget is used up; or the stack is
    /// gone. The error holds a [`UdpSocketError`](crate::UdpSocketError).
    pub async fn send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.send_transmit(&UdpTransmit::new(buf, Some(target))).await
    }

    /// Sends a datagram to `target` if there is room.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none; else as [`send_to`](Self::send_to).
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.try_send_transmit(&UdpTransmit::new(buf, Some(target)))
    }

    /// Polls to send a datagram to `target`. Only the waker of the last call of a sending `poll_*` method is
    /// kept.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to).
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.poll_send_transmit(cx, &UdpTransmit::new(buf, Some(target)))
    }

    /// Sends `transmit`: several datagrams of one size, from a chosen address, with an ECN codepoint.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing has been sent by a future that is dropped before it is ready.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to); also [`InvalidInput`](io::ErrorKind::InvalidInput) for more than
    /// [`UdpTransmit::SEGMENTS_MAX`] datagrams or a source that is not this socket's.
    #[doc(alias = "sendmsg")]
    pub async fn send_transmit(&self, transmit: &UdpTransmit<'_>) -> io::Result<usize> {
        let id = self.id;
        self.shared.wait(Queue::UdpWrite(id), |state, now| calls::send(state, now, id, transmit)).await
    }

    /// Sends as [`send_transmit`](Self::send_transmit) does, if there is room.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none; else as
    /// [`send_transmit`](Self::send_transmit).
    pub fn try_send_transmit(&self, transmit: &UdpTransmit<'_>) -> io::Result<usize> {
        now_or_would_block(self.shared.call(|state, now| calls::send(state, now, self.id, transmit)))
    }

    /// Polls for room and sends as [`send_transmit`](Self::send_transmit) does. Only the waker of the last
    /// call of a sending `poll_*` method is kept.
    ///
    /// # Errors
    /// As [`send_transmit`](Self::send_transmit).
    pub fn poll_send_transmit(
        &self,
        cx: &mut Context<'_>,
        transmit: &UdpTransmit<'_>,
    ) -> Poll<io::Result<usize>> {
        let attempt = |state: &mut StackState, now| calls::send(state, now, self.id, transmit);
        self.shared.poll(cx, Queue::UdpWrite(self.id), WaitSlot::Poller, attempt)
    }

    /// Receives a datagram and returns its length. Bytes beyond `buf` are lost.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing is taken by a future that is dropped before it is ready.
    ///
    /// # Errors
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused), once, if the peer's host reported that
    /// nothing is bound to its port; [`InvalidInput`](io::ErrorKind::InvalidInput), once, if a router
    /// reported that a datagram was too long; or the stack is gone.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.receive(buf, false).await.map(|meta| meta.len)
    }

    /// Receives a datagram, if there is one.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none; else as [`recv`](Self::recv).
    pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.try_receive(buf, false).map(|meta| meta.len)
    }

    /// Receives a datagram into a buffer that grows, and returns its length.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing is taken by a future that is dropped before it is ready.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.recv_buf_from(buf).await.map(|(len, _)| len)
    }

    /// Receives a datagram into a buffer that grows, if there is one.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn try_recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.try_recv_buf_from(buf).map(|(len, _)| len)
    }

    /// Polls for a datagram. Only the waker of the last call of a receiving `poll_*` method is kept.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_recv_from(cx, buf).map_ok(drop)
    }

    /// Receives a datagram and returns its length and its sender. Bytes beyond `buf` are lost.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing is taken by a future that is dropped before it is ready.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.receive(buf, false).await.map(|meta| (meta.len, meta.from))
    }

    /// Receives a datagram, if there is one, and returns its sender too.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.try_receive(buf, false).map(|meta| (meta.len, meta.from))
    }

    /// Receives a datagram into a buffer that grows, and returns its sender too.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing is taken by a future that is dropped before it is ready.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn recv_buf_from<B: BufMut>(&self, buf: &mut B) -> io::Result<(usize, SocketAddr)> {
        let mut whole = vec![0; room(buf)];
        let (len, from) = self.recv_from(&mut whole).await?;
        buf.put_slice(&whole[..len]);
        Ok((len, from))
    }

    /// Receives a datagram into a buffer that grows, if there is one, and returns its sender too.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn try_recv_buf_from<B: BufMut>(&self, buf: &mut B) -> io::Result<(usize, SocketAddr)> {
        let mut whole = vec![0; room(buf)];
        let (len, from) = self.try_recv_from(&mut whole)?;
        buf.put_slice(&whole[..len]);
        Ok((len, from))
    }

    /// Polls for a datagram and its sender. Only the waker of the last call of a receiving `poll_*` method is
    /// kept.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        self.poll_receive(cx, buf.initialize_unfilled(), false).map_ok(|meta| {
            buf.advance(meta.len);
            meta.from
        })
    }

    /// Receives one datagram, or several of one size from one peer, behind one another. Returns their source,
    /// their destination, the length of each, and their ECN field.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing is taken by a future that is dropped before it is ready.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    #[doc(alias = "recvmsg")]
    pub async fn recv_meta(&self, buf: &mut [u8]) -> io::Result<UdpMeta> {
        self.receive(buf, true).await
    }

    /// Receives as [`recv_meta`](Self::recv_meta) does, if there is a datagram.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn try_recv_meta(&self, buf: &mut [u8]) -> io::Result<UdpMeta> {
        self.try_receive(buf, true)
    }

    /// Polls for a datagram and receives it as [`recv_meta`](Self::recv_meta) does. Only the waker of the
    /// last call of a receiving `poll_*` method is kept.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn poll_recv_meta(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<UdpMeta>> {
        self.poll_receive(cx, buf, true)
    }

    /// Receives into several buffers in one call, each as [`poll_recv_meta`](Self::poll_recv_meta), and calls
    /// `took` for each that was filled. Returns how many. Only fails when the stack is gone; errors that the
    /// network reported of a peer are left out.
    #[cfg(feature = "quinn")]
    pub(crate) fn poll_recv_many(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [io::IoSliceMut<'_>],
        took: impl FnMut(UdpMeta),
    ) -> Poll<io::Result<usize>> {
        let attempt = |state: &mut StackState, _| calls::receive_many(state, self.id, bufs, took);
        self.shared.poll(cx, Queue::UdpRead(self.id), WaitSlot::Poller, attempt)
    }

    /// Takes the error that no other call has reported.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.shared.call(|state, _| calls::take_error(state, self.id))
    }

    /// The longest datagram, in bytes, that fits the device leading to `peer` and the limits that routers
    /// reported.
    #[must_use]
    pub fn payload_max(&self, peer: IpAddr) -> usize {
        self.shared.look(|state| state.endpoint.udp_payload_max(peer))
    }

    async fn receive(&self, buf: &mut [u8], many: bool) -> io::Result<UdpMeta> {
        let id = self.id;
        self.shared.wait(Queue::UdpRead(id), |state, _| calls::receive(state, id, buf, many)).await
    }

    fn try_receive(&self, buf: &mut [u8], many: bool) -> io::Result<UdpMeta> {
        now_or_would_block(self.shared.call(|state, _| calls::receive(state, self.id, buf, many)))
    }

    fn poll_receive(&self, cx: &mut Context<'_>, buf: &mut [u8], many: bool) -> Poll<io::Result<UdpMeta>> {
        let attempt = |state: &mut StackState, _| calls::receive(state, self.id, buf, many);
        self.shared.poll(cx, Queue::UdpRead(self.id), WaitSlot::Poller, attempt)
    }
}

// Waiting until a socket can receive or send.
impl UdpSocket {
    /// Waits until one of `interest` is ready, and returns what is. Readiness is the state of the socket at
    /// that moment, not a remembered edge, so nothing has to be cleared. An error that the network reported
    /// makes it ready, and shows as [`Ready::ERROR`] to those that ask for [`Interest::ERROR`].
    ///
    /// # Cancel safety
    /// Cancel-safe: it only waits.
    ///
    /// # Errors
    /// The stack is gone.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let id = self.id;
        let attempt = |state: &mut StackState, _| calls::poll_ready(state, id, interest);
        // A task that asks for both waits in both lists.
        let seat = |side| Seat::new(&**self.shared, Queue::UdpReady(id, side, interest));
        let (mut read, mut write) = (seat(Side::Read), interest.is_writable().then(|| seat(Side::Write)));
        poll_fn(|cx| match (read.poll(cx, attempt), &mut write) {
            (Poll::Pending, Some(write)) => write.poll(cx, attempt),
            (ready, _) => ready,
        })
        .await
    }

    /// Calls `io`, which should use a `try_*` method, if the socket is ready for it.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it is not ready; else what `io` returns; or the stack is
    /// gone.
    pub fn try_io<R>(&self, interest: Interest, io: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        match self.shared.call(|state, _| calls::poll_ready(state, self.id, interest)) {
            Poll::Ready(ready) => ready.and_then(|_| io()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Calls `io`, which should use a `try_*` method, each time the socket is ready for it, until it returns
    /// anything but [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// # Cancel safety
    /// As cancel-safe as `io`.
    ///
    /// # Errors
    /// The error that `io` returns; or the stack is gone.
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        mut io: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            self.ready(interest).await?;
            match io() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::task::yield_now().await,
                result => return result,
            }
        }
    }

    /// Waits until there is a datagram or an error.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// The stack is gone.
    pub async fn readable(&self) -> io::Result<()> {
        let id = self.id;
        self.shared.wait(Queue::UdpRead(id), |state, _| calls::poll_readable(state, id)).await
    }

    /// Waits until there is room to send, or an error.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// The stack is gone.
    pub async fn writable(&self) -> io::Result<()> {
        let id = self.id;
        self.shared.wait(Queue::UdpWrite(id), |state, _| calls::poll_writable(state, id)).await
    }

    /// Polls for readability. Only the waker of the last call of a receiving `poll_*` method is kept.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = |state: &mut StackState, _| calls::poll_readable(state, self.id);
        self.shared.poll(cx, Queue::UdpRead(self.id), WaitSlot::Poller, attempt)
    }

    /// Polls for writability. Only the waker of the last call of a sending `poll_*` method is kept.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = |state: &mut StackState, _| calls::poll_writable(state, self.id);
        self.shared.poll(cx, Queue::UdpWrite(self.id), WaitSlot::Poller, attempt)
    }
}

// Reading a datagram without taking it.
impl UdpSocket {
    /// Reads a datagram and leaves it to be received again.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.peek_from(buf).await.map(|(len, _)| len)
    }

    /// Reads a datagram and leaves it, if there is one.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.try_peek_from(buf).map(|(len, _)| len)
    }

    /// Polls for a datagram, reads it and leaves it. Only the waker of the last call of a receiving `poll_*`
    /// method is kept.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_peek_from(cx, buf).map_ok(drop)
    }

    /// Reads a datagram and leaves it to be received again; returns its sender too.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let id = self.id;
        let meta = self.shared.wait(Queue::UdpRead(id), |state, _| calls::peek(state, id, buf)).await?;
        Ok((meta.len, meta.from))
    }

    /// Reads a datagram and leaves it, if there is one; returns its sender too.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let meta = now_or_would_block(self.shared.call(|state, _| calls::peek(state, self.id, buf)))?;
        Ok((meta.len, meta.from))
    }

    /// Polls for a datagram, reads it and leaves it; returns its sender. Only the waker of the last call of a
    /// receiving `poll_*` method is kept.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let room = buf.initialize_unfilled();
        let attempt = |state: &mut StackState, _| calls::peek(state, self.id, room);
        self.shared.poll(cx, Queue::UdpRead(self.id), WaitSlot::Poller, attempt).map_ok(|meta| {
            buf.advance(meta.len);
            meta.from
        })
    }

    /// The sender of the next datagram, which stays.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn peek_sender(&self) -> io::Result<SocketAddr> {
        self.peek_from(&mut []).await.map(|(_, from)| from)
    }

    /// The sender of the next datagram, which stays, if there is one.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv).
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.try_peek_from(&mut []).map(|(_, from)| from)
    }

    /// Polls for the sender of the next datagram, which stays. Only the waker of the last call of a receiving
    /// `poll_*` method is kept.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        self.poll_peek_from(cx, &mut ReadBuf::new(&mut []))
    }
}

// The header fields of a socket's packets.
impl UdpSocket {
    /// Time to live, or hop limit, of outgoing packets.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn ttl(&self) -> io::Result<u32> {
        self.shared.look(|state| calls::names(state, self.id)).map(|names| names.ttl.into())
    }

    /// Sets the time to live, 1 to 255.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) outside that range; or the stack is gone.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.shared.call(|state, _| calls::set_ttl(state, self.id, ttl))
    }

    /// Whether datagrams that are longer than the path's packets leave in fragments.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn fragments(&self) -> io::Result<bool> {
        self.shared.look(|state| calls::names(state, self.id)).map(|names| names.fragments)
    }

    /// Sets whether datagrams that are longer than the path's packets leave in fragments (default `false`:
    /// they are refused, and the error says how long one may be). With fragments a datagram may have 65,507
    /// bytes over IPv4, 65,527 over IPv6, if the send buffer holds it; the loss of one fragment loses it all,
    /// and the peer must be willing to reassemble. QUIC and others that look for the path's MTU must leave it
    /// off (Linux: `IP_MTU_DISCOVER`).
    ///
    /// # Errors
    /// The stack is gone.
    pub fn set_fragments(&self, wanted: bool) -> io::Result<()> {
        self.shared.call(|state, _| calls::set_fragments(state, self.id, wanted))
    }

    /// Receives what is sent to the group `multiaddr` at this socket's port, from any source, besides what
    /// is sent to the socket itself. On an Ethernet device the stack reports it to switches and routers
    /// (IGMPv3; versions 1 and 2 where a router knows no other). The socket must be bound to the unspecified
    /// address, and `interface` is that address or one of the stack's, which makes no difference.
    ///
    /// ```
    /// # use ackclock::Stack;
    /// # use ackclock_device::memory;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
    /// # let (device, _wire) = memory::pair(memory::Config::default());
    /// # let address = "10.0.0.1/24".parse().unwrap();
    /// # let stack = Stack::builder().device(device).address(address).spawn().unwrap();
    /// let socket = stack.udp("0.0.0.0:5353".parse().unwrap())?;
    /// socket.join_multicast_v4([224, 0, 0, 251].into(), [0, 0, 0, 0].into())?;
    /// # socket.leave_multicast_v4([224, 0, 0, 251].into(), [0, 0, 0, 0].into())?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if this is not a group, or the socket is bound to one
    /// address; [`AddrInUse`](io::ErrorKind::AddrInUse) if it has joined before;
    /// [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) for an interface that the stack does not have;
    /// [`QuotaExceeded`](io::ErrorKind::QuotaExceeded) for more than 64 groups of a stack; or the stack is
    /// gone.
    pub fn join_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.shared.call(|state, _| calls::join(state, self.id, multiaddr.into(), interface.into()))
    }

    /// As [`join_multicast_v4`](Self::join_multicast_v4) for IPv6 (MLDv2, version 1 where a router knows no
    /// other). `interface` is 0, as a stack has no numbers for its devices.
    ///
    /// # Errors
    /// As for IPv4; [`InvalidInput`](io::ErrorKind::InvalidInput) for another interface.
    pub fn join_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        only_interface(interface)?;
        let any = Ipv6Addr::UNSPECIFIED.into();
        self.shared.call(|state, _| calls::join(state, self.id, (*multiaddr).into(), any))
    }

    /// No longer receives what is sent to the group. A socket that is dropped leaves its groups, too.
    /// `interface` is the unspecified address or any of the stack's, as on a system with one interface.
    ///
    /// # Errors
    /// [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if it has not joined the group, or for an
    /// interface that the stack does not have; or the stack is gone.
    pub fn leave_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.shared.call(|state, _| calls::leave(state, self.id, multiaddr.into(), interface.into()))
    }

    /// As [`leave_multicast_v4`](Self::leave_multicast_v4) for IPv6.
    ///
    /// # Errors
    /// As for IPv4; [`InvalidInput`](io::ErrorKind::InvalidInput) for an interface other than 0.
    pub fn leave_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        only_interface(interface)?;
        let any = Ipv6Addr::UNSPECIFIED.into();
        self.shared.call(|state, _| calls::leave(state, self.id, (*multiaddr).into(), any))
    }

    /// The type of service of outgoing packets: the traffic class.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn tos_v4(&self) -> io::Result<u32> {
        self.shared.look(|state| calls::names(state, self.id)).map(|names| names.traffic_class.into())
    }

    /// Sets the type of service, 0 to 255: six bits of DSCP (RFC 2474) and two of ECN. A nonzero
    /// [`UdpTransmit::ecn`](crate::UdpTransmit::ecn) replaces the ECN bits. IPv4 and IPv6 share one value.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) outside that range; or the stack is gone.
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        self.shared.call(|state, _| calls::set_traffic_class(state, self.id, tos))
    }

    /// The traffic class of outgoing packets: the type of service.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn tclass_v6(&self) -> io::Result<u32> {
        self.tos_v4()
    }

    /// Sets the traffic class, as [`set_tos_v4`](Self::set_tos_v4) does.
    ///
    /// # Errors
    /// As [`set_tos_v4`](Self::set_tos_v4).
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        self.set_tos_v4(tclass)
    }
}

/// A task's own place among those that wait for room to send. All callers of
/// [`UdpSocket::poll_send_ready`] share one.
#[cfg(feature = "quinn")]
pub(crate) struct RoomToSend {
    id: UdpId,
    seat: Seat<ShardRef>,
}

#[cfg(feature = "quinn")]
impl RoomToSend {
    pub(crate) fn of(socket: &UdpSocket) -> Self {
        let seat = Seat::new(socket.shared.uncounted(), Queue::UdpWrite(socket.id));
        Self { id: socket.id, seat }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let id = self.id;
        self.seat.poll(cx, |state, _| calls::poll_writable(state, id))
    }
}

/// A stack has no numbers for its devices, so 0, the default, is the only one.
fn only_interface(index: u32) -> io::Result<()> {
    if index == 0 { Ok(()) } else { Err(crate::error::out_of_range("interface", "0")) }
}

/// The room in a buffer, up to the longest possible datagram.
fn room(buf: &impl BufMut) -> usize {
    buf.remaining_mut().min(usize::from(u16::MAX))
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.shared.call(|state, _| calls::close(state, self.id));
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket").field("local", &self.local_addr().ok()).finish_non_exhaustive()
    }
}
