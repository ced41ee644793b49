//! §IV-B3: background in both directions, and smaller send buffers.

use ackclock_chart::{Figure, Style};
use ackclock_sim::units::Bytes;
use ackclock_sim::{TcpSettings, TrafficConfig};

use super::background::{Background, PAPER_RUNS, USUAL, beside, beside_with};
use super::network::{KB, MEGABYTE, RENO, Sender, Transfers, VEGAS, head, ratio, transfer};
use crate::draw::{axis, panel, series};
use crate::many::Summary;
use crate::{Band, Experiment, Findings, Table, Value};

pub(super) const TWO_WAY: Experiment = Experiment {
    id: "VE-2way",
    source: "Brakmo and Peterson 1995, §IV-B3",
    title: "a megabyte beside tcplib's traffic in both directions",
    set_up: "As VT4, with as dense traffic from the right to the left between the hosts of the third pair: \
        57 runs.",
    run: two_way,
};

pub(super) const SEND_BUFFERS: Experiment = Experiment {
    id: "VE-sndbuf",
    source: "Brakmo and Peterson 1995, §IV-B3",
    title: "a megabyte with send buffers of 5 to 50 KB beside tcplib's traffic",
    set_up: "As VT4, 24 runs for each size.",
    run: send_buffers,
};

const VEGAS_SENDS_MORE: &str = "it is Vegas: in the paper it sends about as much again as one way, \
    here more than twice as much (VT4). tcplib's published tables are not in use here but distributions \
    of the order that they have, and what comes the other way is half of this experiment";
const TWO_WAY_NOTE: &str =
    "The paper's ratio of throughputs stays the same. Here it is above that of VT4, which is 1.52.";

fn two_way() -> anyhow::Result<Findings> {
    const SEEDS: u64 = 19;
    let both_ways = Background { two_way: true, ..USUAL };
    let [reno, vegas] = [RENO, VEGAS].map(|sender| beside(both_ways, sender, SEEDS));
    let (reno, vegas) = (reno?.transfers, vegas?.transfers);
    let over = |of: fn(&Transfers) -> Summary| of(&vegas).over_mean(of(&reno));
    let values = vec![
        Value {
            paper: "1.53: “stayed the same” as one way",
            // What 1.53 is when it "stayed the same", as [`Band::UNCHANGED`] has it.
            band: Band::Within(1.53 * 0.91, 1.53 * 1.09),
            limit: Some(Band::Above(1.0)),
            ..over(|one| one.throughput).value("Vegas/Reno throughput", "").of_runs(PAPER_RUNS)
        },
        Value {
            paper: "0.29",
            band: Band::printed("0.29"),
            limit: Some(Band::Below(1.0)),
            reason: Some(VEGAS_SENDS_MORE),
            ..over(|one| one.retransmitted).value("Vegas/Reno sent again", "").of_runs(PAPER_RUNS)
        },
    ];
    let rows = [RENO, VEGAS].iter().zip([&reno, &vegas]);
    let rows = rows.map(|(sender, found)| [vec![sender.name.to_owned()], found.cells().to_vec()].concat());
    let table = Table {
        title: "A megabyte beside traffic in both directions".to_owned(),
        head: head(&[""], &[], &[]),
        rows: rows.collect(),
    };
    Ok(Findings { values, tables: vec![table], notes: vec![TWO_WAY_NOTE.to_owned()], ..Findings::default() })
}

/// KB.
const SIZES: [u64; 9] = [5, 10, 15, 20, 25, 30, 35, 40, 50];

