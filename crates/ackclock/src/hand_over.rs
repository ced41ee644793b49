//! [`Stack::hand_over`] and [`StackBuilder::take_over`]: a new process goes on with the device and all
//! connections of this one.
//!
//! The two speak over a connected Unix socket:
//!
//! | from | bytes | from then on |
//! |---|---|---|
//! | new | `MAGIC`, version | it waits; the old stack runs |
//! | old | `MAGIC`, version, the lengths of the three parts, with the device's descriptor | the old stack stands still |
//! | old | the endpoint's form, the form of the rest, the program's bytes | |
//! | new | `READY` | it has everything, and sends nothing yet |
//! | old | `GO` | the old stack is down; the new one runs |
//!
//! Before `GO` the old stack can go on as if nothing had been, and does so if anything fails; after `GO` it
//! never does. Packets that arrive meanwhile wait in the device's queue, which the descriptor stands for.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use ackclock_core::{Endpoint, FreezeError, Instant, ListenAddr};
use ackclock_device::Device;
use ackclock_form::{Form, FormError, Reader, Writer};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::time::{ClockId, clock_gettime};

use crate::builder::Standing;
use crate::clock::TokioClock;
use crate::shards::Handle;
use crate::shared::StateGuard;
use crate::state::Handed;
use crate::{
    Accepting, BuildError, DeferredListener, Stack, StackBuilder, StackError, TcpListener, TcpStream,
    UdpSocket, names,
};

/// A stack, in the process that took it over.
///
/// A handle that stays in here closes as any dropped one does.
#[derive(Debug)]
#[non_exhaustive]
pub struct TakenOver {
    /// The stack. It runs.
    pub stack: Stack,
    /// The bytes that the other program gave to [`Stack::hand_over`].
    pub application: Vec<u8>,
    /// The streams, and the keys that the other program gave them.
    pub streams: Vec<(Option<u64>, TcpStream)>,
    /// The listeners.
    pub listeners: Vec<TcpListener>,
    /// The listeners whose SYNs wait for a decision. SYNs that the other program was looking at come again.
    pub deferred: Vec<DeferredListener>,
    /// The handshakes that the other program had accepted and waited for.
    pub accepting: Vec<Accepting>,
    /// The UDP sockets.
    pub udp: Vec<UdpSocket>,
    /// The controllers without a form: each stands for a connection whose controller began again.
    pub begun_again: Vec<&'static str>,
}

