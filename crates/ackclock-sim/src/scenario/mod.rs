//! Scenarios: a network, its traffic, its changes and a seed, as plain data.
//!
//! A [`Scenario`] is read from TOML ([`Scenario::from_toml`], [`Scenario::to_toml`]) or built in Rust with
//! the methods below. [`Simulation::new`](crate::Simulation::new) runs it. [`Scenario::check`] finds mistakes
//! that keep it from running.

mod check;
mod follow;
mod link;
mod locate;
mod queue_kind;
mod tcp;
mod traffic;
mod written;

use std::{fmt, io};

use serde::{Deserialize, Deserializer, Serialize};

pub use check::{PathStep, Problem};
pub(crate) use check::{check_change, unknown};
pub use follow::{FollowedTrace, TraceEnd};
pub use link::{
    Aggregation, Blackout, Corruption, Direction, Isolation, Jitter, LinkConfig, Loss, PolicerConfig,
    QueueConfig, Reordering, Scripted, ThinAcks, Variation,
};
pub use locate::ScenarioError;
pub use queue_kind::QueueKind;
pub use tcp::{MtuProbingSetting, TcpSettings, TraceSetting, WrongSetting};
pub use traffic::{Arrivals, SizeOf, TcplibMix, TimeOf, TrafficConfig, TrafficKind};
pub use written::ScenarioWriteError;

use crate::units::{Bytes, Rate, Share, Span};

/// The complete description of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// The seed of all random numbers.
    #[serde(default)]
    pub seed: u64,
    /// How long it runs.
    pub duration: Span,
    /// IPv6 addresses instead of IPv4.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ipv6: bool,
    /// Real payloads and checksums everywhere, at twice the cost. A link that corrupts packets and an added
    /// application turn them on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub full_packets: bool,
    /// The interval between samples of queue lengths and flows; `None` for no samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_every: Option<Span>,
    /// TCP settings of all hosts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tcp: TcpSettings,
    /// Names of the routers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<String>,
    /// The hosts.
    #[serde(default, rename = "host", skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostConfig>,
    /// The links between them.
    #[serde(default, rename = "link", skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkConfig>,
    /// The traffic.
    #[serde(default, rename = "traffic", skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<TrafficConfig>,
    /// Changes during the run.
    #[serde(default, rename = "change", skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// A host: it runs one endpoint and never forwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HostConfig {
    /// Its name.
    pub name: String,
    /// TCP settings of its connections; they override the scenario's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tcp: TcpSettings,
    /// Its timers fire at multiples of this (a tick of 500 ms, for example).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_granularity: Option<Span>,
    /// Its timers fire up to this late, at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_lateness: Option<Span>,
}

/// A change during the run: of links, or of what lies between hosts, or of hosts themselves.
///
/// Exactly one of `link`, `partition`, `heal`, `hold`, `release`, `crash` and `restart` says what it is
/// about. Each takes names or patterns: `*` stands for any text, and commas separate several (`node-*,
/// client`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Change {
    /// The time.
    pub at: Span,
    /// The links that get the values of `rate`, `delay`, `loss`, `drop-above`, `up` and `cost`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub link: String,
    /// The direction; by default both.
    #[serde(default, skip_serializing_if = "is_default")]
    pub way: Way,
    /// The rate from then on. The packet being sent finishes at the old rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The delay from then on. Packets on the wire arrive as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// The independent loss from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Share>,
    /// Larger IP packets are lost silently from then on; `65535B` turns this off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_above: Option<Bytes>,
    /// Whether the link is up. Routes are computed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
    /// The link's routing cost. Routes are computed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u32>,
    /// Packets between the hosts of these two groups are lost from then on, both ways, even those under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<[String; 2]>,
    /// They are no longer lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal: Option<[String; 2]>,
    /// Packets between the hosts of these two groups are held back where they arrive, both ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<[String; 2]>,
    /// Those that were held back arrive now, in their order, and the others as ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<[String; 2]>,
    /// These hosts lose their memory without a word to anyone, and neither send nor receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash: Option<String>,
    /// These hosts, which have crashed, start again, and so does the traffic that had begun on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
}

/// Which direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Both.
    #[default]
    Both,
    /// From the first of its two nodes to the second.
    There,
    /// From the second to the first.
    Back,
}

impl Change {
    /// Reads a change from any format that serde reads, with the words of `[[change]]`.
    ///
    /// ```
    /// use ackclock_sim::Change;
    ///
    /// let change = Change::read(serde_json::json!({ "at": "2s", "link": "dsl", "loss": "2%" }))?;
    /// assert_eq!(change.link, "dsl");
    /// let error = Change::read(serde_json::json!({ "at": 0, "link": "dsl", "los": "2%" })).unwrap_err();
    /// assert!(error.to_string().ends_with("the nearest is `loss`"));
    /// # Ok::<(), ackclock_sim::Problem>(())
    /// ```
    ///
    /// # Errors
    /// A key that is none of a change's, or a value that its key cannot have. Whether names fit anything is
    /// found out where it is made.
    pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, Problem> {
        let read = Self::deserialize(from);
        read.map_err(|error| Problem::new("change", locate::in_our_words(&error.to_string())))
    }
}

