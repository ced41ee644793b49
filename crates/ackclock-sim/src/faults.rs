//! Faults of whole hosts: networks that are cut, packets that are held back, hosts that crash.
//!
//! A cut or a hold lies between two groups of hosts. Where several lie over a pair of hosts, the last one
//! decides, so part of a cut can be healed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::link_trace::Governed;
use crate::packet::PacketId;
use crate::scenario::{Change, LinkConfig, Problem, Scenario, Way, check_change, unknown};

/// The names by which changes find hosts and links. A pattern is a name in which `*` stands for any text, or
/// several such with commas between them.
#[derive(Debug)]
pub(crate) struct Names {
    /// Hosts and routers, with their numbers.
    nodes: BTreeMap<String, u32>,
    /// Nodes from this number on are routers.
    host_count: u32,
    links: Vec<String>,
    /// The properties that traces set, by direction; only those of links that follow any.
    followed: BTreeMap<usize, (String, Governed)>,
}

/// A change, with numbers in the place of names.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// A change of a link and its directions.
    Links(Vec<usize>, Box<Change>),
    Cut(Pair, bool),
    Hold(Pair, bool),
    Crash(Group),
    Restart(Group),
}

/// Nodes, in order.
pub(crate) type Group = Arc<[u32]>;

/// Two groups of hosts.
#[derive(Clone, Debug)]
pub(crate) struct Pair(pub Group, pub Group);

/// The faults of the moment.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    cuts: Layer,
    holds: Layer,
    down: Vec<u32>,
    /// The packets held back, in the order of their arrival.
    held: Vec<PacketId>,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passes,
    Cut,
    Held,
    /// Its destination is down.
    Unheard,
}

/// Rules for pairs of hosts; the last that covers a pair decides.
#[derive(Debug, Default)]
struct Layer(Vec<(Pair, bool)>);

impl Names {
    pub fn of(scenario: &Scenario) -> Self {
        let names = scenario.hosts.iter().map(|host| &host.name).chain(&scenario.routers).cloned();
        Self {
            nodes: names.zip(0..).collect(),
            host_count: scenario.hosts.len() as u32,
            links: scenario.links.iter().map(LinkConfig::label).collect(),
            followed: followed(scenario),
        }
    }

    /// How many nodes there are.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The number of a node.
    pub fn number(&self, node: &str) -> Option<u32> {
        self.nodes.get(node).copied()
    }

    /// The names of hosts and routers, by their numbers.
    pub fn nodes(&self) -> Vec<&str> {
        let mut names = vec![""; self.nodes.len()];
        for (name, number) in &self.nodes {
            names[*number as usize] = name;
        }
        names
    }

    /// The names of the hosts, by their numbers.
    pub fn hosts(&self) -> Vec<&str> {
        let mut names = self.nodes();
        names.truncate(self.host_count as usize);
        names
    }

    /// Which nodes forward: the routers, which follow the hosts.
    pub fn forwards(&self) -> Vec<bool> {
        (0..self.nodes.len()).map(|node| node >= self.host_count as usize).collect()
    }