/// Why a stack was not handed over, or not taken over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandOverError {
    /// The stack closes, or is down.
    #[error("the stack has ended or is about to: hand it over before `shutdown` and `drain`")]
    NotUp,
    /// The device has several queues.
    #[error("the stack has {0} queues: only a stack with one can be handed over; open the device with one")]
    Queues(usize),
    /// The device lives in this process.
    #[error("the device cannot leave this process: use a TUN device, whose descriptor holds its packets")]
    Device,
    /// The endpoint has no form.
    #[error("the stack cannot be handed over: {0}")]
    Freeze(#[from] FreezeError),
    /// The process at the other end of the socket belongs to someone else.
    #[error(
        "the process at the other end runs as user {uid}: run both as the same user, or that one as root"
    )]
    Stranger {
        /// Its effective user.
        uid: u32,
    },
    /// The other end speaks of something else.
    #[error(
        "the other end does not hand over a stack, or is of another version: use the same version on both"
    )]
    Protocol,
    /// No descriptor came along.
    #[error("no descriptor came with the stack: pass the Unix socket itself, not a proxy of it")]
    NoDescriptor,
    /// The form is larger than what may be.
    #[error("the stack takes {bytes} bytes, more than {max}: raise the builder's memory budget")]
    TooLarge {
        /// The bytes that it takes.
        bytes: u64,
        /// The bytes that may be.
        max: u64,
    },
    /// The form cannot be read.
    #[error("the state that came cannot be used: {0}")]
    Form(#[from] FormError),
    /// The device cannot be opened from its descriptor.
    #[error("the device cannot be opened: {0}")]
    Open(Box<dyn std::error::Error + Send + Sync>),
    /// The stack cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The socket failed, or the other end was too slow.
    #[error("the other process did not finish ({0}): the old stack goes on; try again")]
    Io(#[from] io::Error),
}

impl Stack {
    /// Gives everything to the process at the other end of `socket`, which has called
    /// [`StackBuilder::take_over`] or is about to: the device, listeners, half-open and deferred handshakes,
    /// connections, TIME-WAIT, UDP sockets, secrets and the clock. `application` is for that program alone.
    ///
    /// Afterwards every call here fails with [`StackError::HandedOver`], without a packet. If this fails, the
    /// stack goes on as if nothing had been.
    ///
    /// It blocks the thread: for up to ten seconds until the other process is there, and then, while the
    /// stack stands still, for the time in which that process reads and builds the stack, a second at most.
    /// On a runtime with one thread, no task runs between `application` and the end, so the program's state
    /// and the stack's agree. On several, stop the tasks that use the stack first.
    ///
    /// A recording ends here. Sockets that are bound and neither listen nor are connected stay bound until
    /// the end; names, hosts, the control socket and spans are the new program's own.
    ///
    /// # Errors
    /// See [`HandOverError`].
    pub fn hand_over(&self, socket: &UnixStream, application: &[u8]) -> Result<(), HandOverError> {
        check_peer(socket)?;
        let queues = self.shared.all().len();
        if queues > 1 {
            return Err(HandOverError::Queues(queues));
        }
        block(socket, READY_WAIT)?;
        let mut hello = [0; HELLO.len()];
        (&*socket).read_exact(&mut hello)?;
        if hello != HELLO {
            return Err(HandOverError::Protocol);
        }
        block(socket, STILL_MAX)?;
        loop {
            let mut locked = self.shared.lock();
            let device = self.shared.device();
            if self.shared.is_carrying() {
                // The driver, on another thread, is about to hand in what it read.
                drop(device);
                drop(locked);
                std::thread::yield_now();
                continue;
            }
            if !locked.stack.is_up() {
                return Err(HandOverError::NotUp);
            }
            let descriptor = device.as_ref().and_then(|device| device.descriptor());
            let descriptor = descriptor.ok_or(HandOverError::Device)?;
            let now = self.shared.now();
            locked.stack.release_writers(now);
            give(socket, descriptor, now, &locked, application)?;
            drop(device);
            locked.stack.go_down(now, StackError::HandedOver);
            break;
        }
        // Drops the device here, and wakes the tasks.
        self.shared.fail(StackError::HandedOver);
        Ok(())
    }
}

impl StackBuilder {
    /// Goes on with the stack that the process at the other end of `socket` hands over
    /// ([`Stack::hand_over`]), on the current tokio runtime. `open` makes the device of its descriptor:
    /// `|fd| PassedFd::new(fd)?.open(None)` for a TUN device.
    ///
    /// Addresses, routes, the settings of connections, and all bounds come from there. The builder says what
    /// is this program's own: controllers that were registered, hosts and name servers, the close timeout,
    /// and as [`memory_budget`](Self::memory_budget) the largest budget to accept (default 4 GiB).
    ///
    /// It blocks the thread until the other process hands over.
    ///
    /// # Errors
    /// See [`HandOverError`]; the other stack then goes on.
    ///
    /// ```no_run
    /// use ackclock::Stack;
    /// use ackclock::device::{FdError, PassedFd};
    /// use std::os::unix::net::UnixStream;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let socket = UnixStream::connect("/run/my-server/restart")?;
    /// let taken = Stack::builder().take_over(&socket, |fd| PassedFd::new(fd)?.open(None))?;
    /// for (key, stream) in taken.streams {
    ///     println!("{key:?} speaks with {}", stream.peer_addr()?);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn take_over<E>(
        self,
        socket: &UnixStream,
        open: impl FnOnce(OwnedFd) -> Result<Box<dyn Device>, E>,
    ) -> Result<TakenOver, HandOverError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        check_peer(socket)?;
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(None)?;
        (&*socket).write_all(&HELLO)?;
        let (registry, memory_max) = self.bounds();
        let (descriptor, parts) = receive(socket, memory_max)?;
        let thawed = Endpoint::thaw(&parts.endpoint, registry, memory_max)?;
        let mut input = Reader::new(&parts.beside);
        input.lend(Arc::new(registry.clone()));
        let clock = TokioClock::new(runtime, read_clock(&mut input)?);
        let handed = Handed::read(&mut input)?;
        input.end()?;
        let device = open(descriptor).map_err(|error| HandOverError::Open(error.into()))?;
        let standing = self.stand(clock, device, thawed.endpoint, handed)?;
        (&*socket).write_all(&[READY])?;
        let mut go = [0];
        (&*socket).read_exact(&mut go)?;
        if go != [GO] {
            return Err(HandOverError::Protocol);
        }
        Ok(TakenOver::new(standing, parts.application, thawed.begun_again))
    }
}

