//! The remote host: its view of the connection, the packets it makes, and how it reads the answers.

use std::net::SocketAddr;

use super::answer::{Answer, Opening, Reset};
use super::sequence::{AckBase, Damage, Extra, Offer, RemoteSegment, SeqBase, Sequence, Stamp};
use crate::segment::{ACK, FIN, Frame, Opt, RST, SYN, Seg, URG};

/// The remote host of one run.
#[derive(Debug)]
pub struct Remote {
    /// The program's socket.
    pub local: SocketAddr,
    /// The remote host's socket.
    pub remote: SocketAddr,
    offer: Offer,
    irs: u32,
    iss: Option<u32>,
    /// RCV.NXT as last acknowledged, relative to `irs`.
    next: u32,
    /// The right edge, relative to `irs`.
    edge: u32,
    /// The program's shift count, once both have offered one.
    scale: u8,
    /// The highest SND.NXT seen, relative to `iss`.
    seen: u32,
    /// The number that the remote host has acknowledged, relative to `iss`.
    acked: u32,
    fin: bool,
    clock: u32,
    echo: u32,
    timestamps: bool,
    offered: bool,
    /// SEG.SEQ and SEG.ACK of the last segment, relative to what they number.
    pub last: (u32, u32),
}

impl Remote {
    /// A remote host that has sent nothing.
    #[must_use]
    pub fn new(sequence: &Sequence, local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            local,
            remote,
            offer: sequence.offer,
            irs: sequence.irs,
            iss: None,
            next: 0,
            edge: 0,
            scale: 0,
            seen: 0,
            acked: 0,
            fin: false,
            clock: CLOCK,
            echo: 0,
            timestamps: false,
            offered: false,
            last: (0, 0),
        }
    }

    /// The packet of a segment.
    pub fn packet(&mut self, sent: &RemoteSegment) -> Vec<u8> {
        self.clock += 1;
        let seq = match sent.seq.0 {
            SeqBase::Next => self.next,
            SeqBase::Edge => self.edge,
            SeqBase::First => 0,
        };
        let seq = seq.wrapping_add_signed(sent.seq.1);
        let ack = match sent.ack.0 {
            AckBase::All => self.seen,
            AckBase::Old => self.acked,
            AckBase::First => 0,
        };
        let ack = ack.wrapping_add_signed(sent.ack.1);
        self.last = (seq, ack);
        let mut segment = Seg {
            seq: seq.wrapping_add(self.irs),
            flags: sent.flags,
            window: sent.window,
            payload: text(if sent.alien { seq.wrapping_add(100) } else { seq }, usize::from(sent.len)),
            ..Seg::default()
        };
        if sent.has(ACK) {
            segment.ack = ack.wrapping_add(self.iss.unwrap_or(0));
            if !sent.has(RST) && ack.wrapping_sub(self.acked) <= self.seen.wrapping_sub(self.acked) {
                self.acked = ack;
            }
        }
        if sent.has(URG) {
            segment.urgent = sent.urgent;
        }
        segment.options = self.options(sent);
        let frame = Frame::new(self.remote, self.local, segment);
        damaged(frame.to_bytes(), sent.damage)
    }

    fn options(&mut self, sent: &RemoteSegment) -> Vec<Opt> {
        let syn = sent.has(SYN);
        let mut options = Vec::new();
        if syn {
            options.extend(self.offer.mss.map(Opt::Mss));
            options.extend(self.offer.scale.map(Opt::WindowScale));
            options.extend(self.offer.sack.then_some(Opt::SackPermitted));
            self.offered |=
                sent.timestamps == Stamp::Forced || self.offer.timestamps && sent.timestamps != Stamp::Absent;
        }
        let agreed = if syn { self.offer.timestamps } else { self.timestamps && !sent.has(RST) };
        let echo = if syn && !sent.has(ACK) { 0 } else { self.echo };
        options.extend(match sent.timestamps {
            Stamp::Agreed => agreed.then_some(Opt::Timestamps(self.clock, echo)),
            Stamp::Absent => None,
            Stamp::Forced => Some(Opt::Timestamps(self.clock, echo)),
            Stamp::Behind(by) => agreed.then_some(Opt::Timestamps(self.clock.wrapping_sub(by), echo)),
            Stamp::WrongEcho => agreed.then_some(Opt::Timestamps(self.clock, echo.wrapping_sub(0x1234_5678))),
        });
        if let Some((left, right)) = sent.sack {
            let from = self.acked.wrapping_add(self.iss.unwrap_or(0));
            options.push(Opt::Sack(vec![(from.wrapping_add_signed(left), from.wrapping_add_signed(right))]));
        }
        let raw = |bytes: &[u8]| Some(Opt::Raw(bytes.to_vec()));
        options.extend(match sent.extra {
            Extra::None => None,
            Extra::Unknown => raw(&[90, 4, 1, 2]),
            Extra::Mss => raw(&[2, 4, 3, 232]),
            Extra::Scale => raw(&[3, 3, 4]),
            Extra::LengthZero => raw(&[90, 0, 1, 1]),
            Extra::LengthBeyond => raw(&[90, 200, 1, 1]),
            Extra::ShortMss => raw(&[2, 3, 7, 1]),
            Extra::AfterTheEnd => raw(&[0, 2, 4, 3, 232, 1, 1, 1]),
        });
        options
    }

    /// Turns what was sent in answer to a step into what is compared.
    pub fn read(&mut self, frames: Vec<Frame>, answer: &mut Answer) {
        for frame in frames {
            let segment = frame.seg;
            if segment.has(RST) {
                let base = self.iss.unwrap_or(0);
                let seq = (segment.seq != 0).then(|| segment.seq.wrapping_sub(base));
                // A reset that is made from a segment alone acknowledges only a segment without ACK
                // (RFC 9293 §3.10.7.1); one of a connection may acknowledge others.
                let ack =
                    segment.has(ACK).then(|| segment.ack.wrapping_sub(self.irs)).filter(|_| seq.is_none());
                answer.reset = Some(Reset { seq, ack });
                continue;
            }
            if segment.has(SYN) {
                self.read_syn(&segment, answer);
            }
            self.read_text(&segment, answer);
        }
        (answer.sent, answer.fin) = (self.seen, self.fin);
    }

    fn read_syn(&mut self, segment: &Seg, answer: &mut Answer) {
        self.iss = Some(segment.seq);
        // RFC 7323 §1.3: both options are in use only if both ends offer them.
        self.timestamps = segment.timestamps().is_some() && (self.offered || !segment.has(ACK));
        self.scale = segment.window_scale().filter(|_| self.offer.scale.is_some()).unwrap_or(0);
        answer.opening = Some(Opening {
            acks: segment.has(ACK),
            mss: segment.mss(),
            scales: segment.window_scale().is_some(),
            sack: segment.sack_permitted(),
            timestamps: segment.timestamps().is_some(),
        });
    }

    fn read_text(&mut self, segment: &Seg, answer: &mut Answer) {
        let at = segment.seq.wrapping_sub(self.iss.unwrap_or(segment.seq));
        let end = at.wrapping_add(segment.len());
        let new = end.wrapping_sub(self.seen) as i32 > 0;
        // A retransmission gives no new information.
        if !new && !segment.is_empty() && !segment.has(SYN) {
            return;
        }
        if new {
            self.seen = end;
            self.fin |= segment.has(FIN);
            answer.garbled |= !segment.has(SYN) && segment.payload != text(at, segment.payload.len());
        }
        if let Some((value, echo)) = segment.timestamps() {
            self.echo = value;
            answer.echo = Some(echo.wrapping_sub(CLOCK));
        }
        if !segment.has(ACK) {
            return;
        }
        self.next = segment.ack.wrapping_sub(self.irs);
        let scale = if segment.has(SYN) { 0 } else { self.scale };
        self.edge = self.next.wrapping_add(u32::from(segment.window) << scale);
        answer.ack = Some(self.next);
        answer.closed = segment.window == 0;
        let relative =
            |&(left, right): &(u32, u32)| (left.wrapping_sub(self.irs), right.wrapping_sub(self.irs));
        answer.sack.extend(segment.sack().iter().map(relative));
        answer.sack.sort_unstable();
        answer.sack.dedup();
    }

    /// A reset that ends whatever is left of the connection.
    #[must_use]
    pub fn last_word(&self) -> Vec<u8> {
        let segment = Seg {
            seq: self.irs.wrapping_add(self.next),
            ack: self.iss.unwrap_or(0).wrapping_add(self.seen),
            flags: RST | ACK,
            ..Seg::default()
        };
        Frame::new(self.remote, self.local, segment).to_bytes()
    }
}

