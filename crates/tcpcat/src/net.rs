//! One interface to the stack's sockets and the kernel's, so that a transfer can run over either.

mod datagram_socket;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use ackclock::{ConnectionInfo, Experiment, FourTuple, Keepalive, Stack, State};
use ackclock_cli::Failure;
use bytes::Bytes;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) use self::datagram_socket::{DATAGRAM_MAX, DatagramSocket};
use crate::device::Label;
use crate::exit;

/// A maker of connections: a stack in user space, or the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Net {
    kind: Kind,
    /// Set when streams are to be reset rather than closed.
    abort: Arc<AtomicBool>,
    /// The length that the handshakes of a file transfer announce.
    length: Arc<OnceLock<Option<u64>>>,
    kernel_streams: KernelStreams,
}

/// The kernel's connections, by their ends as /proc/net/tcp shows them.
type KernelStreams = Arc<Mutex<HashSet<String>>>;

#[derive(Clone, Debug)]
enum Kind {
    User { stack: Stack, device: Label },
    Kernel,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Stream {
    inner: Inner,
    abort: Arc<AtomicBool>,
    /// Its place among the kernel's.
    kernel: Option<(KernelStreams, String)>,
    /// The data so far is a part and must not pass for the whole: dropped now, the connection is reset.
    is_part: bool,
}

#[derive(Debug)]
enum Inner {
    User(ackclock::TcpStream),
    Kernel(tokio::net::TcpStream),
}

/// Waits for connections.
#[derive(Debug)]
pub(crate) enum Listener {
    User(ackclock::TcpListener, Net),
    Kernel(tokio::net::TcpListener, Net),
}

impl Net {
    pub fn user(stack: Stack, device: Label) -> Self {
        Self {
            kind: Kind::User { stack, device },
            abort: Arc::default(),
            length: Arc::default(),
            kernel_streams: Arc::default(),
        }
    }

    pub fn kernel() -> Self {
        Self {
            kind: Kind::Kernel,
            abort: Arc::default(),
            length: Arc::default(),
            kernel_streams: Arc::default(),
        }
    }

    /// The device under the connections, for messages.
    pub fn device(&self) -> &str {
        match &self.kind {
            Kind::User { device, .. } => &device.name,
            Kind::Kernel => "kernel",
        }
    }

    /// A failure of this network while `doing` something.
    pub fn failure(&self, doing: &str, error: &io::Error) -> Failure {
        match &self.kind {
            Kind::User { device, .. } => exit::network(doing, error, device),
            Kind::Kernel => exit::network(doing, error, &Label::kernel()),
        }
    }

    /// The link of the stack; `None` for the kernel, which has several.
    pub fn link(&self) -> Option<&str> {
        match &self.kind {
            Kind::User { device, .. } => Some(&device.name),
            Kind::Kernel => None,
        }
    }

    /// Whether an address of the same kind and a route lead there. The kernel finds out by itself.
    pub fn reaches(&self, remote: IpAddr) -> bool {
        let Kind::User { stack, .. } = &self.kind else { return true };
        let info = stack.info();
        let is_local = |addr: IpAddr| matches!(addr, IpAddr::V6(addr) if addr.is_unicast_link_local());
        let is_source = |own: IpAddr| own.is_ipv4() == remote.is_ipv4() && is_local(own) == is_local(remote);
        info.addresses.iter().any(|own| is_source(own.addr()))
            && info.routes.is_none_or(|routes| routes.iter().any(|route| route.contains(remote)))
    }

    /// The bytes that the kernel has not got rid of, for all connections together. The stack's own
    /// connections say more than that.
    pub fn kernel_queued(&self) -> u64 {
        let open = self.kernel_streams.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_empty() {
            return 0;
        }
        let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(fs::read_to_string);
        let lines = tables.iter().flatten().flat_map(|table| table.lines());
        lines.filter_map(queue_of).filter(|(ends, _)| open.contains(*ends)).map(|(_, bytes)| bytes).sum()
    }

    /// From now on connections carry a file, and announce that and its length, if known, to a tcpcat at the
    /// other end.
    pub fn carry_file(&self, length: Option<u64>) {
        // A process carries one file.
        let _ = self.length.set(length);
    }

    /// The option that announces it. The kernel's sockets have none.
    fn experiment(&self) -> Option<Experiment> {
        let length = self.length.get()?.unwrap_or(LENGTH_UNKNOWN);
        Some(Experiment { id: FILE_EXPERIMENT, value: length.to_be_bytes() })
    }

