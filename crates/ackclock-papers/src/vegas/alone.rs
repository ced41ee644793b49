//! Figs. 5 and 7: a megabyte alone, by Reno and by Vegas.

use ackclock_chart::Figure;
use ackclock_core::Instant;
use ackclock_sim::papers::vegas::alone as scenario;
use ackclock_sim::units::Span;
use ackclock_trace::graphs;
use anyhow::Context;

use super::network::{
    MEGABYTE, NEWRENO, OTHER_RENOS, RENO, Sender, Transfer, Transfers, VEGAS, VEGAS_LINUX_LIKE, fig6, head,
    ratio,
};
use super::watch::{watch, windows};
use crate::draw::{axis, colour};
use crate::many::{Summary, each};
use crate::net::Dumbbell;
use crate::printed::Place;
use crate::traced::traced;
use crate::witness::Witness;
use crate::{Band, Experiment, Findings, Table, Value, changes};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "VE5/7",
    source: "Brakmo and Peterson 1995, figs. 5 and 7",
    title: "a megabyte over 200 KB/s, 50 ms and 10 buffers, without other traffic",
    set_up: "The network of fig. 6; one transfer of 1,024 KB, begun at 25 times within a tick of the coarse \
             timer. Vegas is vegas-usc-1995, by the rules of the code that its authors distributed. What the \
             paper leaves out: receivers acknowledge every segment, and a packet that is being sent holds a \
             buffer. The table shows other choices.",
    run,
};

const ACKNOWLEDGED: &str = "how receivers acknowledge and whether the timer's first round trip counts a \
    tick more decide, and the paper says neither: its value lies between those of the tables";
const NEWRENO_FASTER: &str = "ns-3's receivers acknowledge every second segment by default \
    (`TcpSocket::DelAckCount` is 2); with such receivers ours is within ns-3's range (table)";
const FAST_RENO: &str = "it is Reno: with the timer of the release, whose first round trip counts a tick \
    more, it is slower than the paper's (second table), but then not in table III";
const HANDSHAKE: &str = "the paper does not say what its throughput counts: without the handshake, Vegas has \
    169.9 KB/s up to its last byte and 168.5 up to the last acknowledgement (table), around the paper's";
/// As far above the paper's numbers as below.
const VEGAS_RATE: Band = Band::Within(155.0, 183.0);
const NO_LOSS: Band = Band::AtMost(0.0);
const GAIN: Band = Band::Within(1.2, 1.54);
const RUNS: u64 = 25;
const NOTE: &str = "What Vegas compares decides more than anything else here. The \
                    mean round trip of a round, as in the distributed code, shows the queue that slow \
                    start builds within the round: Vegas leaves it at 16 segments and loses nothing, as \
                    fig. 7 shows. The smallest round trip, which the controller `vegas` compares, sees \
                    0.4 segments in the same queue: it doubles to 32 and loses a dozen (table). The \
                    paper's text speaks of one distinguished segment.";

fn run() -> anyhow::Result<Findings> {
    let [reno, newreno, vegas] =
        [RENO, NEWRENO, VEGAS].map(|sender| alone(fig6(200, 10), sender, RUNS, None));
    let (reno, newreno, vegas) = (reno?, newreno?, vegas?);
    let late = Summary::of(vegas.late_drops);
    let values = vec![
        reno.transfers
            .throughput
            .value("Reno's throughput", "KB/s")
            .printed(Place::VEGAS_5.words("KB/s", RENO.name))
            .because(ACKNOWLEDGED),
        Value {
            others: "106.6 [93-136] (ns-3.48, without SACK)",
            band: Band::Within(93.0, 136.0),
            reason: Some(NEWRENO_FASTER),
            ..newreno.transfers.throughput.value("NewReno's throughput", "KB/s")
        },
        Value {
            paper: Place::VEGAS_7.words("KB/s", VEGAS.name),
            others: "178 [156-178] (ns-3.48)",
            band: Band::printed(Place::VEGAS_7.words("KB/s", VEGAS.name)),
            limit: Some(VEGAS_RATE),
            reason: Some(HANDSHAKE),
            ..vegas.transfers.throughput.value("Vegas' throughput", "KB/s")
        },
        Value { paper: "0", band: NO_LOSS, ..late.value("packets that Vegas loses after start-up", "") },
        Value {
            paper: "1.37",
            band: Band::printed("1.37"),
            limit: Some(GAIN),
            reason: Some(FAST_RENO),
            ..vegas
                .transfers
                .throughput
                .over_mean(reno.transfers.throughput)
                .value("Vegas/Reno throughput", "")
        },
    ];
    Ok(Findings {
        values,
        tables: changes::tables(|| {
            let (reno, vegas) = (&reno.transfers, &vegas.transfers);
            Ok(vec![choices()?, renos()?, newrenos()?, spans(reno, vegas), witness(reno, vegas)?])
        })?,
        figures: vec![
            picture("fig5-reno-alone", RENO, Place::VEGAS_5)?,
            picture("fig7-vegas-alone", VEGAS, Place::VEGAS_7)?,
            comparisons()?,
        ],
        notes: vec![NOTE.to_owned()],
    })
}

