//! The parts of a sequence: segments of a remote host and calls of a program, drawn from a seed.
//!
//! Numbers of a segment are relative to what the remote host knows when it sends it, so that a step means the
//! same on both sides, and still has a meaning when the steps before it are left out.

use crate::rng::Rng;
use crate::segment::flag::{ACK, FIN, PSH, RST, SYN, URG};

/// A sequence of steps and its parameters, the same for both sides.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The seed that it was drawn from.
    pub seed: u64,
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// Whether the program connects; else it listens.
    pub active: bool,
    /// The options of the remote host's SYN.
    pub offer: Offer,
    /// The remote host's initial sequence number.
    pub irs: u32,
    /// The steps.
    pub steps: Vec<Step>,
}

/// The options that the remote host puts on a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The MSS, if any.
    pub mss: Option<u16>,
    /// The shift count, if any.
    pub scale: Option<u8>,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps.
    pub timestamps: bool,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A segment of the remote host arrives.
    Segment(RemoteSegment),
    /// The program does something.
    Call(Call),
}

/// A call of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Listens, or connects.
    Open,
    /// Takes the connection that the listener has ready.
    Accept,
    /// Reads all that is there.
    Read,
    /// Writes this many bytes.
    Write(u16),
    /// Closes its sending side.
    Shutdown,
    /// Closes its stream.
    Close,
    /// Closes its stream with a linger time of zero.
    Abort,
    /// Switches Nagle's algorithm off or on.
    Nodelay(bool),
    /// Closes its listener.
    Unlisten,
}

/// A segment of the remote host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSegment {
    /// Control bits.
    pub flags: u8,
    /// SEG.SEQ.
    pub seq: (SeqBase, i32),
    /// SEG.ACK, where the ACK bit is set.
    pub ack: (AckBase, i32),
    /// SEG.WND, not scaled.
    pub window: u16,
    /// SEG.UP, where the URG bit is set.
    pub urgent: u16,
    /// Bytes of text.
    pub len: u16,
    /// Whether the text differs from the stream's.
    pub alien: bool,
    /// Timestamps.
    pub timestamps: Stamp,
    /// SACK blocks, from what the program has sent: left and right edge relative to SND.UNA.
    pub sack: Option<(i32, i32)>,
    /// Another option.
    pub extra: Extra,
    /// A defect of the packet.
    pub damage: Damage,
}

/// The base of a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeqBase {
    /// RCV.NXT, as last acknowledged.
    Next,
    /// The right edge of the window, as last advertised.
    Edge,
    /// The remote host's initial sequence number.
    First,
}

/// The base of an acknowledgement number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckBase {
    /// The highest SND.NXT seen.
    All,
    /// The last number that the remote host has acknowledged.
    Old,
    /// The initial sequence number, or 0 while none was seen.
    First,
}

/// The timestamps option of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// As agreed in the handshake.
    Agreed,
    /// Left out.
    Absent,
    /// Present, whatever was agreed.
    Forced,
    /// As agreed, with a clock this far behind.
    Behind(u32),
    /// As agreed, echoing a value that was never sent.
    WrongEcho,
}

/// An option that does not belong there, or that no receiver can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// None.
    None,
    /// A kind that was never assigned, well formed.
    Unknown,
    /// An MSS option.
    Mss,
    /// A window scale option.
    Scale,
    /// Length 0.
    LengthZero,
    /// A length beyond the header.
    LengthBeyond,
    /// An MSS option of three bytes.
    ShortMss,
    /// Options after the end of the list.
    AfterTheEnd,
}

/// A defect of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Nothing.
    None,
    /// The TCP checksum.
    Checksum,
    /// The data offset is below 5.
    ShortOffset,
    /// The data offset lies beyond the packet.
    LongOffset,
    /// The packet ends within the TCP header.
    CutOff,
}

impl RemoteSegment {
    /// An acknowledgement of everything, next in order.
    #[must_use]
    pub const fn plain(flags: u8) -> Self {
        Self {
            flags,
            seq: (SeqBase::Next, 0),
            ack: (AckBase::All, 0),
            window: u16::MAX,
            urgent: 0,
            len: 0,
            alien: false,
            timestamps: Stamp::Agreed,
            sack: None,
            extra: Extra::None,
            damage: Damage::None,
        }
    }

    /// Whether all of these flags are set.
    #[must_use]
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

impl Sequence {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let active = rng.chance(300_000);
        let offer = offer(&mut rng);
        let irs = if rng.chance(200_000) {
            0_u32.wrapping_sub(rng.below(3_000) as u32)
        } else {
            rng.next_u64() as u32
        };
        let mut steps = vec![Step::Call(Call::Open)];
        if rng.chance(850_000) {
            steps.extend(handshake(active));
        }
        for _ in 0..rng.between(1, STEPS_MAX) {
            steps.push(step(&mut rng));
        }
        let v6 = rng.chance(200_000);
        Self { seed, v6, active, offer, irs, steps }
    }
}

