//! The wire behind the queue: loss, damage, extra delay and second copies of packets.

use crate::packet::Packet;
use crate::queue::DropRule;
use crate::rng::{Rng, Variates as _};
use crate::scenario::{Blackout, Corruption, Direction, Jitter, Loss, Reordering, Scripted, Variation};
use crate::units::{Bytes, Share};

/// The impairments of one direction of a link.
#[derive(Debug)]
pub(crate) struct Wire {
    jitter: Option<Jitter>,
    loss: Option<Loss>,
    /// The state of Gilbert's and Elliott's model, and of episodes.
    is_bad: bool,
    /// When the next episode begins or this one ends.
    changes_at: u64,
    /// The lateness that is held, and until when.
    held: (u64, u64),
    scripts: Vec<Script>,
    reorder: Option<Reordering>,
    duplicate: Share,
    corrupt: Option<Corruption>,
    drop_above: Bytes,
    blackouts: Vec<Blackout>,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost(DropRule),
    Carried {
        /// Nanoseconds beyond the link's delay.
        late: u64,
        /// Whether it may overtake others and be overtaken.
        free: bool,
        /// Whether a copy follows it.
        twice: bool,
        damaged: bool,
    },
}

/// The packets to lose by number, and the count so far.
#[derive(Debug)]
pub(crate) struct Script {
    numbers: Vec<u64>,
    data: bool,
    of: Option<Conversation>,
    seen: u64,
}

/// The packets of one traffic: to or from this port of `server`, from or to `client`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversation {
    pub client: u32,
    pub server: u32,
    pub port: u16,
}

impl Wire {
    /// `None` without impairments. `resolve` finds the conversations of a traffic by name.
    pub fn new(config: &Direction, resolve: impl Fn(&str) -> Option<Conversation>) -> Option<Box<Self>> {
        let script = |script: &Scripted| Script {
            numbers: script.packets.clone(),
            data: script.data,
            of: script.of.as_deref().and_then(&resolve),
            seen: 0,
        };
        let wire = Self {
            jitter: config.jitter,
            loss: config.loss,
            is_bad: false,
            changes_at: 0,
            held: (0, 0),
            scripts: config.drop.iter().map(script).collect(),
            reorder: config.reorder,
            duplicate: config.duplicate,
            corrupt: config.corrupt,
            drop_above: config.drop_above,
            blackouts: config.blackout.clone(),
        };
        let idle = wire.jitter.is_none()
            && wire.loss.is_none()
            && wire.scripts.is_empty()
            && wire.reorder.is_none()
            && wire.duplicate == Share::ZERO
            && wire.corrupt.is_none()
            && wire.drop_above >= MOST
            && wire.blackouts.is_empty();
        (!idle).then(|| Box::new(wire))
    }

    /// A wire without impairments.
    pub fn clean() -> Self {
        Self {
            jitter: None,
            loss: None,
            is_bad: false,
            changes_at: 0,
            held: (0, 0),
            scripts: Vec::new(),
            reorder: None,
            duplicate: Share::ZERO,
            corrupt: None,
            drop_above: MOST,
            blackouts: Vec::new(),
        }
    }

    pub fn set_drop_above(&mut self, bytes: Bytes) {
        self.drop_above = bytes;
    }

    pub fn loss(&self) -> Option<&Loss> {
        self.loss.as_ref()
    }

    pub fn set_loss(&mut self, share: Share) {
        self.loss = Some(Loss::Independent(share));
    }

    /// Decides what happens to `packet`, which leaves at `now` (nanoseconds). Every rule is evaluated for
    /// each packet, so that one rule's draws do not depend on another's result.
    pub fn fate(&mut self, now: u64, packet: &mut Packet, rng: &mut Rng) -> Fate {
        let scripted = self.scripts.iter_mut().fold(false, |lost, script| script.takes(packet) | lost);
        let by_chance = self.lose(now, rng);
        let late = self.lateness(now, rng);
        let reordered = self.reorder.filter(|reorder| rng.happens(reorder.share));
        let twice = self.duplicate > Share::ZERO && rng.happens(self.duplicate);
        let damaged = self.damage(packet, rng);
        if self.blackouts.iter().any(|blackout| (blackout.from.0..blackout.to.0).contains(&now)) {
            return Fate::Lost(DropRule::Blackout);
        }
        if u64::from(packet.len()) > self.drop_above.0 {
            return Fate::Lost(DropRule::AboveSize);
        }
        if scripted {
            return Fate::Lost(DropRule::Scripted);
        }
        if let Some(rule) = by_chance {
            return Fate::Lost(rule);
        }
        Fate::Carried {
            late: late + reordered.map_or(0, |reorder| reorder.by.0),
            free: reordered.is_some() || self.jitter.is_some_and(|jitter| jitter.may_reorder),
            twice,
            damaged,
        }
    }

