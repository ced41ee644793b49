//! §V-A: how fair Reno and Vegas are.

use ackclock_chart::{Axis, Figure, Style};
use ackclock_core::Instant;
use ackclock_sim::Scenario;
use ackclock_sim::report::jain_index;
use ackclock_sim::scenario::{Jitter, Variation};
use ackclock_sim::units::Span;

use super::network::{RENO, Sender, Transfer, VEGAS, fig6, run_until_over, transfer};
use crate::draw::{axis, colour, measured, panel};
use crate::many::{Summary, each};
use crate::net::BOTTLENECK;
use crate::printed::Place;
use crate::{Band, Experiment, Findings, Table, Value, changes};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "VF",
    source: "Brakmo and Peterson 1995, §V-A",
    title: "Jain's index of 2, 4 and 16 connections, with equal delays and with half of them doubled, and of \
        8 mixed ones",
    set_up: "One bottleneck of 200 KB/s and 20 buffers; each connection between hosts of its \
             own, 8 MB each for 2 and 4, 2 MB for 8 and 16, begun within the first second. One-way \
             delays of 10, 20, 30, 50, 70 and 100 ms, 2 seeds each: 12 runs of each case. A host takes \
             up to 7 ms for a packet. A connection's throughput is that of its own transfer, to its \
             last byte.",
    run,
};

const NOTE: &str = "Sixteen connections of Vegas are about as fair as sixteen of Reno here, where the paper \
                    has them fairer. With 80 buffers nothing is lost, the index of endless ones stays below \
                    0.8, and those that began later have half as much more (last table). That they take the \
                    queue of the others for a part of BaseRTT would do it, but was not tested. Reno's losses \
                    even that out within two minutes.";

const DELAYS_NOT_GIVEN: &str = "the paper gives neither delays nor buffers: its index is within those of \
    single runs here, which differ in the delay (first table)";
const SIXTEEN: &str = "the time that hosts take decides, and the paper gives none: over 1 to 14 ms and 10 \
    to 40 buffers it explains half of the variance of sixteen's index (SWEEPS.md; fourth table)";
const BESIDE_RENO: &str =
    "single runs, which differ in the delay and the starts, range over more than the distance";
/// The most that a host takes for a packet: the time that one takes on the link. Without it, all timers
/// expire at the ticks of one clock, and a packet that meets the full queue at one tick meets it at each
/// (Floyd and Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways", 1992).
const HOST_TIME: Span = Span::millis(7);
const JAIN: &str = "Jain's index";
/// One-way delays in ms.
const DELAYS: [u64; 6] = [10, 20, 30, 50, 70, 100];
const SEEDS: u64 = 2;

/// Connections that share a bottleneck.
#[derive(Clone, Copy)]
struct Case {
    connections: usize,
    /// KB each.
    kilobytes: u64,
    /// Whether every second connection has twice the delay.
    doubled: bool,
    buffers: u64,
    /// The most that a host takes for a packet.
    host: Span,
}

/// Their results.
struct Shares {
    jain: Summary,
    /// Jain's index of the senders at even indices, and of those at odd indices.
    jain_of_half: [Summary; 2],
    /// The mean queue in packets.
    queue: Summary,
    timeouts: Summary,
    /// Mean throughput of the connections with twice the delay, or at odd indices, over that of the others.
    odd_over_even: Summary,
}

