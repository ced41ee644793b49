//! How long a transfer may be expected to take.
//!
//! The model is that of Padhye, Firoiu, Towsley and Kurose ("Modeling TCP Throughput: A Simple Model and its
//! Empirical Validation", SIGCOMM 1998): a sender that halves its window for a loss takes, for a segment,
//!
//! ```text
//! RTT·√(2bp/3) + T0·min(1, 3·√(3bp/8))·p·(1 + 32p²)
//! ```
//!
//! where p is the share of segments lost, b the segments that an acknowledgement stands for and T0 the first
//! timeout. Two kinds of recovery differ. Time-based detection with tail loss probes needs no timeouts, so
//! the second term goes. Without fast retransmit every loss is a timeout, so the second term is p·T0, with T0
//! longer where the retransmission is lost, too.

use std::time::Duration;

use ackclock_control::profile::{AckPolicy, Choices, Profile, Recovery};
use ackclock_control::quantity::Share;
use ackclock_control::rtt::{DeviationFloor, Formula};

/// A path and its loss.
#[derive(Clone, Copy, Debug)]
pub struct ModelPath {
    /// Round trip when nothing waits.
    pub rtt: Duration,
    /// Bits a second; `None`: no limit.
    pub rate_bps: Option<u64>,
    /// Payload bytes of a segment.
    pub segment_bytes: u64,
    /// Packets lost.
    pub loss: Share,
}

/// How long `bytes` take from a sender of one profile to a receiver of another.
#[must_use]
pub fn transfer_time(bytes: u64, sender: &Profile, receiver: &Profile, path: ModelPath) -> Duration {
    let segments = bytes as f64 / path.segment_bytes as f64;
    // BFA takes what a receiver adds to a round trip for a queue: after a timeout its window stands at a
    // segment or two.
    let stands_still = sender.congestion == "bfa:sample=acks" && path.loss > Share::ZERO;
    // A receiver that waits for a share of its window makes a small flight wait for its clock instead.
    let held = match receiver.choices.acks {
        AckPolicy::WindowShare { delay_max, .. } if path.loss > Share::ZERO => delay_max.as_secs_f64(),
        acks if stands_still => acks.delay_max().as_secs_f64(),
        _ => 0.0,
    };
    let rtt = path.rtt.as_secs_f64() + held;
    let p = path.loss.fraction();
    let first_timeout = first_timeout(sender) + receiver.choices.acks.delay_max().as_secs_f64();

    // The time that the path and the peer's window take, and slow start from one segment.
    let both = |choice: fn(&Choices) -> bool| choice(&sender.choices) && choice(&receiver.choices);
    let window = if both(|choices| choices.window_scaling) { WINDOW_SCALED } else { WINDOW_UNSCALED };
    let most = match sender.congestion {
        "card" => CARD_WINDOW,
        "dual" => DUAL_WINDOW,
        _ if stands_still => 1.0,
        _ => f64::INFINITY,
    };
    let on_the_wire = path.rate_bps.map_or(0.0, |rate| bytes as f64 * 8.0 * 1.05 / rate as f64);
    let in_windows = segments / (window / path.segment_bytes as f64).min(most) * rtt;
    let opening = 2.0 * segments.log2() * rtt + 2.0 * sender.choices.rto.initial.as_secs_f64();

    let halving = rtt * (2.0 * B * p / 3.0).sqrt();
    let repair = match sender.choices.recovery {
        Recovery::RackTlp if both(|choices| choices.sack) => 0.0,
        Recovery::GoBackN => p * first_timeout / (1.0 - 2.0 * p),
        _ => (3.0 * (3.0 * B * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p) * first_timeout,
    };
    Duration::from_secs_f64(on_the_wire + in_windows + opening + segments * (halving + repair))
}

/// The retransmission timeout, in seconds, where round trips are short: its lower bounds alone, plus a tick
/// of the clock.
fn first_timeout(sender: &Profile) -> f64 {
    let rto = &sender.choices.rto;
    let tick = rto.granularity.as_secs_f64();
    let k = match rto.formula {
        Formula::MeanDeviation { k, .. } | Formula::SignedDeviation { k, .. } => f64::from(k),
        _ => 0.0,
    };
    let deviations = if rto.deviation_floor == DeviationFloor::Deviation { k * tick } else { tick };
    rto.rto_min.as_secs_f64().max(deviations) + tick
}

/// Segments that an acknowledgement stands for.
const B: f64 = 2.0;
const WINDOW_UNSCALED: f64 = 65_535.0;
/// The largest receive buffer.
const WINDOW_SCALED: f64 = (6 << 20) as f64;
/// CARD stays where delay begins to rise with the window. Behind a bottleneck one more segment is enough for
/// that, so it stays near the smallest windows.
const CARD_WINDOW: f64 = 4.0;
/// DUAL reduces its window by an eighth every two round trips while the delay is above its middle, and gains
/// half a segment in each where every second one is acknowledged: without a queue the delay is above it by
/// chance, and at eight the two balance.
const DUAL_WINDOW: f64 = 8.0;
