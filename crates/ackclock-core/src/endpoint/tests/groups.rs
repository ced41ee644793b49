//! Multicast groups: which sockets hear what, and what the device learns.

use ackclock_wire::fragment::fragments;
use ackclock_wire::{UdpHeader, write_udp};

use super::*;
use crate::udp::GROUPS_MAX;
use crate::{UdpId, UdpOptions, UdpSocketError};

const GROUP: &str = "239.1.2.3";
const GROUP_V6: &str = "ff15::1234";

fn host() -> Host {
    let mut config = config(SERVER);
    config.addresses = ["10.0.0.1", "fd00::1"].map(ip).to_vec();
    Host::with(config)
}

fn bind(host: &mut Host, addr: Option<&str>, port: Option<u16>) -> UdpId {
    let addr = ListenAddr { addr: addr.map(ip), port };
    host.endpoint.udp_bind(host.now, UdpOptions::new(addr)).unwrap()
}

fn arrives(host: &mut Host, from: &str, to: &str, payload: &[u8]) {
    let (src, dst) = (from.parse().unwrap(), to.parse().unwrap());
    let header = UdpHeader { src, dst, ttl: 1, traffic_class: 0, flow_label: FlowLabel::NONE };
    let packet = write_udp(&header, payload).unwrap();
    host.endpoint.handle_packet(host.now, &packet, RxMeta::default());
}

fn read(host: &mut Host, id: UdpId) -> Option<Vec<u8>> {
    let mut buf = [0; 100];
    let meta = host.endpoint.udp_receive(id, &mut buf, false).ok()?;
    Some(buf[..meta.len].to_vec())
}

#[test]
fn a_group_is_heard_by_each_socket_that_has_joined_and_by_no_other() {
    for (group, from) in [(GROUP, "10.0.0.9"), (GROUP_V6, "fd00::9")] {
        let mut host = host();
        let [one, all, deaf] = [Some(5000), None, Some(6000)].map(|port| bind(&mut host, None, port));
        let at = |port: u16| SocketAddr::new(ip(group), port).to_string();
        let from = SocketAddr::new(ip(from), 4000).to_string();
        arrives(&mut host, &from, &at(5000), b"before");
        for id in [one, all] {
            host.endpoint.udp_join(id, ip(group)).unwrap();
        }
        arrives(&mut host, &from, &at(5000), b"both");
        arrives(&mut host, &from, &at(7000), b"any port");
        arrives(&mut host, &from, &at(6000), b"of another");
        assert_eq!((read(&mut host, one), read(&mut host, one)), (Some(b"both".to_vec()), None));
        let heard: Vec<_> = std::iter::from_fn(|| read(&mut host, all)).collect();
        assert_eq!(heard, [b"both".to_vec(), b"any port".to_vec(), b"of another".to_vec()]);
        assert_eq!(read(&mut host, deaf), None);
        // "before", which no socket wanted; no ICMP error answers anything.
        assert_eq!(host.endpoint.counters().dropped_not_local, 1);
        assert_eq!(host.sent(), []);
        host.endpoint.udp_leave(one, ip(group)).unwrap();
        arrives(&mut host, &from, &at(5000), b"after");
        assert_eq!((read(&mut host, one), read(&mut host, all)), (None, Some(b"after".to_vec())));
    }
}

#[test]
fn a_connected_socket_hears_its_peer_alone() {
    let mut host = host();
    let id = bind(&mut host, None, Some(5000));
    host.endpoint.udp_join(id, ip(GROUP)).unwrap();
    host.endpoint.udp_connect(id, Some("10.0.0.9:4000".parse().unwrap())).unwrap();
    arrives(&mut host, "10.0.0.8:4000", "239.1.2.3:5000", b"stranger");
    arrives(&mut host, "10.0.0.9:4000", "239.1.2.3:5000", b"peer");
    assert_eq!((read(&mut host, id), read(&mut host, id)), (Some(b"peer".to_vec()), None));
}

