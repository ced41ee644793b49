//! Which ephemeral ports are known to be taken, where many are.
//!
//! To choose a port is to draw one and to look whether it is taken. That is one look as long as few are, and
//! thousands when few are free. So the first draw that hits a taken port starts a [`PortSet`], and what is
//! found to be taken is not drawn again until it is free. A set only remembers: the tables of names, claims
//! and sockets decide. A port in the set is taken; one that is not in it may be.
//!
//! Ports are learnt while few are taken (the square root of the range, at a mean, before the first draw
//! hits), so hardly any name is unknown when the range is full: a choice, and a refusal, then take a look or
//! two. Only ports taken otherwise, by the peer or by name, are learnt one by one, each once.
//!
//! A port's users are found in the same way: a bind that must not meet a connection counts the names on each
//! port once there are [`NAMES_INDEXED`], and keeps that until few are left.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ackclock_control::tally::Tally;

use super::claims::Sharing;
use crate::FourTuple;

/// What a port is for. Each use has its own free ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// A connection from an address to a peer.
    Connection(IpAddr, SocketAddr),
    /// A socket bound to an address, which shares its port in this way.
    Bound(Option<IpAddr>, Sharing),
    /// A UDP socket.
    Datagrams(Option<IpAddr>),
}

/// The ports known to be taken, for each use that has met one.
#[derive(Debug)]
pub(super) struct Taken {
    range: Range,
    peers: BTreeMap<Use, PortSet>,
    sockets: BTreeMap<Use, PortSet>,
    names: Option<Box<Names>>,
}

/// The ports to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    first: u16,
    last: u16,
}

/// How many names there are on each port of each address.
#[derive(Debug, Default)]
struct Names {
    on_port: BTreeMap<(u16, IpAddr), usize>,
    total: usize,
}

/// A set of ports of a range. It finds the n-th port that is not in it by two short walks: over the counts of
/// at most 16 groups, and over the 64 words of one.
#[derive(Debug)]
struct PortSet {
    words: Box<[u64]>,
    /// How many are missing in each group of words.
    missing: Box<[u32]>,
    len: u32,
}

impl Taken {
    pub(super) fn new(range: Range) -> Self {
        Self { range, peers: BTreeMap::new(), sockets: BTreeMap::new(), names: None }
    }

    /// Whether nothing is remembered: then names may come and go unseen.
    pub(super) fn is_empty(&self) -> bool {
        self.peers.is_empty() && self.sockets.is_empty() && self.names.is_none()
    }

    /// Any of the ports not known to be taken, by a random number. `None` if all are taken.
    pub(super) fn pick(&self, wanted: Use, random: u32) -> Option<u16> {
        let set = self.of_use(wanted).get(&wanted);
        let free = set.map_or(self.range.len(), |set| self.range.len().saturating_sub(set.len));
        // At most 2^16 ports out of 2^32 values: the bias of the remainder is below 2^-16.
        let n = random.checked_rem(free)?;
        self.range.port(set.map_or(Some(n), |set| set.nth_missing(n))?)
    }

    /// A port was found to be taken.
    pub(super) fn learn(&mut self, wanted: Use, port: u16) {
        let Some(place) = self.range.place(port) else { return };
        let len = self.range.len();
        self.of_use_mut(wanted).entry(wanted).or_insert_with(|| PortSet::new(len)).insert(place);
    }

    /// A port was taken. Only a use that remembers its ports notes it.
    pub(super) fn note(&mut self, wanted: Use, port: u16) {
        let place = self.range.place(port);
        if let (Some(set), Some(place)) = (self.of_use_mut(wanted).get_mut(&wanted), place) {
            set.insert(place);
        }
    }

    /// A name has come.
    pub(super) fn entered(&mut self, name: &FourTuple) {
        self.note(Use::of(name), name.local_port);
    }

    /// A name has gone.
    pub(super) fn gone(&mut self, name: &FourTuple) {
        let Some(place) = self.range.place(name.local_port) else { return };
        let (wanted, len_min) = (Use::of(name), self.range.len_min());
        if self.peers.get_mut(&wanted).is_some_and(|set| !set.keeps_without(place, len_min)) {
            self.peers.remove(&wanted);
        }
        self.sockets.retain(|_, set| set.keeps_without(place, len_min));
    }

