//! Tables I and II: transfers over a path like that from Arizona to Maryland.

use ackclock_chart::{Axis, Figure, Style};
use ackclock_sim::scenario::TcplibMix;
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario, TrafficConfig, TrafficKind};

use super::network::{
    RENO, Sender, Transfer, Transfers, VEGAS, VEGAS_2_4, VEGAS_LINUX_LIKE, head, ratio, transfer,
    until_over_or_end,
};
use crate::draw::{axis, colour, measured, panel};
use crate::many::{Summary, each};
use crate::printed::Place;
use crate::{Band, Experiment, Findings, Table, Value, changes};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "VT1/2",
    source: "Brakmo and Peterson 1995, tables I and II",
    title: "a megabyte, 512 KB and 128 KB over 17 hops with cross-traffic",
    set_up: "The path from Arizona to Maryland in 1994 cannot be had; what stands in its place is \
             emulated: 17 hops, two Ethernets at the ends, of the 15 links between them the third and the \
             thirteenth of 1.5 Mbit/s with 10 buffers, as regional networks had towards the backbone, the \
             others, as the backbone through the cities that the paper names, of 45 Mbit/s with 50; 70 ms \
             of round trip. tcplib's traffic over Reno crosses each slow link, and a quarter as much goes \
             over the whole path. 168 runs are the hours of seven days, as in the paper. Calibrated: \
             conversations begin every 140 ms at the busiest hour and every 280 ms at the quietest, with \
             which Reno's megabyte comes to about the paper's 53 KB/s, and everything else is held out. \
             Each run has the seven transfers of the paper, each into the same traffic again instead of \
             45 s after the one before. A transfer that is not over after 1,200 s counts with the bytes \
             that it has by then. The second table has the hours of one day, the controller `vegas` of \
             vegas-1995, one slow link alone, and two of 1 Mbit/s with less traffic.",
    run,
};

const OTHER_PATH: &str = "the slow links' rate and load decide, and are not known of 1994. Over two of 1 \
     Mbit/s with half of the traffic Vegas has 1.43 and Vegas-2,4 1.51 times Reno's throughput for a \
     megabyte, and Vegas 1.57 times for 128 KB (second table)";
/// "a seven day period", "a run started approximately once every hour" (§IV-A).
const PAPER_RUNS: usize = 168;
const HOURS: u64 = PAPER_RUNS as u64;
/// In the second table: those of a day.
const DAY: u64 = 24;
const SIZES: [Size; 3] = [
    Size { kilobytes: 1024, name: "1 MB" },
    Size { kilobytes: 512, name: "512 KB" },
    Size { kilobytes: 128, name: "128 KB" },
];
/// Quantities of the paper's tables.
const RATE: &str = "KB/s";
const AGAIN: &str = "KB sent again";
const TIMEOUTS: &str = "coarse timeouts";

struct Size {
    kilobytes: u64,
    name: &'static str,
}

/// Transfers at all hours.
struct Hours(Vec<Transfer>);

impl Hours {
    fn of(sender: Sender, kilobytes: u64, hours: u64, over: SlowLinks) -> anyhow::Result<Self> {
        let all = each(0..hours, |hour| {
            // Even a few hours are spread over the day.
            let hour = hour * (HOURS / hours);
            let scenario = path(hour, over).traffic(transfer("transfer", 1, kilobytes, sender).start(BEGIN));
            let mut simulation = changes::simulation(&scenario)?;
            Transfer::of(&until_over_or_end(&mut simulation, &scenario, &["transfer"]), "transfer")
        })?;
        Ok(Self(all))
    }

    fn sums(&self) -> Transfers {
        Transfers::of(&self.0)
    }
}

