//! Fig. 11: slow start of Vegas and of Vegas*.

use ackclock_chart::{Axis, Figure, Style};
use ackclock_sim::papers::vegas::slow_start as scenario;
use ackclock_sim::units::{Rate, Span};

use super::network::{
    MEGABYTE, RENO, Sender, Transfer, VEGAS, VEGAS_LATE, VEGAS_STAR, fig6, flow, run_until_over, transfer,
};
use super::watch::{watch, windows};
use crate::draw::{axis, colour, panel, series};
use crate::many::{Summary, each};
use crate::net::{BOTTLENECK, FIG6_PACKET_BYTES};
use crate::printed::Place;
use crate::{Band, Experiment, Findings, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "VE11",
    source: "Brakmo and Peterson 1995, fig. 11",
    title: "slow start into 300 KB/s and 16 buffers, by Vegas and by Vegas*",
    set_up: "The network of fig. 6 with 300 KB/s and 16 buffers; a megabyte without other traffic. The table \
             and the last picture show other numbers of buffers.",
    run,
};

const BUFFERS: u64 = 16;
const NO_LOSS: &str = "the threshold of slow start decides, with the time that a host takes for a packet: at \
    one buffer, as the paper says, Vegas stops at 16 segments with any host. At two it goes on to 32, and \
    loses exactly one where a host takes 2 ms, while fig. 7 stays without loss (second table)";

fn run() -> anyhow::Result<Findings> {
    let [vegas, star] = [VEGAS, VEGAS_STAR].map(|sender| start(sender, BUFFERS));
    let ([vegas, vegas_queue], [star, star_queue]) = (vegas?, star?);
    let values = vec![
        Value {
            paper: "“a packet is lost”",
            band: Band::Within(1.0, 1.0),
            reason: Some(NO_LOSS),
            ..Summary::of([vegas]).value("packets that Vegas loses", "")
        },
        Value {
            paper: "none",
            band: Band::AtMost(0.0),
            ..Summary::of([star]).value("packets that Vegas* loses", "")
        },
        Value {
            paper: "Vegas* needs fewer buffers",
            band: Band::Below(vegas_queue),
            ..Summary::of([star_queue]).value("longest queue of Vegas*", "packets")
        },
    ];
    let (table, lost) = buffers()?;
    Ok(Findings {
        values,
        tables: vec![table, thresholds()?],
        figures: vec![picture("fig11-vegas", VEGAS)?, picture("fig11-vegas-star", VEGAS_STAR)?, lost],
        notes: Vec::new(),
    })
}

/// Packets dropped at the bottleneck, and the longest queue.
fn start(sender: Sender, buffers: u64) -> anyhow::Result<[f64; 2]> {
    let report = run_until_over(&scenario(sender, buffers), &["transfer"])?;
    let link = report.link(BOTTLENECK).map(|link| [link.dropped() as f64, link.queue_peak.into()]);
    Ok(link.unwrap_or_default())
}

/// Packets lost with other numbers of buffers.
fn buffers() -> anyhow::Result<(Table, (String, Figure))> {
    const SENDERS: [Sender; 3] = [RENO, VEGAS, VEGAS_STAR];
    let found = each(4..=24, |buffers| {
        let [reno, vegas, star] = SENDERS.map(|sender| start(sender, buffers));
        Ok((buffers, [reno?[0], vegas?[0], star?[0]]))
    })?;
    let rows = found.iter().map(|(buffers, lost)| {
        std::iter::once(buffers.to_string()).chain(lost.iter().map(|lost| format!("{lost:.0}"))).collect()
    });
    let head = std::iter::once("buffers").chain(SENDERS.map(|sender| sender.name));
    let table = Table {
        title: "Packets lost in a megabyte, by buffers".to_owned(),
        head: head.map(str::to_owned).collect(),
        rows: rows.collect(),
    };
    let series = SENDERS.into_iter().enumerate().map(|(n, sender)| {
        let points: Vec<_> = found.iter().map(|(buffers, lost)| (*buffers as f64, lost[n])).collect();
        series(sender.name, Style::Line, colour(sender.name), points)
    });
    let paper = [VEGAS, VEGAS_STAR].map(|sender| {
        let lost = Place::VEGAS_11.number("packets lost", sender.name);
        (colour(sender.name), vec![(BUFFERS as f64, lost)])
    });
    let series = series.chain(Place::VEGAS_11.rings(paper));
    let figure = Figure {
        title: "What slow start costs, by buffers".to_owned(),
        caption:
            "Packets lost of a megabyte over 300 KB/s and 50 ms, alone, with 4 to 24 buffers at the router."
                .to_owned(),
        x: axis("buffers"),
        panels: vec![panel("packets lost", series.collect())],
    };
    Ok((table, ("fig11-buffers".to_owned(), figure)))
}

/// Figs. 7 and 11 by the threshold of slow start and by the time that a host takes for a packet.
fn thresholds() -> anyhow::Result<Table> {
    let senders = [VEGAS].into_iter().chain(VEGAS_LATE);
    // 1.12 ms are those of an Ethernet of 10 Mbit/s.
    let rows = senders.flat_map(|sender| [1_120, 2_000, 3_000].map(|host_us| (sender, host_us)));
    let rows = each(rows, |(sender, host_us)| {
        let run = |rate, buffers| {
            let mut network = fig6(rate, buffers);
            network.access.rate = Rate::bytes_per_second(FIG6_PACKET_BYTES * 1_000_000 / host_us);
            let transfer = transfer("transfer", 2, MEGABYTE, sender);
            let scenario = network.scenario(Span::seconds(60)).tcp(sender.tcp()).traffic(transfer);
            let report = run_until_over(&scenario, &["transfer"])?;
            let rate = Transfer::from(flow(&report, "transfer")?).throughput;
            anyhow::Ok((
                format!("{rate:.1}"),
                report.link(BOTTLENECK).map_or(0, |link| link.dropped()).to_string(),
            ))
        };
        let fig7 = run(200, 10)?;
        let mut cells = vec![sender.name.to_owned(), format!("{:.2}", host_us as f64 / 1e3), fig7.0, fig7.1];
        for buffers in [BUFFERS - 1, BUFFERS, BUFFERS + 1] {
            cells.push(run(300, buffers)?.1);
        }
        Ok(cells)
    })?;
    let head = [
        "Vegas",
        "host's time (ms a packet)",
        "fig. 7 (KB/s)",
        "fig. 7, lost",
        "fig. 11, lost with 15 buffers",
        "with 16",
        "with 17",
    ];
    Ok(Table {
        title: "Vegas by the threshold of slow start and by the host's time".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows,
    })
}

fn picture(stem: &str, sender: Sender) -> anyhow::Result<(String, Figure)> {
    let watched = watch(scenario(sender, BUFFERS), &["transfer"])?;
    let figure = Figure {
        title: format!("Slow start of {}", sender.name),
        caption: format!(
            "The first 2.5 s of a transfer by {} over 300 KB/s, 50 ms and 16 buffers: congestion window and \
             bytes in transit, rate at the receiver over 100 ms, and the bottleneck's queue with what it \
             drops.",
            sender.name
        ),
        x: Axis { range: Some((0.0, 2.5)), ..axis("time (s)") },
        panels: windows(&watched, "transfer", sender, 2.5),
    };
    Ok((stem.to_owned(), figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vegas_loses_a_packet_where_vegas_star_loses_none() {
        let lost = |buffers| [VEGAS, VEGAS_STAR].map(|sender| start(sender, buffers).unwrap()[0]);
        assert_eq!([8, BUFFERS].map(lost), [[1.0, 0.0], [0.0, 0.0]]);
    }
}
