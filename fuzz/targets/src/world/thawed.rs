//! Frozen endpoints: a form may be anything, and an endpoint that is thawed from one runs.

use ackclock_control::congestion::Registry;
use ackclock_core::{ConnectionId, Endpoint, Instant, Limits, RxPacket};
use ackclock_wire::RxMeta;

/// Thaws a form and runs the endpoint for a while, in which its own packets come back to it with the ends
/// exchanged. Counts one for a form that is refused, and two and its packets for an endpoint.
pub(crate) fn form(bytes: &[u8]) -> u64 {
    let Ok(thawed) = Endpoint::thaw(bytes, &Registry::with_experiments(), MEMORY_MAX) else { return 1 };
    let mut endpoint = thawed.endpoint;
    // A form that was read is written unchanged, or in another spelling, which must then read back.
    let form = endpoint.freeze().expect("it was frozen");
    let again =
        Endpoint::thaw(&form, &Registry::with_experiments(), MEMORY_MAX).expect("it was just written");
    assert!(again.endpoint.freeze().as_ref() == Ok(&form), "a form that does not stay what it is");
    let ids: Vec<ConnectionId> = endpoint.connections().map(|(id, _)| id).collect();
    let mut packets = 0;
    for turn in 0..TURNS {
        let Some(now) = endpoint.poll_timeout() else { break };
        endpoint.handle_timeout(now);
        for &id in &ids {
            call(&mut endpoint, now, id, turn);
        }
        while endpoint.poll_event().is_some() {}
        while endpoint.poll_trace().is_some() {}
        for _ in 0..PACKETS_PER_TURN {
            let Some(mut packet) = endpoint.poll_transmit(now, LIMITS).map(|packet| packet.to_vec()) else {
                break;
            };
            packets += 1;
            exchange_ends(&mut packet);
            endpoint.handle_packets(now, [RxPacket::new(&packet, RxMeta::default())]);
        }
    }
    2 + packets
}

fn call(endpoint: &mut Endpoint, now: Instant, id: ConnectionId, turn: u64) {
    endpoint.update(now, id, |connection, now| {
        let _info = connection.info(now);
        // Refused calls stay refused.
        match turn % 8 {
            0 => drop(connection.write(now, &[7; 3000])),
            3 => drop(connection.read(now, &mut [0; 2000])),
            5 if turn > TURNS / 2 => drop(connection.shutdown(now)),
            _ => {}
        }
    });
    if turn == TURNS - 10 {
        endpoint.release(now, id);
    }
}

/// Exchanges the addresses and ports of a packet, which leaves its checksums as they are.
fn exchange_ends(packet: &mut [u8]) {
    let (from, to, len, ports) = match packet.first().map(|byte| byte >> 4) {
        Some(4) => (12, 16, 4, 20),
        _ => (8, 24, 16, 40),
    };
    for (from, to, len) in [(from, to, len), (ports, ports + 2, 2)] {
        for at in 0..len {
            if to + at < packet.len() {
                packet.swap(from + at, to + at);
            }
        }
    }
}

/// The budget of an endpoint by default, and more.
const MEMORY_MAX: usize = 1 << 30;
const TURNS: u64 = 100;
const PACKETS_PER_TURN: usize = 20;
const LIMITS: Limits = Limits { gso_max_v4: 1500, gso_max_v6: 1500, tx_checksum: false };
