//! §V-C: how long TELNET's echoes take when all traffic uses Vegas.

use ackclock_chart::{Figure, Style};
use ackclock_sim::scenario::TcplibMix;
use ackclock_sim::units::{Share, Span};
use ackclock_sim::{Scenario, TrafficConfig, TrafficKind};

use super::network::{RENO, Sender, VEGAS, fig6, flow, ratio};
use crate::draw::{axis, colour, measured, panel, series};
use crate::many::{Summary, each, run as simulate};
use crate::net::BOTTLENECK;
use crate::printed::Place;
use crate::{Band, Experiment, Findings, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "VQ",
    source: "Brakmo and Peterson 1995, §V-C",
    title: "TELNET's response time and the queue, with everything over Vegas and everything over Reno",
    set_up: "The network of fig. 6 with 20 buffers and 120 s of tcplib's traffic, of which TELNET's \
             conversations are measured apart from the others. The paper does not say how dense the traffic \
             is: conversations begin every 80, 100, 125, 160 and 200 ms on average, 6 seeds each.",
    run,
};

/// Mean times between conversations, in ms.
const EVERY: [u64; 5] = [80, 100, 125, 160, 200];
const SEEDS: u64 = 6;

struct Latency {
    /// Mean time from a character to its echo, in ms.
    echo: Summary,
    queue: Summary,
    busy: Summary,
}

fn run() -> anyhow::Result<Findings> {
    let mut found = Vec::new();
    for every in EVERY {
        found.push([latency(RENO, every, SEEDS)?, latency(VEGAS, every, SEEDS)?]);
    }
    let saved = |[reno, vegas]: &[Latency; 2]| 100.0 * (1.0 - ratio(vegas.echo.mean, reno.echo.mean));
    let saved: Vec<f64> = found.iter().map(saved).collect();
    let queues = found.iter().map(|[reno, vegas]| ratio(vegas.queue.mean, reno.queue.mean));
    let values = vec![
        Value {
            paper: "18 to 40",
            band: Band::Within(17.5, 40.5),
            ..Summary::of(saved.iter().copied()).value("TELNET's response time, less with Vegas by", "%")
        },
        Value {
            paper: "“approximately the same”",
            band: Band::UNCHANGED,
            ..Summary::of(queues).value("mean queue, Vegas over Reno", "")
        },
    ];
    Ok(Findings {
        values,
        tables: vec![table(&found, &saved)],
        figures: vec![figure(&found, &saved)],
        ..Findings::default()
    })
}

fn latency(sender: Sender, every: u64, seeds: u64) -> anyhow::Result<Latency> {
    let found = each(0..seeds, |seed| {
        let report = simulate(&scenario(sender, every).seed(seed))?;
        let link = report.link(BOTTLENECK).map(|link| [link.queue_mean, link.utilisation]);
        let [queue, busy] = link.unwrap_or_default();
        Ok([flow(&report, "telnet")?.latency.mean * 1000.0, queue, busy])
    })?;
    let [echo, queue, busy] = [0, 1, 2].map(|which| Summary::of(found.iter().map(|one| one[which])));
    Ok(Latency { echo, queue, busy })
}

fn scenario(sender: Sender, every: u64) -> Scenario {
    let tcplib = |name, pair: usize, every, mix| {
        let what = TrafficKind::Tcplib { every: Span::millis(every), until: None, mix };
        TrafficConfig::new(name, &format!("a{pair}"), &format!("b{pair}"), what)
    };
    let (all, none) = (TcplibMix::default(), Share::ZERO);
    let others = TcplibMix { telnet: none, ..all };
    let only_telnet = TcplibMix { ftp: none, nntp: none, smtp: none, ..all };
    let part = |mix: TcplibMix| {
        [mix.telnet, mix.ftp, mix.nntp, mix.smtp].iter().map(|share| share.fraction()).sum::<f64>()
    };
    // As far apart as they are among all conversations.
    let of = |mix| (every as f64 * part(all) / part(mix)).round() as u64;
    fig6(200, 20)
        .scenario(Span::seconds(120))
        .tcp(sender.tcp())
        .traffic(tcplib("telnet", 1, of(only_telnet), only_telnet))
        .traffic(tcplib("others", 2, of(others), others))
}

fn table(found: &[[Latency; 2]], saved: &[f64]) -> Table {
    let rows = EVERY.iter().zip(found).zip(saved).map(|((every, [reno, vegas]), saved)| {
        vec![
            every.to_string(),
            format!("{:.2}", reno.busy.mean),
            format!("{:.0}", reno.echo.mean),
            format!("{:.0}", vegas.echo.mean),
            format!("{saved:.0} %"),
            format!("{:.1}", reno.queue.mean),
            format!("{:.1}", vegas.queue.mean),
        ]
    });
    let head = [
        "conversations every (ms)",
        "link busy (Reno)",
        "response, Reno (ms)",
        "response, Vegas (ms)",
        "less by",
        "queue, Reno",
        "queue, Vegas",
    ];
    Table {
        title: "TELNET's response time".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn figure(found: &[[Latency; 2]], saved: &[f64]) -> (String, Figure) {
    let curve = |(sender, which): (Sender, usize)| {
        let points = EVERY.iter().zip(found).map(|(every, both)| (*every as f64, both[which].echo));
        measured(sender.name, Style::Line, colour(sender.name), points)
    };
    let less = EVERY.iter().zip(saved).map(|(every, saved)| (*every as f64, *saved));
    let mut less = vec![series("less with Vegas", Style::Line, colour(VEGAS.name), less)];
    let level = |of: &str| {
        let number = Place::VEGAS_LATENCY.number("% less latency", of);
        (colour(VEGAS.name), EVERY.map(|every| (every as f64, number)).to_vec())
    };
    less.extend(Place::VEGAS_LATENCY.dotted(["at least", "at most"].map(level)));
    let figure = Figure {
        title: "TELNET's response time".to_owned(),
        caption: "Mean time from a character to its echo, by the mean time between tcplib's conversations, \
                  when all of them run over Reno and over Vegas, with the least and the most of 6 runs; \
                  below, how much less it is with Vegas."
            .to_owned(),
        x: axis("conversations every (ms)"),
        panels: vec![
            panel("response (ms)", [(RENO, 0), (VEGAS, 1)].map(curve).to_vec()),
            panel("less (%)", less),
        ],
    };
    ("telnet-response".to_owned(), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telnet_is_answered_sooner_when_all_run_vegas() {
        let [reno, vegas] = [RENO, VEGAS].map(|sender| latency(sender, 125, 2).unwrap().echo.mean);
        assert!(vegas < reno, "{vegas} {reno}");
    }
}
