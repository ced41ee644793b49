//! [`TcpSocket`]: options before a connection or listener exists.

mod choices;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ackclock_core::{Experiment, Keepalive, TcpConfig, UserTimeoutOption};

use tokio::io::AsyncWriteExt;

use crate::choices::Choices;
use crate::shared::Handle;
use crate::{ListenerBuilder, Stack, TcpListener, TcpStream, error};

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
    local: Option<SocketAddr>,
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

impl TcpSocket {
    pub(crate) fn new(shared: Handle, tcp: TcpConfig) -> Self {
        let settings =
            Settings { family: None, local: None, tcp, linger: None, reuseaddr: true, reuseport: false };
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

    /// Chooses the local address and port; an unspecified address or port 0 leaves the choice to the stack. Whether
    /// they are free is found by `connect` or `listen`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the socket is bound already or the address is of the other family.
    // RFC 9293 MUST-43: an active OPEN takes an optional local address.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        let mut settings = self.settings();
        settings.check_family(addr)?;
        if settings.local.is_some() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the socket is bound already"));
        }
        settings.local = Some(addr);
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
        let local = settings.local.map_or((None, 0), |local| (specified(local.ip()), local.port()));
        let stream = open(&shared, addr, local, Some(settings.tcp))?;
        if settings.linger.is_some() {
            stream.set_linger(settings.linger)?;
        }
        stream.connected().await
    }

    /// Opens a connection and writes `data`, which goes with the SYN if the server has given this stack a cookie before (TCP
    /// Fast Open, RFC 7413); otherwise, and where such SYNs get lost, it follows the handshake, and the SYN asks for a cookie.
    /// Returns when the handshake is over and all of `data` is in the send buffer.
    ///
    /// The server may see data of a SYN twice, on two connections, when the SYN is duplicated on its way: it must not matter.
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
    pub async fn connect_with_data(self, addr: SocketAddr, data: &[u8]) -> io::Result<TcpStream> {
        let (shared, settings) = self.into_parts();
        settings.check_family(addr)?;
        let local = settings.local.map_or((None, 0), |local| (specified(local.ip()), local.port()));
        let (stream, taken) = open_with_data(&shared, addr, local, settings.tcp, data)?;
        if settings.linger.is_some() {
            stream.set_linger(settings.linger)?;
        }
        let mut stream = stream.connected().await?;
        if let Some(rest) = data.get(taken..).filter(|rest| !rest.is_empty()) {
            stream.write_all(rest).await?;
        }
        Ok(stream)
    }

    /// Listens; at most `backlog` established connections wait to be accepted.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the socket is not bound; otherwise as [`Stack::listen`].
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        let (shared, settings) = self.into_parts();
        let unbound = || io::Error::new(ErrorKind::InvalidInput, "bind the socket before it listens");
        let local = settings.local.ok_or_else(unbound)?;
        let backlog = usize::try_from(backlog).unwrap_or(usize::MAX);
        ListenerBuilder::new(shared)
            .addr(local)
            .backlog(backlog)
            .tcp(settings.tcp)
            .linger(settings.linger)
            .reuse_port(settings.reuseport)
            .bind()
    }

    /// The address bound to; unspecified, with port 0, before [`bind`](Self::bind).
    ///
    /// # Errors
    /// None.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let settings = self.settings();
        let unspecified: IpAddr = match settings.family {
            Some(Family::V6) => Ipv6Addr::UNSPECIFIED.into(),
            Some(Family::V4) | None => Ipv4Addr::UNSPECIFIED.into(),
        };
        Ok(settings.local.unwrap_or(SocketAddr::new(unspecified, 0)))
    }

    /// Nothing can have gone wrong yet.
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

