//! §V-B: whether anything collapses.

use ackclock_core::Instant;
use ackclock_sim::scenario::TcplibMix;
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Report, Scenario, Simulation, TrafficConfig, TrafficKind};
use ackclock_trace::chart::{Figure, Style};

use super::network::{RENO, Sender, VEGAS, fig6, ratio};
use crate::papers::draw::{axis, panel, series};
use crate::papers::many::{Summary, each, run as simulate};
use crate::papers::net::BOTTLENECK;
use crate::papers::{Band, Experiment, Findings, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "VS",
    source: "Brakmo and Peterson 1995, §V-B and fig. 12",
    title: "sixteen connections through a small bottleneck, and a network with a thousand new connections a second",
    set_up: "Sixteen endless connections for 120 s over 50 ms, 100 and 200 KB/s, 10 and 20 buffers, 4 seeds each. Then fig. \
             12, whose drawing is lost: 16 sites of two or three hosts, each with tcplib's traffic to the next sites and \
             four with three bulk transfers besides, at four routers in a ring of 45 Mbit/s and 10 ms, sites at 10 Mbit/s and \
             3 ms, 50 buffers everywhere; 15 s, of which the last 10 count. Everything is Vegas, then Reno.",
    run,
};

fn run() -> anyhow::Result<Findings> {
    let mut values = Vec::new();
    let mut rows = Vec::new();
    for sender in [VEGAS, RENO] {
        let mut least = f64::INFINITY;
        for (rate, buffers) in [(100, 10), (100, 20), (200, 10), (200, 20)] {
            let found = sixteen(sender, rate, buffers, 4)?;
            least = least.min(found.goodput.mean);
            rows.push(vec![
                sender.name.to_owned(),
                rate.to_string(),
                buffers.to_string(),
                format!("{:.3}", found.goodput.mean),
                format!("{:.3}", found.utilisation.mean),
                format!("{:.1}", found.timeouts.mean),
            ]);
        }
        let value = Summary::of([least]).value(format!("16 of {}: least goodput over link", sender.name), "");
        let band = if sender == VEGAS { Band::AtLeast(0.8) } else { Band::Reported };
        values.push(Value { paper: "“no stability problems”", band, ..value });
    }
    let vegas = figure_12(VEGAS, 15)?;
    let reno = figure_12(RENO, 15)?;
    values.push(Value {
        paper: "“nearly a thousand”",
        band: Band::Within(800.0, 1200.0),
        ..Summary::of([vegas.opened]).value("fig. 12: new connections a second", "")
    });
    for (sender, found) in [(VEGAS, &vegas), (RENO, &reno)] {
        let name = format!("fig. 12, {}: goodput of sites with bulk transfers over their links", sender.name);
        let band = if sender == VEGAS { Band::AtLeast(0.8) } else { Band::Reported };
        values.push(Value { paper: "“no stability problems”", band, ..found.goodput.value(name, "") });
    }
    values.push(Value {
        paper: "",
        ..Summary::of([ratio(vegas.tcplib, reno.tcplib)])
            .value("fig. 12: tcplib's bytes, Vegas over Reno", "")
    });
    let head = ["sender", "KB/s", "buffers", "goodput / link", "busy", "timeouts each"];
    let table = Table {
        title: "Sixteen connections, 120 s".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows,
    };
    let figures = vec![figure(&vegas, &reno)];
    Ok(Findings { values, tables: vec![table, network_table(&vegas, &reno)], figures, ..Findings::default() })
}

struct Sixteen {
    /// Payload delivered over what the link can carry of payload.
    goodput: Summary,
    utilisation: Summary,
    timeouts: Summary,
}

