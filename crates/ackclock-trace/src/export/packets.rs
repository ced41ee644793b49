//! A trace as a packet capture.
//!
//! A connection's trace has each segment's position, length and control bits, the acknowledgements and
//! windows, and what the peer held beyond gaps. That is enough for the headers. Sequence numbers begin at 0
//! in both directions, and payloads are missing. Each packet's comment says what the trace knows of it and a
//! capture never shows.

use std::io::{self, Write};

use ackclock_core::Instant;
use ackclock_core::trace::{Entry, LossRule, SendReason, Timer};
use ackclock_wire::pcapng::{self, Direction, LinkType, Record};
use ackclock_wire::{Fields, Flags, HEADER_MAX, HeaderTemplate, SeqNum, TcpOptions, TxChecksum};

use crate::file::{Source, Trace, TracedSource};

/// Writes the segments of all connections as a pcapng file, which Wireshark opens. They share one interface,
/// because tcpdump refuses files with several whose packets begin at the IP header. Times count from 1970 if
/// the trace's origin has the date, otherwise from zero. Returns the number of packets.
///
/// # Errors
/// Those of the writer.
pub fn pcapng(trace: &Trace, into: &mut impl Write) -> io::Result<u64> {
    let mut out = Vec::new();
    pcapng::section_header(&mut out);
    pcapng::interface(&mut out, "trace", LinkType::Raw, SNAP_LEN);
    let mut packets: Vec<Packet> =
        trace.connections().flat_map(|source| Connection::new(source).packets()).collect();
    packets.sort_by_key(|packet| packet.at);
    let epoch = trace.origin.epoch_unix_nanos.unwrap_or(0);
    for packet in &packets {
        let record = Record {
            interface: 0,
            time_ns: epoch.saturating_add(packet.at.as_nanos()),
            direction: packet.direction,
            parts: &[&packet.header],
            len: packet.header.len() + packet.payload,
            comment: &packet.comment,
        };
        pcapng::packet(&mut out, &record, SNAP_LEN);
        if out.len() > BUFFER {
            into.write_all(&out)?;
            out.clear();
        }
    }
    into.write_all(&out)?;
    Ok(packets.len() as u64)
}

struct Packet {
    at: Instant,
    direction: Direction,
    header: Vec<u8>,
    payload: usize,
    comment: String,
}

/// A connection that is replayed from its beginning.
struct Connection<'a> {
    source: &'a TracedSource,
    /// The header templates of sent and of received segments.
    templates: [HeaderTemplate; 2],
    /// The window shifts of the two directions.
    scales: [u8; 2],
    told: (u32, u32),
    heard: (u32, u32),
    lost: Vec<(LossRule, u32, u32, Instant)>,
    /// The congestion window and the threshold, once known.
    window: Option<(u32, u32)>,
    /// The timer that expired last, when, and its consecutive count.
    fired: Option<(Timer, Instant, u32)>,
}

impl<'a> Connection<'a> {
    fn new(source: &'a TracedSource) -> Self {
        let (local, remote) = match &source.source {
            Source::Connection { local, remote, .. } => (*local, *remote),
            Source::Queue { .. } => unreachable!("only connections are asked for"),
        };
        let largest = |own: bool| {
            let windows = source.entries.iter().filter_map(move |(_, entry)| match *entry {
                Entry::Told { window, .. } if own => Some(window),
                Entry::Acked { window, .. } if !own => Some(window),
                _ => None,
            });
            windows.max().unwrap_or(0)
        };
        let scale = |window: u32| (0..14).find(|shift| window >> shift <= u32::from(u16::MAX)).unwrap_or(14);
        Self {
            source,
            templates: [HeaderTemplate::new(local, remote, 64, 0), HeaderTemplate::new(remote, local, 64, 0)],
            scales: [scale(largest(true)), scale(largest(false))],
            told: (0, 0),
            heard: (0, 0),
            lost: Vec::new(),
            window: None,
            fired: None,
        }
    }