fn send_buffers() -> anyhow::Result<Findings> {
    let [reno, vegas] = [RENO, VEGAS].map(|sender| {
        SIZES.iter().map(|size| with_buffer(sender, *size, 8)).collect::<anyhow::Result<Vec<_>>>()
    });
    let (reno, vegas) = (reno?, vegas?);
    let throughput = |found: &[Transfers], size| {
        SIZES
            .iter()
            .zip(found)
            .find(|(other, _)| **other == size)
            .map_or(f64::NAN, |(_, one)| one.throughput.mean)
    };
    let best = reno.iter().map(|one| one.throughput.mean).fold(0.0, f64::max);
    let least_lead =
        reno.iter().zip(&vegas).map(|(reno, vegas)| ratio(vegas.throughput.mean, reno.throughput.mean));
    let values = vec![
        Value {
            paper: "unchanged",
            band: Band::UNCHANGED,
            ..Summary::of([ratio(throughput(&vegas, 20), throughput(&vegas, 50))])
                .value("Vegas' throughput with 20 KB over with 50 KB", "")
        },
        Value {
            paper: "less",
            band: Band::Below(1.0),
            ..Summary::of([ratio(throughput(&vegas, 10), throughput(&vegas, 20))])
                .value("Vegas' throughput with 10 KB over with 20 KB", "")
        },
        Value {
            paper: "more: “initially increased as the buffers got smaller”",
            band: Band::Above(1.0),
            ..Summary::of([ratio(best, throughput(&reno, 50))])
                .value("Reno's best throughput over that with 50 KB", "")
        },
        Value {
            paper: "Reno “always remained under” Vegas",
            band: Band::AtLeast(1.0),
            ..Summary::of([least_lead.fold(f64::INFINITY, f64::min)])
                .value("least Vegas/Reno throughput of any size", "")
        },
    ];
    Ok(Findings {
        values,
        tables: vec![table(&reno, &vegas)],
        figures: vec![figure(&reno, &vegas)],
        ..Findings::default()
    })
}

/// A megabyte with a send buffer of this many KB.
fn with_buffer(sender: Sender, size: u64, seeds: u64) -> anyhow::Result<Transfers> {
    let limited = || TrafficConfig {
        peer_tcp: TcpSettings { receive_buffer: Some(Bytes(size * KB)), ..TcpSettings::default() },
        ..transfer("transfer", 2, MEGABYTE, sender)
    };
    Ok(beside_with(USUAL, seeds, limited)?.transfers)
}

fn table(reno: &[Transfers], vegas: &[Transfers]) -> Table {
    let rows = SIZES.iter().zip(reno.iter().zip(vegas)).map(|(size, (reno, vegas))| {
        [vec![size.to_string()], reno.cells().to_vec(), vegas.cells().to_vec()].concat()
    });
    Table {
        title: "A megabyte by the size of the send buffer".to_owned(),
        head: head(&["send buffer (KB)"], &[RENO, VEGAS], &[]),
        rows: rows.collect(),
    }
}

fn figure(reno: &[Transfers], vegas: &[Transfers]) -> (String, Figure) {
    let lines = |of: fn(&Transfers) -> f64| {
        let curve = |(sender, found, colour): (Sender, &[Transfers], u8)| {
            let points: Vec<_> = SIZES.iter().zip(found).map(|(size, one)| (*size as f64, of(one))).collect();
            series(sender.name, Style::Line, colour, points)
        };
        [(RENO, reno, 0), (VEGAS, vegas, 1)].map(curve).to_vec()
    };
    let figure = Figure {
        title: "Send buffers".to_owned(),
        caption:
            "A megabyte beside tcplib's traffic, by the size of its send buffer: mean throughput and KB \
                  sent again over 24 runs."
                .to_owned(),
        x: axis("send buffer (KB)"),
        panels: vec![
            panel("throughput (KB/s)", lines(|one| one.throughput.mean)),
            panel("sent again (KB)", lines(|one| one.retransmitted.mean)),
        ],
    };
    ("send-buffers".to_owned(), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vegas_needs_no_more_than_the_pipe_holds() {
        let [ten, twenty_five, fifty] =
            [10, 25, 50].map(|size| with_buffer(VEGAS, size, 2).unwrap().throughput.mean);
        assert!(ten < twenty_five && twenty_five > 0.85 * fifty, "{ten} {twenty_five} {fifty}");
    }
}
