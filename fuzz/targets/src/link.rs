//! A link: frames, packets and times as the bytes say, and its bounds after each.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ackclock_link::{Detection, Instant, Link, LinkConfig, MacAddr, Sending};
use ackclock_wire::Cidr;
use ackclock_wire::{ChecksumState, FlowLabel, TxPacket, UdpHeader, checksum, write_udp};
use arbitrary::{Arbitrary, Unstructured};
use etherparse::{ArpPacketSlice, EtherType, Ethernet2Slice, IpHeaders};

/// The beginning of a link.
#[derive(Debug, Arbitrary)]
struct Scene {
    seed: u64,
    probe: bool,
    autoconfigure: bool,
    any_station: bool,
    gateways: bool,
    neighbours: u8,
}

#[derive(Debug, Arbitrary)]
enum Step {
    /// Any bytes, to a station of this number.
    Frame {
        to: Station,
        ether_type: u8,
        bytes: [u8; 32],
        len: u8,
    },
    Arp {
        to: Station,
        operation: u8,
        sender: (Station, Address),
        target: (Station, Address),
    },
    /// A message of neighbour discovery or of listener discovery, with options behind it; the latter in IGMP,
    /// too.
    Icmp6 {
        to: Station,
        kind: u8,
        from: Address,
        target: Address,
        flags: u32,
        options: [(u8, u8, [u8; 6]); 2],
    },
    Advertised {
        prefix: Address,
        len: u8,
        lifetimes: (u32, u32),
        router: u16,
        mtu: u32,
    },
    Send {
        from: Address,
        to: Address,
        next_hop: Option<Address>,
    },
    Reached(Address),
    Pass(u16),
    Jump(u32),
    Restored,
    Transmit,
}

/// An Ethernet address: the link's own, everyone's, a group's, or that of one of a few stations.
#[derive(Clone, Copy, Debug, Arbitrary)]
struct Station(u8);

/// One of few addresses of either family, or any.
#[derive(Clone, Copy, Debug, Arbitrary)]
struct Address(u8, u8);

/// Lives the life of a link, and says how many steps it had.
pub(crate) fn run(bytes: &[u8]) -> u64 {
    let mut unstructured = Unstructured::new(bytes);
    let Ok(scene) = Scene::arbitrary(&mut unstructured) else { return 0 };
    let mut rig = Rig::new(&scene);
    let mut steps = 0;
    while !unstructured.is_empty() {
        let Ok(step) = Step::arbitrary(&mut unstructured) else { break };
        rig.step(&step);
        rig.check();
        steps += 1;
    }
    rig.transmit();
    rig.come_to_rest();
    steps
}

struct Rig {
    link: Link,
    now: Instant,
    neighbours_max: usize,
}

