//! The network of most situations: pairs of hosts around one bottleneck.

use ackclock_sim::scenario::{Jitter, Variation};
use ackclock_sim::units::{Limit, Rate, Span};
use ackclock_sim::{Direction, QueueConfig, Scenario};

/// Pairs of hosts around one bottleneck: `a1 … aN` - `left` - `right` - `b1 … bN`. The link in the middle is called
/// `bottleneck`; its direction towards the b's is `bottleneck:there` in reports.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// How many pairs.
    pub pairs: usize,
    /// The links between hosts and routers.
    pub access: Direction,
    /// The link between the routers, from the a's to the b's.
    pub bottleneck: Direction,
    /// The same from the b's to the a's; as `bottleneck` unless told.
    pub back: Option<Direction>,
}

/// The direction of a [`Dumbbell`]'s bottleneck in which the a's send, as reports call it.
pub const BOTTLENECK: &str = "bottleneck:there";

impl Dumbbell {
    /// A bottleneck with nothing else in its way: access links ten times as fast whose queues never fill. Their delay
    /// varies by up to the time that a full packet takes at the bottleneck, without which the losses of a drop-tail queue
    /// fall on whoever's packets come just after another's (Floyd and Jacobson, "On Traffic Phase Effects in Packet-Switched
    /// Gateways", 1992). The way back has the same rate and delay and loses nothing.
    #[must_use]
    pub fn around(bottleneck: Direction) -> Self {
        let bits = bottleneck.rate.bits();
        let packet = Span((bottleneck.mtu.0 * 8).saturating_mul(1_000_000_000) / bits.max(1));
        let jitter = Jitter { by: Variation::Uniform(packet), may_reorder: false };
        let deep = QueueConfig::drop_tail(Limit::Packets(1_000_000));
        let access = Direction::new(Rate::bits_per_second(bits.saturating_mul(10)), Span(0))
            .mtu(bottleneck.mtu.0)
            .queue(deep.clone());
        let back = Direction::new(bottleneck.rate, bottleneck.delay).mtu(bottleneck.mtu.0).queue(deep);
        let access = Direction { jitter: Some(jitter), ..access };
        Self { pairs: 1, access, bottleneck, back: Some(back) }
    }

    /// The same with so many pairs.
    #[must_use]
    pub fn pairs(self, pairs: usize) -> Self {
        Self { pairs, ..self }
    }

    /// A scenario of this network without traffic.
    #[must_use]
    pub fn scenario(&self, duration: Span) -> Scenario {
        let back = self.back.clone().unwrap_or_else(|| self.bottleneck.clone());
        let mut scenario = Scenario::new(duration).router("left").router("right").asymmetric(
            "left",
            "right",
            self.bottleneck.clone(),
            back,
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