impl Scenario {
    /// An empty network.
    #[must_use]
    pub fn new(duration: Span) -> Self {
        Self {
            seed: 0,
            duration,
            ipv6: false,
            full_packets: false,
            sample_every: None,
            tcp: TcpSettings::default(),
            routers: Vec::new(),
            hosts: Vec::new(),
            links: Vec::new(),
            traffic: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// With another seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With these TCP settings for all hosts.
    #[must_use]
    pub fn tcp(mut self, tcp: TcpSettings) -> Self {
        self.tcp = tcp;
        self
    }

    /// Adds a host.
    #[must_use]
    pub fn host(mut self, host: impl Into<HostConfig>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Adds a router.
    #[must_use]
    pub fn router(mut self, name: impl Into<String>) -> Self {
        self.routers.push(name.into());
        self
    }

    /// Adds a link that is the same in both directions.
    #[must_use]
    pub fn link(mut self, a: &str, b: &str, both: Direction) -> Self {
        self.links.push(LinkConfig::new(a, b, both));
        self
    }

    /// Adds a link whose directions differ.
    #[must_use]
    pub fn asymmetric(mut self, a: &str, b: &str, there: Direction, back: Direction) -> Self {
        self.links.push(LinkConfig { back: Some(Box::new(back)), ..LinkConfig::new(a, b, there) });
        self
    }

    /// Adds traffic.
    #[must_use]
    pub fn traffic(mut self, traffic: TrafficConfig) -> Self {
        self.traffic.push(traffic);
        self
    }

    /// Adds a change.
    #[must_use]
    pub fn change(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// Reads a scenario from the text of a TOML file called `file`, and checks it.
    ///
    /// # Errors
    /// The mistake: the file, the line, the key, the value found there and the values that are allowed.
    ///
    /// ```
    /// use ackclock_sim::Scenario;
    ///
    /// let text = r#"
    ///     duration = "10s"
    ///     host = [{ name = "a" }, { name = "b" }]
    ///     [[link]]
    ///     between = ["a", "b"]
    ///     there = { rate = "10Mbit/s", delay = "20 parsecs" }
    /// "#;
    /// let error = Scenario::from_toml("wan.toml", text).unwrap_err().to_string();
    /// assert!(error.starts_with("wan.toml:6: link[0].there.delay: found `20 parsecs`; allowed is a time"), "{error}");
    /// ```
    pub fn from_toml(file: &str, text: &str) -> Result<Self, ScenarioError> {
        locate::read(file, text, |scenario| scenario.check())
    }

    /// Reads a scenario as [`from_toml`](Self::from_toml) does, and the traces that its links follow as
    /// [`load_traces`](Self::load_traces) does.
    ///
    /// # Errors
    /// Those of both, each with its line in the scenario.
    pub fn from_toml_with_traces(
        file: &str,
        text: &str,
        read: impl FnMut(&str) -> io::Result<String>,
    ) -> Result<Self, ScenarioError> {
        locate::read(file, text, |scenario| scenario.load_traces(read))
    }

    /// Finds the first thing that cannot be run: an unknown name or an impossible value.
    ///
    /// # Errors
    /// The mistake, and its place.
    pub fn check(&self) -> Result<(), Problem> {
        check::check(self)
    }
}

impl HostConfig {
    /// A host of this name with the scenario's settings.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), tcp: TcpSettings::default(), timer_granularity: None, timer_lateness: None }
    }
}

impl From<&str> for HostConfig {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for HostConfig {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

impl Change {
    /// An empty change of `link` at `at`.
    #[must_use]
    pub fn new(at: Span, link: &str) -> Self {
        Self { at, link: link.to_owned(), ..Self::default() }
    }

    /// A cut between the hosts of `a` and those of `b`.
    #[must_use]
    pub fn partition(at: Span, a: &str, b: &str) -> Self {
        Self { at, partition: pair(a, b), ..Self::default() }
    }

    /// The end of a cut.
    #[must_use]
    pub fn heal(at: Span, a: &str, b: &str) -> Self {
        Self { at, heal: pair(a, b), ..Self::default() }
    }

    /// Packets between the hosts of `a` and those of `b` are held back.
    #[must_use]
    pub fn hold(at: Span, a: &str, b: &str) -> Self {
        Self { at, hold: pair(a, b), ..Self::default() }
    }

    /// The packets that were held back arrive.
    #[must_use]
    pub fn release(at: Span, a: &str, b: &str) -> Self {
        Self { at, release: pair(a, b), ..Self::default() }
    }

    /// A crash of the hosts.
    #[must_use]
    pub fn crash(at: Span, hosts: &str) -> Self {
        Self { at, crash: Some(hosts.to_owned()), ..Self::default() }
    }

    /// A new start of hosts that have crashed.
    #[must_use]
    pub fn restart(at: Span, hosts: &str) -> Self {
        Self { at, restart: Some(hosts.to_owned()), ..Self::default() }
    }
}

fn pair(a: &str, b: &str) -> Option<[String; 2]> {
    Some([a, b].map(str::to_owned))
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Both => "both",
            Self::There => "there",
            Self::Back => "back",
        })
    }
}

/// Whether a value can be left out because it is the default.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests;