impl Rig {
    fn new(scene: &Scene) -> Self {
        let mut config = LinkConfig::new(OWN);
        config.addresses = vec![Cidr::up_to(V4, 24), Cidr::up_to(V6, 64)];
        config.seed = scene.seed;
        config.detection = if scene.probe { Detection::Probe } else { Detection::Announce };
        config.autoconfigure = scene.autoconfigure;
        config.any_station = scene.any_station;
        if scene.gateways {
            config.gateways = vec![Address(1, 0).ip(), Address(1, 1).ip()];
        }
        let neighbours_max = 1 + usize::from(scene.neighbours % 8);
        config.limits.neighbours_max = neighbours_max;
        config.limits.waiting_packets_max = 3;
        config.limits.waiting_bytes_max = 2000;
        config.limits.messages_max = 8;
        let now = Instant::from_millis(1000);
        let mut link = Link::new(config, now);
        link.listen_to(now, &GROUPS);
        Self { link, now, neighbours_max }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Frame { to, ether_type, bytes, len } => {
                let ether_type = [EtherType::ARP, EtherType::IPV4, EtherType::IPV6, EtherType(0x8100)]
                    [usize::from(*ether_type % 4)];
                self.receive(*to, ether_type, &bytes[..usize::from(*len % 33)]);
            }
            Step::Arp { to, operation, sender, target } => {
                let mut arp = vec![0, 1, 8, 0, 6, 4, 0, operation % 4];
                for (station, address) in [sender, target] {
                    arp.extend(station.mac().octets());
                    arp.extend(address.v4().octets());
                }
                self.receive(*to, EtherType::ARP, &arp);
            }
            Step::Icmp6 { to, kind, from, target, flags, options } => {
                let kind = [130, 131, 132, 133, 134, 135, 136, 137, 143][usize::from(*kind % 9)];
                let mut message = vec![kind, 0, 0, 0];
                message.extend(flags.to_be_bytes());
                message.extend(target.v6().octets());
                let mut rest = Vec::new();
                for (kind, len, data) in options {
                    rest.extend([kind % 6, len % 4]);
                    rest.extend(data);
                }
                let behind = if flags & 0x100 == 0 { &rest[..] } else { &[] };
                message.extend(behind);
                self.message(*to, from.v6(), message);
                if let Some(kind) = igmp_kind(kind) {
                    let code = flags.to_be_bytes()[3];
                    self.igmp(*to, [&[kind, code, 0, 0][..], &target.v4().octets(), behind].concat());
                }
            }
            Step::Advertised { prefix, len, lifetimes, router, mtu } => {
                let mut message = vec![134, 0, 0, 0, 64, 0];
                message.extend(router.to_be_bytes());
                message.extend([0; 8]);
                message.extend([3, 4, len % 130, 0xc0]);
                message.extend(lifetimes.0.to_be_bytes());
                message.extend(lifetimes.1.to_be_bytes());
                message.extend([0; 4]);
                message.extend(prefix.v6().octets());
                message.extend([5, 1, 0, 0]);
                message.extend(mtu.to_be_bytes());
                let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(prefix.1 % 8));
                self.message(Station(1), router, message);
            }
            Step::Send { from, to, next_hop } => self.send(from.ip(), to.ip(), next_hop.map(Address::ip)),
            Step::Reached(address) => self.link.reached(self.now, address.ip()),
            Step::Pass(millis) => self.pass(Duration::from_millis((*millis).into())),
            Step::Jump(millis) => {
                self.now += Duration::from_millis((*millis).into());
                self.link.handle_timeout(self.now);
            }
            Step::Restored => self.link.link_restored(self.now),
            Step::Transmit => self.transmit(),
        }
    }

    fn message(&mut self, to: Station, from: Ipv6Addr, mut message: Vec<u8>) {
        let IpAddr::V6(dst) = V6 else { return };
        let dst = if to.mac().is_group() { ALL_NODES } else { dst };
        let pseudo = checksum::pseudo_header(from.into(), dst.into(), 58, message.len());
        let sum = pseudo.plus_bytes(&message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        // Listener discovery has a hop limit of 1, and a Router Alert.
        let is_mld = igmp_kind(message[0]).is_some();
        let (next, hops) = if is_mld { (0, 1) } else { (58, 255) };
        let alert = if is_mld { &[58, 0, 5, 2, 0, 0, 1, 0][..] } else { &[] };
        let len = ((alert.len() + message.len()) as u16).to_be_bytes();
        let head = [&[0x60, 0, 0, 0, len[0], len[1], next, hops][..], &from.octets(), &dst.octets()].concat();
        self.receive(to, EtherType::IPV6, &[&head, alert, &message].concat());
    }

    fn igmp(&mut self, to: Station, mut message: Vec<u8>) {
        let sum = checksum::sum(&message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let dst = if to.mac().is_group() { [224, 0, 0, 1] } else { [10, 9, 0, 2] };
        let len = (24 + message.len() as u16).to_be_bytes();
        let head = [0x46, 0xc0, len[0], len[1], 0, 0, 0, 0, 1, 2, 0, 0, 10, 9, 0, 1];
        let mut head = [&head[..], &dst, &[0x94, 4, 0, 0]].concat();
        let sum = checksum::sum(&head).checksum();
        head[10..12].copy_from_slice(&sum.to_be_bytes());
        self.receive(to, EtherType::IPV4, &[head, message].concat());
    }

    fn receive(&mut self, to: Station, ether_type: EtherType, payload: &[u8]) {
        let station = MacAddr::local(u64::from(to.0));
        let head = [&to.mac().octets()[..], &station.octets(), &ether_type.0.to_be_bytes()].concat();
        let frame = [&head, payload].concat();
        if let Some(packet) = self.link.handle_frame(self.now, &frame) {
            assert!(frame[14..].starts_with(packet), "a packet outside its frame");
        }
    }

    fn send(&mut self, from: IpAddr, to: IpAddr, next_hop: Option<IpAddr>) {
        let (src, dst) = ((from, 1).into(), (to, 2).into());
        let header = UdpHeader { src, dst, ttl: 1, traffic_class: 0, flow_label: FlowLabel::NONE };
        let Some(bytes) = write_udp(&header, &[7; 500]) else { return };
        let packet = TxPacket {
            header: &bytes,
            transport_offset: if to.is_ipv4() { 20 } else { 40 },
            payload: [&[], &[]],
            segment_size: None,
            checksum: ChecksumState::Complete,
        };
        if let Sending::Frame(header) = self.link.send_packet(self.now, &packet, next_hop) {
            assert_eq!(header[6..12], OWN.octets(), "the sender of a frame");
        }
    }

    /// Time passes, and the link is woken exactly when it wants to be.
    fn pass(&mut self, by: Duration) {
        let end = self.now + by;
        for _ in 0..WAKES_MAX {
            let Some(due) = self.link.poll_timeout().filter(|due| *due <= end) else { break };
            self.now = due.max(self.now);
            self.link.handle_timeout(self.now);
            assert!(self.link.poll_timeout().is_none_or(|next| next > self.now), "due again at once");
        }
        self.now = end;
        self.link.handle_timeout(end);
    }

    /// Checks that etherparse reads the frames that it sends.
    fn transmit(&mut self) {
        for _ in 0..FRAMES_MAX {
            let Some(sent) = self.link.poll_transmit() else { return };
            let packet = [sent.packet.header, sent.packet.payload[0], sent.packet.payload[1]].concat();
            let frame = [&sent.header[..], &packet].concat();
            let read = Ethernet2Slice::from_slice_without_fcs(&frame).expect("a frame");
            assert_eq!(read.source(), OWN.octets());
            match read.ether_type() {
                EtherType::ARP => {
                    ArpPacketSlice::from_slice(&packet).expect("an ARP message");
                }
                EtherType::IPV4 | EtherType::IPV6 => {
                    IpHeaders::from_slice(&packet).expect("a packet");
                }
                other => panic!("a frame of {other:?}"),
            }
        }
        panic!("the link does not stop sending");
    }

    fn check(&self) {
        let neighbours: Vec<_> = self.link.neighbours().collect();
        assert!(neighbours.len() <= self.neighbours_max, "{} neighbours", neighbours.len());
        let waiting: usize = neighbours.iter().map(|neighbour| neighbour.waiting).sum();
        assert!(waiting <= 3 * self.neighbours_max && waiting * 528 <= 2000 + 528, "{waiting} packets wait");
        assert!(self.link.addresses(self.now).count() <= 16, "too many own addresses");
        assert!(self.link.groups().len() <= 17 + GROUPS.len());
    }

    /// Nothing waits for ever for a neighbour that does not answer.
    fn come_to_rest(&mut self) {
        self.pass(Duration::from_secs(3600));
        self.transmit();
        let waiting = self.link.neighbours().map(|neighbour| neighbour.waiting).sum::<usize>();
        assert_eq!(waiting, 0, "packets that wait for ever");
    }
}

impl Station {
    fn mac(self) -> MacAddr {
        match self.0 % 8 {
            0..3 => OWN,
            3 => MacAddr::BROADCAST,
            4 => MacAddr::of_group(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).into()),
            _ => MacAddr::local(u64::from(self.0)),
        }
    }
}

