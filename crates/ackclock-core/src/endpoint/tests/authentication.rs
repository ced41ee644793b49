//! TCP-AO between two endpoints, and against peers without a key (RFC 5925).

use ackclock_wire::ChecksumAt;

use super::*;
use crate::trace::{Entry, Extension, TraceConfig};
use crate::{Algorithm, KeyChain, MasterKey};

const SECOND: Duration = Duration::from_secs(1);

/// A key that the client sends as `id` and receives as `id` + 100.
fn key(id: u8, algorithm: Algorithm, covers_options: bool) -> MasterKey {
    MasterKey { send_id: id, receive_id: id + 100, algorithm, covers_options, secret: vec![id; 10] }
}

fn of_server(key: &MasterKey) -> MasterKey {
    MasterKey { send_id: key.receive_id, receive_id: key.send_id, ..key.clone() }
}

fn keyed(keys: &[MasterKey]) -> (Pair, ListenerId) {
    let mut pair = Pair::new();
    let theirs = keys.iter().map(of_server).collect();
    pair.client.set_keys(ip(SERVER), Some(KeyChain::new(keys.to_vec()).unwrap()));
    pair.server.set_keys(ip(CLIENT), Some(KeyChain::new(theirs).unwrap()));
    let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
    (pair, listener)
}

fn open(pair: &mut Pair, listener: ListenerId) -> (ConnectionId, ConnectionId) {
    let traced = TcpConfig { trace: Some(TraceConfig::FULL), ..tcp_config() };
    let client = pair.client.connect(pair.now, server(), (None, 0), Some(traced)).unwrap();
    pair.run(3 * SECOND);
    (client, pair.server.accept(pair.now, listener).expect("the handshake is authentic"))
}

/// Sends `len` bytes from the client to the server, and returns how many arrived.
fn transfer(pair: &mut Pair, (client, server): (ConnectionId, ConnectionId), len: usize) -> usize {
    let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let (mut written, mut read) = (0, Vec::new());
    for _ in 0..200 {
        written += pair
            .client
            .update(pair.now, client, |connection, now| connection.write(now, &data[written..]).unwrap_or(0))
            .unwrap();
        pair.run(SECOND / 20);
        let mut buffer = vec![0; 65_536];
        pair.server.update(pair.now, server, |connection, now| {
            while let Ok(len @ 1..) = connection.read(now, &mut buffer) {
                read.extend_from_slice(&buffer[..len]);
            }
        });
        if read.len() == len {
            break;
        }
    }
    assert_eq!(read, data[..read.len()]);
    read.len()
}

/// The trace records about keys of the client's connection since the last call.
fn noted(pair: &mut Pair) -> Vec<(Extension, u32)> {
    pair.client.request_traces();
    let batches: Vec<_> = std::iter::from_fn(|| pair.client.poll_trace()).collect();
    let entries = batches.iter().flat_map(|batch| &batch.records).filter_map(|&record| Entry::decode(record));
    entries
        .filter_map(
            |entry| if let Entry::Extension { what, value } = entry { Some((what, value)) } else { None },
        )
        .collect()
}

fn unauthenticated(pair: &Pair) -> [u64; 4] {
    let (client, server) = (pair.client.counters(), pair.server.counters());
    [
        client.dropped_unauthenticated,
        client.sent_unauthenticated,
        server.dropped_unauthenticated,
        server.sent_unauthenticated,
    ]
}

#[test]
fn both_algorithms_carry_a_transfer_with_and_without_the_other_options() {
    for algorithm in [Algorithm::HmacSha1, Algorithm::Aes128Cmac] {
        for covers_options in [true, false] {
            let (mut pair, listener) = keyed(&[key(1, algorithm, covers_options)]);
            let ends = open(&mut pair, listener);
            assert_eq!(transfer(&mut pair, ends, 200_000), 200_000);
            assert_eq!(unauthenticated(&pair), [0; 4]);
        }
    }
}