    fn lose(&mut self, now: u64, rng: &mut Rng) -> Option<DropRule> {
        match self.loss? {
            Loss::Independent(share) => rng.happens(share).then_some(DropRule::RandomLoss),
            Loss::GilbertElliott { to_bad, to_good, in_bad, in_good } => {
                let change = if self.is_bad { to_good } else { to_bad };
                self.is_bad ^= rng.happens(change);
                let loss = if self.is_bad { in_bad } else { in_good };
                rng.happens(loss).then_some(DropRule::BurstLoss)
            }
            Loss::Episodes { every, lasting, share } => {
                while self.changes_at <= now {
                    // The first change is to a time without loss.
                    self.is_bad = !self.is_bad && self.changes_at > 0;
                    let length = if self.is_bad { lasting } else { every };
                    // At least a nanosecond, so that this ends.
                    self.changes_at = self.changes_at.saturating_add(length.draw(rng).0.max(1));
                }
                (self.is_bad && rng.happens(share)).then_some(DropRule::BurstLoss)
            }
        }
    }

    fn lateness(&mut self, now: u64, rng: &mut Rng) -> u64 {
        match self.jitter.map(|jitter| jitter.by) {
            None => 0,
            Some(Variation::Uniform(most)) => rng.below(most.0 + 1),
            Some(Variation::Exponential(mean)) => rng.exponential(mean).0,
            Some(Variation::Held { wait, lasting }) => {
                if self.held.1 <= now {
                    self.held = (wait.draw(rng).0, now.saturating_add(lasting.draw(rng).0));
                }
                self.held.0
            }
        }
    }

    fn damage(&self, packet: &mut Packet, rng: &mut Rng) -> bool {
        let Some(Corruption { found, unseen }) = self.corrupt else { return false };
        let (found, unseen, bit) = (rng.happens(found), rng.happens(unseen), rng.next_u64());
        if found {
            packet.flip_bit(bit);
        }
        let swapped = unseen && packet.swap_words();
        found || swapped
    }
}

/// The largest possible IP packet.
const MOST: Bytes = Bytes(65_535);

impl Script {
    /// Counts the packet if it qualifies. Returns whether to lose it.
    fn takes(&mut self, packet: &Packet) -> bool {
        if self.data && packet.payload_len() == 0 || !self.of.is_none_or(|of| of.has(packet)) {
            return false;
        }
        self.seen += 1;
        self.numbers.contains(&self.seen)
    }
}

impl Conversation {
    fn has(self, packet: &Packet) -> bool {
        let Some((src_port, dst_port)) = packet.ports() else { return false };
        (packet.dst == self.server && dst_port == self.port)
            || (packet.dst == self.client && src_port == self.port)
    }
}

#[cfg(test)]
mod tests {
    use ackclock_wire::{ChecksumAt, ChecksumState, TxPacket};

    use super::*;
    use crate::packet::Packets;
    use crate::scenario::TimeOf;
    use crate::units::{Rate, Span};

    const N: u32 = 100_000;

    fn direction() -> Direction {
        Direction::new(Rate::mbit(1), Span(0))
    }

    /// The fates of `N` packets, in order.
    fn fates(config: &Direction, seed: u64) -> Vec<Fate> {
        let mut wire = Wire::new(config, |_| None).expect("something happens");
        let mut rng = Rng::derive(seed, "wire");
        let mut packets = Packets::default();
        let header = [0x45; 40];
        let (payload, checksum) = ([&[1u8; 10][..], &[][..]], ChecksumState::Partial(ChecksumAt::tcp(20)));
        let packet =
            TxPacket { header: &header, transport_offset: 20, payload, segment_size: None, checksum };
        let id = packets.insert(&packet, false, 0);
        (0..N).map(|n| wire.fate(u64::from(n), packets.get_mut(id), &mut rng)).collect()
    }

    fn lost(fates: &[Fate]) -> Vec<bool> {
        fates.iter().map(|fate| matches!(fate, Fate::Lost(_))).collect()
    }

