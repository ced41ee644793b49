//! BE4-6: one source alone, by the bottleneck's buffers.

use ackclock_chart::{Figure, Style};
use ackclock_sim::observe::LinkPoint;
use ackclock_sim::papers::bfa::{self, ALONE_SECONDS as SECONDS};
use ackclock_sim::scenario::{Jitter, Variation};
use ackclock_sim::units::Span;
use ackclock_sim::{Report, Scenario, TcpSettings};

use super::{BFA, BUFFERS, DELAY_MS, MODEL, MODELLED, RENO, ns, power, throughput};
use crate::many::{Summary, each};
use crate::{Band, Experiment, Findings, Table, Value, changes, draw, segments};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "BE4-6",
    source: "Awadallah & Rai 1998, §4.1, figs. 4 to 6",
    title: "Reno and BFA alone: queue, throughput and power by the bottleneck's buffers",
    set_up: "One source, one link of 64 kbit/s, packets of 1000 bytes, buffers of 5 to 100 packets, 400 s, a \
             window of 1 MB. Profiles reno-1990 and bfa-1998; the sink acknowledges each packet, as ns does. \
             The delays of figure 3 are not in the text: 1 ms, 100 ms and 1 ms are taken; the table has \
             others, and delayed acknowledgements. Timers as in ns 2.1: ticks of 100 ms for Reno and, by \
             section 3.1, of 500 ms for BFA's timeout; one packet of a window is timed. Ten runs a point, \
             whose starts fall differently on the ticks. Power is throughput over the mean round trip.",
    run,
};

/// The runs of one point; plain numbers are means.
#[derive(Clone, Copy, Debug)]
struct Point {
    buffers: u64,
    throughput: Summary,
    power: Summary,
    rtt: f64,
    drops: f64,
    timeouts: f64,
    /// Windows that lost more than one segment, without the first that lost any.
    bursts: f64,
}

