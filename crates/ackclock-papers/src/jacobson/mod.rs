//! V. Jacobson and M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988.

mod conversations;
mod datagrams;
mod slow_start;
mod timers;

use ackclock_sim::scenario::{Jitter, Variation};
use ackclock_sim::units::{Bytes, Rate, Span};
use ackclock_sim::{Direction, TcpSettings};

use super::Experiment;
use super::net::Dumbbell;

pub(crate) const EXPERIMENTS: &[Experiment] =
    &[slow_start::EXPERIMENT, timers::EXPERIMENT, conversations::EXPERIMENT, datagrams::EXPERIMENT];

/// Data bytes of a segment, and bytes of its packet without options of later years.
const SEGMENT_BYTES: u64 = 512;
const PACKET_BYTES: u64 = SEGMENT_BYTES + 40;
/// The receiver's window: 32 segments.
const WINDOW_BYTES: u64 = 16 << 10;
/// The link between the two routers: 230.4 kbit/s, of which its framing leaves 25 KB/s of data in such
/// packets ("the link data bandwidth is 25 KBps", fig. 8).
const LINK: Rate = Rate::bits_per_second(LINK_DATA * 8 * PACKET_BYTES / SEGMENT_BYTES);
/// Bytes of data that the link carries in a second.
const LINK_DATA: u64 = 25_000;

/// Pairs of hosts on Ethernets around the link of figure 7, with this delay in milliseconds and this many
/// buffers.
fn figure_7(pairs: usize, delay_ms: u64, buffers: u64) -> Dumbbell {
    // A Sun of 1988 needed time for each packet. Without it, two hosts whose packets meet at a full queue
    // would always meet in the same order (Floyd and Jacobson, "On Traffic Phase Effects", 1992).
    let jitter = Jitter { by: Variation::Uniform(HOST_TIME), may_reorder: false };
    let ethernet = Direction { jitter: Some(jitter), ..Direction::new(Rate::mbit(10), Span(0)) };
    let bottleneck = Direction::new(LINK, Span::millis(delay_ms)).mtu(PACKET_BYTES).buffers(buffers);
    Dumbbell { pairs, access: ethernet.mtu(PACKET_BYTES), bottleneck, back: None }
}

/// A 4.3BSD with this profile: 16 KB of window, which are socket buffers of 16 KB at both ends, and
/// segments of 512 bytes.
fn bsd(profile: &str) -> TcpSettings {
    TcpSettings {
        mss: Some(SEGMENT_BYTES as u16),
        send_buffer: Some(Bytes(WINDOW_BYTES)),
        ..TcpSettings::profile(profile).fixed_window(WINDOW_BYTES)
    }
}

/// The two Suns of figures 3 and 8 ("the 4.3BSD TCP").
fn old() -> TcpSettings {
    bsd("bsd43-1986")
}

/// 4.3+BSD.
fn bsd_plus() -> TcpSettings {
    bsd("bsd43-plus-1987")
}

/// The timeout of bsd43-plus-1987 with the factor of the first version of the paper.
const A_PLUS_2V: &str = "jacobson-1988,arithmetic=bsd-ticks";
/// The longest that a host takes for a packet.
const HOST_TIME: Span = Span::millis(1);