    fn stream(&self, inner: Inner) -> Stream {
        let mut stream = Stream { inner, abort: Arc::clone(&self.abort), kernel: None, is_part: false };
        if let (Inner::Kernel(_), Ok(local), Ok(peer)) =
            (&stream.inner, stream.local_addr(), stream.peer_addr())
        {
            let ends = format!("{} {}", shown(local), shown(peer));
            let open = Arc::clone(&self.kernel_streams);
            open.lock().unwrap_or_else(PoisonError::into_inner).insert(ends.clone());
            stream.kernel = Some((open, ends));
        }
        stream
    }

    /// Opens a connection from `local`, whose address may be unspecified and whose port may be 0.
    pub async fn connect(&self, local: SocketAddr, remote: SocketAddr) -> io::Result<Stream> {
        let inner = match &self.kind {
            Kind::User { stack, .. } => {
                let socket = stack.socket();
                socket.set_reuseaddr(true)?;
                socket.bind(local)?;
                socket.set_experiment(self.experiment())?;
                Inner::User(socket.connect(remote).await?)
            }
            Kind::Kernel => Inner::Kernel(kernel_socket(local)?.connect(remote).await?),
        };
        Ok(self.stream(inner))
    }

    /// Listens on an address, which may be unspecified, and a port.
    pub fn listen(&self, local: SocketAddr) -> io::Result<Listener> {
        match &self.kind {
            Kind::User { stack, .. } => {
                let listener = stack.listener().experiment(self.experiment());
                let listener = match local.ip().is_unspecified() {
                    true => listener.any_address(local.port()),
                    false => listener.addr(local),
                };
                Ok(Listener::User(listener.bind()?, self.clone()))
            }
            Kind::Kernel => Ok(Listener::Kernel(kernel_socket(local)?.listen(BACKLOG)?, self.clone())),
        }
    }

    /// The state of each connection; empty for the kernel's.
    pub fn connections(&self) -> Vec<(FourTuple, ConnectionInfo)> {
        match &self.kind {
            Kind::User { stack, .. } => stack.connections(),
            Kind::Kernel => Vec::new(),
        }
    }

    /// Resets all connections of the stack now, and streams when they are dropped later.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
        if let Kind::User { stack, .. } = &self.kind {
            stack.abort();
        }
    }

    pub fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// Waits until sent data has arrived, and both ends know the end of each connection.
    pub async fn close(&self) {
        let Kind::User { stack, device } = &self.kind else { return };
        let patience = if self.is_aborted() { ABORT_TIME_MAX } else { device.close_within };
        if tokio::time::timeout(patience, stack.shutdown()).await.is_err() && !self.is_aborted() {
            self.give_up().await;
        }
    }

    /// Resets what is unfinished. A peer that heard nothing would wait for the process that is gone.
    pub async fn give_up(&self) {
        self.abort();
        if let Kind::User { stack, .. } = &self.kind {
            let _ = tokio::time::timeout(ABORT_TIME_MAX, stack.shutdown()).await;
        }
    }
}

impl Listener {
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        match self {
            Self::User(listener, net) => {
                let (stream, peer) = listener.accept().await?;
                Ok((net.stream(Inner::User(stream)), peer))
            }
            Self::Kernel(listener, net) => {
                let (stream, peer) = listener.accept().await?;
                Ok((net.stream(Inner::Kernel(stream)), peer))
            }
        }
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::User(listener, _) => listener.local_addr(),
            Self::Kernel(listener, _) => listener.local_addr(),
        }
    }
}

