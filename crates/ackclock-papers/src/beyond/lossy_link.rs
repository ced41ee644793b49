//! Cardwell et al. 2017, fig. 8: CUBIC and BBR by random loss.

use ackclock_sim::scenario::Loss;
use ackclock_sim::units::{Rate, Share, Span};
use ackclock_sim::{Direction, TcpSettings, TrafficConfig};
use anyhow::Context;

use crate::many::{Summary, each, run as simulate};
use crate::net::Dumbbell;
use crate::{Band, Experiment, Findings, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "B17",
    source: "Cardwell, Cheng, Gunn, Yeganeh and Jacobson, \"BBR: Congestion-Based Congestion Control\", CACM \
             60(2), 2017, fig. 8",
    title: "the goodput of CUBIC and BBR by random loss",
    set_up: "One flow of 60 s over 100 Mbit/s and a round trip of 100 ms, with independent loss; a buffer of \
             a bandwidth-delay product, which the paper does not give. Goodput is a share of what the link \
             carries of data, for BBR of that without the lost share. The paper has version 1 of BBR, which \
             does not answer loss: `bbr:loss=ignored` is version 3 without its answer. Three runs a value. \
             Within a twentieth of the limit meets it, within a tenth is close; a flow stalls below a \
             fiftieth, which no reader of a graph would see.",
    run,
};

/// The paper's value for a controller at a rate of loss.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    congestion: &'static str,
    per_thousand: u32,
    paper: &'static str,
    band: Band,
    /// Whether the share is that of what the losses leave of the link.
    of_limit: bool,
    reason: Option<&'static str>,
}

const ROWS: [Row; 8] = [
    Row { paper: "falls to a tenth", band: Band::AtMost(0.1), ..cubic(1) },
    Row { paper: "stalls", band: Band::AtMost(0.02), ..cubic(20) },
    version_1(1),
    version_1(10),
    Row { reason: Some(CRUISES), ..version_1(50) },
    Row { paper: "close to 1", band: CLOSE, reason: Some(CRUISES), ..version_1(150) },
    version_3(10),
    Row { reason: Some(ANSWERS), ..version_3(50) },
];

const fn cubic(per_thousand: u32) -> Row {
    Row { name: "CUBIC", congestion: "cubic", of_limit: false, ..version_3(per_thousand) }
}

const fn version_1(per_thousand: u32) -> Row {
    Row { name: "BBR without an answer", congestion: "bbr:loss=ignored", ..version_3(per_thousand) }
}

const fn version_3(per_thousand: u32) -> Row {
    Row {
        name: "BBR version 3",
        congestion: "bbr",
        per_thousand,
        paper: "1: meets the limit",
        band: MEETS,
        of_limit: true,
        reason: None,
    }
}

fn run() -> anyhow::Result<Findings> {
    Ok(Findings { values: each(ROWS, value)?, ..Findings::default() })
}

fn value(row: Row) -> anyhow::Result<Value> {
    let loss = f64::from(row.per_thousand) / 1000.0;
    let limit = if row.of_limit { 1.0 - loss } else { 1.0 };
    let shares = each(0..RUNS, |seed| Ok(goodput(row, seed)? / (DATA_BYTES_PER_SECOND * limit)))?;
    let name = format!("{}: goodput at {} % loss", row.name, loss * 100.0);
    Ok(Value { paper: row.paper, band: row.band, reason: row.reason, ..Summary::of(shares).value(name, "") })
}

/// Bytes a second that the receiver read.
fn goodput(row: Row, seed: u64) -> anyhow::Result<f64> {
    let loss = Loss::Independent(Share::per_million(row.per_thousand * 1000));
    let bottleneck = Direction::new(LINK, Span::millis(50)).buffers(BUFFERS);
    let network = Dumbbell {
        pairs: 1,
        access: Direction::new(Rate::mbit(10_000), Span(0)),
        back: Some(bottleneck.clone()),
        bottleneck: bottleneck.loss(loss),
    };
    let tcp = TcpSettings { congestion: Some(row.congestion.to_owned()), ..TcpSettings::profile("bbr") };
    let scenario = network
        .scenario(Span::seconds(SECONDS))
        .seed(seed)
        .tcp(tcp.fixed_window(16 << 20))
        .traffic(TrafficConfig::bulk("flow", "a1", "b1", None));
    let report = simulate(&scenario)?;
    Ok(report.flow("flow").context("no flow")?.there.bytes as f64 / SECONDS as f64)
}

const LINK: Rate = Rate::mbit(100);
/// 1,448 of 1,500 bytes are data.
const DATA_BYTES_PER_SECOND: f64 = 12_500_000.0 * 1448.0 / 1500.0;
const BUFFERS: u64 = 833;
const SECONDS: u64 = 60;
const RUNS: u64 = 3;
const MEETS: Band = Band::AtLeast(0.95);
const CLOSE: Band = Band::AtLeast(0.9);
const CRUISES: &str = "version 3 cruises for five sixths of the time at the bandwidth that it measured, \
    the link times 1 - p, and loses p of that again (a trace at 15 %: 83 of 85 Mbit/s measured, 84 % of \
    the time cruising, 8 % probing upwards, 5 % at half the window to measure the round trip). Version 1 \
    sends a quarter more in one round trip of eight, and measures the round trip half as often";
const ANSWERS: &str = "version 3 is meant to: a round trip that loses more than 2 % ends its probe and \
    lowers its model to seven tenths (draft-ietf-ccwg-bbr, BBR.LossThresh and BBR.Beta)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_one_percent_stops_cubic_and_not_bbr() {
        let [cubic, bbr] = [cubic(10), version_3(10)].map(|row| goodput(row, 0).unwrap());
        assert!(bbr > 20.0 * cubic, "{bbr} {cubic}");
    }
}
