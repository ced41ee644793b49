//! Mathis, Semke, Mahdavi and Ott 1997: the window is C over the root of the loss rate.

use ackclock_sim::TcpSettings;
use ackclock_sim::scenario::Loss;
use ackclock_sim::units::{Share, Span};

use super::lossy::{Losses, Lossy};
use crate::many::{Summary, each};
use crate::{Experiment, Findings, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "M97",
    source: "Mathis, Semke, Mahdavi and Ott, \"The Macroscopic Behavior of the TCP Congestion Avoidance \
             Algorithm\", CCR 27(3), 1997",
    title: "C in W = C/√p, by when the receiver acknowledges and how losses come",
    set_up: "One sender with SACK, profile sack-2003, a link that is never full, a round trip of 100 ms. \
             Packets of 65,000 bytes, so that whole bytes are fine enough for what an acknowledgement adds \
             (table). Periodic losses: every 100,000th packet. Random ones: p = 10^-4, independent, 4 runs \
             of 200 losses. Delayed acknowledgements: one for two segments, after 200 ms at most. W is the \
             number of packets sent in a round trip. The constants are those of the paper's model, without \
             noise.",
    run,
};

/// A row of the paper's table.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    congestion: &'static str,
    acks: &'static str,
    random: bool,
    paper: &'static str,
}

const ROWS: [Row; 5] = [
    Row {
        name: "every segment acknowledged, periodic losses",
        congestion: COUNTS_ACKS,
        acks: EACH,
        random: false,
        paper: "1.22",
    },
    Row {
        name: "delayed acknowledgements, periodic losses",
        congestion: COUNTS_ACKS,
        acks: DELAYED,
        random: false,
        paper: "0.87",
    },
    // RFC 3465 §2.1 grows by a segment a round trip, however few acknowledgements there are.
    Row {
        name: "delayed acknowledgements, periodic losses, bytes counted",
        congestion: "reno",
        acks: DELAYED,
        random: false,
        paper: "1.22",
    },
    Row {
        name: "every segment acknowledged, random losses",
        congestion: COUNTS_ACKS,
        acks: EACH,
        random: true,
        paper: "1.31",
    },
    Row {
        name: "delayed acknowledgements, random losses",
        congestion: COUNTS_ACKS,
        acks: DELAYED,
        random: true,
        paper: "0.93",
    },
];

fn run() -> anyhow::Result<Findings> {
    Ok(Findings { values: each(ROWS, value)?, tables: vec![packets()?], ..Findings::default() })
}

fn value(row: Row) -> anyhow::Result<Value> {
    let seeds = if row.random { RUNS } else { 1 };
    let constants = each(0..seeds, |seed| constant(row, LARGE, seed))?;
    let value = Summary::of(constants).value(row.name, "").printed(row.paper).of_runs(usize::MAX);
    Ok(value.because(RECOVERY))
}

/// The mean window times the root of the share of packets lost.
fn constant(row: Row, mtu: u64, seed: u64) -> anyhow::Result<f64> {
    let tcp =
        TcpSettings { congestion: Some(row.congestion.to_owned()), ..TcpSettings::profile("sack-2003") };
    let random = Losses::Random(Loss::Independent(RANDOM));
    let lossy = Lossy {
        tcp: tcp.choose("acks", row.acks),
        rtt: Span::millis(100),
        mtu,
        losses: if row.random { random } else { Losses::Periodic { first: 500, every: PERIOD } },
        settling: if row.random { 30 } else { 2 },
        counted: if row.random { 200 } else { 5 },
        seed,
    };
    let between = lossy.run()?;
    Ok(between.window * between.loss.sqrt())
}

/// The loss from whole bytes in a window that grows with each acknowledgement.
fn packets() -> anyhow::Result<Table> {
    let rows = each([1500, 9000], |mtu| {
        let constants = each(&ROWS[..2], |row| Ok(format!("{:.3}", constant(*row, mtu, 0)?)))?;
        Ok([vec![mtu.to_string()], constants].concat())
    })?;
    let head = ["packet (bytes)", ROWS[0].name, ROWS[1].name].map(str::to_owned).to_vec();
    let title = "C by the size of packets. 4.3BSD, and so `count=acks`, adds SMSS·SMSS/cwnd bytes with each \
                 acknowledgement, rounded down: 2 of 2.8 bytes where the window is 516 segments of 1,448";
    Ok(Table { title: title.to_owned(), head, rows })
}

const COUNTS_ACKS: &str = "reno:count=acks";
const EACH: &str = "every-second:0s";
const DELAYED: &str = "every-second:200ms";
const LARGE: u64 = 65_000;
const PERIOD: u64 = 100_000;
const RANDOM: Share = Share::per_million(100);
const RUNS: u64 = 4;
const RECOVERY: &str = "the model has no recovery, which is one round trip of 77 to 370 here, at half the \
    window and without growth, and it sends fractions of segments. With delayed acknowledgements and \
    periodic losses the window is 272.4 segments on average, of which 271.5 are out; together that is 0.8 %. \
    The windows under random loss are a third of these, and lose more";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delayed_acknowledgements_halve_growth_unless_bytes_are_counted() {
        let [each, delayed, bytes] = [0, 1, 2].map(|row| constant(ROWS[row], LARGE, 0).unwrap());
        assert!((each / delayed - 2.0_f64.sqrt()).abs() < 0.02, "{each} {delayed}");
        assert!((each - bytes).abs() < 0.02, "{each} {bytes}");
    }
}
