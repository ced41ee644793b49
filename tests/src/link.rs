//! One direction of a path: delay, rate, queue, MTU and every fault that RFC 9293 expects a network to have.

use std::time::Duration;

use ackclock_control::quantity::Share;
use ackclock_core::Instant;
use ackclock_wire::pipe::Pipe;

use crate::rng::Rng;

/// The faults of a link.
#[derive(Clone, Debug)]
pub struct Faults {
    /// One-way delay.
    pub delay: Duration,
    /// Up to this much more, drawn for each packet.
    pub jitter: Duration,
    /// The receiver's device delivers packets at multiples of this, all that have arrived at once; zero: each
    /// as it arrives.
    pub moderation: Duration,
    /// Bits a second; `None`: no limit.
    pub rate_bps: Option<u64>,
    /// The most packets that wait at the rate limit.
    pub queue_packets: usize,
    /// Largest packet in bytes; a larger one is dropped, and its sender is informed.
    pub mtu: usize,
    /// Packets marked with Congestion Experienced, of those whose transport is ECN-capable.
    pub mark: Share,
    /// A packet that finds this many waiting at the rate limit is marked, too.
    pub mark_above: Option<usize>,
    /// Packets lost.
    pub loss: Share,
    /// Packets that arrive twice.
    pub duplicate: Share,
    /// Packets held back by up to `reorder_by`.
    pub reorder: Share,
    /// The longest time for which they are held back.
    pub reorder_by: Duration,
    /// Packets with a burst of up to 15 damaged bits, which the Internet checksum always finds.
    pub corrupt: Share,
    /// Packets cut short.
    pub truncate: Share,
    /// Packets arrive only at multiples of this, as from a radio link or a driver that collects them; zero:
    /// at any time.
    pub batch: Duration,
    /// Times in which nothing passes.
    pub blackouts: Vec<(Instant, Instant)>,
}

impl Faults {
    /// A link that only delays.
    #[must_use]
    pub fn none(delay: Duration) -> Self {
        Self {
            delay,
            jitter: Duration::ZERO,
            moderation: Duration::ZERO,
            rate_bps: None,
            queue_packets: 1_000,
            mtu: 65_535,
            mark: Share::ZERO,
            mark_above: None,
            loss: Share::ZERO,
            duplicate: Share::ZERO,
            reorder: Share::ZERO,
            reorder_by: Duration::ZERO,
            corrupt: Share::ZERO,
            truncate: Share::ZERO,
            batch: Duration::ZERO,
            blackouts: Vec::new(),
        }
    }
}

/// Counts of what happened to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets that were sent into the link.
    pub sent: u64,
    /// Packets that came out, copies included.
    pub delivered: u64,
    /// Packets lost at random or in a blackout.
    pub lost: u64,
    /// Packets dropped by a full queue.
    pub queue_drops: u64,
    /// Packets too big for the link.
    pub too_big: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets held back.
    pub reordered: u64,
    /// Packets damaged.
    pub corrupted: u64,
    /// Packets cut short.
    pub truncated: u64,
    /// The most packets that waited at the rate limit, the one that leaves included.
    pub queue_max: usize,
    /// Packets marked with Congestion Experienced.
    pub marked: u64,
    /// The sum of the queue lengths that the packets found.
    pub queue_sum: u64,
}

impl LinkStats {
    /// All faults together.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.lost
            + self.queue_drops
            + self.too_big
            + self.duplicated
            + self.reordered
            + self.corrupted
            + self.truncated
    }

    /// The mean queue length that packets found at the rate limit.
    #[must_use]
    pub fn queue_mean(&self) -> u64 {
        self.queue_sum / self.sent.max(1)
    }
}

/// One direction of a path.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its faults; may be changed at any time.
    pub faults: Faults,
    /// Its counts.
    pub stats: LinkStats,
    rng: Rng,
    pipe: Pipe<Instant, Vec<u8>>,
}

/// The outcome at the link's entrance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// Taken, or lost silently.
    Quietly,
    /// Too big: the sender must learn this MTU.
    TooBig(usize),
}

impl Link {
    /// An empty link.
    #[must_use]
    pub fn new(faults: Faults, seed: u64) -> Self {
        Self { faults, stats: LinkStats::default(), rng: Rng::new(seed), pipe: Pipe::new() }
    }

