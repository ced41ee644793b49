//! The link in virtual time: each test gives the input with its times, and reads what is sent.

mod addresses;
mod hostile;
mod memberships;
mod neighbours;
mod routers;

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU16;
use std::time::Duration;

use ackclock_wire::{ChecksumAt, ChecksumState, Cidr, TxPacket};

use super::*;
use crate::frame::Frame;
use crate::nd::Nd;
use crate::{AddressState, Detection, NeighbourState};

/// A link and its clock.
struct Rig {
    link: Link,
    now: Instant,
}

/// A frame that the link sent.
#[derive(Debug, PartialEq, Eq)]
struct SentFrame {
    dst: MacAddr,
    ether_type: u16,
    bytes: Vec<u8>,
}

impl Rig {
    /// 10.9.0.2/24 and fd09::2/64, used at once, their announcements already sent; gateways 10.9.0.1 and
    /// fd09::1.
    fn settled(change: impl FnOnce(&mut LinkConfig)) -> Self {
        let mut rig = Self::fresh(|config| {
            config.detection = Detection::Announce;
            config.timing.announcements = 0;
            config.gateways = vec![ip("10.9.0.1"), ip("fd09::1")];
            change(config);
        });
        rig.wake();
        assert_eq!(rig.sent(), []);
        rig
    }

    /// A link whose addresses are not probed yet.
    fn fresh(change: impl FnOnce(&mut LinkConfig)) -> Self {
        let mut config = LinkConfig::new(own());
        // Separate tests cover multicast reports.
        config.timing.reports = 0;
        config.addresses = vec![Cidr::up_to(ip(V4), 24), Cidr::up_to(ip(V6), 64)];
        change(&mut config);
        let now = Instant::from_millis(1000);
        Self { link: Link::new(config, now), now }
    }

    fn wake(&mut self) {
        self.link.handle_timeout(self.now);
    }

    /// Advances the clock by `by`, waking the link exactly at its deadlines.
    fn run(&mut self, by: Duration) -> Vec<(Duration, SentFrame)> {
        let (began, end) = (self.now, self.now + by);
        let mut sent = Vec::new();
        while let Some(due) = self.link.poll_timeout().filter(|due| *due <= end) {
            assert!(due >= self.now, "due in the past");
            self.now = due;
            self.wake();
            assert!(self.link.poll_timeout().is_none_or(|next| next > due), "due again at once");
            let at = due.saturating_since(began);
            sent.extend(self.sent().into_iter().map(|frame| (at, frame)));
        }
        self.now = end;
        sent
    }

    fn sent(&mut self) -> Vec<SentFrame> {
        let mut sent = Vec::new();
        while let Some(Transmit { header, packet }) = self.link.poll_transmit() {
            let bytes = packet.to_vec();
            sent.push(sent_frame(header, bytes));
        }
        assert!(!self.link.has_transmit());
        sent
    }

    fn send(&mut self, src: &str, dst: &str) -> Sending {
        let bytes = packet(src, dst, b"payload");
        self.link.send_packet(self.now, &plain(&bytes), None)
    }

    fn receive(
        &mut self,
        from: MacAddr,
        to: MacAddr,
        ether_type: EtherType,
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        let frame = [&frame::header(to, from, ether_type)[..], payload].concat();
        self.link.handle_frame(self.now, &frame).map(<[u8]>::to_vec)
    }

    /// An ARP message arrives: a request to all, or a reply to this host.
    fn arp(&mut self, is_reply: bool, sender_mac: MacAddr, sender: &str, target: &str) {
        let [sender, target] = [sender, target].map(|text| text.parse().unwrap());
        let target_mac = if is_reply { own() } else { MacAddr::ZERO };
        let arp = Arp { is_reply, sender_mac, sender, target_mac, target };
        let to = if is_reply { own() } else { MacAddr::BROADCAST };
        assert_eq!(self.receive(sender_mac, to, EtherType::ARP, &arp.to_bytes()), None);
    }

    /// An IPv6 message arrives.
    fn nd(&mut self, from: MacAddr, bytes: &[u8]) {
        assert_eq!(self.receive(from, own(), EtherType::IPV6, bytes), None);
    }

    fn neighbour(&self, addr: &str) -> Option<(Option<MacAddr>, NeighbourState)> {
        let found = self.link.neighbours().find(|neighbour| neighbour.addr == ip(addr))?;
        Some((found.mac, found.state))
    }

