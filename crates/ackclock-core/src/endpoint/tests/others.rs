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
    let meta = RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
    let bytes = packet(client(4000), at(OUTSIDE), ack(1, SeqNum::new(1)), &vec![7; payload]);
    OtherPacket { bytes, meta }
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
fn sent_packets_leave_and_a_full_channel_tells_of_room() {
    let mut host = host();
    let whole = outgoing(10);
    for _ in 0..3 {
        assert!(host.endpoint.has_other_room());
        assert_eq!(host.endpoint.send_other(host.now, &whole), Ok(()));
    }
    assert_eq!(host.endpoint.send_other(host.now, &whole), Err(OtherError::Full));
    assert!(!host.endpoint.has_other_room() && host.events().is_empty());
    let sent = host.sent();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|sent| (sent.dst, sent.payload.len()) == (at(OUTSIDE), 10)));
    assert_eq!(host.events(), [Event::OtherRoom]);
    assert!(host.endpoint.has_other_room());
    let counters = host.endpoint.counters();
    assert_eq!((counters.others_sent, counters.dropped_other_full), (3, 0));
}

#[test]
fn packets_that_no_link_carries_are_refused() {
    let mut host = host();
    assert_eq!(host.endpoint.send_other(host.now, &outgoing(1460)), Ok(()));
    assert_eq!(host.endpoint.send_other(host.now, &outgoing(1461)), Err(OtherError::TooLong { mtu: 1500 }));
    for bytes in [vec![], vec![0x45; 8], outgoing(10).bytes[..40].to_vec()] {
        let malformed = OtherPacket::new(bytes);
        assert_eq!(host.endpoint.send_other(host.now, &malformed), Err(OtherError::Malformed));
    }
    assert_eq!((host.sent().len(), host.endpoint.counters().others_sent), (1, 1));
}

#[test]
fn a_coalesced_packet_is_cut_and_what_has_no_memory_is_counted() {
    let mut coalesced = outgoing(5500);
    coalesced.meta.segment_size = NonZeroU16::new(1000);
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
