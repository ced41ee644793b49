//! The kinds of hostile packet, and a victim for each.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use ackclock_core::TcpConfig;
use ackclock_tests::icmp::{icmp_error, packet_too_big};
use ackclock_tests::rng::Rng;
use ackclock_tests::script::{Script, Setup, modern_options, pattern};
use ackclock_tests::segment::{ACK, Frame, Opt, RST, SYN, Seg, seg};

/// A kind of hostile packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SYNs to a listener, each from another address.
    Syn,
    /// Resets of a connection, with guessed sequence numbers.
    Reset,
    /// Acknowledgements of arbitrary numbers in the connection's name.
    Ack,
    /// Unsolicited SYN-ACKs, each from another address.
    SynAck,
    /// Single bytes beyond gaps, in random order.
    Crumb,
    /// SACK blocks of single segments in random order, the first segment never acknowledged.
    SackStorm,
    /// Data in order, one byte per segment.
    TinySegment,
    /// ICMP "fragmentation needed" about random sequence numbers.
    PacketTooBig,
    /// ICMP "port unreachable" about connections that do not exist.
    Unreachable,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Syn,
        Self::Reset,
        Self::Ack,
        Self::SynAck,
        Self::Crumb,
        Self::SackStorm,
        Self::TinySegment,
        Self::PacketTooBig,
        Self::Unreachable,
    ];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Syn => "SYN, each from another address",
            Self::Reset => "RST, sequence numbers guessed",
            Self::Ack => "ACK of anything",
            Self::SynAck => "SYN-ACK that nothing asked for",
            Self::Crumb => "one byte beyond a gap, in random order",
            Self::SackStorm => "SACK of single segments in random order",
            Self::TinySegment => "one byte in order",
            Self::PacketTooBig => "ICMP fragmentation needed, guessed",
            Self::Unreachable => "ICMP port unreachable, no such connection",
        }
    }

    /// An endpoint that such packets hit, and the packets.
    #[must_use]
    pub fn storm(self, packets: usize, seed: u64) -> (Script, Vec<Vec<u8>>) {
        let mut rng = Rng::new(seed);
        let mut victim = self.victim();
        let packets = (0..packets).map(|n| self.packet(&mut victim, &mut rng, n as u32)).collect();
        (victim, packets)
    }

    fn victim(self) -> Script {
        let tcp = TcpConfig { receive_buffer_max: 8 << 20, send_buffer_max: 8 << 20, ..TcpConfig::default() };
        let setup = Setup { peer_options: modern_options(9), tcp, ..Setup::default() };
        let mut victim = Script::accepted(&setup);
        match self {
            Self::Crumb => widen(&mut victim),
            Self::SackStorm => fly(&mut victim),
            _ => {}
        }
        victim.take_sent();
        victim
    }

    fn packet(self, victim: &mut Script, rng: &mut Rng, n: u32) -> Vec<u8> {
        let stranger =
            SocketAddr::new(IpAddr::V4(Ipv4Addr::from(0x0a00_0100 + n)), 1_024 + (n % 60_000) as u16);
        let random = rng.below(1 << 32) as u32;
        let window = victim.edge.saturating_sub(victim.info().bytes_received as u32 + 1).max(2);
        match self {
            Self::Syn => {
                let syn = Seg { options: modern_options(7), ..seg(SYN).seq(random).window(65_535) };
                Frame::new(stranger, victim.local, syn).to_bytes()
            }
            Self::SynAck => {
                Frame::new(stranger, victim.local, seg(SYN | ACK).seq(random).ack(random)).to_bytes()
            }
            Self::Reset => victim.packet(seg(RST).seq(random)),
            Self::Ack => victim.packet(seg(ACK).seq(1).ack(random).window(500)),
            Self::Crumb => {
                let seq = victim.info().bytes_received as u32 + 3 + random % (window / 2) * 2;
                victim.packet(seg(ACK).seq(seq).ack(1).data(&pattern(seq, 1)))
            }
            Self::SackStorm => victim.packet(sack(victim, rng)),
            Self::TinySegment => victim.packet(seg(ACK).seq(1 + n).ack(1).data(&pattern(1 + n, 1))),
            Self::PacketTooBig => {
                let quoted = Frame::new(victim.local, victim.remote, seg(ACK).seq(random)).to_bytes();
                packet_too_big(stranger.ip(), 600, &quoted)
            }
            Self::Unreachable => {
                let quoted = Frame::new(victim.local, stranger, seg(SYN).seq(random)).to_bytes();
                icmp_error(stranger.ip(), (3, 3), 0, &quoted)
            }
        }
    }
}

/// Has the victim read in order until its window is wide.
fn widen(victim: &mut Script) {
    let mut seq = 1;
    for _ in 0..400 {
        for _ in 0..20 {
            victim.peer(seg(ACK).seq(seq).ack(1).data(&pattern(seq, 1_448)));
            seq += 1_448;
        }
        victim.read(1 << 20);
        victim.take_sent();
        victim.advance(Duration::from_millis(1));
    }
}

/// Has the victim send until a thousand segments are outstanding.
fn fly(victim: &mut Script) {
    victim.stream(1, 1 << 30);
    while victim.info().cwnd < 1_000 * 1_448 {
        victim.advance(Duration::from_millis(20));
        let end = victim.take_sent().iter().map(Seg::end).max();
        if let Some(end) = end {
            victim.peer(seg(ACK).seq(1).ack(end).window(60_000));
        }
    }
    victim.advance(Duration::from_millis(100));
}

/// An acknowledgement that moves nothing and reports three segments of the flight.
fn sack(victim: &Script, rng: &mut Rng) -> Seg {
    let una = victim.info().bytes_acked as u32 + 1;
    let block = |rng: &mut Rng| {
        let left = una + 1_448 * (1 + 2 * rng.below(450) as u32);
        (left, left + 1_448)
    };
    let blocks = vec![block(rng), block(rng), block(rng)];
    seg(ACK).seq(1).ack(una).window(60_000).opt(Opt::Sack(blocks))
}
