//! Fragments at an endpoint, and their reassembly.

use ackclock_control::tally::Tally;
use ackclock_wire::fragment::Fragment;
use ackclock_wire::icmp_out::IcmpError;
use ackclock_wire::{IpError, IpPacket, IpPayload, RxMeta};

use super::Endpoint;
use super::input::Frame;
use crate::Instant;
use crate::reassembly::Outcome;

impl Endpoint {
    /// A fragment arrived. Returns `false` if fragments are not reassembled here, or not this one.
    #[cold]
    pub(super) fn handle_fragment(&mut self, now: Instant, frame: &Frame<'_>) -> bool {
        if self.config.reassembly.is_none() || !self.wants_fragment(frame) {
            return false;
        }
        let budget = self.budget.clone();
        let beside = self.beside();
        let Some(reassembler) = &mut beside.reassembler else { return false };
        let outcome = reassembler.push(now, &budget, frame.packet);
        beside.counters.fragments_received.count();
        beside.counters.dropped_reassembly_full.grow(reassembler.take_evicted());
        match outcome {
            Outcome::Waits => {}
            Outcome::Whole(packet) => {
                self.rare_counters().packets_reassembled.count();
                // Nothing is reassembled twice: a fragment inside a reassembled packet has no honest sender.
                match IpPacket::parse(&packet) {
                    Err(IpError::Fragment) => self.counters.dropped_fragment.count(),
                    _ => {
                        let whole = Frame::arrived(&packet, RxMeta::default());
                        self.receive(now, Frame { looped: frame.looped, ..whole });
                    }
                }
            }
            Outcome::Malformed(_) => self.counters.dropped_fragment.count(),
            Outcome::Overlap => self.rare_counters().dropped_fragment_overlap.count(),
            Outcome::Full => self.rare_counters().dropped_reassembly_full.count(),
        }
        true
    }

    /// Gives up fragments that have waited too long.
    // RFC 1122 §3.3.2, RFC 8200 §4.5: ICMP reports it to the source, if the first fragment has arrived.
    pub(super) fn reassembly_timeouts(&mut self, now: Instant) {
        while let Some(first) = self.expired_packet(now) {
            self.rare_counters().dropped_reassembly_time.count();
            let Some(first) = first else { continue };
            if let Ok(fragment) = Fragment::parse(&first) {
                let Fragment { src, dst, payload, protocol, .. } = fragment;
                let payload = match protocol {
                    1 => IpPayload::Icmp4(payload),
                    58 => IpPayload::Icmp6(payload),
                    other => IpPayload::Other(other),
                };
                let ip = IpPacket { src, dst, ttl: 0, traffic_class: 0, payload };
                self.send_error(now, IcmpError::ReassemblyTime, &first, &ip);
            }
        }
    }

    pub(super) fn reassembly_timeout(&self) -> Option<Instant> {
        self.beside.as_ref()?.reassembler.as_ref()?.poll_timeout()
    }

    fn expired_packet(&mut self, now: Instant) -> Option<Option<Vec<u8>>> {
        self.beside.as_mut()?.reassembler.as_mut()?.expire(now)
    }

    /// Whether the source is plausible, and the fragment is not for the program that handles other traffic.
    fn wants_fragment(&self, frame: &Frame<'_>) -> bool {
        let Ok(fragment) = Fragment::parse(frame.packet) else { return true };
        (frame.looped || self.addresses.valid_source(fragment.src))
            && (self.config.other_packets == 0 || self.addresses.is_own(fragment.dst))
    }
}
