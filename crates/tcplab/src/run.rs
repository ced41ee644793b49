//! `tcplab run`: one scenario.

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ackclock_sim::observe::{Pcapng, Series};
use ackclock_sim::report::{FlowReport, LinkReport, Report};
use ackclock_sim::units::Span;
use ackclock_sim::{Scenario, Simulation};
use tcplab::table::{bit_rate, columns, millis, number, percent};

use crate::exit::{Exit, Failure};
use crate::output::{self, NewFile};

/// Options of `tcplab run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario, a TOML file
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Another seed than the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// File for all that was measured, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// File for the packets of all hosts, as pcapng, which Wireshark opens
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// File for queues, windows and progress over time, as CSV; a thousand samples unless the scenario says how often
    #[arg(long, value_name = "FILE.csv")]
    series: Option<PathBuf>,
}

type Capture = (NewFile, Rc<RefCell<Pcapng<File>>>);

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut scenario = read(args)?;
    if let Some(seed) = args.seed {
        scenario.seed = seed;
    }
    if args.series.is_some() && scenario.sample_every.is_none() {
        scenario.sample_every = Some(Span((scenario.duration.0 / SAMPLES).max(1)));
    }
    let mut simulation = Simulation::new(&scenario)?;
    let capture =
        args.pcap.as_ref().map(|path| observe_packets(path, &scenario, &mut simulation)).transpose()?;
    let series = Rc::new(RefCell::new(Series::default()));
    if args.series.is_some() {
        simulation.observe(Rc::clone(&series));
    }
    let report = simulation.run();
    output::print(&tables(&report))?;
    if let Some((file, pcapng)) = capture {
        let written = pcapng.borrow_mut().finish();
        file.commit(written)?;
    }
    if let Some(path) = &args.series {
        output::write_file(path, csv(&scenario, &series.borrow()).as_bytes())?;
    }
    if let Some(path) = &args.json {
        output::write_json(path, &report)?;
    }
    Ok(Exit::Done)
}

fn read(args: &Args) -> anyhow::Result<Scenario> {
    let text =
        fs::read_to_string(&args.scenario).map_err(|error| Failure::file("read", &args.scenario, &error))?;
    let name = args.scenario.display().to_string();
    Ok(Scenario::from_toml(&name, &text).map_err(|error| Failure::usage(error.to_string()))?)
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

/// A table of the flows and one of the links.
fn tables(report: &Report) -> String {
    let flows = [
        "flow",
        "connections",
        "failed",
        "delivered",
        "goodput",
        "sent again",
        "timeouts",
        "RTT mean",
        "RTT p99",
        "answers p99",
        "done after",
    ];
    let links = [
        "link",
        "packets",
        "used",
        "dropped",
        "marked",
        "queue mean",
        "queue most",
        "queueing delay mean",
        "p99",
    ];
    format!(
        "{} s with seed {}\n\n{}\n{}\nJain's index of the flows: {}\n",
        number(report.time),
        report.seed,
        columns(&flows, &report.flows.iter().map(flow_row).collect::<Vec<_>>()),
        columns(&links, &report.links.iter().map(link_row).collect::<Vec<_>>()),
        number(report.jain_index)
    )
}

fn flow_row(flow: &FlowReport) -> Vec<String> {
    let both = |of: fn(&ackclock_sim::report::WayReport) -> u64| of(&flow.there) + of(&flow.back);
    let (sent, again) = (both(|way| way.bytes_sent), both(|way| way.bytes_retransmitted));
    let time = |count: u64, seconds: f64| if count == 0 { "-".to_owned() } else { millis(seconds) };
    let (rtt, latency) = (flow.there.rtt, flow.latency);
    vec![
        flow.name.clone(),
        flow.connections.to_string(),
        flow.failed.to_string(),
        format!("{} B", both(|way| way.bytes)),
        bit_rate(flow.goodput_bytes_per_second),
        percent(again as f64 / sent.max(1) as f64),
        both(|way| way.timeouts).to_string(),
        time(rtt.count, rtt.mean),
        time(rtt.count, rtt.p99),
        time(latency.count, latency.p99),
        flow.completed.map_or("-".to_owned(), |at| format!("{} s", number(at))),
    ]
}

fn link_row(link: &LinkReport) -> Vec<String> {
    let drops: Vec<String> =
        link.drops.iter().map(|(rule, count)| format!("{count} {}", in_words(rule))).collect();
    vec![
        link.name.clone(),
        link.sent.to_string(),
        percent(link.utilisation),
        if drops.is_empty() { "0".to_owned() } else { drops.join(", ") },
        link.marked.to_string(),
        number(link.queue_mean),
        link.queue_peak.to_string(),
        millis(link.queue_delay.mean),
        millis(link.queue_delay.p99),
    ]
}

/// A rule by the name that it has in JSON.
fn in_words(rule: &ackclock_sim::queue::DropRule) -> String {
    let name = serde_json::to_value(rule).ok().and_then(|name| name.as_str().map(str::to_owned));
    name.unwrap_or_else(|| format!("{rule:?}"))
}

/// A line for each sample: the time, then four values of each direction of each link, then four of each traffic.
fn csv(scenario: &Scenario, series: &Series) -> String {
    let mut head = vec!["seconds".to_owned()];
    for link in &scenario.links {
        for way in ["there", "back"] {
            let name = format!("{}:{way}", link.label());
            let columns = ["queue_packets", "queue_bytes", "sent_bytes", "dropped"];
            head.extend(columns.map(|column| quoted(&format!("{name} {column}"))));
        }
    }
    for traffic in &scenario.traffic {
        let columns = ["bytes", "bytes_back", "cwnd", "in_flight"];
        head.extend(columns.map(|column| quoted(&format!("{} {column}", traffic.name))));
    }
    let mut text = head.join(",") + "\n";
    for ((at, links), flows) in series.at_ns.iter().zip(&series.links).zip(&series.flows) {
        let mut line = vec![format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000)];
        for link in links {
            let values = [u64::from(link.queue_packets), link.queue_bytes, link.sent_bytes, link.dropped];
            line.extend(values.map(|value| value.to_string()));
        }
        for flow in flows {
            line.extend(
                [flow.bytes, flow.bytes_back, flow.cwnd, flow.in_flight].map(|value| value.to_string()),
            );
        }
        text += &line.join(",");
        text.push('\n');
    }
    text
}

/// A name as a field of CSV.
fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}

/// Samples of a run whose scenario does not say how often.
const SAMPLES: u64 = 1000;
