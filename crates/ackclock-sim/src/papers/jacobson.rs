//! V. Jacobson and M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988: the link of figure 7, the
//! hosts of 4.3BSD, and the conversations of figs. 3, 4, 8 and 9.

use crate::dumbbell::Dumbbell;
use crate::scenario::{Arrivals, Jitter, SizeOf, TimeOf, Variation};
use crate::units::{Bytes, Rate, Span};
use crate::{Direction, Scenario, TcpSettings, TrafficConfig, TrafficKind};

/// Data bytes of a segment.
pub const SEGMENT_BYTES: u64 = 512;
/// Bytes of its packet without options of later years.
pub const PACKET_BYTES: u64 = SEGMENT_BYTES + 40;
/// The receiver's window: 32 segments.
pub const WINDOW_BYTES: u64 = 16 << 10;
/// The link between the two routers: 230.4 kbit/s, of which its framing leaves 25 KB/s of data in such
/// packets ("the link data bandwidth is 25 KBps", fig. 8).
pub const LINK: Rate = Rate::bits_per_second(LINK_DATA * 8 * PACKET_BYTES / SEGMENT_BYTES);
/// Bytes of data that the link carries in a second.
pub const LINK_DATA: u64 = 25_000;

/// Pairs of hosts on Ethernets around the link of figure 7, with this delay in milliseconds and this many
/// buffers.
pub fn figure_7(pairs: usize, delay_ms: u64, buffers: u64) -> Dumbbell {
    // A Sun of 1988 needed time for each packet. Without it, two hosts whose packets meet at a full queue
    // would always meet in the same order (Floyd and Jacobson, "On Traffic Phase Effects", 1992).
    let jitter = Jitter { by: Variation::Uniform(HOST_TIME), may_reorder: false };
    let ethernet = Direction { jitter: Some(jitter), ..Direction::new(Rate::mbit(10), Span(0)) };
    let bottleneck = Direction::new(LINK, Span::millis(delay_ms)).mtu(PACKET_BYTES).buffers(buffers);
    Dumbbell { pairs, access: ethernet.mtu(PACKET_BYTES), bottleneck, back: None }
}

/// A 4.3BSD with this profile: 16 KB of window, which are socket buffers of 16 KB at both ends, and
/// segments of 512 bytes.
pub fn bsd(profile: &str) -> TcpSettings {
    TcpSettings {
        mss: Some(SEGMENT_BYTES as u16),
        send_buffer: Some(Bytes(WINDOW_BYTES)),
        ..TcpSettings::profile(profile).fixed_window(WINDOW_BYTES)
    }
}

/// The two Suns of figures 3 and 8 ("the 4.3BSD TCP").
pub fn old() -> TcpSettings {
    bsd("bsd43-1986")
}

/// 4.3+BSD.
pub fn bsd_plus() -> TcpSettings {
    bsd("bsd43-plus-1987")
}

/// Properties of the path that the paper does not give.
#[derive(Clone, Copy, Debug)]
pub struct PathOf {
    /// One way.
    pub delay_ms: u64,
    /// The share of the link taken by other traffic, in hundredths.
    pub others_percent: u64,
}

/// The values taken for them: with 110 ms each way slow start takes the two seconds of fig. 4, and 20 of the
/// link's 25 KB/s "were available".
pub const PATH: PathOf = PathOf { delay_ms: 110, others_percent: 20 };

/// The start of one conversation, beside short transfers of others: figs. 3 and 4, for a minute from `start`
/// on.
#[must_use]
pub fn slow_start(settings: &TcpSettings, path: PathOf, start: Span) -> Scenario {
    let scenario = figure_7(2, path.delay_ms, 30)
        .scenario(Span(start.0 + Span::seconds(60).0))
        .tcp(settings.clone())
        .traffic(TrafficConfig::bulk("conversation", "a1", "b1", None).start(start));
    if path.others_percent == 0 {
        return scenario;
    }
    let size = Bytes(4 * SEGMENT_BYTES);
    let bits = 8 * (4 * PACKET_BYTES + 80);
    let every = TimeOf::Exponential(Span(bits * 100 * 1_000_000_000 / (LINK.bits() * path.others_percent)));
    let others = TrafficKind::Arrivals(Arrivals { every, size: SizeOf::Exponential(size) });
    scenario.traffic(TrafficConfig::new("others", "a2", "b2", others).tcp(bsd_plus()))
}

/// Four conversations of a megabyte, begun 3 s apart, `later` each: figs. 8 and 9. Receivers that are lazy
/// wait for 35 % of the window, as 4.3BSD's did, or for the next tick of 200 ms: the second and the fourth,
/// or all.
#[must_use]
pub fn conversations(settings: &TcpSettings, all_lazy: bool, delay_ms: u64, later: Span) -> Scenario {
    let mut scenario = figure_7(4, delay_ms, 50).scenario(END).tcp(settings.clone());
    for number in 0..4 {
        let start = Span(Span::millis(number * 3000).0 + later.0);
        let lazy = all_lazy || LAZY.contains(&(number as usize));
        let acks = if lazy { "window-share:35,200ms" } else { "every-second:200ms" };
        let (from, to) = (format!("a{}", number + 1), format!("b{}", number + 1));
        let mut traffic = TrafficConfig::bulk(&from, &from, &to, Some(TRANSFER)).start(start);
        traffic.peer_tcp = settings.clone().choose("acks", acks);
        scenario = scenario.traffic(traffic);
    }
    scenario
}

/// The longest that a host takes for a packet.
const HOST_TIME: Span = Span::millis(1);
/// The bytes that each of four conversations sends.
pub const TRANSFER: Bytes = Bytes(2048 * SEGMENT_BYTES);
/// How long four conversations are watched.
pub const END: Span = Span::seconds(200);
/// The indices of conversations with 4.3BSD receivers, and of the others.
pub const LAZY: [usize; 2] = [1, 3];
/// The delay of the link, which the paper does not give.
pub const DELAY_MS: u64 = 50;
