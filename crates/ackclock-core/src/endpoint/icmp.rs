//! ICMP errors: whether one is about a connection of ours, and which (RFC 9293 §3.9.2.2, RFC 5927).
//!
//! The connection decides what an error means. This module drops an error unless its quoted segment came from
//! the address that the error was sent to, under an existing name.

use std::net::IpAddr;

use ackclock_control::tally::Tally;
use ackclock_wire::{IcmpKind, IcmpParseError, IcmpReport, IpPacket, parse_icmp4, parse_icmp6};

use super::Endpoint;
use super::demux::Target;
use super::input::Frame;
use crate::{FourTuple, Instant};

impl Endpoint {
    pub(super) fn handle_icmp4(&mut self, now: Instant, ip: &IpPacket<'_>, bytes: &[u8], frame: &Frame<'_>) {
        self.handle_report(now, ip, parse_icmp4(bytes), frame);
    }

    pub(super) fn handle_icmp6(&mut self, now: Instant, ip: &IpPacket<'_>, bytes: &[u8], frame: &Frame<'_>) {
        if let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src, ip.dst) {
            self.handle_report(now, ip, parse_icmp6(src, dst, bytes), frame);
        }
    }

    fn handle_report(
        &mut self,
        now: Instant,
        ip: &IpPacket<'_>,
        parsed: Result<Option<IcmpReport>, IcmpParseError>,
        frame: &Frame<'_>,
    ) {
        let report = match parsed {
            Ok(Some(report)) => report,
            Ok(None) => return self.handle_icmp_other(now, ip, frame),
            Err(_) => return self.counters.dropped_malformed_icmp.count(),
        };
        if !frame.looped && !self.addresses.valid_source(ip.src) {
            return self.counters.dropped_martian_source.count();
        }
        // RFC 9293 MUST-55: Source Quench is silently discarded (RFC 6633).
        if report.kind == IcmpKind::SourceQuench {
            return self.counters.dropped_source_quench.count();
        }
        // RFC 9293 MUST-54: an error is handed to the connection whose segment it quotes.
        let tuple = FourTuple::new(report.src, report.dst);
        let target = if report.src.ip() == ip.dst { self.find(&tuple) } else { None };
        let delivered = match target {
            Some(Target::Connection(index)) => self.icmp_for_connection(now, index, &report),
            Some(Target::HalfOpen(index)) => self.icmp_for_half_open(index, &report),
            Some(Target::TimeWait(_)) | None => false,
        };
        if delivered {
            self.counters.icmp_delivered.count();
        } else if !(target.is_none() && self.is_error_elsewhere(&tuple, frame) || self.divert(frame)) {
            self.counters.dropped_icmp_unmatched.count();
        }
    }

    /// A message with a right checksum that is not an error about TCP.
    fn handle_icmp_other(&mut self, now: Instant, ip: &IpPacket<'_>, frame: &Frame<'_>) {
        if !frame.looped && !self.addresses.valid_source(ip.src) {
            return self.counters.dropped_martian_source.count();
        }
        if self.goes_to_first(frame) {
            return;
        }
        if !self.answer_echo(now, ip, frame) && !self.handle_udp_error(ip) && !self.divert(frame) {
            self.counters.dropped_icmp_other.count();
        }
    }

    fn icmp_for_connection(&mut self, now: Instant, index: u32, report: &IcmpReport) -> bool {
        let Some(live) = self.connections.at_mut(index) else { return false };
        live.connection.handle_icmp(now, report.kind, report.seq);
        self.touch(index);
        true
    }

    /// A half-open connection has only its SYN-ACK in flight.
    fn icmp_for_half_open(&mut self, index: u32, report: &IcmpReport) -> bool {
        let Some(record) = self.half_open.at_mut(index).filter(|record| record.is_outstanding(report.seq))
        else {
            return false;
        };
        match report.kind {
            IcmpKind::PacketTooBig { mtu } => record.limit_mss(mtu),
            // RFC 9293 SHLD-26: hard errors abort; here that loses nothing.
            IcmpKind::ProtocolUnreachable | IcmpKind::PortUnreachable => {
                self.counters.half_open_ended.count();
                self.forget_half_open(index);
            }
            // RFC 9293 MUST-56: soft errors do not.
            _ => {}
        }
        true
    }
}
