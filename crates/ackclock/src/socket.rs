//! [`TcpSocket`]: options before a connection or listener exists.

mod by_name;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ackclock_core::{BindOptions, BoundId, Experiment, Keepalive, Sharing, TcpConfig, UserTimeoutOption};
use tokio::io::AsyncWriteExt;

use crate::choices::{self, Choices};
use crate::error::Access;
use crate::listener;
use crate::shards::Handle;
use crate::stream::{open, open_with_data};
use crate::{ListenerBuilder, Stack, TcpListener, TcpStream, error, names};

/// A socket that is not yet a stream or a listener, with the methods of `tokio::net::TcpSocket`.
///
/// ```
/// # use ackclock::Stack;
/// # use ackclock_device::memory;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (left, right) = memory::pair(memory::Config::default());
/// # let stack = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
/// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
/// # let _listener = server.listen("10.0.0.2:80".parse()?)?;
/// let socket = stack.socket();
/// socket.bind("10.0.0.1:4000".parse()?)?;
/// socket.set_nodelay(true)?;
/// let stream = socket.connect("10.0.0.2:80".parse()?).await?;
/// assert_eq!(stream.local_addr()?.port(), 4000);
/// assert!(stream.nodelay()?);
/// # Ok(()) }
/// ```
pub struct TcpSocket {
    shared: Handle,
    settings: Mutex<Settings>,
}

#[derive(Debug)]
struct Settings {
    family: Option<Family>,
    bound: Option<Bound>,
    only_v6: bool,
    tcp: TcpConfig,
    linger: Option<Duration>,
    reuseaddr: bool,
    reuseport: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

/// The address that a socket is bound to.
#[derive(Debug)]
struct Bound {
    local: SocketAddr,
    port: Reservation,
}

/// A reserved port, released when this is dropped.
struct Reservation {
    id: Option<BoundId>,
    shared: Handle,
}

impl TcpSocket {
    pub(crate) fn new(shared: Handle, tcp: TcpConfig) -> Self {
        let settings = Settings {
            family: None,
            bound: None,
            only_v6: false,
            tcp,
            linger: None,
            reuseaddr: false,
            reuseport: false,
        };
        Self { shared, settings: Mutex::new(settings) }
    }

    /// A socket for IPv4 only; [`Stack::socket`] makes one for both families.
    ///
    /// # Errors
    /// None.
    pub fn new_v4(stack: &Stack) -> io::Result<Self> {
        Ok(stack.socket().of_family(Family::V4))
    }

    /// A socket for IPv6 only; [`Stack::socket`] makes one for both families.
    ///
    /// # Errors
    /// None.
    pub fn new_v6(stack: &Stack) -> io::Result<Self> {
        Ok(stack.socket().of_family(Family::V6))
    }

    fn of_family(self, family: Family) -> Self {
        self.settings().family = Some(family);
        self
    }

