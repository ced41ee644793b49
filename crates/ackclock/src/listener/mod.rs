//! [`TcpListener`], and [`ListenerBuilder`] for the options that `bind` does not take.

mod calls;
mod incoming;
mod options;
mod parts;

use std::fmt;
use std::future::ready;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

#[cfg(all(feature = "hand-over", target_os = "linux"))]
use ackclock_core::ListenerId;
use ackclock_core::{BoundId, ConnectionId, FourTuple, ListenAddr, ListenOptions, TcpConfig};

use self::calls::accept;
#[cfg(all(feature = "hand-over", target_os = "linux"))]
pub use self::incoming::Accepting;
pub use self::incoming::{DeferredListener, Incoming};
use self::parts::Parts;
pub(crate) use self::parts::{bind, release};
use crate::shards::Handle;
use crate::{Stack, TcpStream, ToSocketAddrs, error, names, resolve};

/// Accepts connections, with the methods of `tokio::net::TcpListener`.
///
/// Dropping it stops listening: connections that wait to be accepted are reset, and accepted ones live on.
///
/// ```
/// # use ackclock::Stack;
/// # use ackclock_device::memory;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (left, right) = memory::pair(memory::Config::default());
/// # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
/// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
/// let listener = server.listen("10.0.0.2:80".parse()?)?;
/// let client = tokio::spawn(async move { client.connect("10.0.0.2:80".parse().unwrap()).await });
/// let (stream, peer) = listener.accept().await?;
/// assert_eq!(stream.peer_addr()?, peer);
/// assert_eq!(client.await??.local_addr()?, peer);
/// # Ok(()) }
/// ```
pub struct TcpListener {
    parts: Parts,
    /// Whether it is an IPv6 socket, which shows IPv4 addresses as v4-mapped.
    mapped: bool,
}

/// Makes listeners: see [`Stack::listener`]. On a stack with several queues, the bounds are divided among
/// them, rounded up.
#[derive(Debug, Clone)]
#[must_use = "nothing listens before `bind` or `deferred`"]
pub struct ListenerBuilder {
    shared: Handle,
    options: ListenOptions,
    linger: Option<Duration>,
    /// The requested address, if it was a socket's.
    addr: Option<SocketAddr>,
    only_v6: bool,
}

impl TcpListener {
    /// Listens on an address and port of `stack`, like [`Stack::listen`]; of several addresses, on the first
    /// available one.
    ///
    /// # Errors
    /// See [`Stack::listen`]; the name cannot be [resolved](ToSocketAddrs).
    #[doc(alias = "listen")]
    pub async fn bind(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        let addrs = resolve::all(stack, addr).await?;
        resolve::first(addrs, |addr| ready(stack.listen(addr))).await
    }

    /// The handle of a listener that came from another process.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub(crate) fn taken(shared: Handle, id: ListenerId) -> Self {
        Self { parts: Parts::taken(shared, id), mapped: false }
    }

    /// Shows IPv4 addresses as v4-mapped ones, as a listener on an IPv6 address does.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub(crate) fn mapped(mut self, mapped: bool) -> Self {
        self.mapped = mapped;
        self
    }

    /// The next connection and its peer's address.
    ///
    /// # Cancel safety
    /// Cancel-safe: a connection is taken only when it is returned. Any number of tasks may wait.
    ///
    /// # Errors
    /// The stack is gone. A connection that dies before it is accepted does not cause an error here.
    #[doc(alias = "incoming")]
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (shard, _, accepted) = self.parts.wait(accept).await?;
        Ok(self.stream(shard, accepted))
    }

    /// The next connection on the stack's queue of this number, counted from 0, and its peer's address. A
    /// program with a runtime for each queue ([`StackBuilder::spawn_on`](crate::StackBuilder::spawn_on))
    /// accepts on each runtime the connections of its queue, so that a connection's driver and its task share
    /// a thread.
    ///
    /// # Cancel safety
    /// As [`accept`](Self::accept).
    ///
    /// # Errors
    /// As [`accept`](Self::accept). `InvalidInput`: the stack has no such queue.
    pub async fn accept_at(&self, queue: usize) -> io::Result<(TcpStream, SocketAddr)> {
        let (shard, _, accepted) = self.parts.wait_at(queue, accept).await?;
        Ok(self.stream(shard, accepted))
    }

    /// Polls for a connection. Only the waker of the last call is kept.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = self.parts.poll(cx, accept);
        accepted.map_ok(|(shard, _, accepted)| self.stream(shard, accepted))
    }

    /// The address and port listened on; an unspecified address or port 0 stands for any.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(names::listened(self.parts.addr()?, self.mapped))
    }

    /// Time to live (IPv4) or hop limit (IPv6) of packets to clients that connect from now on.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn ttl(&self) -> io::Result<u32> {
        self.parts.shared.look(|state| {
            state.check_alive()?;
            let ttl = state.endpoint.listener_tcp(self.parts.first()).map(|tcp| u32::from(tcp.ttl));
            ttl.ok_or_else(error::not_connected)
        })
    }

    /// Sets time to live or hop limit, 1 to 255, of packets to clients that connect from now on, and of their
    /// streams.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] outside that range; the stack is gone.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let ttl = error::ttl(ttl)?;
        self.parts.each(|state, _, id| {
            state.check_alive()?;
            if let Some(tcp) = state.endpoint.listener_tcp(id) {
                let tcp = TcpConfig { ttl, ..tcp.clone() };
                state.endpoint.set_listener_tcp(id, tcp);
            }
            Ok(())
        })
    }

    /// The address and port as the endpoint knows them.
    #[cfg(all(feature = "hand-over", target_os = "linux"))]
    pub(crate) fn listen_addr(&self) -> io::Result<ListenAddr> {
        self.parts.addr()
    }

    fn stream(&self, shard: Handle, (id, tuple): (ConnectionId, FourTuple)) -> (TcpStream, SocketAddr) {
        let stream = TcpStream::new(id, shard).mapped(self.mapped);
        (stream, names::shown(tuple.remote(), self.mapped))
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("local", &self.local_addr().ok()).finish_non_exhaustive()
    }
}