fn sixteen(sender: Sender, rate: u64, buffers: u64, seeds: u64) -> anyhow::Result<Sixteen> {
    const SECONDS: u64 = 120;
    let found = each(0..seeds, |seed| {
        let network = fig6(rate, buffers).pairs(16);
        let mut scenario = network.scenario(Span::seconds(SECONDS)).seed(seed).tcp(sender.tcp());
        for n in 1..=16u64 {
            let (name, from, to) = (format!("t{n}"), format!("a{n}"), format!("b{n}"));
            let start = Span::millis((618 * n + 377 * seed) % 1000);
            scenario = scenario.traffic(TrafficConfig::bulk(&name, &from, &to, None).start(start));
        }
        simulate(&scenario)
    })?;
    // Of each 1,400 bytes, 1,360 are payload.
    let payload = rate as f64 * 1000.0 * SECONDS as f64 * 1360.0 / 1400.0;
    let bytes = |report: &Report| report.flows.iter().map(|flow| flow.there.bytes).sum::<u64>() as f64;
    let timeouts = |report: &Report| report.flows.iter().map(|flow| flow.there.timeouts).sum::<u64>() as f64;
    Ok(Sixteen {
        goodput: Summary::over(&found, |report| bytes(report) / payload),
        utilisation: Summary::over(&found, |report| {
            report.link(BOTTLENECK).map_or(0.0, |link| link.utilisation)
        }),
        timeouts: Summary::over(&found, |report| timeouts(report) / 16.0),
    })
}

/// What became of fig. 12.
struct Network {
    /// New connections a second.
    opened: f64,
    /// Goodput of the sites with bulk transfers over what their links can carry of payload.
    goodput: Summary,
    /// Bytes of tcplib's conversations.
    tcplib: f64,
    failed: u64,
    timeouts: u64,
    /// How busy the ring's links are, as report calls them.
    ring: Vec<(String, f64)>,
}

const SITES: usize = 16;
/// Those with bulk transfers.
const BULK_SITES: [usize; 4] = [0, 5, 10, 15];
/// How fast sites are joined to the ring.
const SITE_BYTES_PER_SECOND: u64 = 1_250_000;
/// Mean time between the conversations of one host.
const EVERY: Span = Span::millis(80);

fn figure_12(sender: Sender, seconds: u64) -> anyhow::Result<Network> {
    let scenario = network(sender, seconds);
    let mut simulation = Simulation::new(&scenario)?;
    simulation.run_until(Instant::ZERO + Span::seconds(seconds / 3).duration());
    let before = simulation.report();
    let report = simulation.run();
    let of =
        |prefix: &str| report.flows.iter().filter(|flow| flow.name.starts_with(prefix)).collect::<Vec<_>>();
    let tcplib = of("tcplib");
    let opened: u64 = tcplib.iter().map(|flow| flow.connections).sum();
    let goodputs = BULK_SITES.map(|site| goodput(&scenario, [&before, &report], site));
    let ring = report.links.iter().filter(|link| link.name.starts_with("ring"));
    Ok(Network {
        opened: opened as f64 / report.time,
        goodput: Summary::of(goodputs),
        tcplib: tcplib.iter().map(|flow| flow.there.bytes + flow.back.bytes).sum::<u64>() as f64,
        failed: report.flows.iter().map(|flow| flow.failed).sum(),
        timeouts: report.flows.iter().map(|flow| flow.there.timeouts + flow.back.timeouts).sum(),
        ring: ring.map(|link| (link.name.clone(), link.utilisation)).collect(),
    })
}

/// The goodput of a site between two reports, over what the link carries of payload that joins it to the ring.
fn goodput(scenario: &Scenario, reports: [&Report; 2], site: usize) -> f64 {
    let host = format!("h{site}.");
    let [before, after] = reports.map(|report| {
        let flows = scenario.traffic.iter().zip(&report.flows);
        let sent = flows.map(|(traffic, flow)| {
            let there = if traffic.from.starts_with(&host) { flow.there.bytes } else { 0 };
            let back = if traffic.to.starts_with(&host) { flow.back.bytes } else { 0 };
            there + back
        });
        sent.sum::<u64>()
    });
    let seconds = reports[1].time - reports[0].time;
    // Of each 1,400 bytes, 1,360 are payload.
    (after - before) as f64 / (SITE_BYTES_PER_SECOND as f64 * seconds * 1360.0 / 1400.0)
}

