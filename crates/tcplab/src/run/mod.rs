//! `tcplab run`: one scenario.

mod play;
mod series;
pub(crate) mod tables;

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ackclock_assess::simulated::write_traces;
use ackclock_cli::output::Described;
use ackclock_cli::{Exit, Failure, NewFile, output};
use ackclock_sim::observe::{Pcapng, Series, Traces};
use ackclock_sim::units::Span;
use ackclock_sim::{Scenario, Simulation};
use ackclock_trace::file::Origin;

use crate::PROGRAM;
use crate::live::LiveArgs;

/// Options of `tcplab run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The scenario, a TOML file; - reads stdin
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Use this seed instead of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write all measurements to this file as JSON; - is stdout, in place of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the packets of all hosts to this file as pcapng, for Wireshark and tcpdump
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write queues, windows and progress over time to this file as CSV; a thousand samples unless the
    /// scenario sets the interval
    #[arg(long, value_name = "FILE.csv")]
    series: Option<PathBuf>,
    /// Write tables and graphs to this file as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a trace to this file: what all connections did and why, and what happened in the queues
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    live: LiveArgs,
    /// Seconds of the scenario that --live shows in a second; 1 is real time
    #[arg(long, value_name = "N", default_value = "1", value_parser = play::speed, requires = "live")]
    speed: f64,
}

type Capture = (NewFile, Rc<RefCell<Pcapng<File>>>);

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    output::distinct(&[
        ("", Some(args.scenario.as_path())),
        ("--json", args.json.as_deref()),
        ("--pcap", args.pcap.as_deref()),
        ("--series", args.series.as_deref()),
        ("--html", args.html.as_deref()),
        ("--trace", args.trace.as_deref()),
        ("--live-page", args.live.page_file()),
    ])?;
    let mut scenario = read(&args.scenario)?;
    if let Some(seed) = args.seed {
        scenario.seed = seed;
    }
    let sampled = args.series.is_some() || args.html.is_some();
    if sampled && scenario.sample_every.is_none() {
        scenario.sample_every = Some(Span((scenario.duration.0 / SAMPLES).max(1)));
    }
    if args.trace.is_some() {
        scenario.tcp = scenario.tcp.traced();
    }
    let mut simulation = Simulation::new(&scenario)?;
    let capture =
        args.pcap.as_ref().map(|path| observe_packets(path, &scenario, &mut simulation)).transpose()?;
    let series = Rc::new(RefCell::new(Series::default()));
    if sampled {
        simulation.observe(Rc::clone(&series));
    }
    let traces = Rc::new(RefCell::new(Traces::new((0..).take(2 * scenario.links.len()))));
    if args.trace.is_some() {
        simulation.observe(Rc::clone(&traces));
    }
    if let Some(live) = args.live.start(&args.scenario, &scenario, true, &[])? {
        let pace = args.live.serves().then_some(args.speed);
        play::play(&mut simulation, &live, scenario.duration, pace);
        live.end()?;
    }
    let report = simulation.run();
    output::print_beside(args.json.as_ref(), &tables::text(&report))?;
    if let Some((file, pcapng)) = capture {
        let written = pcapng.borrow_mut().finish();
        file.commit(written)?;
    }
    if let Some(path) = &args.series {
        output::write_file(path, series::csv(&scenario, &series.borrow()).as_bytes())?;
    }
    if let Some(path) = &args.html {
        let figures = ackclock_lab::pictures::figures(&scenario, &series.borrow(), 1);
        let page = tables::page(&report, &title(&args.scenario), figures);
        output::write_file(path, page.html().as_bytes())?;
    }
    if let Some(path) = &args.trace {
        let (new, file) = NewFile::create(path)?;
        let origin = Origin { program: PROGRAM.to_owned(), ..Origin::default() };
        new.commit(write_traces(BufWriter::new(file), &origin, &simulation, &traces.borrow()))?;
    }
    if let Some(path) = &args.json {
        Described::new(&report).write(path)?;
    }
    Ok(Exit::Done)
}

/// The name of a scenario: that of its file, without its folder and ending.
fn title(scenario: &Path) -> String {
    if output::is_standard(scenario) {
        return "A scenario from stdin".to_owned();
    }
    scenario.file_stem().unwrap_or(scenario.as_os_str()).to_string_lossy().into_owned()
}

/// Runs the scenario in this file. Returns the trace of its connections and queues as a file.
pub(crate) fn trace_of(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut scenario = read(path)?;
    scenario.tcp = scenario.tcp.traced();
    let mut simulation = Simulation::new(&scenario)?;
    let traces = Rc::new(RefCell::new(Traces::new((0..).take(2 * scenario.links.len()))));
    simulation.observe(Rc::clone(&traces));
    simulation.run();
    let mut bytes = Vec::new();
    let origin = Origin { program: PROGRAM.to_owned(), ..Origin::default() };
    write_traces(&mut bytes, &origin, &simulation, &traces.borrow())?;
    Ok(bytes)
}

/// Reads a scenario from a file, or from stdin, and the traces of its links from beside it.
pub(crate) fn read(path: &Path) -> anyhow::Result<Scenario> {
    let standard = output::is_standard(path);
    let text = if standard { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) };
    let name = if standard { "stdin".to_owned() } else { path.display().to_string() };
    let text = text.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Failure::usage(format!(
            "{name} is not text, as a scenario in TOML is; `tcplab explain` and `tcplab convert` read traces and captures",
        )),
        _ => Failure::file("read", path, &error),
    })?;
    let folder = path.parent().filter(|_| !standard).unwrap_or(Path::new(""));
    let read = |trace: &str| fs::read_to_string(folder.join(trace));
    let scenario = Scenario::from_toml_with_traces(&name, &text, read);
    Ok(scenario.map_err(|error| Failure::usage(error.to_string()))?)
}

fn observe_packets(path: &Path, scenario: &Scenario, simulation: &mut Simulation) -> anyhow::Result<Capture> {
    let (new, file) = NewFile::create(path)?;
    let hosts = scenario.hosts.iter().filter_map(|host| {
        let node = simulation.node(&host.name)?;
        Some((node.number, host.name.as_str()))
    });
    let pcapng = Rc::new(RefCell::new(Pcapng::new(file, hosts)));
    simulation.observe(Rc::clone(&pcapng));
    Ok((new, pcapng))
}

/// The number of samples if the scenario does not set an interval.
const SAMPLES: u64 = 1000;
