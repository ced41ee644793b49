//! Middleboxes on a path that change packets.
//!
//! All are at the client's end of the path: the client's packets pass them before the link, the server's
//! after it. In the order of the outward direction: options are stripped, sequence numbers rewritten,
//! addresses translated, windows changed, acknowledgements thinned, segments cut.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ackclock::Instant;

use super::faults::Fault;
use crate::rng::Rng;
use crate::segment::{ACK, FIN, Frame, Opt, PSH, RST, SYN, Seg};

/// The boxes on a path for the whole run.
#[derive(Clone, Debug, Default)]
pub(super) struct Fixed {
    /// Which options are stripped from SYNs, and whether SACK blocks are stripped from other segments.
    pub(super) strip: Strip,
    pub(super) rewrite: Option<Rewrite>,
    /// How the address translator treats a segment of an unknown connection; `None` without a translator.
    pub(super) nat: Option<Midstream>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Strip {
    pub(super) mss: bool,
    pub(super) scale: bool,
    pub(super) sack_permitted: bool,
    pub(super) timestamps: bool,
    pub(super) sack_blocks: bool,
}

/// Sequence numbers differ on the far side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rewrite {
    pub(super) key: u64,
    /// Whether SACK blocks are rewritten, too.
    pub(super) sack: bool,
}

/// The treatment of a segment that is not a SYN and belongs to no known connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Midstream {
    /// It is assigned another port.
    Taken,
    Dropped,
    Reset,
}

/// Boxes that events switch on and off.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switched {
    pub(super) split: Option<usize>,
    pub(super) thin: Option<usize>,
    /// The event and the window's upper bound.
    pub(super) window: Option<(usize, u16)>,
}

/// All boxes of a path.
#[derive(Debug)]
pub(super) struct Boxes {
    fixed: Fixed,
    pub(super) switched: Switched,
    rng: Rng,
    /// The client's socket of each translated port, the other way round, and the next port.
    outside: BTreeMap<(SocketAddr, SocketAddr), u16>,
    inside: BTreeMap<(u16, SocketAddr), SocketAddr>,
    next_port: u16,
    nat_addr: IpAddr,
    /// When the last acknowledgement of a flow passed.
    passed: BTreeMap<(SocketAddr, SocketAddr), Instant>,
}

/// The output of a box for a segment.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// The packets that continue.
    pub(super) on: Vec<Frame>,
    /// The packet that returns.
    pub(super) back: Option<Frame>,
    /// Faults that struck: an event by its number, or a permanent box.
    pub(super) events: Vec<usize>,
    pub(super) fixed: Vec<Fault>,
}

/// The direction of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

impl Boxes {
    pub(super) fn new(fixed: Fixed, nat_addr: IpAddr, seed: u64) -> Self {
        Self {
            fixed,
            switched: Switched::default(),
            rng: Rng::new(seed),
            outside: BTreeMap::new(),
            inside: BTreeMap::new(),
            next_port: 20_000,
            nat_addr,
            passed: BTreeMap::new(),
        }
    }

    /// A segment passes on its way up or down.
    pub(super) fn pass(&mut self, now: Instant, way: Way, mut frame: Frame) -> Passed {
        let mut passed = Passed::default();
        match way {
            Way::Up => {
                self.strip(&mut frame.seg, &mut passed);
                self.rewrite(way, &mut frame, &mut passed);
                if !self.translate_out(&mut frame, &mut passed) {
                    return passed;
                }
            }
            Way::Down => {
                if !self.translate_in(&mut frame) {
                    return passed;
                }
                self.rewrite(way, &mut frame, &mut passed);
                self.strip(&mut frame.seg, &mut passed);
            }
        }
        self.change_window(&mut frame.seg, &mut passed);
        if self.thin(now, &frame, &mut passed) {
            return passed;
        }
        self.split(frame, &mut passed);
        passed
    }

    /// The translator forgets all connections. Returns whether there were any.
    pub(super) fn forget(&mut self) -> bool {
        let had = !self.outside.is_empty();
        self.outside.clear();
        self.inside.clear();
        had
    }

    pub(super) fn has_nat(&self) -> bool {
        self.fixed.nat.is_some()
    }

    fn strip(&self, seg: &mut Seg, passed: &mut Passed) {
        let strip = self.fixed.strip;
        let before = seg.options.len();
        let syn = seg.has(SYN);
        seg.options.retain(|option| match option {
            Opt::Mss(_) => !(syn && strip.mss),
            Opt::WindowScale(_) => !(syn && strip.scale),
            Opt::SackPermitted => !(syn && strip.sack_permitted),
            Opt::Timestamps(..) => !(syn && strip.timestamps),
            Opt::Sack(_) => !strip.sack_blocks,
            _ => true,
        });
        // Counted once per connection, at its SYN; or at each SACK option removed.
        if seg.options.len() < before && (!syn || !seg.has(ACK)) {
            passed.fixed.push(Fault::OptionStripping);
        }
    }

