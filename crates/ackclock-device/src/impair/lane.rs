//! One direction of an impaired device: what happens to each packet, and when it leaves.

use std::time::Duration;

use ackclock_wire::pipe::{Pipe, transmission_time};
use ackclock_wire::random::{Rng, scale};
use tokio::time::Instant;

use super::{Settings, Statistics};
use crate::deadline::after;

/// One direction.
#[derive(Debug)]
pub(super) struct Lane {
    settings: Settings,
    blackout: bool,
    rng: Rng,
    /// The bottleneck and the delay line.
    pipe: Pipe<Instant, Vec<u8>>,
    /// When the last packet on the delay line is released.
    last_release: Option<Instant>,
    held: Vec<Held>,
    statistics: Statistics,
}

/// A packet held back for others to overtake.
#[derive(Debug)]
struct Held {
    overtakers_left: u32,
    overtaken: bool,
    until: Instant,
    bytes: Vec<u8>,
}

/// The random numbers of one packet. Their count never varies, so a packet's fate depends only on the seed
/// and its position, not on the settings or on other packets.
struct Draws {
    loss: u64,
    duplicate: u64,
    corrupt: u64,
    corrupt_bit: u64,
    reorder: u64,
    jitter: u64,
    copy_jitter: u64,
}

impl Draws {
    fn new(rng: &mut Rng) -> Self {
        Self {
            loss: rng.next_u64(),
            duplicate: rng.next_u64(),
            corrupt: rng.next_u64(),
            corrupt_bit: rng.next_u64(),
            reorder: rng.next_u64(),
            jitter: rng.next_u64(),
            copy_jitter: rng.next_u64(),
        }
    }
}

impl Lane {
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            settings,
            blackout: false,
            rng: Rng::new(seed),
            pipe: Pipe::new(),
            last_release: None,
            held: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    pub fn set_blackout(&mut self, blackout: bool) {
        self.blackout = blackout;
    }

    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Takes a packet at time `now`.
    pub fn offer(&mut self, now: Instant, mut bytes: Vec<u8>) {
        let draws = Draws::new(&mut self.rng);
        self.statistics.offered += 1;
        if self.blackout {
            self.statistics.blacked_out += 1;
            return;
        }
        if self.settings.loss.holds(draws.loss) {
            self.statistics.lost += 1;
            return;
        }
        // Reuses the bit-flip draw, which is hardly ever needed. One more draw would have changed the fates
        // for every seed.
        if self.settings.mark.holds(draws.corrupt_bit) {
            self.statistics.marked += u64::from(ackclock_wire::ecn::mark(&mut bytes));
        }
        let copy = self.settings.duplicate.holds(draws.duplicate).then(|| bytes.clone());
        if self.settings.corrupt.holds(draws.corrupt) && flip_bit(&mut bytes, draws.corrupt_bit) {
            self.statistics.corrupted += 1;
        }
        let held_back = self.settings.reorder.holds(draws.reorder) && self.settings.reorder_depth > 0;
        self.enter(now, bytes, draws.jitter, held_back);
        if let Some(copy) = copy
            && self.enter(now, copy, draws.copy_jitter, false)
        {
            self.statistics.duplicated += 1;
        }
    }

    /// When the next packet is released.
    pub fn next_release(&self) -> Option<Instant> {
        let held = self.held.iter().map(|held| held.until).min();
        self.pipe.next_due().into_iter().chain(held).min()
    }

    /// Removes the next packet that is due.
    pub fn pop_due(&mut self, now: Instant) -> Option<Vec<u8>> {
        while let Some(index) = self.held.iter().position(|held| held.until <= now) {
            let held = self.held.remove(index);
            self.let_go(held, now);
        }
        let (_, bytes) = self.pipe.take_due(now)?;
        self.statistics.delivered += 1;
        Some(bytes)
    }

    /// Passes a packet through the bottleneck, then onto the delay line or into the hold. Returns `false` if
    /// there is no room.
    fn enter(&mut self, now: Instant, mut bytes: Vec<u8>, jitter_draw: u64, held_back: bool) -> bool {
        let Some(departure) = self.departure(now, bytes.len()) else {
            self.statistics.queue_full += 1;
            return false;
        };
        // Subtract the packet itself and the one being transmitted, which does not wait.
        let waiting = self.pipe.queued().saturating_sub(2);
        if self.settings.mark_above.is_some_and(|most| waiting >= most) {
            self.statistics.marked += u64::from(ackclock_wire::ecn::mark(&mut bytes));
        }
        let jitter_ns = u64::try_from(self.settings.jitter.as_nanos()).unwrap_or(u64::MAX);
        let jitter = Duration::from_nanos(scale(jitter_draw, jitter_ns));
        let arrival = after(departure, self.settings.delay.saturating_add(jitter));
        let release = self.last_release.map_or(arrival, |last| last.max(arrival));
        if held_back {
            let until = release + REORDER_HOLD_MAX;
            let overtakers_left = self.settings.reorder_depth;
            self.held.push(Held { overtakers_left, overtaken: false, until, bytes });
        } else {
            self.last_release = Some(release);
            self.pipe.carry(release, bytes);
            self.overtake(release);
        }
        true
    }

    /// When a packet of `len` bytes that arrives now has left the bottleneck; `None` if its queue is full.
    fn departure(&mut self, now: Instant, len: usize) -> Option<Instant> {
        if self.pipe.in_transit() + self.held.len() >= LINE_PACKETS_MAX {
            return None;
        }
        let Some(rate_bps) = self.settings.rate_bps else { return Some(now) };
        let backlog = self.pipe.backlog(now);
        // The one being transmitted no longer waits.
        let full = backlog.packets > self.settings.queue_packets
            || self.settings.queue_bytes.is_some_and(|most| backlog.waiting_bytes + len > most);
        if backlog.packets > 0 && full {
            return None;
        }
        Some(self.pipe.transmit(now, len, transmission_time(len, rate_bps).min(TRANSMISSION_MAX)))
    }

    /// Tells the held packets that a packet released at `release` has overtaken them.
    fn overtake(&mut self, release: Instant) {
        for held in &mut self.held {
            held.overtaken = true;
            held.overtakers_left -= 1;
        }
        while let Some(index) = self.held.iter().position(|held| held.overtakers_left == 0) {
            let held = self.held.remove(index);
            self.let_go(held, release);
        }
    }

    fn let_go(&mut self, held: Held, release: Instant) {
        self.statistics.reordered += u64::from(held.overtaken);
        self.pipe.carry(release, held.bytes);
    }
}

fn flip_bit(bytes: &mut [u8], draw: u64) -> bool {
    let bit = scale(draw, bytes.len() as u64 * 8);
    let index = usize::try_from(bit / 8).ok();
    let Some(byte) = index.and_then(|index| bytes.get_mut(index)) else { return false };
    *byte ^= 1 << (bit % 8);
    true
}

/// The longest that a packet is held for others to overtake it.
const REORDER_HOLD_MAX: Duration = Duration::from_millis(20);

/// The limit of the delay line: 100 MB of full packets at MTU 1500.
const LINE_PACKETS_MAX: usize = 65_536;

/// The longest transmission time of one packet, so that sums of times cannot overflow.
const TRANSMISSION_MAX: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;
