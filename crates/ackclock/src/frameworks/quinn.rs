//! QUIC over a stack's UDP: endpoints of the crate quinn with the datagrams and the time of a [`Stack`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use ackclock::Stack;
//! use ackclock::quinn::endpoint;
//! use quinn::rustls::RootCertStore;
//! use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
//! use quinn::{ClientConfig, EndpointConfig, ServerConfig};
//! # use ackclock::device::memory;
//! # use rcgen::{CertifiedKey, generate_simple_self_signed};
//! # type Failure = Box<dyn std::error::Error + Send + Sync>;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Failure> {
//! # let (left, right) = memory::pair(memory::Config::default());
//! # let client = Stack::builder().device(left).address("10.0.0.1/24".parse()?).spawn()?;
//! # let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
//! let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["server.test".to_owned()])?;
//! let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
//! let config = ServerConfig::with_single_cert(vec![cert.der().clone()], key.into())?;
//! let server = endpoint(&server, "10.0.0.2:443".parse()?, EndpointConfig::default(), Some(config))?;
//! tokio::spawn(async move {
//!     let connection = server.accept().await.ok_or("the endpoint is closed")?.await?;
//!     let (mut send, mut receive) = connection.accept_bi().await?;
//!     send.write_all(&receive.read_to_end(1000).await?).await?;
//!     send.finish()?;
//!     connection.closed().await;
//!     Ok::<_, Failure>(())
//! });
//!
//! let mut trusted = RootCertStore::empty();
//! trusted.add(cert.der().clone())?;
//! let mut client = endpoint(&client, "0.0.0.0:0".parse()?, EndpointConfig::default(), None)?;
//! client.set_default_client_config(ClientConfig::with_root_certificates(Arc::new(trusted))?);
//! let connection = client.connect("10.0.0.2:443".parse()?, "server.test")?.await?;
//! let (mut send, mut receive) = connection.open_bi().await?;
//! send.write_all(b"hello").await?;
//! send.finish()?;
//! assert_eq!(receive.read_to_end(1000).await?, b"hello");
//! # Ok(()) }
//! ```
//!
//! This crate enables no features of quinn: choose the cryptography (`rustls-ring`, `rustls-aws-lc-rs`) where
//! your program names quinn. quinn's `Endpoint::client` and `Endpoint::server` make sockets of the kernel;
//! [`endpoint`] replaces both.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use ::quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use ::quinn::{AsyncTimer, AsyncUdpSocket, Endpoint, EndpointConfig, ServerConfig, UdpPoller};
use ackclock_core::{Codepoint, UdpMeta, UdpTransmit};
use tokio::time::Sleep;

use crate::clock::ShardClock;
use crate::udp::RoomToSend;
use crate::{Stack, UdpSocket};

/// A QUIC endpoint of `stack`, client and server in one, bound to `addr`. A client binds port 0 of the
/// unspecified address, which stands for a free port. As with quinn's own sockets, an endpoint bound to
/// `0.0.0.0` connects to IPv4 addresses only; one bound to `::` connects to both families and gives the IPv4
/// addresses of its peers as IPv4-mapped ones.
///
/// The endpoint counts as a handle of the stack.
///
/// # Errors
/// As [`Stack::udp`].
///
/// # Panics
/// Outside a tokio runtime: [`Runtime`] runs the endpoint's tasks there.
pub fn endpoint(
    stack: &Stack,
    addr: SocketAddr,
    config: EndpointConfig,
    server: Option<ServerConfig>,
) -> io::Result<Endpoint> {
    let socket = Socket::bind(stack, addr)?;
    Endpoint::new_with_abstract_socket(config, server, Arc::new(socket), Arc::new(Runtime::new(stack)))
}

/// The runtime for quinn's endpoints: tokio's tasks and a stack's clock. On a stack in virtual time, QUIC's
/// timers run in virtual time.
///
/// Timers wait by `tokio::time` in the runtime of the caller, and end when the stack's clock says so. They
/// end at whole milliseconds of tokio's clock, as those of quinn's own `TokioRuntime` do.
///
/// quinn checks the age of address validation tokens by the system's clock, not by this one. Give
/// `quinn::ServerConfig::time_source` another if a server in virtual time must let them expire.
#[derive(Clone, Debug)]
pub struct Runtime {
    clock: QuicClock,
}

impl Runtime {
    /// Takes the time from `stack`, and does not keep it up.
    #[must_use]
    pub fn new(stack: &Stack) -> Self {
        Self { clock: QuicClock::of(stack.shared.clock().clone()) }
    }
}

impl ::quinn::Runtime for Runtime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer { clock: self.clock.clone(), at, sleep: None, is_set: false })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(future);
    }

    /// Fails: this runtime has sockets of a stack only. Make an endpoint by [`endpoint`], and move one to
    /// another address by `quinn::Endpoint::rebind_abstract` with a [`Socket`].
    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, NO_KERNEL_SOCKETS))
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }
}

/// A stack's clock, as instants of `std`.
#[derive(Clone, Debug)]
struct QuicClock {
    clock: ShardClock,
    /// The moment at which this was made, on both clocks. Only the clock of `std` makes its instants.
    pair: (Instant, ackclock_core::Instant),
}

impl QuicClock {
    fn of(clock: ShardClock) -> Self {
        let pair = (Instant::now(), clock.now());
        Self { clock, pair }
    }

    fn now(&self) -> Instant {
        let (began, began_here) = self.pair;
        began + self.clock.now().saturating_since(began_here)
    }
}

