//! Datagrams: one relay of the proxy for each address and port from which a client sends.
//!
//! Everything that the client sends from there goes through that relay, whatever the destination
//! (endpoint-independent mapping, RFC 4787 §4.1; read in quotations). Who may answer is a choice (§5):
//! anyone, the addresses that the client sent to, or only their ports. The number of relays is bounded, as
//! are the datagrams that wait for each, the peers that it remembers, and the time without traffic; dropped
//! datagrams are counted.
//!
//! A relay tells the addresses of those who answer, also of those that the client knows by a name's address
//! of the pool. The first answer from an unknown address is taken for one of the name that was sent to last,
//! of those with the same port that have not answered yet.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ackclock::{UdpMeta, UdpSocket, UdpTransmit};
use clap::ValueEnum;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, sleep_until};

use crate::dns;
use crate::gateway::Gateway;
use crate::proxy::{Association, Destination, ProxyError, ProxyKind};
use crate::socks5::{unwrap, wrap};

/// Who may answer a client that has sent something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Filtering {
    /// Anyone ("full cone"): what games and calls between two clients need
    Anyone,
    /// Any port of an address that the client has sent to ("address-restricted")
    Address,
    /// The addresses and ports that the client has sent to ("port-restricted")
    Port,
}

/// A client's datagram and its destination.
type Outgoing = (SocketAddr, Vec<u8>);

/// Serves clients until the stack ends. Without `relays`, only queries of DNS are answered.
pub(crate) async fn serve(any: UdpSocket, gateway: Arc<Gateway>, relays: bool) {
    let relays = relays && gateway.proxy.kind != ProxyKind::Http;
    let mut clients = Relays { open: HashMap::new(), any: Arc::new(any), gateway };
    let any = Arc::clone(&clients.any);
    let mut buf = vec![0; DATAGRAM_MAX];
    while let Ok(meta) = any.recv_meta(&mut buf).await {
        // Several of one size, or one, which may be empty.
        let empty = (meta.len == 0).then_some(&buf[..0]);
        for payload in buf[..meta.len].chunks(meta.stride.max(1)).chain(empty) {
            if clients.answers(&meta, payload) {
                continue;
            }
            if relays {
                clients.send(meta.from, (meta.to, payload.to_vec()));
            } else {
                clients.gateway.counters.dropped_no_relay.add(1);
            }
        }
    }
}

/// The relays of all clients.
struct Relays {
    open: HashMap<SocketAddr, mpsc::Sender<Outgoing>>,
    /// The socket for any address, through which the clients get their answers.
    any: Arc<UdpSocket>,
    gateway: Arc<Gateway>,
}

impl Relays {
    /// Answers a query of DNS, if the pool can.
    fn answers(&self, meta: &UdpMeta, query: &[u8]) -> bool {
        let Some(names) = self.gateway.names.as_ref().filter(|_| meta.to.port() == dns::PORT) else {
            return false;
        };
        let Some(answer) = dns::answer(query, names) else { return false };
        self.gateway.counters.queries.add(1);
        give(meta.from, meta.to, &answer, &self.any, &self.gateway);
        true
    }

    /// Gives a datagram to the client's relay, or to a new one.
    fn send(&mut self, client: SocketAddr, outgoing: Outgoing) {
        let counters = &self.gateway.counters;
        let outgoing = match self.open.get(&client).map(|relay| relay.try_reserve()) {
            Some(Ok(place)) => return place.send(outgoing),
            Some(Err(TrySendError::Full(()))) => return counters.dropped_full.add(1),
            Some(Err(TrySendError::Closed(()))) | None => outgoing,
        };
        if self.open.len() >= RELAYS_MAX {
            self.open.retain(|_, relay| !relay.is_closed());
        }
        if self.open.len() >= RELAYS_MAX {
            return counters.dropped_no_relay.add(1);
        }
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        // There is room: this is the first datagram.
        sender.try_send(outgoing).ok();
        self.open.insert(client, sender);
        let (any, gateway) = (Arc::clone(&self.any), Arc::clone(&self.gateway));
        tokio::spawn(async move {
            gateway.counters.relays.add(1);
            match relay(client, receiver, &any, &gateway).await {
                Ok(()) => gateway.say(|| format!("datagrams of {client}: none for long")),
                Err(error) => gateway.say(|| format!("datagrams of {client}: {error}")),
            }
        });
    }
}

