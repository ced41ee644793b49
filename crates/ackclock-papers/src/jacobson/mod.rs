//! V. Jacobson and M. Karels, "Congestion Avoidance and Control", SIGCOMM 1988.

mod conversations;
mod datagrams;
mod slow_start;
mod timers;

use ackclock_sim::scenario::{Jitter, Variation};
use ackclock_sim::units::{Rate, Span};
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
/// The link between the two routers.
const LINK: Rate = Rate::bits_per_second(230_400);

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

/// A 4.3BSD with this profile: 16 KB of window, segments of 512 bytes.
fn bsd(profile: &str) -> TcpSettings {
    TcpSettings {
        mss: Some(SEGMENT_BYTES as u16),
        ..TcpSettings::profile(profile).fixed_window(WINDOW_BYTES)
    }
}

/// 4.3+BSD as in the paper's traces: slow start and congestion avoidance, but no fast retransmit, which "is
/// described in a soon-to-be-published RFC"; figure 12 shows senders that wait for their timers.
fn bsd_plus() -> TcpSettings {
    bsd("tahoe-1988").choose("recovery", "go-back-n")
}

/// Bytes of data that the link carries in a second.
fn link_data_rate() -> f64 {
    LINK.bits() as f64 / 8.0 * SEGMENT_BYTES as f64 / PACKET_BYTES as f64
}

/// The timeout of none-1987, but with exponential backoff.
const BACKED_OFF: &str = "rfc793,g=500ms,heartbeat=on,min=1s,max=64s,initial=3s,sampling=flight";
/// The longest that a host takes for a packet.
const HOST_TIME: Span = Span::millis(1);
