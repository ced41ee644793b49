//! An arriving packet: what it is, whether it is allowed, and where it goes.
//!
//! The fast path comes first ([`predicted`](super::predicted)): a segment that the last active connection
//! expects is taken at once, and any other for that connection is delivered without a table lookup. Its
//! addresses were checked when the connection was opened. Everything else is checked on the way from a failed
//! lookup to a listener or a reset.

use std::net::IpAddr;

use ackclock_control::tally::Tally;
use ackclock_wire::{Codepoint, Flags, IpError, IpPacket, IpPayload, RxMeta, Segment, TcpError};
use bytes::Bytes;

use super::Endpoint;
use super::demux::Target;
use super::reply::reset_for;
use super::time_wait::{self, is_plain_syn};
use crate::{FourTuple, Instant, ListenerId, State};

/// A segment with the metadata of the lower layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) tuple: FourTuple,
    pub(super) segment: &'a Segment<'a>,
    pub(super) frame: Frame<'a>,
    /// The ECN field of the IP header.
    pub(super) codepoint: Codepoint,
}

/// A packet as it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) packet: &'a [u8],
    pub(super) meta: RxMeta,
    /// Whether the endpoint sent it to itself.
    pub(super) looped: bool,
    /// Whether it arrived at another endpoint of the host and was handed over.
    pub(super) stray: bool,
    /// The block that contains `packet`, if a connection may keep its text there.
    pub(super) block: Option<&'a Bytes>,
}

impl<'a> Frame<'a> {
    /// A packet as the device gave it.
    pub(super) fn arrived(packet: &'a [u8], meta: RxMeta) -> Self {
        Self { packet, meta, looped: false, stray: false, block: None }
    }
}

