//! §V-B: whether there is a collapse.

use ackclock_sim::units::Span;
use ackclock_sim::{Report, TrafficConfig};

use super::network::{RENO, Sender, VEGAS, fig6, ratio};
use super::ring::{figure, figure_12, links_table, network_table};
use crate::many::{Summary, each, run as simulate};
use crate::net::BOTTLENECK;
use crate::{Band, Experiment, Findings, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "VS",
    source: "Brakmo and Peterson 1995, §V-B and fig. 12",
    title: "sixteen connections through a small bottleneck, and a network with a thousand new connections a \
        second",
    set_up: "Sixteen endless connections for 120 s over 50 ms, 100 and 200 KB/s, 10 and 20 buffers, 4 seeds \
             each. Then fig. 12, whose drawing is lost: 16 sites of two or three hosts, each with tcplib's \
             traffic to the next sites and four with three bulk transfers besides, at four routers in a ring \
             of 45 Mbit/s and 10 ms, sites at 10 Mbit/s and 3 ms, 50 buffers everywhere; 15 s; the last 10 \
             count. Everything is Vegas, then Reno.",
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
        let band = if sender == VEGAS { Band::AtLeast(0.8) } else { Band::NoReference };
        values.push(Value { paper: "“no stability problems”", band, ..value });
    }
    let vegas = figure_12(VEGAS, 15)?;
    let reno = figure_12(RENO, 15)?;
    values.push(Value {
        paper: "“nearly a thousand”: the density is chosen by it",
        limit: Some(Band::Within(800.0, 1200.0)),
        ..Summary::of([vegas.opened]).value("fig. 12: new connections a second", "")
    });
    let both = [(VEGAS, &vegas), (RENO, &reno)];
    for (sender, found) in both {
        let name = format!("fig. 12, {}: goodput over link, where bulk transfers are held up", sender.name);
        let band = if sender == VEGAS { Band::AtLeast(0.8) } else { Band::NoReference };
        values.push(Value {
            paper: "“no stability problems”", band, ..found.bottlenecks().value(name, "")
        });
    }
    for (sender, found) in both {
        let name =
            format!("fig. 12, {}: the same of the links of the sites that they come from", sender.name);
        // The first reading of the lost drawing; the note says why the second is the one that counts.
        let band = if sender == VEGAS { Band::AtLeast(0.8) } else { Band::NoReference };
        values.push(Value {
            paper: "“no stability problems”",
            band,
            reason: Some(IDLE_OWN_LINK),
            ..found.own_links().value(name, "")
        });
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
    let tables = vec![table, network_table(&vegas, &reno), links_table(&both)];
    Ok(Findings { values, tables, figures, notes: vec![NOTE.to_owned()] })
}

const IDLE_OWN_LINK: &str = "most of the transfers are held up on the link from the ring to the site that \
    they go to, and leave their own idle for a sixth to a third of the time (last table)";
/// Why there are two goodputs for fig. 12.
const NOTE: &str = "A site's bulk transfers are held up on its own link to the ring or on that from the ring \
                    to the site they go to, which is full of others' conversations besides; the ring is \
                    never more than half busy. So the link of the two that has less room left is the one to \
                    hold against the band. What such a link does beside carrying payload for the first time \
                    is in the last table.";

struct Sixteen {
    /// Payload delivered, over the payload that the link can carry.
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
