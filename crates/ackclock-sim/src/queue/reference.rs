//! Recorded arrivals meet each discipline at a link, beside what `tests/reference` computes from the RFCs and
//! the paper: the fate of every packet, to the nanosecond.

use ackclock_core::Instant;

use super::testing::Bench;
use super::{CoDel, CoDelParameters, DropRule, FqCoDel, FqCoDelParameters, Queue, Red, RedParameters};
use crate::rng::Rng;
use crate::scenario::Isolation;
use crate::units::{Limit, Share, Span};

/// The link's rate, as `tests/reference/link.py` has it.
const RATE_BPS: u64 = 3_000_000;

/// A packet's fate: when it came, and whether it was marked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fate {
    word: String,
    at_ns: u64,
    marked: bool,
}

struct ArrivalRow {
    at_ns: u64,
    bytes: u32,
    flow: u32,
    ecn_capable: bool,
}

fn rows(csv: &str) -> impl Iterator<Item = Vec<&str>> {
    csv.lines().skip(1).map(|line| line.split(',').collect())
}

fn number(cell: &str) -> u64 {
    cell.parse().unwrap()
}

fn arrivals() -> Vec<ArrivalRow> {
    let arrival = |row: Vec<&str>| ArrivalRow {
        at_ns: number(row[0]),
        bytes: number(row[1]) as u32,
        flow: number(row[2]) as u32,
        ecn_capable: row[3] == "1",
    };
    rows(include_str!("../../tests/vectors/arrivals.csv")).map(arrival).collect()
}

/// A queue in front of a link that takes the next packet when it has sent the one before.
struct Served<Q> {
    bench: Bench<Q>,
    arrivals: Vec<ArrivalRow>,
    fates: Vec<Option<Fate>>,
    free_at: Option<u64>,
}

impl<Q: Queue> Served<Q> {
    /// All arrivals; `seen` looks at the queue after each.
    fn run(queue: Q, mut seen: impl FnMut(&Q)) -> Vec<Fate> {
        let arrivals = arrivals();
        let mut bench = Bench::new(queue);
        bench.rng = Rng::new(7);
        let fates = vec![None; arrivals.len()];
        let mut served = Self { bench, arrivals, fates, free_at: None };
        for n in 0..served.arrivals.len() {
            let ArrivalRow { at_ns, bytes, flow, ecn_capable } = served.arrivals[n];
            while let Some(free_at) = served.free_at.filter(|free_at| *free_at < at_ns) {
                served.take(free_at);
            }
            served.bench.put(at_ns, bytes, flow, ecn_capable);
            seen(&served.bench.queue);
            served.note_dropped(at_ns);
            if served.free_at.is_none() {
                served.take(at_ns);
            }
        }
        while let Some(free_at) = served.free_at {
            served.take(free_at);
        }
        for marked in &served.bench.marked {
            served.fates[marked.0 as usize].as_mut().expect("it has a fate").marked = true;
        }
        served.fates.into_iter().map(|fate| fate.expect("each packet has a fate")).collect()
    }

    fn take(&mut self, now: u64) {
        let taken = self.bench.take(now);
        self.note_dropped(now);
        self.free_at = taken.map(|packet| {
            self.ends(packet, "sent", now);
            now + u64::from(self.arrivals[packet as usize].bytes) * 8_000_000_000 / RATE_BPS
        });
    }

    fn note_dropped(&mut self, now: u64) {
        for (packet, rule) in std::mem::take(&mut self.bench.dropped) {
            let word = match rule {
                DropRule::CoDel => "codel",
                DropRule::FqOverflow => "overflow",
                DropRule::RedEarly => "early",
                DropRule::RedForced => "forced",
                other => panic!("no reference drops by {other:?}"),
            };
            self.ends(packet.0, word, now);
        }
    }

    fn ends(&mut self, packet: u32, word: &str, at_ns: u64) {
        let fate = Fate { word: word.to_owned(), at_ns, marked: false };
        assert_eq!(self.fates[packet as usize].replace(fate), None, "packet {packet} has one fate");
    }
}