impl Stream {
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.inner {
            Inner::User(stream) => stream.local_addr(),
            Inner::Kernel(stream) => stream.local_addr(),
        }
    }

    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.inner {
            Inner::User(stream) => stream.peer_addr(),
            Inner::Kernel(stream) => stream.peer_addr(),
        }
    }

    /// From now until [`finish`](Self::finish) the connection carries a part. It is reset if it is dropped;
    /// the kernel does that too for a process that is killed. Probes detect a peer that vanishes silently.
    pub fn guard(&mut self) -> io::Result<()> {
        self.is_part = true;
        match &self.inner {
            Inner::User(stream) => stream.set_keepalive(Some(Keepalive {
                idle: PROBE_AFTER,
                interval: PROBE_EVERY,
                probes: PROBES,
            })),
            Inner::Kernel(stream) => {
                let socket = SockRef::from(stream);
                let keepalive = TcpKeepalive::new()
                    .with_time(PROBE_AFTER)
                    .with_interval(PROBE_EVERY)
                    .with_retries(PROBES);
                socket.set_tcp_keepalive(&keepalive)?;
                socket.set_linger(Some(Duration::ZERO))
            }
        }
    }

    /// All data is written: the end of the stream may report that, and the kernel delivers the data that it
    /// has.
    pub fn all_written(&self) -> io::Result<()> {
        match &self.inner {
            Inner::User(_) => Ok(()),
            Inner::Kernel(stream) => SockRef::from(stream).set_linger(None),
        }
    }

    /// The data has arrived completely: the connection may close in order.
    pub fn finish(&mut self) -> io::Result<()> {
        self.is_part = false;
        self.all_written()
    }

    /// Waits until the peer has acknowledged all data. The kernel takes care of that by itself, even after
    /// the process has ended.
    pub async fn delivered(&self) -> io::Result<()> {
        match &self.inner {
            Inner::User(stream) => stream.delivered().await.map(drop),
            Inner::Kernel(_) => Ok(()),
        }
    }

    /// The bytes that were written and not acknowledged, if that is known and there are any.
    pub fn unacknowledged(&self) -> Option<usize> {
        self.info().map(|info| info.send_queue).filter(|&bytes| bytes > 0)
    }

    /// The peer must not take what has arrived for the whole: the connection is reset when it is dropped.
    pub fn reset_unless_finished(&mut self) {
        self.is_part = true;
    }

    /// The length of the file that the peer sends, if the peer is tcpcat and knows the length.
    pub fn announced_length(&self) -> Option<u64> {
        let Inner::User(stream) = &self.inner else { return None };
        let experiment = stream.peer_experiment().ok()??;
        Some(u64::from_be_bytes(experiment.value)).filter(|&length| length != LENGTH_UNKNOWN)
    }

    /// Whether the peer has acknowledged everything, including the end of the stream. The kernel takes care
    /// of that by itself, even after the process has ended.
    pub fn is_acknowledged(&self) -> bool {
        let over =
            |info: ConnectionInfo| matches!(info.state, State::FinWait2 | State::TimeWait | State::Closed);
        matches!(self.inner, Inner::Kernel(_)) || self.info().is_some_and(over)
    }

    /// Whether its calls can avoid copies: those of the kernel's sockets cannot.
    pub fn has_slices(&self) -> bool {
        matches!(self.inner, Inner::User(_))
    }

    /// Takes as much as there is room for off the front of `bytes`.
    pub fn poll_write_bytes(&self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<usize>> {
        match &self.inner {
            Inner::User(stream) => stream.poll_write_bytes(cx, bytes),
            Inner::Kernel(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Takes at most `max` received bytes; an empty slice is the end of the stream.
    pub fn poll_read_bytes(&self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        match &self.inner {
            Inner::User(stream) => stream.poll_read_bytes(cx, max),
            Inner::Kernel(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// The name of the congestion controller.
    pub fn congestion(&self) -> io::Result<String> {
        match &self.inner {
            Inner::User(stream) => Ok(stream.info()?.congestion.to_owned()),
            Inner::Kernel(stream) => {
                let name = SockRef::from(stream).tcp_congestion()?;
                Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
            }
        }
    }

    /// The most payload of a segment that this end sends.
    pub fn mss(&self) -> io::Result<u32> {
        match &self.inner {
            Inner::User(stream) => Ok(stream.info()?.snd_mss),
            Inner::Kernel(stream) => SockRef::from(stream).tcp_mss(),
        }
    }

    /// The state of the connection; `None` for the kernel's.
    pub fn info(&self) -> Option<ConnectionInfo> {
        match &self.inner {
            Inner::User(stream) => stream.info().ok(),
            Inner::Kernel(_) => None,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let aborts = self.is_part || self.abort.load(Ordering::Relaxed);
        if let (true, Inner::User(stream)) = (aborts, &self.inner) {
            stream.abort();
        }
        if let Some((open, ends)) = self.kernel.take() {
            open.lock().unwrap_or_else(PoisonError::into_inner).remove(&ends);
        }
    }
}

/// The ends of a connection and the bytes in its send queue, from a line of /proc/net/tcp.
fn queue_of(line: &str) -> Option<(&str, u64)> {
    let line = line.trim_start().split_once(' ')?.1;
    let ends = line.match_indices(' ').nth(1).map(|(at, _)| &line[..at])?;
    let queues = line[ends.len()..].split_whitespace().nth(1)?;
    Some((ends, u64::from_str_radix(queues.split_once(':')?.0, 16).ok()?))
}

/// An address and a port as /proc/net/tcp writes them.
fn shown(addr: SocketAddr) -> String {
    let octets = match addr.ip() {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    };
    let word = |word: &[u8]| {
        let bytes = word.iter().rev().fold(0u32, |all, &byte| all << 8 | u32::from(byte));
        format!("{:08X}", if cfg!(target_endian = "big") { bytes.swap_bytes() } else { bytes })
    };
    let words: String = octets.chunks(4).map(word).collect();
    format!("{words}:{:04X}", addr.port())
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().inner {
            Inner::User(stream) => Pin::new(stream).poll_read(cx, buf),
            Inner::Kernel(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().inner {
            Inner::User(stream) => Pin::new(stream).poll_write(cx, buf),
            Inner::Kernel(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().inner {
            Inner::User(stream) => Pin::new(stream).poll_flush(cx),
            Inner::Kernel(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().inner {
            Inner::User(stream) => Pin::new(stream).poll_shutdown(cx),
            Inner::Kernel(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

fn kernel_socket(local: SocketAddr) -> io::Result<tokio::net::TcpSocket> {
    let socket =
        if local.is_ipv4() { tokio::net::TcpSocket::new_v4()? } else { tokio::net::TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(local)?;
    Ok(socket)
}

const BACKLOG: u32 = 1024;

/// "tcpc": data that tcpcats exchange in the handshake, outside the stream (RFC 6994; the number is not
/// registered).
const FILE_EXPERIMENT: u32 = u32::from_be_bytes(*b"tcpc");

/// An unknown length, or a receiver's value.
const LENGTH_UNKNOWN: u64 = u64::MAX;

/// A peer that is silent while it owes nothing is probed after this long, and given up after this long and
/// all probes: a killed peer whose device has gone sends no reset.
const PROBE_AFTER: Duration = Duration::from_secs(10);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 4;

/// When the stack itself ends its connections, which is after this process has reset them.
pub(crate) const STACK_CLOSE_TIME: Duration = Duration::from_secs(60);

/// How long resets may take to leave.
const ABORT_TIME_MAX: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use ackclock_device::memory;

    use super::*;
    use crate::device::DeviceChoice;

    /// The peer's end stays open. In the capture of one that closed, it answers nothing new.
    #[tokio::test(start_paused = true)]
    async fn a_live_peer_may_take_ten_seconds_to_close_and_a_recorded_one_a_moment() {
        for (device, seconds) in [("tun", 10.0), ("capture.pcapng", 0.2)] {
            let stack = |device, addr: &str| {
                Stack::builder().device(device).address(addr.parse().unwrap()).spawn().unwrap()
            };
            let (left, right) = memory::pair(memory::Config::default());
            let (own, peer) = (stack(left, "10.0.0.1/24"), stack(right, "10.0.0.2/24"));
            let listener = peer.listen("10.0.0.2:7000".parse().unwrap()).unwrap();
            let device = DeviceChoice::parse(device).unwrap();
            let close_within = device.backend().close_within();
            let net = Net::user(own, Label { close_within, ..Label::tun("tun0") });
            let local = "10.0.0.1:0".parse().unwrap();
            let (mine, theirs) =
                tokio::join!(net.connect(local, listener.local_addr().unwrap()), listener.accept());
            drop(mine.unwrap());
            let began = tokio::time::Instant::now();
            net.close().await;
            let took = began.elapsed().as_secs_f64();
            assert!((seconds..seconds + ABORT_TIME_MAX.as_secs_f64() + 0.1).contains(&took), "{took} s");
            drop(theirs);
        }
    }

    #[test]
    fn a_line_of_the_kernels_table_is_found_by_its_ends() {
        let line =
            "   1: 0100007F:1B58 0200000A:A3D2 01 0000FA00:00000000 01:00000014 00000000     0        0 1 2";
        let ends = ["127.0.0.1:7000", "10.0.0.2:41938"].map(|addr| shown(addr.parse().unwrap())).join(" ");
        assert_eq!(queue_of(line), Some((ends.as_str(), 0xfa00)));
        let mapped = shown("[::ffff:127.0.0.1]:7000".parse().unwrap());
        assert_eq!(mapped, "0000000000000000FFFF00000100007F:1B58");
        assert_eq!(queue_of("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when"), None);
    }
}
