//! Peers with one connection each and without a TCP: they complete a handshake, and then send what the flood
//! wants.
//!
//! No host has their addresses, so no kernel answers for them. While they need to listen, a packet socket
//! shows what the victim sends to them.

use std::io::{self, Read};
use std::net::{SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use ackclock_tests::segment::{ACK, Frame, Opt, SYN, Seg, seg};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::flood::stranger;

/// The peers of one flood.
pub(super) struct Peers {
    raw: Socket,
    ear: Socket,
    peers: Vec<Peer>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    addr: SocketAddr,
    victim: SocketAddrV4,
    /// The sequence number that it expects next.
    pub(super) ack: u32,
    /// Bytes received.
    taken: u32,
}

/// The relevant fields of a segment of the victim.
struct Heard {
    to_port: u16,
    seq: u32,
    flags: u8,
    len: u32,
}

impl Peers {
    /// Opens connections to `victim`, each with this MSS.
    pub(super) fn join(victim: SocketAddrV4, mss: u16, count: u32) -> io::Result<Self> {
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))?;
        let ipv4 = i32::from((libc::ETH_P_IP as u16).to_be());
        let ear = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(ipv4)))?;
        ear.set_read_timeout(Some(Duration::from_millis(100)))?;
        let mut peers = Self { raw, ear, peers: Vec::new() };
        for number in 0..count {
            let peer = Peer { addr: stranger(number, FIRST_PORT + number as u16), victim, ack: 0, taken: 0 };
            let peer = peers.shake_hands(peer, mss)?;
            peers.peers.push(peer);
        }
        Ok(peers)
    }

    /// The peer that sends the `n`th packet of a flood, and how many it has sent before.
    pub(super) fn one(&self, n: u32) -> Option<(&Peer, u32)> {
        let count = self.peers.len() as u32;
        Some((self.peers.get((n % count) as usize)?, n / count))
    }

    fn shake_hands(&self, mut peer: Peer, mss: u16) -> io::Result<Peer> {
        let options = vec![Opt::Mss(mss), Opt::SackPermitted, Opt::WindowScale(7)];
        for _ in 0..ATTEMPTS {
            self.say(&peer, Seg { options: options.clone(), ..seg(SYN).seq(0).window(60_000) })?;
            let until = Instant::now() + ANSWER_MAX;
            while Instant::now() < until {
                let answer = self.hear()?.filter(|heard| heard.to_port == peer.addr.port());
                if let Some(answer) = answer.filter(|answer| answer.flags & (SYN | ACK) == SYN | ACK) {
                    peer.ack = answer.seq.wrapping_add(1);
                    self.say(&peer, seg(ACK).seq(1).ack(peer.ack).window(60_000))?;
                    return Ok(peer);
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the victim does not shake hands"))
    }

    /// Acknowledges what arrives until the victim must have `segments` in flight to each of them.
    pub(super) fn let_windows_grow(&mut self, segments: u32) -> io::Result<()> {
        let until = Instant::now() + GROWTH_MAX;
        // In slow start, about as much is in flight as has been acknowledged.
        while Instant::now() < until && self.peers.iter().any(|peer| peer.taken < 2 * segments * 1_460) {
            let Some(heard) = self.hear()? else { continue };
            let number = usize::from(heard.to_port.wrapping_sub(FIRST_PORT));
            let Some(peer) = self.peers.get_mut(number) else { continue };
            if heard.len == 0 || heard.seq != peer.ack || peer.taken >= 2 * segments * 1_460 {
                continue;
            }
            peer.ack = peer.ack.wrapping_add(heard.len);
            peer.taken += heard.len;
            let peer = *peer;
            self.say(&peer, seg(ACK).seq(1).ack(peer.ack).window(60_000))?;
        }
        Ok(())
    }

    fn say(&self, peer: &Peer, segment: Seg) -> io::Result<()> {
        self.raw
            .send_to(&peer.packet(segment), &SockAddr::from(SocketAddrV4::new(*peer.victim.ip(), 0)))
            .map(drop)
    }

    /// The next TCP segment over IPv4, if one comes soon.
    fn hear(&self) -> io::Result<Option<Heard>> {
        let mut packet = vec![0; 1 << 16];
        match (&self.ear).read(&mut packet) {
            Ok(len) => Ok(Heard::parse(packet.get(..len).unwrap_or_default())),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Peer {
    /// A segment of this peer as a packet.
    pub(super) fn packet(&self, segment: Seg) -> Vec<u8> {
        Frame::new(self.addr, SocketAddr::V4(self.victim), segment).to_bytes()
    }
}

impl Heard {
    /// Does not check checksums, which offload leaves incomplete.
    fn parse(packet: &[u8]) -> Option<Self> {
        let header = usize::from(packet.first()? & 15) * 4;
        let (total, tcp) = (usize::from(word(packet, 2)?), packet.get(header..)?);
        let offset = usize::from(tcp.get(12)? >> 4) * 4;
        let seq = u32::from(word(tcp, 4)?) << 16 | u32::from(word(tcp, 6)?);
        let len = total.checked_sub(header + offset)? as u32;
        (*packet.get(9)? == 6).then_some(Self { to_port: word(tcp, 2)?, seq, flags: *tcp.get(13)?, len })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

const FIRST_PORT: u16 = 2_000;
const ATTEMPTS: u32 = 5;
const ANSWER_MAX: Duration = Duration::from_secs(1);
const GROWTH_MAX: Duration = Duration::from_secs(5);
