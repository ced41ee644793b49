//! The connections of a recording, and the stack's counterparts while it is played.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use ackclock_wire::checksum::pseudo_header;
use ackclock_wire::{ChecksumState, Flags, IpPacket, IpPayload, Segment, SeqNum, TxPacket};

use super::CHANGED;

/// All connections of a recording.
#[derive(Debug, Default)]
pub(super) struct Connections {
    all: Vec<Connection>,
    /// The last recorded connection between two sockets; the stack's comes first.
    recorded: HashMap<(SocketAddr, SocketAddr), usize>,
    /// The stack's present connection between two sockets.
    live: HashMap<(SocketAddr, SocketAddr), usize>,
}

/// The role of a played packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Not TCP, or malformed: it arrives unchanged.
    Plain,
    /// A segment of a connection.
    Segment {
        connection: usize,
        /// The sequence number that it acknowledges.
        ack: Option<SeqNum>,
        /// The number after its last byte; `None` for a SYN, which does not depend on a window.
        end: Option<SeqNum>,
    },
}

/// The event that the next packet waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// For the stack to send this many more bytes of what the packet acknowledges.
    Unsent(u32),
    /// For the stack to send a SYN to this peer.
    Unopened(SocketAddr),
    /// For the window: the packet exceeds what the stack offers by this many bytes.
    Beyond(u32),
    /// There is no next packet.
    End,
}

#[derive(Debug)]
struct Connection {
    stack: SocketAddr,
    peer: SocketAddr,
    /// The stack's recorded initial sequence number, and whether the stack opened the connection.
    iss: Option<SeqNum>,
    stack_opened: bool,
    /// The peer's initial sequence number, which distinguishes two connections between the same sockets.
    peer_iss: Option<SeqNum>,
    /// Whether the peer's SYN offered window scaling; without it the stack does not scale either.
    peer_scales: bool,
    live: Option<Live>,
}

/// The stack's present connection.
#[derive(Clone, Copy, Debug)]
struct Live {
    port: u16,
    iss: SeqNum,
    /// The number after the last byte sent.
    snd_nxt: SeqNum,
    tsval: u32,
    /// The window shift of all segments except the SYN.
    scale: u8,
    /// The furthest end of a window that the stack has offered; `None` before its first acknowledgement.
    edge: Option<SeqNum>,
    /// The peer's newest timestamp that has come in.
    peer_tsval: Option<SeqNum>,
}

impl Role {
    /// The role of a segment cut from a packet.
    pub fn of_part(self, part: &[u8]) -> Self {
        let Self::Segment { connection, ack, end } = self else { return self };
        let end = parse_received(part).map_or(end, |segment| Some(segment.seq + segment.seq_len()));
        Self::Segment { connection, ack, end }
    }
}

impl Connections {
    /// Records a packet. Returns its role if it is to be played.
    pub fn learn(&mut self, packet: &[u8], stack: &[IpAddr]) -> Option<Role> {
        let ip = IpPacket::parse(packet).ok()?;
        let (from_stack, to_stack) = (stack.contains(&ip.src), stack.contains(&ip.dst));
        if from_stack == to_stack {
            return None;
        }
        let Some(segment) = parse_received(packet) else { return to_stack.then_some(Role::Plain) };
        let (src, dst) =
            (SocketAddr::new(ip.src, segment.src_port), SocketAddr::new(ip.dst, segment.dst_port));
        let (stack, peer) = if from_stack { (src, dst) } else { (dst, src) };
        let index = self.find_or_open(stack, peer, &segment, from_stack);
        let connection = &mut self.all[index];
        if segment.flags.contains(Flags::SYN) {
            if from_stack {
                connection.iss = Some(segment.seq);
                connection.stack_opened = !segment.flags.contains(Flags::ACK);
            } else {
                connection.peer_iss = Some(segment.seq);
                connection.peer_scales = segment.options.window_scale.is_some();
            }
        }
        let ack = segment.flags.contains(Flags::ACK).then_some(segment.ack);
        let end = (!segment.flags.contains(Flags::SYN)).then(|| segment.seq + segment.seq_len());
        to_stack.then_some(Role::Segment { connection: index, ack, end })
    }

    fn find_or_open(
        &mut self,
        stack: SocketAddr,
        peer: SocketAddr,
        segment: &Segment<'_>,
        from_stack: bool,
    ) -> usize {
        let opens = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        let is_same = |connection: &Connection| {
            let known = if from_stack { connection.iss } else { connection.peer_iss };
            !opens || known == Some(segment.seq)
        };
        if let Some(&index) = self.recorded.get(&(stack, peer))
            && is_same(&self.all[index])
        {
            return index;
        }
        let index = self.all.len();
        self.all.push(Connection {
            stack,
            peer,
            iss: None,
            stack_opened: false,
            peer_iss: None,
            peer_scales: false,
            live: None,
        });
        self.recorded.insert((stack, peer), index);
        index
    }

