//! Floods of hostile packets: their contents, and the thread that sends them.
//!
//! The packets are made before the flood begins, and a packet socket puts 64 of them on the victim's link in
//! one system call, as if they came from the network: the sender shares the processor with the victim and its
//! users, and a raw socket would look up a route for each packet.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use ackclock_tests::icmp::{icmp_error, packet_too_big};
use ackclock_tests::rng::Rng;
use ackclock_tests::script::pattern;
use ackclock_tests::segment::{ACK, Frame, Opt, RST, SYN, Seg, seg};
use serde::Serialize;
use socket2::{Domain, Socket, Type};

use super::peers::{Peer, Peers};
use crate::sys;

/// The kind of packet in the flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Flood {
    /// SYNs to an open port, from unused addresses.
    Syn,
    /// ACKs that belong to no connection, from unused addresses.
    Ack,
    /// Unsolicited SYN-ACKs, from unused addresses.
    SynAck,
    /// Resets in the name of the bulk transfer, with guessed sequence numbers.
    Rst,
    /// ICMP "fragmentation needed" and "port unreachable" about the bulk transfer, quoting guessed sequence
    /// numbers.
    Icmp,
    /// Single bytes beyond gaps, in random order, on connections whose first bytes are missing.
    Crumb,
    /// SACK blocks of single segments in random order, the first segment never acknowledged, on connections
    /// with many in flight.
    Sack,
    /// Data in order, one byte per segment, on connections with the smallest MSS.
    Tiny,
}

/// The target of a flood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) addr: Ipv4Addr,
    /// An open port that closes each connection.
    pub(crate) closer: u16,
    /// One that discards what is sent to it.
    pub(crate) sink: u16,
    /// One that sends without end.
    pub(crate) source: u16,
    /// The other end of the bulk transfer to `sink`.
    pub(crate) bulk: SocketAddrV4,
    /// The flood's device, and the hardware address behind it if there is one.
    pub(crate) device: &'static str,
    pub(crate) hardware: [u8; 6],
}

/// Packets of one length, ready to be sent repeatedly.
pub(crate) struct Volley {
    bytes: Vec<u8>,
    len: usize,
    socket: Socket,
    to: libc::sockaddr_ll,
    /// The peers whose connections the packets belong to; these stay open.
    _peers: Option<Peers>,
}

impl Flood {
    /// The victim's port on which this flood's packets belong to connections, and the MSS.
    fn joins(self, target: &Target) -> Option<(u16, u16)> {
        match self {
            Self::Crumb => Some((target.sink, 1_460)),
            Self::Tiny => Some((target.sink, 1)),
            Self::Sack => Some((target.source, 1_460)),
            Self::Syn | Self::Ack | Self::SynAck | Self::Rst | Self::Icmp => None,
        }
    }

    /// Makes `count` packets, after opening the connections that they belong to.
    ///
    /// # Errors
    /// No packet socket may be opened, there is no such device, or the victim does not answer.
    pub(crate) fn prepare(self, target: &Target, count: usize) -> io::Result<Volley> {
        // Without a protocol it receives nothing.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, None)?;
        let to = sys::link_address(target.device, target.hardware)?;
        let mut peers = match self.joins(target) {
            Some((port, mss)) => Some(Peers::join(SocketAddrV4::new(target.addr, port), mss, PEERS)?),
            None => None,
        };
        if let Some(peers) = peers.as_mut().filter(|_| self == Self::Sack) {
            peers.let_windows_grow(SEGMENTS_IN_FLIGHT)?;
        }
        let mut rng = Rng::new(7);
        let (mut bytes, mut len) = (Vec::new(), 0);
        for n in 0..count.max(1) as u32 {
            let packet = match peers.as_ref().and_then(|peers| peers.one(n)) {
                Some((peer, round)) => self.of_peer(peer, round, &mut rng),
                None => self.of_stranger(target, n, &mut rng),
            };
            len = packet.len();
            bytes.extend_from_slice(&packet);
        }
        Ok(Volley { bytes, len, socket, to, _peers: peers })
    }