    /// The names of the directions of the links, by their numbers.
    pub fn directions(&self) -> impl Iterator<Item = String> + '_ {
        self.links.iter().flat_map(|name| ["there", "back"].map(|way| format!("{name}:{way}")))
    }

    /// The act of a change that stands at no place in particular, if it can be done.
    pub fn act(&self, change: &Change) -> Result<Act, Problem> {
        let act = self.resolve(change, "change")?;
        check_change(&act, "change")?;
        Ok(act)
    }

    /// The act of `change`. `path` is where it stands.
    pub fn resolve(&self, change: &Change, path: &str) -> Result<Act, Problem> {
        let pair = |[a, b]: &[String; 2], key: &str| {
            let [a, b] =
                [(0, a), (1, b)].map(|(end, name)| self.group(name, &format!("{path}.{key}[{end}]")));
            Ok(Pair(a?, b?))
        };
        let mut acts = Vec::new();
        if !change.link.is_empty() {
            let directions = self.changed(change, path)?;
            self.check_traces(&directions, change, path)?;
            acts.push(Act::Links(directions, Box::new(change.clone())));
        }
        for (key, groups, act) in [
            ("partition", &change.partition, (|pair| Act::Cut(pair, true)) as fn(Pair) -> Act),
            ("heal", &change.heal, |pair| Act::Cut(pair, false)),
            ("hold", &change.hold, |pair| Act::Hold(pair, true)),
            ("release", &change.release, |pair| Act::Hold(pair, false)),
        ] {
            if let Some(groups) = groups {
                acts.push(act(pair(groups, key)?));
            }
        }
        for (key, group, act) in [
            ("crash", &change.crash, Act::Crash as fn(Group) -> Act),
            ("restart", &change.restart, Act::Restart),
        ] {
            if let Some(group) = group {
                acts.push(act(self.group(group, &format!("{path}.{key}"))?));
            }
        }
        let count = acts.len();
        match acts.pop().filter(|_| count == 1) {
            Some(act) => Ok(act),
            None => Err(Problem::new(
                path,
                format!(
                    "found {count} of link, partition, heal, hold, release, crash and restart; allowed is one"
                ),
            )),
        }
    }

    /// The hosts that a pattern names.
    pub fn group(&self, pattern: &str, path: &str) -> Result<Group, Problem> {
        let hosts = self.nodes.iter().filter(|(_, node)| **node < self.host_count);
        find(pattern, hosts.map(|(name, node)| (name.as_str(), *node)), path).map(Into::into)
    }

    /// Whether a change leaves to the traces of links what they set.
    fn check_traces(&self, directions: &[usize], change: &Change, path: &str) -> Result<(), Problem> {
        for (trace, governed) in directions.iter().filter_map(|direction| self.followed.get(direction)) {
            let Governed { rate, delay, loss } = *governed;
            let keys = [
                ("rate", rate && change.rate.is_some()),
                ("delay", delay && change.delay.is_some()),
                ("loss", loss && change.loss.is_some()),
            ];
            if let Some((key, _)) = keys.into_iter().find(|(_, both)| *both) {
                let what =
                    format!("found a change of what the trace `{trace}` sets; change the trace instead");
                return Err(Problem::new(&format!("{path}.{key}"), what));
            }
        }
        Ok(())
    }

    /// The directions of links that a change is about.
    fn changed(&self, change: &Change, path: &str) -> Result<Vec<usize>, Problem> {
        let links = self.links.iter().map(String::as_str).zip(0..);
        let links = find(&change.link, links, &format!("{path}.link"))?;
        let ways: &[usize] = match change.way {
            Way::Both => &[0, 1],
            Way::There => &[0],
            Way::Back => &[1],
        };
        Ok(links.into_iter().flat_map(|link| ways.iter().map(move |way| 2 * link + way)).collect())
    }
}

/// The properties that the traces of a scenario's links set, by direction.
fn followed(scenario: &Scenario) -> BTreeMap<usize, (String, Governed)> {
    let directions = scenario.links.iter().flat_map(|link| [&link.there, link.back()]).enumerate();
    let followed = directions.filter_map(|(number, direction)| {
        let trace = direction.trace.as_ref()?.name().to_owned();
        Some((number, (trace, direction.governed())))
    });
    followed.collect()
}

