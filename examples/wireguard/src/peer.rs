//! One WireGuard peer: IP packets in and out on one side, datagrams on the other.
//!
//! It has no socket and no task: its owner hands over what arrives, and sends what the peer passes to a
//! closure. boringtun reads the clock itself, and needs [`Peer::tick`] a few times a second.
//!
//! At most 256 packets wait for a handshake; beyond that the oldest are dropped. Everything dropped is
//! counted.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ackclock::Cidr;
use boringtun::noise::errors::WireGuardError;
use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};

use crate::keys::Key;

/// The configuration of a peer.
#[derive(Clone)]
pub struct Config {
    /// This end's private key.
    pub private_key: Key,
    /// The peer's public key.
    pub peer_public_key: Key,
    /// A key that both ends share in addition to those.
    pub preshared_key: Option<Key>,
    /// The peer's first address; `None`: it has to send first.
    pub endpoint: Option<SocketAddr>,
    /// The addresses that the peer may send from.
    pub allowed: Vec<Cidr>,
    /// How often this end sends something when it has no data, so that a NAT in between does not forget it.
    pub keepalive: Option<Duration>,
}

/// Packets carried and packets dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// IP packets sent encrypted.
    pub sent: u64,
    /// Authentic IP packets received.
    pub received: u64,
    /// Handshakes that this end has begun, repeated attempts included.
    pub initiations: u64,
    /// Completed handshakes, those that renewed keys included.
    pub handshakes: u64,
    /// How often the peer sent from another address than before.
    pub roamed: u64,
    /// Dropped: longer than any packet may be.
    pub dropped_too_long: u64,
    /// Dropped: 256 others waited for a handshake, or the handshake was given up after 90 seconds.
    pub dropped_no_session: u64,
    /// Dropped: the peer's address is not known yet.
    pub dropped_no_endpoint: u64,
    /// Dropped datagrams: not from the peer, damaged, or received before.
    pub dropped_not_authentic: u64,
    /// Dropped: from an address that the peer may not send from.
    pub dropped_not_allowed: u64,
}

/// A WireGuard peer.
pub struct Peer {
    tunnel: Tunn,
    endpoint: Option<SocketAddr>,
    allowed: Vec<Cidr>,
    /// How many packets boringtun keeps until the handshake completes.
    waiting: u64,
    counters: Counters,
    /// How many handshakes had been begun when the peer was last heard.
    answered: u64,
    /// The encrypted datagram to send.
    cipher: Box<[u8]>,
    /// The decrypted packet that arrived.
    plain: Box<[u8]>,
}

impl Peer {
    /// The peer of `config`. `index` distinguishes the peers of one socket, in 24 bits.
    #[must_use]
    pub fn new(config: &Config, index: u32) -> Self {
        let keepalive = config.keepalive.map(|span| u16::try_from(span.as_secs()).unwrap_or(u16::MAX).max(1));
        let tunnel = Tunn::new(
            StaticSecret::from(config.private_key),
            PublicKey::from(config.peer_public_key),
            config.preshared_key,
            keepalive,
            index,
            None,
        );
        Self {
            tunnel,
            endpoint: config.endpoint,
            allowed: config.allowed.clone(),
            waiting: 0,
            counters: Counters::default(),
            answered: 0,
            cipher: vec![0; PACKET_MAX + OVERHEAD].into(),
            plain: vec![0; PACKET_MAX + OVERHEAD].into(),
        }
    }

    /// Sends an IP packet, or keeps it until the handshake that it begins completes.
    pub fn send(&mut self, packet: &[u8], network: impl FnMut(SocketAddr, &[u8])) {
        if packet.len() > PACKET_MAX {
            self.counters.dropped_too_long += 1;
            return;
        }
        let result = self.tunnel.encapsulate(packet, &mut self.cipher);
        match &result {
            TunnResult::WriteToNetwork(datagram) if Message::of(datagram) == Some(Message::Data) => {
                self.counters.sent += 1;
            }
            // The packet waits; what leaves, if anything, begins a handshake.
            TunnResult::WriteToNetwork(_) | TunnResult::Done if self.waiting < WAITING_MAX => {
                self.waiting += 1
            }
            _ => self.counters.dropped_no_session += 1,
        }
        put(&result, self.endpoint, &mut self.counters, network);
    }

    /// Processes a datagram from `from` and returns the IP packet in it, if it holds one for this end.
    pub fn receive(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        mut network: impl FnMut(SocketAddr, &[u8]),
    ) -> Option<&[u8]> {
        let message = Message::of(datagram);
        if datagram.len() > self.plain.len() || message.is_none() {
            self.counters.dropped_not_authentic += 1;
            return None;
        }
        let (mut source, mut len) = (None, 0);
        match self.tunnel.decapsulate(Some(from.ip()), datagram, &mut self.plain) {
            TunnResult::Done => {}
            TunnResult::WriteToTunnelV4(packet, addr) => {
                (source, len) = (Some(IpAddr::V4(addr)), packet.len())
            }
            TunnResult::WriteToTunnelV6(packet, addr) => {
                (source, len) = (Some(IpAddr::V6(addr)), packet.len())
            }
            TunnResult::WriteToNetwork(answer) => {
                network(from, answer);
                if Message::of(answer) == Some(Message::Cookie) {
                    // Too many handshakes at a time, and the sender of this one has proved nothing yet.
                    return None;
                }
            }
            TunnResult::Err(_) => {
                self.counters.dropped_not_authentic += 1;
                return None;
            }
        }
        self.on_authentic(message, from, network);
        let allowed = self.allowed.iter().any(|network| source.is_some_and(|addr| network.contains(addr)));
        match source {
            Some(_) if allowed => self.counters.received += 1,
            Some(_) => self.counters.dropped_not_allowed += 1,
            None => {}
        }
        self.plain.get(..len).filter(|_| allowed)
    }