/// The stream's bytes at these sequence numbers; also before its first, as in an old duplicate.
#[must_use]
pub fn text(seq: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (seq.wrapping_add(at) % 251) as u8).collect()
}

fn damaged(mut packet: Vec<u8>, damage: Damage) -> Vec<u8> {
    let tcp = if packet[0] >> 4 == 4 { 20 } else { 40 };
    match damage {
        Damage::None => {}
        Damage::Checksum => packet[tcp + 16] ^= 0x55,
        Damage::ShortOffset => packet[tcp + 12] = 0x40,
        Damage::LongOffset => {
            packet.truncate(tcp + 20);
            packet[tcp + 12] = 0xf0;
        }
        Damage::CutOff => packet.truncate(tcp + 13),
    }
    if matches!(damage, Damage::ShortOffset | Damage::LongOffset | Damage::CutOff) {
        fit_length(&mut packet);
        fit_checksum(&mut packet, tcp);
    }
    packet
}

/// Sets the packet's length in the IP header.
fn fit_length(packet: &mut [u8]) {
    let len = packet.len() as u16;
    if packet[0] >> 4 == 4 {
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        let (mut header, _) = etherparse::Ipv4Header::from_slice(packet).expect("a header");
        header.header_checksum = header.calc_header_checksum();
        packet[..20].copy_from_slice(&header.to_bytes());
    } else {
        packet[4..6].copy_from_slice(&(len - 40).to_be_bytes());
    }
}

/// Sets the TCP checksum (RFC 9293 §3.1): over the addresses, the protocol, the length, and everything from
/// `tcp` on.
fn fit_checksum(packet: &mut [u8], tcp: usize) {
    if packet.len() < tcp + 18 {
        return;
    }
    packet[tcp + 16..tcp + 18].fill(0);
    let addresses = if tcp == 20 { 12 } else { 8 };
    let words = packet[addresses..].chunks(2);
    let sum: u32 = words.map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    let sum = sum + 6 + (packet.len() - tcp) as u32;
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    packet[tcp + 16..tcp + 18].copy_from_slice(&(!folded as u16).to_be_bytes());
}

/// The remote host's timestamp clock at the beginning.
const CLOCK: u32 = 0x7000_0000;
