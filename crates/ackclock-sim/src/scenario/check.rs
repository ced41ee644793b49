//! Finds what cannot be run, before the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ackclock_control::congestion::Registry;
use ackclock_control::names::nearest;

use super::{
    Aggregation, Change, Direction, LinkConfig, QueueConfig, Scenario, SizeOf, TcpSettings, ThinAcks, TimeOf,
    TrafficKind, follow,
};
use crate::faults::{Act, Names};
use crate::units::{Bytes, Limit, Span};

/// A mistake in a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", KeyPath(path))]
pub struct Problem {
    /// Where: keys and list indices, as in `link[0].there.rate`.
    pub path: Vec<PathStep>,
    /// The value found there, and those that are allowed.
    pub what: String,
}

/// One step of the path to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// The value of a key.
    Key(String),
    /// An element of a list.
    Index(usize),
}

/// A path, for display.
pub(super) struct KeyPath<'a>(pub(super) &'a [PathStep]);

impl fmt::Display for KeyPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, place) in self.0.iter().enumerate() {
            match place {
                PathStep::Key(key) if number == 0 => write!(f, "{key}")?,
                PathStep::Key(key) => write!(f, ".{key}")?,
                PathStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

impl Problem {
    /// `path` in its displayed form.
    pub(crate) fn new(path: &str, what: impl Into<String>) -> Self {
        let mut places = Vec::new();
        for part in path.split('.') {
            let (key, indices) = part.split_once('[').unwrap_or((part, ""));
            places.push(PathStep::Key(key.to_owned()));
            let indices = indices.trim_end_matches(']').split("][");
            places.extend(indices.filter_map(|index| index.parse().ok().map(PathStep::Index)));
        }
        Self { path: places, what: what.into() }
    }

    /// An unknown name in the TCP settings at `path`.
    pub(crate) fn wrong_setting(path: &str, (key, what): (String, String)) -> Self {
        Self::new(&format!("{path}.{key}"), what)
    }
}

impl Scenario {
    /// As [`Scenario::check`], with the controllers of `registry`.
    pub(crate) fn check_with(&self, registry: &Registry) -> Result<(), Problem> {
        Checker::new(self, registry)?.check()
    }

    /// Whether payloads and checksums must be real.
    pub(crate) fn wants_full_packets(&self) -> bool {
        let corrupts = |link: &LinkConfig| link.there.corrupt.is_some() || link.back().corrupt.is_some();
        self.full_packets || self.links.iter().any(corrupts)
    }
}

pub(super) fn check(scenario: &Scenario) -> Result<(), Problem> {
    scenario.check_with(&Registry::with_experiments())
}

/// The names of a scenario.
struct Checker<'a> {
    scenario: &'a Scenario,
    registry: &'a Registry,
    /// Whether each node is a host.
    nodes: BTreeMap<&'a str, bool>,
    names: Names,
    traffic: BTreeMap<&'a str, usize>,
}

impl<'a> Checker<'a> {
    fn new(scenario: &'a Scenario, registry: &'a Registry) -> Result<Self, Problem> {
        let mut nodes = BTreeMap::new();
        for (index, host) in scenario.hosts.iter().enumerate() {
            taken(nodes.insert(host.name.as_str(), true), &format!("host[{index}].name"), &host.name)?;
        }
        for (index, router) in scenario.routers.iter().enumerate() {
            taken(nodes.insert(router.as_str(), false), &format!("routers[{index}]"), router)?;
        }
        let mut links = BTreeSet::new();
        for (index, link) in scenario.links.iter().enumerate() {
            let (label, key) = (link.label(), if link.name.is_some() { "name" } else { "between" });
            let before = links.replace(label.clone());
            taken(before, &format!("link[{index}].{key}"), &label)?;
        }
        let names = Names::of(scenario);
        let mut traffic = BTreeMap::new();
        for (index, flow) in scenario.traffic.iter().enumerate() {
            taken(traffic.insert(flow.name.as_str(), index), &format!("traffic[{index}].name"), &flow.name)?;
        }
        Ok(Self { scenario, registry, nodes, names, traffic })
    }