/// Carries datagrams both ways until none has arrived for long, or the proxy ends the relay.
async fn relay(
    client: SocketAddr,
    mut outgoing: mpsc::Receiver<Outgoing>,
    any: &UdpSocket,
    gateway: &Gateway,
) -> Result<(), ProxyError> {
    let Association { mut control, relay } = gateway.proxy.associate().await?;
    let lost = |error| gateway.proxy.unreachable(error);
    let (mut peers, mut wrapped) = (Peers::new(gateway.filtering), Vec::new());
    // From the first datagram on.
    let mut idle_at: Option<Instant> = None;
    loop {
        let port = tokio::select! {
            next = outgoing.recv() => {
                let Some((dialled, payload)) = next else { return Ok(()) };
                let Some(destination) = gateway.destination(dialled) else {
                    gateway.counters.dropped_no_relay.add(1);
                    continue;
                };
                peers.sent(dialled, &destination);
                wrap(&mut wrapped, &destination, &payload);
                // A datagram that the relay's host refuses is lost, as on any network.
                match relay.send(&wrapped).await {
                    Ok(_) => gateway.counters.datagrams_up.add(1),
                    Err(_) => gateway.counters.dropped_full.add(1),
                }
                dialled.port()
            }
            readable = relay.readable() => {
                readable.map_err(lost)?;
                match receive(&relay, |datagram| answer(client, datagram, &mut peers, any, gateway)) {
                    Ok(Some(port)) => port,
                    Ok(None) => continue,
                    Err(error) if is_passing(&error) => continue,
                    Err(error) => return Err(lost(error)),
                }
            }
            // RFC 1928 §6: a relay ends when the connection on which it was asked for ends.
            ended = control.read_u8() => return match ended {
                Ok(_) => Err(ProxyError::NotSocks(gateway.proxy.addr)),
                Err(error) => Err(lost(error)),
            },
            () = sleep_until(idle_at.unwrap_or_else(Instant::now)), if idle_at.is_some() => return Ok(()),
        };
        idle_at = idle_at.max(Some(idle_at_after(gateway.udp_timeouts.of(port))));
    }
}

/// Receives one datagram. A thread has one buffer for all relays, most of which wait.
fn receive<T>(relay: &tokio::net::UdpSocket, give: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
    BUF.with_borrow_mut(|buf| {
        buf.resize(DATAGRAM_MAX, 0);
        let len = relay.try_recv(buf)?;
        Ok(give(&buf[..len]))
    })
}

thread_local! {
    static BUF: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Whether a relay goes on after this.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused)
}

/// When a relay ends if no datagram comes. No clock reaches the longest time that a user can ask for.
fn idle_at_after(time: Duration) -> Instant {
    Instant::now() + time.min(YEAR)
}

/// Gives the client what a relay has passed on, with the original sender's address. Returns the sender's
/// port.
fn answer(
    client: SocketAddr,
    datagram: &[u8],
    peers: &mut Peers,
    any: &UdpSocket,
    gateway: &Gateway,
) -> Option<u16> {
    let Some((from, payload)) = unwrap(datagram) else {
        gateway.counters.dropped_malformed.add(1);
        return None;
    };
    let Some(from) = peers.shown(&from) else {
        gateway.counters.dropped_filtered.add(1);
        return None;
    };
    give(client, from, payload, any, gateway);
    Some(from.port())
}

/// Sends a datagram to a client.
fn give(client: SocketAddr, from: SocketAddr, payload: &[u8], any: &UdpSocket, gateway: &Gateway) {
    let counters = &gateway.counters;
    let transmit = UdpTransmit { from: Some(from), ..UdpTransmit::new(payload, Some(client)) };
    match any.try_send_transmit(&transmit) {
        Ok(_) => counters.datagrams_down.add(1),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => counters.dropped_full.add(1),
        Err(error) => {
            counters.dropped_malformed.add(1);
            gateway.say(|| format!("a datagram of {} bytes from {from} to {client}: {error}", payload.len()));
        }
    }
}

/// To whom a client has sent, as far as it matters for who may answer and under which address.
#[derive(Debug)]
struct Peers {
    filtering: Filtering,
    /// Where the client has sent to; port 0 if only the address counts.
    allowed: HashSet<SocketAddr>,
    /// Names that it has sent to, the last one last.
    named: Vec<Named>,
}

#[derive(Debug)]
struct Named {
    /// The name, and the address by which the client knows it.
    name: Destination,
    shown: SocketAddr,
    /// From where it has answered.
    real: Option<SocketAddr>,
}

impl Peers {
    fn new(filtering: Filtering) -> Self {
        Self { filtering, allowed: HashSet::new(), named: Vec::new() }
    }

    /// The client has sent to `dialled`, which stands for `destination`.
    fn sent(&mut self, dialled: SocketAddr, destination: &Destination) {
        if let Destination::Name(..) = destination {
            let known = self.named.iter().position(|named| named.shown == dialled);
            let named = match known.map(|at| self.named.remove(at)) {
                Some(named) if named.name == *destination => named,
                _ => Named { name: destination.clone(), shown: dialled, real: None },
            };
            if self.named.len() >= PEERS_MAX {
                self.named.remove(0);
            }
            self.named.push(named);
        } else if self.allowed.len() < PEERS_MAX {
            self.allowed.insert(self.counted(dialled));
        }
    }

