//! Deferred accept: the program sees a SYN before it is answered.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use ackclock_core::{Decision, IncomingId, Instant, ListenerId, Unreachable};

use super::Parts;
use super::calls::{accept_incoming, forget_handshake, next_incoming, poll_handshake};
use crate::shards::Handle;
use crate::{TcpStream, names};

/// A listener that shows each SYN before it is answered. A proxy needs this to accept a client only when the
/// destination that the client dialled can be reached.
///
/// ```
/// # use ackclock::Stack;
/// # use ackclock_device::memory;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (left, right) = memory::pair(memory::Config::default());
/// # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
/// # let proxy = Stack::builder().device(right).spawn()?;
/// let listener = proxy.listener().deferred()?; // any address, any port
/// let refused = tokio::spawn(async move { client.connect("203.0.113.5:443".parse().unwrap()).await });
///
/// let incoming = listener.incoming().await?;
/// assert_eq!(incoming.local_addr(), "203.0.113.5:443".parse()?);
/// incoming.reset();
/// assert_eq!(refused.await?.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
/// # Ok(()) }
/// ```
pub struct DeferredListener {
    parts: Parts,
}

/// A SYN that waits for a decision.
///
/// [`accept`](Self::accept) answers it, [`reset`](Self::reset) and [`unreachable`](Self::unreachable) refuse
/// it. Dropping it forgets it silently. Holding it makes the client wait: for 60 seconds at most, then it is
/// forgotten.
#[doc(alias = "ForwarderRequest")]
#[doc(alias = "ignore")]
pub struct Incoming {
    id: IncomingId,
    listener: ListenerId,
    incoming: ackclock_core::Incoming,
    shared: Handle,
    decided: bool,
}

impl DeferredListener {
    pub(super) fn new(parts: Parts) -> Self {
        Self { parts }
    }

    /// The handle of a listener that came from another process.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub(crate) fn taken(shared: Handle, id: ListenerId) -> Self {
        Self { parts: Parts::taken(shared, id) }
    }

    /// Waits for the next SYN.
    ///
    /// ```
    /// # use ackclock::{Stack, device::memory};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (left, right) = memory::pair(memory::Config::default());
    /// # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
    /// # let proxy = Stack::builder().device(right).spawn()?;
    /// let listener = proxy.listener().deferred()?;
    /// let dialling = tokio::spawn(async move { client.connect("203.0.113.5:443".parse().unwrap()).await });
    ///
    /// let incoming = listener.incoming().await?;
    /// println!("{} dials {}", incoming.peer_addr(), incoming.local_addr());
    /// let stream = incoming.accept().await?; // or `reset()`, `unreachable(why)`
    /// assert_eq!(stream.local_addr()?, dialling.await??.peer_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Cancel-safe: a SYN is taken only when it is returned.
    ///
    /// # Errors
    /// The stack is gone.
    #[doc(alias = "accept")]
    pub async fn incoming(&self) -> io::Result<Incoming> {
        let next = self.parts.wait(|state, _, id| next_incoming(state, id)).await;
        next.map(Incoming::undecided)
    }

    /// Waits for the next SYN on the stack's queue of this number, counted from 0. Its connection will be on
    /// the same queue.
    /// See [`TcpListener::accept_at`](crate::TcpListener::accept_at).
    ///
    /// # Cancel safety
    /// As [`incoming`](Self::incoming).
    ///
    /// # Errors
    /// As [`incoming`](Self::incoming). `InvalidInput`: the stack has no such queue.
    pub async fn incoming_at(&self, queue: usize) -> io::Result<Incoming> {
        let next = self.parts.wait_at(queue, |state, _, id| next_incoming(state, id)).await;
        next.map(Incoming::undecided)
    }

    /// Polls for a SYN. Only the waker of the last call is kept.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn poll_incoming(&self, cx: &mut Context<'_>) -> Poll<io::Result<Incoming>> {
        self.parts.poll(cx, |state, _, id| next_incoming(state, id)).map_ok(Incoming::undecided)
    }

    /// The address and port listened on; an unspecified address or port 0 stands for any.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.parts.addr().map(|addr| names::listened(addr, false))
    }
}

impl fmt::Debug for DeferredListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredListener").field("local", &self.local_addr().ok()).finish_non_exhaustive()
    }
}

impl Incoming {
    fn undecided(
        (shared, listener, (id, incoming)): (Handle, ListenerId, (IncomingId, ackclock_core::Incoming)),
    ) -> Self {
        Self { id, listener, incoming, shared, decided: false }
    }