/// The things whose names `pattern` fits, in order.
fn find<'a, T: Ord>(
    pattern: &str,
    names: impl Iterator<Item = (&'a str, T)> + Clone,
    path: &str,
) -> Result<Vec<T>, Problem> {
    let mut found = Vec::new();
    for part in pattern.split(',').map(str::trim) {
        let before = found.len();
        found.extend(names.clone().filter(|(name, _)| fits(part, name)).map(|(_, number)| number));
        if found.len() == before {
            return Err(Problem::new(path, unknown(part, names.map(|(name, _)| name))));
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Whether `name` is `pattern`, in which each `*` stands for any text.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    true
}

impl Faults {
    /// Whether there are none, as in most runs.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.cuts.0.is_empty() && self.holds.0.is_empty() && self.down.is_empty()
    }

    pub fn cut(&mut self, pair: &Pair, on: bool) {
        self.cuts.set(pair, on);
    }

    pub fn hold(&mut self, pair: &Pair, on: bool) {
        self.holds.set(pair, on);
    }

    /// Returns whether it was otherwise before.
    pub fn set_down(&mut self, node: u32, down: bool) -> bool {
        match self.down.binary_search(&node) {
            Ok(at) if !down => _ = self.down.remove(at),
            Err(at) if down => self.down.insert(at, node),
            _ => return false,
        }
        true
    }

    pub fn is_down(&self, node: u32) -> bool {
        self.down.binary_search(&node).is_ok()
    }

    /// The hosts that are down, by number.
    pub fn down(&self) -> &[u32] {
        &self.down
    }

    /// Whether packets between these two are lost.
    pub fn is_cut(&self, from: u32, to: u32) -> bool {
        self.cuts.covers(from, to)
    }

    /// The pairs of nodes below `until` between which packets are lost, the lower number first.
    pub fn cuts(&self, until: u32) -> Vec<[u32; 2]> {
        if self.cuts.0.is_empty() {
            return Vec::new();
        }
        let pairs = (0..until).flat_map(|a| (a + 1..until).map(move |b| [a, b]));
        pairs.filter(|[a, b]| self.is_cut(*a, *b)).collect()
    }

    /// The fate of a packet that arrives at its destination.
    pub fn verdict(&self, from: u32, to: u32) -> Verdict {
        if self.is_cut(from, to) {
            Verdict::Cut
        } else if self.holds.covers(from, to) {
            Verdict::Held
        } else if self.is_down(to) {
            Verdict::Unheard
        } else {
            Verdict::Passes
        }
    }

    /// Holds a packet back. Returns `false` if there are too many.
    pub fn keep(&mut self, packet: PacketId) -> bool {
        let has_room = self.held.len() < HELD_MAX;
        if has_room {
            self.held.push(packet);
        }
        has_room
    }

    /// The held packets that nothing holds any more. `ends` are a packet's sender and destination.
    pub fn take_released(&mut self, ends: impl Fn(PacketId) -> (u32, u32)) -> Vec<PacketId> {
        let Self { holds, held, .. } = self;
        held.extract_if(.., |packet| {
            let (from, to) = ends(*packet);
            !holds.covers(from, to)
        })
        .collect()
    }
}

impl Layer {
    fn set(&mut self, pair: &Pair, on: bool) {
        // Those that the new rule covers decide nothing any more.
        self.0.retain(|(old, _)| !pair.contains(old));
        if on || !self.0.is_empty() {
            self.0.push((pair.clone(), on));
        }
    }

    #[inline]
    fn covers(&self, from: u32, to: u32) -> bool {
        self.0.iter().rev().find(|(pair, _)| pair.joins(from, to)).is_some_and(|(_, on)| *on)
    }
}

impl Pair {
    /// Whether one of the two is in one group and the other in the other.
    fn joins(&self, from: u32, to: u32) -> bool {
        let [in_a, in_b] =
            [&self.0, &self.1].map(|group| move |node: u32| group.binary_search(&node).is_ok());
        in_a(from) && in_b(to) || in_a(to) && in_b(from)
    }

    /// Whether it joins all that `other` joins.
    fn contains(&self, other: &Self) -> bool {
        let within =
            |small: &Group, large: &Group| small.iter().all(|node| large.binary_search(node).is_ok());
        within(&other.0, &self.0) && within(&other.1, &self.1)
            || within(&other.0, &self.1) && within(&other.1, &self.0)
    }
}

/// The most packets held back; more are lost. Windows bound those of TCP, but nothing bounds datagrams.
const HELD_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_what_they_say() {
        for (pattern, fitting, other) in [
            ("a", &["a"][..], &["", "b", "aa"][..]),
            ("*", &["", "a", "node-1"], &[]),
            ("node-*", &["node-", "node-17"], &["nod", "a-node-1"]),
            ("*-1", &["a-1", "-1"], &["a-11", "1"]),
            ("a*b*c", &["abc", "a-b-b-c", "abcbc"], &["acb", "ab", "abcd"]),
        ] {
            assert!(fitting.iter().all(|name| fits(pattern, name)), "{pattern}");
            assert!(!other.iter().any(|name| fits(pattern, name)), "{pattern}");
        }
    }

    fn pair(a: &[u32], b: &[u32]) -> Pair {
        Pair(a.into(), b.into())
    }

    #[test]
    fn the_last_rule_for_a_pair_of_hosts_decides() {
        let mut faults = Faults::default();
        faults.cut(&pair(&[0, 1], &[2, 3]), true);
        faults.cut(&pair(&[3], &[0]), false);
        let cut: Vec<_> =
            (0..4).flat_map(|a| (0..4).map(move |b| (a, b))).filter(|&(a, b)| faults.is_cut(a, b)).collect();
        assert_eq!(cut, [(0, 2), (1, 2), (1, 3), (2, 0), (2, 1), (3, 1)]);
        assert_eq!(faults.cuts(4), [[0, 2], [1, 2], [1, 3]]);
        assert_eq!(faults.cuts(3), [[0, 2], [1, 2]]);
        faults.cut(&pair(&[2, 3], &[0, 1]), false);
        assert!(faults.is_empty(), "rules that decide nothing are forgotten");
    }

    #[test]
    fn a_packet_for_a_host_that_is_cut_off_held_and_down_is_lost_first() {
        let mut faults = Faults::default();
        let both = pair(&[0], &[1]);
        assert_eq!(faults.verdict(0, 1), Verdict::Passes);
        assert!(faults.set_down(1, true) && !faults.set_down(1, true));
        assert_eq!((faults.verdict(0, 1), faults.verdict(1, 0)), (Verdict::Unheard, Verdict::Passes));
        faults.hold(&both, true);
        assert_eq!((faults.verdict(0, 1), faults.verdict(1, 0)), (Verdict::Held, Verdict::Held));
        faults.cut(&both, true);
        assert_eq!(faults.verdict(0, 1), Verdict::Cut);
    }
}