    fn of_stranger(self, target: &Target, n: u32, rng: &mut Rng) -> Vec<u8> {
        let stranger = stranger(n % 0x1_ffff, 1_024 + (n % 60_000) as u16);
        let guess = rng.below(1 << 32) as u32;
        let victim = SocketAddr::from((target.addr, target.closer));
        let (bulk, sink) = (SocketAddr::V4(target.bulk), SocketAddr::from((target.addr, target.sink)));
        let segment = |from, to, segment: Seg| Frame::new(from, to, segment).to_bytes();
        match self {
            Self::Syn => segment(stranger, victim, seg(SYN).seq(guess).window(65_535)),
            Self::Ack => segment(stranger, victim, seg(ACK).seq(guess).ack(!guess)),
            Self::SynAck => segment(stranger, victim, seg(SYN | ACK).seq(guess).ack(!guess)),
            Self::Rst => segment(bulk, sink, seg(RST).seq(guess)),
            _ => {
                let quoted = segment(sink, bulk, seg(ACK).seq(guess));
                if n.is_multiple_of(2) {
                    packet_too_big(stranger.ip(), 600, &quoted)
                } else {
                    icmp_error(stranger.ip(), (3, 3), 0, &quoted)
                }
            }
        }
    }

    /// The packet of a peer in this `round`.
    fn of_peer(self, peer: &Peer, round: u32, rng: &mut Rng) -> Vec<u8> {
        let base = seg(ACK).ack(peer.ack).window(60_000);
        peer.packet(match self {
            Self::Crumb => {
                let seq = 3 + 2 * rng.below(30_000) as u32;
                base.seq(seq).data(&pattern(seq, 1))
            }
            Self::Sack => {
                let block = |rng: &mut Rng| {
                    let left =
                        peer.ack + 1_460 * (1 + 2 * rng.below(u64::from(SEGMENTS_IN_FLIGHT / 2)) as u32);
                    (left, left.wrapping_add(1_460))
                };
                base.seq(1).opt(Opt::Sack(vec![block(rng), block(rng), block(rng)]))
            }
            _ => base.seq(1 + round).data(&pattern(1 + round, 1)),
        })
    }
}

impl Volley {
    /// Sends `rate` packets a second, evenly, until `over`, and returns how many were sent. While the link is
    /// down they are lost.
    ///
    /// # Errors
    /// The kernel refuses a packet.
    pub(crate) fn send(&self, rate: u32, over: &AtomicBool) -> io::Result<u64> {
        let began = Instant::now();
        let (mut sent, mut lost) = (0_u64, 0_u64);
        while !over.load(Relaxed) {
            let due = (began.elapsed().as_secs_f64() * f64::from(rate)) as u64;
            while sent + lost < due && !over.load(Relaxed) {
                let most = (due - sent - lost).min(BATCH) as usize;
                let first = (sent % (self.bytes.len() / self.len) as u64) as usize;
                let packets: Vec<_> = self.bytes.chunks_exact(self.len).skip(first).take(most).collect();
                match sys::send_many(self.socket.as_fd(), &self.to, &packets) {
                    Err(error) if error.kind() == io::ErrorKind::NetworkDown => lost += packets.len() as u64,
                    // The device had no room for the first, and has counted it.
                    Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => sent += 1,
                    done => sent += done? as u64,
                }
            }
            thread::sleep(Duration::from_micros(200));
        }
        Ok(sent)
    }
}

/// One of the spoofed addresses: RFC 2544 reserves them for such tests.
pub(crate) fn stranger(number: u32, port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(0xc612_0000 + number), port))
}

/// Connections of the floods whose packets belong to some.
const PEERS: u32 = 64;
/// Segments that the victim keeps in flight to each of them.
const SEGMENTS_IN_FLIGHT: u32 = 500;
/// Packets per system call.
const BATCH: u64 = 64;
