//! Datagrams that are longer than a packet: in fragments if the socket may, which another endpoint puts
//! together.

use std::collections::BTreeSet;

use ackclock_wire::fragment::Fragment;

use super::*;
use crate::{UdpId, UdpOptions, UdpSocketError, UdpTransmit};

const V4: [&str; 2] = ["10.0.0.1", "10.0.0.2"];
const V6: [&str; 2] = ["fd00::1", "fd00::2"];

fn host(addresses: &[&str]) -> Host {
    let mut config = EndpointConfig { reassembly: Some(Box::default()), ..config(SERVER) };
    config.addresses = addresses.iter().map(|addr| ip(addr)).collect();
    Host::with(config)
}

fn bind(host: &mut Host, fragments: bool) -> UdpId {
    let addr = ListenAddr { addr: None, port: Some(53) };
    let receive_buffer_max = 1 << 20;
    let options = UdpOptions { fragments, receive_buffer_max, ..UdpOptions::new(addr) };
    host.endpoint.udp_bind(host.now, options).unwrap()
}

fn send(host: &mut Host, id: UdpId, to: &str, payload: &[u8]) -> Result<usize, UdpSocketError> {
    let to = SocketAddr::new(ip(to), 53);
    host.endpoint.udp_send(host.now, id, &UdpTransmit::new(payload, Some(to)))
}

fn leaving(host: &mut Host) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| Some(host.endpoint.poll_transmit(host.now, LIMITS)?.to_vec())).collect()
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

// RFC 791 §3.2, RFC 8200 §4.5 and §5.
#[test]
fn long_datagrams_leave_in_fragments_and_arrive_whole() {
    // The reassembly here takes packets of up to 65,535 bytes with all headers.
    for ([from, to], longest, taken, mtu) in [(V4, 65_507, 65_507, 1500), (V6, 65_527, 65_487, 1280)] {
        let (mut sender, mut receiver) = (host(&[from]), host(&[to]));
        let (sends, receives) = (bind(&mut sender, true), bind(&mut receiver, false));
        for len in [0, 1, 1452, 1472, 1473, 4000, taken] {
            send(&mut sender, sends, to, &payload(len)).unwrap();
            let packets = leaving(&mut sender);
            let headers = if mtu == 1500 { 28 } else { 48 };
            let fits = len + headers <= 1500;
            assert_eq!(packets.len() == 1, fits, "{len} bytes");
            let most = if fits { 1500 } else { mtu };
            assert!(packets.iter().all(|packet| packet.len() <= most));
            // In any order.
            for packet in packets.iter().rev() {
                receiver.endpoint.handle_packet(receiver.now, packet, RxMeta::default());
            }
            let mut buf = vec![0; 65_535];
            let meta = receiver.endpoint.udp_receive(receives, &mut buf, false).unwrap();
            assert_eq!(buf[..meta.len], payload(len), "{len} bytes");
        }
        assert_eq!(sender.endpoint.counters().udp_sent, 7, "a datagram counts once");
        let too_long = send(&mut sender, sends, to, &payload(longest + 1));
        assert_eq!(too_long, Err(UdpSocketError::TooLong { max: longest }));
    }
}

#[test]
fn a_socket_that_may_not_refuses_them_with_the_limit() {
    for ([from, to], max) in [(V4, 1472), (V6, 1452)] {
        let mut sender = host(&[from]);
        let id = bind(&mut sender, false);
        assert_eq!(send(&mut sender, id, to, &payload(max + 1)), Err(UdpSocketError::TooLong { max }));
        sender.endpoint.udp_set_fragments(id, true).unwrap();
        assert!(sender.endpoint.udp_names(id).unwrap().fragments);
        send(&mut sender, id, to, &payload(max + 1)).unwrap();
        assert_eq!(leaving(&mut sender).len(), 2);
    }
}

#[test]
fn a_long_datagram_to_an_own_address_comes_back_whole() {
    let mut config = config(SERVER);
    config.reassembly = None;
    let mut host = Host::with(config);
    let id = bind(&mut host, true);
    send(&mut host, id, SERVER, &payload(4000)).unwrap();
    assert_eq!(leaving(&mut host).len(), 0);
    let mut buf = vec![0; 65_535];
    let meta = host.endpoint.udp_receive(id, &mut buf, false).unwrap();
    assert_eq!(buf[..meta.len], payload(4000));
}

/// The send buffer counts fragments, too, and is empty once they have left.
#[test]
fn a_full_send_buffer_refuses_until_the_fragments_have_left() {
    let mut sender = host(&[V4[0]]);
    let id = bind(&mut sender, true);
    let mut sent = 0;
    while send(&mut sender, id, V4[1], &payload(40_000)).is_ok() {
        sent += 1;
        assert!(sent < 100, "256 KiB hold seven");
    }
    assert_eq!(send(&mut sender, id, V4[1], b"x"), Err(UdpSocketError::WouldBlock));
    assert_eq!(leaving(&mut sender).len(), 28 * sent);
    assert_eq!(send(&mut sender, id, V4[1], b"x"), Ok(1));
}

