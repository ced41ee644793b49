//! Traffic as data.

use serde::{Deserialize, Serialize};

use super::{TcpSettings, is_default};
use crate::units::{Bytes, Rate, Share, Span};

/// Traffic between two hosts: `from` opens the connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TrafficConfig {
    /// Its name.
    pub name: String,
    /// The host that opens connections.
    pub from: String,
    /// The host that accepts them.
    pub to: String,
    /// When it begins.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start: Span,
    /// Settings of the connections at `from`; they override its host's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tcp: TcpSettings,
    /// Settings of the connections at `to`; they override its host's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub peer_tcp: TcpSettings,
    /// The kind of traffic.
    pub what: TrafficKind,
}

/// A kind of traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum TrafficKind {
    /// As much as the network takes, until this many bytes are sent, until a time, or to the end.
    Bulk {
        /// How many bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<Bytes>,
        /// When to stop writing and close.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Span>,
    },
    /// Bursts at a rate, and silence, in turns, over one connection.
    OnOff {
        /// The rate of a burst.
        rate: Rate,
        /// How much is written at a time.
        #[serde(default = "write_size")]
        write: Bytes,
        /// How long a burst lasts.
        on: TimeOf,
        /// How long the silence lasts.
        off: TimeOf,
    },
    /// Requests and their responses; how long each took is measured.
    RequestResponse {
        /// How large a request is.
        request: SizeOf,
        /// How large its response is.
        response: SizeOf,
        /// How long `from` waits after a response.
        #[serde(default = "no_time")]
        think: TimeOf,
        /// How long `to` takes to answer.
        #[serde(default = "no_time")]
        serve: TimeOf,
        /// The number of requests; `None` for no limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requests: Option<u64>,
        /// The number of requests on one connection before the next is opened; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        per_connection: Option<u64>,
    },
    /// Conversations of the kinds of Danzig and Jamin's tcplib (1991).
    Tcplib {
        /// Mean time between the beginnings of conversations.
        every: Span,
        /// When to stop beginning conversations; `None` for never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Span>,
        /// How many of each kind.
        #[serde(default)]
        mix: TcplibMix,
    },
    /// Connections that each send something and close, one after another at random.
    Arrivals(Arrivals),
}

/// Connections that each send something and close.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Arrivals {
    /// Time between the beginnings.
    pub every: TimeOf,
    /// How much each sends.
    pub size: SizeOf,
}

/// The mix of conversations. The shares are weights and need not add up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TcplibMix {
    /// Interactive: single characters and their echoes.
    #[serde(default)]
    pub telnet: Share,
    /// A control conversation, and a separate connection for each item.
    #[serde(default)]
    pub ftp: Share,
    /// News articles.
    #[serde(default)]
    pub nntp: Share,
    /// A letter.
    #[serde(default)]
    pub smtp: Share,
}

/// How a time is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum TimeOf {
    /// Always the same.
    Fixed(Span),
    /// Exponentially with this mean.
    Exponential(Span),
    /// Pareto's distribution.
    Pareto {
        /// The shortest.
        least: Span,
        /// α in thousandths: 1500 is 1.5.
        shape_thousandths: u32,
    },
}

/// How a number of bytes is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum SizeOf {
    /// Always the same.
    Fixed(Bytes),
    /// Exponentially with this mean, at least one.
    Exponential(Bytes),
    /// Pareto's distribution.
    Pareto {
        /// The smallest.
        least: Bytes,
        /// α in thousandths: 1500 is 1.5.
        shape_thousandths: u32,
    },
}

impl TrafficConfig {
    /// Traffic that begins at once, with the hosts' settings.
    #[must_use]
    pub fn new(name: &str, from: &str, to: &str, what: TrafficKind) -> Self {
        Self {
            name: name.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            start: Span(0),
            tcp: TcpSettings::default(),
            peer_tcp: TcpSettings::default(),
            what,
        }
    }

    /// A bulk transfer of this many bytes, or to the end.
    #[must_use]
    pub fn bulk(name: &str, from: &str, to: &str, bytes: Option<Bytes>) -> Self {
        Self::new(name, from, to, TrafficKind::Bulk { bytes, until: None })
    }

    /// With this start.
    #[must_use]
    pub fn start(mut self, start: Span) -> Self {
        self.start = start;
        self
    }

    /// With these settings at `from`.
    #[must_use]
    pub fn tcp(mut self, tcp: TcpSettings) -> Self {
        self.tcp = tcp;
        self
    }
}

impl TrafficKind {
    /// Whether `to` ever sends data.
    pub(crate) fn wants_answers(&self) -> bool {
        matches!(self, Self::RequestResponse { .. } | Self::Tcplib { .. })
    }
}

impl Default for TcplibMix {
    /// That of tcplib: the mean shares of these four among all connections of its traces, of which 53 % are
    /// of other kinds. tcplib draws the shares of a site about these means; here they are the means.
    fn default() -> Self {
        let [telnet, ftp, nntp, smtp] = [61_200, 21_600, 5_600, 379_800].map(Share::per_million);
        Self { telnet, ftp, nntp, smtp }
    }
}

fn write_size() -> Bytes {
    Bytes(1000)
}

fn no_time() -> TimeOf {
    TimeOf::Fixed(Span(0))
}