impl Endpoint {
    /// An IP packet arrived. Replies are made later, by `poll_transmit`, so that a batch of packets is
    /// processed before the first acknowledgement leaves.
    // RFC 9293 MUST-58, RFC 9293 MUST-59: all queued segments are processed before an ACK is sent.
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8], meta: RxMeta) {
        self.handle_frame(now, Frame::arrived(packet, meta));
    }

    /// Like [`handle_packet`](Self::handle_packet), but a connection may keep part of the packet instead of
    /// copying it. It does so with at least 32 KiB of text that is next in order. In the memory budget the
    /// packet counts as a block of 64 KiB.
    pub fn handle_packet_bytes(&mut self, now: Instant, packet: &Bytes, meta: RxMeta) {
        self.handle_frame(now, Frame { block: Some(packet), ..Frame::arrived(packet, meta) });
    }

    #[inline]
    fn handle_frame(&mut self, now: Instant, frame: Frame<'_>) {
        let now = self.advance(now);
        self.counters.packets_received.count();
        self.receive(now, frame);
        self.check_invariants();
    }

    /// Handles a packet that came from the device, or from the endpoint itself.
    #[inline]
    pub(super) fn receive(&mut self, now: Instant, frame: Frame<'_>) {
        if self.take_predicted(now, &frame) {
            return;
        }
        let parsed = IpPacket::parse(frame.packet);
        if self.sharded.is_some() && self.is_elsewhere(&parsed, &frame) {
            return;
        }
        match parsed {
            Ok(ip) => match ip.payload {
                IpPayload::Tcp(bytes) => self.handle_tcp(now, &ip, bytes, frame),
                IpPayload::Icmp4(bytes) => self.handle_icmp4(now, &ip, bytes, &frame),
                IpPayload::Icmp6(bytes) => self.handle_icmp6(now, &ip, bytes, &frame),
                IpPayload::Udp(bytes) => self.handle_udp(now, &ip, bytes, &frame),
                IpPayload::Other(_) => {
                    if !self.divert(&frame) {
                        self.counters.dropped_other_protocol.count();
                    }
                }
            },
            Err(IpError::Fragment) if self.handle_fragment(now, &frame) || self.divert(&frame) => {}
            Err(error) => self.count_ip_error(error),
        }
    }

    fn handle_tcp(&mut self, now: Instant, ip: &IpPacket<'_>, bytes: &[u8], frame: Frame<'_>) {
        // RFC 9293 MUST-3: the checksum is always verified, here unless the device has done it.
        let segment = match Segment::parse(ip.src, ip.dst, bytes, frame.meta.checksum) {
            Ok(segment) => segment,
            Err(TcpError::Checksum) => return self.counters.dropped_tcp_checksum.count(),
            Err(_) => return self.counters.dropped_malformed_tcp.count(),
        };
        let tuple = FourTuple {
            local_addr: ip.dst,
            local_port: segment.dst_port,
            remote_addr: ip.src,
            remote_port: segment.src_port,
        };
        let arrival = Arrival { tuple, segment: &segment, frame, codepoint: ip.ecn() };
        if self.sharded.is_some() {
            return self.for_shard(now, &arrival, bytes);
        }
        self.for_name(now, &arrival, bytes);
    }

    /// A segment for the connection, half-open record or listener that its name belongs to here. `bytes` is
    /// the whole segment.
    #[cfg_attr(not(feature = "tcp-ao"), expect(unused_variables, reason = "a signature covers every byte"))]
    pub(super) fn for_name(&mut self, now: Instant, arrival: &Arrival<'_>, bytes: &[u8]) {
        #[cfg(feature = "tcp-ao")]
        if self.authentication.is_some() && !self.is_authentic(&arrival.tuple, bytes, arrival.segment) {
            return;
        }
        match self.find(&arrival.tuple) {
            Some(Target::Connection(index)) => self.for_connection(now, index, arrival),
            Some(_) if !self.may_be_from(arrival) => self.counters.dropped_martian_source.count(),
            Some(Target::HalfOpen(index)) => self.for_half_open(now, index, arrival),
            Some(Target::TimeWait(index)) => self.for_time_wait(now, index, arrival),
            None => self.for_nobody(now, arrival),
        }
    }

    /// Whether the segment's source could have sent it this way: our own addresses are reached only from
    /// here.
    fn may_be_from(&self, arrival: &Arrival<'_>) -> bool {
        arrival.frame.looped || self.addresses.valid_source(arrival.tuple.remote_addr)
    }

    #[inline]
    fn for_connection(&mut self, now: Instant, index: u32, arrival: &Arrival<'_>) {
        if arrival.segment.flags.contains(Flags::SYN) {
            return self.syn_for_connection(now, index, arrival);
        }
        self.deliver(now, index, arrival);
    }

    #[cold]
    fn syn_for_connection(&mut self, now: Instant, index: u32, arrival: &Arrival<'_>) {
        if !self.gives_way(now, index, arrival) {
            self.deliver(now, index, arrival);
            self.learn_fast_open(now, index, arrival);
        }
    }

    /// Hands a segment to a connection.
    #[inline]
    pub(super) fn deliver(&mut self, now: Instant, index: u32, arrival: &Arrival<'_>) {
        let Some(live) = self.connections.at_mut(index) else { return };
        if live.looped != arrival.frame.looped {
            // An address of ours, from outside; or one that was ours when this connection was opened.
            return self.counters.dropped_martian_source.count();
        }
        let Frame { meta, block, .. } = arrival.frame;
        live.connection.handle_segment(now, arrival.segment, meta, arrival.codepoint, block);
        self.last_connection = index;
        self.counters.segments_delivered.count();
        self.touch(index);
    }

    /// Whether a connection in TIME-WAIT, which the application still holds, was replaced by a new one.
    fn gives_way(&mut self, now: Instant, index: u32, arrival: &Arrival<'_>) -> bool {
        let connection = self.connections.at(index).map(|live| &live.connection);
        let Some(connection) = connection.filter(|connection| connection.state() == State::TimeWait) else {
            return false;
        };
        let last = connection.time_wait().map(|params| time_wait::LastNumbers::from(&params));
        let Some(last) =
            last.filter(|last| is_plain_syn(arrival.segment) && last.may_reopen(arrival.segment))
        else {
            return false;
        };
        if self.listeners.find(&arrival.tuple).is_none() {
            self.refuse(arrival);
            return true;
        }
        self.unbind(index);
        self.counters.time_wait_reopened.count();
        self.reopen(now, arrival, last.snd_nxt);
        true
    }

    fn for_time_wait(&mut self, now: Instant, index: u32, arrival: &Arrival<'_>) {
        match self.time_wait.judge(now, index, arrival.segment) {
            time_wait::TimeWaitAction::Drop => self.counters.dropped_in_time_wait.count(),
            time_wait::TimeWaitAction::Acknowledge => self.acknowledge_time_wait(now, index),
            // TIME-WAIT gives way to a new connection only (RFC 9293 MAY-2).
            time_wait::TimeWaitAction::Reopen { .. } if self.listeners.find(&arrival.tuple).is_none() => {
                self.refuse(arrival);
            }
            time_wait::TimeWaitAction::Reopen { snd_nxt } => {
                self.remove_time_wait(index);
                self.counters.time_wait_reopened.count();
                self.reopen(now, arrival, snd_nxt);
            }
        }
    }

    /// No connection has this name: goes to a listener, or is refused.
    fn for_nobody(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let FourTuple { local_addr, local_port, remote_addr, remote_port } = arrival.tuple;
        if !self.may_be_from(arrival) || remote_port == 0 {
            return self.counters.dropped_martian_source.count();
        }
        if !self.addresses.valid_destination(local_addr) || local_port == 0 {
            return self.counters.dropped_martian_destination.count();
        }
        if (local_addr, local_port) == (remote_addr, remote_port) {
            return self.counters.dropped_land.count();
        }
        match self.listeners.find(&arrival.tuple) {
            Some(listener) if self.is_heard(listener, local_addr) => {
                self.for_listener(now, listener, arrival, None);
            }
            Some(_) => self.counters.dropped_not_local.count(),
            None if self.addresses.is_own(local_addr) => self.refuse(arrival),
            None if self.divert(&arrival.frame) => {}
            None => self.counters.dropped_not_local.count(),
        }
    }

    /// Whether a listener still serves an address. One that names an address that is no longer ours does not.
    fn is_heard(&self, listener: ListenerId, local_addr: IpAddr) -> bool {
        self.listeners.get(listener).is_some_and(|listener| listener.addr.addr.is_none())
            || self.addresses.is_own(local_addr)
    }

    /// RFC 9293 §3.10.7.1: in CLOSED everything but a reset is answered by a reset.
    pub(super) fn refuse(&mut self, arrival: &Arrival<'_>) {
        match reset_for(arrival.segment) {
            Some(reset) => {
                self.counters.resets_sent.count();
                self.reply(&arrival.tuple, self.config.tcp.ttl, reset);
            }
            None => self.counters.dropped_stray_reset.count(),
        }
    }

    fn count_ip_error(&mut self, error: IpError) {
        let counter = match error {
            IpError::Fragment => &mut self.counters.dropped_fragment,
            IpError::SourceRoute => &mut self.counters.dropped_source_route,
            IpError::HeaderChecksum => &mut self.counters.dropped_ip_checksum,
            _ => &mut self.counters.dropped_malformed_ip,
        };
        counter.count();
    }
}
