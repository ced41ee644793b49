//! Datagrams. Each sender has its own socket on the far side. A sender that is silent for too long loses it.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ackclock::UdpTransmit;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::outcome::Count;

/// A socket of the system or of a stack.
pub(crate) trait Socket: Send + Sync + 'static {
    fn receive(&self, buf: &mut [u8]) -> impl Future<Output = io::Result<(usize, SocketAddr)>> + Send;
    fn send(&self, bytes: &[u8], to: SocketAddr) -> impl Future<Output = io::Result<usize>> + Send;
}

/// Where the senders send to: a socket of one address, or of all.
pub(crate) trait Near: Send + Sync + 'static {
    fn receive(&self, buf: &mut [u8]) -> impl Future<Output = io::Result<Arrived>> + Send;
    /// Sends an answer, as from `from` if the socket has more than one address.
    fn answer(
        &self,
        bytes: &[u8],
        from: SocketAddr,
        to: SocketAddr,
    ) -> impl Future<Output = io::Result<usize>> + Send;
}

/// The datagrams that have arrived at the near side.
pub(crate) struct Arrived {
    len: usize,
    /// The length of each datagram in it; the last may be shorter.
    stride: usize,
    from: SocketAddr,
    /// Where it was sent to, as far as the socket says.
    dialled: Option<SocketAddr>,
}

/// Where datagrams go.
pub(crate) trait Route: Copy + Send + Sync + 'static {
    /// The destination of what was sent to `dialled`.
    fn to(&self, dialled: Option<SocketAddr>) -> SocketAddr;
    /// The address under which a sender knows the one who answers; `None` if that one may not.
    fn shown(&self, answers: SocketAddr) -> Option<SocketAddr>;
}

/// Everything goes to this address, and answers come from there alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed(pub SocketAddr);

impl Route for Fixed {
    fn to(&self, _: Option<SocketAddr>) -> SocketAddr {
        self.0
    }

    fn shown(&self, answers: SocketAddr) -> Option<SocketAddr> {
        (answers == self.0).then_some(answers)
    }
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

impl Near for UdpSocket {
    async fn receive(&self, buf: &mut [u8]) -> io::Result<Arrived> {
        let (len, from) = self.recv_from(buf).await?;
        Ok(Arrived { len, stride: len, from, dialled: None })
    }

    fn answer(
        &self,
        bytes: &[u8],
        _: SocketAddr,
        to: SocketAddr,
    ) -> impl Future<Output = io::Result<usize>> + Send {
        self.send_to(bytes, to)
    }
}

impl Near for ackclock::UdpSocket {
    async fn receive(&self, buf: &mut [u8]) -> io::Result<Arrived> {
        let meta = self.recv_meta(buf).await?;
        Ok(Arrived { len: meta.len, stride: meta.stride, from: meta.from, dialled: Some(meta.to) })
    }

    async fn answer(&self, bytes: &[u8], from: SocketAddr, to: SocketAddr) -> io::Result<usize> {
        // A socket of one address sends from there.
        let from = self.local_addr().ok().filter(|local| !local.ip().is_unspecified()).unwrap_or(from);
        let transmit = UdpTransmit { from: Some(from), ..UdpTransmit::new(bytes, Some(to)) };
        self.send_transmit(&transmit).await
    }
}

/// The near side of the senders.
pub(crate) struct Relay<S> {
    pub near: S,
    pub idle: Duration,
}

/// A sender.
struct Sender<F, R> {
    far: Arc<F>,
    route: R,
    used: Arc<Mutex<Instant>>,
}

impl<S: Near> Relay<S> {
    /// Relays until the near side fails. `open` makes the far side of a sender, and says where what it sends
    /// goes; it is given the address to which the sender sent first. What is relayed and
    /// what is not is counted.
    pub async fn run<F: Socket, R: Route, O: Future<Output = io::Result<(F, R)>>>(
        self,
        open: impl Fn(Option<SocketAddr>) -> O,
        [relayed, dropped]: [&Count; 2],
    ) -> anyhow::Result<()> {
        let near = Arc::new(self.near);
        let mut senders: HashMap<SocketAddr, Sender<F, R>> = HashMap::new();
        let mut answers = JoinSet::new();
        let mut buf = vec![0; DATAGRAM_MAX];
        loop {
            let Arrived { len, stride, from, dialled } = tokio::select! {
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
                let opened = if senders.len() < SENDERS_MAX { open(dialled).await.ok() } else { None };
                let Some((far, route)) = opened else {
                    dropped.add();
                    continue;
                };
                let sender = Sender { far: Arc::new(far), route, used: Arc::new(Mutex::new(Instant::now())) };
                let (far, used, near) =
                    (Arc::clone(&sender.far), Arc::clone(&sender.used), Arc::clone(&near));
                let idle = self.idle;
                answers.spawn(async move {
                    answer(&*far, &*near, from, route, &used, idle).await;
                    from
                });
                senders.insert(from, sender);
            }
            let Some(sender) = senders.get(&from) else { continue };
            *sender.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            let to = sender.route.to(dialled);
            // Several of one size, or one, which may be empty.
            let empty = (len == 0).then_some(&buf[..0]);
            for datagram in buf[..len].chunks(stride.max(1)).chain(empty) {
                match sender.far.send(datagram, to).await {
                    Ok(_) => relayed.add(),
                    Err(_) => dropped.add(),
                }
            }
        }
    }
}

/// Passes answers back to the sender `from` until there was nothing for too long.
async fn answer(
    far: &impl Socket,
    near: &impl Near,
    from: SocketAddr,
    route: impl Route,
    used: &Mutex<Instant>,
    idle: Duration,
) {
    let mut buf = vec![0; DATAGRAM_MAX];
    loop {
        let until = *used.lock().unwrap_or_else(PoisonError::into_inner) + idle;
        match timeout_at(until, far.receive(&mut buf)).await {
            Ok(Ok((len, other))) => {
                let Some(shown) = route.shown(other) else { continue };
                *used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                // One that is too long for the program's network, say, is lost.
                near.answer(&buf[..len], shown, from).await.ok();
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

/// The unspecified address of the same family, and any port.
pub(crate) fn any(addr: SocketAddr) -> SocketAddr {
    let ip: IpAddr = if addr.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(ip, 0)
}

/// The most senders at one time; datagrams of more are lost.
const SENDERS_MAX: usize = 1024;
/// The longest datagram.
const DATAGRAM_MAX: usize = 65_535;
