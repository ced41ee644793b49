//! `--set`: settings of an experiment's scenarios, changed by their keys.

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ackclock_sim::{Scenario, Simulation};
use anyhow::Context;
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde_json::{Map, Value};

use crate::Table;

/// Changes of every scenario that an experiment runs.
///
/// Each is a key and a value as in a scenario's file, the key's parts joined by dots. A part of a list is
/// named by its `name` (a link without one by the nodes that it joins: `a1-left`), by its place from 0 on,
/// or `*` for all: `link.bottleneck.there.delay=30ms`, `host.*.tcp.acks=every-second:0s`, `seed=7`.
/// `profile.OLD=NEW` and `congestion.OLD=NEW` put another profile or controller in the place of one wherever
/// it is chosen: `profile.reno-1990=net2-reno-1991`. `open.NAME` is a number that an experiment itself
/// chooses because its paper leaves it open: `open.every-ms=140`; [`unknowns`](crate::unknowns) has them.
///
/// ```
/// use ackclock_papers::Changes;
///
/// let changes: Changes = ["link.bottleneck.there.delay=30ms"].into_iter().map(str::parse).collect::<Result<_, _>>()?;
/// assert_eq!(changes.to_string(), "link.bottleneck.there.delay=30ms");
/// assert!("no value".parse::<ackclock_papers::Change>().is_err());
/// # Ok::<(), ackclock_papers::NotAChange>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Changes {
    asked: Arc<Vec<Asked>>,
    values_only: bool,
}

/// A change, and what became of it.
#[derive(Debug)]
struct Asked {
    change: Change,
    /// It changed something.
    made: AtomicBool,
    /// The names that exist, for an error about one that does not.
    names: OnceLock<String>,
}

/// One of [`Changes`].
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    key: String,
    value: String,
}

/// The words are not a key and a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a change: write KEY=VALUE, as link.bottleneck.there.delay=30ms")]
pub struct NotAChange(String);

impl Change {
    /// A key with a value.
    #[must_use]
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into() }
    }

    /// The key that it changes.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// To what.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Makes the change. If there is nothing to change, says what there is instead, as far as it knows.
    fn make(&self, scenario: &mut Value) -> Result<(), String> {
        if let Some((kind @ ("profile" | "congestion"), old)) = self.key.split_once('.') {
            let found = replace(scenario, kind, old, &self.value);
            return if found { Ok(()) } else { Err(format!("the {kind} `{old}` is not chosen anywhere")) };
        }
        let value = serde_json::from_str(&self.value).unwrap_or_else(|_| Value::String(self.value.clone()));
        let parts: Vec<&str> = self.key.split('.').collect();
        set(scenario, &parts, &value)
    }
}

impl FromStr for Change {
    type Err = NotAChange;