    fn state(&self, addr: &str) -> Option<AddressState> {
        self.link.addresses(self.now).find(|own| own.prefix.addr() == ip(addr)).map(|own| own.state)
    }
}

fn sent_frame(header: [u8; HEADER_LEN], bytes: Vec<u8>) -> SentFrame {
    let frame = Frame::parse(&header).unwrap();
    assert_eq!(frame.src, own());
    SentFrame { dst: frame.dst, ether_type: frame.ether_type.0, bytes }
}

impl SentFrame {
    fn arp(&self) -> Arp {
        assert_eq!(self.ether_type, EtherType::ARP.0, "{self:?}");
        Arp::parse(&self.bytes).unwrap()
    }

    fn nd(&self) -> Nd {
        assert_eq!(self.ether_type, EtherType::IPV6.0, "{self:?}");
        Nd::parse(&self.bytes).unwrap()
    }
}

/// An IP packet without a transport header: the link does not read one.
fn packet(src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    let len = u8::try_from(payload.len()).unwrap();
    let mut packet = match (ip(src), ip(dst)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut header = vec![0x45, 0, 0, 20 + len, 0, 0, 0x40, 0, 64, 6, 0, 0];
            header.extend(src.octets().into_iter().chain(dst.octets()));
            header
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut header = vec![0x60, 0, 0, 0, 0, len, 6, 64];
            header.extend(src.octets().into_iter().chain(dst.octets()));
            header
        }
        _ => panic!("mixed families"),
    };
    packet.extend_from_slice(payload);
    packet
}

fn plain(bytes: &[u8]) -> TxPacket<'_> {
    TxPacket::complete(bytes)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn own() -> MacAddr {
    MacAddr::new([2, 0, 0, 0, 0, 2])
}

/// Another station.
fn station(number: u16) -> MacAddr {
    let [high, low] = number.to_be_bytes();
    MacAddr::new([2, 0, 0, 9, high, low])
}

fn seconds(frames: &[(Duration, SentFrame)]) -> Vec<u64> {
    frames.iter().map(|(at, _)| at.as_secs()).collect()
}

const V4: &str = "10.9.0.2";
const V6: &str = "fd09::2";
const PEER: &str = "10.9.0.7";
const PEER_V6: &str = "fd09::7";
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_packet_waits_for_its_next_hop_and_leaves_with_all_that_was_said_of_it() {
    let mut rig = Rig::settled(|_| {});
    let bytes = packet(V4, PEER, &[7; 100]);
    let (header, payload) = bytes.split_at(20);
    let large = TxPacket {
        header,
        transport_offset: 20,
        payload: [&payload[..60], &payload[60..]],
        segment_size: NonZeroU16::new(50),
        checksum: ChecksumState::Partial(ChecksumAt::tcp(20)),
    };
    assert_eq!(rig.link.send_packet(rig.now, &large, None), Sending::Waiting);
    let asked = rig.sent();
    let (question, dst) = (asked[0].arp(), asked[0].dst);
    assert_eq!((asked.len(), dst, question.is_reply), (1, MacAddr::BROADCAST, false));
    assert_eq!((question.sender.to_string(), question.target.to_string()), (V4.into(), PEER.into()));

    rig.arp(true, station(7), PEER, V4);
    let Some(Transmit { header, packet }) = rig.link.poll_transmit() else { panic!("nothing leaves") };
    assert_eq!(header[..6], station(7).octets());
    assert_eq!((packet.header, packet.payload[0]), (&bytes[..20], &bytes[20..]));
    let said = (packet.segment_size, packet.checksum, packet.transport_offset);
    assert_eq!(said, (NonZeroU16::new(50), ChecksumState::Partial(ChecksumAt::tcp(20)), 20));
    assert_eq!(rig.sent(), []);
    // From now on there is a header at once.
    assert!(matches!(rig.send(V4, PEER), Sending::Frame(header) if header[..6] == station(7).octets()));
}