    #[test]
    fn independent_loss_is_binomial() {
        for seed in 0..5 {
            let config = direction().loss(Loss::Independent(Share::percent(1)));
            let lost = lost(&fates(&config, seed));
            let count = lost.iter().filter(|lost| **lost).count() as f64;
            // Five standard deviations of a binomial count: 5 sqrt(N p q) = 157.
            assert!((count - 1000.0).abs() < 157.0, "{count}");
            let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count();
            assert!(pairs < 30, "{pairs} pairs, 10 expected");
        }
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts_of_the_right_length() {
        let (to_bad, to_good) = (Share::per_million(5000), Share::percent(25));
        let loss = Loss::GilbertElliott { to_bad, to_good, in_bad: Share::ONE, in_good: Share::ZERO };
        for seed in 0..5 {
            let lost = lost(&fates(&direction().loss(loss), seed));
            let count = lost.iter().filter(|lost| **lost).count() as f64;
            let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
            // In equilibrium p/(p+r) = 0.005/0.255 = 1.96 % are lost, in bursts with a mean length of 1/r =
            // 4. The number of bursts is about binomial around 490: five deviations are 111. A burst's length
            // has a deviation of 3.5, the mean of 490 of them one of 0.16.
            assert!((bursts - 490.0).abs() < 111.0, "{bursts} bursts");
            assert!((count / bursts - 4.0).abs() < 0.8, "{count} in {bursts} bursts");
        }
    }

    #[test]
    fn episodes_lose_their_share_of_the_time() {
        let [every, lasting] = [Span(300), Span(100)].map(TimeOf::Exponential);
        let loss = Loss::Episodes { every, lasting, share: Share::ONE };
        for seed in 0..5 {
            // A packet each nanosecond.
            let lost = lost(&fates(&direction().loss(loss), seed));
            let count = lost.iter().filter(|lost| **lost).count() as f64;
            let episodes = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
            // 250 episodes, with a deviation of about 250^0.5 * (300^2 + 100^2)^0.5 / 400 = 12.5, of 100
            // each, whose mean has a deviation of 6.3.
            assert!((episodes - 250.0).abs() < 63.0, "{episodes}");
            assert!((count / episodes - 100.0).abs() < 32.0, "{count} in {episodes}");
            assert!(!lost[0]);
        }
    }

    #[test]
    fn scripted_packets_are_lost_by_number() {
        let script = Scripted { packets: vec![1, 3, 4], data: true, of: None };
        let lost = lost(&fates(&Direction { drop: vec![script], ..direction() }, 0));
        let numbers: Vec<usize> = (1..).zip(lost).filter(|(_, lost)| *lost).map(|(n, _)| n).collect();
        assert_eq!(numbers, [1, 3, 4]);
    }

    #[test]
    fn a_blackout_takes_everything_from_its_beginning_to_its_end() {
        let config = Direction { blackout: vec![Blackout { from: Span(10), to: Span(20) }], ..direction() };
        let lost = lost(&fates(&config, 0));
        assert!((0..N as usize).all(|n| lost[n] == (10..20).contains(&n)));
    }

    #[test]
    fn a_packet_above_the_size_is_lost_and_one_of_that_size_is_not() {
        // The packets have 50 bytes.
        let lost = |above| {
            lost(&fates(&Direction { duplicate: Share::percent(1), ..direction().drop_above(above) }, 0))
        };
        assert!(lost(49).iter().all(|lost| *lost));
        assert!(lost(50).iter().all(|lost| !lost));
    }

    #[test]
    fn jitter_stays_within_its_bounds_and_has_its_mean() {
        let late = |by| {
            let config = Direction { jitter: Some(Jitter { by, may_reorder: false }), ..direction() };
            let late = fates(&config, 1).into_iter().map(|fate| match fate {
                Fate::Carried { late, free: false, .. } => late,
                fate => panic!("{fate:?}"),
            });
            late.collect::<Vec<_>>()
        };
        let uniform = late(Variation::Uniform(Span(1000)));
        assert_eq!((uniform.iter().min(), uniform.iter().max()), (Some(&0), Some(&1000)));
        let mean = late(Variation::Exponential(Span(1_000_000))).iter().sum::<u64>() / u64::from(N);
        assert!((984_000..1_016_000).contains(&mean), "{mean}");
        let held = late(Variation::Held {
            wait: TimeOf::Exponential(Span(1_000_000)),
            lasting: TimeOf::Exponential(Span(20)),
        });
        // About 5,000 values, so the mean has a deviation of a mean of 5,000 with lengths of a deviation of
        // one.
        let mean = held.iter().sum::<u64>() / u64::from(N);
        assert!((900_000..1_100_000).contains(&mean), "{mean}");
        let changes = held.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((4_200..5_200).contains(&changes), "{changes}");
    }
}
