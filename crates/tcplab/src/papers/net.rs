//! Networks that several experiments use.

use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario};

/// Pairs of hosts around one bottleneck: `a1 … aN` - `left` - `right` - `b1 … bN`. The link in the middle is called
/// `bottleneck`; its direction towards the b's is `bottleneck:there` in reports.
#[derive(Clone, Debug)]
pub(crate) struct Dumbbell {
    /// How many pairs.
    pub(crate) pairs: usize,
    /// The links between hosts and routers.
    pub(crate) access: Direction,
    /// The link between the routers, alike in both directions.
    pub(crate) bottleneck: Direction,
}

/// The direction of a [`Dumbbell`]'s bottleneck in which the a's send, as reports call it.
pub(crate) const BOTTLENECK: &str = "bottleneck:there";

/// Brakmo and Peterson's figure 6: three pairs of hosts on Ethernets of 10 Mbit/s, and between the routers 50 ms and so
/// many bytes a second and buffers. The paper's packets are 1.4 KB, which is the MTU here.
pub(crate) fn fig6(bytes_per_second: u64, buffers: u64) -> Dumbbell {
    let ethernet = Direction::new(Rate::mbit(10), Span(0)).mtu(FIG6_PACKET_BYTES);
    let bottleneck = Direction::new(Rate::bytes_per_second(bytes_per_second), Span::millis(50));
    Dumbbell { pairs: 3, access: ethernet, bottleneck: bottleneck.mtu(FIG6_PACKET_BYTES).buffers(buffers) }
}

/// A packet of figure 6.
pub(crate) const FIG6_PACKET_BYTES: u64 = 1400;

impl Dumbbell {
    /// The same with so many pairs.
    pub(crate) fn pairs(self, pairs: usize) -> Self {
        Self { pairs, ..self }
    }

    /// A scenario of this network without traffic.
    pub(crate) fn scenario(&self, duration: Span) -> Scenario {
        let mut scenario = Scenario::new(duration).router("left").router("right").link(
            "left",
            "right",
            self.bottleneck.clone(),
        );
        scenario.links[0].name = Some("bottleneck".to_owned());
        for pair in 1..=self.pairs {
            let (a, b) = (format!("a{pair}"), format!("b{pair}"));
            scenario = scenario
                .link(&a, "left", self.access.clone())
                .link("right", &b, self.access.clone())
                .host(a)
                .host(b);
        }
        scenario
    }
}
