//! §IV-B3: background in both directions, and smaller send buffers.

use ackclock_chart::{Figure, Style};
use ackclock_sim::units::{Bytes, Span};
use ackclock_sim::{TcpSettings, TrafficConfig};

use super::background::{Background, PAPER_RUNS, beside, beside_with};
use super::network::{KB, MEGABYTE, RENO, Sender, Transfers, VEGAS, head, ratio, transfer};
use crate::draw::{axis, colour, measured, panel};
use crate::many::Summary;
use crate::{Band, Experiment, Findings, Table, Value, changes};

pub(super) const TWO_WAY: Experiment = Experiment {
    id: "VE-2way",
    source: "Brakmo and Peterson 1995, §IV-B3",
    title: "a megabyte beside tcplib's traffic in both directions",
    set_up: "As VT4, with as dense traffic from the right to the left between the hosts of the third pair: \
        57 runs. The table has other densities of it.",
    run: two_way,
};

pub(super) const SEND_BUFFERS: Experiment = Experiment {
    id: "VE-sndbuf",
    source: "Brakmo and Peterson 1995, §IV-B3",
    title: "a megabyte with send buffers of 5 to 50 KB beside tcplib's traffic",
    set_up: "As VT4, 24 runs for each size.",
    run: send_buffers,
};

const VEGAS_SENDS_MORE: &str = "in the paper Reno sends more again and Vegas about as much as one way. \
    Here both send more: acknowledgements of what comes the other way take buffers of the bottleneck, and \
    every sender loses by it. With less traffic the other way the ratio falls to that of one way and no \
    further (table)";

fn two_way() -> anyhow::Result<Findings> {
    const SEEDS: u64 = 19;
    let both = |background, seeds| -> anyhow::Result<[Transfers; 2]> {
        Ok([beside(background, RENO, seeds)?.transfers, beside(background, VEGAS, seeds)?.transfers])
    };
    let over = |of: fn(&Transfers) -> Summary, [reno, vegas]: &[Transfers; 2]| of(vegas).over_mean(of(reno));
    let usual = Background::usual()?;
    let reverse = Span::millis(changes::open("reverse-ms", usual.every.0 / 1_000_000)?);
    let one_way = both(usual, SEEDS)?;
    let two_way = both(Background { reverse: Some(reverse), ..usual }, SEEDS)?;
    let values = vec![
        Value {
            paper: "1: “stayed the same”",
            band: Band::UNCHANGED,
            ..over(|one| one.throughput, &two_way)
                .over_mean(over(|one| one.throughput, &one_way))
                .value("Vegas/Reno throughput, over that one way", "")
                .of_runs(PAPER_RUNS)
        },
        over(|one| one.throughput, &two_way)
            .value("Vegas/Reno throughput", "")
            .printed("1.53")
            .limited(Band::Above(1.0))
            .of_runs(PAPER_RUNS),
        over(|one| one.retransmitted, &two_way)
            .value("Vegas/Reno sent again", "")
            .printed("0.29")
            .limited(Band::Below(1.0))
            .because(VEGAS_SENDS_MORE)
            .of_runs(PAPER_RUNS),
    ];
    let row = |what: String, found: &[Transfers; 2]| {
        let cells = found.iter().flat_map(Transfers::cells);
        let ratios = [over(|one| one.throughput, found), over(|one| one.retransmitted, found)];
        let ratios = ratios.into_iter().map(|ratio| format!("{:.2}", ratio.mean));
        std::iter::once(what).chain(cells).chain(ratios).collect::<Vec<_>>()
    };
    let table = || {
        let mut rows = vec![row("none".to_owned(), &one_way)];
        for every in [500, 250] {
            let reverse = Some(Span::millis(every));
            rows.push(row(format!("{every} ms"), &both(Background { reverse, ..usual }, SEEDS)?));
        }
        rows.push(row(format!("{} ms", reverse.0 / 1_000_000), &two_way));
        Ok(vec![Table {
            title: "A megabyte by what comes the other way".to_owned(),
            head: head(&["other way: every"], &[RENO, VEGAS], &["Vegas/Reno", "sent again"]),
            rows,
        }])
    };
    Ok(Findings { values, tables: changes::tables(table)?, ..Findings::default() })
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
    Ok(beside_with(Background::usual()?, seeds, limited)?.transfers)
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
    let lines = |of: fn(&Transfers) -> Summary| {
        let curve = |(sender, found): (Sender, &[Transfers])| {
            let points = SIZES.iter().zip(found).map(|(size, one)| (*size as f64, of(one)));
            measured(sender.name, Style::Line, colour(sender.name), points)
        };
        [(RENO, reno), (VEGAS, vegas)].map(curve).to_vec()
    };
    let figure = Figure {
        title: "Send buffers".to_owned(),
        caption:
            "A megabyte beside tcplib's traffic, by the size of its send buffer: mean throughput and KB \
                  sent again over 24 runs, with the least and the most of single ones. The paper prints no numbers."
                .to_owned(),
        x: axis("send buffer (KB)"),
        panels: vec![
            panel("throughput (KB/s)", lines(|one| one.throughput)),
            panel("sent again (KB)", lines(|one| one.retransmitted)),
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
