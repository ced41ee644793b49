//! A. A. Awadallah and C. Rai, "TCP-BFA: Buffer Fill Avoidance", 1998.

mod competing;
mod fairness;
mod sharing;
mod single;
mod transatlantic;
mod variants;

use ackclock_sim::report::FlowReport;
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Report, TcpSettings};

use super::Experiment;
use super::net::{BOTTLENECK, Dumbbell};
use crate::witness::Witness;

pub(crate) const EXPERIMENTS: &[Experiment] =
    &[single::EXPERIMENT, competing::EXPERIMENT, fairness::EXPERIMENT, transatlantic::EXPERIMENT];

/// The packets of §4: "64 Kbps translates to 8.0 packets/sec".
const PACKET_BYTES: u64 = 1000;
/// Their payload without headers.
const PAYLOAD_BYTES: u64 = PACKET_BYTES - 40;
const LINK: Rate = Rate::bits_per_second(64_000);
/// One-way delay of the link between the routers. Figure 3 gave it; the text does not.
const DELAY_MS: u64 = 100;
/// Buffers of the graphs: "5-100".
const BUFFERS: [u64; 20] = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100];
const RENO: &str = "reno-1990";
const BFA: &str = "bfa-1998";

/// The network of figure 3: sources, one slow link of this many milliseconds, sinks.
fn figure_3(sources: usize, buffers: u64, delay_ms: u64) -> Dumbbell {
    Dumbbell {
        pairs: sources,
        access: Direction::new(Rate::mbit(10), Span::millis(1)).mtu(PACKET_BYTES),
        bottleneck: Direction::new(LINK, Span::millis(delay_ms)).mtu(PACKET_BYTES).buffers(buffers),
        back: None,
    }
}

/// A source of ns 2.1 with this profile: "the receiver window is set to a large value". The sink acknowledges
/// each packet. By ns' defaults of 1997 (`ns-default.tcl`) there are no timestamps and one segment of each
/// window is timed; the first timeout is 6 s, the largest has no bound, and a timer may run out between two
/// ticks (`tcp.cc`). Duplicates after a timeout begin nothing (`bugFix_`), as in `reno-1990`. Reno's ticks
/// are ns' 100 ms, BFA's timeout has the 500 ms of §3.1.
fn ns(profile: &str) -> TcpSettings {
    let mut settings = TcpSettings::profile(profile).fixed_window(LARGE_WINDOW_BYTES);
    let mut rto = "jacobson-1992,initial=6s,max=24h,heartbeat=off,arithmetic=ticks".to_owned();
    if profile == BFA {
        settings.congestion = Some("bfa:sample=timed".to_owned());
    } else {
        rto.push_str(",g=100ms,min=200ms");
    }
    settings.choose("timestamps", "off").choose("acks", "every-second:0s").choose("rto", rto)
}

/// A model by ns' rules and the paper's: sources (`bfa+reno`) with the numbers of buffers in [`MODELLED`].
const MODEL: Witness = Witness::new(include_str!("../../tests/vectors/bfa.csv"));
const MODELLED: [u64; 11] = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

/// Packets delivered in order per second over `seconds`.
fn throughput(flow: &FlowReport, seconds: f64) -> f64 {
    flow.there.bytes as f64 / PAYLOAD_BYTES as f64 / seconds
}

/// Throughput over delay (§1, Jain 1989, Kleinrock 1979), the delay being the mean of the round trips timed.
fn power(flow: &FlowReport, seconds: f64) -> f64 {
    ackclock_sim::report::power(throughput(flow, seconds), flow.there.rtt.mean)
}

/// Packets that the bottleneck dropped.
fn drops(report: &Report) -> f64 {
    report.link(BOTTLENECK).map_or(0, |link| link.drops.iter().map(|(_, count)| *count).sum::<u64>()) as f64
}

const LARGE_WINDOW_BYTES: u64 = 1 << 20;