fn run() -> anyhow::Result<Findings> {
    let (reno, bfa) = (curve(RENO)?, curve(BFA)?);
    let at = |curve: &[Point], buffers: u64| {
        curve
            .iter()
            .copied()
            .find(|point| point.buffers == buffers)
            .ok_or_else(|| anyhow::anyhow!("no point at {buffers}"))
    };
    let one = |value: f64| Summary::of([value]);
    let power_of = |curve: &[Point], buffers| at(curve, buffers).map(|point| point.power.mean);
    let bfa_range = |of: fn(&Point) -> f64| {
        let roomy = Summary::of(bfa.iter().filter(|point| point.buffers >= 20).map(of));
        roomy.least / roomy.most
    };
    let largest =
        bfa.iter().zip(&reno).map(|(bfa, reno)| bfa.power.mean / reno.power.mean).fold(0.0, f64::max);
    let bfa_drops = bfa.iter().filter(|point| point.buffers >= 20).map(|point| point.drops).sum::<f64>();
    let values = vec![
        Value {
            paper: "an order of magnitude",
            band: Band::Within(5.0, 1000_f64.sqrt()),
            ..one(power_of(&bfa, 60)? / power_of(&reno, 60)?).value("BFA/Reno power at 60 buffers", "")
        },
        Value {
            paper: "up to an order of magnitude",
            // A factor whose order of magnitude is 10.
            band: Band::Within(10_f64.sqrt(), 1000_f64.sqrt()),
            ..one(largest).value("BFA/Reno power, the largest of all buffers", "")
        },
        Value {
            paper: "none",
            band: Band::AtMost(0.0),
            ..one(bfa_drops).value("BFA: drops at 20 buffers and more", "")
        },
        Value {
            paper: "1: constant",
            band: CONSTANT,
            ..one(bfa_range(|point| point.power.mean))
                .value("BFA: least over largest power from 20 buffers on", "")
        },
        Value {
            paper: "1: constant",
            band: CONSTANT,
            ..one(bfa_range(|point| point.throughput.mean)).value("BFA: the same of throughput", "")
        },
        Value {
            paper: "below 1: it falls",
            band: Band::Below(1.0),
            ..one(power_of(&reno, 100)? / power_of(&reno, 20)?)
                .value("Reno: power at 100 buffers over that at 20", "")
        },
        Value {
            paper: "below 1: it falls",
            band: Band::Below(1.0),
            ..one(at(&reno, 100)?.throughput.mean / at(&reno, 20)?.throughput.mean)
                .value("Reno: the same of throughput", "")
        },
        Value {
            paper: "0: multiple losses only in the first slow start",
            band: Band::AtMost(0.0),
            ..Summary::of(reno.iter().map(|point| point.bursts))
                .value("Reno: later windows with more than one loss in 400 s", "")
        },
    ];
    let mut figures = vec![queues()?];
    figures.push((
        "BE5".to_owned(),
        graph("Throughput", "throughput (packets/s)", &reno, &bfa, |point| point.throughput),
    ));
    figures.push(("BE6".to_owned(), graph("Power", "power (packets/s²)", &reno, &bfa, |point| point.power)));
    Ok(Findings {
        values,
        tables: changes::tables(|| {
            Ok(vec![curves(&reno, &bfa), witness(&reno, &bfa)?, choices()?, variants()?])
        })?,
        figures,
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

fn curve(profile: &str) -> anyhow::Result<Vec<Point>> {
    each(BUFFERS, |buffers| point(&ns(profile), buffers, DELAY_MS, Span(0)))
}

fn point(settings: &TcpSettings, buffers: u64, delay_ms: u64, jitter: Span) -> anyhow::Result<Point> {
    let runs = each(0..RUNS, |run| {
        segments::observe(&noisy(scenario(settings, buffers, delay_ms, run), jitter), &["a1"])
    })?;
    let all = |of: &dyn Fn(&Report) -> f64| Summary::of(runs.iter().map(|run| of(&run.report)));
    let mean = |of: &dyn Fn(&Report) -> f64| all(of).mean;
    let bursts = |run: &segments::Observed| {
        let losses = run.conversations[0].losses_by_window();
        losses.iter().skip(1).filter(|losses| **losses > 1).count() as f64
    };
    Ok(Point {
        buffers,
        throughput: all(&|report| throughput(&report.flows[0], SECONDS as f64)),
        power: all(&|report| power(&report.flows[0], SECONDS as f64)),
        rtt: mean(&|report| report.flows[0].there.rtt.mean),
        drops: mean(&|report| super::drops(report)),
        timeouts: mean(&|report| report.flows[0].there.timeouts as f64),
        bursts: Summary::of(runs.iter().map(bursts)).mean,
    })
}

/// With delay that varies by up to this much.
fn noisy(mut scenario: Scenario, jitter: Span) -> Scenario {
    if jitter.0 > 0 {
        scenario.links[0].there.jitter = Some(Jitter { by: Variation::Uniform(jitter), may_reorder: false });
    }
    scenario
}

fn scenario(settings: &TcpSettings, buffers: u64, delay_ms: u64, run: u64) -> Scenario {
    bfa::alone(settings, buffers, delay_ms, Span::millis(run * TICK_MS / RUNS)).seed(run)
}

fn curves(reno: &[Point], bfa: &[Point]) -> Table {
    let row = |(reno, bfa): (&Point, &Point)| {
        let numbers = |point: &Point| {
            [
                format!("{:.2}", point.throughput.mean),
                format!("{:.2}", point.rtt),
                format!("{:.2}", point.power.mean),
                format!("{:.1}", point.drops),
                format!("{:.1}", point.timeouts),
                format!("{:.1}", point.bursts),
            ]
        };
        [reno.buffers.to_string()].into_iter().chain(numbers(reno)).chain(numbers(bfa)).collect()
    };
    let names =
        ["packets/s", "round trip (s)", "packets/s²", "drops", "timeouts", "later windows with two losses"];
    let of = |who: &'static str| names.map(|name| format!("{who}: {name}"));
    Table {
        title: "By buffers (means of 10 runs)".to_owned(),
        head: ["buffers".to_owned()].into_iter().chain(of("Reno")).chain(of("BFA")).collect(),
        rows: reno.iter().zip(bfa).map(row).collect(),
    }
}

/// The values of a model in Python.
fn witness(reno: &[Point], bfa: &[Point]) -> anyhow::Result<Table> {
    let row = |(reno, bfa): (&Point, &Point)| {
        let buffers = reno.buffers.to_string();
        let of = |point: &Point, sources| {
            let both = |here: f64, column| {
                let model = MODEL.of(&[sources, &buffers], column)?;
                anyhow::Ok([format!("{here:.2}"), format!("{:.2}", model.mean)])
            };
            let (throughput, power) =
                (both(point.throughput.mean, "packets_s")?, both(point.power.mean, "power")?);
            anyhow::Ok([throughput, power, both(point.drops, "dropped")?].concat())
        };
        anyhow::Ok([vec![buffers.clone()], of(reno, "reno")?, of(bfa, "bfa")?].concat())
    };
    let rows = reno.iter().zip(bfa).filter(|(reno, _)| MODELLED.contains(&reno.buffers)).map(row);
    let heads = ["Reno", "BFA"].into_iter().flat_map(|who| {
        ["packets/s", "packets/s²", "drops"]
            .into_iter()
            .flat_map(move |what| [format!("{who}, {what}: here"), format!("{who}, {what}: the model")])
    });
    Ok(Table {
        title: "Beside a model in Python of 150 lines, by ns' rules".to_owned(),
        head: ["buffers".to_owned()].into_iter().chain(heads).collect(),
        rows: rows.collect::<anyhow::Result<_>>()?,
    })
}

/// The paper's open points: the link's delay, and when the sink acknowledges.
fn choices() -> anyhow::Result<Table> {
    let mut rows = Vec::new();
    for (delay_ms, jitter_ms) in [(20, 0), (DELAY_MS, 0), (300, 0), (DELAY_MS, 10), (300, 10)] {
        for (name, delay) in [("each packet", Span(0)), ("every second, 200 ms", Span::millis(200))] {
            let of = |profile: &str| {
                let tcp = ns(profile).choose("acks", format!("every-second:{delay}"));
                point(&tcp, 60, delay_ms, Span::millis(jitter_ms))
            };
            let (reno, bfa) = (of(RENO)?, of(BFA)?);
            let pair = |of: fn(&Point) -> f64| [of(&reno), of(&bfa)].map(|value| format!("{value:.2}"));
            let ratio = format!("{:.1}", bfa.power.mean / reno.power.mean);
            let numbers = pair(|point| point.throughput.mean)
                .into_iter()
                .chain(pair(|point| point.rtt))
                .chain(pair(|point| point.power.mean));
            rows.push(
                [format!("{delay_ms} ms"), format!("{jitter_ms} ms"), name.to_owned()]
                    .into_iter()
                    .chain(numbers)
                    .chain([ratio])
                    .collect(),
            );
        }
    }
    let head = [
        "link's delay",
        "jitter up to",
        "acknowledged",
        "Reno: packets/s",
        "BFA",
        "Reno: round trip (s)",
        "BFA",
        "Reno: power",
        "BFA",
        "BFA/Reno power",
    ];
    let title = "At 60 buffers, by what the paper leaves open".to_owned();
    Ok(Table { title, head: head.map(str::to_owned).to_vec(), rows })
}

/// §6: each item of future work separately, against the paper's algorithm.
fn variants() -> anyhow::Result<Table> {
    let rows = super::variants::ALL.iter().map(|variant| {
        let point = point(&variant.over(ns(BFA), "timed"), 60, DELAY_MS, Span(0))?;
        let numbers = [point.throughput.mean, point.rtt, point.power.mean, point.drops];
        Ok([variant.name.to_owned()].into_iter().chain(numbers.map(|value| format!("{value:.2}"))).collect())
    });
    let rows = rows.collect::<anyhow::Result<_>>()?;
    let head = ["variant", "packets/s", "round trip (s)", "packets/s²", "drops"].map(str::to_owned).to_vec();
    Ok(Table { title: "The variants of §6 and the paper's BFA at 60 buffers".to_owned(), head, rows })
}

/// Figure 4: the queue over time with 20 buffers.
fn queues() -> anyhow::Result<(String, Figure)> {
    let queue = |profile: &str| -> anyhow::Result<Vec<(f64, f64)>> {
        let mut scenario = scenario(&ns(profile), 20, DELAY_MS, 0);
        scenario.sample_every = Some(Span::millis(250));
        let series = segments::observe(&scenario, &[])?.series;
        let length = |points: &Vec<LinkPoint>| f64::from(points[0].queue_packets);
        Ok(series.at_ns.iter().map(|at| *at as f64 / 1e9).zip(series.links.iter().map(length)).collect())
    };
    let panel = draw::panel(
        "packets in the queue",
        vec![
            draw::series("Reno", Style::Steps, draw::colour("Reno"), queue(RENO)?),
            draw::series("BFA", Style::Steps, draw::colour("BFA"), queue(BFA)?),
        ],
    );
    let caption = "Two runs, each source alone: 64 kbit/s, 20 buffers, packets of 1000 bytes.";
    Ok(("BE4".to_owned(), draw::figure("The bottleneck's queue", caption, "time (s)", vec![panel])))
}

fn graph(title: &str, y: &str, reno: &[Point], bfa: &[Point], of: fn(&Point) -> Summary) -> Figure {
    let line = |(name, points): (&str, &[Point])| {
        let points = points.iter().map(|point| (point.buffers as f64, of(point)));
        draw::measured(name, Style::Line, draw::colour(name), points)
    };
    let mut panel = draw::panel(y, [("Reno", reno), ("BFA", bfa)].map(line).to_vec());
    panel.y.range = draw::from_zero(&panel);
    let caption = "Each source alone for 400 s over 64 kbit/s, packets of 1000 bytes; means of 10 runs, \
                   with the least and the most of single ones. The paper's curves are not in its text.";
    draw::figure(&format!("{title} by the bottleneck's buffers"), caption, "buffers (packets)", vec![panel])
}

const NOTES: [&str; 2] = [
    "How much BFA gains depends on the link's delay, which the text does not give: slow start has doubled \
     the window once or twice more before the growth of a round trip is seen, so that BFA's queue is about a \
     window of the empty path, while Reno's is the whole buffer whatever the delay.",
    "Where only every second packet is acknowledged BFA gets 4.3 packets/s on a link of 100 ms and 2.3 on \
     one of 300 ms: an acknowledgement that waits for the second packet, 125 ms, is taken for a queue \
     that fills; then every round trip is alike, and srv goes to zero and never below -10 ms. Section 4.3 \
     names such persistence where there are 'no losses or changes in delay'; ns's sinks acknowledge each \
     packet.",
];
/// A level line in a printed graph can be read to about a fiftieth.
const CONSTANT: Band = Band::AtLeast(0.98);
const RUNS: u64 = 10;
const TICK_MS: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfa::drops;
    use crate::many::run as simulate;

    #[test]
    fn bfa_has_several_times_renos_power_and_no_drops() {
        let [reno, bfa] =
            [RENO, BFA].map(|profile| simulate(&scenario(&ns(profile), 60, DELAY_MS, 0)).unwrap());
        let power = |report: &Report| power(&report.flows[0], SECONDS as f64);
        assert!(power(&bfa) > 3.0 * power(&reno));
        assert!(drops(&bfa) == 0.0 && drops(&reno) > 0.0);
    }

    #[test]
    fn one_source_loses_and_delivers_what_the_model_says() {
        for (profile, sources) in [(RENO, "reno"), (BFA, "bfa")] {
            let here = point(&ns(profile), 20, DELAY_MS, Span(0)).unwrap();
            let model = |column| MODEL.of(&[sources, "20"], column).unwrap().mean;
            assert_eq!(here.drops, model("dropped"), "{sources}");
            let apart = here.throughput.mean - model("packets_s");
            assert!(apart.abs() < 0.1, "{sources}: {apart} packets/s");
        }
    }
}
