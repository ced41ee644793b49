//! `tcplab replay`: the calls of a recorded stack, made again by the same code in virtual time.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use ackclock_cli::manual::Suggested;
use ackclock_cli::output::Described;
use ackclock_cli::{Exit, Failure, NewFile, output};
use ackclock_control::congestion::Registry;
use ackclock_core::Instant;
use ackclock_core::profile::Profile;
use ackclock_core::trace::TraceConfig;
use ackclock_journal::{Changes, DamageKind, Departure, JournalEnd, Replay, ReplayError, Seen};
use ackclock_sim::units::{Span, UnitError};
use ackclock_trace::export;
use ackclock_trace::file::{Origin, Source, Trace, Writer};
use ackclock_wire::gso;
use ackclock_wire::hash::Fnv1a;
use ackclock_wire::pcapng::{self, Direction, LinkType, Record};
use serde_json::json;

use crate::compare::profiles;
use crate::explain;

/// Options of `tcplab replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// A recording, written by --record of tcpcat or by `Stack::builder().record(..)`
    recording: PathBuf,
    /// Write the trace of every connection here
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write every packet here as pcapng, with zeros for TCP's payload
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Give every connection this profile, and report where that first changes what happens
    #[arg(long, value_name = "NAME", hide_possible_values = true, value_parser = Suggested::new(profiles(), profile))]
    profile: Option<Profile>,
    /// Stop at this time of the stack's clock, for example 1.5s, or before the call with this number
    #[arg(long, value_name = "TIME|CALL", value_parser = until)]
    until: Option<Until>,
    /// Compare the trace with this one, which the recorded stack wrote (tcpcat's --trace)
    #[arg(long, value_name = "TRACE")]
    against: Option<PathBuf>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Where a replay stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    Time(Instant),
    Call(u64),
}

/// The findings of a replay.
#[derive(Debug, Default)]
struct Found {
    first: Option<Departure>,
    sent: u64,
    received: u64,
    /// Why the file could not be read to its end.
    damage: Option<String>,
    stopped: bool,
}

pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<Exit> {
    let named = [("", Some(args.recording.as_path())), ("", args.against.as_deref())];
    let written = [("--trace", args.trace.as_deref()), ("--pcap", args.pcap.as_deref())];
    output::distinct(&[named, written].concat())?;
    let against = args.against.as_deref().map(explain::open).transpose()?;
    let mut replay = open(args)?;
    let epoch = replay.header().epoch_unix_nanos;
    let origin = Origin { program: replay.header().program.clone(), epoch_unix_nanos: epoch };
    let mut trace = Vec::new();
    let mut writer = Writer::new(&mut trace, &origin)?;
    let mut packets = args.pcap.as_deref().map(|path| Packets::create(path, epoch)).transpose()?;
    let found = make(&mut replay, args.until, &mut writer, packets.as_mut())?;
    if let Some(path) = &args.trace {
        output::write_file(path, &trace)?;
    }
    if let Some(packets) = packets {
        packets.finish()?;
    }
    let hash = trace_hash(&Trace::read(&trace)?)?;
    let compared = against.as_ref().map(trace_hash).transpose()?;
    report(args, &replay, &found, hash, compared)?;
    let departed = args.profile.is_none() && replay.departures() > 0;
    let differs = compared.is_some_and(|compared| compared != hash);
    Ok(if departed || differs { Exit::Failed } else { Exit::Done })
}

type Recorded = BufReader<File>;

fn open(args: &ReplayArgs) -> anyhow::Result<Replay<Recorded>> {
    let path = &args.recording;
    let file = File::open(path).map_err(|error| Failure::file("read", path, &error))?;
    let wants_trace = args.trace.is_some() || args.against.is_some();
    let trace = wants_trace.then_some(TraceConfig::FULL);
    let changes = Changes { profile: args.profile, trace };
    let registry = Registry::with_experiments();
    Replay::open(BufReader::with_capacity(READ, file), &registry, changes).map_err(|error| {
        if let ReplayError::Damage(damage) = &error
            && let DamageKind::Read(error) = &damage.kind
        {
            return Failure::file("read", path, error).into();
        }
        Failure::usage(format!("{}: {error}", path.display())).into()
    })
}

/// Makes the calls.
fn make(
    replay: &mut Replay<Recorded>,
    until: Option<Until>,
    trace: &mut Writer<&mut Vec<u8>>,
    mut packets: Option<&mut Packets>,
) -> anyhow::Result<Found> {
    let mut found = Found::default();
    loop {
        if until.is_some_and(|until| until.is_reached(replay)) {
            found.stopped = true;
            break;
        }
        let (mut sent, mut received) = (0, 0);
        let step = replay.step(|at, seen| {
            match seen {
                Seen::Arrived(_) => received += 1,
                Seen::Left(_) => sent += 1,
            }
            if let Some(packets) = &mut packets {
                packets.add(at, &seen);
            }
        });
        found.sent += sent;
        found.received += received;
        while let Some(batch) = replay.endpoint_mut().poll_trace() {
            trace.batch("", &batch)?;
        }
        match step {
            Ok(Some(step)) => found.first = found.first.take().or(step.departure),
            Ok(None) => break,
            Err(damage) => {
                found.damage = Some(damage.to_string());
                break;
            }
        }
    }
    // Of connections that have not ended.
    replay.endpoint_mut().end_traces();
    while let Some(batch) = replay.endpoint_mut().poll_trace() {
        trace.batch("", &batch)?;
    }
    Ok(found)
}