fn run() -> anyhow::Result<Findings> {
    let two = SlowLinks {
        kbit_per_second: changes::open("kbit-per-second", TWO.kbit_per_second)?,
        every: changes::open("every-ms", TWO.every)?,
        ..TWO
    };
    let mut values = Vec::new();
    let mut found = Vec::new();
    for size in &SIZES {
        let [reno, vegas] = [RENO, VEGAS].map(|sender| Hours::of(sender, size.kilobytes, HOURS, two));
        let (reno, vegas) = (reno?, vegas?);
        let (sums, faster) = ([reno.sums(), vegas.sums()], wins(&vegas, &reno));
        let over = |of: fn(&Transfers) -> Summary| of(&sums[1]).over_mean(of(&sums[0]));
        let [faster_by, again] = [RATE, AGAIN]
            .map(|quantity| Place::TABLE_II.words(&format!("Vegas over Reno, {quantity}"), size.name));
        values.push(Value {
            paper: faster_by,
            band: Band::printed(faster_by),
            limit: Some(Band::Above(1.0)),
            ..over(|one| one.throughput).value(format!("{}: Vegas/Reno throughput", size.name), "")
        });
        values.push(Value {
            paper: again,
            band: Band::printed(again),
            limit: Some(Band::Below(0.7)),
            ..over(|one| one.retransmitted).value(format!("{}: Vegas/Reno sent again", size.name), "")
        });
        if size.kilobytes == SIZES[0].kilobytes {
            values.push(Value {
                paper: "92",
                band: Band::printed("92"),
                ..faster.value("1 MB: runs in which Vegas is faster than Reno", "%")
            });
        }
        found.push(sums);
    }
    let wide = Hours::of(VEGAS_2_4, SIZES[0].kilobytes, HOURS, two)?.sums();
    let [reno, vegas] = found[0];
    let paper =
        |quantity: &str, sender: Sender| Place::TABLE_II.words(quantity, &format!("1 MB, {}", sender.name));
    values.extend([
        Value {
            limit: Some(Band::Above(1.0)),
            ..wide
                .throughput
                .over_mean(reno.throughput)
                .value("1 MB: Vegas-2,4/Reno throughput", "")
                .printed("1.42")
        },
        Value {
            paper: "53.0: the density is chosen by it",
            ..reno.throughput.value("1 MB: Reno's throughput", "KB/s")
        },
        vegas.throughput.value("1 MB: Vegas' throughput", "KB/s").printed(paper(RATE, VEGAS)),
        wide.throughput
            .value("1 MB: Vegas-2,4's throughput", "KB/s")
            .printed(Place::TABLE_I.words(RATE, VEGAS_2_4.name)),
        reno.retransmitted.value("1 MB: Reno: sent again", "KB").printed(paper(AGAIN, RENO)),
        vegas.retransmitted.value("1 MB: Vegas: sent again", "KB").printed(paper(AGAIN, VEGAS)),
        wide.retransmitted
            .value("1 MB: Vegas-2,4: sent again", "KB")
            .printed(Place::TABLE_I.words(AGAIN, VEGAS_2_4.name)),
        reno.timeouts.value("1 MB: Reno: coarse timeouts", "").printed(paper(TIMEOUTS, RENO)),
        vegas.timeouts.value("1 MB: Vegas: coarse timeouts", "").printed(paper(TIMEOUTS, VEGAS)),
        wide.timeouts
            .value("1 MB: Vegas-2,4: coarse timeouts", "")
            .printed(Place::TABLE_I.words(TIMEOUTS, VEGAS_2_4.name)),
    ]);
    let explained =
        |value: Value| Value { reason: value.reason.or(Some(OTHER_PATH)), ..value.of_runs(PAPER_RUNS) };
    let values = values.into_iter().map(explained).collect();
    Ok(Findings {
        values,
        tables: changes::tables(|| Ok(vec![table(&found, &wide), readings()?]))?,
        figures: vec![figure(&found)],
        ..Findings::default()
    })
}

/// In what percentage of the hours `one` is faster than `other`.
fn wins(one: &Hours, other: &Hours) -> Summary {
    let faster = one.0.iter().zip(&other.0).map(|(one, other)| one.throughput > other.throughput);
    Summary::of(faster.map(|faster| if faster { 100.0 } else { 0.0 }))
}

/// When transfers begin.
const BEGIN: Span = Span::seconds(15);
/// The number of links between the routers.
const LINKS: usize = 15;
/// The slow ones, and their traffic.
#[derive(Clone, Copy, Debug)]
struct SlowLinks {
    name: &'static str,
    /// Their places.
    places: &'static [usize],
    kbit_per_second: u64,
    /// Mean time between conversations at the busiest hour, in ms.
    every: u64,
}

/// One in each regional network.
const TWO: SlowLinks = SlowLinks { name: "two", places: &[2, 12], kbit_per_second: 1544, every: 140 };
const ONE: SlowLinks = SlowLinks { name: "one", places: &[2], ..TWO };
const SLOWER: SlowLinks = SlowLinks { name: "two, 1 Mbit/s", kbit_per_second: 1000, every: 300, ..TWO };

/// The path with its cross-traffic at an hour.
fn path(hour: u64, over: SlowLinks) -> Scenario {
    let ethernet = Direction::new(Rate::mbit(10), Span(0)).mtu(1400);
    let fast = Direction::new(Rate::mbit(45), Span(2_333_333)).mtu(1400).buffers(50);
    let slow =
        Direction { rate: Rate::bits_per_second(over.kbit_per_second * 1000), ..fast.clone() }.buffers(9);
    let mut scenario = Scenario::new(Span::seconds(1200)).seed(hour).tcp(RENO.tcp()).host("a1").host("b1");
    for router in 0..=LINKS {
        scenario = scenario.router(format!("r{router}"));
    }
    scenario = scenario.link("a1", "r0", ethernet.clone()).link(&format!("r{LINKS}"), "b1", ethernet.clone());
    for link in 0..LINKS {
        let direction = if over.places.contains(&link) { &slow } else { &fast };
        scenario = scenario.link(&format!("r{link}"), &format!("r{}", link + 1), direction.clone());
    }
    for (n, &link) in over.places.iter().enumerate() {
        let (from, to) = (format!("c{n}"), format!("d{n}"));
        scenario = scenario
            .host(&*from)
            .host(&*to)
            .link(&from, &format!("r{link}"), ethernet.clone())
            .link(&format!("r{}", link + 1), &to, ethernet.clone())
            .traffic(cross(&format!("cross{n}"), &from, &to, every(over, hour)));
    }
    scenario.traffic(cross("along", "a1", "b1", Span(every(over, hour).0 * 4)))
}

