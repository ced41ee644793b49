use std::collections::VecDeque;

use super::*;

type Datagrams = VecDeque<(SocketAddr, Vec<u8>)>;

/// Two peers, and what they have sent to each other.
struct PeerPair {
    client: Peer,
    server: Peer,
    to_server: Datagrams,
    to_client: Datagrams,
}

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

const SERVER: &str = "192.0.2.1:51820";
const CLIENT: &str = "192.0.2.2:4000";

fn config(own: u8, other: u8, endpoint: Option<&str>) -> Config {
    let public = PublicKey::from(&StaticSecret::from([other; 32]));
    Config {
        private_key: [own; 32],
        peer_public_key: public.to_bytes(),
        preshared_key: None,
        endpoint: endpoint.map(addr),
        allowed: vec!["10.9.0.0/24".parse().unwrap()],
        keepalive: None,
    }
}

impl PeerPair {
    /// The server does not know where the client is.
    fn new() -> Self {
        Self {
            client: Peer::new(&config(1, 2, Some(SERVER)), 1),
            server: Peer::new(&config(2, 1, None), 2),
            to_server: Datagrams::new(),
            to_client: Datagrams::new(),
        }
    }

    fn client_sends(&mut self, packet: &[u8]) {
        self.client.send(packet, |to, datagram| self.to_server.push_back((to, datagram.to_vec())));
    }

    fn server_sends(&mut self, packet: &[u8]) {
        self.server.send(packet, |to, datagram| self.to_client.push_back((to, datagram.to_vec())));
    }

    /// Carries everything, the client's datagrams from this address, and returns the packets that the server
    /// received.
    fn carry(&mut self, client: &str) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        while !self.to_server.is_empty() || !self.to_client.is_empty() {
            while let Some((_, datagram)) = self.to_server.pop_front() {
                let send = |to, answer: &[u8]| self.to_client.push_back((to, answer.to_vec()));
                packets.extend(self.server.receive(addr(client), &datagram, send).map(<[u8]>::to_vec));
            }
            while let Some((_, datagram)) = self.to_client.pop_front() {
                let send = |to, answer: &[u8]| self.to_server.push_back((to, answer.to_vec()));
                self.client.receive(addr(SERVER), &datagram, send);
            }
        }
        packets
    }
}

/// An IPv4 packet from an address of 10.9.0.0/24 with `text` as its payload.
fn packet(from: [u8; 4], text: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend_from_slice(&from);
    packet.extend_from_slice(&[10, 9, 0, 1]);
    packet.extend_from_slice(text);
    let len = u16::try_from(packet.len()).unwrap();
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet
}

const OURS: [u8; 4] = [10, 9, 0, 2];

#[test]
fn what_is_sent_before_the_handshake_arrives_after_it_in_order() {
    let mut pair = PeerPair::new();
    let packets: Vec<_> = (0..5).map(|n| packet(OURS, &[n])).collect();
    packets.iter().for_each(|packet| pair.client_sends(packet));
    assert_eq!(pair.to_server.len(), 1, "one handshake for all");
    assert_eq!(pair.carry(CLIENT), packets);
    assert_eq!(pair.client.counters().sent, 5);
    assert_eq!(pair.server.counters(), Counters { received: 5, handshakes: 1, ..Counters::default() });
    assert_eq!(pair.server.endpoint(), Some(addr(CLIENT)));
}

#[test]
fn attempts_at_a_handshake_count_until_the_peer_is_heard() {
    let mut pair = PeerPair::new();
    pair.client_sends(&packet(OURS, b"one"));
    // Nothing arrives, and the client begins once more.
    pair.to_server.clear();
    pair.client.rekey(|to, datagram| pair.to_server.push_back((to, datagram.to_vec())));
    assert_eq!((pair.client.unanswered(), pair.server.unanswered()), (2, 0));
    // A forged answer is none.
    pair.client.receive(addr(SERVER), &[2; 92], |_, _| {});
    assert_eq!(pair.client.unanswered(), 2);
    pair.carry(CLIENT);
    assert_eq!((pair.client.unanswered(), pair.client.counters().initiations), (0, 2));
}