struct Alone {
    transfers: Transfers,
    /// Packets dropped more than two seconds after the start.
    late_drops: Vec<f64>,
}

/// One transfer, begun at `runs` different times within a tick of 500 ms.
fn alone(network: Dumbbell, sender: Sender, runs: u64, acks: Option<&str>) -> anyhow::Result<Alone> {
    let reports = each(0..runs, |run| {
        let start = Span::millis(500 * run / runs);
        let mut scenario = scenario(&network, sender, start);
        if let Some(acks) = acks {
            scenario.tcp = scenario.tcp.choose("acks", acks);
        }
        let watched = watch(scenario, &["transfer"])?;
        let begun = start.0 as f64 / 1e9;
        let late = watched
            .drops()
            .iter()
            .filter(|(at, _)| at - begun > 2.0)
            .map(|(_, drops)| drops)
            .fold(0.0, |sum, drops| sum + drops);
        Ok((Transfer::of(&watched.report, "transfer")?, late))
    })?;
    let transfers: Vec<Transfer> = reports.iter().map(|(transfer, _)| *transfer).collect();
    Ok(Alone {
        transfers: Transfers::of(&transfers),
        late_drops: reports.into_iter().map(|(_, late): (_, f64)| late).collect(),
    })
}

/// The results with the paper's open points chosen otherwise.
fn choices() -> anyhow::Result<Table> {
    let every_second = Some("every-second:200ms");
    let rows = [
        ("as above", fig6(200, 10), VEGAS, None),
        ("a packet that is being sent holds no buffer", fig6(200, 11), VEGAS, None),
        (
            "the controller `vegas`, which compares the smallest round trip",
            fig6(200, 10),
            VEGAS_LINUX_LIKE,
            None,
        ),
        ("every second segment is acknowledged, after 200 ms at most", fig6(200, 10), VEGAS, every_second),
        ("the same, and the controller `vegas`", fig6(200, 10), VEGAS_LINUX_LIKE, every_second),
    ];
    let rows = each(rows, |(what, network, vegas, acks)| {
        let [reno, vegas] = [RENO, vegas].map(|sender| alone(network.clone(), sender, RUNS, acks));
        let (reno, vegas) = (reno?, vegas?);
        let late = Summary::of(vegas.late_drops.iter().copied()).mean;
        let (reno, vegas) = (reno.transfers, vegas.transfers);
        let ratio = ratio(vegas.throughput.mean, reno.throughput.mean);
        // The limits of the values above, and the band of the loss.
        let holds = [VEGAS_RATE.holds(vegas.throughput.mean), NO_LOSS.holds(late), GAIN.holds(ratio)];
        let holds = holds.map(|holds| if holds { "yes" } else { "no" }).join(", ");
        let last = vec![format!("{ratio:.2}"), holds];
        Ok([vec![what.to_owned()], reno.cells().to_vec(), vegas.cells().to_vec(), last].concat())
    })?;
    Ok(Table {
        title: "What the paper leaves out, chosen otherwise".to_owned(),
        head: head(&["what is chosen"], &[RENO, VEGAS], &["Vegas/Reno", "limits of rate, loss, ratio hold"]),
        rows,
    })
}

/// The results of a model of the same rules without this code (`tests/reference/alone.py`).
fn witness(reno: &Transfers, vegas: &Transfers) -> anyhow::Result<Table> {
    let rows = [("reno", "Reno", reno), ("vegas", "Vegas", vegas)].map(|(sender, name, here)| {
        let model = |column| MODEL.of(&[sender], column);
        let range = |of: Summary| format!("{:.1} ({:.1} to {:.1})", of.mean, of.least, of.most);
        let both =
            |here: Summary, model: Summary| [format!("{:.1}", here.mean), format!("{:.1}", model.mean)];
        let rates = [range(here.throughput), range(model("kb_s")?)];
        let again = both(here.retransmitted, model("kb_again")?);
        let timeouts = both(here.timeouts, model("timeouts")?);
        Ok([[name.to_owned()].to_vec(), rates.to_vec(), again.to_vec(), timeouts.to_vec()].concat())
    });
    let of = |what: &str| [format!("{what}: here"), format!("{what}: the model")];
    let heads = ["KB/s", "sent again (KB)", "timeouts"].into_iter().flat_map(of);
    Ok(Table {
        title: "Beside a model in Python".to_owned(),
        head: ["sender".to_owned()].into_iter().chain(heads).collect(),
        rows: rows.into_iter().collect::<anyhow::Result<_>>()?,
    })
}

const MODEL: Witness = Witness::new(include_str!("../../tests/vectors/alone.csv"));

