//! The network of most situations: pairs of hosts around one bottleneck.

use crate::scenario::{Jitter, Variation};
use crate::units::{Limit, Rate, Span};
use crate::{Direction, QueueConfig, Scenario};

/// Pairs of hosts around one bottleneck: `a1 … aN` - `left` - `right` - `b1 … bN`. The link in the middle is
/// called `bottleneck`; its direction towards the b's is `bottleneck:there` in reports.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// The number of pairs.
    pub pairs: usize,
    /// The links between hosts and routers.
    pub access: Direction,
    /// The link between the routers, from the a's to the b's.
    pub bottleneck: Direction,
    /// The bottleneck from the b's to the a's; as `bottleneck` by default.
    pub back: Option<Direction>,
}

/// The direction of a [`Dumbbell`]'s bottleneck in which the a's send, as in reports.
pub const BOTTLENECK: &str = "bottleneck:there";

impl Dumbbell {
    /// With this many pairs.
    #[must_use]
    pub fn pairs(self, pairs: usize) -> Self {
        Self { pairs, ..self }
    }

    /// A scenario of this network without traffic.
    #[must_use]
    pub fn scenario(&self, duration: Span) -> Scenario {
        let routers = Scenario::new(duration).router("left").router("right");
        let mut scenario = routers.link("left", "right", self.bottleneck.clone());
        scenario.links[0].name = Some("bottleneck".to_owned());
        scenario.links[0].back = self.back.clone().map(Box::new);
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

/// A scenario without traffic in which `pairs` of hosts share `bottleneck` and are otherwise unhindered:
/// access links are ten times as fast, their queues never fill, and the way back has the bottleneck's rate
/// and delay and loses nothing.
///
/// Senders' access links delay each packet by up to the time that a full one takes at the bottleneck. Without
/// such noise, the losses of a drop-tail queue fall on the flow whose packets arrive just after another's
/// (Floyd and Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways", 1992).
#[must_use]
pub fn shared(bottleneck: Direction, pairs: usize, duration: Span) -> Scenario {
    let (bits, mtu) = (bottleneck.rate.bits(), bottleneck.mtu);
    let deep = QueueConfig::drop_tail(Limit::Packets(1_000_000));
    let plain = |rate, delay| Direction { mtu, ..Direction::new(rate, delay) }.queue(deep.clone());
    let back = Some(plain(bottleneck.rate, bottleneck.delay));
    let access = plain(Rate::bits_per_second(bits.saturating_mul(10)), Span(0));
    let packet = Span((mtu.0 * 8).saturating_mul(1_000_000_000) / bits.max(1));
    let jitter = Jitter { by: Variation::Uniform(packet), may_reorder: false };
    let mut scenario = Dumbbell { pairs, access: access.clone(), bottleneck, back }.scenario(duration);
    for link in scenario.links.iter_mut().filter(|link| link.between[1] == "left") {
        link.there.jitter = Some(jitter);
        link.back = Some(Box::new(access.clone()));
    }
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_way_there_is_disturbed() {
        let bottleneck = Direction::new(Rate::mbit(12), Span::millis(5)).buffers(7);
        let scenario = shared(bottleneck.clone(), 2, Span::seconds(1));
        scenario.check().unwrap();
        assert_eq!(scenario.links[0].there, bottleneck);
        let jitters: Vec<bool> = scenario.links.iter().map(|link| link.there.jitter.is_some()).collect();
        assert_eq!(jitters, [false, true, false, true, false]);
        assert!(scenario.links.iter().all(|link| link.back().jitter.is_none()));
        // 1500 bytes at 12 Mbit/s take a millisecond.
        assert_eq!(scenario.links[1].there.jitter.unwrap().by, Variation::Uniform(Span::millis(1)));
    }
}