/// A timer of a QUIC connection.
#[derive(Debug)]
struct Timer {
    clock: QuicClock,
    at: Instant,
    /// Made where it is first polled, within a runtime.
    sleep: Option<Pin<Box<Sleep>>>,
    /// Whether `sleep` waits for `at`.
    is_set: bool,
}

impl AsyncTimer for Timer {
    fn reset(self: Pin<&mut Self>, at: Instant) {
        let timer = self.get_mut();
        timer.at = at;
        timer.is_set = false;
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.get_mut();
        loop {
            let left = timer.at.saturating_duration_since(timer.clock.now());
            if left.is_zero() {
                return Poll::Ready(());
            }
            let until = tokio::time::Instant::now() + left;
            let sleep = match &mut timer.sleep {
                Some(sleep) => sleep,
                empty => {
                    timer.is_set = true;
                    empty.insert(Box::pin(tokio::time::sleep_until(until)))
                }
            };
            if !std::mem::replace(&mut timer.is_set, true) {
                sleep.as_mut().reset(until);
            }
            ready!(Future::poll(sleep.as_mut(), cx));
            // The stack's clock may be behind tokio's: then it waits for the rest.
            timer.is_set = false;
        }
    }
}

/// A UDP socket of a stack, as quinn wants it: many datagrams in one call each way, with their ECN field and
/// the local address. It sends no fragments, so that QUIC can look for the path's MTU.
///
/// As with quinn's sockets of the kernel, a datagram that cannot be sent (it is too long, no route leads to
/// its destination, the memory budget is used up) counts as lost on the way.
#[derive(Debug)]
pub struct Socket {
    udp: Arc<UdpSocket>,
    /// As bound; the port is the one that was found.
    addr: SocketAddr,
}

impl Socket {
    /// Binds a socket of `stack`, as [`endpoint`] does, for `quinn::Endpoint::new_with_abstract_socket` and
    /// `quinn::Endpoint::rebind_abstract`.
    ///
    /// # Errors
    /// As [`Stack::udp`].
    pub fn bind(stack: &Stack, addr: SocketAddr) -> io::Result<Self> {
        let udp = stack.udp(addr)?;
        let addr = SocketAddr::new(addr.ip(), udp.local_addr()?.port());
        Ok(Self { udp: Arc::new(udp), addr })
    }

    /// The address of a peer, as quinn compares it with the one it has connected to.
    fn named(&self, peer: SocketAddr) -> SocketAddr {
        match (self.addr, peer.ip()) {
            (SocketAddr::V6(_), IpAddr::V4(ip)) => (ip.to_ipv6_mapped(), peer.port()).into(),
            _ => peer,
        }
    }

    fn meta(&self, meta: &UdpMeta) -> RecvMeta {
        RecvMeta {
            addr: self.named(meta.from),
            len: meta.len,
            stride: meta.stride,
            ecn: EcnCodepoint::from_bits(meta.ecn.bits()),
            dst_ip: Some(meta.to.ip()),
        }
    }
}

/// For its options, such as [`UdpSocket::set_ttl`] and the DSCP of [`UdpSocket::set_tos_v4`].
impl AsRef<UdpSocket> for Socket {
    fn as_ref(&self) -> &UdpSocket {
        &self.udp
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller { room: RoomToSend::of(&self.udp), _udp: Arc::clone(&self.udp) })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let to = SocketAddr::new(transmit.destination.ip().to_canonical(), transmit.destination.port());
        // Port 0: the socket's own.
        let from = transmit.src_ip.map(|ip| SocketAddr::new(ip.to_canonical(), 0));
        let ecn = transmit.ecn.map_or(Codepoint::NotEct, |ecn| Codepoint::of(ecn as u8));
        let segment_size = transmit.segment_size;
        let transmit = UdpTransmit { contents: transmit.contents, to: Some(to), from, segment_size, ecn };
        match self.udp.try_send_transmit(&transmit) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            // An error ends a connection of quinn's without a word to its user. A stack that is gone ends
            // them all by the error of `poll_recv`; any other is one datagram's.
            _ => Ok(()),
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let most = bufs.len().min(metas.len());
        let bufs = &mut bufs[..most];
        let mut metas = metas.iter_mut();
        self.udp.poll_recv_many(cx, bufs, |meta| {
            if let Some(slot) = metas.next() {
                *slot = self.meta(&meta);
            }
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.addr)
    }

    fn max_transmit_segments(&self) -> usize {
        UdpTransmit::SEGMENTS_MAX
    }

    fn max_receive_segments(&self) -> usize {
        RECEIVE_SEGMENTS
    }

    fn may_fragment(&self) -> bool {
        self.udp.fragments().unwrap_or(false)
    }
}

/// A task's place among those that wait for room to send.
struct Poller {
    room: RoomToSend,
    /// The socket is not closed meanwhile.
    _udp: Arc<UdpSocket>,
}

impl UdpPoller for Poller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // An error has the task go on, and `try_send` sees to it.
        self.get_mut().room.poll(cx).map(|_| Ok(()))
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").finish_non_exhaustive()
    }
}

const NO_KERNEL_SOCKETS: &str = "this runtime has no sockets of the kernel: make the endpoint with \
    `ackclock::quinn::endpoint`, or give quinn an `ackclock::quinn::Socket`";

/// The most datagrams in one buffer of `poll_recv`. quinn allocates 32 such buffers for each endpoint.
/// With 8 they hold more than waits at a socket (256 KiB), in 0.4 MB; with 64, as on Linux, they take 3 MB.
const RECEIVE_SEGMENTS: usize = 8;
