//! A device that cuts large packets changes nothing on the wire: what it makes of the packets of one end are
//! the segments of another end that cuts nothing, after the same events.

use ackclock_wire::gso::cut;
use ackclock_wire::{Codepoint, Fields, Flags, SackBlocks, TcpOptions, TxPacket};

use super::lone::{Lone, handshake};
use super::walks::{call, settings};
use super::*;
use crate::connection::{Handshake, Offer};
use crate::profile::AckPolicy;
use crate::walks::Walk;

const STEPS: u64 = 60;

/// An event, and the packets on the wire after it. `None`: a rate spaces them from here on, and does so by
/// the packet.
type Told = (String, Option<Vec<Vec<u8>>>);

/// One end and what its peer knows.
struct End {
    lone: Lone,
    /// The segments on the wire so far that end beyond SND.UNA.
    outstanding: Vec<(SeqNum, SeqNum)>,
    /// Those that the peer holds beyond a gap, the newest last.
    held: Vec<(SeqNum, SeqNum)>,
    timestamps: bool,
    sack: bool,
    accurate: bool,
    marks: u8,
    clock: u32,
}

impl End {
    fn new(walk: &mut Walk, device: Limits) -> Self {
        let mut tcp = TcpConfig { keepalive: None, trace: None, ..settings(walk) };
        tcp.choices.pacing = false;
        // A lazy receiver's report follows what acknowledges first: a segment here, a packet there.
        tcp.choices.acks = AckPolicy::EVERY_SECOND;
        let (timestamps, sack) = (walk.one_in(2), !walk.one_in(3));
        let offer =
            walk.pick(&[Offer::None, Offer::None, Offer::Classic, Offer::Accurate(Codepoint::NotEct)]);
        let agreed = Handshake {
            sack,
            timestamps: timestamps.then_some(1000),
            peer_mss: walk.pick(&[1460, 1460, 536]),
            window_scale: walk.pick(&[None, Some((7, 7))]),
            ecn: offer.agreement(0),
            ..handshake()
        };
        let accurate = matches!(offer, Offer::Accurate(_)) && agreed.ecn.is_some();
        let mut lone = Lone::agreed(tcp, agreed);
        lone.limits = device;
        Self {
            lone,
            outstanding: Vec::new(),
            held: Vec::new(),
            timestamps,
            sack,
            accurate,
            marks: 5,
            clock: 1000,
        }
    }

    /// The packets on the wire now.
    fn wire(&mut self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let mut header = [0; HEADER_MAX];
        let Lone { end, now, limits } = &mut self.lone;
        while let Some(out) = end.poll_transmit(*now, *limits, true, &mut header) {
            let packet = TxPacket {
                header: &header[..out.header_len],
                transport_offset: out.transport_offset,
                payload: end.payload(&out),
                segment_size: out.segment_size,
                checksum: out.checksum,
            };
            cut(&packet, |cut| packets.push(cut.to_vec()));
        }
        for packet in &packets {
            let (seq, len) = (sequence(packet), text_len(packet));
            self.outstanding.push((seq, seq + len));
        }
        packets
    }

    fn is_paced(&self) -> bool {
        self.lone.end.snd.flight().controller().pacing_rate().is_some()
            || !self.lone.end.snd.flight().is_unpaced()
    }

    fn fields(&mut self, walk: &mut Walk, ack: SeqNum) -> Fields {
        let window = walk.pick(&[65_535, 65_535, 65_535, 20_000, 5000, 1000, 0]);
        let mut options = TcpOptions::default();
        if self.timestamps {
            self.clock += 1;
            let echo = crate::connection::timestamp_clock(self.lone.now).wrapping_add(5000 / 3);
            options.timestamps = Some((self.clock, echo));
        }
        let mut sack = SackBlocks::default();
        if self.sack {
            let room = if self.timestamps { 3 } else { 4 };
            self.held.iter().rev().take(room).for_each(|&(start, end)| sack.push(start, end));
        }
        options.sack = sack;
        self.marks += u8::from(self.accurate && walk.one_in(8));
        let marked = if self.accurate {
            Flags::from_ace(self.marks % 8)
        } else if !self.lone.end.ecn.is_off() && walk.one_in(8) {
            Flags::ECE
        } else {
            Flags::NONE
        };
        Fields { flags: Flags::ACK | marked, options, ..self.lone.ack(ack, window) }
    }