impl Address {
    fn ip(self) -> IpAddr {
        if self.1.is_multiple_of(2) { self.v4().into() } else { self.v6().into() }
    }

    fn v4(self) -> Ipv4Addr {
        match self.0 {
            200.. => [self.0, self.1, 1, 1].into(),
            last => [10, 9, 0, last % 12].into(),
        }
    }

    fn v6(self) -> Ipv6Addr {
        let last = u16::from(self.0 % 12);
        match self.0 {
            240.. => Ipv6Addr::UNSPECIFIED,
            220.. => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last),
            200.. => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, last),
            180.. => Ipv6Addr::new(0x2001, 0xdb8, 0, self.1.into(), 0, 0, 0, last),
            _ => Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, last),
        }
    }
}

/// The type of IGMP for one of MLD.
fn igmp_kind(mld: u8) -> Option<u8> {
    Some(match mld {
        130 => 0x11,
        131 => 0x16,
        132 => 0x17,
        143 => 0x22,
        _ => return None,
    })
}

/// Groups that the program listens to, such as queries may name ([`Address::v4`], [`Address::v6`]).
const GROUPS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(239, 0, 1, 1)), IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 3))];
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const OWN: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 2]);
const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2));
const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2));
const WAKES_MAX: usize = 2000;
const FRAMES_MAX: usize = 200;