    fn from_str(words: &str) -> Result<Self, NotAChange> {
        match words.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok(Self::new(key, value)),
            _ => Err(NotAChange(words.to_owned())),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

impl FromIterator<Change> for Changes {
    fn from_iter<I: IntoIterator<Item = Change>>(changes: I) -> Self {
        let asked = |change| Asked { change, made: AtomicBool::new(false), names: OnceLock::new() };
        Self { asked: Arc::new(changes.into_iter().map(asked).collect()), values_only: false }
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.asked.iter().map(|asked| asked.change.to_string()).collect();
        f.write_str(&words.join(", "))
    }
}

thread_local! {
    /// The changes of the run that this thread works for.
    static IN_FORCE: RefCell<Changes> = RefCell::default();
}

impl Changes {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Marks these changes as those of runs that only give values.
    pub(crate) fn values_only(self) -> Self {
        Self { values_only: true, ..self }
    }

    /// Those of the run that the calling thread works for.
    pub(crate) fn in_force() -> Self {
        IN_FORCE.with_borrow(Self::clone)
    }

    /// The calling thread works for a run with these from now on.
    pub(crate) fn enforce(&self) {
        IN_FORCE.set(self.clone());
    }

    /// Threads that work for a run with these, as many as rayon's own.
    pub(crate) fn pool(&self) -> anyhow::Result<ThreadPool> {
        let changes = self.clone();
        Ok(ThreadPoolBuilder::new().start_handler(move |_| changes.enforce()).build()?)
    }

    /// The scenario with them.
    fn applied(&self, scenario: &Scenario) -> anyhow::Result<Scenario> {
        let mut value = serde_json::to_value(scenario)?;
        for Asked { change, made, names } in self.asked.iter().filter(|asked| asked.open().is_none()) {
            match change.make(&mut value) {
                Ok(()) => made.store(true, Ordering::Relaxed),
                Err(there) => _ = names.set(there),
            }
        }
        serde_json::from_value(value).with_context(|| format!("the scenario with {self}"))
    }

    /// Those that found nothing to change in any scenario, and what is there instead.
    pub(crate) fn idle(&self) -> Vec<String> {
        let idle = self.asked.iter().filter(|asked| !asked.made.load(Ordering::Relaxed));
        let words = |asked: &Asked| {
            let unread =
                if asked.open().is_some() { "no experiment asks for it" } else { "no scenario was run" };
            let there = asked.names.get().map_or(unread, String::as_str);
            format!("{}: {there}", asked.change)
        };
        idle.map(words).collect()
    }
}

impl Asked {
    /// The name of the number that it sets, if it is one that an experiment asks for.
    fn open(&self) -> Option<&str> {
        self.change.key.strip_prefix("open.")
    }
}

/// A number that an experiment chooses because its paper leaves it open: `default`, or that of the change in
/// force with the key `open.NAME`.
pub(crate) fn open(name: &str, default: u64) -> anyhow::Result<u64> {
    let changes = Changes::in_force();
    let Some(asked) = changes.asked.iter().find(|asked| asked.open() == Some(name)) else {
        return Ok(default);
    };
    asked.made.store(true, Ordering::Relaxed);
    asked.change.value.parse().with_context(|| format!("{} is not a number", asked.change))
}

/// The tables beside an experiment's values; none if only the values are wanted.
pub(crate) fn tables(make: impl FnOnce() -> anyhow::Result<Vec<Table>>) -> anyhow::Result<Vec<Table>> {
    if Changes::in_force().values_only { Ok(Vec::new()) } else { make() }
}

/// The scenario with the changes in force.
pub(crate) fn changed(scenario: &Scenario) -> anyhow::Result<Scenario> {
    let changes = Changes::in_force();
    if changes.is_empty() { Ok(scenario.clone()) } else { changes.applied(scenario) }
}

/// A simulation of the scenario with the changes in force.
pub(crate) fn simulation(scenario: &Scenario) -> anyhow::Result<Simulation> {
    Ok(Simulation::new(&changed(scenario)?)?)
}

/// Sets what `parts` lead to. A table that is not there is made; an element of a list must be there.
fn set(node: &mut Value, parts: &[&str], value: &Value) -> Result<(), String> {
    let Some((part, rest)) = parts.split_first() else {
        *node = value.clone();
        return Ok(());
    };
    match node {
        Value::Array(elements) => {
            let named = |(place, element): &(usize, &mut Value)| {
                *part == "*" || part.parse() == Ok(*place) || name(element).is_some_and(|name| name == *part)
            };
            let there: Vec<String> = elements.iter().filter_map(name).collect();
            let chosen = elements.iter_mut().enumerate().filter(named);
            let set = chosen.map(|(_, one)| set(one, rest, value));
            set.reduce(Result::or).unwrap_or_else(|| Err(format!("`{part}` is none of {}", there.join(", "))))
        }
        Value::Object(table) => set(table.entry(*part).or_insert_with(|| Map::new().into()), rest, value),
        _ => Err(format!("`{part}` is below a single value")),
    }
}

/// The name of a list's element.
fn name(element: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let nodes = || {
        let nodes: Option<Vec<String>> = element.get("between")?.as_array()?.iter().map(text).collect();
        nodes.map(|nodes| nodes.join("-"))
    };
    element.get("name").and_then(text).or_else(nodes)
}

/// Puts `new` wherever a `kind` is `old`. Whether there was one.
fn replace(node: &mut Value, kind: &str, old: &str, new: &str) -> bool {
    let found = match node {
        Value::Array(elements) => {
            elements.iter_mut().filter_map(|one| replace(one, kind, old, new).then_some(())).count()
        }
        Value::Object(table) => table
            .iter_mut()
            .filter_map(|(key, value)| {
                let is_it = key == kind && value.as_str() == Some(old);
                if is_it {
                    *value = new.into();
                }
                (is_it || replace(value, kind, old, new)).then_some(())
            })
            .count(),
        _ => 0,
    };
    found > 0
}

#[cfg(test)]
mod tests {
    use ackclock_sim::TrafficConfig;
    use ackclock_sim::units::{Bytes, Span};

    use super::{Change, Changes, NotAChange};
    use crate::net::fig6;

    fn with(words: &[&str]) -> Changes {
        words.iter().map(|word| word.parse::<Change>().unwrap()).collect()
    }

    fn scenario() -> ackclock_sim::Scenario {
        let transfer = TrafficConfig::bulk("transfer", "a1", "b1", Some(Bytes(100_000)));
        let tcp = ackclock_sim::TcpSettings::profile("reno-1990");
        fig6(200_000, 10).scenario(Span::seconds(10)).tcp(tcp.clone()).traffic(transfer.tcp(tcp))
    }

    #[test]
    fn keys_name_settings_elements_and_all_of_a_list() {
        let changes = with(&[
            "seed=7",
            "link.bottleneck.there.delay=30ms",
            "link.*.there.mtu=1000B",
            "host.a1.tcp.acks=every-second:0s",
            "traffic.transfer.start=2s",
            "tcp.nodelay=true",
        ]);
        let changed = changes.applied(&scenario()).unwrap();
        assert!(changes.idle().is_empty(), "{:?}", changes.idle());
        assert_eq!((changed.seed, changed.tcp.nodelay), (7, Some(true)));
        let bottleneck = changed.links.iter().find(|link| link.label() == "bottleneck").unwrap();
        assert_eq!(bottleneck.there.delay, Span::millis(30));
        assert!(changed.links.iter().all(|link| link.there.mtu == Bytes(1000)));
        let host = changed.hosts.iter().find(|host| host.name == "a1").unwrap();
        assert_eq!(host.tcp.choices.get("acks"), Some("every-second:0s"));
        assert_eq!(changed.traffic[0].start, Span::seconds(2));
    }

    #[test]
    fn a_profile_is_replaced_wherever_it_is_chosen() {
        let changed = with(&["profile.reno-1990=tahoe-1988"]).applied(&scenario()).unwrap();
        let profiles = [&changed.tcp.profile, &changed.traffic[0].tcp.profile];
        assert!(profiles.into_iter().all(|profile| profile.as_deref() == Some("tahoe-1988")), "{profiles:?}");
    }

    #[test]
    fn what_changes_nothing_and_what_cannot_be_is_said() {
        let changes = with(&["link.west.there.delay=30ms", "profile.vegas-1995=modern"]);
        assert_eq!(changes.applied(&scenario()).unwrap(), scenario());
        let [link, profile] = &changes.idle()[..] else { panic!("{:?}", changes.idle()) };
        assert!(
            link.starts_with("link.west.there.delay=30ms: `west` is none of ") && link.contains("bottleneck")
        );
        assert_eq!(profile, "profile.vegas-1995=modern: the profile `vegas-1995` is not chosen anywhere");
        let wrong = |words: &str| format!("{:#}", with(&[words]).applied(&scenario()).unwrap_err());
        assert!(wrong("link.bottleneck.there.dealy=30ms").contains("`dealy`"));
        assert!(wrong("link.bottleneck.there.delay=fast").contains("fast"));
        assert_eq!("seed".parse::<Change>(), Err(NotAChange("seed".to_owned())));
    }

    #[test]
    fn a_number_left_open_is_the_experiments_or_that_of_its_change() {
        let changes = with(&["open.every-ms=140", "open.rate=fast", "open.other=1"]);
        changes.enforce();
        let asked = |name| super::open(name, 7).map_err(|error| error.to_string());
        let [every, rate, delay] = ["every-ms", "rate", "delay"].map(asked);
        Changes::default().enforce();
        assert_eq!(
            (every, rate.unwrap_err().as_str(), delay),
            (Ok(140), "open.rate=fast is not a number", Ok(7))
        );
        assert_eq!(changes.applied(&scenario()).unwrap(), scenario());
        assert_eq!(changes.idle(), ["open.other=1: no experiment asks for it"]);
    }

    #[test]
    fn a_scenario_without_changes_is_the_same() {
        assert_eq!(Changes::default().applied(&scenario()).unwrap(), scenario());
    }
}