/// By Reno's rules.
fn renos() -> anyhow::Result<Table> {
    let rows = each([RENO].into_iter().chain(OTHER_RENOS), |reno| {
        let found = alone(fig6(200, 10), reno, RUNS, None)?.transfers;
        Ok([vec![reno.name.to_owned()], found.cells().to_vec()].concat())
    })?;
    let title = "Reno alone by its rules".to_owned();
    Ok(Table { title, head: head(&["Reno"], &[], &[]), rows })
}

/// NewReno by what differs in ns-3 by default.
fn newrenos() -> anyhow::Result<Table> {
    let every_second = Some("every-second:200ms");
    let rows = [
        ("as above", 10, None),
        ("every second segment is acknowledged, after 200 ms at most", 10, every_second),
        ("a packet that is being sent holds no buffer", 11, None),
        ("both", 11, every_second),
    ];
    let rows = each(rows, |(what, buffers, acks)| {
        let found = alone(fig6(200, buffers), NEWRENO, RUNS, acks)?.transfers;
        Ok([vec![what.to_owned()], found.cells().to_vec()].concat())
    })?;
    let title = "NewReno by what may differ in ns-3".to_owned();
    Ok(Table { title, head: head(&["what is chosen"], &[NEWRENO], &[]), rows })
}

/// These runs, by what a throughput may count.
fn spans(reno: &Transfers, vegas: &Transfers) -> Table {
    // 50 ms each way, and 40 bytes over two Ethernets and the bottleneck.
    let one_way = 0.05 + 40.0 / 200e3 + 2.0 * 40.0 * 8.0 / 10e6;
    let rows = [
        ("SYN to the last byte, as above", 0.0),
        ("SYN to the last acknowledgement", one_way),
        ("first segment to the last byte", -2.0 * one_way),
        ("first segment to the last acknowledgement", -one_way),
    ]
    .map(|(what, longer)| {
        let rate = |of: &Transfers| MEGABYTE as f64 / (MEGABYTE as f64 / of.throughput.mean + longer);
        let [reno, vegas] = [rate(reno), rate(vegas)];
        vec![
            what.to_owned(),
            format!("{reno:.1}"),
            format!("{vegas:.1}"),
            format!("{:.3}", ratio(vegas, reno)),
        ]
    });
    let head = ["from ... to", "Reno (KB/s)", "Vegas (KB/s)", "Vegas/Reno"];
    Table {
        title: "The same by what a throughput counts".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.to_vec(),
    }
}

fn picture(stem: &str, sender: Sender, place: Place) -> anyhow::Result<(String, Figure)> {
    let watched = watch(scenario(&fig6(200, 10), sender, Span(0)), &["transfer"])?;
    let throughput = Transfer::of(&watched.report, "transfer")?.throughput;
    let mut panels = windows(&watched, "transfer", sender, 10.0);
    let paper = place.number("KB/s", sender.name);
    let level = vec![(0.0, paper), (MEGABYTE as f64 / paper, paper)];
    panels[1].series.extend(place.dotted([(colour(sender.name), level)]));
    let figure = Figure {
        title: format!("{} alone: {throughput:.0} KB/s", sender.name),
        caption: format!(
            "A megabyte by {} over 200 KB/s, 50 ms and 10 buffers: congestion window and bytes in transit, \
             rate at the receiver over 100 ms with the paper's mean, and packets that wait at the \
             bottleneck, with those that it drops.",
            sender.name
        ),
        x: axis("time (s)"),
        panels,
    };
    Ok((stem.to_owned(), figure))
}

/// Figure 8, from the connection's trace.
fn comparisons() -> anyhow::Result<(String, Figure)> {
    let source = traced(scenario(&fig6(200, 10), VEGAS, Span(0)), "a2")?;
    let figure = graphs::congestion_avoidance(&source, Instant::ZERO).context("Vegas compared nothing")?;
    Ok(("fig8-vegas-comparisons".to_owned(), Figure { title: "Vegas' comparisons".to_owned(), ..figure }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vegas_alone_is_faster_than_reno_and_loses_nothing() {
        let [reno, vegas] = [RENO, VEGAS].map(|sender| alone(fig6(200, 10), sender, 3, None).unwrap());
        assert!(vegas.transfers.throughput.mean > 1.2 * reno.transfers.throughput.mean);
        assert_eq!(vegas.transfers.retransmitted.most, 0.0);
        assert!(reno.transfers.retransmitted.least > 0.0);
    }

    #[test]
    fn reno_and_vegas_alone_are_as_fast_as_in_the_model() {
        for (sender, name) in [(RENO, "reno"), (VEGAS, "vegas")] {
            let here = alone(fig6(200, 10), sender, RUNS, None).unwrap().transfers;
            let model = |column| MODEL.of(&[name], column).unwrap().mean;
            let apart = here.throughput.mean / model("kb_s") - 1.0;
            assert!(apart.abs() < 0.01, "{name}: {apart}");
            assert!((here.retransmitted.mean - model("kb_again")).abs() < 0.05, "{name}");
        }
    }
}