fn report(
    args: &ReplayArgs,
    replay: &Replay<Recorded>,
    found: &Found,
    hash: u64,
    compared: Option<u64>,
) -> Result<(), Failure> {
    let departures = replay.departures();
    let took = replay.now().saturating_since(replay.header().start);
    let end = match replay.end() {
        _ if found.stopped => "stopped as asked".to_owned(),
        Some(JournalEnd::Closed) => "the recording is whole".to_owned(),
        Some(why) => format!("the recording is not whole: {why}"),
        None => "the recording has no end: its program was killed, or the file was cut".to_owned(),
    };
    let damage = found.damage.clone().map(|damage| format!("{}: {damage}", args.recording.display()));
    if args.json {
        let object = json!({
            "program": replay.header().program, "seconds": took.as_secs_f64(),
            "calls": replay.calls(), "packets_sent": found.sent, "packets_received": found.received,
            "whole": replay.end() == Some(JournalEnd::Closed), "end": end, "damage": damage,
            "profile": args.profile.map(|profile| profile.name), "departures": departures,
            "first_departure": found.first.as_ref().map(ToString::to_string),
            "trace_hash": format!("{hash:016x}"),
            "timers_stopped": replay.has_stopped_timers(),
            "against_hash": compared.map(|compared| format!("{compared:016x}")),
        });
        let object = serde_json::to_string(&Described::new(object))
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot write JSON: {error}")))?;
        return output::print(format_args!("{object}\n"));
    }
    if let Some(damage) = damage {
        output::say(format_args!("tcplab: {damage}; the part before that was replayed"));
    }
    let mut text = format!(
        "{} calls, {} packets received and {} sent, in {:.6} s of the stack's clock; {end}\n",
        replay.calls(),
        found.received,
        found.sent,
        took.as_secs_f64()
    );
    match &found.first {
        None => text += "every packet and every result is the recorded one\n",
        Some(first) => {
            text += &format!("departs from the recording {departures} times, first at {first}\n");
            text += "what arrives after that is still what was recorded: the peers answered the recorded \
                packets\n";
        }
    }
    if replay.has_stopped_timers() {
        text += "more timers expired after that than a recording of this length allows; the rest expire only \
            with recorded calls\n";
    }
    text += &format!("trace hash {hash:016x}\n");
    if let (Some(compared), Some(path)) = (compared, &args.against) {
        let is = if compared == hash { "the same" } else { "another one" };
        text += &format!("trace hash {compared:016x} of {}: {is}\n", path.display());
    }
    output::print(&text)
}

impl Until {
    fn is_reached(self, replay: &Replay<Recorded>) -> bool {
        match self {
            Self::Time(time) => replay.now() >= time,
            Self::Call(call) => replay.calls() >= call,
        }
    }
}

/// The packets of a replay on their way to a file.
#[derive(Debug)]
struct Packets {
    new: NewFile,
    file: BufWriter<File>,
    block: Vec<u8>,
    epoch: u64,
    written: std::io::Result<()>,
}

impl Packets {
    fn create(path: &Path, epoch: Option<u64>) -> anyhow::Result<Self> {
        let (new, file) = NewFile::create(path)?;
        let mut block = Vec::new();
        pcapng::section_header(&mut block);
        pcapng::interface(&mut block, "replay", LinkType::Raw, SNAP);
        let mut file = BufWriter::new(file);
        let written = file.write_all(&block);
        Ok(Self { new, file, block, epoch: epoch.unwrap_or(0), written })
    }

    fn add(&mut self, at: Instant, seen: &Seen<'_>) {
        let time_ns = self.epoch.saturating_add(at.as_nanos());
        self.block.clear();
        let mut add = |direction, parts: &[&[u8]]| {
            let len = parts.iter().map(|part| part.len()).sum();
            let record = Record { interface: 0, time_ns, direction, parts, len, comment: "" };
            pcapng::packet(&mut self.block, &record, SNAP);
        };
        match seen {
            Seen::Arrived(packet) => add(Direction::Received, &[packet]),
            Seen::Left(packet) => gso::cut(packet, |packet| {
                add(Direction::Sent, &packet.parts());
            }),
        }
        if self.written.is_ok() {
            self.written = self.file.write_all(&self.block);
        }
    }

    fn finish(self) -> Result<(), Failure> {
        let Self { new, mut file, written, .. } = self;
        new.commit(written.and_then(|()| file.flush()))
    }
}

/// A hash of all records of all connections, in the order of the connections' numbers: the same for two
/// traces that say the same, however their records were delivered.
fn trace_hash(trace: &Trace) -> anyhow::Result<u64> {
    let mut ordered = Trace { origin: Origin::default(), ..trace.clone() };
    ordered.sources.retain(|source| source.source.is_connection());
    ordered.sources.sort_by_key(|source| match source.source {
        Source::Connection { number, .. } => number,
        Source::Queue { .. } => u64::MAX,
    });
    for (number, source) in ordered.sources.iter_mut().enumerate() {
        source.number = number;
    }
    let mut rows = Vec::new();
    export::csv(&ordered, &mut rows)?;
    Ok(Fnv1a::of(&rows))
}

fn profile(name: &str) -> Result<Profile, String> {
    Profile::find(name).map_err(|error| error.to_string())
}

fn until(word: &str) -> Result<Until, String> {
    if let Ok(call) = word.parse() {
        return Ok(Until::Call(call));
    }
    let Span(nanos) = word.parse().map_err(|error: UnitError| format!("{error}, or a call's number"))?;
    Ok(Until::Time(Instant::ZERO.plus_nanos(nanos)))
}

/// Bytes read at once.
const READ: usize = 1 << 20;
/// No packet is longer.
const SNAP: u32 = 1 << 18;
