//! ICMP that the endpoint sends: echo replies and errors. Of the sources cited, RFC 1122 was read in its
//! text, RFC 1812 in quotations, RFC 4443 not read.

use std::net::IpAddr;

use ackclock_control::tally::Tally;
use ackclock_wire::icmp_out::{IcmpError, is_echo_request, is_icmp_error, write_echo_reply, write_error};
use ackclock_wire::{Flags, FlowLabel, HEADER_MAX, IpPacket, SeqNum, write_control};

use super::Endpoint;
use super::deferred::Unreachable;
use super::input::Frame;
use super::outbox::Origin;
use super::reply::{bare, control};
use crate::{FourTuple, Instant};

impl Endpoint {
    /// Answers an echo request to an address of ours. Returns `false` if the packet is not one, or not one
    /// that is answered here.
    // RFC 1122 §3.2.2.6: every host MUST implement an echo server function. RFC 4443 §4.2: every node. A
    // request to a broadcast or multicast address MAY be silently discarded, and is ignored here.
    pub(super) fn answer_echo(&mut self, now: Instant, ip: &IpPacket<'_>, frame: &Frame<'_>) -> bool {
        let (per_second, mtu) = (self.config.echo_replies_per_second, self.mtu_to(ip.src));
        if per_second == 0 || !is_echo_request(ip) || !self.addresses.is_own(ip.dst) {
            return false;
        }
        if !self.beside().echoes.allows(now, per_second) {
            self.rare_counters().dropped_icmp_limited.count();
        } else if let Some(reply) = write_echo_reply(frame.packet, ip, self.config.tcp.ttl, mtu) {
            let sent = self.send_icmp(reply);
            self.rare_counters().echoes_answered.grow(u64::from(sent));
        }
        true
    }

    /// Sends an error about a packet that arrived, if one may be sent and the limits allow it.
    pub(super) fn send_error(&mut self, now: Instant, error: IcmpError, about: &[u8], ip: &IpPacket<'_>) {
        let IpPacket { src, dst, .. } = *ip;
        // RFC 1122 §3.2.2, RFC 4443 §2.4 (e): none about an error, none to or about other than single hosts.
        if is_icmp_error(ip) || !self.addresses.is_own(dst) || !self.addresses.valid_destination(src) {
            return;
        }
        if !self.beside().errors.allows(now, src) {
            self.rare_counters().dropped_icmp_limited.count();
            return;
        }
        if let Some(packet) = self.error_packet(error, about, dst, src) {
            let sent = self.send_icmp(packet);
            self.rare_counters().icmp_errors_sent.grow(u64::from(sent));
        }
    }

    /// Tells a client that the destination of its SYN, which had this sequence number, is unreachable.
    /// Returns `false` if no error may be sent now.
    // Deviation from RFC 1812 §4.3.2.3: the quotation is not the SYN as it came, because no copy is kept
    // while it waits for a decision. It has the SYN's addresses, ports and sequence number, by which a host
    // finds the connection; the other fields of its IP header are this endpoint's.
    pub(super) fn send_unreachable(
        &mut self,
        now: Instant,
        why: Unreachable,
        tuple: &FourTuple,
        irs: SeqNum,
    ) -> bool {
        let (client, dialled) = (tuple.remote().ip(), tuple.local().ip());
        if !self.beside().errors.allows(now, client) {
            self.rare_counters().dropped_icmp_limited.count();
            return false;
        }
        let clients = FourTuple::new(tuple.remote(), tuple.local());
        let syn = bare(irs, SeqNum::default(), Flags::SYN);
        let mut quoted = [0; HEADER_MAX];
        write_control(&mut quoted, &control(&clients, self.config.tcp.ttl, FlowLabel::NONE, syn));
        let error = match why {
            Unreachable::Network => IcmpError::NetworkUnreachable,
            Unreachable::Host => IcmpError::HostUnreachable,
            Unreachable::Prohibited => IcmpError::Prohibited,
        };
        // From an address of ours, as a router would; a stack without addresses uses the destination's.
        let from = self.addresses.source_for(client).unwrap_or(dialled);
        // RFC 1122 §3.2.2: the IP header and at least the first 8 octets of what follows.
        let quoted_len = if client.is_ipv4() { 20 + 8 } else { 40 + 8 };
        let packet = quoted.get(..quoted_len).and_then(|syn| self.error_packet(error, syn, from, client));
        let sent = packet.is_some_and(|packet| self.send_icmp(packet));
        self.rare_counters().icmp_errors_sent.grow(u64::from(sent));
        sent
    }

    fn error_packet(&self, error: IcmpError, about: &[u8], from: IpAddr, to: IpAddr) -> Option<Vec<u8>> {
        write_error(error, about, from, to, self.config.tcp.ttl)
    }

    fn send_icmp(&mut self, packet: Vec<u8>) -> bool {
        let budget = self.budget.clone();
        let room = self.beside().outbox.push(&budget, Origin::Icmp, packet);
        if !room {
            self.counters.dropped_replies.count();
        }
        room
    }
}
