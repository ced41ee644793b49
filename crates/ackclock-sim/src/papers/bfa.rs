//! A. A. Awadallah and C. Rai, "TCP-BFA: Buffer Fill Avoidance", 1998: the network of figure 3, the sources
//! of ns 2.1, one alone and two together.

use crate::dumbbell::Dumbbell;
use crate::units::{Rate, Span};
use crate::{Direction, Scenario, TcpSettings, TrafficConfig};

/// The packets of §4: "64 Kbps translates to 8.0 packets/sec".
pub const PACKET_BYTES: u64 = 1000;
/// Their bytes beside the headers.
pub const PAYLOAD_BYTES: u64 = PACKET_BYTES - 40;
/// The rate of the link between the routers.
pub const LINK: Rate = Rate::bits_per_second(64_000);
/// One-way delay of the link between the routers. Figure 3 gave it; the text does not.
pub const DELAY_MS: u64 = 100;
/// The profile of Reno.
pub const RENO: &str = "reno-1990";
/// The profile of BFA.
pub const BFA: &str = "bfa-1998";

/// The network of figure 3: sources, one slow link of this many milliseconds, sinks.
#[must_use]
pub fn figure_3(sources: usize, buffers: u64, delay_ms: u64) -> Dumbbell {
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
#[must_use]
pub fn ns(profile: &str) -> TcpSettings {
    let mut settings = TcpSettings::profile(profile).fixed_window(LARGE_WINDOW_BYTES);
    let mut rto = "jacobson-1992,initial=6s,max=24h,heartbeat=off,arithmetic=ticks".to_owned();
    if profile == BFA {
        settings.congestion = Some("bfa:sample=timed".to_owned());
    } else {
        rto.push_str(",g=100ms,min=200ms");
    }
    settings.choose("timestamps", "off").choose("acks", "every-second:0s").choose("rto", rto)
}

/// One source alone for 400 s from `start` on: figs. 4 to 6.
#[must_use]
pub fn alone(settings: &TcpSettings, buffers: u64, delay_ms: u64, start: Span) -> Scenario {
    figure_3(1, buffers, delay_ms)
        .scenario(Span(start.0 + Span::seconds(ALONE_SECONDS).0))
        .tcp(settings.clone())
        .traffic(TrafficConfig::bulk("source", "a1", "b1", None).start(start))
}

/// Two sources of these profiles for this many seconds from `start` on: figs. 7 to 12.
#[must_use]
pub fn competing(profiles: [&str; 2], buffers: u64, start: Span, seconds: u64) -> Scenario {
    let scenario = figure_3(2, buffers, DELAY_MS).scenario(Span(start.0 + Span::seconds(seconds).0));
    (1..).zip(profiles).fold(scenario, |scenario, (number, profile)| {
        let (from, to) = (format!("a{number}"), format!("b{number}"));
        let mut source = TrafficConfig::bulk(&from, &from, &to, None).start(start).tcp(ns(profile));
        source.peer_tcp = ns(profile);
        scenario.traffic(source)
    })
}

/// How long a source alone sends.
pub const ALONE_SECONDS: u64 = 400;
const LARGE_WINDOW_BYTES: u64 = 1 << 20;
