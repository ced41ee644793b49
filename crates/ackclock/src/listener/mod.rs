//! [`TcpListener`], and [`ListenerBuilder`] for what `bind` does not ask.

mod calls;
mod incoming;
mod options;
mod parts;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use ackclock_core::{BoundId, ConnectionId, FourTuple, ListenAddr, ListenOptions};

pub(crate) use self::calls::ListenerSlot;
pub use self::incoming::{DeferredListener, Incoming};
use self::parts::Parts;
pub(crate) use self::parts::{bind, release};
use crate::shards::Handle;
use crate::state::State;
use crate::{Stack, TcpStream, ToSocketAddrs, error, names, resolve};

/// Accepts connections, with the methods of `tokio::net::TcpListener`.
///
/// Dropping it stops listening: connections that wait to be accepted are reset, those that were accepted live on.
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
    /// Whether it is a socket of IPv6, which shows addresses of IPv4 as v4-mapped ones.
    mapped: bool,
}

/// Makes listeners: [`Stack::listener`]. The bounds are divided among the queues of a stack that has several, rounded up.
#[derive(Debug, Clone)]
#[must_use = "nothing listens before `bind` or `deferred`"]
pub struct ListenerBuilder {
    shared: Handle,
    options: ListenOptions,
    linger: Option<Duration>,
    /// What was asked for, if it was a socket's address.
    addr: Option<SocketAddr>,
    only_v6: bool,
}

impl TcpListener {
    /// Listens on an address and port of `stack`, as [`Stack::listen`]; of several addresses on the first that can be had.
    ///
    /// # Errors
    /// See [`Stack::listen`]; the name cannot be [resolved](ToSocketAddrs).
    pub async fn bind(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        resolve::listen(stack, addr).await
    }

    /// The next connection and its peer's address.
    ///
    /// # Cancel safety
    /// Cancel-safe: a connection is taken only when it is returned. Any number of tasks may wait.
    ///
    /// # Errors
    /// The stack is gone. The death of a connection before it was accepted is no error of the listener.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (shard, _, accepted) = self.parts.wait(State::accept).await?;
        Ok(self.stream(shard, accepted))
    }

    /// The next connection whose packets take the stack's queue of this number, from 0, and its peer's address. A program with a
    /// runtime for each queue ([`StackBuilder::spawn_on`](crate::StackBuilder::spawn_on)) accepts on each what belongs there, so
    /// that a connection's driver and its task share a thread.
    ///
    /// # Cancel safety
    /// As [`accept`](Self::accept).
    ///
    /// # Errors
    /// As [`accept`](Self::accept). `InvalidInput`: the stack has no such queue.
    pub async fn accept_at(&self, queue: usize) -> io::Result<(TcpStream, SocketAddr)> {
        let (shard, accepted) = self.parts.wait_at(queue, State::accept).await?;
        Ok(self.stream(shard, accepted))
    }

    /// Polls for a connection. Only the waker of the last call is kept.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = self.parts.poll(cx, State::accept);
        accepted.map_ok(|(shard, _, accepted)| self.stream(shard, accepted))
    }

    /// The address and port listened on; an unspecified address or port 0 stands for any.
    ///
    /// # Errors
    /// The stack is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(names::listened(self.parts.addr()?, self.mapped))
    }

    /// Time to live (IPv4) or hop limit (IPv6) of what is sent to those who connect from now on.
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

    /// Sets time to live or hop limit, 1 to 255: of what is sent to those who connect from now on, and of their streams.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] outside that range; the stack is gone.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let ttl = error::ttl(ttl)?;
        self.parts.each(|state, _, id| {
            state.check_alive()?;
            state.endpoint.update_listener(id, |tcp| tcp.ttl = ttl);
            Ok(())
        })
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

    /// Listens on this address and port. An unspecified address stands for any, also one that the stack was not given:
    /// `0.0.0.0` for any of IPv4, `::` for any of either family unless it is [`only_v6`](Self::only_v6). Port 0 stands for a
    /// free one. A listener on an address of IPv6 shows those of IPv4 as v4-mapped ones (`::ffff:10.0.0.1`), as the
    /// kernel's sockets do.
    pub fn addr(mut self, addr: SocketAddr) -> Self {
        self.addr = Some(addr);
        self
    }

    /// Whether `::` stands for addresses of IPv6 alone (default: for those of IPv4, too).
    pub fn only_v6(mut self, only_v6: bool) -> Self {
        self.only_v6 = only_v6;
        self
    }

    /// Listens on this port of every address of both families; unlike with `addr` and `::`, each peer is shown by its own
    /// address. Port 0 stands for a free one.
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

    /// The most established connections that wait to be accepted (default 1,024); beyond it clients wait and try again.
    pub fn backlog(mut self, backlog: usize) -> Self {
        self.options.backlog = backlog;
        self
    }

    /// The most half-open connections (default 1,024); beyond it SYN cookies answer.
    pub fn syn_backlog(mut self, syn_backlog: usize) -> Self {
        self.options.syn_backlog = syn_backlog;
        self
    }

    /// With [`deferred`](Self::deferred), the most SYNs that wait for a decision (default 1,024); beyond it a SYN is dropped
    /// without an answer, and its client sends it again. All that are half-open are bounded by
    /// [`syn_backlog`](Self::syn_backlog), and there are no cookies.
    pub fn decisions_max(mut self, decisions_max: usize) -> Self {
        self.options.decisions_max = decisions_max;
        self
    }

    /// Whether the port may be one that connections of an earlier listener still have (default: yes, as with
    /// `TcpListener::bind` of tokio on Unix): see [`TcpSocket::set_reuseaddr`](crate::TcpSocket::set_reuseaddr).
    pub fn reuse_address(mut self, reuse_address: bool) -> Self {
        self.options.reuse_address = reuse_address;
        self
    }

    /// Whether other listeners that say so, too, may listen on the same address and port, up to 64 of them (default: no). Each
    /// accepts connections of its own: which one a client's SYN is for is decided by a keyed hash of both addresses and
    /// ports. When one is dropped, its waiting connections are reset and the others' live on.
    pub fn reuse_port(mut self, reuse_port: bool) -> Self {
        self.options.reuse_port = reuse_port;
        self
    }

    /// Serves TCP Fast Open (RFC 7413): clients that come again may have data read from their SYN, of at most so many at a time
    /// whose handshake is not over (default 0: none). A SYN that is duplicated on its way may deliver its data twice, to
    /// two streams: it must not matter. Without effect on [`deferred`](Self::deferred) listeners.
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

    /// The same on what a socket is bound to.
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
    pub fn deferred(mut self) -> io::Result<DeferredListener> {
        self.options.deferred = true;
        Ok(DeferredListener::new(self.listen(None)?))
    }
}
