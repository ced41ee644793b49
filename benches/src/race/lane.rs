//! One direction of the emulated path: loss by packet number, a bottleneck with a bounded queue, a fixed
//! delay.
//!
//! Time is nanoseconds from an epoch that the caller chooses.

use std::time::Duration;

use ackclock_control::quantity::Share;
use ackclock_wire::pipe::{Pipe, transmission_time};
use ackclock_wire::random::{Rng, mix};

/// The treatment of packets in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaneSpec {
    /// From the bottleneck's end to the other end of the path.
    pub delay: Duration,
    /// Bits of IP packet a second; `None`: no bottleneck.
    pub rate_bps: Option<u64>,
    /// Bytes that fit in front of the bottleneck, the packet in transmission included.
    pub queue_bytes: u64,
    /// Probability that a packet is lost.
    pub loss: Share,
    /// Decides which ones are.
    pub seed: u64,
}

/// One direction.
#[derive(Debug)]
pub struct Lane {
    spec: LaneSpec,
    /// Times are since the epoch.
    pipe: Pipe<Duration, Vec<u8>>,
    spare: Vec<Vec<u8>>,
    counts: LaneCounts,
}

/// Counts of a direction so far, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LaneCounts {
    /// Came in.
    pub offered: u64,
    /// Could be lost: those that were `at_risk`, see [`Lane::offer`].
    pub drawn: u64,
    /// Of these, were lost.
    pub lost: u64,
    /// Found the queue of the bottleneck full.
    pub queue_full: u64,
    /// Came out.
    pub delivered: u64,
}

/// The fate of a packet that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It will come out.
    Delivered,
    /// Lost by chance.
    Lost,
    /// The queue was full.
    QueueFull,
}

impl Lane {
    /// An empty direction.
    #[must_use]
    pub fn new(spec: LaneSpec) -> Self {
        let counts = LaneCounts::default();
        Self { spec, pipe: Pipe::new(), spare: Vec::new(), counts }
    }

    /// Takes in a packet. If it is `at_risk`, only the seed and the number of packets at risk before it
    /// decide whether it is lost: of two senders that are compared, both lose their k-th packet, or neither
    /// does.
    pub fn offer(&mut self, now: u64, packet: &[u8], at_risk: bool) -> Fate {
        self.counts.offered += 1;
        if at_risk {
            let number = self.counts.drawn;
            self.counts.drawn += 1;
            if is_lost(self.spec.seed, number, self.spec.loss) {
                self.counts.lost += 1;
                return Fate::Lost;
            }
        }
        let Some(departure) = self.departure(Duration::from_nanos(now), packet.len()) else {
            self.counts.queue_full += 1;
            return Fate::QueueFull;
        };
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(packet);
        self.pipe.carry(departure + self.spec.delay, bytes);
        Fate::Delivered
    }

    /// When the next packet comes out.
    #[must_use]
    pub fn next_release(&self) -> Option<u64> {
        self.pipe.next_due().map(nanos)
    }

    /// Takes out the next packet if its time has come, and returns that time. Give the packet back to
    /// [`Lane::reuse`].
    pub fn pop_due(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        let (release, bytes) = self.pipe.take_due(Duration::from_nanos(now))?;
        self.counts.delivered += 1;
        Some((nanos(release), bytes))
    }

