//! The link: turns what its tables want to send into frames.

mod input;

use ackclock_control::tally::Tally;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ackclock_wire::random::Rng;
use ackclock_wire::{HeldPacket, TxPacket};
use etherparse::EtherType;

use crate::address::{AddressInfo, Addresses, Claim};
use crate::arp::Arp;
use crate::frame::{self, HEADER_LEN};
use crate::mac::solicited_node;
use crate::memberships::{Memberships, Reports};
use crate::neighbours::{NeighbourInfo, Neighbours, Question};
use crate::routers::Routers;
use crate::{Instant, LinkConfig, LinkCounters, MacAddr, igmp, mld, nd};

/// One station on an Ethernet.
///
/// After each call that takes the time, [`Link::poll_transmit`] gives what is to be sent because of it, and
/// [`Link::poll_timeout`] when [`Link::handle_timeout`] is to be called next.
///
/// ```
/// use ackclock_link::{Detection, Instant, Link, LinkConfig, MacAddr};
/// let mut config = LinkConfig::new(MacAddr::local(1));
/// config.addresses = vec!["10.9.0.2/24".parse()?];
/// config.detection = Detection::Announce;
/// let mut link = Link::new(config, Instant::ZERO);
/// link.handle_timeout(Instant::ZERO);
/// let announcement = link.poll_transmit().expect("a gratuitous ARP");
/// assert_eq!(announcement.header[12..], [0x08, 0x06]);
/// # Ok::<(), ackclock_wire::CidrError>(())
/// ```
#[derive(Debug)]
pub struct Link {
    mac: MacAddr,
    any_station: bool,
    autoconfigure: bool,
    neighbours: Neighbours,
    addresses: Addresses,
    routers: Routers,
    memberships_v4: Memberships<Ipv4Addr>,
    memberships_v6: Memberships<Ipv6Addr>,
    /// The groups that the program listens to, and how often they changed.
    listens_to: Vec<IpAddr>,
    listens_changed: u64,
    random: Rng,
    messages: VecDeque<Message>,
    messages_max: usize,
    /// The packet that [`Link::poll_transmit`] lends out.
    sending: Option<HeldPacket>,
    counters: LinkCounters,
}

/// The result for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// Send it behind this header.
    Frame([u8; HEADER_LEN]),
    /// It was copied and comes out of [`Link::poll_transmit`] once its next hop is known, behind those that
    /// waited before.
    Waiting,
    /// It was dropped and counted.
    Refused(Refusal),
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It does not begin with an IPv4 or IPv6 header.
    NotIp,
    /// Its destination is not on the link, and no router is known.
    NoRoute,
    /// Its source is an address of the host that is not in use: still probed, or another host's.
    SourceNotUsable,
}

/// A frame to send: the header, and behind it a message of the link's or a packet that waited.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The Ethernet header.
    pub header: [u8; HEADER_LEN],
    /// The packet behind it, with its offload metadata.
    pub packet: TxPacket<'a>,
}

/// A message of the link's own.
#[derive(Debug)]
struct Message {
    dst: MacAddr,
    ether_type: EtherType,
    bytes: Vec<u8>,
}

impl Link {
    /// A link that comes up at `now`.
    #[must_use]
    pub fn new(config: LinkConfig, now: Instant) -> Self {
        let mut random = Rng::new(config.seed);
        Self {
            mac: config.mac,
            any_station: config.any_station,
            autoconfigure: config.autoconfigure,
            neighbours: Neighbours::new(config.limits, config.timing, &mut random),
            addresses: Addresses::new(&config, now, &mut random),
            routers: Routers::new(&config, now, &mut random),
            memberships_v4: Memberships::new(&config.timing),
            memberships_v6: Memberships::new(&config.timing),
            listens_to: Vec::new(),
            listens_changed: 0,
            random,
            messages: VecDeque::new(),
            messages_max: config.limits.messages_max,
            sending: None,
            counters: LinkCounters::default(),
        }
    }