    /// The source address that the client sees on datagrams of `from`; `None` if `from` may not answer.
    fn shown(&mut self, from: &Destination) -> Option<SocketAddr> {
        let real = match from {
            Destination::Name(..) => {
                return self.named.iter().find(|named| named.name == *from).map(|named| named.shown);
            }
            Destination::Addr(real) => *real,
        };
        let known = self.named.iter().find(|named| named.real == Some(real));
        if let Some(named) = known {
            return Some(named.shown);
        }
        if self.allowed.contains(&self.counted(real)) {
            return Some(real);
        }
        let mut newest_first = self.named.iter_mut().rev();
        if let Some(named) =
            newest_first.find(|named| named.real.is_none() && named.name.port() == real.port())
        {
            named.real = Some(real);
            return Some(named.shown);
        }
        let of_name =
            |ip: IpAddr| self.named.iter().any(|named| named.real.is_some_and(|real| real.ip() == ip));
        match self.filtering {
            Filtering::Anyone => Some(real),
            Filtering::Address => of_name(real.ip()).then_some(real),
            Filtering::Port => None,
        }
    }

    /// An address as the filter counts it.
    fn counted(&self, addr: SocketAddr) -> SocketAddr {
        let port = if self.filtering == Filtering::Address { 0 } else { addr.port() };
        SocketAddr::new(addr.ip(), port)
    }
}

/// Relays at one time. Each takes a connection and a socket of the kernel.
const RELAYS_MAX: usize = 4096;
/// Datagrams that wait for one relay.
const WAITING_MAX: usize = 64;
/// Peers that a relay remembers; further ones cannot answer where that takes remembering.
const PEERS_MAX: usize = 1024;
/// The longest datagram.
const DATAGRAM_MAX: usize = 65_535;
/// The longest time that a relay waits for a datagram.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn may_answer(peers: &mut Peers, from: &str) -> bool {
        peers.shown(&Destination::Addr(addr(from))) == Some(addr(from))
    }

    #[test]
    fn any_time_may_pass_before_a_relay_ends() {
        let now = Instant::now();
        assert!(idle_at_after(Duration::from_secs(u64::MAX)) >= now + YEAR);
        assert!(idle_at_after(Duration::ZERO) < now + YEAR);
    }

    #[test]
    fn who_may_answer_is_as_chosen() {
        let others = ["192.0.2.7:8", "192.0.2.8:7", "[2001:db8::7]:7"];
        for (filtering, allowed) in [
            (Filtering::Anyone, [true, true, true]),
            (Filtering::Address, [true, false, false]),
            (Filtering::Port, [false, false, false]),
        ] {
            let mut peers = Peers::new(filtering);
            peers.sent(addr("192.0.2.7:7"), &Destination::Addr(addr("192.0.2.7:7")));
            assert!(may_answer(&mut peers, "192.0.2.7:7"), "{filtering:?}");
            assert_eq!(others.map(|other| may_answer(&mut peers, other)), allowed, "{filtering:?}");
        }
    }

    #[test]
    fn a_name_answers_under_the_address_that_the_client_knows() {
        let [first, second] = ["198.19.0.1:7", "198.19.0.2:7"].map(addr);
        let name = |name: &str| Destination::Name(name.into(), 7);
        for filtering in [Filtering::Anyone, Filtering::Address, Filtering::Port] {
            let mut peers = Peers::new(filtering);
            peers.sent(first, &name("first.example"));
            assert_eq!(peers.shown(&Destination::Addr(addr("203.0.113.7:7"))), Some(first));
            peers.sent(second, &name("second.example"));
            assert_eq!(peers.shown(&Destination::Addr(addr("203.0.113.8:7"))), Some(second));
            assert_eq!(peers.shown(&Destination::Addr(addr("203.0.113.7:7"))), Some(first));
            assert_eq!(peers.shown(&name("second.example")), Some(second));
            // Its other port is nothing that the client knows.
            let other = peers.shown(&Destination::Addr(addr("203.0.113.7:9")));
            assert_eq!(other.is_some(), filtering != Filtering::Port, "{filtering:?}");
        }
    }

    #[test]
    fn what_is_remembered_of_a_client_is_bounded() {
        let mut peers = Peers::new(Filtering::Port);
        for number in 0..2 * PEERS_MAX as u32 {
            let to = SocketAddr::new(IpAddr::from(number.to_be_bytes()), 7);
            peers.sent(to, &Destination::Addr(to));
            peers.sent(to, &Destination::Name(number.to_string().into(), 7));
        }
        assert_eq!((peers.allowed.len(), peers.named.len()), (PEERS_MAX, PEERS_MAX));
    }
}
