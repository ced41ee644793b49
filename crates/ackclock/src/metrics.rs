//! [`Metrics`]: a stack's named numbers.

use std::fmt;

use ackclock_core::{Connection, Counters, Histogram, Histograms, Measure, State as Tcp};

use crate::shards::Handle;
use crate::shared::Shared;
use crate::state::{Phase, StackState};

/// A stack's counters and gauges at one moment, by name: for collectors that need not know each number.
/// [`Stack::counters`](crate::Stack::counters) and [`Stack::info`](crate::Stack::info) have the same numbers
/// as fields.
///
/// Displayed, it is text in the OpenMetrics 1.0 format (`application/openmetrics-text; version=1.0.0;
/// charset=utf-8`), which Prometheus reads: each name is prefixed with `ackclock_`, and counters end in
/// `_total`.
///
/// Histograms ([`Metrics::histograms`]) count each handshake and, at its end, each connection. Connections
/// that are open are not in them.
///
/// ```
/// # use ackclock::{MetricKind, Stack};
/// # use ackclock_device::memory;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (device, _other_end) = memory::pair(memory::Config::default());
/// # let stack = Stack::builder().device(device).address("10.0.0.1/24".parse()?).spawn()?;
/// let metrics = stack.metrics();
/// assert_eq!(metrics.get("opened_actively"), Some(0));
/// let gauges = metrics.iter().filter(|metric| metric.kind == MetricKind::Gauge);
/// assert!(gauges.map(|metric| metric.name).any(|name| name == "memory_used_bytes"));
/// assert!(metrics.to_string().contains("\nackclock_opened_actively_total 0\n"));
/// # Ok(()) }
/// ```
///
/// Names keep their meaning; later versions may add more.
///
#[doc = include_str!("metrics.md")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    gauges: [u64; GAUGES.len()],
    counters: Counters,
    histograms: Histograms,
}

/// One number of [`Metrics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name, in lower case with underscores; the name of a gauge with a unit ends with the unit.
    pub name: &'static str,
    /// How it changes.
    pub kind: MetricKind,
    /// Its unit: `"bytes"`; empty for a count, whose name says what is counted.
    pub unit: &'static str,
    /// A sentence that describes it.
    pub help: &'static str,
    /// Its present value.
    pub value: u64,
}

/// How a [`Metric`] changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricKind {
    /// Counts from zero since the stack started, and never decreases.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// A gauge: its name, unit, description, and what it is of.