#[test]
fn losses_are_repaired_although_selective_acknowledgements_have_less_room() {
    let (mut pair, listener) = keyed(&[key(1, Algorithm::HmacSha1, true)]);
    pair.lose = |side, number| side == 0 && number % 17 == 0;
    let ends = open(&mut pair, listener);
    assert_eq!(transfer(&mut pair, ends, 200_000), 200_000);
    assert_eq!(unauthenticated(&pair), [0; 4]);
}

#[test]
fn every_segment_has_the_option_and_none_exceeds_the_mtu() {
    let (mut pair, listener) = keyed(&[key(1, Algorithm::Aes128Cmac, true)]);
    let ends = open(&mut pair, listener);
    let write = |connection: &mut crate::Connection, now| connection.write(now, &[7; 20_000]);
    pair.client.update(pair.now, ends.0, write).unwrap().unwrap();
    let packets = pair.carry(0);
    assert!(packets.len() >= 10);
    assert!(packets.iter().any(|packet| packet.len() == 1500), "full packets are as large as the MTU");
    for packet in packets {
        assert!(packet.len() <= 1500);
        let options = &packet[40..20 + usize::from(packet[32] >> 4) * 4];
        assert_eq!(options[options.len() - 16..][..4], [29, 16, 1, 101]);
        decode(&packet);
    }
}

#[test]
fn who_has_no_key_or_another_hears_nothing() {
    for keys in [None, Some(MasterKey { secret: b"wrong".to_vec(), ..key(1, Algorithm::HmacSha1, true) })] {
        let (mut pair, listener) = keyed(&[key(1, Algorithm::HmacSha1, true)]);
        pair.client.set_keys(ip(SERVER), keys.map(|key| KeyChain::new(vec![key]).unwrap()));
        pair.client.connect(pair.now, server(), (None, 0), None).unwrap();
        pair.run(2 * SECOND);
        assert!(pair.server.accept(pair.now, listener).is_none());
        assert_eq!(pair.counts[1], 0, "no answer");
        assert!(pair.server.counters().dropped_unauthenticated >= 2);
    }
}

#[test]
fn a_forged_reset_or_segment_does_not_touch_the_connection() {
    let (mut pair, listener) = keyed(&[key(1, Algorithm::HmacSha1, true)]);
    let ends = open(&mut pair, listener);
    let write = |connection: &mut crate::Connection, now| connection.write(now, b"real");
    pair.client.update(pair.now, ends.0, write).unwrap().unwrap();
    let real = pair.carry(0).remove(0);
    let seen = decode(&real);
    let reset = packet(seen.src, seen.dst, Fields { seq: seen.seq, ..fields(Flags::RST, 0, seen.ack) }, &[]);
    let mut changed = real.clone();
    *changed.last_mut().unwrap() ^= 1;
    for forged in [reset, changed] {
        let meta = RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
        pair.server.handle_packet(pair.now, &forged, meta);
    }
    let connection = pair.server.connection(ends.1).unwrap();
    assert_eq!((connection.state(), connection.readable()), (State::Established, 0));
    assert_eq!(pair.server.counters().dropped_unauthenticated, 2);
    pair.server.handle_packet(pair.now, &real, RxMeta::default());
    assert_eq!(pair.server.connection(ends.1).unwrap().readable(), 4);
}

