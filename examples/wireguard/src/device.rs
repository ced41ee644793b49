//! A peer and its UDP socket as what carries the packets of a stack.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use ackclock::device::over::PacketIo;
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use tokio::time::{Instant, Sleep};

use crate::peer::{Config, Counters, Peer};

/// A tunnel to one peer. [`IpOver`](ackclock::device::over::IpOver) makes a device of it.
#[derive(Debug)]
pub struct Tunnel {
    shared: Handle,
    tick: Pin<Box<Sleep>>,
    datagram: Box<[u8]>,
}

/// Looks into a tunnel that a stack owns, and moves it to another socket.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    peer: Peer,
    outside: Outside,
    /// The task that waits for packets.
    receiver: Option<Waker>,
}

/// The network outside the tunnel.
#[derive(Debug)]
struct Outside {
    socket: UdpSocket,
    /// Datagrams that found no room in the socket.
    no_room: u64,
    /// Datagrams that the network refused: a route was missing for a moment, for instance.
    refused: u64,
}

impl Tunnel {
    /// A tunnel to the peer of `config`, through `socket`.
    ///
    /// # Panics
    /// Not called on a tokio runtime.
    #[must_use]
    pub fn new(config: &Config, socket: UdpSocket) -> Self {
        let inner = Inner {
            peer: Peer::new(config, 0),
            outside: Outside { socket, no_room: 0, refused: 0 },
            receiver: None,
        };
        Self {
            shared: Handle(Arc::new(Mutex::new(inner))),
            tick: Box::pin(tokio::time::sleep(TICK)),
            datagram: vec![0; DATAGRAM_MAX].into(),
        }
    }

    /// A handle, to keep when a device takes the tunnel.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.shared.clone()
    }
}

impl Handle {
    /// Sends and receives through another socket from now on, as a host does that changes its network; a
    /// message without contents informs the peer.
    ///
    /// # Errors
    /// The socket cannot send; the old one stays.
    pub async fn replace_socket(&self, socket: UdpSocket) -> io::Result<()> {
        // tokio does not know yet that a new socket is writable.
        socket.writable().await?;
        let mut inner = self.lock();
        let Inner { peer, outside, receiver, .. } = &mut *inner;
        outside.socket = socket;
        // This end may have nothing to send for long, and the peer would go on sending to the old socket.
        peer.announce(|to, datagram| outside.send(to, datagram));
        let receiver = receiver.take();
        drop(inner);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
        Ok(())
    }

    /// Negotiates new keys with the peer now.
    pub fn rekey(&self) {
        let mut inner = self.lock();
        let Inner { peer, outside, .. } = &mut *inner;
        peer.rekey(|to, datagram| outside.send(to, datagram));
    }

    /// Packets carried, and packets dropped in the tunnel.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.lock().peer.counters()
    }

    /// Datagrams that did not leave: for lack of room in the socket, and because the network refused them.
    #[must_use]
    pub fn not_sent(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.outside.no_room, inner.outside.refused)
    }

    /// Where the peer is.
    #[must_use]
    pub fn endpoint(&self) -> Option<SocketAddr> {
        self.lock().peer.endpoint()
    }

    /// The age of the keys in use; `None` without any.
    #[must_use]
    pub fn last_handshake(&self) -> Option<Duration> {
        self.lock().peer.last_handshake()
    }

    /// Attempts at a handshake, five seconds apart, since the peer was last heard.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.lock().peer.unanswered()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The contents are consistent between any two statements that can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PacketIo for Tunnel {
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut inner = self.shared.lock();
        let Inner { peer, outside, receiver } = &mut *inner;
        if !receiver.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *receiver = Some(cx.waker().clone());
        }
        while self.tick.as_mut().poll(cx).is_ready() {
            peer.tick(|to, datagram| outside.send(to, datagram));
            self.tick.as_mut().reset(Instant::now() + TICK);
        }
        for _ in 0..DATAGRAMS_PER_POLL {
            let mut datagram = ReadBuf::new(&mut self.datagram);
            match ready!(outside.socket.poll_recv_from(cx, &mut datagram)) {
                Ok(from) => {
                    let send = |to, answer: &[u8]| outside.send(to, answer);
                    if let Some(packet) = peer.receive(from, datagram.filled(), send) {
                        let len = packet.len().min(into.len());
                        into[..len].copy_from_slice(&packet[..len]);
                        return Poll::Ready(Ok(len));
                    }
                }
                // The network reports an error about an earlier datagram. To the tunnel, that datagram is
                // lost.
                Err(_) => outside.refused += 1,
            }
        }
        // Many datagrams arrived, and none held a packet: others have their turn first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_send_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The next send reports the error.
        self.shared.lock().outside.socket.poll_send_ready(cx).map(|_| Ok(()))
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        let mut inner = self.shared.lock();
        let Inner { peer, outside, .. } = &mut *inner;
        peer.send(packet, |to, datagram| outside.send(to, datagram));
        Ok(())
    }
}

impl Outside {
    /// Sends a datagram; one that finds no room or no route is lost, as on any network.
    fn send(&mut self, to: SocketAddr, datagram: &[u8]) {
        match self.socket.try_send_to(datagram, to) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.no_room += 1,
            Err(_) => self.refused += 1,
        }
    }
}

/// The interval of boringtun's timers, which count in seconds.
const TICK: Duration = Duration::from_millis(250);
/// The longest datagram.
const DATAGRAM_MAX: usize = 65_535;
/// Datagrams processed before the stack has its turn.
const DATAGRAMS_PER_POLL: usize = 256;