    fn packets(mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        let entries = &self.source.entries;
        for (place, &(at, entry)) in entries.iter().enumerate() {
            match entry {
                Entry::Told { ack, window } => self.told = (ack, window),
                Entry::Lost { rule, start, end } => self.lost.push((rule, start, end, at)),
                Entry::Window { cwnd, ssthresh, .. } => self.window = Some((cwnd, ssthresh)),
                Entry::TimerFired { timer, count, .. } => self.fired = Some((timer, at, count)),
                Entry::Sent { reason, flags, seq, len } => {
                    let comment = self.why(reason, seq, len, at) + &self.allowed(len);
                    let acknowledges =
                        Acknowledgement { ack: self.told.0, window: self.told.1, ..Default::default() };
                    packets.push(self.packet(at, 0, flags, seq, len, &acknowledges, comment));
                }
                Entry::Received { flags, seq, len } => {
                    let said = Acknowledgement::after(&entries[place + 1..], at, self.heard);
                    self.heard = (said.ack, said.window);
                    let comment = if said.duplicate {
                        "counts as a duplicate acknowledgement".into()
                    } else {
                        String::new()
                    };
                    packets.push(self.packet(at, 1, flags, seq, len, &said, comment));
                }
                _ => {}
            }
        }
        packets
    }

    /// The limits in force when a data segment left.
    fn allowed(&self, len: u32) -> String {
        let Some((cwnd, ssthresh)) = self.window.filter(|_| len > 0) else { return String::new() };
        let threshold = if ssthresh == u32::MAX { String::new() } else { format!(", ssthresh {ssthresh}") };
        format!("; cwnd {cwnd}{threshold}, the peer's window {}", self.heard.1)
    }

    /// Why a segment was sent. For a retransmission: which rule had declared it lost, and which timer
    /// released it.
    fn why(&self, reason: SendReason, seq: u32, len: u32, at: Instant) -> String {
        let covers = |&&(_, start, end, _): &&(LossRule, u32, u32, Instant)| {
            seq.wrapping_sub(start) < end.wrapping_sub(start).max(1) || start.wrapping_sub(seq) < len
        };
        let timer = match self.fired {
            Some((timer, then, count)) if then == at => {
                format!("; the {timer} timer had expired, {count} in a row")
            }
            _ => String::new(),
        };
        match self.lost.iter().rev().find(covers) {
            Some((rule, .., declared)) if reason == SendReason::Retransmission => {
                let before = at.saturating_since(*declared).as_secs_f64() * 1e3;
                format!("{reason}: declared lost by {rule}, {before:.3} ms before{timer}")
            }
            _ => format!("{reason}{timer}"),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a segment")]
    fn packet(
        &self,
        at: Instant,
        way: usize,
        flags: u8,
        seq: u32,
        len: u32,
        said: &Acknowledgement,
        comment: String,
    ) -> Packet {
        let flags = Flags::from_bits(flags.into());
        let syn = flags.contains(Flags::SYN);
        let mut options =
            TcpOptions { window_scale: syn.then_some(self.scales[way]), ..TcpOptions::default() };
        said.sacked.iter().take(4).for_each(|&(left, right)| options.sack.push(left, right));
        let shift = if syn { 0 } else { self.scales[way] };
        let fields = Fields {
            seq: SeqNum::new(seq),
            ack: SeqNum::new(if flags.contains(Flags::ACK) { said.ack } else { 0 }),
            flags,
            window: u16::try_from(said.window >> shift).unwrap_or(u16::MAX),
            urgent: 0,
            ecn: ackclock_wire::Codepoint::NotEct,
            options,
        };
        let payload = (len as usize).min(ZEROS.len());
        let mut header = [0; HEADER_MAX];
        let header_len =
            self.templates[way].write(&mut header, &fields, [&ZEROS[..payload], &[]], TxChecksum::Partial);
        let direction = if way == 0 { Direction::Sent } else { Direction::Received };
        Packet { at, direction, header: header[..header_len].to_vec(), payload, comment }
    }
}

/// The acknowledgement in a received segment, from the entries right after it.
#[derive(Default)]
struct Acknowledgement {
    ack: u32,
    window: u32,
    duplicate: bool,
    sacked: Vec<(SeqNum, SeqNum)>,
}

impl Acknowledgement {
    /// Where the entries are silent, the previous values hold.
    fn after(entries: &[(Instant, Entry)], at: Instant, (ack, window): (u32, u32)) -> Self {
        let mut said = Self { ack, window, ..Self::default() };
        for &(_, entry) in entries.iter().take_while(|(then, _)| *then == at) {
            match entry {
                Entry::Acked { duplicate, ack, window } => {
                    (said.ack, said.window, said.duplicate) = (ack, window, duplicate);
                }
                Entry::Sacked { left, right } => said.sacked.push((SeqNum::new(left), SeqNum::new(right))),
                Entry::Received { .. } | Entry::Sent { .. } => break,
                _ => {}
            }
        }
        said
    }
}

/// Payloads are not in a trace.
static ZEROS: [u8; 65_000] = [0; 65_000];
const SNAP_LEN: u32 = 262_144;
const BUFFER: usize = 1 << 18;