impl TakenOver {
    fn new(standing: Standing, application: Vec<u8>, begun_again: Vec<&'static str>) -> Self {
        let shard = standing.shard.clone();
        let handle = || Handle::new(shard.clone());
        let look = shard.lock();
        let (ids, keys) = (look.stack.held(), look.stack.keys.clone());
        let (deferred, plain): (Vec<_>, Vec<_>) =
            look.stack.listeners.ids().into_iter().partition(|&id| look.stack.listeners.is_deferred(id));
        let (accepting, udp) = (look.stack.listeners.accepting(), look.stack.datagrams.ids());
        drop(look);
        let taken = Self {
            stack: standing.stack.clone(),
            application,
            streams: ids
                .into_iter()
                .map(|id| (keys.get(&id).copied(), TcpStream::new(id, handle())))
                .collect(),
            listeners: plain.into_iter().map(|id| TcpListener::taken(handle(), id)).collect(),
            deferred: deferred.into_iter().map(|id| DeferredListener::taken(handle(), id)).collect(),
            accepting: accepting.into_iter().map(|(id, syn)| Accepting::new(handle(), id, syn)).collect(),
            udp: udp.into_iter().map(|id| UdpSocket::taken(handle(), id)).collect(),
            begun_again,
        };
        standing.start();
        taken
    }

    /// Takes out the stream with this key ([`TcpStream::set_key`]); of several, any.
    pub fn stream(&mut self, key: u64) -> Option<TcpStream> {
        let place = self.streams.iter().position(|(known, _)| *known == Some(key))?;
        Some(self.streams.swap_remove(place).1)
    }

    /// Takes out the listener on this address, as the other program gave it to [`Stack::listen`].
    pub fn listener(&mut self, addr: SocketAddr) -> Option<TcpListener> {
        let wanted = ListenAddr { addr: names::local(addr.ip(), false), port: Some(addr.port()) };
        let of = |listener: &TcpListener| listener.listen_addr().is_ok_and(|addr| addr == wanted);
        let place = self.listeners.iter().position(of)?;
        Some(self.listeners.swap_remove(place).mapped(addr.is_ipv6()))
    }

    /// Takes out the UDP socket on this address, as the other program gave it to [`Stack::udp`], or as
    /// [`UdpSocket::local_addr`] returns it.
    pub fn udp(&mut self, addr: SocketAddr) -> Option<UdpSocket> {
        let wanted = ListenAddr::from(addr);
        let of =
            |socket: &UdpSocket| socket.is_on(wanted) || socket.local_addr().is_ok_and(|own| own == addr);
        let place = self.udp.iter().position(of)?;
        Some(self.udp.swap_remove(place))
    }
}

/// The parts of what is handed over.
struct Parts {
    endpoint: Vec<u8>,
    beside: Vec<u8>,
    application: Vec<u8>,
}