#[test]
fn a_packet_off_the_link_goes_to_the_gateway_and_none_without_one() {
    let mut rig = Rig::settled(|_| {});
    assert_eq!(rig.send(V4, "203.0.113.9"), Sending::Waiting);
    assert_eq!(rig.send(V6, "2001:db8::9"), Sending::Waiting);
    let asked = rig.sent();
    assert_eq!(asked[0].arp().target.to_string(), "10.9.0.1");
    assert!(matches!(asked[1].nd(), Nd::Solicitation { target, .. } if target == v6("fd09::1")));

    let mut rig = Rig::settled(|config| config.gateways.clear());
    assert_eq!(rig.send(V4, "203.0.113.9"), Sending::Refused(Refusal::NoRoute));
    assert_eq!(rig.send(V6, "2001:db8::9"), Sending::Refused(Refusal::NoRoute));
    assert_eq!(rig.link.counters().no_route, 2);
    // A next hop that the caller names needs no route.
    let bytes = packet(V4, "203.0.113.9", b"x");
    assert_eq!(rig.link.send_packet(rig.now, &plain(&bytes), Some(ip("10.9.0.77"))), Sending::Waiting);
    assert_eq!(rig.sent()[0].arp().target.to_string(), "10.9.0.77");
}

#[test]
fn a_packet_for_a_group_needs_no_question() {
    let mut rig = Rig::settled(|_| {});
    for (src, dst, mac) in [
        (V4, "224.0.0.251", "01:00:5e:00:00:fb"),
        (V4, "255.255.255.255", "ff:ff:ff:ff:ff:ff"),
        (V4, "10.9.0.255", "ff:ff:ff:ff:ff:ff"),
        (V6, "ff02::fb", "33:33:00:00:00:fb"),
    ] {
        let expected: MacAddr = mac.parse().unwrap();
        let sending = rig.send(src, dst);
        assert!(
            matches!(sending, Sending::Frame(header) if header[..6] == expected.octets()),
            "{dst} {sending:?}"
        );
    }
    assert_eq!(rig.sent(), []);
}

#[test]
fn what_is_no_ip_packet_is_refused() {
    let mut rig = Rig::settled(|_| {});
    for bytes in [&[][..], &[0x45; 19], &[0x60; 39], &[0x10; 60]] {
        assert_eq!(rig.link.send_packet(rig.now, &plain(bytes), None), Sending::Refused(Refusal::NotIp));
    }
}

#[test]
fn frames_go_to_the_stack_only_if_they_are_for_this_host() {
    let mut rig = Rig::settled(|_| {});
    let bytes = packet(PEER, V4, b"data");
    assert_eq!(rig.receive(station(7), own(), EtherType::IPV4, &bytes), Some(bytes.clone()));
    assert_eq!(rig.receive(station(7), station(8), EtherType::IPV4, &bytes), None);
    assert_eq!(rig.receive(own(), MacAddr::BROADCAST, EtherType::IPV4, &bytes), None, "an echo of its own");
    // RFC 1122 §3.3.6
    assert_eq!(rig.receive(station(7), MacAddr::BROADCAST, EtherType::IPV4, &bytes), None);
    assert_eq!(rig.receive(station(7), own(), EtherType::IPV6, &bytes), None, "IPv4 that is called IPv6");
    assert_eq!(rig.receive(station(7), own(), EtherType::VLAN_TAGGED_FRAME, &bytes), None);
    let to_all = packet(PEER, "10.9.0.255", b"data");
    assert!(rig.receive(station(7), MacAddr::BROADCAST, EtherType::IPV4, &to_all).is_some());
    let counters = rig.link.counters();
    assert_eq!((counters.delivered, counters.other_station, counters.own), (2, 1, 1));
    assert_eq!((counters.unicast_in_group_frame, counters.malformed, counters.other_protocol), (1, 1, 1));

    let mut rig = Rig::settled(|config| config.any_station = true);
    assert!(rig.receive(station(7), station(8), EtherType::IPV4, &bytes).is_some());
}

#[test]
fn the_device_is_told_the_groups_of_each_address() {
    let rig = Rig::settled(|_| {});
    let groups: Vec<_> = rig.link.groups().iter().map(MacAddr::to_string).collect();
    assert_eq!(groups, ["01:00:5e:00:00:01", "33:33:00:00:00:01", "33:33:ff:00:00:02"]);
    let rig = Rig::settled(|config| config.addresses.truncate(1));
    assert_eq!(rig.link.groups(), [MacAddr::of_group(igmp::ALL_SYSTEMS.into())]);
}