    /// Reserves the local address and port. An unspecified address leaves the choice of the address to the
    /// stack, and port 0 the choice of the port; [`local_addr`](Self::local_addr) returns it.
    ///
    /// # Errors
    /// [`ErrorKind::AddrInUse`] if a listener or another socket has it, or, unless
    /// [`set_reuseaddr`](Self::set_reuseaddr) was called, a connection; [`ErrorKind::AddrNotAvailable`] if it
    /// is not an address of the stack, unless it is [transparent](crate::StackBuilder::transparent);
    /// [`ErrorKind::InvalidInput`] if the socket is bound already or the address is of the other family;
    /// [`ErrorKind::QuotaExceeded`] if there are too many listeners and bound sockets.
    // RFC 9293 MUST-43: an active OPEN takes an optional local address.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        let mut settings = self.settings();
        settings.check_family(addr)?;
        if settings.bound.is_some() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the socket is bound already"));
        }
        settings.bound = Some(bind(&self.shared, addr, &settings)?);
        Ok(())
    }

    /// Opens a connection.
    ///
    /// # Cancel safety
    /// Not cancel-safe: dropping the future gives up the attempt, and the socket with it.
    ///
    /// # Errors
    /// As [`Stack::connect`].
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        let (shared, settings) = self.into_parts();
        settings.check_family(addr)?;
        let stream = open(&shared, addr, settings.local(), Some(settings.tcp))?;
        // The connection has its name now; `reuseaddr` decides whether others may use the port.
        drop(settings.bound);
        if settings.linger.is_some() {
            stream.set_linger(settings.linger)?;
        }
        stream.connected().await
    }

    /// Opens a connection and writes `data`. The data goes with the SYN if the server has given this stack a
    /// cookie before (TCP Fast Open, RFC 7413). Otherwise, and where such SYNs get lost, it follows the
    /// handshake, and the SYN asks for a cookie. Returns when the handshake is complete and all of `data` is
    /// in the send buffer.
    ///
    /// The server may see a SYN's data twice, on two connections, if the SYN is duplicated on the path: the
    /// application must tolerate that.
    ///
    /// ```
    /// # use ackclock::Stack;
    /// # use ackclock_device::memory;
    /// # use tokio::io::AsyncReadExt;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (left, right) = memory::pair(memory::Config::default());
    /// # let stack = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
    /// # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
    /// let listener = server.listener().addr("10.0.0.2:80".parse()?).fast_open(16).bind()?;
    /// for _ in 0..2 {
    ///     let client = stack.socket().connect_with_data("10.0.0.2:80".parse()?, b"request");
    ///     let (stream, accepted) = tokio::join!(client, listener.accept());
    ///     let mut request = [0; 7];
    ///     accepted?.0.read_exact(&mut request).await?;
    ///     assert_eq!((&request, stream?.peer_addr()?.port()), (b"request", 80));
    /// }
    /// assert_eq!(server.counters().fast_open_accepted, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Not cancel-safe: dropping the future gives up the attempt, and the socket with it.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    #[doc(alias = "MSG_FASTOPEN")]
    pub async fn connect_with_data(self, addr: SocketAddr, data: &[u8]) -> io::Result<TcpStream> {
        let (shared, settings) = self.into_parts();
        settings.check_family(addr)?;
        let (stream, taken) = open_with_data(&shared, addr, settings.local(), settings.tcp, data)?;
        drop(settings.bound);
        if settings.linger.is_some() {
            stream.set_linger(settings.linger)?;
        }
        let mut stream = stream.connected().await?;
        if let Some(rest) = data.get(taken..).filter(|rest| !rest.is_empty()) {
            stream.write_all(rest).await?;
        }
        Ok(stream)
    }

    /// Listens, on any address and a free port if the socket was not bound. At most `backlog` established
    /// connections wait to be accepted.
    ///
    /// # Errors
    /// As [`Stack::listen`].
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        let (shared, mut settings) = self.into_parts();
        let Bound { local, mut port } = match settings.bound.take() {
            Some(bound) => bound,
            None => bind(&shared, SocketAddr::new(settings.wildcard(), 0), &settings)?,
        };
        let bound = port.id.take().ok_or_else(error::not_connected)?;
        let backlog = usize::try_from(backlog).unwrap_or(usize::MAX);
        ListenerBuilder::new(shared)
            .backlog(backlog)
            .tcp(settings.tcp)
            .linger(settings.linger)
            .bind_bound(bound, local.is_ipv6())
    }

    /// The address and port bound to; unspecified, with port 0, before [`bind`](Self::bind).
    ///
    /// # Errors
    /// None.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let settings = self.settings();
        let bound = settings.bound.as_ref().map(|bound| bound.local);
        Ok(bound.unwrap_or(SocketAddr::new(settings.wildcard(), 0)))
    }

    /// Always `None`: nothing can have failed yet.
    ///
    /// # Errors
    /// None.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(None)
    }

    fn into_parts(self) -> (Handle, Settings) {
        (self.shared, self.settings.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn choices(&self) -> Arc<Choices> {
        self.shared.look(|state| state.choices())
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Options of the future stream, or of the streams accepted; see the same methods of [`TcpStream`].
impl TcpSocket {
    /// Whether keep-alive probes are on.
    ///
    /// # Errors
    /// None.
    pub fn keepalive(&self) -> io::Result<bool> {
        Ok(self.settings().tcp.keepalive.is_some())
    }

    /// Switches keep-alive probes on, with the default times, or off.
    ///
    /// # Errors
    /// None.
    pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
        self.settings().tcp.keepalive = keepalive.then(Keepalive::default);
        Ok(())
    }

    /// The value set by [`set_reuseaddr`](Self::set_reuseaddr).
    ///
    /// # Errors
    /// None.
    pub fn reuseaddr(&self) -> io::Result<bool> {
        Ok(self.settings().reuseaddr)
    }

    /// Whether [`bind`](Self::bind) may take a port that connections use, including those in TIME-WAIT, or
    /// one bound by another socket with the same setting that does not listen (default: no; [`Stack::listen`]
    /// does, like tokio's `TcpListener::bind`).
    ///
    /// # Errors
    /// None.
    pub fn set_reuseaddr(&self, reuseaddr: bool) -> io::Result<()> {
        self.settings().reuseaddr = reuseaddr;
        Ok(())
    }

    /// The value set by [`set_reuseport`](Self::set_reuseport).
    ///
    /// # Errors
    /// None.
    pub fn reuseport(&self) -> io::Result<bool> {
        Ok(self.settings().reuseport)
    }

    /// Whether other listeners of this stack with the same setting may share the address and port: see
    /// [`ListenerBuilder::reuse_port`].
    ///
    /// # Errors
    /// None.
    pub fn set_reuseport(&self, reuseport: bool) -> io::Result<()> {
        self.settings().reuseport = reuseport;
        Ok(())
    }

    /// The value set by [`set_only_v6`](Self::set_only_v6).
    ///
    /// # Errors
    /// None.
    pub fn only_v6(&self) -> io::Result<bool> {
        Ok(self.settings().only_v6)
    }

    /// Whether `::` stands for IPv6 addresses only (default: IPv4 as well; RFC 3493 §5.3). Set it before
    /// [`bind`](Self::bind).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the socket is bound.
    pub fn set_only_v6(&self, only_v6: bool) -> io::Result<()> {
        let mut settings = self.settings();
        if settings.bound.is_some() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "set it before the socket is bound"));
        }
        settings.only_v6 = only_v6;
        Ok(())
    }

    /// The most bytes that wait in the send buffer.
    ///
    /// # Errors
    /// None.
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.settings().tcp.send_buffer_max).unwrap_or(u32::MAX))
    }

    /// Sets the most bytes that wait in the send buffer. Values below 4,608 are raised to it.
    ///
    /// # Errors
    /// None.
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        self.settings().tcp.send_buffer_max = error::send_buffer(size);
        Ok(())
    }

    /// The most bytes that wait to be read.
    ///
    /// # Errors
    /// None.
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.settings().tcp.receive_buffer_max).unwrap_or(u32::MAX))
    }

    /// Sets the most bytes that wait to be read. Values below 2,304 are raised to it. Set before the
    /// connection exists, it also decides the window scale offered.
    ///
    /// # Errors
    /// None.
    pub fn set_recv_buffer_size(&self, size: u32) -> io::Result<()> {
        self.settings().tcp.receive_buffer_max = error::receive_buffer(size);
        Ok(())
    }

    /// The linger time, set by [`TcpStream::set_linger`]: how dropping the stream ends it.
    ///
    /// # Errors
    /// None.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(self.settings().linger)
    }

    /// Sets what dropping the stream does: see [`TcpStream::set_linger`].
    ///
    /// # Errors
    /// None.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.settings().linger = linger;
        Ok(())
    }

    /// Makes dropping the stream reset the connection.
    ///
    /// # Errors
    /// None.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// Whether Nagle's algorithm is off.
    ///
    /// # Errors
    /// None.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.settings().tcp.nodelay)
    }

    /// Switches Nagle's algorithm off (`true`) or on.
    ///
    /// # Errors
    /// None.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.settings().tcp.nodelay = nodelay;
        Ok(())
    }

    /// Type of service of IPv4 packets: the code point in the upper six bits, zero in the two ECN bits.
    ///
    /// # Errors
    /// None.
    pub fn tos_v4(&self) -> io::Result<u32> {
        Ok(u32::from(self.settings().tcp.dscp) << 2)
    }

    /// Sets the type of service. The two ECN bits are ignored: the connection sets them itself.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] above 255.
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        choices::tos(&mut self.settings().tcp, tos)
    }

    /// Traffic class of IPv6 packets: see [`tos_v4`](Self::tos_v4).
    ///
    /// # Errors
    /// The socket is for IPv4.
    pub fn tclass_v6(&self) -> io::Result<u32> {
        if self.settings().family == Some(Family::V4) {
            return Err(error::no_such_option(Access::Get));
        }
        self.tos_v4()
    }

    /// Sets the traffic class: see [`set_tos_v4`](Self::set_tos_v4).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] above 255; the socket is for IPv4.
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        if self.settings().family == Some(Family::V4) {
            return Err(error::no_such_option(Access::Set));
        }
        self.set_tos_v4(tclass)
    }

    /// Sets the user timeout (RFC 5482), which is also the longest that `connect` waits for an answer.
    ///
    /// # Errors
    /// None.
    pub fn set_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.settings().tcp.user_timeout = timeout;
        Ok(())
    }

    /// Resets the connection once no data has moved in either direction for this long: see
    /// [`TcpStream::set_idle_timeout`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for zero.
    pub fn set_idle_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(error::out_of_range("idle timeout", "a duration above zero"));
        }
        self.settings().tcp.idle_timeout = timeout;
        Ok(())
    }

    /// Sends the user timeout to the peer in an option and follows the peer's within these bounds (RFC 5482);
    /// `None` (the default): neither.
    ///
    /// # Errors
    /// None.
    pub fn set_user_timeout_option(&self, option: Option<UserTimeoutOption>) -> io::Result<()> {
        self.settings().tcp.user_timeout_option = option.map(Box::new);
        Ok(())
    }

    /// Takes part in an experiment (RFC 6994): its option goes on the SYN and carries a few bytes to the
    /// peer's application, outside the stream. A peer that does not take part ignores it. The peer reads it
    /// with [`TcpStream::peer_experiment`].
    ///
    /// # Errors
    /// None.
    pub fn set_experiment(&self, experiment: Option<Experiment>) -> io::Result<()> {
        self.settings().tcp.experiment = experiment;
        Ok(())
    }

    /// The full configuration of the future connection, to be changed and [set](Self::set_config). It starts
    /// as the stack's own settings, including its profile.
    #[must_use]
    pub fn config(&self) -> TcpConfig {
        self.settings().tcp.clone()
    }

    /// Sets the full configuration of the future connection. Start from [`config`](Self::config): `TcpConfig
    /// { nodelay: true, ..socket.config() }`; the default does not include the stack's profile.
    ///
    /// # Errors
    /// None.
    pub fn set_config(&self, tcp: TcpConfig) -> io::Result<()> {
        self.settings().tcp = tcp;
        Ok(())
    }
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpSocket").field("settings", &*self.settings()).finish_non_exhaustive()
    }
}

