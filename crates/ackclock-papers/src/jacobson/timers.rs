//! JE5/6: two estimators of the retransmission timeout on the same round trips.

use std::ops::Range;

use ackclock_chart::{Figure, Style};
use ackclock_control::assess::timeouts::{Event, Timeouts, assess};
use ackclock_control::rtt::{RtoConfig, RttEstimator};
use ackclock_sim::scenario::{Arrivals, SizeOf, TimeOf};
use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Direction, Scenario, TcpSettings, TrafficConfig, TrafficKind};

use super::{PACKET_BYTES, bsd};
use crate::many::{Summary, each};
use crate::net::Dumbbell;
use crate::segments::{self, Conversation};
use crate::{Band, Experiment, Findings, Table, Value, draw};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "JE5/6",
    source: "Jacobson & Karels 1988, figs. 5 and 6, and §2",
    title: "RFC 793's retransmit timer and that of mean and deviation on the same round trips",
    set_up: "The paper's series is a trace of the Arpanet without losses. Here: a host that writes a segment \
             of 512 bytes every 0.7 s, a tenth of a path of 56 kbit/s and 100 ms, and whose timer never \
             expires; beside it transfers of 4 KB on average that begin at random, as many as make the load, \
             by hosts of that time (none-1987, windows of eight packets, the Arpanet's limit); buffers \
             without end, 300 s, 20 seeds at each of eight loads. Estimators are charged by Allman and \
             Paxson's assessment: an expiry before the acknowledgement comes is spurious. BSD's clock ticks \
             every 500 ms, its least timeout is 1 s; a fine clock ticks every millisecond, without a least \
             timeout, so that the formulas alone differ.",
    run,
};

/// A timer: its description, and its words for [`RtoConfig::find`].
const TIMERS: [(&str, &str); 3] = [
    ("RFC 793, 2 SRTT", "rfc793,g=1ms,min=0s"),
    ("mean and deviation, a + 2v (1988)", "rfc6298,k=2,g=1ms,min=0s"),
    ("mean and deviation, a + 4v (revised)", "rfc6298,k=4,g=1ms,min=0s"),
];
/// The senders with BSD's clock.
const COARSE: [(&str, &str); 3] = [
    ("RFC 793, ticks of 500 ms", "rfc793,g=500ms,heartbeat=on,min=1s"),
    ("a + 2v, ticks of 500 ms", "jacobson-1988"),
    ("a + 4v, ticks of 500 ms", "jacobson-1992"),
];

/// Indices of [`TIMERS`] and then [`COARSE`].
const FINE_793: usize = 0;
const FINE_2V: usize = 1;
const FINE_4V: usize = 2;
const BSD_793: usize = 3;
const BSD_2V: usize = 4;
const BSD_4V: usize = 5;

/// One trace, assessed.
struct Run {
    /// Round trips measured.
    trips: f64,
    /// By [`TIMERS`], then [`COARSE`].
    spurious: Vec<f64>,
    /// The mean timeout over the mean round trip, likewise: the excess wait for a loss.
    slack: Vec<f64>,
    events: Vec<Event>,
    lost: usize,
}

fn run() -> anyhow::Result<Findings> {
    let mut rows = Vec::new();
    let mut all = Vec::new();
    let mut by_load = Vec::new();
    let mut graphs = Vec::new();
    for load in LOADS {
        let runs = runs(load, 0..RUNS)?;
        if load == GRAPH_LOAD {
            graphs = figures(&runs[0]);
        }
        rows.push(row(load, &runs));
        by_load.push([0, 1, 2, 3, 4, 5].map(|timer| runs.iter().map(|run| run.spurious[timer]).sum::<f64>()));
        all.extend(runs);
    }
    anyhow::ensure!(all.iter().all(|run| run.lost == 0), "the traces are to be without losses");
    let spurious = |timer: usize| Summary::of(all.iter().map(|run| 1000.0 * run.spurious[timer] / run.trips));
    let slack = |timer: usize| Summary::of(all.iter().map(|run| run.slack[timer]));
    let fewer = |timer: usize, than: usize| {
        let difference = all.iter().map(|run| run.spurious[timer] - run.spurious[than]);
        let value = Summary { count: 1, ..Summary::of(difference) };
        Value { paper: "fewer", band: Band::Below(0.0), ..value.value("", "") }
    };
    let mut values = vec![
        Value {
            paper: "expires where the load grows",
            band: Band::Above(0.0),
            ..spurious(BSD_793).value("BSD's clock, RFC 793: spurious expiries in 1,000 round trips", "")
        },
        Value { ..spurious(BSD_2V).value("BSD's clock, a + 2v: the same", "") },
        Value {
            paper: "essentially none",
            // §2: the timer "essentially eliminates spurious retransmissions": rounded, 0 % of the round
            // trips.
            band: Band::Below(5.0),
            limit: Some(Band::Below(4.5)),
            ..spurious(BSD_4V).value("BSD's clock, a + 4v: the same", "")
        },
        Value {
            name: "BSD's clock, a + 4v less RFC 793: spurious expiries of a trace".to_owned(),
            ..fewer(BSD_4V, BSD_793)
        },
        Value {
            name: "fine clock, a + 4v less RFC 793: spurious expiries of a trace".to_owned(),
            ..fewer(FINE_4V, FINE_793)
        },
        Value { ..slack(BSD_793).value("BSD's clock, RFC 793: mean timeout in mean round trips", "") },
        Value { ..slack(BSD_4V).value("BSD's clock, a + 4v: the same", "") },
    ];
    values.splice(5..5, lost_loads(&by_load));
    let notes = vec![
        "With a fine clock and no least timeout a + 4v expires more often than RFC 793 at loads of 20 and 30 \
         %: most round trips are alike there, the deviation goes to nothing, and the first burst of another \
         host comes behind a timer that is barely above the mean. A least timeout, or a tick of 500 ms, \
         hides this; Allman and Paxson found 11 years later that the least timeout matters more than the \
         formula (their tables 1 and 3)."
            .to_owned(),
    ];
    let names = TIMERS.iter().chain(&COARSE).map(|(name, _)| (*name).to_owned());
    let head = ["load", "round trips"].map(str::to_owned).into_iter().chain(names).collect();
    let title =
        "Spurious expiries of a trace, and the mean timeout in round trips (means of 20 traces)".to_owned();
    Ok(Findings { values, tables: vec![Table { title, head, rows }], figures: graphs, notes })
}