impl ListenerBuilder {
    pub(crate) fn new(shared: Handle) -> Self {
        let options = ListenOptions::new(ListenAddr::default());
        Self { shared, options, linger: None, addr: None, only_v6: false }
    }

    /// Listens on this address and port. An unspecified address stands for any address, even one that the
    /// stack was not given: `0.0.0.0` for any IPv4 address, `::` for any of either family unless the listener
    /// is [`only_v6`](Self::only_v6). Port 0 stands for a free one. A listener on an IPv6 address shows IPv4
    /// peers as v4-mapped (`::ffff:10.0.0.1`), as the kernel's sockets do.
    pub fn addr(mut self, addr: SocketAddr) -> Self {
        self.addr = Some(addr);
        self
    }

    /// Whether `::` stands for IPv6 addresses only (default: IPv4 as well).
    pub fn only_v6(mut self, only_v6: bool) -> Self {
        self.only_v6 = only_v6;
        self
    }

    /// Listens on this port of every address of both families. Unlike with `addr` and `::`, each peer is
    /// shown with its own address. Port 0 stands for a free one.
    #[doc(alias = "any_ip")]
    pub fn any_address(mut self, port: u16) -> Self {
        self.addr = None;
        self.options.addr = ListenAddr { addr: None, port: Some(port) };
        self
    }

    /// Listens on one address, on every port that no other listener has.
    pub fn any_port(mut self, addr: IpAddr) -> Self {
        self.addr = None;
        self.options.addr = ListenAddr { addr: Some(addr.to_canonical()), port: None };
        self
    }

    /// The most established connections that wait to be accepted (default 1,024). Beyond it, clients wait and
    /// retry.
    #[doc(alias = "listen")]
    pub fn backlog(mut self, backlog: usize) -> Self {
        self.options.backlog = backlog;
        self
    }

    /// The most half-open connections (default 1,024), at most a quarter of them from one address; beyond it
    /// SYN cookies answer. With [`deferred`](Self::deferred) one address may have as many as it leaves free,
    /// which is half of them.
    pub fn syn_backlog(mut self, syn_backlog: usize) -> Self {
        self.options.syn_backlog = syn_backlog;
        self
    }

    /// With [`deferred`](Self::deferred), the most SYNs that wait for a decision (default 1,024). Beyond it a
    /// SYN is dropped without an answer, and its client retransmits it. [`syn_backlog`](Self::syn_backlog)
    /// bounds all half-open connections, and there are no cookies.
    pub fn decisions_max(mut self, decisions_max: usize) -> Self {
        self.options.decisions_max = decisions_max;
        self
    }

    /// Whether the port may be one that connections of an earlier listener still use (default: yes, as with
    /// `TcpListener::bind` of tokio on Unix): see
    /// [`TcpSocket::set_reuseaddr`](crate::TcpSocket::set_reuseaddr).
    #[doc(alias = "SO_REUSEADDR")]
    pub fn reuse_address(mut self, reuse_address: bool) -> Self {
        self.options.reuse_address = reuse_address;
        self
    }

    /// Whether other listeners with the same setting may share the address and port, up to 64 of them
    /// (default: no). Each accepts its own connections: a keyed hash of both addresses and ports assigns each
    /// client's SYN to one of them. When one is dropped, its waiting connections are reset and the others'
    /// live on.
    #[doc(alias = "SO_REUSEPORT")]
    pub fn reuse_port(mut self, reuse_port: bool) -> Self {
        self.options.reuse_port = reuse_port;
        self
    }

    /// Serves TCP Fast Open (RFC 7413): returning clients may have data read from their SYN. `handshakes_max`
    /// bounds the number of such connections whose handshake is not complete (default 0: none). A SYN
    /// duplicated on the path may deliver its data twice, to two streams: the application must tolerate that.
    /// Without effect on [`deferred`](Self::deferred) listeners.
    #[doc(alias = "TCP_FASTOPEN")]
    pub fn fast_open(mut self, handshakes_max: usize) -> Self {
        self.options.fast_open_max = handshakes_max;
        self
    }

    /// Starts to listen.
    ///
    /// # Errors
    /// As [`Stack::listen`].
    pub fn bind(self) -> io::Result<TcpListener> {
        let mapped = self.addr.is_some_and(|addr| addr.is_ipv6());
        Ok(TcpListener { parts: self.listen(None)?, mapped })
    }

    /// Starts to listen on the address that a socket is bound to.
    pub(crate) fn bind_bound(self, bound: BoundId, mapped: bool) -> io::Result<TcpListener> {
        Ok(TcpListener { parts: self.listen(Some(bound))?, mapped })
    }

    fn listen(self, bound: Option<BoundId>) -> io::Result<Parts> {
        let Self { shared, mut options, linger, addr, only_v6 } = self;
        if let Some(addr) = addr {
            options.addr = ListenAddr { addr: names::local(addr.ip(), only_v6), port: Some(addr.port()) };
        }
        Parts::new(shared, bound, &options, linger)
    }

    /// Starts to listen with the answer to each SYN deferred.
    ///
    /// # Errors
    /// As [`Stack::listen`].
    #[doc(alias = "forwarder")]
    pub fn deferred(mut self) -> io::Result<DeferredListener> {
        self.options.deferred = true;
        Ok(DeferredListener::new(self.listen(None)?))
    }
}
