//! Input: frames for the stack, and messages for the link itself.

use ackclock_control::tally::Tally;
use std::net::IpAddr;
use std::time::Duration;

use etherparse::EtherType;

use super::{Link, addresses_of};
use crate::arp::Arp;
use crate::frame::Frame;
use crate::memberships::Query;
use crate::nd::{Nd, RouterAdvertisement};
use crate::{Instant, MacAddr, igmp, nd};

impl Link {
    /// Takes a frame. Returns the IP packet in it if that is for the stack.
    pub fn handle_frame<'a>(&mut self, now: Instant, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let Some(frame) = Frame::parse(bytes) else {
            self.counters.malformed.count();
            return None;
        };
        if frame.src == self.mac {
            self.counters.own.count();
            return None;
        }
        let for_us = frame.dst == self.mac || frame.dst.is_group();
        if !for_us && !self.any_station {
            self.counters.other_station.count();
            return None;
        }
        match frame.ether_type {
            EtherType::IPV4 | EtherType::IPV6 => self.packet(now, &frame),
            EtherType::ARP if for_us => {
                self.arp(now, frame.payload);
                self.collect();
                None
            }
            _ => {
                self.counters.other_protocol.count();
                None
            }
        }
    }

    fn packet<'a>(&mut self, now: Instant, frame: &Frame<'a>) -> Option<&'a [u8]> {
        let is_v4 = frame.ether_type == EtherType::IPV4;
        let Some((_, dst)) = addresses_of(frame.payload).filter(|(_, dst)| dst.is_ipv4() == is_v4) else {
            self.counters.malformed.count();
            return None;
        };
        if !is_v4 && Nd::is_in(frame.payload) {
            if frame.dst == self.mac || frame.dst.is_group() {
                self.neighbour_discovery(now, frame);
                self.collect();
            }
            return None;
        }
        if !is_v4 && Query::is_in_v6(frame.payload) {
            match Query::parse_v6(frame.payload) {
                Ok(query) if self.hears(dst) => self.memberships_v6.asked(now, &query, &mut self.random),
                Ok(_) => {}
                Err(_) => self.counters.malformed.count(),
            }
            return None;
        }
        if is_v4 && Query::is_in_v4(frame.payload) {
            match Query::parse_v4(frame.payload) {
                Ok(Some(query)) => {
                    if self.hears(dst) {
                        self.memberships_v4.asked(now, &query, &mut self.random);
                    }
                    return None;
                }
                // A report of another host, say: for a program that listens to all packets.
                Ok(None) => {}
                Err(_) => {
                    self.counters.malformed.count();
                    return None;
                }
            }
        }
        // RFC 1122 §3.3.6: a packet for one host in a broadcast frame is discarded.
        if frame.dst.is_group() && self.group(dst).is_none() {
            self.counters.unicast_in_group_frame.count();
            return None;
        }
        self.counters.delivered.count();
        Some(frame.payload)
    }

    /// Whether a query to `dst` is one to this host. RFC 3376 §4.1.12, RFC 3810 §5.1.15: to any of its
    /// addresses and groups.
    fn hears(&self, dst: IpAddr) -> bool {
        match dst {
            IpAddr::V4(group) if group.is_multicast() => {
                group == igmp::ALL_SYSTEMS || self.memberships_v4.listens(group)
            }
            IpAddr::V6(group) if group.is_multicast() => {
                group == nd::ALL_NODES || self.memberships_v6.listens(group)
            }
            _ => self.addresses.is_usable(dst),
        }
    }

    /// RFC 826, "Packet Reception", and RFC 5227 §2.1.1, §2.4.
    fn arp(&mut self, now: Instant, bytes: &[u8]) {
        let Some(arp) = Arp::parse(bytes).filter(|arp| arp.sender_mac != self.mac) else {
            self.counters.malformed.count();
            return;
        };
        let (sender, target) = (IpAddr::V4(arp.sender), IpAddr::V4(arp.target));
        let probe = arp.sender.is_unspecified();
        // RFC 5227 §2.1.1: another host that probes for a tentative address is a conflict as well.
        let claimed = if probe && self.addresses.is_tentative(target) { target } else { sender };
        if self.addresses.is_own(claimed) {
            return self.conflict(now, claimed, arp.sender_mac);
        }
        let asked = self.addresses.is_usable(target);
        let on_link = !probe && self.addresses.is_on_link(sender) && !self.addresses.is_broadcast(sender);
        if on_link && arp.is_reply && asked {
            self.neighbours.answered(now, sender, arp.sender_mac, &mut self.counters);
        } else if on_link {
            self.neighbours.learn(now, sender, arp.sender_mac, asked, &mut self.counters);
        }
        if asked && !arp.is_reply {
            let reply = Arp {
                is_reply: true,
                sender_mac: self.mac,
                sender: arp.target,
                target_mac: arp.sender_mac,
                target: arp.sender,
            };
            self.say(arp.sender_mac, EtherType::ARP, reply.to_bytes().to_vec());
        }
    }

    fn neighbour_discovery(&mut self, now: Instant, frame: &Frame<'_>) {
        let Ok(message) = Nd::parse(frame.payload) else {
            self.counters.malformed.count();
            return;
        };
        match message {
            Nd::Solicitation { src, target, source_mac } => {
                let from = source_mac.unwrap_or(frame.src);
                self.solicited(now, src.into(), target.into(), source_mac, from);
            }
            Nd::Advertisement(told) if self.addresses.is_own(told.target.into()) => {
                // RFC 4862 §5.4.4: a station that advertises a tentative address has it.
                self.conflict(now, told.target.into(), told.target_mac.unwrap_or(frame.src));
            }
            Nd::Advertisement(told) => {
                if self.neighbours.advertised(now, &told) {
                    self.routers.left(told.target.into());
                }
            }
            Nd::Router(told) if self.autoconfigure => self.router(now, &told),
            Nd::Router(_) | Nd::Ignored => {}
            Nd::Redirect => self.counters.redirects.count(),
        }
    }

    /// A neighbour solicits an address (RFC 4861 §7.2.3, §7.2.4; RFC 4862 §5.4.3).
    fn solicited(
        &mut self,
        now: Instant,
        src: IpAddr,
        target: IpAddr,
        source_mac: Option<MacAddr>,
        from: MacAddr,
    ) {
        let unspecified = src.is_unspecified();
        if self.addresses.is_own(src) {
            return self.conflict(now, src, from);
        }
        if unspecified && self.addresses.is_tentative(target) {
            return self.conflict(now, target, from);
        }
        let (IpAddr::V6(src_v6), IpAddr::V6(target_v6)) = (src, target) else { return };
        if !self.addresses.is_usable(target) {
            return;
        }
        if unspecified {
            // RFC 4861 §7.2.4: a station that probes has no address for an answer.
            let bytes = nd::advertise(nd::ALL_NODES, target_v6, self.mac, false);
            return self.say(MacAddr::of_group(nd::ALL_NODES.into()), EtherType::IPV6, bytes);
        }
        if let Some(mac) = source_mac
            && self.next_hop(src) == Some(src)
        {
            self.neighbours.learn(now, src, mac, true, &mut self.counters);
        }
        let to = self.neighbours.mac(src).unwrap_or(from);
        let bytes = nd::advertise(src_v6, target_v6, self.mac, true);
        self.say(to, EtherType::IPV6, bytes);
    }

    fn router(&mut self, now: Instant, told: &RouterAdvertisement) {
        let addr = IpAddr::V6(told.src);
        if self.addresses.is_own(addr) {
            return self.conflict(now, addr, told.source_mac.unwrap_or(self.mac));
        }
        if let Some(mac) = told.source_mac {
            self.neighbours.learn(now, addr, mac, true, &mut self.counters);
        }
        self.neighbours.note_router(addr);
        // RFC 4861 §4.2: 0 means unspecified.
        let time = |ms: u32| (ms > 0).then(|| Duration::from_millis(ms.into()));
        self.neighbours.set_times(time(told.reachable_ms), time(told.retransmit_ms), &mut self.random);
        self.routers.advertised(now, told, &mut self.counters);
        for prefix in &told.prefixes {
            self.addresses.autoconfigure(now, prefix, &mut self.random, &mut self.counters);
        }
    }

    fn conflict(&mut self, now: Instant, addr: IpAddr, by: MacAddr) {
        self.counters.conflicts.count();
        self.addresses.conflict(now, addr, by);
    }
}