fn network(sender: Sender, seconds: u64) -> Scenario {
    let lan = Direction::new(Rate::mbit(100), Span(100_000)).mtu(1400).buffers(200);
    let site =
        Direction::new(Rate::bytes_per_second(SITE_BYTES_PER_SECOND), Span::millis(3)).mtu(1400).buffers(50);
    let ring = Direction::new(Rate::mbit(45), Span::millis(10)).mtu(1400).buffers(50);
    let mut scenario = Scenario::new(Span::seconds(seconds)).seed(12).tcp(sender.tcp());
    for n in 0..4 {
        scenario = scenario.router(format!("core{n}"));
    }
    for n in 0..4 {
        scenario = scenario.link(&format!("core{n}"), &format!("core{}", (n + 1) % 4), ring.clone());
        scenario.links[n].name = Some(format!("ring{n}"));
    }
    for n in 0..SITES {
        let gateway = format!("gate{n}");
        scenario = scenario.router(&*gateway).link(&gateway, &format!("core{}", n % 4), site.clone());
        if let Some(link) = scenario.links.last_mut() {
            link.name = Some(format!("site{n}"));
        }
        for host in 0..2 + n % 2 {
            let name = format!("h{n}.{host}");
            scenario = scenario.host(&*name).link(&name, &gateway, lan.clone());
        }
    }
    for n in 0..SITES {
        for host in 0..2 + n % 2 {
            // One, three and five sites on: over one, three and one links of the ring.
            let to = format!("h{}.{}", (n + 1 + 2 * host) % SITES, host % 2);
            let what = TrafficKind::Tcplib { every: EVERY, until: None, mix: TcplibMix::default() };
            scenario = scenario.traffic(TrafficConfig::new(
                &format!("tcplib{n}.{host}"),
                &format!("h{n}.{host}"),
                &to,
                what,
            ));
        }
    }
    for site in BULK_SITES {
        for n in 0..3 {
            // On the other side of the ring.
            let to = format!("h{}.{}", (site + 10) % SITES, n % 2);
            let name = format!("bulk{site}.{n}");
            scenario = scenario.traffic(TrafficConfig::bulk(&name, &format!("h{site}.{}", n % 2), &to, None));
        }
    }
    scenario
}

fn network_table(vegas: &Network, reno: &Network) -> Table {
    let row = |name: &str, of: &dyn Fn(&Network) -> String| vec![name.to_owned(), of(vegas), of(reno)];
    let mut rows = vec![
        row("new connections a second", &|one| format!("{:.0}", one.opened)),
        row("connections that ended in error", &|one| one.failed.to_string()),
        row("coarse timeouts", &|one| one.timeouts.to_string()),
        row("tcplib (MB)", &|one| format!("{:.1}", one.tcplib / 1e6)),
    ];
    for (n, (name, _)) in vegas.ring.iter().enumerate() {
        rows.push(row(&format!("{name}, busy"), &|one| format!("{:.2}", one.ring[n].1)));
    }
    Table { title: "Fig. 12".to_owned(), head: ["", "Vegas", "Reno"].map(str::to_owned).to_vec(), rows }
}

fn figure(vegas: &Network, reno: &Network) -> (String, Figure) {
    let bars = |name: &str, colour, found: &Network| {
        let points: Vec<_> = found.ring.iter().zip(0u32..).map(|((_, busy), n)| (n.into(), *busy)).collect();
        series(name, Style::Bars, colour, points)
    };
    let mut x = axis("direction of a link of the ring");
    x.categories = vegas.ring.iter().map(|(name, _)| name.clone()).collect();
    let figure = Figure {
        title: "The ring of fig. 12".to_owned(),
        caption:
            "How busy the links between the four routers are, when everything runs over Vegas and over Reno."
                .to_owned(),
        x,
        panels: vec![panel("share of time", vec![bars("Vegas", 1, vegas), bars("Reno", 0, reno)])],
    };
    ("fig12-ring".to_owned(), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_of_vegas_fill_a_small_bottleneck() {
        let found = sixteen(VEGAS, 100, 10, 1).unwrap();
        assert!(found.goodput.mean >= 0.8, "{}", found.goodput.mean);
    }

    #[test]
    fn the_network_of_figure_12_runs() {
        let found = figure_12(VEGAS, 2).unwrap();
        assert!(found.opened > 300.0 && found.failed == 0, "{}", found.opened);
        assert!(found.tcplib > 1e6, "{}", found.tcplib);
    }
}