// A number that all destinations share tells each how much the others get (SEC-A9).
#[test]
fn sec_a9_numbers_of_fragments_repeat_late_and_tell_nothing_of_other_destinations() {
    let mut sender = host(&[V4[0]]);
    let id = bind(&mut sender, true);
    let number = |sender: &mut Host, to: &str| {
        send(sender, id, to, &payload(1473)).unwrap();
        let packets = leaving(sender);
        let numbers: BTreeSet<u32> =
            packets.iter().map(|packet| Fragment::parse(packet).unwrap().identification).collect();
        assert_eq!((packets.len(), numbers.len()), (2, 1));
        *numbers.first().unwrap()
    };
    let mut seen = BTreeSet::new();
    let mut steps = BTreeSet::new();
    let mut last = None;
    for n in 0..1000 {
        let next = number(&mut sender, V4[1]);
        assert!(seen.insert(next), "{next} twice");
        if let Some(last) = last {
            steps.insert((next + 0x1_0000 - last) & 0xffff);
        }
        last = Some(next);
        if n % 3 == 0 {
            number(&mut sender, "10.0.0.9");
        }
    }
    // Of 999 random steps some six are the same.
    assert!(steps.len() > 960, "{} different steps", steps.len());
}

/// An IPv6 packet to the host, with a fragment header at `offset` that carries `payload` of this kind.
fn piece(next: u8, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + payload.len()).unwrap();
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&len.to_be_bytes());
    packet.extend_from_slice(&[44, 64]);
    for addr in V6 {
        let IpAddr::V6(addr) = ip(addr) else { unreachable!() };
        packet.extend_from_slice(&addr.octets());
    }
    packet.extend_from_slice(&[next, 0]);
    packet.extend_from_slice(&(offset | u16::from(more)).to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, 7]);
    packet.extend_from_slice(payload);
    packet
}

// RFC 7112 §5 and RFC 8200 §4.5: the source of a fragment that cannot be used hears why. RFC 4443 §2.4 (e):
// not about an error, nor about what might be one.
#[test]
fn sources_of_wrong_ipv6_fragments_hear_why() {
    let cut_options = [17, 4, 1, 4, 0, 0, 0, 0];
    let long = vec![1; 16];
    let cases = [
        ("four of UDP's eight bytes", piece(17, 0, true, &[0, 1, 0, 53]), Some([4, 3, 0, 0, 0, 0])),
        ("sixteen of TCP's twenty", piece(6, 0, true, &[0; 16]), Some([4, 3, 0, 0, 0, 0])),
        ("options that go on later", piece(60, 0, true, &cut_options), Some([4, 3, 0, 0, 0, 0])),
        ("a length of 12 although more follow", piece(17, 8, true, &[0; 12]), Some([4, 0, 0, 0, 0, 4])),
        ("an end beyond 65,535 bytes", piece(17, 65_520, false, &long), Some([4, 0, 0, 0, 0, 42])),
        ("four bytes of an echo request", piece(58, 0, true, &[128, 0, 0, 0]), Some([4, 3, 0, 0, 0, 0])),
        ("four bytes of an error", piece(58, 0, true, &[1, 4, 0, 0]), None),
        ("a later part of what may be an error", piece(58, 8, true, &[0; 12]), None),
        ("a good one", piece(17, 0, true, &long), None),
        ("an empty one", piece(17, 8, true, &[]), None),
    ];
    for (what, packet, expected) in cases {
        let mut receiver = host(&[V6[1]]);
        receiver.endpoint.handle_packet(receiver.now, &packet, RxMeta::default());
        let errors = leaving(&mut receiver);
        let head = |error: &Vec<u8>| [error[40], error[41], error[44], error[45], error[46], error[47]];
        let heads: Vec<_> = errors.iter().map(head).collect();
        assert_eq!(heads, Vec::from_iter(expected), "{what}");
        let (good, counters) = (what == "a good one", receiver.endpoint.counters());
        assert_eq!(counters.dropped_fragment, u64::from(!good), "{what}");
        assert_eq!(counters.icmp_errors_sent, u64::from(expected.is_some()), "{what}");
        for error in errors {
            assert_eq!((&error[8..24], &error[24..40]), (&packet[24..40], &packet[8..24]), "{what}");
            assert_eq!(error[48..], packet, "{what}: the quotation");
        }
    }
    // Neither for others' packets, nor more of them than of other errors.
    let mut receiver = host(&["fd00::3"]);
    let packet = piece(17, 0, true, &[0, 1, 0, 53]);
    receiver.endpoint.handle_packet(receiver.now, &packet, RxMeta::default());
    assert_eq!(leaving(&mut receiver).len(), 0);
    let mut receiver = host(&[V6[1]]);
    for _ in 0..1_000 {
        receiver.endpoint.handle_packet(receiver.now, &packet, RxMeta::default());
    }
    let (sent, counters) = (leaving(&mut receiver).len(), receiver.endpoint.counters());
    assert!((1..=100).contains(&sent), "{sent} errors");
    assert!(counters.dropped_icmp_limited >= 900, "{counters:?}");
}