    /// A bound or UDP socket has gone.
    pub(super) fn released(&mut self, port: u16) {
        let Some(place) = self.range.place(port) else { return };
        let len_min = self.range.len_min();
        self.peers.retain(|_, set| set.keeps_without(place, len_min));
        self.sockets.retain(|_, set| set.keeps_without(place, len_min));
    }

    fn of_use(&self, wanted: Use) -> &BTreeMap<Use, PortSet> {
        if matches!(wanted, Use::Connection(..)) { &self.peers } else { &self.sockets }
    }

    fn of_use_mut(&mut self, wanted: Use) -> &mut BTreeMap<Use, PortSet> {
        if matches!(wanted, Use::Connection(..)) { &mut self.peers } else { &mut self.sockets }
    }
}

impl Taken {
    /// Whether the names are counted.
    pub(super) fn counts_names(&self) -> bool {
        self.names.is_some()
    }

    /// Counts the names on each port from now on, beginning with these.
    pub(super) fn count_names(&mut self, names: impl Iterator<Item = FourTuple>) {
        let mut counted = Box::<Names>::default();
        names.for_each(|name| counted.enter(&name));
        self.names = Some(counted);
    }

    /// Whether there is a name on this port of an address that `addr` covers.
    pub(super) fn is_connected(&self, addr: Option<IpAddr>, port: u16) -> bool {
        let Some(names) = &self.names else { return false };
        let any = |least: IpAddr, most: IpAddr| names.on_port.range((port, least)..=(port, most)).next();
        let found = match addr {
            Some(addr) if !addr.is_unspecified() => return names.on_port.contains_key(&(port, addr)),
            Some(IpAddr::V4(_)) => any(V4_FIRST, V4_LAST),
            Some(IpAddr::V6(_)) => any(V6_FIRST, V6_LAST),
            None => any(V4_FIRST, V6_LAST),
        };
        found.is_some()
    }

    /// A connection's name has come.
    pub(super) fn connected(&mut self, name: &FourTuple) {
        if let Some(names) = &mut self.names {
            names.enter(name);
        }
    }

    /// A connection's name has gone.
    pub(super) fn disconnected(&mut self, name: &FourTuple) {
        let Some(names) = &mut self.names else { return };
        names.leave(name);
        if names.total < NAMES_INDEXED / 2 {
            self.names = None;
        }
    }

    /// Forgets the names if they are so few that counting them again costs little.
    pub(super) fn forget_few_names(&mut self) {
        self.names.take_if(|names| names.total < NAMES_INDEXED);
    }
}

impl Names {
    fn enter(&mut self, name: &FourTuple) {
        self.on_port.entry((name.local_port, name.local_addr)).or_default().count();
        self.total.count();
    }

    fn leave(&mut self, name: &FourTuple) {
        let key = (name.local_port, name.local_addr);
        let Some(count) = self.on_port.get_mut(&key) else { return };
        count.shrink(1);
        if *count == 0 {
            self.on_port.remove(&key);
        }
        self.total.shrink(1);
    }
}

impl Use {
    pub(super) fn of(name: &FourTuple) -> Self {
        Self::Connection(name.local_addr, SocketAddr::new(name.remote_addr, name.remote_port))
    }
}

impl Range {
    /// Ports from the first to the last, in either order, without port 0.
    pub(super) fn new((first, last): (u16, u16)) -> Self {
        Self { first: first.min(last).max(1), last: first.max(last).max(1) }
    }

    fn len(self) -> u32 {
        u32::from(self.last.saturating_sub(self.first)).saturating_add(1)
    }

    /// A set that remembers no more than this is not worth its memory: a draw hits one of so few ports once
    /// in four thousand times.
    fn len_min(self) -> u32 {
        self.len() / 4096
    }

    fn place(self, port: u16) -> Option<u32> {
        (self.first..=self.last).contains(&port).then(|| u32::from(port.saturating_sub(self.first)))
    }

    fn port(self, place: u32) -> Option<u16> {
        self.first.checked_add(u16::try_from(place).ok()?)
    }
}

impl PortSet {
    /// An empty set of `len` ports at most.
    fn new(len: u32) -> Self {
        let bits = len as usize;
        let mut words = vec![0_u64; bits.div_ceil(64)];
        if let Some(last) = words.last_mut().filter(|_| !bits.is_multiple_of(64)) {
            // No port has these bits.
            *last = u64::MAX << (bits % 64);
        }
        let missing = words.chunks(GROUP).map(|words| words.iter().map(|word| word.count_zeros()).sum());
        Self { missing: missing.collect(), words: words.into(), len: 0 }
    }