    /// Sends a packet, to `next_hop` or, without one, by the link's own routes.
    pub fn send_packet(&mut self, now: Instant, packet: &TxPacket<'_>, next_hop: Option<IpAddr>) -> Sending {
        let Some((src, dst)) = addresses_of(packet.header) else { return Sending::Refused(Refusal::NotIp) };
        if self.addresses.is_own(src) && !self.addresses.is_usable(src) {
            self.counters.source_not_usable.count();
            return Sending::Refused(Refusal::SourceNotUsable);
        }
        let ether_type = if dst.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
        if let Some(group) = self.group(dst) {
            return Sending::Frame(frame::header(group, self.mac, ether_type));
        }
        let Some(next_hop) = next_hop.or_else(|| self.next_hop(dst)) else {
            self.counters.no_route.count();
            return Sending::Refused(Refusal::NoRoute);
        };
        match self.neighbours.resolve(now, next_hop) {
            Some(mac) => Sending::Frame(frame::header(mac, self.mac, ether_type)),
            None => {
                self.neighbours.hold(now, next_hop, packet.into(), &mut self.counters);
                self.collect();
                Sending::Waiting
            }
        }
    }

    /// A message from `dst` shows that packets to it have arrived, as an acknowledgement of new data does:
    /// the neighbour on the way there needs no request for some time.
    // RFC 4861 §7.3.1: hints of an upper layer SHOULD be used when available; §7.3.3: they have no effect on
    // a neighbour whose Ethernet address is not known.
    pub fn reached(&mut self, now: Instant, dst: IpAddr) {
        if let Some(next_hop) = self.next_hop(dst) {
            self.neighbours.reached(now, next_hop);
        }
    }

    /// The next hop of a packet to `dst`: the destination itself on the link, otherwise a router.
    #[must_use]
    pub fn next_hop(&self, dst: IpAddr) -> Option<IpAddr> {
        if self.addresses.is_on_link(dst) || self.routers.is_on_link(dst) {
            return Some(dst);
        }
        self.routers.default_for(dst)
    }

