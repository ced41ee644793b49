//! The cost of one hostile packet to the core: from the packet to the last answer to it.
//!
//! Identical packets in one order hit the same victim several times. The cost of a packet is the least of
//! these times, so that other work of the machine does not count; the worst packet is the one whose least
//! time is the greatest.

use std::time::{Duration, Instant};

use ackclock_core::Limits;
use ackclock_wire::{ChecksumState, RxMeta};
use serde::Serialize;

use super::kind::Kind;

/// The cost of the packets of a storm, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// The kind of packet.
    pub kind: &'static str,
    /// How many there were.
    pub packets: usize,
    /// The mean.
    pub mean: f64,
    /// The 99.9th percentile.
    pub p999: u64,
    /// The worst.
    pub worst: u64,
    /// Packets sent in answer.
    pub answers: usize,
    /// Bytes of the memory budget in use at the end.
    pub memory: usize,
}

/// Measures a storm of `packets` packets, `rounds` times over.
#[must_use]
pub fn measure(kind: Kind, packets: usize, rounds: usize) -> Cost {
    let mut least = vec![u64::MAX; packets];
    let (mut answers, mut memory) = (0, 0);
    for _ in 0..rounds {
        (answers, memory) = pass(kind, &mut least);
    }
    let mean = least.iter().sum::<u64>() as f64 / packets as f64;
    least.sort_unstable();
    let at = |share: f64| least[((packets - 1) as f64 * share) as usize];
    Cost { kind: kind.name(), packets, mean, p999: at(0.999), worst: at(1.0), answers, memory }
}

/// One storm; a millisecond of the victim's time for each hundred packets.
fn pass(kind: Kind, least: &mut [u64]) -> (usize, usize) {
    let (mut victim, packets) = kind.storm(least.len(), 7);
    let limits = Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };
    let meta = RxMeta { checksum: ChecksumState::Complete, segment_size: None };
    let (endpoint, mut now) = (&mut victim.host.endpoint, victim.host.now);
    let mut answers = 0;
    for (n, (packet, least)) in packets.iter().zip(least).enumerate() {
        if n % 100 == 0 {
            now += Duration::from_millis(1);
            endpoint.handle_timeout(now);
        }
        let began = Instant::now();
        endpoint.handle_packet(now, packet, meta);
        while endpoint.poll_transmit(now, limits).is_some() {
            answers += 1;
        }
        while endpoint.poll_event().is_some() {}
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        *least = took.min(*least);
    }
    (answers, endpoint.memory().0)
}
