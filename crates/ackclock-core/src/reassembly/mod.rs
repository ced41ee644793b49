//! Reassembly of fragmented packets, sans-IO (RFC 791 §3.2, RFC 815, RFC 8200 §4.5). Off by default.
//!
//! Four bounds limit memory that strangers fill: total bytes, total packets, packets of one source (a quarter
//! of all), and fragments of one packet. At a bound the oldest packet is discarded; where bytes are short, a
//! source that has a quarter of them pays with its own. An unfinished packet is
//! given up after [`ReassemblyConfig::timeout`].
//!
//! Overlapping fragments have no honest reason, and smuggle packets past filters. The whole packet is
//! discarded, and so is what still arrives of it until its time is over. IPv6 requires that (RFC 5722 §4,
//! RFC 8200 §4.5).
//! Deviation from RFC 791 §3.2, by which the data that arrived later stands: IPv4 is treated alike, as Linux
//! does since CVE-2018-5391. A fragment that arrives twice, byte for byte, is a duplicate and not an overlap.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ackclock_control::tally::Tally;
use ackclock_wire::fragment::Fragment;
use ackclock_wire::{Codepoint, IpError};

use crate::Instant;
use crate::budget::{Budget, Lease};
use ackclock_form::byte_string;

/// Bounds of reassembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblyConfig {
    /// The most bytes of all waiting fragments, including [`FRAGMENT_OVERHEAD`](Self::FRAGMENT_OVERHEAD) for
    /// each (default 1 MiB). Where they are short, a source that has a quarter pays with its own packets.
    pub bytes_max: usize,
    /// The most packets under reassembly (default 256), a quarter of them from one source.
    pub packets_max: usize,
    /// The most fragments of one packet (default 64, which carries 64 KB over any IPv6 link).
    pub fragments_max: usize,
    /// How long fragments wait for the others (default 60 s: RFC 8200 §4.5; RFC 1122 §3.3.2 says 60 to
    /// 120 s).
    pub timeout: Duration,
}

impl ReassemblyConfig {
    /// Bytes that count for each fragment besides its payload.
    pub const FRAGMENT_OVERHEAD: usize = 128;
}

impl Default for ReassemblyConfig {
    fn default() -> Self {
        Self { bytes_max: 1 << 20, packets_max: 256, fragments_max: 64, timeout: Duration::from_secs(60) }
    }
}

/// The fate of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FragmentFate {
    /// It waits for others.
    Waits,
    /// It was the last one; this is the whole packet.
    Whole(Vec<u8>),
    /// It is malformed.
    Malformed(IpError),
    /// It belongs to a packet whose fragments overlap or contradict one another.
    Overlap,
    /// There is no room for it.
    Full,
}

/// The packets under reassembly.
#[derive(Debug)]
pub(crate) struct Reassembler {
    config: ReassemblyConfig,
    packets: BTreeMap<Name, Partial>,
    /// The names by age.
    by_age: BTreeMap<(Instant, u64), Name>,
    begun: u64,
    bytes: usize,
    /// Packets discarded in favour of others.
    evicted: u64,
}

/// The fields that the fragments of one packet share. The source comes first, so that its packets are
/// adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    src: IpAddr,
    dst: IpAddr,
    identification: u32,
    /// IPv6 fragments are distinguished without it.
    protocol: u8,
}

#[derive(Debug)]
struct Partial {
    age: (Instant, u64),
    /// Fragments as whole packets, by the offsets of their payloads.
    pieces: BTreeMap<usize, Piece>,
    /// Payload bytes received.
    received: usize,
    /// The end of the payload, once known.
    total: Option<usize>,
    /// Fragments contradict one another: whatever arrives is discarded.
    refused: bool,
}

#[derive(Debug)]
struct Piece {
    packet: Vec<u8>,
    end: usize,
    _lease: Lease,
}

impl Reassembler {
    pub fn new(config: ReassemblyConfig) -> Self {
        Self { config, packets: BTreeMap::new(), by_age: BTreeMap::new(), begun: 0, bytes: 0, evicted: 0 }
    }