/// Writes everything, and returns once the other process has it and goes on.
fn give(
    socket: &UnixStream,
    descriptor: BorrowedFd<'_>,
    now: Instant,
    locked: &StateGuard<'_>,
    application: &[u8],
) -> Result<(), HandOverError> {
    let endpoint = locked.stack.endpoint.freeze()?;
    let mut beside = Writer::default();
    now.write(&mut beside);
    monotonic().write(&mut beside);
    locked.stack.write_handed(&mut beside);
    let mut head = HELLO.to_vec();
    for len in [endpoint.len(), beside.len(), application.len()] {
        head.extend((len as u64).to_le_bytes());
    }
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let sent = sendmsg(socket, &[IoSlice::new(&head)], &mut ancillary, SendFlags::NOSIGNAL);
    let mut socket = socket;
    socket.write_all(&head[sent.map_err(io::Error::from)?..])?;
    for part in [&endpoint, beside.bytes(), application] {
        socket.write_all(part)?;
    }
    let mut answer = [0];
    socket.read_exact(&mut answer)?;
    if answer != [READY] {
        return Err(HandOverError::Protocol);
    }
    Ok(socket.write_all(&[GO])?)
}

/// Reads everything. No length is believed before its bytes are there.
fn receive(socket: &UnixStream, memory_max: usize) -> Result<(OwnedFd, Parts), HandOverError> {
    let mut head = [0; HELLO.len() + 3 * size_of::<u64>()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut head)], &mut ancillary, flags);
    let received = received.map_err(io::Error::from)?.bytes;
    if received == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let mut socket = socket;
    socket.read_exact(&mut head[received..])?;
    let (hello, lens) = head.split_at(HELLO.len());
    if hello != HELLO {
        return Err(HandOverError::Protocol);
    }
    let descriptor = descriptor.ok_or(HandOverError::NoDescriptor)?;
    let max = (memory_max as u64).saturating_mul(2).saturating_add(BESIDE_MAX);
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    for (part, len) in parts.iter_mut().zip(lens.chunks_exact(size_of::<u64>())) {
        let bytes = len.try_into().map_or(u64::MAX, u64::from_le_bytes);
        if bytes > max {
            return Err(HandOverError::TooLarge { bytes, max });
        }
        if (socket.take(bytes).read_to_end(part)? as u64) < bytes {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
    let [endpoint, beside, application] = parts;
    Ok((descriptor, Parts { endpoint, beside, application }))
}

/// Time zero of the stack's clock, from the stack's time and the system's at one moment.
fn read_clock(input: &mut Reader<'_>) -> Result<Option<tokio::time::Instant>, FormError> {
    let (then, at) = (Instant::read(input)?, Duration::read(input)?);
    let age = monotonic().saturating_sub(at).saturating_add(then.saturating_since(Instant::ZERO));
    let epoch = tokio::time::Instant::now().checked_sub(age).ok_or(FormError::Number)?;
    Ok(Some(epoch))
}

/// `CLOCK_MONOTONIC`, which all processes share, and by which tokio's clock goes on Linux.
fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// The state holds secrets and other people's data: only the same user and root may send or get it.
fn check_peer(socket: &UnixStream) -> Result<(), HandOverError> {
    let peer = socket_peercred(socket).map_err(io::Error::from)?.uid;
    if peer.is_root() || peer == rustix::process::geteuid() {
        return Ok(());
    }
    Err(HandOverError::Stranger { uid: peer.as_raw() })
}

/// Makes the socket's calls block, for `wait` at most.
fn block(socket: &UnixStream, wait: Duration) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(wait))?;
    socket.set_write_timeout(Some(wait))
}

/// The beginning of both ends: a name and the version of the bytes that follow.
const HELLO: [u8; 20] = *b"ackclock: handing\x01\0\0";
const READY: u8 = 1;
const GO: u8 = 2;
/// How long the other process may take to start.
const READY_WAIT: Duration = Duration::from_secs(10);
/// How long one call may take while the stack stands still.
const STILL_MAX: Duration = Duration::from_secs(1);
/// Bytes of a part beyond twice the memory budget: what connections and tables take beside their queues, and
/// the program's own.
const BESIDE_MAX: u64 = 256 << 20;