/// At how many of the loads the deviation's timer expires no less often than RFC 793's.
fn lost_loads(by_load: &[[f64; 6]]) -> [Value; 3] {
    let loads_lost = |timer: usize, than: usize| {
        Summary::of([by_load.iter().filter(|spurious| spurious[timer] >= spurious[than]).count() as f64])
    };
    [
        Value {
            paper: "0: fewer than RFC 793",
            band: Band::AtMost(0.0),
            reason: Some(SHORT_2V),
            ..loads_lost(BSD_2V, BSD_793)
                .value("BSD's clock: loads at which a + 2v expires no less often than RFC 793", "")
        },
        Value {
            paper: "0: fewer than RFC 793",
            band: Band::AtMost(0.0),
            reason: Some(SHORT_2V),
            ..loads_lost(FINE_2V, FINE_793).value("fine clock: the same", "")
        },
        Value {
            paper: "0: fewer than RFC 793",
            band: Band::AtMost(0.0),
            reason: Some(FLAT),
            ..loads_lost(FINE_4V, FINE_793).value("fine clock: loads at which a + 4v does", "")
        },
    ]
}

fn runs(load_percent: u64, seeds: Range<u64>) -> anyhow::Result<Vec<Run>> {
    let timers = TIMERS.iter().chain(&COARSE).map(|(_, words)| RtoConfig::find(words));
    let timers: Vec<RtoConfig> = timers.collect::<Result<_, _>>()?;
    each(seeds, |seed| {
        let seen = segments::observe(&scenario(load_percent).seed(seed), &["a1"])?;
        Ok(assessed(&seen.conversations[0], &timers))
    })
}

fn assessed(conversation: &Conversation, timers: &[RtoConfig]) -> Run {
    let events = conversation.events();
    let judged: Vec<Timeouts> =
        timers.iter().map(|timer| assess(events.iter().copied(), timer, None)).collect();
    let slack = |timer| {
        let trips = round_trips(&events, timer);
        let sum = |of: fn(&Trip) -> f64| trips.iter().map(of).sum::<f64>();
        sum(|trip| trip.timeout) / sum(|trip| trip.took)
    };
    Run {
        trips: conversation.sent.len() as f64,
        spurious: judged.iter().map(|timeouts| f64::from(timeouts.bad)).collect(),
        slack: timers.iter().map(slack).collect(),
        events,
        lost: conversation.lost.len(),
    }
}

fn scenario(load_percent: u64) -> Scenario {
    let network = Dumbbell {
        pairs: 2,
        access: Direction::new(Rate::mbit(10), Span(0)).mtu(PACKET_BYTES),
        bottleneck: Direction::new(ARPANET, Span::millis(100)).mtu(PACKET_BYTES).buffers(100_000),
        back: None,
    };
    // Without losses there are no retransmissions, so the series shows the network.
    let patient = "rfc6298,initial=60s,min=60s";
    let steady = TrafficKind::OnOff {
        rate: MEASURED,
        write: Bytes(512),
        on: TimeOf::Fixed(END),
        off: TimeOf::Fixed(Span::millis(1)),
    };
    let mut measured = TrafficConfig::new("measured", "a1", "b1", steady);
    measured.tcp = TcpSettings { nodelay: Some(true), ..bsd("tahoe-1988").choose("rto", patient) };
    measured.peer_tcp = bsd("tahoe-1988").choose("acks", "every-second:0s");
    // A transfer's bytes with its headers, and the handshake.
    let size = Bytes(4096);
    let bits = 8 * (size.0 + size.0.div_ceil(512) * 40 + 160);
    let every =
        TimeOf::Exponential(Span(bits * 100 * 1_000_000_000 / (ARPANET.bits() * (load_percent - 10))));
    let others = TrafficKind::Arrivals(Arrivals { every, size: SizeOf::Exponential(size) });
    network
        .scenario(END)
        .tcp(bsd("none-1987").choose("rto", patient).fixed_window(8 * 512))
        .traffic(measured)
        .traffic(TrafficConfig::new("others", "a2", "b2", others))
}