struct Gauge(&'static str, &'static str, &'static str, Of);

/// The subject of a gauge, with a value for each queue.
enum Of {
    /// The queues together.
    Sum(fn(&StackState) -> u64),
    /// The stack's value. All queues have the same one; while they change one after the other, the least
    /// counts.
    Least(fn(&StackState) -> u64),
}

const GAUGES: [Gauge; 10] = [
    Gauge(
        "up",
        "",
        "Whether the stack takes new connections: 1, or 0 once it drains, closes or is gone.",
        Of::Least(|state| u64::from(matches!(state.phase, Phase::Up))),
    ),
    Gauge(
        "connections",
        "",
        "Connections that exist, those included that close in the background.",
        Of::Sum(|state| state.endpoint.connection_count() as u64),
    ),
    Gauge(
        "connections_opening",
        "",
        "Those of them whose handshake is not over.",
        Of::Sum(|state| connections(state, |tcp| matches!(tcp, Tcp::SynSent | Tcp::SynReceived))),
    ),
    Gauge(
        "connections_established",
        "",
        "Those of them that can send: ESTABLISHED and CLOSE-WAIT.",
        Of::Sum(|state| connections(state, |tcp| matches!(tcp, Tcp::Established | Tcp::CloseWait))),
    ),
    Gauge("listeners", "", "Listeners.", Of::Least(|state| state.listeners.len() as u64)),
    Gauge("udp_sockets", "", "UDP sockets.", Of::Sum(|state| state.datagrams.len() as u64)),
    Gauge(
        "receive_queue_bytes",
        "bytes",
        "Bytes that have arrived in order and that programs have not read.",
        Of::Sum(|state| {
            state.endpoint.connections().map(|(_, connection)| connection.readable() as u64).sum()
        }),
    ),
    Gauge(
        "memory_used_bytes",
        "bytes",
        "What all buffers take.",
        Of::Least(|state| state.endpoint.memory().0 as u64),
    ),
    Gauge(
        "memory_max_bytes",
        "bytes",
        "What all buffers may take.",
        Of::Least(|state| state.endpoint.memory().1 as u64),
    ),
    Gauge(
        "mtu_bytes",
        "bytes",
        "The largest IP packet that every device carries.",
        Of::Least(|state| state.network.mtu() as u64),
    ),
];

/// The counters and gauges of a stack.
pub(crate) fn of(stack: &Handle) -> Metrics {
    let of_queue = |shard: &Shared| shard.look(|state| GAUGES.map(|Gauge(.., of)| of.value(state)));
    let gauges = stack.all().iter().map(of_queue).reduce(|mut all, one| {
        for ((all, one), Gauge(.., of)) in all.iter_mut().zip(one).zip(&GAUGES) {
            *all = of.join(*all, one);
        }
        all
    });
    let gauges = gauges.unwrap_or_default();
    Metrics { gauges, counters: stack.counters(), histograms: stack.histograms() }
}

impl Of {
    fn value(&self, state: &StackState) -> u64 {
        let (Self::Sum(value) | Self::Least(value)) = self;
        value(state)
    }

    fn join(&self, one: u64, other: u64) -> u64 {
        match self {
            Self::Sum(_) => one + other,
            Self::Least(_) => one.min(other),
        }
    }
}

impl Metrics {
    /// Every number, gauges first, in a stable order.
    pub fn iter(&self) -> impl Iterator<Item = Metric> + '_ {
        let gauges = GAUGES.iter().zip(self.gauges).map(|(&Gauge(name, unit, help, _), value)| Metric {
            name,
            kind: MetricKind::Gauge,
            unit,
            help,
            value,
        });
        let counters = self.counters.iter().map(|(name, help, value)| Metric {
            name,
            kind: MetricKind::Counter,
            unit: "",
            help,
            value,
        });
        gauges.chain(counters)
    }

    /// The histograms, in a stable order.
    pub fn histograms(&self) -> impl Iterator<Item = &Histogram> {
        self.histograms.iter()
    }

    /// The number with this name, without `ackclock_` and `_total`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|metric| metric.name == name).map(|metric| metric.value)
    }
}

impl MetricKind {
    /// The kind in OpenMetrics: `counter` or `gauge`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Metric { name, kind, unit, help, value } in self.iter() {
            writeln!(f, "# TYPE ackclock_{name} {}", kind.name())?;
            if !unit.is_empty() {
                writeln!(f, "# UNIT ackclock_{name} {unit}")?;
            }
            let suffix = if kind == MetricKind::Counter { "_total" } else { "" };
            writeln!(f, "# HELP ackclock_{name} {help}\nackclock_{name}{suffix} {value}")?;
        }
        self.histograms().try_for_each(|histogram| write_histogram(f, histogram))?;
        writeln!(f, "# EOF")
    }
}

fn write_histogram(f: &mut fmt::Formatter<'_>, histogram: &Histogram) -> fmt::Result {
    let Measure { name, unit, help, parts, .. } = *histogram.measure();
    let in_units = |value: u64| value as f64 / parts as f64;
    writeln!(f, "# TYPE ackclock_{name} histogram")?;
    if !unit.is_empty() {
        writeln!(f, "# UNIT ackclock_{name} {unit}")?;
    }
    writeln!(f, "# HELP ackclock_{name} {help}")?;
    for (bound, count) in histogram.up_to() {
        writeln!(f, "ackclock_{name}_bucket{{le=\"{:?}\"}} {count}", in_units(bound))?;
    }
    let (count, sum) = (histogram.count(), in_units(histogram.sum()));
    writeln!(f, "ackclock_{name}_bucket{{le=\"+Inf\"}} {count}")?;
    writeln!(f, "ackclock_{name}_count {count}\nackclock_{name}_sum {sum:?}")
}

/// A map from names to values.
#[cfg(feature = "serde")]
impl serde::Serialize for Metrics {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|metric| (metric.name, metric.value)))
    }
}

/// The number of connections in these states.
fn connections(state: &StackState, counts: fn(Tcp) -> bool) -> u64 {
    let is_counted = |&(_, connection): &(_, &Connection)| counts(connection.state());
    state.endpoint.connections().filter(is_counted).count() as u64
}