    fn check(&self) -> Result<(), Problem> {
        let scenario = self.scenario;
        positive(scenario.duration, "duration")?;
        positive(scenario.sample_every.unwrap_or(Span(1)), "sample-every")?;
        if scenario.duration > LONGEST {
            return Err(Problem::new(
                "duration",
                format!("found `{}`; allowed is up to {LONGEST}", scenario.duration),
            ));
        }
        if self.nodes.len() > NODES_MAX {
            let what = format!("found {} nodes; allowed are up to {NODES_MAX}", self.nodes.len());
            return Err(Problem::new("host", what));
        }
        self.check_settings(&scenario.tcp, "tcp")?;
        for (index, link) in scenario.links.iter().enumerate() {
            self.check_link(link, &format!("link[{index}]"))?;
        }
        self.check_hosts()?;
        for (index, traffic) in scenario.traffic.iter().enumerate() {
            let path = format!("traffic[{index}]");
            self.host(&traffic.from, &format!("{path}.from"))?;
            self.host(&traffic.to, &format!("{path}.to"))?;
            if traffic.from == traffic.to {
                let what = format!("found `{}`; allowed is another host than `from`", traffic.to);
                return Err(Problem::new(&format!("{path}.to"), what));
            }
            self.check_settings(&traffic.tcp, &format!("{path}.tcp"))?;
            self.check_settings(&traffic.peer_tcp, &format!("{path}.peer-tcp"))?;
            check_kind(&traffic.what, &format!("{path}.what"))?;
        }
        for (index, change) in scenario.changes.iter().enumerate() {
            check_change(
                &self.names.resolve(change, &format!("change[{index}]"))?,
                &format!("change[{index}]"),
            )?;
        }
        Ok(())
    }

    fn check_hosts(&self) -> Result<(), Problem> {
        let joined: BTreeSet<&str> =
            self.scenario.links.iter().flat_map(|link| &link.between).map(String::as_str).collect();
        for (index, host) in self.scenario.hosts.iter().enumerate() {
            self.check_settings(&host.tcp, &format!("host[{index}].tcp"))?;
            if !joined.contains(host.name.as_str()) {
                let what = format!("found `{}`, which no link joins to another node", host.name);
                return Err(Problem::new(&format!("host[{index}].name"), what));
            }
        }
        Ok(())
    }

    fn check_link(&self, link: &LinkConfig, path: &str) -> Result<(), Problem> {
        for (end, name) in link.between.iter().enumerate() {
            if !self.nodes.contains_key(name.as_str()) {
                let what = unknown(name, self.nodes.keys().copied());
                return Err(Problem::new(&format!("{path}.between[{end}]"), what));
            }
        }
        if link.between[0] == link.between[1] {
            let what = format!("found `{}` twice; allowed are two nodes", link.between[0]);
            return Err(Problem::new(&format!("{path}.between"), what));
        }
        self.check_direction(&link.there, &format!("{path}.there"))?;
        self.check_direction(link.back(), &format!("{path}.back"))
    }

    fn check_direction(&self, direction: &Direction, path: &str) -> Result<(), Problem> {
        let least = if self.scenario.ipv6 { 1280 } else { IPV4_MTU_MIN };
        check_packet(direction.mtu, least, &format!("{path}.mtu"))?;
        check_packet(direction.drop_above, least, &format!("{path}.drop-above"))?;
        follow::check(direction, path)?;
        if direction.rate.is_unlimited() && direction.delay.0 == 0 && direction.trace.is_none() {
            let what = "found `0ns` on a link of unlimited rate; allowed is more, so that time goes on";
            return Err(Problem::new(&format!("{path}.delay"), what));
        }
        check_queue(&direction.queue, &format!("{path}.queue"))?;
        if let Some(aggregation) = &direction.aggregation {
            check_aggregation(aggregation, &format!("{path}.aggregation"))?;
        }
        if direction.thin_acks == Some(ThinAcks::OneIn(0)) {
            return Err(Problem::new(
                &format!("{path}.thin-acks.one-in"),
                "found 0; allowed is at least 1, which leaves none out",
            ));
        }
        for (index, script) in direction.drop.iter().enumerate() {
            let path = format!("{path}.drop[{index}]");
            if let Some(name) = script.of.as_deref().filter(|name| !self.traffic.contains_key(name)) {
                let what = unknown(name, self.traffic.keys().copied());
                return Err(Problem::new(&format!("{path}.of"), what));
            }
            if let Some(place) = script.packets.iter().position(|number| *number == 0) {
                let what = "found 0; allowed are numbers from 1";
                return Err(Problem::new(&format!("{path}.packets[{place}]"), what));
            }
        }
        for (index, blackout) in direction.blackout.iter().enumerate() {
            if blackout.to <= blackout.from {
                let what = format!("found `{}`; allowed is more than `from`, {}", blackout.to, blackout.from);
                return Err(Problem::new(&format!("{path}.blackout[{index}].to"), what));
            }
        }
        Ok(())
    }