fn cross(name: &str, from: &str, to: &str, every: Span) -> TrafficConfig {
    TrafficConfig::new(name, from, to, TrafficKind::Tcplib { every, until: None, mix: TcplibMix::default() })
}

/// Mean time between conversations: shortest at 15:00, twice as long twelve hours later.
fn every(over: SlowLinks, hour: u64) -> Span {
    let from_peak = (hour % 24).abs_diff(15);
    let hours = from_peak.min(24 - from_peak);
    Span::millis(over.every + over.every * hours / 12)
}

fn table(found: &[[Transfers; 2]], wide: &Transfers) -> Table {
    let rows = SIZES.iter().zip(found).flat_map(|(size, sums)| {
        let row = |(sender, sums): (Sender, &Transfers)| {
            [vec![format!("{}, {}", size.name, sender.name)], sums.cells().to_vec()].concat()
        };
        [RENO, VEGAS].into_iter().zip(sums).map(row).collect::<Vec<_>>()
    });
    let last = [vec![format!("1 MB, {}", VEGAS_2_4.name)], wide.cells().to_vec()].concat();
    Table {
        title: "Tables I and II".to_owned(),
        head: head(&[""], &[], &[]),
        rows: rows.chain([last]).collect(),
    }
}

/// All sizes over two slow links, a megabyte over others, and what Vegas compares.
fn readings() -> anyhow::Result<Table> {
    let mut rows = Vec::new();
    let largest = &SIZES[0];
    let smallest = &SIZES[2];
    let over_two = SIZES.iter().map(|size| (size, TWO));
    for (size, over) in over_two.chain([(largest, ONE), (largest, SLOWER), (smallest, SLOWER)]) {
        let mut reno = f64::NAN;
        for sender in [RENO, VEGAS, VEGAS_LINUX_LIKE, VEGAS_2_4] {
            let sums = Hours::of(sender, size.kilobytes, DAY, over)?.sums();
            if sender == RENO {
                reno = sums.throughput.mean;
            }
            let over_reno = format!("{:.2}", ratio(sums.throughput.mean, reno));
            let names = [size.name, over.name, sender.name].map(str::to_owned);
            rows.push([names.to_vec(), sums.cells().to_vec(), vec![over_reno]].concat());
        }
    }
    Ok(Table {
        title: format!("By slow links and what Vegas compares, {DAY} hours"),
        head: head(&["size", "slow links", "sender"], &[], &["over Reno's"]),
        rows,
    })
}

fn figure(found: &[[Transfers; 2]]) -> (String, Figure) {
    let bars = |of: fn(&Transfers) -> Summary, quantity: &str| {
        let bar = |(which, sender): (usize, Sender)| {
            let heights = found.iter().zip(0u32..).map(|(sums, n)| (n.into(), of(&sums[which])));
            measured(sender.name, Style::Bars, colour(sender.name), heights)
        };
        let paper = |sender: Sender| {
            let of =
                |size: &Size| Place::TABLE_II.number(quantity, &format!("{}, {}", size.name, sender.name));
            (colour(sender.name), SIZES.iter().zip(0u32..).map(|(size, n)| (n.into(), of(size))).collect())
        };
        let bars = [RENO, VEGAS].into_iter().enumerate().map(bar);
        bars.chain(Place::TABLE_II.rings([RENO, VEGAS].map(paper))).collect()
    };
    let figure = Figure {
        title: "Over 17 hops, by size".to_owned(),
        caption: format!(
            "Mean throughput and KB sent again over {HOURS} hours of an emulated path of 17 hops, with the \
             least and the most of single hours."
        ),
        x: Axis { categories: SIZES.iter().map(|size| size.name.to_owned()).collect(), ..axis("") },
        panels: vec![
            panel("throughput (KB/s)", bars(|one| one.throughput, RATE)),
            panel("sent again (KB)", bars(|one| one.retransmitted, AGAIN)),
        ],
    };
    ("table2-sizes".to_owned(), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_busiest_hour_at_15_and_their_quietest_at_3() {
        assert_eq!([15, 3, 39, 21].map(|hour| every(TWO, hour)), [140, 280, 140, 210].map(Span::millis));
    }

    #[test]
    fn vegas_sends_less_again_over_17_hops() {
        let [reno, vegas] = [RENO, VEGAS].map(|sender| Hours::of(sender, 128, 6, TWO).unwrap().sums());
        assert!(vegas.throughput.mean > reno.throughput.mean, "{reno:?} {vegas:?}");
        assert!(vegas.retransmitted.mean < reno.retransmitted.mean, "{reno:?} {vegas:?}");
    }
}