fn run() -> anyhow::Result<Findings> {
    let host = Span::millis(changes::open("host-ms", HOST_TIME.0 / 1_000_000)?);
    let case = |connections, kilobytes, doubled| Case { connections, kilobytes, doubled, buffers: 20, host };
    let (small, many) = (8 * 1024, 2 * 1024);
    let equal = [case(2, small, false), case(4, small, false)];
    let doubled = [case(2, small, true), case(4, small, true)];
    let sixteen = [case(16, many, false), case(16, many, true)];
    let mut rows = Vec::new();
    let mut values = Vec::new();
    let groups =
        [("2 and 4, equal delays", equal), ("2 and 4, half doubled", doubled), ("16, both", sixteen)];
    let mut pictured = Vec::new();
    for (name, cases) in groups {
        let paper = [RENO, VEGAS]
            .map(|sender| Place::VEGAS_FAIRNESS.words(JAIN, &format!("{name}: {}", sender.name)));
        let [reno, vegas] = [RENO, VEGAS].map(|sender| {
            cases.iter().map(|case| share(*case, [sender; 2])).collect::<anyhow::Result<Vec<_>>>()
        });
        let found = [reno?, vegas?];
        for (which, case) in cases.iter().enumerate() {
            rows.extend(
                [RENO, VEGAS]
                    .iter()
                    .zip(&found)
                    .map(|(sender, found)| row(*case, sender.name, &found[which])),
            );
        }
        let jain = |found: &[Shares]| Summary::of(found.iter().map(|shares| shares.jain.mean));
        let [reno, vegas] = [jain(&found[0]), jain(&found[1])];
        pictured.push((name, [0, 1].map(|sender| over_all(&found[sender]))));
        values.push(reno.value(format!("{name}: Reno"), "").printed(paper[0]).because(DELAYS_NOT_GIVEN));
        let few = name.starts_with('2');
        let beside = |by: f64| ((reno.mean + by) * 1000.0).round() / 1000.0;
        let limit = few.then(|| Band::Within(beside(-0.02), beside(0.02)));
        let reason = if few { DELAYS_NOT_GIVEN } else { SIXTEEN };
        let value = vegas.value(format!("{name}: Vegas"), "").printed(paper[1]).because(reason);
        values.push(Value { limit, ..value });
    }
    let mixed = mixed()?;
    values.extend(mixed.0);
    Ok(Findings {
        values,
        tables: changes::tables(|| {
            Ok(vec![table(rows), mixed.1, sixteen_by_buffers()?, sixteen_by_host()?, endless()?])
        })?,
        figures: vec![figure(&pictured)],
        notes: vec![NOTE.to_owned()],
    })
}

/// Runs a case over all delays and seeds. Connections at even indices have the first sender, the others the
/// second.
fn share(case: Case, senders: [Sender; 2]) -> anyhow::Result<Shares> {
    share_over(case, senders, &DELAYS, SEEDS)
}