#[test]
fn the_device_learns_each_change_once() {
    let mut host = host();
    let [one, two] = [5000, 6000].map(|port| bind(&mut host, None, Some(port)));
    assert_eq!(host.endpoint.take_groups(), None);
    host.endpoint.udp_join(one, ip(GROUP_V6)).unwrap();
    host.endpoint.udp_join(one, ip(GROUP)).unwrap();
    assert!(host.endpoint.has_outgoing(), "so that a driver comes");
    assert_eq!(host.endpoint.take_groups(), Some(vec![ip(GROUP), ip(GROUP_V6)]));
    assert!(!host.endpoint.has_outgoing());
    host.endpoint.udp_join(two, ip(GROUP)).unwrap();
    assert_eq!(host.endpoint.take_groups(), None, "another member changes nothing");
    host.endpoint.udp_close(one);
    assert_eq!(host.endpoint.take_groups(), Some(vec![ip(GROUP)]));
    host.endpoint.udp_leave(two, ip(GROUP)).unwrap();
    assert_eq!(host.endpoint.take_groups(), Some(vec![]));
}

#[test]
fn what_is_no_group_or_too_many_is_refused() {
    let mut host = host();
    let (id, one_address) =
        (bind(&mut host, None, Some(5000)), bind(&mut host, Some("10.0.0.1"), Some(6000)));
    let mut join = |id, group: &str| host.endpoint.udp_join(id, ip(group));
    assert_eq!(join(id, "10.0.0.9"), Err(UdpSocketError::NotMulticast(ip("10.0.0.9"))));
    assert_eq!(join(one_address, GROUP), Err(UdpSocketError::BoundToOne(ip("10.0.0.1"))));
    assert_eq!((join(id, GROUP), join(id, GROUP)), (Ok(()), Err(UdpSocketError::AlreadyJoined(ip(GROUP)))));
    for n in 1..GROUPS_MAX {
        assert_eq!(join(id, &format!("239.9.9.{n}")), Ok(()));
    }
    assert_eq!(join(id, "239.9.9.200"), Err(UdpSocketError::TooManyGroups(GROUPS_MAX)));
    assert_eq!(
        host.endpoint.udp_leave(id, ip("239.9.9.200")),
        Err(UdpSocketError::NotJoined(ip("239.9.9.200")))
    );
    host.endpoint.udp_close(id);
    assert_eq!(host.endpoint.udp_join(id, ip(GROUP)), Err(UdpSocketError::Closed));
}

#[test]
fn tcp_hears_nothing_of_groups() {
    let (mut host, _) = Host::listening(on_port(PORT));
    let id = bind(&mut host, None, Some(PORT));
    host.endpoint.udp_join(id, ip(GROUP)).unwrap();
    assert_eq!(host.give(client(4000), SocketAddr::new(ip(GROUP), PORT), syn(1), &[]), []);
}

/// Datagrams for a group's members are reassembled, beside a program that takes the packets for all others.
#[test]
fn a_long_datagram_for_a_group_arrives_whole_beside_a_program_for_other_packets() {
    for (group, stranger, from) in
        [(GROUP, "239.9.9.9", "10.0.0.9:4000"), (GROUP_V6, "ff15::9", "[fd00::9]:4000")]
    {
        for other_packets in [0, 100] {
            let mut config = EndpointConfig { reassembly: Some(Box::default()), ..config(SERVER) };
            config.addresses = ["10.0.0.1", "fd00::1"].map(ip).to_vec();
            config.other_packets = other_packets;
            let mut host = Host::with(config);
            let id = bind(&mut host, None, Some(5000));
            host.endpoint.udp_join(id, ip(group)).unwrap();
            for to in [group, stranger] {
                let (src, dst) = (from.parse().unwrap(), SocketAddr::new(ip(to), 5000));
                let header = UdpHeader { src, dst, ttl: 1, traffic_class: 0, flow_label: FlowLabel::NONE };
                let packet = write_udp(&header, &[7; 3000]).unwrap();
                for piece in fragments(&packet, 1280, 1).unwrap() {
                    host.endpoint.handle_packet(host.now, &piece, RxMeta::default());
                }
            }
            let mut buf = [0; 4000];
            let meta = host.endpoint.udp_receive(id, &mut buf, false).unwrap();
            assert_eq!((meta.len, buf[..3000] == [7; 3000]), (3000, true), "{group}");
            assert!(host.endpoint.udp_receive(id, &mut buf, false).is_err());
            let others = std::iter::from_fn(|| host.endpoint.poll_other()).count();
            assert_eq!(others, if other_packets == 0 { 0 } else { 3 }, "what was sent to {stranger}");
        }
    }
}