    /// Whether the tables agree, and the bytes are counted.
    fn is_sound(&self) -> bool {
        let bytes: usize = self.packets.values().map(Partial::bytes).sum();
        let ages = self.packets.iter().all(|(name, partial)| {
            self.by_age.get(&partial.age) == Some(name) && partial.received <= usize::from(u16::MAX)
        });
        bytes == self.bytes && ages && self.by_age.len() == self.packets.len()
    }

    /// A fragment arrived.
    pub fn push(&mut self, now: Instant, budget: &Budget, packet: &[u8]) -> FragmentFate {
        let fragment = match Fragment::parse(packet) {
            Ok(fragment) => fragment,
            Err(error) => return FragmentFate::Malformed(error),
        };
        let name = Name::of(&fragment);
        if !self.packets.contains_key(&name) {
            self.begin(now, name);
        }
        let Some(partial) = self.packets.get_mut(&name) else { return FragmentFate::Full };
        if partial.refused {
            return FragmentFate::Overlap;
        }
        match partial.place(&fragment) {
            FragmentFit::Free => {}
            FragmentFit::Duplicate => return FragmentFate::Waits,
            FragmentFit::Taken => {
                self.refuse(name);
                return FragmentFate::Overlap;
            }
        }
        if partial.pieces.len() >= self.config.fragments_max || !self.make_room(name, cost(packet.len())) {
            self.refuse(name);
            return FragmentFate::Full;
        }
        let Some(lease) = budget.try_lease(cost(packet.len())) else { return FragmentFate::Full };
        let Some(partial) = self.packets.get_mut(&name) else { return FragmentFate::Full };
        self.bytes.grow(cost(packet.len()));
        partial.received.grow(fragment.payload.len());
        partial.total = partial.total.or((!fragment.more).then(|| fragment.end()));
        let piece = Piece { packet: packet.to_vec(), end: fragment.end(), _lease: lease };
        partial.pieces.insert(fragment.offset, piece);
        if partial.total != Some(partial.received) {
            return FragmentFate::Waits;
        }
        let whole = partial.assemble();
        self.forget(name);
        whole.map_or(FragmentFate::Overlap, FragmentFate::Whole)
    }

    /// When to call [`expire`](Self::expire) next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.by_age.first_key_value().map(|((begun, _), _)| *begun + self.config.timeout)
    }

    /// Gives up a packet whose time is over. Returns `Some` with its first fragment, if that has arrived.
    pub fn expire(&mut self, now: Instant) -> Option<Option<Vec<u8>>> {
        let (_, &name) = self.by_age.first_key_value()?;
        if self.poll_timeout()? > now {
            return None;
        }
        let mut partial = self.forget(name)?;
        Some(partial.pieces.remove(&0).map(|piece| piece.packet))
    }

    /// How many packets were discarded in favour of others since the last call.
    pub fn take_evicted(&mut self) -> u64 {
        std::mem::take(&mut self.evicted)
    }

    /// The packets of one source.
    fn packets_of(&self, src: IpAddr) -> impl Iterator<Item = &Partial> {
        let from = self.packets.range(Name::first_of(src)..);
        from.take_while(move |(of, _)| of.src == src).map(|(_, partial)| partial)
    }

    fn bytes_of(&self, src: IpAddr) -> usize {
        self.packets_of(src).map(Partial::bytes).fold(0, usize::saturating_add)
    }

    fn begin(&mut self, now: Instant, name: Name) {
        if self.packets_of(name.src).count() >= (self.config.packets_max / 4).max(1) {
            let own = self.by_age.values().find(|of| of.src == name.src).copied();
            self.evict(own);
        } else if self.packets.len() >= self.config.packets_max.max(1) {
            self.evict_oldest();
        }
        self.begun.count();
        let age = (now, self.begun);
        self.by_age.insert(age, name);
        let (pieces, received, total) = (BTreeMap::new(), 0, None);
        self.packets.insert(name, Partial { age, pieces, received, total, refused: false });
    }

    /// Makes room for `bytes` of the packet with this name, at the expense of others: of its source's, if
    /// that has a quarter of all bytes.
    fn make_room(&mut self, name: Name, bytes: usize) -> bool {
        while self.bytes.saturating_add(bytes) > self.config.bytes_max {
            let mut others = self.by_age.values().filter(|of| **of != name);
            let own = others.clone().find(|of| of.src == name.src);
            let is_large = self.bytes_of(name.src).saturating_add(bytes) > self.config.bytes_max / 4;
            let other = own.filter(|_| is_large).or_else(|| others.next()).copied();
            if other.is_none() {
                return false;
            }
            self.evict(other);
        }
        true
    }

    fn evict_oldest(&mut self) {
        let oldest = self.by_age.values().next().copied();
        self.evict(oldest);
    }

    fn evict(&mut self, name: Option<Name>) {
        if name.and_then(|name| self.forget(name)).is_some() {
            self.evicted.count();
        }
    }

    fn forget(&mut self, name: Name) -> Option<Partial> {
        let partial = self.packets.remove(&name)?;
        self.by_age.remove(&partial.age);
        self.bytes.shrink(partial.bytes());
        Some(partial)
    }

    /// Discards what has arrived of a packet, and what will.
    fn refuse(&mut self, name: Name) {
        if let Some(partial) = self.packets.get_mut(&name) {
            self.bytes.shrink(partial.bytes());
            partial.pieces.clear();
            partial.refused = true;
        }
    }
}

