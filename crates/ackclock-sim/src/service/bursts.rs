//! Turns of a shared medium: a station waits for access, then sends what waits as one burst under one
//! preamble, as Wi-Fi's A-MPDUs are sent. All of a burst arrives at its end.

use crate::rng::Rng;
use crate::scenario::Aggregation;
use crate::transmitter::Transmitter;
use crate::units::Rate;

/// The bursts of a link.
#[derive(Debug)]
pub(super) struct Bursts {
    config: Aggregation,
    rate: Rate,
    busy_until: u64,
    /// The packets and bytes of the present burst.
    packets: u32,
    bytes: u64,
}

impl Bursts {
    pub fn new(config: Aggregation, rate: Rate) -> Self {
        Self { config, rate, busy_until: 0, packets: 0, bytes: 0 }
    }

    pub fn turn(&mut self, from: u64, rng: &mut Rng) -> u64 {
        from.max(self.busy_until).saturating_add(self.config.access.draw(rng).0)
    }

    pub fn has_room(&self) -> bool {
        self.packets < self.config.packets
    }

    pub fn take(&mut self, bytes: u32) -> bool {
        let together = self.bytes + u64::from(bytes);
        let fits = together <= self.config.bytes.0 && self.time(together) <= self.config.time.0;
        // One packet fits always.
        if self.packets > 0 && !fits {
            return false;
        }
        self.packets += 1;
        self.bytes = together;
        true
    }

    pub fn close(&mut self, now: u64) -> u64 {
        let time = if self.packets > 0 { self.time(self.bytes) } else { 0 };
        self.busy_until = now.saturating_add(time);
        (self.packets, self.bytes) = (0, 0);
        self.busy_until
    }

    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    /// The time of a burst of this many bytes, its preamble included.
    fn time(&self, bytes: u64) -> u64 {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.config.preamble.0.saturating_add(Transmitter::time_for(self.rate, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::TimeOf;
    use crate::units::{Bytes, Span};

    const US: u64 = 1000;

    fn bursts(adjust: impl Fn(&mut Aggregation)) -> Bursts {
        let mut config = Aggregation::new(TimeOf::Fixed(Span(100 * US)));
        config.preamble = Span(40 * US);
        adjust(&mut config);
        // A byte takes 80 ns.
        Bursts::new(config, Rate::mbit(100))
    }

    /// How many of the packets of 1,500 bytes that wait are in the next burst, and how long it takes.
    fn burst(bursts: &mut Bursts, now: u64) -> (u32, u64) {
        let mut rng = Rng::derive(1, "bursts");
        let turn = bursts.turn(now, &mut rng);
        let mut packets = 0;
        while bursts.has_room() && bursts.take(1500) {
            packets += 1;
        }
        (packets, bursts.close(turn) - now)
    }

    #[test]
    fn a_burst_ends_at_the_first_of_its_limits() {
        // Access, preamble, and 120 us for each packet.
        let time = |packets: u64| (140 + 120 * packets) * US;
        assert_eq!(burst(&mut bursts(|_| {}), 0), (43, time(43)), "65,535 bytes, but 5.2 ms");
        assert_eq!(burst(&mut bursts(|config| config.packets = 4), 0), (4, time(4)));
        assert_eq!(burst(&mut bursts(|config| config.bytes = Bytes(4500)), 0), (3, time(3)));
        assert_eq!(burst(&mut bursts(|config| config.time = Span(1000 * US)), 0), (8, time(8)));
        assert_eq!(burst(&mut bursts(|config| config.time = Span(1)), 0), (1, time(1)), "one always fits");
    }

    #[test]
    fn each_burst_waits_for_the_medium_again() {
        let mut bursts = bursts(|config| config.packets = 2);
        let first = burst(&mut bursts, 0).1;
        assert_eq!(first, 380 * US);
        // Packets that come meanwhile wait for the burst's end and then for access.
        assert_eq!(burst(&mut bursts, 100 * US).1, 280 * US + 380 * US);
    }
}