fn offer(rng: &mut Rng) -> Offer {
    Offer {
        mss: rng.pick(&[Some(1460), Some(1460), Some(1460), Some(536), Some(9000), Some(0), None]),
        scale: rng.pick(&[None, Some(0), Some(2), Some(7), Some(14), Some(15)]),
        sack: rng.chance(600_000),
        timestamps: rng.chance(500_000),
    }
}

/// The steps that open a connection.
fn handshake(active: bool) -> Vec<Step> {
    let first = |flags| RemoteSegment { seq: (SeqBase::First, 0), ..RemoteSegment::plain(flags) };
    if active {
        return vec![Step::Segment(first(SYN | ACK))];
    }
    vec![Step::Segment(first(SYN)), Step::Segment(RemoteSegment::plain(ACK)), Step::Call(Call::Accept)]
}

fn step(rng: &mut Rng) -> Step {
    if rng.chance(350_000) { Step::Call(call(rng)) } else { Step::Segment(sent(rng)) }
}

fn call(rng: &mut Rng) -> Call {
    match rng.below(20) {
        0..5 => Call::Write(rng.between(1, WRITE_MAX) as u16),
        5..11 => Call::Read,
        11..13 => Call::Shutdown,
        13..15 => Call::Close,
        15 => Call::Abort,
        16 => Call::Nodelay(rng.chance(700_000)),
        17 => Call::Unlisten,
        _ => Call::Accept,
    }
}

fn sent(rng: &mut Rng) -> RemoteSegment {
    let flags = match rng.below(100) {
        0..45 => ACK,
        45..58 => ACK | PSH,
        58..74 => ACK | FIN,
        74..81 => RST,
        81..85 => RST | ACK,
        85..89 => SYN,
        89..92 => SYN | ACK,
        92..94 => ACK | URG,
        94 => FIN,
        95 => 0,
        96 => SYN | FIN | ACK,
        97 => SYN | RST,
        98 => SYN | FIN,
        _ => FIN | PSH | URG,
    };
    let seq = match rng.below(100) {
        0..60 => (SeqBase::Next, 0),
        60..68 => (SeqBase::Next, rng.between(1, 2_000) as i32),
        68..78 => (SeqBase::Next, -(rng.between(1, 1_000) as i32)),
        78..82 => (SeqBase::Edge, rng.pick(&[-1, 0, 1])),
        82..86 => (SeqBase::Next, rng.pick(&[0x1000_0000, -0x1000_0000])),
        86..90 => (SeqBase::First, 0),
        90..95 => (SeqBase::Next, rng.pick(&[1, -1])),
        _ => (SeqBase::Next, 0),
    };
    let ack = match rng.below(100) {
        0..62 => (AckBase::All, 0),
        62..72 => (AckBase::Old, 0),
        72..78 => (AckBase::Old, rng.between(1, 600) as i32),
        78..82 => (AckBase::All, rng.between(1, 2_000) as i32),
        82..88 => (AckBase::Old, -(rng.between(1, 2_000) as i32)),
        88..91 => (AckBase::All, rng.pick(&[0x1000_0000, -0x1000_0000])),
        91..94 => (AckBase::First, rng.pick(&[0, 1])),
        _ => (AckBase::All, 0),
    };
    let len = if rng.chance(400_000) { rng.between(1, 1_200) as u16 } else { 0 };
    RemoteSegment {
        flags,
        seq,
        ack,
        len: if flags & (SYN | RST) != 0 && !rng.chance(100_000) { 0 } else { len },
        window: if rng.chance(150_000) {
            rng.pick(&[0, 1, 500])
        } else {
            rng.pick(&[u16::MAX, u16::MAX, 8_000])
        },
        urgent: rng.between(0, 300) as u16,
        alien: rng.chance(15_000),
        timestamps: stamp(rng),
        sack: rng.chance(60_000).then(|| {
            let left = rng.between(0, 900) as i32 - 200;
            (left, left + rng.between(0, 500) as i32 - 50)
        }),
        extra: extra(rng),
        damage: damage(rng),
    }
}

fn stamp(rng: &mut Rng) -> Stamp {
    match rng.below(100) {
        0..90 => Stamp::Agreed,
        90..92 => Stamp::Absent,
        92..94 => Stamp::Forced,
        94..98 => Stamp::Behind(rng.pick(&[10_000, 0x4000_0000])),
        _ => Stamp::WrongEcho,
    }
}

fn extra(rng: &mut Rng) -> Extra {
    match rng.below(200) {
        0..4 => Extra::Unknown,
        4..6 => Extra::Mss,
        6..8 => Extra::Scale,
        8 => Extra::LengthZero,
        9 => Extra::LengthBeyond,
        10 => Extra::ShortMss,
        11 => Extra::AfterTheEnd,
        _ => Extra::None,
    }
}

fn damage(rng: &mut Rng) -> Damage {
    match rng.below(100) {
        0 | 1 => Damage::Checksum,
        2 => rng.pick(&[Damage::ShortOffset, Damage::LongOffset, Damage::CutOff]),
        _ => Damage::None,
    }
}

/// The most steps after the handshake.
const STEPS_MAX: u64 = 14;
/// The most bytes of a write: all writes of a sequence together fit the initial window.
const WRITE_MAX: u64 = 700;