#[test]
fn more_than_256_packets_do_not_wait_for_a_handshake() {
    let mut pair = PeerPair::new();
    (0..300).for_each(|_| pair.client_sends(&packet(OURS, b"x")));
    assert_eq!(pair.client.counters().dropped_no_session, 44);
    assert_eq!(pair.carry(CLIENT).len(), 256);
    pair.client_sends(&packet(OURS, b"y"));
    assert_eq!(pair.carry(CLIENT), [packet(OURS, b"y")]);
}

#[test]
fn the_answer_goes_to_the_address_that_last_proved_itself() {
    let mut pair = PeerPair::new();
    pair.client_sends(&packet(OURS, b"one"));
    pair.carry(CLIENT);
    let moved = "198.51.100.7:9";
    pair.client_sends(&packet(OURS, b"two"));
    assert_eq!(pair.carry(moved), [packet(OURS, b"two")]);
    pair.server_sends(&packet([10, 9, 0, 1], b"answer"));
    assert_eq!(pair.to_client[0].0, addr(moved));
    assert_eq!(pair.server.counters().roamed, 1);
}

#[test]
fn what_is_forged_damaged_or_repeated_moves_nobody() {
    let mut pair = PeerPair::new();
    pair.client_sends(&packet(OURS, b"one"));
    pair.carry(CLIENT);
    pair.client_sends(&packet(OURS, b"two"));
    let (_, data) = pair.to_server.pop_front().unwrap();
    assert!(pair.server.receive(addr(CLIENT), &data, |_, _| {}).is_some());
    let mut damaged = data.clone();
    damaged[20] ^= 1;
    let attacker = addr("203.0.113.66:66");
    for hostile in
        [&data[..], &damaged, &data[..data.len() - 1], &[4; 40], &[1; 148], &[2; 92], &[3; 64], b"", b"x"]
    {
        assert_eq!(pair.server.receive(attacker, hostile, |_, _| panic!("an answer")), None);
    }
    assert_eq!(pair.server.endpoint(), Some(addr(CLIENT)));
    let counters = pair.server.counters();
    assert_eq!((counters.roamed, counters.dropped_not_authentic), (0, 9));
}

#[test]
fn an_address_that_is_not_allowed_is_dropped_and_counted() {
    let mut pair = PeerPair::new();
    pair.client_sends(&packet([192, 168, 0, 1], b"spoofed"));
    assert_eq!(pair.carry(CLIENT), Vec::<Vec<u8>>::new());
    assert_eq!(pair.server.counters().dropped_not_allowed, 1);
}

#[test]
fn new_keys_are_agreed_upon_without_losing_what_the_old_ones_carry() {
    let mut pair = PeerPair::new();
    pair.client_sends(&packet(OURS, b"one"));
    pair.carry(CLIENT);
    pair.client.rekey(|to, datagram| pair.to_server.push_back((to, datagram.to_vec())));
    // Sent under the old keys while the handshake is on its way.
    pair.client_sends(&packet(OURS, b"two"));
    assert_eq!(pair.carry(CLIENT), [packet(OURS, b"two")]);
    pair.client_sends(&packet(OURS, b"three"));
    assert_eq!(pair.carry(CLIENT), [packet(OURS, b"three")]);
    assert_eq!((pair.client.counters().handshakes, pair.server.counters().handshakes), (2, 2));
}

#[test]
fn a_peer_that_has_not_spoken_is_nowhere() {
    let mut pair = PeerPair::new();
    pair.server_sends(&packet([10, 9, 0, 1], b"hello"));
    assert!(pair.to_client.is_empty());
    assert_eq!(pair.server.counters().dropped_no_endpoint, 1);
}
