//! Packets of other programs: what arrives and is not the endpoint's, and what a program sends.

use std::num::NonZeroU16;

use super::*;
use crate::{OtherError, OtherPacket};

const OUTSIDE: &str = "10.0.0.9:9";

/// A host with room for three packets each way.
fn host() -> Host {
    let mut config = config(SERVER);
    config.other_packets = 3;
    Host::with(config)
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn arrives(host: &mut Host, to: &str) -> Vec<u8> {
    let packet = packet(client(4000), at(to), syn(1000), &[]);
    host.endpoint.handle_packet(host.now, &packet, RxMeta::default());
    packet
}

fn outgoing(payload: usize) -> OtherPacket {
    OtherPacket::new(packet(client(4000), at(OUTSIDE), ack(1, SeqNum::new(1)), &vec![7; payload]))
}

#[test]
fn packets_of_other_addresses_are_kept_up_to_a_limit() {
    let mut host = host();
    let packet = arrives(&mut host, OUTSIDE);
    assert_eq!(host.events(), [Event::OtherPackets]);
    (0..3).for_each(|_| drop(arrives(&mut host, OUTSIDE)));
    assert_eq!(host.events(), [Event::OtherPackets]);
    let counters = host.endpoint.counters();
    assert_eq!(
        (counters.others_received, counters.dropped_other_full, counters.dropped_not_local),
        (3, 1, 0)
    );
    for _ in 0..3 {
        assert_eq!(host.endpoint.poll_other(), Some(OtherPacket::new(packet.clone())));
    }
    assert_eq!(host.endpoint.poll_other(), None);
    arrives(&mut host, OUTSIDE);
    host.endpoint.close_others();
    assert_eq!(host.endpoint.poll_other(), None);
    arrives(&mut host, OUTSIDE);
    assert_eq!(host.endpoint.poll_other(), None);
    assert_eq!(host.endpoint.counters().dropped_not_local, 1, "refused as without the channel");
    assert_eq!(host.endpoint.send_other(host.now, &outgoing(10)), Err(OtherError::Off));
}

#[test]
fn what_is_ours_is_not_given_to_others() {
    let mut host = host();
    host.endpoint.listen(host.now, on_port(PORT)).unwrap();
    arrives(&mut host, "10.0.0.1:80");
    assert_eq!((host.endpoint.poll_other(), host.sent().len()), (None, 1));
}

#[test]
fn a_coalesced_packet_is_cut_and_what_has_no_memory_is_counted() {
    let checksum = ChecksumState::Partial(ChecksumAt::tcp(20));
    let coalesced =
        OtherPacket { meta: RxMeta { checksum, segment_size: NonZeroU16::new(1000) }, ..outgoing(5500) };
    let mut plenty = host();
    assert_eq!(plenty.endpoint.send_other(plenty.now, &coalesced), Ok(()));
    let lengths: Vec<usize> = plenty.sent().iter().map(|sent| sent.payload.len()).collect();
    assert_eq!(lengths, [1000, 1000, 1000, 1000, 1000, 500]);
    // Room for four of the six.
    let mut config = config(SERVER);
    (config.other_packets, config.memory_budget) = (9, 4 * 1040 + 100);
    let mut little = Host::with(config);
    assert_eq!(little.endpoint.send_other(little.now, &coalesced), Ok(()));
    let counters = little.endpoint.counters();
    assert_eq!((counters.others_sent, counters.dropped_other_full), (4, 2));
    assert_eq!(little.endpoint.send_other(little.now, &coalesced), Err(OtherError::NoMemory));
    assert_eq!((little.sent().len(), little.endpoint.counters().dropped_other_full), (4, 8));
}
