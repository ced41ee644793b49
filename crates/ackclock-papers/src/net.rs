//! Networks that several experiments use.

use ackclock_sim::Direction;
use ackclock_sim::units::{Rate, Span};

pub(crate) use ackclock_sim::dumbbell::{BOTTLENECK, Dumbbell};

/// Brakmo and Peterson's figure 6: three pairs of hosts on Ethernets of 10 Mbit/s, and between the routers
/// 50 ms and this many bytes a second and buffers. The paper's packets are 1.4 KB, which is the MTU here.
pub(crate) fn fig6(bytes_per_second: u64, buffers: u64) -> Dumbbell {
    let access = Direction::new(Rate::mbit(10), Span(0)).mtu(FIG6_PACKET_BYTES);
    let bottleneck = Direction::new(Rate::bytes_per_second(bytes_per_second), Span::millis(50));
    let bottleneck = bottleneck.mtu(FIG6_PACKET_BYTES).buffers(buffers);
    Dumbbell { pairs: 3, access, bottleneck, back: None }
}

/// A packet of figure 6.
pub(crate) const FIG6_PACKET_BYTES: u64 = 1400;