    /// The offset is a keyed function of the two sockets, so the box needs no memory.
    fn rewrite(&self, way: Way, frame: &mut Frame, passed: &mut Passed) {
        let Some(Rewrite { key, sack }) = self.fixed.rewrite else { return };
        let (client, server) = match way {
            Way::Up => (frame.src, frame.dst),
            Way::Down => (frame.dst, frame.src),
        };
        let sockets =
            u64::from(client.port()) << 16 ^ u64::from(server.port()) ^ last_byte(client.ip()) << 40;
        let mut by = Rng::new(key ^ sockets);
        let (client_by, server_by) = (by.next_u64() as u32, by.next_u64() as u32);
        let seg = &mut frame.seg;
        let (seq_by, ack_by) = match way {
            Way::Up => (client_by, server_by.wrapping_neg()),
            Way::Down => (server_by, client_by.wrapping_neg()),
        };
        seg.seq = seg.seq.wrapping_add(seq_by);
        if seg.has(ACK) {
            seg.ack = seg.ack.wrapping_add(ack_by);
        }
        for option in &mut seg.options {
            if let Opt::Sack(blocks) = option {
                if sack {
                    for (left, right) in blocks.iter_mut() {
                        (*left, *right) = (left.wrapping_add(ack_by), right.wrapping_add(ack_by));
                    }
                } else {
                    passed.fixed.push(Fault::SequenceRewritingWithoutSack);
                }
            }
        }
        if seg.has(SYN) && !seg.has(ACK) {
            passed.fixed.push(Fault::SequenceRewriting);
        }
    }

    /// Whether the segment continues.
    fn translate_out(&mut self, frame: &mut Frame, passed: &mut Passed) -> bool {
        let Some(midstream) = self.fixed.nat else { return true };
        let key = (frame.src, frame.dst);
        let port = match self.outside.get(&key) {
            Some(port) => *port,
            None if !frame.seg.has(SYN) && (midstream != Midstream::Taken || frame.seg.has(RST)) => {
                if midstream == Midstream::Reset && !frame.seg.has(RST) {
                    let reset = Seg { flags: RST, seq: frame.seg.ack, ..Seg::default() };
                    passed.back = Some(Frame::new(frame.dst, frame.src, reset));
                }
                return false;
            }
            None => {
                let port = self.next_port;
                self.next_port = port.wrapping_add(1).max(20_000);
                self.outside.insert(key, port);
                self.inside.insert((port, frame.dst), frame.src);
                port
            }
        };
        frame.src = SocketAddr::new(self.nat_addr, port);
        true
    }

    fn translate_in(&self, frame: &mut Frame) -> bool {
        // The translator's own resets reach the client unchanged.
        if self.fixed.nat.is_none() || frame.dst.ip() != self.nat_addr {
            return true;
        }
        let Some(client) = self.inside.get(&(frame.dst.port(), frame.src)) else { return false };
        frame.dst = *client;
        true
    }

    fn change_window(&self, seg: &mut Seg, passed: &mut Passed) {
        let Some((event, most)) = self.switched.window else { return };
        if seg.window > most && !seg.has(SYN) && !seg.has(RST) {
            seg.window = most;
            passed.events.push(event);
        }
    }

    /// Whether to drop the segment: a pure acknowledgement closely behind another.
    fn thin(&mut self, now: Instant, frame: &Frame, passed: &mut Passed) -> bool {
        let Some(event) = self.switched.thin else { return false };
        let seg = &frame.seg;
        if seg.flags & (SYN | FIN | RST) != 0 || !seg.has(ACK) || !seg.payload.is_empty() {
            return false;
        }
        let key = (frame.src, frame.dst);
        if self.passed.get(&key).is_some_and(|last| now.saturating_since(*last) < THINNING) {
            passed.events.push(event);
            return true;
        }
        self.passed.insert(key, now);
        false
    }

    fn split(&mut self, frame: Frame, passed: &mut Passed) {
        let len = frame.seg.payload.len();
        let Some(event) = self.switched.split.filter(|_| len > 1 && !frame.seg.has(SYN)) else {
            passed.on.push(frame);
            return;
        };
        let at = self.rng.between(1, len as u64 - 1) as usize;
        let mut second = frame.clone();
        let mut first = frame;
        first.seg.payload.truncate(at);
        first.seg.flags &= !(FIN | PSH);
        second.seg.payload.drain(..at);
        second.seg.seq = second.seg.seq.wrapping_add(at as u32);
        passed.on.extend([first, second]);
        passed.events.push(event);
    }
}

fn last_byte(addr: IpAddr) -> u64 {
    match addr {
        IpAddr::V4(addr) => u64::from(addr.octets()[3]),
        IpAddr::V6(addr) => u64::from(addr.octets()[15]),
    }
}

/// Acknowledgements that follow another within this are dropped.
const THINNING: Duration = Duration::from_millis(5);