    fn check_settings(&self, settings: &TcpSettings, path: &str) -> Result<(), Problem> {
        let config = settings.config(self.registry);
        config.map(|_| ()).map_err(|wrong| Problem::wrong_setting(path, wrong))
    }

    fn host(&self, name: &str, path: &str) -> Result<(), Problem> {
        match self.nodes.get(name) {
            Some(true) => Ok(()),
            Some(false) => Err(Problem::new(path, format!("found `{name}`, a router; allowed are hosts"))),
            None => {
                let hosts = self.nodes.iter().filter(|(_, is_host)| **is_host).map(|(name, _)| *name);
                Err(Problem::new(path, unknown(name, hosts)))
            }
        }
    }
}

/// Whether a change of links has values that links can have.
pub(crate) fn check_change(act: &Act, path: &str) -> Result<(), Problem> {
    let Act::Links(_, change) = act else { return Ok(()) };
    let Change { rate, delay, loss, drop_above, up, cost, .. } = &**change;
    if let Some(bytes) = *drop_above {
        check_packet(bytes, IPV4_MTU_MIN, &format!("{path}.drop-above"))?;
    }
    let wire = rate.is_some() || delay.is_some() || loss.is_some() || drop_above.is_some();
    if !wire && up.is_none() && cost.is_none() {
        let what = "found nothing that changes; allowed are rate, delay, loss, drop-above, up and cost";
        return Err(Problem::new(path, what));
    }
    Ok(())
}

fn check_packet(bytes: Bytes, least: u64, path: &str) -> Result<(), Problem> {
    if (least..=65_535).contains(&bytes.0) {
        return Ok(());
    }
    Err(Problem::new(path, format!("found `{bytes}`; allowed is {least}B to 65535B")))
}

fn check_aggregation(aggregation: &Aggregation, path: &str) -> Result<(), Problem> {
    let Aggregation { access, packets, bytes, .. } = aggregation;
    if *packets == 0 {
        return Err(Problem::new(&format!("{path}.packets"), "found 0; allowed is at least 1"));
    }
    if !(1..=BURST_MAX.0).contains(&bytes.0) {
        let what = format!("found `{bytes}`; allowed is 1B to {BURST_MAX}");
        return Err(Problem::new(&format!("{path}.bytes"), what));
    }
    check_time(access, &format!("{path}.access"))
}

fn check_queue(queue: &QueueConfig, path: &str) -> Result<(), Problem> {
    match queue {
        QueueConfig::Red { min, max, .. } if min >= max => {
            let what = format!("found {max}; allowed is more than `min`, {min}");
            Err(Problem::new(&format!("{path}.red.max"), what))
        }
        QueueConfig::Red { weight_shift, .. } if *weight_shift > 24 => {
            let what = format!("found {weight_shift}; allowed is 0 to 24");
            Err(Problem::new(&format!("{path}.red.weight-shift"), what))
        }
        QueueConfig::Red { limit: Limit::Packets(limit), max, .. } if *limit < u64::from(*max) => {
            let what = format!("found `{limit}packets`; allowed is at least `max`, {max}");
            Err(Problem::new(&format!("{path}.red.limit"), what))
        }
        QueueConfig::FqCodel { queues: 0, .. } => {
            Err(Problem::new(&format!("{path}.fq-codel.queues"), "found 0; allowed is 1 to 65535"))
        }
        QueueConfig::FqCodel { quantum, .. } if quantum.0 == 0 || quantum.0 > u64::from(u32::MAX) => {
            Err(Problem::new(
                &format!("{path}.fq-codel.quantum"),
                format!("found `{quantum}`; allowed is 1B to 4GiB"),
            ))
        }
        QueueConfig::Pie { update, .. } if update.0 < 1_000_000 => {
            let what = format!("found `{update}`; allowed is at least 1ms");
            Err(Problem::new(&format!("{path}.pie.update"), what))
        }
        QueueConfig::DualPi2 { target, rtt_max, coupling, .. } => {
            for (key, time) in [("target", target), ("rtt-max", rtt_max)] {
                if !(Span::millis(1)..=Span::seconds(10)).contains(time) {
                    let what = format!("found `{time}`; allowed is 1ms to 10s");
                    return Err(Problem::new(&format!("{path}.dualpi2.{key}"), what));
                }
            }
            if !(1..=1000).contains(coupling) {
                let what = format!("found {coupling}; allowed is 1 to 1000");
                return Err(Problem::new(&format!("{path}.dualpi2.coupling"), what));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn check_kind(kind: &TrafficKind, path: &str) -> Result<(), Problem> {
    match kind {
        TrafficKind::Bulk { bytes, .. } => match bytes.map(|bytes| bytes.0) {
            Some(0) => Err(Problem::new(&format!("{path}.bulk.bytes"), "found `0B`; allowed is at least 1B")),
            _ => Ok(()),
        },
        TrafficKind::OnOff { rate, write, on, off } => {
            if rate.is_unlimited() {
                let what = "found `unlimited`; allowed is a rate up to 1Tbit/s";
                return Err(Problem::new(&format!("{path}.on-off.rate"), what));
            }
            if write.0 == 0 {
                return Err(Problem::new(
                    &format!("{path}.on-off.write"),
                    "found `0B`; allowed is at least 1B",
                ));
            }
            check_time(on, &format!("{path}.on-off.on"))?;
            check_time(off, &format!("{path}.on-off.off"))
        }
        TrafficKind::RequestResponse { request, response, per_connection, .. } => {
            if *per_connection == Some(0) {
                let path = format!("{path}.request-response.per-connection");
                return Err(Problem::new(&path, "found 0; allowed is at least 1"));
            }
            check_size(request, &format!("{path}.request-response.request"))?;
            check_size(response, &format!("{path}.request-response.response"))
        }
        TrafficKind::Tcplib { every, mix, .. } => {
            positive(*every, &format!("{path}.tcplib.every"))?;
            let shares = [mix.telnet, mix.ftp, mix.nntp, mix.smtp];
            if shares.iter().all(|share| share.parts_per_billion() == 0) {
                let what = "found no share above 0; allowed are telnet, ftp, nntp and smtp";
                return Err(Problem::new(&format!("{path}.tcplib.mix"), what));
            }
            Ok(())
        }
        TrafficKind::Arrivals(arrivals) => {
            let path = format!("{path}.arrivals");
            check_size(&arrivals.size, &format!("{path}.size"))?;
            match arrivals.every {
                TimeOf::Fixed(time) => positive(time, &format!("{path}.every.fixed")),
                TimeOf::Exponential(mean) => positive(mean, &format!("{path}.every.exponential")),
                TimeOf::Pareto { least, .. } => {
                    positive(least, &format!("{path}.every.pareto.least"))?;
                    check_time(&arrivals.every, &format!("{path}.every"))
                }
            }
        }
    }
}

fn check_time(time: &TimeOf, path: &str) -> Result<(), Problem> {
    match time {
        TimeOf::Pareto { shape_thousandths: 0, .. } => Err(no_shape(path)),
        _ => Ok(()),
    }
}

fn check_size(size: &SizeOf, path: &str) -> Result<(), Problem> {
    match size {
        SizeOf::Pareto { shape_thousandths: 0, .. } => Err(no_shape(path)),
        _ => Ok(()),
    }
}

fn no_shape(path: &str) -> Problem {
    Problem::new(&format!("{path}.pareto.shape-thousandths"), "found 0; allowed is at least 1")
}

fn positive(span: Span, path: &str) -> Result<(), Problem> {
    if span.0 > 0 { Ok(()) } else { Err(Problem::new(path, "found `0ns`; allowed is more")) }
}

fn taken<T>(before: Option<T>, path: &str, name: &str) -> Result<(), Problem> {
    match before {
        None => Ok(()),
        Some(_) => {
            Err(Problem::new(path, format!("found `{name}`, which is taken; allowed is a name of its own")))
        }
    }
}

/// An unknown name, with the nearest known one.
pub(crate) fn unknown<'a>(found: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let hint = nearest(found, names.iter().copied())
        .map_or(String::new(), |name| format!("; the nearest is `{name}`"));
    let shown = names.iter().take(NAMES_SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let more = if names.len() > NAMES_SHOWN { ", .." } else { "" };
    format!("found `{found}`; allowed are {shown}{more}{hint}")
}

/// RFC 791 §3.2: every link carries at least this much.
const IPV4_MTU_MIN: u64 = 68;
/// Addresses have 24 bits for a node.
const NODES_MAX: usize = 1 << 20;
/// A century: far below what 64 bits of nanoseconds hold.
const LONGEST: Span = Span(100 * 365 * 24 * 3600 * 1_000_000_000);
/// The most bytes of a burst; far more than any link's.
const BURST_MAX: Bytes = Bytes(16 << 20);
const NAMES_SHOWN: usize = 20;