fn share_over(case: Case, senders: [Sender; 2], delays: &[u64], seeds: u64) -> anyhow::Result<Shares> {
    let runs = delays.iter().flat_map(|delay| (0..seeds).map(move |seed| (*delay, seed)));
    let found = each(runs, |(delay, seed)| {
        let scenario = scenario(case, senders, delay, seed);
        let names: Vec<String> = scenario.traffic.iter().map(|traffic| traffic.name.clone()).collect();
        let report = run_until_over(&scenario, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
        let transfers =
            names.iter().map(|name| Transfer::of(&report, name)).collect::<anyhow::Result<Vec<_>>>()?;
        let queue = report.link(BOTTLENECK).map_or(0.0, |link| link.queue_mean);
        Ok((transfers, queue))
    })?;
    let half = |odd: usize| {
        move |transfers: &[Transfer]| -> Vec<f64> {
            transfers.iter().skip(odd).step_by(2).map(|transfer| transfer.throughput).collect()
        }
    };
    let over = |measure: &dyn Fn(&[Transfer]) -> f64| Summary::of(found.iter().map(|(all, _)| measure(all)));
    Ok(Shares {
        jain: over(&|all| jain_index(&all.iter().map(|one| one.throughput).collect::<Vec<_>>())),
        jain_of_half: [0, 1].map(|odd| over(&|all| jain_index(&half(odd)(all)))),
        queue: Summary::of(found.iter().map(|(_, queue)| *queue)),
        timeouts: over(&|all| Summary::of(all.iter().map(|one| one.timeouts)).mean),
        odd_over_even: over(&|all| Summary::of(half(1)(all)).mean / Summary::of(half(0)(all)).mean),
    })
}

fn scenario(case: Case, senders: [Sender; 2], delay: u64, seed: u64) -> Scenario {
    let mut network = fig6(200, case.buffers).pairs(case.connections);
    network.bottleneck.delay = Span::millis(delay);
    let mut scenario = network.scenario(Span::seconds(3600)).seed(seed).tcp(RENO.tcp());
    for n in 1..=case.connections {
        let sender = senders[(n + 1) % 2];
        // Golden-section steps: starts neither coincide nor repeat with the seeds.
        let start = Span::millis((618 * n as u64 + 377 * seed) % 1000);
        scenario = scenario.traffic(transfer(&format!("t{n}"), n, case.kilobytes, sender).start(start));
    }
    let jitter = Jitter { by: Variation::Uniform(case.host), may_reorder: false };
    for link in scenario.links.iter_mut().filter(|link| link.between[1] == "left") {
        link.there.jitter = Some(jitter);
    }
    if case.doubled {
        for link in &mut scenario.links {
            let pair = link.between[0].strip_prefix('a').and_then(|number| number.parse::<usize>().ok());
            if pair.is_some_and(|number| number % 2 == 0) {
                link.there.delay = Span::millis(delay);
            }
        }
    }
    scenario
}

fn row(case: Case, sender: &str, shares: &Shares) -> Vec<String> {
    let delays = if case.doubled { "half doubled" } else { "equal" };
    vec![
        case.connections.to_string(),
        delays.to_owned(),
        case.buffers.to_string(),
        sender.to_owned(),
        format!("{:.3}", shares.jain.mean),
        format!("{:.3} … {:.3}", shares.jain.least, shares.jain.most),
        format!("{:.2}", shares.odd_over_even.mean),
        format!("{:.1}", shares.queue.mean),
        format!("{:.1}", shares.timeouts.mean),
    ]
}

fn table(rows: Vec<Vec<String>>) -> Table {
    Table { title: "Jain's index".to_owned(), head: head(), rows }
}

fn head() -> Vec<String> {
    let head = [
        "connections",
        "delays",
        "buffers",
        "sender",
        "Jain's index",
        "least … largest",
        "odd over even places",
        "queue (packets)",
        "timeouts each",
    ];
    head.map(str::to_owned).to_vec()
}

/// The effect of the number of buffers on sixteen connections.
fn sixteen_by_buffers() -> anyhow::Result<Table> {
    let mut rows = Vec::new();
    for buffers in [10, 20, 40, 80] {
        for sender in [RENO, VEGAS] {
            let case = Case { connections: 16, kilobytes: 1024, doubled: false, buffers, host: HOST_TIME };
            rows.push(row(case, sender.name, &share_over(case, [sender; 2], &[50], 3)?));
        }
    }
    Ok(Table { title: "Sixteen connections of 1 MB, by buffers, 50 ms".to_owned(), head: head(), rows })
}

/// The effect of the time that hosts take on sixteen connections, over all delays.
fn sixteen_by_host() -> anyhow::Result<Table> {
    let rows = [1, 3, 7, 14].into_iter().map(|ms| {
        let mut cells = vec![ms.to_string()];
        for sender in [RENO, VEGAS] {
            let case = |doubled| Case {
                connections: 16,
                kilobytes: 2 * 1024,
                doubled,
                buffers: 20,
                host: Span::millis(ms),
            };
            let [equal, doubled] =
                [false, true].map(|doubled| share_over(case(doubled), [sender; 2], &DELAYS, 1));
            cells.push(format!("{:.3}", (equal?.jain.mean + doubled?.jain.mean) / 2.0));
        }
        Ok(cells)
    });
    Ok(Table {
        title: "Jain's index of sixteen connections by the host's time".to_owned(),
        head: ["at most (ms)", "Reno", "Vegas"].map(str::to_owned).to_vec(),
        rows: rows.collect::<anyhow::Result<_>>()?,
    })
}

/// Sixteen endless connections: whether their shares converge.
fn endless() -> anyhow::Result<Table> {
    const ENDS: [u64; 3] = [60, 120, 240];
    let rows = each([(RENO, 20), (VEGAS, 20), (RENO, 80), (VEGAS, 80)], |(sender, buffers)| {
        let case = Case { connections: 16, kilobytes: 64 * 1024, doubled: false, buffers, host: HOST_TIME };
        let scenario = scenario(case, [sender; 2], 50, 1);
        let mut simulation = changes::simulation(&scenario)?;
        let mut cells = vec![sender.name.to_owned(), buffers.to_string()];
        let mut before = vec![0.0; case.connections];
        for end in ENDS {
            simulation.run_until(Instant::ZERO + Span::seconds(end).duration());
            let bytes: Vec<f64> =
                simulation.report().flows.iter().map(|flow| flow.there.bytes as f64).collect();
            let since: Vec<f64> = bytes.iter().zip(&before).map(|(now, before)| now - before).collect();
            cells.push(format!("{:.3}", jain_index(&since)));
            before = bytes;
        }
        let begun = |late: bool| {
            let all = scenario.traffic.iter().zip(&before);
            Summary::of(
                all.filter(|(one, _)| (one.start >= Span::millis(500)) == late).map(|(_, bytes)| *bytes),
            )
        };
        cells.push(format!("{:.2}", begun(true).mean / begun(false).mean));
        let dropped = simulation.report().link(BOTTLENECK).map_or(0, |link| link.dropped());
        cells.push(dropped.to_string());
        Ok(cells)
    })?;
    let head =
        ["sender", "buffers", "0-60 s", "60-120 s", "120-240 s", "later over earlier half", "packets lost"];
    Ok(Table {
        title: "Jain's index of sixteen endless connections, by interval, 50 ms, one seed".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows,
    })
}

/// Eight connections: all Reno, all Vegas, and half and half.
fn mixed() -> anyhow::Result<(Vec<Value>, Table)> {
    let case = Case { connections: 8, kilobytes: 2 * 1024, doubled: false, buffers: 20, host: HOST_TIME };
    let [reno, vegas] = [RENO, VEGAS].map(|sender| share(case, [sender; 2]));
    let (reno, vegas, mixed) = (reno?, vegas?, share(case, [RENO, VEGAS])?);
    // §V-A: "slightly more fair" is a difference of 0.004, and one of 0.009.
    let little = |all: Summary| {
        let round = |index: f64| (index * 1e4).round() / 1e4;
        Band::Within(round(all.mean - 0.009), round(all.mean + 0.009))
    };
    let values = vec![
        reno.jain.value("8 of Reno", ""),
        Value {
            paper: "as 8 of Reno",
            band: little(reno.jain),
            ..mixed.jain_of_half[0].value("4 of Reno beside 4 of Vegas", "")
        },
        vegas.jain.value("8 of Vegas", ""),
        Value {
            paper: "as 8 of Vegas",
            band: little(vegas.jain),
            reason: Some(BESIDE_RENO),
            ..mixed.jain_of_half[1].value("4 of Vegas beside 4 of Reno", "")
        },
        mixed.odd_over_even.value("throughput of Vegas over that of Reno beside it", ""),
    ];
    let rows =
        vec![row(case, "8 Reno", &reno), row(case, "8 Vegas", &vegas), row(case, "4 Reno, 4 Vegas", &mixed)];
    Ok((values, Table { title: "Eight connections, mixed".to_owned(), head: head(), rows }))
}

/// The mean over cases, with the least and the most of their single runs.
fn over_all(found: &[Shares]) -> Summary {
    let of = |edge: fn(&Shares) -> f64| Summary::of(found.iter().map(edge));
    let mean = of(|shares| shares.jain.mean);
    Summary { least: of(|shares| shares.jain.least).least, most: of(|shares| shares.jain.most).most, ..mean }
}

fn figure(found: &[(&str, [Summary; 2])]) -> (String, Figure) {
    let bar = |(which, sender): (usize, Sender)| {
        let heights = found.iter().zip(0u32..).map(|((_, jain), n)| (n.into(), jain[which]));
        measured(sender.name, Style::Bars, colour(sender.name), heights)
    };
    let paper = |sender: Sender| {
        let of = |name: &str| Place::VEGAS_FAIRNESS.number(JAIN, &format!("{name}: {}", sender.name));
        (colour(sender.name), found.iter().zip(0u32..).map(|((name, _), n)| (n.into(), of(name))).collect())
    };
    let bars = [RENO, VEGAS].into_iter().enumerate().map(bar);
    let paper = Place::VEGAS_FAIRNESS.rings([RENO, VEGAS].map(paper));
    let mut panel = panel(JAIN, bars.chain(paper).collect());
    // Room for marks at 1.
    panel.y.range = Some((0.0, 1.05));
    let figure = Figure {
        title: "Fairness".to_owned(),
        caption: "Jain's index of the throughputs of 2 and 4 connections of 8 MB and of 16 of 2 MB that \
                  share 200 KB/s, mean over delays from 10 to 100 ms, with the least and the most of single runs."
            .to_owned(),
        x: Axis { categories: found.iter().map(|(name, _)| (*name).to_owned()).collect(), ..axis("") },
        panels: vec![panel],
    };
    ("fairness".to_owned(), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_connections_are_about_as_fair_with_vegas_as_with_reno() {
        let case = Case { connections: 4, kilobytes: 4096, doubled: true, buffers: 20, host: HOST_TIME };
        let [reno, vegas] = [RENO, VEGAS].map(|sender| share_over(case, [sender; 2], &[20, 50], 1).unwrap());
        assert!(vegas.jain.mean >= reno.jain.mean - 0.02, "{} {}", vegas.jain.mean, reno.jain.mean);
    }
}