/// A round trip, and the timer's value when its segment left.
struct Trip {
    took: f64,
    timeout: f64,
}

/// The round trip of each segment, and an estimator that times all of them, as in the paper's figures.
fn round_trips(events: &[Event], timer: &RtoConfig) -> Vec<Trip> {
    let mut estimator = RttEstimator::new(timer);
    let mut out = std::collections::VecDeque::new();
    let mut trips = Vec::new();
    for event in events {
        match *event {
            Event::Sent { at, to, .. } => out.push_back((at, to, estimator.rto())),
            Event::Acked { at, to } => {
                while let Some(&(sent_at, end, timeout)) = out.front()
                    && end <= to
                {
                    out.pop_front();
                    let took = at.saturating_since(sent_at);
                    estimator.on_sample(took);
                    trips.push(Trip { took: took.as_secs_f64(), timeout: timeout.as_secs_f64() });
                }
            }
        }
    }
    trips
}

fn row(load: u64, runs: &[Run]) -> Vec<String> {
    let timers = (0..TIMERS.len() + COARSE.len()).map(|timer| {
        let spurious = Summary::of(runs.iter().map(|run| run.spurious[timer])).mean;
        let slack = Summary::of(runs.iter().map(|run| run.slack[timer])).mean;
        format!("{spurious:.1}; {slack:.1}")
    });
    let trips = Summary::of(runs.iter().map(|run| run.trips)).mean;
    [format!("{load} %"), format!("{trips:.0}")].into_iter().chain(timers).collect()
}

/// The paper's two graphs: round trips by packet, and the timer above them.
fn figures(run: &Run) -> Vec<(String, Figure)> {
    let graph = |stem: &str, (name, words): (&str, &str)| {
        let trips = round_trips(&run.events, &RtoConfig::find(words).ok()?);
        let shown = || trips.iter().skip(FIRST_SHOWN).take(SHOWN).enumerate();
        let panel = draw::panel(
            "time (s)",
            vec![
                draw::series(
                    "round trip",
                    Style::Dots,
                    draw::OTHER,
                    shown().map(|(n, trip)| (n as f64, trip.took)),
                ),
                draw::series("", Style::Dashed, draw::OTHER, shown().map(|(n, trip)| (n as f64, trip.took))),
                draw::series(
                    "timer",
                    Style::Line,
                    draw::KINDS[1],
                    shown().map(|(n, trip)| (n as f64, trip.timeout)),
                ),
            ],
        );
        let caption = format!(
            "Round trips of a conversation over 56 kbit/s loaded to {GRAPH_LOAD} %, and the timer when each \
             packet left; where the timer is lower, it expires in vain."
        );
        Some((
            stem.to_owned(),
            draw::figure(&format!("Retransmit timer: {name}"), &caption, "packet", vec![panel]),
        ))
    };
    [graph("JE5", COARSE[0]), graph("JE6", COARSE[2])].into_iter().flatten().collect()
}

/// Seen in the table: its timeout is the shorter one wherever it loses.
const SHORT_2V: &str = "a + 2v comes to less than RFC 793's twice the mean wherever the deviation is below \
    half of the mean, and its timeouts are the shorter ones at each load of the table; the paper itself went \
    from 2v to 4v, after spurious retransmissions over slow links (its footnote 21)";
const FLAT: &str = "with round trips that are alike the deviation goes to nothing, as the note says";
const ARPANET: Rate = Rate::bits_per_second(56_000);
const RUNS: u64 = 20;
/// The rate at which the measured host writes.
const MEASURED: Rate = Rate::bits_per_second(5600);
const END: Span = Span::seconds(300);
/// In hundredths of the link, with the measured host's tenth.
const LOADS: [u64; 8] = [20, 30, 40, 50, 60, 70, 80, 90];
const GRAPH_LOAD: u64 = 60;
/// The graphs show this many packets, after skipping this many.
const SHOWN: usize = 110;
const FIRST_SHOWN: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_loaded_path_the_deviation_saves_expiries() {
        let runs = runs(70, 0..3).unwrap();
        let spurious = |timer: usize| runs.iter().map(|run| run.spurious[timer]).sum::<f64>();
        assert!(runs.iter().all(|run| run.lost == 0 && run.trips > 300.0));
        for (deviation, rfc793) in [(FINE_4V, FINE_793), (BSD_4V, BSD_793)] {
            assert!(spurious(deviation) < spurious(rfc793), "{} {}", spurious(deviation), spurious(rfc793));
        }
    }
}