#[test]
fn a_refused_segment_is_counted_and_traced_by_what_is_wrong_with_it() {
    let (mut pair, listener) = keyed(&[key(1, Algorithm::HmacSha1, true)]);
    let ends = open(&mut pair, listener);
    noted(&mut pair);
    let write = |connection: &mut crate::Connection, now| connection.write(now, b"real");
    pair.server.update(pair.now, ends.1, write).unwrap().unwrap();
    let real = pair.carry(1).remove(0);
    let seen = decode(&real);
    let unsigned = packet(seen.src, seen.dst, fields(Flags::ACK, seen.seq.raw(), seen.ack), &[]);
    // The option is the last in the header: kind, length, KeyID, RNextKeyID, MAC.
    let option = 20 + usize::from(real[32] >> 4) * 4 - 16;
    let (mut of_no_key, mut of_wrong_mac) = (real.clone(), real.clone());
    of_no_key[option + 2] = 77;
    of_wrong_mac[option + 4] ^= 1;
    let meta = RxMeta { checksum: ChecksumState::Partial(ChecksumAt::tcp(20)), segment_size: None };
    for forged in [unsigned, of_no_key, of_wrong_mac] {
        pair.client.handle_packet(pair.now, &forged, meta);
    }
    let refused =
        [(Extension::RefusedUnsigned, 0), (Extension::RefusedKey, 77), (Extension::RefusedMac, 101)];
    assert_eq!(noted(&mut pair), refused);
    let counters = pair.client.counters();
    assert_eq!(
        [counters.dropped_unsigned, counters.dropped_unknown_key, counters.dropped_wrong_mac],
        [1, 1, 1]
    );
    assert_eq!(counters.dropped_unauthenticated, 3);
    pair.client.handle_packet(pair.now, &real, RxMeta::default());
    assert_eq!(pair.client.connection(ends.0).unwrap().readable(), 4);
}

#[test]
fn keys_roll_over_when_one_end_asks_and_the_data_goes_on() {
    let keys = [key(1, Algorithm::HmacSha1, true), key(2, Algorithm::Aes128Cmac, true)];
    let (mut pair, listener) = keyed(&keys);
    let ends = open(&mut pair, listener);
    assert_eq!(transfer(&mut pair, ends, 10_000), 10_000);
    assert_eq!(pair.client.key_ids(ends.0), Some((1, 101)));
    let all = [(Extension::KeySent, 1), (Extension::KeyWanted, 101), (Extension::KeyReceived, 101)];
    assert_eq!(noted(&mut pair), all);
    // The server asks to be sent key 2, in its next segment.
    assert!(pair.server.request_key(ends.1, 2));
    assert!(!pair.server.request_key(ends.1, 9), "there is no such key");
    assert_eq!(transfer(&mut pair, ends, 10_000), 10_000);
    assert_eq!(pair.client.key_ids(ends.0), Some((2, 101)), "the client sends with the new key");
    assert_eq!(pair.server.key_ids(ends.1), Some((101, 2)), "the server with the old one");
    assert_eq!(noted(&mut pair), [(Extension::KeySent, 2)]);
    assert!(pair.client.request_key(ends.0, 102));
    assert_eq!(transfer(&mut pair, ends, 10_000), 10_000);
    assert_eq!(pair.server.key_ids(ends.1), Some((102, 2)));
    assert_eq!(noted(&mut pair), [(Extension::KeyWanted, 102), (Extension::KeyReceived, 102)]);
    assert_eq!(unauthenticated(&pair), [0; 4]);
}

#[test]
fn keys_that_come_and_go_leave_open_connections_their_own() {
    let (one, two) = (key(1, Algorithm::HmacSha1, true), key(2, Algorithm::HmacSha1, true));
    let (mut pair, listener) = keyed(std::slice::from_ref(&one));
    let ends = open(&mut pair, listener);
    // The new key comes first on both sides; the connection keeps the one it has.
    let chain = |keys: [MasterKey; 2]| Some(KeyChain::new(keys.to_vec()).unwrap());
    pair.client.set_keys(ip(SERVER), chain([two.clone(), one.clone()]));
    pair.server.set_keys(ip(CLIENT), chain([of_server(&two), of_server(&one)]));
    assert_eq!(transfer(&mut pair, ends, 10_000), 10_000);
    assert_eq!(pair.client.key_ids(ends.0), Some((1, 101)));
    let later = open(&mut pair, listener);
    assert_eq!(pair.client.key_ids(later.0), Some((2, 102)));
    assert_eq!(unauthenticated(&pair), [0; 4]);
}

