//! Datagrams from an endpoint to itself, in its own queue: those that waited equal those that went at once.

use super::*;
use crate::{UdpId, UdpMeta, UdpOptions, UdpTransmit};

/// Datagrams of all kinds: lengths, marks, and several in one call.
const SENT: [(usize, u8, Option<usize>); 12] = [
    (0, 0, None),
    (1, 4, None),
    (1472, 0, None),
    (3000, 0, Some(1000)),
    (100, 255, None),
    (9000, 1, Some(1400)),
    (1400, 2, Some(1400)),
    (20, 3, None),
    (2801, 0, Some(700)),
    (5, 0, None),
    (4000, 9, Some(1300)),
    (64, 64, None),
];

/// The datagrams that the receiver reads, if the driver's turn comes after each `turn` calls.
fn received(turn: usize) -> Vec<(UdpMeta, Vec<u8>)> {
    let mut host = Host::new();
    let mut bind = |port| {
        let addr = ListenAddr { addr: Some(ip(SERVER)), port: Some(port) };
        host.endpoint.udp_bind(host.now, UdpOptions::new(addr)).unwrap()
    };
    let (from, to): (UdpId, UdpId) = (bind(1000), bind(53));
    for (number, (len, class, segment_size)) in SENT.into_iter().enumerate() {
        host.endpoint.udp_set_traffic_class(from, class).unwrap();
        let contents: Vec<_> = (0..len).map(|place| (place % 251) as u8 ^ number as u8).collect();
        let mut transmit = UdpTransmit::new(&contents, Some(SocketAddr::new(ip(SERVER), 53)));
        transmit.segment_size = segment_size;
        host.endpoint.udp_send(host.now, from, &transmit).unwrap();
        if (number + 1) % turn == 0 {
            assert!(host.endpoint.poll_transmit(host.now, LIMITS).is_none(), "the endpoint keeps it");
        }
    }
    while host.endpoint.poll_transmit(host.now, LIMITS).is_some() {}
    let mut buf = vec![0; 70_000];
    let next =
        || host.endpoint.udp_receive(to, &mut buf, false).ok().map(|meta| (meta, buf[..meta.len].to_vec()));
    std::iter::from_fn(next).collect()
}

#[test]
fn datagrams_to_itself_that_waited_are_those_that_went_at_once() {
    let at_once = received(1);
    assert!(at_once.len() > SENT.len(), "{} datagrams", at_once.len());
    for turn in [2, 3, 5, SENT.len()] {
        assert_eq!(received(turn), at_once, "a turn after {turn} calls");
    }
}