    /// Takes back the memory of a packet.
    pub fn reuse(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(bytes);
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> LaneCounts {
        self.counts
    }

    /// When a packet of `len` bytes that arrives now leaves the bottleneck; `None`: the queue is full.
    fn departure(&mut self, now: Duration, len: usize) -> Option<Duration> {
        let Some(rate_bps) = self.spec.rate_bps else { return Some(now) };
        let takes = transmission_time(len, rate_bps);
        // The part of a packet that has been sent makes room, too.
        let room = transmission_time(self.spec.queue_bytes as usize, rate_bps);
        let waits = self.pipe.backlog(now).clear_at - now;
        (waits + takes <= room).then(|| self.pipe.transmit(now, len, takes))
    }
}

/// Whether the packet with this number is lost.
fn is_lost(seed: u64, number: u64, loss: Share) -> bool {
    loss.holds(mix(seed ^ Rng::new(number).next_u64()))
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Packets whose memory is kept.
const SPARE_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: LaneSpec = LaneSpec {
        delay: Duration::from_millis(5),
        rate_bps: None,
        queue_bytes: 3000,
        loss: Share::ZERO,
        seed: 1,
    };

    /// Which of the first packets are lost.
    fn losses(spec: LaneSpec, count: u64, packet: &[u8], apart_ns: u64) -> Vec<u64> {
        let mut lane = Lane::new(spec);
        (0..count).filter(|number| lane.offer(number * apart_ns, packet, true) == Fate::Lost).collect()
    }

    #[test]
    fn the_number_of_a_packet_decides_whether_it_is_lost() {
        let spec = LaneSpec { loss: Share::percent(1), ..FREE };
        let some = losses(spec, 10_000, &[0; 1500], 1000);
        assert_eq!(some, losses(spec, 10_000, &[0; 60], 7));
        assert_ne!(some, losses(LaneSpec { seed: 2, ..spec }, 10_000, &[0; 1500], 1000));
        // A higher loss takes more packets, never others instead.
        let more = losses(LaneSpec { loss: Share::percent(3), ..spec }, 10_000, &[0; 1500], 1000);
        assert!(some.iter().all(|number| more.contains(number)));
    }

    #[test]
    fn as_many_are_lost_as_asked_for() {
        // Five standard deviations of 100,000 draws.
        for (loss, within) in [(1_000, 32.0_f64), (10_000, 158.0), (30_000, 270.0)]
            .map(|(parts, within)| (Share::per_million(parts), within))
        {
            let lost = losses(LaneSpec { loss, ..FREE }, 100_000, &[0; 60], 1).len() as f64;
            assert!((lost - loss.fraction() * 1e5).abs() <= within, "{lost} at {loss}");
        }
        assert_eq!(losses(FREE, 100_000, &[0; 60], 1).len(), 0);
        assert_eq!(losses(LaneSpec { loss: Share::ONE, ..FREE }, 100, &[0; 60], 1).len(), 100);
    }

    #[test]
    fn packets_that_are_not_at_risk_pass_and_are_not_counted() {
        let spec = LaneSpec { loss: Share::percent(50), ..FREE };
        let (mut plain, mut mixed) = (Lane::new(spec), Lane::new(spec));
        for now in 0..1000 {
            assert_eq!(mixed.offer(now, &[0; 60], false), Fate::Delivered);
            assert_eq!(plain.offer(now, &[0; 60], true), mixed.offer(now, &[0; 60], true));
        }
        assert_eq!((mixed.counts().offered, mixed.counts().drawn), (2000, 1000));
    }

    #[test]
    fn packets_come_out_in_order_after_the_delay_and_not_before() {
        let mut lane = Lane::new(FREE);
        lane.offer(10, &[1], true);
        lane.offer(20, &[2], true);
        assert_eq!(lane.next_release(), Some(5_000_010));
        assert_eq!(lane.pop_due(5_000_009), None);
        assert_eq!(lane.pop_due(9_000_000), Some((5_000_010, vec![1])));
        assert_eq!(lane.pop_due(9_000_000), Some((5_000_020, vec![2])));
        assert_eq!(lane.pop_due(9_000_000), None);
        assert_eq!(lane.counts().delivered, 2);
    }

    #[test]
    fn a_bottleneck_spaces_packets_and_drops_what_its_queue_does_not_hold() {
        // 1,500 bytes at 12 Mbit/s take a millisecond; two of them fit.
        let mut lane = Lane::new(LaneSpec { rate_bps: Some(12_000_000), delay: Duration::ZERO, ..FREE });
        let packet = [0; 1500];
        let fates = [0; 3].map(|now| lane.offer(now, &packet, true));
        assert_eq!(fates, [Fate::Delivered, Fate::Delivered, Fate::QueueFull]);
        // Half of the first one has left: there is room for a small one, but not for a whole one.
        assert_eq!(lane.offer(500_000, &packet, true), Fate::QueueFull);
        assert_eq!(lane.offer(500_000, &packet[..750], true), Fate::Delivered);
        assert_eq!(lane.offer(1_000_000, &packet[..750], true), Fate::Delivered);
        let out: Vec<u64> = std::iter::from_fn(|| lane.pop_due(u64::MAX).map(|(at, _)| at)).collect();
        assert_eq!(out, [1_000_000, 2_000_000, 2_500_000, 3_000_000]);
        assert_eq!(lane.counts().queue_full, 2);
    }
}
