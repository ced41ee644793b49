//! A path between a client and the server: two links, the boxes at the client's end, and what events do to
//! them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ackclock::{ChecksumState, Instant, RxMeta};

use super::boxes::{Boxes, Passed, Way};
use super::faults::Fault;
use super::plan::PathPlan;
use crate::coalesce::coalesce;
use crate::icmp::packet_too_big;
use crate::link::{Entered, Link};
use crate::rng::Rng;
use crate::segment::Frame;

/// A path.
#[derive(Debug)]
pub(super) struct ClientPath {
    number: usize,
    v6: bool,
    pub(super) links: [Link; 2],
    pub(super) boxes: Boxes,
    /// The last byte of the client's address.
    pub(super) address: u8,
    /// The events that are on.
    pub(super) flapped: Option<usize>,
    /// With the event: whether the device reports merged segments.
    pub(super) merging: Option<(usize, bool)>,
    /// With the event: whether a router reports it.
    pub(super) narrowed: Option<(usize, bool)>,
}

/// The effect on a packet, in addition to that of the boxes.
#[derive(Debug, Default)]
pub(super) struct Struck {
    pub(super) events: Vec<usize>,
    pub(super) fixed: Vec<Fault>,
}

impl Struck {
    fn take(&mut self, passed: &mut Passed) {
        self.events.append(&mut passed.events);
        self.fixed.append(&mut passed.fixed);
    }
}

impl ClientPath {
    pub(super) fn new(number: usize, v6: bool, plan: &PathPlan, rng: &mut Rng) -> Self {
        let links = plan.links.each_ref().map(|faults| Link::new(faults.clone(), rng.next_u64()));
        let boxes = Boxes::new(plan.fixed.clone(), addr(v6, number + 1, NAT), rng.next_u64());
        Self { number, v6, links, boxes, address: 1, flapped: None, merging: None, narrowed: None }
    }

    pub(super) fn client_addr(&self) -> IpAddr {
        addr(self.v6, self.number + 1, self.address)
    }

    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.links.iter().filter_map(Link::next_arrival).min()
    }

    pub(super) fn under_way(&self) -> usize {
        self.links.iter().map(Link::under_way).sum()
    }

    /// A packet of the client or the server enters.
    pub(super) fn enter(&mut self, now: Instant, way: Way, packet: Vec<u8>, frame: Frame) -> Struck {
        let mut struck = Struck::default();
        if let Some(event) = self.flapped {
            struck.events.push(event);
            return struck;
        }
        if way == Way::Down {
            self.enter_link(now, way, packet.clone(), &packet, &mut struck);
            return struck;
        }
        if frame.src.ip() != self.client_addr() {
            return struck;
        }
        let mut passed = self.boxes.pass(now, way, frame);
        struck.take(&mut passed);
        for frame in passed.on {
            self.enter_link(now, way, frame.to_bytes(), &packet, &mut struck);
        }
        if let Some(back) = passed.back {
            self.links[1].send(now, back.to_bytes());
        }
        struck
    }

    /// `original`: what the sender knows of the packet.
    fn enter_link(&mut self, now: Instant, way: Way, packet: Vec<u8>, original: &[u8], struck: &mut Struck) {
        let Entered::TooBig(mtu) = self.links[way as usize].send(now, packet) else { return };
        let says = self.narrowed.is_none_or(|(_, says)| says);
        struck.events.extend(self.narrowed.map(|(event, _)| event));
        if says {
            let report = packet_too_big(addr(self.v6, self.number + 1, ROUTER), mtu as u32, original);
            self.links[1 - way as usize].send(now, report);
        }
    }

    /// The packets that have arrived by now, with the device's metadata.
    pub(super) fn arrived(&mut self, now: Instant, way: Way) -> (Vec<(Vec<u8>, RxMeta)>, Struck) {
        let mut struck = Struck::default();
        let mut arrived = Vec::new();
        while let Some(packet) = self.links[way as usize].receive(now) {
            if let Some(event) = self.flapped {
                struck.events.push(event);
                continue;
            }
            match Frame::parse(&packet) {
                Ok(frame) if way == Way::Down => {
                    let mut passed = self.boxes.pass(now, way, frame);
                    struck.take(&mut passed);
                    let here = passed.on.into_iter().filter(|frame| frame.dst.ip() == self.client_addr());
                    arrived.extend(here.map(|frame| frame.to_bytes()));
                }
                _ => arrived.push(packet),
            }
        }
        let plain = RxMeta { checksum: ChecksumState::Complete, segment_size: None };
        let Some((event, says)) = self.merging else {
            return (arrived.into_iter().map(|packet| (packet, plain)).collect(), struck);
        };
        let before = arrived.len();
        let mut merged = coalesce(arrived);
        if merged.len() < before {
            struck.events.push(event);
        }
        if !says {
            merged.iter_mut().for_each(|(_, meta)| *meta = plain);
        }
        (merged, struck)
    }

    /// Whether the device holds arriving packets until it has several.
    pub(super) fn moderate(&mut self, on: bool) {
        let by = if on { Duration::from_millis(3) } else { Duration::ZERO };
        self.links.iter_mut().for_each(|link| link.faults.moderation = by);
    }

    pub(super) fn set_mtu(&mut self, mtu: usize) {
        self.links.iter_mut().for_each(|link| link.faults.mtu = mtu);
    }
}

/// The address of host `host` of net `net`: 10.0.n.h or fd00::n:h.
pub(super) fn addr(v6: bool, net: usize, host: u8) -> IpAddr {
    if v6 {
        IpAddr::from([0xfd00, 0, 0, 0, 0, 0, net as u16, u16::from(host)])
    } else {
        IpAddr::from([10, 0, net as u8, host])
    }
}

/// The path on which a client, or its translator, has this address.
pub(super) fn path_of(socket: SocketAddr) -> usize {
    match socket.ip() {
        IpAddr::V4(addr) => usize::from(addr.octets()[2]).saturating_sub(1),
        IpAddr::V6(addr) => usize::from(addr.segments()[6]).saturating_sub(1),
    }
}

const NAT: u8 = 200;
const ROUTER: u8 = 254;
