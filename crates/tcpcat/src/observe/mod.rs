//! A transfer's output while it runs and at its end: `--stats` lines, the `--progress` bar, the `--json`
//! report.

mod bounded;
mod facts;
mod progress;
mod report;
mod stats;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ackclock::{ConnectionInfo, FourTuple};
use ackclock_cli::{Exit, Failure};
use tokio::time::{MissedTickBehavior, interval};

use self::bounded::Bounded;
use self::progress::Progress;
use self::report::{Connected, End, Interval, SessionReport, StreamReport};
use crate::args::ObserveArgs;
use crate::net::{Net, Stream};
use crate::session::{Kind, Meter, TransferResult};
use crate::units::{bits_per_second, show_bytes, show_rate};

pub(crate) use self::facts::Facts;
pub(crate) use self::stats::{line as stats_line, words as stats_words};

/// Watches a transfer.
#[derive(Debug)]
pub(crate) struct Observer {
    kind: Kind,
    /// `--stats`: how often a line about each connection is printed.
    stats: Option<Duration>,
    json: bool,
    progress: Option<Progress>,
    seen: Mutex<Seen>,
}

/// The observations so far.
#[derive(Debug)]
struct Seen {
    report: SessionReport,
    /// The end of the last interval.
    last: Look,
    /// The retransmissions of all connections that have ended.
    retransmits: u64,
    /// Connections that have ended, in their last state.
    ended: Bounded<(FourTuple, ConnectionInfo)>,
}

impl Observer {
    pub fn new(kind: Kind, net: &Net, args: &ObserveArgs, progress: bool) -> Self {
        let seen = Seen {
            report: SessionReport::new(kind.name, net.device()),
            last: Look::default(),
            retransmits: 0,
            ended: Bounded::default(),
        };
        Self {
            kind,
            stats: args.stats,
            json: args.json,
            progress: progress.then(Progress::new),
            seen: Mutex::new(seen),
        }
    }

    /// Takes a look at each interval until it is aborted.
    pub async fn watch(&'static self, meter: &'static Meter, net: &'static Net) {
        let every = self.stats.unwrap_or(REPORT_EVERY);
        let mut ticks = interval(every.min(PROGRESS_EVERY));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let started = Instant::now();
        loop {
            ticks.tick().await;
            let look = Look { at: started.elapsed(), sent: meter.sent(), received: meter.received() };
            if let Some(progress) = &self.progress {
                progress.show(&look, meter.total(), &net.connections());
            }
            let last = self.seen().last.at;
            if look.at.saturating_sub(last) + PROGRESS_EVERY / 8 >= every {
                self.interval(look, &net.connections());
            }
        }
    }

    fn interval(&self, look: Look, connections: &[(FourTuple, ConnectionInfo)]) {
        if self.stats.is_some() {
            for (tuple, info) in connections {
                self.say(&format!("{:.2}s {}", look.at.as_secs_f64(), stats_line(tuple, info)));
            }
        }
        let mut seen = self.seen();
        if self.json {
            let streams = connections.iter().map(|(tuple, info)| StreamReport::new(tuple, info)).collect();
            let interval = Interval::between(&seen.last, &look, streams);
            seen.report.intervals.push(interval);
        }
        seen.last = look;
    }

    /// Notes a new connection.
    pub fn connected(&self, stream: &Stream) {
        if !self.json {
            return;
        }
        let connected = Connected::new(stream);
        self.seen().report.start.connected.push(connected);
    }

    /// Notes a connection's last state; to be called before it is dropped.
    pub fn ended(&self, stream: &Stream) {
        let (Ok(local), Ok(remote), Some(info)) = (stream.local_addr(), stream.peer_addr(), stream.info())
        else {
            return;
        };
        let tuple = FourTuple::new(local, remote);
        if self.stats.is_some() {
            self.say(&format!("end {}", stats_line(&tuple, &info)));
        }
        let mut seen = self.seen();
        seen.retransmits += info.retransmits;
        if self.json {
            seen.ended.push((tuple, info));
        }
    }

    /// Prints a line to stderr, past the bar if there is one.
    pub fn say(&self, text: &str) {
        match &self.progress {
            Some(progress) => progress.say(&format!("tcpcat: {text}")),
            None => say!("tcpcat: {text}"),
        }
    }

    /// Reports the result, and returns the exit code.
    pub fn finish(&self, meter: &Meter, started: Instant, result: &Result<TransferResult, Failure>) -> Exit {
        if let Some(progress) = &self.progress {
            progress.finish();
        }
        let exit = result.as_ref().map_or_else(Failure::exit, |_| Exit::Done);
        let look = Look { at: started.elapsed(), sent: meter.sent(), received: meter.received() };
        if self.json && self.seen().last.at < look.at {
            self.interval(look, &[]);
        }
        let took = result.as_ref().ok().and_then(|outcome| outcome.took).unwrap_or_else(|| started.elapsed());
        let mut seen = self.seen();
        let retransmits = seen.retransmits;
        match result {
            Ok(outcome) => {
                for note in &outcome.notes {
                    say!("tcpcat: {note}");
                }
                if self.kind.summary {
                    say!("tcpcat: {}", summary(meter, took, retransmits, outcome));
                }
            }
            Err(failure) if failure.is_quiet() => {}
            Err(failure) => say!("tcpcat: {failure}"),
        }
        if self.json {
            let streams = seen.ended.iter().map(|(tuple, info)| StreamReport::new(tuple, info)).collect();
            seen.report.end = Some(End::new(meter, took, retransmits, streams, exit, result));
            let left_out = seen.ended.left_out();
            seen.report.note_left_out(left_out);
            seen.report.print(self.kind.data_on_stdout);
        }
        exit
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// Time since the beginning.
    at: Duration,
    sent: u64,
    received: u64,
}

/// Reports a failure before anything could be observed.
pub(crate) fn fail_early(kind: Kind, args: &ObserveArgs, failure: &Failure) -> Exit {
    say!("tcpcat: {failure}");
    if args.json {
        let mut report = SessionReport::new(kind.name, "");
        let meter = Meter::default();
        report.end = Some(End::failed_early(&meter, failure));
        report.print(kind.data_on_stdout);
    }
    failure.exit()
}

fn summary(meter: &Meter, took: Duration, retransmits: u64, outcome: &TransferResult) -> String {
    let part = |word: &str, bytes: u64| {
        let rate = show_rate(bits_per_second(bytes, took));
        (bytes > 0).then(|| format!("{word} {} in {:.2} s, {rate}", show_bytes(bytes), took.as_secs_f64()))
    };
    let parts: Vec<String> =
        part("sent", meter.sent()).into_iter().chain(part("received", meter.received())).collect();
    let mut text = if parts.is_empty() { "moved nothing".to_owned() } else { parts.join("; ") };
    if retransmits > 0 {
        let segments = if retransmits == 1 { "segment" } else { "segments" };
        text.push_str(&format!(", {retransmits} {segments} sent again"));
    }
    if let Some(hash) = &outcome.blake3 {
        text.push_str(&format!(", blake3 {hash}"));
    }
    match outcome.verified {
        Some(true) => text.push_str(", verified"),
        Some(false) => text.push_str(", NOT verified"),
        None => {}
    }
    text
}

/// Intervals of a JSON report without `--stats`.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How often the bar is redrawn.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
