//! Assembles segments into connections, each as seen at one place.

use std::collections::HashMap;
use std::net::SocketAddr;

use ackclock_wire::{Flags, SeqNum};

use super::segment::{Parsed, Segment};

/// A connection as seen at one place: one interface of one capture.
#[derive(Clone, Debug)]
pub struct Vantage {
    /// Where it was seen.
    pub(crate) place: CapturePoint,
    /// The end that opened it, or that sent the first segment seen.
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    /// The initial sequence numbers of both ends, if the SYN was seen.
    pub(crate) client_isn: Option<SeqNum>,
    pub(crate) server_isn: Option<SeqNum>,
    /// The MSS that each announced.
    pub(crate) client_mss: Option<u16>,
    pub(crate) server_mss: Option<u16>,
    /// The window shift of each end, if its SYN had one.
    pub(crate) client_scale: Option<u8>,
    pub(crate) server_scale: Option<u8>,
    /// Whether the SYN of each end permitted SACK.
    pub(crate) client_sack: bool,
    pub(crate) server_sack: bool,
    /// In the capture's order. The time never goes back.
    pub(crate) segments: Vec<Segment>,
    /// The largest step by which the clock was set back.
    pub(crate) clock_back_ns: u64,
    /// Segments that the capture contains twice.
    pub(crate) copies: u64,
}

/// Where packets were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct CapturePoint {
    /// The file's index.
    pub file: usize,
    /// The index of the interface in the file.
    pub interface: u32,
}

/// Sorts segments into connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    vantages: Vec<Vantage>,
    /// The present connection between two addresses, the smaller one first.
    present: HashMap<(CapturePoint, SocketAddr, SocketAddr), usize>,
    /// The latest time at each place.
    clocks: HashMap<CapturePoint, u64>,
    /// How often a clock was set back.
    pub(crate) clock_steps_back: u64,
}

impl Connections {
    /// Takes the next segment seen at `place`.
    pub fn push(&mut self, place: CapturePoint, parsed: &Parsed) {
        let clock = self.clocks.entry(place).or_insert(0);
        let back_ns = clock.saturating_sub(parsed.segment.at);
        self.clock_steps_back += u64::from(back_ns > 0);
        *clock = (*clock).max(parsed.segment.at);
        let segment = Segment { at: *clock, ..parsed.segment };

        let key = if parsed.src <= parsed.dst {
            (place, parsed.src, parsed.dst)
        } else {
            (place, parsed.dst, parsed.src)
        };
        let number = match self.present.get(&key) {
            Some(&number) if !self.vantages[number].is_over_by(parsed) => number,
            _ => {
                self.vantages.push(Vantage::new(place, parsed));
                let number = self.vantages.len() - 1;
                self.present.insert(key, number);
                number
            }
        };
        self.vantages[number].push(parsed, segment, back_ns);
    }

    /// All connections, in the order of their first segments.
    pub fn finish(self) -> Vec<Vantage> {
        self.vantages
    }
}

impl Vantage {
    fn new(place: CapturePoint, parsed: &Parsed) -> Self {
        // The end that answers a SYN is the server, even if the SYN was not seen.
        let answers = parsed.segment.flags.contains(Flags::SYN | Flags::ACK);
        let (client, server) = if answers { (parsed.dst, parsed.src) } else { (parsed.src, parsed.dst) };
        Self {
            place,
            client,
            server,
            client_isn: None,
            server_isn: None,
            client_mss: None,
            server_mss: None,
            client_scale: None,
            server_scale: None,
            client_sack: false,
            server_sack: false,
            segments: Vec::new(),
            clock_back_ns: 0,
            copies: 0,
        }
    }

    /// Whether a segment begins another connection between the same addresses.
    fn is_over_by(&self, parsed: &Parsed) -> bool {
        let segment = &parsed.segment;
        if !segment.flags.contains(Flags::SYN) || segment.flags.contains(Flags::ACK) {
            return false;
        }
        // A retransmitted SYN has the same number.
        parsed.src != self.client || self.client_isn.is_some_and(|isn| isn != segment.seq)
    }

    fn push(&mut self, parsed: &Parsed, segment: Segment, back_ns: u64) {
        let from_client = parsed.src == self.client;
        let segment = Segment { from_client, ..segment };
        self.clock_back_ns = self.clock_back_ns.max(back_ns);
        if segment.flags.contains(Flags::SYN) {
            let (isn, mss, scale, sack) = if from_client {
                (&mut self.client_isn, &mut self.client_mss, &mut self.client_scale, &mut self.client_sack)
            } else {
                (&mut self.server_isn, &mut self.server_mss, &mut self.server_scale, &mut self.server_sack)
            };
            *isn = isn.or(Some(segment.seq));
            *mss = mss.or(parsed.mss);
            *scale = scale.or(parsed.window_scale);
            *sack |= parsed.sack_permitted;
        }
        if self.is_copy(&segment) {
            self.copies += 1;
        } else {
            self.segments.push(segment);
        }
    }

    /// Whether the same packet was just seen, because captures on all interfaces show forwarded packets
    /// twice. Without an identification, a copy cannot be told from a retransmission.
    fn is_copy(&self, segment: &Segment) -> bool {
        let same = |other: &&Segment| Segment { at: segment.at, ..**other } == *segment;
        let recent = self.segments.iter().rev().take(COPY_WITHIN);
        segment.id != 0
            && recent.take_while(|other| segment.at - other.at <= COPY_WITHIN_NS).any(|other| same(&other))
    }
}

const COPY_WITHIN: usize = 8;
const COPY_WITHIN_NS: u64 = 2_000_000;
