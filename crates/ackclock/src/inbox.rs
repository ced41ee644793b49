//! Packets that arrived at another shard than their connection's.

use std::collections::VecDeque;
use std::sync::PoisonError;

use ackclock_core::Stray;

use crate::sync::{AtomicU64, Mutex, Ordering};

/// Packets for this shard that arrived at others.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<VecDeque<Stray>>,
    dropped: AtomicU64,
}

impl Inbox {
    /// Adds a packet, if there is room. Returns whether to wake the driver, because the inbox was empty.
    pub fn push(&self, stray: Stray) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= INBOX_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        waiting.push_back(stray);
        waiting.len() == 1
    }

    /// Moves all packets to `taken`, which is empty. Call it under the lock that guards the driver's sleep; a
    /// later [`push`](Self::push) then finds the driver asleep.
    pub fn take(&self, taken: &mut VecDeque<Stray>) {
        std::mem::swap(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner), taken);
    }

    /// The number of packets that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The most packets that wait for a shard.
const INBOX_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use ackclock_core::{
        ConnectionId, Endpoint, EndpointConfig, Instant, Limits, ListenAddr, ListenOptions, State,
    };
    use ackclock_wire::RxMeta;

    use super::*;

    const NOW: Instant = Instant::ZERO;
    const LIMITS: Limits = Limits { gso_max_v4: 0, gso_max_v6: 0, tx_checksum: false };

    /// A connection that waits for the answer to its SYN, and that answer.
    fn opening(owner: &mut Endpoint, server: &mut Endpoint) -> (ConnectionId, Vec<u8>) {
        let id = owner.connect(NOW, "10.0.0.2:80".parse().unwrap(), (None, 0), None).unwrap();
        let syn = owner.poll_transmit(NOW, LIMITS).unwrap().to_vec();
        server.handle_packet(NOW, &syn, RxMeta::default());
        (id, server.poll_transmit(NOW, LIMITS).unwrap().to_vec())
    }

    fn state(owner: &Endpoint, id: ConnectionId) -> State {
        owner.connection(id).unwrap().state()
    }

    #[test]
    fn a_full_inbox_drops_newcomers_and_keeps_the_packets_that_came_first() {
        let config = |addr: &str| EndpointConfig::new(vec![addr.parse::<IpAddr>().unwrap()], [1; 32]);
        let [mut wrong, mut owner] = <[_; 2]>::try_from(
            config("10.0.0.1")
                .split(2)
                .into_iter()
                .map(|config| Endpoint::new(config, NOW))
                .collect::<Vec<_>>(),
        )
        .unwrap();
        let mut server = Endpoint::new(config("10.0.0.2"), NOW);
        let at = ListenAddr { addr: None, port: Some(80) };
        server.listen(NOW, ListenOptions::new(at)).unwrap();
        let [(first, its_answer), (flooded, flood), (late, late_answer)] =
            [(); 3].map(|()| opening(&mut owner, &mut server));

        let inbox = Inbox::default();
        let mut arrive = |packet: &[u8]| {
            wrong.handle_packet(NOW, packet, RxMeta::default());
            inbox.push(wrong.poll_stray().expect("it is the other shard's"))
        };
        assert!(arrive(&its_answer), "the driver sleeps");
        for _ in 0..3 * INBOX_MAX {
            assert!(!arrive(&flood), "the driver has been woken");
        }
        assert!(!arrive(&late_answer));
        assert_eq!(inbox.dropped(), 2 * INBOX_MAX as u64 + 2);

        let mut taken = VecDeque::new();
        let mut turn = |inbox: &Inbox| {
            inbox.take(&mut taken);
            taken.drain(..).map(|stray| owner.handle_stray(NOW, &stray)).count()
        };
        assert_eq!(turn(&inbox), INBOX_MAX);
        // The peer repeats the dropped segment, and now there is room.
        assert!(arrive(&late_answer));
        assert_eq!((turn(&inbox), inbox.dropped()), (1, 2 * INBOX_MAX as u64 + 2));
        for id in [first, flooded, late] {
            assert_eq!(state(&owner, id), State::Established);
        }
    }
}