    /// The destination that the client dialled.
    #[must_use]
    #[doc(alias = "destination")]
    #[doc(alias = "original_dst")]
    pub fn local_addr(&self) -> SocketAddr {
        self.incoming.tuple.local()
    }

    /// The client's address and port.
    #[must_use]
    #[doc(alias = "remote_address")]
    pub fn peer_addr(&self) -> SocketAddr {
        self.incoming.tuple.remote()
    }

    /// The client's MSS option, if its SYN had one.
    #[must_use]
    pub fn mss(&self) -> Option<u16> {
        self.incoming.mss
    }

    /// When the SYN arrived, by the stack's clock.
    #[must_use]
    pub fn arrived(&self) -> Instant {
        self.incoming.arrived
    }

    /// Answers the SYN and waits until the connection is established.
    ///
    /// # Cancel safety
    /// Not cancel-safe: once polled, the SYN is answered. If the future is dropped, the connection is closed
    /// as soon as it is established.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionAborted`] as soon as the client takes its SYN back, a minute after it
    /// stopped answering, or when the listener is dropped; the stack is gone.
    #[doc(alias = "CreateEndpoint")]
    pub async fn accept(mut self) -> io::Result<TcpStream> {
        self.decided = true;
        self.shared.call(|state, now| accept_incoming(state, now, self.listener, self.id))?;
        let handshake = Handshake { shared: &self.shared, listener: self.listener, id: self.id };
        let id = poll_fn(|cx| handshake.poll(cx)).await?;
        Ok(TcpStream::new(id, self.shared.clone()))
    }

    /// Refuses the client with a reset.
    #[doc(alias = "refuse")]
    #[doc(alias = "reject")]
    pub fn reset(mut self) {
        self.decide(Decision::Reset);
    }

    /// Refuses the client with an ICMP error (RFC 1122 §3.2.2.1, RFC 4443 §3.1), so that it fails as it would
    /// without a proxy: [`Unreachable`] selects the error. Beyond the limits on errors (six at once and one a
    /// second for each client, 1,000 a second for all) the client is reset instead.
    #[doc(alias = "refuse")]
    #[doc(alias = "reject")]
    pub fn unreachable(mut self, why: Unreachable) {
        self.decide(Decision::Unreachable(why));
    }

    fn decide(&mut self, decision: Decision) {
        self.decided = true;
        self.shared.call(|state, now| state.endpoint.decide(now, self.id, decision));
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.decided {
            self.decide(Decision::Drop);
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("tuple", &self.incoming.tuple).finish_non_exhaustive()
    }
}

/// A handshake that another process accepted, before this one took over: the rest of [`Incoming::accept`].
/// Dropping it closes the connection as soon as it is established.
#[cfg(all(feature = "hand-over", target_os = "linux"))]
#[derive(Debug)]
pub struct Accepting {
    shared: Handle,
    listener: ListenerId,
    id: IncomingId,
}

#[cfg(all(feature = "hand-over", target_os = "linux"))]
impl Accepting {
    pub(crate) fn new(shared: Handle, listener: ListenerId, id: IncomingId) -> Self {
        Self { shared, listener, id }
    }

    /// Waits until the connection is established.
    ///
    /// # Errors
    /// As [`Incoming::accept`].
    pub async fn stream(&self) -> io::Result<TcpStream> {
        let (listener, incoming) = (self.listener, self.id);
        let established = |cx: &mut Context<'_>| {
            let mut replaced = None;
            self.shared.call(|state, _| poll_handshake(state, cx, listener, incoming, &mut replaced))
        };
        Ok(TcpStream::new(poll_fn(established).await?, self.shared.clone()))
    }
}

#[cfg(all(feature = "hand-over", target_os = "linux"))]
impl Drop for Accepting {
    fn drop(&mut self) {
        let _waker = self.shared.call(|state, now| forget_handshake(state, now, self.listener, self.id));
    }
}

/// Waits for the connection that an accepted SYN leads to.
struct Handshake<'a> {
    shared: &'a Handle,
    listener: ListenerId,
    id: IncomingId,
}

impl Handshake<'_> {
    fn poll(&self, cx: &Context<'_>) -> Poll<io::Result<ackclock_core::ConnectionId>> {
        let mut replaced = None;
        self.shared.call(|state, _| poll_handshake(state, cx, self.listener, self.id, &mut replaced))
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        let _waker = self.shared.call(|state, now| forget_handshake(state, now, self.listener, self.id));
    }
}