/// Whether there is a place for a fragment.
enum FragmentFit {
    Free,
    Duplicate,
    Taken,
}

impl Partial {
    fn place(&self, fragment: &Fragment<'_>) -> FragmentFit {
        let (start, end) = (fragment.offset, fragment.end());
        if let Some(piece) = self.pieces.get(&start)
            && piece.end == end
            && Fragment::parse(&piece.packet)
                .is_ok_and(|other| other.payload == fragment.payload && other.more == fragment.more)
        {
            return FragmentFit::Duplicate;
        }
        let before = self.pieces.range(..=start).next_back().is_some_and(|(_, piece)| piece.end > start);
        let after = self.pieces.range(start..).next().is_some_and(|(at, _)| *at < end);
        let furthest = self.pieces.values().next_back().map_or(0, |piece| piece.end);
        // The end may be stated once, and nothing may lie behind it.
        let beyond = match self.total {
            Some(total) => end > total || !fragment.more,
            None => !fragment.more && furthest > end,
        };
        if before || after || beyond { FragmentFit::Taken } else { FragmentFit::Free }
    }

    fn assemble(&self) -> Option<Vec<u8>> {
        let first = Fragment::parse(&self.pieces.get(&0)?.packet).ok()?;
        let mut payload = Vec::with_capacity(self.received);
        let (mut congested, mut incapable) = (false, false);
        for piece in self.pieces.values() {
            let fragment = Fragment::parse(&piece.packet).ok()?;
            congested |= fragment.ecn == Codepoint::Ce;
            incapable |= fragment.ecn == Codepoint::NotEct;
            payload.extend_from_slice(fragment.payload);
        }
        // RFC 3168 §5.3: a mark on one fragment marks the whole, unless another one was not ECN-capable.
        if congested && incapable {
            return None;
        }
        first.assemble(&payload, if congested { Codepoint::Ce } else { first.ecn })
    }

    fn bytes(&self) -> usize {
        self.pieces.values().map(|piece| cost(piece.packet.len())).sum()
    }
}

impl Name {
    fn of(fragment: &Fragment<'_>) -> Self {
        let Fragment { src, dst, identification, protocol, .. } = *fragment;
        // RFC 791 §3.2: source, destination, protocol, identification. RFC 8200 §4.5: without the protocol.
        Self { src, dst, identification, protocol: if src.is_ipv4() { protocol } else { 0 } }
    }

    fn first_of(src: IpAddr) -> Self {
        let dst = match src {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Self { src, dst, identification: 0, protocol: 0 }
    }
}

fn cost(packet_len: usize) -> usize {
    packet_len.saturating_add(ReassemblyConfig::FRAGMENT_OVERHEAD)
}

ackclock_form::form! {
    struct ReassemblyConfig { bytes_max, packets_max, fragments_max, timeout }
    struct Reassembler { config, packets, by_age, begun, bytes, evicted } => |reassembler| reassembler.is_sound();
    struct Name { src, dst, identification, protocol }
    struct Partial { age, pieces, received, total, refused }
    struct Piece { packet as byte_string, end, _lease }
}

#[cfg(test)]
mod tests;
