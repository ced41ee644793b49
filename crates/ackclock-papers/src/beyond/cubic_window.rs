//! RFC 9438 §5.1, tables 1 and 2: the mean window by the rate of periodic losses.

use ackclock_sim::TcpSettings;
use ackclock_sim::units::Span;

use super::lossy::{Losses, Lossy};
use crate::many::{Summary, each};
use crate::{Band, Experiment, Findings, Table, Value};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "R9438",
    source: "RFC 9438 §5.1, tables 1 and 2",
    title: "the mean window of CUBIC and Reno by the rate of periodic losses",
    set_up: "One sender, profile modern without pacing, a link that is never full, every n-th packet of data \
             lost (n = 1/p), every segment acknowledged at once. The mean window is the number of packets \
             sent in a round trip, over whole periods, as in the RFC's appendix C. The first loss comes when \
             slow start has reached the table's window. The bands are 5 % of it.",
    run,
};

/// A line of the tables: the round trip in milliseconds, the exponent of p, and the mean windows.
struct Row {
    rtt_ms: u64,
    exponent: u32,
    reno: &'static str,
    cubic: &'static str,
}

const ROWS: [Row; 8] = [
    Row { rtt_ms: 100, exponent: 2, reno: "12", cubic: "12" },
    Row { rtt_ms: 100, exponent: 3, reno: "38", cubic: "38" },
    Row { rtt_ms: 100, exponent: 4, reno: "120", cubic: "187" },
    Row { rtt_ms: 100, exponent: 5, reno: "379", cubic: "1054" },
    Row { rtt_ms: 10, exponent: 2, reno: "12", cubic: "12" },
    Row { rtt_ms: 10, exponent: 3, reno: "38", cubic: "38" },
    Row { rtt_ms: 10, exponent: 4, reno: "120", cubic: "120" },
    Row { rtt_ms: 10, exponent: 5, reno: "379", cubic: "379" },
];

fn run() -> anyhow::Result<Findings> {
    let reno = ROWS.iter().map(|row| ("reno", row, row.reno));
    let cubic = ROWS.iter().map(|row| ("cubic", row, row.cubic));
    let values = each(reno.chain(cubic), |(congestion, row, paper)| value(congestion, row, paper))?;
    Ok(Findings { values, tables: vec![starts()?], ..Findings::default() })
}

fn value(congestion: &str, row: &Row, paper: &'static str) -> anyhow::Result<Value> {
    let expected: f64 = paper.parse()?;
    let window = mean_window(congestion, row, paper.parse()?)?;
    let name = if congestion == "reno" { "Reno" } else { "CUBIC" };
    let name = format!("{name}: {} ms, p = 10^-{}", row.rtt_ms, row.exponent);
    Ok(Value {
        paper,
        band: Band::Within(0.95 * expected, 1.05 * expected),
        reason: match row.exponent {
            2 => Some(RECOVERY),
            5 if paper == "1054" => Some(START),
            _ => None,
        },
        ..Summary::of([window]).value(name, "segments")
    })
}

/// The mean window where slow start ends with the loss of this packet.
fn mean_window(congestion: &str, row: &Row, first: u64) -> anyhow::Result<f64> {
    let (settling, counted) = PERIODS[row.exponent as usize];
    let tcp = TcpSettings { congestion: Some(congestion.to_owned()), ..TcpSettings::profile("modern") };
    let lossy = Lossy {
        tcp: tcp.choose("acks", "every-second:0s").choose("pacing", "off"),
        rtt: Span::millis(row.rtt_ms),
        mtu: 1500,
        losses: Losses::Periodic { first, every: 10_u64.pow(row.exponent) },
        settling,
        counted,
        seed: 0,
    };
    Ok(lossy.run()?.window)
}

/// The effect of the first window on CUBIC's mean at the lowest rate of loss.
fn starts() -> anyhow::Result<Table> {
    let rows = each(STARTS, |first| {
        let window = mean_window("cubic", &ROWS[3], first)?;
        Ok(vec![first.to_string(), format!("{window:.0}")])
    })?;
    let head = ["slow start ends at (segments)", "mean window (segments)"].map(str::to_owned).to_vec();
    Ok(Table { title: "CUBIC at 100 ms and p = 10^-5, by its first window".to_owned(), head, rows })
}

/// The mean window, two between, and the window that appendix C has before each loss: 1054 / 0.925.
const STARTS: [u64; 4] = [1054, 1080, 1100, 1139];
const RECOVERY: &str = "the table counts no round trip for recovery, in which the window does not grow, and \
    has fractions of segments. With that round trip a period of 100 packets takes 9.4 round trips, for \
    Reno from 7 to 14.7 segments and for CUBIC from 9.1 to 13, which is a mean of 10.7";
const START: &str = "it depends on the first window (table), which periodic losses make CUBIC forget very \
    slowly: it gains 0.15 segments a period at the flat end of its curve. The RFC's figure is the limit of \
    that climb. Above it a loss comes just before the window of the last one, and fast convergence, which \
    the figure leaves out, takes 15 % of it";
/// Periods until the windows repeat, and periods counted, by the exponent of p.
const PERIODS: [(usize, usize); 6] = [(0, 0), (0, 0), (200, 400), (60, 60), (20, 20), (6, 10)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_of_reno_is_that_of_the_table() {
        let window = mean_window("reno", &ROWS[1], 38).unwrap();
        assert!((36.1..=39.9).contains(&window), "{window}");
    }
}