/// Each packet has the fate of the reference. Each of `words` is the fate of some, so the comparison says
/// something.
fn same(fates: &[Fate], csv: &str, words: &[&str], some_marked: bool) {
    let expected: Vec<Fate> = rows(csv)
        .map(|row| Fate { word: row[0].to_owned(), at_ns: number(row[1]), marked: row[2] == "1" })
        .collect();
    assert_eq!(fates.len(), expected.len());
    for (n, (fate, expected)) in fates.iter().zip(&expected).enumerate() {
        assert_eq!(fate, expected, "packet {n}");
    }
    for word in words {
        assert!(expected.iter().filter(|fate| fate.word == *word).count() >= 5, "{word}");
    }
    assert_eq!(expected.iter().any(|fate| fate.marked), some_marked);
}

const CODEL: CoDelParameters = CoDelParameters {
    limit: Limit::Packets(100_000),
    target: Span::millis(5),
    interval: Span::millis(100),
    max_packet: 1500,
    mark: false,
};

#[test]
fn codel_drops_and_marks_what_rfc_8289_says() {
    let fates = Served::run(CoDel::new(CODEL), |_| ());
    same(&fates, include_str!("../../tests/vectors/codel.csv"), &["sent", "codel"], false);
    let fates = Served::run(CoDel::new(CoDelParameters { mark: true, ..CODEL }), |_| ());
    same(&fates, include_str!("../../tests/vectors/codel_marking.csv"), &["sent"], true);
}

/// The code's square root is right to one part in 2¹⁶: never early, and late by no more than that.
#[test]
fn codels_control_law_is_the_rfcs_to_one_part_in_65536() {
    for row in rows(include_str!("../../tests/vectors/codel_law.csv")) {
        let (count, exact) = (number(row[0]), number(row[1]));
        let step = super::codel::control_law(&CODEL, Instant::ZERO, count).as_nanos();
        assert!(step >= exact && step <= exact + exact / 65_535 + 1, "{count}: {step}, exact {exact}");
    }
}

#[test]
fn fq_codel_serves_and_drops_what_rfc_8290_says() {
    let codel = CoDelParameters { limit: Limit::Packets(40), ..CODEL };
    // One queue has packets of all sizes: half of its packets are not half of its bytes.
    for (queues, csv) in [
        (4, include_str!("../../tests/vectors/fq_codel.csv")),
        (1, include_str!("../../tests/vectors/fq_codel_one.csv")),
    ] {
        let queue = FqCoDel::new(FqCoDelParameters {
            codel,
            queues,
            quantum: 1514,
            isolation: Isolation::Flows,
            filter_acks: false,
        });
        let fates = Served::run(queue, |_| ());
        same(&fates, csv, &["sent", "codel", "overflow"], false);
    }
}

#[test]
fn red_drops_and_marks_what_figure_2_says() {
    let base = RedParameters {
        limit: Limit::Packets(100_000),
        min_th: 5,
        max_th: 15,
        max_p: Share::percent(10),
        weight_shift: 6,
        gentle: false,
        mark: false,
        packet_time_ns: 1000 * 8_000_000_000 / RATE_BPS,
    };
    let gentle = RedParameters { gentle: true, ..base };
    let marking = RedParameters { mark: true, ..base };
    for (parameters, csv, words) in [
        (base, include_str!("../../tests/vectors/red.csv"), &["sent", "early", "forced"][..]),
        (marking, include_str!("../../tests/vectors/red_marking.csv"), &["sent", "early", "forced"]),
        (gentle, include_str!("../../tests/vectors/red_gentle.csv"), &["sent", "early"]),
    ] {
        let mut averages = Vec::new();
        let fates = Served::run(Red::new(parameters), |red| averages.push(red.average()));
        same(&fates, csv, words, parameters.mark);
        for (n, (row, average)) in rows(csv).zip(averages).enumerate() {
            let millionths = (u128::from(average) * 1_000_000) >> 32;
            assert!(millionths.abs_diff(number(row[3]).into()) <= 1, "packet {n}: {millionths}");
        }
    }
}