    /// Whether a packet can be played. Nothing matches a connection whose beginning was not recorded.
    pub fn can_play(&self, role: Role) -> bool {
        match role {
            Role::Plain => true,
            // The stack may now answer a SYN that it did not answer then.
            Role::Segment { connection, ack, .. } => ack.is_none() || self.all[connection].iss.is_some(),
        }
    }

    /// How many connections cannot be played.
    pub fn without_start(&self) -> usize {
        self.all.iter().filter(|connection| connection.iss.is_none() && connection.peer_iss.is_none()).count()
    }

    /// How far a packet exceeds the window that the stack has offered; 0 if it fits.
    pub fn beyond(&self, role: Role) -> u32 {
        let Role::Segment { connection, end: Some(end), .. } = role else { return 0 };
        let Some(edge) = self.all[connection].live.and_then(|live| live.edge) else { return 0 };
        let beyond = end.offset_from(edge);
        if beyond > u32::MAX / 2 { 0 } else { beyond }
    }

    /// Whether the stack has sent what the packet answers.
    pub fn wait(&self, role: Role) -> Result<(), Wait> {
        let Role::Segment { connection, ack: Some(ack), .. } = role else { return Ok(()) };
        let connection = &self.all[connection];
        let Some((live, iss)) = connection.live.zip(connection.iss) else {
            return Err(Wait::Unopened(connection.peer));
        };
        let (wanted, sent) = (ack.offset_from(iss), live.snd_nxt.offset_from(live.iss));
        // Numbers before the first belong to a stray of an older connection.
        if wanted <= sent || wanted > u32::MAX / 2 { Ok(()) } else { Err(Wait::Unsent(wanted - sent)) }
    }

    /// Records what the stack sends.
    pub fn sent(&mut self, packet: &TxPacket<'_>) {
        let Some((stack, peer, segment)) = parse(packet) else { return };
        let syn = segment.flags.contains(Flags::SYN);
        let index = match self.live.get(&(stack, peer)) {
            // Two sockets may be connected again.
            Some(&index) if !syn || self.all[index].live.is_some_and(|live| live.iss == segment.seq) => index,
            _ if !syn => return,
            _ => {
                let Some(index) = self.joins(stack, peer, segment.flags.contains(Flags::ACK)) else { return };
                let (iss, snd_nxt) = (segment.seq, segment.seq);
                let scale = segment.options.window_scale.filter(|_| self.all[index].peer_scales);
                self.all[index].live = Some(Live {
                    port: stack.port(),
                    iss,
                    snd_nxt,
                    tsval: 0,
                    scale: scale.map_or(0, |shift| shift.min(SCALE_MAX)),
                    edge: None,
                    peer_tsval: None,
                });
                self.live.insert((stack, peer), index);
                index
            }
        };
        let Some(live) = &mut self.all[index].live else { return };
        let len = segment.seq_len() + u32::try_from(packet.payload_len()).unwrap_or(u32::MAX);
        live.snd_nxt = live.snd_nxt.later(segment.seq + len);
        live.tsval = segment.options.timestamps.map_or(live.tsval, |(tsval, _)| tsval);
        if segment.flags.contains(Flags::ACK) {
            // RFC 9293 §3.10.7.4 (SND.WND), RFC 7323 §2.2: the window of a SYN MUST NOT be scaled.
            let window = u32::from(segment.window) << if syn { 0 } else { live.scale };
            let edge = segment.ack + window;
            live.edge = Some(live.edge.map_or(edge, |known| known.later(edge)));
        }
    }

    /// The recorded connection that the stack now opens or accepts.
    fn joins(&self, stack: SocketAddr, peer: SocketAddr, accepts: bool) -> Option<usize> {
        self.all.iter().position(|connection| {
            connection.live.is_none()
                && connection.peer == peer
                && connection.stack.ip() == stack.ip()
                && connection.stack_opened != accepts
                && (!accepts || connection.stack == stack)
        })
    }

