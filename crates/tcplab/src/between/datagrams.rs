//! Datagrams. Each sender has its own socket on the far side. A sender that is silent for too long loses it.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ackclock::Stack;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::Way;
use super::outcome::Count;

/// A socket of the system or of a stack.
trait Socket: Send + Sync + 'static {
    fn receive(&self, buf: &mut [u8]) -> impl Future<Output = io::Result<(usize, SocketAddr)>> + Send;
    fn send(&self, bytes: &[u8], to: SocketAddr) -> impl Future<Output = io::Result<usize>> + Send;
}

impl Socket for UdpSocket {
    fn receive(&self, buf: &mut [u8]) -> impl Future<Output = io::Result<(usize, SocketAddr)>> + Send {
        self.recv_from(buf)
    }

    fn send(&self, bytes: &[u8], to: SocketAddr) -> impl Future<Output = io::Result<usize>> + Send {
        self.send_to(bytes, to)
    }
}

impl Socket for ackclock::UdpSocket {
    fn receive(&self, buf: &mut [u8]) -> impl Future<Output = io::Result<(usize, SocketAddr)>> + Send {
        self.recv_from(buf)
    }

    fn send(&self, bytes: &[u8], to: SocketAddr) -> impl Future<Output = io::Result<usize>> + Send {
        self.send_to(bytes, to)
    }
}

/// The first host: takes datagrams of programs into the network.
pub(super) async fn from_programs(ways: Arc<[Way]>, index: usize, stack: Stack) -> anyhow::Result<()> {
    let way = &ways[index];
    let Some(socket) = &way.datagrams else { return Ok(()) };
    let socket = socket.try_clone()?;
    socket.set_nonblocking(true)?;
    let near = Relay { near: UdpSocket::from_std(socket)?, idle: way.datagrams_idle };
    let server = way.server;
    let open = || {
        let stack = stack.clone();
        async move {
            let socket = stack.udp(SocketAddr::new(any(server), 0))?;
            socket.set_fragments(true)?;
            Ok((socket, server))
        }
    };
    near.run(open, &way.tally.datagrams, &way.tally.datagrams_dropped).await
}

/// The second host: passes them to the program behind it.
pub(super) async fn to_program(ways: Arc<[Way]>, index: usize, stack: Stack) -> anyhow::Result<()> {
    let way = &ways[index];
    if way.datagrams.is_none() {
        return Ok(());
    }
    let socket = stack.udp(way.server)?;
    socket.set_fragments(true)?;
    let near = Relay { near: socket, idle: way.datagrams_idle };
    let open = || {
        let to = way.to.clone();
        async move {
            let mut found = tokio::net::lookup_host(to).await?;
            let to = found.next().ok_or(io::ErrorKind::NotFound)?;
            Ok((UdpSocket::bind(SocketAddr::new(any(to), 0)).await?, to))
        }
    };
    near.run(open, &way.tally.datagrams_through, &way.tally.datagrams_dropped).await
}

/// The near side of the senders.
struct Relay<S> {
    near: S,
    idle: Duration,
}

/// A sender.
struct Sender<F> {
    far: Arc<F>,
    to: SocketAddr,
    used: Arc<Mutex<Instant>>,
}

impl<S: Socket> Relay<S> {
    /// Relays until the near side fails. `open` makes the far side of a sender, and says to whom it sends.
    async fn run<F: Socket, O: Future<Output = io::Result<(F, SocketAddr)>>>(
        self,
        open: impl Fn() -> O,
        relayed: &Count,
        dropped: &Count,
    ) -> anyhow::Result<()> {
        let near = Arc::new(self.near);
        let mut senders: HashMap<SocketAddr, Sender<F>> = HashMap::new();
        let mut answers = JoinSet::new();
        let mut buf = vec![0; DATAGRAM_MAX];
        loop {
            let (len, from) = tokio::select! {
                received = near.receive(&mut buf) => match received {
                    Ok(received) => received,
                    // An ICMP error about an earlier datagram; or the end of the stack.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                    Err(error) => return Err(error.into()),
                },
                Some(done) = answers.join_next() => {
                    let _ = done.map(|from: SocketAddr| senders.remove(&from));
                    continue;
                }
            };
            if !senders.contains_key(&from) {
                let opened = if senders.len() < SENDERS_MAX { open().await.ok() } else { None };
                let Some((far, to)) = opened else {
                    dropped.add();
                    continue;
                };
                let sender = Sender { far: Arc::new(far), to, used: Arc::new(Mutex::new(Instant::now())) };
                let (far, used, near) =
                    (Arc::clone(&sender.far), Arc::clone(&sender.used), Arc::clone(&near));
                let idle = self.idle;
                answers.spawn(async move {
                    answer(&*far, &*near, from, to, &used, idle).await;
                    from
                });
                senders.insert(from, sender);
            }
            let Some(sender) = senders.get(&from) else { continue };
            *sender.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            match sender.far.send(&buf[..len], sender.to).await {
                Ok(_) => relayed.add(),
                Err(_) => dropped.add(),
            }
        }
    }
}

/// Passes answers back to the sender `from` until there was nothing for too long.
async fn answer(
    far: &impl Socket,
    near: &impl Socket,
    from: SocketAddr,
    to: SocketAddr,
    used: &Mutex<Instant>,
    idle: Duration,
) {
    let mut buf = vec![0; DATAGRAM_MAX];
    loop {
        let until = *used.lock().unwrap_or_else(PoisonError::into_inner) + idle;
        match timeout_at(until, far.receive(&mut buf)).await {
            // From elsewhere: an answer comes from where the datagram went.
            Ok(Ok((_, other))) if other != to => {}
            Ok(Ok((len, _))) => {
                *used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                // One that is too long for the program's network, say, is lost.
                near.send(&buf[..len], from).await.ok();
            }
            // An ICMP error about an earlier datagram: the program may listen later.
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Ok(Err(_)) => return,
            Err(_) => {
                if *used.lock().unwrap_or_else(PoisonError::into_inner) + idle <= Instant::now() {
                    return;
                }
            }
        }
    }
}

/// The unspecified address of the same family.
fn any(addr: SocketAddr) -> IpAddr {
    if addr.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// The most senders of one --listen at one time; datagrams of more are lost.
const SENDERS_MAX: usize = 1024;
/// The longest datagram.
const DATAGRAM_MAX: usize = 65_535;