#[test]
fn a_peer_without_keys_is_served_as_ever() {
    let (mut pair, listener) = keyed(&[key(1, Algorithm::HmacSha1, true)]);
    pair.server.set_keys(ip(CLIENT), None);
    pair.client.set_keys(ip(SERVER), None);
    let ends = open(&mut pair, listener);
    assert_eq!(transfer(&mut pair, ends, 10_000), 10_000);
}

// RFC 5925 §5.2: the traffic keys of a connection derive from its ISNs.
#[test]
fn a_name_is_used_again_with_keys_of_the_new_sequence_numbers() {
    let (mut pair, listener) = keyed(&[key(1, Algorithm::HmacSha1, true)]);
    let mut syns = Vec::new();
    for _ in 0..2 {
        let client = pair.client.connect(pair.now, server(), (None, 5000), None).unwrap();
        syns.extend(pair.carry(0));
        pair.server.handle_packet(pair.now, syns.last().unwrap(), RxMeta::default());
        pair.run(SECOND);
        let accepted = pair.server.accept(pair.now, listener).expect("the handshake is authentic");
        assert_eq!(transfer(&mut pair, (client, accepted), 1000), 1000);
        // A replayed SYN, of this connection or the one before, changes nothing.
        for syn in &syns {
            pair.server.handle_packet(pair.now, syn, RxMeta::default());
        }
        assert_eq!(transfer(&mut pair, (client, accepted), 1000), 1000);
        for (endpoint, id) in [(&mut pair.client, client), (&mut pair.server, accepted)] {
            endpoint.update(pair.now, id, |connection, now| connection.abort(now));
            endpoint.release(pair.now, id);
        }
        pair.run(SECOND);
    }
    assert_eq!(unauthenticated(&pair), [0; 4]);
}

#[test]
fn sessions_without_a_name_are_swept_beyond_64_more_than_twice_the_names() {
    let (mut pair, _) = keyed(&[key(1, Algorithm::HmacSha1, true)]);
    pair.server.listen(pair.now, ListenOptions { syn_backlog: 4, ..on_port(81) }).unwrap();
    let to = SocketAddr::new(ip(SERVER), 81);
    // Most SYNs are answered by cookies, which take no name.
    let counts: Vec<usize> = (0..100)
        .map(|_| {
            pair.client.connect(pair.now, to, (None, 0), None).unwrap();
            for syn in pair.carry(0) {
                pair.server.handle_packet(pair.now, &syn, RxMeta::default());
            }
            pair.server.sessions()
        })
        .collect();
    let names = pair.server.tuples.len();
    assert!((1..4).contains(&names), "{names}");
    let most = 2 * names + 65;
    assert_eq!(counts[..most], Vec::from_iter(1..=most));
    assert_eq!(counts[most], names + 1);
}

#[test]
fn what_leaves_unsigned_for_want_of_a_handshake_with_keys_is_counted() {
    let mut pair = Pair::new();
    let listener = pair.server.listen(pair.now, on_port(PORT)).unwrap();
    let ends = open(&mut pair, listener);
    pair.client.set_keys(ip(SERVER), Some(KeyChain::new(vec![key(1, Algorithm::HmacSha1, true)]).unwrap()));
    let write = |connection: &mut crate::Connection, now| connection.write(now, b"late");
    pair.client.update(pair.now, ends.0, write).unwrap().unwrap();
    assert_eq!(pair.carry(0).len(), 1);
    assert_eq!(unauthenticated(&pair), [0, 1, 0, 0]);
}

#[test]
fn reset_of_a_refused_handshake_has_no_keys_of_a_connection() {
    let (mut pair, _) = keyed(&[key(1, Algorithm::HmacSha1, true)]);
    pair.client.connect(pair.now, SocketAddr::new(ip(SERVER), PORT + 1), (None, 0), None).unwrap();
    let [syn] = &pair.carry(0)[..] else { panic!("one SYN") };
    pair.server.handle_packet(pair.now, syn, RxMeta::default());
    assert_eq!(pair.carry(1).len(), 1);
    assert_eq!(unauthenticated(&pair), [0, 0, 0, 1]);
}