    fn insert(&mut self, place: u32) {
        let (word, bit) = at(place);
        if let (Some(bits), Some(missing)) = (self.words.get_mut(word), self.missing.get_mut(word / GROUP))
            && *bits & bit == 0
        {
            *bits |= bit;
            missing.shrink(1);
            self.len.count();
        }
    }

    /// Removes a place. Returns whether it was there.
    fn remove(&mut self, place: u32) -> bool {
        let (word, bit) = at(place);
        if let (Some(bits), Some(missing)) = (self.words.get_mut(word), self.missing.get_mut(word / GROUP))
            && *bits & bit != 0
        {
            *bits &= !bit;
            missing.count();
            self.len.shrink(1);
            return true;
        }
        false
    }

    /// Removes a place. Returns whether the set is still worth keeping.
    fn keeps_without(&mut self, place: u32, len_min: u32) -> bool {
        !self.remove(place) || self.len > len_min
    }

    /// The `n`-th of the places that are not in the set, from 0.
    fn nth_missing(&self, mut n: u32) -> Option<u32> {
        let group = self.missing.iter().position(|&missing| falls_into(&mut n, missing))?;
        let start = group.saturating_mul(GROUP);
        let mut words = self.words.get(start..)?.iter();
        let word = start.saturating_add(words.position(|word| falls_into(&mut n, word.count_zeros()))?);
        let missing = !*self.words.get(word)?;
        // Clears the lowest bit n times.
        let rest = (0..n).fold(missing, |bits, _| bits & bits.wrapping_sub(1));
        u32::try_from(word).ok()?.checked_mul(64)?.checked_add(rest.trailing_zeros())
    }
}

/// Whether the n-th is among these `count`. If not, `n` goes on counting behind them.
fn falls_into(n: &mut u32, count: u32) -> bool {
    match n.checked_sub(count) {
        Some(behind) => {
            *n = behind;
            false
        }
        None => true,
    }
}

/// The word and the bit of a place.
fn at(place: u32) -> (usize, u64) {
    (place as usize / 64, 1_u64.wrapping_shl(place))
}

/// Words of a set that are counted together.
const GROUP: usize = 64;
/// With fewer names than this, a bind counts them again.
const NAMES_INDEXED: usize = 256;
const V4_FIRST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const V4_LAST: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);
const V6_FIRST: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
const V6_LAST: IpAddr = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_port_set_agrees_with_an_ordered_set(
            len in prop_oneof![1_u32..300, 4_000_u32..9_000, Just(65_535)],
            steps in proptest::collection::vec((any::<bool>(), any::<u32>(), any::<u32>()), 0..200),
        ) {
            let (mut set, mut model) = (PortSet::new(len), BTreeSet::new());
            for (inserts, place, n) in steps {
                let place = place % len;
                if inserts {
                    set.insert(place);
                    model.insert(place);
                } else {
                    prop_assert_eq!(set.remove(place), model.remove(&place));
                    prop_assert_eq!(set.len, model.len() as u32);
                }
                let missing = len - model.len() as u32;
                let mut expected = (0..len).filter(|place| !model.contains(place));
                let n = n % (missing + 1);
                prop_assert_eq!(set.nth_missing(n), expected.nth(n as usize), "{} of {}", n, missing);
            }
        }
    }

    #[test]
    fn a_port_is_picked_until_it_is_learnt_and_again_when_its_user_has_gone() {
        let mut taken = Taken::new(Range::new((2, 0)));
        let name = FourTuple::new("10.0.0.1:2".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        let to_peer = Use::of(&name);
        taken.entered(&name);
        assert!(taken.is_empty(), "nothing is remembered before a draw has hit");
        assert_eq!([0, 1, 2].map(|random| taken.pick(to_peer, random)), [Some(1), Some(2), Some(1)]);
        taken.learn(to_peer, 2);
        assert_eq!([0, 1].map(|random| taken.pick(to_peer, random)), [Some(1); 2]);
        taken.learn(to_peer, 1);
        assert_eq!(taken.pick(to_peer, 7), None);
        assert_eq!(taken.pick(Use::Datagrams(None), 7), Some(2), "for another use");
        taken.gone(&name);
        assert_eq!(taken.pick(to_peer, 7), Some(2));
        taken.released(1);
        assert!(taken.is_empty());
    }
}
