//! Every style of graph, as SVG and as a report: `cargo run -p ackclock-chart --example gallery -- FOLDER`.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use ackclock_chart::{Axis, Figure, Html, Panel, Point, Scale, Series, Style, svg};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("name a folder for the pictures")?);
    std::fs::create_dir_all(&folder)?;
    let mut report = Html::new("Gallery");
    for (name, figure) in [("windows", windows()), ("bars", bars()), ("scatter", scatter())] {
        std::fs::write(folder.join(format!("{name}.svg")), svg(&figure))?;
        report.figure(&figure);
    }
    let rows = [["Reno", "106.6"], ["Vegas", "178"]].map(|row| row.map(str::to_owned).to_vec());
    report.heading("A table").table("Throughput", &["controller", "KB/s"], &rows);
    std::fs::write(folder.join("report.html"), report.finish())?;
    Ok(())
}

/// A sawtooth with marks above and below it, and a rate in a second panel.
fn windows() -> Figure {
    let saw = |index: u32| (f64::from(index) * 0.05, 4_000.0 + f64::from(index % 60) * 500.0);
    let edge = |y: f64, step: f64| {
        (0..40).map(move |index| (f64::from(index) * step, y)).filter(|point| point.0 < 10.0)
    };
    let mut kilobytes = series("KB sent", Style::Labels, 6, edge(f64::INFINITY, 0.8));
    for (index, point) in kilobytes.points.iter_mut().enumerate() {
        point.note = format!("{}", index * 60);
    }
    Figure {
        title: "Windows of a connection that loses a segment each three seconds".to_owned(),
        caption: "A made-up sawtooth, to show the styles.".to_owned(),
        x: axis("time (s)"),
        panels: vec![
            Panel {
                height: 1.6,
                y: axis("bytes"),
                series: vec![
                    series("segment retransmitted later", Style::Verticals, 6, [(2.6, 0.0), (5.7, 0.0)]),
                    series("cwnd", Style::Steps, 0, (0..200).map(saw)),
                    series(
                        "ssthresh",
                        Style::Dashed,
                        1,
                        [(0.0, 30_000.0), (3.0, 17_000.0), (10.0, 17_000.0)],
                    ),
                    series(
                        "in transit",
                        Style::Line,
                        2,
                        (0..200).map(|index| (saw(index).0, saw(index).1 * 0.8)),
                    ),
                    kilobytes,
                    series("timer", Style::Diamonds, 4, edge(f64::INFINITY, 0.5)),
                    series("timeout", Style::Circles, 1, [(6.0, f64::INFINITY)]),
                    series("sent", Style::Hashes, 3, edge(f64::INFINITY, 0.11)),
                    series("ACK", Style::Hashes, 2, edge(f64::NEG_INFINITY, 0.25)),
                ],
            },
            Panel {
                height: 1.0,
                y: axis("sending rate (bit/s)"),
                series: vec![series(
                    "rate",
                    Style::Line,
                    5,
                    (0..200).map(|index| (saw(index).0, saw(index).1 * 9.0)),
                )],
            },
        ],
    }
}

fn bars() -> Figure {
    let of = |name, colour, values: [f64; 4]| {
        let mut series = series(name, Style::Bars, colour, (0..4).map(f64::from).zip(values));
        for point in &mut series.points {
            point.range = Some((point.y * 0.85, point.y * 1.1));
        }
        series
    };
    let x = Axis {
        categories: ["10 buffers", "15 buffers", "20 buffers", "an ample buffer"].map(str::to_owned).into(),
        ..axis("")
    };
    let panel = |label: &str, factor: f64| Panel {
        height: 1.0,
        y: axis(label),
        series: vec![
            of("Reno", 0, [58.3, 70.0, 81.0, 106.0].map(|value| value * factor)),
            of("Vegas", 1, [89.4, 96.0, 120.0, 150.0].map(|value| value * factor)),
            of("CUBIC", 2, [49.4, 106.0, 110.0, 160.0].map(|value| value * factor)),
        ],
    };
    Figure {
        title: "Throughput by buffers".to_owned(),
        caption: String::new(),
        x,
        panels: vec![panel("throughput (KB/s)", 1.0), panel("retransmitted (bytes)", 3e3)],
    }
}

fn scatter() -> Figure {
    let noise = |index: u32| f64::from((index.wrapping_mul(2_654_435_761) >> 8) & 0xffff) / 65_536.0;
    let cloud = |offset: f64| {
        (0..3000).map(move |index| {
            (10.0 + 60.0 * noise(index) + offset, 10f64.powf(1.0 + 3.0 * noise(index + 7919) * noise(index)))
        })
    };
    Figure {
        title: "Round-trip time by window".to_owned(),
        caption: String::new(),
        x: axis("cwnd (segments)"),
        panels: vec![Panel {
            height: 1.0,
            y: Axis { scale: Scale::Log, ..axis("RTT (ms)") },
            series: vec![
                series("Reno", Style::Dots, 0, cloud(30.0)),
                series("BFA", Style::Crosses, 1, cloud(0.0).take(300)),
            ],
        }],
    }
}

fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), ..Axis::default() }
}

fn series(name: &str, style: Style, colour: u8, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    let points = points.into_iter().map(|(x, y)| Point { x, y, ..Point::default() }).collect();
    Series { name: name.to_owned(), style, colour, points }
}