    /// The peer acknowledges, and holds, any part of what is outstanding.
    fn acknowledge(&mut self, walk: &mut Walk) -> String {
        let (una, out) =
            (self.lone.end.snd.flight().una().seq(), self.lone.end.snd.flight().flight_size() as u32);
        let ahead = |seq: SeqNum| seq.offset_from(una);
        // With a FIN, SND.NXT is beyond the last byte of text.
        self.outstanding.retain(|&(start, end)| start != end && ahead(end) <= out && ahead(end) > 0);
        let pick = |walk: &mut Walk, from: &[(SeqNum, SeqNum)]| {
            from.get(walk.below(from.len().max(1) as u64) as usize).copied()
        };
        let acked = match walk.below(6) {
            0 | 1 => 0,
            2 | 3 => out,
            _ => pick(walk, &self.outstanding).map_or(0, |(_, end)| ahead(end)),
        };
        let new = una + acked;
        self.outstanding.retain(|&(_, end)| ahead(end) > acked);
        self.held.retain(|&(start, end)| ahead(end) <= out && ahead(start) > acked);
        if self.sack && walk.one_in(2) {
            let range = pick(walk, &self.outstanding)
                .filter(|&(start, _)| ahead(start) > acked && ahead(start) <= out);
            self.held.extend(range);
        }
        let fields = self.fields(walk, new);
        self.lone.give(&fields, Codepoint::NotEct, &[]);
        format!("{acked} of {out} acknowledged, window {}", fields.window)
    }

    fn step(&mut self, walk: &mut Walk) -> String {
        let now = self.lone.now;
        match walk.below(20) {
            0..=4 => {
                let smss = self.lone.end.snd.smss() as usize;
                let len =
                    walk.pick(&[1, smss - 1, smss + 1, 2 * smss + 300, 3 * smss, 20_000, 50_000, 200_000]);
                format!("write {len}: {:?}", self.lone.end.write(now, &vec![7; len]))
            }
            5 => {
                call(&mut self.lone.end, now, walk);
                // These ask for something else of packets than of segments.
                self.lone.end.set_acks(AckPolicy::EVERY_SECOND).unwrap();
                self.lone.end.set_more_follows(false);
                self.lone.end.set_max_pacing_rate(now, None).unwrap();
                self.lone.end.set_trace(now, None);
                "a call".into()
            }
            6 if walk.one_in(10) => format!("shutdown {:?}", self.lone.end.shutdown(now)),
            6 => {
                let ahead = walk.pick(&[0, 0, 100, 3000]);
                let una = self.lone.end.snd.flight().una().seq();
                let fields = self.fields(walk, una);
                let seq = fields.seq + ahead;
                self.lone.give(
                    &Fields { seq, ..fields },
                    walk.pick(&[Codepoint::NotEct, Codepoint::Ce]),
                    &[1; 100],
                );
                let _ = self.lone.end.read(now, &mut [0; 5000]);
                format!("text {ahead} ahead")
            }
            7 => {
                let told = walk.pick(&[1400, 1000]);
                let seq = self.lone.end.snd.flight().una().seq();
                self.lone.end.handle_icmp(now, ackclock_wire::IcmpKind::PacketTooBig { mtu: told }, seq);
                format!("too big for {told}")
            }
            8 | 9 if self.lone.end.poll_timeout().is_some() => {
                self.lone.expire();
                "a timer".into()
            }
            _ => {
                self.lone.now += Duration::from_millis(walk.pick(&[0, 1, 10, 20, 20]));
                self.lone.end.handle_timeout(self.lone.now);
                self.acknowledge(walk)
            }
        }
    }
}

fn told(seed: u64, device: Limits) -> Vec<Told> {
    let mut walk = Walk::new(seed);
    let mut end = End::new(&mut walk, device);
    let mut told = Vec::new();
    for _ in 0..STEPS {
        let event = end.step(&mut walk);
        let wire = end.wire();
        told.push((event, (!end.is_paced()).then_some(wire)));
    }
    told
}

fn sequence(packet: &[u8]) -> SeqNum {
    SeqNum::new(u32::from_be_bytes(packet[24..28].try_into().unwrap()))
}

fn text_len(packet: &[u8]) -> u32 {
    (packet.len() - 20 - usize::from(packet[32] >> 4) * 4) as u32
}

/// The numbers of a segment, for a message.
fn brief(packet: &[u8]) -> String {
    let (tcp, seq, len) = (&packet[20..], sequence(packet), text_len(packet));
    format!(
        "{seq:?} of {len}, flags {:02x}, options {:02x?}",
        tcp[13],
        &tcp[20..usize::from(tcp[12] >> 4) * 4]
    )
}

#[test]
fn device_that_cuts_changes_nothing_on_the_wire() {
    let (mut packets, mut long) = (0, 0);
    for seed in 0..1000 {
        let whole = told(seed, software(65_535));
        let single = told(seed, software(0));
        let mut story = Vec::new();
        for ((event, whole), (_, single)) in whole.iter().zip(&single) {
            let (Some(whole), Some(single)) = (whole, single) else { break };
            story.push(event);
            let place = whole.iter().zip(single).take_while(|(one, other)| one == other).count();
            let at = |packets: &[Vec<u8>]| packets.get(place).map(|packet| brief(packet));
            assert!(
                whole == single,
                "seed {seed}: {story:#?}\npacket {place}: {:?} of {} cut, {:?} of {} alone",
                at(whole),
                whole.len(),
                at(single),
                single.len(),
            );
            packets += single.len();
            long += usize::from(single.len() > 3);
        }
    }
    assert!(packets > 50_000 && long > 2000, "{packets} packets, {long} times more than three");
}