impl Settings {
    fn check_family(&self, addr: SocketAddr) -> io::Result<()> {
        let family = if addr.is_ipv4() { Family::V4 } else { Family::V6 };
        if self.family.is_some_and(|own| own != family) {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the address is not of the socket's family"));
        }
        Ok(())
    }

    /// The address to connect from.
    fn local(&self) -> (Option<IpAddr>, u16) {
        let local = self.bound.as_ref().map(|bound| bound.local);
        local.map_or((None, 0), |local| (names::specified(local.ip()), local.port()))
    }

    fn wildcard(&self) -> IpAddr {
        names::wildcard(self.family != Some(Family::V4))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.shared.ordered(|shards| listener::release(shards, id));
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

fn bind(shared: &Handle, addr: SocketAddr, settings: &Settings) -> io::Result<Bound> {
    let sharing = Sharing { reuse_address: settings.reuseaddr, reuse_port: settings.reuseport };
    let options = BindOptions { addr: names::local(addr.ip(), settings.only_v6), port: addr.port(), sharing };
    let (id, port) = shared.ordered(|shards| listener::bind(shards, options))?;
    let reservation = Reservation { id: Some(id), shared: shared.clone() };
    Ok(Bound { local: SocketAddr::new(addr.ip(), port), port: reservation })
}