    /// Adapts a recorded packet to the stack's present connection. Returns its checksum state. A packet that
    /// was set aside gets the timestamp of the present: after newer stamps the stack would drop it as a stray
    /// (RFC 7323 §5, PAWS).
    pub fn translate(&mut self, role: Role, packet: &mut [u8], was_aside: bool) -> ChecksumState {
        let Role::Segment { connection, .. } = role else { return ChecksumState::Complete };
        let connection = &mut self.all[connection];
        // A packet with a wrong checksum keeps a wrong one.
        let Some(start) = tcp_start(packet).filter(|start| was_right(packet, *start)) else {
            return ChecksumState::Complete;
        };
        let (Some(live), Some(iss)) = (&mut connection.live, connection.iss) else { return CHANGED };
        let shift = live.iss.offset_from(iss);
        let shifted = |number: [u8; 4]| u32::from_be_bytes(number).wrapping_add(shift).to_be_bytes();
        let Some(tcp) = packet.get_mut(start..) else { return CHANGED };
        let acknowledges = tcp.get(13).is_some_and(|flags| flags & ACK != 0);
        if let Some(port) = tcp.get_mut(2..4) {
            port.copy_from_slice(&live.port.to_be_bytes());
        }
        if let Some(Ok(ack)) = tcp.get_mut(8..12).map(<&mut [u8; 4]>::try_from)
            && acknowledges
        {
            *ack = shifted(*ack);
        }
        each_option(tcp, |kind, value| match kind {
            SACK => value.chunks_exact_mut(4).for_each(|edge| {
                if let Ok(edge) = <&mut [u8; 4]>::try_from(edge) {
                    *edge = shifted(*edge);
                }
            }),
            TIMESTAMPS => {
                if let Some(Ok(stamp)) = value.get_mut(..4).map(<&mut [u8; 4]>::try_from) {
                    let recorded = SeqNum::new(u32::from_be_bytes(*stamp));
                    let newest = live.peer_tsval.map_or(recorded, |known| known.later(recorded));
                    live.peer_tsval = Some(newest);
                    if was_aside {
                        *stamp = newest.raw().to_be_bytes();
                    }
                }
                if let Some(echo) = value.get_mut(4..8).filter(|echo| echo.iter().any(|byte| *byte != 0)) {
                    echo.copy_from_slice(&live.tsval.to_be_bytes());
                }
            }
            _ => {}
        });
        CHANGED
    }
}

/// A recorded TCP segment, whatever its checksum.
fn parse_received(packet: &[u8]) -> Option<Segment<'_>> {
    let ip = IpPacket::parse(packet).ok()?;
    match ip.payload {
        IpPayload::Tcp(bytes) => Segment::parse(ip.src, ip.dst, bytes, ChecksumState::Verified).ok(),
        _ => None,
    }
}

/// The sockets and the header of a TCP segment that the stack sends.
fn parse<'a>(packet: &TxPacket<'a>) -> Option<(SocketAddr, SocketAddr, Segment<'a>)> {
    let (src, dst, protocol) = addresses(packet.header)?;
    let tcp = packet.header.get(packet.transport_offset.into()..).filter(|_| protocol == TCP)?;
    let segment = Segment::parse(src, dst, tcp, ChecksumState::Verified).ok()?;
    Some((SocketAddr::new(src, segment.src_port), SocketAddr::new(dst, segment.dst_port), segment))
}

/// Source, destination, and the protocol in the IP header.
fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr, u8)> {
    let v4 = |at: usize| packet.get(at..at + 4)?.first_chunk::<4>().map(|octets| IpAddr::from(*octets));
    let v6 = |at: usize| packet.get(at..at + 16)?.first_chunk::<16>().map(|octets| IpAddr::from(*octets));
    match packet.first()? >> 4 {
        4 => Some((v4(12)?, v4(16)?, *packet.get(9)?)),
        6 => Some((v6(8)?, v6(24)?, *packet.get(6)?)),
        _ => None,
    }
}

/// The start of the TCP header, directly after the IP header.
fn tcp_start(packet: &[u8]) -> Option<usize> {
    let (_, _, protocol) = addresses(packet)?;
    let first = *packet.first()?;
    (protocol == TCP).then(|| if first >> 4 == 4 { usize::from(first & 0xf) * 4 } else { 40 })
}

/// The length of IP and TCP header.
pub(super) fn headers_len(packet: &[u8]) -> Option<usize> {
    let start = tcp_start(packet)?;
    Some(start + usize::from(packet.get(start + 12)? >> 4) * 4)
}

/// The state of a recorded checksum: known to be right, or to be verified.
pub(super) fn checksum_of(packet: &[u8]) -> ChecksumState {
    let is_right = tcp_start(packet).is_some_and(|start| was_right(packet, start));
    if is_right { ChecksumState::Verified } else { ChecksumState::Complete }
}

/// Whether the checksum is right, or unfinished, as in captures taken at the sender.
fn was_right(packet: &[u8], start: usize) -> bool {
    let Some(((src, dst, _), tcp)) = addresses(packet).zip(packet.get(start..)) else { return false };
    let pseudo = pseudo_header(src, dst, TCP, tcp.len());
    pseudo.plus_bytes(tcp).checksum() == 0 || tcp.get(16..18) == Some(&pseudo.fold().to_be_bytes())
}

/// Passes the kind and the value of each option of a TCP header to `each`, as far as they are well-formed.
fn each_option(tcp: &mut [u8], mut each: impl FnMut(u8, &mut [u8])) {
    let end = tcp.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    let mut rest = tcp.get_mut(20..end).unwrap_or_default();
    loop {
        match *rest {
            [] | [END, ..] => return,
            [NOP, ..] => rest = &mut rest[1..],
            [kind, len, ..] if len >= 2 && usize::from(len) <= rest.len() => {
                let (option, behind) = rest.split_at_mut(len.into());
                each(kind, &mut option[2..]);
                rest = behind;
            }
            _ => return,
        }
    }
}

/// RFC 7323 §2.3: a larger shift counts as this one.
const SCALE_MAX: u8 = 14;

const TCP: u8 = 6;
const ACK: u8 = 0x10;
const END: u8 = 0;
const NOP: u8 = 1;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