    /// A packet enters the link.
    pub fn send(&mut self, now: Instant, mut packet: Vec<u8>) -> Entered {
        self.stats.sent += 1;
        if packet.len() > self.faults.mtu {
            self.stats.too_big += 1;
            return Entered::TooBig(self.faults.mtu);
        }
        let blackout = self.faults.blackouts.iter().any(|(from, to)| (*from..*to).contains(&now));
        if blackout || self.faults.loss.holds(self.rng.next_u64()) {
            self.stats.lost += 1;
            return Entered::Quietly;
        }
        let Some(departs) = self.departure(now, packet.len()) else {
            self.stats.queue_drops += 1;
            return Entered::Quietly;
        };
        let waiting = self.pipe.queued().saturating_sub(2);
        // No number is drawn where marks are off, so that seeds keep their meaning.
        let by_chance = self.faults.mark > Share::ZERO && self.faults.mark.holds(self.rng.next_u64());
        if by_chance || self.faults.mark_above.is_some_and(|most| waiting >= most) {
            self.stats.marked += u64::from(ackclock_wire::ecn::mark(&mut packet));
        }
        if self.faults.duplicate.holds(self.rng.next_u64()) {
            self.stats.duplicated += 1;
            self.carry(departs, packet.clone());
        }
        self.carry(departs, packet);
        Entered::Quietly
    }

    /// When the next packet arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.pipe.next_due()
    }

    /// The number of packets in transit.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.pipe.in_transit()
    }

    /// The next packet that has arrived by `now`.
    pub fn receive(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (_, packet) = self.pipe.take_due(now)?;
        self.stats.delivered += 1;
        Some(packet)
    }

    /// From now on the link only delays; its rate, queue, moderation and MTU stay.
    pub fn heal(&mut self) {
        let Faults { delay, moderation, rate_bps, queue_packets, mtu, .. } = self.faults;
        self.faults = Faults { moderation, rate_bps, queue_packets, mtu, ..Faults::none(delay) };
    }

    /// Every packet is accounted for.
    ///
    /// # Panics
    /// If one is not.
    pub fn check(&self) {
        let s = &self.stats;
        let entered = s.sent + s.duplicated;
        let gone = s.delivered + s.lost + s.queue_drops + s.too_big;
        assert_eq!(entered, gone + self.under_way() as u64, "packets appear or vanish: {s:?}");
    }

    fn departure(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let Some(rate) = self.faults.rate_bps else { return Some(now) };
        let before = self.pipe.backlog(now).packets;
        self.stats.queue_sum += before as u64;
        if before >= self.faults.queue_packets {
            return None;
        }
        // Rounded down, as the times that the pinned hashes hold.
        let takes = Duration::from_nanos(len as u64 * 8 * 1_000_000_000 / rate);
        let departs = self.pipe.transmit(now, len, takes);
        self.stats.queue_max = self.stats.queue_max.max(self.pipe.queued());
        Some(departs)
    }

    fn carry(&mut self, departs: Instant, mut packet: Vec<u8>) {
        let mut arrives = departs + self.faults.delay + self.up_to(self.faults.jitter);
        if self.faults.reorder.holds(self.rng.next_u64()) {
            self.stats.reordered += 1;
            arrives += self.up_to(self.faults.reorder_by);
        }
        let batch = self.faults.batch.as_nanos() as u64;
        if batch > 0 {
            arrives = Instant::ZERO + Duration::from_nanos(arrives.as_nanos().next_multiple_of(batch));
        }
        if self.faults.corrupt.holds(self.rng.next_u64()) {
            self.stats.corrupted += 1;
            self.damage(&mut packet);
        } else if self.faults.truncate.holds(self.rng.next_u64()) {
            self.stats.truncated += 1;
            packet.truncate(self.rng.below(packet.len() as u64) as usize);
        }
        let moderation = self.faults.moderation.as_nanos() as u64;
        if moderation > 0 {
            let since_zero = arrives.saturating_since(Instant::ZERO).as_nanos() as u64;
            arrives = Instant::ZERO + Duration::from_nanos(since_zero.next_multiple_of(moderation));
        }
        self.pipe.carry(arrives, packet);
    }

    /// Flips bits within a range of 15; ones' complement sums detect any such burst.
    fn damage(&mut self, packet: &mut [u8]) {
        let first = self.rng.below(packet.len() as u64 * 8) as usize;
        let pattern = 1 | self.rng.below(1 << 15) as usize;
        for bit in (0..15).filter(|bit| pattern >> bit & 1 == 1) {
            let at = first + bit;
            if let Some(byte) = packet.get_mut(at / 8) {
                *byte ^= 0x80 >> (at % 8);
            }
        }
    }

    fn up_to(&mut self, limit: Duration) -> Duration {
        Duration::from_nanos(self.rng.below(limit.as_nanos() as u64 + 1))
    }
}