    /// The next frame that the link wants to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        let (dst, ether_type, held) = match self.messages.pop_front() {
            Some(Message { dst, ether_type, bytes }) => (dst, ether_type, bytes.into()),
            None => {
                let (mac, held) = self.neighbours.poll_found()?;
                let is_v4 = addresses_of(held.packet().header).is_some_and(|(_, dst)| dst.is_ipv4());
                (mac, if is_v4 { EtherType::IPV4 } else { EtherType::IPV6 }, held)
            }
        };
        let header = frame::header(dst, self.mac, ether_type);
        let packet = self.sending.insert(held).packet();
        Some(Transmit { header, packet })
    }

    /// Whether [`Link::poll_transmit`] has a frame.
    #[must_use]
    pub fn has_transmit(&self) -> bool {
        !self.messages.is_empty() || self.neighbours.has_found()
    }

    /// When [`Link::handle_timeout`] is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = [
            self.neighbours.poll_timeout(),
            self.addresses.poll_timeout(),
            self.routers.poll_timeout(),
            self.memberships_v4.poll_timeout(),
            self.memberships_v6.poll_timeout(),
        ];
        due.into_iter().flatten().min()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        for failed in self.neighbours.handle_timeout(now, &mut self.counters) {
            self.routers.failed(failed);
        }
        self.addresses.handle_timeout(now, &mut self.random);
        // RFC 4862 §5.4.2: a host joins the group of an address, and reports it, before it probes.
        self.report(now);
        if self.routers.handle_timeout(now) {
            // RFC 4861 §4.1: from an address of the host, or from the unspecified one if it has none.
            let source = self.addresses.source_for(nd::ALL_NODES.into());
            let src = if let Some(IpAddr::V6(src)) = source { src } else { Ipv6Addr::UNSPECIFIED };
            let bytes = nd::solicit_routers(src, self.mac);
            self.say(MacAddr::of_group(nd::ALL_ROUTERS.into()), EtherType::IPV6, bytes);
        }
        self.collect();
    }

    /// The device's link was down and is up again: entries are checked, and the addresses are announced.
    pub fn link_restored(&mut self, now: Instant) {
        self.neighbours.doubt(now);
        self.addresses.announce(now);
        self.memberships_v4.tell_all(now);
        self.memberships_v6.tell_all(now);
        self.routers.ask_again(now, self.autoconfigure);
    }

    /// The groups that the program listens to from now on, instead of those before: the link reports them
    /// to switches and routers. Which packets arrive is the device's matter ([`Link::groups`]).
    pub fn listen_to(&mut self, now: Instant, groups: &[IpAddr]) {
        self.listens_to = groups.to_vec();
        self.listens_changed.count();
        self.want_groups(now);
    }

    /// The Ethernet address.
    #[must_use]
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// The groups whose frames the device has to receive besides broadcasts; another list once
    /// [`Link::groups_revision`] has changed.
    #[must_use]
    pub fn groups(&self) -> Vec<MacAddr> {
        let mut groups: Vec<_> =
            self.addresses.v6().map(|a| MacAddr::of_group(solicited_node(a).into())).collect();
        groups.extend(self.listens_to.iter().copied().map(MacAddr::of_group));
        // Queries come to all.
        if !groups.is_empty() {
            groups.push(MacAddr::of_group(nd::ALL_NODES.into()));
        }
        // RFC 1112 §7.2: a host is a member at all times, so that it knows the querier's version when it
        // joins another group.
        if self.addresses.has_v4() {
            groups.push(MacAddr::of_group(igmp::ALL_SYSTEMS.into()));
        }
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Counts changes of these.
    #[must_use]
    pub fn groups_revision(&self) -> u64 {
        self.addresses.revision().wrapping_add(self.listens_changed)
    }

    /// Largest IP packet on the link by the routers' advertisements, in bytes; `None`: they do not say.
    #[must_use]
    pub fn mtu(&self) -> Option<usize> {
        self.routers.mtu()
    }

    /// Whether every own address is in use or known to be another station's.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.addresses.is_settled()
    }

    /// Whether routers are solicited and none has answered yet.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.routers.is_searching()
    }

    /// The host's addresses.
    pub fn addresses(&self, now: Instant) -> impl Iterator<Item = AddressInfo> + '_ {
        self.addresses.infos(now)
    }

    /// The neighbours, in the order of their addresses.
    pub fn neighbours(&self) -> impl Iterator<Item = NeighbourInfo> + '_ {
        self.neighbours.infos()
    }

    /// Counts of frames carried and dropped so far.
    #[must_use]
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// The Ethernet group that a packet to `dst` goes to, unless that is one host.
    fn group(&self, dst: IpAddr) -> Option<MacAddr> {
        if dst.is_multicast() {
            return Some(MacAddr::of_group(dst));
        }
        let all = dst == IpAddr::V4(Ipv4Addr::BROADCAST) || self.addresses.is_broadcast(dst);
        all.then_some(MacAddr::BROADCAST)
    }

    /// Turns what the tables want to send into messages.
    fn collect(&mut self) {
        while let Some(claim) = self.addresses.poll_claim() {
            self.claim(claim);
        }
        while let Some(question) = self.neighbours.poll_question() {
            self.ask(question);
        }
    }

    /// Sends the multicast reports that are due.
    fn report(&mut self, now: Instant) {
        self.want_groups(now);
        self.report_v4(now);
        self.report_v6(now);
    }

    /// Settles which groups are to be reported.
    fn want_groups(&mut self, now: Instant) {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for group in &self.listens_to {
            // RFC 3810 §6: MLD messages are never sent for the all-nodes group, nor for groups that stay
            // within the host (scopes 0 and 1). RFC 3376 §5: IGMP has none for all systems.
            match *group {
                IpAddr::V4(group) if group != igmp::ALL_SYSTEMS => v4.push(group),
                IpAddr::V6(group) if group != nd::ALL_NODES && group.octets()[1] & 0xf > 1 => v6.push(group),
                _ => {}
            }
        }
        v6.extend(self.addresses.spoken_v6().map(solicited_node));
        let has_v4 = self.addresses.source_for(igmp::ALL_V3_ROUTERS.into()).is_some();
        self.memberships_v4.set(now, &v4, has_v4);
        self.memberships_v6.set(now, &v6, self.addresses.link_local().is_some());
    }

    fn report_v4(&mut self, now: Instant) {
        let Some(Reports { records, old }) = self.memberships_v4.handle_timeout(now, &mut self.random) else {
            return;
        };
        let src = match self.addresses.source_for(igmp::ALL_V3_ROUTERS.into()) {
            Some(IpAddr::V4(src)) => src,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let Some(version) = old else {
            let to = MacAddr::of_group(igmp::ALL_V3_ROUTERS.into());
            for records in records.chunks(RECORDS_MAX) {
                self.say(to, EtherType::IPV4, igmp::report(src, records));
            }
            return;
        };
        for (saying, group) in records {
            if let Some((dst, bytes)) = igmp::old_report(version, src, saying, group) {
                self.say(MacAddr::of_group(dst.into()), EtherType::IPV4, bytes);
            }
        }
    }

    fn report_v6(&mut self, now: Instant) {
        let Some(Reports { records, old }) = self.memberships_v6.handle_timeout(now, &mut self.random) else {
            return;
        };
        let src = self.addresses.link_local().unwrap_or(Ipv6Addr::UNSPECIFIED);
        if old.is_none() {
            let to = MacAddr::of_group(mld::ALL_V2_ROUTERS.into());
            for records in records.chunks(RECORDS_MAX) {
                self.say(to, EtherType::IPV6, mld::report(src, records));
            }
            return;
        }
        for (saying, group) in records {
            let (dst, bytes) = mld::report_v1(src, saying, group);
            self.say(MacAddr::of_group(dst.into()), EtherType::IPV6, bytes);
        }
    }

    fn claim(&mut self, claim: Claim) {
        let mac = self.mac;
        match claim {
            // RFC 5227 §1.1: a probe is a request from the unspecified address; an announcement has the
            // address twice.
            Claim::Probe(IpAddr::V4(addr)) => {
                self.arp_request(MacAddr::BROADCAST, Ipv4Addr::UNSPECIFIED, addr)
            }
            Claim::Announce(IpAddr::V4(addr)) => self.arp_request(MacAddr::BROADCAST, addr, addr),
            Claim::Probe(IpAddr::V6(addr)) => {
                let dst = solicited_node(addr);
                let bytes = nd::solicit(Ipv6Addr::UNSPECIFIED, dst, addr, mac);
                self.say(MacAddr::of_group(dst.into()), EtherType::IPV6, bytes);
            }
            Claim::Announce(IpAddr::V6(addr)) => {
                let bytes = nd::advertise(nd::ALL_NODES, addr, mac, false);
                self.say(MacAddr::of_group(nd::ALL_NODES.into()), EtherType::IPV6, bytes);
            }
        }
    }

    /// The request needs one of the host's addresses as its source, and is left out without one.
    fn ask(&mut self, Question { target, to }: Question) {
        match (self.addresses.source_for(target), target) {
            (Some(IpAddr::V4(src)), IpAddr::V4(target)) => {
                self.arp_request(to.unwrap_or(MacAddr::BROADCAST), src, target);
            }
            (Some(IpAddr::V6(src)), IpAddr::V6(target)) => {
                let group = solicited_node(target);
                let dst = if to.is_some() { target } else { group };
                let bytes = nd::solicit(src, dst, target, self.mac);
                self.say(to.unwrap_or(MacAddr::of_group(group.into())), EtherType::IPV6, bytes);
            }
            _ => {}
        }
    }

    fn arp_request(&mut self, to: MacAddr, sender: Ipv4Addr, target: Ipv4Addr) {
        let (is_reply, sender_mac, target_mac) = (false, self.mac, MacAddr::ZERO);
        let arp = Arp { is_reply, sender_mac, sender, target_mac, target };
        self.say(to, EtherType::ARP, arp.to_bytes().to_vec());
    }

    fn say(&mut self, dst: MacAddr, ether_type: EtherType, bytes: Vec<u8>) {
        if self.messages.len() < self.messages_max {
            self.messages.push_back(Message { dst, ether_type, bytes });
        } else {
            self.counters.messages_dropped.count();
        }
    }
}

/// Source and destination of an IP packet whose header is complete.
fn addresses_of(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    fn field<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
        packet.get(at..)?.first_chunk().copied()
    }
    match packet.first()? >> 4 {
        4 if packet.len() >= 20 => Some((field::<4>(packet, 12)?.into(), field::<4>(packet, 16)?.into())),
        6 if packet.len() >= 40 => Some((field::<16>(packet, 8)?.into(), field::<16>(packet, 24)?.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

/// Groups in one report: with 60 of them it fits the least MTU, 576 bytes of IPv4 and 1,280 of IPv6.
const RECORDS_MAX: usize = 60;