    /// Does what is due: repeated handshakes, new keys, keepalives.
    pub fn tick(&mut self, network: impl FnMut(SocketAddr, &[u8])) {
        let result = self.tunnel.update_timers(&mut self.cipher);
        if matches!(result, TunnResult::Err(WireGuardError::ConnectionExpired)) {
            // boringtun has discarded the packets that waited. The next packet begins a new handshake.
            self.counters.dropped_no_session += std::mem::take(&mut self.waiting);
        }
        put(&result, self.endpoint, &mut self.counters, network);
    }

    /// Begins a handshake for new keys, though those in use are not old; these stay in use until the new ones
    /// are ready.
    pub fn rekey(&mut self, network: impl FnMut(SocketAddr, &[u8])) {
        let result = self.tunnel.format_handshake_initiation(&mut self.cipher, true);
        put(&result, self.endpoint, &mut self.counters, network);
    }

    /// Sends a message without contents: the peer sends to its source address from now on.
    pub fn announce(&mut self, network: impl FnMut(SocketAddr, &[u8])) {
        if self.last_handshake().is_none() {
            return self.rekey(network);
        }
        let result = self.tunnel.encapsulate(&[], &mut self.cipher);
        put(&result, self.endpoint, &mut self.counters, network);
    }

    /// Where the peer is.
    #[must_use]
    pub fn endpoint(&self) -> Option<SocketAddr> {
        self.endpoint
    }

    /// The age of the keys in use; `None` without any.
    #[must_use]
    pub fn last_handshake(&self) -> Option<Duration> {
        self.tunnel.time_since_last_handshake()
    }

    /// Attempts at a handshake since the peer was last heard. They are five seconds apart (and up to a third
    /// of a second more), so the second says that the first had no answer for that long.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.counters.initiations - self.answered
    }

    /// Packets carried and dropped.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The message has been authenticated: from now on the peer is where it came from.
    fn on_authentic(
        &mut self,
        message: Option<Message>,
        from: SocketAddr,
        mut network: impl FnMut(SocketAddr, &[u8]),
    ) {
        self.answered = self.counters.initiations;
        if matches!(message, Some(Message::Initiation | Message::Response)) {
            self.counters.handshakes += 1;
        }
        if matches!(message, Some(Message::Cookie)) {
            return;
        }
        if self.endpoint.is_some_and(|endpoint| endpoint != from) {
            self.counters.roamed += 1;
        }
        self.endpoint = Some(from);
        // The initiator of the handshake may send at once; the responder, after the first message under the
        // new keys.
        if matches!(message, Some(Message::Response | Message::Data)) {
            for _ in 0..std::mem::take(&mut self.waiting) {
                let result = self.tunnel.decapsulate(None, &[], &mut self.cipher);
                let TunnResult::WriteToNetwork(datagram) = result else { break };
                self.counters.sent += 1;
                network(from, datagram);
            }
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl fmt::Debug for Config {
    /// Without the secret keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Config");
        out.field("endpoint", &self.endpoint).field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

/// Sends what boringtun has for the peer.
fn put(
    result: &TunnResult<'_>,
    endpoint: Option<SocketAddr>,
    counters: &mut Counters,
    mut network: impl FnMut(SocketAddr, &[u8]),
) {
    match (result, endpoint) {
        (TunnResult::WriteToNetwork(datagram), Some(endpoint)) => {
            counters.initiations += u64::from(Message::of(datagram) == Some(Message::Initiation));
            network(endpoint, datagram);
        }
        (TunnResult::WriteToNetwork(_), None) => counters.dropped_no_endpoint += 1,
        _ => {}
    }
}

/// The four messages of WireGuard, by the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Initiation,
    Response,
    Cookie,
    Data,
}

impl Message {
    fn of(datagram: &[u8]) -> Option<Self> {
        match datagram.first()? {
            1 => Some(Self::Initiation),
            2 => Some(Self::Response),
            3 => Some(Self::Cookie),
            4 => Some(Self::Data),
            _ => None,
        }
    }
}

/// The longest IP packet.
const PACKET_MAX: usize = 65_535;
/// The bytes that WireGuard adds to a packet.
const OVERHEAD: usize = 32;
/// The number of packets that boringtun keeps.
const WAITING_MAX: u64 = 256;

#[cfg(test)]
mod tests;