/// Options, as they will be on the stream or on the streams accepted; see the same methods of [`TcpStream`].
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

    /// What was set by [`set_reuseaddr`](Self::set_reuseaddr).
    ///
    /// # Errors
    /// None.
    pub fn reuseaddr(&self) -> io::Result<bool> {
        Ok(self.settings().reuseaddr)
    }

    /// Accepted for the sake of programs that set it: a listener of this stack never finds its port taken by
    /// old connections.
    ///
    /// # Errors
    /// None.
    pub fn set_reuseaddr(&self, reuseaddr: bool) -> io::Result<()> {
        self.settings().reuseaddr = reuseaddr;
        Ok(())
    }

    /// What was set by [`set_reuseport`](Self::set_reuseport).
    ///
    /// # Errors
    /// None.
    pub fn reuseport(&self) -> io::Result<bool> {
        Ok(self.settings().reuseport)
    }

    /// Whether other listeners of this stack that say so, too, may share the address and port: see
    /// [`ListenerBuilder::reuse_port`].
    ///
    /// # Errors
    /// None.
    pub fn set_reuseport(&self, reuseport: bool) -> io::Result<()> {
        self.settings().reuseport = reuseport;
        Ok(())
    }

    /// The most bytes that wait in the send buffer.
    ///
    /// # Errors
    /// None.
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.settings().tcp.send_buffer_max).unwrap_or(u32::MAX))
    }

    /// Sets the most bytes that wait in the send buffer.
    ///
    /// # Errors
    /// None.
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        self.settings().tcp.send_buffer_max = usize::try_from(size).unwrap_or(usize::MAX);
        Ok(())
    }

    /// The most bytes that wait to be read.
    ///
    /// # Errors
    /// None.
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.settings().tcp.receive_buffer_max).unwrap_or(u32::MAX))
    }

    /// Sets the most bytes that wait to be read. Set before the connection exists, it also decides the window
    /// scale that is offered.
    ///
    /// # Errors
    /// None.
    pub fn set_recv_buffer_size(&self, size: u32) -> io::Result<()> {
        self.settings().tcp.receive_buffer_max = usize::try_from(size).unwrap_or(usize::MAX);
        Ok(())
    }

    /// What dropping the stream does: see [`TcpStream::set_linger`].
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

    /// Has dropping the stream reset the connection.
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

    /// Type of service of IPv4 packets: the code point in the upper six bits, zero in the two of ECN.
    ///
    /// # Errors
    /// None.
    pub fn tos_v4(&self) -> io::Result<u32> {
        Ok(u32::from(self.settings().tcp.dscp) << 2)
    }

    /// Sets the type of service; the two bits of ECN are the connection's own and ignored.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] above 255.
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        let tos = u8::try_from(tos).map_err(|_| error::out_of_range("tos", "0 to 255"))?;
        self.settings().tcp.dscp = tos >> 2;
        Ok(())
    }

    /// Traffic class of IPv6 packets: see [`tos_v4`](Self::tos_v4).
    ///
    /// # Errors
    /// None.
    pub fn tclass_v6(&self) -> io::Result<u32> {
        self.tos_v4()
    }

    /// Sets the traffic class: see [`set_tos_v4`](Self::set_tos_v4).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] above 255.
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        self.set_tos_v4(tclass)
    }

    /// Sets the user timeout (RFC 5482): also the longest that `connect` waits for an answer.
    ///
    /// # Errors
    /// None.
    pub fn set_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.settings().tcp.user_timeout = timeout;
        Ok(())
    }

    /// Tells the peer the user timeout by an option and takes the peer's into account within these bounds (RFC 5482); `None`
    /// (the default): neither.
    ///
    /// # Errors
    /// None.
    pub fn set_user_timeout_option(&self, option: Option<UserTimeoutOption>) -> io::Result<()> {
        self.settings().tcp.user_timeout_option = option.map(Box::new);
        Ok(())
    }

    /// Takes part in an experiment (RFC 6994): its option goes on the SYN, a word to the peer's application beside the
    /// stream, which a peer that does not take part ignores. The peer reads it with [`TcpStream::peer_experiment`].
    ///
    /// # Errors
    /// None.
    pub fn set_experiment(&self, experiment: Option<Experiment>) -> io::Result<()> {
        self.settings().tcp.experiment = experiment;
        Ok(())
    }

    /// Sets everything that a connection is told at its making, in one.
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
}

/// Begins to open a connection; the stream may not be used before it is connected.
pub(crate) fn open(
    shared: &Handle,
    remote: SocketAddr,
    local: (Option<IpAddr>, u16),
    tcp: Option<TcpConfig>,
) -> io::Result<TcpStream> {
    let id = shared.control(|state, now| {
        state.check_up()?;
        state.check_tcp(tcp.as_ref())?;
        state.check_route(remote.ip())?;
        state.endpoint.connect(now, remote, local, tcp).map_err(error::connect)
    })?;
    Ok(TcpStream::new(id, shared.clone()))
}

/// The same with data, of which so much was taken.
fn open_with_data(
    shared: &Handle,
    remote: SocketAddr,
    local: (Option<IpAddr>, u16),
    tcp: TcpConfig,
    data: &[u8],
) -> io::Result<(TcpStream, usize)> {
    let (id, taken) = shared.control(|state, now| {
        state.check_up()?;
        state.check_tcp(Some(&tcp))?;
        state.check_route(remote.ip())?;
        let opened = state.endpoint.connect_with_data(now, remote, local, Some(tcp), data);
        opened.map_err(error::connect)
    })?;
    Ok((TcpStream::new(id, shared.clone()), taken))
}

fn specified(addr: IpAddr) -> Option<IpAddr> {
    (!addr.is_unspecified()).then_some(addr)
}
